"""Did the campaign give what was planned? Condition, standard deviations and periods, planned beside obtained."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.model_file import finite as finite_or_none
from excitor.experiments.page.words import entries, finite, table
from excitor.experiments.report.achieved import noise_rows, tracking_rows
from excitor.experiments.report.evidence import Evidence, SeenRun
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

MOST_SAMPLES = 3000  # of a run, for its condition number
FORESEEN = 2.0  # times the forecast: what lies within is as foreseen


def planned_data(evidence: Evidence, design: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Compare with a design.json; none where no design is given."""
    if design is None:
        return None
    parameters = _parameters(evidence, table(design, "forecast"))
    ratios = [row["ratio"] for row in parameters if row["ratio"] is not None]
    return {
        "runs": _runs(evidence, entries(design, "runs")),
        "parameters": parameters,
        "within": sum(ratio <= FORESEEN for ratio in ratios),
        "compared": len(ratios),
        "median_ratio": float(np.median(ratios)) if ratios else None,
        "tracking": tracking_rows(evidence),
        "noise_by_joint": noise_rows(evidence, design),
        "noise": str(table(design, "forecast").get("noise") or ""),
    }


def run_condition(robot: Robot, samples: Samples) -> float | None:
    """Condition number of a measured run's column-normalised base regressor, on at most some thousand samples."""
    step = max(1, len(samples) // MOST_SAMPLES)
    motion = samples.motion
    thin = Samples(
        samples.run,
        Motion(motion.q[::step], motion.dq[::step], motion.ddq[::step]),
        samples.tau[::step],
        samples.sample_rate_hz,
    )
    W = dynamic_regression(robot, [thin]).W
    norms = np.linalg.norm(W, axis=0)
    if not (norms > 0.0).all():
        return None
    values = np.linalg.svd(W / norms, compute_uv=False)
    return finite_or_none(values[0] / values[-1]) if values[-1] > 0.0 else None


def _runs(evidence: Evidence, plans: list[Any]) -> list[dict[str, Any]]:
    """List planned runs, then those that were measured without a plan."""
    measured = {run.samples.run: run for run in evidence.runs}
    good = [plan for plan in plans if isinstance(plan, Mapping)]
    rows = [_planned_run(evidence.robot, plan, measured.get(str(plan.get("name")))) for plan in good]
    names = {row["name"] for row in rows}
    return rows + [
        _planned_run(evidence.robot, {"name": name}, measured[name]) for name in measured if name not in names
    ]


def _planned_run(robot: Robot, plan: Mapping[str, Any], run: SeenRun | None) -> dict[str, Any]:
    return {
        "name": str(plan.get("name", "")),
        "planned": len(plan) > 1,
        "measured": run is not None,
        "condition_planned": finite(plan.get("condition")),
        "condition_obtained": None if run is None or run.samples.static else run_condition(robot, run.samples),
        "periods_planned": finite(plan.get("measured_periods")),
        "periods_used": None if run is None else float(run.samples.repetitions) or None,
    }


def _parameters(evidence: Evidence, forecast: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare expected with obtained standard deviations; a forecast counts as experienced where it can."""
    base, names = base_parameters(evidence.robot), layout(evidence.robot).names
    intervals = evidence.identified.intervals
    sigma = {
        base.names[k]: float(intervals.sigma[intervals.names.index(names[column])])
        for k, column in enumerate(base.kept)
        if names[column] in intervals.names
    }
    rows = []
    for entry in entries(forecast, "parameters"):
        if not isinstance(entry, Mapping):
            continue
        inflated, white = finite(entry.get("sigma_inflated")), finite(entry.get("sigma"))
        expected = white if inflated is None else inflated
        obtained = sigma.get(str(entry.get("name")))
        both = expected is not None and obtained is not None and expected > 0.0
        rows.append(
            {
                "name": str(entry.get("name", "")),
                "unit": str(entry.get("unit", "")),
                "expected": expected,
                "obtained": obtained,
                "ratio": obtained / expected if both and obtained is not None and expected is not None else None,
            }
        )
    return rows
