"""Samples of a model as a Parquet table: motion, torques measured and predicted, and weights."""

import io
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.identification import read_runs, rows_of
from excitor.experiments.model import Model
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot


def samples_parquet(campaign: OpenCampaign, model: Model) -> bytes:
    """Read the runs as in identification, and write a row for each sample; joints' columns end in their number from 1.

    Weights are 1/σ² of the residuals that identify found, and 0 where a torque took no part: in runs that validate,
    of joints that hardly move, near reversals of friction. Where the campaign thins its equations, that comes after.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ExcitorError(
            "samples are written by pyarrow, which is not installed: pip install 'excitor[parquet]'"
        ) from None
    roles: dict[str, str] = {run.name: run.role for run in campaign.content.run}
    read = read_runs(campaign)
    campaign, runs, robot = read.campaign, read.samples, read.campaign.robot
    sigmas = {(weight.joint, weight.run): weight.sigma for weight in model.weights}  # a run of -1 stands for all
    parts = [_columns(campaign, model, runs[name], roles[name], sigmas) for name in runs]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    texts = {key: pa.array(values, pa.string()) for key, values in columns.items() if values.dtype.kind == "U"}
    table = pa.table({**columns, **{key: text.dictionary_encode() for key, text in texts.items()}})
    buffer = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(_metadata(robot, model)), buffer, compression="zstd")
    return buffer.getvalue()


def _columns(
    campaign: OpenCampaign, model: Model, samples: Samples, role: str, sigmas: Mapping[tuple[str, int], float]
) -> dict[str, Any]:
    robot, motion, n = campaign.robot, samples.motion, len(samples)
    predicted = inverse_dynamics(robot, motion, model.delivered.chi)
    weights = _weights(campaign, samples, role, sigmas)
    columns: dict[str, Any] = {"run": np.full(n, samples.run), "role": np.full(n, role)}
    columns["t"] = np.arange(n) / samples.sample_rate_hz
    quantities = {"q": motion.q, "dq": motion.dq, "ddq": motion.ddq, "tau": samples.tau}
    quantities |= {"tau_predicted": predicted, "weight": weights}
    for name, values in quantities.items():
        columns |= {f"{name}_{j + 1}": np.ascontiguousarray(values[:, j]) for j in range(robot.n_joints)}
    return columns


def _weights(
    campaign: OpenCampaign, samples: Samples, role: str, sigmas: Mapping[tuple[str, int], float]
) -> FloatArray:
    robot = campaign.robot
    weights = np.zeros(samples.tau.shape)
    if role != "identify":
        return weights
    known = [run.name for run in campaign.content.run if run.role == "identify"]
    number = known.index(samples.run)
    used = dynamic_regression(robot, [samples], rows=replace(rows_of(campaign), decimate=None))
    for j, name in enumerate(robot.joint_names):
        sigma = sigmas.get((name, number), sigmas.get((name, -1), np.inf))
        weights[used.sample[used.joint == j], j] = 1.0 / sigma**2 if sigma > 0.0 else 0.0
    return weights


def _metadata(robot: Robot, model: Model) -> dict[str, str]:
    import json

    sliding = [bool(x) for x in robot.mechanism.prismatic]
    return {
        "excitor": version("excitor"),
        "robot": robot.name,
        "joints": json.dumps(list(robot.joint_names)),
        "units": json.dumps(["m, m/s, m/s2, N" if x else "rad, rad/s, rad/s2, N m" for x in sliding]),
        "model_provenance": json.dumps(model.provenance),
    }
