"""Acceleration of the tool point: what the load, its gripper or the floor of the robot stands."""

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from excitor.design.certify.bounds import body_point_rates
from excitor.design.constraints.constraint import SEARCH, ConstraintKind, States, Trace
from excitor.design.constraints.tool_speed import ToolLimit
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.closed_chain import ClosedLoop, opened
from excitor.robots.files.schema import Table
from excitor.robots.kernel.accumulate import Drive, pack
from excitor.robots.kernel.drive import Elements
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree, chain, samples


class ToolAcceleration(ToolLimit):
    """Largest acceleration of the tool point, gravity not counted.

    Args:
        limit: m/s².
    """

    kind: ClassVar[str] = "tool acceleration"
    unit: ClassVar[str] = "m/s²"
    quantity: ClassVar[str] = "the tool's acceleration"
    method: ClassVar[str] = "{intervals}: ends + h²/8·max|p⁗|"

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate |p̈| of the tool point."""
        return np.asarray(np.linalg.norm(tool_accelerations(trace.robot, trace.motion), axis=1)[:, None])

    def slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> States | None:
        """Differentiate |p̈| by |p̈|², a Gram matrix of one column; of a closed chain by differences."""
        from excitor.robots.kernel.adjoint import fill_gram_gradient

        mechanism = robot.mechanism
        if not isinstance(mechanism, Tree) or robot.tool.link < 0:
            return None
        tree, n = _weighed(robot), robot.n_joints
        elements = Elements(*np.zeros((2, 0), dtype=np.int64), *np.zeros((2, 0, n + 3)), *np.zeros((2, 0)))
        mass, weights = np.array([10 * tree.n_links - 1]), np.repeat([0.0, 1.0], [n, 3])
        out = (np.empty((n + 3, len(motion))), np.empty((n + 3, len(motion))), np.empty((n + 3, len(motion))))
        states, drive = samples(_carried(motion), n + 3), Drive(elements, np.empty((0, n + 3)), np.empty((0, 0)))
        fill_gram_gradient(chain(tree), drive, pack(chain(tree), elements, mass, weights), states, np.eye(1), out)
        size = np.maximum(self.values(Trace(robot, motion))[:, 0], 1e-12) * 2.0 * SEARCH.share * self.limit
        by_q, by_dq, by_ddq = (bar[:n].T / size[:, None] for bar in out)
        return by_q, by_dq, by_ddq

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound |p̈| ≤ max(|p̈_a|, |p̈_b|) + h²/8 · max|p⁗|."""
        tool, found = robot.tool, self.values(Trace(robot, part.motion))
        rates = body_point_rates(robot.mechanism, tool.link, tool.T_link_frame[:3, 3], part)
        return part.worst_of_ends(found) + part.h**2 / 8.0 * rates[4][:, None], found


def tool_accelerations(robot: Robot, motion: Motion) -> FloatArray:
    """Acceleration of the tool frame's origin in the tool's axes, (n_samples, 3), m/s²."""
    if robot.tool.link < 0:
        return np.zeros((len(motion), 3))
    whole = opened(robot.mechanism, motion).motion if isinstance(robot.mechanism, ClosedLoop) else motion
    tree = _weighed(robot)
    phi = np.zeros((tree.n_links, 10))
    phi[-1, 9] = 1.0
    return tree.inverse_dynamics(_carried(whole), phi)[:, -3:]


@lru_cache(maxsize=16)
def _weighed(robot: Robot) -> Tree:
    """Put three sliding joints along the tool's axes: without weight, what pushes a mass of 1 there is p̈."""
    mechanism, link = robot.mechanism, robot.tool.link
    if isinstance(mechanism, ClosedLoop):
        tree, link = mechanism.tree, int(mechanism.bodies[link])
    else:
        assert isinstance(mechanism, Tree)
        tree = mechanism
    n, extra = tree.n_links, np.eye(3)
    before = np.concatenate([tree.before, robot.tool.T_link_frame[None], np.tile(np.eye(4), (2, 1, 1))])
    coupling = np.zeros((n + 3, tree.n_joints + 3))
    coupling[:n, : tree.n_joints], coupling[n:, tree.n_joints :] = tree.coupling, extra
    names = ("tool x", "tool y", "tool z")
    return replace(
        tree,
        joint_names=(*tree.joint_names, *names),
        link_names=(*tree.link_names, *names),
        parents=np.concatenate([tree.parents, [link, n, n + 1]]),
        before=before,
        axis=np.concatenate([tree.axis, extra]),
        after=np.concatenate([tree.after, np.tile(np.eye(4), (3, 1, 1))]),
        sliding=np.concatenate([tree.sliding, np.ones(3, dtype=bool)]),
        coupling=coupling,
        offset=np.concatenate([tree.offset, np.zeros(3)]),
        gravity=np.zeros(3),
    )


def _carried(motion: Motion) -> Motion:
    """Let the three joints at the tool stand still."""
    return Motion(*(np.pad(x, ((0, 0), (0, 3))) for x in (motion.q, motion.dq, motion.ddq)))


class ToolAccelerationTable(Table):
    """Keys of a tool acceleration in campaign.toml."""

    limit_m_s2: Annotated[float, Field(gt=0.0, lt=1e4)]  # of the tool point


KIND = ConstraintKind(
    "tool-acceleration",
    "The acceleration of the tool point, gravity not counted, stays within a limit.",
    ToolAccelerationTable,
    lambda robot, table: ToolAcceleration(table.limit_m_s2),
    lambda robot: {"limit_m_s2": 2.0},
)
