"""How are logs read that still grow, or still appear? Piece by piece, each line and file once, in bounded memory."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.log import Log, joint_side
from excitor.identify.logs.opened import LONGEST_LINE, check_file
from excitor.identify.logs.read import FORMATS, read_log, sniff
from excitor.identify.logs.table import ColumnMap
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog
from excitor.robots.robot import Robot

PIECE = 1 << 20  # bytes read at once
HEAD = 4096  # bytes at the beginning by which a file is known again
LEAST_LINES = 20  # of a piece: fewer do not tell the rate
NO_LOGS = (".json", ".toml", ".html", ".md", ".pdf", ".py", ".c", ".urdf")  # what else lies in campaigns' folders
FOLLOWED = ("csv", "client_csv", "franka_csv", "ur_rtde")  # one line of headings, then a line a sample


@dataclass(frozen=True, slots=True)
class Place:
    """How far a growing log was read: the byte after the last line that was taken, and by what it is known again."""

    offset: int = 0
    row: int = 0  # lines before the offset
    head: str = ""  # digest of its first bytes ...
    head_bytes: int = 0  # ... so many


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """Some samples that follow each other, on the joint side."""

    t: FloatArray  # (n_samples,), s
    q: FloatArray  # (n_samples, n_joints)
    tau: FloatArray
    rate: float
    before: Place  # where the piece begins
    after: Place  # and ends


def moved(path: Path, place: Place) -> bool:
    """Tell whether a log is not the one that was read so far: shorter, or begun anew."""
    size = check_file(path, 2**62)
    return size < place.offset or (place.head_bytes > 0 and _head(path, place.head_bytes) != place.head)


def read_on(
    path: Path, place: Place, robot: Robot, declared: ColumnMap, *, most_lines: int | None = None
) -> Piece | None:
    """Read the next whole lines of a growing log; None where there are too few. A cut last line is left alone."""
    heading_end, headings = _headings(path, declared)
    if heading_end is None:
        return None
    if place.offset < heading_end:
        place = Place(heading_end, int(declared.header))
    with path.open("rb") as file:
        file.seek(place.offset)
        block = file.read(PIECE)
    end = block.rfind(b"\n") + 1
    if not end and len(block) > LONGEST_LINE:
        raise InvalidLog(path, f"has a line of more than {LONGEST_LINE} characters: not a table of samples")
    body = block[:end] if most_lines is None else b"".join(block[:end].splitlines(keepends=True)[:most_lines])
    if body.count(b"\n") < LEAST_LINES:
        return None
    after = _behind(path, place, body)
    log = _decoded(path, place.row, headings + body, declared, robot)
    measured = joint_side(robot, log)
    t = log.start_s + np.arange(len(measured.q)) / measured.sample_rate_hz
    if declared.time is None and declared.sample_rate_hz is not None:
        t = t + (place.row - int(declared.header)) / declared.sample_rate_hz
    return Piece(t, measured.q, measured.tau, measured.sample_rate_hz, place, after)


def skip(path: Path, place: Place, declared: ColumnMap, lines: int) -> Place:
    """Leave out the next lines of a growing log."""
    heading_end, _ = _headings(path, declared)
    if place.offset < (heading_end or 0):
        place = Place(heading_end or 0, int(declared.header))
    with path.open("rb") as file:
        file.seek(place.offset)
        taken = [file.readline(LONGEST_LINE) for _ in range(lines)]
    body = b"".join(line for k, line in enumerate(taken) if not k or line.endswith(b"\n"))  # the last may not be whole
    return _behind(path, place, body)


def read_whole(path: Path, robot: Robot, declared: ColumnMap) -> Piece:
    """Read a log that is complete."""
    log = read_log(path, declared, robot.joint_names)
    measured = joint_side(robot, log)
    t = log.start_s + np.arange(len(measured.q)) / measured.sample_rate_hz
    nowhere = Place()
    return Piece(t, measured.q, measured.tau, measured.sample_rate_hz, nowhere, nowhere)


def new_logs(folder: Path, taken: set[str], growing: dict[str, str]) -> tuple[list[Path], dict[str, str]]:
    """List a folder's logs that were not taken yet and have not changed since the last look, the oldest first.

    `growing` are the marks of the last look, by name; the second result is what to give next time. Names that have
    left the folder leave `taken`, which so never outgrows the folder.
    """
    found: dict[str, tuple[int, str]] = {}
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or Path(entry.name).suffix in NO_LOGS or not entry.is_file():
            continue
        seen = entry.stat()
        found[entry.name] = (seen.st_mtime_ns, f"{seen.st_size} {seen.st_mtime_ns}")
    marks = {f"{name} {mark}" for name, (_, mark) in found.items()}
    taken &= marks
    waiting = {name: mark for name, (_, mark) in found.items() if f"{name} {mark}" not in taken}
    ready = [name for name, mark in waiting.items() if growing.get(name) == mark]
    ready.sort(key=lambda name: (found[name][0], name))
    return [folder / name for name in ready], waiting


def mark_of(path: Path) -> str:
    """Write down that a file was taken as it now is; if it changes, it is another."""
    seen = path.stat()
    return f"{path.name} {seen.st_size} {seen.st_mtime_ns}"


def check_followed(path: Path, declared: ColumnMap) -> None:
    """Refuse what cannot be read while it grows; an empty file is only not begun yet."""
    if any(entry.file for entry in declared.signals):
        raise InvalidLog(path, "is one of several files of a log, which are not followed; put whole logs in a folder")
    if not check_file(path, 2**62):
        return
    format = declared.format or ("csv" if declared.signals else next(iter(sniff(path)), "none"))
    if format not in FOLLOWED:
        known = "is of no known format" if format not in FORMATS else f"is {format}"
        told = f"{known}, which cannot be read while it grows ({', '.join(FOLLOWED)} can)"
        raise InvalidLog(path, f"{told}; name the folder that complete logs are put in")


def _headings(path: Path, declared: ColumnMap) -> tuple[int | None, bytes]:
    """Find the line of headings: where it ends, and what it is; None while it is not whole."""
    if not declared.header:
        return 0, b""
    with path.open("rb") as file:
        line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise InvalidLog(path, f"has a line of more than {LONGEST_LINE} characters: not a table of samples")
    return (len(line), line) if line.endswith(b"\n") else (None, b"")


def _decoded(path: Path, row: int, text: bytes, declared: ColumnMap, robot: Robot) -> Log:
    """Let the log's own reader read a piece of it; what it says against the piece is told of the log."""
    with tempfile.TemporaryDirectory(prefix="excitor-") as folder:
        piece = Path(folder) / (path.name or "log")
        piece.write_bytes(text)
        try:
            return read_log(piece, declared, robot.joint_names)
        except InvalidLog as error:
            told = str(error).removeprefix(error.path)
            told = told.split(": ", 1)[-1] if error.row is not None else told.removeprefix(": ")
            told = told.replace(str(piece), str(path))
            at = None if error.row is None else error.row + row - int(declared.header)
            raise InvalidLog(path, told, at) from None


def _behind(path: Path, place: Place, body: bytes) -> Place:
    """Tell the place behind some lines."""
    size = min(place.offset + len(body), HEAD)
    return Place(place.offset + len(body), place.row + body.count(b"\n"), _head(path, size), size)


def _head(path: Path, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()
