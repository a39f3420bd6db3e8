"""ROS 2 bags, SQLite or MCAP, a file or a folder: joint states, controllers' states and speed scaling.

rosbags decodes the messages. Files are read here: its reader (0.11) refuses a recording that breaks off, states no
profile, or has no index and no order of time, and a whole bag if it does not know the form of one definition.

* Messages of joints are decoded by definitions of our own: a bag's text is compared, never compiled.
* SQLite files: messages of chosen types, read without trusting the file's own definitions.
* MCAP files, as far as bags need them: messages of chosen topics, in order, up to where the file is whole.
"""

import re
import sqlite3
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np

from excitor.identify.log import Channel, Clock, Recording
from excitor.identify.logs.opened import LARGEST_BINARY, Head, LogFormat, check_file, head, partner
from excitor.identify.logs.table import Rule, layout_named
from excitor.robots.errors import InvalidLog

_MOST = 20_000_000  # numbers
_KINDS = {rule.pattern: rule for rule in layout_named("ros_bag").rules}
JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
NUMBER = "std_msgs/msg/Float64"
TYPES = (JOINT_STATE, CONTROLLER_STATE, NUMBER)
SPEED_SCALING = "speed_scaling"  # in the name of a topic of numbers
_POINT, _MULTI = "trajectory_msgs/JointTrajectoryPoint", "trajectory_msgs/MultiDOFJointTrajectoryPoint"
_HEADER = "std_msgs/Header header\nstring[] joint_names\n"
MARK = b"SQLite format 3\0"
_LARGEST_MESSAGE = 2**26
_STEPS = 500_000_000  # of SQLite's machine
MAGIC = b"\x89MCAP0\r\n"
LARGEST_RECORD = 2**28  # bytes; recorders cut chunks far below
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END, _FOOTER = 3, 4, 5, 6, 15, 2
_CUT_CHUNK = -_CHUNK  # one that the end of the file cuts


@dataclass
class _Series:
    """Messages of one topic that report the same quantities of the same joints."""

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
    """Read every topic that reports joints; times count from the first message's stamp."""
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
    return Recording(str(path), "ros_bag", tuple(channels), tuple(dict.fromkeys(notes)))


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
    """Refuse bags compressed by file or by message; the mode is found by a text search, without parsing."""
    check_file(metadata, 100_000_000)
    found = re.search(r"^\s*compression_mode:\s*[\"']?(\w+)", metadata.read_text("utf-8", "replace"), re.MULTILINE)
    if found and found[1].lower() in ("file", "message"):
        raise InvalidLog(metadata, f"says that the bag is packed by {found[1].lower()}; convert it without compression")


@dataclass(frozen=True)
class Topic:
    """A stream of messages of one type."""

    name: str
    type: str  # `sensor_msgs/msg/JointState`
    definition: str  # its text, where the file tells it
    encoding: str


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
    """Decode a message; the first one determines the release of the definition it was written by."""
    sentence = "its definition is none of those known"
    for variant in list(variants):
        try:
            point = decode(topic.type, data, variant)
        except ValueError as error:
            sentence = str(error)
            continue
        values = {}
        for name, part in point.values.items():
            numbers = [float(x) for x in part] if point.names and name != "speed_scaling" else [float(part)]
            if len(numbers) == (1 if name == "speed_scaling" else len(point.names)):
                values[name] = numbers
            elif numbers:
                sentence = f"{name} has {len(numbers)} numbers for {len(point.names)} joints"
                break
        else:
            variants[:] = [variant]
            return values, point.names, point.stamp
    raise InvalidLog(path, f"a message of {topic.name} cannot be decoded: {sentence}", row)


def _channels(path: Path, one: _Series, start: int, many: bool, notes: list[str]) -> list[Channel]:
    stamps = np.array(one.stamps, dtype=object) - start  # Python's whole numbers: stamps of strangers may be huge
    clock = Clock(np.array([float(stamp) for stamp in stamps]) * 1e-9, np.array(one.rows))
    table = np.array(one.values)
    channels, at = [], 0
    for quantity in one.quantities:
        rule = _KINDS.get(quantity, Rule(quantity))
        label = f"{one.topic} {quantity}" if many or not one.names else quantity
        for name in one.names if quantity != "speed_scaling" else (None,):
            values = table[:, at]
            at += 1
            full = label if name is None else f"{label}:{name}"
            if np.isnan(values).all():
                notes.append(f"{full} is no number in any message; it is left out")
                continue
            own = (rule.kind, name, rule.role, rule.side, rule.unit)
            channels.append(Channel(full, values, clock, *own, label if name else ""))
    return channels


def _states(names: str, multi: str = "") -> str:
    text = _HEADER + "".join(f"{_POINT} {name}\n" for name in names.split())
    if multi:
        text += "string[] multi_dof_joint_names\n"
        text += "".join(f"{_MULTI} multi_dof_{name}\n" for name in multi.split())
    return text


# As the package control_msgs defined the message from release to release, the newest first.
_NEW = "reference feedback error output"
VARIANTS = (
    _states(_NEW, _NEW) + "float64 speed_scaling_factor\n",
    _states(_NEW, _NEW),
    _states(_NEW + " desired actual", _NEW + " desired actual"),
    _states("desired actual error"),
)


@dataclass(frozen=True)
class Point:
    """Joint data of a message: names, and by quantity one number a joint."""

    stamp: int  # ns; 0 where it is not told
    names: tuple[str, ...]
    values: dict[str, Any]


@cache
def _store(variant: int) -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    store.register(get_types_from_msg(VARIANTS[variant], CONTROLLER_STATE))
    return store


def variants_of(definition: str) -> tuple[int, ...]:
    """Find the variant of the controller's state that a bag's text defines; all of them where it has none."""
    if not definition.strip():
        return tuple(range(len(VARIANTS)))
    fields = _fields(definition)
    return tuple(k for k, text in enumerate(VARIANTS) if _fields(text) == fields)


def _fields(definition: str) -> list[str]:
    """List a definition's own fields, up to where it quotes others."""
    own = re.split(r"^=+\s*$", definition, maxsplit=1, flags=re.MULTILINE)[0]
    lines = (re.sub(r"#.*", "", line).split() for line in own.splitlines())
    return [words[1] for words in lines if len(words) >= 2 and "=" not in words[1]]


def decode(kind: str, data: memoryview, variant: int) -> Point:
    """Decode a message; ValueError where its bytes do not match its type."""
    try:
        message = _store(variant).deserialize_cdr(bytes(data), kind)
    except Exception as error:  # generated code meets bytes of strangers, and fails in many ways
        raise ValueError(str(error)[:100] or type(error).__name__) from None
    if kind == NUMBER:
        return Point(0, (), {"speed_scaling": message.data})
    stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
    if kind == JOINT_STATE:
        parts = {name: getattr(message, name) for name in ("position", "velocity", "effort")}
        return Point(stamp, tuple(message.name), parts)
    parts = {}
    for name in _fields(VARIANTS[variant]):
        part = getattr(message, name)
        if name in ("reference", "feedback", "error", "output", "desired", "actual"):
            for quantity in ("positions", "velocities", "accelerations", "effort"):
                parts[f"{name}.{quantity}"] = getattr(part, quantity)
    if hasattr(message, "speed_scaling_factor"):
        parts["speed_scaling"] = message.speed_scaling_factor
    return Point(stamp, tuple(message.joint_names), parts)


def database_messages(path: Path, types: tuple[str, ...]) -> Iterator[tuple[Topic, int, memoryview]]:
    """Yield (topic, time of recording in ns, content) of messages of these types, in order of time."""
    check_file(path, LARGEST_BINARY)
    address = path.resolve().as_uri() + "?mode=ro&immutable=1"
    try:
        database = sqlite3.connect(address, uri=True)
    except sqlite3.Error as error:
        raise InvalidLog(path, f"cannot be read: {error}") from None
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_MESSAGE)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        budget = iter(range(_STEPS // 100_000))
        database.set_progress_handler(lambda: int(next(budget, None) is None), 100_000)
        yield from _messages(path, database, types)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise InvalidLog(path, f"is a damaged bag: {str(error)[:120]}") from None
    finally:
        database.close()


def _messages(
    path: Path, database: sqlite3.Connection, types: tuple[str, ...]
) -> Iterator[tuple[Topic, int, memoryview]]:
    tables = {name for name, text in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
              if isinstance(text, str) and text.lstrip().upper().startswith("CREATE TABLE")}  # fmt: skip
    if not {"topics", "messages"} <= tables:
        raise InvalidLog(path, "is a database, but no bag: it has no tables of topics and messages")
    definitions: dict[object, object] = {}
    if "message_definitions" in tables:
        query = "SELECT topic_type, encoded_message_definition FROM message_definitions"
        definitions = dict(database.execute(query).fetchmany(1000))
    for key, name, kind, encoding in database.execute(
        "SELECT id, name, type, serialization_format FROM topics ORDER BY id"
    ).fetchmany(10_000):
        if kind not in types:
            continue
        topic = Topic(str(name), str(kind), str(definitions.get(kind) or ""), str(encoding))
        rows = database.execute(
            "SELECT timestamp, data FROM messages WHERE topic_id = ? ORDER BY timestamp, id", (key,)
        )
        for stamp, data in rows:
            if not isinstance(stamp, int) or not isinstance(data, bytes):
                raise InvalidLog(path, f"is a damaged bag: a message of {topic.name} has no time or no content")
            yield topic, stamp, memoryview(data)


@dataclass
class McapFile:
    """State of reading an MCAP file: schemas, topics and notes found so far."""

    path: Path
    schemas: dict[int, tuple[str, str]] = field(default_factory=dict)
    topics: dict[int, Topic] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def messages(self) -> Iterator[tuple[Topic, int, memoryview]]:
        """Yield (topic, time of recording in ns, content) as they stand in the file."""
        size = check_file(self.path, LARGEST_BINARY)
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InvalidLog(self.path, "is not an MCAP file")
            for opcode, content in self._records(file, size):
                if opcode == _CHUNK:
                    yield from self._inside(self._unpacked(content, False), False)
                elif opcode == _CUT_CHUNK:
                    yield from self._inside(self._unpacked(content, True), True)
                elif opcode in (_DATA_END, _FOOTER):
                    return
                else:
                    yield from self._record(opcode, content)
        self.notes.append("the recording breaks off; what is whole is read")

    def _records(self, file: IO[bytes], size: int) -> Iterator[tuple[int, memoryview]]:
        while len(start := file.read(9)) == 9:
            opcode, length = start[0], int.from_bytes(start[1:], "little")
            if opcode == 0 or (opcode < 0x80 and opcode > _DATA_END):
                raise InvalidLog(self.path, f"is damaged at byte {file.tell() - 9}: no record begins there")
            if length > size - file.tell():
                if opcode == _CHUNK:
                    yield _CUT_CHUNK, memoryview(file.read(LARGEST_RECORD))
                return
            if opcode not in (_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK):
                file.seek(length, 1)
                if opcode in (_DATA_END, _FOOTER):
                    yield opcode, memoryview(b"")
                continue
            if length > LARGEST_RECORD:
                raise InvalidLog(self.path, f"has a record of {length} bytes, more than any recorder writes")
            yield opcode, memoryview(file.read(length))

    def _inside(self, chunk: bytes, cut: bool) -> Iterator[tuple[Topic, int, memoryview]]:
        data, at = memoryview(chunk), 0
        while at < len(data):
            length = int.from_bytes(data[at + 1 : at + 9], "little")
            if at + 9 + length > len(data):
                if cut:
                    return
                raise InvalidLog(self.path, "is damaged: a record reaches beyond its chunk")
            yield from self._record(data[at], data[at + 9 : at + 9 + length])
            at += 9 + length

    def _record(self, opcode: int, content: memoryview) -> Iterator[tuple[Topic, int, memoryview]]:
        try:
            if opcode == _MESSAGE:
                channel, _, log_time, _ = struct.unpack_from("<HIQQ", content)
                if channel in self.topics:
                    yield self.topics[channel], log_time, content[22:]
            elif opcode == _SCHEMA:
                (key,) = struct.unpack_from("<H", content)
                name, at = _text(content, 2)
                _, at = _text(content, at)
                self.schemas[key] = (name, _text(content, at)[0])
            elif opcode == _CHANNEL:
                key, schema = struct.unpack_from("<HH", content)
                name, at = _text(content, 4)
                kind, definition = self.schemas.get(schema, ("", ""))
                self.topics[key] = Topic(name, kind, definition, _text(content, at)[0])
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise InvalidLog(self.path, f"is damaged: {error}") from None

    def _unpacked(self, content: memoryview, cut: bool) -> bytes:
        try:
            _, _, size, crc = struct.unpack_from("<QQQI", content)
            packing, at = _text(content, 28)
            (length,) = struct.unpack_from("<Q", content, at)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise InvalidLog(self.path, f"is damaged: {error}") from None
        if size > LARGEST_RECORD:
            raise InvalidLog(self.path, f"has a chunk of {size} bytes, more than any recorder writes")
        data = bytes(content[at + 8 : at + 8 + length])
        if packing not in ("", "lz4", "zstd"):
            raise InvalidLog(self.path, f"packs its chunks by {packing[:20]!r}; known are zstd and lz4")
        try:
            raw = _decompressor(packing).decompress(data, size + 1) if packing else data
        except Exception as error:  # each library has an exception of its own for damaged data
            raise InvalidLog(self.path, f"has a chunk that cannot be unpacked: {str(error)[:100]}") from None
        if not cut and (len(raw) != size or (crc and crc32(raw) != crc)):
            raise InvalidLog(self.path, "has a chunk that is not what was written: its checksum or size is another")
        return raw


def _decompressor(packing: str) -> Any:
    """Return the decompressor of a compression, from a library that rosbags depends on."""
    if packing == "lz4":
        return import_module("lz4.frame").LZ4FrameDecompressor()
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd").ZstdDecompressor()


def _text(content: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, at)
    end = at + 4 + length
    if end > len(content):
        raise ValueError("a text reaches beyond its record")
    return str(content[at + 4 : end], "utf-8"), end


def _example(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT)")
    database.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB)")
    database.execute("INSERT INTO topics VALUES (1, '/joint_states', ?, 'cdr')", (JOINT_STATE,))
    for k in range(24):  # stamp, no frame, one joint named a, then a position, a velocity and an effort
        words = (b"\0\1\0\0", 100, 10_000_000 * k, 1, 0, 1, 2, b"a\0", 1, 0.1 * k, 1, 0.1, 1, 0.2)
        data = struct.pack("<4siIIB3xII2s2xId I4xd I4xd".replace(" ", ""), *words)
        database.execute("INSERT INTO messages VALUES (NULL, 1, ?, ?)", (k, data))
    database.commit()
    database.close()


FORMAT = LogFormat("ros_bag", fits, read, _example, files=files_of)
