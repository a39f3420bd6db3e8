"""Sections of the report on parameters: values, intervals, meaning, origin, and excitation by the runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from excitor.experiments.report.evidence import Evidence, ValidationEvidence
from excitor.experiments.report.html import (
    NONE,
    Cell,
    bar,
    beside,
    card,
    chart,
    compact,
    element,
    entries,
    number_cell,
    percent,
    show,
    subtable,
    tier,
    unit_words,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.robots.arrays import FloatArray, finite
from excitor.robots.base import base_parameters, regroupings
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

MAPPED = 90  # columns that a map can show


def base_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List all base parameters, those that the model left out included."""
    robot, model = evidence.robot, evidence.model
    base, params = base_parameters(robot), layout(robot)
    forms = regroupings(robot, base)
    before = base.values(prior(robot))
    stated = ~np.any((base.regrouping != 0.0) & ~(robot.known | robot.assumed_zero), axis=1)
    needed = contributions(evidence.training, evidence)
    labels = {} if model.standard is None else dict(zip(model.standard.names, model.standard.labels, strict=True))
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
            "kept": name in model.names,
            "contribution": finite(needed.get(name, 0.0)),
            "essential": needed.get(name, 0.0) >= 1.0,
        }
        rows.append(row | known(evidence, name))
    return rows


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
    shown = min(len(names), MAPPED)
    return {"names": list(names[:shown]), "n_columns": len(names), "matrix": np.round(C[:shown, :shown], 3).tolist()}


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


SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
HEADINGS = [
    ("parameter", ""),
    ("value", "n"),
    ("95 % interval", "n"),
    ("unit", ""),
    (f"{SIGMA} / value", "n"),
    ("", ""),
    ("prior", "n"),
    ("torque / residual", "n"),
    ("stands for", ""),
    ("first term known by", ""),
]
KNOWN_BY = {"data-determined": "the data", "prior-dominated": "the prior", "assumed zero": "assumed zero"}


def parameters_section(data: Mapping[str, Any]) -> Markup:
    """List the base parameters with their intervals."""
    rows = [_row(row) for row in entries(data, "parameters")]
    hint = (
        "Combinations of parameters that torques can show; click a heading to sort. Bars are logarithmic: the standard "
        "deviation as a share of the value, 0.1 % at the left and 100 % at the right. Torque / residual: the "
        "parameter's torque, in units of the residuals; below 1 it is not essential (*). A value is "
        "that of the whole sum, as the data determine it. No data determine the share of its first term in full: "
        "the last column states whether the data or the prior determine it in the physically consistent model."
    )
    return card(
        "parameters", "Parameters", html_table(HEADINGS, rows, sortable=True, class_="parameters pinned"), hint=hint
    )


def _row(row: Mapping[str, Any]) -> tuple[str, list[Any]]:
    relative, name = row.get("relative"), element("b", str(row.get("name", "")))
    length = element("i", element("b", style=f"width:{bar(relative)}%"))
    kept = bool(row.get("kept"))
    sigma = row.get("sigma")
    interval = f"{beside(row.get('low'), sigma)} … {beside(row.get('high'), sigma)}" if kept else NONE
    needed = show(row.get("contribution"), 3) + ("" if row.get("essential") else " *") if kept else "left out"
    return tier(relative), [
        name,
        number_cell(beside(row.get("value"), sigma), row.get("value")),
        number_cell(interval, row.get("low")),
        Cell(unit_words(row.get("unit")), "u"),
        number_cell(percent(relative), relative),
        Cell(length, "bar"),
        number_cell(show(row.get("prior")), row.get("prior")),
        number_cell(needed, row.get("contribution") if kept else None),
        Cell(str(row.get("regrouping", "")), "formula"),
        KNOWN_BY.get(str(row.get("label")), NONE),
    ]


def standard_section(data: Mapping[str, Any]) -> Markup:
    """List the standard parameters of the consistent model, in a folded section."""
    rows = entries(data, "standard")
    if not rows:
        return Markup("")
    headings = [
        ("parameter", ""),
        ("value", "n"),
        (SIGMA, "n"),
        ("unit", ""),
        ("prior", "n"),
        ("data's share", "n"),
        ("known by", ""),
    ]
    made = [
        (
            "",
            [
                element("b", str(row.get("name", ""))),
                number_cell(show(row.get("value"), 5), row.get("value")),
                number_cell(show(row.get("sigma"), 3), row.get("sigma")),
                Cell(unit_words(row.get("unit")), "u"),
                number_cell(show(row.get("prior")), row.get("prior")),
                number_cell(percent(row.get("share")), row.get("share")),
                KNOWN_BY.get(str(row.get("label")), NONE) + (", on a bound" if row.get("on_a_bound") else ""),
            ],
        )
        for row in rows
    ]
    whole = element(
        "details",
        element("summary", f"Show all {len(rows)} parameters"),
        html_table(headings, made, sortable=True, class_="pinned"),
    )
    hint = (
        "One physically possible set of parameters, among many that give the same torques. A share is that part of a "
        "parameter's information that comes from the data; the rest is the prior's."
    )
    return card("standard", "Parameters of the physically consistent model", whole, hint=hint)


def spectrum_section(data: Mapping[str, Any]) -> Markup:
    """Write the singular values of the equations."""
    hint = (
        "Singular values of the column-normalised training equations. Largest over smallest is the condition number, "
        f"{show(subtable(data, 'spectrum').get('condition'))}: a dot that falls off is a combination that hardly shows."
    )
    return card("spectrum", "Excitation of the parameters", chart("spectrum"), hint=hint)


def correlation_section(data: Mapping[str, Any]) -> Markup:
    """Write the correlated columns of the runs."""
    found = subtable(data, "correlation")
    shown, whole = len(found.get("names", ())), found.get("n_columns", 0)
    hint = (
        "Correlation of the parameters' effects on the torques of the training runs, joints weighted by their "
        "residuals. Faint is good: the two are separable. Strong red (same sign) or blue (opposite sign) is not. "
        "Point at a cell for names."
    )
    side = element(
        "div",
        element("p", hint, class_="hint"),
        element("p", f"Shown are the first {shown} of {whole}.", class_="hint") if whole != shown else "",
        element("p", data_chart="correlation-hover", class_="readout"),
        chart("correlation-worst"),
    )
    body = element("div", chart("correlation"), side, class_="correlation")
    return card("correlation", "Correlation of the parameters", body)
