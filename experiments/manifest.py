"""What was a program to do? manifest.json, read strictly: it may be a stranger's."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from excitor.design.motion import Excitation, Trajectory, phases
from excitor.design.programs.package import FORMAT, VERSION
from excitor.design.programs.plan import Move, Rounds
from excitor.experiments.align.nouns import Expected
from excitor.robots.errors import ExcitorError
from excitor.robots.files.schema import sentences

LARGEST_FILE = 100_000_000  # bytes
MOST_JOINTS = 100
MOST_MOVES = 100_000  # repeats counted
_STEPS = 1_000_000_000  # a period is so many: every time of a manifest is a whole number of them, near enough

Time = Annotated[FiniteFloat, Field(ge=0.0, le=1e6)]
Size = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Row = Annotated[list[Size], Field(min_length=1, max_length=MOST_JOINTS)]
Waves = Annotated[list[Annotated[list[Size], Field(min_length=1, max_length=1000)]], Field(max_length=MOST_JOINTS)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=10_000)]
Harmonic = Annotated[int, Field(ge=1, le=10_000)]
Count = Annotated[int, Field(ge=0, le=100_000)]


class InvalidManifest(ExcitorError):
    """A manifest that cannot be used; every problem found, each with its key path."""

    def __init__(self, path: str | Path, problems: list[str]) -> None:
        self.path = str(path)
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Units(_Table):
    position: Annotated[list[Literal["rad", "m"]], Field(min_length=1, max_length=MOST_JOINTS)]
    time: Literal["s"]


class _Axes(_Table):
    names: Annotated[list[Name], Field(max_length=MOST_JOINTS)]
    matrix: Annotated[list[Row], Field(max_length=MOST_JOINTS)]
    zero: Row
    units_per_rad_or_m: Row
    stated_by_the_robot: bool


class _Limits(_Table):
    position: Annotated[list[Annotated[list[FiniteFloat | None], Field(max_length=2)]], Field(max_length=MOST_JOINTS)]
    velocity: Annotated[list[FiniteFloat | None], Field(max_length=MOST_JOINTS)]
    acceleration: Annotated[list[FiniteFloat | None], Field(max_length=MOST_JOINTS)]
    jerk: Annotated[list[FiniteFloat | None], Field(max_length=MOST_JOINTS)]


class _Move(_Table):
    to: Row
    duration: Annotated[Time, Field(gt=0.0)]
    blend: Time
    measured: bool


class _Mark(_Table):
    t: Time
    mark: Annotated[int, Field(ge=-(2**31), lt=2**31)]


class _Phase(_Table):
    name: Literal["settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold"]
    start: Time
    end: Time


class _File(_Table):
    name: Name
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Series(_Table):
    period_s: Annotated[Time, Field(gt=1e-3)]
    harmonics: Annotated[list[Harmonic], Field(min_length=1, max_length=1000)]
    center: Row
    sines: Waves
    cosines: Waves


class _Durations(_Table):
    out: Time
    main: Time
    back: Time


class Program(_Table):
    """One program of a manifest: a Fourier series, or moves made again and again."""

    name: Name
    run: Name
    role: Literal["identify", "validate", "none"]
    dry: bool
    payload_kg: Annotated[FiniteFloat, Field(ge=0.0, le=1e6)] | None
    files: Annotated[list[Name], Field(max_length=100_000)]
    control_steps_s: Annotated[list[Time], Field(max_length=1000)] | None
    home: Row
    start: Row
    durations_s: _Durations
    out: Annotated[list[_Move], Field(max_length=MOST_MOVES)]
    back: Annotated[list[_Move], Field(max_length=MOST_MOVES)]
    marks: Annotated[list[_Mark], Field(max_length=2 * MOST_MOVES)]
    kind: Literal["series", "moves"]
    series: _Series | None = None
    warm_up_periods: Count = 0
    measured_periods: Count = 0
    phases: Annotated[list[_Phase], Field(max_length=6)] = []
    envelope: Literal["35 s^4 - 84 s^5 + 70 s^6 - 20 s^7"] | None = None
    moves: Annotated[list[_Move], Field(max_length=MOST_MOVES)] = []
    repeats: Annotated[int, Field(ge=1, le=MOST_MOVES)] = 1

    @model_validator(mode="after")
    def _its_kind(self) -> Self:
        if (self.kind == "series") != (self.series is not None) or (self.kind == "moves") != bool(self.moves):
            raise ValueError("a program is either a series, or moves, as its kind says")
        if self.kind == "series" and not self.measured_periods:
            raise ValueError("a series has at least one measured period")
        if len(self.moves) * self.repeats > MOST_MOVES:
            raise ValueError(f"makes more than {MOST_MOVES} moves")
        return self


class Manifest(_Table):
    """All that a folder of programs says of itself."""

    format: Literal["excitor-manifest"]
    version: Literal[1]
    excitor: Name
    made_from_sha256: dict[Name, Name]
    go: bool = True  # of the design
    allowed: list[Literal["no-go"]] = []
    reasons: Annotated[list[Text], Field(max_length=10_000)] = []  # why it is a no-go
    target: Name
    timing_class: Name
    approximate: bool
    spacing_s: Time | None
    robot: Name
    joints: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOINTS)]
    units: _Units
    axes: _Axes
    limits: _Limits
    marks: bool
    identification: Text
    assumed: Text
    programs: Annotated[list[Program], Field(max_length=10_000)]
    files: Annotated[list[_File], Field(max_length=100_000)] = []


def read_manifest(path: Path) -> Manifest:
    """Read manifest.json; InvalidManifest tells all that is wrong with it."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidManifest(path, [f"is larger than {LARGEST_FILE} bytes, which no manifest is"])
        content = path.read_bytes()
    except OSError as error:
        raise InvalidManifest(path, [f"cannot be read: {error.strerror or error}"]) from None
    return parse_manifest(content, path)


def parse_manifest(content: bytes | str, path: str | Path = "manifest.json") -> Manifest:
    """Check a manifest's text, as `read_manifest` does."""
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        problems = sentences(list(error.errors(include_url=False)))
        shown = [*problems[:10], *([f"and {len(problems) - 10} problems more"] if len(problems) > 10 else [])]
        raise InvalidManifest(path, shown) from None


def expected_of(manifest: Manifest, program: str, path: str | Path = "manifest.json") -> Expected:
    """Tell what a program, found by its name, was to make the joints do."""
    found = [entry for entry in manifest.programs if entry.name == program]
    if len(found) != 1:
        names = ", ".join(entry.name for entry in manifest.programs[:20]) or "none"
        raise InvalidManifest(path, [f"has {len(found)} programs named {program!r}; its programs are {names}"])
    entry, n = found[0], len(manifest.joints)
    try:
        _check_sizes(manifest, entry, n)
        body = _trajectory(entry, n) if entry.series else _rounds(entry)
        if len(set(manifest.joints)) < n:
            raise ValueError("two of its joints have one name")
        made = Expected(
            program=entry.name,
            joints=tuple(manifest.joints),
            prismatic=np.array([unit == "m" for unit in manifest.units.position]),
            start=np.array(entry.start),
            body=body,
            marks=tuple((mark.t, mark.mark) for mark in entry.marks) if manifest.marks else (),
            axes=np.array(manifest.axes.matrix),
        )
        _check_times(entry, made)
    except ValueError as error:
        raise InvalidManifest(path, [f"program {program!r}: {error}"]) from None
    return made


def _check_sizes(manifest: Manifest, entry: Program, n: int) -> None:
    rows: dict[str, list[Any]] = {
        "units.position": manifest.units.position,
        "axes.matrix": manifest.axes.matrix,
        "home": entry.home,
        "start": entry.start,
        **{f"axes.matrix[{k + 1}]": row for k, row in enumerate(manifest.axes.matrix)},
        **{f"moves[{k + 1}].to": move.to for k, move in enumerate(entry.moves)},
    }
    for name, row in rows.items():
        if len(row) != n:
            raise ValueError(f"{name} has {len(row)} entries, expected one for each of {n} joints")


def _trajectory(entry: Program, n: int) -> Trajectory:
    assert entry.series is not None
    series, spans = entry.series, {phase.name: phase.end - phase.start for phase in entry.phases}
    excitation = Excitation(
        series.period_s,
        series.period_s / _STEPS,
        tuple(series.harmonics),
        np.ones(n, dtype=bool),
        ramp=spans.get("ramp-in", 0.0),
        settle=spans.get("settle", 0.0),
        hold=spans.get("hold", 0.0),
        warm_up=entry.warm_up_periods,
        measured=entry.measured_periods,
    )
    told = [(phase.name, phase.start, phase.end) for phase in entry.phases]
    made = [(phase.name, phase.start, phase.end) for phase in phases(excitation)]
    close = len(told) == len(made) and all(
        a[0] == b[0] and abs(a[1] - b[1]) < 1e-6 and abs(a[2] - b[2]) < 1e-6 for a, b in zip(told, made, strict=True)
    )
    if not close:
        raise ValueError("its phases do not follow from its periods and ramps")
    return Trajectory(excitation, np.array(series.center), np.array(series.sines), np.array(series.cosines))


def _rounds(entry: Program) -> Rounds:
    made = tuple(Move(np.array(m.to), m.duration, m.blend, m.measured) for m in entry.moves)
    if np.abs(made[-1].to - entry.start).max() > 1e-6:
        raise ValueError("its moves do not end where they began")
    return Rounds(made, entry.repeats)


def _check_times(entry: Program, made: Expected) -> None:
    if abs(entry.durations_s.main - made.duration) > 1e-6 * max(1.0, made.duration):
        raise ValueError(f"takes {entry.durations_s.main:g} s as durations_s says, its parts {made.duration:g} s")
    times = [mark.t for mark in entry.marks]
    if times != sorted(times) or (times and times[-1] > made.duration + 1e-6):
        raise ValueError("its marks are not in the order of time, or beyond its end")
    if not made.moving().any():
        raise ValueError("moves no joint")


assert (FORMAT, VERSION) == ("excitor-manifest", 1)
