"""Report page of a load: verdict, values, ratings, controllers' load data, and their basis."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from markupsafe import Markup

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.export.load import Load, Origin, check_known, flange_of, load_file, load_of
from excitor.experiments.model import Model
from excitor.experiments.payload import PayloadRuns
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
from excitor.robots.robot import Robot

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
    "cannot tell": "Whether the robot carries more than it is rated for is undecided.",
}


def load_report_data(
    campaign: OpenCampaign, model: Model, runs: PayloadRuns, commands: Sequence[str] = ()
) -> dict[str, Any]:
    """Collect a load's report."""
    robot = runs.robot
    checks = checked_entries(runs.alignments)
    load = dict(model.load or {})
    return {
        "schema": 1,
        "kind": KIND,
        "name": campaign.folder.resolve().name,
        "robot": {"name": robot.name, "title": robot.title or robot.name, "joints": list(robot.joint_names)},
        "load": load | {"link": model.payload["link"], "arm": model.arm},
        "payload": model.payload,
        "forms": forms(robot, model),
        "runs": [{"name": name, "loaded": on, "static": runs.samples[name].static} for name, on in runs.loaded.items()],
        "alignment": [alignment_entry(check) for check in checks] or None,
        "simulated": simulated_runs(campaign),
        "findings": [dict(finding) for finding in model.findings],
        "not_told": not_told(load, runs),
        "provenance": {**model.provenance, "commands": list(commands), "campaign_sha256": campaign.digest},
    }


def forms(robot: Robot, model: Model) -> list[dict[str, str]]:
    """Write the load in each controller's format, or why it is refused."""
    made = []
    for controller, title in FORMS.items():
        name = title
        try:
            told, name = _sure(robot, model, name)
            file = load_file(told, controller)
            made.append({"name": name, "file": file.name, "text": file.content.decode("ascii"), "refused": ""})
        except ExcitorError as error:
            made.append({"name": name, "file": "", "text": "", "refused": str(error)})
    return made


def _sure(robot: Robot, model: Model, name: str) -> tuple[Load, str]:
    """Remove an inertia that is smaller than its uncertainty, as `excitor export` requires."""
    told = _on_flange(robot, model)
    try:
        check_known(told)
    except ExcitorError:
        told = _on_flange(robot, model, point=True)
        check_known(told)
        return told, f"{name}, as a point mass, for its inertia is less sure than it is large"
    return told, name


def _on_flange(robot: Robot, model: Model, *, point: bool = False) -> Load:
    phi, C = np.array(model.payload["phi"]), np.array(model.payload["covariance"])
    place = flange_of(robot, None)
    if robot.mechanism.link_names[place.link] != model.payload["link"]:
        raise ExcitorError(f"the frame {place.name} does not ride on the link that carries the load; name the flange")
    source = "identified, from model.json"
    return load_of(phi, C, Origin("payload", source, place.name, inverse(place.T_link_frame), point=point))


def not_told(load: Mapping[str, Any], runs: PayloadRuns) -> list[str]:
    """List the assumptions behind these values."""
    told, of_motion = [], load["method"] == "motion"
    if not of_motion:
        told.append("Held poses determine no inertia: load data are those of a point mass.")
    elif any(row["name"].startswith("R ") for row in load["unknowns"]):
        told.append(
            "Gears are assumed to lose as much when driven as when they drive; where one loses 1 % more one way, the "
            "load is about half a per cent wrong, which the intervals do not include."
        )
    if all(runs.loaded.values()):
        told.append("No run is without the load, so errors of the arm's model were not corrected.")
    if of_motion and not runs.unseen:
        told.append('No run has role = "validate": prediction errors of the load are unknown.')
    if load["refusal"]:
        told.append(f"No body has these data: {load['refusal']}")
    return told


def load_page(data: Mapping[str, Any]) -> str:
    """Write a load's report, given as in report.json, as one HTML page."""
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
    return joined([banner, card("known", "Data and assumptions", items(known))])


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
        "include noise, correlated residuals, and the arm's uncertainty."
    )
    static = subtable(load, "static")
    more = element("p", _static_words(static)) if static else ""
    heads = [("", ""), ("value", "n"), ("95 % interval", "n"), ("unit", "")]
    return card("load", "The load", html_table(heads, rows), more, hint=hint)


def _static_words(static: Mapping[str, Any]) -> str:
    if static.get("refusal"):
        return f"Held poses do not determine the load: {static['refusal']}"
    sigma = [float(x) for x in entries(static, "sigma")]
    center = ", ".join(f"{1e3 * float(x):.1f}" for x in entries(static, "center"))
    spread = ", ".join(f"{1e3 * x:.1f}" for x in sigma[1:])
    mass = f"{beside(static.get('mass'), sigma[0])} ± {sigma[0]:.2g} kg"
    return f"Held poses, by gravity alone: {mass}, centre ({center}) ± ({spread}) mm; ± one standard deviation."


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
    return card("rating", "Rated load", html_table(heads, rows), hint=hint)


def _forms_section(data: Mapping[str, Any]) -> Markup:
    parts = [
        element(
            "details",
            element("summary", f"{form.get('name', '')}: {form.get('file') or 'not written'}"),
            element("pre", str(form.get("text"))) if form.get("text") else element("p", str(form.get("refused", ""))),
        )
        for form in entries(data, "forms")
    ]
    return card("forms", "Load data for controllers", *parts, hint="excitor export --format kuka writes such a file.")


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
    hint = "Residuals of the motors' torques, root mean square, N m on the link side, and as a share of them."
    heads = [("run", ""), ("", ""), *((axis, "n") for axis in axes)]
    return card("predicted", "Predicted torques", html_table(heads, rows, class_="pinned"), hint=hint)


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
    return card("unknowns", "All estimates", html_table(heads, rows), hint=hint)
