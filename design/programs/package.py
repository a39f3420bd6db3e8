"""All files of a target's folder: programs, clients, an operator's page and a manifest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from excitor.design.programs.manifest import manifest_data
from excitor.design.programs.operator import operator_page
from excitor.design.programs.plan import Plan
from excitor.design.programs.run_file import run_json
from excitor.design.programs.target import CannotDrive, Emitter, Target, check
from excitor.design.programs.verify import client_text
from excitor.design.programs.words import program_names

MANIFEST, PAGE = "manifest.json", "README.md"
DRY = "_dry"


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """One program and its files."""

    name: str
    plan: Plan
    files: Mapping[str, str]


@dataclass(frozen=True, eq=False, slots=True)
class Package:
    """Everything for one controller."""

    target: Target
    programs: tuple[Program, ...]
    shared: Mapping[str, str]  # clients
    spacing: float | None

    @property
    def texts(self) -> dict[str, str]:
        """All files but the page and the manifest, by name."""
        return {name: text for program in self.programs for name, text in program.files.items()} | dict(self.shared)


def package(emitter: Emitter, plans: Sequence[Plan], spacing: float | None = None) -> Package:
    """Write the programs of all plans for one controller; CannotDrive says what it cannot do."""
    target = emitter.TARGET
    if spacing is not None and target.spacing is None:
        raise CannotDrive(f"{target.name}: evaluates the motion at every control step; --spacing does not apply to it")
    names = program_names_of(plans, target)
    programs = []
    for plan, name in zip(plans, names, strict=True):
        check(plan, target)
        files = dict(emitter.emit(plan, name, spacing))
        if target.clients:
            files.setdefault(f"{name}.json", run_json(plan, target))
        programs.append(Program(name, plan, files))
    shared = {client: client_text(client) for client in target.clients}
    return Package(target, tuple(programs), shared, spacing)


def program_names_of(plans: Sequence[Plan], target: Target) -> list[str]:
    """Name programs after their runs; a dry run bears its run's name and `_dry`."""
    runs = list(dict.fromkeys(plan.run for plan in plans))
    named = dict(zip(runs, program_names(runs, target), strict=True))
    return [named[plan.run] + (DRY if plan.dry else "") for plan in plans]


def folder_files(made: Package, inputs: Mapping[str, str]) -> dict[str, bytes]:
    """Encode every file of the folder; the manifest has their digests and those of what they were made from."""
    contents = {name: text.encode(_encoding(made.target, name)) for name, text in made.texts.items()}
    contents[PAGE] = operator_page(made).encode()
    manifest = manifest_data(made, inputs) | {"files": digests(contents)}
    contents[MANIFEST] = (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode()
    return contents


def digests(contents: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """List files with their SHA-256."""
    return [{"name": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in sorted(contents.items())]


def _encoding(target: Target, name: str) -> str:
    return "utf-8" if name.endswith((".json", ".py", ".csv")) else target.encoding
