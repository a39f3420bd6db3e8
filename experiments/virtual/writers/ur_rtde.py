"""RTDE recordings as our recorder writes them: every field of a row, commas, seconds since the controller started."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.sensors import currents
from excitor.experiments.virtual.writers.format import Column, Format, Shown, write_rows
from excitor.robots.friction import motor_torques

FORMATS = (Format("ur_rtde", "the RTDE recorder", "ur_rtde", "actual_q_{j}", {"current": "actual_current_{j}"}),)
STARTED = 1000.0  # s: how long the controller had been on
_PLAYING = 2  # runtime_state


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `timestamp,target_q_0,...`."""
    n = len(shown.axes)
    wide = ["target_q", "target_qd", "target_qdd", "target_current", "target_moment"]
    wide += ["actual_q", "actual_qd", "actual_current", "joint_temperatures"]
    head = ["timestamp", *(f"{field}_{j}" for field in wide for j in range(n))]
    head += ["speed_scaling", "target_speed_fraction", "runtime_state", "output_int_register_24"]
    target_current = currents(shown.robot.drive.torque_from_current, motor_torques(shown.robot, shown.model))
    tables = (
        shown.reference,
        shown.reference_velocity,
        np.gradient(shown.reference_velocity, shown.t, axis=0),
        target_current,
        shown.model,
        shown.position,
        shown.velocity,
        shown.effort,
        shown.temperature,
        np.column_stack([shown.scaling, shown.scaling]),
    )
    columns: list[Column] = [("%.17g", STARTED + shown.t), *(("%.17g", table) for table in tables)]
    columns += [("%.0f", np.full(len(shown.t), _PLAYING)), ("%.0f", shown.mark)]
    return [write_rows(folder / f"{name}.csv", head, columns)]
