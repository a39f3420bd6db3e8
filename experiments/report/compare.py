"""Comparison of two reports of one robot: parameters in standard deviations, errors, and a verdict as one HTML page.

The verdict is separate for bodies and for friction.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.files import write_atomically
from excitor.experiments.report.data import Report, ReportedParameter, checked
from excitor.experiments.report.evidence import some
from excitor.experiments.report.html import page, percent, show
from excitor.robots.errors import ExcitorError

SCHEMA = 1
KIND = "excitor comparison"


def compare(data_a: Mapping[str, Any], data_b: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two reports, the contents of their report.json; ExcitorError where they are not of one robot."""
    a, b = checked(data_a, "the first report"), checked(data_b, "the second report")
    check_same_robot(a, b)
    in_a, in_b = ({p.name: p for p in report.parameters if p.kept} for report in (a, b))
    both = [name for name in in_a if name in in_b]
    meaning = [{name: (p.regrouping, p.unit) for name, p in found.items()} for found in (in_a, in_b)]
    other = [name for name in both if meaning[0][name] != meaning[1][name]]
    rows = [difference(in_a[name], in_b[name]) for name in both if name not in other]
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "robot": a.robot.model_dump(),
        "names": [a.name, b.name],
        "simulated": [bool(report.simulated) for report in (a, b)],
        "parameters": rows,
        "only_in_first": [name for name in in_a if name not in in_b],
        "only_in_second": [name for name in in_b if name not in in_a],
        "different_meaning": other,
        "friction": [row for row in rows if row["part"] == "friction"],
        "errors": errors_beside(a, b),
    }
    result["equal"] = not (result["only_in_first"] or result["only_in_second"] or other) and all(
        row["difference"] == 0.0 for row in rows
    )
    result["verdict"] = agreement(result)
    return result | {"sentences": list(sentences_of(result))}


def check_same_robot(a: Report, b: Report) -> None:
    """Refuse reports of different robots."""
    if a.robot.name != b.robot.name:
        raise ExcitorError(
            f"the reports are of different robots, {a.robot.name!r} and {b.robot.name!r}; compare reports of one robot"
        )
    if a.robot.joints != b.robot.joints:
        raise ExcitorError(
            f"the reports call themselves of {a.robot.name!r}, but its joints are {', '.join(a.robot.joints)} in one "
            f"and {', '.join(b.robot.joints)} in the other; compare reports of one robot"
        )


def difference(a: ReportedParameter, b: ReportedParameter) -> dict[str, Any]:
    """Compare a parameter: b - a in standard deviations of the difference, and if intervals explain it."""
    value_a, value_b = a.value or 0.0, b.value or 0.0
    change = value_b - value_a
    sigma = math.hypot(a.sigma or 0.0, b.sigma or 0.0)
    reach = math.hypot(*(0.5 * ((p.high or 0.0) - (p.low or 0.0)) for p in (a, b)))
    return {
        **{key: getattr(a, key) for key in ("name", "part", "regrouping", "unit")},
        "first": value_a,
        "second": value_b,
        "sigma_first": a.sigma,
        "sigma_second": b.sigma,
        "difference": change,
        "relative": change / abs(value_a) if value_a else None,
        "sigmas": 0.0 if change == 0.0 else change / sigma if sigma > 0.0 else None,
        "changed": abs(change) > reach,
        "effect": abs(change / value_a) * a.contribution if value_a and a.contribution is not None else None,
    }


def errors_beside(a: Report, b: Report) -> list[dict[str, Any]]:
    """List errors of the same kind in pairs; runs differ, and so do the torques that errors are shares of."""
    rows = []
    for training, label in ((False, "held-out error"), (True, "training error")):
        found = {
            key: {"total": errors.model.total, "joints": dict(zip(errors.joints, errors.model.relative, strict=True))}
            for key, report in (("first", a), ("second", b))
            for errors in report.errors
            if errors.training is training
        }
        if found:
            rows.append({"label": label, "first": found.get("first"), "second": found.get("second")})
    return rows


PAGE = "comparison.html"
WIDEST = 6.0  # standard deviations that a bar shows


def comparison_page(result: Mapping[str, Any]) -> str:
    """Write what `compare` found as one self-contained HTML page."""
    first, second = result["names"]
    rows = [
        {**row, "bar": 100.0 * min(1.0, abs(row["sigmas"] or 0.0) / WIDEST), "friction": row["part"] == "friction"}
        for row in result["parameters"]
    ]
    context = {**result, "first": first, "second": second, "parameters": rows, "version": ""}
    return page("comparison.html", context, scripts=("page.js",), styles=("report.css",))


def write_comparison(folder: Path, result: Mapping[str, Any]) -> Path:
    """Write comparison.html into a folder, atomically."""
    path = folder / PAGE
    write_atomically(path, comparison_page(result))
    return path


CHANCE = 0.05  # of unchanged parameters that lie apart by more than their 95 % intervals
LUCK = 0.01  # probability below which that many changes are not by chance
FARTHEST = 5.0  # standard deviations by which no parameter moves by chance
KNOWN = 0.1  # relative standard deviation below which a parameter's repeatability tells something
Rows = Sequence[Mapping[str, Any]]


def agreement(result: Mapping[str, Any]) -> dict[str, Any]:
    """Compare bodies (links and rotors) and friction separately: friction drifts with temperature, bodies do not."""
    rows = result["parameters"]
    bodies, friction = [row for row in rows if row["part"] != "friction"], result["friction"]
    verdicts = {"bodies": agree(bodies), "friction": agree(friction)}
    return {
        "agree": None if not rows else all(x is not False for x in verdicts.values()),
        "headline": headline(verdicts, equal=result["equal"]),
        **verdicts,
        "rms_sigmas": {"bodies": rms_sigmas(bodies), "friction": rms_sigmas(friction)},
        "repeatability": {"bodies": repeatability(bodies), "friction": repeatability(friction)},
    }


def agree(rows: Rows) -> bool | None:
    """Return True if parameters differ within noise: few beyond their intervals, none far; None without parameters."""
    from scipy.stats import binom

    if not rows:
        return None
    changed = sum(bool(row["changed"]) for row in rows)
    far = any(row["sigmas"] is None or abs(row["sigmas"]) > FARTHEST for row in rows if row["changed"])
    return not far and bool(changed <= binom.ppf(1.0 - LUCK, len(rows), CHANCE))


def headline(verdicts: Mapping[str, bool | None], *, equal: bool) -> str:
    """Return the verdict in one line."""
    bodies, friction = verdicts["bodies"], verdicts["friction"]
    if bodies is None and friction is None:
        return "There is nothing to compare: the two models have no parameter in common"
    if equal:
        return "Equal: the two reports have the same content"
    if bodies is not False and friction is not False:
        return "The two identifications agree"
    if bodies is False and friction is False:
        return "The two identifications differ, in bodies and in friction"
    if bodies is False:
        return "The two identifications differ in bodies" + ("" if friction is None else "; friction agrees")
    return "Friction has changed" + ("" if bodies is None else "; the bodies agree")


def rms_sigmas(rows: Rows) -> float | None:
    """Root mean square of the differences in their standard deviations: 1 where nothing changed."""
    sizes = [row["sigmas"] for row in rows if row["sigmas"] is not None]
    return float(np.sqrt(np.mean(np.square(sizes)))) if sizes else None


def repeatability(rows: Rows) -> float | None:
    """Median of |b - a| / (√2 |a|) over well-known parameters: the relative standard deviation of one, from a pair."""
    known = [
        abs(row["difference"] / row["first"]) / np.sqrt(2.0)
        for row in rows
        if row["first"] and max(row["sigma_first"], row["sigma_second"]) < KNOWN * abs(row["first"])
    ]
    return float(np.median(known)) if known else None


def sentences_of(result: Mapping[str, Any]) -> Iterator[str]:
    """List the results of the comparison, as sentences."""
    if result["equal"] and result["parameters"]:
        yield "The two reports agree on every parameter."
        return
    rows = result["parameters"]
    virtual = [words for words, simulated in zip(("first", "second"), result["simulated"], strict=True) if simulated]
    if len(virtual) == 1:
        yield f"The {virtual[0]} is of a virtual robot, the other is not."
    if rows:
        yield from _differences(rows, result["verdict"])
    yield from _friction(result["friction"])
    for key, words in (("only_in_first", "first"), ("only_in_second", "second")):
        if result[key]:
            yield f"Only the {words} model has {some(result[key])}."
    if result["different_meaning"]:
        yield f"Not comparable, as they stand for different sums: {some(result['different_meaning'])}."


def _differences(rows: Rows, verdict: Mapping[str, Any]) -> Iterator[str]:
    changed = sum(bool(row["changed"]) for row in rows)
    yield (
        f"{changed} of {len(rows)} parameters changed by more than their 95 % intervals explain; within noise about "
        f"{show(CHANCE * len(rows), 2)} would."
    )
    sizes = [abs(row["sigmas"]) for row in rows if row["sigmas"] is not None]
    if sizes:
        parts = [f"{show(x, 3)} of {part}" for part, x in verdict["rms_sigmas"].items() if x is not None]
        yield (
            f"Differences in standard deviations, root mean square: {' and '.join(parts)} (1 if nothing changed); the "
            f"largest is {show(max(sizes), 3)}."
        )
    repeat = [f"{percent(x)} of {part}" for part, x in verdict["repeatability"].items() if x is not None]
    if repeat:
        yield (
            "Repeatability of parameters known to 10 % or better, one standard deviation over the value, median: "
            f"{' and '.join(repeat)}."
        )
    for part in ("bodies", "friction"):
        of_part = [row for row in rows if (row["part"] == "friction") is (part == "friction")]
        effects = [(float(row["effect"]), str(row["name"])) for row in of_part if row["effect"] is not None]
        if effects:
            effect, name = max(effects)
            small = "; less than the noise and errors that it has anyway" if effect < 1.0 else ""
            yield (
                f"In torque, the largest difference of {part} is that of {name}: {show(effect, 2)} times what the "
                f"first model leaves unexplained{small}."
            )


def _friction(rows: Rows) -> Iterator[str]:
    if not rows:
        return
    moved = sorted((row for row in rows if row["changed"]), key=lambda row: -abs(row["sigmas"] or np.inf))
    if not moved:
        yield "Friction did not drift beyond its intervals."
        return
    changes = [f"{row['name']} {'+' if row['difference'] > 0.0 else ''}{percent(row['relative'])}" for row in moved]
    yield f"Friction drifted: {some(changes)}. Temperature and wear do that."
