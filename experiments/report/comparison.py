"""Page and data of a comparison of methods: compare.html, which draws compare.json."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

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
from excitor.experiments.report.html import (
    NONE,
    Cell,
    beside,
    card,
    chart,
    element,
    embed,
    entries,
    items,
    joined,
    joined_script,
    number_cell,
    percent,
    show,
    subtable,
    text,
    unit_words,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.experiments.report.page import whole_page
from excitor.identify.methods import METHODS, Answer
from excitor.identify.validate import Errors
from excitor.robots.arrays import finite
from excitor.robots.base import base_parameters, regroupings

SHARED_SCRIPTS = ("svg.js", "tables.js")
SCRIPTS = ("forest.js", "error_bars.js", "compare.js")


def methods_section(data: Mapping[str, Any]) -> Markup:
    """Write the table of all methods, then the assumptions of each and the reasons of refusals."""
    headings = [
        ("method", ""),
        ("held-out error", "n"),
        ("more than the best", "n"),
        ("training error", "n"),
        ("parameters", "n"),
        ("contradicts the model taken in", "n"),
        ("smallest eigenvalue of M(q)", "n"),
        ("consistent version", "n"),
        ("CPU, s", "n"),
        ("result", "told"),
    ]
    chosen = subtable(data, "recommendation").get("method")
    rows = [_method(data, entry, chosen) for entry in entries(data, "methods")]
    hint = (
        "Errors are of joint torques: the norm of measured less predicted, over the norm of measured, on runs that no "
        "method was fitted to. More than the best: with its 95 % interval over other segments of time; "
        "where it reaches 0, the two are alike. A consistent version has the parameters nearest to the estimate that "
        "bodies can have. Click a heading to sort."
    )
    inner = html_table(headings, rows, sortable=True, class_="errors pinned methods")
    return card("methods", "All methods in one table", inner, _assumptions(data), hint=hint)


def errors_section(data: Mapping[str, Any]) -> Markup:
    """Write the placeholder of the bars of held-out errors."""
    hint = (
        "Whiskers are the 95 % interval of the difference to the best, over segments of time drawn at random: "
        "methods whose whisker reaches back to the line of the best are as good."
    )
    inner = element("details", element("summary", "Joint by joint, beside the baselines"), _by_joint(data))
    return card("errors", "Held-out errors", chart("errors"), inner, hint=hint)


def forest_section(data: Mapping[str, Any]) -> Markup:
    """Write the placeholders of each parameter's estimates by all methods."""
    hint = (
        "Values with 95 % intervals, one picture for each parameter; the band is the interval of the model taken. "
        "Those in which most methods contradict each other come first. A method without intervals has a dot only."
    )
    count = len(entries(data, "parameters"))
    return card(
        "forest",
        "Parameters by method",
        chart("forest", class_="forest"),
        element("details", element("summary", f"Show all {count} parameters"), chart("forest-rest", class_="forest"))
        if count > 12
        else "",
        hint=hint,
    )


def agreement_section(data: Mapping[str, Any]) -> Markup:
    """Write the distances between every two methods, in torque and in parameters."""
    names = [str(entry["name"]) for entry in entries(data, "methods") if entry.get("parameters")]
    if len(names) < 2:
        return Markup("")
    found = {frozenset((pair["one"], pair["other"])): pair for pair in entries(data, "pairs")}
    widest = max((finite(pair.get("torque")) or 0.0 for pair in found.values()), default=0.0)
    headings = [("", ""), *((str(k + 1), "n") for k in range(len(names)))]
    rows = []
    for i, one in enumerate(names):
        cells: list[Any] = [element("b", f"{i + 1} {one}")]
        cells += [_agreement(found.get(frozenset((one, other))), i, j, widest) for j, other in enumerate(names)]
        rows.append(("", cells))
    hint = (
        "Below the diagonal: how far apart the torques are that two methods predict for the held-out motion, as a "
        "share of the measured. Above it: how many parameters are outside each other's 95 % intervals."
    )
    named = [
        f"{pair['one']} and {pair['other']}: {', '.join(map(str, pair['apart']))}"
        for pair in found.values()
        if pair.get("apart")
    ]
    listed = element("details", element("summary", "Which parameters those are"), items(named)) if named else ""
    return card("agreement", "Agreement", html_table(headings, rows, class_="pinned matrix"), listed, hint=hint)


def estimates_section(data: Mapping[str, Any]) -> Markup:
    """List every parameter's estimates by all methods, in a folded section."""
    answered = [entry for entry in entries(data, "methods") if entry.get("parameters")]
    headings = [("parameter", ""), ("unit", ""), *((str(entry["name"]), "n") for entry in answered), ("stands for", "")]
    values = [{row["name"]: row for row in entries(entry, "parameters")} for entry in answered]
    rows = []
    for row in entries(data, "parameters"):
        cells = [_estimate(found.get(row["name"])) for found in values]
        words = [element("b", str(row["name"])), Cell(unit_words(row["unit"]), "u")]
        rows.append(("", [*words, *cells, Cell(str(row["regrouping"]), "formula")]))
    inner = html_table(headings, rows, sortable=True, class_="pinned estimates")
    whole = element("details", element("summary", f"Show all {len(rows)} parameters"), inner)
    return card("estimates", "All estimates", whole, hint="Values with half the width of their 95 % interval.")


def simulation_section(data: Mapping[str, Any]) -> Markup:
    """Write the errors of simulations of each model against the measured motion."""
    simulated = subtable(data, "simulated")
    if not simulated:
        return Markup("")
    rows = [
        (
            "",
            [
                element("b", str(row.get("method", ""))),
                str(row.get("run", "")),
                *(number_cell(show(row.get(key), 3), row.get(key)) for key in ("error", "error_first")),
                number_cell(*_until(row)),
                Cell(str(row.get("sentence", "")), "told"),
            ],
        )
        for row in entries(simulated, "rows")
    ]
    headings = [
        ("method", ""),
        ("run", ""),
        (str(simulated.get("error_title", "error")), "n"),
        (str(simulated.get("first_title", "at first")), "n"),
        ("followed for, s", "n"),
        ("", "told"),
    ]
    inner = html_table(headings, rows, sortable=True, class_="pinned")
    return card("simulation", "Simulation of the models", inner, hint=str(simulated.get("sentence", "")))


def data_section(data: Mapping[str, Any]) -> Markup:
    """Describe the fitted and held-out data of all methods, and their provenance."""
    runs = subtable(data, "runs")
    said = [
        f"Fitted to {', '.join(map(str, entries(runs, 'fitted')))}: {runs.get('n_fitted')} equations.",
        f"Judged by {', '.join(map(str, entries(runs, 'judged')))}: {runs.get('n_judged')} equations.",
        *(f"{finding.get('level')}: {finding.get('sentence')}" for finding in entries(data, "findings")),
    ]
    hashes = subtable(subtable(data, "provenance"), "sha256")
    rows = [("", [str(file), element("code", str(digest))]) for file, digest in hashes.items()]
    versions = subtable(data, "provenance")
    said.append(f"excitor {versions.get('excitor')}, Python {versions.get('python')}, numpy {versions.get('numpy')}.")
    files = element(
        "details", element("summary", "Files read"), html_table([("file", ""), ("SHA-256", "")], rows, class_="hashes")
    )
    return card("data", "Data", items(said), files)


CONTENTS = (
    ("methods", "side by side", methods_section),
    ("errors", "held-out errors", errors_section),
    ("forest", "parameters", forest_section),
    ("agreement", "agreement", agreement_section),
    ("estimates", "all numbers", estimates_section),
    ("simulation", "simulation", simulation_section),
    ("data", "data", data_section),
)


def compare_page(data: Mapping[str, Any]) -> str:
    """Write a comparison, given as in compare.json, as one HTML page."""
    sections = [(name, words, section(data)) for name, words, section in CONTENTS]
    links = [element("a", words, href=f"#{name}") for name, words, made in sections if made]
    script = joined_script(SHARED_SCRIPTS, SCRIPTS)
    name = str(data.get("name", ""))
    body = [
        element(
            "header",
            element("h1", name),
            element(
                "p",
                "Estimators side by side on the same data of ",
                element("b", subtable(data, "robot").get("title", "")),
                ".",
            ),
        ),
        verdict_section(data),
        element("nav", *links, id="contents", aria_label="Contents"),
        element("noscript", element("p", "Pictures need JavaScript; the tables do not.", class_="banner unknown")),
        *(made for _, _, made in sections),
        element(
            "footer", f"Written by excitor {subtable(data, 'provenance').get('excitor', '')}. This file needs no other."
        ),
        element("script", embed(drawn(data)), type="application/json", id="compared"),
        element("script", Markup(script)),
    ]
    return whole_page(f"Methods: {name}", body, script, text("compare.css"))


def drawn(data: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data of the script: errors, and every parameter's estimates by all methods."""
    answered = [entry for entry in entries(data, "methods") if entry.get("parameters")]
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


BASELINES = {
    "zero": "without any model",
    "gravity only": "with gravity only",
    "prior model": "with the prior model",
}


def verdict_section(data: Mapping[str, Any]) -> Markup:
    """Write the recommended model, the reasons, and what to believe where methods disagree."""
    advice = subtable(data, "recommendation")
    good = advice.get("method") is not None
    substitute = subtable(data, "runs").get("substitute")
    sure = good and not advice.get("careful")
    banner = element(
        "section",
        element("h2", f"{'✓' if sure else '!' if good else '✗'} {advice.get('headline', '')}"),
        *(element("p", reason) for reason in entries(advice, "reasons")),
        element("p", _title(data, advice.get("method")), class_="hint") if good else "",
        element("p", f"{substitute}.", class_="virtual") if substitute else "",
        id="verdict",
        class_=f"banner {'go' if sure else 'care' if good else 'no-go'}",
    )
    sentences = entries(data, "beliefs")
    if not sentences:
        return banner
    return joined([banner, card("beliefs", "Do the methods agree, and what to believe", items(sentences))])


def _title(data: Mapping[str, Any], method: Any) -> str:
    """Describe the assumption of a method."""
    titles = [str(entry.get("title", "")) for entry in entries(data, "methods") if entry.get("name") == method]
    return "".join(f"{method}: {title[:1].lower()}{title[1:]}" for title in titles)


def _method(data: Mapping[str, Any], entry: Mapping[str, Any], chosen: Any) -> tuple[str, list[Any]]:
    name = element("b", str(entry.get("name", "")))
    seconds = number_cell(show(entry.get("cpu_s"), 2), entry.get("cpu_s"))
    if not entry.get("parameters"):
        blank = [number_cell(NONE, None) for _ in range(7)]
        return "refused", [name, *blank, seconds, Cell(outcome(data, entry), "told")]
    held_out, behind = subtable(entry, "held_out"), subtable(entry, "behind_the_best")
    eigenvalue = entry.get("smallest_mass_matrix_eigenvalue")
    against = contradictions(data, entry)
    bodies = subtable(entry, "consistent")
    return "model" if entry.get("name") == chosen else "", [
        name,
        number_cell(error_words(held_out.get("total")), held_out.get("total")),
        number_cell(_behind(behind), behind.get("value")),
        number_cell(error_words(subtable(entry, "training").get("total")), subtable(entry, "training").get("total")),
        number_cell(str(entry.get("n_parameters")), entry.get("n_parameters")),
        number_cell(NONE if against is None else str(against), against),
        number_cell(show(eigenvalue, 2), eigenvalue),
        number_cell(error_words(bodies.get("total")), bodies.get("total")),
        seconds,
        Cell(outcome(data, entry), "told"),
    ]


def _behind(behind: Mapping[str, Any]) -> str:
    value, low, high = (finite(behind.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return NONE
    if value == 0.0:
        return "0"
    chance = f" ({error_words(low)} … {error_words(high)})" if value < 1.0 else ""  # not shown beyond
    return f"{error_words(value)}{chance}"


def _assumptions(data: Mapping[str, Any]) -> Markup:
    """List each method's assumptions and notes."""
    rows = []
    for entry in entries(data, "methods"):
        notes = [str(note) for note in entries(entry, "notes")]
        rows += [element("dt", str(entry.get("name", ""))), element("dd", str(entry.get("title", "")), items(notes))]
    return element(
        "details",
        element("summary", "What each method assumes, and what it noted"),
        element("dl", *rows, class_="assumed"),
    )


def _by_joint(data: Mapping[str, Any]) -> Markup:
    """List errors of every joint, of methods and of baselines."""
    joints = [str(joint) for joint in entries(data, "joints")]
    chosen = subtable(data, "recommendation").get("method")
    answered = [entry for entry in entries(data, "methods") if entry.get("parameters")]
    rows: list[tuple[str, Any, Mapping[str, Any]]] = [
        ("model" if entry["name"] == chosen else "", element("b", str(entry["name"])), subtable(entry, "held_out"))
        for entry in answered
    ]
    rows += [("baseline", BASELINES.get(name, name), found) for name, found in subtable(data, "baselines").items()]
    if data.get("noise"):
        rows.append(("baseline", "noise alone, which no model predicts", subtable(data, "noise")))
    made = []
    for kind, name, found in rows:
        values = [*(subtable(found, "joints").get(joint) for joint in joints), found.get("total")]
        made.append((kind, [name, *(number_cell(percent(value), value) for value in values)]))
    headings = [("", ""), *((joint, "n") for joint in joints), ("all joints", "n")]
    return html_table(headings, made, sortable=True, class_="errors pinned")


def _agreement(pair: Mapping[str, Any] | None, row: int, column: int, widest: float) -> Cell:
    if pair is None:
        return Cell("·", "n same")
    if column < row:
        torque = finite(pair.get("torque"))
        share = 0.0 if torque is None or widest <= 0.0 else torque / widest
        return Cell(element("span", percent(torque), style=f"--share:{100 * share:.0f}%"), "n torque")
    apart = pair.get("apart")
    share = 0.0 if not apart else len(apart) / max(1, int(pair.get("compared") or 1))
    words = NONE if apart is None else str(len(apart))
    return Cell(element("span", words, style=f"--share:{100 * share:.0f}%"), "n apart")


def _estimate(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return number_cell(NONE, None)
    value, low, high = (finite(row.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return number_cell(show(value), value)
    half = 0.5 * (high - low)
    return number_cell(f"{beside(value, half)} ± {show(half, 2)}", value)


def _until(row: Mapping[str, Any]) -> tuple[str, float | None]:
    number = finite(row.get("until"))
    return ("", None) if number is None else (show(number, 3), number)


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
    told: dict[str, Any] = {
        "name": found.method,
        "title": METHODS[found.method].title,
        "refused": found.refused,
        "notes": list(found.notes),
        "evidence": {key: finite(value) for key, value in found.evidence.items()},
        "cpu_s": found.cpu_s,
    }
    if judged is None:
        return told | {"parameters": [], "n_parameters": 0}
    difference, bodies = compared.differences[judged.name], compared.bodies.get(judged.name)
    own = known_joints(compared)
    return told | {
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
