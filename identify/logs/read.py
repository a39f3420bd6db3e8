"""Reading of logs: recordings by their format's own definitions of channels and, where it has none, by declarations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.identify.log import (
    Channel,
    Clock,
    Log,
    Recording,
    Signal,
    Span,
    Stamps,
    bridge_spikes,
    check_measured,
    check_stamps,
    common_grid,
    gaps_of,
    on_grid,
    unwrap_turns,
)
from excitor.identify.logs.declared import SECONDS, UNITS, ColumnMap, Columns, Kind, Side, scale_matrix, unit_factor
from excitor.identify.logs.formats import FORMATS, read_raw, sniff
from excitor.identify.logs.table import LARGEST_VALUE, MODELLED, read_csv
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

STILL = 1e-3  # of a joint's travel: less is standing still
_EFFORTS = ("torque", "current", "effort")


def read_log(path: Path, declared: ColumnMap, names: tuple[str, ...] = (), span: Span | None = None) -> Log:
    """Read a log as a campaign declares it: plain tables by their column map, others by their format's definitions.

    `names`: the robot's joints, for formats that name joints. `span`: the part that counts, s; faults of the clock
    outside of it do no harm, and gaps within it are listed.
    """
    if _is_plain(path, declared):
        return read_csv(path, declared, span)
    return recording_log(read_raw(path, declared.format), declared, names, span)


def _is_plain(path: Path, declared: ColumnMap) -> bool:
    """Return True if a file is a table whose columns, time included, are all declared."""
    if declared.format is not None:
        return declared.format == "csv"
    timed = declared.time is not None or declared.sample_rate_hz is not None
    if not declared.signals or not timed:
        return False
    return not path.exists() or all(FORMATS[name].table for name in sniff(path)[:1])


@dataclass(frozen=True)
class _Part:
    """One chosen signal of all joints: channels in joint order, and their factors to SI units."""

    kind: Kind
    side: Side
    channels: tuple[Channel, ...]
    matrix: FloatArray  # (n_joints, n_joints)


def recording_log(
    recording: Recording, declared: ColumnMap, names: Sequence[str] = (), span: Span | None = None
) -> Log:
    """Choose signals, convert them to SI units and resample them to one even time base; the recording is kept too.

    `names`: the robot's joints in order, for recordings that name their joints and no other order is declared.
    """
    order = declared.joints or names
    chosen = [_from_entry(recording, entry, order) for entry in declared.signals]
    kinds = {part.kind for part in chosen}
    if "position" not in kinds:
        chosen += _defined(recording, ("position",), order)
    if not kinds & {"torque", "current"}:
        chosen += _defined(recording, _EFFORTS, order) or _without_effort(recording)
    if not chosen:
        raise InvalidLog(recording.path, f"does not say what its channels are; declare them in [[log.signals]]: "
                         f"{recording.listed()}")  # fmt: skip
    clocks, notes = _clocks(recording, declared, chosen, span)
    unique = list({id(stamps): stamps for stamps in clocks.values()}.values())
    has_time = declared.time is not None or recording.channels[0].clock.t is not None
    grid = common_grid(recording.path, unique, declared.sample_rate_hz if has_time else None)
    signals = []
    for part in chosen:
        columns = []
        for channel in part.channels:
            values, spikes = bridge_spikes(channel.name, channel.values, channel.clock.rows)
            turns = ""
            if part.kind == "position":
                values, turns = unwrap_turns(channel.name, values, channel.clock.rows)
            columns.append(on_grid(clocks[channel.clock], values, grid))
            notes += [said for said in (spikes, turns) if said]
        signals.append(Signal(part.kind, part.side, np.column_stack(columns) @ part.matrix.T))
    remarks = (*recording.notes, *notes, *grid.notes, *_standing(signals, grid.rate))
    skipped = max(stamps.skipped for stamps in unique)
    raw = _marked(recording, declared)
    return Log(recording.path, grid.rate, float(grid.t[0]), tuple(signals), remarks, raw, gaps_of(unique), skipped)


def _marked(recording: Recording, declared: ColumnMap) -> Recording:
    """Mark a channel called `mark` as the marker, where the format does not define one."""
    k = next((k for k, channel in enumerate(recording.channels) if channel.name == "mark"), None)
    if k is None or any(channel.kind == "marker" for channel in recording.channels):
        return recording
    mark, time = recording.channels[k], _given_time(recording, declared)
    if mark.kind is not None or (time is not None and len(time.values) != len(mark.values)):
        return recording
    clock = mark.clock if time is None else Clock(time.values * SECONDS[declared.time_unit], mark.clock.rows)
    marker = replace(mark, kind="marker", clock=clock)
    return replace(recording, channels=(*recording.channels[:k], marker, *recording.channels[k + 1 :]))


def _from_entry(recording: Recording, entry: Columns, order: Sequence[str]) -> _Part:
    """Choose the channels that an entry of [[log.signals]] names, and refuse contradictions to the format."""
    if entry.file:
        raise InvalidLog(recording.path, f"log.signals.file: {entry.file!r} goes with plain tables only")
    channels: list[Channel] = []
    for column in entry.columns:
        channels += _named(recording, column, order)
    if len({channel.name for channel in channels}) < len(channels):
        raise InvalidLog(recording.path, f"a channel of {entry.kind} is declared twice: {entry.columns}")
    for channel in channels:
        _check(recording, entry, channel)
    said = {channel.side for channel in channels} - {"unknown"}
    side = entry.side or (said.pop() if len(said) == 1 else None)
    if side is None:
        raise InvalidLog(recording.path, f"does not say on which side {channels[0].group} of {entry.kind} is; "
                         'declare side = "joint" or "motor"')  # fmt: skip
    factors = np.array([_unit_factor(recording, entry.kind, entry.unit, channel) for channel in channels])
    matrix = scale_matrix(recording.path, entry, len(channels)) @ np.diag(factors)
    return _Part(entry.kind, "motor" if side == "motor" else "joint", tuple(channels), matrix)


def _named(recording: Recording, column: str | int, order: Sequence[str]) -> list[Channel]:
    """Find a channel by name or number, or all channels of a group in joint order."""
    if isinstance(column, int):
        if not 1 <= column <= len(recording.channels):
            count = len(recording.channels)
            raise InvalidLog(recording.path, f"has {count} channels; the declaration asks for number {column}")
        return [recording.channels[column - 1]]
    if any(channel.name == column for channel in recording.channels):
        return [recording.channel(column)]
    found = recording.group(column)
    if not found:
        raise InvalidLog(recording.path, f"has no channel {column!r}; {recording.listed()}")
    return _ordered(recording, found, order)


def _check(recording: Recording, entry: Columns, channel: Channel) -> None:
    """Refuse models, references and contradictions, by name."""
    name, path = channel.name, recording.path
    if channel.kind == "torque_model":
        raise InvalidLog(path, f"{name} is what the controller's own model computes, not a measured {entry.kind}")
    if channel.role == "reference":
        raise InvalidLog(path, f"{name} is what was commanded, not a measured {entry.kind}")
    if channel.role == "unknown" and entry.kind in ("torque", "current") and MODELLED.search(name):
        sentence = f"{name} sounds like a model's {entry.kind}, not a measured one"
        raise InvalidLog(path, f"{sentence}; rename it if it is measured")
    fitting = _EFFORTS if channel.kind == "effort" else (channel.kind,)
    if channel.kind is not None and entry.kind not in fitting:
        raise InvalidLog(path, f"{name} is a {channel.kind} by its format, declared as {entry.kind}")
    if entry.side is not None and channel.side not in ("unknown", entry.side):
        raise InvalidLog(path, f"{name} is on the {channel.side} side by its format, declared on the {entry.side} side")


def _unit_factor(recording: Recording, kind: Kind, declared: str | None, channel: Channel) -> float:
    """Find a channel's factor to SI units; its own unit and a declared one must not contradict each other."""
    units = UNITS[kind]
    own = units.get(channel.unit or "")
    if declared is None:
        if own is None:
            name = channel.name
            sentence = f"the unit of {name} is {channel.unit!r}" if channel.unit else f"{name} has no unit"
            raise InvalidLog(recording.path, f"{sentence}; declare unit = one of {', '.join(units)}")
        return own
    factor = unit_factor(recording.path, kind, declared)
    if own is not None and own != factor:
        raise InvalidLog(recording.path, f"{channel.name} is in {channel.unit} by its format, declared in {declared}")
    return factor


def _defined(recording: Recording, kinds: tuple[str, ...], order: Sequence[str]) -> list[_Part]:
    """Choose the one group of measured channels that the format defines completely; raise where there is not one."""
    found = [channel for channel in recording.channels if channel.kind in kinds and channel.role == "measured"]
    groups: dict[tuple[str, str], list[Channel]] = {}
    for channel in found:
        groups.setdefault((channel.group, channel.side), []).append(channel)
    whole = {key: group for key, group in groups.items() if _is_whole(group)}
    if not groups:
        return []
    what = "positions" if kinds == ("position",) else "torques or currents"
    if len(whole) != 1:
        listed = " and ".join(repr(name) for name, _ in (whole or groups))
        lacks = "more than one kind of" if whole else "does not define all (kind, side or unit) of its"
        sentence = f"has {lacks} {what}" if whole else f"{lacks} {what}"
        raise InvalidLog(recording.path, f"{sentence}: {listed}; declare which is what in [[log.signals]], "
                         "with kind, side, unit and columns")  # fmt: skip
    (((_, side), group),) = whole.items()
    channels = _ordered(recording, group, order)
    kind: Kind = "position" if kinds == ("position",) else "torque" if channels[0].kind == "torque" else "current"
    factors = [_unit_factor(recording, kind, None, channel) for channel in channels]
    return [_Part(kind, "motor" if side == "motor" else "joint", tuple(channels), np.diag(factors))]


def _is_whole(group: list[Channel]) -> bool:
    first = group[0]
    known = first.kind is not None and first.unit in UNITS.get(first.kind, {})
    return known and first.side != "unknown" and all(channel.unit == first.unit for channel in group)


def _without_effort(recording: Recording) -> list[_Part]:
    """Raise InvalidLog where the only torques are a model's or commands; return no parts otherwise."""
    kinds = ("torque_model", *_EFFORTS)
    unmeasured = [c for c in recording.channels if c.role != "measured" or c.kind == "torque_model"]
    others = sorted({c.group for c in unmeasured if c.kind in kinds})
    if others:
        sentence = f"has no measured torque or current: {', '.join(others)} come from a model or were commanded"
        raise InvalidLog(recording.path, f"{sentence}; record measured ones")
    return []


def _ordered(recording: Recording, group: list[Channel], order: Sequence[str]) -> list[Channel]:
    """Sort channels in joint order: by number, or by the declared names."""
    numbers = [channel.joint for channel in group if isinstance(channel.joint, int)]
    if len(numbers) == len(group):
        if sorted(numbers) != list(range(len(group))):
            sentence = ", ".join(str(k + 1) for k in sorted(numbers))
            path = recording.path
            raise InvalidLog(path, f"{group[0].group} is there for joints {sentence} only, expected all from 1 on")
        return sorted(group, key=lambda channel: channel.joint if isinstance(channel.joint, int) else 0)
    names = {channel.joint: channel for channel in group if isinstance(channel.joint, str)}
    if len(names) < len(group):
        return group  # neither numbers nor names: as the file orders them
    if not order or not set(order) <= set(names):
        sentence = ", ".join(sorted(map(str, names)))
        raise InvalidLog(recording.path, f"names its joints {sentence}; declare their order: joints = [...] in [log]")
    return [names[name] for name in order]


def _clocks(
    recording: Recording, declared: ColumnMap, parts: list[_Part], span: Span | None
) -> tuple[dict[Clock, Stamps], list[str]]:
    """Check the time bases of all chosen channels, each once."""
    given = _given_time(recording, declared)
    clocks: dict[Clock, Stamps] = {}
    notes: list[str] = []
    by_length: dict[int, Stamps] = {}
    for part in parts:
        for channel in part.channels:
            _check_size(recording, channel)
            if channel.clock in clocks:
                continue
            name = channel.group
            if channel.clock.t is not None:
                clocks[channel.clock], remarks = check_stamps(recording.path, name, channel.clock, span)
                notes += remarks
                continue
            n = len(channel.clock)
            if n not in by_length:
                made = _made(recording, given, declared, channel)
                values = np.column_stack([one.values for one in part.channels if len(one.clock) == n])
                by_length[n], remarks = check_stamps(recording.path, name, made, span, values)
                notes += remarks
            clocks[channel.clock] = by_length[n]
    return clocks, list(dict.fromkeys(notes))


def _check_size(recording: Recording, channel: Channel) -> None:
    check_measured(recording.path, channel.name, channel.values, channel.clock.rows)
    bad = np.flatnonzero(np.abs(channel.values) >= LARGEST_VALUE)
    if bad.size:
        k = int(bad[0])
        sentence = f"{channel.name} is {channel.values[k]:g}, which no robot measures"
        raise InvalidLog(recording.path, sentence, int(channel.clock.rows[k]))


def _given_time(recording: Recording, declared: ColumnMap) -> Channel | None:
    if declared.time is None:
        return None
    if any(channel.clock.t is not None for channel in recording.channels):
        raise InvalidLog(recording.path, f"defines its time itself ({recording.format}); leave out log.time")
    (channel,) = _named(recording, declared.time, ())[:1]
    return channel


def _made(recording: Recording, time: Channel | None, declared: ColumnMap, channel: Channel) -> Clock:
    """Build a time base from the declared channel, or from the declared rate."""
    rows = channel.clock.rows
    if time is not None:
        if len(time.values) != len(rows):
            sentence = f"{channel.name} has {len(rows)} samples, {time.name} {len(time.values)} times"
            raise InvalidLog(recording.path, f"{sentence}; sample both together")
        return Clock(time.values * SECONDS[declared.time_unit], rows)
    if declared.sample_rate_hz is None:
        raise InvalidLog(recording.path, f"does not say which channel is the time; declare time or sample_rate_hz in "
                         f"[log]: {recording.listed()}")  # fmt: skip
    return Clock(np.arange(len(rows)) / declared.sample_rate_hz, rows)


def _standing(signals: list[Signal], rate: float) -> list[str]:
    """Return a note on how long the robot stands still before and after it moves, if it does."""
    position = next((signal.values for signal in signals if signal.kind == "position"), None)
    if position is None:
        return []
    tolerance = STILL * np.ptp(position, axis=0)
    moved = [np.flatnonzero((np.abs(position - end) > tolerance).any(axis=1)) for end in (position[0], position[-1])]
    if not moved[0].size or not moved[1].size:
        return ["nothing moves"]
    first, last = moved[0][0] / rate, (len(position) - 1 - moved[1][-1]) / rate
    return [f"stands still for {first:.3g} s before and {last:.3g} s after the motion"] if first + last > 0.5 else []
