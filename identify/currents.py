"""Motors' side: what doubtful current laws do to parameters, what is done without a law, and losses of gears.

Without a law, the gain of every drive beside a reference drive's is fitted with the parameters, I_j = g_j Y_j β with
g = 1 at the reference: β and torques are then in A of the reference drive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from scipy.optimize import least_squares

from excitor.identify.between import independent_weights
from excitor.identify.diagnose import Finding
from excitor.identify.estimate import Estimate, compress, rows_of_groups
from excitor.identify.log import CURRENT, MOTORS, POSITIONS
from excitor.identify.regression import Decimation, Regression, pick_columns, pick_rows
from excitor.identify.samples import Samples
from excitor.identify.validate import standard_parameters
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model, joint_positions, motor_positions, motor_torques
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot

LAW_NEEDED = "state torque_from_current and torque_from_current_sigma under [drive] of the robot's file"
SPREAD = 0.5  # of the logarithms of gains about those that the prior model suggests
_ROUNDS = 3  # of weights
LOSS = 0.15  # of the torque: what gears may lose, before anything is measured
CHANCE = 0.01  # that losses are found in gears without any
TURN = 1e-4  # relative change of a ratio, by which its effect is found
REACH = 1.96  # standard deviations of a 95 % interval


def why_not(robot: Robot) -> str:
    """Say why currents of a robot cannot go without a law; empty where they can."""
    if robot.mechanism.prismatic.any():
        return "joints slide and turn, whose currents have no common unit"
    gears = robot.drive.motor_from_joint
    return "" if np.array_equal(gears, np.diag(np.diagonal(gears))) else "motors are coupled, so currents do not add"


def in_amperes(robot: Robot) -> Robot:
    """Let currents stand for joint torques, 1 A per A, where the robot has no law and `why_not` no reason."""
    law = np.outer(1.0 / np.diagonal(robot.drive.motor_from_joint), [0.0, 1.0, 0.0, 0.0])
    return replace(robot, drive=replace(robot.drive, torque_from_current=law, in_amperes=True))


def rescaled(robot: Robot, relative: FloatArray, per_torque: float) -> Robot:
    """Set the drives' relative gains, (n_joints,), and convert priors and limits: A of the reference per N m."""
    chi = robot.chi * np.where([unit == "1" for unit in layout(robot).units], 1.0, per_torque)
    payload = robot.payload if robot.payload is None else replace(robot.payload, phi=per_torque * robot.payload.phi)
    drive = replace(robot.drive, torque_from_current=robot.drive.torque_from_current * relative[:, None])
    limits = replace(robot.limits, torque=per_torque * robot.limits.torque)
    return replace(robot, chi=chi, payload=payload, drive=drive, limits=limits)


def one_current(robot: Robot, regression: Regression) -> tuple[Robot, FloatArray, int]:
    """Fit a robot to currents: the robot in A of one drive, A of that drive per A (n_joints,), and the drive."""
    gains, per_torque, reference = relative_gains(regression, base_parameters(robot).values(prior(robot)))
    return rescaled(robot, gains, per_torque), gains, reference


def doubt_of_gains(regression: Regression, estimate: Estimate, reference: int, inflation: float) -> FloatArray:
    """Covariance that β has from the gains fitted with it: ∂β/∂log g_j = W⁺ (W β)_j, log g as far as W leaves it.

    `inflation` is that of σ over white residuals'.
    """
    sigma = rows_of_groups(regression, estimate)[:, None]
    W = regression.W[:, [regression.names.index(name) for name in estimate.names]] / sigma
    fitted, drives = W @ estimate.values, np.delete(np.arange(len(regression.joint_names)), reference)
    scaled = fitted[:, None] * (regression.joint[:, None] == drives)
    S = np.linalg.lstsq(W, scaled)[0]
    left = (scaled - W @ S) / inflation
    return np.asarray(S @ np.linalg.inv(left.T @ left + np.eye(len(drives)) / SPREAD**2) @ S.T)


def relative_gains(regression: Regression, prior: FloatArray) -> tuple[FloatArray, float, int]:
    """Fit β and the drives' gains to currents: (A of the reference per A, A of the reference per N m, the reference).

    β is eliminated (variable projection), rows are weighted by their residuals; log g has a wide prior, from the prior
    parameters' torques, for joints that share nothing with others. The reference has the largest torques.
    """
    n, factors = len(regression.joint_names), compress(regression)
    size = np.linalg.norm(regression.W, axis=0)
    A, b = factors.R[:, :, :-1] / np.where(size > 0.0, size, 1.0), factors.R[:, :, -1]
    joint, rows = factors.joint, np.maximum(factors.n_rows, 1)
    model = A @ (prior * size)
    power, shared = (np.bincount(joint, np.sum(model * x, axis=1), n) for x in (model, b))
    if not (shared > 0.0).any():
        raise ExcitorError("the currents are not those of the prior model's torques; check their signs and the masses")
    per_torque = np.where(shared > 0.0, shared, np.nan) / np.where(power > 0.0, power, 1.0)
    per_torque = np.where(np.isnan(per_torque), np.nanmedian(per_torque), per_torque)
    reference = int(np.argmax(np.where(shared > 0.0, power, -1.0)))
    first = np.log(per_torque / per_torque[reference])
    free = np.delete(np.arange(n), reference)
    sigma = np.sqrt(np.sum(b**2, axis=1) / rows) + 1e-300

    def residuals(log_g: FloatArray) -> FloatArray:
        g = np.exp(np.insert(log_g, reference, 0.0))[joint]
        W, y = A * (g / sigma)[:, None, None], b / sigma[:, None]
        beta = np.linalg.lstsq(W.reshape(-1, len(size)), y.ravel(), rcond=1e-10)[0]
        return np.concatenate([(y - W @ beta).ravel(), (log_g - first[free]) / SPREAD])

    log_g = first[free]
    for _ in range(_ROUNDS):
        log_g = least_squares(residuals, log_g).x
        left = sigma * np.sqrt(np.sum(residuals(log_g)[: b.size].reshape(b.shape) ** 2, axis=1) / rows)
        sigma = np.maximum(left, 1e-6 * left.max() + 1e-300)
    return np.exp(-np.insert(log_g, reference, 0.0)), float(per_torque[reference]), reference


@dataclass(frozen=True, eq=False, slots=True)
class LawDoubt:
    """Relative doubt about each motor's current law and gear, and what an error of it does to estimated parameters."""

    motors: tuple[str, ...]
    sigma: FloatArray  # (n_motors,), of both
    slopes: FloatArray  # (n_base, n_motors): change of the parameters over the relative change of a motor's torque
    ratios: FloatArray  # (n_motors,), of the gears' ratios alone
    turned: FloatArray  # (n_base, n_motors): change over that of a ratio by which positions are computed from motors'
    what: str  # is doubtful

    @property
    def covariance(self) -> FloatArray:
        """What it adds to the parameters' covariance, (n_base, n_base): a gear has one error in both its effects."""
        laws = self.slopes * np.sqrt(self.sigma**2 - self.ratios**2)
        gears = (self.slopes + self.turned) * self.ratios
        return np.asarray(laws @ laws.T + gears @ gears.T)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data as in model.json."""
        return {"motors": list(self.motors), "sigma": self.sigma.tolist(), "slopes": self.slopes.tolist()}


def law_sentence(sigma: FloatArray, what: str) -> str:
    """Say what doubtful current laws and gears mean for masses and torques."""
    low, high = (f"{100.0 * x:.3g}" for x in (sigma.min(), sigma.max()))
    known = f"{high} %" if low == high else f"{low} to {high} %"
    return f"masses, inertias and torques are proportional to {what}, known to {known}; intervals hold that"


def stated_doubt(robot: Robot, runs: Sequence[Samples]) -> tuple[FloatArray, FloatArray, str] | None:
    """Return the relative σ of the motors' laws and gears, and of gears alone, (n_joints,) each, with their names.

    Laws count where a run's torques come from currents, gears where torques or positions come from the motors' side.
    """
    drive, steps = robot.drive, {step.name for run in runs for step in run.steps}
    found = {
        "the current laws": drive.current_sigma if CURRENT in steps else None,
        "the gears' ratios": drive.ratio_sigma if steps & {MOTORS, POSITIONS} else None,
    }
    stated = {name: sigma for name, sigma in found.items() if sigma is not None and sigma.any()}
    if not stated or drive.in_amperes:
        return None
    ratios = stated.get("the gears' ratios", np.zeros(robot.n_joints))
    return np.sqrt(np.sum([sigma**2 for sigma in stated.values()], axis=0)), ratios, " and ".join(stated)


def law_doubt(
    robot: Robot, runs: Sequence[Samples], regression: Regression, estimate: Estimate, decimate: Decimation | None
) -> LawDoubt | None:
    """Find what errors of laws and gears do to an estimate, ∂β/∂ε_m = W⁺ N_mj τ_m; None where none is in doubt.

    By a gear's ratio positions have errors too, where they are motors': ∂β/∂ε_m = W⁺ (N_mj τ_m - ∂(W β)/∂ε_m).
    """
    doubt = stated_doubt(robot, runs)
    if doubt is None:
        return None
    D, turned = np.zeros((2, len(regression), robot.n_joints))
    for number, run in enumerate(runs):
        steps, own = {step.name for step in run.steps}, regression.run == number
        equations = pick_rows(regression, own)
        if steps & {CURRENT, MOTORS}:
            by_motor = np.asarray(motor_torques(robot, run.tau)[:, :, None] * robot.drive.motor_from_joint)
            D[own] = _rows(by_motor, run, equations, decimate)
        if POSITIONS in steps and doubt[1].any():
            turned[own] = _rows(-_turned(robot, run.motion, estimate), run, equations, decimate)
    slopes = [response(regression, estimate, x) for x in (D, turned)]
    return LawDoubt(robot.joint_names, doubt[0], slopes[0], doubt[1], slopes[1], doubt[2])


def _turned(robot: Robot, motion: Motion, estimate: Estimate) -> FloatArray:
    """Change of a model's torques with the ratio of each gear that positions come through, (n_samples, n, n_joints)."""
    chi, N = standard_parameters(robot, estimate), robot.drive.motor_from_joint
    plain, found = inverse_dynamics(robot, motion, chi), []
    for motor in range(robot.n_joints):
        scale = 1.0 / (1.0 + TURN * np.eye(robot.n_joints)[motor])
        q = joint_positions(robot, motor_positions(robot, motion.q) * scale)
        dq, ddq = (x @ np.linalg.solve(N, scale[:, None] * N).T for x in (motion.dq, motion.ddq))
        found.append((inverse_dynamics(robot, Motion(q, dq, ddq), chi) - plain) / TURN)
    return np.stack(found, axis=1)


def _rows(by_motor: FloatArray, run: Samples, regression: Regression, decimate: Decimation | None) -> FloatArray:
    """Pick what motors give joints (n_samples, n_motors, n_joints) at a run's equations, (n_rows, n_motors)."""
    by_motor = by_motor if decimate is None or run.static else decimate(by_motor)
    return np.asarray(by_motor[regression.sample, :, regression.joint])


def gear_losses(
    robot: Robot, runs: Sequence[Samples], regression: Regression, estimate: Estimate, decimate: Decimation | None
) -> Finding | None:
    """Test whether gears lose torque by the direction of power.

    It is a likelihood ratio of δ_m |τ_m| sgn dq_m at motors, at 1 %; errors count as independent once in their
    correlation time, and δ has a prior of 0 ± LOSS. None where torques are not those of motors,
    or the robot has a model of losses already.
    """
    at_motors = all(any(step.name in (CURRENT, MOTORS) for step in run.steps) for run in runs if not run.static)
    stated = (robot.drive.efficiency != 1.0).any() or any(friction_model(t).load for t in robot.drive.friction)
    if stated or not at_motors or robot.drive.in_amperes or (regression.joint < 0).any():
        return None
    chi, params = standard_parameters(robot, estimate), layout(robot)
    chi[params.n_link_params :] = 0.0
    E = np.zeros((len(regression), robot.n_joints))
    for number, run in enumerate(runs):
        lost = np.abs(motor_torques(robot, rigid_torque(robot, run.motion, chi)))
        lost *= np.sign(motor_positions(robot, run.motion.dq) - motor_positions(robot, 0.0 * run.motion.dq))
        own = regression.run == number
        E[own] = _rows(lost[:, :, None] * robot.drive.motor_from_joint, run, pick_rows(regression, own), decimate)
    weight = independent_weights(regression)[:, None]
    Q = np.linalg.qr(weight * pick_columns(regression, estimate.names).W)[0]
    apart, y = weight * E, weight[:, 0] * regression.y
    apart, y = apart - Q @ (Q.T @ apart), y - Q @ (Q.T @ y)
    information = apart.T @ apart
    C = np.linalg.inv(information + np.eye(len(information)) / LOSS**2)
    found = C @ apart.T @ y
    ratio = float(y @ apart @ np.linalg.pinv(information, hermitian=True) @ apart.T @ y)
    spread = REACH * np.sqrt(np.diag(C))
    each = zip(robot.joint_names, 100.0 * found, 100.0 * spread, strict=True)
    data: dict[str, Any] = {name: (float(x), float(s)) for name, x, s in each}
    if ratio > scipy.stats.chi2.ppf(1.0 - CHANCE, len(found)) and (found > spread).any():
        words = ", ".join(f"{name} {x:.2g} ± {s:.2g} %" for name, (x, s) in data.items())
        sentence = f"gears lose torque by the direction of power: {words}; the model has it in masses and friction"
        return Finding("note", "losses", sentence, "state efficiency under [drive] of the robot's file", data)
    most = 100.0 * float(np.max(np.maximum(found, 0.0) + spread))
    return Finding("note", "losses", f"losses of gears: none found, up to {most:.2g} %", "nothing is to do", data)


def response(regression: Regression, estimate: Estimate, torques: FloatArray) -> FloatArray:
    """Change of an estimate with torques (n_rows, k), W⁺ torques with its weights, (n_base, k)."""
    pairs, own = zip(regression.joint, regression.run, strict=True), estimate.group_sigma
    sigma = np.array([own.get((j, k), own.get((j, -1), 1.0)) for j, k in pairs])[:, None]
    W = pick_columns(regression, estimate.names).W
    return np.asarray(np.linalg.lstsq(W / sigma, torques / sigma)[0])
