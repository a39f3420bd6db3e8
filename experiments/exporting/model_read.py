"""What does a campaign's model.json say? Read back for its exports, checked against the robot."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.model_json import FILE, read_model_json
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot


@dataclass(frozen=True, eq=False, slots=True)
class ReadModel:
    """A model.json of a robot."""

    path: Path
    robot: Robot
    chi: FloatArray  # (n_params,): the base parameters' values, 0 for what regrouped
    standard: FloatArray | None  # (n_params,): physically consistent
    labels: tuple[str, ...]  # of the standard parameters: "data" or "prior"
    refusal: str  # why there are no standard parameters, where there are none
    data: Mapping[str, Any]

    def consistent(self) -> FloatArray:
        """Take the physically consistent parameters; ExcitorError where there are none."""
        if self.standard is None:
            raise ExcitorError(f"{self.path}: holds no physically consistent model ({self.refusal})")
        return self.standard


def read_model(folder: Path, robot: Robot, *, arm: bool = True) -> ReadModel:
    """Read the model of a campaign's folder; a payload campaign's, which has no arm, where none is wanted."""
    path = folder / FILE
    data = read_model_json(path)
    if arm and data.get("task") == "payload":
        raise ExcitorError(f"{path}: is of what the robot carries; the arm's model is in the campaign of its prior")
    try:
        chi, _ = _values(robot, data["parameters"], path)
        known = data["standard"]
        whole = "parameters" in known
        standard, labels = _values(robot, known["parameters"], path) if whole else (None, ())
        return ReadModel(path, robot, chi, standard, labels, str(known.get("reason", "")), data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ExcitorError(f"{path}: is no whole model ({error!r} is missing or wrong); identify again") from None


def _values(robot: Robot, entries: Any, path: Path) -> tuple[FloatArray, tuple[str, ...]]:
    names = layout(robot).names
    chi = np.zeros(len(names))
    labels = [""] * len(names)
    for entry in entries:
        name, value = str(entry["name"]), entry["value"]
        if name not in names:
            raise ExcitorError(f"{path}: parameter {name[:80]!r} is not one of {robot.name}; identify again")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ExcitorError(f"{path}: parameter {name} is {str(value)[:80]!r}, expected a number; identify again")
        chi[names.index(name)] = value
        labels[names.index(name)] = str(entry.get("label", ""))
    return chi, tuple(labels)
