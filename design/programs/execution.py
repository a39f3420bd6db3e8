"""What a program did when it ran on a virtual clock: commands, points or way-points, marks, and why it halted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from excitor.design.programs.plan import StretchName
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import ExcitorError

Kind = Literal["commands", "points", "way-points"]


class ProgramError(ExcitorError):
    """A program that does not run: which file, which line, what is wrong."""

    def __init__(self, file: str, line: int | None, sentence: str) -> None:
        self.file, self.line, self.sentence = file, line, sentence
        super().__init__(f"{file}{'' if line is None else f', line {line}'}: {sentence}")


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """The controller that a program finds; axes in its own units."""

    axes: FloatArray  # (n_axes,): where the robot stands
    step: float  # s, of control
    override: float = 1.0  # of speed: the slider, a share
    automatic: bool = True  # in the mode that the program needs
    payload: float = 0.0  # kg, that the controller has been told
    names: tuple[str, ...] = ()  # of its axes, where the language speaks of names
    longest: float = 1e5  # s of virtual time after which a program counts as endless

    def __post_init__(self) -> None:
        freeze(self, axes="n_axes")


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """Motion from rest to rest. Times in s from its start; axes in the controller's units.

    Commands are set points of every control step, points of a table are passed at their times, way-points are
    joined by lines whose times only the controller knows (t is then the program's own estimate, or counts them).
    Tables and way-points list the pose at which the stretch begins as well, at t = 0.
    """

    name: StretchName
    kind: Kind
    t: FloatArray  # (n,)
    axes: FloatArray  # (n, n_axes)
    rates: FloatArray | None = None  # (n, n_axes), where the program states them: per s
    accelerations: FloatArray | None = None
    interpolation: str = ""  # of points: "quintic", "cubic", "spline", "blend"

    def __post_init__(self) -> None:
        sizes = freeze(self, t="n", axes="n n_axes")
        shape = f"{sizes['n']} {sizes['n_axes']}"
        if self.rates is not None:
            freeze(self, rates=shape)
        if self.accelerations is not None:
            freeze(self, accelerations=shape)


@dataclass(frozen=True, eq=False, slots=True)
class Execution:
    """All that a program did."""

    stretches: tuple[Stretch, ...]
    marks: tuple[tuple[float, int], ...] = ()  # s from the main stretch's start, mark
    events: tuple[str, ...] = ()  # in order: "log on", "log off", "out", "main", "back"
    halted: str = ""  # the message with which it refused to go on; empty where it ran to its end

    def without_marks(self) -> "Execution":
        """Forget the marks."""
        return replace(self, marks=())


class Executor(Protocol):
    """A module of `checks`: runs the files of one program, or raises ProgramError."""

    def execute(self, files: Mapping[str, str], name: str, machine: Machine) -> Execution:
        """Run the program called `name`; `files` are its files and the target's shared ones, by name."""
