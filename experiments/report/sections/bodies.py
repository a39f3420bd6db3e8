"""Could such bodies exist? The links of the consistent model, in numbers and in motion."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import MINUS, NONE, entries, show, table
from excitor.experiments.report.html import Cell, card, element, joined, number_cell, opened
from excitor.experiments.report.html import table as html_table
from excitor.experiments.report.sections.parameters import KNOWN_BY
from excitor.experiments.report.words import cost

TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = 1e-9  # rounding: no link is that small


def bodies_section(data: Mapping[str, Any]) -> Markup:
    """Show the robot with its inertia ellipsoids, and each link's mass, centre and moments."""
    bodies = table(data, "bodies")
    links = entries(bodies, "links")
    words = [element("p", sentence) for sentence in _words(bodies)]
    hint = (
        "Each ellipsoid is the body of even density that has the link's mass and inertia, where the centre of mass is; "
        "the robot's volumes are the glass around it. An ellipsoid far outside its link is a parameter that no torque "
        "showed. Drag to turn, wheel with Ctrl to zoom, double-click to reset."
    )
    return card("bodies", "Links that could exist", *words, _viewer(bodies), _table(links), hint=hint)


def _words(bodies: Mapping[str, Any]) -> list[str]:
    fit = table(bodies, "fit")
    if not fit:
        return [
            f"There is no physically consistent model: {bodies.get('refusal', '')}. Shown is the robot alone.",
            "Smallest eigenvalue of the estimated mass matrix over random poses: "
            f"{show(bodies.get('smallest_inertia'))}.",
        ]
    holds = (
        "Every link could exist and the mass matrix is positive definite"
        if fit.get("holds")
        else ("Not every link could exist, or the mass matrix is not positive definite")
    )
    return [
        f"{holds} in {fit.get('n_poses')} random poses (smallest eigenvalue "
        f"{show(fit.get('smallest_mass_matrix_eigenvalue'))}). Solved by {fit.get('solver')}, {fit.get('status')}; "
        f"consistency costs {cost(fit.get('loss'))} of residual."
    ]


def _viewer(bodies: Mapping[str, Any]) -> Markup:
    views = [
        element("button", words, type="button", data_view=key)
        for key, words in (("3d", "3-D"), ("front", "front"), ("side", "side"), ("top", "top"))
    ]
    speeds = [
        element("button", words, type="button", data_speed=speed)
        for speed, words in (("0.25", f"¼{TIMES}"), ("1", f"1{TIMES}"), ("5", f"5{TIMES}"))
    ]
    clock = element("output", id="clock")
    scrub = opened("input", type="range", id="scrub", min=0, max=1000, value=0, aria_label="Time")
    return element(
        "div",
        element(
            "div",
            element("canvas", id="scene", tabindex=0, aria_label="The robot in motion"),
            element("div", *views, id="views"),
            id="canvas-box",
        ),
        element("div", element("button", "▶ Play", type="button", id="play"), scrub, clock, id="controls"),
        element(
            "div",
            element("span", f"run {bodies.get('run', '')}", id="phase"),
            element("span", *speeds, class_="choice", id="speeds"),
            element("span", "mass from the data", class_="key e-data"),
            element("span", "mass from the prior", class_="key e-prior"),
            id="options",
        ),
        id="viewer",
    )


def _table(links: list[Any]) -> Markup:
    if not links:
        return Markup("")
    headings = [
        ("", ""),
        ("link", ""),
        ("mass, kg", "n"),
        ("mass known by", ""),
        ("from the data", "n"),
        ("centre of mass in the link's frame, mm", "n"),
        ("principal moments, kg m²", "n"),
        ("smallest eigenvalue", "n"),
        ("margin", "n"),
    ]
    rows = [("holds" if link.get("holds") else "fails", _row(link)) for link in links]
    hint = (
        "A body exists exactly where all four eigenvalues of its pseudo-inertia are positive. The margin is the "
        "smallest eigenvalue after scaling to unit diagonal: 0 is the edge of what can exist."
    )
    return joined([html_table(headings, rows, class_="links"), element("p", hint, class_="hint")])


def _row(link: Mapping[str, Any]) -> list[Any]:
    holds, smallest = bool(link.get("holds")), min(entries(link, "eigenvalues"), default=None)
    return [
        Cell("✓" if holds else "✗", "ok" if holds else "bad"),
        element("b", str(link.get("link", ""))),
        number_cell(show(link.get("mass")), link.get("mass")),
        KNOWN_BY.get(str(link.get("mass_label")), NONE),
        number_cell(f"{link.get('data_determined')} of 10", None),
        number_cell(_millimetres(entries(link, "center")), None),
        number_cell(_several(entries(link, "moments")), None),
        number_cell(show(smallest, 3), smallest),
        number_cell(show(link.get("relative_margin"), 2), link.get("relative_margin")),
    ]


def _millimetres(numbers: list[Any]) -> str:
    return ",\N{NO-BREAK SPACE} ".join(f"{round(1e3 * x, 1) + 0.0:.1f}".replace("-", MINUS) for x in numbers)


def _several(numbers: list[Any]) -> str:
    return ",\N{NO-BREAK SPACE} ".join(show(0.0 if abs(x) < NOTHING else x, 3) for x in numbers)
