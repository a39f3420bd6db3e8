"""MATLAB files of any version from 5 on: variables and members of structs, by their names.

Versions 5 to 7.2 are parsed here as far as logs need it: tables of numbers, and structs of these. Signals may be means
over repeated runs, or plain arrays.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import arrays_recording, read_apart
from excitor.identify.logs.opened import Head, head
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog
from excitor.robots.robot import Motion

_HDF5 = b"\x89HDF\r\n\x1a\n"


def fits(head: Head) -> int:
    """2 for the marks of version 5 or of HDF5."""
    return 2 if _is_hdf5(head.data) or head.data[126:128] in (b"IM", b"MI") else 0


def read(path: Path) -> Recording:
    """Read all arrays of numbers."""
    if _is_hdf5(head(path).data):
        arrays, notes = read_apart(path, "hdf5")
        return arrays_recording(path, "matlab", arrays, notes)
    found: dict[str, FloatArray] = {}
    left: list[str] = []
    for name, value in read_matlab_file(path).items():
        _flatten(name, value, found, left)
    return arrays_recording(path, "matlab", found, [f"not numbers, left out: {', '.join(left[:12])}"] if left else [])


def _is_hdf5(data: bytes) -> bool:
    return any(data[at : at + 8] == _HDF5 for at in (0, 512, 1024, 2048))


@dataclass(frozen=True, slots=True)
class Unread:
    """A variable that does not hold numbers."""

    kind: str


Value = FloatArray | Mapping[str, "Value"] | Unread


def _flatten(name: str, value: Value, found: dict[str, FloatArray], left: list[str]) -> None:
    if isinstance(value, Unread):
        left.append(name)
    elif isinstance(value, dict):
        for member, inner in value.items():
            _flatten(f"{name}.{member}", inner, found, left)
    else:
        found[name] = value  # type: ignore[assignment]


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


class _DamagedFile(Exception):
    """Damaged bytes, with the fault as a sentence."""


def read_matlab_file(path: Path) -> dict[str, Value]:
    """Read all variables; InvalidLog states why a file cannot be read."""
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
    except _DamagedFile as error:
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
        """Read the next bytes."""
        if count > len(self.data) - self.at:
            raise _DamagedFile(f"{count} bytes are announced where {len(self.data) - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def element(self) -> tuple[int, memoryview]:
        """Read an element: its type and its data. Small ones share the eight bytes of the tag."""
        first, second = (int(n) for n in np.frombuffer(self.take(8), f"{self.order}u4"))
        if first >> 16:
            if first >> 16 > 4:
                raise _DamagedFile("a small element is larger than four bytes")
            return first & 0xFFFF, self.data[self.at - 4 : self.at - 4 + (first >> 16)]
        data = self.take(second)
        if first != _COMPRESSED:
            self.at = min(self.at + -second % 8, len(self.data))
        return first, data

    def numbers(self) -> FloatArray:
        """Read an element of numbers."""
        kind, data = self.element()
        size = np.dtype(_NUMBERS[kind]).itemsize if kind in _NUMBERS else 0
        if not size or len(data) % size:
            raise _DamagedFile(f"an element of type {kind} and {len(data)} bytes stands where numbers should")
        if len(data) // size > MOST_NUMBERS:
            raise _DamagedFile(f"an array of {len(data) // size} numbers is larger than a log can be")
        return np.frombuffer(data, f"{self.order}{_NUMBERS[kind]}").astype(np.float64)

    def integers(self) -> list[int]:
        """Read an element of whole numbers."""
        numbers = self.numbers()
        if not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
            raise _DamagedFile("whole numbers are announced, and there are others")
        return [int(number) for number in numbers]

    def text(self) -> bytes:
        """Read an element of characters."""
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
            raise _DamagedFile(f"an element of type {kind} stands where a variable should")
        name, value = _matrix(data.inside(inner), 0)
        found[name] = value
    return found


def _inflated(data: memoryview) -> memoryview:
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, min(LARGEST, SPARE + RATIO * len(data)))
    except zlib.error as error:
        raise _DamagedFile(f"a compressed variable cannot be unpacked ({error})") from None
    if not inflate.eof:
        raise _DamagedFile("a compressed variable is cut off, or larger than a log can be")
    return memoryview(content)


def _matrix(data: _Bytes, depth: int) -> tuple[str, Value]:
    """Read an array: flags, dimensions, name, then the data of its class."""
    if not data:
        return "", np.zeros((0, 0))
    if depth > DEEPEST:
        raise _DamagedFile(f"structs are nested more than {DEEPEST} deep")
    flags = data.integers()
    shape = tuple(data.integers())
    name = data.text().decode("utf-8", "replace")
    if not flags or len(shape) < 2 or min(shape) < 0:
        raise _DamagedFile(f"array {name!r} has no class or no shape")
    kind = flags[0] & 0xFF
    if kind == _STRUCT:
        return name, _struct(data, shape, depth)
    if kind not in _NUMERIC:
        return name, Unread(_KINDS.get(kind, f"of the unknown class {kind}"))
    if flags[0] & _COMPLEX:
        return name, Unread("an array of complex numbers")
    values = data.numbers()
    if values.size != prod(shape):
        raise _DamagedFile(f"array {name!r} holds {values.size} numbers, expected {'x'.join(map(str, shape))}")
    return name, values.reshape(shape, order="F")


def _struct(data: _Bytes, shape: tuple[int, ...], depth: int) -> Value:
    """Read a single struct's members."""
    if prod(shape) != 1:
        return Unread("an array of structs")
    length = data.integers()
    names = data.text()
    if len(length) != 1 or length[0] < 1 or len(names) % length[0]:
        raise _DamagedFile("the names of a struct's members have an invalid length")
    step = length[0]
    members: dict[str, Value] = {}
    for start in range(0, len(names), step):
        kind, inner = data.element()
        if kind != _MATRIX:
            raise _DamagedFile(f"an element of type {kind} stands where a member should")
        name = names[start : start + step].split(b"\0")[0].decode("utf-8", "replace")
        members[name] = _matrix(data.inside(inner), depth + 1)[1]
    return members


DEGREES = "deg_"
UNEVEN = 1e-3  # of the sampling interval: what clocks written in decimal seconds round by, and more


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of a file's fields; arrays are (n_samples, n_joints), time is (n_samples,) in seconds."""

    q: str
    dq: str
    ddq: str
    tau: str
    time: str
    variance: str | None = None  # of tau, in a single repetition


def read_matlab_means(path: str | Path, fields: Fields, *, run: str | None = None) -> Samples:
    """Read one run; InvalidLog states a file's fault and its row."""
    names = {"q": fields.q, "dq": fields.dq, "ddq": fields.ddq, "tau": fields.tau}
    if fields.variance is not None:
        names["variance"] = fields.variance
    arrays = read_arrays(path, {**names, "time": fields.time})
    time = arrays.pop("time").ravel()
    shape = arrays["q"].shape
    for key, array in arrays.items():
        if array.shape != shape:
            raise InvalidLog(path, f"{names[key]} has shape {array.shape}, expected {shape} as {fields.q} has")
    rate = _sample_rate_hz(path, time, shape[0], fields.time)
    if "variance" in arrays:
        _check_positive(path, arrays["variance"], names["variance"])
    return Samples(
        run=run or Path(path).stem,
        motion=Motion(arrays["q"], arrays["dq"], arrays["ddq"]),
        tau=arrays["tau"],
        sample_rate_hz=rate,
        variance=arrays.get("variance"),
        steps=(Step("read_matlab_means", {"file": Path(path).name, **names}),),
    )


def read_arrays(path: str | Path, fields: Mapping[str, str]) -> dict[str, FloatArray]:
    """Read chosen fields as finite two-dimensional arrays (key -> field), degrees turned into radians."""
    content = read_matlab_file(Path(path))
    return {
        key: _in_radians(field, _checked(path, field, _find(path, content, field))) for key, field in fields.items()
    }


def _find(path: str | Path, content: Mapping[str, Value], field: str) -> Value:
    """Follow a dotted name into structs."""
    value: Value = content
    so_far: list[str] = []
    for name in field.split("."):
        where = f"{'.'.join(so_far)} has no member" if so_far else "has no field"
        if not isinstance(value, Mapping):
            holds = value.kind if isinstance(value, Unread) else "a table of numbers"
            raise InvalidLog(path, f"{where} {name}; it is {holds}")
        if name not in value:
            raise InvalidLog(path, f"{where} {name}; it holds {', '.join(sorted(value)) or 'nothing'}")
        value = value[name]
        so_far.append(name)
    return value


def _checked(path: str | Path, field: str, value: Value) -> FloatArray:
    """Accept real, finite, two-dimensional numbers only."""
    if isinstance(value, Mapping):
        raise InvalidLog(path, f"{field} is a struct; name a member: {', '.join(f'{field}.{n}' for n in value)}")
    if isinstance(value, Unread):
        raise InvalidLog(path, f"{field} is {value.kind}, expected a table of numbers")
    if value.ndim != 2 or value.size == 0:
        raise InvalidLog(path, f"{field} has shape {value.shape}, expected a table (n_samples, n_joints)")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {value[row, column]} in column {column + 1}", row + 1)
    return value


def _in_radians(field: str, table: FloatArray) -> FloatArray:
    return np.radians(table) if field.rpartition(".")[2].startswith(DEGREES) or field.startswith(DEGREES) else table


def _sample_rate_hz(path: str | Path, time: FloatArray, n_samples: int, field: str) -> float:
    """Compute the rate of even sampling; a backward, repeated or missing time is refused with its row."""
    if len(time) != n_samples:
        raise InvalidLog(path, f"{field} has {len(time)} times for {n_samples} samples")
    if n_samples < 3:
        raise InvalidLog(path, f"holds {n_samples} samples, expected at least 3")
    intervals = np.diff(time)
    usual = float(np.median(intervals))
    if not usual > 0.0:
        raise InvalidLog(path, f"{field} does not increase", int(np.argmax(intervals <= 0.0)) + 2)
    uneven = np.abs(intervals - usual) > UNEVEN * usual
    if uneven.any():
        k = int(np.argmax(uneven))
        raise InvalidLog(
            path, f"{field} goes from {time[k]:g} s to {time[k + 1]:g} s, expected steps of {usual:g} s", k + 2
        )
    return float((n_samples - 1) / (time[-1] - time[0]))


def _check_positive(path: str | Path, variance: FloatArray, field: str) -> None:
    bad = np.argwhere(variance <= 0.0)
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {variance[row, column]:g} in column {column + 1}, expected > 0", row + 1)
