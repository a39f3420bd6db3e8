"""How the campaign went: what was planned beside what came of it."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import entries, show, table, unit_words
from excitor.experiments.report.html import Cell, card, element, number_cell
from excitor.experiments.report.html import table as html_table


def planned_section(data: Mapping[str, Any]) -> Markup:
    """Compare the plan with what was obtained."""
    planned, robot = table(data, "planned"), table(data, "robot")
    if not planned:
        return Markup("")
    parts: list[Markup] = [element("h3", "Runs"), _runs(planned)]
    for made in (_tracking(planned, robot), _noise(planned, robot), _deviations(planned)):
        parts += made
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
    return html_table(headings, rows, class_="pinned")


def _tracking(planned: Mapping[str, Any], robot: Mapping[str, Any]) -> list[Markup]:
    """Show how far the robot was from its plan, in mrad and mm."""
    found = entries(planned, "tracking")
    if not found:
        return []
    units = [{"m": "mm"}.get(str(unit), "mrad") for unit in entries(robot, "units")]
    headings = [("run", ""), ("", ""), *((str(joint), "n") for joint in entries(robot, "joints"))]
    rows = []
    for run in found:
        for key, words in (("rms", "rms"), ("peak", "peak")):
            errors = zip(entries(run, key), units, strict=False)
            cells = [number_cell(f"{show(1e3 * x, 3)} {unit}", x) for x, unit in errors]
            rows.append(("", [element("b", str(run.get("run", ""))) if key == "rms" else "", words, *cells]))
    hint = "Mean measured period less the planned one: what the controller did not follow, noise averaged out."
    return [
        element("h3", "Tracking error"),
        element("p", hint, class_="hint"),
        html_table(headings, rows, class_="pinned"),
    ]


def _noise(planned: Mapping[str, Any], robot: Mapping[str, Any]) -> list[Markup]:
    found = entries(planned, "noise_by_joint")
    if not found:
        return []
    units = dict(zip(entries(robot, "joints"), entries(robot, "torque_units"), strict=False))
    headings = [("joint", ""), ("expected", "n"), ("obtained", "n"), ("unit", ""), ("obtained / expected", "n")]
    rows = [
        (
            "" if (row.get("ratio") or 0.0) <= 2.0 else "beyond",
            [
                element("b", str(row.get("joint", ""))),
                *(number_cell(show(row.get(key), 3), row.get(key)) for key in ("expected", "obtained")),
                Cell(str(units.get(row.get("joint"), "")), "u"),
                number_cell(show(row.get("ratio"), 3), row.get("ratio")),
            ],
        )
        for row in found
    ]
    source = f" Expected: {planned.get('noise')}." if planned.get("noise") else ""
    hint = f"Standard deviation of one torque sample; obtained: what does not repeat between periods.{source}"
    made = html_table(headings, rows, class_="narrow")
    return [element("h3", "Torque noise"), element("p", hint, class_="hint"), made]


def _deviations(planned: Mapping[str, Any]) -> list[Markup]:
    if not entries(planned, "parameters"):
        return []
    sentence = (
        f"{planned.get('within')} of {planned.get('compared')} parameters are known as well as foreseen, within a "
        f"factor of 2; the median of obtained over expected is {show(planned.get('median_ratio'), 3)}."
    )
    return [element("h3", "Standard deviations of parameters"), element("p", sentence), _parameters(planned)]


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
    return html_table(headings, rows, sortable=True, class_="narrow")
