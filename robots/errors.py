"""What can go wrong with a robot, as errors that carry the data behind their sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from excitor.robots.arrays import IntArray


class ExcitorError(Exception):
    """A finding the user must hear about: told as a sentence, never as a traceback."""


class InvalidRobot(ExcitorError):
    """A robot description that cannot be used; every problem found, each with its key path."""

    def __init__(self, source: str | Path, problems: Sequence[str]) -> None:
        self.source = str(source)
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{self.source}: {problem}" for problem in self.problems))


class RankDeficient(ExcitorError):
    """Equations that cannot be solved, with the names of what they leave open."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class NotAssembled(ExcitorError):
    """Positions that a closed chain cannot take, with the numbers of the samples that ask for them."""

    def __init__(self, message: str, samples: "IntArray") -> None:
        self.samples = samples
        super().__init__(message)
