"""Curves of bounded size: where there are too many samples to draw, the least and the greatest of each stretch."""

from typing import Any

import numpy as np

from excitor.experiments.page.embed import compact
from excitor.experiments.report.evidence import Evidence, SeenRun
from excitor.robots.arrays import FloatArray

BUDGET = 240_000  # stretches that all curves of a report may have together
FINEST, COARSEST = 1500, 60  # stretches of one curve
MOST_RUNS = 30  # that are drawn
SPLIT_STRETCHES = 500
NOTHING = 1e-9  # of a joint's torque: rounding


def runs_data(evidence: Evidence) -> list[dict[str, Any]]:
    """Write every run in words, and the curves of as many as can be drawn, unseen ones first."""
    order = sorted(range(len(evidence.runs)), key=lambda k: evidence.runs[k].role != "validate")
    drawn = set(order[:MOST_RUNS])
    stretches = BUDGET // (3 * evidence.robot.n_joints * max(len(drawn), 1))
    size = int(np.clip(stretches, COARSEST, FINEST))
    return [_run_data(run, size if k in drawn else 0) for k, run in enumerate(evidence.runs)]


def split_data(evidence: Evidence) -> dict[str, Any]:
    """Write the predicted torques of one run by their cause: curves, and each one's root mean square."""
    run = evidence.shown
    size = NOTHING * np.sqrt(np.mean(run.predicted**2, axis=0))
    parts = {name: np.where(np.abs(tau) < size, 0.0, tau) for name, tau in run.parts.items()}
    return {
        "run": run.samples.run,
        "role": run.role,
        "static": run.samples.static,
        "time": compact(stretch_means(run.time, SPLIT_STRETCHES)),
        "joints": [
            {
                "measured": curve(run.measured[:, j], SPLIT_STRETCHES),
                "parts": {name: curve(tau[:, j], SPLIT_STRETCHES) for name, tau in parts.items()},
                "rms": {name: float(np.sqrt(np.mean(tau[:, j] ** 2))) for name, tau in parts.items()},
                "rms_predicted": float(np.sqrt(np.mean(run.predicted[:, j] ** 2))),
            }
            for j in range(evidence.robot.n_joints)
        ],
    }


def curve(values: FloatArray, size: int) -> dict[str, Any]:
    """Write a curve as it is, or as the least and greatest values of `size` stretches."""
    if len(values) <= size:
        return {"value": compact(values)}
    starts = _starts(len(values), size)
    return {
        "low": compact(np.minimum.reduceat(values, starts)),
        "high": compact(np.maximum.reduceat(values, starts)),
    }


def stretch_means(time: FloatArray, size: int) -> FloatArray:
    """Time in the middle of each stretch of `curve`."""
    if len(time) <= size:
        return time
    starts = _starts(len(time), size)
    return np.asarray(np.add.reduceat(time, starts) / np.diff(np.append(starts, len(time))))


def _starts(n: int, size: int) -> Any:
    return np.linspace(0, n, size, endpoint=False).astype(np.int64)


def _run_data(run: SeenRun, size: int) -> dict[str, Any]:
    samples = run.samples
    data = {
        "name": samples.run,
        "role": "training" if run.role == "identify" else "validation",
        "log": run.log,
        "static": samples.static,
        "n_samples": len(samples),
        "sample_rate_hz": samples.sample_rate_hz,
        "duration_s": None if samples.static else len(samples) / samples.sample_rate_hz,
        "n_drawn": len(run.measured),
    }
    if not size:
        return data
    curves = {"measured": run.measured, "predicted": run.predicted, "residual": run.residual}
    return data | {
        "time": compact(stretch_means(run.time, size)),
        "joints": [
            {name: curve(values[:, j], size) for name, values in curves.items()} for j in range(run.measured.shape[1])
        ],
    }
