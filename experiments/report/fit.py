"""Report on the fit: errors beside the baselines, residuals, and torques by cause."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.report.campaign import noise_floor
from excitor.experiments.report.evidence import Evidence
from excitor.experiments.report.html import compact, entries, subtable, torque_units
from excitor.identify.validate import Errors, Validation
from excitor.robots.arrays import FloatArray, picked

BINS = 41
SAME = 1e-3  # relative difference of rates that are one
REACH = 4.5  # standard deviations that a histogram shows; larger ones count in its last bins


def errors_data(evidence: Evidence) -> list[dict[str, Any]]:
    """List errors of joint torques, held-out ones first, each with the three baselines."""
    return [
        {
            **picked(judged.validation, "label training runs joints n_rows"),
            "model": _numbers(judged.validation.model),
            "noise": noise_floor(evidence, judged),
            "baselines": {name: _numbers(errors) for name, errors in judged.validation.baselines.items()},
        }
        for judged in (evidence.held_out, evidence.training)
        if judged is not None
    ]


def residuals_data(evidence: Evidence) -> list[dict[str, Any]]:
    """Describe the residuals joint by joint, held-out ones first."""
    return [
        {
            "label": "validation" if judged is evidence.held_out else "training",
            "training": judged.validation.training,
            "lag_s": _lag(evidence),
            "joints": [
                _joint(judged.validation, k, judged.residual[judged.regression.joint == j])
                for k, j in enumerate(np.unique(judged.regression.joint))
            ],
        }
        for judged in (evidence.held_out, evidence.training)
        if judged is not None
    ]


def histogram(residual: FloatArray) -> dict[str, Any]:
    """Count residuals in bins of their standard deviation about 0, and those beyond three of them."""
    sigma = float(np.sqrt(np.mean(residual**2)))
    if sigma == 0.0:
        return {"sigma": 0.0, "edges": [], "counts": [], "beyond_three_sigma": 0.0}
    scaled = residual / sigma
    counts, edges = np.histogram(np.clip(scaled, -REACH, REACH), BINS, (-REACH, REACH))
    return {
        "sigma": sigma,
        "edges": compact(edges * sigma),
        "counts": counts.tolist(),
        "beyond_three_sigma": float(np.mean(np.abs(scaled) > 3.0)),
    }


def _joint(validation: Validation, k: int, residual: FloatArray) -> dict[str, Any]:
    white, bins = validation.whiteness[k], validation.by_velocity[k]
    return {
        "joint": white.joint,
        "n_rows": white.n_rows,
        "histogram": histogram(residual),
        "autocorrelation": {"values": compact(white.autocorrelation), **picked(white, "bound white inflation")},
        "by_velocity": {key: compact(getattr(bins, key)) for key in ("velocity", "mean", "rms", "n_rows")},
    }


def _numbers(errors: Errors) -> dict[str, Any]:
    return picked(errors, "relative total=relative_total mean_absolute rmse")


def _lag(evidence: Evidence) -> float | None:
    """Time between neighbouring equations, s; none where runs differ in it."""
    moving = [run.time for run in evidence.runs if not run.samples.static and len(run.time) > 1]
    steps = [float(time[1] - time[0]) for time in moving]
    alike = bool(steps) and max(steps) - min(steps) < SAME * max(steps)
    return float(np.median(steps)) if alike else None


BASELINES = {"zero": "without any model", "gravity only": "with gravity only", "prior model": "with the prior model"}


def errors_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show relative errors per joint, held out and in training, beside three baselines."""
    found = entries(data, "errors")
    return {"errors": found, "units": torque_units(data), "baselines": BASELINES} if found else None


def runs_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show each run's curves; one run is shown at a time."""
    keys = ("name", "role", "log", "static", "n_samples", "n_drawn", "sample_rate_hz", "duration_s")
    runs = [{key: run.get(key) for key in keys} | {"drawn": "joints" in run} for run in entries(data, "runs")]
    return {"runs": runs} if runs else None


def residuals_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show residuals' histogram, correlation in time and trend over velocity, joint by joint."""
    found = [
        {
            "training": entry["training"],
            "joints": [
                {
                    "joint": joint["joint"],
                    "sigma": joint["histogram"]["sigma"],
                    "beyond": joint["histogram"]["beyond_three_sigma"],
                    **{key: joint["autocorrelation"][key] for key in ("white", "inflation")},
                }
                for joint in entry["joints"]
            ],
        }
        for entry in entries(data, "residuals")
    ]
    return {"residuals": found, "units": torque_units(data)} if found else None


def split_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the components of the torques in one run; shares are of the sum of all components' root mean squares."""
    split, names = subtable(data, "split"), entries(subtable(data, "robot"), "joints")
    found = entries(split, "joints")
    if not found:
        return None
    rows = [
        {
            "joint": name,
            "unit": torque_units(data).get(name, ""),
            "rms": joint["rms"],
            "share": {part: 100.0 * x / (sum(joint["rms"].values()) or 1.0) for part, x in joint["rms"].items()},
            "predicted": joint["rms_predicted"],
        }
        for name, joint in zip(names, found, strict=False)
    ]
    return {"run": split["run"], "role": split["role"], "parts": list(found[0]["parts"]), "rows": rows}
