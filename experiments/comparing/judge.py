"""How does each method do on what none of them has seen? Errors, whether the robot could exist, and who disagrees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from excitor.experiments.comparing.prepare import Prepared
from excitor.experiments.identification import smallest_inertia
from excitor.identify.estimate import Estimate
from excitor.identify.intervals import Intervals
from excitor.identify.methods import Answer
from excitor.identify.regression import Regression
from excitor.identify.validate import Errors, estimated_torques, torque_errors
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Robot


@dataclass(frozen=True)
class Judged:
    """One method's answer beside what it leaves of torques that it was not fitted to."""

    answer: Answer
    estimate: Estimate
    held_out: Errors
    training: Errors
    residual: FloatArray  # (n_rows,) of the judging equations
    smallest_inertia: float  # eigenvalue of M(q) over random poses
    driving: tuple[str, ...]  # friction estimated below 0, which would drive its joint

    @property
    def name(self) -> str:
        """The method's name."""
        return self.answer.method

    @property
    def error(self) -> float:
        """‖τ - τ̂‖ / ‖τ‖ over all joints, held out."""
        return self.held_out.relative_total

    @property
    def possible(self) -> bool:
        """Whether no torque of the model contradicts physics at once: M(q) positive definite, friction resists."""
        return self.smallest_inertia > 0.0 and not self.driving


@dataclass(frozen=True)
class Pair:
    """How far two methods are apart, on the same motion."""

    one: str
    other: str
    torque: float  # ‖W (β - β')‖ / ‖τ‖ on the judging equations
    apart: tuple[str, ...] | None  # parameters each outside the other's 95 % interval; None where one gives no interval
    compared: int  # parameters that both give


def judge_answer(prepared: Prepared, answer: Answer) -> Judged | None:
    """Judge what a method found; None where it refused."""
    estimate = answer.estimate
    if estimate is None:
        return None
    robot, judging, fitted = prepared.problem.robot, prepared.judging, prepared.fitted
    predicted = estimated_torques(judging, estimate)
    return Judged(
        answer=answer,
        estimate=estimate,
        held_out=torque_errors(judging, predicted),
        training=torque_errors(fitted, estimated_torques(fitted, estimate)),
        residual=judging.y - predicted,
        smallest_inertia=smallest_inertia(robot, estimate),
        driving=driving(robot, estimate),
    )


def driving(robot: Robot, estimate: Estimate) -> tuple[str, ...]:
    """Name friction whose estimate is below 0."""
    resists = {term.parameter for term in robot.drive.friction if term.model in ("viscous", "coulomb")}
    return tuple(name for name in estimate.names if name in resists and estimate.value(name) < 0.0)


def pairs(judging: Regression, judged: Sequence[Judged]) -> tuple[Pair, ...]:
    """Compare every two methods."""
    size = float(np.linalg.norm(judging.y))
    return tuple(
        Pair(
            one.name,
            other.name,
            float(np.linalg.norm(one.residual - other.residual)) / size if size > 0.0 else float("inf"),
            apart(one.answer.intervals, other.answer.intervals),
            len(set(one.estimate.names) & set(other.estimate.names)),
        )
        for one, other in combinations(judged, 2)
    )


def apart(one: Intervals | None, other: Intervals | None) -> tuple[str, ...] | None:
    """Name the parameters whose values lie outside each other's intervals."""
    if one is None or other is None:
        return None
    first, second = by_name(one), by_name(other)
    return tuple(
        name
        for name, (value, low, high) in first.items()
        if name in second and not low <= second[name][0] <= high and not second[name][1] <= value <= second[name][2]
    )


def by_name(intervals: Intervals) -> Mapping[str, tuple[float, float, float]]:
    """Look up value, low and high of every parameter."""
    numbers = zip(intervals.values.tolist(), intervals.low.tolist(), intervals.high.tolist(), strict=True)
    return dict(zip(intervals.names, numbers, strict=True))


def pair_of(found: Sequence[Pair], one: str, other: str) -> Pair | None:
    """Find a pair whatever its order."""
    return next((pair for pair in found if {pair.one, pair.other} == {one, other}), None)
