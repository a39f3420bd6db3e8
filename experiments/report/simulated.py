"""Which logs are of a virtual robot? Those that a simulation says it wrote, by their digests."""

import hashlib
import json
from pathlib import Path
from typing import Any

from excitor.experiments.campaign import OpenCampaign, inside
from excitor.experiments.simulating.folder import FOLDER, MARK
from excitor.identify.logs.read import log_files

LARGEST = 4_000_000  # bytes of a simulated.json


def simulated_runs(campaign: OpenCampaign) -> list[dict[str, Any]]:
    """List the runs whose logs are simulated, with target, seed and faults."""
    found = []
    for run in campaign.content.run:
        target = "" if run.program is None else run.program.partition("/")[0]
        mark = _mark(campaign.folder, target) if target else {}
        files = {_digest(path) for path in log_files(campaign.folder / run.log)} if mark else set()
        if files and files <= _written(mark):
            faults = mark.get("faults")
            found.append(
                {
                    "run": run.name,
                    "target": target,
                    "seed": mark.get("seed") if isinstance(mark.get("seed"), int) else None,
                    "faults": [_fault(fault) for fault in faults] if isinstance(faults, list) else [],
                }
            )
    return found


def _mark(folder: Path, target: str) -> dict[str, Any]:
    """Read what a simulation says of its logs; nothing where it says nothing readable."""
    path = folder / FOLDER / target / MARK
    try:
        if not inside(folder, f"{FOLDER}/{target}/{MARK}") or path.stat().st_size > LARGEST:
            return {}
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(fault: Any) -> str:
    """Say what was wrong on purpose, and with which joints."""
    if not isinstance(fault, dict):
        return str(fault)
    joints = fault.get("joints")
    where = f" ({', '.join(map(str, joints))})" if isinstance(joints, list) and joints else ""
    return f"{fault.get('sentence', '')}{where}"


def _written(mark: dict[str, Any]) -> set[str]:
    """Collect the digests of all files that it wrote."""
    try:
        return {str(file["sha256"]) for run in mark["programs"] for file in run["files"]}
    except (KeyError, TypeError):
        return set()
