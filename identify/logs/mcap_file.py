"""MCAP files, as far as bags need them: messages of chosen topics, in order, up to where the file is whole.

Read from the front, without the index at the end: a recorder that died wrote none.
"""

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from excitor.identify.logs.opened import LARGEST_BINARY, check_file
from excitor.robots.errors import InvalidLog

MAGIC = b"\x89MCAP0\r\n"
LARGEST_RECORD = 2**28  # bytes; recorders cut chunks far below
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END, _FOOTER = 3, 4, 5, 6, 15, 2
_CUT_CHUNK = -_CHUNK  # one that the end of the file cuts


@dataclass(frozen=True)
class Topic:
    """A stream of messages of one type."""

    name: str
    type: str  # `sensor_msgs/msg/JointState`
    definition: str  # its text, where the file tells it
    encoding: str


@dataclass
class McapFile:
    """What has been read of a file so far."""

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
    """Find the library that rosbags brings along."""
    if packing == "lz4":
        return import_module("lz4.frame").LZ4FrameDecompressor()
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd").ZstdDecompressor()


def _text(content: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, at)
    end = at + 4 + length
    if end > len(content):
        raise ValueError("a text reaches beyond its record")
    return str(content[at + 4 : end], "utf-8"), end
