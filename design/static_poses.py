"""Plan poses to stand still in: those whose weights say most about gravity's and offsets' parameters.

At rest τ = Y(q, 0, 0) χ: only gravity and offsets show. Of random poses the k are chosen whose stacked rows have the
largest det WᵀW (D-optimal, by exchange, [Fedorov1972]). Each is approached from below and from above, by small moves
of all joints, so that what friction holds back averages out.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.design.constraints import Constraints
from excitor.design.slow_plans import SHARE, Moves, check_home, finished, search_box, way
from excitor.design.slow_runs import InfeasibleRun, SlowRun
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.cell import clearances, required, row_names
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.gram import condition_number, stack
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot, posture

_TOLERANCE = 1e-7  # of pivots: smaller ones are columns that others explain
_RIDGE = 1e-9  # keeps the first choices, which determine nothing yet, comparable
_ROUNDS = 5  # of choosing anew without poses that cannot be reached


@dataclass(frozen=True, slots=True)
class StaticPlan:
    """Poses to stand still in."""

    sample_time: float
    n_poses: int = 15
    dwell: float = 1.0  # s that a pose is held, twice
    step: float = 0.03  # rad or m: how far below and above a pose its approaches begin
    share: float = 0.3  # of the limits of velocity, acceleration and jerk
    candidates: int = 600
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_poses <= self.candidates:
            raise ValueError(f"n_poses is {self.n_poses}, expected 1 to the {self.candidates} candidates")
        if not (self.dwell >= 3.0 * self.sample_time > 0.0 and self.step > 0.0 and 0.0 < self.share <= 1.0):
            raise ValueError("dwell must hold three samples, step be positive, share above 0 and at most 1")


def static_poses(
    robot: Robot,
    constraints: Constraints,
    *,
    home: FloatArray,
    plan: StaticPlan,
    weights: FloatArray | None = None,
) -> SlowRun:
    """Choose poses, and the moves between them; rows of joint i weigh weights[i]."""
    home = check_home(robot, constraints, home, "static")
    poses = _candidates(robot, constraints, home, plan)
    W = static_rows(robot, poses) * (1.0 if weights is None else np.asarray(weights)[:, None])
    for _ in range(_ROUNDS):
        chosen = d_optimal(W, plan.n_poses)
        legs, lost = _tour(robot, constraints, home, poses[chosen], plan)
        if not lost:
            return _run(robot, constraints, home, legs, plan)
        keep = np.setdiff1d(np.arange(len(poses)), chosen[lost])
        poses, W = poses[keep], W[keep]
        if len(poses) < plan.n_poses:
            break
    raise InfeasibleRun("the static run cannot reach enough poses", ["no clear way to them from home was found"])


def static_rows(robot: Robot, q: FloatArray) -> FloatArray:
    """Rows of independent columns that show at rest, (n_poses, n_joints, n_columns), columns of norm 1."""
    Y = regressor(robot, posture(q))[:, :, static_columns(robot, q)]
    return np.asarray(Y / np.linalg.norm(Y, axis=(0, 1)))


def static_columns(robot: Robot, q: FloatArray) -> IntArray:
    """Find independent columns of the regressor at rest in the poses q, as the layout numbers them."""
    W = stack(regressor(robot, posture(q)))
    norms = np.linalg.norm(W, axis=0)
    shown = norms > _TOLERANCE * norms.max(initial=0.0)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model == "maxwell-slip":  # what it holds depends on how the pose was reached
            shown[column] = False
    columns = np.flatnonzero(shown)
    if not len(columns):
        raise InfeasibleRun("a static run shows nothing", [f"{robot.name} has no gravity and no offsets at rest"])
    _, R, order = scipy.linalg.qr(W[:, columns] / norms[columns], mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    return np.sort(columns[order[: int(np.count_nonzero(pivots > _TOLERANCE * pivots[0]))]])


def static_condition(robot: Robot, q: FloatArray, columns: IntArray) -> float:
    """Condition number of the column-normalised regressor at rest in the poses q."""
    return condition_number(stack(regressor(robot, posture(q))[:, :, columns]))


def d_optimal(W: FloatArray, k: int) -> IntArray:
    """Choose k of the row blocks (n, n_rows, n_columns) for a large det Σ WᵀW: greedily, then by exchange."""
    n_columns = W.shape[2]
    size = np.sqrt(np.mean(W**2, axis=(0, 1)))
    W = W / np.where(size > 0.0, size, 1.0)  # a determinant does not mind, and the ridge has one meaning
    M = _RIDGE * np.eye(n_columns)
    chosen: list[int] = []
    for _ in range(k):
        chosen.append(_best_addition(W, M, chosen))
        M = M + W[chosen[-1]].T @ W[chosen[-1]]
    for _ in range(20):
        changed = False
        for place in range(k):
            old = chosen[place]
            M = M - W[old].T @ W[old]
            new = _best_addition(W, M, chosen[:place] + chosen[place + 1 :])
            if new != old and _gain(W[[new]], M)[0] > _gain(W[[old]], M)[0] * (1.0 + 1e-9):
                chosen[place], changed = new, True
            M = M + W[chosen[place]].T @ W[chosen[place]]
        if not changed:
            break
    return np.array(chosen)


def _best_addition(W: FloatArray, M: FloatArray, taken: list[int]) -> int:
    gains = _gain(W, M)
    gains[taken] = -np.inf
    return int(np.argmax(gains))


def _gain(W: FloatArray, M: FloatArray) -> FloatArray:
    """Evaluate det(M + WᵀW) / det M = det(1 + W M⁻¹ Wᵀ) of each block."""
    return np.asarray(np.linalg.det(np.eye(W.shape[1]) + W @ np.linalg.solve(M, W.transpose(0, 2, 1))))


def _candidates(robot: Robot, constraints: Constraints, home: FloatArray, plan: StaticPlan) -> FloatArray:
    """Draw poses that can be held and approached from both sides."""
    random = np.random.default_rng(plan.seed)
    low, high = search_box(robot, constraints, home)
    step = _step(robot, plan)
    if (high - low < 2.0 * step).any():
        short = ", ".join(np.array(robot.joint_names)[high - low < 2.0 * step])
        raise InfeasibleRun("the static run has no room", [f"position limits of {short} are closer than two steps"])
    q = random.uniform(low + step, high - step, size=(4 * plan.candidates, robot.n_joints))
    worst, names = _static_values(robot, constraints, np.stack([q - step, q, q + step]))
    good = np.flatnonzero((worst <= 0.0).all(axis=1))[: plan.candidates]
    if len(good) < plan.n_poses:
        often = np.argsort(-(worst > 0.0).mean(axis=0), kind="stable")[:3]
        reasons = [f"{names[k]} forbids {(worst[:, k] > 0.0).mean():.0%}" for k in often if (worst[:, k] > 0.0).any()]
        raise InfeasibleRun(
            f"of {len(q)} random poses only {len(good)} can be held, {plan.n_poses} are wanted", reasons
        )
    return q[good]


def _static_values(robot: Robot, constraints: Constraints, sides: FloatArray) -> tuple[FloatArray, list[str]]:
    """Evaluate g ≤ 0 of poses (n_sides, n_poses, n_joints), the worst of their sides, and name the constraints."""
    n_sides, n_poses, n_joints = sides.shape
    flat = sides.reshape(-1, n_joints)
    names = [f"holding torque of {name}" for name in robot.joint_names]
    values = [np.abs(inverse_dynamics(robot, posture(flat))) - SHARE * constraints.limits.torque]
    if constraints.scene is not None:
        names += row_names(robot, constraints.scene)
        values.append(required(robot, constraints.scene) - clearances(robot, constraints.scene, flat))
    return np.concatenate(values, axis=1).reshape(n_sides, n_poses, -1).max(axis=0), names


def _step(robot: Robot, plan: StaticPlan) -> FloatArray:
    step = np.full(robot.n_joints, plan.step)
    step[list(robot.locked)] = 0.0
    return step


def _tour(
    robot: Robot, constraints: Constraints, home: FloatArray, poses: FloatArray, plan: StaticPlan
) -> tuple[list[list[FloatArray]], list[int]]:
    """Visit the nearest pose next; each leg's knots, the last of them the pose, then home; and what was not reached."""
    low, high = search_box(robot, constraints, home)
    scale = np.where(high > low, high - low, 1.0)
    step = _step(robot, plan)
    left, legs, lost, here = list(range(len(poses))), [], [], home
    while left:
        k = min(left, key=lambda k: float(np.abs((poses[k] - here) / scale).max()))
        left.remove(k)
        knots = way(robot, constraints, here, poses[k] - step)
        clear = way(robot, constraints, poses[k] - step, poses[k] + step)
        if knots is None or clear is None or len(clear) > 1:
            lost.append(k)
            continue
        legs.append([*knots, poses[k]])
        here = poses[k]
    back = way(robot, constraints, here, home)
    if back is None:
        return legs, lost or [len(poses) - 1]
    return [*legs, back], lost


def _run(
    robot: Robot, constraints: Constraints, home: FloatArray, legs: list[list[FloatArray]], plan: StaticPlan
) -> SlowRun:
    moves, step = Moves(constraints, plan.sample_time, [home]), _step(robot, plan)
    for leg in legs[:-1]:
        for pose in leg:
            moves.go(pose, plan.share)
        moves.stop(plan.dwell, measured=True)
        moves.go(leg[-1] + step, plan.share)
        moves.go(leg[-1], plan.share)
        moves.stop(plan.dwell, measured=True)
    for pose in legs[-1]:
        moves.go(pose, plan.share)
    return finished(robot, moves, kind="static", notes=[])
