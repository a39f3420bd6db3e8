"""design.json as programs need it: every key checked, whoever wrote the file."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.experiments.designing.file import FILE, read_design
from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import sentences

Time = Annotated[FiniteFloat, Field(ge=0.0, le=1e6)]
Step = Annotated[FiniteFloat, Field(gt=0.0, le=1e6)]
Row = Annotated[list[FiniteFloat], Field(max_length=100)]
Rows = Annotated[list[Row], Field(max_length=200_000)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Phase(_Part):
    """A part of a run, in s from its start."""

    name: Literal["settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold"]
    start: Time
    end: Time


class Way(_Part):
    """The way from home to the start."""

    waypoints: Rows
    durations: list[Time]


class PeriodicRun(_Part):
    """A Fourier series."""

    name: Text
    role: Literal["identify", "validate", "none"]
    payload: str | None
    ready: bool
    period: Step
    sample_time: Step
    harmonics: Annotated[list[int], Field(max_length=1000)]
    moving: list[bool]
    phases: list[Phase]
    warm_up_periods: Annotated[int, Field(ge=0, le=100_000)]
    measured_periods: Annotated[int, Field(ge=1, le=100_000)]
    center: Row
    sines: Rows
    cosines: Rows
    way: Way | None


class MovesRun(_Part):
    """Moves from knot to knot."""

    name: Text
    kind: str
    role: Literal["identify", "validate", "none"]
    ready: bool
    sample_time: Step
    knots: Rows
    durations: Annotated[list[Time], Field(max_length=200_000)]
    blends: Annotated[list[Time], Field(max_length=200_000)]
    measured: Annotated[list[bool], Field(max_length=200_000)]


class TorqueRun(_Part):
    """Torques; no position program can command them."""

    name: Text


class Provenance(_Part):
    """What a design was made from."""

    inputs_sha256: str


class DesignFile(_Part):
    """The parts of design.json that programs are made of."""

    robot: str
    joints: list[str]
    ready: bool
    go: bool
    reasons: list[str] = []  # why it is a no-go
    home: Row | None
    order: list[str]
    runs: list[PeriodicRun]
    slow_runs: list[MovesRun]
    torque_runs: list[TorqueRun]
    provenance: Provenance


def open_design(folder: Path, inputs_sha256: str) -> DesignFile:
    """Read a campaign's design; one of another campaign.toml, or one that is not certified, is refused."""
    path, design = folder / FILE, parse_design(folder)
    if design.provenance.inputs_sha256 != inputs_sha256:
        raise ExcitorError(
            f"{path}: was made from another campaign.toml or robot; run excitor design {folder} again, then emit"
        )
    if not design.ready:
        raise ExcitorError(
            f"{path}: not every limit of this design is proven to hold, so no program is made of it; "
            f"plan.html shows which, and excitor design {folder} searches again"
        )
    return design


def parse_design(folder: Path) -> DesignFile:
    """Read a campaign's design as it stands, whatever it was made from; ExcitorError where it is damaged."""
    try:
        return DesignFile.model_validate(read_design(folder))
    except ValidationError as error:
        told = "; ".join(sentences(list(error.errors(include_url=False)))[:5])
        raise ExcitorError(f"{folder / FILE}: {told}; design the campaign again") from None


def no_go_reasons(design: DesignFile) -> tuple[str, ...]:
    """Why a design is a no-go, in sentences; empty where it is a go."""
    if design.go:
        return ()
    return tuple(design.reasons) or ("plan.html says why",)


def design_digest(folder: Path) -> str:
    """Digest design.json as it is."""
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
