"""Which reader reads a file? Found by its content, or named; every reader gives a Recording."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from excitor.identify.log import Log
from excitor.identify.logs.csv_columns import ColumnMap, read_csv
from excitor.identify.logs.declared import recording_log
from excitor.identify.logs.opened import HEAD, check_file, head
from excitor.identify.logs.recording import Recording
from excitor.robots.errors import InvalidLog

# Names, and the modules that are imported when a file needs them. Of equal fits the first wins: the particular ones
# come before the general. Each has `fits(head) -> 0 | 1 | 2` (no, could be, is) and `read(path) -> Recording`.
FORMATS = {
    "ros_bag": "ros_bag",
    "kuka_trace": "kuka_trace",
    "matlab": "matlab",
    "npz": "npz",
    "parquet": "parquet",
    "twincat_scope": "twincat_scope",
    "client_csv": "client_csv",
    "abb_text": "abb_text",
    "fanuc_csv": "fanuc_csv",
    "franka_csv": "franka_csv",
    "ur_rtde": "ur_rtde",
    "csv": "plain_csv",
}
BINARY = ("ros_bag", "kuka_trace", "matlab", "npz", "parquet")


def sniff(path: Path) -> list[str]:
    """List the formats that a file's content fits, the best first."""
    start = head(path)
    scores = {name: int(_module(path, name).fits(start)) for name in FORMATS}
    return sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name])


def read_raw(path: Path, format: str | None = None) -> Recording:
    """Read what a file holds; InvalidLog says what is wrong, with the row where there is one."""
    if format is None:
        if not path.is_dir() and not check_file(path, 2**62):
            raise InvalidLog(path, "is empty")
        found = sniff(path)
        if not found:
            raise InvalidLog(path, f"is of no known format{_hint(path)}; known are {', '.join(FORMATS)}")
        format = found[0]
    recording: Recording = _module(path, format).read(path)
    return recording


def read_log(path: Path, declared: ColumnMap, names: tuple[str, ...] = ()) -> Log:
    """Read a log as a campaign declares it: plain tables by their column map, others by what their format says.

    `names`: the robot's joints, for formats that name joints.
    """
    if _is_plain(path, declared):
        return read_csv(path, declared)
    return recording_log(read_raw(path, declared.format), declared, names)


def log_files(path: Path) -> list[Path]:
    """List the files that a log consists of, for its digest."""
    start = head(path)
    for name in ("ros_bag", "kuka_trace"):
        module = _module(path, name)
        if module.fits(start):
            files: list[Path] = module.files_of(path)
            return files
    return [path]


def _hint(path: Path) -> str:
    """Say what keeps a file from being text."""
    start = head(path)
    if b"\0" in start.data:
        return ", and no text: it contains zero bytes (UTF-16? save it as UTF-8)"
    if len(start.data) == HEAD and b"\n" not in start.data and b"\r" not in start.data:
        return f": its first line has more than {HEAD} characters"
    return ""


def _is_plain(path: Path, declared: ColumnMap) -> bool:
    """Whether a file is a table whose columns, time included, are all declared."""
    if declared.format is not None:
        return declared.format == "csv"
    told = declared.time is not None or declared.sample_rate_hz is not None
    if not declared.signals or not told:
        return False
    return not path.exists() or not set(sniff(path)[:1]) & {*BINARY, "twincat_scope"}


def _module(path: Path, name: str) -> ModuleType:
    if name not in FORMATS:
        raise InvalidLog(path, f"format is {name!r}, expected one of {', '.join(FORMATS)}")
    return import_module(f"excitor.identify.logs.{FORMATS[name]}")
