"""How well does the model predict? Errors beside the baselines, and the torques of every run."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import MINUS, entries, percent, show, table
from excitor.experiments.report.html import Cell, card, chart, element, joined, number_cell
from excitor.experiments.report.html import table as html_table

BASELINES = {
    "zero": "without any model",
    "gravity only": "with gravity only",
    "prior model": "with the prior model",
}


def errors_section(data: Mapping[str, Any]) -> Markup:
    """Show relative errors per joint, held out and in training, beside three baselines."""
    blocks = [_errors(entry, table(data, "robot")) for entry in entries(data, "errors")]
    hint = (
        "Of joint torques: the norm of measured less predicted, over the norm of measured. Below the identified model "
        "stand three baselines, which need no identification. Noise is what does not repeat between periods."
    )
    return card("errors", "Torque errors beside the baselines", *blocks, hint=hint)


def _errors(entry: Mapping[str, Any], robot: Mapping[str, Any]) -> Markup:
    joints, model = entries(entry, "joints"), table(entry, "model")
    headings = [("", ""), *((str(joint), "n") for joint in joints), ("all joints", "n")]
    label = "identified model, training data" if entry.get("training") else "identified model"
    rows = [("model", [label, *_relative(model)])]
    rows += [
        ("", [BASELINES.get(str(name), str(name)), *_relative(errors)])
        for name, errors in table(entry, "baselines").items()
    ]
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    rms = [
        number_cell(f"{show(x, 3)} {units.get(joint, '')}", x)
        for joint, x in zip(joints, entries(model, "rmse"), strict=False)
    ]
    noise = table(entry, "noise")
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
    """Leave places for each run's curves; one run is shown at a time."""
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
        "Drag across a picture to zoom into a stretch of time, in all of them at once; double-click for the whole run. "
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
