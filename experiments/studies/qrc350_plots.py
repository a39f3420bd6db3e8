"""Plots of the QRC 350 study: Figure 4, torques on trajectory C, errors by joint."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from excitor.experiments.studies.qrc350_beyond import CUTOFF_HZ, Beyond, predicted
from excitor.experiments.studies.qrc350_data import Recordings
from excitor.experiments.studies.qrc350_path import WINDOW, in_window
from excitor.identify.estimate import Estimate
from excitor.robots.arrays import FloatArray

MEASURED, PAPER, OURS, OTHER = "#9a9a9a", "#c44e52", "#1f6fb4", "#e0a030"


def figure4(paths: Mapping[str, FloatArray]) -> Figure:
    """Draw the corner of the square that the paper shows, and the whole."""
    plot = Figure(figsize=(10, 5), layout="constrained")
    corner, whole = plot.subplots(1, 2)
    styles = {"desired": ("black", "--"), "without_model": (PAPER, "-"), "process_model": (OURS, "-")}
    for run, path in paths.items():
        color, line = styles[run]
        shown = path[in_window(path)]
        corner.plot(shown[:, 0], shown[:, 1], line, color=color, label=run.replace("_", " "))
        whole.plot(path[:, 0], path[:, 1], line, color=color, linewidth=1)
    corner.set(xlim=WINDOW[0], ylim=WINDOW[1], xlabel="x in mm", ylabel="y in mm", title="Figure 4: one corner")
    corner.set_xticks(np.arange(WINDOW[0][0], WINDOW[0][1] + 0.1, 0.5))
    corner.legend(loc="lower left")
    whole.set(xlabel="x in mm", ylabel="y in mm", title="the whole square", aspect="equal")
    return plot


def torques(recordings: Recordings, paper: Estimate, vibrating: Beyond) -> Figure:
    """Draw measured and predicted torques on trajectory C, joint by joint."""
    plot = Figure(figsize=(12, 13), layout="constrained")
    measured = recordings.samples["C"]
    n = len(vibrating.chosen.predicted_C)
    t = np.arange(n) / measured.sample_rate_hz
    by_paper = predicted(recordings.equations["C"], paper.values)[:n]
    for j, axes in enumerate(np.atleast_1d(plot.subplots(6, 1, sharex=True))):
        axes.plot(t, measured.tau[:n, j], color=MEASURED, linewidth=1.8, label="measured, mean of 50 runs")
        axes.plot(t, by_paper[:, j], color=PAPER, linewidth=0.9, label="paper's model A")
        axes.plot(
            t,
            vibrating.chosen.predicted_C[:, j],
            color=OURS,
            linewidth=0.9,
            label=f"extended friction, motion up to {CUTOFF_HZ:g} Hz",
        )
        axes.set(ylabel=f"joint {j + 1} in N m", xlim=(0, t[-1]))
        axes.grid(alpha=0.25)
    plot.suptitle("Trajectory C, held out: fitted on A, friction terms chosen on B")
    plot.axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize="small", frameon=False)
    plot.axes[-1].set_xlabel("time in s")
    return plot


def errors(paper: FloatArray, harmonic: Beyond, vibrating: Beyond) -> Figure:
    """Draw the errors on trajectory C as bars, by joint and their mean."""
    plot = Figure(figsize=(11, 5), layout="constrained")
    axes = plot.subplots()
    groups = {
        "paper: five harmonics, weights by scatter": (paper, PAPER),
        "five harmonics, extended friction": (harmonic.chosen.validation_C, OTHER),
        f"up to {CUTOFF_HZ:g} Hz, physically consistent": (vibrating.consistent.validation_C, "#7fb2d9"),
        f"up to {CUTOFF_HZ:g} Hz, extended friction": (vibrating.chosen.validation_C, OURS),
    }
    for k, (label, (values, color)) in enumerate(groups.items()):
        _bars(axes, k, [*values, float(values.mean())], color, label)
    axes.set_xticks(np.arange(7), [*(f"joint {j}" for j in range(1, 7)), "mean"])
    axes.set(
        ylabel="mean absolute error, % of mean absolute torque",
        title="Errors on trajectory C, held out",
        ylim=(0, 1.3 * float(paper.max())),
    )
    axes.legend(ncols=2, fontsize="small")
    return plot


def _bars(axes: Axes, place: int, heights: list[float], color: str, label: str) -> None:
    bars = axes.bar(np.arange(len(heights)) + 0.2 * (place - 1.5), heights, 0.2, color=color, label=label)
    axes.bar_label(bars, fmt="%.1f", fontsize=6, padding=1)
