"""`excitor fleet`: identify what is new, compare each arm with its type and with its last time, write the page."""

import json
import math
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import scipy.stats

from excitor.experiments.files import write_atomically
from excitor.experiments.fleet.arms import REPORT, Arm, ArmTask, find_arms, identify_arm
from excitor.experiments.fleet.dataset import Row, locked, read_rows, row, write_rows
from excitor.experiments.fleet.type_model import (
    FALSE_ALARMS,
    FEWEST,
    ArmScores,
    ArmValues,
    TypeModel,
    fit_type,
    unit_deviations,
)
from excitor.experiments.model import Model, Standard
from excitor.experiments.report.html import page
from excitor.robots.arrays import BoolArray, FloatArray, finite
from excitor.robots.executor import Lost, open_executor, run_tasks
from excitor.robots.files.folders import allowed_folders

FOLDER = "fleet"
PAGE, DATA = "fleet.html", "fleet.json"
SCHEMA = 1
_BATCH, _SECONDS = 64, 10.0  # a part is written after so many arms or so long, whichever is first
_KELVIN, _MINUTES, _SHARE = 3.0, 2.0, 0.2  # conditions of friction that count as equal
_BINS = 24
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Where results go, who works, and the false-alarm rate an arm."""

    out: str | PathLike[str] | None = None  # none: fleet/ in the tree, or beside the table
    workers: int = 1
    cluster: Any = None  # a scheduler's address or a dask client
    false_alarms: float = FALSE_ALARMS
    reports: bool = False  # write each newly identified arm's report.html


@dataclass(frozen=True, eq=False, slots=True)
class Fleet:
    """Results of a fleet: `data` as in fleet.json, the rows of the dataset, and the page."""

    data: Mapping[str, Any]
    rows: Sequence[Row]
    page: Path

    def __repr__(self) -> str:
        """Return the verdict in one line."""
        return f"Fleet({self.data['verdict']})"


def fleet(root: str | PathLike[str], tell: Tell = lambda _: None, **options: Any) -> Fleet:
    """Identify the arms of a tree of campaign folders or of a table, and compare each with its type and its past.

    Args:
        root: folder of campaign folders, or a table (CSV, Parquet) of arms and their logs.
        tell: called with a sentence for each step.
        options: those of FleetOptions: out, workers, cluster, false_alarms, reports.

    >>> import excitor as ex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ex.fleet(folder)
    Traceback (most recent call last):
    ...
    excitor.robots.errors.ExcitorError: ...
    """
    given, place = FleetOptions(**options), Path(root)
    if not 0.0 < given.false_alarms < 0.5:
        raise ValueError(f"false_alarms is {given.false_alarms}, expected a rate an arm between 0 and 0.5")
    folder = Path(given.out) if given.out is not None else (place if place.is_dir() else place.parent) / FOLDER
    arms = find_arms(place, folder)
    with locked(folder):
        passing = identify_arms(arms, folder, given, tell)
        rows = read_rows(folder)
        data, models = evaluate([*rows, *passing], given.false_alarms)
        for name, model in models.items():
            tell(f"wrote {model.save(folder / name)}")
        write_atomically(folder / DATA, json.dumps(data, indent=1, allow_nan=False) + "\n")
        outputs = {arm.name: arm.output for arm in arms}
        write_atomically(folder / PAGE, fleet_page(data, {name: _link(folder, p) for name, p in outputs.items()}))
        tell(f"wrote {folder / PAGE}")
    return Fleet(data, rows, folder / PAGE)


def identify_arms(arms: Sequence[Arm], folder: Path, given: FleetOptions, tell: Tell) -> list[Row]:
    """Identify arms whose inputs are not in the dataset, adding parts as they come; return what is not kept."""
    known = defaultdict(set)
    for one in read_rows(folder):
        known[one["arm"]].add(one["inputs"])
    tasks = [ArmTask(arm, frozenset(known[arm.name]), given.reports, allowed_folders()) for arm in arms]
    passing: list[Row] = []
    batch: list[Row] = []
    written, unchanged = time.monotonic(), 0
    with (
        open_executor(given.workers, given.cluster) as executor,
        closing(run_tasks(identify_arm, tasks, executor)) as done,
    ):
        for note in executor.notes:
            tell(f"note: {note}")
        for number, (k, found) in enumerate(done, start=1):
            if isinstance(found, Lost):
                found = row(arm=arms[k].name, status="refused", reason=found.reason)
            unchanged += found is None
            if found is not None:
                (batch if found["inputs"] else passing).append(found)
                tell(f"{number} of {len(arms)}: {found['arm']}: {found['reason'] or found['headline']}")
            if batch and (len(batch) >= _BATCH or time.monotonic() - written > _SECONDS):
                write_rows(folder, batch)
                batch, written = [], time.monotonic()
    if batch:
        write_rows(folder, batch)
    tell(f"{len(arms)} arms: {unchanged} as before, {len(arms) - unchanged} looked at anew")
    return sorted(passing, key=lambda one: str(one["arm"]))


def evaluate(rows: Sequence[Row], false_alarms: float) -> tuple[dict[str, Any], dict[str, Model]]:
    """Compare the latest result of each arm with its type, and with the one before: fleet.json and type models."""
    history: dict[str, list[Row]] = defaultdict(list)
    for one in rows:
        history[one["arm"]].append(one)
    latest = {name: found[-1] for name, found in sorted(history.items())}
    entries = {name: _entry(one) for name, one in latest.items()}
    types, models = [], {}
    for robot in sorted({one["robot"] for one in latest.values() if one["status"] == "identified"}):
        members = [one for one in latest.values() if one["robot"] == robot and one["status"] == "identified"]
        described, model = _evaluate_type(robot, members, entries, false_alarms)
        types.append(described)
        if model is not None:
            models[f"type-{re.sub(r'[^A-Za-z0-9_.-]', '_', robot)}.json"] = model
    _find_copies(latest, entries)
    _find_drift(history, entries, false_alarms)
    for name, entry in entries.items():
        entry["sentences"] = [f"{name}: {sentence}" for sentence in entry["sentences"]]
    counts = Counter(entry["verdict"] for entry in entries.values())
    found = {"schema": SCHEMA, "verdict": _headline(counts, len(entries)), "false_alarms_an_arm": false_alarms}
    return found | {"counts": dict(sorted(counts.items())), "types": types, "arms": [*entries.values()]}, models


def _entry(one: Row) -> dict[str, Any]:
    refused, unusable = one["status"] == "refused", one["usable"] is False
    sentences = [f"not identified: {one['reason']}"] if refused else [one["headline"]] if unusable else []
    verdict = "refused" if refused else "unusable" if unusable else "not compared"
    same = {key: one[key] for key in ("arm", "robot", "measured", "temperature_c", "warm_up_minutes")}
    same |= {"error": finite(one["error"]), "kept": bool(one["inputs"])}
    return same | {"verdict": verdict, "parameter": None, "sigmas": None, "sentences": sentences}


def _headline(counts: Mapping[str, int], total: int) -> str:
    words = {"outlier": "not of their type", "drift": "changed since last time", "unusable": "without a usable model"}
    words |= {"refused": "not identified", "not compared": "not compared"}
    found = [f"{counts[key]} {said}" for key, said in words.items() if counts.get(key)]
    return f"{total} arms: {', '.join(found) or 'all like their type'}"


def _evaluate_type(
    robot: str, members: Sequence[Row], entries: dict[str, dict[str, Any]], false_alarms: float
) -> tuple[dict[str, Any], Model | None]:
    """Fit a type's model to its usable arms, and judge each; too few arms are not compared, and that is reported."""
    usable = [one for one in members if one["usable"] is not False]
    described: dict[str, Any] = {"robot": robot, "arms": len(members), "parameters": [], "notes": []}
    if len(usable) < FEWEST:
        described["notes"].append(f"{len(usable)} usable arms; a type's model is made of {FEWEST} or more")
        return described, None
    key = Counter(one["columns"] for one in usable).most_common(1)[0][0]
    like = next(one for one in usable if one["columns"] == key)
    condition, equal = _equal_conditions(usable)
    described["notes"] += _notes(usable, key, condition, equal)
    arms = arm_values(usable, like, equal)
    model, scores = fit_type(arms, false_alarms)
    shrunk = unit_deviations(model, arms)
    for k, one in enumerate(usable):
        _judge(entries[one["arm"]], like["names"], scores, k)
        j = scores.worst(k)
        entries[one["arm"]]["shrunk_deviation"] = finite(shrunk[k, j]) if j >= 0 else None
    low, high = model.limits
    for j, name in enumerate(like["names"]):
        judged = bool(np.isfinite(model.limit[j]) and model.counts[j])
        numbers = {"mean": model.mean[j], "between": math.sqrt(model.between[j, j]), "spread": model.spread[j]}
        numbers |= {"low": low[j], "high": high[j]} if judged else {}
        written = {key: finite(x) if judged else None for key, x in {**numbers}.items()}
        z = scores.alone[:, j]
        counts, _ = np.histogram(np.clip(z[np.isfinite(z)], -7.99, 7.99), _BINS, (-8.0, 8.0))
        described["parameters"].append(
            {"name": name, "unit": like["units"][j], "arms": int(model.counts[j]), **written, "bins": counts.tolist()}
        )
    return described, type_model(like, usable, model, scores)


def _notes(usable: Sequence[Row], key: str, condition: str, equal: BoolArray) -> list[str]:
    others = sum(one["columns"] != key for one in usable)
    other = f"{others} arms have other parameters or another form of friction than most; their friction is not compared"
    notes = [f'{other} (friction = "as stated" in [identify] makes one form)'] if others else []
    if not condition:
        return [
            *notes,
            "friction is not compared: neither temperature_c nor warm_up_minutes is stated (columns of the table; "
            "[design] warm_up_minutes of a campaign)",
        ]
    left = int(np.count_nonzero(~equal))
    rest = f"; that of {left} arms, at another or none, is not compared" if left else ""
    return [*notes, f"friction is compared at {condition}{rest}"]


def _equal_conditions(rows: Sequence[Row]) -> tuple[str, BoolArray]:
    """Describe the condition at which most arms were measured, and which arms were, (n_arms,)."""
    for key, unit, width in (("temperature_c", "°C", _KELVIN), ("warm_up_minutes", "min of warm-up", _MINUTES)):
        stated = np.array([np.nan if one[key] is None else one[key] for one in rows], dtype=float)
        if np.isfinite(stated).sum() >= FEWEST:
            middle = float(np.nanmedian(stated))
            width = max(width, _SHARE * middle) if key == "warm_up_minutes" else width
            return f"{middle:.3g} ± {width:.2g} {unit}", np.abs(stated - middle) <= width
    return "", np.zeros(len(rows), dtype=bool)


def arm_values(rows: Sequence[Row], like: Row, equal: BoolArray) -> ArmValues:
    """Collect the arms' parameters in the order of `like`; friction at equal conditions and of the same form only."""
    n = len(like["names"])
    meaning = {key: j for j, key in enumerate(zip(like["names"], like["units"], like["regroupings"], strict=True))}
    Y, C = np.full((len(rows), n), np.nan), np.zeros((len(rows), n, n), dtype=np.float32)
    for k, one in enumerate(rows):
        same = one["columns"] == like["columns"]
        keys = zip(one["names"], one["units"], one["regroupings"], strict=True)
        own = [(i, meaning[key]) for i, key in enumerate(keys) if key in meaning]
        own = [(i, j) for i, j in own if not like["friction"][j] or (same and equal[k])]
        if not own:
            continue
        here, there = map(list, zip(*own, strict=True))
        sigma = np.nan_to_num(np.asarray(one["sigma"], dtype=float))
        S = np.asarray(one["covariance"]).reshape(len(sigma), -1) if len(one["covariance"]) else np.diag(sigma**2)
        Y[k, there], C[np.ix_([k], there, there)] = np.asarray(one["values"])[here], S[np.ix_(here, here)]
    return ArmValues(Y, C)


def _judge(entry: dict[str, Any], names: Sequence[str], scores: ArmScores, k: int) -> None:
    j = scores.worst(k)
    if j < 0:
        return
    alone, given = float(scores.alone[k, j]), float(scores.given[k, j])
    entry |= {"verdict": "good", "parameter": names[j], "sigmas": finite(alone)}
    beyond = [names[int(i)] for i in np.flatnonzero(scores.beyond[k])]
    if not beyond:
        return
    told = f"{names[j]} {alone:+.1f} sigma of its type"
    told += f" ({given:+.1f} given its other parameters)" if abs(given) > abs(alone) + 0.5 else ""
    others = [name for name in beyond if name != names[j]]
    more = f"; {len(others)} more: {', '.join(others[:4])}" if others else ""
    strange = len(beyond) > max(3, len(names) // 4)
    entry["verdict"] = "outlier"
    entry["sentences"].append(told + more + ("; another arm's log, or columns mixed up?" if strange else ""))


def type_model(like: Row, rows: Sequence[Row], model: TypeModel, scores: ArmScores) -> Model:
    """Write the type as a model: the prior of the next arm, with the covariance between arms."""
    known = np.isfinite(model.mean) & (model.counts >= FEWEST)
    own = [int(j) for j in np.flatnonzero(known)]
    B = model.between[np.ix_(own, own)] * (1.0 + 1.0 / model.counts[own].min())
    sigma = np.sqrt(np.diagonal(B))
    picked = {key: tuple(like[key][j] for j in own) for key in ("names", "units", "regroupings")}
    good = [one for k, one in enumerate(rows) if not scores.beyond[k].any() and len(one["standard_values"])]
    good = [one for one in good if one["standard_names"] == like["standard_names"]]
    standard, refusal = None, "no arm has physically consistent parameters"
    if good:  # a mean of bodies that could exist is one
        values: FloatArray = np.mean([one["standard_values"] for one in good], axis=0)
        names = tuple(like["standard_names"])
        standard = Standard(
            names, tuple(like["standard_units"]), values, ("",) * len(names), status="mean of arms", loss=0.0
        )
    mean = model.mean[own]
    intervals = {"low": mean - 1.96 * sigma, "high": mean + 1.96 * sigma, "sigma": sigma, "sigma_white": sigma}
    found: dict[str, Any] = {**picked, **intervals, "values": mean, "covariance": B, "standard": standard}
    return Model(like["robot"], "type of a fleet", refusal=refusal, provenance={"arms": len(rows)}, **found)


def _find_copies(latest: Mapping[str, Row], entries: dict[str, dict[str, Any]]) -> None:
    """Report logs that two arms share: one of them is of the other."""
    owners: dict[str, list[str]] = defaultdict(list)
    for name, one in latest.items():
        for path, digest in json.loads(one["files"] or "{}").items():
            if not path.endswith((".toml", ".json", ".urdf", ".xml")):
                owners[digest].append(name)
    for names in owners.values():
        for name in dict.fromkeys(names if len(set(names)) > 1 else ()):
            other = next(one for one in names if one != name)
            entries[name]["sentences"].append(f"has the same log as {other}")
            entries[name]["verdict"] = "outlier" if entries[name]["verdict"] == "good" else entries[name]["verdict"]


def _find_drift(history: Mapping[str, Sequence[Row]], entries: dict[str, dict[str, Any]], false_alarms: float) -> None:
    """Compare each arm with its last time, in units of what identifications of the fleet repeat within."""
    pairs = []
    for name, rows in history.items():
        known = [one for one in rows if one["status"] == "identified" and one["usable"] is not False]
        if len(known) > 1 and known[-1] is rows[-1] and known[-1]["columns"] == known[-2]["columns"]:
            pairs.append((name, known[-2], known[-1]))
    scores = {name: _changes(before, now) for name, before, now in pairs}
    for name, before, now in pairs:
        z = scores[name]
        peers = np.abs([scores[other] for other, _, one in pairs if one["columns"] == now["columns"]])
        if len(peers) >= FEWEST:
            z = z / np.maximum(1.0, 1.4826 * np.nanmedian(np.where(np.isfinite(peers), peers, 0.0), axis=0))
        if not np.isfinite(z).any():
            continue
        j = int(np.nanargmax(np.abs(z)))
        entry, limit = entries[name], scipy.stats.norm.isf(0.5 * false_alarms / np.isfinite(z).sum())
        entry["drift"] = {"parameter": now["names"][j], "sigmas": float(z[j]), "since": before["measured"]}
        if abs(z[j]) > limit:
            words = f"{now['names'][j]} {z[j]:+.1f} sigma since {before['measured'][:10]}"
            entry["sentences"].append(words)
            entry["verdict"] = "drift" if entry["verdict"] in ("good", "not compared") else entry["verdict"]


def _changes(before: Row, now: Row) -> FloatArray:
    """Compute changes of all parameters in standard deviations; NaN for friction at other or unknown conditions."""
    sigma = np.hypot(np.asarray(before["sigma"], dtype=float), np.asarray(now["sigma"], dtype=float))
    z: FloatArray = (np.asarray(now["values"]) - np.asarray(before["values"])) / np.where(sigma > 0.0, sigma, np.nan)
    for key, width in (("temperature_c", _KELVIN), ("warm_up_minutes", _MINUTES)):
        if before[key] is not None and now[key] is not None:
            if abs(before[key] - now[key]) <= width:
                return z
            break
    compared: FloatArray = np.where(np.asarray(now["friction"], dtype=bool), np.nan, z)
    return compared


def _link(folder: Path, output: Path) -> str:
    """Link to an arm's report from the page; empty where there is none."""
    return quote(Path(os.path.relpath(output / REPORT, folder)).as_posix()) if (output / REPORT).exists() else ""


def fleet_page(data: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """Write fleet.json as one HTML page, the arms that need a look first."""
    order = ("outlier", "refused", "unusable", "drift", "not compared", "good")
    arms = sorted(data["arms"], key=lambda one: (order.index(one["verdict"]), -abs(one["sigmas"] or 0.0)))
    context = {**data, "arms": [one | {"link": links.get(one["arm"], "")} for one in arms], "version": ""}
    return page("fleet.html", context, scripts=("page.js",), styles=("report.css",))
