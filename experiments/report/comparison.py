"""Page and data of a comparison of methods: compare.html, which draws compare.json."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments.compare import (
    Comparison,
    MethodResult,
    Pair,
    Recommendation,
    by_name,
    contradictions,
    error_words,
    outcome,
)
from excitor.experiments.identification import findings_data, noise_errors, provenance
from excitor.experiments.report.data import robot_data
from excitor.experiments.report.fit import BASELINES
from excitor.experiments.report.html import NONE, beside, entries, page, percent, show, subtable, unit_words
from excitor.identify.methods import METHODS, Answer
from excitor.identify.validate import Errors
from excitor.robots.arrays import finite
from excitor.robots.base import base_parameters, regroupings

SCRIPTS = ("svg.js", "tables.js", "forest.js", "error_bars.js", "compare.js")


def compare_page(data: Mapping[str, Any]) -> str:
    """Write a comparison, given as in compare.json, as one HTML page."""
    methods = [_method(data, entry) for entry in entries(data, "methods")]
    answered = [entry for entry in methods if entry["parameters"]]
    context = {
        **data,
        "version": data["provenance"]["excitor"],
        "advice": data["recommendation"],
        "methods": methods,
        "answered": answered,
        "baseline_words": BASELINES,
        "error": error_words,
        "agreement": _agreement(data, [entry["name"] for entry in answered]),
        "apart": [pair for pair in data["pairs"] if pair["apart"]],
        "estimates": [{row["name"]: _estimate(row) for row in entry["parameters"]} for entry in answered],
    }
    drawn_data = ("compared", drawn(data))
    return page("compare.html", context, scripts=SCRIPTS, styles=("report.css", "compare.css"), data=drawn_data)


def drawn(data: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data of the script: errors, and every parameter's estimates by all methods."""
    answered = [entry for entry in data["methods"] if entry["parameters"]]
    chosen = subtable(data, "recommendation").get("method")
    return {
        "chosen": chosen,
        "errors": [
            {
                "name": entry["name"],
                "total": subtable(entry, "held_out").get("total"),
                "behind": subtable(entry, "behind_the_best"),
            }
            for entry in answered
        ],
        "marks": [
            {"name": words, "total": value}
            for words, value in (
                ("noise", subtable(data, "noise").get("total")),
                ("prior model", subtable(subtable(data, "baselines"), "prior model").get("total")),
            )
            if value is not None
        ],
        "parameters": [
            {
                "name": row["name"],
                "unit": unit_words(row["unit"]),
                "contradictions": row["contradictions"],
                "methods": [found for entry in answered if (found := mark(entry, row["name"])) is not None],
            }
            for row in entries(data, "parameters")
        ],
    }


def mark(entry: Mapping[str, Any], name: str) -> list[Any] | None:
    """Return a method's value and interval of a parameter."""
    for row in entries(entry, "parameters"):
        if row.get("name") == name:
            return [entry.get("name"), row.get("value"), row.get("low"), row.get("high")]
    return None


def _method(data: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Collect a method's row of the table."""
    answered = bool(entry["parameters"])
    return {
        **entry,
        "chosen": entry["name"] == subtable(data, "recommendation").get("method"),
        "outcome": outcome(data, entry),
        "behind_words": _behind(entry["behind_the_best"]) if answered else NONE,
        "contradictions": contradictions(data, entry) if answered else None,
    }


def _behind(behind: Mapping[str, Any]) -> str:
    value, low, high = (finite(behind.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return NONE
    if value == 0.0:
        return "0"
    chance = f" ({error_words(low)} … {error_words(high)})" if value < 1.0 else ""  # not shown beyond
    return f"{error_words(value)}{chance}"


def _agreement(data: Mapping[str, Any], names: Sequence[str]) -> list[list[dict[str, Any] | None]]:
    """Lay out the pairs of methods: below the diagonal distances in torque, above it parameters that are apart."""
    pairs = {frozenset((pair["one"], pair["other"])): pair for pair in data["pairs"]}
    widest = max((pair["torque"] or 0.0 for pair in pairs.values()), default=0.0)
    return [
        [_pair(pairs.get(frozenset((a, b))), j < i, widest) for j, b in enumerate(names)] for i, a in enumerate(names)
    ]


def _pair(pair: Mapping[str, Any] | None, below: bool, widest: float) -> dict[str, Any] | None:
    """Write a pair's distance, with its share of the largest in percent."""
    if pair is None:
        return None
    if below:
        share = 0.0 if pair["torque"] is None or widest <= 0.0 else pair["torque"] / widest
        return {"class": "torque", "words": percent(pair["torque"]), "share": 100.0 * share}
    apart = pair["apart"]
    share = 0.0 if not apart else len(apart) / max(1, pair["compared"] or 1)
    return {"class": "apart", "words": NONE if apart is None else str(len(apart)), "share": 100.0 * share}


def _estimate(row: Mapping[str, Any]) -> tuple[str, float | None]:
    value, low, high = (finite(row.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return show(value), value
    half = 0.5 * (high - low)
    return f"{beside(value, half)} ± {show(half, 2)}", value


SCHEMA = 1
KIND = "excitor compare"


def compare_data(compared: Comparison) -> dict[str, Any]:
    """Collect the data of compare.json."""
    prepared = compared.prepared
    joints = judged_joints(compared)
    judged = {entry.name: entry for entry in compared.judged}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": prepared.examined.campaign.folder.resolve().name,
        "robot": robot_data(prepared.problem.robot),
        "recommendation": recommendation_data(compared.recommendation),
        "beliefs": list(compared.beliefs),
        "bias": bias_data(compared),
        "runs": {
            "fitted": list(prepared.problem.regression.runs),
            "judged": list(prepared.judging.runs),
            "substitute": prepared.substitute,
            "n_fitted": len(prepared.problem.regression),
            "n_judged": len(prepared.judging),
        },
        "joints": joints,
        "methods": [method_data(compared, entry, judged.get(entry.method), joints) for entry in compared.answers],
        "baselines": {name: errors_data(errors, joints) for name, errors in compared.baselines.items()},
        "noise": noise_data(compared, joints),
        "parameters": parameters_data(compared),
        "pairs": [pair_data(pair) for pair in compared.pairs],
        "simulated": None if compared.simulated is None else compared.simulated.data(),
        "findings": list(findings_data(compared.findings)),
        "provenance": provenance(prepared.examined.campaign),
    }


def recommendation_data(advice: Recommendation) -> dict[str, Any]:
    """Write the recommended method, and the reasons."""
    return {
        "method": advice.method,
        "best": advice.best,
        "is_best": advice.is_best,
        "careful": advice.careful,
        "headline": advice.headline,
        "reasons": list(advice.reasons),
        "within_noise": list(advice.within),
        "verdict": None if advice.verdict is None else advice.verdict.data(),
    }


def pair_data(pair: Pair) -> dict[str, Any]:
    """Write the distance between two methods."""
    return {
        "one": pair.one,
        "other": pair.other,
        "torque": finite(pair.torque),
        "apart": None if pair.apart is None else list(pair.apart),
        "compared": pair.compared,
    }


def judged_joints(compared: Comparison) -> list[str]:
    """List the joints that have held-out equations."""
    judging = compared.prepared.judging
    return [judging.joint_names[j] for j in np.unique(judging.joint)]


def method_data(
    compared: Comparison, found: Answer, judged: MethodResult | None, joints: Sequence[str]
) -> dict[str, Any]:
    """Write one method's result, or why it refused."""
    data: dict[str, Any] = {
        "name": found.method,
        "title": METHODS[found.method].title,
        "refused": found.refused,
        "notes": list(found.notes),
        "evidence": {key: finite(value) for key, value in found.evidence.items()},
        "cpu_s": found.cpu_s,
    }
    if judged is None:
        return data | {"parameters": [], "n_parameters": 0}
    difference, bodies = compared.differences[judged.name], compared.bodies.get(judged.name)
    own = known_joints(compared)
    return data | {
        "n_parameters": len(judged.estimate.names),
        "parameters": parameters_of(judged),
        "held_out": errors_data(judged.held_out, joints),
        "training": errors_data(judged.training, own),
        "behind_the_best": {
            "value": difference.value,
            "low": difference.low,
            "high": difference.high,
            "within_noise": difference.within_noise,
        },
        "smallest_mass_matrix_eigenvalue": finite(judged.smallest_inertia),
        "friction_below_zero": list(judged.driving),
        "consistent": None if bodies is None else bodies.data(),
    }


def known_joints(compared: Comparison) -> list[str]:
    """List the joints that have training equations."""
    fitted = compared.prepared.fitted
    return [fitted.joint_names[j] for j in np.unique(fitted.joint)]


def parameters_of(judged: MethodResult) -> list[dict[str, Any]]:
    """List a method's parameters, with their 95 % intervals where it gives them."""
    bounds = {} if judged.answer.intervals is None else by_name(judged.answer.intervals)
    nothing = (None, None, None)
    return [
        {
            "name": name,
            "unit": unit,
            "value": finite(value),
            "low": finite(bounds.get(name, nothing)[1]),
            "high": finite(bounds.get(name, nothing)[2]),
        }
        for name, unit, value in zip(judged.estimate.names, judged.estimate.units, judged.estimate.values, strict=True)
    ]


def errors_data(errors: Errors, joints: Sequence[str]) -> dict[str, Any]:
    """Write errors of torques, by joint and in total."""
    return {
        "total": finite(errors.relative_total),
        "mean_absolute": finite(errors.mean_absolute_mean),
        "joints": {joint: finite(x) for joint, x in zip(joints, errors.relative, strict=True)},
    }


def noise_data(compared: Comparison, joints: Sequence[str]) -> dict[str, Any] | None:
    """Write the errors due to noise alone."""
    found = noise_errors(compared.prepared)
    if found is None:
        return None
    shares, total = found
    return {"total": finite(total), "joints": {joint: finite(x) for joint, x in zip(joints, shares, strict=True)}}


def bias_data(compared: Comparison) -> dict[str, Any] | None:
    """Write the result of the test for bias."""
    bias = compared.bias
    if bias is None:
        return None
    return {
        "p_value": finite(bias.p_value),
        "statistic": finite(bias.statistic),
        "found": bias.found,
        "sentence": bias.sentence,
    }


def parameters_data(compared: Comparison) -> list[dict[str, Any]]:
    """List the parameters of all methods, their meaning, and the number of contradicting pairs of methods."""
    robot = compared.prepared.problem.robot
    base = base_parameters(robot)
    names = compared.prepared.problem.regression.names
    forms: Mapping[str, str] = dict(zip(names, regroupings(robot, base), strict=True))
    units = dict(zip(names, compared.prepared.problem.regression.units, strict=True))
    contradicted = [name for pair in compared.pairs for name in pair.apart or ()]
    return [
        {"name": name, "unit": units[name], "regrouping": forms[name], "contradictions": contradicted.count(name)}
        for name in names
    ]
