"""The MATLAB 5 to 7.2 file format, as far as logs need it: tables of numbers, and structs of these.

Written for files from strangers: every length is checked against what is there. (scipy's reader, which knows more of
the format, takes the whole process down on some damaged files.) Objects, functions and the like are not decoded.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

LARGEST = 2**30  # bytes of one variable
LARGEST_FILE = 2**29
MOST_NUMBERS = 100_000_000  # of one array: small ones of a byte each take eight
SPARE, RATIO = 2**26, 100  # a variable may grow by so much when it is inflated; one that grows more is no measurement
DEEPEST = 8  # structs in structs
_HEADER = 128
_COMPRESSED, _MATRIX = 15, 14
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_KINDS = {1: "a cell array", 3: "an object", 4: "text", 5: "a sparse matrix", 16: "a function", 17: "an object"}
_STRUCT = 2
_NUMERIC = range(6, 16)
_COMPLEX = 0x0800


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that is not numbers."""

    kind: str


Value = FloatArray | Mapping[str, "Value"] | Unread


class _Damaged(Exception):
    """What is wrong with the bytes."""


def read_matlab_file(path: Path) -> dict[str, Value]:
    """Read all variables; InvalidLog says why a file is not read."""
    try:
        with path.open("rb") as file:
            content = file.read(_HEADER)
            mark = content[126:_HEADER]
            size = path.stat().st_size
            if mark in (b"IM", b"MI") and size <= LARGEST_FILE:
                content += file.read()
    except FileNotFoundError:
        raise InvalidLog(path, "there is no such file") from None
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {error.strerror or error}") from None
    if size > LARGEST_FILE and mark in (b"IM", b"MI"):
        raise InvalidLog(path, f"is larger than {LARGEST_FILE / 1e9:.1f} GB; cut the log into runs")
    if len(content) < _HEADER or mark not in (b"IM", b"MI"):
        raise InvalidLog(path, "is not a MATLAB file of version 5 to 7.2")
    order = "<" if mark == b"IM" else ">"
    if int.from_bytes(content[124:126], "little" if order == "<" else "big") != 0x0100:
        raise InvalidLog(path, "is a MATLAB file of another version, 7.3 or later; save it with -v7")
    try:
        return _variables(_Bytes(memoryview(content)[_HEADER:], order))
    except _Damaged as error:
        raise InvalidLog(path, f"is damaged, or not a MATLAB file: {error}") from None


class _Bytes:
    """Bytes read from the front, each element with its tag."""

    def __init__(self, data: memoryview, order: str) -> None:
        self.data = data
        self.order = order
        self.at = 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def take(self, count: int) -> memoryview:
        """Take the next bytes."""
        if count > len(self.data) - self.at:
            raise _Damaged(f"{count} bytes are announced where {len(self.data) - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def element(self) -> tuple[int, memoryview]:
        """Take an element: its type and its data. Small ones share the eight bytes of the tag."""
        first, second = (int(n) for n in np.frombuffer(self.take(8), f"{self.order}u4"))
        if first >> 16:
            if first >> 16 > 4:
                raise _Damaged("a small element is larger than four bytes")
            return first & 0xFFFF, self.data[self.at - 4 : self.at - 4 + (first >> 16)]
        data = self.take(second)
        if first != _COMPRESSED:
            self.at = min(self.at + -second % 8, len(self.data))
        return first, data

    def numbers(self) -> FloatArray:
        """Take an element of numbers."""
        kind, data = self.element()
        size = np.dtype(_NUMBERS[kind]).itemsize if kind in _NUMBERS else 0
        if not size or len(data) % size:
            raise _Damaged(f"an element of type {kind} and {len(data)} bytes stands where numbers should")
        if len(data) // size > MOST_NUMBERS:
            raise _Damaged(f"an array of {len(data) // size} numbers is larger than a log can be")
        return np.frombuffer(data, f"{self.order}{_NUMBERS[kind]}").astype(np.float64)

    def integers(self) -> list[int]:
        """Take an element of whole numbers."""
        numbers = self.numbers()
        if not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
            raise _Damaged("whole numbers are announced, and there are others")
        return [int(number) for number in numbers]

    def text(self) -> bytes:
        """Take an element of characters."""
        return bytes(self.element()[1])

    def inside(self, data: memoryview) -> "_Bytes":
        """Read within an element."""
        return _Bytes(data, self.order)


def _variables(data: _Bytes) -> dict[str, Value]:
    found: dict[str, Value] = {}
    while data:
        kind, inner = data.element()
        if kind == _COMPRESSED:
            kind, inner = data.inside(_inflated(inner)).element()
        if kind != _MATRIX:
            raise _Damaged(f"an element of type {kind} stands where a variable should")
        name, value = _matrix(data.inside(inner), 0)
        found[name] = value
    return found


def _inflated(data: memoryview) -> memoryview:
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, min(LARGEST, SPARE + RATIO * len(data)))
    except zlib.error as error:
        raise _Damaged(f"a compressed variable cannot be unpacked ({error})") from None
    if not inflate.eof:
        raise _Damaged("a compressed variable is cut off, or larger than a log can be")
    return memoryview(content)


def _matrix(data: _Bytes, depth: int) -> tuple[str, Value]:
    """Read an array: flags, dimensions, name, then what its class asks for."""
    if not data:
        return "", np.zeros((0, 0))
    if depth > DEEPEST:
        raise _Damaged(f"structs are nested more than {DEEPEST} deep")
    flags = data.integers()
    shape = tuple(data.integers())
    name = data.text().decode("utf-8", "replace")
    if not flags or len(shape) < 2 or min(shape) < 0:
        raise _Damaged(f"array {name!r} has no class or no shape")
    kind = flags[0] & 0xFF
    if kind == _STRUCT:
        return name, _struct(data, shape, depth)
    if kind not in _NUMERIC:
        return name, Unread(_KINDS.get(kind, f"of the unknown class {kind}"))
    if flags[0] & _COMPLEX:
        return name, Unread("an array of complex numbers")
    values = data.numbers()
    if values.size != prod(shape):
        raise _Damaged(f"array {name!r} holds {values.size} numbers, expected {'x'.join(map(str, shape))}")
    return name, values.reshape(shape, order="F")


def _struct(data: _Bytes, shape: tuple[int, ...], depth: int) -> Value:
    """Read a single struct's members."""
    if prod(shape) != 1:
        return Unread("an array of structs")
    length = data.integers()
    names = data.text()
    if len(length) != 1 or length[0] < 1 or len(names) % length[0]:
        raise _Damaged("the names of a struct's members cannot be told apart")
    step = length[0]
    members: dict[str, Value] = {}
    for start in range(0, len(names), step):
        kind, inner = data.element()
        if kind != _MATRIX:
            raise _Damaged(f"an element of type {kind} stands where a member should")
        name = names[start : start + step].split(b"\0")[0].decode("utf-8", "replace")
        members[name] = _matrix(data.inside(inner), depth + 1)[1]
    return members
