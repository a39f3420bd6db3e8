"""Where a model lies, and how it is read back: model.json as plain data. What of it is used, each user checks.

* What does a campaign's model.json say? Read back for its exports, checked against the robot.
* What does a model.json say of its own certainty? Values, covariance and residuals, checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.experiments.files import read_json
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import sentences
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

FILE = "model.json"
SCHEMA = 1


def read_model_json(path: Path) -> dict[str, Any]:
    """Read a model that identification wrote."""
    return read_json(path, SCHEMA, made_by="excitor identify")


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


Size = Annotated[FiniteFloat, Field(ge=0.0, le=1e30)]
Value = Annotated[FiniteFloat, Field(ge=-1e30, le=1e30)]
Text = Annotated[str, Field(max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ModelParameter(_Part):
    """A base parameter."""

    name: Text
    unit: Text
    value: Value
    sigma: Size


class Weight(_Part):
    """What was left unexplained of a joint's torque."""

    joint: Text
    sigma: Annotated[FiniteFloat, Field(gt=0.0, le=1e30)]


class StandardParameter(_Part):
    """A physically consistent parameter."""

    name: Text
    value: Value


class Standard(_Part):
    """The physically consistent model, where there is one."""

    parameters: Annotated[list[StandardParameter], Field(max_length=5000)] = []


class ModelFile(_Part):
    """What is read of a model."""

    robot: Text
    parameters: Annotated[list[ModelParameter], Field(min_length=1, max_length=2000)]
    covariance: Annotated[list[list[Value]], Field(max_length=2000)] | None = None
    weights: Annotated[list[Weight], Field(min_length=1, max_length=10_000)]
    standard: Standard = Standard()

    @property
    def names(self) -> tuple[str, ...]:
        """Name the base parameters that were fitted."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def values(self) -> FloatArray:
        """Collect the base parameters, (n_names,)."""
        return np.array([parameter.value for parameter in self.parameters])


def read_previous_model(folder: Path) -> ModelFile:
    """Read a campaign's model; ExcitorError says in sentences what is wrong with it."""
    path = folder / FILE
    data = read_model_json(path)
    try:
        return ModelFile.model_validate(data)
    except ValidationError as error:
        told = "; ".join(sentences(list(error.errors(include_url=False)))[:5])
        raise ExcitorError(f"{path}: {told}; identify the campaign again") from None


def covariance_of(model: ModelFile, path: Path) -> FloatArray:
    """Take the base parameters' covariance, (n_names, n_names); ExcitorError where there is none."""
    n = len(model.names)
    if model.covariance is None:
        raise ExcitorError(f"{path}: has no covariance, so nobody knows how sure it is; identify the campaign again")
    if len(model.covariance) != n or any(len(row) != n for row in model.covariance):
        raise ExcitorError(f"{path}: its covariance is not {n} x {n}, one row a parameter; identify the campaign again")
    return np.array(model.covariance)


def residuals_of(model: ModelFile, joints: tuple[str, ...], path: Path) -> FloatArray:
    """Take what is left unexplained of each joint's torque, rms over runs, (n_joints,)."""
    squares = np.zeros(len(joints))
    for j, name in enumerate(joints):
        found = [weight.sigma for weight in model.weights if weight.joint == name]
        squares[j] = np.mean(np.square(found)) if found else 0.0
    if not squares.any():
        raise ExcitorError(f"{path}: its weights name no joint of this robot; identify the campaign again")
    return np.sqrt(np.where(squares > 0.0, squares, squares.max()))
