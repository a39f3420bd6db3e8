"""Arms of a fleet: found in a tree of campaign folders or a table, each identified from its logs alone."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.experiments.campaign import FILE as CAMPAIGN
from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.fleet.dataset import Row, row
from excitor.experiments.identification import file_digests, fresh_model, identify, model_of, write_model
from excitor.experiments.model import Model
from excitor.experiments.report.parameters import part_of
from excitor.robots.arrays import finite, one_blas_thread
from excitor.robots.errors import ExcitorError
from excitor.robots.files.folders import ALLOW, allow_folder, inside

if TYPE_CHECKING:
    import pandas as pd

REPORTS = "arms"  # folder of the models and reports of a table's arms
REPORT = "report.html"
_LARGEST = 200_000_000  # bytes of a table
_COLUMNS = ("arm", "folder", "log", "run", "temperature_c", "warm_up_minutes", "measured")
_NAME = re.compile(r"[\w][\w. ()+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm and where its logs are."""

    name: str
    folder: Path  # of the campaign.toml
    output: Path  # where its model and its report go
    logs: tuple[tuple[str, str], ...] = ()  # run and log of a table; none: those of the campaign
    temperature_c: float | None = None
    warm_up_minutes: float | None = None
    measured: str = ""  # none: the time of the newest log


@dataclass(frozen=True, slots=True)
class ArmTask:
    """What a worker needs to identify an arm."""

    arm: Arm
    known: frozenset[str]  # digests of inputs whose results are in the dataset
    reports: bool
    allowed: tuple[Path, ...] = ()


def find_arms(root: Path, out: Path) -> list[Arm]:
    """List the arms of a tree of campaign folders, or of a table; ExcitorError where there are none."""
    if root.is_file():
        return read_table(root, out)
    if not root.is_dir():
        raise ExcitorError(f"{root}: is neither a folder nor a table (.csv, .parquet) of arms")
    found = []
    for place, folders, names in os.walk(root):
        if CAMPAIGN in names:
            folder = Path(place)
            found.append(Arm(folder.relative_to(root).as_posix() if folder != root else root.name, folder, folder))
            folders.clear()
        folders[:] = sorted(name for name in folders if name[0] != "." and Path(place, name) != out)
    if not found:
        raise ExcitorError(
            f"{root}: holds no folder with a {CAMPAIGN}; begin one with: excitor init {root / 'ARM'} --robot NAME, or "
            "name a table of arms and logs"
        )
    return sorted(found, key=lambda arm: arm.name)


def read_table(path: Path, out: Path) -> list[Arm]:
    """Read a table of arms: a row an arm with its `folder`, or a row a log, of the campaign.toml beside the table."""
    table = _table(path)
    columns = [str(name) for name in table.columns]
    if "arm" not in columns or not {"folder", "log"} & set(columns):
        missing = "arm" if "arm" not in columns else "folder or log"
        named = ", ".join(f"{name:.40}" for name in columns[:20])
        raise ExcitorError(
            f"{path}: has no column {missing}; its columns are {named or 'none'}, expected are arm, "
            f"log (of the {CAMPAIGN} beside the table) or folder, and at will {', '.join(_COLUMNS[3:])}"
        )
    rows: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for k, given in enumerate(table.to_dict("records"), start=2):
        entry = {key: str(given.get(key, "")).strip() for key in _COLUMNS}
        if not _NAME.fullmatch(entry["arm"]):
            raise ExcitorError(
                f"{path}: line {k}: arm is {entry['arm'][:80]!r}, expected a name that a folder can have"
            )
        rows.setdefault(entry["arm"], []).append((k, entry))
    if not rows:
        raise ExcitorError(f"{path}: has no rows; expected one an arm, or one a log")
    return [_arm(path, name, rows[name], out) for name in sorted(rows)]


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        if path.stat().st_size > _LARGEST:
            raise ExcitorError(f"{path}: is larger than {_LARGEST / 1e6:g} MB, which no table of arms is")
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path).astype(object).fillna("")
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except ImportError:
        raise ExcitorError(f"{path}: reading Parquet needs pyarrow: pip install 'excitor[parquet]'") from None
    except (OSError, ValueError) as error:
        raise ExcitorError(f"{path}: is no table that can be read: {str(error)[:200]}") from None


def _arm(path: Path, name: str, rows: Sequence[tuple[int, dict[str, str]]], out: Path) -> Arm:
    line, first = rows[0]
    for k, entry in rows:
        for key in ("folder", "log"):
            if entry[key] and not inside(path.parent, entry[key]):
                raise ExcitorError(f"{path}: line {k}: {key}: {entry[key]!r} leaves the folder of the table{ALLOW}")
        if bool(entry["log"]) == bool(entry["folder"]) or (entry["folder"] and len(rows) > 1):
            raise ExcitorError(f"{path}: line {k}: expected the folder of {name!r} once, or each of its logs")
    numbers = {key: _number(path, line, key, first[key]) for key in ("temperature_c", "warm_up_minutes")}
    known: dict[str, Any] = {**numbers, "measured": _instant(path, line, first["measured"])}
    if first["folder"]:
        folder = path.parent / first["folder"]
        return Arm(name, folder, folder, **known)
    return Arm(name, path.parent, out / REPORTS / name, tuple((one["run"], one["log"]) for _, one in rows), **known)


def _number(path: Path, line: int, key: str, text: str) -> float | None:
    number = finite(text)
    if text and number is None:
        raise ExcitorError(f"{path}: line {line}: {key} is {text[:80]!r}, expected a number")
    return number


def _instant(path: Path, line: int, text: str) -> str:
    if not text:
        return ""
    try:
        return _utc(datetime.fromisoformat(text))
    except ValueError:
        raise ExcitorError(
            f"{path}: line {line}: measured is {text[:80]!r}, expected a time such as 2026-05-01 or 2026-05-01T14:30"
        ) from None


def _utc(instant: datetime) -> str:
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="seconds")


def identify_arm(task: ArmTask) -> Row | None:
    """Identify an arm, unless its inputs are known; None where they are.

    What cannot be identified is a row with the reason. It has no `inputs` where these could not be read or results
    could not be written: such a row is of this moment, and is not kept.
    """
    arm = task.arm
    with ExitStack() as stack:
        stack.enter_context(one_blas_thread())
        for folder in task.allowed:
            stack.enter_context(allow_folder(folder))
        try:
            campaign = _campaign(arm)
            files = file_digests(campaign)
        except (ExcitorError, OSError) as error:
            return row(arm=arm.name, status="refused", reason=_sentence(error))
        head = _head(arm, campaign, files)
        if head["inputs"] in task.known:
            return None
        try:
            model, found = _model(arm, campaign)
        except (ExcitorError, ValueError, OSError) as error:
            return row(**head, status="refused", reason=_sentence(error))
        try:
            _write(task, campaign, model, found)
        except (ExcitorError, OSError) as error:
            return row(arm=arm.name, status="refused", reason=_sentence(error))
    return row(**head, **_results(model))


def _sentence(error: Exception) -> str:
    return "; ".join(str(error).splitlines())[:1000]


def _campaign(arm: Arm) -> OpenCampaign:
    campaign = open_campaign(arm.folder)
    if campaign.content.task != "arm":
        raise ExcitorError(f"{arm.folder / CAMPAIGN}: task is {campaign.content.task!r}; a fleet compares arms")
    if not arm.logs:
        return campaign
    runs, named = list(campaign.content.run), {run.name: run for run in campaign.content.run}
    taken = []
    for k, (name, log) in enumerate(arm.logs):
        run = named.get(name) if name else runs[k] if k < len(runs) else None
        if run is None:
            raise ExcitorError(
                f"{arm.folder / CAMPAIGN}: has no [[run]] {name or k + 1!r}, which the table's log {log!r} is of; its "
                f"runs are {', '.join(named) or 'none'}"
            )
        taken.append(run.model_copy(update={"log": log}))
    return replace(campaign, content=campaign.content.model_copy(update={"run": taken}))


def _head(arm: Arm, campaign: OpenCampaign, files: dict[str, str]) -> Row:
    """Collect what a row says of the inputs: their digests, and the conditions that friction depends on."""
    planned = campaign.content.design
    stated = planned is not None and "warm_up_minutes" in planned.model_fields_set
    warm_up = planned.warm_up_minutes if planned is not None and stated else None
    conditions = {
        "temperature_c": arm.temperature_c,
        "warm_up_minutes": warm_up if arm.warm_up_minutes is None else arm.warm_up_minutes,
    }
    runs = [[run.name, run.log] for run in campaign.content.run]
    content = json.dumps([files, conditions, arm.measured, runs], sort_keys=True)
    return {
        "arm": arm.name,
        "robot": campaign.robot.name,
        "inputs": hashlib.sha256(content.encode()).hexdigest(),
        "files": json.dumps(files, sort_keys=True),
        "measured": arm.measured or _newest(campaign),
        **conditions,
    }


def _newest(campaign: OpenCampaign) -> str:
    times = [(campaign.folder / run.log).stat().st_mtime for run in campaign.content.run]
    return _utc(datetime.fromtimestamp(max(times, default=0.0), UTC))


def _model(arm: Arm, campaign: OpenCampaign) -> tuple[Model, Any]:
    """Take the model on file where it is fresh, else identify."""
    if not arm.logs and (model := fresh_model(campaign)[0]) is not None:
        return model, None
    found = identify(campaign)
    return model_of(found), found


def _write(task: ArmTask, campaign: OpenCampaign, model: Model, found: Any) -> None:
    arm = task.arm
    arm.output.mkdir(parents=True, exist_ok=True)
    if found is not None and arm.logs:
        model.save(arm.output)
    elif found is not None:
        write_model(found)
    if task.reports and (found is not None or not (arm.output / REPORT).exists()):
        from excitor.experiments.report.data import report_data, write_data

        write_data(arm.output, report_data(found or identify(campaign)) | {"name": arm.name})


def _results(model: Model) -> Row:
    robot, verdict = model.own_robot(), model.verdict or {}
    forms = [[] if one.get("as_stated") else one.get("terms") for one in (model.friction or {}).get("joints", ())]
    friction = [part_of(robot, name) == "friction" for name in model.names]
    columns = json.dumps([model.robot_name, model.names, model.units, model.regroupings, forms])
    covariance = np.empty(0) if model.covariance is None else model.covariance.ravel()
    standard = model.standard
    return {
        "columns": hashlib.sha256(columns.encode()).hexdigest()[:16],
        "status": "identified",
        "usable": verdict.get("go"),
        "headline": str(verdict.get("headline", "")),
        "error": finite(model.error),
        "method": model.method,
        "excitor": str(model.provenance.get("excitor", "")),
        **{key: list(getattr(model, key)) for key in ("names", "units", "regroupings")},
        **{key: getattr(model, key).tolist() for key in ("values", "sigma", "low", "high")},
        "friction": friction,
        "covariance": covariance.tolist(),
        "standard_names": [] if standard is None else list(standard.names),
        "standard_units": [] if standard is None else list(standard.units),
        "standard_values": [] if standard is None else standard.values.tolist(),
    }
