"""A virtual robot for the load study, written apart from the library that is put to the test.

Newton-Euler in centres of gravity, motors, gears and friction by [Swevers2002] eqs (1)-(11), and what its model leaves
out: Stribeck friction, torque ripple, currents with noise. Nothing here uses a regressor or the library's drives.
"""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray

# Modified DH: alpha, d, theta at q = 0, r. Frame 6 is the flange and carries the load.
MDH = np.array([
    [0.0, 0.0, 0.0, 0.750],
    [-np.pi / 2, 0.350, -np.pi / 2, 0.0],
    [0.0, 1.250, -np.pi / 2, 0.0],
    [-np.pi / 2, -0.055, 0.0, 1.100],
    [np.pi / 2, 0.0, 0.0, 0.0],
    [-np.pi / 2, 0.0, 0.0, 0.230],
])  # fmt: skip
SENSES = np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])  # of the controller's axes, by those of the MDH axes
GRAVITY = 9.81
RATIO = np.array([180.0, 200.0, 180.0, 107.0, 107.0, 71.4])
STRIBECK_SPEED = 0.03  # rad/s


@dataclass(frozen=True)
class Body:
    """A rigid body by its mass, centre of gravity and inertia about it: xx, yy, zz, xy, xz, yz."""

    mass: float
    center: FloatArray
    inertia: FloatArray

    @property
    def tensor(self) -> FloatArray:
        """Inertia about the centre of gravity, (3, 3)."""
        xx, yy, zz, xy, xz, yz = self.inertia
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


@dataclass(frozen=True)
class Motors:
    """What sits between currents and gears, link side, (6,) each; axes 1 and 2 stand still and do not matter."""

    inertia: FloatArray
    viscous: FloatArray
    coulomb: FloatArray
    efficiency: FloatArray
    ripple: FloatArray  # N m
    phase: FloatArray  # of the ripple, rad
    stribeck: float  # of the Coulomb friction, on top of it near standstill
    current_law: FloatArray  # (6, 3): N m/A, N m/A², N m/A³ at the motor


def motor_torques(
    bodies: tuple[Body, ...], motors: Motors, V: FloatArray, motion: tuple[FloatArray, FloatArray, FloatArray]
) -> FloatArray:
    """Torques that the motors give, link side, (n_samples, 6), for a motion of the joints."""
    q_M, dq_M, ddq_M = (np.linalg.solve(V, part.T).T for part in motion)
    at_gears = newton_euler(bodies, *motion) @ V
    direction = at_gears * dq_M
    before = at_gears.copy()
    before[direction > 0] = (at_gears / motors.efficiency)[direction > 0]
    before[direction < 0] = (at_gears * motors.efficiency)[direction < 0]
    slow = 1.0 + motors.stribeck * np.exp(-np.abs(dq_M) / STRIBECK_SPEED)
    friction = motors.viscous * dq_M + motors.coulomb * slow * np.sign(dq_M)
    ripple = motors.ripple * np.sin(RATIO * q_M + motors.phase)
    return np.asarray(before + motors.inertia * ddq_M + friction + ripple)


def newton_euler(bodies: tuple[Body, ...], q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Joint torques of the links alone, (n_samples, 6), by forward and backward recursion."""
    n = len(q)
    z = np.array([0.0, 0.0, 1.0])
    w, dw, a = np.zeros((n, 3)), np.zeros((n, 3)), np.tile([0.0, 0.0, GRAVITY], (n, 1))
    forces, moments, turns, arms = [], [], [], []
    for j, body in enumerate(bodies):
        alpha, d, theta, r = MDH[j]
        R = _rotation(alpha, q[:, j] + theta)  # child axes in the parent's
        p = np.array([d, -r * np.sin(alpha), r * np.cos(alpha)])
        a = np.einsum("nij,ni->nj", R, a + np.cross(dw, p) + np.cross(w, np.cross(w, p)))
        w_parent = np.einsum("nij,ni->nj", R, w)
        spin = dq[:, j, None] * z
        dw = np.einsum("nij,ni->nj", R, dw) + np.cross(w_parent, spin) + ddq[:, j, None] * z
        w = w_parent + spin
        at_center = a + np.cross(dw, body.center) + np.cross(w, np.cross(w, body.center))
        force = body.mass * at_center
        moments.append(dw @ body.tensor + np.cross(w, w @ body.tensor) + np.cross(body.center, force))
        forces.append(force)
        turns.append(R)
        arms.append(p)
    tau = np.empty((n, 6))
    f, m = np.zeros((n, 3)), np.zeros((n, 3))
    for j in reversed(range(6)):
        f, m = f + forces[j], m + moments[j]
        tau[:, j] = m[:, 2]
        f = np.einsum("nij,nj->ni", turns[j], f)
        m = np.einsum("nij,nj->ni", turns[j], m) + np.cross(arms[j], f)
    return tau


def currents(motors: Motors, tau: FloatArray) -> FloatArray:
    """Invert τ = μ (c1 I + c2 I |I| + c3 I³) by Newton's method, (n_samples, 6), A."""
    c1, c2, c3 = motors.current_law.T
    wanted = np.abs(tau) / RATIO
    size = wanted / c1
    for _ in range(30):
        size = size - (size * (c1 + size * (c2 + size * c3)) - wanted) / (c1 + size * (2.0 * c2 + 3.0 * size * c3))
    return np.asarray(np.sign(tau) * size)


def coupling(V0: float, V1: float, V2: float) -> FloatArray:
    """q = V q_M, in the senses of the MDH axes; the paper prints it in the controller's."""
    V = np.eye(6)
    V[4, 3], V[5, 3], V[5, 4] = V2, V0, V1
    return np.asarray(SENSES[:, None] * V * SENSES)


def _rotation(alpha: float, theta: FloatArray) -> FloatArray:
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    zero = np.zeros_like(c)
    rows = [[c, -s, zero], [s * ca, c * ca, zero - sa], [s * sa, c * sa, zero + ca]]
    return np.array(rows).transpose(2, 0, 1)
