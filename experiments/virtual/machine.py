"""Simulation of a virtual robot under its controller, and its recorded signals: `run_program`.

It contains the timing of a program's segments and rests, the simulated sensors, encoders and logger, and typical faults
that can be injected with a given joint and size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.signal

from excitor.design.programs.plan import BACK, END, MEASURED, OUT, Plan, Stretches, StretchName, marks
from excitor.experiments.log_formats import motor_torque_scale, torque_scale
from excitor.experiments.virtual.robot import Settings, Truth, controller_of, encoder_steps, plant_of
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.dynamics import frame_jacobian, inverse_dynamics, rigid_torque
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.friction import joint_positions, motor_positions, torque_from_current
from excitor.robots.inertia import change_frame, from_center_of_mass
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import run_controlled, with_friction_width

if TYPE_CHECKING:
    from excitor.robots.kernel.steps import Controller

Engine = Literal["excitor", "mujoco"]
LEAD = 0.5  # s
POSITION, TORQUE = 0, 3  # of a simulation's signals
ALLOWED, ALLOWED_STILL = 0.03, 2e-3  # of a joint's travel, and rad or m at least: what a robot may be off its reference
CHATTER = 5.0  # times the planned torque's steps from sample to sample, and the noise
_SATURATED = 0.01  # share of the time


@dataclass(frozen=True, eq=False, slots=True)
class Tracking:
    """How a servo followed what was commanded, by joint."""

    controller: "Controller"
    error: FloatArray  # (n_joints,), rad or m: the largest
    allowed: FloatArray
    chatter: FloatArray  # steps of torque from sample to sample over those planned and the noise, rms
    saturated: FloatArray  # share of the time at the motor's limit

    def __post_init__(self) -> None:
        freeze(self, error="n_joints", allowed="n_joints", chatter="n_joints", saturated="n_joints")

    def data(self) -> dict[str, Any]:
        """Write it as plain data for JSON."""
        servo, of = self.controller, {"error": self.error, "allowed": self.allowed}
        by_joint = {key: x.tolist() for key, x in ({"kp": servo.kp, "kd": servo.kd} | of).items()}
        return {"step": servo.step, "lag": servo.lag, "forget": servo.forget, **by_joint}


@dataclass(frozen=True, eq=False, slots=True)
class TrueMotion:
    """True state at every step of the controller; motors' side of gears that give way."""

    tracking: Tracking
    t: FloatArray  # (n,)
    q: FloatArray  # (n, n_joints)
    dq: FloatArray
    ddq: FloatArray
    torque_motor: FloatArray
    torque_link: FloatArray  # at the joints, of links alone
    dq_estimate: FloatArray  # the controller's own
    temperature: FloatArray

    def __post_init__(self) -> None:
        each = ("q", "dq", "ddq", "torque_motor", "torque_link", "dq_estimate", "temperature")
        freeze(self, order="C", finite=True, t="n", **dict.fromkeys(each, "n n_joints"))


@dataclass(frozen=True, eq=False, slots=True)
class RecordedRun:
    """Signals on the controller's clock, in SI units; one that this robot's drives do not have is NaN throughout."""

    program: str
    robot: Robot  # as the campaign knows it, not as it truly is
    t: FloatArray  # (n,), s: stamps of the controller's clock, uneven where sampling jitters
    mark: IntArray  # (n,): as programs set them; 0 where none is set
    q_reference: FloatArray  # (n, n_joints), joint side: what was commanded
    dq_reference: FloatArray
    q: FloatArray  # (n, n_joints), joint side, from the motors' encoders
    dq: FloatArray
    q_motor: FloatArray  # (n, n_joints)
    current: FloatArray  # (n, n_joints), A
    torque_motor: FloatArray  # (n, n_joints), N m at the motors
    torque_joint: FloatArray  # (n, n_joints), N m or N: of a sensor at the joint
    temperature: FloatArray  # (n, n_joints), °C of the motors
    speed_scaling: FloatArray  # (n,): share of the planned speed
    tracking: Tracking

    def __post_init__(self) -> None:
        each = dict.fromkeys((*POSITIONS, *VELOCITIES, "q_motor", *TORQUES, "temperature"), "n n_joints")
        freeze(self, finite=False, order="C", t="n", mark="int: n", speed_scaling="n", **each)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Joints and size that are not given are drawn (random) when a plan is run."""

    name: str
    sentence: str
    channel: str = ""  # which kind of signal, of faults that have several; or how it shows
    joints: tuple[int, ...] = ()
    size: float = 0.0

    def before(self, truth: Truth, plan: Plan) -> Truth:
        """Apply the fault to the robot."""
        change = _BEFORE.get(self.name)
        return change(self, truth, plan) if change else truth

    def after(self, recorded: RecordedRun, seed: int) -> RecordedRun:
        """Apply the fault to the recording."""
        change = _AFTER.get(self.name)
        return change(self, recorded, seed) if change else recorded


def run_program(
    truth: Truth, plan: Plan, *, seed: int, faults: Sequence[Fault | str] = (), engine: Engine = "excitor"
) -> RecordedRun:
    """Run a whole program and record the controller's signals, reproducibly for the same arguments.

    ExcitorError where the robot does not follow its reference, which faults that change it may cause.
    """
    check_same_robot(truth, plan.robot)
    chosen = [aimed(fault, plan, seed) for fault in faults]
    for fault in chosen:
        truth = fault.before(truth, plan)
    rng = np.random.default_rng([seed, 0x6C6F67])
    course = lay_course(plan, truth.settings, rng)
    driven = drive(truth, course, engine)
    if (
        plan.torques is None
        and not any(fault.name in _BEFORE for fault in chosen)
        and not truth.settings.stuck + truth.settings.limited
    ):
        check_tracking(driven.tracking, plan)
    recorded = record(truth, course, driven, rng)
    for fault in chosen:
        recorded = fault.after(recorded, seed)
    return recorded


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """A plan with times on a clock that starts with a logger."""

    plan: Plan
    speed: float  # of the program's clock
    starts: tuple[tuple[StretchName, float], ...]  # s, of stretches that take time
    end: float  # s

    def length(self, stretch: StretchName) -> float:
        """Compute the duration of a segment at this speed, s."""
        return self.plan.stretch(stretch).duration / self.speed


@one_blas_thread()
def drive(truth: Truth, course: Course, engine: Engine = "excitor") -> TrueMotion:
    """Simulate the robot under its controller; ExcitorError where it diverges."""
    logged = truth.settings.log_step or course.plan.sample_time
    step = logged / max(1, int(np.ceil(logged / truth.settings.control_step - 1e-9)))  # s, of the servo loop
    lead = round(LEAD / step)  # before the log: a robot that has been standing has come to rest on its friction
    t = step * np.arange(-lead, int(course.end / step) + 1)
    motion = Motion(*(commanded(course, t - truth.settings.command_lag, order) for order in range(3)))
    robot = course.plan.robot
    if course.plan.torques is None:
        forward = fed_forward(truth, robot, motion)
        controller = controller_of(truth, robot, motion, forward, step)
    else:  # open loop: a servo without gains that passes the torques on
        motion, forward = open_loop_inputs(course, t)
        controller = replace_gains(controller_of(truth, robot, motion, forward, step))
    if engine == "mujoco":
        from excitor.experiments.virtual.mujoco_plant import run_mujoco

        done, out = run_mujoco(truth, robot, controller, (motion, forward))
    else:
        done, out = run_controlled(plant_of(truth, robot), controller, motion, forward)
    if done < len(t):
        raise ExcitorError(
            f"{robot.name}: run {course.plan.run!r} got out of control after {t[done]:.3g} s, so nothing was written; "
            "state rotor inertias, or slow the motion down"
        )
    tracking = tracked(truth, course, controller, (motion.q, forward), out)
    return TrueMotion(tracking, t[lead:], *out[:, lead:])


def open_loop_inputs(course: Course, t: FloatArray) -> tuple[Motion, FloatArray]:
    """Build the pose at home as a reference, and the torques that the drives are given, each held, (n_t, n_joints)."""
    plan = course.plan
    assert plan.torques is not None
    start = dict(course.starts)["main"]
    k = np.floor((t - start) * course.speed / plan.torques.sample_time + 1e-6).astype(np.int64)
    tau = np.concatenate([plan.torques.tau, np.zeros((1, plan.robot.n_joints))])
    given = tau[np.where((k >= 0) & (k < len(tau)), k, len(tau) - 1)]
    return posture(np.tile(plan.home, (len(t), 1))), np.ascontiguousarray(given)


def replace_gains(controller: "Controller") -> "Controller":
    """Take a servo's gains away."""
    return controller._replace(kp=0.0 * controller.kp, kd=0.0 * controller.kd)


def tracked(
    truth: Truth, course: Course, controller: "Controller", asked: tuple[FloatArray, FloatArray], out: FloatArray
) -> Tracking:
    """Compare a simulation with the positions and torques that were asked for, each (n_steps, n_joints)."""
    robot, every = course.plan.robot, round((truth.settings.log_step or course.plan.sample_time) / controller.step)
    ungears = np.linalg.inv(robot.drive.motor_from_joint)
    planned, given = asked[1] @ ungears, out[TORQUE]
    steps = [np.sqrt(np.mean(np.diff(tau[::every], axis=0) ** 2, axis=0)) for tau in (planned, given)]
    noise = truth.settings.white * motor_torque_scale(robot) + 1e-9 * np.abs(planned).max()
    return Tracking(
        controller,
        error=np.abs(out[POSITION] - asked[0]).max(axis=0),
        allowed=np.maximum(ALLOWED * np.ptp(asked[0], axis=0), ALLOWED_STILL),
        chatter=steps[1] / (steps[0] + noise),
        saturated=np.mean(np.abs(given) >= controller.limit, axis=0),
    )


def check_tracking(tracking: Tracking, plan: Plan) -> None:
    """Raise ExcitorError with the reason where a robot did not follow its reference, or its torques chattered."""
    robot = plan.robot
    worst = tracking.error / tracking.allowed
    shaken = tracking.chatter / CHATTER
    j, k = int(np.argmax(np.maximum(worst, shaken))), int(np.argmax(tracking.saturated))
    if max(worst[j], shaken[j]) <= 1.0:
        return
    units = [("m", "N", "N/m") if slides else ("rad", "N m", "N m/rad") for slides in robot.mechanism.prismatic]
    said = f"{robot.name}: in run {plan.run!r} the virtual robot's joint {robot.joint_names[j]} "
    if shaken[j] > worst[j]:
        said += f"chatters: its torque jumps from sample to sample {tracking.chatter[j]:.3g} times as far as planned"
    else:
        off, allowed = f"{tracking.error[j]:.3g} {units[j][0]}", f"{tracking.allowed[j]:.3g}"
        said += f"is {off} off its reference, more than the {allowed} allowed"
    if tracking.saturated[k] > _SATURATED:
        limit = f"its limit of {tracking.controller.limit[k]:.4g} {units[k][1]}"
        share = f"{100.0 * tracking.saturated[k]:.2g} % of the time"
        why = f"the motor of {robot.joint_names[k]} is at {limit} for {share}; state more"
    else:
        stiffness = f"{1e3 * tracking.controller.step:.2g} ms steps is only as stiff as {tracking.controller.kp[j]:.3g}"
        why = f"a stable loop of {stiffness} {units[j][2]}; state rotor inertias, the friction, a smaller torque limit"
    raise ExcitorError(f"{said}: {why}, or slow the motion down; nothing was written")


def fed_forward(truth: Truth, robot: Robot, motion: Motion) -> FloatArray:
    """Compute the feedforward torques of the controller's model, payload as stated, (n_steps, n_joints).

    Its maker knows the drives whose rotors and friction the robot's file does not state.
    """
    chi, drives = prior(robot), slice(layout(robot).n_link_params, len(layout(robot)))
    chi[drives] = np.where(robot.known[drives], chi[drives], truth.chi[drives])
    smooth = with_friction_width(robot, 0.01)
    return np.ascontiguousarray(inverse_dynamics(smooth, motion, chi))


def check_same_robot(truth: Truth, robot: Robot) -> None:
    """Refuse a plan of another robot."""
    n = len(layout(robot))
    if robot.name != truth.robot.name or layout(truth.robot).names[:n] != layout(robot).names:
        raise ValueError(f"the plan is of {robot.name} and the truth of another robot, {truth.robot.name}")


def lay_course(plan: Plan, settings: Settings, rng: np.random.Generator) -> Course:
    """Draw the durations of rests, and place the plan's segments between."""
    t = rng.uniform(*settings.standing)
    starts: list[tuple[StretchName, float]] = []
    for stretch in Stretches:
        span = plan.stretch(stretch).duration / settings.speed
        if span > 0.0:
            starts.append((stretch, t))
            t += span + rng.uniform(*settings.standing)
    return Course(plan, settings.speed, tuple(starts), t)


def commanded(course: Course, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of the commanded motion, (n_t, n_joints)."""
    plan = course.plan
    out = np.tile(plan.home if order == 0 else 0.0 * plan.home, (len(t), 1))
    for stretch, start in course.starts:
        after = t >= start
        if order == 0:
            out[after] = plan.home if stretch == "back" else plan.start
        inside = after & (t < start + course.length(stretch))
        out[inside] = course.speed**order * plan.stretch(stretch).at(course.speed * (t[inside] - start), order)
    return out


def marked(course: Course, t: FloatArray) -> IntArray:
    """Compute the mark that the program has set, (n_t,): 0 while it stands."""
    out = np.zeros(len(t), dtype=np.int64)
    for stretch, start in course.starts:
        stop = start + course.length(stretch)
        steps = {"out": ((0.0, OUT),), "back": ((0.0, BACK),)}.get(stretch) or marks(course.plan)
        for begin, mark in steps:
            out[(t >= start + begin / course.speed) & (t < stop)] = mark
        out[t >= stop] = END if stretch == course.starts[-1][0] else 0
    return out


MEMORY = 0.98  # of the slow error from one sample to the next


def with_noise(tau: FloatArray, rng: np.random.Generator, *, white: FloatArray, slow: FloatArray) -> FloatArray:
    """Add white noise and a slowly varying error, with the given standard deviations a joint, to (n_samples, n_joints).

    The slow error is x_k = m x_{k-1} + (1 - m) w_k, scaled to its standard deviation.
    """
    drive = rng.normal(size=tau.shape)
    walk = scipy.signal.lfilter([1.0 - MEMORY], [1.0, -MEMORY], drive, axis=0)
    stationary = (1.0 - MEMORY) / np.sqrt(1.0 - MEMORY**2)
    return np.asarray(tau + rng.normal(size=tau.shape) * white + walk / stationary * slow)


def record(truth: Truth, course: Course, driven: "TrueMotion", rng: np.random.Generator) -> RecordedRun:
    """Sample and quantise the true signals with noise, on the logger's clock."""
    settings, plan = truth.settings, course.plan
    step = settings.log_step or plan.sample_time
    t = step * np.arange(int(driven.t[-1] / step + 1e-9) + 1)
    wobble = np.clip(rng.normal(size=len(t)), -3.0, 3.0) * min(settings.jitter, 0.16) * step
    t = np.clip(t + wobble, 0.0, driven.t[-1])
    q_motor = motor_positions(plan.robot, hermite(driven, t))
    quantum = encoder_steps(truth, plan.robot)
    exact = quantum == 0.0
    q_motor = np.where(exact, q_motor, np.round(q_motor / np.where(exact, 1.0, quantum)) * quantum)
    known = replace(truth, settings=replace(settings, white=0.0, slow=0.0)) if plan.torques is not None else truth
    given = sampled(driven, "torque_motor", t - settings.sensor_lag)
    current, torque_motor = motor_side(known, plan.robot, given, rng)  # torques that were commanded are known
    shown = settings.speed if settings.speed_told else 1.0
    recorded = RecordedRun(
        program=plan.run,
        robot=plan.robot,
        t=t * (1.0 + settings.clock_drift),
        mark=marked(course, t),
        q_reference=commanded(course, t),
        dq_reference=commanded(course, t, 1),
        q=joint_positions(plan.robot, q_motor),
        dq=sampled(driven, "dq_estimate", t),
        q_motor=q_motor,
        current=current,
        torque_motor=torque_motor,
        torque_joint=joint_sensors(truth, sampled(driven, "torque_link", t - settings.sensor_lag), rng),
        temperature=sampled(driven, "temperature", t),
        speed_scaling=np.full(len(t), shown),
        tracking=driven.tracking,
    )
    lost = rng.uniform(size=len(t)) < settings.dropped
    return with_rows(recorded, ~lost) if lost.any() else recorded


def with_rows(recorded: RecordedRun, rows: BoolArray) -> RecordedRun:
    """Keep some rows of every signal."""
    signals = [field.name for field in fields(RecordedRun) if field.name not in ("program", "robot", "tracking")]
    return replace(recorded, **{name: getattr(recorded, name)[rows] for name in signals})


def sampled(driven: "TrueMotion", name: str, t: FloatArray) -> FloatArray:
    """Interpolate a signal between the controller's steps, linearly."""
    values = getattr(driven, name)
    k, share = _place(driven, t)
    return np.asarray(values[k] + share * (values[k + 1] - values[k]))


def hermite(driven: "TrueMotion", t: FloatArray) -> FloatArray:
    """Interpolate positions by cubics that have the velocities at the controller's steps."""
    k, s = _place(driven, t)
    h = driven.t[1] - driven.t[0]
    q0, q1, v0, v1 = driven.q[k], driven.q[k + 1], h * driven.dq[k], h * driven.dq[k + 1]
    rise = s * s * (3.0 - 2.0 * s)
    return np.asarray(q0 + rise * (q1 - q0) + s * (1.0 - s) * ((1.0 - s) * v0 - s * v1))


def _place(driven: "TrueMotion", t: FloatArray) -> tuple[IntArray, FloatArray]:
    h = driven.t[1] - driven.t[0]
    k = np.clip(np.floor(t / h + 1e-9).astype(np.int64), 0, len(driven.t) - 2)
    share = np.clip(t / h - k, 0.0, 1.0)
    return k, np.where(np.abs(share) < 1e-9, 0.0, share)[:, None]


def motor_side(
    truth: Truth, robot: Robot, torque: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Simulate measured currents and the motor torques that the controller computes by the prior's law.

    Where the prior has no law, torques are those of the drives, and currents follow the truth's. Noise is of currents.
    """
    scale = motor_torque_scale(robot)
    white, slow = truth.settings.white * scale, truth.settings.slow * scale
    if not robot.drive.has_current_law:
        torque, law = with_noise(torque, rng, white=white, slow=slow), truth.torque_from_current
        return np.full(torque.shape, np.nan) if np.isnan(law).any() else currents(law, torque), torque
    slope = truth.torque_from_current[:, 1]
    current = with_noise(currents(truth.torque_from_current, torque), rng, white=white / slope, slow=slow / slope)
    return current, torque_from_current(robot, current)


def currents(law: FloatArray, torque: FloatArray) -> FloatArray:
    """Invert τ = sgn(I) (c0 + c1 |I| + c2 I² + c3 |I|³) on its rising branch; beyond, the current of its maximum."""
    out = np.empty_like(torque)
    for i, (c0, c1, c2, c3) in enumerate(law):
        size = np.maximum(np.abs(torque[:, i]) - c0, 0.0)
        turns = np.roots([3.0 * c3, 2.0 * c2, c1]) if c3 or c2 else np.zeros(0)
        tops = [float(root.real) for root in turns if abs(root.imag) < 1e-12 and root.real > 0.0]
        top = min(tops, default=2.0 * float(size.max(initial=1.0)) / c1)
        found = np.minimum(size / c1, top)
        low, high = np.zeros_like(size), np.full_like(size, top)
        for _ in range(60):
            error = found * (c1 + found * (c2 + found * c3)) - size
            low, high = np.where(error < 0.0, found, low), np.where(error < 0.0, high, found)
            slope = c1 + found * (2.0 * c2 + found * 3.0 * c3)
            newton = found - error / np.where(slope > 0.0, slope, 1.0)
            inside = (newton >= low) & (newton <= high) & (slope > 0.0)
            found = np.where(inside, newton, 0.5 * (low + high))
        out[:, i] = np.sign(torque[:, i]) * found
    return out


def joint_sensors(truth: Truth, torque: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Measure torques at the joints, where there are sensors."""
    if not truth.settings.joint_sensors:
        return np.full(torque.shape, np.nan)
    return np.asarray(torque + rng.normal(size=torque.shape) * truth.settings.sensor_white * torque_scale(truth.robot))


POSITIONS = ("q_reference", "q")
VELOCITIES = ("dq_reference", "dq")
TORQUES = ("current", "torque_motor", "torque_joint")
_MOVES = 0.02  # rad or m that a joint must travel for a fault in it to show


def ratio(robot: Robot, joint: int) -> float:
    """Read the gear ratio of a joint's own motor."""
    row = robot.drive.motor_from_joint[joint]
    return float(row[joint] or row[np.argmax(np.abs(row))])


def _main(plan: Plan) -> Motion:
    t = np.linspace(0.0, plan.body.duration, 800)
    return Motion(*(plan.body.at(t, order) for order in range(3)))


def _set(truth: Truth, **settings: Any) -> Truth:
    return replace(truth, settings=replace(truth.settings, **settings))


def _hang(fault: Fault, truth: Truth, plan: Plan) -> Truth:
    """Attach a ball to the flange: `size` times the mass whose weight uses up the weakest joint's torque."""
    gravity = plan.robot.mechanism.gravity
    g = gravity if gravity.any() else np.array([0.0, 0.0, -9.81])
    weights = np.abs(np.einsum("ikj,k->ij", frame_jacobian(plan.robot, _main(plan).q)[:, :3], g))
    mass = fault.size * float(np.min(torque_scale(plan.robot) / np.maximum(weights.max(axis=0), 1e-3)))
    radius = 0.05 * np.cbrt(mass)  # of iron, and then some
    ball = from_center_of_mass(mass, np.array([0.0, 0.0, radius]), 0.4 * mass * radius**2 * np.eye(3))
    tool = truth.robot.tool
    link = tool.link if tool.link >= 0 else truth.robot.mechanism.n_links - 1
    chi = truth.chi.copy()
    chi[10 * link : 10 * link + 10] += change_frame(ball, tool.T_link_frame)
    return replace(truth, chi=chi)


def _swap(fault: Fault, recorded: RecordedRun, seed: int) -> RecordedRun:
    order = np.arange(recorded.robot.n_joints)
    order[list(fault.joints)] = fault.joints[::-1]
    names = TORQUES if fault.channel == "torque" else (*POSITIONS, *VELOCITIES, "q_motor", *TORQUES, "temperature")
    return replace(recorded, **{name: getattr(recorded, name)[:, order] for name in names})


def _in_degrees(fault: Fault, recorded: RecordedRun, seed: int) -> RecordedRun:
    factor = np.where(recorded.robot.mechanism.prismatic, 1.0, 180.0 / np.pi)
    return _scaled(recorded, (*POSITIONS, *VELOCITIES, "q_motor"), factor)


def _flip(fault: Fault, recorded: RecordedRun, seed: int) -> RecordedRun:
    factor = np.ones(recorded.robot.n_joints)
    factor[list(fault.joints)] = -1.0
    return _scaled(recorded, TORQUES if fault.channel == "torque" else ("q", "dq", "q_motor"), factor)


def _forget_gear(fault: Fault, recorded: RecordedRun, seed: int) -> RecordedRun:
    """Replace the joint's angle by the motor's, or the motor's torque by the joint's: an error of the gear ratio."""
    factor = np.ones(recorded.robot.n_joints)
    for i in fault.joints:
        factor[i] = ratio(recorded.robot, i)
    return _scaled(recorded, TORQUES[1:] if fault.channel == "torque" else ("q", "dq", "q_motor"), factor)


def _drop(fault: Fault, recorded: RecordedRun, seed: int) -> RecordedRun:
    rng = np.random.default_rng([seed, 0x64])
    kept = rng.uniform(size=len(recorded.t)) >= fault.size
    measured = np.flatnonzero(recorded.mark >= MEASURED)
    middle = recorded.t[rng.choice(measured if measured.size else np.arange(len(kept)))]
    kept &= np.abs(recorded.t - middle) > 0.5 * rng.uniform(0.3, 1.0)
    return with_rows(recorded, kept)


def _scaled(recorded: RecordedRun, names: tuple[str, ...], factor: FloatArray) -> RecordedRun:
    return replace(recorded, **{name: getattr(recorded, name) * factor for name in names})


_BEFORE: Mapping[str, Callable[[Fault, Truth, Plan], Truth]] = {
    "half-speed": lambda fault, truth, _: _set(truth, speed=0.5, speed_told=fault.channel == "shown"),
    "stuck-joint": lambda fault, truth, _: _set(truth, stuck=fault.joints),
    "saturated-current": lambda fault, truth, _: _set(truth, limited=fault.joints),
    "wrong-payload": _hang,
}
_AFTER: Mapping[str, Callable[[Fault, RecordedRun, int], RecordedRun]] = {
    "swapped-axes": _swap,
    "degrees": _in_degrees,
    "flipped-sign": _flip,
    "missing-gear": _forget_gear,
    "dropped-samples": _drop,
}

FAULTS: Mapping[str, Fault] = {
    name: Fault(name, sentence)
    for name, sentence in {
        "swapped-axes": "the log has the columns of two joints in each other's place",
        "degrees": "positions and velocities are in degrees where radians are declared",
        "flipped-sign": "one joint's torque, or its position, has the wrong sign",
        "missing-gear": "one motor's position, or its torque, was not divided by its gear ratio",
        "half-speed": "the speed slider stood at 50 %: the motion took twice as long",
        "dropped-samples": "the logger lost samples, some one by one and some in a gap",
        "stuck-joint": "a joint's brake stayed closed: it did not move",
        "saturated-current": "a drive gave less current than the motion needs: its torque is cut off",
        "wrong-payload": "an unstated mass is attached to the flange",
    }.items()
}
CHANNELS: Mapping[str, tuple[str, ...]] = {
    "swapped-axes": ("all", "torque"),
    "flipped-sign": ("torque", "position"),
    "missing-gear": ("position", "torque"),
    "half-speed": ("shown", "hidden"),
}


def aimed(fault: Fault | str, plan: Plan, seed: int) -> Fault:
    """Choose unset values: joints in which the fault can show in this plan, channel, size; ValueError if none can."""
    if isinstance(fault, str):
        if fault not in FAULTS:
            raise ValueError(f"there is no fault {fault!r}, expected one of {choice(fault, FAULTS)}")
        fault = FAULTS[fault]
    rng = np.random.default_rng([seed, list(FAULTS).index(fault.name)])
    channel = fault.channel or CHANNELS.get(fault.name, ("",))[0]
    low, high = {"dropped-samples": (0.02, 0.06), "wrong-payload": (0.05, 0.15)}.get(fault.name, (0.0, 0.0))
    size = fault.size or float(rng.uniform(low, high))
    joints = fault.joints
    if not joints:
        candidates = _CANDIDATES.get(fault.name)
        open_to = [] if candidates is None else candidates(plan)
        wanted = 2 if fault.name == "swapped-axes" else int(candidates is not None)
        if len(open_to) < wanted:
            raise ValueError(f"fault {fault.name!r} shows in no joint of {plan.robot.name} in run {plan.run!r}")
        joints = tuple(int(i) for i in rng.choice(open_to, wanted, replace=False)) if wanted else ()
    return replace(fault, channel=channel, size=size, joints=joints)


def moving(plan: Plan) -> list[int]:
    """List joints that the main part of a plan moves."""
    q = _main(plan).q
    return [i for i in range(plan.robot.n_joints) if np.ptp(q[:, i]) > _MOVES]


def geared(plan: Plan) -> list[int]:
    """List moving joints with a gear ratio other than 1."""
    return [i for i in moving(plan) if abs(np.log(abs(ratio(plan.robot, i)))) > 0.1]


def hungry(plan: Plan) -> list[int]:
    """List moving joints whose torque rarely comes near its peak, which is well above their holding torque.

    A joint that friction dominates always does: cut off, it would not move at all.
    """
    motion = _main(plan)
    torque = np.abs(inverse_dynamics(plan.robot, motion))
    still = np.abs(rigid_torque(plan.robot, posture(motion.q), prior(plan.robot))).max(axis=0)
    peak, near = torque.max(axis=0), np.mean(torque > 0.7 * torque.max(axis=0), axis=0)
    return [i for i in moving(plan) if peak[i] > 1.2 * still[i] and near[i] < 0.3]


_CANDIDATES: Mapping[str, Callable[[Plan], list[int]]] = {
    "swapped-axes": moving,
    "flipped-sign": moving,
    "missing-gear": geared,
    "stuck-joint": moving,
    "saturated-current": hungry,
}
