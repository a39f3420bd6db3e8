"""What the design part of the QRC 350 study reports: conditions beside the bars, what the designs are worth, why."""

from typing import Any

import numpy as np

from excitor.experiments.figures import Figure
from excitor.experiments.studies.qrc350_data import PERIOD_S, REPETITIONS
from excitor.experiments.studies.qrc350_design import HARMONICS, RAMP_S, Designs, Task, middle, ratios
from excitor.robots.arrays import FloatArray

BARS = {"full": 3.6, "restrained": 4.0}
MEASURED = {"A": 5.74, "B": 6.92}  # conditions of the rivals, to be within 0.01


def figures(designs: Designs) -> list[Figure]:
    """Compare medians over the seeds."""
    name = "qrc350.design"
    rivals = [
        Figure(f"{name}.{run.lower()}", other.condition, "", MEASURED[run], "within", tolerance=0.01)
        for run, other in designs.rivals.items()
    ]
    worth = [
        figure
        for run, other in designs.rivals.items()
        for figure in (
            Figure(f"{name}.{run.lower()}_sigma_median", 100.0 * float(np.median(other.sigma)), "%"),
            Figure(f"{name}.{run.lower()}_sigma_worst", 100.0 * float(other.sigma.max()), "%"),
        )
    ]
    return [*rivals, *worth, *(figure for task in designs.tasks for figure in _of_task(designs, task))]


def _of_task(designs: Designs, task: Task) -> list[Figure]:
    """Report condition, certificate and worth of one task's designs; a ratio below 1 is better than the rival."""
    found, ratio = designs.found[task.name], ratios(designs, task)
    sigma = 100.0 * np.array([each.sigma for each in found])
    condition = float(np.median([each.condition for each in found]))
    certified = float(np.mean([each.certificate.ready for each in found]))
    bar = BARS.get(task.name)
    name = f"qrc350.design.{task.name}"
    return [
        Figure(name, condition, "", bar, "none" if bar is None else "at most"),
        Figure(f"{name}_certified", certified, "", 1.0, "equal"),
        Figure(f"{name}_sigma_median", float(np.median(np.median(sigma, axis=1))), "%"),
        Figure(f"{name}_sigma_worst", float(np.median(sigma.max(axis=1))), "%"),
        Figure(f"{name}_sigma_ratio", float(np.median(geometric_mean(ratio)))),
        Figure(f"{name}_sigma_better", float(np.median((ratio < 1.0).sum(axis=1)))),
    ]


def told(designs: Designs) -> dict[str, Any]:
    """Say what stands behind the figures."""
    return {
        "what": f"{len(HARMONICS)} harmonics of {1.0 / PERIOD_S:g} Hz, rest to rest with ramps of {RAMP_S:g} s; sigma: "
        f"expected from {REPETITIONS} periods with the scatter of the trajectory competed with, relative to its model",
        **{task.name: _told(designs, task) for task in designs.tasks},
        "expected relative sigma, %": _sigma_table(designs),
    }


def _told(designs: Designs, task: Task) -> dict[str, Any]:
    found, other = designs.found[task.name], designs.rivals[task.rival]
    ratio = ratios(designs, task)
    typical = middle(found)
    return {
        "condition by seed": [round(each.condition, 3) for each in found],
        f"condition of {task.rival}": round(other.condition, 3),
        "certified by seed": [each.certificate.ready for each in found],
        f"sigma over that of {task.rival}, geometric mean by seed": geometric_mean(ratio).round(3).tolist(),
        f"parameters better than by {task.rival}, by seed": (ratio < 1.0).sum(axis=1).tolist(),
        f"peak torque, N m; {task.rival}": f"{_listed(typical.torque)}; {_listed(other.torque)}",
        "not looked at": list(typical.certificate.notes),
    }


def _sigma_table(designs: Designs) -> dict[str, str]:
    """List every parameter: the rivals, then the design of median condition of each task."""
    columns = {run: other.sigma for run, other in designs.rivals.items()}
    columns |= {task.name: middle(designs.found[task.name]).sigma for task in designs.tasks}
    lines = {
        name: ", ".join(f"{100.0 * sigma[k]:.3g}" for sigma in columns.values()) for k, name in enumerate(designs.names)
    }
    return {"parameter": ", ".join(columns)} | lines


def _listed(torque: FloatArray) -> str:
    return " ".join(f"{value:.3g}" for value in torque)


def geometric_mean(ratio: FloatArray) -> FloatArray:
    """Average over the parameters, (n_seeds,)."""
    return np.asarray(np.exp(np.log(ratio).mean(axis=1)))
