"""What is every estimator given, and what does it owe? One problem, one form of answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from excitor.identify.estimate import Estimate
from excitor.identify.intervals import Intervals
from excitor.identify.regression import Regression, Rows
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.robot import Motion, Robot

if TYPE_CHECKING:
    from excitor.robots.simulate import Servo


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """The same data for all: runs to fit, which rows take part, and their dynamic equations in base parameters.

    `references` are what the controller was told, by run, sampled at the servo's rate (the run's where no servo is
    known), from the run's first sample to its last. `position_noise` is the standard deviation of single encoder
    readings, where it is known.
    """

    robot: Robot
    runs: Sequence[Samples]
    rows: Rows
    regression: Regression
    servo: "Servo | None" = None
    references: Mapping[str, Motion] | None = None
    position_noise: FloatArray | None = None  # (n_joints,), rad or m

    def __post_init__(self) -> None:
        if self.position_noise is not None:
            freeze(self, position_noise=str(self.robot.n_joints))


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """What one method made of a problem; where it refused, only why."""

    method: str
    estimate: Estimate | None
    intervals: Intervals | None  # 95 %, not trusting residuals to be white
    refused: str = ""  # a sentence; empty where there is an estimate
    notes: tuple[str, ...] = ()  # sentences: what was assumed or chosen on the way
    evidence: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Method:
    """An estimator: its name, what it assumes in a sentence, and how it fits."""

    name: str
    title: str
    fit: Callable[[Problem], Answer]
