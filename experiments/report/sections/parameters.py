"""What is known of each parameter, and of which the consistent model's are the data's doing."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import NONE, bar, beside, entries, percent, show, tier, unit_words
from excitor.experiments.report.html import Cell, card, element, number_cell
from excitor.experiments.report.html import table as html_table

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
HEADINGS = [
    ("parameter", ""),
    ("value", "n"),
    ("95 % interval", "n"),
    ("unit", ""),
    (f"{SIGMA} / value", "n"),
    ("", ""),
    ("prior", "n"),
    ("torque / residual", "n"),
    ("stands for", ""),
    ("first term known by", ""),
]
KNOWN_BY = {"data-determined": "the data", "prior-dominated": "the prior", "assumed zero": "assumed zero"}


def parameters_section(data: Mapping[str, Any]) -> Markup:
    """List the base parameters with their intervals."""
    rows = [_row(row) for row in entries(data, "parameters")]
    hint = (
        "Combinations of parameters that torques can show; click a heading to sort. Bars are logarithmic: the standard "
        "deviation as a share of the value, 0.1 % at the left and 100 % at the right. Torque / residual: how much "
        "torque the parameter makes, in units of what the model leaves; below 1 it is not essential (*). A value is "
        "that of the whole sum, as the data determine it. How much of the sum is its first term, no data tell in full: "
        "the last column says whether the data or the prior decide that in the physically consistent model."
    )
    return card(
        "parameters", "Parameters", html_table(HEADINGS, rows, sortable=True, class_="parameters pinned"), hint=hint
    )


def _row(row: Mapping[str, Any]) -> tuple[str, list[Any]]:
    relative, name = row.get("relative"), element("b", str(row.get("name", "")))
    length = element("i", element("b", style=f"width:{bar(relative)}%"))
    kept = bool(row.get("kept"))
    sigma = row.get("sigma")
    interval = f"{beside(row.get('low'), sigma)} … {beside(row.get('high'), sigma)}" if kept else NONE
    needed = show(row.get("contribution"), 3) + ("" if row.get("essential") else " *") if kept else "left out"
    return tier(relative), [
        name,
        number_cell(beside(row.get("value"), sigma), row.get("value")),
        number_cell(interval, row.get("low")),
        Cell(unit_words(row.get("unit")), "u"),
        number_cell(percent(relative), relative),
        Cell(length, "bar"),
        number_cell(show(row.get("prior")), row.get("prior")),
        number_cell(needed, row.get("contribution") if kept else None),
        Cell(str(row.get("regrouping", "")), "formula"),
        KNOWN_BY.get(str(row.get("label")), NONE),
    ]


def standard_section(data: Mapping[str, Any]) -> Markup:
    """List the standard parameters of the consistent model, folded away: they are many."""
    rows = entries(data, "standard")
    if not rows:
        return Markup("")
    headings = [
        ("parameter", ""),
        ("value", "n"),
        (SIGMA, "n"),
        ("unit", ""),
        ("prior", "n"),
        ("data's share", "n"),
        ("known by", ""),
    ]
    made = [
        (
            "",
            [
                element("b", str(row.get("name", ""))),
                number_cell(show(row.get("value"), 5), row.get("value")),
                number_cell(show(row.get("sigma"), 3), row.get("sigma")),
                Cell(unit_words(row.get("unit")), "u"),
                number_cell(show(row.get("prior")), row.get("prior")),
                number_cell(percent(row.get("share")), row.get("share")),
                KNOWN_BY.get(str(row.get("label")), NONE) + (", on a bound" if row.get("on_a_bound") else ""),
            ],
        )
        for row in rows
    ]
    whole = element(
        "details",
        element("summary", f"Show all {len(rows)} parameters"),
        html_table(headings, made, sortable=True, class_="pinned"),
    )
    hint = (
        "One set of parameters, among many that give the same torques, that bodies can have. A share says how much of "
        "what is known of a parameter by itself comes from the data; the rest is the prior's."
    )
    return card("standard", "Parameters of the physically consistent model", whole, hint=hint)
