"""A truth as the compiled closed loop reads it: its plant, and the controller that holds it."""

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from excitor.experiments.virtual.truth import SIGN_WIDTH, Truth, speed_scale, torque_scale, true_parameters, warmth
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import mass_matrix, rigid_torque, rotor_matrix
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import CanBeSingular, Motion, Robot, posture
from excitor.robots.simulate import friction_elements, links_of

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant
    from excitor.robots.kernel.steps import Controller

LONGEST_STEP = 5e-4  # s, of integration
SPRING_STEP = 0.4  # rad of the fastest mode that a step takes at most
LIGHTEST = 3.0  # times less than what a loop is tuned to may move without making it unstable
DIRECT = 100.0  # gear ratio from which encoders have the counts that are stated


def plant_of(truth: Truth, robot: Robot) -> "Plant":
    """Pack what moves, with the payload that the campaign's robot has."""
    from excitor.robots.kernel.plant import Plant

    params, settings, n = layout(truth.robot), truth.settings, robot.n_joints
    chi = truth.chi.copy()
    chi[: len(layout(robot))] = true_parameters(truth, robot)
    friction = truth.robot.drive.friction
    gears = truth.robot.drive.motor_from_joint
    relief = 1.0 / settings.heating_time
    power = friction_power(truth, speed_scale(robot) / 3.0)
    heat = settings.heating * relief * np.where(power > 0.0, 1.0 / np.where(power > 0.0, power, 1.0), 0.0)
    return Plant(
        **links_of(truth.robot, chi[: params.n_link_params].reshape(-1, 10)),
        rotors=rotor_matrix(truth.robot, chi),
        elements=friction_elements(truth.robot),
        friction=chi[list(params.friction_columns)],
        warmth=warmth(truth),
        seat=np.array([np.argmax(np.abs(term.acts)) for term in friction], dtype=np.int64),
        gears=np.ascontiguousarray(gears),
        ungears=np.linalg.inv(gears),
        loss=np.column_stack([1.0 / truth.efficiency[:, 0] - 1.0, 1.0 - truth.efficiency[:, 1]]),
        width=SIGN_WIDTH * np.abs(gears) @ speed_scale(robot),
        stiffness=truth.stiffness.copy(),
        damping=truth.damping.copy(),
        stuck=np.isin(np.arange(n), truth.settings.stuck),
        heat=heat,
        relief=relief,
        ambient=settings.ambient,
    )


def friction_power(truth: Truth, speed: FloatArray) -> FloatArray:
    """Add up what friction takes when every joint turns alone at a speed, (n_joints,), W."""
    power = np.zeros(len(speed))
    for term, column in zip(truth.robot.drive.friction, layout(truth.robot).friction_columns, strict=True):
        joint = int(np.argmax(np.abs(term.acts)))
        v = abs(term.senses[joint]) * speed[joint]
        size = {"viscous": v, "sqrt": np.sqrt(v), "coulomb": 1.0, "maxwell-slip": 1.0}.get(term.model, 0.0)
        power[joint] += abs(truth.chi[column] * term.acts[joint]) * size * speed[joint]
    return power


def controller_of(truth: Truth, robot: Robot, motion: Motion, forward: FloatArray, step: float) -> "Controller":
    """Tune PD gains to the bandwidth on the prior's largest inertia of each joint along the motion.

    Where gears give way, what is beyond them does not count, and the loop is no faster than their resonance: it would
    not be stable. Nor would one that is tuned to a closed chain's largest inertia: near a singularity joints that move
    together weigh many times what they weigh elsewhere. There the loops are as stiff as the lightest motion allows.
    """
    from excitor.robots.kernel.steps import Controller

    settings, chi = truth.settings, prior(robot)
    poses = motion.q[:: max(1, len(motion) // 200)]
    inertia = np.diagonal(mass_matrix(robot, poses, chi), axis1=1, axis2=2).max(axis=0)
    if isinstance(robot.mechanism, CanBeSingular):
        lightness = np.linalg.eigvals(np.linalg.solve(mass_matrix(robot, poses, chi), np.diag(inertia)[None]))
        inertia = inertia * min(1.0, LIGHTEST / float(np.abs(lightness).max()))
    bandwidth = settings.bandwidth_hz
    if settings.resonance_hz is not None:
        inertia = np.maximum(np.diagonal(rotor_matrix(robot, chi)), 0.1 * inertia)
        bandwidth = min(bandwidth, settings.resonance_hz)
    omega = 2.0 * np.pi * bandwidth
    return Controller(
        kp=omega**2 * inertia,
        kd=2.0 * settings.damping_ratio * omega * inertia,
        limit=motor_limits(truth, robot, motion, forward),
        quantum=encoder_steps(truth, robot),
        lag=settings.current_lag,
        forget=float(np.exp(-step / settings.velocity_filter)) if settings.velocity_filter > 0.0 else 0.0,
        step=step,
        substeps=substeps(truth, poses, step),
    )


def motor_limits(truth: Truth, robot: Robot, motion: Motion, forward: FloatArray) -> FloatArray:
    """Find what each motor can give; one that is limited, four fifths of its peak, or enough to hold the arm."""
    gears = np.abs(robot.drive.motor_from_joint)
    own = np.where(np.diagonal(gears) > 0.0, np.diagonal(gears), gears.max(axis=1))
    limit = robot.limits.torque / own
    if truth.settings.limited:
        ungears = np.linalg.inv(robot.drive.motor_from_joint)
        peak = np.abs(forward @ ungears).max(axis=0)
        still = np.abs(rigid_torque(robot, posture(motion.q[::20]), prior(robot)) @ ungears).max(axis=0)
        for i in truth.settings.limited:
            limit[i] = min(limit[i], max(0.8 * peak[i], 0.5 * (still[i] + peak[i])))
    return np.asarray(limit)


def encoder_steps(truth: Truth, robot: Robot) -> FloatArray:
    """Find the resolution of each motor's encoder, rad or m of the motor; 0 where it is exact."""
    counts = truth.settings.encoder_counts
    if counts == 0:
        return np.zeros(robot.n_joints)
    ratio = np.abs(robot.drive.motor_from_joint).max(axis=1)
    return np.asarray(2.0 * np.pi / counts * np.minimum(1.0, ratio / DIRECT))


def substeps(truth: Truth, poses: FloatArray, step: float) -> int:
    """Count the integration steps of a controller step that resolve the gears' springs."""
    longest = LONGEST_STEP
    if truth.stiffness.size:
        robot = truth.robot
        rotors = rotor_matrix(robot, truth.chi)
        K = np.diag(truth.stiffness)
        joined = scipy.linalg.solve(rotors, K)
        for M in mass_matrix(robot, poses[::4], truth.chi) - rotors:
            fastest = np.abs(np.linalg.eigvals(np.linalg.solve(M, K) + joined)).max()
            longest = min(longest, SPRING_STEP / float(np.sqrt(fastest)))
    return max(1, int(np.ceil(step / longest - 1e-9)))


def noise_scale(robot: Robot) -> FloatArray:
    """Tell what each joint can give, at its motor."""
    gears = np.abs(robot.drive.motor_from_joint)
    own = np.where(np.diagonal(gears) > 0.0, np.diagonal(gears), gears.max(axis=1))
    return np.asarray(torque_scale(robot) / own)
