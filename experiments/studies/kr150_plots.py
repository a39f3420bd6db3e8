"""Pictures of the load study: the motion, torques and what is left of them, errors of the three approaches."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.experiments.studies import kr150_recipe as recipe
from excitor.experiments.studies.drawing import pyplot, save
from excitor.identify.load.equations import equations, load_task, motor_torque
from excitor.identify.load.fit import identify_load
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from excitor.experiments.studies.kr150_load import Outcome

AXES = ("axis 3", "axis 4", "axis 5", "axis 6")


def draw_all(robot: Robot, printed: dict[str, Any], draws: "list[dict[str, Outcome]]", out: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    experiment = recipe.experiments(robot, printed, seed=0, count=1)[0]
    return [
        _motion(experiment, out),
        _torques(robot, experiment, out),
        _errors(printed, draws, out),
    ]


def _motion(experiment: recipe.Experiment, out: Path) -> Path:
    """Draw the paper's Fig. 4: one period of the excitation, as re-estimated from the encoders."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(11, 6), sharex=True, layout="constrained")
    q = experiment.run.motion.q
    t = np.arange(len(q)) * 0.024
    for axis, joint, title in zip(axes.flat, recipe.MOVED, AXES, strict=True):
        axis.plot(t, np.degrees(q[:, joint]), color="tab:blue", linewidth=0.9)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel("angle (deg)")
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    figure.suptitle("Fig. 4: one period of the excitation, re-estimated from the averaged encoders")
    return save(figure, out / "figure4_motion.png")


def _torques(robot: Robot, experiment: recipe.Experiment, out: Path) -> Path:
    """Draw the paper's Fig. 5: averaged motor torques beside the model's, and what is left."""
    plt = pyplot()
    runs = [experiment.run]
    task = load_task(robot, runs, arm=recipe.arm_of(robot, recipe.draw_prior(0)))
    system = equations(task, runs)
    predicted = motor_torque(system, identify_load(task, runs).values)[0].reshape(len(AXES), -1)
    figure, axes = plt.subplots(4, 2, figsize=(12, 10), sharex=True, layout="constrained")
    t = np.arange(predicted.shape[1]) * 0.024
    for row, (joint, title) in enumerate(zip(recipe.MOVED, AXES, strict=True)):
        measured = experiment.run.tau[:, joint]
        left, right = axes[row]
        left.plot(t, measured, ".", markersize=1.5, color="0.35", label="measured (virtual), mean of ten periods")
        left.plot(t, predicted[row], color="tab:blue", linewidth=0.8, label="approach 3")
        right.plot(t, measured - predicted[row], color="tab:orange", linewidth=0.6)
        left.set_title(title, loc="left", fontsize=10)
        left.set_ylabel("torque (N m)")
        right.set_ylabel("error (N m)")
    axes[0, 0].legend(fontsize=8, loc="upper right")
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    figure.suptitle("Fig. 5: averaged motor torques (left) and what the model leaves of them (right)")
    return save(figure, out / "figure5_torques.png")


def _errors(printed: dict[str, Any], draws: "list[dict[str, Outcome]]", out: Path) -> Path:
    """Draw Table 2 as bars: mean absolute errors of the approaches, ours and printed."""
    plt = pyplot()
    names, units = printed["table2"]["names"], printed["table2"]["units"]
    figure, axis = plt.subplots(figsize=(11, 5), layout="constrained")
    place = np.arange(len(names))
    for k, color in ((1, "tab:red"), (2, "tab:orange"), (3, "tab:blue")):
        ours = np.median([np.abs(d[str(k)].error).mean(axis=0) for d in draws], axis=0)
        paper = [entry[0] for entry in printed["table2"][f"approach{k}"]]
        axis.bar(place + 0.26 * (k - 2), ours, width=0.24, color=color, label=f"approach {k}")
        axis.plot(place + 0.26 * (k - 2), paper, "k_", markersize=11, label="printed" if k == 1 else None)
    axis.set_yscale("log")
    axis.set_xticks(place, [f"{name}\n({unit})" for name, unit in zip(names, units, strict=True)])
    axis.set_ylabel("mean |error| over 14 experiments")
    axis.legend(fontsize=8)
    return save(figure, out / "table2_errors.png")
