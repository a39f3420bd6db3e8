"""The seven tables of [Volkmann2020], computed by its procedure from the recordings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from excitor.experiments.studies.cells import Columns, Value
from excitor.experiments.studies.qrc350_data import (
    REPETITIONS,
    Recordings,
    absolute_errors,
    tracking_rms_deg,
    values,
)
from excitor.identify.estimate import Estimate, wls_measured
from excitor.identify.reduce import Acceptance, Reduction, Rule, backward_selection
from excitor.robots.arrays import FloatArray
from excitor.robots.parameters import layout

TOLERANCE = 1.05


@dataclass(frozen=True, eq=False, slots=True)
class Models:
    """Models A and B, and the reductions of both processes."""

    names: tuple[str, ...]
    A: Estimate
    B: Estimate
    process1: Reduction
    process2: Reduction  # Table IV: nothing preset
    process2_preset: Reduction  # Table V: friction preset essential


def fit(recordings: Recordings) -> Models:
    """Fit and reduce as published: rows weighted by their measured variance, accepted on the validation set."""
    return Models(
        names=recordings.equations["A"].names,
        A=wls_measured(recordings.equations["A"], REPETITIONS),
        B=wls_measured(recordings.equations["B"], REPETITIONS),
        process1=reduced(recordings, 1, "validation", preset=True),
        process2=reduced(recordings, 2, "validation", preset=False),
        process2_preset=reduced(recordings, 2, "validation", preset=True),
    )


def reduced(recordings: Recordings, process: int, acceptance: Acceptance, *, preset: bool) -> Reduction:
    """Reduce a process's model; `preset` keeps all friction parameters."""
    training = recordings.equations[f"process {process}"]
    friction = tuple(name for name in training.names if name in friction_names(recordings)) if preset else ()
    rule = Rule(acceptance, TOLERANCE, friction, weights="sample")
    validation = recordings.equations[f"process {process} validation"] if acceptance == "validation" else None
    return backward_selection(training, rule, validation)


def friction_names(recordings: Recordings) -> set[str]:
    """Name the declared parameters that are a friction coefficient."""
    declared = recordings.robot.declared_base
    assert declared is not None
    columns = list(layout(recordings.robot).friction_columns)
    return {name for name, row in zip(declared.names, declared.combination, strict=True) if row[columns].any()}


def tables(recordings: Recordings, models: Models) -> Columns:
    """Compute every column under the headings of the printed tables."""
    A, B = values(models.A, models.names), values(models.B, models.names)
    return {
        "I": {
            "A value": [*A],
            "A sigma %": [*(100.0 * models.A.relative_sigma)],
            "B value": [*B],
            "B sigma %": [*(100.0 * models.B.relative_sigma)],
        },
        "II": _errors(recordings, {"A on A": ("A", A), "A on C": ("C", A)}),
        "III": _errors(recordings, {"B on B": ("B", B), "B on C": ("C", B)}),
        "IV": {
            "process 1 full": _listed(models.process1.full, models),
            "process 1 reduced": _listed(models.process1.estimate, models),
            "process 2 full": _listed(models.process2.full, models),
            "process 2 reduced": _listed(models.process2.estimate, models),
        },
        "V": _errors(recordings, _on_own_process(models, models.process2)),
        "VI": _errors(
            recordings,
            {"A on process 1": ("process 1 validation", A), "A on process 2": ("process 2 validation", A)},
        ),
        "VII": {f"{title} deg": [*rms] for title, rms in tracking_rms_deg(recordings.folder, 1).items()},
    }


def other_tables(recordings: Recordings, models: Models) -> Columns:
    """Compute what the paper's text and tables contradict each other about: Table V by the friction-preset model."""
    return {"V": _errors(recordings, _on_own_process(models, models.process2_preset))}


def unprinted(recordings: Recordings, models: Models) -> dict[str, Any]:
    """Compute what was published with the data but not printed."""
    B = values(models.B, models.names)
    return {
        "model B on the processes": {
            heading: np.round(np.array(column, dtype=float), 5).tolist()
            for heading, column in _errors(
                recordings,
                {"B on process 1": ("process 1 validation", B), "B on process 2": ("process 2 validation", B)},
            ).items()
        },
        "tracking of process 2, RMS deg": {
            title: np.round(rms, 7).tolist() for title, rms in tracking_rms_deg(recordings.folder, 2).items()
        },
    }


def _on_own_process(models: Models, process2: Reduction) -> Mapping[str, tuple[str, FloatArray]]:
    return {
        "process 1": ("process 1 validation", values(models.process1.estimate, models.names)),
        "process 2": ("process 2 validation", values(process2.estimate, models.names)),
    }


def _errors(recordings: Recordings, cases: Mapping[str, tuple[str, FloatArray]]) -> dict[str, list[Value]]:
    """Evaluate models on runs: heading -> (run, θ)."""
    columns: dict[str, list[Value]] = {}
    for heading, (run, theta) in cases.items():
        absolute, percent = absolute_errors(recordings.equations[run], theta)
        columns |= {f"{heading} N m": [*absolute], f"{heading} %": [*percent]}
    return columns


def _listed(estimate: Estimate, models: Models) -> list[Value]:
    return [estimate.value(name) if name in estimate.names else None for name in models.names]
