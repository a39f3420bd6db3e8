"""Benchmark of readers: damaged files of every format give error messages, fast, and no other exceptions."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from excitor.experiments.figures import Figure, Report
from excitor.identify.logs.formats import FORMATS, read_raw, sniff
from excitor.robots.errors import ExcitorError, InvalidLog
from tests.damaged_logs import LARGEST, SEEDS, SLOWEST, ask_all

LEAST_MALFORMED = 40
FULL, PART = 60.0, 5.0  # s a reader
_ROUND, _LEAST = 200, 50  # examples
_EDITS, _LONGEST = 6, 64


@dataclass(frozen=True)
class Fuzzed:
    """Result of damaged files: how many, how many gave a message, the slowest, and those that gave anything else."""

    reader: str
    examples: int
    refused: int
    slowest: float  # s
    failures: tuple[str, ...]  # each with the bytes of its file


def run(full: bool = False) -> Report:
    """Damage files of every reader, and read the malformed ones; `full` takes a minute for each reader, not 5 s."""
    told = ask_all()
    fuzzed = [fuzz(name, FULL if full else PART, seed=0) for name in FORMATS]
    wrong = [f"{answer.name}: {answer.wrong}" for answer in told.answers if answer.wrong]
    escapes = [failure for found in fuzzed for failure in found.failures]
    slowest = max(*(answer.seconds for answer in told.answers), *(found.slowest for found in fuzzed))
    figures = [
        Figure("readers.files", len(told.answers) + sum(found.examples for found in fuzzed)),
        Figure("readers.escapes", len(escapes), target=0, bound="equal"),
        Figure("readers.malformed", len(told.answers) - len(wrong), target=LEAST_MALFORMED, bound="at least"),
        Figure("readers.malformed_missed", len(wrong), target=0, bound="equal"),
        Figure("readers.slowest_s", slowest, "s", SLOWEST, "at most"),
        Figure("readers.memory_mb", told.memory, "MB", LARGEST, "at most"),
    ]
    for found in fuzzed:
        figures += [
            Figure(f"readers.{found.reader}.files", found.examples),
            Figure(f"readers.{found.reader}.escapes", len(found.failures), target=0, bound="equal"),
            Figure(f"readers.{found.reader}.slowest_s", found.slowest, "s", SLOWEST, "at most"),
        ]
    seconds = FULL if full else PART
    return Report(
        "bench", "readers", figures, {"seconds_a_reader": seconds, "escapes": escapes[:10], "malformed_missed": wrong}
    )


def fuzz(reader: str, seconds: float, seed: int) -> Fuzzed:
    """Read damaged whole files and random bytes from hypothesis, for some seconds."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as seeded
        from hypothesis import strategies as st
    except ImportError:
        raise ExcitorError("hypothesis is not installed: pip install 'excitor[test]'") from None

    edit = st.tuples(st.floats(0.0, 1.0), st.integers(0, 40), st.binary(max_size=_LONGEST))
    edits = st.lists(edit, min_size=1, max_size=_EDITS)
    count, refused, slowest, failures = 0, 0, 0.0, []
    with tempfile.TemporaryDirectory(prefix="excitor-fuzz-") as name:
        targets = list(_targets(reader, Path(name)))
        for path, whole in targets:  # what is whole is read, else damage proves nothing; and what runs apart starts
            path.write_bytes(whole)
            read_raw(_main(path), reader)
        end = time.monotonic() + seconds

        def one(which: int, damage: list[tuple[float, int, bytes]] | bytes) -> None:
            nonlocal count, refused, slowest
            if time.monotonic() > end and count >= _LEAST:
                return
            path, whole = targets[which]
            content = damage if isinstance(damage, bytes) else _damaged(whole, damage)
            path.write_bytes(content)
            start = time.monotonic()
            try:
                sniff(_main(path))
                read_raw(_main(path), reader)
            except InvalidLog:
                refused += 1
            except Exception as error:  # that is what is looked for
                failures.append(f"{type(error).__name__}: {error}: {path.name} {content!r}"[:4000])
            slowest = max(slowest, time.monotonic() - start)
            count += 1
            path.write_bytes(whole)

        arguments = {"which": st.integers(0, len(targets) - 1), "damage": st.one_of(edits, edits, st.binary())}
        keep = settings(
            max_examples=_ROUND, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        round_ = 0
        while time.monotonic() < end or count < _LEAST:
            seeded(1000 * seed + round_)(keep(given(**arguments)(one)))()
            round_ += 1
    return Fuzzed(reader, count, refused, slowest, tuple(dict.fromkeys(failures)))


def _targets(reader: str, folder: Path) -> list[tuple[Path, bytes]]:
    """Write every seed of a reader into a folder of its own; each of its files is a target."""
    found = []
    for write in SEEDS[reader]:
        own = folder / write.__name__
        own.mkdir()
        write(own)
        found += [(path, path.read_bytes()) for path in sorted(own.iterdir())]
    return found


def _main(path: Path) -> Path:
    """Return the file by which a log is read: the first of its folder."""
    return min(path.parent.iterdir())


def _damaged(whole: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Remove and insert bytes; an edit at the very end truncates the file."""
    content = whole
    for share, cut, new in edits:
        at = int(share * len(content))
        content = content[:at] + new + (content[at + cut :] if share < 0.95 else b"")
    return content
