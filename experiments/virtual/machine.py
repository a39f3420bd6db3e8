"""What a virtual robot does under its controller, and what it records: `run_program`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.design.programs.plan import Plan
from excitor.experiments.virtual.course import Course, commanded, lay_course
from excitor.experiments.virtual.faults import Fault, aimed
from excitor.experiments.virtual.plant import controller_of, plant_of
from excitor.experiments.virtual.recorded import Recorded
from excitor.experiments.virtual.sensors import record
from excitor.experiments.virtual.settings import Settings
from excitor.experiments.virtual.truth import Truth
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import with_friction_width

LEAD = 0.5  # s


@dataclass(frozen=True, eq=False, slots=True)
class Driven:
    """What truly happened, at every step of the controller; motors' side of gears that give way."""

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


def run_program(truth: Truth, plan: Plan, *, seed: int, faults: Sequence[Fault | str] = ()) -> Recorded:
    """Run a whole program, from before it starts to after it ends, and record what a controller could offer.

    The same truth, plan, seed and faults give the same bits.
    """
    check_same_robot(truth, plan.robot)
    chosen = [aimed(fault, plan, seed) for fault in faults]
    for fault in chosen:
        truth = fault.before(truth, plan)
    rng = np.random.default_rng([seed, 0x6C6F67])
    course = lay_course(plan, truth.settings, rng)
    recorded = record(truth, course, drive(truth, course), rng)
    for fault in chosen:
        recorded = fault.after(recorded, seed)
    return recorded


@one_blas_thread()
def drive(truth: Truth, course: Course) -> Driven:
    """Simulate the robot under its controller; ExcitorError where it gets out of control."""
    from excitor.robots.kernel import steps as loop

    step = servo_step(truth.settings, course.plan.sample_time)
    lead = round(LEAD / step)  # before the log: a robot that has been standing has come to rest on its friction
    t = step * np.arange(-lead, int(course.end / step) + 1)
    motion = Motion(*(commanded(course, t - truth.settings.command_lag, order) for order in range(3)))
    forward = fed_forward(course.plan.robot, motion)
    plant = plant_of(truth, course.plan.robot)
    controller = controller_of(truth, course.plan.robot, motion, forward, step)
    out = np.zeros((loop.N_SIGNALS_CLOSED_LOOP, len(t), truth.robot.n_joints))
    out[loop.TEMPERATURE, 0] = truth.temperature
    reference = (np.ascontiguousarray(motion.q), np.ascontiguousarray(motion.dq), forward)
    done = loop.run_closed_loop(plant, controller, reference, out)
    if done < len(t):
        raise ExcitorError(
            f"{course.plan.robot.name}: run {course.plan.run!r} got out of control after {t[done]:.3g} s; "
            "a lower bandwidth_hz of the virtual controller may hold it"
        )
    return Driven(t[lead:], *out[:, lead:])


def servo_step(settings: Settings, sample_time: float) -> float:
    """Tell how long the servo loop's step is: a whole part of the log's, s."""
    step = settings.log_step or sample_time
    return step / max(1, int(np.ceil(step / settings.control_step - 1e-9)))


def fed_forward(robot: Robot, motion: Motion) -> FloatArray:
    """Find the torques of the model that the controller has, payload as stated, (n_steps, n_joints)."""
    smooth = with_friction_width(robot, 0.01)
    return np.ascontiguousarray(inverse_dynamics(smooth, motion, prior(robot)))


def check_same_robot(truth: Truth, robot: Robot) -> None:
    """Refuse a plan of another robot."""
    n = len(layout(robot))
    if robot.name != truth.robot.name or layout(truth.robot).names[:n] != layout(robot).names:
        raise ValueError(f"the plan is of {robot.name} and the truth of another robot, {truth.robot.name}")
