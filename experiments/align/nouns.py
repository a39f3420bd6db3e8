"""Data of alignment: the plan of a program, the log of its run, checks, and the alignment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from excitor.design.motion import Run
from excitor.identify.diagnose import STILL, Level
from excitor.robots.arrays import BoolArray, FloatArray, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

Effort = Literal["torque", "current"]
Side = Literal["joint", "motor"]


@dataclass(frozen=True, eq=False, slots=True)
class ExpectedMotion:
    """Planned joint motion of a program, in rad, m and s from the start of its main segment."""

    program: str
    prismatic: BoolArray  # (n_joints,)
    run: Run  # of the main segment
    marks: tuple[tuple[float, int], ...]  # empty where the target sets none
    axes: FloatArray  # (n_joints, n_joints): the controller's axes from the joints, signs and couplings

    def __post_init__(self) -> None:
        n = str(len(self.run.joints))
        freeze(self, prismatic=f"bool: {n}", axes=f"{n} {n}")

    @property
    def moving_span(self) -> tuple[float, float]:
        """Time span of a series' motion, s, without its rests before and after; the whole segment for moves."""
        if self.run.series is None:
            return 0.0, self.run.duration
        return self.run.excitation.settle, self.run.duration - self.run.excitation.hold

    @property
    def steady_span(self) -> tuple[float, float]:
        """Time span of a series at its full amplitude, s; the whole segment for moves."""
        if self.run.series is None:
            return 0.0, self.run.duration
        steady = [one for one in self.run.segments if one.degree]
        return steady[0].start, steady[-1].start + steady[-1].duration

    def moving(self) -> BoolArray:
        """Return the mask of joints that the plan moves, (n_joints,)."""
        t = np.linspace(*self.moving_span, 1 + min(20_000, max(400, 20 * len(self.run.segments))))
        return np.asarray(np.ptp(self.run.at(t), axis=0) > STILL)


@dataclass(frozen=True, eq=False, slots=True)
class MeasuredRun:
    """Log of one run, on the joint side, at stamps that need not be even."""

    name: str  # of the file, for sentences
    t: FloatArray  # (n,), s
    q: FloatArray  # (n, n_joints)
    tau: FloatArray  # (n, n_joints): torques, or currents where no law turns them into torques
    effort: Effort = "torque"
    position_side: Side = "joint"  # where it was recorded, before it was brought to the joints
    effort_side: Side = "joint"
    mark: FloatArray | None = None  # (n,)
    speed_scaling: FloatArray | None = None  # (n,), share of the planned speed
    q_reference: FloatArray | None = None  # (n, n_joints)
    gains: FloatArray | None = None  # (n_joints,): torque a unit of what was logged, where a law of currents made it

    def __post_init__(self) -> None:
        more = {"mark": "n?", "speed_scaling": "n?", "q_reference": "n n_joints?", "gains": "n_joints?"}
        freeze(self, True, "C", t="n", q="n n_joints", tau="n n_joints", **more)


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison of the log with the plan or the prior model: value, tolerance, and sentence."""

    what: str
    figure: float
    unit: str
    tolerance: float  # what the figure may differ by, or may reach, as the sentence says
    holds: bool
    sentence: str
    joint: str = ""
    level: Level = "note"  # how bad it is where it does not hold
    cause: str = ""  # the likely one; cleared, with the remedy, where the check holds
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.holds and self.cause:
            object.__setattr__(self, "cause", "")
            object.__setattr__(self, "remedy", "")

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence


REACH_95 = 1.96  # standard deviations
PAYLOAD_EVIDENCE = 10.0  # below which nothing is said: healthy runs save 3 at most
CLAIM = 0.2  # of a mass that is reported to be stated
LEAST_MASS = 0.02  # of the mass of all links: too little to matter


@dataclass(frozen=True, slots=True)
class Load:
    """A mass at the flange beyond what is stated, kg."""

    mass: float
    sigma: float
    moments: tuple[float, float, float] = (0.0, 0.0, 0.0)  # kg m, of the mass from the flange
    evidence: float = 0.0  # what it saves of the squared residual, in variances; a few by chance
    stated: float = 0.0  # kg
    stated_sigma: float = 0.0
    equations: FloatArray = field(default_factory=lambda: np.zeros((0, 0)), compare=False, repr=False)  # QR factor
    spreads: FloatArray = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)  # of their unknowns

    @property
    def total(self) -> float:
        """Mass that the torques indicate, kg."""
        return self.stated + self.mass

    @property
    def vague(self) -> bool:
        """Return True if its 95 % interval is wider than a figure of it may be off."""
        return REACH_95 * self.sigma > CLAIM * abs(self.total)

    @property
    def confirmed(self) -> tuple[float, float]:
        """Mass and its standard deviation by statement and torques together, weighted by their variances, kg."""
        share = min(1.0, (self.stated_sigma / self.sigma) ** 2)  # σ has the doubt of what is stated in it
        return self.stated + share * self.mass, self.stated_sigma * float(np.sqrt(1.0 - share))

    def sure(self, robot: Robot) -> bool:
        """Return True if the load is significant, and larger than the least mass reported."""
        return self.evidence > PAYLOAD_EVIDENCE and abs(self.mass) > self.least(robot)

    def possible(self, robot: Robot) -> bool:
        """Return True if the last link and its load keep a positive mass."""
        return self.mass > -float(prior(robot)[layout(robot).link(carrier(robot))][9])

    def least(self, robot: Robot) -> float:
        """Least mass reported, kg."""
        masses = float(np.abs(prior(robot)[9 : layout(robot).n_link_params : 10]).sum())
        return max(LEAST_MASS * masses, self.sigma)


def carrier(robot: Robot) -> int:
    """Return the index of the link that carries what hangs on the flange."""
    return robot.tool.link if robot.tool.link >= 0 else layout(robot).n_links - 1


@dataclass(frozen=True, eq=False, slots=True)
class Alignment:
    """Alignment of a log with its program, and all checks."""

    expected: ExpectedMotion
    checks: tuple[Check, ...]
    start: float = np.nan  # s of the log: begin of the main segment
    stretch: float = np.nan  # duration over the planned one
    interval: float = np.nan  # s between samples, typically
    first_period: int = 0  # of the measured ones, the first that is usable
    periods: int = 0  # usable measured periods, in a row
    delay: float = 0.0  # s that torques come after the motion they belong to
    load: Load | None = None  # at the flange, where it could be weighed

    @property
    def faults(self) -> tuple[Check, ...]:
        """Checks that do not hold, the worst first."""
        rank = {"unusable": 0, "doubtful": 1, "note": 2}
        return tuple(sorted((c for c in self.checks if not c.holds), key=lambda check: rank[check.level]))

    @property
    def causes(self) -> tuple[str, ...]:
        """Likely causes of all that does not hold, each once."""
        return tuple(dict.fromkeys(check.cause for check in self.faults))

    def log_time(self, t: FloatArray) -> FloatArray:
        """Convert planned time to time on the log's clock."""
        return np.asarray(self.start + self.stretch * np.asarray(t))


class Misalignment(ExcitorError):
    """A log that does not show its planned program; `checks` lists the differences."""

    def __init__(self, name: str, checks: Sequence[Check]) -> None:
        self.checks = tuple(checks)
        causes = dict.fromkeys(check.cause.replace(" ", "-") for check in self.checks if check.cause)
        hint = (
            f"{name}: to use it all the same, with the doubt written into the model: excitor identify DIR "
            + " ".join(f"--allow {cause}" for cause in causes)
        )
        super().__init__("\n".join([*(f"{name}: {check}" for check in self.checks), *([hint] if causes else [])]))
