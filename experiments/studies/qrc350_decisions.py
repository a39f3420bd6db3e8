"""The decisions of the model reduction: as text, beside the published order, and with other acceptance sets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from excitor.experiments.studies.cells import rounds_to
from excitor.experiments.studies.qrc350_data import Recordings
from excitor.experiments.studies.qrc350_tables import Models, reduced
from excitor.identify.reduce import Acceptance, Decision, Reduction

_ENTRY = re.compile(r"(?P<kept>K )?(?P<number>\d+)(?: \((?P<ratio>[\d.]+) (?P<joint>\w+)\))?")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many decisions equal the published ones: place, parameter, verdict, ratio and joint."""

    total: int
    equal: int


def agreement(printed: Sequence[Mapping[str, Any]], models: Models) -> Agreement:
    """Compare all decision logs, place by place."""
    ours = {
        "process 1": models.process1,
        "process 2": models.process2,
        "process 2, friction preset": models.process2_preset,
    }
    total, equal = 0, 0
    for entry in printed:
        expected = list(_ENTRY.finditer(entry["log"]))
        decisions = ours[entry["process"]].decisions
        total += max(len(expected), len(decisions))
        equal += sum(_same(decision, match) for decision, match in zip(decisions, expected, strict=False))
    return Agreement(total, equal)


def spelled(reduction: Reduction) -> str:
    """Write the decisions in order: K for kept, the parameter's number, the largest ratio and its joint."""
    return ", ".join(
        f"{'K ' if d.kept else ''}{d.name.removeprefix('theta')} ({d.ratio:.4f} {d.joint})" for d in reduction.decisions
    )


def by_acceptance(recordings: Recordings) -> dict[str, Reduction]:
    """Reduce both processes with each acceptance set: what the published drop in condition owes to the leak."""
    return {
        f"process {process}, {acceptance}": reduced(recordings, process, acceptance, preset=process == 1)
        for process in (1, 2)
        for acceptance in get_args(Acceptance)
    }


def outcome(reduction: Reduction) -> str:
    """Tell what a reduction kept."""
    return f"{len(reduction.estimate.names)} parameters, condition {reduction.estimate.condition:.4g}"


def _same(decision: Decision, expected: re.Match[str]) -> bool:
    ratio, joint = expected["ratio"], expected["joint"]
    return (
        decision.name == f"theta{expected['number']}"
        and decision.kept == (expected["kept"] is not None)
        and (ratio is None or rounds_to(decision.ratio, ratio))
        and (joint is None or decision.joint == joint)
    )
