"""What is known now: the model's information, and what a second of measuring was worth so far.

The model's covariance C gives the information F = C⁻¹. Of the runs that it came from, the rows' information A(1) at
one independent row a second is computed anew. That rate r is taken at which A = r A(1) explains the deviations that
were obtained, as the median over the parameters: filters, averages and residuals that repeat are all in it. Directions
differ, so F = Lᵀ A L with the least such map L in units of the deviations obtained; what further rows say, G, counts
as Lᵀ G L. Measuring the same again then divides every variance by two.
"""

from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.identification import rows_of, with_locked
from excitor.experiments.model_json import FILE
from excitor.experiments.next_run.model_read import ModelFile, covariance_of, read_model, residuals_of
from excitor.experiments.processing import read_run
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.information import (
    Information,
    Noise,
    add,
    information,
    information_from_covariance,
    knowledge,
    sigmas,
)
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

POSE_SECONDS = 2.0  # that a static pose was held: approached from both sides
MOST_SAMPLES = 1500  # of a run, that are looked at


@dataclass(frozen=True, eq=False, slots=True)
class Learned:
    """A run that the model was identified from."""

    run: Run
    motion: Motion
    static: bool
    seconds: float  # measured, all repetitions


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """The model as information about the base parameters that it has, and what further rows will be worth."""

    campaign: OpenCampaign
    robot: Robot  # with the joints held that the model holds
    model: ModelFile
    place: IntArray  # (n_names,): of the model's parameters among the robot's base parameters
    names: tuple[str, ...]  # as base parameters, regrouped ones with their R
    given: Information  # of `names`
    noise: Noise
    expected: FloatArray  # (n_names, n_names), A
    map: FloatArray  # (n_names, n_names), L
    runs: tuple[Learned, ...]

    @property
    def values(self) -> FloatArray:
        """Take the model's base parameters, (n_names,)."""
        return self.model.values


def known_of(campaign: OpenCampaign) -> Known:
    """Read the model and the logs of its runs; ExcitorError where it does not say how sure it is."""
    if campaign.content.task == "payload":
        raise ExcitorError(f"{campaign.folder}: is a payload campaign, whose runs are all planned; see its report")
    model, path = read_model(campaign.folder), campaign.folder / FILE
    covariance = covariance_of(model, path)
    wanted = [run for run in campaign.content.run if run.role == "identify"]
    samples = [read_run(campaign, run) for run in wanted]
    robot = with_locked(campaign, samples)
    if model.robot != robot.name:
        raise ExcitorError(f"{path}: is of {model.robot}, the campaign's robot is {robot.name}; identify again")
    try:
        full = information_from_covariance(robot, model.names, covariance)
    except ValueError as error:
        raise ExcitorError(f"{path}: {error}; identify the campaign again") from None
    params, base = layout(robot), base_parameters(robot)
    kept = {params.names[column]: k for k, column in enumerate(base.kept)} | {n: k for k, n in enumerate(base.names)}
    place = np.array([kept[name] for name in model.names], dtype=np.int64)
    given = restricted(full, place)
    runs = tuple(learned(run, one) for run, one in zip(wanted, samples, strict=True))
    raw = Noise(residuals_of(model, robot.joint_names, path), 1.0, dead_zone=slowest(campaign))
    once = restricted(add(rows_say(robot, run.motion, raw, run.seconds, run.static) for run in runs), place)
    noise, L = calibrated(raw, once, given)
    A = once.matrix * noise.rate_hz
    return Known(campaign, robot, model, place, given.names, given, noise, A, L, runs)


def slowest(campaign: OpenCampaign) -> FloatArray | float:
    """Tell the speeds below which joints' rows are left out."""
    zone = rows_of(campaign).dead_zone
    return 0.0 if zone is None else zone


def taught(known: Known, motion: Motion, seconds: float, *, static: bool = False) -> Information:
    """Tell what measuring a motion for so long would say of the model's parameters: Lᵀ G L."""
    said = restricted(rows_say(known.robot, motion, known.noise, seconds, static), known.place)
    matrix = known.map.T @ said.matrix @ known.map
    matrix = 0.5 * (matrix + matrix.T)
    return Information(said.names, matrix, matrix)


def learned(run: Run, samples: Samples) -> Learned:
    """Count what a run measured, all its repetitions; its motion is thinned."""
    once = POSE_SECONDS * len(samples) if samples.static else len(samples) / samples.sample_rate_hz
    every = max(1, len(samples) // MOST_SAMPLES)
    motion = samples.motion
    thin = Motion(motion.q[::every], motion.dq[::every], motion.ddq[::every])
    return Learned(run, thin, samples.static, once * max(samples.repetitions, 1))


def calibrated(raw: Noise, once: Information, given: Information) -> tuple[Noise, FloatArray]:
    """Find how many rows a second count as independent, so that the runs explain the model's deviations; and L."""
    obtained, told = sigmas(knowledge(given)), sigmas(knowledge(once))
    if not np.isfinite(told).all():
        names = ", ".join(name for name, sigma in zip(once.names, told, strict=True) if not np.isfinite(sigma))
        raise ExcitorError(
            f"the logs do not determine {names}, of which {FILE} is sure, so it is not of these logs; identify again"
        )
    rate = float(np.median(told / obtained)) ** 2
    noise = replace(raw, rate_hz=rate, source=f"learned from {FILE}: {rate:.3g} independent rows a second")
    scale = np.outer(obtained, obtained)
    root, back = _roots(once.matrix * rate * scale)
    middle = _roots(root @ (given.matrix * scale) @ root)[0]
    return noise, back @ middle @ back * obtained[:, None] / obtained[None, :]


def _roots(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find A^(1/2) and A^(-1/2) of a positive definite matrix."""
    values, V = np.linalg.eigh(0.5 * (A + A.T))
    root = np.sqrt(np.maximum(values, values[-1] * np.finfo(float).eps))
    return (V * root) @ V.T, (V / root) @ V.T


def rows_say(robot: Robot, motion: Motion, noise: Noise, seconds: float, static: bool) -> Information:
    """Tell what rows say of all base parameters; poses were held with velocities that are noise."""
    if static:
        still = np.zeros_like(motion.q)
        motion = Motion(motion.q, still, still)
    return information(robot, motion, noise, duration=seconds)


def restricted(full: Information, place: IntArray) -> Information:
    """Take what is said of some parameters, the others being what the model says of them: nothing."""
    names = tuple(full.names[k] for k in place)
    block = np.ix_(place, place)
    return Information(names, full.matrix[block], full.scatter[block])
