"""Which data do all methods get? The runs as `identify` reads them, and something kept back to judge by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.comparing.loops import assumed_servo, planned_references
from excitor.experiments.identification import (
    Examined,
    Tell,
    enough_equations,
    equations,
    mean_noise,
    read_and_examine,
    rows_of,
    thinner,
)
from excitor.identify.diagnose import several
from excitor.identify.estimate import compress, wls
from excitor.identify.methods import Problem
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples, Step
from excitor.identify.validate import Baselines, Errors, set_baselines, standard_parameters, torque_errors
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import Servo

LEARNED = 2.0 / 3.0  # of each run, where no run was kept back: the rest judges
SUBSTITUTE = (
    'No run has role = "validate", so the last third of every moving run was kept back to judge by, and the methods '
    "were fitted to the rest. It was recorded in the same minutes, and of a motion that repeats it is the same motion "
    "again, so a recommendation that counts needs a run of its own"
)
JUDGELESS = (
    "cannot judge a model: no joint moves there while a torque is measured; check that its channels were recorded, or "
    'give another run role = "validate"'
)
APART = 0.1  # s left out between the two: filters look ahead and back


@dataclass(frozen=True)
class Prepared:
    """One problem for all methods, and equations that none of them was fitted to."""

    examined: Examined
    problem: Problem
    judging: Regression  # of what no method has seen
    fitted: Regression  # of what all were fitted to, about reversals too
    noise: FloatArray | None  # variance of the judging equations, where repetitions tell
    servo: Servo | None  # assumed, for methods that simulate
    substitute: str  # how the judging data were kept back, where the campaign keeps back none; else ""


def prepare(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Prepared:
    """Read and examine a campaign's runs; without a validation run, keep back the last third of each."""
    if campaign.content.task == "payload":
        raise ExcitorError(
            'compare: the campaign has task = "payload", whose load has an estimator of its own; compare the methods '
            "on a campaign of the arm"
        )
    examined, substitute = read_and_examine(campaign, tell), ""
    if not examined.unseen:
        examined = kept_back(examined)
        substitute = SUBSTITUTE
        tell(substitute)
    campaign = examined.campaign
    regression = enough_equations(campaign, examined.known)
    problem = problem_of(examined, regression)
    judging = equations(campaign, examined.unseen, judging=True)
    if not np.any(judging.y):
        names = several([repr(run.run) for run in examined.unseen])
        raise ExcitorError(f"{names} {JUDGELESS}")
    return Prepared(
        examined=examined,
        problem=problem,
        judging=judging,
        fitted=equations(campaign, examined.known, judging=True),
        noise=mean_noise(examined, judging),
        servo=problem.servo,
        substitute=substitute,
    )


def problem_of(examined: Examined, regression: Regression) -> Problem:
    """Pose the problem that methods solve: a controller is assumed for those that simulate."""
    robot, runs = examined.campaign.robot, examined.known
    servo = servo_of(robot, runs, regression)
    references = planned_references(examined.alignments, runs, None if servo is None else servo.rate_hz)
    return Problem(robot, tuple(runs), rows_of(examined.campaign), regression, servo, references)


def servo_of(robot: Robot, runs: list[Samples], regression: Regression) -> Servo | None:
    """Assume a controller that knows the model of least squares, or else the prior; None where neither has a mass."""
    try:
        chi = standard_parameters(robot, wls(compress(regression)))
    except RankDeficient:
        return assumed_servo(robot, runs, prior(robot))
    return assumed_servo(robot, runs, chi) or assumed_servo(robot, runs, prior(robot))


def kept_back(examined: Examined) -> Examined:
    """Split every moving run: the first two thirds to learn from, the last third to judge by."""
    known: list[Samples] = [run for run in examined.known if run.static]
    unseen: list[Samples] = []
    for run in examined.known:
        if run.static:
            continue
        border, gap = int(LEARNED * len(run)), max(1, round(APART * run.sample_rate_hz))
        if border < 3 or len(run) - border - gap < 3:
            raise ExcitorError(
                f'run {run.run!r} has {len(run)} samples, too few to keep back a third; give a run role = "validate"'
            )
        known.append(part(run, slice(0, border), "first two thirds"))
        unseen.append(part(run, slice(border + gap, None), "last third"))
    if not unseen:
        raise ExcitorError(
            'every run holds poses, so nothing that moves can be kept back; give a moving run role = "validate"'
        )
    samples = {run.run: run for run in (*known, *unseen)}
    return replace(examined, samples=samples, known=known, unseen=unseen)


def part(run: Samples, span: slice, words: str) -> Samples:
    """Take a stretch of a run under a name that says so; the noise's spectrum, of the whole, does not come along."""
    motion = Motion(run.motion.q[span], run.motion.dq[span], run.motion.ddq[span])
    return replace(
        run,
        run=f"{run.run} ({words})",
        motion=motion,
        tau=run.tau[span],
        variance=None if run.variance is None else run.variance[span],
        noise=None,
        steps=(*run.steps, Step("part", {"which": words})),
    )


def beside(prepared: Prepared, chi: FloatArray) -> Baselines:
    """Predict what needs no identification on the same equations; gravity alone is that of a model."""
    campaign = prepared.examined.campaign
    return set_baselines(
        campaign.robot,
        prepared.examined.unseen,
        chi=chi,
        regression=prepared.judging,
        decimate=thinner(campaign),
    )


def baseline_errors(prepared: Prepared, found: Baselines) -> Mapping[str, Errors]:
    """Judge the baselines on the same equations."""
    torques = {"zero": found.zero, "gravity only": found.gravity, "prior model": found.prior}
    return {name: torque_errors(prepared.judging, tau) for name, tau in torques.items()}


def noise_errors(prepared: Prepared) -> tuple[list[float], float] | None:
    """Tell what noise alone would leave, by joint and in total: no model leaves less. None where nobody knows."""
    if prepared.noise is None:
        return None
    judging, variance = prepared.judging, prepared.noise
    rows = [judging.joint == j for j in np.unique(judging.joint)]
    shares = [float(np.sqrt(np.sum(variance[r]) / max(np.sum(judging.y[r] ** 2), 1e-300))) for r in rows]
    return shares, float(np.sqrt(np.sum(variance) / np.sum(judging.y**2)))
