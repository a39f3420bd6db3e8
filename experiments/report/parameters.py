"""What is known of each parameter: value, interval, what it stands for, whose doing it is, whether it is needed."""

from typing import Any

import numpy as np

from excitor.experiments.model_file import finite
from excitor.experiments.page.embed import compact
from excitor.experiments.report.evidence import Evidence, Judged
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, regroupings
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

MAPPED = 90  # columns that a map can show


def base_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List all base parameters, those that the model left out included."""
    robot, intervals = evidence.robot, evidence.identified.intervals
    base, params = base_parameters(robot), layout(robot)
    forms = regroupings(robot, base)
    before = base.values(prior(robot))
    stated = ~np.any((base.regrouping != 0.0) & ~(robot.known | robot.assumed_zero), axis=1)
    needed = contributions(evidence.training, evidence)
    consistent = evidence.identified.consistent
    labels = {} if consistent is None else dict(zip(consistent.names, consistent.labels, strict=True))
    rows = []
    for k, column in enumerate(base.kept):
        name = params.names[column]
        row: dict[str, Any] = {
            "name": name,
            "base_name": base.names[k],
            "part": part_of(robot, name),
            "regrouping": forms[k],
            "unit": base.units[k],
            "prior": finite(before[k]) if stated[k] else None,
            "label": labels.get(name),
            "kept": name in intervals.names,
            "contribution": finite(needed.get(name, 0.0)),
            "essential": needed.get(name, 0.0) >= 1.0,
        }
        rows.append(row | known(evidence, name))
    return rows


def known(evidence: Evidence, name: str) -> dict[str, Any]:
    """Tell a parameter's value and how sure it is; nothing where the model left it out."""
    intervals, estimate = evidence.identified.intervals, evidence.identified.estimate
    keys = ("value", "sigma", "sigma_white", "low", "high", "relative")
    if name not in intervals.names:
        return dict.fromkeys(keys)
    i = intervals.names.index(name)
    value, sigma = float(intervals.values[i]), float(intervals.sigma[i])
    relative = sigma / abs(value) if value else np.inf
    numbers = (value, sigma, estimate.sigma[i], intervals.low[i], intervals.high[i], relative)
    return {key: finite(number) for key, number in zip(keys, numbers, strict=True)}


def part_of(robot: Robot, name: str) -> str:
    """Tell whether a parameter is a link's, a rotor's or of friction."""
    if name in {term.parameter for term in robot.drive.friction}:
        return "friction"
    return "rotor" if name in {rotor.parameter for rotor in robot.drive.rotors} else "link"


def contributions(judged: Judged, evidence: Evidence) -> dict[str, float]:
    """Measure each parameter's torque: its rms over that of the residuals, on the joint where that is largest."""
    regression, estimate = judged.regression, evidence.identified.estimate
    found = dict.fromkeys(estimate.names, 0.0)
    for j in np.unique(regression.joint):
        rows = regression.joint == j
        rest = float(np.sqrt(np.mean(judged.residual[rows] ** 2)))
        sizes = np.sqrt(np.mean(regression.W[rows] ** 2, axis=0))
        for name, size in zip(regression.names, sizes, strict=True):
            if name in found:
                torque = abs(estimate.value(name)) * float(size)
                found[name] = max(found[name], torque / rest if rest > 0.0 else np.inf)
    return found


def standard_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List the parameters of the physically consistent model."""
    consistent, robot = evidence.identified.consistent, evidence.robot
    if consistent is None:
        return []
    sigma = np.sqrt(np.diag(consistent.covariance))
    before = prior(robot)
    return [
        {
            "name": name,
            "unit": consistent.units[k],
            "part": part_of(robot, name),
            "value": float(consistent.chi[k]),
            "sigma": finite(sigma[k]),
            "prior": float(before[k]) if robot.known[k] else None,
            "label": consistent.labels[k],
            "share": float(consistent.share[k]),
            "on_a_bound": name in consistent.active,
        }
        for k, name in enumerate(consistent.names)
    ]


def correlation_data(evidence: Evidence) -> dict[str, Any]:
    """Compare the columns of the training equations, weighted by joint: cosines between them."""
    names, C = correlation(evidence)
    shown = min(len(names), MAPPED)
    return {"names": list(names[:shown]), "n_columns": len(names), "matrix": np.round(C[:shown, :shown], 3).tolist()}


def correlation(evidence: Evidence) -> tuple[tuple[str, ...], FloatArray]:
    """Cosines between the model's columns, (n_params, n_params)."""
    regression, estimate = evidence.training.regression, evidence.identified.estimate
    groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
    weights = 1.0 / np.array([estimate.group_sigma[group] for group in groups])
    columns = [regression.names.index(name) for name in estimate.names]
    W = regression.W[:, columns] * weights[:, None]
    norms = np.linalg.norm(W, axis=0)
    W = W / np.where(norms > 0.0, norms, 1.0)
    return estimate.names, np.asarray(W.T @ W)


def spectrum_data(evidence: Evidence) -> dict[str, Any]:
    """Write the singular values of the column-normalised equations."""
    estimate = evidence.identified.estimate
    return {"values": compact(estimate.singular_values), "condition": finite(estimate.condition)}
