"""Pictures of the drive-gain study: gain errors by method, and the gap that tells when to believe them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from excitor.experiments.studies.drawing import pyplot, save
from excitor.experiments.studies.parallel_compare import ALL, ESSENTIAL, OURS, PAPER, PLAIN, Draw
from excitor.experiments.studies.parallel_tx40 import Outcome
from excitor.identify.drive_gains import Trust

COLORS = {OURS: "tab:blue", PAPER: "tab:orange", PLAIN: "0.6"}


def draw(drawn: Mapping[str, Sequence[Draw]], serial: Sequence[Outcome], out: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    return [_gains(drawn, out), _gaps(drawn, out), _serial(serial, out)]


def _gains(drawn: Mapping[str, Sequence[Draw]], out: Path) -> Path:
    """Mean gain errors with standard deviations, a panel a robot."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(drawn), figsize=(13, 4), layout="constrained")
    for axis, (name, draws) in zip(axes, drawn.items(), strict=True):
        kept = ESSENTIAL if name == "orthoglide_full" else ALL
        for k, method in enumerate(COLORS):
            errors = np.array([one.gain_errors[kept, method] for one in draws])
            place = np.arange(errors.shape[1]) + 0.27 * (k - 1)
            spread = errors.std(axis=0)
            axis.bar(place, errors.mean(axis=0), yerr=spread, width=0.25, color=COLORS[method], label=method, capsize=2)
        axis.axhline(0.0, color="0.2", linewidth=0.6)
        axis.set_xticks(range(errors.shape[1]), [f"drive {j + 1}" for j in range(errors.shape[1])])
        axis.set_title(f"{name.replace('_', ' ')}, {kept}", loc="left", fontsize=9)
    axes[0].set_ylabel("gain error (%), mean and standard deviation")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=3)
    return save(figure, out / "gain_errors.png")


def _gaps(drawn: Mapping[str, Sequence[Draw]], out: Path) -> Path:
    """Worst gain error of every draw over its singular-value gap, and the limit of trust."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for k, (name, draws) in enumerate(drawn.items()):
        for (kept, method), marker in (((ALL, PAPER), "x"), ((ESSENTIAL, PAPER), "+"), ((ALL, OURS), ".")):
            gaps = [one.gaps[kept, method] for one in draws]
            errors = [float(np.abs(one.gain_errors[kept, method]).max()) for one in draws]
            label = f"{name.replace('_', ' ')}, {kept}, {method}"
            axis.plot(gaps, errors, marker, color=f"C{k}", markersize=6, label=label)
    axis.axvline(Trust().gap, color="0.3", linewidth=0.8, linestyle="--")
    axis.set(xscale="log", yscale="log")
    axis.set_xlabel("ratio of the last two singular values; dashed: least that is believed")
    axis.set_ylabel("largest gain error (%)")
    axis.legend(fontsize=6, ncols=2)
    return save(figure, out / "singular_value_gap.png")


def _serial(serial: Sequence[Outcome], out: Path) -> Path:
    """Errors of all joints by every method, and of what is answered."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    names = [gain.drive for gain in serial[0].result.gains]
    for k, method in enumerate(COLORS):
        errors = np.array([outcome.errors[method] for outcome in serial])
        place = np.arange(len(names)) + 0.2 * (k - 1)
        for one in errors:
            axis.plot(place, one, "_", color=COLORS[method], markersize=7)
        axis.plot([], [], "_", color=COLORS[method], label=method)
    for outcome in serial:
        joints = [names.index(name) for name in outcome.answered]
        axis.plot(np.array(joints) - 0.35, list(outcome.answered.values()), ".", color="tab:green", markersize=4)
    axis.plot([], [], ".", color="tab:green", label="answered")
    axis.axhline(0.0, color="0.2", linewidth=0.6)
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("gain error (%)")
    axis.legend(fontsize=8)
    return save(figure, out / "tx40_gains.png")
