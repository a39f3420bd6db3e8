"""Page and data of a comparison of methods: compare.html, which draws compare.json."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments import compare
from excitor.experiments.identification import findings_data, noise_errors, provenance
from excitor.experiments.report import html
from excitor.experiments.report.fit import BASELINES
from excitor.identify.methods import METHODS, Answer
from excitor.identify.recursive import Recursion
from excitor.identify.schemes import KINDS
from excitor.identify.validate import Errors, thinning
from excitor.robots.arrays import FloatArray, finite, picked, plain
from excitor.robots.base import base_parameters, regroupings

SCRIPTS = ("charts.js", "page.js")


def compare_page(data: Mapping[str, Any]) -> str:
    """Write a comparison, given as in compare.json, as one HTML page."""
    methods = [_method(data, entry) for entry in html.entries(data, "methods")]
    answered = [entry for entry in methods if entry["parameters"]]
    context = {
        **data,
        "version": data["provenance"]["excitor"],
        "advice": data["recommendation"],
        "methods": methods,
        "answered": answered,
        "baseline_words": BASELINES,
        "error": compare.error_words,
        "agreement": _agreement(data, [entry["name"] for entry in answered]),
        "apart": [pair for pair in data["pairs"] if pair["apart"]],
        "estimates": [{row["name"]: _estimate(row) for row in entry["parameters"]} for entry in answered],
    }
    drawn_data = ("compared", drawn(data))
    return html.page("compare.html", context, scripts=SCRIPTS, styles=("report.css", "compare.css"), data=drawn_data)


def drawn(data: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data of the script: errors, and every parameter's estimates by all methods."""
    answered = [entry for entry in data["methods"] if entry["parameters"]]
    prior = html.subtable(html.subtable(data, "baselines"), "prior model")
    marks = {"noise": html.subtable(data, "noise").get("total"), "prior model": prior.get("total")}
    return {
        "chosen": html.subtable(data, "recommendation").get("method"),
        "errors": [
            {"name": entry["name"], "total": entry["held_out"].get("total"), "behind": entry["behind_the_best"]}
            for entry in answered
        ],
        "recursions": data["recursions"],
        "marks": [{"name": words, "total": value} for words, value in marks.items() if value is not None],
        "parameters": [
            {
                "name": row["name"],
                "unit": html.unit_words(row["unit"]),
                "contradictions": row["contradictions"],
                "methods": [found for entry in answered if (found := mark(entry, row["name"])) is not None],
            }
            for row in html.entries(data, "parameters")
        ],
    }


def mark(entry: Mapping[str, Any], name: str) -> list[Any] | None:
    """Return a method's value and interval of a parameter."""
    rows = (row for row in html.entries(entry, "parameters") if row.get("name") == name)
    return next(([entry.get("name"), *(row.get(key) for key in ("value", "low", "high"))] for row in rows), None)


def _method(data: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Collect a method's row of the table."""
    answered = bool(entry["parameters"])
    return {
        **entry,
        "chosen": entry["name"] == html.subtable(data, "recommendation").get("method"),
        "outcome": compare.outcome(data, entry),
        "behind_words": _behind(entry["behind_the_best"]) if answered else html.NONE,
        "contradictions": compare.contradictions(data, entry) if answered else None,
    }


def _behind(behind: Mapping[str, Any]) -> str:
    value, low, high = (finite(behind.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return html.NONE
    if value == 0.0:
        return "0"
    chance = f" ({compare.error_words(low)} … {compare.error_words(high)})" if value < 1.0 else ""  # not shown beyond
    return f"{compare.error_words(value)}{chance}"


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
        share = (pair["torque"] or 0.0) / widest if widest > 0.0 else 0.0
        return {"class": "torque", "words": html.percent(pair["torque"]), "share": 100.0 * share}
    apart = pair["apart"]
    share = 0.0 if not apart else len(apart) / max(1, pair["compared"] or 1)
    return {"class": "apart", "words": html.NONE if apart is None else str(len(apart)), "share": 100.0 * share}


def _estimate(row: Mapping[str, Any]) -> tuple[str, float | None]:
    value, low, high = (finite(row.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return html.show(value), value
    half = 0.5 * (high - low)
    return f"{html.beside(value, half)} ± {html.show(half, 2)}", value


SCHEMA = 1
KIND = "excitor compare"


def compare_data(compared: compare.Comparison) -> dict[str, Any]:
    """Collect the data of compare.json."""
    prepared = compared.prepared
    joints, advice, bias = compare.joints_of(prepared.judging), compared.recommendation, compared.bias
    judged = {entry.name: entry for entry in compared.judged}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": prepared.examined.campaign.folder.resolve().name,
        "robot": html.robot_data(prepared.problem.robot),
        "recommendation": picked(advice, "method best is_best careful headline reasons within_noise=within")
        | {"verdict": None if advice.verdict is None else advice.verdict.data()},
        "beliefs": list(compared.beliefs),
        "bias": None if bias is None else picked(bias, "p_value statistic found sentence"),
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
        "recursions": recursions_data(compared),
        "pairs": [picked(pair, "one other torque apart compared") for pair in compared.pairs],
        "simulated": None if compared.simulated is None else compared.simulated.data(),
        "findings": list(findings_data(compared.findings)),
        "provenance": provenance(prepared.examined.campaign),
    }


def method_data(
    compared: compare.Comparison, found: Answer, judged: compare.MethodResult | None, joints: Sequence[str]
) -> dict[str, Any]:
    """Write one method's result, or why it refused."""
    data: dict[str, Any] = {
        "name": found.method,
        "title": METHODS[found.method].title,
        **picked(found, "refused notes"),
        "evidence": {key: finite(value) for key, value in found.evidence.items()},
        "cpu_s": found.cpu_s,
    }
    if judged is None:
        return data | {"parameters": [], "n_parameters": 0}
    difference, bodies = compared.differences[judged.name], compared.bodies.get(judged.name)
    return data | {
        "n_parameters": len(judged.estimate.names),
        "parameters": parameters_of(judged),
        "held_out": errors_data(judged.held_out, joints),
        "training": errors_data(judged.training, compare.joints_of(compared.prepared.fitted)),
        "behind_the_best": picked(difference, "value low high within_noise"),
        **picked(judged, "smallest_mass_matrix_eigenvalue=smallest_inertia friction_below_zero=driving"),
        "consistent": None if bodies is None else bodies.data(),
    }


def recursions_data(compared: compare.Comparison) -> list[dict[str, Any]]:
    """Write estimates and eigenvalues of P over time, of each of the five schemes that was asked for."""
    found = [(one.method, one.recursion) for one in compared.answers if one.recursion is not None]
    order: dict[str, int] = {kind: k for k, kind in enumerate(KINDS)}
    schemes = [("dynamic" if method == "rls" else method, method, history) for method, history in found]
    return [
        {
            "scheme": scheme,
            "method": method,
            "names": list(history.estimate.names),
            "units": list(history.estimate.units),
            "time": rounded(times(compared, history, scheme)),
            "values": rounded(history.values),
            "sigma": rounded(history.sigma),
            "eigenvalues": rounded(history.eigenvalues),
        }
        for scheme, method, history in sorted(schemes, key=lambda entry: order[entry[0]])
    ]


def times(compared: compare.Comparison, history: Recursion, scheme: str) -> FloatArray:
    """Return when the points of a history were measured, s: runs follow each other."""
    problem = compared.prepared.problem
    runs = [run for run in problem.runs if scheme == "dynamic" or not run.static]
    thins = thinning(runs, problem.rows.decimate)
    rows = [len(run) if thin is None else len(thin(run.tau[:, :1])) for run, thin in zip(runs, thins, strict=True)]
    lasting = np.array([len(run) / run.sample_rate_hz for run in runs])
    begun = np.cumsum(lasting) - lasting
    return np.asarray(begun[history.run] + (history.sample + 1) * (lasting / rows)[history.run])


def rounded(values: FloatArray) -> Any:
    """Write numbers in six digits, as lists."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (5 - np.floor(np.log10(np.abs(values))))
        return np.where(values == 0.0, 0.0, np.round(values * digits) / digits).tolist()


def parameters_of(judged: compare.MethodResult) -> list[dict[str, Any]]:
    """List a method's parameters, with their 95 % intervals where it gives them."""
    bounds = {} if judged.answer.intervals is None else compare.by_name(judged.answer.intervals)
    nothing = (None, None, None)
    return [
        plain({"name": name, "unit": unit, "value": value} | dict(zip(("low", "high"), ends, strict=True)))
        for name, unit, value in zip(judged.estimate.names, judged.estimate.units, judged.estimate.values, strict=True)
        for _, *ends in [bounds.get(name, nothing)]
    ]


def errors_data(errors: Errors, joints: Sequence[str]) -> dict[str, Any]:
    """Write errors of torques, by joint and in total."""
    by_joint = {joint: finite(x) for joint, x in zip(joints, errors.relative, strict=True)}
    return picked(errors, "total=relative_total mean_absolute=mean_absolute_mean") | {"joints": by_joint}


def noise_data(compared: compare.Comparison, joints: Sequence[str]) -> dict[str, Any] | None:
    """Write the errors due to noise alone."""
    shares, total = noise_errors(compared.prepared) or ([], None)
    return None if total is None else plain({"total": total, "joints": dict(zip(joints, shares, strict=True))})


def parameters_data(compared: compare.Comparison) -> list[dict[str, Any]]:
    """List the parameters of all methods, their meaning, and the number of contradicting pairs of methods."""
    robot = compared.prepared.problem.robot
    regression, forms = compared.prepared.problem.regression, regroupings(robot, base_parameters(robot))
    contradicted = [name for pair in compared.pairs for name in pair.apart or ()]
    return [
        {"name": name, "unit": unit, "regrouping": form, "contradictions": contradicted.count(name)}
        for name, unit, form in zip(regression.names, regression.units, forms, strict=True)
    ]
