"""Closed chains: an opened tree with a free platform, and what closes it; seen from outside, a robot like any other.

[Briot2012] eqs. (2)-(4), (6): every coordinate of the opened tree follows from the actuated ones, dq_all = J dq, and
τ = Jᵀ τ_tree, with the platform one of the tree's bodies, reached by coordinates of its own. So every regressor is
the opened tree's, projected.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, check_shape, freeze
from excitor.robots.closure import Closure, pack
from excitor.robots.errors import NotAssembled
from excitor.robots.kernel.closure import Loops
from excitor.robots.robot import Motion, posture
from excitor.robots.tree import Tree, chain

_TURN_STRIDE = 0.3  # rad: from home, actuated joints are led to where they should be in steps no longer than this
_LENGTH_STRIDE = 0.2  # of the robot's size
_CLOSED = 1e-10  # of the robot's size; one more step of Newton's method then squares it
_LARGEST_KEPT = 50_000  # samples of a completed motion that is worth keeping
_SHORT = 1_000  # samples: of motions up to this long, many are kept

# What is left of a slender rod's ten parameters: its inertia across counts once, half of it under each name.
SLENDER = np.zeros((10, 10))
SLENDER[3, 3] = SLENDER[3, 5] = SLENDER[5, 3] = SLENDER[5, 5] = 0.5
SLENDER[6, 6] = SLENDER[9, 9] = 1.0


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
        """Tell which actuated joints slide, (n_joints,)."""
        return np.asarray(self.tree.prismatic[self.actuated])

    @property
    def passive(self) -> IntArray:
        """List the tree's coordinates that are neither actuated nor the platform's."""
        return _others(self.tree.n_joints, (*map(int, self.actuated), *map(int, self.platform)))

    @property
    def platform_bodies(self) -> IntArray:
        """List the bodies that the platform's coordinates move."""
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
        fill_projected(chain(self.tree), _rows(whole.motion), whole.J, numbers, out)
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
        """Write the bodies' parameters (n_links, 10) as those of the opened tree's links; what is no body has none."""
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
        """Distance to each type of singularity, about 1 at home, 0 at it, (n_samples, n_types); see `assembly`."""
        from excitor.robots.assembly import singularity_distances

        return singularity_distances(self, q)


@dataclass(frozen=True, eq=False, slots=True)
class Opened:
    """A motion of the opened tree: positions, velocities, accelerations of all coordinates, and J by the actuated."""

    motion: Motion
    J: FloatArray  # (n_all, n_joints, n_samples)
    determinant: FloatArray  # (n_samples,), of the closures by the coordinates that are not actuated
    closes: BoolArray  # (n_samples,)
    residual: FloatArray  # (n_samples,): what the closures leave open, m


def opened(loop: ClosedLoop, motion: Motion) -> Opened:
    """Complete a motion of the actuated joints; NotAssembled tells the first sample that has no solution."""
    whole = _kept(loop, motion) if len(motion) <= _LARGEST_KEPT else complete(loop, motion)
    require_assembled(loop, motion.q, whole.closes, whole.residual)
    return whole


@lru_cache(maxsize=2)
def _kept(loop: ClosedLoop, motion: Motion) -> Opened:
    return complete(loop, motion)


def complete(loop: ClosedLoop, motion: Motion) -> Opened:
    """Complete a motion of the actuated joints; samples that cannot be assembled are marked, not refused."""
    from excitor.robots.kernel.loops import complete as fill

    q, residual = solve(loop, loop.actuated, motion.q)
    rates = np.zeros((2, loop.tree.n_joints, len(motion)))
    rates[0, loop.actuated], rates[1, loop.actuated] = motion.dq.T, motion.ddq.T
    J = np.empty((loop.tree.n_joints, loop.n_joints, len(motion)))
    determinant = np.empty(len(motion))
    split = (loop.actuated, sought(loop, loop.actuated))
    fill(chain(loop.tree), loops(loop), split, (q, rates[0], rates[1]), (J, determinant))
    found = (residual <= tolerance(loop)) & np.isfinite(J).all(axis=(0, 1))
    if not found.all():  # a motion holds finite numbers
        rates[:, :, ~found], J[:, :, ~found], q[:, ~found] = 0.0, 0.0, loop.home[:, None]
    closes = found & (determinant * home_determinant(loop) > 0.0)
    return Opened(Motion(q.T, rates[0].T, rates[1].T), J, determinant, closes, residual)


def all_positions(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Find all coordinates of the opened tree from the actuated ones, (n_samples, n_all)."""
    return opened(loop, posture(q)).motion.q


def forward_geometry(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Find where encoders say the platform is, in its own coordinates, (n_samples, n_moves)."""
    return all_positions(loop, q)[:, loop.platform]


def inverse_geometry(loop: ClosedLoop, x: FloatArray) -> FloatArray:
    """Find the actuated joints for platform coordinates x (n_samples, n_moves), in home's working mode.

    Legs that have a closed form use it; where one has none, Newton's method leads all from home.
    """
    from excitor.robots.legs import find_legs, solve_legs

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
    """Refuse positions that no assembly fits."""
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
    raise NotAssembled(
        f"{what} {at} (sample {first + 1} of {len(given)}; {int((~closes).sum())} such): {reason}; "
        "keep within the workspace and away from singularities",
        np.flatnonzero(~closes),
    )


def solve(loop: ClosedLoop, given: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find all coordinates (n_all, n_samples) from values (n_samples, n_given) of some, and what stays open."""
    values = np.ascontiguousarray(values, dtype=float)
    check_shape(values, "n_samples n_given", "positions", {"n_given": given.size})
    if len(values) > _SHORT:
        return _solve(loop, given, values)
    q, residual = _solved(loop, tuple(map(int, given)), values.tobytes())
    return q.copy(), residual


@lru_cache(maxsize=512)
def _solved(loop: ClosedLoop, given: tuple[int, ...], values: bytes) -> tuple[FloatArray, FloatArray]:
    """Keep where short motions lead: a search asks for a candidate's torques, its Gram matrix, its clearances."""
    return _solve(loop, np.array(given), np.frombuffer(values).reshape(-1, len(given)))


def _solve(loop: ClosedLoop, given: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    from excitor.robots.kernel.loops import assemble

    q = np.empty((loop.tree.n_joints, len(values)))
    q[given] = values.T
    residual = np.empty(len(values))
    start = (loop.home, strides(loop), tolerance(loop))
    assemble(chain(loop.tree), loops(loop), (given, sought(loop, given)), start, (q, residual))
    return q, residual


def sought(loop: ClosedLoop, given: IntArray) -> IntArray:
    """List the coordinates that are not given."""
    return _others(loop.tree.n_joints, tuple(map(int, given)))


@lru_cache(maxsize=64)
def _others(count: int, given: tuple[int, ...]) -> IntArray:
    return np.array([i for i in range(count) if i not in given], dtype=np.int64)


@lru_cache(maxsize=64)
def loops(loop: ClosedLoop) -> Loops:
    """Pack closures for the kernel; they are immutable, so the packing is kept."""
    return pack(loop.closures)


@lru_cache(maxsize=64)
def size(loop: ClosedLoop) -> float:
    """Measure the robot at home: the largest distance between points that its closures join and frames' origins, m."""
    poses = loop.tree.poses(loop.home[None])[0]
    points = [pose[:3, 3] for pose in poses]
    for closure in loop.closures:
        for link, point in zip(closure.links, closure.points, strict=True):
            points.append(point if link < 0 else poses[link, :3, :3] @ point + poses[link, :3, 3])
    apart = np.linalg.norm(np.array(points)[:, None] - np.array(points)[None], axis=2)
    return float(apart.max()) or 1.0


def tolerance(loop: ClosedLoop) -> float:
    """Say how little a closure may stay open before the last step, m."""
    return _CLOSED * size(loop)


@lru_cache(maxsize=64)
def strides(loop: ClosedLoop) -> FloatArray:
    """Say how far each coordinate may move at once, (n_all,)."""
    return np.where(loop.tree.prismatic, _LENGTH_STRIDE * size(loop), _TURN_STRIDE)


@lru_cache(maxsize=64)
def home_determinant(loop: ClosedLoop) -> float:
    """Determine the sign that tells home's assembly mode from its mirror images."""
    A = closure_jacobian(loop, loop.home[None])[0]
    return float(np.sign(np.linalg.det(A[:, sought(loop, loop.actuated)])))


def closure_jacobian(loop: ClosedLoop, q_all: FloatArray) -> FloatArray:
    """Differentiate the closures by all coordinates, (n_samples, n_equations, n_all)."""
    return closures_at(loop, q_all)[1]


def closures_at(loop: ClosedLoop, q_all: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate the closures, (n_samples, n_equations), and their Jacobian, (n_samples, n_equations, n_all)."""
    from excitor.robots.kernel.loops import fill_closures

    n_equations = sum(len(closure) for closure in loop.closures)
    f = np.empty((n_equations, len(q_all)))
    A = np.empty((n_equations, loop.tree.n_joints, len(q_all)))
    fill_closures(chain(loop.tree), loops(loop), np.ascontiguousarray(q_all.T), f, A)
    return f.T, A.transpose(2, 0, 1)


def _rows(motion: Motion) -> tuple[FloatArray, FloatArray, FloatArray]:
    return motion.q.T, motion.dq.T, motion.ddq.T
