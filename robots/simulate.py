"""Forward dynamics under given torques, integrated by Runge and Kutta's fixed steps of order four.

A population of runs advances together: most of a step's cost is Python's overhead, shared by many runs.
`integrate_held` simulates recorded torques in open loop, each held until the next; `follow` simulates a digital PD
along a reference, in compiled code. A robot is packed for the compiled plant as a tree, its closures and its friction.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from excitor.robots.arrays import FloatArray, IntArray, check_shape, freeze
from excitor.robots.closed_chain import ClosedLoop, dependents, loops, strides, tolerance
from excitor.robots.dynamics import (
    drive_elements,
    foreign_terms,
    forward_dynamics,
    friction_only,
    has_load_friction,
    inverse_dynamics,
    mass_matrix,
    refuse_foreign,
    regressor,
    rotor_matrix,
    solve_mass_matrix,
)
from excitor.robots.errors import AssemblyError, ExcitorError
from excitor.robots.friction import friction_model, has_true_sign
from excitor.robots.kernel.columns import fill_torque_and_mass
from excitor.robots.kernel.compile import Chain
from excitor.robots.kernel.drive import Elements, fill_drive
from excitor.robots.kernel.plant import LoopClosure
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import CanBeSingular, FrictionTerm, Motion, Robot
from excitor.robots.tree import Tree, chain, locked

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant
    from excitor.robots.kernel.steps import Controller, Dry


TorqueLaw = Callable[[float, FloatArray, FloatArray], FloatArray]  # t, q, dq (n_runs, n_joints) -> torques, the same
# q, dq, tau -> ddq, each (n_joints, n_runs), or (n_joints,) of one run
_Accelerations = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

STABLE = 2.0  # decay rate times step that is taken; Runge and Kutta's steps are stable up to 2.78
Method = Literal["rk4", "rk45", "events"]
State = tuple[FloatArray, FloatArray]  # positions and velocities, each (n_joints,)
RELATIVE, ABSOLUTE = 1e-7, 1e-10  # errors of a step that rk45 allows
_MOST_STEPS = 2000  # of rk45 in one sample
_LOST = 1e4  # rad/s or m/s
WIDTH = 0.005  # rad/s or m/s, over which a true sign of friction changes
LONGEST_STEP = 5e-4  # s, of integration
LIGHTEST = 3.0  # times less than what a closed chain's gains are tuned to may move without making them unstable
STEADY, HELD = 0.25, 0.02  # damping ratios: that gains are lowered to, and below which no loop is simulated
DAMPED = 0.1  # least damping ratio along a motion with which gains stay as they are
_SWEEPS, _TAKEN = 4, 0.6  # over the joints, whose gains rise each time by this share of what stays stable


@dataclass(frozen=True, slots=True)
class Steps:
    """Time grid of a simulation: n_samples states, `sample_time` s apart, each interval in `substeps` equal steps.

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
class SimulatedRuns:
    """Trajectories of simulated runs. A run that diverged keeps its last good sample from there on."""

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
) -> SimulatedRuns:
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
    return SimulatedRuns(t, q, dq, ddq, tau, diverged_at)


def run_motion(simulated: SimulatedRuns, run: int = 0) -> Motion:
    """Return one run's motion."""
    return Motion(simulated.q[run].T, simulated.dq[run].T, simulated.ddq[run].T)


def with_friction_width(robot: Robot, width: float) -> Robot:
    """Smooth every true sign of the robot's friction to tanh(v / width); widths that are stated stay.

    A true sign makes integrators chatter. Use the same robot in the regressor.
    """
    if not 0.0 < width < np.inf:
        raise ValueError(f"width is {width}, expected a positive velocity, such as 0.005 rad/s")
    terms = tuple(replace(term, width=width) if has_true_sign(term) else term for term in robot.drive.friction)
    return replace(robot, drive=replace(robot.drive, friction=terms))


def friction_rate(robot: Robot, q: FloatArray, chi: FloatArray | None = None) -> float:
    """Fastest decay that friction causes at rest in any of the poses q: max eig M⁻¹ ∂τ/∂dq, 1/s.

    Load-dependent friction is left out, and so are true signs.
    """
    chi = prior(robot) if chi is None else chi
    damping = np.zeros((robot.n_joints, robot.n_joints))
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        damping += chi[column] * friction_model(term).steepest(term) * np.outer(term.acts, term.senses)
    M = mass_matrix(robot, q, chi)
    rates = np.linalg.eigvals(np.linalg.solve(M, np.broadcast_to(damping, M.shape)))
    return float(np.abs(rates).max(initial=0.0))


def stable_substeps(robot: Robot, sample_time: float, q: FloatArray) -> int:
    """Count the steps a sample that keep friction stable in the poses q."""
    return max(1, int(np.ceil(friction_rate(robot, q) * sample_time / STABLE)))


def _check_friction(robot: Robot, steps: Steps) -> None:
    _check_memory(robot)
    for term in robot.drive.friction:
        if has_true_sign(term):
            raise ValueError(
                f"friction {term.parameter!r} has a true sign, at which steps of {steps.sample_time / steps.substeps:g}"
                " s chatter; simulate with_friction_width(robot, 0.005), or state a sign_width"
            )


def _check_memory(robot: Robot) -> None:
    for term in robot.drive.friction:
        if friction_model(term).memory:
            raise ValueError(
                f"friction {term.parameter!r} remembers where it slipped, which simulation does not follow; "
                "replace it by a smoothed coulomb term"
            )


def _law(torque: FloatArray | TorqueLaw, k: int, steps: Steps, state: tuple[FloatArray, FloatArray]) -> TorqueLaw:
    """Return the torques of interval k as a law in (n_joints, n_runs)."""
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
    """Integrate interval k by Runge-Kutta steps; the first stage's accelerations are known."""
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
    """Choose the function that computes accelerations, in arrays (n_joints, n_runs)."""
    chi = prior(robot) if chi is None else np.ascontiguousarray(chi, dtype=float)
    n_params = len(layout(robot))
    check_shape(chi, str(n_params) if chi.ndim == 1 else f"{n_runs} {n_params}", "chi")
    if has_load_friction(robot):
        if chi.ndim == 2:
            raise ValueError("load-dependent friction takes one chi for all runs; simulate them one after another")
        return _within_reach(robot, _of_loaded(robot, chi))
    if isinstance(robot.mechanism, Tree) and not foreign_terms(robot):
        return _of_trees(robot, chi, n_runs)
    return _within_reach(robot, _of_many(robot, np.broadcast_to(chi, (n_runs, n_params))))


def _within_reach(robot: Robot, accelerations: _Accelerations) -> _Accelerations:
    """Mark runs that leave a closed chain's workspace as lost, without affecting the others."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return accelerations

    def guarded(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        try:
            return accelerations(q, dq, tau)
        except AssemblyError:
            lost = (loop.singularity_distances(_tame(q).T) <= 0.0).any(axis=1)
        home = loop.home[loop.actuated][:, None]
        return np.where(lost, np.nan, accelerations(np.where(lost, home, q), np.where(lost, 0.0, dq), tau))

    return guarded


def _of_loaded(robot: Robot, chi: FloatArray) -> _Accelerations:
    """Find accelerations under load-dependent friction, by Newton's method."""

    def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        q, dq, tau = (_tame(x) for x in (q, dq, tau))
        return forward_dynamics(robot, q.T, dq=dq.T, tau=tau.T, chi=chi).T

    return accelerations


def _of_trees(robot: Robot, chi: FloatArray, n_runs: int) -> _Accelerations:
    """Build accelerations by the kernel on plain arrays: a `Motion` at every stage would cost more than the physics.

    Trees may differ in their parameters, chi (n_runs, n_params); one chi for all, (n_params,), costs less.
    """
    from excitor.robots.kernel.plant import fill_each

    assert isinstance(robot.mechanism, Tree)
    n, n_links = robot.n_joints, layout(robot).n_link_params
    packed, elements = chain(robot.mechanism), drive_elements(robot)
    phi = _own(chi[..., :n_links]).reshape(*chi.shape[:-1], -1, 10)
    rotors = np.array([rotor_matrix(robot, one) for one in np.atleast_2d(chi)])
    friction = np.array([friction_only(robot, one)[n_links:] for one in np.atleast_2d(chi)])
    friction = friction.T[:, None, :] if chi.ndim == 2 else friction[0]
    (still,) = locked(np.zeros((n, n_runs)))
    nothing, no_states = np.empty((0, n)), np.empty((0, 0))
    bias, M = np.empty((n_runs, n)), np.empty((n_runs, n, n))
    columns = np.empty((len(layout(robot)) - n_links, n, n_runs))

    def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        q, dq = locked(q, dq)
        if chi.ndim == 2:
            fill_each(packed, (q, dq, still), phi, bias, M)
        else:
            fill_torque_and_mass(packed, (q, dq, still), phi, bias, M)
        push = tau - bias.T
        if len(columns):
            fill_drive(elements, (q, dq, still), nothing, no_states, columns)
            if chi.ndim == 2:
                push -= (friction * columns).sum(axis=0)
            else:
                push -= (friction @ columns.reshape(len(columns), -1)).reshape(n, n_runs)
        return np.ascontiguousarray(solve_mass_matrix(robot, M + rotors, push.T).T)

    return accelerations


def _of_many(robot: Robot, chi: FloatArray) -> _Accelerations:
    """Find accelerations of robots that differ in their parameters: τ = Y χ is affine in ddq, so unit ddq give M."""
    n, n_runs = robot.n_joints, len(chi)
    pushes = np.repeat(np.concatenate([np.zeros((1, n)), np.eye(n)]), n_runs, axis=0)
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
    """Clip states of a diverging run to finite values; its result is discarded."""
    return np.nan_to_num(np.clip(x, -1e6, 1e6))


@dataclass(frozen=True, eq=False, slots=True)
class FrictionStates:
    """Sliding direction of each dry friction at the samples, in open simulation with events."""

    names: tuple[str, ...]  # parameters
    sense: IntArray  # (n_samples, n_dry): 1, -1, or 0 where it sticks

    def __post_init__(self) -> None:
        freeze(self, sense=f"int: n_samples {len(self.names)}")


@dataclass(frozen=True, eq=False, slots=True)
class TrackedMotion:
    """True motion and torques at the control samples; after divergence the robot stands still."""

    motion: Motion  # accelerations right after the torque's jump: τ = Y χ holds at every sample
    tau: FloatArray  # (n_samples, n_joints): commanded, each held until the next
    diverged_at: float  # s; inf where it did not

    def __post_init__(self) -> None:
        freeze(self, tau=f"{len(self.motion)} n_joints")

    @property
    def diverged(self) -> bool:
        """True if the simulation diverged."""
        return bool(self.diverged_at < np.inf)


def integrate_held(
    robot: Robot,
    tau: FloatArray,
    *,
    start: State,
    rate_hz: float,
    chi: FloatArray | None = None,
    method: Method = "rk4",
    width: float = WIDTH,
    substeps: int | None = None,
) -> TrackedMotion:
    """Simulate a robot with parameters chi (the prior where not given) under torques (n_samples, n_joints).

    `substeps` are those of rk4 between two torques: as many as `steps_a_sample` counts where not given. Friction of
    registered laws, which compiled rk4 does not know, is stepped by rk45, at many times the cost.
    """
    if method == "events":
        return integrate_sticking(robot, tau, start=start, rate_hz=rate_hz, chi=chi)[0]
    tau, start = _checked(robot, tau, start)
    robot, chi = smoothed(robot, width), prior(robot) if chi is None else chi
    step = 1.0 / rate_hz
    if method == "rk45" or foreign_terms(robot):
        return _rk45(_held_accelerations(robot, chi), tau, start, step)
    parts = steps_a_sample(robot, chi, start[0], step) if substeps is None else substeps
    good, out, _ = run_plant(plain_plant(robot, chi), (tau,), start, (step, parts))
    return until_lost(out, good, step)


def run_plant(
    plant: "Plant",
    inputs: tuple[FloatArray, ...],
    start: State,
    clock: tuple[float, int],
    *,
    controller: "Controller | None" = None,
    dry: "Dry | None" = None,
) -> tuple[int, FloatArray, IntArray]:
    """Run the compiled stepper, see `kernel.steps`: the number of valid steps, signals and sliding directions."""
    from excitor.robots.kernel.steps import N_CONTROLLER_SIGNALS, run, track

    rows, state = tuple(_own(x) for x in inputs), (_own(start[0]), _own(start[1]))
    out = np.zeros((N_CONTROLLER_SIGNALS, *rows[0].shape))
    modes = np.zeros((len(out[0]), 0 if dry is None else dry.level.size), dtype=np.int64)
    if controller is not None:
        return track(plant, controller, rows, state, clock, out), out, modes
    return run(plant, dry, rows[0], state, clock, out, modes), out, modes


def run_controlled(
    plant: "Plant", controller: "Controller", reference: Motion, forward: FloatArray, noise: FloatArray | None = None
) -> tuple[int, FloatArray]:
    """Follow a reference, from its first row: the number of valid steps, and signals as `kernel.steps` numbers them.

    `forward` are joint torques fed forward, `noise` errors of measured positions, each (n_steps, n_joints).
    """
    inputs = (forward, reference.q, reference.dq, np.zeros(reference.q.shape) if noise is None else noise)
    start, clock = (reference.q[0], reference.dq[0]), (controller.step, controller.substeps)
    good, out, _ = run_plant(plant, inputs, start, clock, controller=controller)
    return good, out


def steps_a_sample(robot: Robot, chi: FloatArray, q: FloatArray, step: float) -> int:
    """Count steps of order four: none longer than 0.32 ms, nor than the smoothed friction is stable with."""
    with np.errstate(all="ignore"):
        rate = friction_rate(robot, q[None], chi)
    stiff = step * rate / (0.5 * STABLE) if np.isfinite(rate) else 1.0
    return int(np.clip(np.ceil(max(stiff, step / 3.2e-4) - 1e-9), 1, 200))


def integrate_sticking(
    robot: Robot, tau: FloatArray, *, start: State, rate_hz: float, chi: FloatArray | None = None
) -> tuple[TrackedMotion, FrictionStates]:
    """Simulate with true signs of dry friction: joints stick and break away, several at once if coupled."""
    tau, start = _checked(robot, tau, start)
    chi = np.array(prior(robot) if chi is None else chi, dtype=float)
    names, dry = dry_friction(robot, chi)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).sticks:
            chi[column] = 0.0
    step = 1.0 / rate_hz
    clock = (step, max(1, int(np.ceil(step / 1.25e-3 - 1e-9))))
    good, out, modes = run_plant(plain_plant(smoothed(robot), chi), (tau,), start, clock, dry=dry)
    return until_lost(out, good, step), FrictionStates(names, modes)


def dry_friction(robot: Robot, chi: FloatArray) -> tuple[tuple[str, ...], "Dry"]:
    """Collect dry friction; terms with the same senses and acts stick and slide as one."""
    from excitor.robots.kernel.steps import Dry

    groups: dict[tuple[bytes, bytes], list[tuple[FrictionTerm, float]]] = {}
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        row = friction_model(term)
        if row.load or row.memory:
            raise ExcitorError(
                f"friction {term.parameter!r} is {term.model}, whose sticking is not simulated by events; use rk4"
            )
        if row.sticks:
            if chi[column] < 0.0:
                raise ExcitorError(
                    f"friction {term.parameter!r} is {chi[column]:.3g}; nothing sticks by negative friction; use rk4"
                )
            groups.setdefault((term.senses.tobytes(), term.acts.tobytes()), []).append((term, chi[column]))
    held = [group for group in groups.values() if sum(value for _, value in group) > 0.0]
    shape, n_dry = (len(held), robot.n_joints), len(held)
    falling = [[(term, value) for term, value in group if friction_model(term).shape != "sign"] for group in held]
    crowded = [group[1][0].parameter for group in falling if len(group) > 1]
    if crowded:
        raise ExcitorError(f"friction {crowded[0]!r} is a second stribeck term of one joint; use rk4")
    levels = [sum(value for term, value in group if friction_model(term).shape == "sign") for group in held]
    dry = Dry(
        senses=np.array([group[0][0].senses for group in held]).reshape(shape),
        acts=np.array([group[0][0].acts for group in held]).reshape(shape),
        level=np.array(levels, dtype=float),
        more=np.array([group[0][1] if group else 0.0 for group in falling], dtype=float),
        scale=np.array([group[0][0].scale if group else 1.0 for group in falling], dtype=float),
        sense=np.zeros(n_dry, dtype=np.int64),
        force=np.zeros(n_dry),
        free=np.zeros(n_dry),
        G=np.zeros((n_dry, n_dry)),
        small=np.zeros((n_dry, n_dry)),
        spread=np.zeros(shape[::-1]),
    )
    return tuple(group[0][0].parameter for group in held), dry


def _held_accelerations(robot: Robot, chi: FloatArray) -> _Accelerations:
    """Choose how rk45 finds ddq (n_joints,): by compiled code, or in numpy where friction is a registered law's."""
    if foreign_terms(robot):
        _check_memory(robot)
        return lambda q, dq, tau: forward_dynamics(robot, q[None], dq=dq[None], tau=tau[None], chi=chi)[0]
    from excitor.robots.kernel.steps import accelerations_at

    plant = plain_plant(robot, chi)
    return lambda q, dq, tau: accelerations_at(plant, (q, dq), tau)


def _rk45(accelerations: _Accelerations, tau: FloatArray, start: State, step: float) -> TrackedMotion:
    """Step scipy's integrator from sample to sample; its first step is the last one's length."""
    from scipy.integrate import RK45

    n = tau.shape[1]
    out = np.zeros((4, *tau.shape))
    state, length = np.asarray(np.concatenate(start), dtype=np.float64), 0.1 * step
    for k, torque in enumerate(tau):

        def rates(t: float, y: NDArray[np.float64], torque: FloatArray = torque) -> NDArray[np.float64]:
            ddq = accelerations(y[:n].copy(), y[n:].copy(), torque)
            return np.asarray(np.concatenate([y[n:], ddq]), dtype=np.float64)

        ddq = rates(0.0, state)[n:]
        out[:, k] = state[:n], state[n:], ddq, torque
        if not (np.abs(state[n:]).max() < _LOST and np.isfinite(ddq).all()):
            return until_lost(out, k, step)
        solver = RK45(rates, 0.0, state, step, rtol=RELATIVE, atol=ABSOLUTE, first_step=min(length, step))
        for _ in range(_MOST_STEPS):
            if solver.status != "running":
                break
            solver.step()
            length = solver.h_abs
        if solver.status != "finished":
            return until_lost(out, k + 1, step)
        state = solver.y
    return until_lost(out, len(tau), step)


def _checked(robot: Robot, tau: FloatArray, start: State) -> tuple[FloatArray, State]:
    tau, q, dq = np.asarray(tau, dtype=float), _own(start[0]), _own(start[1])
    check_shape(tau, "n_samples n_joints", "tau", {"n_joints": robot.n_joints})
    check_shape(q, str(robot.n_joints), "start[0]")
    check_shape(dq, str(robot.n_joints), "start[1]")
    return tau, (q, dq)


@dataclass(frozen=True, eq=False, slots=True)
class Servo:
    """Digital PD controller of joint torques, with or without a model's feedforward torques."""

    kp: FloatArray  # (n_joints,), N m/rad or N/m
    kd: FloatArray  # (n_joints,), N m s/rad or N s/m
    rate_hz: float
    feedforward: FloatArray | None = None  # (n_params,)
    inertia: FloatArray | None = None  # (n_joints,): what the gains were tuned on, where that is known
    velocity_filter: float = 0.0  # s: time constant of the velocity estimate; 0 for the bare backward difference
    lag: float = 0.0  # s: time constant of the current loop, with what the computation takes

    def __post_init__(self) -> None:
        freeze(self, kp="n_joints", kd="n_joints", inertia="n_joints?", feedforward="n_params?")
        if not 0.0 < self.rate_hz < np.inf:
            raise ValueError(f"rate_hz is {self.rate_hz}, expected a positive frequency")
        for name in ("velocity_filter", "lag"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 s or a time constant")

    @property
    def forget(self) -> float:
        """Share of the old velocity estimate that a new one keeps."""
        return float(np.exp(-1.0 / (self.rate_hz * self.velocity_filter))) if self.velocity_filter > 0.0 else 0.0


def servo_for(
    robot: Robot,
    motion: Motion,
    *,
    bandwidth_hz: float,
    damping: float = 0.7,
    chi: FloatArray | None = None,
    rate_hz: float = 1000.0,
) -> Servo:
    """Tune gains joint by joint on the inertia of a model along a motion: kp = ω² J, kd = 2 ζ ω J."""
    if not bandwidth_hz > 0.0 or not damping > 0.0:
        raise ValueError(f"bandwidth_hz is {bandwidth_hz}, damping {damping}, expected positive numbers")
    inertia = design_inertia(robot, motion, chi)
    omega = 2.0 * np.pi * bandwidth_hz
    return Servo(omega**2 * inertia, 2.0 * damping * omega * inertia, rate_hz, inertia=inertia)


def design_inertia(robot: Robot, motion: Motion, chi: FloatArray | None = None) -> FloatArray:
    """Find the largest inertia of each joint along a motion, (n_joints,).

    Joints of a closed chain that move together have many times the inertia near a singularity: all inertias are
    lowered there so far that the direction of least inertia keeps its damping.
    """
    M = mass_matrix(robot, motion.q[:: max(1, len(motion) // 200)], chi)
    inertia = np.asarray(np.diagonal(M, axis1=1, axis2=2).max(axis=0))
    if isinstance(robot.mechanism, CanBeSingular):
        lightness = np.linalg.eigvals(np.linalg.solve(M, np.diag(inertia)[None]))
        inertia = inertia * min(1.0, LIGHTEST / float(np.abs(lightness).max()))
    return inertia


def loop_poles(servo: Servo, masses: FloatArray) -> NDArray[np.complex128]:
    """Find the eigenvalues of one control step's map about poses with these mass matrices, (n_poses, 5 n_joints).

    The state is (q, dq, torque, last q, velocity estimate) of ddq = M⁻¹ u, exactly integrated under a command g that is
    held for a step h: u = g + (u₀ - g) exp(-t / lag). Friction, which damps, is left out.
    """
    n, h, lag, f = masses.shape[-1], 1.0 / servo.rate_hz, servo.lag, servo.forget
    left = float(np.exp(-h / lag)) if lag > 0.0 else 0.0
    once, twice = lag * (1.0 - left), lag * h - lag**2 * (1.0 - left)  # integrals of what is left of u₀ - g
    q, dq, u, last, kept = np.eye(5 * n).reshape(5, n, 5 * n)
    estimate = f * kept + (1.0 - f) / h * (q - last)
    g = -servo.kp[:, None] * q - servo.kd[:, None] * estimate
    pushed = np.linalg.solve(masses[:, None], np.stack([h * g + once * (u - g), h * h / 2.0 * g + twice * (u - g)]))
    rows = [q + h * dq + pushed[:, 1], dq + pushed[:, 0], g + left * (u - g), q, estimate]
    steps = np.concatenate([np.broadcast_to(row, (len(masses), n, 5 * n)) for row in rows], axis=1)
    return np.asarray(np.linalg.eigvals(steps), dtype=np.complex128)


def dampings(servo: Servo, masses: FloatArray) -> FloatArray:
    """Compute the least damping ratio of the closed loop in each pose, (n_poses,); below 0 it is unstable."""
    poles = loop_poles(servo, masses)
    s = np.log(np.where(np.abs(poles) > 1e-9, poles, 1e-9))
    return np.asarray((-s.real / np.maximum(np.abs(s), 1e-12)).min(axis=1))


def steady_servo(servo: Servo, along: FloatArray, elsewhere: FloatArray) -> Servo:
    """Return the servo if its loop is damped with the mass matrices along a motion, and stable with those elsewhere.

    Otherwise gains are lowered, those of light and coupled joints most: where they are proportional to inertias D, all
    modes are those of one joint with the eigenvalues of M⁻¹ D for gains, of which `STEADY` allows some largest value.
    A bandwidth that the time step damps with no gain is lowered first.
    """
    if dampings(servo, along).min() >= DAMPED and dampings(servo, elsewhere).min() >= HELD:
        return servo
    J = servo.kd if servo.inertia is None else servo.inertia
    k = int(np.argmax(servo.kp / servo.kd))
    one = replace(servo, kp=servo.kp[k : k + 1] / J[k], kd=servo.kd[k : k + 1] / J[k], inertia=None, feedforward=None)
    gains, slower = np.geomspace(64.0, 1e-6, 300), 1.0
    while (damped := dampings(one, 1.0 / gains[:, None, None])).max() < 2.0 * STEADY:
        one, slower = replace(one, kp=0.8 * one.kp), 0.8 * slower
    largest = gains[np.argmax(damped >= STEADY)]
    D = fitting_inertia(J / largest, np.concatenate([along, elsewhere])) * largest
    return replace(servo, kp=slower * servo.kp * D / J, kd=servo.kd * D / J)


def fitting_inertia(wanted: FloatArray, masses: FloatArray) -> FloatArray:
    """Find inertias D of single joints, none above those wanted, with M - D positive in all poses, (n_joints,).

    All are lowered alike until that holds; then each is raised in turn, by what 1 / (M - D)⁻¹ₖₖ allows.
    """
    D = 0.9 * wanted * min(1.0, 1.0 / float(np.linalg.eigvals(np.linalg.solve(masses, np.diag(wanted))).real.max()))
    for _ in range(_SWEEPS):
        for k in range(len(D)):
            slack = 1.0 / float(np.linalg.inv(masses - np.diag(D))[:, k, k].max())
            D[k] = min(wanted[k], D[k] + _TAKEN * slack)
    return np.asarray(D)


def follow(
    robot: Robot,
    reference: Motion,
    servo: Servo,
    *,
    chi: FloatArray | None = None,
    position_noise: FloatArray | None = None,
    width: float = WIDTH,
) -> TrackedMotion:
    """Simulate a robot with parameters chi (the prior where not given) under its servo.

    `reference` is sampled at servo.rate_hz; the robot starts on it, at its velocity. `position_noise` (n_samples,
    n_joints) is added to the positions that the controller reads.
    """
    check_shape(servo.kp, str(robot.n_joints), "servo.kp")
    if position_noise is not None:
        check_shape(position_noise, f"{len(reference)} {robot.n_joints}", "position_noise")
    robot, controller = smoothed(robot, width), packed_controller(servo)
    plant, forward = plain_plant(robot, prior(robot) if chi is None else chi), fed_forward(robot, reference, servo)
    good, out = run_controlled(plant, controller, reference, forward, position_noise)
    return until_lost(out, good, controller.step)


def smoothed(robot: Robot, width: float = WIDTH) -> Robot:
    """Smooth true signs of friction, where there are any: the robot that `follow` simulates."""
    if any(has_true_sign(term) for term in robot.drive.friction):
        return with_friction_width(robot, width)
    return robot


def fed_forward(robot: Robot, reference: Motion, servo: Servo) -> FloatArray:
    """Compute the servo's feedforward torques of the commanded motion, (n_samples, n_joints)."""
    if servo.feedforward is None:
        return np.zeros(reference.q.shape)
    return inverse_dynamics(robot, reference, servo.feedforward)


def _own(x: FloatArray) -> FloatArray:
    """Copy to a writable C-ordered array: compiled code takes other arrays for other types."""
    return np.array(x, dtype=float, order="C")


def packed_controller(servo: Servo) -> "Controller":
    """Pack a servo of exact encoders and motors without limits."""
    from excitor.robots.kernel.steps import Controller

    step = 1.0 / servo.rate_hz
    return Controller(
        kp=servo.kp.copy(),
        kd=servo.kd.copy(),
        limit=np.full(servo.kp.size, np.inf),
        quantum=np.zeros(servo.kp.size),
        lag=servo.lag,
        forget=servo.forget,
        step=step,
        substeps=max(1, int(np.ceil(step / LONGEST_STEP - 1e-9))),
    )


def until_lost(out: FloatArray, good: int, step: float) -> TrackedMotion:
    """Build the result from the signals of the first `good` samples; after them a diverged robot stands still."""
    lost = good < out.shape[1]
    if lost:
        out[:, good:] = 0.0
        out[0, good:] = out[0, max(good - 1, 0)]
    return TrackedMotion(Motion(out[0], out[1], out[2]), out[3], good * step if lost else np.inf)


class Links(TypedDict):
    """Fields of `kernel.plant.Plant` that the mechanism determines."""

    chain: Chain
    phi: FloatArray
    closing: LoopClosure | None


def links_of(robot: Robot, phi: FloatArray) -> Links:
    """Pack a robot's mechanism with the parameters of its bodies, (n_links, 10)."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        closing = LoopClosure(
            loops=loops(mechanism),
            given=mechanism.actuated,
            dependent=dependents(mechanism, mechanism.actuated),
            position=mechanism.home.copy(),
            stride=strides(mechanism),
            tolerance=tolerance(mechanism),
        )
        return Links(chain=chain(mechanism.tree), phi=mechanism.tree_parameters(phi), closing=closing)
    if not isinstance(mechanism, Tree):
        raise ExcitorError(f"{robot.name}: {type(mechanism).__name__} cannot be simulated under a controller")
    return Links(chain=chain(mechanism), phi=np.ascontiguousarray(phi), closing=None)


def plain_plant(robot: Robot, chi: FloatArray) -> "Plant":
    """Pack a robot with lossless rigid gears and constant temperature, driven by joint torques."""
    from excitor.robots.kernel.plant import Plant

    params, n = layout(robot), robot.n_joints
    chi = np.array(chi, dtype=float)  # of its own: what is locked would be compiled as a type of its own
    check_shape(chi, str(len(params)), "chi")
    friction = chi[list(params.friction_columns)]
    return Plant(
        **links_of(robot, chi[: params.n_link_params].reshape(-1, 10)),
        rotors=rotor_matrix(robot, chi),
        elements=friction_elements(robot),
        friction=friction,
        warmth=np.zeros(friction.size),
        seat=np.zeros(friction.size, dtype=np.int64),
        gears=np.eye(n),
        ungears=np.eye(n),
        loss=np.zeros((n, 2)),
        width=np.ones(n),
        stiffness=np.zeros(0),
        damping=np.zeros(0),
        stuck=np.zeros(n, dtype=np.bool_),
        heat=np.zeros(n),
        relief=0.0,
        ambient=0.0,
        temperature=np.zeros(n),
    )


def friction_elements(robot: Robot) -> Elements:
    """Return the friction terms of a robot's packed drive elements."""
    refuse_foreign(robot, "simulation of a plant")
    packed, n_rotors = drive_elements(robot), len(robot.drive.rotors)
    return packed._replace(**{name: np.ascontiguousarray(part[n_rotors:]) for name, part in packed._asdict().items()})
