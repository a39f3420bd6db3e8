"""How a comparison of two reports becomes a page: sentences, errors side by side, parameters in standard deviations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from excitor.experiments.files import write_atomically
from excitor.experiments.page.assemble import joined_script
from excitor.experiments.page.words import NONE, beside, entries, percent, show, table, unit_words
from excitor.experiments.report.html import Cell, card, element, items, number_cell
from excitor.experiments.report.html import table as html_table
from excitor.experiments.report.page import PACKAGE, whole_page

PAGE = "comparison.html"
WIDEST = 6.0  # standard deviations that a bar shows


def comparison_page(result: Mapping[str, Any]) -> str:
    """Write what `compare` found as one self-contained HTML page."""
    first, second = (str(name) for name in result["names"])
    names = (f"first: {first}", f"second: {second}")
    verdict = table(result, "verdict")
    agree = verdict.get("agree")
    bodies = [row for row in entries(result, "parameters") if row["part"] != "friction"]
    robot = str(table(result, "robot").get("title", ""))
    script = joined_script(("tables.js",), ("comparison.js",), PACKAGE)
    body = [
        element(
            "header",
            element("h1", f"{first} and {second}"),
            element("p", "Two identifications of ", element("b", robot), "."),
        ),
        element(
            "section",
            element("h2", f"{'!' if agree is None else '✓' if agree else '✗'} {verdict.get('headline', '')}"),
            items(entries(result, "sentences")),
            id="verdict",
            class_=f"banner {'go' if agree else 'care'}",
        ),
        _errors(result, names),
        _parameters("friction", "Friction", entries(result, "friction"), names),
        _parameters("bodies", "Bodies: links and rotors", bodies, names),
        element("footer", "This file needs no other."),
        element("script", Markup(script)),
    ]
    return whole_page(f"Comparison: {first} and {second}", body, script)


def write_comparison(folder: Path, result: Mapping[str, Any]) -> Path:
    """Write comparison.html into a folder, whole or not at all."""
    path = folder / PAGE
    write_atomically(path, comparison_page(result))
    return path


def _errors(result: Mapping[str, Any], names: Sequence[str]) -> Markup:
    joints = [str(joint) for joint in table(result, "robot").get("joints", ())]
    headings = [("", ""), *((joint, "n") for joint in joints), ("all joints", "n")]
    rows = []
    for entry in entries(result, "errors"):
        for key, name in zip(("first", "second"), names, strict=True):
            found = table(entry, key)
            values = [*(table(found, "joints").get(joint) for joint in joints), found.get("total")]
            rows.append(("", [f"{entry.get('label')}, {name}", *(number_cell(percent(x), x) for x in values)]))
    hint = "Shares of the measured torques. The runs need not be the same, so the errors need not be either."
    return card("errors", "Torque errors side by side", html_table(headings, rows, class_="errors pinned"), hint=hint)


def _parameters(identifier: str, title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Markup:
    if not rows:
        return Markup("")
    headings = [
        ("parameter", ""),
        (names[0], "n"),
        (names[1], "n"),
        ("unit", ""),
        ("change", "n"),
        ("in standard deviations", "n"),
        ("", ""),
        ("torque / residual", "n"),
        ("beyond the intervals", ""),
        ("stands for", ""),
    ]
    hint = (
        "The change over the standard deviation of the difference; bars end at 6. Beyond the intervals: farther apart "
        "than both 95 % intervals explain together. Torque / residual: the torque that the change makes, in units of "
        "what the first model leaves. Click a heading to sort."
    )
    made = [("beyond" if row["changed"] else "", _row(row)) for row in rows]
    return card(identifier, title, html_table(headings, made, sortable=True, class_="pinned"), hint=hint)


def _row(row: Mapping[str, Any]) -> list[Any]:
    sigmas = row["sigmas"]
    length = 100.0 * min(1.0, abs(sigmas or 0.0) / WIDEST)
    return [
        element("b", str(row["name"])),
        number_cell(beside(row["first"], row["sigma_first"]), row["first"]),
        number_cell(beside(row["second"], row["sigma_second"]), row["second"]),
        Cell(unit_words(row["unit"]), "u"),
        number_cell(percent(row["relative"]), row["relative"]),
        number_cell(NONE if sigmas is None else show(sigmas, 3), None if sigmas is None else abs(sigmas)),
        Cell(element("i", element("b", style=f"width:{length:.1f}%")), "bar"),
        number_cell(show(row["effect"], 2), row["effect"]),
        "changed" if row["changed"] else "no",
        Cell(str(row["regrouping"]), "formula"),
    ]
