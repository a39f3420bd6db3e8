"""Report on parameters: values, intervals, meaning, origin, and excitation by the runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.report.evidence import Evidence, ValidationEvidence
from excitor.experiments.report.html import compact, correlation_map, entries, subtable
from excitor.robots.arrays import FloatArray, finite
from excitor.robots.base import base_parameters, regroupings
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot


def base_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List all base parameters, those that the model left out included."""
    robot, model = evidence.robot, evidence.model
    base, params = base_parameters(robot), layout(robot)
    forms = regroupings(robot, base)
    before = base.values(prior(robot))
    stated = ~np.any((base.regrouping != 0.0) & ~(robot.known | robot.assumed_zero), axis=1)
    needed = contributions(evidence.training, evidence)
    labels = {} if model.standard is None else dict(zip(model.standard.names, model.standard.labels, strict=True))
    return [
        {
            "name": name,
            "base_name": base.names[k],
            "part": part_of(robot, name),
            "regrouping": forms[k],
            "unit": base.units[k],
            "prior": finite(before[k]) if stated[k] else None,
            "label": labels.get(name),
            "kept": name in model.names,
            "contribution": finite(needed.get(name, 0.0)),
            "essential": needed.get(name, 0.0) >= 1.0,
            **known(evidence, name),
        }
        for k, name in enumerate(params.names[column] for column in base.kept)
    ]


def known(evidence: Evidence, name: str) -> dict[str, Any]:
    """Return a parameter's value and its standard deviations; None values where the model left it out."""
    model = evidence.model
    keys = ("value", "sigma", "sigma_white", "low", "high", "relative")
    if name not in model.names:
        return dict.fromkeys(keys)
    i = model.names.index(name)
    value, sigma = float(model.values[i]), float(model.sigma[i])
    relative = sigma / abs(value) if value else np.inf
    numbers = (value, sigma, model.sigma_white[i], model.low[i], model.high[i], relative)
    return {key: finite(number) for key, number in zip(keys, numbers, strict=True)}


def part_of(robot: Robot, name: str) -> str:
    """Return the part that a parameter belongs to: "link", "rotor" or "friction"."""
    if name in {term.parameter for term in robot.drive.friction}:
        return "friction"
    return "rotor" if name in {rotor.parameter for rotor in robot.drive.rotors} else "link"


def contributions(judged: ValidationEvidence, evidence: Evidence) -> dict[str, float]:
    """Compute each parameter's torque: its rms over that of the residuals, on the joint where that is largest."""
    regression = judged.regression
    values = dict(zip(evidence.model.names, evidence.model.values.tolist(), strict=True))
    found = dict.fromkeys(values, 0.0)
    for j in np.unique(regression.joint):
        rows = regression.joint == j
        rest = float(np.sqrt(np.mean(judged.residual[rows] ** 2)))
        sizes = np.sqrt(np.mean(regression.W[rows] ** 2, axis=0))
        for name, size in zip(regression.names, sizes, strict=True):
            if name in found:
                torque = abs(values[name]) * float(size)
                found[name] = max(found[name], torque / rest if rest > 0.0 else np.inf)
    return found


def standard_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List the parameters of the physically consistent model."""
    standard, robot = evidence.model.standard, evidence.robot
    if standard is None or standard.sigma is None or standard.share is None:
        return []
    before = prior(robot)
    return [
        {
            "name": name,
            "unit": standard.units[k],
            "part": part_of(robot, name),
            "value": float(standard.values[k]),
            "sigma": finite(standard.sigma[k]),
            "prior": float(before[k]) if robot.known[k] else None,
            "label": standard.labels[k],
            "share": float(standard.share[k]),
            "on_a_bound": name in standard.active,
        }
        for k, name in enumerate(standard.names)
    ]


def correlation_data(evidence: Evidence) -> dict[str, Any]:
    """Compare the columns of the training equations, weighted by joint: cosines between them."""
    names, C = correlation(evidence)
    found = correlation_map(names, C)
    return {"names": found["names"], "n_columns": len(names), "matrix": found["matrix"]}


def correlation(evidence: Evidence) -> tuple[tuple[str, ...], FloatArray]:
    """Cosines between the model's columns, (n_params, n_params)."""
    regression, model = evidence.training.regression, evidence.model
    sigma = {(regression.joint_names.index(weight.joint), weight.run): weight.sigma for weight in model.weights}
    groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
    weights = 1.0 / np.array([sigma[group] for group in groups])
    columns = [regression.names.index(name) for name in model.names]
    W = regression.W[:, columns] * weights[:, None]
    norms = np.linalg.norm(W, axis=0)
    W = W / np.where(norms > 0.0, norms, 1.0)
    return model.names, np.asarray(W.T @ W)


def spectrum_data(evidence: Evidence) -> dict[str, Any]:
    """Write the singular values of the column-normalised equations."""
    return {"values": compact(evidence.model.singular_values), "condition": finite(evidence.model.condition)}


KNOWN_BY = {"data-determined": "the data", "prior-dominated": "the prior", "assumed zero": "assumed zero"}


def parameters_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the base parameters with their intervals."""
    rows = entries(data, "parameters")
    return {"parameters": rows, "known_by": KNOWN_BY} if rows else None


def standard_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the standard parameters of the consistent model, in a folded section."""
    rows = entries(data, "standard")
    return {"parameters": rows, "known_by": KNOWN_BY} if rows else None


def spectrum_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the singular values of the equations."""
    spectrum = subtable(data, "spectrum")
    return {"condition": spectrum["condition"]} if spectrum else None


def correlation_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the correlated columns of the runs."""
    found = subtable(data, "correlation")
    return {"shown": len(found["names"]), "n_columns": found["n_columns"]} if found else None
