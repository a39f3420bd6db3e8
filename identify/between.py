"""Differences between runs: a load, an offset, a gain or friction that is not the same in one of them.

One model is fitted to all runs. For each run and each possible change its own columns E are added to that run's rows,
and tested by δ = (Eᵀ M E)⁻¹ Eᵀ r, χ² = δᵀ Eᵀ M E δ, M = 1 - W W⁺, rows divided by their joint's deviation and by the
root of its residuals' correlation time. The likeliest change that chance does not explain is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.diagnose import Finding
from excitor.identify.intervals import joint_sigma, whiteness
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

CHANCE = 1e-4  # of all tests together, in runs that are alike
WORTH = 0.03  # of the run's residual power: a change that explains less does not matter
LOAD = ("M", "MX", "MY", "MZ")  # of the last link


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """A change of one run against the others, with its covariance."""

    run: str
    kind: str  # "load", "friction", "offset", "gain"
    joint: str  # "" of a load
    values: FloatArray  # load: kg, kg m; friction: by column; offset: N m or N; gain: relative
    covariance: FloatArray
    chance: float  # probability of it, or more, in runs that are alike
    explained: float  # share of the run's residual power

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


@one_blas_thread()
def changes(robot: Robot, runs: Sequence[Samples], rows: Rows) -> list[Change]:
    """Find what differs between runs: of each run the likeliest change, surest first."""
    if len(runs) < 2:
        return []
    regression = dynamic_regression(robot, runs, rows=rows)
    if len(regression) <= len(regression.names) or np.linalg.cond(np.linalg.qr(regression.W, mode="r")) > 1e12:
        return []
    weights = independent_weights(regression)
    W, y = weights[:, None] * regression.W, weights * regression.y
    R, beta = _fitted(W, y)
    residual = y - W @ beta
    candidates = list(_candidates(robot, runs, rows, regression, regression.W @ beta))
    found: list[Change] = []
    for number, name in enumerate(regression.runs):
        own = regression.run == number
        power = float(residual[own] @ residual[own])
        best: Change | None = None
        for kind, joint, columns in candidates:
            change = _tested(R, W[own], weights[own, None] * columns[own], residual[own])
            if change is None or power <= 0.0:
                continue
            values, covariance, square = change
            chance = float(scipy.stats.chi2.sf(square, len(values))) * len(candidates) * len(regression.runs)
            one = Change(name, kind, joint, values, covariance, min(chance, 1.0), square / power)
            if one.chance < CHANCE and one.explained > WORTH and (best is None or one.explained > best.explained):
                best = one
        found += [] if best is None else [best]
    return sorted(found, key=lambda change: -change.explained)


def _fitted(W: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the triangular factor of W, and the least-squares solution."""
    R = np.asarray(np.linalg.qr(np.column_stack([W, y]), mode="r"))
    return R[:-1, :-1], scipy.linalg.solve_triangular(R[:-1, :-1], R[:-1, -1])


def independent_weights(regression: Regression) -> FloatArray:
    """Divide rows by their joint's deviation and the root of its correlation time: then they count as independent.

    Both are those of residuals of models and offsets of each run's own, in which runs may differ.
    """
    residual = np.empty(len(regression))
    constants = (regression.joint[:, None] == np.unique(regression.joint)).astype(float)
    for number in np.unique(regression.run):
        own = regression.run == number
        W = np.column_stack([regression.W[own], constants[own]])
        W /= np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny)
        y = regression.y[own]
        residual[own] = y - W @ (np.linalg.pinv(W.T @ W, rcond=1e-12, hermitian=True) @ (W.T @ y))
    worth = {entry.joint: entry.n_effective / entry.n_rows for entry in whiteness(regression, residual)}
    root = np.sqrt([worth[regression.joint_names[j]] for j in regression.joint])
    return np.asarray(root / joint_sigma(regression, residual))


def _candidates(
    robot: Robot, runs: Sequence[Samples], rows: Rows, regression: Regression, model: FloatArray
) -> Iterator[tuple[str, str, FloatArray]]:
    """List possible changes: kind, joint, and columns over all rows."""
    params = layout(robot)
    last = params.n_links
    load = params.indices([f"{name}{last}" for name in LOAD])
    if not robot.assumed_zero[load].all():
        yield "load", "", dynamic_regression(robot, runs, columns=np.asarray(load), rows=rows).W
    for j in np.unique(regression.joint):
        of_joint = (regression.joint == j).astype(float)
        name = regression.joint_names[j]
        yield "offset", name, of_joint[:, None]
        yield "gain", name, (of_joint * model)[:, None]
        own = {t.parameter for t in robot.drive.friction if int(np.argmax(np.abs(t.acts))) == j}
        places = [k for k, column in enumerate(regression.names) if column in own]
        if places:
            yield "friction", name, regression.W[:, places]


def _tested(
    R: FloatArray, W: FloatArray, E: FloatArray, residual: FloatArray
) -> tuple[FloatArray, FloatArray, float] | None:
    """Estimate a change with its covariance, and its χ²; None where the run does not show it apart from the model."""
    size = np.linalg.norm(E, axis=0)
    if not (size > 0.0).all():
        return None
    E = E / size
    apart = scipy.linalg.solve_triangular(R, W.T @ E, trans="T")
    information = E.T @ E - apart.T @ apart
    if np.linalg.eigvalsh(information)[0] < 1e-8:
        return None
    right = E.T @ residual
    values = np.linalg.solve(information, right)
    covariance = np.linalg.inv(information) / np.outer(size, size)
    return values / size, covariance, float(right @ values)


def check_between(robot: Robot, runs: Sequence[Samples], rows: Rows) -> tuple[Finding, ...]:
    """State what differs between moving runs that should be alike; friction warms, so it is only noted."""
    return tuple(_finding(robot, change, len(runs)) for change in changes(robot, runs, rows))


def _finding(robot: Robot, change: Change, n_runs: int) -> Finding:
    other = "the other run" if n_runs == 2 else "the other runs"
    value, sigma = float(change.values[0]), float(change.sigma[0])
    data: dict[str, float | str | tuple[str, ...]] = {"run": change.run, "explained": change.explained}
    data |= {"kind": change.kind, "joint": change.joint, "value": value, "sigma": sigma}
    share = f"which explains {100 * change.explained:.0f} % of the run's errors"
    if change.kind == "load":
        center = ", ".join(f"{1e3 * x / value:.0f}" for x in change.values[1:])
        link = robot.mechanism.link_names[-1]
        more = f"{abs(value):.3g} ± {1.96 * sigma:.2g} kg {'more' if value > 0.0 else 'less'} than {other}"
        sentence = f"run {change.run!r} carries {more}, centred at ({center}) mm of {link}, {share}"
        return Finding("doubtful", "another load", sentence, "state each run's load, or leave the run out", data)
    slides = robot.mechanism.prismatic[robot.joint_names.index(change.joint)]
    unit = "" if change.kind != "offset" else " N" if slides else " N m"
    size = {
        "offset": f"an offset of {value:.3g} ± {1.96 * sigma:.2g}{unit}",
        "gain": f"torques {100 * value:+.2g} ± {196 * sigma:.2g} % of the model's",
        "friction": f"friction that differs by {', '.join(f'{x:.3g}' for x in change.values)}",
    }[change.kind]
    sentence = f"joint {change.joint} has {size} in run {change.run!r} against {other}, {share}"
    if change.kind == "friction":
        return Finding("note", "friction between runs", sentence, "warm the robot up before the first run", data)
    return Finding("doubtful", f"{change.kind} between runs", sentence, "check what was changed between the runs", data)
