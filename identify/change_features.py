"""What does one cycle of a process say about what may have changed? A few numbers: load, friction, the rest.

    τ - W β = W_load δφ + W_friction δf + W_offset δo + e          δφ: ten of a body at the tool

Load, its inertia, friction and offsets are fitted together, so that what warming friction explains is not taken for a
load. What none of them explains is told by the logarithm of each joint's residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.factors import triangle
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.parameters import LINK_COMPONENTS, layout
from excitor.robots.robot import Robot

GroupKind = Literal["load", "friction", "unexplained"]
LOAD = ("MX", "MY", "MZ", "M")  # of a load, judged; its inertia is fitted beside them, but tells little
MOST_SAMPLES = 400  # of a cycle, where the campaign thins nothing: more are averaged in blocks
_RIDGE = 1e-6  # of a column's square: directions that a cycle does not show stay at 0
_NOTHING = 1e-9  # of the largest column: no more than rounding
_QUIET = 1e-3  # of sigma: residuals below are as good as none


@dataclass(frozen=True, slots=True)
class Group:
    """Features that are judged together."""

    kind: GroupKind
    joint: str  # "" of the load
    names: tuple[str, ...]
    units: tuple[str, ...]
    first: int

    @property
    def where(self) -> slice:
        """Tell which features they are."""
        return slice(self.first, self.first + len(self.names))


@dataclass(frozen=True, eq=False, slots=True)
class Watched:
    """A robot with the model that its cycles are held against."""

    robot: Robot
    beta: FloatArray  # (n_base,): the model's base parameters ...
    base: IntArray  # (n_base,): ... and their columns of the layout
    sigma: FloatArray  # (n_joints,): what the model leaves unexplained of torques
    columns: IntArray  # of all equations that are set up
    fitted: IntArray  # columns of load, friction and the load's inertia, of the layout
    offsets: IntArray  # joints whose friction has no offset of its own
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        freeze(self, beta="n_base", base="int: n_base", columns="int: n_columns", fitted="int: n_fitted")
        freeze(self, sigma=str(self.robot.n_joints), offsets="int: n_offsets")

    @property
    def n_features(self) -> int:
        """Count the numbers that one cycle becomes."""
        return self.groups[-1].first + len(self.groups[-1].names)


def watched(robot: Robot, names: Sequence[str], values: FloatArray, sigma: FloatArray) -> Watched:
    """Choose what to look at: the load at the tool, each joint's friction and offset, and what is left of its torque.

    `names` and `values` are the model's base parameters, `sigma` (n_joints,) what it leaves of each joint's torque.
    """
    params = layout(robot)
    load = [10 * robot.tool.link + LINK_COMPONENTS.index(name) for name in LOAD] if robot.tool.link >= 0 else []
    groups = [Group("load", "", tuple(f"δ{name}" for name in LOAD), ("kg m",) * 3 + ("kg",), 0)] if load else []
    friction: list[int] = []
    offsets: list[int] = []
    first = len(load)
    for j, joint in enumerate(robot.joint_names):
        if j in robot.locked:
            continue
        own = _friction_of(robot, j, set(friction))
        friction += own
        terms = zip(robot.drive.friction, params.friction_columns, strict=True)
        has_offset = any(term.model == "offset" and column in own for term, column in terms)
        names_j, units_j = [params.names[k] for k in own], [params.units[k] for k in own]
        if not has_offset:
            offsets.append(j)
            names_j.append(f"offset of {joint}")
            units_j.append("N" if robot.mechanism.prismatic[j] else "N m")
        groups.append(Group("friction", joint, tuple(names_j), tuple(units_j), first))
        first += len(names_j)
    for j, joint in enumerate(robot.joint_names):
        if j not in robot.locked:
            groups.append(Group("unexplained", joint, (f"residual of {joint}",), ("log",), first))
            first += 1
    base = params.indices(list(names))
    inertia = list(range(load[0] - 6, load[0])) if load else []
    fitted = np.array([*load, *friction, *inertia], dtype=np.int64)
    columns = np.array(sorted({*base.tolist(), *fitted.tolist()}), dtype=np.int64)
    return Watched(robot, values, base, sigma, columns, fitted, np.array(offsets, dtype=np.int64), tuple(groups))


def cycle_equations(what: Watched, cycle: Samples, rows: Rows) -> Regression:
    """Set up a cycle's equations in the base parameters, and in those of load and friction."""
    if rows.decimate is None and len(cycle) > MOST_SAMPLES:
        width = -(-len(cycle) // MOST_SAMPLES)
        rows = replace(rows, decimate=lambda x: _block_means(x, width))
    return dynamic_regression(what.robot, [cycle], columns=what.columns, rows=rows)


def base_equations(what: Watched, regression: Regression) -> tuple[FloatArray, FloatArray]:
    """Compress a cycle's weighted equations in the base parameters, R β = z: (n_base, n_base) and (n_base,)."""
    weight = 1.0 / what.sigma[regression.joint]
    W = regression.W[:, np.searchsorted(what.columns, what.base)]
    n = W.shape[1]
    R = triangle(np.column_stack([W * weight[:, None], regression.y * weight]))
    return R[:n, :n], R[:n, n]


def features(what: Watched, regression: Regression) -> FloatArray:
    """Tell what a cycle says of changes, (n_features,); 0 where it says nothing."""
    weight = 1.0 / what.sigma[regression.joint]
    joint = regression.joint
    base = np.searchsorted(what.columns, what.base)
    residual = (regression.y - regression.W[:, base] @ what.beta) * weight
    A = np.concatenate(
        [regression.W[:, np.searchsorted(what.columns, what.fitted)], joint[:, None] == what.offsets], axis=1
    )
    A *= weight[:, None]
    size = np.linalg.norm(A, axis=0)
    seen = size > _NOTHING * size.max(initial=1.0)
    A[:, seen] /= size[seen]
    A[:, ~seen] = 0.0
    gram = A.T @ A + _RIDGE * np.eye(A.shape[1])
    change = np.linalg.solve(gram, A.T @ residual)
    left = residual - A @ change
    change[seen] /= size[seen]
    return _ordered(what, np.where(seen, change, 0.0), left, joint)


def _ordered(what: Watched, change: FloatArray, left: FloatArray, joint: IntArray) -> FloatArray:
    """Put fitted changes and residuals in the order of the groups."""
    out = np.zeros(what.n_features)
    n_load = sum(len(group.names) for group in what.groups if group.kind == "load")
    out[:n_load] = change[:n_load]
    column, offset = n_load, len(what.fitted)
    for group in what.groups:
        j = what.robot.joint_names.index(group.joint) if group.joint else -1
        if group.kind == "friction":
            own = len(group.names) - int(j in what.offsets)
            out[group.first : group.first + own] = change[column : column + own]
            column += own
            if j in what.offsets:
                out[group.first + own] = change[offset]
                offset += 1
        elif group.kind == "unexplained":
            rows = left[joint == j]
            out[group.first] = np.log(np.sqrt(np.mean(rows**2)) + _QUIET) if len(rows) else 0.0
    return out


def _friction_of(robot: Robot, j: int, taken: set[int]) -> list[int]:
    """List the friction columns that act on a joint most, each once."""
    own: list[int] = []
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if int(np.argmax(np.abs(term.acts))) == j and column not in taken and column not in own:
            own.append(column)
    return own


def _block_means(x: FloatArray, width: int) -> FloatArray:
    """Average samples in blocks along the first axis; what is left at the end is dropped."""
    whole = len(x) // width * width
    return np.asarray(x[:whole].reshape(-1, width, *x.shape[1:]).mean(axis=1))
