"""Verdict of the report: results, uncertainty, open questions and permitted uses of the model, as sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments.report.campaign import noise_floor
from excitor.experiments.report.evidence import Evidence, some
from excitor.experiments.report.html import percent, show
from excitor.experiments.report.parameters import correlation
from excitor.identify.currents import LAW_NEEDED
from excitor.identify.diagnose import several
from excitor.identify.verdict import ABOVE_NOISE, as_sentence
from excitor.robots.base import base_parameters

BESIDE = {"zero": "with no model", "gravity only": "with gravity only", "prior model": "with the prior model"}
ALIKE = 0.98  # correlation of columns beyond which two parameters are hard to tell apart
UNSURE = 0.5  # relative standard deviation of a parameter whose size is open


def verdict_data(
    evidence: Evidence,
    rows: Sequence[Mapping[str, Any]],
    alignment: Sequence[Mapping[str, Any]] | None,
    simulated: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Collect the verdict; `rows` are those of the base parameters, `simulated` the runs of a virtual robot."""
    decided = evidence.model.verdict
    assert decided is not None  # older files are not reported from
    return {
        **{key: decided[key] for key in ("go", "headline", "uses")},
        "virtual": virtual(evidence, simulated),
        "learned": learned(evidence, rows),
        "sure": how_sure(evidence, rows),
        "not_told": not_told(evidence, rows) + remarks(alignment),
    }


def remarks(alignment: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """List harmless oddities of the logs."""
    return [
        as_sentence(f"Of the logs: {entry.get('sentence') or entry.get('name')}")
        for entry in alignment or ()
        if entry.get("holds") is False and entry.get("level") == "note"
    ]


def virtual(evidence: Evidence, simulated: Sequence[Mapping[str, Any]]) -> str | None:
    """Warn where runs are simulated: they contain no information about a real robot."""
    if not simulated:
        return None
    names = [str(run["run"]) for run in simulated]
    whole = len(names) == len(evidence.runs)
    faults = list(dict.fromkeys(fault for run in simulated for fault in run.get("faults", ())))
    said = "All logs are" if whole else f"The logs of {several(names)} are"
    wrong = f" Wrong with it on purpose: {'; '.join(faults)}." if faults else ""
    return f"{said} of a virtual robot, so the model is of that and not of a real one.{wrong}"


def learned(evidence: Evidence, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the fitted model and data, and the prediction error."""
    robot, fitted = evidence.robot, evidence.model.fitted
    assert fitted is not None  # older files are not reported from
    known = [run for run in evidence.runs if run.role == "identify"]
    kept = sum(bool(row["kept"]) for row in rows)
    title = robot.title or robot.name
    said = [
        f"{kept} of the {len(rows)} parameter combinations that torques can show were identified for {title}, from "
        f"{len(known)} run{'' if len(known) == 1 else 's'} and {fitted.equations} equations."
    ]
    if evidence.held_out is not None:
        held_out = evidence.held_out.validation
        model, others = held_out.model, held_out.baselines
        beside = several([f"{percent(x.relative_total)} {BESIDE.get(name, name)}" for name, x in others.items()])
        worst = int(np.argmax(model.relative))
        said.append(
            f"On runs it was not fitted to, predicted torques miss the measured by {percent(model.relative_total)} "
            f"(worst joint: {held_out.joints[worst]}, {percent(model.relative[worst])}). Without identification "
            f"it would be {beside}."
        )
    if not robot.known.any():
        said.append("This robot's parameters have no prior values, so the prior model predicts zero torque.")
    return said


def how_sure(evidence: Evidence, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the widths of the intervals, and their causes."""
    model, fitted = evidence.model, evidence.model.fitted
    assert fitted is not None  # older files are not reported from
    relative = [row["relative"] for row in rows if row["relative"] is not None]
    said = []
    if relative:
        fine = sum(x < 0.05 for x in relative)
        said.append(
            f"{fine} of {len(relative)} parameters have a standard deviation below 5 % of their value; the median is "
            f"{percent(float(np.median(relative)))}."
        )
    widest = float(model.inflation.max())
    said.append(
        f"Intervals are 95 %, by {_method(fitted.intervals)}; they are up to {show(widest, 2)} times as wide as white "
        "noise would make them."
    )
    coloured = [w.joint for w in evidence.training.validation.whiteness if not w.white]
    if coloured:
        said.append(
            f"Residuals of {several(coloured)} are correlated in time: filters do that, and so does what the model "
            "does not have. The intervals count it in."
        )
    return said


def not_told(evidence: Evidence, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List what these data, or any torques, leave open."""
    base, said = base_parameters(evidence.robot), []
    if evidence.model.currents is not None:
        one = ", ".join(f"{name} {x:.3g}" for name, x in evidence.model.currents.items())
        said.append(
            "Masses, inertias and torques: currents have no law, so everything is in A of one drive. Relative gains, "
            f"whose uncertainty is not in the intervals, were fitted with the parameters: {one}. For the rest "
            f"{LAW_NEEDED}."
        )
    if base.without_effect:
        said.append(f"No torque ever shows {some(base.without_effect)}.")
    if base.only_combined:
        said += [f"{len(base.only_combined)} parameters are only ever seen combined with others; see the regroupings."]
    zero = [row["name"] for row in rows if row["kept"] and row["low"] is not None and row["low"] < 0.0 < row["high"]]
    if zero:
        said.append(f"The sign of {some(zero)} is open: 0 is inside the interval.")
    vague = [r["name"] for r in rows if r["relative"] is not None and r["relative"] > UNSURE and r["name"] not in zero]
    if vague:
        said.append(f"Little more than the sign is known of {some(vague)}.")
    left = [row["name"] for row in rows if not row["kept"]]
    reduction = evidence.model.reduction or {}
    if reduction.get("mode") == "in-process":
        said = [*process_words(reduction, len(rows)), *said]
    elif left:
        said.append(f"Left out of the model, because the data do not need them: {some(left)}.")
    if reduction.get("acceptance") == "validation":
        said.append(
            "The validation runs also decided which parameters stayed, so their error is no longer that of unseen data."
        )
    standard = evidence.model.standard
    if standard is not None:
        dominated = sum(label == "prior-dominated" for label in standard.labels)
        said.append(
            f"{dominated} of the {len(standard.names)} parameters of the consistent model depend more on the prior "
            "than on the data; they are marked."
        )
    doubts = [as_sentence(f["sentence"]) for f in evidence.model.findings if f["level"] == "doubtful"]
    return said + beyond_noise(evidence) + _alike(evidence) + doubts


def process_words(reduction: Mapping[str, Any], n_params: int) -> list[str]:
    """Say which parameters of a process' model stayed, which left, and why."""
    tried, hidden, kept = (reduction[key] for key in ("decisions", "hidden", "essential"))
    where = "the validation runs" if reduction["acceptance"] == "validation" else "held-out stretches"
    told: dict[bool, list[str]] = {True: [], False: []}
    for one in tried:
        name = f"{one['name']} ({one['declared']})" if one["declared"] else one["name"]
        told[one["kept"]].append(f"{name} {100.0 * (one['ratio'] - 1.0):+.1f} % at {one['joint']}")
    limit = f"without them a joint's error on {where} grows by {{}} {100.0 * (reduction['tolerance'] - 1.0):.3g} %"
    said = {
        "Its motion does not show, or not apart from others": some(hidden) if hidden else "",
        f"Left, as {limit.format('at most')}": several(told[False]) if told[False] else "",
        f"Stayed, as {limit.format('more than')}": several(told[True]) if told[True] else "",
        "Never tried, as friction of joints that move or as the campaign says": some(kept) if kept else "",
    }
    count = n_params - len(hidden) - len(told[False])
    first = (
        f"The model is of a process as it is, not of the arm: {count} of {n_params} parameters predict the torques of "
        "motions like its own; their values stand for the others as well."
    )
    return [first, *(f"{reason}: {names}." for reason, names in said.items() if names)]


def beyond_noise(evidence: Evidence) -> list[str]:
    """Describe the share of the held-out error that is not noise, where significant."""
    held_out = evidence.held_out
    floor = None if held_out is None else noise_floor(evidence, held_out)
    if held_out is None or floor is None:
        return []
    error, noise = held_out.validation.model.relative_total, floor["total"]
    if noise is None or not error > ABOVE_NOISE * noise:
        return []
    rest = percent(float(np.sqrt(error**2 - noise**2)))
    return [
        f"Of the {percent(error)} held-out error {percent(noise)} is noise; the other {rest} is what the model "
        "does not have (they add up by their squares). Residuals over velocity show where friction is missing."
    ]


def _alike(evidence: Evidence) -> list[str]:
    names, C = correlation(evidence)
    C = np.abs(np.tril(C, -1))
    i, j = np.unravel_index(int(np.argmax(C)), C.shape)
    if C[i, j] < ALIKE:
        return []
    return [f"{names[i]} and {names[j]} are hard to separate in these motions (correlation {C[i, j]:.3f})."]


def _method(method: str) -> str:
    words = {
        "bootstrap": "a bootstrap of blocks of time",
        "spectral": "the spectrum of residuals and of what differs between repetitions",
    }
    return words.get(method, "assuming that residuals are white")
