"""Pictures of the Rotradi study: the paper's Figs. 2 to 7, and what timing and the sign cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.studies.drawing import pyplot, save
from excitor.experiments.studies.rotradi_fits import CUTOFF, fit
from excitor.experiments.studies.rotradi_responses import SMOOTH, computed_torques, smoothed, spanned
from excitor.experiments.studies.rotradi_tables import (
    CAREFUL,
    CAREFUL_ALL,
    MAIN,
    REFERENCE,
    SCHEMES,
    TORQUES,
    Outcomes,
    median_errors,
    median_variation,
    of_case,
)
from excitor.experiments.studies.rotradi_virtual import CASES, RATE, Experiment, Recorded, Truth
from excitor.identify.recursive import Recursion
from excitor.robots.arrays import FloatArray

COLORS = {"ideal": "tab:blue", "noisy": "tab:orange"}
TITLES = {"ideal": "ideal drives", "noisy": "drives that lag and add noise"}
SHRUNK = 13  # θ14 is drawn a tenth as large


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What is drawn: recursions with ideal drives, responses with those that lag and add noise, and all outcomes."""

    known: Truth
    ideal: Experiment
    noisy: Experiment
    simulated: Mapping[str, Sequence[FloatArray]]  # by method, on both torques of `noisy`: positions
    outcomes: Outcomes
    ablation: Mapping[str, FloatArray]
    cutoffs: Mapping[float, float]  # rad/s -> rms, degrees


def draw_all(shown: Shown, out: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    recursions = fit(shown.known, shown.ideal, every=4).recursions
    return [
        _parameters(shown.known, recursions[REFERENCE], out),
        _eigenvalues(recursions, out),
        *(draw(shown, number, out) for number in (0, 1) for draw in (_positions, _torques)),
        _errors(shown.known, shown.outcomes, out),
        _variation(shown.outcomes, out),
        _ablation(shown.ablation, out),
        _cutoffs(shown.cutoffs, out),
    ]


def _run(shown: Shown, number: int) -> Recorded:
    return shown.noisy.new if number else shown.noisy.identification


def _parameters(known: Truth, recursion: Recursion, out: Path) -> Path:
    """Fig. 2: θ(t), the parameters that torques show most apart from the others."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(9, 8.5), sharex=True, layout="constrained")
    t = recursion.updates / RATE
    others = [i for i in range(len(known.theta)) if i not in MAIN]
    groups: tuple[tuple[str, list[int]], ...] = (("main parameters", MAIN.tolist()), ("the others", others))
    for axis, (title, chosen) in zip(axes, groups, strict=True):
        colors = plt.get_cmap("tab20" if len(chosen) > 10 else "tab10").colors
        for i, color in zip(chosen, colors, strict=False):
            scale = 0.1 if i == SHRUNK else 1.0
            label = f"θ{i + 1} {known.names[i]}{' / 10' if i == SHRUNK else ''}"
            axis.plot(t, scale * recursion.values[:, i], color=color, linewidth=1.1, label=label)
            axis.plot([t[-1], 1.2 * t[-1]], [scale * known.theta[i]] * 2, color=color, linewidth=2.5)
        final = np.where(np.arange(len(known.theta)) == SHRUNK, 0.1, 1.0)[chosen] * recursion.values[-1, chosen]
        reach = np.ptp(final)
        axis.set_ylim(final.min() - 0.35 * reach, final.max() + 0.35 * reach)
        axis.set(xscale="log", xlim=(0.1, 1.2 * t[-1]))
        axis.axvline(t[-1], color="0.8", linewidth=0.6)
        axis.set_ylabel("θ (SI units)")
        axis.set_title(f"{title}; thick ends: truth", loc="left", fontsize=10)
        axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes[-1].set_xlabel("time (s)")
    figure.suptitle(f"Fig. 2: parameters by recursive least squares, {REFERENCE} model, {TITLES['ideal']}")
    return save(figure, out / "figure2_parameters.png")


def _eigenvalues(recursions: Mapping[str, Recursion], out: Path) -> Path:
    """Fig. 3: eigenvalues of P(t)."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    reference = recursions[REFERENCE]
    left.plot(reference.updates / RATE, reference.eigenvalues, color="tab:blue", linewidth=0.8)
    left.set_title("filtered dynamic: all 21", loc="left", fontsize=10)
    left.set_ylabel("eigenvalue of P (squares of θ's SI units)")
    for k, (name, one) in enumerate(recursions.items()):
        right.plot(one.updates / RATE, one.eigenvalues.max(axis=1), color=f"C{k}", linewidth=1.2, label=name)
        right.plot(one.updates / RATE, one.eigenvalues.min(axis=1), color=f"C{k}", linewidth=1.2, linestyle="--")
    right.set_title("largest (solid) and smallest (dashed) of the five schemes", loc="left", fontsize=10)
    right.legend(fontsize=8, loc="upper right")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log")
        axis.set_xlabel("time (s)")
        axis.grid(color="0.9", linewidth=0.5)
    figure.suptitle(f"Fig. 3: eigenvalues of the covariance P(t), {TITLES['ideal']}")
    return save(figure, out / "figure3_eigenvalues.png")


def _positions(shown: Shown, number: int, out: Path) -> Path:
    """Figs. 4 and 6: positions, measured and simulated."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 1, figsize=(9, 8.5), sharex=True, layout="constrained")
    run = _run(shown, number)
    t = np.arange(len(run.q)) / RATE
    styles = {REFERENCE: ("tab:blue", "-"), CAREFUL: ("tab:red", "--")}
    for j, axis in enumerate(axes):
        axis.plot(t, np.degrees(run.q[:, j]), color="0.6", linewidth=3.0, label="measured (virtual robot)")
        for name, (color, line) in styles.items():
            simulated = np.degrees(shown.simulated[name][number][:, j])
            axis.plot(t, simulated, color=color, linestyle=line, linewidth=1.1, label=f"simulated, {name}")
        axis.set_ylabel(f"q{j + 1} (°)")
        axis.set_xlim(0.0, t[-1])
    axes[-1].set_xlabel("time (s)")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=3)
    figure.suptitle(f"Fig. {4 + 2 * number}: open-loop response to the {TORQUES[number]}, {TITLES['noisy']}")
    return save(figure, out / f"figure{4 + 2 * number}_positions.png")


def _torques(shown: Shown, number: int, out: Path) -> Path:
    """Figs. 5 and 7: torques, commanded and computed; raw as in the paper, and both low-passed."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 2, figsize=(12, 8.5), sharex=True, sharey="row", layout="constrained")
    run = _run(shown, number)
    theta = of_case(shown.outcomes, "noisy")[0].theta[REFERENCE]
    computed, applied = computed_torques(shown.known, theta, run), spanned(run)
    t = np.arange(2, len(run.tau)) / RATE
    pairs = {
        "from double differences, as in the paper": (run.tau[2:], computed),
        f"both below {SMOOTH:g} Hz": (smoothed(applied), smoothed(computed)),
    }
    for column, (title, (above, below)) in enumerate(pairs.items()):
        for j, axis in enumerate(axes[:, column]):
            axis.plot(t, above[:, j], color="0.65", linewidth=2.2, label="commanded")
            axis.plot(t, below[:, j], color="tab:blue", linewidth=0.6, label=f"computed, {REFERENCE}")
            axis.set_xlim(0.0, t[-1])
            axis.set_ylim(*np.array([-1.25, 1.25]) * np.abs(run.tau[:, j]).max())
        axes[0, column].set_title(title, loc="left", fontsize=10)
        axes[-1, column].set_xlabel("time (s)")
    for j in range(3):
        axes[j, 0].set_ylabel(f"τ{j + 1} (N m)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
    figure.suptitle(f"Fig. {5 + 2 * number}: commanded and computed, {TORQUES[number]}, {TITLES['noisy']}")
    return save(figure, out / f"figure{5 + 2 * number}_torques.png")


def _errors(known: Truth, outcomes: Outcomes, out: Path) -> Path:
    """Median parameter errors of the paper's schemes and the careful ones."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    names = [*SCHEMES, *CAREFUL_ALL]
    for k, case in enumerate(CASES):
        _bars(axis, [median_errors(known, outcomes, case, name) for name in names], k, case)
    _label(axis, names, "median relative parameter error (%)")
    figure.suptitle("Parameter errors of the paper's schemes, and with care for timing and sign")
    _key(figure, axis)
    return save(figure, out / "errors.png")


def _variation(outcomes: Outcomes, out: Path) -> Path:
    """Table 4 as bars."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    names = [name for name in SCHEMES if name != REFERENCE]
    for k, case in enumerate(CASES):
        _bars(axis, [[median_variation(o, name) for o in of_case(outcomes, case)] for name in names], k, case)
    _label(axis, names, "median relative difference (%)")
    axis.set(xscale="linear", xlim=(0.0, None))
    figure.suptitle(f"Variation against the {REFERENCE} values")
    _key(figure, axis)
    return save(figure, out / "variation.png")


def _ablation(ablation: Mapping[str, FloatArray], out: Path) -> Path:
    """Show what each careful step is worth: filtered dynamic, ideal drives."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 4.2), layout="constrained")
    _bars(axis, list(ablation.values()), 0.5, "ideal")
    _label(axis, list(ablation), "median relative parameter error (%)")
    figure.suptitle(f"What timing, sign and quantisation are worth: {REFERENCE} model, {TITLES['ideal']}")
    return save(figure, out / "ablation.png")


def _cutoffs(cutoffs: Mapping[float, float], out: Path) -> Path:
    """Draw the simulated response over the filters' cut-off."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.plot(list(cutoffs), list(cutoffs.values()), "o-", color="tab:blue")
    axis.axvline(CUTOFF, color="0.5", linewidth=0.8, linestyle="--", label=f"the paper's {CUTOFF:g} rad/s")
    axis.set(xscale="log", ylim=(0.0, None))
    axis.set_xticks(list(cutoffs), [f"{cutoff:g}" for cutoff in cutoffs])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("cut-off λ (rad/s)")
    axis.set_ylabel("simulated minus measured, rms (°)")
    axis.legend(fontsize=9)
    axis.set_title(f"{REFERENCE} model, identification torque, {TITLES['noisy']}", loc="left", fontsize=10)
    return save(figure, out / "cutoff_scan.png")


def _bars(axis: Any, values: Sequence[Sequence[float] | FloatArray], place: float, case: str) -> None:
    """Horizontal bars of medians, with the range over seeds."""
    medians = np.array([np.median(row) for row in values])
    low, high = (np.array([end(row) for row in values]) for end in (np.min, np.max))
    y = np.arange(len(values)) + 0.38 * (place - 0.5)
    reach = np.abs([medians - low, high - medians])
    axis.barh(y, medians, height=0.36, color=COLORS[case], label=TITLES[case], xerr=reach, capsize=2, ecolor="0.2")
    for at, median, end in zip(y, medians, high, strict=True):
        axis.annotate(f"{median:.3g}", (end, at), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)


def _label(axis: Any, names: Sequence[str], label: str) -> None:
    """Name bars, best read from the top."""
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlabel(f"{label}; lines: range over seeds")
    axis.margins(x=0.12)


def _key(figure: Any, axis: Any) -> None:
    """Say below what the colours mean."""
    figure.legend(*axis.get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
