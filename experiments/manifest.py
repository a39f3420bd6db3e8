"""manifest.json: written and strictly read descriptions of a target's programs.

A manifest may be a stranger's; what a program was to make the joints do, and which logs there are, follows from it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.design.motion import (
    MOST_JOINTS,
    MOST_SEGMENTS,
    RunForm,
    old_moves,
    old_series,
    problems,
    read_run,
    run_data,
)
from excitor.design.programs import registry
from excitor.design.programs.package import Package, encoded_files
from excitor.design.programs.package import Program as EmittedProgram
from excitor.design.programs.plan import UNVERIFIED, Stretches, Torques, marks
from excitor.design.programs.target import axes_of, fitting_steps, units
from excitor.experiments.align.nouns import ExpectedMotion
from excitor.robots.arrays import finite
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.files.bounded import read_bounded

FORMAT, VERSION = "excitor-manifest", 2
PROGRAMS, LOGS, MANIFEST = "programs", "logs", "manifest.json"
LARGEST_FILE = 100_000_000  # bytes
_STEPS = 1_000_000_000  # steps of a period in version 1: every time is a whole number of them, near enough
_STEP = 1e-6  # s: of moves there
Time = Annotated[FiniteFloat, Field(ge=0.0, le=1e6)]
Size = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Row = Annotated[list[Size], Field(min_length=1, max_length=MOST_JOINTS)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=10_000)]


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


class _Mark(_Table):
    t: Time
    mark: Annotated[int, Field(ge=-(2**31), lt=2**31)]


class _File(_Table):
    name: Name
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Durations(_Table):
    out: Time
    main: Time
    back: Time


class TorqueGuards(_Table):
    """Guards of a program that commands torques, and what simulated robots did: rad, m, per s, N m, N, s."""

    motion: Literal["unverified motion"]
    limit: Row
    low: Row
    high: Row
    speed: Row
    watchdog: Time
    tube: Annotated[list[Row], Field(min_length=3, max_length=3)]  # lowest and highest positions, and speeds
    robots: Annotated[int, Field(ge=1, le=10**6)]
    spread: Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
    unknown: Annotated[list[Text], Field(max_length=200)] = []  # limits of position and speed that nobody states


class Program(_Table):
    """One program of a manifest: its motion from home to the start, the run itself, and back."""

    name: Name
    run: Name
    role: Literal["identify", "validate", "none"]
    dry: bool
    poses: bool = False  # a first run through poses at reduced speed, of which no log is asked for
    payload_kg: Annotated[FiniteFloat, Field(ge=0.0, le=1e6)] | None
    payload_center_m: Annotated[list[Size], Field(min_length=3, max_length=3)] | None = None  # in the tool's frame
    files: Annotated[list[Name], Field(max_length=100_000)]
    control_steps_s: Annotated[list[Time], Field(max_length=1000)] | None
    durations_s: _Durations
    out: RunForm
    main: RunForm
    back: RunForm
    marks: Annotated[list[_Mark], Field(max_length=2 * MOST_SEGMENTS)]
    torques: TorqueGuards | None = None  # of one that commands torques; `main` is then what the prior does under them


class Manifest(_Table):
    """Description of a folder of programs."""

    format: Literal["excitor-manifest"]
    version: Literal[2]
    excitor: Name
    made_from_sha256: dict[Name, Name]
    go: bool = True  # of the design
    allowed: list[Literal["no-go", "unknown-limits"]] = []
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
    """Read manifest.json; InvalidManifest lists all that is wrong with it."""
    try:
        content = read_bounded(path, LARGEST_FILE)
    except OSError as error:
        raise InvalidManifest(path, [f"cannot be read: {error.strerror or error}"]) from None
    return parse_manifest(content, path)


def parse_manifest(content: bytes | str, path: str | Path = "manifest.json") -> Manifest:
    """Check a manifest's text, as `read_manifest` does."""
    try:
        old = _of_version_1(content.encode() if isinstance(content, str) else content, path)
        return Manifest.model_validate_json(content) if old is None else Manifest.model_validate(old)
    except ValidationError as error:
        found = problems(error)
        listed = [*found[:10], *([f"and {len(found) - 10} problems more"] if len(found) > 10 else [])]
        raise InvalidManifest(path, listed) from None


def _of_version_1(content: bytes, path: str | Path) -> dict[str, Any] | None:
    """Write a manifest of version 1 as one of version 2; None where it is none of version 1."""
    if not re.search(rb'"version"\s*:\s*1\b', content[:1000]):
        return None
    try:
        data = json.loads(content)
        programs = [_program_of_version_1(program, data["joints"]) for program in data["programs"]]
        return {**data, "version": VERSION, "programs": programs}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        sentence = f"is a damaged manifest of version 1 ({type(error).__name__}: {error}); emit the programs again"
        raise InvalidManifest(path, [sentence[:500]]) from None


def _program_of_version_1(old: dict[str, Any], joints: list[str]) -> dict[str, Any]:
    """Write one program's motion in the form of runs."""
    kept = {key: old[key] for key in Program.model_fields if key in old}
    ways = {key: old_moves(joints, _STEP, old[at], old[key]) for key, at in (("out", "home"), ("back", "start"))}
    if old["kind"] == "moves":
        if len(old["moves"]) * old["repeats"] > MOST_SEGMENTS:
            raise ValueError(f"makes more than {MOST_SEGMENTS} moves")
        return {**kept, **ways, "main": old_moves(joints, _STEP, old["start"], old["moves"] * old["repeats"])}
    period, spans = old["series"]["period_s"], {phase["name"]: phase["end"] - phase["start"] for phase in old["phases"]}
    return {**kept, **ways, "main": old_series(joints, period / _STEPS, period, spans, old)}


def expected_of(manifest: Manifest, program: str, path: str | Path = "manifest.json") -> ExpectedMotion:
    """Return the planned joint motion of a program, found by its name."""
    found = [entry for entry in manifest.programs if entry.name == program]
    if len(found) != 1:
        names = ", ".join(entry.name for entry in manifest.programs[:20]) or "none"
        raise InvalidManifest(path, [f"has {len(found)} programs named {program!r}; its programs are {names}"])
    entry, n = found[0], len(manifest.joints)
    if entry.torques is not None:
        raise InvalidManifest(
            path, [f"program {program!r} commands torques; its motion is no plan to align a log with"]
        )
    try:
        _check_sizes(manifest, entry, n)
        made = ExpectedMotion(
            program=entry.name,
            prismatic=np.array([unit == "m" for unit in manifest.units.position]),
            run=read_run(entry.main, "main"),
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
        **{f"axes.matrix[{k + 1}]": row for k, row in enumerate(manifest.axes.matrix)},
    }
    for name, row in rows.items():
        if len(row) != n:
            raise ValueError(f"{name} has {len(row)} entries, expected one for each of {n} joints")
    if entry.main.joints != manifest.joints:
        raise ValueError(f"main.joints are {', '.join(entry.main.joints)}, expected those of the manifest")


def _check_times(entry: Program, made: ExpectedMotion) -> None:
    if abs(entry.durations_s.main - made.run.duration) > 1e-6 * max(1.0, made.run.duration):
        raise ValueError(f"takes {entry.durations_s.main:g} s as durations_s says, its parts {made.run.duration:g} s")
    times = [mark.t for mark in entry.marks]
    if times != sorted(times) or (times and times[-1] > made.run.duration + 1e-6):
        raise ValueError("its marks are not in the order of time, or beyond its end")
    if np.abs(made.run.end - made.run.start).max() > 1e-6:
        raise ValueError("its motion does not end where it begins")
    if not made.moving().any():
        raise ValueError("moves no joint")


def manifests_of(folder: Path) -> dict[str, Path]:
    """Find the manifests of a campaign's folder, by their targets."""
    paths = {target: folder / PROGRAMS / target / MANIFEST for target in registry.TARGETS}
    return {target: path for target, path in paths.items() if path.is_file()}


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """A program's log, with paths from the campaign's folder."""

    program: str  # target/name
    log: str
    role: str
    run: str


def found_logs(folder: Path) -> list[ProgramLog]:
    """List the logs found at their expected paths: logs/TARGET/PROGRAM.*, beside programs/TARGET."""
    found: list[ProgramLog] = []
    for target, manifest in manifests_of(folder).items():
        logs = folder / LOGS / target
        if not logs.is_dir():
            continue
        for entry in read_manifest(manifest).programs:
            if entry.dry or entry.role == "none":
                continue
            logged = sorted(path for path in logs.iterdir() if path.name == entry.name or path.stem == entry.name)
            if len(logged) > 1:
                names = ", ".join(path.name for path in logged)
                raise InvalidLog(str(logs), f"has more than one log of {entry.name}: {names}; keep one of them here")
            found += [
                ProgramLog(f"{target}/{entry.name}", path.relative_to(folder).as_posix(), entry.role, entry.run)
                for path in logged
            ]
    return found


def folder_files(made: Package, inputs: Mapping[str, str]) -> dict[str, bytes]:
    """Encode every file of the folder; the manifest has their digests and those of their inputs."""
    contents = encoded_files(made)
    manifest = manifest_data(made, inputs) | {"files": digests(contents)}
    contents[MANIFEST] = (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode()
    return contents


def digests(contents: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """List files with their SHA-256."""
    return [{"name": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in sorted(contents.items())]


def changed_files(contents: Mapping[str, bytes], made_from: Mapping[str, str]) -> list[str]:
    """Compare a folder's files, and the digests of what they are made from, with what its manifest says."""
    try:
        manifest = parse_manifest(contents.get(MANIFEST, b""))
        others = [name for name, digest in made_from.items() if manifest.made_from_sha256[name] != digest]
    except (InvalidManifest, KeyError):
        return [f"{MANIFEST}: is missing, or no manifest; emit the programs again"]
    listed = {entry.name: entry.sha256 for entry in manifest.files}
    problems = [f"{MANIFEST}: these programs were made from another {name}; emit them again" for name in others]
    found = {entry["name"]: entry["sha256"] for entry in digests(contents) if entry["name"] != MANIFEST}
    problems += [f"{name}: is missing" for name in listed if name not in found]
    problems += [f"{name}: was not written by emit; remove it" for name in found if name not in listed]
    problems += [
        f"{name}: was changed since it was emitted; emit it again"
        for name, digest in found.items()
        if listed.get(name, digest) != digest
    ]
    return problems


def manifest_data(made: Package, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Describe a folder of programs: joints in rad and m, times in s from the start of each program's run."""
    target, plan = made.target, made.plan
    robot, no_go = plan.robot, plan.no_go
    axes = axes_of(robot, target)
    return {
        "format": FORMAT,
        "version": VERSION,
        "excitor": version("excitor"),
        "made_from_sha256": dict(inputs),
        "go": not no_go,
        "allowed": [*["no-go"] * bool(no_go), *["unknown-limits"] * bool(plan.unlimited)],
        "reasons": list(no_go),
        "target": target.name,
        "timing_class": target.timing,
        "approximate": target.approximate,
        "spacing_s": made.spacing or target.spacing,
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "units": {"position": ["m" if slides else "rad" for slides in robot.mechanism.prismatic], "time": "s"},
        "axes": {
            "names": list(axes.names),
            "matrix": axes.matrix.tolist(),
            "zero": axes.zero.tolist(),
            "units_per_rad_or_m": units(robot, target).tolist(),
            "stated_by_the_robot": (target.controller or target.name) in robot.controllers,
        },
        "limits": {
            "position": [[finite(x) for x in pair] for pair in robot.limits.position],
            **{key: [finite(x) for x in getattr(robot.limits, key)] for key in ("velocity", "acceleration", "jerk")},
        },
        "marks": target.marks,
        "identification": target.advice,
        "assumed": target.assumed,
        "programs": [_program_data(program, made) for program in made.programs],
    }


def _program_data(program: EmittedProgram, made: Package) -> dict[str, Any]:
    plan = program.plan
    return {
        "name": program.name,
        **{key: getattr(plan, key) for key in ("run", "role", "dry")},
        "poses": bool(plan.poses),
        "payload_kg": plan.payload,
        **({} if plan.payload_center is None else {"payload_center_m": plan.payload_center.tolist()}),
        "files": sorted(program.files),
        "control_steps_s": list(fitting_steps(plan, made.target)) if made.target.spacing is None else None,
        "durations_s": {name: plan.stretch(name).duration for name in Stretches},
        **{name: run_data(plan.stretch(name)) for name in Stretches},
        "marks": [{"t": t, "mark": mark} for t, mark in marks(plan)],
        **({} if plan.torques is None else {"torques": _guards(plan.torques)}),
    }


def _guards(torques: Torques) -> dict[str, Any]:
    tube = {"tube": [x.tolist() for x in torques.tube], "robots": torques.n_robots, "spread": torques.spread}
    tube |= {"unknown": list(torques.unknown)} if torques.unknown else {}
    return {"motion": UNVERIFIED, **torques.guards, **tube}
