"""Closed chains: an opened tree with a free platform and loop closures, under the interface of an open chain.

[Briot2012] eqs. (2)-(4), (6): every coordinate of the opened tree follows from the actuated ones, dq_all = J dq, and
τ = Jᵀ τ_tree, with the platform one of the tree's bodies, reached by coordinates of its own. So every regressor is
the opened tree's, projected.

Closures make points, or orientations, of two links agree. Distances to singularities and to the workspace's border
come from the Jacobians. Legs with a driven elbow at a fixed distance from a point of the platform have their inverse
geometry in closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, check_shape, freeze, shaped
from excitor.robots.errors import AssemblyError
from excitor.robots.kernel.loops import POINT, ROD, TURN, Loops
from excitor.robots.robot import Motion, posture
from excitor.robots.tree import Tree, chain, samples

_TURN_STRIDE = 0.3  # rad: from home, actuated joints are led to where they should be in steps no longer than this
_LENGTH_STRIDE = 0.2  # of the robot's size
_CLOSED = 1e-10  # of the robot's size; one more step of Newton's method then squares it
_LARGEST_KEPT = 50_000  # samples of a completed motion that is worth keeping
_SHORT = 1_000  # samples: of motions up to this long, many are kept

# What is left of a slender rod's ten parameters: its inertia across counts once, half of it under each name.
SLENDER = np.zeros((10, 10))
SLENDER[3, 3] = SLENDER[3, 5] = SLENDER[5, 3] = SLENDER[5, 5] = 0.5
SLENDER[6, 6] = SLENDER[9, 9] = 1.0


ClosureKind = Literal["point", "rod", "turn"]
_KINDS = {"point": POINT, "rod": ROD, "turn": TURN}
_ITERATIONS = 30
_SAME = 1e-6  # rad or m: a working mode's joints agree to rounding, the other's are apart
_SAMPLES = 24
_CONSTANT = 1e-9  # of the robot's size: a distance that changes by less is constant
_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False, slots=True)
@shaped(points="2 3", directions="n_equations 3", turn="3 3")
class Closure:
    """A condition between links a and b (-1: the base), points in their frames, directions in the base's.

    point  p_a - p_b vanishes along each direction         rod  |p_a - p_b| = length
    turn   R_aᵀ R_b = turn, about each direction
    """

    kind: ClosureKind
    links: tuple[int, int]
    points: FloatArray  # (2, 3)
    directions: FloatArray  # (n_equations, 3), orthonormal; of a rod, one that is not read
    length: float = 1.0
    turn: FloatArray = field(default_factory=lambda: np.eye(3))

    def __len__(self) -> int:
        """Count its equations."""
        return len(self.directions)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ClosedLoop:
    """An opened tree whose coordinates are the actuated joints, the passive ones, and those of the free platform.

    `home` assembles it. Of all positions that fit given actuated joints, the mechanism takes the one reached from
    home along the straight line of the actuated joints: that settles the assembly and the working mode.
    """

    tree: Tree
    closures: tuple[Closure, ...]
    actuated: IntArray  # (n_joints,): coordinates of the tree
    platform: IntArray  # (n_joints,): those that place the platform
    home: FloatArray  # (n_all,): an assembled position of the tree
    bodies: IntArray  # (n_links,): the tree's links that carry parameters
    slender: BoolArray  # (n_links,): rods along x, of which only M, MX and the inertia across count

    def __post_init__(self) -> None:
        freeze(
            self,
            actuated="int: n_joints",
            platform="int: n_moves",
            home="n_all",
            bodies="int: n_links",
            slender="bool: n_links",
        )
        n_equations = sum(len(closure) for closure in self.closures)
        if self.home.size != self.tree.n_joints or n_equations != self.tree.n_joints - self.n_joints:
            raise ValueError(
                f"{n_equations} closure equations and {self.n_joints} actuated joints do not settle the "
                f"{self.tree.n_joints} coordinates of the opened tree"
            )

    @property
    def n_joints(self) -> int:
        """Count the actuated joints."""
        return int(self.actuated.size)

    @property
    def n_links(self) -> int:
        """Count the bodies that carry parameters."""
        return int(self.bodies.size)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Name the actuated joints."""
        return tuple(self.tree.joint_names[i] for i in self.actuated)

    @property
    def link_names(self) -> tuple[str, ...]:
        """Name the bodies."""
        return tuple(self.tree.link_names[j] for j in self.bodies)

    @property
    def gravity(self) -> FloatArray:
        """Acceleration of gravity in the base frame, (3,), m/s²."""
        return self.tree.gravity

    @property
    def prismatic(self) -> BoolArray:
        """True for each actuated joint that slides, (n_joints,)."""
        return np.asarray(self.tree.prismatic[self.actuated])

    @property
    def passive(self) -> IntArray:
        """Coordinates of the tree that are neither actuated nor the platform's."""
        return _others(self.tree.n_joints, (*map(int, self.actuated), *map(int, self.platform)))

    @property
    def platform_bodies(self) -> IntArray:
        """Bodies that the platform's coordinates move."""
        return np.flatnonzero(np.any(self.tree.coupling[self.bodies][:, self.platform] != 0.0, axis=1))

    def poses(self, q: FloatArray) -> FloatArray:
        """Poses T_base_link of all bodies, (n_samples, n_links, 4, 4)."""
        return self.tree.poses(all_positions(self, q))[:, self.bodies]

    def jacobians(self, q: FloatArray) -> FloatArray:
        """Velocity of each body frame's origin, then its angular velocity, by dq: (n_samples, n_links, 6, n_joints)."""
        whole = opened(self, posture(q))
        return np.asarray(self.tree.jacobians(whole.motion.q)[:, self.bodies] @ whole.J.transpose(2, 0, 1)[:, None])

    def regressor(self, motion: Motion, out: FloatArray) -> None:
        """Write Y with τ = Y φ into out (10 n_links, n_joints, at least n_samples): Jᵀ times the opened tree's."""
        from excitor.robots.kernel.loops import fill_projected

        whole = opened(self, motion)
        numbers = np.full(self.tree.n_links, -1)
        numbers[self.bodies] = np.arange(self.n_links)
        fill_projected(chain(self.tree), samples(whole.motion, self.tree.n_joints), whole.J, numbers, out)
        for b in np.flatnonzero(self.slender):
            part = out[10 * b : 10 * b + 10]
            part[:] = np.tensordot(SLENDER, part, axes=(0, 0))

    def energy_regressor(self, motion: Motion) -> FloatArray:
        """Kinetic plus potential energy by parameter, (n_samples, 10 n_links)."""
        return self._of_bodies(self.tree.energy_regressor(opened(self, motion).motion))

    def power_regressor(self, motion: Motion) -> FloatArray:
        """Time derivative of the energy regressor, exactly, (n_samples, 10 n_links)."""
        return self._of_bodies(self.tree.power_regressor(opened(self, motion).motion))

    def _of_bodies(self, columns: FloatArray) -> FloatArray:
        parts = columns.reshape(len(columns), self.tree.n_links, 10)[:, self.bodies]
        parts[:, self.slender] = parts[:, self.slender] @ SLENDER
        return parts.reshape(len(columns), -1)

    def inverse_dynamics(self, motion: Motion, phi: FloatArray) -> FloatArray:
        """Joint torques τ = Jᵀ τ_tree, (n_samples, n_joints)."""
        whole = opened(self, motion)
        tau = self.tree.inverse_dynamics(whole.motion, self.tree_parameters(phi))
        return np.asarray(np.einsum("cgs,sc->sg", whole.J, tau))

    def mass_matrix(self, q: FloatArray, phi: FloatArray) -> FloatArray:
        """Mass matrices Jᵀ M_tree J, (n_samples, n_joints, n_joints)."""
        whole = opened(self, posture(q))
        J = whole.J.transpose(2, 0, 1)
        return np.asarray(J.swapaxes(1, 2) @ self.tree.mass_matrix(whole.motion.q, self.tree_parameters(phi)) @ J)

    def tree_parameters(self, phi: FloatArray) -> FloatArray:
        """Write the bodies' parameters (n_links, 10) as those of the opened tree's links; others get 0."""
        check_shape(phi, f"{self.n_links} 10", "phi")
        whole = np.zeros((self.tree.n_links, 10))
        whole[self.bodies] = np.where(self.slender[:, None], phi @ SLENDER, phi)
        return whole

    @property
    def singularity_names(self) -> tuple[str, ...]:
        """Name what `singularity_distances` measures."""
        names = (
            "type 1 (a leg is stretched or folded: drives move, the platform does not)",
            "type 2 (the platform moves while the drives stand still)",
            "passive joints (a leg's own joints move while the drives stand still)",
        )
        return names[: 2 + bool(self.passive.size)]

    def singularity_distances(self, q: FloatArray) -> FloatArray:
        """Distance to each type of singularity, about 1 at home, 0 at the singularity, (n_samples, n_types)."""
        return singularity_distances(self, q)


@dataclass(frozen=True, eq=False, slots=True)
class OpenTreeMotion:
    """A motion of the opened tree: positions, velocities, accelerations of all coordinates, and J by the actuated."""

    motion: Motion
    J: FloatArray  # (n_all, n_joints, n_samples)
    determinant: FloatArray  # (n_samples,), of the closures by the coordinates that are not actuated
    closes: BoolArray  # (n_samples,)
    residual: FloatArray  # (n_samples,): what the closures leave open, m


def opened(loop: ClosedLoop, motion: Motion) -> OpenTreeMotion:
    """Complete a motion of the actuated joints; NotAssembled names the first sample that has no solution."""
    whole = _kept(loop, motion) if len(motion) <= _LARGEST_KEPT else complete(loop, motion)
    require_assembled(loop, motion.q, whole.closes, whole.residual)
    return whole


@lru_cache(maxsize=2)
def _kept(loop: ClosedLoop, motion: Motion) -> OpenTreeMotion:
    return complete(loop, motion)


def complete(loop: ClosedLoop, motion: Motion) -> OpenTreeMotion:
    """Complete a motion of the actuated joints; samples that cannot be assembled are marked, not refused."""
    from excitor.robots.kernel.loops import complete as fill

    q, residual = solve(loop, loop.actuated, motion.q)
    rates = np.zeros((2, loop.tree.n_joints, len(motion)))
    rates[0, loop.actuated], rates[1, loop.actuated] = motion.dq.T, motion.ddq.T
    J = np.empty((loop.tree.n_joints, loop.n_joints, len(motion)))
    determinant = np.empty(len(motion))
    split = (loop.actuated, dependents(loop, loop.actuated))
    fill(chain(loop.tree), loops(loop), split, (q, rates[0], rates[1]), (J, determinant))
    found = (residual <= tolerance(loop)) & np.isfinite(J).all(axis=(0, 1))
    if not found.all():  # a motion holds finite numbers
        rates[:, :, ~found], J[:, :, ~found], q[:, ~found] = 0.0, 0.0, loop.home[:, None]
    closes = found & (determinant * home_determinant(loop) > 0.0)
    return OpenTreeMotion(Motion(q.T, rates[0].T, rates[1].T), J, determinant, closes, residual)


def all_positions(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Find all coordinates of the opened tree from the actuated ones, (n_samples, n_all)."""
    return opened(loop, posture(q)).motion.q


def forward_geometry(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Compute the platform's coordinates from actuated joints, in home's assembly mode, (n_samples, n_moves)."""
    return all_positions(loop, q)[:, loop.platform]


def inverse_geometry(loop: ClosedLoop, x: FloatArray) -> FloatArray:
    """Find the actuated joints for platform coordinates x (n_samples, n_moves), in home's working mode.

    Legs that have a closed form use it; where one has none, Newton's method leads all from home.
    """
    check_shape(x, "n_samples n_moves", "x", {"n_moves": loop.platform.size})
    legs = find_legs(loop)
    if legs is None:
        q, residual = solve(loop, loop.platform, x)
        require_assembled(loop, x, residual <= tolerance(loop), residual, what="platform coordinates")
        return q[loop.actuated].T
    joints, short = solve_legs(loop, legs, x)
    residual = short.max(axis=1)
    require_assembled(loop, x, residual == 0.0, residual, what="platform coordinates")
    return joints


def require_assembled(
    loop: ClosedLoop, given: FloatArray, closes: BoolArray, residual: FloatArray, what: str = "actuated joints"
) -> None:
    """Raise an error for positions at which the chain cannot be assembled."""
    if closes.all():
        return
    first = int(np.argmin(closes))
    names = loop.joint_names if what == "actuated joints" else [loop.tree.joint_names[i] for i in loop.platform]
    at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, given[first], strict=True))
    reason = (
        f"the closures stay open by {residual[first]:.2g} m, out of reach"
        if residual[first] > tolerance(loop) or what != "actuated joints"
        else "it lies beyond a singularity, in another assembly mode"
    )
    raise AssemblyError(
        f"{what} {at} (sample {first + 1} of {len(given)}; {int((~closes).sum())} such): {reason}; "
        "keep within the workspace and away from singularities",
        np.flatnonzero(~closes),
    )


def solve(loop: ClosedLoop, given: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find all coordinates (n_all, n_samples) from values (n_samples, n_given) of some, and the closures' residual."""
    values = np.ascontiguousarray(values, dtype=float)
    check_shape(values, "n_samples n_given", "positions", {"n_given": given.size})
    if len(values) > _SHORT:
        return _solve(loop, given, values)
    q, residual = _solved(loop, tuple(map(int, given)), values.tobytes())
    return q.copy(), residual


@lru_cache(maxsize=512)
def _solved(loop: ClosedLoop, given: tuple[int, ...], values: bytes) -> tuple[FloatArray, FloatArray]:
    """Cache solutions of short motions: a search needs a candidate's torques, Gram matrix and clearances."""
    return _solve(loop, np.array(given), np.frombuffer(values).reshape(-1, len(given)))


def _solve(loop: ClosedLoop, given: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    from excitor.robots.kernel.loops import assemble

    q = np.empty((loop.tree.n_joints, len(values)))
    q[given] = values.T
    residual = np.empty(len(values))
    start = (loop.home, strides(loop), tolerance(loop))
    assemble(chain(loop.tree), loops(loop), (np.array(given), dependents(loop, given)), start, (q, residual))
    return q, residual


def dependents(loop: ClosedLoop, given: IntArray) -> IntArray:
    """List the coordinates that are not given."""
    return _others(loop.tree.n_joints, tuple(map(int, given)))


@lru_cache(maxsize=64)
def _others(count: int, given: tuple[int, ...]) -> IntArray:
    return np.array([i for i in range(count) if i not in given], dtype=np.int64)


@lru_cache(maxsize=64)
def loops(loop: ClosedLoop) -> Loops:
    """Pack closures for the kernel; they are immutable, so the packing is cached."""
    return pack(loop.closures)


@lru_cache(maxsize=64)
def size(loop: ClosedLoop) -> float:
    """Measure the robot's size at home: the largest distance between closure points and frames' origins, m."""
    poses = loop.tree.poses(loop.home[None])[0]
    points = [pose[:3, 3] for pose in poses]
    for closure in loop.closures:
        for link, point in zip(closure.links, closure.points, strict=True):
            points.append(point if link < 0 else poses[link, :3, :3] @ point + poses[link, :3, 3])
    apart = np.linalg.norm(np.array(points)[:, None] - np.array(points)[None], axis=2)
    return float(apart.max()) or 1.0


def tolerance(loop: ClosedLoop) -> float:
    """Return the residual to which closures are solved before the last step, m."""
    return _CLOSED * size(loop)


@lru_cache(maxsize=64)
def strides(loop: ClosedLoop) -> FloatArray:
    """Return the largest step of each coordinate, (n_all,)."""
    return np.where(loop.tree.prismatic, _LENGTH_STRIDE * size(loop), _TURN_STRIDE)


@lru_cache(maxsize=64)
def home_determinant(loop: ClosedLoop) -> float:
    """Compute the sign of the determinant that distinguishes home's assembly mode from its mirror images."""
    A = closure_jacobian(loop, loop.home[None])[0]
    return float(np.sign(np.linalg.det(A[:, dependents(loop, loop.actuated)])))


def closure_jacobian(loop: ClosedLoop, q_all: FloatArray) -> FloatArray:
    """Differentiate the closures by all coordinates, (n_samples, n_equations, n_all)."""
    return closures_at(loop, q_all)[1]


def closures_at(loop: ClosedLoop, q_all: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate the closures, (n_samples, n_equations), and their Jacobian, (n_samples, n_equations, n_all)."""
    from excitor.robots.kernel.loops import fill_closures

    n_equations = sum(len(closure) for closure in loop.closures)
    f = np.empty((n_equations, len(q_all)))
    A = np.empty((n_equations, loop.tree.n_joints, len(q_all)))
    fill_closures(chain(loop.tree), loops(loop), np.array(q_all.T, order="C"), f, A)
    return f.T, A.transpose(2, 0, 1)


def pack(closures: Sequence[Closure]) -> Loops:
    """Write closures as the flat arrays that compiled code reads."""
    rows = np.zeros((len(closures), 3, 3))
    for row, closure in zip(rows, closures, strict=True):
        row[: len(closure)] = closure.directions
    return Loops(
        kind=np.array([_KINDS[closure.kind] for closure in closures], dtype=np.int64),
        link=np.array([closure.links for closure in closures], dtype=np.int64).reshape(-1, 2),
        point=np.array([closure.points for closure in closures]).reshape(-1, 2, 3),
        rows=rows,
        first=np.concatenate([[0], np.cumsum([len(closure) for closure in closures])]).astype(np.int64),
        length=np.array([closure.length for closure in closures]),
        turn=np.array([closure.turn for closure in closures]).reshape(-1, 3, 3),
    )


def singularity_distances(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Measure distances to singularities, (n_samples, n_types); negative beyond them and out of reach."""
    whole = complete(loop, posture(np.asarray(q, dtype=float)))
    out = np.empty((len(q), len(loop.singularity_names)))
    found = whole.residual <= tolerance(loop)
    side = np.where(whole.closes, 1.0, -1.0)
    out[found] = side[found, None] * _distances(loop, whole.J[:, :, found].transpose(2, 0, 1))
    out[:, 0] = np.where(_other_working_mode(loop, whole) & found, -np.abs(out[:, 0]), out[:, 0])
    if not found.all():
        out[~found] = -least_gap(loop, np.asarray(q, dtype=float)[~found])[:, None] / size(loop)
    return out


def _other_working_mode(loop: ClosedLoop, whole: OpenTreeMotion) -> BoolArray:
    """Mark samples where a leg has passed a singularity of type 1, into another working mode than home's."""
    q = whole.motion.q
    legs = find_legs(loop)
    if legs is None:
        J_p, home = whole.J[loop.platform].transpose(2, 0, 1), _home_jacobian(loop)[loop.platform]
        return np.asarray(np.linalg.det(J_p) * np.linalg.det(home) < 0.0)
    meant, _ = solve_legs(loop, legs, q[:, loop.platform])
    off = np.abs(meant - q[:, loop.actuated])
    whole_turns = np.where(loop.prismatic, 0.0, 2.0 * np.pi * np.round(off / (2.0 * np.pi)))
    return np.asarray((np.abs(off - whole_turns) > _SAME).any(axis=1))


def _distances(loop: ClosedLoop, J: FloatArray) -> FloatArray:
    J_p, J_t = scaled(loop, J)
    values = np.linalg.svd(J_p, compute_uv=False)
    columns = [values[:, -1], 1.0 / values[:, 0]]
    if loop.passive.size:
        columns.append(1.0 / np.linalg.svd(J_t, compute_uv=False)[:, 0])
    return np.column_stack(columns)


def scaled(loop: ClosedLoop, J: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale J, or its derivatives, (n, n_all, n_joints), to S J_p and J_t, whose singular values are the distances."""
    to_platform, to_drives, passive_at_home = _scales(loop)
    J_p = J[:, loop.platform] * to_platform[:, None] * to_drives
    return J_p, J[:, loop.passive] * to_drives / passive_at_home


@lru_cache(maxsize=64)
def _scales(loop: ClosedLoop) -> tuple[FloatArray, FloatArray, float]:
    """Compute scales: the platform's rotations by the reach of its closures, drives by their effect on it at home."""
    J = _home_jacobian(loop)
    to_platform = np.where(~loop.tree.prismatic[loop.platform], _platform_reach(loop), 1.0)
    to_drives = 1.0 / np.linalg.norm(J[loop.platform] * to_platform[:, None], axis=0)
    passive = np.linalg.norm(J[loop.passive] * to_drives, 2) if loop.passive.size else 1.0
    return to_platform, to_drives, float(passive)


def _home_jacobian(loop: ClosedLoop) -> FloatArray:
    return complete(loop, posture(loop.home[None, loop.actuated])).J[:, :, 0]


def _platform_reach(loop: ClosedLoop) -> float:
    """Measure the distance of the platform's closures from its origin, m; the robot's size if all are at the origin."""
    moved = np.flatnonzero(np.any(loop.tree.coupling[:, loop.platform] != 0.0, axis=1))
    held = [
        float(np.linalg.norm(point))
        for closure in loop.closures
        for link, point in zip(closure.links, closure.points, strict=True)
        if link in moved
    ]
    return max(held, default=0.0) or size(loop)


def least_gap(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Minimise the closures' residual with the drives at q, m, (n_samples,), by Levenberg and Marquardt's method."""
    free, scale = dependents(loop, loop.actuated), strides(loop)
    x = np.tile(loop.home, (len(q), 1))
    x[:, loop.actuated] = q
    damping = np.full(len(q), 1e-2)
    f, A = closures_at(loop, x)
    for _ in range(_ITERATIONS):
        slope = A[:, :, free] * scale[free]
        normal = slope.swapaxes(1, 2) @ slope
        diagonal = np.trace(normal, axis1=1, axis2=2) / free.size
        damped = normal + (damping * diagonal)[:, None, None] * np.eye(free.size)
        step = np.linalg.solve(damped, (slope.swapaxes(1, 2) @ f[:, :, None]))[:, :, 0]
        trial = x.copy()
        trial[:, free] -= step * scale[free]
        f_trial, A_trial = closures_at(loop, trial)
        better = np.einsum("sk,sk->s", f_trial, f_trial) < np.einsum("sk,sk->s", f, f)
        x[better], f[better], A[better] = trial[better], f_trial[better], A_trial[better]
        damping = np.where(better, 0.3 * damping, 5.0 * damping)
    return np.asarray(np.linalg.norm(f, axis=1))


@dataclass(frozen=True, eq=False, slots=True)
@shaped(path="3 n", point="3", directions="n 3")
class Leg:
    """A leg that has a closed form, in the directions that its closure joins."""

    joint: int  # among the actuated ones
    slides: bool
    path: FloatArray  # (3, n): m, u, v of the elbow; u is 0 where the joint slides
    length: float
    link: int  # of the tree, that the leg holds
    point: FloatArray  # (3,) there
    directions: FloatArray  # (n, 3)
    home: float
    side: float  # 1 or -1: which of the two solutions


def solve_legs(loop: ClosedLoop, legs: tuple[Leg, ...], x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find actuated joints for platform coordinates x, and how far each leg is out of reach, m: (n_samples, n) each."""
    at = np.tile(loop.home, (len(x), 1))
    at[:, loop.platform] = x
    poses = loop.tree.poses(at)
    q, short = np.empty((len(x), len(legs))), np.empty((len(x), len(legs)))
    for leg in legs:
        T = poses[:, leg.link]
        target = (T[:, :3, :3] @ leg.point + T[:, :3, 3]) @ leg.directions.T
        q[:, leg.joint], short[:, leg.joint] = _solve_leg(leg, leg.path[0] - target)
    return q, short


def _solve_leg(leg: Leg, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    _, u, v = leg.path
    if leg.slides:
        along = d @ v / (v @ v)
        across = np.linalg.norm(d - along[:, None] * v, axis=1)
        root = np.sqrt(np.maximum(leg.length**2 - across**2, 0.0)) / np.linalg.norm(v)
        return -along + leg.side * root, np.maximum(across - leg.length, 0.0)
    A, B = 2.0 * d @ u, 2.0 * d @ v
    most, C = np.hypot(A, B), leg.length**2 - (d**2).sum(axis=1) - u @ u
    cosine = C / np.where(most > 0.0, most, 1.0)
    angle = np.arctan2(B, A) + leg.side * np.arccos(np.clip(cosine, -1.0, 1.0))
    apart = np.linalg.norm(d, axis=1)
    radius = float(np.linalg.norm(u))
    short = np.maximum(np.maximum(apart - radius - leg.length, np.abs(radius - leg.length) - apart), 0.0)
    short = np.where(np.abs(cosine) > 1.0, np.maximum(short, np.finfo(float).tiny), 0.0)
    return leg.home + np.remainder(angle - leg.home + 0.5 * _TURN, _TURN) - 0.5 * _TURN, short


@lru_cache(maxsize=64)
def find_legs(loop: ClosedLoop) -> tuple[Leg, ...] | None:
    """Find each actuated joint's leg; None where one of them is of another kind."""
    legs = [_leg(loop, i) for i in range(loop.n_joints)]
    return tuple(leg for leg in legs if leg is not None) if all(leg is not None for leg in legs) else None


def _leg(loop: ClosedLoop, joint: int) -> Leg | None:
    tree, coordinate = loop.tree, int(loop.actuated[joint])
    row = np.zeros(tree.n_joints)
    row[coordinate] = 1.0
    driven = [j for j in range(tree.n_links) if np.array_equal(tree.coupling[j], row) and tree.parents[j] < 0]
    if len(driven) != 1:
        return None
    ends = [found for closure in loop.closures if (found := _ends(loop, closure, driven[0])) is not None]
    if len(ends) != 1:
        return None
    closure, inner, held = ends[0]
    D = np.eye(3) if closure.kind == "rod" else closure.directions
    elbow = closure.points[inner] if closure.kind == "rod" else _center(loop, closure, inner, driven[0])
    if elbow is None:
        return None
    path = _path(loop, coordinate, driven[0], elbow) @ D.T
    slides = bool(tree.sliding[driven[0]])
    _, u, v = path
    least = _CONSTANT * size(loop) ** 2
    if not slides and not (abs(u @ v) < least and abs(u @ u - v @ v) < least):  # no circle
        return None
    if closure.kind == "rod":
        length = closure.length
    else:
        pose = tree.poses(loop.home[None])[0]
        apart = _world(pose, closure.links[inner], closure.points[inner]) - _world(pose, driven[0], elbow)
        length = float(np.linalg.norm(D @ apart))
    home = float(loop.home[coordinate])
    fields = (path, length, closure.links[held], closure.points[held], D, home)
    sides = [Leg(joint, slides, *fields, side=side) for side in (1.0, -1.0)]
    at = loop.home[None, loop.platform]
    off = [abs(float(solve_legs(loop, (replace(leg, joint=0),), at)[0][0, 0]) - home) for leg in sides]
    return sides[int(np.argmin(off))] if min(off) < 1e-6 else None


def _ends(loop: ClosedLoop, closure: Closure, driven: int) -> tuple[Closure, int, int] | None:
    """Find the ends of a closure on the driven link and on the platform alone: (closure, driven end, platform end)."""
    if closure.kind == "turn":
        return None
    platform = set(map(int, loop.platform))
    for inner, held in ((0, 1), (1, 0)):
        carried, holds = _ancestors(loop, closure.links[inner]), _ancestors(loop, closure.links[held])
        if driven not in carried or driven in holds:
            continue
        moved = {int(c) for j in holds for c in np.flatnonzero(loop.tree.coupling[j])}
        others = {int(c) for j in carried for c in np.flatnonzero(loop.tree.coupling[j])} & set(map(int, loop.actuated))
        rigid = closure.kind == "point" or closure.links[inner] == driven
        if moved and moved <= platform and len(others) == 1 and rigid:
            return closure, inner, held
    return None


def _ancestors(loop: ClosedLoop, link: int) -> list[int]:
    found = []
    while link >= 0:
        found.append(link)
        link = int(loop.tree.parents[link])
    return found


def _center(loop: ClosedLoop, closure: Closure, inner: int, driven: int) -> FloatArray | None:
    """Fit the sphere on which passive joints let a leg's end move, seen from the driven link; None if there is none."""
    q = np.tile(loop.home, (_SAMPLES, 1))
    q[:, loop.passive] += np.random.default_rng(0).uniform(-1.0, 1.0, size=(_SAMPLES, loop.passive.size))
    poses = loop.tree.poses(q)
    relative = np.linalg.inv(poses[:, driven]) @ poses[:, closure.links[inner]]
    points = relative[:, :3, :3] @ closure.points[inner] + relative[:, :3, 3]
    middle = points.mean(axis=0)
    p = points - middle
    unknowns = np.linalg.lstsq(np.column_stack([2.0 * p, np.ones(_SAMPLES)]), (p**2).sum(axis=1), rcond=1e-9)[0]
    distance = np.linalg.norm(p - unknowns[:3], axis=1)
    return middle + unknowns[:3] if np.ptp(distance) < _CONSTANT * size(loop) else None


def _path(loop: ClosedLoop, coordinate: int, driven: int, elbow: FloatArray) -> FloatArray:
    """Write the elbow's path by the driven joint: m, u, v with E = m + u cos q + v sin q, or m + v q, base frame."""
    q = np.tile(loop.home, (3, 1))
    slides = bool(loop.tree.sliding[driven])
    q[:, coordinate] = (0.0, 1.0, 2.0) if slides else (0.0, 0.25 * _TURN, 0.5 * _TURN)
    E = np.array([_world(pose, driven, elbow) for pose in loop.tree.poses(q)])
    if slides:
        return np.array([E[0], np.zeros(3), E[1] - E[0]])
    middle = 0.5 * (E[0] + E[2])
    return np.array([middle, 0.5 * (E[0] - E[2]), E[1] - middle])


def _world(pose: FloatArray, link: int, point: FloatArray) -> FloatArray:
    return np.asarray(pose[link, :3, :3] @ point + pose[link, :3, 3])
