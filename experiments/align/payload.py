"""Does the robot carry what the plan says? Torques, less the prior's, as a mass at the flange, and how sure that is.

All other parameters may be off as well, by as much as priors usually are: what they can explain is not called a mass.
"""

from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.align.nouns import Check, MeasuredRun
from excitor.experiments.align.samples import thinned
from excitor.experiments.align.torques import on_side
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.dynamics import regressor
from excitor.robots.inertia import change_frame
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

SPREAD = 0.1  # of masses and first moments about the prior; twice that of inertias and rotors
EVIDENCE = 10.0  # below which nothing is said: healthy runs save 3 at most
LEAST = 0.02  # of the mass of all links: too little to matter
REACH = 0.1  # m, of a load's centre from the flange
SLOW = 0.02  # of a joint's highest speed, below which it may be held by its friction
ROWS = 400  # samples that are looked at
INDEPENDENT = 60  # of them: the rest repeat the same model errors


@dataclass(frozen=True, slots=True)
class Load:
    """A mass at the flange beyond what the prior holds, kg."""

    mass: float
    sigma: float
    moments: tuple[float, float, float] = (0.0, 0.0, 0.0)  # kg m, of the mass from the flange
    evidence: float = 0.0  # what it saves of the squared residual, in variances; a few by chance

    def sure(self, robot: Robot) -> bool:
        """Tell whether it is more than chance, and than nothing."""
        return self.evidence > EVIDENCE and abs(self.mass) > self.least(robot)

    def possible(self, robot: Robot) -> bool:
        """Tell whether a body is left of the last link and its load: no load takes off more than there is."""
        return self.mass > -float(prior(robot)[layout(robot).link(_carrier(robot))][9])

    def least(self, robot: Robot) -> float:
        """From which mass on something is said, kg."""
        masses = float(np.abs(prior(robot)[9 : layout(robot).n_link_params : 10]).sum())
        return max(LEAST * masses, self.sigma)


def can_weigh(run: MeasuredRun, robot: Robot) -> bool:
    """Tell whether torques and a prior are there to weigh a load with."""
    return run.effort == "torque" and bool(prior(robot).any())


def check_payload(run: MeasuredRun, robot: Robot, samples: Samples) -> list[Check]:
    """Say whether torques look like another load than the stated one."""
    if not can_weigh(run, robot):
        return []
    load = flange_load(robot, run, samples)
    least = load.least(robot)
    holds = not load.sure(robot)
    told = f"torques look like {load.mass:.3g} ± {load.sigma:.2g} kg at the flange beyond the stated load"
    return [
        Check(
            "payload",
            load.mass,
            "kg",
            least,
            holds,
            told,
            level="unusable",
            cause="" if holds else "wrong payload",
            remedy="" if holds else "check what hangs on the flange, and state it",
        )
    ]


def loaded(robot: Robot, load: Load) -> Robot:
    """Hang a load on the flange of a robot's prior model."""
    chi, ball = robot.chi.copy(), np.zeros(10)
    ball[6:9], ball[9] = load.moments, load.mass
    params = layout(robot)
    chi[params.link(_carrier(robot))] += change_frame(ball, robot.tool.T_link_frame)
    return replace(robot, chi=chi)


def _carrier(robot: Robot) -> int:
    return robot.tool.link if robot.tool.link >= 0 else layout(robot).n_links - 1


def flange_load(robot: Robot, run: MeasuredRun, samples: Samples) -> Load:
    """Estimate the load by least squares with a prior on all else; friction and offsets are free."""
    data = thinned(samples, ROWS)
    chi, params = prior(robot), layout(robot)
    Y = regressor(robot, data.motion)
    columns, spreads = _columns(robot, Y)
    residual = data.tau - Y @ chi
    A = _sided(robot, run, columns)
    b = on_side(robot, run.effort_side, residual)
    weights = _weights(A, b, on_side(robot, run.effort_side, data.tau))
    weights = weights * _turning(data.motion.dq)
    A, b = (A * weights[:, :, None]).reshape(-1, A.shape[2]), (b * weights).ravel()
    load = Load(0.0, np.inf)
    moments = 0.01 * params.n_links
    for _ in range(3):
        sigmas = spreads.copy()
        sigmas[1:4] = moments
        load = _solved(A, b, sigmas)
        moments = REACH * max(abs(load.mass), load.sigma)
    return load


def _turning(dq: FloatArray) -> BoolArray:
    """Leave out joints while they stand: what friction holds there is not known."""
    fastest = np.abs(dq).max(axis=0)
    return np.asarray((np.abs(dq) > SLOW * fastest) | (fastest == 0.0))


def _columns(robot: Robot, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Collect the load's columns, then those of all else; and how far each may be from 0."""
    params, chi = layout(robot), prior(robot)
    at_flange = np.eye(10)
    here = Y[:, :, params.link(_carrier(robot))]
    load = np.stack([here @ change_frame(at_flange[k], robot.tool.T_link_frame) for k in (9, 6, 7, 8)], axis=2)
    dq = np.eye(robot.n_joints)
    offsets = np.broadcast_to(dq, (len(Y), *dq.shape))
    columns = np.concatenate([load, Y, offsets], axis=2)
    return columns, np.concatenate([[np.inf], np.zeros(3), _spreads(robot, chi), np.full(robot.n_joints, np.inf)])


def _spreads(robot: Robot, chi: FloatArray) -> FloatArray:
    """How far each parameter may be from the prior; inf for friction."""
    params = layout(robot)
    spreads = np.full(len(params), np.inf)
    links = chi[: params.n_link_params].reshape(-1, 10)
    typical = float(np.abs(links[:, 9]).mean()) or 1.0
    for j, phi in enumerate(links):
        mass = abs(float(phi[9])) or 0.3 * typical
        arm = max(float(np.linalg.norm(phi[6:9])) / mass, float(np.sqrt(np.abs(phi[[0, 3, 5]]).sum() / mass)), 0.02)
        spreads[10 * j : 10 * j + 6] = 2.0 * SPREAD * mass * arm**2
        spreads[10 * j + 6 : 10 * j + 9] = SPREAD * mass * arm
        spreads[10 * j + 9] = SPREAD * mass
    for column in params.rotor_columns:
        spreads[column] = 2.0 * SPREAD * abs(float(chi[column])) or np.inf
    return spreads


def _sided(robot: Robot, run: MeasuredRun, columns: FloatArray) -> FloatArray:
    if run.effort_side == "joint":
        return columns
    return np.asarray(np.einsum("ij,njk->nik", np.linalg.inv(robot.drive.motor_from_joint.T), columns))


def _weights(A: FloatArray, b: FloatArray, tau: FloatArray) -> FloatArray:
    """One over what each joint's torque is uncertain by, a row: the model's error repeats itself along the motion."""
    n = len(A)
    left = []
    for j in range(A.shape[1]):
        scale = np.linalg.norm(A[:, j], axis=0)
        own = A[:, j][:, scale > 0.0] / scale[scale > 0.0]
        found = np.linalg.lstsq(own, b[:, j], rcond=1e-6)[0]
        left.append(float(np.sqrt(np.mean((b[:, j] - own @ found) ** 2))))
    floor = 0.01 * np.sqrt(np.mean(tau**2, axis=0)) + 1e-9
    return np.asarray(1.0 / (np.maximum(np.array(left), floor) * np.sqrt(max(1.0, n / INDEPENDENT))))


def _solved(A: FloatArray, b: FloatArray, sigmas: FloatArray) -> Load:
    """Solve min ‖A x - b‖² + ‖x / σ‖²: the first of x, its deviation, and what the first four save."""
    norms = np.linalg.norm(A, axis=0)
    units = np.where(np.isfinite(sigmas), sigmas, 1.0 / np.where(norms > 0.0, norms, 1.0))
    scaled = A * units
    ridge = np.where(np.isfinite(sigmas), 1.0, 1e-6)
    normal, right = scaled.T @ scaled + np.diag(ridge), scaled.T @ b
    x = np.linalg.solve(normal, right)
    spread = float(np.sqrt(np.linalg.inv(normal)[0, 0]) * units[0])
    evidence = float(right @ x - right[4:] @ np.linalg.solve(normal[4:, 4:], right[4:]))
    mass, *moments = (float(value) for value in x[:4] * units[:4])
    return Load(mass, spread, (moments[0], moments[1], moments[2]), evidence)
