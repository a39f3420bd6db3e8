"""Motors, gears and friction: the columns they add, and the way between currents, motors and joints."""

from functools import lru_cache

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.kernel import drive as kernel
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Motion, Robot, RotorInertia
from excitor.robots.tree import samples

_MODELS = {
    "viscous": kernel.VISCOUS,
    "coulomb": kernel.COULOMB,
    "offset": kernel.OFFSET,
    "sqrt": kernel.SQRT,
    "stribeck": kernel.STRIBECK,
    "load": kernel.LOAD,
    "maxwell-slip": kernel.STATE,
    "ripple-sin": kernel.RIPPLE_SIN,
    "ripple-cos": kernel.RIPPLE_COS,
}


@lru_cache(maxsize=64)
def drive_elements(robot: Robot) -> kernel.Elements:
    """Pack rotors, then friction terms, for the kernel."""
    params = layout(robot)
    rotors, friction = robot.drive.rotors, robot.drive.friction
    elements: list[RotorInertia | FrictionTerm] = [*rotors, *friction]
    shape = (len(elements), robot.n_joints)
    return kernel.Elements(
        model=np.array([kernel.ROTOR] * len(rotors) + [_MODELS[term.model] for term in friction], dtype=np.int64),
        column=np.array([*params.rotor_columns, *params.friction_columns], dtype=np.int64) - params.n_link_params,
        senses=np.array([element.senses for element in elements]).reshape(shape),
        acts=np.array([element.acts for element in elements]).reshape(shape),
        width=np.array([0.0] * len(rotors) + [term.width for term in friction]),
        scale=np.array([1.0] * len(rotors) + [term.scale for term in friction]),
    )


def drive_columns(robot: Robot, motion: Motion, load: FloatArray, out: FloatArray) -> None:
    """Write the columns of rotors and friction into out (n_columns, n_joints, n_samples)."""
    kernel.fill_drive(drive_elements(robot), samples(motion, robot.n_joints), load, slip_states(robot, motion), out)


def friction_power_columns(robot: Robot, motion: Motion, load: FloatArray, out: FloatArray) -> None:
    """Add the power (acts @ dq) g of each friction term to its column of out (n_samples, n_params)."""
    elements, states = drive_elements(robot), slip_states(robot, motion)
    value = np.empty(len(motion))
    for e, (term, column) in enumerate(
        zip(robot.drive.friction, layout(robot).friction_columns, strict=True), start=len(robot.drive.rotors)
    ):
        kernel.element_values(elements, e, samples(motion, robot.n_joints), 0, value)
        if term.model == "load":
            value *= np.abs(load @ term.acts)
        elif term.model == "maxwell-slip":
            value[:] = states[e]
        out[:, column] += (motion.dq @ term.acts) * value


def slip_states(robot: Robot, motion: Motion) -> FloatArray:
    """Run every Maxwell-slip element through the samples, (n_elements, n_samples); no rows if there is none."""
    friction = robot.drive.friction
    if not any(term.model == "maxwell-slip" for term in friction):
        return np.empty((0, 0))
    states = np.zeros((len(robot.drive.rotors) + len(friction), len(motion)))
    for e, term in enumerate(friction, start=len(robot.drive.rotors)):
        if term.model == "maxwell-slip":
            kernel.slip_state(motion.q @ term.senses, term.scale, term.warm_up, states[e])
    return states


def motor_positions(robot: Robot, q: FloatArray) -> FloatArray:
    """q_motor = N q, for positions, velocities or accelerations alike, (n_samples, n_joints)."""
    _check(robot, q=q)
    return q @ robot.drive.motor_from_joint.T


def joint_positions(robot: Robot, q_motor: FloatArray) -> FloatArray:
    """q = N⁻¹ q_motor, (n_samples, n_joints)."""
    _check(robot, q_motor=q_motor)
    return np.linalg.solve(robot.drive.motor_from_joint, q_motor.T).T


def joint_torques(robot: Robot, tau_motor: FloatArray) -> FloatArray:
    """τ = Nᵀ τ_motor of a transmission without losses, (n_samples, n_joints)."""
    _check(robot, tau_motor=tau_motor)
    return tau_motor @ robot.drive.motor_from_joint


def motor_torques(robot: Robot, tau: FloatArray, dq: FloatArray | None = None) -> FloatArray:
    """τ_motor = N⁻ᵀ τ, (n_samples, n_joints); with velocities, over the transmission's efficiency R.

    [Swevers2002] §2.5: a motor that drives must give τ / R, one that is driven only feels τ R.
    """
    _check(robot, tau=tau)
    tau_motor = np.linalg.solve(robot.drive.motor_from_joint.T, tau.T).T
    if dq is None:
        return tau_motor
    R = robot.drive.efficiency
    power = tau_motor * motor_positions(robot, dq)
    return np.where(power > 0.0, tau_motor / R, np.where(power < 0.0, tau_motor * R, tau_motor))


def torque_from_current(robot: Robot, current: FloatArray) -> FloatArray:
    """τ_motor = sgn(I) (c0 + c1 |I| + c2 I² + c3 |I|³), (n_samples, n_joints); needs every motor's law."""
    _check(robot, current=current)
    c = robot.drive.torque_from_current
    unknown = np.isnan(c).any(axis=1)
    if unknown.any():
        names = ", ".join(np.array(robot.joint_names)[unknown])
        raise ValueError(f"{robot.name}: no torque_from_current is given for the motors of {names}")
    size = np.abs(current)
    return np.sign(current) * (c[:, 0] + size * (c[:, 1] + size * (c[:, 2] + size * c[:, 3])))


def _check(robot: Robot, **arrays: FloatArray) -> None:
    for name, array in arrays.items():
        check_shape(np.asarray(array), "n_samples n_joints", name, {"n_joints": robot.n_joints})
