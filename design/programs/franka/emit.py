"""Robots with a 1 kHz joint position interface: a client streams the series, and logs the robot's states.

What libfranka's `rate_limiting.h` enforces is checked with a margin, for the Panda and the FR3 apart: speeds (of the
FR3 they depend on the position), accelerations, jerks and rates of torque, by the prior model without friction.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np

from excitor.design.programs.facts import RATES, LimitLine, State, motions_of
from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import file_text, stated
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import rigid_torque
from excitor.robots.files.presets import Match, compare, find, presets
from excitor.robots.robot import Robot

_RECORD: dict[str, Any] = tomllib.loads(file_text("franka/limits.toml"))
_MODELS = ("panda", "fr3")


def limits(plan: Plan) -> Iterator[LimitLine]:
    """List what libfranka enforces, as shares of its limits; unknown where the arm is none of those that it drives."""
    robot, share, match = plan.robot, _RECORD["share"], _model(plan.robot)
    names = [*(key for key in RATES if key != "torque peak"), "torque rate"]
    worst = {name: np.zeros(robot.n_joints) for name in names}
    for motion, jerk, t in motions_of(plan):
        top = _top_speeds(match, motion.q) if match else np.full(motion.q.shape, np.inf)
        tau = rigid_torque(robot, motion)
        made = {
            "velocity": np.abs(motion.dq) / top, "acceleration": np.abs(motion.ddq) / _limit(match, "acceleration"),
            "jerk": np.abs(jerk) / _limit(match, "jerk"),
            "torque rate": np.abs(np.gradient(tau, t, axis=0)) / _RECORD["torque_rate"],
        }  # fmt: skip
        worst = {name: np.maximum(worst[name], made[name].max(axis=0)) for name in names}
    for name in names:
        for j, joint in enumerate(robot.joint_names):
            x, known = float(worst[name][j]), bool(match)
            state: State = "unknown" if not known else "holds" if x <= share else "exceeded"
            yield LimitLine(
                (f"libfranka {name}", j), f"libfranka {name} {joint}", "of its limit", x, share if known else np.inf,
                state, share - x if known else np.inf,
            )  # fmt: skip


TARGET = stated("franka/targets.toml", "franka", limits=limits)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the run for the client, which is the same for every run."""
    del spacing  # the motion is evaluated at every step
    return {f"{name}.json": run_json(plan, TARGET)}


def _model(robot: Robot) -> tuple[Match, ...]:
    """Find which arm it is; both, where geometry and limits do not tell them apart; none, where it is another."""
    found = find(robot, robot.name)[0]
    if found is not None:
        return (found,) if found.preset.name in _MODELS else ()
    every = [compare(robot, presets()[name]) for name in _MODELS]
    return tuple(match for match in every if match is not None and match.worst <= 1.0)


def _limit(match: tuple[Match, ...], key: str) -> FloatArray:
    """Return the stricter limit of the models, (n_joints,)."""
    return np.min([one.limits(key)[:, 1] for one in match], axis=0) if match else np.array(np.inf)


def _top_speeds(match: tuple[Match, ...], q: FloatArray) -> FloatArray:
    """Speeds that are allowed at positions, in the slower direction, (n, n_joints)."""
    top = np.broadcast_to(_limit(match, "velocity"), q.shape)
    for one in match:
        if one.preset.name == "fr3":  # b + sqrt(a (end - q)), towards each end
            for side, table in zip((1.0, -1.0), (_RECORD["fr3_upper"], _RECORD["fr3_lower"]), strict=True):
                b, a, end = np.array(table).T
                left = np.maximum(a * (end - side * one.signs * q), 0.0)
                top = np.minimum(top, np.maximum(b + np.sqrt(left), 1e-9))
    return np.asarray(top)
