"""Which runs tell a load? The same motion bare, loaded, loaded, bare, another one to validate, and poses held."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from excitor.design.schedule import VALIDATION_SEED, RunPlan, Schedule, checked, moving_mask
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import regressor
from excitor.robots.gram import condition_number
from excitor.robots.robot import Robot, posture

WRIST_AND_ELBOW = 4  # joints, from the last: with fewer, a load's mass is lost


def wrist_and_elbow(robot: Robot) -> tuple[str, ...]:
    """Choose the joints that move: the last four of those that can."""
    free = [name for i, name in enumerate(robot.joint_names) if i not in robot.locked]
    return tuple(free[-WRIST_AND_ELBOW:])


def payload_runs(robot: Robot, joints: Sequence[str] | None, *, dynamic: bool, static: bool) -> Schedule:
    """Plan bare, loaded, loaded, bare: what drifts steadily cancels, and the load is put on and taken off once."""
    moving = moving_mask(robot, joints)
    bare = RunPlan("bare", "excitation", moving, "identify", "The arm without the load: what it takes by itself.")
    poses = RunPlan("bare poses", "static", moving, "identify", "The bare arm rests in many poses: its own weight.")
    loaded = replace(
        bare, name="loaded", payload="known", same_as="bare", note="Mount the load first. The same motion with it."
    )
    runs = [
        *([poses] if static else []),
        *([bare, loaded, replace(loaded, name="loaded again", note="Once more with the load on.")] if dynamic else []),
        *(
            [replace(poses, name="loaded poses", payload="known", note="The same poses with the load: its weight.")]
            if static
            else []
        ),
    ]
    if dynamic:
        another = "Another motion with the load, which no estimate has seen: is it predicted?"
        back = "Take the load off first. Without it again: what drifted meanwhile cancels."
        runs += [
            replace(
                loaded,
                name="validation",
                role="validate",
                same_as=None,
                note=another,
                seed_offset=VALIDATION_SEED,
            ),
            replace(bare, name="bare again", same_as="bare", note=back),
        ]
    return checked(tuple(runs))


def poses_condition(robot: Robot, q: FloatArray) -> float:
    """Condition number of the column-normalised torques by a load's first moments and mass, at poses (n, n_joints)."""
    first = 10 * robot.tool.link
    Y = regressor(robot, posture(q))[:, :, first + 6 : first + 10]
    return condition_number(np.ascontiguousarray(Y.reshape(-1, 4)))
