"""What noise a design may count on: typed, learned from an earlier model, or assumed and said so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import inside
from excitor.experiments.designing import schema
from excitor.experiments.model_json import read_model_json
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import LARGEST
from excitor.robots.information import Noise
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

ASSUMED_SHARE = 0.02  # of a joint's torque limit, or of the torque it takes where none is stated
_LARGEST_INFLATION = 1e3


def assumed_noise(robot: Robot, rate_hz: float, inflation: float) -> Noise:
    """Assume a share of what each joint can do: a guess, which the forecast names as such."""
    tau = inverse_dynamics(robot, random_motion(robot, 200))
    taken = np.sqrt(np.mean(tau**2, axis=0))
    size = np.where(np.isfinite(robot.limits.torque), robot.limits.torque, taken)
    sigma = ASSUMED_SHARE * np.where(size > 0.0, size, 1.0)
    told = f"assumed: {100 * ASSUMED_SHARE:g} % of each joint's torque limit"
    return Noise(sigma, rate_hz, inflation, source=told)


def noise_of_model(folder: Path, given: schema.Noise, robot: Robot) -> Noise:
    """Take what an earlier identification left unexplained, and how far its intervals were from white ones."""
    assert given.model is not None
    if not inside(folder, given.model):
        raise ValueError(f"{given.model!r} leaves the folder of the campaign; copy the model into it")
    data = read_model_file(folder / given.model)
    sigma = _residuals(data, robot)
    ratios = _inflations(data, given.model)
    learned = max(1.0, float(np.median(ratios))) if ratios else 1.0
    if learned > _LARGEST_INFLATION:
        raise ExcitorError(
            f"{given.model}: its intervals are {learned:.3g} times wider than white ones; is it damaged?"
        )
    inflation = max(learned, given.inflation)
    return Noise(
        sigma,
        given.rate_hz,
        inflation,
        source=f"learned from {given.model}, inflation {inflation:.2g}; {given.rate_hz:g} rows a second as stated",
    )


def learned_robot(folder: Path, name: str | None, robot: Robot, *, elsewhere: bool = False) -> Robot:
    """Take an earlier model's physically consistent parameters as what is known of a robot beforehand.

    `elsewhere`: the model may lie in another campaign's folder, such as the arm's.
    """
    if name is None:
        return robot
    if not elsewhere and not inside(folder, name):
        raise ValueError(f"{name!r} leaves the folder of the campaign; copy the model into it")
    data = read_model_file(folder / name)
    standard = data.get("standard")
    entries = standard.get("parameters") if isinstance(standard, dict) else None
    if not isinstance(entries, list):
        raise ExcitorError(f"{name} has no physically consistent parameters, which a prior must have")
    params = layout(robot)
    chi, known = robot.chi.copy(), robot.known.copy()
    for entry in entries:
        given = entry.get("value") if isinstance(entry, dict) else None
        value = _number(given)
        if value is None:
            raise ExcitorError(
                f"{name}: a parameter has value {repr(given)[:60]}, expected a number of at most {LARGEST:g} in size"
            )
        k = params.index(str(entry.get("name")))
        chi[k], known[k] = value, True
    if not set(params.names[: params.n_link_params]) <= {str(entry.get("name")) for entry in entries}:
        raise ExcitorError(f"{name} is of another robot: it lacks parameters of {robot.name}")
    return replace(robot, chi=chi, known=known)


def read_model_file(path: Path) -> dict[str, Any]:
    """Read a model.json as far as every use of it needs; ExcitorError where it is none."""
    data = read_model_json(path)
    if not isinstance(data.get("weights"), list):
        raise ExcitorError(f"{path.name} is not a model that excitor identify wrote: it has no weights")
    return data


def _inflations(data: dict[str, Any], name: str) -> list[float]:
    """Take how many times wider each parameter's interval was than a white one."""
    entries = data.get("parameters", [])
    ratios = []
    for entry in entries if isinstance(entries, list) else [None]:
        wide, white = (_number(entry.get(key)) if isinstance(entry, dict) else None for key in ("sigma", "sigma_white"))
        if wide is None or white is None:
            raise ExcitorError(
                f"{name}: a parameter lacks sigma or sigma_white, or they are no numbers; is it damaged?"
            )
        if white > 0.0:
            ratios.append(wide / white)
    return ratios


def _residuals(data: dict[str, Any], robot: Robot) -> FloatArray:
    """Take each joint's residual deviation, the largest over the runs."""
    sigma = np.zeros(robot.n_joints)
    for entry in data["weights"]:
        name = entry.get("joint") if isinstance(entry, dict) else None
        if name not in robot.joint_names:
            raise ExcitorError(f"the model is of another robot: {name!r} is no joint of {robot.name}")
        value = _number(entry.get("sigma"))
        if value is None or value <= 0.0:
            told = repr(entry.get("sigma"))[:60]
            raise ExcitorError(f"the model's sigma of {name} is {told}, expected a positive number")
        j = robot.joint_names.index(str(name))
        sigma[j] = max(sigma[j], value)
    missing = [name for name, value in zip(robot.joint_names, sigma, strict=True) if value == 0.0]
    if missing:
        raise ExcitorError(f"the model has no sigma of {', '.join(missing)}")
    return sigma


def _number(value: object) -> float | None:
    """Take a number of a size that can be computed with; None for everything else that JSON knows."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST else None  # not a number compares false
