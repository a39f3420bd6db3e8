"""Exceptions about robots and measurements, which carry the data behind their messages."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from excitor.robots.arrays import IntArray


def did_you_mean(name: object, names: Iterable[str], mark: str = "; ") -> str:
    """Name the nearest of the valid names, as the end of a sentence; nothing where none is near."""
    alike = {valid.lower(): valid for valid in reversed([*names])}
    near = get_close_matches(str(name)[:80].lower(), list(alike), 1)
    return f"{mark}did you mean {alike[near[0]]!r}?" if near else ""


def choice(name: object, names: Iterable[str]) -> str:
    """List the valid names, and which of them is nearest."""
    return ", ".join(names) + did_you_mean(name, names)


class ExcitorError(Exception):
    """A failure that is reported to the user as a sentence, never as a traceback."""


class InvalidRobot(ExcitorError):
    """A robot description that cannot be used; every problem found, each with its key path."""

    def __init__(self, source: str | Path, problems: Sequence[str]) -> None:
        self.source = str(source)
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{self.source}: {problem}" for problem in self.problems))


class RankDeficient(ExcitorError):
    """Equations that are rank deficient, with the names of the undetermined unknowns."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class AssemblyError(ExcitorError):
    """Positions at which a closed chain cannot be assembled, with the indices of the samples concerned."""

    def __init__(self, message: str, samples: "IntArray") -> None:
        self.samples = samples
        super().__init__(message)


class InvalidLog(ExcitorError):
    """A recording that cannot be used: the file, and the row (counted from 1) if the fault is in one."""

    def __init__(self, path: str | Path, sentence: str, row: int | None = None) -> None:
        self.path = str(path)
        self.row = row
        where = self.path if row is None else f"{self.path}, row {row}"
        super().__init__(f"{where}: {_readable(sentence)}")


class SolverError(ExcitorError):
    """A numerical solver that did not reach its goal, with the status it ended in."""

    def __init__(self, message: str, status: str) -> None:
        self.status = status
        super().__init__(message)


def _readable(sentence: str) -> str:
    """Shorten long channel names from files, and escape control characters."""
    clipped = re.sub(r"\S{200,}", lambda word: f"{word[0][:80]}…", sentence)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in clipped)
