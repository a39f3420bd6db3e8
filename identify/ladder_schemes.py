"""What do other equations of the same runs say? Weighted least squares on filtered momentum, energy and power."""

from collections.abc import Callable, Sequence

import numpy as np

from excitor.identify.estimate import wls
from excitor.identify.factors import compress
from excitor.identify.influence import honest_intervals
from excitor.identify.ladder_nouns import Answer, Problem
from excitor.identify.samples import Samples
from excitor.identify.schemes import Scheme, SchemeKind, scheme_regression
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout

SHARE = 0.9  # of the power of velocities that lies below the cut-off


def scheme_answer(kind: SchemeKind) -> Callable[[Problem], Answer]:
    """Make the method that fits one kind of equations."""

    def fit(problem: Problem) -> Answer:
        moving = [run for run in problem.runs if not run.static]
        if not moving:
            raise ExcitorError("all runs are static poses, in which nothing has power; use wls")
        scheme, note = choose_scheme(kind, moving)
        columns = layout(problem.robot).indices(problem.regression.names)
        regression = scheme_regression(problem.robot, moving, scheme, columns=columns, rows=problem.rows)
        if len(regression) <= len(regression.names):
            raise ExcitorError(
                f"{len(regression)} equations of {kind} do not determine {len(regression.names)} parameters; record "
                "more, or thin less"
            )
        estimate = wls(compress(regression))
        notes = (note,) if note else ()
        if len(moving) < len(problem.runs):
            notes = (*notes, "static poses were left out: they have no power")
        evidence = {"condition": estimate.condition}
        if scheme.kind.startswith("filtered"):
            evidence["cutoff_hz"] = scheme.cutoff / (2.0 * np.pi)
        return Answer(kind, estimate, honest_intervals(regression, estimate), notes=notes, evidence=evidence)

    return fit


def choose_scheme(kind: SchemeKind, runs: Sequence[Samples]) -> tuple[Scheme, str]:
    """Choose a filter for the band in which the runs move, motion straight between samples."""
    if kind in ("power", "energy"):
        return Scheme(kind, hold="first"), ""
    band = velocity_band(runs)
    cutoff = 2.0 * np.pi * band
    note = (
        f"filtered at {band:.2g} Hz, below which lies {100 * SHARE:.0f} % of what velocities vary; the first "
        f"{1.0 / cutoff:.2g} s of each run are left out"
    )
    return Scheme(kind, cutoff=cutoff, hold="first", settle=1.0 / cutoff), note


def velocity_band(runs: Sequence[Samples]) -> float:
    """Frequency, Hz, below which the share SHARE of velocities' power lies, all joints counted alike."""
    bands = []
    for run in runs:
        power = np.abs(np.fft.rfft(run.motion.dq - run.motion.dq.mean(axis=0), axis=0)) ** 2
        moved = power.sum(axis=0)
        if not (moved > 0.0).any():
            continue
        below: FloatArray = np.cumsum(np.mean(power[:, moved > 0.0] / moved[moved > 0.0], axis=1))
        line = int(np.searchsorted(below, SHARE))
        bands.append(max(line, 1) * run.sample_rate_hz / len(run))
    if not bands:
        raise ExcitorError("nothing moves in any run, so there is no band to filter for; use wls")
    return float(np.median(bands))
