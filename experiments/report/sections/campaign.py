"""How the campaign went: what was found in aligning the logs, and what was planned beside what came of it."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import NONE, entries, show, table, unit_words
from excitor.experiments.report.html import Cell, card, element, number_cell
from excitor.experiments.report.html import table as html_table


def alignment_section(data: Mapping[str, Any]) -> Markup:
    """List what was found in aligning the logs with the plan."""
    if data.get("alignment") is None:
        return Markup("")
    headings = [("", ""), ("what", ""), ("found", "n"), ("expected", "n"), ("unit", ""), ("in words", "")]
    rows = [_alignment(entry) for entry in entries(data, "alignment")]
    body = html_table(headings, rows) if rows else element("p", "Nothing was looked at.")
    return card("alignment", "Do the logs fit the plan?", body)


def _alignment(entry: Mapping[str, Any]) -> tuple[str, list[Any]]:
    holds = entry.get("holds")
    mark = NONE if holds is None else "✓" if holds else "✗"
    kind = "" if holds is None else "ok" if holds else "bad"
    return "fails" if holds is False else "", [
        Cell(mark, kind or None),
        str(entry.get("name", "")),
        *(_value(entry.get(key)) for key in ("found", "expected")),
        Cell(unit_words(entry.get("unit")), "u"),
        Cell(str(entry.get("sentence", "")), "told"),
    ]


def _value(value: Any) -> Cell:
    return Cell(value, "n") if isinstance(value, str) else number_cell(show(value, 6), value)


def planned_section(data: Mapping[str, Any]) -> Markup:
    """Compare the plan with what was obtained."""
    planned = table(data, "planned")
    if not planned:
        return Markup("")
    parts = [element("h3", "Runs"), _runs(planned)]
    if entries(planned, "parameters"):
        sentence = (
            f"{planned.get('within')} of {planned.get('compared')} parameters are known as well as foreseen, within a "
            f"factor of 2; the median of obtained over expected is {show(planned.get('median_ratio'), 3)}."
        )
        noise = f"The forecast counted on noise: {planned.get('noise')}" if planned.get("noise") else ""
        parts += [element("h3", "Standard deviations"), element("p", sentence), element("p", noise, class_="hint")]
        parts.append(_parameters(planned))
    return card("planned", "Planned and achieved", *parts)


def _runs(planned: Mapping[str, Any]) -> Markup:
    headings = [
        ("run", ""),
        ("", ""),
        ("condition number planned", "n"),
        ("obtained", "n"),
        ("periods planned", "n"),
        ("usable", "n"),
    ]
    keys = ("condition_planned", "condition_obtained", "periods_planned", "periods_used")
    rows = [
        (
            "" if run.get("measured") else "fails",
            [
                element("b", str(run.get("name", ""))),
                ("measured" if run.get("planned") else "not planned") if run.get("measured") else "not measured",
                *(number_cell(show(run.get(key)), run.get(key)) for key in keys),
            ],
        )
        for run in entries(planned, "runs")
    ]
    return html_table(headings, rows)


def _parameters(planned: Mapping[str, Any]) -> Markup:
    headings = [("parameter", ""), ("expected", "n"), ("obtained", "n"), ("unit", ""), ("obtained / expected", "n")]
    rows = [
        (
            "" if (row.get("ratio") or 0.0) <= 2.0 else "beyond",
            [
                element("b", str(row.get("name", ""))),
                *(number_cell(show(row.get(key), 3), row.get(key)) for key in ("expected", "obtained")),
                Cell(unit_words(row.get("unit")), "u"),
                number_cell(show(row.get("ratio"), 3), row.get("ratio")),
            ],
        )
        for row in entries(planned, "parameters")
    ]
    return html_table(headings, rows, sortable=True)
