"""Pictures of the TX-40 study: torques of both models, parameters, and how the model shrinks."""

from pathlib import Path

import numpy as np

from excitor.experiments.studies.drawing import pyplot, save
from excitor.experiments.studies.tx40_recording import Fits, Recording, joint_errors, named
from excitor.experiments.studies.tx40_virtual import Fitted


def draw(recording: Recording, fits: Fits, out: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    return [_torques(recording, fits, out), _errors(recording, fits, out), _parameters(fits, out)]


def draw_virtual(fitted: Fitted, out: Path) -> list[Path]:
    """Draw the paper's Figs. 2 to 4 for the virtual robot: cases 2, 3 and 4 on a run that none has seen."""
    out.mkdir(parents=True, exist_ok=True)
    titles = {
        2: "Fig. 2: dynamic model, locked-joint set",
        3: "Fig. 3: power model, one trajectory",
        4: "Fig. 4: power model, locked-joint set",
    }
    return [_reconstruction(fitted, case, title, out) for case, title in titles.items()]


def _reconstruction(fitted: Fitted, case: int, title: str, out: Path) -> Path:
    """Measured and reconstructed torques of one case, joint by joint."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 2, figsize=(11, 8), sharex=True, layout="constrained")
    unseen, values = fitted.unseen, named(fitted.estimates[case])
    predicted = unseen.W @ np.array([values.get(name, 0.0) for name in unseen.names])
    for j, axis in enumerate(axes.flat):
        rows = np.flatnonzero(unseen.joint == j)
        rows = rows[np.argsort(unseen.sample[rows])]
        t = unseen.sample[rows] * 0.02
        axis.plot(t, unseen.y[rows], ".", markersize=2.5, color="0.35", label="measured (virtual)")
        axis.plot(t, predicted[rows], color="tab:blue", linewidth=0.9, label="reconstructed")
        axis.plot(t, unseen.y[rows] - predicted[rows], color="tab:orange", linewidth=0.7, label="error")
        axis.set_title(f"joint {j + 1}", loc="left", fontsize=10)
        axis.set_ylabel("torque (N m)")
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    axes[0, 0].legend(fontsize=8, loc="upper right")
    figure.suptitle(f"{title}; held-out run of the virtual robot")
    return save(figure, out / f"figure{case}_virtual.png")


def _torques(recording: Recording, fits: Fits, out: Path) -> Path:
    """Measured torque beside the dynamic and the power model, joint by joint."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 2, figsize=(11, 9), sharex=True, layout="constrained")
    dynamic = recording.dynamic
    models = {"dynamic model": named(fits.essential[20].estimate), "power model": named(fits.power)}
    for j, axis in enumerate(axes.flat):
        rows = dynamic.joint == j
        order = np.argsort(dynamic.sample[rows])
        t = dynamic.sample[rows][order] * 0.02
        axis.plot(t, dynamic.y[rows][order], ".", markersize=2.5, color="0.35", label="measured")
        for (label, values), color in zip(models.items(), ("tab:blue", "tab:red"), strict=True):
            beta = np.array([values.get(name, 0.0) for name in dynamic.names])
            axis.plot(t, (dynamic.W[rows] @ beta)[order], color=color, linewidth=0.8, label=label)
        axis.set_title(f"joint {j + 1}", loc="left", fontsize=10)
        axis.set_ylabel("torque (N m)")
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    axes[0, 0].legend(fontsize=8, loc="upper right")
    figure.suptitle("Fitted on one trajectory: the power model explains the power, not the torques")
    return save(figure, out / "torques.png")


def _errors(recording: Recording, fits: Fits, out: Path) -> Path:
    """Relative torque errors by joint."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    models = {
        "dynamic, 60 parameters": named(fits.wls),
        "dynamic, essential (r = 20)": named(fits.essential[20].estimate),
        "power, one trajectory": named(fits.power),
    }
    for k, (label, values) in enumerate(models.items()):
        errors = joint_errors(recording.dynamic, values)
        axis.bar(np.arange(6) + 0.27 * (k - 1), errors, width=0.25, label=label)
    axis.set_xticks(range(6), [f"joint {j + 1}" for j in range(6)])
    axis.set_ylabel("training error |τ - τ̂| / |τ|")
    axis.set_yscale("log")
    axis.legend(fontsize=8)
    return save(figure, out / "errors.png")


def _parameters(fits: Fits, out: Path) -> Path:
    """Essential parameters with their 95 % intervals of white residuals."""
    plt = pyplot()
    estimate = fits.essential[20].estimate
    figure, axis = plt.subplots(figsize=(8, 6), layout="constrained")
    relative = 100.0 * estimate.relative_sigma * 1.96
    order = np.argsort(relative)
    axis.barh(np.arange(len(order)), relative[order], color="tab:blue")
    axis.set_yticks(np.arange(len(order)), [estimate.names[k] for k in order], fontsize=8)
    axis.set_xlabel("half width of the 95 % interval, % of the value (white residuals)")
    axis.set_title(f"{len(order)} essential parameters", loc="left", fontsize=10)
    return save(figure, out / "parameters.png")
