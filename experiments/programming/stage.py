"""`excitor emit` and `excitor verify`: programs are written when they pass, and can be run again at any time."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from excitor.design.programs import registry
from excitor.design.programs.package import MANIFEST, PAGE, Package, digests, folder_files, package, program_names_of
from excitor.design.programs.target import CannotDrive, Target
from excitor.design.programs.verify import Verdict, client_text, verify
from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.designing.file import FILE
from excitor.experiments.files import new_folder, swap
from excitor.experiments.programming.design_file import design_digest
from excitor.experiments.programming.plans import Judged, Planned, plans_of
from excitor.experiments.virtual.formats import refusal
from excitor.robots.errors import ExcitorError

FOLDER = "programs"
NO_GO = "no-go"  # the refusal that can be overridden, by --allow
LARGEST_FILE = 200_000_000  # bytes: no program of ours comes near
Listen = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class Verified:
    """What was found about a target's folder."""

    target: Target
    judged: tuple[Judged, ...]
    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...] = ()  # of the folder as a whole

    @property
    def good(self) -> bool:
        """Whether every program does what it must."""
        return not self.problems and all(verdict.good for verdict in self.verdicts)


@dataclass(frozen=True, eq=False, slots=True)
class Emitted:
    """What became of a target: a folder, or the reason why there is none."""

    name: str
    folder: Path | None
    verified: Verified | None
    refused: str = ""
    asked: bool = True  # by its name, not by "all"
    note: str = ""  # why its logs will not do, if they will not

    @property
    def good(self) -> bool:
        """Whether programs were written, or nobody asked for them and the controller cannot drive the robot."""
        return self.folder is not None or (not self.asked and self.verified is None)


def emit(
    folder: Path,
    targets: Sequence[str],
    *,
    approximate: bool,
    spacing: float | None,
    loss: float,
    listen: Listen,
    motion_only: bool = False,
    allow: Collection[str] = (),
) -> tuple[Planned, list[Emitted]]:
    """Write the programs of a campaign's design for controllers; what fails its own check is not written.

    A no-go design is refused unless `allow` names "no-go"; its pages, programs and manifests then say so.
    Nor is a program whose controller logs neither torques nor currents of this robot that a model could come of,
    unless the campaign declares a log of its own, or motion is all that is wanted.
    """
    names = chosen(targets, approximate)
    unknown = [name for name in allow if name != NO_GO]
    if unknown:
        raise ExcitorError(f"allow: {unknown[0]!r} is no refusal that can be overridden; expected {NO_GO!r}")
    campaign = open_campaign(folder, "design")
    planned = plans_of(campaign, loss)
    if planned.no_go and NO_GO not in allow:
        raise ExcitorError(_refused(campaign, planned.no_go))
    robot = planned.programs[0].plan.robot
    told = {name: "" if campaign.content.log is not None else refusal(name, robot) for name in names}
    made = [
        _emit_one(campaign, planned, name, _spacing(name, spacing, names), listen, "" if motion_only else told[name])
        for name in names
    ]
    return planned, [replace(one, asked=one.name in targets, note=told[one.name] if one.folder else "") for one in made]


def _refused(campaign: OpenCampaign, reasons: Sequence[str]) -> str:
    return (
        f"{campaign.folder / FILE}: the design is a no-go, so no program of it is written: {'; '.join(reasons)}. "
        f"Mend that and run excitor design {campaign.folder} again; or emit it on purpose with --allow {NO_GO}, which "
        "every page, program and manifest will say"
    )


def chosen(targets: Sequence[str], approximate: bool) -> list[str]:
    """List the targets asked for, "all" spelled out; the neutral tables are always among them."""
    names = ["csv"]
    for given in targets:
        names += registry.NAMES if given == "all" else [given]
    names = [
        name for name in dict.fromkeys(names) if name in targets or approximate or not registry.target(name).approximate
    ]
    for name in names:
        if registry.target(name).approximate and not approximate:
            raise ExcitorError(
                f"{name}: its controller takes way-points and only roughly keeps their times, so that the executed "
                "motion is not the designed one; add --approximate if that will do"
            )
    return names


def _spacing(name: str, spacing: float | None, names: Sequence[str]) -> float | None:
    """Take the spacing for tables; a single target that has none refuses it itself."""
    tables = [other for other in names if other != "csv" and registry.target(other).spacing is not None]
    if spacing is None or name == "csv" or (tables and registry.target(name).spacing is None):
        return None
    return spacing


def _emit_one(
    campaign: OpenCampaign, planned: Planned, name: str, spacing: float | None, listen: Listen, useless: str
) -> Emitted:
    emitter = registry.emitter(name)
    try:
        made = package(emitter, [judged.plan for judged in planned.programs], spacing)
    except CannotDrive as error:
        return Emitted(name, None, None, str(error))
    if useless:
        told = f"{useless}; or add --motion-only, if the motion is all that is wanted"
        return Emitted(name, None, None, told)
    verified = _verify(made.target, planned.programs, made.texts, listen)
    default = made.target.spacing
    for closer in [default / 2.0, default / 4.0] if default is not None and spacing is None else []:
        if verified.good:
            break
        listen(f"{name}: points every {closer:g} s, because its check fails with fewer")
        made = package(emitter, [judged.plan for judged in planned.programs], closer)
        verified = _verify(made.target, planned.programs, made.texts, listen)
    if not verified.good:
        return Emitted(name, None, verified, f"{name}: not written, because its own check fails")
    return Emitted(name, _write(campaign, made), verified)


def _write(campaign: OpenCampaign, made: Package) -> Path:
    """Write a target's folder under a temporary name, then put it in the place of the old one."""
    inputs = {"design.json": design_digest(campaign.folder), "campaign": campaign.digest}
    contents = folder_files(made, inputs)
    parent = campaign.folder / FOLDER
    folder = parent / made.target.name
    try:
        parent.mkdir(exist_ok=True)
        temporary = new_folder(folder)
        try:
            for name, content in contents.items():
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            swap(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ExcitorError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return folder


def verify_folder(folder: Path, listen: Listen) -> tuple[Planned, list[Verified]]:
    """Run everything under programs/ against the campaign's design."""
    campaign = open_campaign(folder, "design")
    planned = plans_of(campaign)
    parent = campaign.folder / FOLDER
    names = [name for name in registry.NAMES if (parent / name).is_dir()]
    if not names:
        raise ExcitorError(f"{parent}: has no programs; run excitor emit {folder} --target NAME first")
    strangers = sorted(p.name for p in parent.iterdir() if p.name not in registry.NAMES and not p.name.startswith("."))
    for name in strangers:
        listen(f"note: {parent / name} is no target of ours; it was not looked at")
    return planned, [_verify_one(campaign, planned, name, listen) for name in names]


def _verify_one(campaign: OpenCampaign, planned: Planned, name: str, listen: Listen) -> Verified:
    folder = campaign.folder / FOLDER / name
    target = registry.target(name)
    contents = _contents(folder)
    problems = _folder_problems(campaign, target, contents)
    texts: dict[str, str] = {}
    for file, content in contents.items():
        if file in (MANIFEST, PAGE):
            continue
        try:
            texts[file] = content.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append(f"{file}: byte {error.start} is no text")
    verified = _verify(target, planned.programs, texts, listen)
    return Verified(target, verified.judged, verified.verdicts, tuple(problems))


def _verify(target: Target, programs: Sequence[Judged], texts: Mapping[str, str], listen: Listen) -> Verified:
    executor = registry.executor(target.name)
    names = program_names_of([judged.plan for judged in programs], target)
    verdicts = []
    for name, judged in zip(names, programs, strict=True):
        listen(f"running {target.name}/{name}")
        own = own_files(texts, name, names, target)
        verdicts.append(verify(judged.plan, target, executor, files=own, name=name, judge=judged.judge))
    return Verified(target, tuple(programs), tuple(verdicts))


def own_files(texts: Mapping[str, str], name: str, names: Sequence[str], target: Target) -> dict[str, str]:
    """Pick a program's files, which begin with its name and with no longer program's, and the shared ones."""
    longer = [other for other in names if other != name and other.startswith(name)]
    return {
        file: text
        for file, text in texts.items()
        if file in target.clients or (file.startswith(name) and not any(file.startswith(other) for other in longer))
    }


def _contents(folder: Path) -> dict[str, bytes]:
    """Read a folder's files; links that lead out of it are refused."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise ExcitorError(f"{path}: leads out of the folder, or is no file; remove it")
        if path.stat().st_size > LARGEST_FILE:
            raise ExcitorError(f"{path}: has {path.stat().st_size / 1e6:.0f} MB; no program is that long")
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def stale_programs(campaign: OpenCampaign, name: str) -> list[str]:
    """Say why a target's folder is not what emit would write of the campaign now; nothing where it is."""
    folder = campaign.folder / FOLDER / name
    if not folder.is_dir():
        return [f"{folder}: has no programs; run excitor emit {campaign.folder} --target {name} first"]
    return _folder_problems(campaign, registry.target(name), _contents(folder))


def _folder_problems(campaign: OpenCampaign, target: Target, contents: Mapping[str, bytes]) -> list[str]:
    return [*_manifest_problems(campaign, contents), *_client_problems(target, contents)]


def _manifest_problems(campaign: OpenCampaign, contents: Mapping[str, bytes]) -> list[str]:
    """Compare the files with what the manifest says was written, and from what."""
    try:
        data: dict[str, Any] = json.loads(contents.get(MANIFEST, b"").decode("utf-8"))
        listed = {str(entry["name"]): str(entry["sha256"]) for entry in data["files"]}
        made_from = str(data["made_from_sha256"]["design.json"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return [f"{MANIFEST}: is missing, or no manifest; emit the programs again"]
    problems = []
    if made_from != design_digest(campaign.folder):
        problems.append(f"{MANIFEST}: these programs were made from another design.json; emit them again")
    found = {
        entry["name"]: entry["sha256"]
        for entry in digests({name: content for name, content in contents.items() if name != MANIFEST})
    }
    problems += [f"{name}: is missing" for name in listed if name not in found]
    problems += [f"{name}: was not written by emit; remove it" for name in found if name not in listed]
    problems += [
        f"{name}: was changed since it was emitted; emit it again"
        for name, digest in found.items()
        if listed.get(name, digest) != digest
    ]
    return problems


def _client_problems(target: Target, contents: Mapping[str, bytes]) -> list[str]:
    """Clients are given out as they stand here; a changed one is never run, and must not be."""
    return [
        f"{client}: is not the client that this version gives out; emit the programs again"
        for client in target.clients
        if contents.get(client) != client_text(client).encode()
    ]
