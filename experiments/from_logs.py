"""`excitor init --from-logs`: what logs hold, judged by their headings and by what robots do, as a campaign.toml.

Headings propose quantities, units and sides; derivatives, speeds, limits and the masses of the robot's model judge
them. What the logs do not show stands in the file as unknown, with the line to complete.
"""

import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from excitor.experiments.campaign import FILE, OpenCampaign, open_campaign
from excitor.experiments.files import write_atomically
from excitor.experiments.init import begin
from excitor.experiments.logs import FASTEST_JOINT, RATES
from excitor.identify.diagnose import several
from excitor.identify.log import COARSE, UNINITIALISED, Channel, Log, Recording, Signal, check_measured, joint_side
from excitor.identify.logs.declared import KINDS, SECONDS, SHARES, UNITS, ColumnMap, Side
from excitor.identify.logs.formats import FORMATS, read_raw
from excitor.identify.logs.read import recording_log
from excitor.identify.signals import differentiate, lowpass
from excitor.robots.arrays import FloatArray, picked
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.files.write import toml_text
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot, posture

FEWEST = 100  # samples that anything is judged by
FITS = 0.97  # correlation of increments with a velocity
SIZE, CLOSE = 2.5, 1.5  # times: what the prior's torques may be off, and where they decide against the usual unit
SMOOTH, MOST = 10.0, 20_000  # Hz, and samples, of what is compared with them
_TABLES = tomllib.loads((resources.files("excitor.experiments") / "headings.toml").read_text("utf-8"))
_KIND, _UNIT = (
    {word: name for name, words in _TABLES[key].items() for word in words.split()} for key in ("kinds", "units")
)
_PERCENT = {word for word, unit in _UNIT.items() if unit in SHARES}
_MOTOR = {"motor", "rotor", "actuator"}
Choice = tuple[str, Side]


@dataclass(eq=False, slots=True)
class Group:
    """Columns of one quantity, one a joint, as one file has them, and why they are taken for it."""

    kind: str
    columns: list[str | int]
    values: FloatArray  # (n_samples, n_columns)
    words: set[str]  # of its headings, and of its file's name
    unit: str | None = None
    side: Side | None = None
    file: str = ""
    why: str = ""


@dataclass(eq=False, slots=True)
class Proposal:
    """A column map with its reasons; `unknown` lists what the log does not show, by the line to complete."""

    groups: list[Group] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)  # of the map, but for its signals
    rate: float = 0.0  # Hz; 0: not known
    coarse: bool = False  # whether many rows share a stamp
    known: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def table(self) -> dict[str, Any]:
        """The column map as in campaign.toml."""
        signals = [picked(group, "kind unit side columns" + " file" * bool(group.file)) for group in self.groups]
        return self.columns if "format" in self.columns else {**self.columns, "signals": signals}


READ_BY = {"arm": "identify", "payload": "identify", "gains": "gains"}  # the verb that reads a task's logs


def begin_from_logs(
    folder: Path, logs: Sequence[Path], source: str | None = None, task: Literal["arm", "payload", "gains"] = "arm"
) -> tuple[Path, Proposal]:
    """Begin a campaign whose runs are logs, which are copied into its folder; return what was found out of them."""
    bags = {one for one in logs if (one / "metadata.yaml").exists()}
    paths = [path for one in logs for path in (sorted(one.glob("*.*")) if one.is_dir() and one not in bags else [one])]
    if not paths or len({path.name for path in paths}) < len(paths):
        raise ExcitorError(f"--from-logs: names {'two files of one name' if paths else 'no files'}")
    found = {path: grouped(read_raw(path)) for path in paths}
    if source is not None or (folder / FILE).exists():
        begin(folder, source or "")  # copies the robot's files, and refuses a folder that has a campaign
    try:
        text, first = propose(found, None if source is None else open_campaign(folder, "design"), task)
        for path in paths:
            own = folder / "logs" / path.name
            own.parent.mkdir(parents=True, exist_ok=True)
            if not own.exists():
                (shutil.copytree if path.is_dir() else shutil.copyfile)(path, own)
            elif not own.samefile(path):
                raise ExcitorError(f"{own}: exists already, and is not {path}; rename one")
    except Exception:
        if source is not None:
            (folder / FILE).unlink()
        raise
    write_atomically(folder / FILE, text)
    return folder / FILE, first


def propose(found: dict[Path, Proposal], campaign: OpenCampaign | None, task: str) -> tuple[str, Proposal]:
    """Judge what logs hold, and write a campaign.toml of them; with the first one's proposal, and all unknowns."""
    robot = None if campaign is None else campaign.robot
    kinds = [{group.kind for group in one.groups} for one in found.values()]
    if len(found) > 1 and not any(
        "" in own or own >= {"position", "torque"} or own >= {"position", "current"} for own in kinds
    ):
        found = {next(iter(found)): _together(found)}
    for path, one in found.items():
        settle(path, one, robot)
    joints = {path.name: len(one.groups[0].columns) for path, one in found.items()}
    if len(set(joints.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in joints.items())
        raise ExcitorError(f"logs are of robots with unlike joints: {listed}; begin a campaign for each robot")
    first = next(iter(found.values()))
    for path, one in found.items():
        _agree(path, one, first)
    runs: list[dict[str, Any]] = [
        {"name": path.stem, "log": f"logs/{path.name}"} | ({"columns": one.table} if one.table != first.table else {})
        for path, one in found.items()
    ]
    if len(runs) > 1 and task == "arm":
        runs[-1]["role"] = "validate"
    lines = ["robot: excitor robots lists names; or write a robot file in this folder"] * (campaign is None)
    lines += ["run: state loaded = true or false in each, and prior, the arm's model.json"] * (task == "payload")
    lines += ["run: state loaded = true or false in each, and [payload] mass of the weighed body"] * (task == "gains")
    first.unknown = list(dict.fromkeys([*lines, *(line for one in found.values() for line in one.unknown)]))
    head = [f"Of logs. What they do not show is unknown; complete it, then: excitor {READ_BY[task]} DIR", *first.known]
    head += [f"unknown: {line}" for line in first.unknown]
    reasons = {group.kind: group.why for group in first.groups} | {None: ""}
    data = {"robot": "ROBOT" if campaign is None else campaign.content.robot, "task": task, "log": first.table}
    text = toml_text(
        data | {"run": runs}, lambda _, entry, key, __: reasons.get((entry or {}).get("kind"), "") * (key == "unit")
    )
    return "".join(f"# {line}\n" for line in head) + text, first


def _agree(path: Path, one: Proposal, first: Proposal) -> None:
    """Give columns of the same names the units and sides of the first log; say where this one seems to have others."""
    for a, b in zip(first.groups, one.groups, strict=False):
        if (a.kind, a.columns) == (b.kind, b.columns) and (a.unit, a.side) != (b.unit, b.side):
            sentence = f"{a.unit}, {a.side} side, as in the first log, though those of {path.name} look like {b.unit}"
            first.unknown.append(f"log.signals {a.kind}: {sentence}, {b.side} side: check")
            b.unit, b.side, b.why = a.unit, a.side, a.why


def words_of(name: str) -> list[str]:
    """Split a heading into words: `motorPos_1 [deg]` into motor, pos, deg."""
    spelled = name.replace("%", " percent ").replace("°", " deg ")
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", spelled).lower())


def kind_of(words: Sequence[str]) -> str | None:
    """Find the quantity that words name; references and quantities of no joint are "other"."""
    kinds = [_KIND[word] for word in words if _KIND.get(word, "time") != "time"]
    if "other" in kinds:
        return "other"
    return next((kind for kind in kinds if kind != "current"), kinds[0] if kinds else None)  # current_q is a position


def grouped(recording: Recording) -> Proposal:
    """Sort a recording's channels into quantities, by its format or its headings; those without are one group."""
    found, left = Proposal(_defined(recording)), list(recording.channels)
    if found.groups:
        found.columns["format"] = recording.format
        found.known.append(f"the format {recording.format} defines its columns, units and clock itself")
        return found
    plain = recording.format in FORMATS and FORMATS[recording.format].table
    bare = plain and all(channel.name.isdigit() for channel in left)
    timed = next((c for c in left if c.t is None and _is_time(c, bare)), None)
    _clock(found, left, timed)
    if timed is not None:
        found.columns["time"] = int(timed.name) if bare else timed.name
        left.remove(timed)
    stem = words_of(Path(recording.path).stem)
    if bare:
        found.columns["header"] = False
        found.groups = [
            Group(kind_of(stem) or "", [int(c.name) for c in left], _table(recording.path, left), set(stem))
        ]
        return found
    kinds: dict[str, dict[str, list[Channel]]] = {}
    for channel in left:
        kind = str(channel.kind or kind_of(words_of(channel.name)) or kind_of(stem) or "").replace("effort", "torque")
        if kind in ("", *KINDS) and channel.role != "reference":
            rest = re.sub(r"\d+|\[.*?\]", "", channel.name) if channel.kind is None else channel.group
            kinds.setdefault(kind, {}).setdefault(rest, []).append(channel)
    for kind, parts in kinds.items():
        if kind not in _TABLES["choices"]:  # of no need: what is not a number there does no harm
            parts = {rest: [c for c in own if (np.abs(c.values) < UNINITIALISED).all()] for rest, own in parts.items()}
        alike = [channels for channels in parts.values() if len(channels) > 1]
        for channels in alike or filter(None, [[c for part in parts.values() for c in part]]):  # joints with names
            side = next((side for side in ("joint", "motor") if channels[0].side == side), None)
            words, names = {*words_of(channels[0].name), *stem}, [channel.name for channel in channels]
            found.groups.append(Group(kind, [*names], _table(recording.path, channels), words, channels[0].unit, side))
    return found


def _clock(found: Proposal, left: Sequence[Channel], timed: Channel | None) -> None:
    """Find the rate of a recording's stamps; say which column is called a time, and is none."""
    clock = left[0].t if timed is None else timed.values
    found.coarse = clock is not None and bool(np.mean(np.diff(clock) == 0.0) > COARSE)
    if clock is not None:
        rise = (clock[-1] - clock[0]) / (len(clock) - 1)
        found.rate = float(1.0 / (rise if found.coarse else np.median(np.diff(clock))))
    for one in [c for c in left if timed is None and c.t is None and _is_called_time(c)]:
        have = f"{len(np.unique(one.values))} values in {len(one.values)} rows"
        found.known.append(f"{one.name} is called a time, but has {have}: left out; record it in double precision")


def _defined(recording: Recording) -> list[Group]:
    """List the quantities of a recording whose format defines positions, torques and clock; else none."""
    try:
        signals = recording_log(recording, ColumnMap(signals=[])).signals
    except InvalidLog:
        return []
    groups = [Group(s.kind, [*range(1, s.values.shape[1] + 1)], s.values, set()) for s in signals]
    return groups if len({"position", "torque", "current"} & {group.kind for group in groups}) > 1 else []


def _is_time(channel: Channel, bare: bool) -> bool:
    """Return True for a column that rises, and is called a time if it is called anything."""
    called = bare or _is_called_time(channel)
    steps = np.diff(channel.values)
    ticks = steps[steps > 0.0]
    rises = len(ticks) > 2 and len(ticks) > 0.01 * len(steps) and bool((steps >= 0.0).all())
    return bool(called and rises and np.quantile(ticks, 0.9) < 3.0 * np.median(ticks))


def _is_called_time(channel: Channel) -> bool:
    words = words_of(channel.name)
    return bool(words) and _KIND.get(words[0]) == "time" and kind_of(words) is None


def _table(path: str, channels: Sequence[Channel]) -> FloatArray:
    n = min(len(channel.values) for channel in channels)
    if n < FEWEST:
        raise InvalidLog(path, f"has {n} samples, expected {FEWEST} at least")
    for channel in channels:
        check_measured(path, channel.name, channel.values, channel.clock.rows)
    return np.column_stack([channel.values[:n] for channel in channels])


def _together(found: dict[Path, Proposal]) -> Proposal:
    """Join files that hold one quantity each, of one motion: they have equally many rows."""
    rows = {path.name: len(group.values) for path, one in found.items() for group in one.groups}
    kinds = [group.kind for one in found.values() for group in one.groups]
    if len(set(rows.values())) != 1 or len(rows) < len(found) or len(set(kinds)) < len(kinds):
        listed = ", ".join(f"{name} {n} rows" for name, n in rows.items())
        raise ExcitorError(
            "no file holds positions and torques or currents, and together they are no one motion "
            f"({listed or 'none'}); give the files of one motion, with as many rows and a quantity each, named as such"
        )
    main, *_ = found.values()
    for path, one in list(found.items())[1:]:
        for group in one.groups:
            group.file = path.name
            main.groups.append(group)
    main.known.append(f"{several([path.name for path in found])} are of one motion, row by row")
    return main


def settle(path: Path, found: Proposal, robot: Robot | None) -> None:
    """Judge the quantities of a log by their contents: which is which, the clock, units and sides."""
    _name(path, found, robot)
    _check_joints(path, found, robot)
    kinds = {group.kind: group for group in found.groups}
    q, v, effort = kinds.get("position"), kinds.get("velocity"), kinds.get("torque", kinds.get("current"))
    if q is None or effort is None:
        have = several([f"{group.kind} ({group.columns[0]} …)" for group in found.groups]) or "nothing that it names"
        lacks = "positions" if q is None else "torques or currents"
        raise InvalidLog(path, f"shows no {lacks}, only {have}; name them in its headings, such as q_1, tau_1")
    if "format" in found.columns:
        return
    if v is not None and _derivative(v, q)[1] > FITS > _derivative(q, v)[1]:
        q.columns, v.columns, q.values, v.values = v.columns, q.columns, v.values, q.values
        found.known.append("what is called positions is the derivative of what is called velocities: they are swapped")
    _settle_clock(found, q, v)
    _settle_units(found, q, effort, robot)
    found.groups = [q, effort]
    if v is not None:
        step, fit = _derivative(q, v)
        factor = step * found.rate * UNITS["position"][q.unit or "rad"]
        v.unit = next((unit for unit, size in UNITS["velocity"].items() if abs(factor / size - 1.0) < 0.1), None)
        v.side, v.why = q.side, "by the increments of positions"
        found.groups += [v] if fit > FITS and v.unit else []


def _name(path: Path, found: Proposal, robot: Robot | None) -> None:
    """Name columns whose headings name nothing: those beside named positions are torques, if they are as many."""
    kinds = [group.kind for group in found.groups]
    if set(kinds) == {""}:
        _split(path, found, robot)
    bare, counts = [g for g in found.groups if not g.kind], [len(g.columns) for g in found.groups if g.kind]
    if len(bare) == 1 and len(bare[0].columns) in counts and not {"torque", "current"} & set(kinds):
        bare[0].kind = "torque"
        found.known.append(f"columns {bare[0].columns[0]} … are named as nothing known, and taken for torques")
    found.groups = [group for group in found.groups if group.kind]


def _split(path: Path, found: Proposal, robot: Robot | None) -> None:
    """Name columns without headings: blocks of as many as there are joints, by what is the derivative of what."""
    columns = [column for group in found.groups for column in group.columns]
    values, words = np.column_stack([group.values for group in found.groups]), found.groups[0].words
    n = robot.n_joints if robot is not None else next((k for k in (6, 7) if len(columns) % k == 0), 0)
    if not n or len(columns) % n or not 2 <= len(columns) // n <= 4:
        have = f"has {len(columns)} columns of numbers without headings"
        raise InvalidLog(path, f"{have}, expected two to four times the {n or 'number of'} joints; write headings")
    places = [slice(k, k + n) for k in range(0, len(columns), n)]
    if _joint_by_joint(values, n):
        places = [slice(k, None, len(places)) for k in range(len(places))]
        found.known.append("columns are sorted by joints: those of a joint stand side by side")
    groups = [Group("", columns[at], values[:, at], words) for at in places]
    after = {a: b for a, b in product(groups, groups) if a is not b and _derivative(a, b)[1] > FITS}
    smooth = min(groups, key=lambda g: float(np.median(np.diff(g.values, n=2, axis=0).std(axis=0) / g.values.std())))
    q: Group | None = next((group for group in after if group not in after.values()), smooth)
    for kind in ("position", "velocity", "acceleration"):
        if q is not None:
            q.kind, q = kind, after.get(q)
    rest = [group for group in groups if not group.kind]
    if len(rest) != 1:
        raise InvalidLog(path, f"has {len(groups)} blocks of {n} columns without headings; write headings")
    rest[0].kind = "torque"
    found.groups = groups


def _joint_by_joint(values: FloatArray, n: int) -> bool:
    """Return True if columns of a quantity stand apart: as rough are then those that are a joint's columns apart."""
    rough = np.log(np.maximum(np.diff(values, n=2, axis=0).std(axis=0), 1e-12) / np.maximum(values.std(axis=0), 1e-12))
    blocks, apart = (part.std(axis=1).mean() for part in (rough.reshape(-1, n), rough.reshape(n, -1).T))
    return bool(apart < 0.5 * blocks)


def _derivative(x: Group, dx: Group) -> tuple[float, float]:
    """Return the factor f of Δx = f dx over 20 samples, and its correlation, over all columns."""
    if x.values.shape != dx.values.shape or len(x.values) < 100:
        return 0.0, 0.0
    area = np.cumsum(0.5 * (dx.values[1:] + dx.values[:-1]), axis=0)[::20]
    moved, summed = np.diff(x.values[1::20], axis=0).ravel(), np.diff(area, axis=0).ravel()
    power, size = float(summed @ summed), float(np.linalg.norm(moved) * np.linalg.norm(summed))
    return (float(moved @ summed) / power, float(moved @ summed) / size) if size else (0.0, 0.0)


def _check_joints(path: Path, found: Proposal, robot: Robot | None) -> None:
    """Keep one group of each quantity; refuse a log that lacks a joint, or has more than the robot."""
    counts = [len(group.columns) for group in found.groups]
    n = robot.n_joints if robot is not None else max(counts, default=0)
    best = {group.kind: group for group in sorted(found.groups, key=lambda group: len(group.columns) == n)}
    found.groups = [group for group in found.groups if best[group.kind] is group]
    for group in found.groups:
        if len(group.columns) != n and group.kind in ("position", "torque", "current"):
            whose = f"{robot.name} has {n} joints" if robot is not None else f"another quantity has {n}"
            wrong = "a joint is missing" if len(group.columns) < n else "it is of another robot, or one is no joint's"
            listed = ", ".join(map(str, group.columns[:12]))
            raise InvalidLog(path, f"has {len(group.columns)} columns of {group.kind} ({listed}), but {whose}: {wrong}")


def _settle_clock(found: Proposal, q: Group, v: Group | None) -> None:
    """Find the unit of stamps by the rate, or the rate by velocities."""
    if "time" in found.columns:
        step, likely = 1.0 / found.rate, [u for u, s in SECONDS.items() if RATES[0] <= found.rate / s <= RATES[1]]
        named = [unit for unit in likely if unit in words_of(str(found.columns["time"]))]
        unit = found.columns["time_unit"] = (named or likely or ["s"])[0]
        found.rate /= SECONDS[unit]
        sentence = f"stamps are {step:.4g} apart: {found.rate:.6g} Hz in {unit}"
        (found.known if likely else found.unknown).append(sentence if likely else f"log.time_unit: {sentence}")
        found.known += ["many rows share a stamp: they are placed evenly between"] if found.coarse else []
    elif not found.rate:
        step, fit = (0.0, 0.0) if v is None else _derivative(q, v)
        rates = [1.0 / (step * f) for f in (1.0, np.pi / 180.0, 180.0 / np.pi) if step > 0.0]
        rate = next((rate for rate in rates if RATES[0] <= rate <= RATES[1]), 0.0) if fit > FITS else 0.0
        if not rate:
            found.columns["sample_rate_hz"] = 0.0
            found.unknown.append(
                "log.sample_rate_hz: no column is a usable time, and no velocities show the rate: state it"
            )
            return
        near = float(f"{rate:.2g}")
        found.rate = found.columns["sample_rate_hz"] = near if abs(near / rate - 1.0) < 0.02 else float(f"{rate:.5g}")
        found.known.append(f"no column is a time; positions grow by velocities at {found.rate:g} Hz")


def _settle_units(found: Proposal, q: Group, effort: Group, robot: Robot | None) -> None:
    """Choose units and sides that a robot can have; of several, those at which its model moves its masses."""
    rate = found.rate or 100.0
    fits = [one for one in _choices(q) if _plausible(robot, q.values, rate, one)]
    pairs = list(product(fits or _choices(q)[:1], _choices(effort)))
    off = {pair: _off(robot, q, effort, found.rate, pair) for pair in pairs}
    best = min(pairs, key=off.__getitem__)
    usual = not fits or fits[0] != _choices(q)[0] or best[0] == fits[0]
    sure = off[best] < np.log(SIZE if usual else CLOSE)
    (q.unit, q.side), (effort.unit, effort.side) = best if sure else pairs[0]
    if effort.words & _PERCENT:
        effort.unit, effort.why, sure = SHARES[0], "of rated values", True
        remedy = 'unit = "N m" and scale = [rated torque / 100, ...], a value a joint'
        found.unknown.append(f"log.signals {effort.kind}: is in % of rated values, which it does not hold: {remedy}")
    q.why = f"over {np.ptp(q.values, axis=0).max():.3g} {q.unit}, up to {_speed(q.values, rate, q.unit):.2g} rad/s"
    called = {_UNIT[word] for word in q.words & _UNIT.keys()} & UNITS["position"].keys()
    if called and q.unit not in called:
        found.known.append(f"positions are called {called.pop()}, but only {q.unit} is plausible: {q.why}")
    if not fits:
        found.unknown.append("log.signals position: no unit keeps the limits of the robot; state unit and side")
    if sure and robot is not None and not effort.why:
        effort.why = f"so they move the masses of {robot.name}"
    elif not effort.why and not effort.words & {*_UNIT, *_MOTOR, "joint"}:
        effort.why = "unknown: neither the log nor known masses show unit and side"
        found.unknown.append(f"log.signals {effort.kind}: unit {effort.unit}, side {effort.side} are a guess: check")


def _choices(group: Group) -> list[Choice]:
    """List the units and sides that a group may have, those of its headings first."""
    called, motor = {_UNIT.get(word) for word in group.words}, bool(group.words & _MOTOR)
    options = [
        one
        for one in (tuple(x) for x in _TABLES["choices"][group.kind])
        if group.side in (None, one[1]) and (one[1] == "motor" or not motor)
    ]
    if group.unit is not None:
        return [(group.unit, side) for side in dict.fromkeys(side for _, side in options)]
    return sorted(options, key=lambda one: one[0] not in called)


def _speed(q: FloatArray, rate: float, unit: str) -> float:
    lag = max(1, round(0.02 * rate))
    return float(np.quantile(np.abs(q[lag:] - q[:-lag]), 0.999) * rate / lag * UNITS["position"][unit])


def _at_joints(robot: Robot, q: FloatArray, of_q: Choice, effort: Signal) -> tuple[FloatArray, FloatArray]:
    position = Signal("position", of_q[1], q * UNITS["position"][of_q[0]])
    made = joint_side(robot, Log("", 1.0, 0.0, (position, effort)))
    return made.q, made.tau


def _plausible(robot: Robot | None, q: FloatArray, rate: float, one: Choice) -> bool:
    """Return True if positions of a unit and side keep the limits of the robot, and its speeds."""
    if robot is None:
        return one[1] == "joint" and _speed(q, rate, one[0]) < FASTEST_JOINT
    at, _ = _at_joints(robot, q, one, Signal("torque", "joint", np.zeros(q.shape)))
    low, high = robot.limits.position.T
    room = 0.1 * np.where(np.isfinite(high - low), high - low, 0.0)
    fastest = float(np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, FASTEST_JOINT).max())
    return bool(((at >= low - room) & (at <= high + room)).all() and _speed(at, rate, "rad") < 2.0 * fastest)


def _off(robot: Robot | None, q: Group, effort: Group, rate: float, pair: tuple[Choice, Choice]) -> float:
    """Compare torques with those of the robot's model: |log| of their ratio, inf where they do not look alike."""
    if robot is None or not robot.known.any():
        return float("inf")
    kind: Literal["torque", "current"] = "current" if effort.kind == "current" else "torque"
    rows, (unit, side) = slice(MOST), pair[1]
    try:
        signal = Signal(kind, side, effort.values[rows] * UNITS[kind][unit])
        at, tau = _at_joints(robot, q.values[rows], pair[0], signal)
        motion = posture(at)
        if rate:
            at = lowpass(at, sample_rate_hz=rate, cutoff_hz=min(SMOOTH, 0.2 * rate))
            dq = differentiate(at, sample_rate_hz=rate)
            motion = Motion(at, dq, differentiate(dq, sample_rate_hz=rate))
    except (InvalidLog, ValueError):
        return float("inf")
    a, b = (x - x.mean(axis=0) for x in (rigid_torque(robot, motion, prior(robot)), tau))
    own, other = np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0)
    seen = (own > 0.05 * np.linalg.norm(a)) & ((a * b).sum(axis=0) > 0.5 * own * other)
    ratio = (a * b).sum(axis=0)[seen] / own[seen] ** 2
    return float(np.median(np.abs(np.log(ratio)))) if seen.any() else float("inf")
