"""Sections of the report on the fit: errors beside the baselines, residuals, and torques by cause."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from excitor.experiments.report.campaign import noise_floor
from excitor.experiments.report.evidence import Evidence
from excitor.experiments.report.html import (
    MINUS,
    Cell,
    card,
    chart,
    compact,
    element,
    entries,
    joined,
    number_cell,
    percent,
    show,
    subtable,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.identify.validate import Errors, Validation
from excitor.robots.arrays import FloatArray, finite

BINS = 41
SAME = 1e-3  # relative difference of rates that are one
REACH = 4.5  # standard deviations that a histogram shows; larger ones count in its last bins


def errors_data(evidence: Evidence) -> list[dict[str, Any]]:
    """List errors of joint torques, held-out ones first, each with the three baselines."""
    return [
        {
            "label": judged.validation.label,
            "training": judged.validation.training,
            "runs": list(judged.validation.runs),
            "joints": list(judged.validation.joints),
            "n_rows": judged.validation.n_rows,
            "model": _numbers(judged.validation.model),
            "noise": noise_floor(evidence, judged),
            "baselines": {name: _numbers(errors) for name, errors in judged.validation.baselines.items()},
        }
        for judged in (evidence.held_out, evidence.training)
        if judged is not None
    ]


def residuals_data(evidence: Evidence) -> list[dict[str, Any]]:
    """Describe the residuals joint by joint, held-out ones first."""
    return [
        {
            "label": "validation" if judged is evidence.held_out else "training",
            "training": judged.validation.training,
            "lag_s": _lag(evidence),
            "joints": [
                _joint(judged.validation, k, judged.residual[judged.regression.joint == j])
                for k, j in enumerate(np.unique(judged.regression.joint))
            ],
        }
        for judged in (evidence.held_out, evidence.training)
        if judged is not None
    ]


def histogram(residual: FloatArray) -> dict[str, Any]:
    """Count residuals in bins of their standard deviation about 0, and those beyond three of them."""
    sigma = float(np.sqrt(np.mean(residual**2)))
    if sigma == 0.0:
        return {"sigma": 0.0, "edges": [], "counts": [], "beyond_three_sigma": 0.0}
    scaled = residual / sigma
    counts, edges = np.histogram(np.clip(scaled, -REACH, REACH), BINS, (-REACH, REACH))
    return {
        "sigma": sigma,
        "edges": compact(edges * sigma),
        "counts": counts.tolist(),
        "beyond_three_sigma": float(np.mean(np.abs(scaled) > 3.0)),
    }


def _joint(validation: Validation, k: int, residual: FloatArray) -> dict[str, Any]:
    white, bins = validation.whiteness[k], validation.by_velocity[k]
    return {
        "joint": white.joint,
        "n_rows": white.n_rows,
        "histogram": histogram(residual),
        "autocorrelation": {
            "values": compact(white.autocorrelation),
            "bound": white.bound,
            "white": white.white,
            "inflation": finite(white.inflation),
        },
        "by_velocity": {
            "velocity": compact(bins.velocity),
            "mean": compact(bins.mean),
            "rms": compact(bins.rms),
            "n_rows": bins.n_rows.tolist(),
        },
    }


def _numbers(errors: Errors) -> dict[str, Any]:
    return {
        "relative": [finite(x) for x in errors.relative],
        "total": finite(errors.relative_total),
        "mean_absolute": [finite(x) for x in errors.mean_absolute],
        "rmse": [finite(x) for x in errors.rmse],
    }


def _lag(evidence: Evidence) -> float | None:
    """Time between neighbouring equations, s; none where runs differ in it."""
    moving = [run.time for run in evidence.runs if not run.samples.static and len(run.time) > 1]
    steps = [float(time[1] - time[0]) for time in moving]
    alike = bool(steps) and max(steps) - min(steps) < SAME * max(steps)
    return float(np.median(steps)) if alike else None


BASELINES = {
    "zero": "without any model",
    "gravity only": "with gravity only",
    "prior model": "with the prior model",
}


def errors_section(data: Mapping[str, Any]) -> Markup:
    """Show relative errors per joint, held out and in training, beside three baselines."""
    blocks = [_errors(entry, subtable(data, "robot")) for entry in entries(data, "errors")]
    hint = (
        "Of joint torques: the norm of measured less predicted, over the norm of measured. Below the identified model "
        "stand three baselines, which need no identification. Noise is what does not repeat between periods."
    )
    return card("errors", "Torque errors beside the baselines", *blocks, hint=hint)


def _errors(entry: Mapping[str, Any], robot: Mapping[str, Any]) -> Markup:
    joints, model = entries(entry, "joints"), subtable(entry, "model")
    headings = [("", ""), *((str(joint), "n") for joint in joints), ("all joints", "n")]
    label = "identified model, training data" if entry.get("training") else "identified model"
    rows = [("model", [label, *_relative(model)])]
    rows += [
        ("", [BASELINES.get(str(name), str(name)), *_relative(errors)])
        for name, errors in subtable(entry, "baselines").items()
    ]
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    rms = [
        number_cell(f"{show(x, 3)} {units.get(joint, '')}", x)
        for joint, x in zip(joints, entries(model, "rmse"), strict=False)
    ]
    noise = subtable(entry, "noise")
    if noise:
        rows.append(("", ["noise alone, which no model predicts", *_relative(noise)]))
    rows.append(("", ["error of the identified model, root mean square", *rms, ""]))
    runs = ", ".join(str(run) for run in entries(entry, "runs"))
    title = (
        "Training error: runs the model was fitted to"
        if entry.get("training")
        else "Held-out error: runs it has not seen"
    )
    count = f"{runs} ({entry.get('n_rows')} equations)"
    return joined(
        [element("h3", title), element("p", count, class_="hint"), html_table(headings, rows, class_="errors pinned")]
    )


def _relative(errors: Mapping[str, Any]) -> list[Cell]:
    values = [*entries(errors, "relative"), errors.get("total")]
    return [number_cell(percent(x), x) for x in values]


def runs_section(data: Mapping[str, Any]) -> Markup:
    """Write placeholders of each run's curves; one run is shown at a time."""
    runs = entries(data, "runs")
    tabs = [
        element(
            "button",
            str(run.get("name", "")),
            element("small", _role(run)),
            type="button",
            role="tab",
            data_run=k,
            aria_selected="false",
        )
        for k, run in enumerate(runs)
    ]
    bodies = [
        element(
            "div",
            element("p", element("b", str(run.get("name", ""))), f", {_words(run)}", class_="run-words"),
            chart("run", class_="plots") if run.get("joints") else element("p", "Not drawn: there are too many runs."),
            class_="run-body",
            data_run=k,
        )
        for k, run in enumerate(runs)
    ]
    hint = (
        "Drag across a plot to zoom into a span of time, in all of them at once; double-click for the whole run. "
        "Point at a moment to read its values."
    )
    return card(
        "runs",
        "Measured and predicted torques",
        element("nav", *tabs, id="tabs", role="tablist", aria_label="Runs"),
        element("div", _legend(), _zoom(), class_="with-switch"),
        *bodies,
        hint=hint,
    )


def _role(run: Mapping[str, Any]) -> str:
    return "training: fitted to it" if run.get("role") == "training" else "validation: not seen"


def _words(run: Mapping[str, Any]) -> str:
    if run.get("static"):
        return f"{_role(run)}; {run.get('n_samples')} poses held, from {run.get('log')}"
    drawn = "" if run.get("n_drawn") == run.get("n_samples") else f", thinned to {run.get('n_drawn')} as it was fitted"
    return (
        f"{_role(run)}; {run.get('n_samples')} samples at {show(run.get('sample_rate_hz'))} Hz{drawn}, "
        f"{show(run.get('duration_s'))} s, from {run.get('log')}"
    )


def _legend() -> Markup:
    names = ("measured", "predicted", "residual")
    return element("p", *(element("span", name, class_=f"key k-{name}") for name in names), class_="legend")


def _zoom() -> Markup:
    buttons = [("in", "+", "Zoom in"), ("out", MINUS, "Zoom out"), ("back", "◀", "Earlier"), ("on", "▶", "Later")]
    made = [element("button", sign, type="button", data_zoom=key, aria_label=words) for key, sign, words in buttons]
    whole = element("button", "whole run", type="button", data_zoom="all")
    return element("span", *made, whole, class_="choice", id="zoom")


def residuals_section(data: Mapping[str, Any]) -> Markup:
    """Show residuals' histogram, correlation in time and trend over velocity, joint by joint."""
    blocks = [_block(entry, k, subtable(data, "robot")) for k, entry in enumerate(entries(data, "residuals"))]
    hint = (
        "Left: how often residuals of a size occur, beside a normal distribution. Middle: correlation with what comes "
        "a lag later; within the dashed lines it looks white. Right: mean residual over velocity with its spread; "
        "a trend, or a step at 0, is friction that the model does not have. Residuals that are correlated in time have "
        "less information: the table lists how many samples count as one."
    )
    return card("residuals", "Residuals", *blocks, hint=hint)


def _block(entry: Mapping[str, Any], number: int, robot: Mapping[str, Any]) -> Markup:
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    title = "Residuals on training data" if entry.get("training") else "Residuals on validation data (not seen)"
    rows = [
        (
            "",
            [
                str(joint.get("joint", "")),
                number_cell(
                    show(subtable(joint, "histogram").get("sigma"), 3), subtable(joint, "histogram").get("sigma")
                ),
                Cell(units.get(joint.get("joint"), ""), "u"),
                number_cell(
                    percent(subtable(joint, "histogram").get("beyond_three_sigma")),
                    subtable(joint, "histogram").get("beyond_three_sigma"),
                ),
                "yes" if subtable(joint, "autocorrelation").get("white") else "no",
                number_cell(
                    show(subtable(joint, "autocorrelation").get("inflation"), 3),
                    subtable(joint, "autocorrelation").get("inflation"),
                ),
            ],
        )
        for joint in entries(entry, "joints")
    ]
    headings = [
        ("joint", ""),
        ("root mean square", "n"),
        ("unit", ""),
        ("beyond three deviations (normal: 0.27 %)", "n"),
        ("white", ""),
        ("samples that count as one", "n"),
    ]
    inner = joined([html_table(headings, rows), chart("residuals", data_entry=number)])
    if number == 0:
        return joined([element("h3", title), inner])
    return element("details", element("summary", title), inner)


def split_section(data: Mapping[str, Any]) -> Markup:
    """Write the components of the torques in one run."""
    split = subtable(data, "split")
    robot = subtable(data, "robot")
    joints = entries(split, "joints")
    names = list(subtable(joints[0], "parts")) if joints else []
    keys = [element("span", name, class_=f"key p{k}") for k, name in enumerate(names)]
    cells = [_shares(str(name), joint, names) for name, joint in zip(entries(robot, "joints"), joints, strict=False)]
    headings = [
        ("joint", ""),
        ("root mean square of each part", ""),
        *((name, "n") for name in names),
        ("predicted", "n"),
        ("unit", ""),
    ]
    units = entries(robot, "torque_units")
    rows = [("", [*row, Cell(unit, "u")]) for row, unit in zip(cells, units, strict=False)]
    hint = (
        f"Predicted torques of run {split.get('run', '')!s}, "
        f"{'which the model has not seen' if split.get('role') == 'validate' else 'which is training data'}, by their "
        "cause; they add up to the prediction. Inertia of a rotor that regroups with a link's counts as the link's. "
        "Drag across to zoom."
    )
    return card(
        "split",
        "Torques by cause",
        element("p", *keys, element("span", "measured", class_="key k-measured"), class_="legend"),
        html_table(headings, rows, class_="shares"),
        chart("split", class_="plots"),
        hint=hint,
    )


def _shares(name: str, joint: Mapping[str, Any], names: list[str]) -> list[Any]:
    rms = subtable(joint, "rms")
    total = sum(rms.get(part) or 0.0 for part in names) or 1.0
    bars = [
        element("b", class_=f"p{k}", style=f"width:{100 * (rms.get(part) or 0.0) / total:.2f}%", title=part)
        for k, part in enumerate(names)
    ]
    whole = joint.get("rms_predicted")
    numbers = [number_cell(show(rms.get(part), 3), rms.get(part)) for part in names]
    return [element("b", name), Cell(element("i", *bars), "stack"), *numbers, number_cell(show(whole, 3), whole)]
