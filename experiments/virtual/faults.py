"""The classics of the field, done to a virtual robot on purpose: what is wrong, in which joint, and how badly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.programs.plan import MEASURED, Plan, duration, planned
from excitor.experiments.virtual.recorded import Recorded
from excitor.experiments.virtual.sensors import with_rows
from excitor.experiments.virtual.truth import Truth, torque_scale
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_jacobian, inverse_dynamics, rigid_torque
from excitor.robots.inertia import change_frame, from_center_of_mass
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot, posture

POSITIONS = ("q_reference", "q")
VELOCITIES = ("dq_reference", "dq")
TORQUES = ("current", "torque_motor", "torque_joint")
_MOVES = 0.02  # rad or m that a joint must travel for a fault in it to show


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. Joints and size that are not chosen are drawn when a plan is run."""

    name: str
    sentence: str
    channel: str = ""  # which kind of signal, of faults that have several; or how it shows
    joints: tuple[int, ...] = ()
    size: float = 0.0

    def before(self, truth: Truth, plan: Plan) -> Truth:
        """Put the fault into the robot."""
        change = _BEFORE.get(self.name)
        return change(self, truth, plan) if change else truth

    def after(self, recorded: Recorded, seed: int) -> Recorded:
        """Put the fault into what was recorded."""
        change = _AFTER.get(self.name)
        return change(self, recorded, seed) if change else recorded


FAULTS: Mapping[str, Fault] = {
    name: Fault(name, sentence)
    for name, sentence in {
        "swapped-axes": "the log has the columns of two joints in each other's place",
        "degrees": "positions and velocities are in degrees where radians are said",
        "flipped-sign": "one joint's torque, or its position, has the wrong sign",
        "missing-gear": "one motor's position, or its torque, was not divided by its gear ratio",
        "half-speed": "the speed slider stood at 50 %: the motion took twice as long",
        "dropped-samples": "the logger lost samples, some one by one and some in a gap",
        "stuck-joint": "a joint's brake stayed closed: it did not move",
        "saturated-current": "a drive gave less current than the motion needs: its torque is cut off",
        "wrong-payload": "a mass hung on the flange that nobody stated",
    }.items()
}
CHANNELS: Mapping[str, tuple[str, ...]] = {
    "swapped-axes": ("all", "torque"),
    "flipped-sign": ("torque", "position"),
    "missing-gear": ("position", "torque"),
    "half-speed": ("shown", "hidden"),
}


def random_fault(seed: int, plan: Plan | None = None) -> Fault:
    """Draw one of the faults, and how it shows; of those that can show, where a plan is given."""
    rng = np.random.default_rng([seed, 0x66])
    names = [name for name in FAULTS if plan is None or len(_open_to(name, plan)) >= _wanted(name)]
    name = str(rng.choice(names))
    return replace(FAULTS[name], channel=str(rng.choice(CHANNELS.get(name, ("",)))))


def aimed(fault: Fault | str, plan: Plan, seed: int) -> Fault:
    """Choose what is open: joints in which the fault can show in this plan, channel, size; ValueError if none can."""
    if isinstance(fault, str):
        if fault not in FAULTS:
            raise ValueError(f"there is no fault {fault!r}, expected one of {', '.join(FAULTS)}")
        fault = FAULTS[fault]
    rng = np.random.default_rng([seed, list(FAULTS).index(fault.name)])
    channel = fault.channel or CHANNELS.get(fault.name, ("",))[0]
    low, high = {"dropped-samples": (0.02, 0.06), "wrong-payload": (0.05, 0.15)}.get(fault.name, (0.0, 0.0))
    size = fault.size or float(rng.uniform(low, high))
    joints = fault.joints
    if not joints:
        open_to, wanted = _open_to(fault.name, plan), _wanted(fault.name)
        if len(open_to) < wanted:
            raise ValueError(f"fault {fault.name!r} shows in no joint of {plan.robot.name} in run {plan.run!r}")
        joints = tuple(int(i) for i in rng.choice(open_to, wanted, replace=False)) if wanted else ()
    return replace(fault, channel=channel, size=size, joints=joints)


def moving(plan: Plan) -> list[int]:
    """List joints that the main part of a plan moves."""
    q = _main(plan).q
    return [i for i in range(plan.robot.n_joints) if np.ptp(q[:, i]) > _MOVES]


def geared(plan: Plan) -> list[int]:
    """List moving joints whose motor turns faster or slower than they do."""
    return [i for i in moving(plan) if abs(np.log(abs(ratio(plan.robot, i)))) > 0.1]


def hungry(plan: Plan) -> list[int]:
    """List moving joints whose torque rarely comes near its peak, which is well above what holds them.

    A joint that friction dominates always does: cut off, it would not move at all.
    """
    motion = _main(plan)
    torque = np.abs(inverse_dynamics(plan.robot, motion))
    still = np.abs(rigid_torque(plan.robot, posture(motion.q), prior(plan.robot))).max(axis=0)
    peak, near = torque.max(axis=0), np.mean(torque > 0.7 * torque.max(axis=0), axis=0)
    return [i for i in moving(plan) if peak[i] > 1.2 * still[i] and near[i] < 0.3]


def ratio(robot: Robot, joint: int) -> float:
    """Read the gear ratio of a joint's own motor."""
    row = robot.drive.motor_from_joint[joint]
    return float(row[joint] or row[np.argmax(np.abs(row))])


def _open_to(name: str, plan: Plan) -> list[int]:
    return _CANDIDATES[name](plan) if name in _CANDIDATES else []


def _wanted(name: str) -> int:
    """Count the joints that a fault is in."""
    return 2 if name == "swapped-axes" else int(name in _CANDIDATES)


def _main(plan: Plan) -> Motion:
    t = np.linspace(0.0, duration(plan, "main"), 800)
    return Motion(*(planned(plan, "main", t, order) for order in range(3)))


def _half_speed(fault: Fault, truth: Truth, plan: Plan) -> Truth:
    return replace(truth, settings=replace(truth.settings, speed=0.5, speed_told=fault.channel == "shown"))


def _stick(fault: Fault, truth: Truth, plan: Plan) -> Truth:
    return replace(truth, settings=replace(truth.settings, stuck=fault.joints))


def _limit(fault: Fault, truth: Truth, plan: Plan) -> Truth:
    return replace(truth, settings=replace(truth.settings, limited=fault.joints))


def _hang(fault: Fault, truth: Truth, plan: Plan) -> Truth:
    """Hang a ball on the flange: `size` of what its weight would need to use up the weakest joint's torque."""
    weights = np.abs(np.einsum("ikj,k->ij", frame_jacobian(plan.robot, _main(plan).q)[:, :3], _gravity(plan.robot)))
    mass = fault.size * float(np.min(torque_scale(plan.robot) / np.maximum(weights.max(axis=0), 1e-3)))
    radius = 0.05 * np.cbrt(mass)  # of iron, and then some
    ball = from_center_of_mass(mass, np.array([0.0, 0.0, radius]), 0.4 * mass * radius**2 * np.eye(3))
    tool = truth.robot.tool
    link = tool.link if tool.link >= 0 else truth.robot.mechanism.n_links - 1
    chi = truth.chi.copy()
    chi[10 * link : 10 * link + 10] += change_frame(ball, tool.T_link_frame)
    return replace(truth, chi=chi)


def _gravity(robot: Robot) -> FloatArray:
    """Read gravity; of a robot without any, what it would be on earth."""
    g = robot.mechanism.gravity
    return g if g.any() else np.array([0.0, 0.0, -9.81])


def _swap(fault: Fault, recorded: Recorded, seed: int) -> Recorded:
    order = np.arange(recorded.robot.n_joints)
    order[list(fault.joints)] = fault.joints[::-1]
    names = TORQUES if fault.channel == "torque" else (*POSITIONS, *VELOCITIES, "q_motor", *TORQUES, "temperature")
    return replace(recorded, **{name: getattr(recorded, name)[:, order] for name in names})


def _in_degrees(fault: Fault, recorded: Recorded, seed: int) -> Recorded:
    turning = ~recorded.robot.mechanism.prismatic
    factor = np.where(turning, 180.0 / np.pi, 1.0)
    return _scaled(recorded, (*POSITIONS, *VELOCITIES, "q_motor"), factor)


def _flip(fault: Fault, recorded: Recorded, seed: int) -> Recorded:
    factor = np.ones(recorded.robot.n_joints)
    factor[list(fault.joints)] = -1.0
    return _scaled(recorded, TORQUES if fault.channel == "torque" else ("q", "dq", "q_motor"), factor)


def _forget_gear(fault: Fault, recorded: Recorded, seed: int) -> Recorded:
    """Show the motor's angle for the joint's, or the joint's torque for the motor's: off by the ratio."""
    factor = np.ones(recorded.robot.n_joints)
    for i in fault.joints:
        factor[i] = ratio(recorded.robot, i)
    return _scaled(
        recorded, ("torque_motor", "torque_joint") if fault.channel == "torque" else ("q", "dq", "q_motor"), factor
    )


def _drop(fault: Fault, recorded: Recorded, seed: int) -> Recorded:
    rng = np.random.default_rng([seed, 0x64])
    kept = rng.uniform(size=len(recorded.t)) >= fault.size
    measured = np.flatnonzero(recorded.mark >= MEASURED)
    middle = recorded.t[rng.choice(measured if measured.size else np.arange(len(kept)))]
    kept &= np.abs(recorded.t - middle) > 0.5 * rng.uniform(0.3, 1.0)
    return with_rows(recorded, kept)


def _scaled(recorded: Recorded, names: tuple[str, ...], factor: FloatArray) -> Recorded:
    return replace(recorded, **{name: getattr(recorded, name) * factor for name in names})


_BEFORE: Mapping[str, Callable[[Fault, Truth, Plan], Truth]] = {
    "half-speed": _half_speed,
    "stuck-joint": _stick,
    "saturated-current": _limit,
    "wrong-payload": _hang,
}
_AFTER: Mapping[str, Callable[[Fault, Recorded, int], Recorded]] = {
    "swapped-axes": _swap,
    "degrees": _in_degrees,
    "flipped-sign": _flip,
    "missing-gear": _forget_gear,
    "dropped-samples": _drop,
}
_CANDIDATES: Mapping[str, Callable[[Plan], list[int]]] = {
    "swapped-axes": moving,
    "flipped-sign": moving,
    "missing-gear": geared,
    "stuck-joint": moving,
    "saturated-current": hungry,
}
