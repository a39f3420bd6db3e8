"""What the columns of a known table mean: rules by heading, for formats whose headings say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.logs.recording import (
    Channel,
    ChannelSide,
    Clock,
    Quantity,
    Recording,
    Role,
    check_measured,
    distinct,
)
from excitor.identify.logs.text_table import TextTable
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

FASTEST, SLOWEST = 2e-5, 2.0  # s between samples


@dataclass(frozen=True)
class Rule:
    """Headings of one quantity, `(?P<joint>...)` where the joint stands, and what the format says of it."""

    pattern: str
    kind: Quantity | None = None
    unit: str | None = None
    role: Role = "unknown"
    side: ChannelSide = "unknown"


@dataclass(frozen=True)
class Layout:
    """A known table: its column of time, what makes seconds of it, and what its other columns are."""

    format: str
    time: str  # a pattern
    seconds: float
    rules: tuple[Rule, ...]


def recording_of(table: TextTable, layout: Layout, *, missing: bool = False) -> Recording:
    """Give every column its meaning; columns that no rule knows keep their names alone.

    `missing`: a cell that is no number tells nothing, where the format says so; elsewhere it is refused.
    """
    at = next((k for k, name in enumerate(table.headings) if re.fullmatch(layout.time, name)), None)
    if at is None:
        raise InvalidLog(table.path, f"has no column of time, as {layout.format} has")
    if at in table.words:
        raise _word(table, at)
    stamps = table.values[:, at] * layout.seconds
    check_measured(table.path, f"time {table.headings[at]!r}", stamps, table.rows)
    _check_unit(table, layout, stamps)
    clock = Clock(stamps, table.rows)
    counts: dict[Rule, int] = {}
    channels: list[Channel] = []
    notes = list(table.notes)
    for k, name in enumerate(table.headings):
        if k == at:
            continue
        rule = next((rule for rule in layout.rules if re.fullmatch(rule.pattern, name)), Rule(".*"))
        if k in table.words:
            if rule.kind is not None:
                raise _word(table, k)
            continue
        joint, stem = None, ""
        if "(?P<joint>" in rule.pattern:
            stem = _stem(rule, name)
            joint = counts[rule] = counts.get(rule, -1) + 1
        values, own = _present(table.values[:, k], clock) if missing else (table.values[:, k], clock)
        if not len(own):
            notes.append(f"{name} is empty")
            continue
        if len(own) < len(clock):
            notes.append(f"{name} is missing in {len(clock) - len(own)} rows")
        check_measured(table.path, name, values, own.rows)
        channels.append(Channel(name, values, own, rule.kind, joint, rule.role, rule.side, rule.unit, stem))
    return Recording(str(table.path), layout.format, distinct(table.path, channels), tuple(_joined(notes)))


def headings_fit(headings: Sequence[str], *needed: str) -> bool:
    """Whether every pattern has its heading."""
    return all(any(re.fullmatch(pattern, name) for name in headings) for pattern in needed)


def _check_unit(table: TextTable, layout: Layout, stamps: FloatArray) -> None:
    """Refuse a time that must be in another unit than the format's: no controller samples so slowly or so fast."""
    if len(stamps) < 3:
        return
    step = float(np.median(np.diff(stamps)))
    if not FASTEST <= step <= SLOWEST and step > 0.0:
        unit = "ms" if layout.seconds == 1e-3 else "s"
        told = f"time goes in steps of {step / layout.seconds:g}, which cannot be {unit} as {layout.format} has it"
        raise InvalidLog(table.path, f'{told}; declare the columns and time_unit with format = "csv"')


def _stem(rule: Rule, name: str) -> str:
    """Name a group by what stands before the joint: `pos` of `pos_A1_deg`."""
    found = re.fullmatch(rule.pattern, name)
    return name[: found.start("joint")].rstrip("_[:") if found else ""


def _present(values: FloatArray, clock: Clock) -> tuple[FloatArray, Clock]:
    """Leave out rows that tell nothing; a channel keeps its own time base."""
    there = ~np.isnan(values)
    if there.all() or clock.t is None:
        return values, clock
    return values[there], Clock(clock.t[there], clock.rows[there])


def _joined(notes: list[str]) -> list[str]:
    """Say `is empty` once for all columns."""
    empty = [note.removesuffix(" is empty") for note in notes if note.endswith(" is empty")]
    others = [note for note in notes if not note.endswith(" is empty")]
    return [*others, *([f"without values: {', '.join(empty)}"] if empty else [])]


def _word(table: TextTable, column: int) -> InvalidLog:
    name = table.headings[column] if table.headings else str(column + 1)
    return InvalidLog(table.path, f"column {name!r} is not a number here", int(table.rows[0]))
