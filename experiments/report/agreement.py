"""Do two identifications agree? A verdict on bodies and on friction, and what speaks for it, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments.page.words import percent, show
from excitor.experiments.report.words import some

CHANCE = 0.05  # of unchanged parameters that lie apart by more than their 95 % intervals
LUCK = 0.01  # probability below which that many changes are not by chance
FARTHEST = 5.0  # standard deviations by which no parameter moves by chance
KNOWN = 0.1  # relative standard deviation below which a parameter's repeatability tells something
Rows = Sequence[Mapping[str, Any]]


def agreement(result: Mapping[str, Any]) -> dict[str, Any]:
    """Judge bodies (links and rotors) and friction apart: friction drifts with temperature, bodies do not."""
    rows = result["parameters"]
    bodies, friction = [row for row in rows if row["part"] != "friction"], result["friction"]
    told = {"bodies": agree(bodies), "friction": agree(friction)}
    return {
        "agree": None if not rows else all(x is not False for x in told.values()),
        "headline": headline(told, equal=result["equal"]),
        **told,
        "rms_sigmas": {"bodies": rms_sigmas(bodies), "friction": rms_sigmas(friction)},
        "repeatability": {"bodies": repeatability(bodies), "friction": repeatability(friction)},
    }


def agree(rows: Rows) -> bool | None:
    """Tell whether parameters differ by chance alone: few beyond their intervals, none far; None of no parameters."""
    from scipy.stats import binom

    if not rows:
        return None
    changed = sum(bool(row["changed"]) for row in rows)
    far = any(row["sigmas"] is None or abs(row["sigmas"]) > FARTHEST for row in rows if row["changed"])
    return not far and bool(changed <= binom.ppf(1.0 - LUCK, len(rows), CHANCE))


def headline(told: Mapping[str, bool | None], *, equal: bool) -> str:
    """Say it in one line."""
    bodies, friction = told["bodies"], told["friction"]
    if bodies is None and friction is None:
        return "There is nothing to compare: the two models have no parameter in common"
    if equal:
        return "Equal: the two reports tell the same"
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


def sentences_of(result: Mapping[str, Any]) -> list[str]:
    """Say what the comparison shows."""
    return list(_said(result))


def _said(result: Mapping[str, Any]) -> Iterator[str]:
    if result["equal"] and result["parameters"]:
        yield "The two reports tell the same of every parameter."
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
        f"{changed} of {len(rows)} parameters changed by more than their 95 % intervals explain; by chance about "
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
    told = [f"{row['name']} {'+' if row['difference'] > 0.0 else ''}{percent(row['relative'])}" for row in moved]
    yield f"Friction drifted: {some(told)}. Temperature and wear do that."
