"""State of a campaign's folder: results of each stage, outdated ones, and the next step."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from excitor.design.programs import registry
from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.design_json import design_digest, read_design
from excitor.experiments.files import LARGEST, typed
from excitor.experiments.manifest import LOGS, MANIFEST, PROGRAMS, InvalidManifest, found_logs, read_manifest
from excitor.experiments.model import FILE as MODEL
from excitor.robots.errors import ExcitorError
from excitor.robots.files.bounded import read_bounded


@dataclass(frozen=True, slots=True)
class Stage:
    """State of one result of a stage."""

    name: str
    state: str  # "missing", "up to date", "stale", "unusable"
    reason: str = ""
    remedy: str = ""  # the command that mends it


def status(folder: Path) -> list[Stage]:
    """Check every stage in the order in which they are run."""
    campaign = open_campaign(folder, "design")
    folder = campaign.folder
    content, stages = campaign.content, [_logs(campaign)]
    planned = any((folder / name).exists() for name in (DESIGN, PROGRAMS)) or any(run.program for run in content.run)
    if planned or not content.run:  # else its runs are logs that there are
        design = _design(campaign)
        stages = [design, *_programs(campaign, design.state == "up to date"), *stages]
    prior = folder / content.prior if content.task == "payload" and content.prior is not None else None
    gains = content.task == "gains"
    for name, remedy in (("gains.json", "gains"),) if gains else ((MODEL, "identify"), ("report.json", "report")):
        stages.append(_judged(folder, made_from_files(folder, name, f"excitor {remedy} {folder}", prior)))
    if (folder / "compare.json").exists():  # comparing is optional
        stages.append(made_from_files(folder, "compare.json", f"excitor compare {typed(folder)}", prior))
    return stages


def advice(stages: list[Stage]) -> str:
    """Return the next step: the first stage that is missing or outdated."""
    wanting = [stage for stage in stages if stage.state != "up to date" and stage.remedy]
    return f"next: {wanting[0].remedy}" if wanting else "everything is up to date"


def status_data(stages: list[Stage]) -> dict[str, Any]:
    """Write it for scripts."""
    return {"stages": [asdict(stage) for stage in stages], "next": advice(stages)}


def _design(campaign: OpenCampaign) -> Stage:
    remedy = f"excitor design {typed(campaign.folder)}"
    if not (campaign.folder / DESIGN).exists():
        return Stage(DESIGN, "missing", remedy=remedy)
    try:
        data = read_design(campaign.folder)
    except ExcitorError as error:
        return Stage(DESIGN, "unusable", str(error), remedy)
    made_from = data.get("provenance", {}).get("inputs_sha256")
    if made_from != campaign.digest:
        return Stage(DESIGN, "stale", "campaign.toml or the robot has changed since", remedy)
    if data.get("ready") is not True:
        return Stage(DESIGN, "unusable", "not every limit is proven to hold", remedy)
    if data.get("finished") is not True:
        return Stage(DESIGN, "stale", "its search was interrupted", remedy)
    return Stage(DESIGN, "up to date", "" if data.get("go") else "no-go: see plan.html for the reasons")


def _programs(campaign: OpenCampaign, current: bool) -> Iterator[Stage]:
    folder = campaign.folder
    emitted = [name for name in registry.TARGETS if (folder / PROGRAMS / name).is_dir()]
    if not emitted:
        yield Stage(PROGRAMS, "missing", remedy=f"excitor emit {typed(folder)} --target NAME")
    for name in emitted:
        where, remedy = f"{PROGRAMS}/{name}", f"excitor emit {typed(folder)} --target {name}"
        try:
            made_from = read_manifest(folder / PROGRAMS / name / MANIFEST).made_from_sha256[DESIGN]
        except (InvalidManifest, KeyError):
            yield Stage(where, "unusable", "its manifest.json is missing, or no manifest", remedy)
            continue
        if not (folder / DESIGN).exists() or made_from != design_digest(folder):
            yield Stage(where, "stale", f"{DESIGN} has changed since", remedy)
        elif not current:
            yield Stage(where, "stale", f"{DESIGN} is not up to date itself", remedy)
        else:
            yield Stage(where, "up to date")


def _logs(campaign: OpenCampaign) -> Stage:
    folder = campaign.folder
    try:
        found = [log.log for log in found_logs(folder)] or [run.log for run in campaign.content.run]
    except ExcitorError as error:
        return Stage(LOGS, "unusable", str(error))
    missing = [name for name in found if not (folder / name).exists()]
    if missing:
        return Stage(LOGS, "missing", f"{', '.join(missing[:5])} not there")
    if not found:
        return Stage(LOGS, "missing", "put recordings at logs/TARGET/PROGRAM.*, or name them in campaign.toml")
    return Stage(LOGS, "up to date", f"{len(found)} of them")


def _judged(folder: Path, stage: Stage) -> Stage:
    """Add the verdict on the model, as model.json and report.json hold it."""
    if stage.state != "up to date":
        return stage
    verdict = json.loads(read_bounded(folder / stage.name, LARGEST)).get("verdict")
    headline = verdict.get("headline") if isinstance(verdict, dict) else None
    return replace(stage, reason=str(headline)) if headline else stage


def made_from_files(folder: Path, name: str, remedy: str, prior: Path | None) -> Stage:
    """Compare the digests of a file's inputs with the inputs' present ones."""
    try:
        data = json.loads(read_bounded(folder / name, LARGEST))
        provenance = data["provenance"]["sha256"]
        listed = {str(file): str(digest) for file, digest in provenance.items()}
    except FileNotFoundError:
        return Stage(name, "missing", remedy=remedy)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Stage(name, "unusable", "does not state what it was made from", remedy)
    changed = [file for file, digest in listed.items() if _digest(folder, file) != digest]
    recorded = data["provenance"].get("prior_sha256")  # of a payload's arm, whose model may be in another folder
    if prior is not None and recorded is not None and _digest(prior.resolve().parent, prior.resolve().name) != recorded:
        changed.append(prior.name + " of the arm")
    if changed:
        return Stage(name, "stale", f"{', '.join(changed[:3])} changed since", remedy)
    return Stage(name, "up to date")


def _digest(folder: Path, file: str) -> str:
    """Compute the digest of a file in the folder; nothing outside of it is opened."""
    path = folder / file
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        return ""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
