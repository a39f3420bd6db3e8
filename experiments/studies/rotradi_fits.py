"""Fits of the Rotradi study: five schemes as in the paper, the careful variant, and every step between the two."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.studies.rotradi_tables import CAREFUL_ALL, REFERENCE, SCHEMES
from excitor.experiments.studies.rotradi_virtual import RATE, UNITS, Experiment, Recorded, Truth
from excitor.identify.estimate import compress, ols, wls
from excitor.identify.recursive import Recursion, batch, rls
from excitor.identify.regression import Regression, combine
from excitor.identify.samples import Samples, backward, central, mid_sample
from excitor.identify.schemes import Scheme, SchemeKind, scheme_delay, scheme_regression
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Robot

CUTOFF = 9.11  # rad/s
P0 = 1e6

Timing = Callable[[str, FloatArray, FloatArray, float], Samples]


@dataclass(frozen=True, eq=False, slots=True)
class Fitted:
    """All estimates from one run."""

    theta: Mapping[str, FloatArray]  # by method
    recursions: Mapping[str, Recursion]  # by scheme of the paper
    batch_difference: float  # largest, relative
    delay: tuple[float, float]  # s, and its deviation


def fit(known: Truth, experiment: Experiment, *, every: int | None = None) -> Fitted:
    """Fit the five schemes as the paper does, and the careful ones, which first find out how late torques act."""
    run = experiment.identification
    paper = {kind: paper_equations(known, run, kind) for kind in SCHEMES}
    recursions: dict[str, Recursion] = {
        kind: rls(equations, variance=P0, every=every) for kind, equations in paper.items()
    }
    difference = max(batch_difference(paper[kind], recursions[kind]) for kind in SCHEMES)
    theta = {str(kind): recursion.estimate.values for kind, recursion in recursions.items()}
    samples = timed(mid_sample, run)
    found = scheme_delay(known.robot, [samples], Scheme(REFERENCE, cutoff=CUTOFF, hold="first"))
    for name, kind in CAREFUL_ALL.items():
        scheme = Scheme(kind, cutoff=CUTOFF, hold="first", delay=found.value)
        theta[name] = wls(compress(equations_of(known, known.robot, samples, scheme))).values
    return Fitted(theta, recursions, difference, (found.value, found.sigma))


def paper_equations(known: Truth, run: Recorded, kind: SchemeKind, cutoff: float = CUTOFF) -> Regression:
    """Set up a scheme as the paper does: backward differences, everything held between samples, a true sign."""
    return equations_of(known, known.sharp, timed(backward, run), Scheme(kind, cutoff=cutoff, hold="zero"))


def ablation(known: Truth, run: Recorded) -> dict[str, FloatArray]:
    """Fit the filtered dynamic model from the paper's way to the careful one, a step at a time."""
    exact = Samples("exact", run.true, run.tau, RATE, phase=0.0)
    zero = Scheme(REFERENCE, cutoff=CUTOFF, hold="zero")
    first = replace(zero, hold="first")
    mid, unrounded = timed(mid_sample, run), replace(run, q=run.true.q)
    steps: dict[str, tuple[Robot, Samples, Scheme]] = {
        "as in the paper": (known.sharp, timed(backward, run), zero),
        "as in the paper, encoders without quantisation": (known.sharp, timed(backward, unrounded), zero),
        "central differences": (known.sharp, timed(central, run), zero),
        "exact velocity": (known.sharp, exact, zero),
        "central differences, first-order hold": (known.sharp, timed(central, run), first),
        "mid-sample, first-order hold": (known.sharp, mid, first),
        "mid-sample, first-order hold, smoothed sign": (known.robot, mid, first),
    }
    return {name: solve(equations_of(known, *step)) for name, step in steps.items()}


def timed(how: Timing, run: Recorded) -> Samples:
    """Derive motion from encoder positions, in one of the ways that differ by half samples."""
    return how("identification", run.q, run.tau, RATE)


def equations_of(known: Truth, robot: Robot, samples: Samples, scheme: Scheme) -> Regression:
    """Set up a scheme's equations in the declared parameters."""
    return combine(scheme_regression(robot, [samples], scheme), known.T, known.names, UNITS)


def solve(equations: Regression) -> FloatArray:
    """Solve by ordinary least squares: every row counts the same, as in the paper, whose P0 hardly matters."""
    return ols(compress(equations)).values


def batch_difference(equations: Regression, recursion: Recursion) -> float:
    """Compare recursive with batch least squares of the same P0 and θ0: relative 2-norm of the difference."""
    whole = batch(equations, variance=P0)
    return float(np.linalg.norm(recursion.estimate.values - whole) / np.linalg.norm(whole))
