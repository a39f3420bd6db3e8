"""Did the robot do what was planned, and were its torques as noisy as expected? Joint by joint."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.identification import mean_noise
from excitor.experiments.model_file import finite
from excitor.experiments.page.words import entries, table
from excitor.experiments.page.words import finite as number
from excitor.experiments.report.evidence import Evidence, Judged, SeenRun
from excitor.robots.arrays import FloatArray


def tracking_error(run: SeenRun) -> FloatArray | None:
    """Subtract the planned from the mean measured period, (n, n_joints); None where no period was averaged."""
    alignment = run.alignment
    if alignment is None or run.samples.static or not isinstance(alignment.expected.body, Trajectory):
        return None
    excitation = alignment.expected.body.excitation
    n = len(run.samples)
    first = alignment.expected.steady_span[0] + excitation.warm_up * excitation.period
    return run.samples.motion.q - alignment.expected.planned(first + excitation.period * np.arange(n) / n)


def tracking_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """List each run's tracking errors: root mean square and greatest, joint by joint, rad or m."""
    rows = []
    for run in evidence.runs:
        error = tracking_error(run)
        if error is not None:
            rms, peak = np.sqrt(np.mean(error**2, axis=0)), np.abs(error).max(axis=0)
            rows.append({"run": run.samples.run, "rms": rms.tolist(), "peak": peak.tolist()})
    return rows


def noise_rows(evidence: Evidence, design: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare the noise of a torque sample that was planned with: as repetitions show it, N m or N, by joint."""
    expected = [number(x) for x in entries(table(design, "noise"), "sigma")]
    variances = [run.samples.variance for run in evidence.runs if run.role == "identify"]
    shown = [variance for variance in variances if variance is not None]
    if len(expected) != evidence.robot.n_joints or not shown:
        return []
    obtained = np.sqrt(np.mean(np.concatenate(shown), axis=0))
    return [
        {"joint": name, "expected": x, "obtained": finite(y), "ratio": finite(y / x) if x else None}
        for name, x, y in zip(evidence.robot.joint_names, expected, obtained, strict=True)
    ]


def noise_floor(evidence: Evidence, judged: Judged) -> dict[str, Any] | None:
    """Tell what the noise of the mean alone would leave: no model can do better. None where nothing was repeated.

    σ of an equation is that of a single repetition over √n; of thinned equations it is not known.
    """
    regression = judged.regression
    variance = mean_noise(evidence.identified, regression)
    if variance is None:
        return None
    rows = [regression.joint == j for j in np.unique(regression.joint)]
    rms = np.array([np.sqrt(np.mean(variance[r])) for r in rows])
    size = np.array([np.sqrt(np.mean(regression.y[r] ** 2)) for r in rows])
    total = np.sqrt(np.sum(variance) / np.sum(regression.y**2))
    relative = np.divide(rms, size, out=np.full_like(rms, np.nan), where=size > 0.0)
    return {"relative": [finite(x) for x in relative], "total": finite(total), "rmse": rms.tolist()}
