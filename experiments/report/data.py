"""What does a report say? Everything in it as plain data: report.json, of which the page is a drawing."""

from collections.abc import Mapping, Sequence
from typing import Any

from excitor.experiments.identification import Identified
from excitor.experiments.report.alignment import alignment_entry, checked_entries
from excitor.experiments.report.bodies import bodies_data
from excitor.experiments.report.chain import processing_data, provenance_data
from excitor.experiments.report.curves import runs_data, split_data
from excitor.experiments.report.evidence import gather
from excitor.experiments.report.parameters import base_rows, correlation_data, spectrum_data, standard_rows
from excitor.experiments.report.planned import planned_data
from excitor.experiments.report.residuals import errors_data, residuals_data
from excitor.experiments.report.simulated import simulated_runs
from excitor.experiments.report.verdict import verdict_data
from excitor.experiments.tracking.reported import reported_tracking
from excitor.robots.robot import Robot

SCHEMA = 1
KIND = "excitor report"


def report_data(
    identified: Identified,
    *,
    design: Mapping[str, Any] | None = None,
    alignment: Sequence[Mapping[str, Any]] | None = None,
    commands: Sequence[str] = (),
    tracking: bool = False,
) -> dict[str, Any]:
    """Collect a report; `design` is the content of design.json, `alignment` what was found where nobody else says it.

    An entry of `alignment` has a name, what was found, what was expected, a unit, whether it holds, and a sentence.
    `tracking`: feed-forward is simulated, which for a process it always is.
    """
    evidence = gather(identified)
    found = alignment if alignment is not None else checked_entries(identified.alignments) or None
    checks = None if found is None else [alignment_entry(entry) for entry in found]
    rows, simulated = base_rows(evidence), simulated_runs(identified.campaign)
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": identified.campaign.folder.resolve().name,
        "robot": robot_data(evidence.robot),
        "verdict": verdict_data(evidence, rows, checks, simulated),
        "runs": runs_data(evidence),
        "errors": errors_data(evidence),
        "parameters": rows,
        "standard": standard_rows(evidence),
        "correlation": correlation_data(evidence),
        "spectrum": spectrum_data(evidence),
        "residuals": residuals_data(evidence),
        "split": split_data(evidence),
        "bodies": bodies_data(evidence),
        "alignment": checks,
        "planned": planned_data(evidence, design),
        "tracking": reported_tracking(evidence, tracking),
        "processing": processing_data(evidence),
        "simulated": simulated,
        "findings": [{"level": f.level, "what": f.what, "sentence": str(f)} for f in identified.findings],
        "provenance": provenance_data(evidence, commands, design),
    }


def robot_data(robot: Robot) -> dict[str, Any]:
    """Name the robot and its joints, with the units of their positions and torques."""
    sliding = [bool(x) for x in robot.mechanism.prismatic]
    return {
        "name": robot.name,
        "title": robot.title or robot.name,
        "joints": list(robot.joint_names),
        "units": ["m" if x else "rad" for x in sliding],
        "torque_units": ["N" if x else "N m" for x in sliding],
    }
