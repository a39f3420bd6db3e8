"""Which cut-off should filters have? The one whose model, simulated open loop, stays nearest to the robot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.estimate import Estimate, ols
from excitor.identify.factors import compress
from excitor.identify.held_filters import switching
from excitor.identify.open_loop import OpenLoop, open_loop
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.identify.schemes import Scheme, scheme_regression
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.robot import Motion, Robot

Fit = Callable[[Regression], Estimate]


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """One cut-off: what was identified with it, and how its simulation went."""

    cutoff: float  # rad/s
    estimate: Estimate | None  # None where the data did not determine the parameters
    simulated: OpenLoop | None
    error: float  # rms of simulated minus measured positions over the rms of the excursions, mean of joints and runs


@dataclass(frozen=True, eq=False, slots=True)
class CutoffScan:
    """Cut-offs in the order they were tried."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """Take the trial whose simulation stays nearest."""
        return min(self.trials, key=lambda trial: trial.error)


def least_squares(regression: Regression) -> Estimate:
    """Fit by ordinary least squares, as published."""
    return ols(compress(regression))


def scan_cutoff(
    robot: Robot,
    runs: Sequence[Samples],
    scheme: Scheme,
    *,
    cutoffs: Sequence[float],
    recorded: Sequence[Samples],
    fit: Fit = least_squares,
) -> CutoffScan:
    """Identify by a scheme at each cut-off (rad/s) and simulate each model under the torques of `recorded`.

    `recorded` are runs at the raw rate, torque k held from sample k to the next, as `open_loop` takes them: `runs` may
    be the same data at mid-sample. Where the scheme delays torques, so do simulations. ExcitorError where no cut-off
    gives a model that can be simulated to the end.
    """
    if not len(cutoffs):
        raise ExcitorError(
            "there are no cut-offs to try; give some, such as half and twice the motion's highest frequency"
        )
    still = [run.run for run in recorded if not np.ptp(run.motion.q, axis=0).any()]
    if still:
        raise ExcitorError(f"nothing moves in run {still[0]!r}, so its simulation tells nothing; leave it out")
    recorded = [_acting(run, scheme) for run in recorded]
    found = CutoffScan(tuple(_trial(robot, runs, replace(scheme, cutoff=c), recorded, fit) for c in cutoffs))
    if not np.isfinite(found.best.error):
        said = next((t.simulated.sentences()[0] for t in found.trials if t.simulated is not None), "rank is deficient")
        raise ExcitorError(
            f"{robot.name}: no cut-off of {', '.join(f'{c:g}' for c in cutoffs)} rad/s gives a model that can be "
            f"simulated to the end ({said}); simulate shorter runs, or compare held-out torques instead"
        )
    return found


def _trial(robot: Robot, runs: Sequence[Samples], scheme: Scheme, recorded: Sequence[Samples], fit: Fit) -> Trial:
    try:
        estimate = fit(scheme_regression(robot, runs, scheme))
    except RankDeficient:
        return Trial(scheme.cutoff, None, None, np.inf)
    simulated = open_loop(robot, base_parameters(robot).standard(estimate.values), recorded)
    return Trial(scheme.cutoff, estimate, simulated, _distance(simulated, recorded))


def _acting(run: Samples, scheme: Scheme) -> Samples:
    """Put torques beside the motion that they act on; samples for which none was recorded are left out."""
    delays = scheme.delays(run.tau.shape[1])
    if not delays.any():
        return run
    if np.ptp(delays) > 0.0:
        raise ExcitorError(
            "torques with a delay for each joint are not simulated; give the scheme one delay, or shift the torques"
        )
    way = switching(len(run), run.phase, float(delays[0]) * run.sample_rate_hz)
    kept = slice(way.first, min(way.stop, len(run) - way.ahead))
    if kept.stop - kept.start < 2:
        raise ExcitorError(f"run {run.run!r} ends before torques so delayed act; give a shorter delay, or a longer run")
    motion = Motion(run.motion.q[kept], run.motion.dq[kept], run.motion.ddq[kept])
    tau = run.tau[kept.start + way.ahead : kept.stop + way.ahead]
    return replace(run, motion=motion, tau=tau, phase=1.0 - way.remaining, variance=None, noise=None)


def _distance(simulated: OpenLoop, recorded: Sequence[Samples]) -> float:
    if len(simulated.runs) < len(recorded):
        return np.inf
    shares = []
    for done, run in zip(simulated.runs, recorded, strict=True):
        excursion = np.std(run.motion.q, axis=0)
        moved = excursion > 0.0
        shares.append(float(np.mean(done.rms[moved] / excursion[moved])))
    return float(np.mean(shares))
