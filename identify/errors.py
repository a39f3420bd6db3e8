"""What can go wrong with measurements, as errors that carry the data behind their sentence."""

import re
from pathlib import Path

from excitor.robots.errors import ExcitorError


class InvalidLog(ExcitorError):
    """A recording that cannot be used: the file, and the row (counted from 1) where there is one to point at."""

    def __init__(self, path: str | Path, sentence: str, row: int | None = None) -> None:
        self.path = str(path)
        self.row = row
        where = self.path if row is None else f"{self.path}, row {row}"
        super().__init__(f"{where}: {_readable(sentence)}")


class SolverFailed(ExcitorError):
    """A numerical solver that did not reach its goal, with the status it ended in."""

    def __init__(self, message: str, status: str) -> None:
        self.status = status
        super().__init__(message)


def _readable(sentence: str) -> str:
    """Clip what a file calls its channels, and spell what a terminal would obey."""
    clipped = re.sub(r"\S{200,}", lambda word: f"{word[0][:80]}…", sentence)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in clipped)
