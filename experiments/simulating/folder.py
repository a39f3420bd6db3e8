"""Where simulated logs go: logs/<target>/, whole or not at all, and never over what a robot recorded."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from excitor.experiments.campaign import inside
from excitor.experiments.files import new_folder, swap
from excitor.robots.errors import ExcitorError

FOLDER, MARK = "logs", "simulated.json"
FORMAT = {"format": "excitor-simulated", "version": 1}


def check_free(campaign: Path, target: str, fresh: bool) -> None:
    """Refuse to write where logs are, unless they are simulated ones, unchanged, and new ones are asked for."""
    place = campaign / FOLDER / target
    if not inside(campaign, f"{FOLDER}/{target}"):
        raise ExcitorError(f"{place}: leads out of the campaign's folder; remove the link")
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    real = _not_simulated(place)
    if real:
        raise ExcitorError(
            f"{place}: holds {real}, which no simulation wrote; move it elsewhere, so that it is not lost"
        )
    if not fresh:
        raise ExcitorError(f"{place}: has simulated logs already; add --fresh to replace them")


@contextmanager
def new_logs(campaign: Path, target: str) -> Iterator[Path]:
    """Give an empty folder to write to, which takes the target's place when all went well."""
    parent = campaign / FOLDER
    place = parent / target
    temporary = None
    try:
        parent.mkdir(exist_ok=True)
        temporary = new_folder(place)
        yield temporary
        swap(temporary, place)
    except OSError as error:
        raise ExcitorError(f"{place}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def digests(folder: Path, paths: list[Path]) -> list[dict[str, str]]:
    """List files, those in folders too, with their SHA-256."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [
        {"name": file.relative_to(folder).as_posix(), "sha256": _digest(file)} for file in files if not file.is_dir()
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_simulated(place: Path) -> str:
    """Name a file that is not as simulated.json says a simulation wrote it; empty where all are."""
    if not place.is_dir():
        return place.name
    listed = {MARK: ""} | _listed(place)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or name not in listed or (name != MARK and _digest(path) != listed[name]):
            return name
    return ""


def _listed(place: Path) -> dict[str, str]:
    try:
        data: dict[str, Any] = json.loads((place / MARK).read_text("utf-8"))
        return {str(file["name"]): str(file["sha256"]) for run in data["programs"] for file in run["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
