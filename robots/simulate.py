"""How a robot moves under given torques: forward dynamics integrated by Runge and Kutta's fixed steps of order four.

A population of runs advances together: what a step costs is mostly Python's overhead, and many runs share it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape, freeze
from excitor.robots.drive import drive_elements
from excitor.robots.dynamics import (
    forward_dynamics,
    friction_only,
    has_load_friction,
    mass_matrix,
    regressor,
    rotor_matrix,
    solve_mass_matrix,
)
from excitor.robots.errors import NotAssembled
from excitor.robots.kernel.columns import fill_mass_matrix, fill_torque
from excitor.robots.kernel.drive import fill_drive
from excitor.robots.parallel import ClosedLoop
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import SIGNED, Motion, Robot
from excitor.robots.tree import Tree, chain

TorqueLaw = Callable[[float, FloatArray, FloatArray], FloatArray]  # t, q, dq (n_runs, n_joints) -> torques, the same
_Accelerations = Callable[
    [FloatArray, FloatArray, FloatArray], FloatArray
]  # q, dq, tau -> ddq, each (n_joints, n_runs)

STABLE = 2.0  # decay rate times step that is taken; Runge and Kutta's steps are stable up to 2.78


@dataclass(frozen=True, slots=True)
class Steps:
    """How a simulation advances: n_samples states, `sample_time` s apart, each interval in `substeps` equal steps.

    A torque law is evaluated at every stage of a step, or once a sample and held, as a digital controller does.
    """

    sample_time: float
    n_samples: int
    substeps: int = 1
    held: bool = False
    bound: float = 1e3  # rad or m, and the same per s: a state beyond it has diverged

    def __post_init__(self) -> None:
        for name in ("sample_time", "bound"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        if self.n_samples < 1 or self.substeps < 1:
            raise ValueError(f"n_samples is {self.n_samples}, substeps {self.substeps}, expected at least 1 of each")


@dataclass(frozen=True, eq=False, slots=True)
class Simulated:
    """What simulated runs did. A run that diverged stands still from its last good sample on."""

    t: FloatArray  # (n_samples,)
    q: FloatArray  # (n_runs, n_joints, n_samples)
    dq: FloatArray
    ddq: FloatArray  # at the beginning of each interval: held torques make it jump
    tau: FloatArray
    diverged_at: FloatArray  # (n_runs,), s: the first sample beyond the bound or not finite; inf where there is none

    def __post_init__(self) -> None:
        shape = "n_runs n_joints n_samples"
        freeze(self, t="n_samples", q=shape, dq=shape, ddq=shape, tau=shape)
        freeze(self, finite=False, diverged_at=str(len(self.q)))


def simulate(
    robot: Robot, torque: FloatArray | TorqueLaw, *, start: Motion, steps: Steps, chi: FloatArray | None = None
) -> Simulated:
    """Integrate M(q) ddq = τ - h(q, dq) from each sample of `start`, a run each; its accelerations do not matter.

    `torque` is a law, or an array (n_runs, n_joints, n_samples) whose samples are held until the next.
    `chi` is (n_params,), or (n_runs, n_params) to give each run a robot of its own; the prior where not given.
    """
    _check_friction(robot, steps)
    n_runs, n_joints = start.q.shape
    if not callable(torque):
        torque = np.asarray(torque, dtype=float)
        check_shape(torque, f"{n_runs} {robot.n_joints} {steps.n_samples}", "torque")
    accelerations = _accelerations(robot, chi, n_runs)
    out = np.zeros((4, steps.n_samples, n_joints, n_runs))
    diverged_at = np.full(n_runs, np.inf)
    q, dq = start.q.T.copy(), start.dq.T.copy()
    with np.errstate(all="ignore"):  # a run that diverges overflows on its way out
        for k in range(steps.n_samples):
            law = _law(torque, k, steps, (q, dq))
            tau = law(k * steps.sample_time, q, dq)
            ddq = accelerations(q, dq, tau)
            gone = np.isfinite(diverged_at)
            out[:, k] = q, dq, np.where(gone, 0.0, ddq), np.where(gone, 0.0, tau)
            if gone.all():
                out[:, k:] = out[:, k : k + 1]
            if gone.all() or k + 1 == steps.n_samples:
                break
            q_next, dq_next = _advance(accelerations, law, steps, k, (q, dq, ddq))
            size = np.maximum(np.abs(q_next), np.abs(dq_next)).max(axis=0)
            lost = ~(size <= steps.bound) & ~gone  # a NaN is not within
            diverged_at[lost] = (k + 1) * steps.sample_time
            stop = gone | lost
            q, dq = np.where(stop, q, q_next), np.where(stop, 0.0, dq_next)
    t = np.arange(steps.n_samples) * steps.sample_time
    q, dq, ddq, tau = out.transpose(0, 3, 2, 1)
    return Simulated(t, q, dq, ddq, tau, diverged_at)


def run_motion(simulated: Simulated, run: int = 0) -> Motion:
    """Take one run's motion."""
    return Motion(simulated.q[run].T, simulated.dq[run].T, simulated.ddq[run].T)


def with_friction_width(robot: Robot, width: float) -> Robot:
    """Smooth every true sign of the robot's friction to tanh(v / width); widths that are stated stay.

    A true sign makes integrators chatter. Use the same robot in the regressor.
    """
    if not 0.0 < width < np.inf:
        raise ValueError(f"width is {width}, expected a positive velocity, such as 0.005 rad/s")
    terms = tuple(
        replace(term, width=width) if term.model in SIGNED and term.width == 0.0 else term
        for term in robot.drive.friction
    )
    return replace(robot, drive=replace(robot.drive, friction=terms))


def friction_rate(robot: Robot, q: FloatArray, chi: FloatArray | None = None) -> float:
    """Fastest decay that friction causes at rest in any of the poses q: max eig M⁻¹ ∂τ/∂dq, 1/s.

    Load-dependent friction is left out.
    """
    chi = prior(robot) if chi is None else chi
    damping = np.zeros((robot.n_joints, robot.n_joints))
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        slope = 0.0
        if term.model == "viscous":
            slope = 1.0
        elif term.model in ("coulomb", "stribeck") and term.width > 0.0:
            slope = 1.0 / term.width
        elif term.model == "sqrt" and term.width > 0.0:
            slope = 0.9 / np.sqrt(term.width)  # the steepest place of tanh(x) √x
        damping += chi[column] * slope * np.outer(term.acts, term.senses)
    M = mass_matrix(robot, q, chi)
    rates = np.linalg.eigvals(np.linalg.solve(M, np.broadcast_to(damping, M.shape)))
    return float(np.abs(rates).max(initial=0.0))


def stable_substeps(robot: Robot, sample_time: float, q: FloatArray) -> int:
    """Count the steps a sample that keep friction stable in the poses q."""
    return max(1, int(np.ceil(friction_rate(robot, q) * sample_time / STABLE)))


def _check_friction(robot: Robot, steps: Steps) -> None:
    for term in robot.drive.friction:
        if term.model == "maxwell-slip":
            raise ValueError(
                f"friction {term.parameter!r} remembers where it slipped, which simulation does not follow; "
                "replace it by a smoothed coulomb term"
            )
        if term.model in SIGNED and term.width == 0.0:
            raise ValueError(
                f"friction {term.parameter!r} has a true sign, at which steps of {steps.sample_time / steps.substeps:g}"
                " s chatter; simulate with_friction_width(robot, 0.005), or state a sign_width"
            )


def _law(torque: FloatArray | TorqueLaw, k: int, steps: Steps, state: tuple[FloatArray, FloatArray]) -> TorqueLaw:
    """Give the torques of interval k as a law in (n_joints, n_runs)."""
    if not callable(torque):
        held = np.ascontiguousarray(torque[:, :, k].T)
    elif steps.held:
        held = np.ascontiguousarray(torque(k * steps.sample_time, state[0].T, state[1].T).T)
    else:
        return lambda t, q, dq: np.ascontiguousarray(torque(t, q.T, dq.T).T)
    return lambda t, q, dq: held


def _advance(
    accelerations: _Accelerations,
    law: TorqueLaw,
    steps: Steps,
    k: int,
    state: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Take the Runge-Kutta steps of interval k; the first stage's accelerations are known."""
    h = steps.sample_time / steps.substeps
    q, dq, a1 = state
    for step in range(steps.substeps):
        t = k * steps.sample_time + step * h
        if step:
            a1 = accelerations(q, dq, law(t, q, dq))
        q2, v2 = q + 0.5 * h * dq, dq + 0.5 * h * a1
        a2 = accelerations(q2, v2, law(t + 0.5 * h, q2, v2))
        q3, v3 = q + 0.5 * h * v2, dq + 0.5 * h * a2
        a3 = accelerations(q3, v3, law(t + 0.5 * h, q3, v3))
        q4, v4 = q + h * v3, dq + h * a3
        a4 = accelerations(q4, v4, law(t + h, q4, v4))
        q, dq = q + h / 6.0 * (dq + 2.0 * (v2 + v3) + v4), dq + h / 6.0 * (a1 + 2.0 * (a2 + a3) + a4)
    return q, dq


def _accelerations(robot: Robot, chi: FloatArray | None, n_runs: int) -> _Accelerations:
    """Choose how accelerations are found, in arrays (n_joints, n_runs)."""
    chi = prior(robot) if chi is None else np.ascontiguousarray(chi, dtype=float)
    n_params = len(layout(robot))
    if chi.ndim == 2:
        check_shape(chi, f"{n_runs} {n_params}", "chi")
        if has_load_friction(robot):
            raise ValueError("load-dependent friction takes one chi for all runs; simulate them one after another")
        if isinstance(robot.mechanism, Tree):
            return _of_trees(robot, chi)
        return _within_reach(robot, _of_many(robot, chi))
    check_shape(chi, str(n_params), "chi")
    if isinstance(robot.mechanism, Tree) and not has_load_friction(robot):
        return _of_tree(robot, chi, n_runs)

    def general(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        q, dq, tau = (_tame(x) for x in (q, dq, tau))
        return forward_dynamics(robot, q.T, dq=dq.T, tau=tau.T, chi=chi).T

    return _within_reach(robot, general)


def _within_reach(robot: Robot, accelerations: _Accelerations) -> _Accelerations:
    """Let runs that leave a closed chain's workspace be lost, and no others with them."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return accelerations

    def guarded(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        try:
            return accelerations(q, dq, tau)
        except NotAssembled:
            lost = (loop.singularity_distances(_tame(q).T) <= 0.0).any(axis=1)
        home = loop.home[loop.actuated][:, None]
        return np.where(lost, np.nan, accelerations(np.where(lost, home, q), np.where(lost, 0.0, dq), tau))

    return guarded


def _of_tree(robot: Robot, chi: FloatArray, n_runs: int) -> _Accelerations:
    """Call the kernel on its own arrays: a frozen motion a stage would cost more than its physics."""
    assert isinstance(robot.mechanism, Tree)
    params = layout(robot)
    packed, elements = chain(robot.mechanism), drive_elements(robot)
    phi = chi[: params.n_link_params].reshape(-1, 10).copy()
    rotors = rotor_matrix(robot, chi)
    friction = friction_only(robot, chi)[params.n_link_params :]
    n = robot.n_joints
    still, nothing, no_states = np.zeros((n, n_runs)), np.empty((0, n)), np.empty((0, 0))
    bias, M = np.empty((n_runs, n)), np.empty((n_runs, n, n))
    columns = np.empty((len(friction), n, n_runs))

    def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        fill_torque(packed, (q, dq, still), phi, bias)
        fill_mass_matrix(packed, (q, still, still), phi, M)
        push = tau - bias.T
        if len(columns):
            fill_drive(elements, (q, dq, still), nothing, no_states, columns)
            push -= (friction @ columns.reshape(len(friction), -1)).reshape(n, n_runs)
        return np.ascontiguousarray(solve_mass_matrix(robot, M + rotors, push.T).T)

    return accelerations


def _of_trees(robot: Robot, chi: FloatArray) -> _Accelerations:
    """Call the kernel for trees that differ in their parameters, chi (n_runs, n_params)."""
    from excitor.robots.kernel.each import fill_each

    assert isinstance(robot.mechanism, Tree)
    params = layout(robot)
    n_runs, n = len(chi), robot.n_joints
    packed, elements = chain(robot.mechanism), drive_elements(robot)
    phi = np.ascontiguousarray(chi[:, : params.n_link_params]).reshape(n_runs, -1, 10)
    rotors = np.array([rotor_matrix(robot, one) for one in chi])
    friction = np.array([friction_only(robot, one)[params.n_link_params :] for one in chi]).T[:, None, :]
    still, nothing, no_states = np.zeros((n, n_runs)), np.empty((0, n)), np.empty((0, 0))
    bias, M = np.empty((n_runs, n)), np.empty((n_runs, n, n))
    columns = np.empty((len(friction), n, n_runs))

    def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        fill_each(packed, (q, dq, still), phi, bias, M)
        push = tau - bias.T
        if len(columns):
            fill_drive(elements, (q, dq, still), nothing, no_states, columns)
            push -= (friction * columns).sum(axis=0)
        return np.ascontiguousarray(solve_mass_matrix(robot, M + rotors, push.T).T)

    return accelerations


def _of_many(robot: Robot, chi: FloatArray) -> _Accelerations:
    """Find accelerations of robots that differ in their parameters: τ = Y χ is affine in ddq, so unit ddq give M."""
    n, n_runs = robot.n_joints, len(chi)
    units = np.concatenate([np.zeros((1, n)), np.eye(n)])
    pushes = np.repeat(units, n_runs, axis=0)
    columns = np.tile(chi, (n + 1, 1)).T[:, None, :]

    def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        motion = Motion(np.tile(_tame(q).T, (n + 1, 1)), np.tile(_tame(dq).T, (n + 1, 1)), pushes)
        torques = (regressor(robot, motion).transpose(2, 1, 0) * columns).sum(axis=0)  # (n, (n + 1) n_runs)
        torques = torques.reshape(n, n + 1, n_runs)
        bias = torques[:, 0]
        M = (torques[:, 1:] - bias[:, None]).transpose(2, 0, 1)
        return np.ascontiguousarray(solve_mass_matrix(robot, M, (tau - bias).T).T)

    return accelerations


def _tame(x: FloatArray) -> FloatArray:
    """Keep states of a run that is diverging representable; its result is thrown away."""
    return np.nan_to_num(np.clip(x, -1e6, 1e6))
