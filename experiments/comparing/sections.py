"""The parts of a comparison's page: verdict, table of methods, pictures' places, agreement, numbers, data."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.comparing.words import contradictions, error_words, outcome
from excitor.experiments.page.words import NONE, beside, entries, finite, percent, show, table, unit_words
from excitor.experiments.report.html import Cell, card, chart, element, items, joined, number_cell
from excitor.experiments.report.html import table as html_table

BASELINES = {
    "zero": "without any model",
    "gravity only": "with gravity only",
    "prior model": "with the prior model",
}


def verdict_section(data: Mapping[str, Any]) -> Markup:
    """Say which model to take, why, and what to believe where methods disagree."""
    advice = table(data, "recommendation")
    good = advice.get("method") is not None
    substitute = table(data, "runs").get("substitute")
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
    """Say what a method assumes."""
    titles = [str(entry.get("title", "")) for entry in entries(data, "methods") if entry.get("name") == method]
    return "".join(f"{method}: {title[:1].lower()}{title[1:]}" for title in titles)


def methods_section(data: Mapping[str, Any]) -> Markup:
    """Put all methods in one table, then what each assumes and why some refused."""
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
        ("what came of it", "told"),
    ]
    chosen = table(data, "recommendation").get("method")
    rows = [_method(data, entry, chosen) for entry in entries(data, "methods")]
    hint = (
        "Errors are of joint torques: the norm of measured less predicted, over the norm of measured, on runs that no "
        "method was fitted to. More than the best: with the 95 % interval that other stretches of time would show; "
        "where it reaches 0, the two are alike. A consistent version has the parameters nearest to the estimate that "
        "bodies can have. Click a heading to sort."
    )
    inner = html_table(headings, rows, sortable=True, class_="errors pinned methods")
    return card("methods", "All methods in one table", inner, _assumptions(data), hint=hint)


def _method(data: Mapping[str, Any], entry: Mapping[str, Any], chosen: Any) -> tuple[str, list[Any]]:
    name = element("b", str(entry.get("name", "")))
    seconds = number_cell(show(entry.get("cpu_s"), 2), entry.get("cpu_s"))
    if not entry.get("parameters"):
        blank = [number_cell(NONE, None) for _ in range(7)]
        return "refused", [name, *blank, seconds, Cell(outcome(data, entry), "told")]
    held_out, behind = table(entry, "held_out"), table(entry, "behind_the_best")
    eigenvalue = entry.get("smallest_mass_matrix_eigenvalue")
    against = contradictions(data, entry)
    bodies = table(entry, "consistent")
    return "model" if entry.get("name") == chosen else "", [
        name,
        number_cell(error_words(held_out.get("total")), held_out.get("total")),
        number_cell(_behind(behind), behind.get("value")),
        number_cell(error_words(table(entry, "training").get("total")), table(entry, "training").get("total")),
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
    chance = f" ({error_words(low)} … {error_words(high)})" if value < 1.0 else ""  # beyond, nobody asks
    return f"{error_words(value)}{chance}"


def _assumptions(data: Mapping[str, Any]) -> Markup:
    """List what each method assumes, with what it noted."""
    rows = []
    for entry in entries(data, "methods"):
        notes = [str(note) for note in entries(entry, "notes")]
        rows += [element("dt", str(entry.get("name", ""))), element("dd", str(entry.get("title", "")), items(notes))]
    return element(
        "details",
        element("summary", "What each method assumes, and what it noted"),
        element("dl", *rows, class_="assumed"),
    )


def errors_section(data: Mapping[str, Any]) -> Markup:
    """Leave a place for the bars of held-out errors."""
    hint = (
        "Whiskers are the 95 % interval of the difference to the best, which stretches of time drawn at random show: "
        "methods whose whisker reaches back to the line of the best are as good."
    )
    inner = element("details", element("summary", "Joint by joint, beside the baselines"), _by_joint(data))
    return card("errors", "Held-out errors", chart("errors"), inner, hint=hint)


def _by_joint(data: Mapping[str, Any]) -> Markup:
    """List errors of every joint, of methods and of what needs no identification."""
    joints = [str(joint) for joint in entries(data, "joints")]
    chosen = table(data, "recommendation").get("method")
    answered = [entry for entry in entries(data, "methods") if entry.get("parameters")]
    rows: list[tuple[str, Any, Mapping[str, Any]]] = [
        ("model" if entry["name"] == chosen else "", element("b", str(entry["name"])), table(entry, "held_out"))
        for entry in answered
    ]
    rows += [("baseline", BASELINES.get(name, name), found) for name, found in table(data, "baselines").items()]
    if data.get("noise"):
        rows.append(("baseline", "noise alone, which no model predicts", table(data, "noise")))
    made = []
    for kind, name, found in rows:
        values = [*(table(found, "joints").get(joint) for joint in joints), found.get("total")]
        made.append((kind, [name, *(number_cell(percent(value), value) for value in values)]))
    headings = [("", ""), *((joint, "n") for joint in joints), ("all joints", "n")]
    return html_table(headings, made, sortable=True, class_="errors pinned")


def forest_section(data: Mapping[str, Any]) -> Markup:
    """Leave places for each parameter as every method has it."""
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
    """Show how far every two methods are apart, in torque and in parameters."""
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
        "share of the measured. Above it: how many parameters lie outside each other's 95 % intervals."
    )
    named = [
        f"{pair['one']} and {pair['other']}: {', '.join(map(str, pair['apart']))}"
        for pair in found.values()
        if pair.get("apart")
    ]
    listed = element("details", element("summary", "Which parameters those are"), items(named)) if named else ""
    return card("agreement", "Agreement", html_table(headings, rows, class_="pinned matrix"), listed, hint=hint)


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


def estimates_section(data: Mapping[str, Any]) -> Markup:
    """List every parameter as every method has it, folded away: they are many."""
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
    return card("estimates", "All numbers", whole, hint="Values with half the width of their 95 % interval.")


def _estimate(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return number_cell(NONE, None)
    value, low, high = (finite(row.get(key)) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return number_cell(show(value), value)
    half = 0.5 * (high - low)
    return number_cell(f"{beside(value, half)} ± {show(half, 2)}", value)


def simulation_section(data: Mapping[str, Any]) -> Markup:
    """Show how far a simulation of each model follows the measured motion."""
    simulated = table(data, "simulated")
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


def _until(row: Mapping[str, Any]) -> tuple[str, float | None]:
    number = finite(row.get("until"))
    return ("", None) if number is None else (show(number, 3), number)


def data_section(data: Mapping[str, Any]) -> Markup:
    """Say what all of them were fitted to and judged by, and where that came from."""
    runs = table(data, "runs")
    said = [
        f"Fitted to {', '.join(map(str, entries(runs, 'fitted')))}: {runs.get('n_fitted')} equations.",
        f"Judged by {', '.join(map(str, entries(runs, 'judged')))}: {runs.get('n_judged')} equations.",
        *(f"{finding.get('level')}: {finding.get('sentence')}" for finding in entries(data, "findings")),
    ]
    hashes = table(table(data, "provenance"), "sha256")
    rows = [("", [str(file), element("code", str(digest))]) for file, digest in hashes.items()]
    versions = table(data, "provenance")
    said.append(f"excitor {versions.get('excitor')}, Python {versions.get('python')}, numpy {versions.get('numpy')}.")
    files = element(
        "details", element("summary", "Files read"), html_table([("file", ""), ("SHA-256", "")], rows, class_="hashes")
    )
    return card("data", "Data", items(said), files)
