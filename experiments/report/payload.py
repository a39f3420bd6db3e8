"""How is a load told on a page? The verdict in words, its numbers, the ratings, controllers' forms, and the proof."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from excitor.experiments.export.load import Load, Origin, check_known, flange_of, load_file, load_of
from excitor.experiments.files import write_atomically
from excitor.experiments.payload import IdentifiedLoad, load_model_data, parameters_of_load
from excitor.experiments.report.campaign import (
    alignment_entry,
    alignment_section,
    checked_entries,
    provenance_section,
)
from excitor.experiments.report.evidence import simulated_runs
from excitor.experiments.report.html import (
    beside,
    card,
    element,
    entries,
    items,
    joined,
    number_cell,
    percent,
    show,
    subtable,
    unit_words,
)
from excitor.experiments.report.html import (
    table as html_table,
)
from excitor.experiments.report.page import whole_page
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import inverse

PAGE, DATA = "report.html", "report.json"
KIND = "excitor load report"
FORMS = {"kuka": "KUKA", "abb": "ABB", "fanuc": "FANUC", "ur": "Universal Robots"}
WORDS = {
    "m": "mass",
    "cx": "centre of gravity x",
    "cy": "centre of gravity y",
    "cz": "centre of gravity z",
    "Ixx": "inertia xx",
    "Iyy": "inertia yy",
    "Izz": "inertia zz",
    "Ixy": "inertia xy",
    "Ixz": "inertia xz",
    "Iyz": "inertia yz",
}
HEADLINES = {
    "within": "The robot carries what it is rated for.",
    "over": "The robot carries more than it is rated for.",
    "cannot tell": "Whether the robot carries more than it is rated for cannot be told.",
}


def write_load_report(result: IdentifiedLoad, commands: Sequence[str] = ()) -> list[Path]:
    """Write report.html and report.json, each whole or not at all; last the data, which tell what they rest on."""
    folder = result.campaign.folder
    data = load_report_data(result, commands)
    write_atomically(folder / PAGE, load_page(data))
    write_atomically(folder / DATA, json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n")
    return [folder / DATA, folder / PAGE]


def load_report_data(result: IdentifiedLoad, commands: Sequence[str] = ()) -> dict[str, Any]:
    """Collect a load's report."""
    robot, model = result.robot, load_model_data(result)
    checks = checked_entries(result.runs.alignments)
    return {
        "schema": 1,
        "kind": KIND,
        "name": result.campaign.folder.resolve().name,
        "robot": {"name": robot.name, "title": robot.title or robot.name, "joints": list(robot.joint_names)},
        "load": model["load"] | {"link": model["payload"]["link"], "arm": model["arm"]},
        "payload": model["payload"],
        "forms": forms(result),
        "runs": [
            {"name": name, "loaded": on, "static": result.runs.samples[name].static}
            for name, on in result.runs.loaded.items()
        ],
        "alignment": [alignment_entry(check) for check in checks] or None,
        "simulated": simulated_runs(result.campaign),
        "findings": model["findings"],
        "not_told": not_told(result),
        "provenance": {**model["provenance"], "commands": list(commands), "campaign_sha256": result.campaign.digest},
    }


def forms(result: IdentifiedLoad) -> list[dict[str, str]]:
    """Write the load as each controller declares it, or say why it is not."""
    made = []
    for controller, title in FORMS.items():
        name = title
        try:
            told, name = _sure(result, name)
            file = load_file(told, controller)
            made.append({"name": name, "file": file.name, "text": file.content.decode("ascii"), "refused": ""})
        except ExcitorError as error:
            made.append({"name": name, "file": "", "text": "", "refused": str(error)})
    return made


def _sure(result: IdentifiedLoad, name: str) -> tuple[Load, str]:
    """Leave out an inertia that is less sure than it is large, as `excitor export` asks for."""
    told = _on_flange(result)
    try:
        check_known(told)
    except ExcitorError:
        told = _on_flange(result, point=True)
        check_known(told)
        return told, f"{name}, as a point mass, for its inertia is less sure than it is large"
    return told, name


def _on_flange(result: IdentifiedLoad, *, point: bool = False) -> Load:
    phi, C = parameters_of_load(result)
    place = flange_of(result.robot, None)
    if place.link != result.link:
        raise ExcitorError(f"the frame {place.name} does not ride on the link that carries the load; name the flange")
    source = "identified, from model.json"
    return load_of(phi, C, Origin("payload", source, place.name, inverse(place.T_link_frame), point=point))


def not_told(result: IdentifiedLoad) -> list[str]:
    """Say what these numbers take for granted."""
    told = []
    if result.estimate is None:
        told.append("Poses held tell no inertia: load data are those of a point mass.")
    elif result.estimate.names and any(name.startswith("R ") for name in result.estimate.names):
        told.append(
            "Gears are taken to lose as much when driven as when they drive; where one loses 1 % more one way, the "
            "load comes out about half a per cent off, which the intervals do not count."
        )
    if not any(not on for on in result.runs.loaded.values()):
        told.append("No run is without the load, so errors of the arm's model were not corrected.")
    if result.estimate is not None and not result.runs.unseen:
        told.append('No run has role = "validate": nothing here says how well the load predicts.')
    if result.refusal:
        told.append(f"No body has these data: {result.refusal}")
    return told


def load_page(data: Mapping[str, Any]) -> str:
    """Write a load's report, given as report.json has it, as one HTML page."""
    load = subtable(data, "load")
    body = [
        element(
            "header",
            element("h1", str(data.get("name", ""))),
            element("p", "What ", element("b", str(subtable(data, "robot").get("title", ""))), " carries."),
        ),
        _verdict(data),
        _load_section(load),
        _rating_section(load),
        _forms_section(data),
        _predicted_section(load),
        _unknowns_section(load),
        alignment_section(data),
        provenance_section(data),
        element("footer", f"Written by excitor {version('excitor')}. This file needs no other."),
    ]
    return whole_page(f"Load: {data.get('name', '')}", body, "")


def _verdict(data: Mapping[str, Any]) -> Markup:
    load = subtable(data, "load")
    answer = str(subtable(load, "rating").get("answer", "cannot tell"))
    mark, look = {"within": ("✓", "go"), "over": ("✗", "no-go")}.get(answer, ("!", "care"))
    sentences = [str(one.get("sentence", "")) for one in entries(subtable(load, "rating"), "quantities")]
    virtual = [str(run.get("run", "")) for run in entries(data, "simulated")]
    banner = element(
        "section",
        element("h2", f"{mark} {HEADLINES.get(answer, '')}"),
        element("p", f"Of a virtual robot: {', '.join(virtual)}.", class_="virtual") if virtual else "",
        items([sentence + "." for sentence in sentences]),
        id="verdict",
        class_=f"banner {look}",
    )
    arm = subtable(load, "arm")
    corrected = ", corrected by the runs without the load" if arm.get("corrected") else ""
    known = [f"The arm: {arm.get('source', '')}{corrected}.", *(str(x) for x in entries(data, "not_told"))]
    known += [str(finding.get("sentence", "")) for finding in entries(data, "findings")]
    return joined([banner, card("known", "What this rests on", items(known))])


def _load_section(load: Mapping[str, Any]) -> Markup:
    rows = [
        (
            "",
            [
                WORDS.get(str(row.get("name")), str(row.get("name"))),
                number_cell(beside(row.get("value"), row.get("sigma")), row.get("value")),
                number_cell(" … ".join(beside(x, row.get("sigma")) for x in entries(row, "interval")), None),
                unit_words(row.get("unit")),
            ],
        )
        for row in entries(load, "at_center")
    ]
    hint = (
        f"On link {load.get('link', '')}, in its frame; inertia about the centre of gravity. Intervals are 95 %, and "
        "count noise, what repeats in the residuals, and doubt about the arm."
    )
    static = subtable(load, "static")
    more = element("p", _static_words(static)) if static else ""
    heads = [("", ""), ("value", "n"), ("95 % interval", "n"), ("unit", "")]
    return card("load", "The load", html_table(heads, rows), more, hint=hint)


def _static_words(static: Mapping[str, Any]) -> str:
    if static.get("refusal"):
        return f"Poses held do not tell the load: {static['refusal']}"
    sigma = [float(x) for x in entries(static, "sigma")]
    center = ", ".join(f"{1e3 * float(x):.1f}" for x in entries(static, "center"))
    spread = ", ".join(f"{1e3 * x:.1f}" for x in sigma[1:])
    mass = f"{beside(static.get('mass'), sigma[0])} ± {sigma[0]:.2g} kg"
    return f"Poses held, by gravity alone: {mass}, centre ({center}) ± ({spread}) mm; ± one standard deviation."


def _rating_section(load: Mapping[str, Any]) -> Markup:
    rows = [
        (
            {"over": "bad", "within": "good"}.get(str(one.get("answer")), ""),
            [
                str(one.get("what", "")),
                number_cell(beside(one.get("value"), one.get("sigma")), one.get("value")),
                number_cell(show(one.get("limit")), one.get("limit")),
                unit_words(one.get("unit")),
                str(one.get("answer", "")),
            ],
        )
        for one in entries(subtable(load, "rating"), "quantities")
    ]
    hint = "Inertias and moments at the worst pose of the joints behind. Ratings are those of [rated] in campaign.toml."
    heads = [("", ""), ("found", "n"), ("rated", "n"), ("unit", ""), ("verdict", "")]
    return card("rating", "What the robot may carry", html_table(heads, rows), hint=hint)


def _forms_section(data: Mapping[str, Any]) -> Markup:
    parts = [
        element(
            "details",
            element("summary", f"{form.get('name', '')}: {form.get('file') or 'not written'}"),
            element("pre", str(form.get("text"))) if form.get("text") else element("p", str(form.get("refused", ""))),
        )
        for form in entries(data, "forms")
    ]
    return card("forms", "As controllers want it", *parts, hint="excitor export --format kuka writes such a file.")


def _predicted_section(load: Mapping[str, Any]) -> Markup:
    runs = entries(load, "predicted")
    if not runs:
        return Markup("")
    axes = list(subtable(runs[0], "rms"))
    rows = [
        (
            "",
            [
                f"{run.get('run', '')}{', not used' if run.get('unseen') else ''}",
                "loaded" if run.get("loaded") else "bare",
                *(
                    number_cell(
                        f"{show(subtable(run, 'rms').get(axis), 3)} ({percent(subtable(run, 'relative').get(axis))})",
                        subtable(run, "rms").get(axis),
                    )
                    for axis in axes
                ),
            ],
        )
        for run in runs
    ]
    hint = "What is left of the motors' torques, root mean square, N m on the link side, and as a share of them."
    heads = [("run", ""), ("", ""), *((axis, "n") for axis in axes)]
    return card("predicted", "Torques foretold", html_table(heads, rows, class_="pinned"), hint=hint)


def _unknowns_section(load: Mapping[str, Any]) -> Markup:
    rows = [
        (
            "",
            [
                str(row.get("name", "")),
                number_cell(beside(row.get("value"), row.get("sigma")), row.get("value")),
                number_cell(show(row.get("sigma"), 2), row.get("sigma")),
                unit_words(row.get("unit")),
            ],
        )
        for row in entries(load, "unknowns")
    ]
    if not rows:
        return Markup("")
    hint = (
        "As estimated together: the load at its link's origin, friction, and what share of the torque gears pass on "
        f"(R). Condition number {show(load.get('condition'), 3)}."
    )
    heads = [("unknown", ""), ("value", "n"), ("standard deviation", "n"), ("unit", "")]
    return card("unknowns", "All that was estimated", html_table(heads, rows), hint=hint)
