"""Report as one self-contained HTML page.

It holds untrusted text (names, findings, file names). `html` escapes what becomes HTML, `embed` what becomes data, the
script writes text nodes only, and a content security policy admits no other script.
"""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.report.bodies import bodies_section
from excitor.experiments.report.campaign import (
    alignment_section,
    planned_section,
    processing_section,
    provenance_section,
    tracking_section,
)
from excitor.experiments.report.fit import errors_section, residuals_section, runs_section, split_section
from excitor.experiments.report.html import element, embed, entries, joined, joined_script, safe, script_hash, text
from excitor.experiments.report.html import subtable as table
from excitor.experiments.report.parameters import (
    correlation_section,
    parameters_section,
    spectrum_section,
    standard_section,
)
from excitor.experiments.report.verdict import verdict_section

SHARED_SCRIPTS = (
    "camera.js",
    "raster.js",
    "zones.js",
    "scene.js",
    "svg.js",
    "orbit.js",
    "tables.js",
    "matrix_charts.js",
)
SCRIPTS = ("ellipsoids.js", "time_plots.js", "residual_charts.js", "viewer.js", "report.js")
CONTENTS = (
    ("errors", "errors", errors_section),
    ("runs", "torques", runs_section),
    ("parameters", "parameters", parameters_section),
    ("planned", "planned and achieved", planned_section),
    ("alignment", "alignment", alignment_section),
    ("tracking", "feed-forward", tracking_section),
    ("bodies", "links", bodies_section),
    ("standard", "consistent model", standard_section),
    ("split", "causes of torque", split_section),
    ("residuals", "residuals", residuals_section),
    ("spectrum", "excitation", spectrum_section),
    ("correlation", "look-alikes", correlation_section),
    ("processing", "processing", processing_section),
    ("provenance", "provenance", provenance_section),
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; img-src data:"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def report_page(data: Mapping[str, Any]) -> str:
    """Write a report, given as in report.json, as one HTML page."""
    sections = [(name, words, section(data)) for name, words, section in CONTENTS]
    links = [element("a", words, href=f"#{name}") for name, words, made in sections if made]
    script = joined_script(SHARED_SCRIPTS, SCRIPTS)
    body = [
        _header(data),
        verdict_section(data),
        element("nav", *links, id="contents", aria_label="Contents"),
        element("noscript", element("p", "Curves and the robot in motion need JavaScript.", class_="banner unknown")),
        *(made for _, _, made in sections),
        element(
            "footer", f"Written by excitor {table(data, 'provenance').get('excitor', '')}. This file needs no other."
        ),
        element("script", embed(drawn(data)), type="application/json", id="report"),
        element("script", Markup(script)),
    ]
    return whole_page(f"Report: {data.get('name', '')}", body, script)


def whole_page(title: str, body: list[Markup], script: str, style: str = "") -> str:
    """Write a page around its body; only that script may run. `style` comes after the report's."""
    page = Markup(PAGE).format(
        title=safe(title),
        policy=Markup(POLICY).format(Markup(script_hash(script))),
        style=Markup(f"{text('page.css')}\n{text('report.css')}\n{style}"),
        body=joined(body),
    )
    return str.__str__(page)  # Markup escapes whatever is done to it


def drawn(data: Mapping[str, Any]) -> dict[str, Any]:
    """Select the data that the script draws."""
    bodies = table(data, "bodies")
    return {
        "robot": table(data, "robot"),
        "runs": [
            {key: run[key] for key in ("name", "role", "static", "time", "joints") if key in run}
            for run in entries(data, "runs")
        ],
        "split": table(data, "split"),
        "spectrum": entries(table(data, "spectrum"), "values"),
        "correlation": table(data, "correlation"),
        "residuals": entries(data, "residuals"),
        "bodies": {key: bodies.get(key) for key in ("links", "base_capsules", "capsules", "frames")},
    }


def _header(data: Mapping[str, Any]) -> Markup:
    return element(
        "header",
        element("h1", str(data.get("name", ""))),
        element(
            "p",
            "Identification of ",
            element("b", str(table(data, "robot").get("title", ""))),
            ": a model of its torques, and its uncertainty.",
        ),
    )
