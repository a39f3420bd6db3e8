"""Hostile files and calls from the command line: each must be answered by a sentence, in time, without a traceback."""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

SLOWEST = 5  # s
ROBOT = Path(__file__).parents[1] / "robots" / "catalog" / "rotradi.toml"
CAMPAIGN = """robot = "rotradi.toml"
home_deg = [0.0, 90, 90]
[noise]
torque = [1, 3, 0.3]
[[run]]
name = "a"
log = "log.csv"
[run.columns]
time = "t"
"""


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _writes(content):
    return lambda path: path.write_bytes(content(path.suffix) if callable(content) else content)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**11)  # sparse


def _deep(suffix: str) -> bytes:
    return (".".join("a" * 20_000) + " = 1").encode() if suffix == ".toml" else b'{"a":' * 200_000


def _long_key(suffix: str) -> bytes:
    key = b"k" * 1_000_000
    return key + b" = 1" if suffix == ".toml" else b'{"' + key + b'": 1}'


def _nested(suffix: str) -> bytes:
    return (
        b"a = " + b"[" * 5000 + b"]" * 5000
        if suffix == ".toml"
        else b'{"schema": 1, "a": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    )


def _digits(suffix: str) -> bytes:
    return b"a = " + b"9" * 5000 if suffix == ".toml" else b'{"schema": 1, "a": ' + b"9" * 5000 + b"}"


SPOILT = {
    "a pipe": _fifo,
    "a device": _device,
    "a folder": Path.mkdir,
    "a loop of links": _loop,
    "sparse": _large,
    "empty": _writes(b""),
    "zero bytes": _writes(bytes(1000)),
    "deep keys": _writes(_deep),
    "a long key": _writes(_long_key),
    "nested": _writes(_nested),
    "many digits": _writes(_digits),
    "null": _writes(b"null"),
    "a list": _writes(b"[1, [2], {}]"),
    "infinite": _writes(
        lambda suffix: b"schema = inf" if suffix == ".toml" else b'{"schema": Infinity, "runs": [NaN]}'
    ),
    "of another version": _writes(lambda suffix: b"schema = 99" if suffix == ".toml" else b'{"schema": 99}'),
    "not UTF-8": _writes(b"\xff\xfe\x00"),
}
READ_BY = (
    ("campaign.toml", ["design", "."]),
    ("rotradi.toml", ["identify", "."]),
    ("design.json", ["emit", ".", "--target", "csv"]),
    ("programs/csv/manifest.json", ["status", "."]),
    ("model.json", ["export", ".", "--format", "c"]),
    ("model.json", ["next", "."]),
    ("report.json", ["report", ".", "."]),
    ("log.csv", ["identify", "."]),
    ("arms.csv", ["fleet", "arms.csv"]),
    ("robot.urdf", ["robots", "robot.urdf"]),
    ("robot.xml", ["robots", "robot.xml"]),
    ("robot.toml", ["robots", "robot.toml"]),
)
CALLS = [
    ["nonsense"],
    ["design"],
    ["design", "nowhere"],
    ["robots", "tx41"],
    ["robots", "--presets", "tx40"],
    ["status", "/dev/null"],
    ["emit", ".", "--target", "nonsense"],
    ["export", ".", "--format", "nonsense"],
    ["watch", ".", "--interval", "-1"],
    ["study", "nonsense"],
    ["init", "."],
    ["report", "."],
    ["compare", "nowhere"],
    ["simulate", ".", "--fault", "nonsense"],
    ["payload", "."],
    ["next", "."],
    ["gains", "nowhere"],
    ["identify", "."],
]


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and a file that is spoilt before it."""

    call: tuple[str, ...]
    file: str = ""
    how: str = ""

    def __str__(self) -> str:
        return f"{' '.join(self.call)}{f', {self.file} is {self.how}' if self.file else ''}"


CASES = tuple(Case(tuple(call), file, how) for file, call in READ_BY for how in SPOILT)
CASES += tuple(Case(tuple(call)) for call in CALLS)


class _Late(BaseException):
    """Nothing answered in time."""


def prepared(folder: Path) -> Path:
    """Write a small campaign whose files are spoilt one at a time."""
    place = folder / "cell"
    place.mkdir()
    (place / "campaign.toml").write_text(CAMPAIGN)
    shutil.copy(ROBOT, place)
    return place


def answer(place: Path, case: Case) -> str:
    """Run a case in a copy of a campaign; return what is wrong with its answer."""
    copy = place.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    if case.file:
        path = copy / case.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        SPOILT[case.how](path)
    return _wrong(copy, [*case.call, "--json"])


def _wrong(place: Path, arguments: list[str]) -> str:
    from excitor.experiments.cli import main

    def late(*_):
        raise _Late

    here, code, start = os.getcwd(), None, time.monotonic()
    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SLOWEST)
    try:
        os.chdir(place)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            old, sys.argv = sys.argv, ["excitor", *arguments]
            main()
    except SystemExit as stop:
        code = stop.code
    except _Late:
        return f"no answer within {SLOWEST} s"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sys.argv = old
        os.chdir(here)
    said = out.getvalue()
    with contextlib.suppress(ValueError):
        if not isinstance(json.loads(said), dict):
            return f"--json printed no object: {said[:200]!r}"
        if code not in (0, 1, 2):
            return f"exit code {code!r}"
        if code == 0 and arguments[0] not in ("status",):
            return "exit code 0"
        if len(said) > 20_000 or len(err.getvalue()) > 20_000:
            return f"a message of {max(len(said), len(err.getvalue()))} characters"
        return "" if time.monotonic() - start < SLOWEST else "slow"
    return f"--json printed {said[:200]!r}, and on stderr {err.getvalue()[:200]!r}"
