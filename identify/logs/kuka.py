"""KUKA traces in DIAdem form: text headers beside binary data, a pair for the axes and one for every drive."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.log import Channel, ChannelSide, Clock, Recording
from excitor.identify.logs.opened import Head, LogFormat, check_file, head, partner, read_lines
from excitor.identify.logs.table import layout_named
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import InvalidLog

_MARK = "DIAEXTENDED"
_NAME, _UNIT, _FORM, _FILE, _ORDER, _TYPE, _COUNT, _COLUMN, _OFFSET, _FACTOR = (
    200, 202, 210, 211, 213, 214, 220, 221, 240, 241,
)  # fmt: skip
_TYPES = {"REAL64": "<f8", "REAL32": "<f4", "INT32": "<i4", "INT16": "<i2"}
_LARGEST_DATA = 4_000_000_000
_MOST_CHANNELS = 2000
_MOST_NUMBERS = 50_000_000  # of one pair of files
_UNITS = {
    "°": "deg", "deg": "deg", "grad": "deg", "rad": "rad", "mm": "mm", "m": "m", "a": "A", "ma": "mA", "nm": "N m",
    "n m": "N m", "°/s": "deg/s", "deg/s": "deg/s", "grad/s": "deg/s", "rad/s": "rad/s", "1/min": "rpm", "u/min": "rpm",
    "rpm": "rpm", "mm/s": "mm/s", "°c": "degC",
}  # fmt: skip
_AXES, _DRIVES = (layout_named(name).rules for name in ("kuka axes", "kuka drives"))
_DRIVE = re.compile(r"#(\d{1,3})$")


@dataclass(frozen=True)
class _Header:
    """One channel of a .dat file: its codes, and where it begins."""

    codes: dict[int, str]
    row: int

    def text(self, code: int) -> str:
        return self.codes.get(code, "").strip()


def fits(head: Head) -> int:
    """2 for a header of a trace, or a folder of them."""
    if head.is_folder:
        return 2 if any(name.lower().endswith(".dat") for name in head.names) else 0
    return 2 if head.data.lstrip()[: len(_MARK)].upper() == _MARK.encode() else 0


def read(path: Path) -> Recording:
    """Read a trace: all header files that share its name, each with its data."""
    channels: list[Channel] = []
    notes: list[str] = []
    files = _header_files(path)
    for file in files:
        found, remarks = _read_pair(file, file.stem.removeprefix(_trace(file)).lstrip("_"))
        channels += found
        notes += [f"{file.name}: {note}" for note in remarks]
    notes.insert(0, f"{len(files)} files of the trace are read: {', '.join(file.name for file in files)}")
    return Recording(str(path), "kuka_trace", tuple(channels), tuple(notes))


def files_of(path: Path) -> list[Path]:
    """List all files of a trace, headers and data."""
    headers = _header_files(path)
    names = [(file, header.text(_FILE)) for file in headers for header in _headers(file) if header.text(_FILE)]
    return [*headers, *dict.fromkeys(partner(file, name) for file, name in names)]


def _header_files(path: Path) -> list[Path]:
    """List the header files of a trace; a folder must hold one trace."""
    folder = path if path.is_dir() else path.parent
    inside = folder / "x"
    headers = [partner(inside, name) for name in head(folder).names if name.lower().endswith(".dat")]
    headers = [file for file in headers if file.is_file() and fits(head(file))]
    if path.is_dir():
        traces = sorted({_trace(file) for file in headers})
        if len(traces) != 1:
            sentence = f"{len(traces)} traces ({', '.join(traces[:5])})" if traces else "no trace"
            raise InvalidLog(path, f"holds {sentence}, expected one; name one of its .dat files")
        return headers
    found = [file for file in headers if _trace(file) == _trace(path)]
    return found if path in found else [path, *found]


def _trace(file: Path) -> str:
    """Name the trace that a file belongs to: `RUN` of `RUN_KRCIpo.dat` and `RUN_NextGenDrive#1.dat`."""
    found = re.fullmatch(r"(.+)_(?:KRCIpo|\w*Drive\w*#\d+|[A-Za-z]+#\d+)", file.stem)
    return found[1] if found else file.stem


def _read_pair(file: Path, part: str) -> tuple[list[Channel], list[str]]:
    headers = _headers(file)
    implicit = [header for header in headers if header.text(_FORM).upper().startswith("IMPLI")]
    explicit = [header for header in headers if header not in implicit]
    if not explicit:
        raise InvalidLog(file, "describes no channels")
    if len(implicit) != 1:
        raise InvalidLog(file, f"has {len(implicit)} implicit channels (code 210), expected one, the time")
    step, start = _number(file, implicit[0], _FACTOR, 1.0), _number(file, implicit[0], _OFFSET, 0.0)
    if implicit[0].text(_UNIT).lower() == "ms":
        step, start = 1e-3 * step, 1e-3 * start
    if not step > 0.0:
        raise InvalidLog(file, f"the time's step is {step:g} (code 241), expected a positive one", implicit[0].row)
    notes: list[str] = []
    data = _Data(file, explicit)
    clocks: dict[int, Clock] = {}
    channels = []
    for header in explicit:
        values = data.values(header, notes)
        clock = clocks.setdefault(len(values), _clock(start, step, len(values)))
        channels.append(_channel(file, part, header, values, clock))
    return channels, list(dict.fromkeys(notes))


def _clock(start: float, step: float, count: int) -> Clock:
    k: IntArray = np.arange(count, dtype=np.int64)
    return Clock(start + step * k, k + 1)


def _channel(file: Path, part: str, header: _Header, values: FloatArray, clock: Clock) -> Channel:
    name = header.text(_NAME)
    label = f"{part}/{name}" if part else name
    plain = re.sub(r"[\s\-]", "", name).lower()
    unit = header.text(_UNIT)
    known = _UNITS.get(unit.lower(), unit or None)
    drive = _DRIVE.search(part)
    side: ChannelSide = "motor" if drive else "joint"
    for rule in _DRIVES if drive else _AXES:
        found = re.fullmatch(rule.pattern, plain)
        if found:
            joint = int(drive[1] if drive else found[1]) - 1
            return Channel(label, values, clock, rule.kind, joint, rule.role, side, known, name if drive else "")
    if drive:
        return Channel(label, values, clock, joint=int(drive[1]) - 1, unit=known, stem=name)
    return Channel(label, values, clock, unit=known)


def _headers(file: Path) -> list[_Header]:
    """Cut a .dat file into its channels; a value may hold commas, its code does not."""
    lines = read_lines(file, encoding="latin-1")
    if not lines or lines[0].strip().upper() != _MARK:
        raise InvalidLog(file, f"does not begin with {_MARK}", 1)
    headers: list[_Header] = []
    inside = False
    for row, line in enumerate(lines[1:], start=2):
        text = line.strip()
        if not text or text.startswith("#"):
            inside = inside and not text.upper().startswith("#END")
            if text.upper().startswith("#BEGINCHANNEL"):
                headers.append(_Header({}, row))
                inside = True
            continue
        code, comma, value = text.partition(",")
        if not comma or not re.fullmatch(r"\s*[0-9]{1,6}\s*", code):
            raise InvalidLog(file, f"is {text[:40]!r}, expected a code, a comma and a value", row)
        if int(code) == _NAME and not (inside and _NAME not in headers[-1].codes):
            headers.append(_Header({}, row))  # without brackets, a name begins a channel
        if len(headers) > _MOST_CHANNELS:
            raise InvalidLog(file, f"describes more than {_MOST_CHANNELS} channels", row)
        if headers:
            headers[-1].codes[int(code)] = value
    return [header for header in headers if _NAME in header.codes]


class _Data:
    """The binary files of a header file."""

    def __init__(self, file: Path, explicit: list[_Header]) -> None:
        self.file = file
        self.blocks: dict[str, int] = {}
        for header in explicit:
            if header.text(_ORDER).upper() != "CHANNEL":
                name = header.text(_FILE)
                self.blocks[name] = max(self.blocks.get(name, 0) + 1, _whole(file, header, _COLUMN, 1))
        self.content: dict[str, tuple[str, FloatArray]] = {}
        self.numbers = 0

    def values(self, header: _Header, notes: list[str]) -> FloatArray:
        """Return a channel's numbers: value = raw * factor + offset."""
        name, kind = header.text(_FILE), header.text(_TYPE).upper() or "REAL64"
        order = header.text(_ORDER).upper() or "BLOCK"
        if kind not in _TYPES or order not in ("BLOCK", "CHANNEL"):
            raise InvalidLog(self.file, f"stores {kind} by {order}; known are {', '.join(_TYPES)}", header.row)
        raw = self._raw(name, kind)
        first = _whole(self.file, header, _COLUMN, 1) - 1
        stride = self.blocks[name] if order == "BLOCK" else 1
        count = _whole(self.file, header, _COUNT, len(raw) // stride)
        there = len(raw) // stride if order == "BLOCK" else max(0, min(count, len(raw) - first))
        if there < count:
            notes.append(f"{name} holds {there} of {count} samples; it is cut short")
        if order == "BLOCK" and len(raw) % stride and there < count:
            notes.append(f"{name} ends within a row, which is left out")
        self.numbers += min(count, there)
        if self.numbers > _MOST_NUMBERS:
            raise InvalidLog(self.file, f"has more than {_MOST_NUMBERS} numbers; cut the trace into runs", header.row)
        values = np.asarray(raw[first : first + stride * min(count, there) : stride], dtype=np.float64)
        if len(values) < 2:
            raise InvalidLog(self.file, f"{header.text(_NAME)} has {len(values)} samples in {name}", header.row)
        factor, offset = _number(self.file, header, _FACTOR, 1.0), _number(self.file, header, _OFFSET, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # what that makes is refused as no measurement
            return values * factor + offset

    def _raw(self, name: str, kind: str) -> FloatArray:
        if name in self.content:
            known, raw = self.content[name]
            if known != kind:
                raise InvalidLog(self.file, f"{name} is said to hold both {known} and {kind}")
            return raw
        path = partner(self.file, name)
        count = check_file(path, _LARGEST_DATA) // np.dtype(_TYPES[kind]).itemsize
        raw = np.memmap(path, _TYPES[kind], "r", shape=(count,)) if count else np.zeros(0)
        self.content[name] = (kind, raw)
        return raw


def _number(file: Path, header: _Header, code: int, otherwise: float) -> float:
    text = header.text(code)
    try:
        value = float(text.replace(",", ".")) if text else otherwise
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e100:
        raise InvalidLog(file, f"code {code} is {text[:40]!r}, expected a number", header.row)
    return value


def _whole(file: Path, header: _Header, code: int, otherwise: int) -> int:
    value = _number(file, header, code, otherwise)
    least = 0 if code == _COUNT else 1
    if value != int(value) or not least <= value < 2**40:
        raise InvalidLog(file, f"code {code} is {value:g}, expected a whole number from {least} on", header.row)
    return int(value)


def _example(path: Path) -> None:
    lines = [_MARK, "200,Zeit", "202,s", "210,IMPLIZIT", "220,24", "241,0.004"]
    for k in (1, 2):
        lines += [f"200,AxisPos_Act{k}", "202,deg", "210,EXPLIZIT", "211,x.r64", "214,REAL64", "220,24", f"221,{k}"]
    path.write_text("\n".join(lines) + "\n", "latin-1")
    (path.parent / "x.r64").write_bytes(np.arange(48.0).astype("<f8").tobytes())


FORMAT = LogFormat("kuka_trace", fits, read, _example, files=files_of)
