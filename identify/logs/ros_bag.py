"""ROS 2 bags, SQLite or MCAP, a file or a folder: joint states, controllers' states and speed scaling."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from excitor.identify.logs.bag_database import MARK, database_messages
from excitor.identify.logs.mcap_file import MAGIC, McapFile, Topic
from excitor.identify.logs.opened import Head, check_file, head, partner
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
from excitor.identify.logs.ros_messages import CONTROLLER_STATE, NUMBER, SPEED_SCALING, TYPES, decode, variants_of
from excitor.robots.errors import InvalidLog

_MOST = 20_000_000  # numbers
_OTHER: tuple[Quantity | None, str | None, Role] = (None, None, "unknown")
_KINDS: dict[str, tuple[Quantity | None, str | None, Role]] = {
    "position": ("position", "rad", "measured"),
    "velocity": ("velocity", "rad/s", "measured"),
    "effort": ("effort", None, "measured"),
    "feedback.positions": ("position", "rad", "measured"),
    "feedback.velocities": ("velocity", "rad/s", "measured"),
    "feedback.effort": ("effort", None, "measured"),
    "reference.positions": ("position", "rad", "reference"),
    "reference.velocities": ("velocity", "rad/s", "reference"),
    "reference.accelerations": ("acceleration", "rad/s2", "reference"),
    "actual.positions": ("position", "rad", "measured"),
    "actual.velocities": ("velocity", "rad/s", "measured"),
    "desired.positions": ("position", "rad", "reference"),
    "desired.velocities": ("velocity", "rad/s", "reference"),
    "speed_scaling": ("speed_scaling", None, "measured"),
}


@dataclass
class _Series:
    """Messages of one topic that tell the same joints the same quantities."""

    topic: str
    names: tuple[str, ...]
    quantities: tuple[str, ...]
    stamps: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)


def fits(head: Head) -> int:
    """2 for a bag's file, or a folder with one."""
    if head.is_folder:
        return 2 if any(name.endswith((".mcap", ".db3", "metadata.yaml")) for name in head.names) else 0
    return 2 if head.data.startswith((MAGIC, MARK)) else 0


def read(path: Path) -> Recording:
    """Read every topic that tells of joints; times count from the first message's stamp."""
    files = files_of(path)
    notes: list[str] = []
    series = _gather(path, _all(path, files, notes))
    if not series:
        raise InvalidLog(path, f"holds no joint states: none of its topics is of type {' or '.join(TYPES[:2])}")
    start = min(one.stamps[0] for one in series)
    topics = sorted({one.topic for one in series if one.names})
    channels: list[Channel] = []
    for one in series:
        channels += _channels(path, one, start, len(topics) > 1, notes)
    notes.append(f"time counts from the stamp {start / 1e9:.9f} s")
    return Recording(str(path), "ros_bag", distinct(path, channels), tuple(dict.fromkeys(notes)))


def files_of(path: Path) -> list[Path]:
    """List a bag's files, in the order in which they were written."""
    if not path.is_dir():
        return [path]
    names = head(path).names
    if "metadata.yaml" in names:
        _check_unpacked(partner(path / "x", "metadata.yaml"))
    files = [partner(path / "x", name) for name in names if name.endswith((".mcap", ".db3"))]
    if not files:
        packed = any(name.endswith(".zstd") for name in names)
        raise InvalidLog(path, "is packed as a whole; unpack it first" if packed else "holds no .mcap and no .db3 file")

    def order(file: Path) -> tuple[str, int]:
        found = re.fullmatch(r"(.*?)_(\d{1,9})", file.stem)
        return (found[1], int(found[2])) if found else (file.stem, -1)

    return sorted(files, key=order)


def _check_unpacked(metadata: Path) -> None:
    """Refuse bags packed by file or by message: only its mode is looked for, nothing is built from the text."""
    check_file(metadata, 100_000_000)
    found = re.search(r"^\s*compression_mode:\s*[\"']?(\w+)", metadata.read_text("utf-8", "replace"), re.MULTILINE)
    if found and found[1].lower() in ("file", "message"):
        raise InvalidLog(metadata, f"says that the bag is packed by {found[1].lower()}; convert it without compression")


def _all(path: Path, files: list[Path], notes: list[str]) -> Iterator[tuple[Topic, int, memoryview]]:
    for file in files:
        start = head(file).data
        if start.startswith(MARK):
            yield from database_messages(file, TYPES)
        elif start.startswith(MAGIC):
            mcap = McapFile(file)
            yield from mcap.messages()
            notes += [f"{file.name}: {note}" for note in mcap.notes]
        else:
            raise InvalidLog(file, "is neither an MCAP file nor a database")


def _gather(path: Path, messages: Iterator[tuple[Topic, int, memoryview]]) -> list[_Series]:
    """Sort messages by topic, joints and quantities."""
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Series] = {}
    variants: dict[Topic, list[int]] = {}
    counts: dict[Topic, int] = {}
    size = 0
    for topic, log_time, data in messages:
        if topic.type not in TYPES or (topic.type == NUMBER and SPEED_SCALING not in topic.name):
            continue
        if topic.encoding != "cdr":
            raise InvalidLog(path, f"{topic.name} is written as {topic.encoding[:20]!r}, expected cdr")
        counts[topic] = row = counts.get(topic, 0) + 1
        if topic not in variants:
            variants[topic] = list(variants_of(topic.definition)) if topic.type == CONTROLLER_STATE else [0]
        values, names, stamp = _decoded(path, topic, data, variants[topic], row)
        key = (topic.name, names, tuple(values))
        one = found.setdefault(key, _Series(*key))
        one.stamps.append(stamp or log_time)
        one.rows.append(row)
        one.values.append([x for part in values.values() for x in part])
        size += len(one.values[-1])
        if size > _MOST:
            raise InvalidLog(path, f"holds more than {_MOST} numbers of joints; cut it into runs")
    return list(found.values())


def _decoded(
    path: Path, topic: Topic, data: memoryview, variants: list[int], row: int
) -> tuple[dict[str, list[float]], tuple[str, ...], int]:
    """Decode a message; the first one settles which release of its definition it was written by."""
    told = "its definition is none of those known"
    for variant in list(variants):
        try:
            point = decode(topic.type, data, variant)
        except ValueError as error:
            told = str(error)
            continue
        values = {}
        for name, part in point.values.items():
            numbers = [float(x) for x in part] if point.names and name != "speed_scaling" else [float(part)]
            if len(numbers) == (1 if name == "speed_scaling" else len(point.names)):
                values[name] = numbers
            elif numbers:
                told = f"{name} has {len(numbers)} numbers for {len(point.names)} joints"
                break
        else:
            variants[:] = [variant]
            return values, point.names, point.stamp
    raise InvalidLog(path, f"a message of {topic.name} cannot be decoded: {told}", row)


def _channels(path: Path, one: _Series, start: int, many: bool, notes: list[str]) -> list[Channel]:
    stamps = np.array(one.stamps, dtype=object) - start  # Python's whole numbers: stamps of strangers may be huge
    t = np.array([float(stamp) for stamp in stamps]) * 1e-9
    clock = Clock(t, np.array(one.rows))
    check_measured(path, f"the time of {one.topic}", t, clock.rows)
    table = np.array(one.values)
    channels, at = [], 0
    for quantity in one.quantities:
        kind, unit, role = _KINDS.get(quantity, _OTHER)
        label = f"{one.topic} {quantity}" if many or not one.names else quantity
        names = one.names if quantity != "speed_scaling" else (None,)
        for name in names:
            values = table[:, at]
            at += 1
            full = label if name is None else f"{label}:{name}"
            if np.isnan(values).all():
                notes.append(f"{full} is no number in any message; it is left out")
                continue
            check_measured(path, full, values, clock.rows)
            side: ChannelSide = "joint" if kind in ("position", "velocity", "acceleration") else "unknown"
            channels.append(Channel(full, values, clock, kind, name, role, side, unit, label if name else ""))
    return channels
