"""Which ways of being malformed can every format suffer? Each reader, asked for by name, meets all of them."""

import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from excitor.experiments.bench.malformed import CASES, GB2, nested
from excitor.experiments.bench.reader_seeds import SEEDS

COLUMNS = 10_000_000
TEXT = ("ur_rtde", "client_csv", "abb_text", "fanuc_csv", "franka_csv", "csv", "twincat_scope", "kuka_trace")
_SHARES = (0.1, 0.5, 0.9)  # of a file that is cut off there


@dataclass(frozen=True)
class Malformed:
    """A file that must give a sentence; `legible` ones may be read as well, for what is cut off can be whole before."""

    name: str
    reader: str | None  # none: found by its content
    write: Callable[[Path], Path]  # into an empty folder; tells which file to read
    words: str = ""  # of its sentence
    legible: bool = False


def all_malformed() -> Iterator[Malformed]:
    """List the particular files first, then every way for every reader."""
    for name, (write, words) in CASES.items():
        yield Malformed(name, None, _beside(write), words)
    for reader, seeds in SEEDS.items():
        for seed in seeds:
            yield from _ways(reader, seed)


def _beside(write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write(folder / "log.dat")
        return folder / "log.dat"

    return written


def _ways(reader: str, seed: Callable[[Path], None]) -> Iterator[Malformed]:
    def of(way: str, damage: Callable[[Path], object], *, legible: bool = False, words: str = "") -> Malformed:
        def written(folder: Path) -> Path:
            seed(folder)
            log = min(folder.iterdir())
            damage(log)
            return log

        return Malformed(f"{seed.__name__}: {way}", reader, written, words, legible)

    text = reader in TEXT
    for share in _SHARES:
        yield of(f"cut off at {100 * share:.0f} %", partial(_cut, share), legible=True)
    yield of("empty", lambda log: log.write_bytes(b""))
    yield of("binary", lambda log: log.write_bytes(np.random.default_rng(0).bytes(100_000)))
    yield of("an archive in an archive", _archived)
    yield of("2 GB of nothing", _nothing)
    yield of("2 GB, sparse behind its content", lambda log: os.truncate(log, GB2), legible=not text)
    yield of("a folder", _folder)
    yield of("a pipe", _pipe)
    yield of("a link to a folder", _linked)
    if text:
        yield of("UTF-16", lambda log: log.write_bytes(log.read_text("latin-1").encode("utf-16")))
        yield of("ten million columns", _wide)
        yield of("an endless last line", _endless)
    beside = [way for way in (_data_elsewhere,) if reader == "kuka_trace"]
    beside += [way for way in (_bag_elsewhere,) if reader == "ros_bag"]
    for way in beside:
        yield of("a link out of the folder", way, words="leads out of the folder|is a link")


def _cut(share: float, log: Path) -> None:
    os.truncate(log, int(share * log.stat().st_size))


def _nothing(log: Path) -> None:
    log.write_bytes(b"")
    os.truncate(log, GB2)


def _archived(log: Path) -> None:
    with zipfile.ZipFile(log, "w") as file:
        file.writestr("inner.zip", nested())


def _folder(log: Path) -> None:
    log.unlink()
    log.mkdir()


def _pipe(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def _linked(log: Path) -> None:
    log.unlink()
    log.symlink_to("/proc")


def _wide(log: Path) -> None:
    first, _, rest = log.read_bytes().partition(b"\n")
    separator = next((mark for mark in (b"\t", b";", b",") if mark in first), b",")
    log.write_bytes(first + (separator + b"x") * COLUMNS + b"\n" + rest)


def _endless(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"7" * 2 * COLUMNS)


def _data_elsewhere(log: Path) -> None:
    for path in log.parent.glob("*.r64"):
        path.unlink()
        path.symlink_to("/etc/hostname")


def _bag_elsewhere(log: Path) -> None:
    """Make a bag's folder whose one file is elsewhere."""
    elsewhere = log.parent.parent / f"{log.parent.name}-elsewhere"
    log.rename(elsewhere)
    log.mkdir()
    (log / "x.mcap").symlink_to(elsewhere)
