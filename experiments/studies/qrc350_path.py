"""Figure 4 of [Volkmann2020]: the tool's path around the square, desired and with two controllers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.studies.qrc350_data import Recordings, path_positions
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_pose

RUNS = ("desired", "without_model", "process_model")
WINDOW = ((1341.0, 1343.0), (235.0, 250.0))  # mm, x and y of the printed figure
EXTREMES = ("max_x", "min_x", "max_y", "min_y", "min_x_in_window")


def paths_mm(recordings: Recordings) -> dict[str, FloatArray]:
    """Positions of the flange, run -> (n_samples, 3) in mm."""
    return {run: 1e3 * frame_pose(recordings.robot, path_positions(recordings, run))[:, :3, 3] for run in RUNS}


def extremes(path: FloatArray) -> dict[str, float]:
    """How far a path reaches, in mm."""
    x, y = path[:, 0], path[:, 1]
    return {
        "max_x": float(x.max()),
        "min_x": float(x.min()),
        "max_y": float(y.max()),
        "min_y": float(y.min()),
        "min_x_in_window": float(x[in_window(path)].min()),
    }


def in_window(path: FloatArray) -> Any:
    """Mark the samples that the printed figure shows."""
    (left, right), (low, high) = WINDOW
    x, y = path[:, 0], path[:, 1]
    return (x >= left) & (x <= right) & (y >= low) & (y <= high)


def overshoot_mm(paths: Mapping[str, FloatArray]) -> dict[str, dict[str, float]]:
    """How far each run reaches beyond the desired path, by direction."""
    wanted = extremes(paths["desired"])
    told = {}
    for run in RUNS[1:]:
        reached = extremes(paths[run])
        told[run] = {
            "+x": reached["max_x"] - wanted["max_x"],
            "-x": wanted["min_x"] - reached["min_x"],
            "+y": reached["max_y"] - wanted["max_y"],
            "-y": wanted["min_y"] - reached["min_y"],
            "rms at equal time, xyz": float(np.sqrt(np.mean(np.sum((paths[run] - paths["desired"]) ** 2, axis=1)))),
        }
    return told
