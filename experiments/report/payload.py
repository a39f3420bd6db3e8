"""Report page of a load: verdict, values, ratings, controllers' load data, and their basis."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.export.load import Load, Origin, check_known, flange_of, load_file, load_of
from excitor.experiments.model import Model
from excitor.experiments.payload import PayloadRuns
from excitor.experiments.report.campaign import alignment_entry, checked_entries
from excitor.experiments.report.evidence import simulated_runs
from excitor.experiments.report.html import beside, entries, page, show, subtable
from excitor.experiments.report.page import shown
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import inverse
from excitor.robots.robot import Robot

KIND = "excitor load report"
FORMS = {"kuka": "KUKA", "abb": "ABB", "fanuc": "FANUC", "ur": "Universal Robots"}
WORDS = {
    "m": "mass",
    **{f"c{axis}": f"centre of gravity {axis}" for axis in "xyz"},
    **{f"I{axes}": f"inertia {axes}" for axes in ("xx", "yy", "zz", "xy", "xz", "yz")},
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
    for controller, name in FORMS.items():
        try:
            load, name = _sure(robot, model, name)
            file = load_file(load, controller)
            made.append({"name": name, "file": file.name, "text": file.content.decode("ascii"), "refused": ""})
        except ExcitorError as error:
            made.append({"name": name, "file": "", "text": "", "refused": str(error)})
    return made


def _sure(robot: Robot, model: Model, name: str) -> tuple[Load, str]:
    """Remove an inertia that is smaller than its uncertainty, as `excitor export` requires."""
    load = _on_flange(robot, model)
    try:
        check_known(load)
    except ExcitorError:
        load = _on_flange(robot, model, point=True)
        check_known(load)
        return load, f"{name}, as a point mass, for its inertia is less sure than it is large"
    return load, name


def _on_flange(robot: Robot, model: Model, *, point: bool = False) -> Load:
    phi, C = np.array(model.payload["phi"]), np.array(model.payload["covariance"])
    place = flange_of(robot, None)
    if robot.mechanism.link_names[place.link] != model.payload["link"]:
        raise ExcitorError(f"the frame {place.name} does not ride on the link that carries the load; name the flange")
    source = "identified, from model.json"
    return load_of(phi, C, Origin("payload", source, place.name, inverse(place.T_link_frame), point=point))


def not_told(load: Mapping[str, Any], runs: PayloadRuns) -> list[str]:
    """List the assumptions behind these values."""
    sentences, of_motion = [], load["method"] == "motion"
    if not of_motion:
        sentences.append("Held poses determine no inertia: load data are those of a point mass.")
    elif any(row["name"].startswith("R ") for row in load["unknowns"]):
        sentences.append(
            "Gears are assumed to lose as much when driven as when they drive; where one loses 1 % more one way, the "
            "load is about half a per cent wrong, which the intervals do not include."
        )
    if all(runs.loaded.values()):
        sentences.append("No run is without the load, so errors of the arm's model were not corrected.")
    if of_motion and not runs.unseen:
        sentences.append('No run has role = "validate": prediction errors of the load are unknown.')
    if load["refusal"]:
        sentences.append(f"No body has these data: {load['refusal']}")
    return sentences


def load_page(data: Mapping[str, Any]) -> str:
    """Write a load's report, given as in report.json, as one HTML page."""
    load, robot = subtable(data, "load"), subtable(data, "robot")
    context = {
        **{key: entries(data, key) for key in ("simulated", "not_told", "findings", "forms")},
        "name": data["name"],
        "robot": robot["title"],
        "load": load,
        "headlines": HEADLINES,
        "words": WORDS,
        "static": _static_words(subtable(load, "static")),
        **_approaches(load),
        "sections": [section for name in ("alignment", "provenance") if (section := shown(name, data)) is not None],
        "version": version("excitor"),
    }
    return page("load.html", context, styles=("report.css",))


def _approaches(load: Mapping[str, Any]) -> dict[str, Any]:
    """Arrange the approaches' answers and residuals as a table, one column each."""
    listed = entries(load, "approaches")
    found = [one for one in listed if not one["refusal"]]
    rows: dict[str, list[str]] = {}
    for one in found:
        for row in one["at_center"]:
            half = 1.96 * float(row["sigma"]) if row["sigma"] is not None else None
            rows.setdefault(str(row["name"]), []).append(f"{beside(row['value'], row['sigma'])} ± {show(half, 2)}")
        for axis, left in one["rms"].items():
            rows.setdefault(f"residual, {axis}", []).append(show(left, 3))
    words = [
        f"{one['approach']}: {one['words']}"
        + (f". No answer: {one['refusal']}" if one["refusal"] else "; the one reported" if one["chosen"] else "")
        for one in listed
    ]
    heads = [f"approach {one['approach']}" for one in found]
    return {"approach_words": words, "approach_heads": heads, "approach_rows": list(rows.items())}


def _static_words(static: Mapping[str, Any]) -> str:
    if not static or static.get("refusal"):
        return f"Held poses do not determine the load: {static['refusal']}" if static else ""
    sigma = [float(x) for x in static["sigma"]]
    center, spread = (", ".join(f"{1e3 * float(x):.1f}" for x in found) for found in (static["center"], sigma[1:]))
    mass = f"{beside(static['mass'], sigma[0])} ± {sigma[0]:.2g} kg"
    return f"Held poses, by gravity alone: {mass}, centre ({center}) ± ({spread}) mm; ± one standard deviation."
