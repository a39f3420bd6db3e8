"""What does a model.json say of its own certainty? Values, covariance and residuals, checked."""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.experiments.model_json import FILE, read_model_json
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import sentences

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


def read_model(folder: Path) -> ModelFile:
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
