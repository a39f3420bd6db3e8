"""Can a report.json be compared? It may come from a stranger: its size, version and types are checked first."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import sentences

LARGEST = 64_000_000  # bytes; a report has a tenth of that
MOST = 2000  # entries of any list that is compared
Text = Annotated[str, Field(max_length=2000)]
Names = Annotated[list[Text], Field(max_length=200)]
Numbers = Annotated[list[FiniteFloat | None], Field(max_length=200)]


class Part(BaseModel):
    """A table of the file; what is not compared is not looked at."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=False)


class ReportedRobot(Part):
    """Which robot a report is of."""

    name: Text
    title: Text
    joints: Names


class ReportedParameter(Part):
    """One base parameter; numbers are there where the model kept it."""

    name: Text
    part: Literal["link", "rotor", "friction"]
    regrouping: Annotated[str, Field(max_length=100_000)]
    unit: Text
    kept: bool
    value: FiniteFloat | None
    sigma: Annotated[FiniteFloat, Field(ge=0.0)] | None
    low: FiniteFloat | None
    high: FiniteFloat | None
    contribution: Annotated[FiniteFloat, Field(ge=0.0)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kept and None in (self.value, self.sigma, self.low, self.high):
            raise ValueError(f"parameter {self.name!r} is in the model, but has no value with an interval")
        return self


class ReportedNumbers(Part):
    """Relative torque errors by joint, and of all."""

    relative: Numbers
    total: FiniteFloat | None


class ReportedErrors(Part):
    """Errors on some runs."""

    label: Text
    training: bool
    joints: Names
    model: ReportedNumbers

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.model.relative) != len(self.joints):
            raise ValueError(f"{len(self.model.relative)} errors are given for {len(self.joints)} joints")
        return self


class ReportedSimulation(Part):
    """A run of a virtual robot."""

    run: Text


class Report(Part):
    """What is compared of a report."""

    version: Literal[1] = Field(alias="schema")
    kind: Literal["excitor report"]
    name: Text
    robot: ReportedRobot
    parameters: Annotated[list[ReportedParameter], Field(max_length=MOST)]
    errors: Annotated[list[ReportedErrors], Field(max_length=2)]
    simulated: Annotated[list[ReportedSimulation], Field(max_length=MOST)] = []

    @model_validator(mode="after")
    def _names_are_apart(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        if len(set(names)) < len(names):
            raise ValueError("parameters bear the same name")
        return self


def read_report(path: Path) -> dict[str, Any]:
    """Read a report.json; ExcitorError says what is wrong with it."""
    try:
        if path.stat().st_size > LARGEST:
            raise ExcitorError(f"{path}: has {path.stat().st_size} bytes, expected at most {LARGEST}; it is no report")
        data = json.loads(path.read_text("utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise ExcitorError(f"{path}: is missing; run excitor report {path.parent} first") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ExcitorError(f"{path}: cannot be read as a report: {str(error)[:200]}") from None
    checked(data, str(path))
    return dict(data)


def checked(data: Any, where: str) -> Report:
    """Check a report's version and types; all that is wrong with it at once."""
    if not isinstance(data, Mapping):
        raise ExcitorError(f"{where}: is no report; expected the content of a report.json")
    if data.get("kind") != "excitor report" or data.get("schema") != 1:
        raise ExcitorError(
            f"{where}: is {str(data.get('kind'))[:80]!r} of schema {str(data.get('schema'))[:20]}, expected an "
            "'excitor report' of schema 1; write the report again"
        )
    try:
        return Report.model_validate(dict(data))
    except ValidationError as error:
        told = sentences(list(error.errors(include_url=False)))
        raise ExcitorError("\n".join(f"{where}: {sentence}" for sentence in told[:20])) from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
