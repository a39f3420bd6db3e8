"""How a comparison of methods becomes one self-contained page: the recommendation first, then what it rests on."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.comparing.sections import (
    agreement_section,
    data_section,
    errors_section,
    estimates_section,
    forest_section,
    methods_section,
    simulation_section,
    verdict_section,
)
from excitor.experiments.page.assemble import joined_script, text
from excitor.experiments.page.embed import embed
from excitor.experiments.page.words import entries, table, unit_words
from excitor.experiments.report.html import element
from excitor.experiments.report.page import whole_page

PACKAGE = "excitor.experiments.comparing"
SHARED_SCRIPTS = ("svg.js", "tables.js")
SCRIPTS = ("forest.js", "error_bars.js", "compare.js")
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
    """Write a comparison, given as compare.json has it, as one HTML page."""
    sections = [(name, words, section(data)) for name, words, section in CONTENTS]
    links = [element("a", words, href=f"#{name}") for name, words, made in sections if made]
    script = joined_script(SHARED_SCRIPTS, SCRIPTS, PACKAGE)
    name = str(data.get("name", ""))
    body = [
        element(
            "header",
            element("h1", name),
            element(
                "p",
                "Estimators side by side on the same data of ",
                element("b", table(data, "robot").get("title", "")),
                ".",
            ),
        ),
        verdict_section(data),
        element("nav", *links, id="contents", aria_label="Contents"),
        element("noscript", element("p", "Pictures need JavaScript; the tables do not.", class_="banner unknown")),
        *(made for _, _, made in sections),
        element(
            "footer", f"Written by excitor {table(data, 'provenance').get('excitor', '')}. This file needs no other."
        ),
        element("script", embed(drawn(data)), type="application/json", id="compared"),
        element("script", Markup(script)),
    ]
    return whole_page(f"Methods: {name}", body, script, text("compare.css", PACKAGE))


def drawn(data: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what the script draws: errors, and every parameter as each method has it."""
    answered = [entry for entry in entries(data, "methods") if entry.get("parameters")]
    chosen = table(data, "recommendation").get("method")
    return {
        "chosen": chosen,
        "errors": [
            {
                "name": entry["name"],
                "total": table(entry, "held_out").get("total"),
                "behind": table(entry, "behind_the_best"),
            }
            for entry in answered
        ],
        "marks": [
            {"name": words, "total": value}
            for words, value in (
                ("noise", table(data, "noise").get("total")),
                ("prior model", table(table(data, "baselines"), "prior model").get("total")),
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
    """Find a method's value and interval of a parameter."""
    for row in entries(entry, "parameters"):
        if row.get("name") == name:
            return [entry.get("name"), row.get("value"), row.get("low"), row.get("high")]
    return None
