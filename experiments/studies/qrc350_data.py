"""The public QRC 350 recordings: which file is what, read as equations in the paper's 35 parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.estimate import Estimate
from excitor.identify.logs.matlab import Fields, read_arrays, read_matlab_means
from excitor.identify.periods import periodic_lowpass
from excitor.identify.regression import Regression, combine, dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

MEAN = Fields(
    "q_meas.average", "dq_meas.average", "ddq_meas.average", "tau_meas.average", "time_vec_save", "tau_meas.variance"
)
HARMONIC = Fields(
    "q_meas.average_rect",
    "dq_meas.average_rect",
    "ddq_meas.average_rect",
    "tau_meas.average",
    "time_vec_save",
    "tau_meas.variance",
)
DESIRED = Fields("deg_q", "deg_dq", "deg_ddq", "tau", "time_vec_save")
RUNS = {  # name -> file, motion
    "A": ("trajectory_a", HARMONIC),
    "B": ("trajectory_b", HARMONIC),
    "C": ("trajectory_c", HARMONIC),
    "process 1": ("identification_process1", MEAN),
    "process 2": ("identification_process2", MEAN),
    "process 1 validation": ("validation_process1", DESIRED),
    "process 2 validation": ("validation_process2", DESIRED),
}
REPETITIONS = 50  # as the paper states; the processes' data are means of 30, which no printed number shows
PERIOD_S = 10.0
CONTROLLED_WITH = {
    "no model": "without_model",
    "model A": "model_a",
    "model B": "model_b",
    "process model": "process_model",
}


@dataclass(frozen=True, eq=False, slots=True)
class Recordings:
    """Every run as samples and as equations in the declared parameters."""

    robot: Robot
    folder: Path
    samples: dict[str, Samples]
    equations: dict[str, Regression]


def read_recordings(folder: Path) -> Recordings:
    """Read all runs."""
    if not folder.is_dir():
        raise ExcitorError(f"{folder}: is not a folder; --data takes the folder of the published .mat files")
    robot = load("qrc350")
    samples = {run: read_matlab_means(folder / f"{file}.mat", fields, run=run) for run, (file, fields) in RUNS.items()}
    return Recordings(robot, folder, samples, {run: declared_equations(robot, [s]) for run, s in samples.items()})


def declared_equations(robot: Robot, runs: Sequence[Samples]) -> Regression:
    """Write τ = W θ in the robot's declared parameters."""
    declared = robot.declared_base
    assert declared is not None
    units = layout(robot).units
    own = [units[int(np.argmax(row == 1.0))] for row in declared.combination]  # each has a term of coefficient 1
    return combine(
        dynamic_regression(robot, runs), declared_transform(robot, base_parameters(robot)), declared.names, own
    )


def low_passed(recordings: Recordings, run: str, cutoff_hz: float) -> Samples:
    """Take one period of a mean trajectory, its positions low-passed and differentiated; torques stay as measured."""
    mean = read_matlab_means(recordings.folder / f"{RUNS[run][0]}.mat", MEAN, run=run)
    n = round(PERIOD_S * mean.sample_rate_hz)
    motion = periodic_lowpass(mean.motion.q[:n], sample_rate_hz=mean.sample_rate_hz, cutoff_hz=cutoff_hz)
    assert mean.variance is not None
    steps = (*mean.steps, Step("periodic_lowpass", {"cutoff_hz": cutoff_hz}))
    return Samples(run, motion, mean.tau[:n], mean.sample_rate_hz, mean.variance[:n], steps)


def path_positions(recordings: Recordings, run: str) -> FloatArray:
    """Read the joint positions of one of the runs around the square, (n_samples, 6)."""
    return read_arrays(recordings.folder / f"joint_process2_{run}.mat", {"q": "deg_q"})["q"]


def tracking_rms_deg(folder: Path, process: int) -> dict[str, FloatArray]:
    """Root mean square of the reference errors, by what the controller fed forward, (6,) in degrees."""
    rms = {}
    for title, file in CONTROLLED_WITH.items():
        error = read_arrays(folder / f"control_error_process{process}_{file}.mat", {"error": "deg_e"})["error"]
        rms[title] = np.degrees(np.sqrt(np.mean(error**2, axis=0)))
    return rms


def values(estimate: Estimate, names: Sequence[str]) -> FloatArray:
    """List an estimate's parameters in a given order, 0 for those left out."""
    return np.array([estimate.value(name) for name in names])


def absolute_errors(equations: Regression, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean absolute error of each joint in N m, and in percent of its mean absolute torque, (n_joints,) each.

    [Volkmann2020] (11), (12).
    """
    size = np.abs(equations.y - equations.W @ theta)
    joints = np.unique(equations.joint)
    error = np.array([size[equations.joint == j].mean() for j in joints])
    torque = np.array([np.abs(equations.y[equations.joint == j]).mean() for j in joints])
    return error, 100.0 * error / torque
