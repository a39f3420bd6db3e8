"""Long logs, some rows at a time: tables of text, Parquet, npz archives and MATLAB 7.3, in bounded memory.

A part of a table of text is a small file of the same format, with the same headings; arrays are cut. So every check of
a log is one of its parts too, and rows are named as they are in the file.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.identify.log import Log
from excitor.identify.logs.arrays import arrays_recording, read_apart
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import FORMATS, sniff
from excitor.identify.logs.matlab import is_hdf5
from excitor.identify.logs.npz import stored_rows
from excitor.identify.logs.opened import LARGEST_BINARY, UTF_16, check_file, head
from excitor.identify.logs.read import read_log, recording_log
from excitor.identify.logs.table import table_top
from excitor.robots.errors import InvalidLog

LONG = 300_000  # rows from which a log is read in parts
ROWS = 30_000  # of a part, about
_BLOCK = 1 << 22  # bytes
_MARK = 1000  # rows from one known place of a text to the next


@dataclass(frozen=True, eq=False, slots=True)
class LongLog:
    """A log that is read in parts: its rows, and the places of some of them in the files of a table of text."""

    path: Path
    declared: ColumnMap
    names: tuple[str, ...]  # of the robot's joints
    form: str  # "text", "parquet", "npz", "matlab"
    n_rows: int
    places: Mapping[str, Sequence[int]]  # by file: bytes where every thousandth row begins, and where the last ends
    begin: float = 0.0  # s on its clock, where it begins
    rate: float = 0.0
    seconds: float = 0.0  # that it lasts


def open_long(path: Path, declared: ColumnMap, names: tuple[str, ...]) -> LongLog | None:
    """Open a log that is long and of a format that can be read in parts; None where it is read as a whole."""
    if not path.is_file() or check_file(path, LARGEST_BINARY) < 8 * LONG:
        return None
    form = declared.format or next(iter(sniff(path)), "")
    places: dict[str, Sequence[int]] = {}
    if form == "parquet":
        n_rows = int(read_apart(path, "parquet rows")[0]["rows"][0])
    elif form == "npz":
        n_rows = len(next(iter(stored_rows(path, LONG).values()), ()))
    elif form == "matlab":
        if not is_hdf5(head(path).data):
            return None
        n_rows = int(read_apart(path, "hdf5 rows")[0]["rows"][0])
    elif head(path).data[:2] in UTF_16:
        return None
    elif form == "csv" or (form in FORMATS and FORMATS[form].grows):
        form = "text"
        for name in dict.fromkeys(["", *(entry.file or "" for entry in declared.signals)]):
            if not name or (path.parent / name).is_file():
                places[name] = _places(path.parent / name if name else path, declared.header)
        n_rows = min((len(found) - 2) * _MARK for found in places.values())  # the last thousand may be less
    else:
        return None
    if n_rows < LONG:
        return None
    long = LongLog(path, declared, names, form, -(-n_rows // _MARK) * _MARK, places)
    first = read_rows(long, 0, ROWS)
    long = replace(long, begin=first.start_s - first.skipped_s, rate=first.sample_rate_hz)
    last = read_rows(long, n_rows - ROWS, ROWS)
    return replace(long, seconds=last.skipped_s + len(last) / long.rate)


def read_rows(long: LongLog, first: int, count: int) -> Log:
    """Read some rows, whole thousands, as a log: gaps, and what was before it, are in s from the beginning."""
    declared, end = long.declared, -(-(first + count) // _MARK) * _MARK
    first = first // _MARK * _MARK
    count = end - first
    if long.rate and declared.time is not None:
        declared = declared.model_copy(update={"sample_rate_hz": long.rate})
    if long.form == "text":
        log = _text_rows(long, declared, first, count)
    else:
        left: dict[str, str] = {}
        if long.form in ("parquet", "matlab"):
            kind = "hdf5" if long.form == "matlab" else "parquet"
            arrays, left = read_apart(long.path, kind, first, count)
        else:
            arrays = {name: np.array(x[first : first + count], float) for name, x in stored_rows(long.path).items()}
        recording = arrays_recording(long.path, long.form, arrays, left, first)
        log = recording_log(recording, declared, long.names, (0.0, np.inf))
    if not long.rate:
        return log
    since = log.start_s - log.skipped_s - long.begin
    if long.declared.time is None and long.declared.sample_rate_hz is not None:
        since = first / long.rate  # counted from each part's beginning
    gaps = tuple((a + since, b + since) for a, b in log.gaps)
    return replace(log, skipped_s=log.skipped_s + since, gaps=gaps, raw=None)


def _places(path: Path, header: bool) -> list[int]:
    """Find the bytes at which every thousandth row of a text begins, the headings first."""
    check_file(path, LARGEST_BINARY)
    found, rows, at = [0], -_lines_above(path) if header else 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
            numbers = rows + 1 + np.arange(len(ends))  # of the row that begins behind each end
            found += (at + 1 + ends[(numbers >= 0) & (numbers % _MARK == 0)]).tolist()
            rows, at = rows + len(ends), at + len(block)
    marks = [place for place in found if place < at]
    return [*marks, at] if header else [0, *marks, at]


def _lines_above(path: Path) -> int:
    """Count the lines above the first row of a table: the headings, and what stands above and below them."""
    lines = (head(path).text or "").splitlines()
    filled = [k for k, line in enumerate(lines) if line.strip()]
    return filled[table_top([lines[k] for k in filled])[1]]


def _text_rows(long: LongLog, declared: ColumnMap, first: int, count: int) -> Log:
    begin, end = first // _MARK, (first + count) // _MARK
    with tempfile.TemporaryDirectory(prefix="excitor-part-") as place:
        for name, places in long.places.items():
            source = long.path.parent / name if name else long.path
            a, b = places[1 + begin], places[min(1 + end, len(places) - 1)]
            with source.open("rb") as file:
                head = file.read(places[1]) if declared.header else b""
                file.seek(a)
                (Path(place) / (name or long.path.name)).write_bytes(head + file.read(b - a))
        part = Path(place) / long.path.name
        try:
            log = read_log(part, declared, long.names, (0.0, np.inf))
        except InvalidLog as error:
            where = error.path if error.row is None else f"{error.path}, row {error.row}"
            row = None if error.row is None else error.row + begin * _MARK
            damaged = long.path.parent / Path(error.path).name
            raise InvalidLog(damaged, str(error).removeprefix(f"{where}: "), row) from None
    notes = [f"rows {begin * _MARK + 1} to {min(end * _MARK, long.n_rows)}, counted from there on", *log.notes]
    return replace(log, path=str(long.path), notes=tuple(notes if log.notes else ()))
