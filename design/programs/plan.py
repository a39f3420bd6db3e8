"""Plan of one program: motion from home to the start, the run itself, and back.

A program consists of motion segments that each begin and end at rest: "out", "main" and "back". Between them the robot
stands still for as long as people and loggers need.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from excitor.design.motion import Run
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.inertia import change_frame, inverse
from excitor.robots.robot import Robot

StretchName = Literal["out", "main", "back"]
Stretches: tuple[StretchName, ...] = ("out", "main", "back")

OUT, SETTLE, RAMP_IN, RAMP_OUT, HOLD, BACK, END = 1, 2, 3, 4, 5, 6, 7  # marks: what a program tells a logger
WARM_UP, MEASURED = 100, 1000  # + the number of the period, from 1
MARKS = {
    "OUT": OUT, "SETTLE": SETTLE, "RAMP_IN": RAMP_IN, "RAMP_OUT": RAMP_OUT, "HOLD": HOLD, "BACK": BACK, "END": END,
    "WARM_UP": WARM_UP, "MEASURED": MEASURED,
}  # fmt: skip
UNVERIFIED: Literal["unverified motion"] = "unverified motion"  # class of programs that command torques
PARTS = {"settle": SETTLE, "ramp-in": RAMP_IN, "ramp-out": RAMP_OUT, "hold": HOLD}


@dataclass(frozen=True, eq=False, slots=True)
class Torques:
    """Torques of an unverified motion, each held for a sample, and the guards that end it."""

    tau: FloatArray  # (n_samples, n_joints), N m or N; 0 at the end
    sample_time: float  # s
    limit: FloatArray  # (n_joints,): no torque is larger
    low: FloatArray  # (n_joints,): guards of position and speed
    high: FloatArray
    speed: FloatArray
    tube: tuple[FloatArray, FloatArray, FloatArray]  # lowest and highest positions and speeds of the robots simulated
    n_robots: int
    spread: float  # of them about the prior, a share
    watchdog: float  # s: age of a reading, or delay of a computer, that ends it
    share: float = 1.0  # of the designed torques
    unknown: tuple[str, ...] = ()  # limits of position and speed that nobody states

    def __post_init__(self) -> None:
        sizes = freeze(self, tau="n_samples n_joints")
        n = str(sizes["n_joints"])
        freeze(self, limit=n, low=n, high=n, speed=n)

    @property
    def guards(self) -> dict[str, Any]:
        """The guards as plain data: positions, speeds and torques by joint, rad, m, per s, N m and N; s."""
        each = {key: getattr(self, key).tolist() for key in ("low", "high", "speed", "limit")}
        return each | {"watchdog": self.watchdog}


@dataclass(frozen=True, eq=False)
class Plan:
    """One program: its motion, and the conditions that must hold before anything may move."""

    campaign: str  # names come from people, and are not safe in any language
    run: str
    role: str  # "identify", "validate" or "none"
    robot: Robot
    out: Run  # from home to where the body begins; the way back is the same
    body: Run
    payload: float | None = None  # kg on the flange that the controller must have been told; None: not known
    dry: bool = False  # the run at a small amplitude, to be tried first
    no_go: tuple[str, ...] = ()  # why the design is a no-go, where its programs are emitted on purpose all the same
    poses: tuple[str, ...] = ()  # of a first run at reduced speed: what its moves go to, from home; it is all way out
    left_out: tuple[str, ...] = ()  # poses that it does not visit, and why
    site: Mapping[str, Any] = field(default_factory=dict)  # checked names and numbers of the cell, as in [site]
    torques: Torques | None = None  # that are commanded; the body is then the motion that the prior makes of them
    unlimited: tuple[str, ...] = ()  # joints whose acceleration nobody limits, where that was allowed on purpose

    @property
    def sample_time(self) -> float:
        """Time of which all times of the plan are whole multiples, s."""
        return self.body.sample_time

    @property
    def kind(self) -> str:
        """What a file's head says that it is, where it is not the run itself."""
        dry = "DRY RUN at 15 percent amplitude" if self.dry else ""
        return "FIRST RUN through poses at reduced speed" if self.poses else dry

    @property
    def home(self) -> FloatArray:
        """Pose where the program must find the robot, and leaves it, (n_joints,)."""
        return self.out.start

    @property
    def start(self) -> FloatArray:
        """Pose at which the body begins and ends, (n_joints,)."""
        return self.back.start

    @cached_property
    def back(self) -> Run:
        """The way home: the way out, backwards; of a first run through poses, which ends at home, none."""
        return self.body if self.poses else self.out.reversed()

    @property
    def payload_center(self) -> FloatArray | None:
        """Centre of what the flange carries, in the tool's frame, m; None where nothing is stated, or nothing is on."""
        load, tool = self.robot.payload, self.robot.tool
        if load is None or not self.payload:
            return None
        phi = change_frame(load.phi, inverse(tool.T_link_frame))
        return np.asarray(np.round(phi[6:9] / phi[9], 9) + 0.0)

    def stretch(self, name: StretchName) -> Run:
        """Return the motion of a stretch; one without duration where the robot is already there."""
        return {"out": self.out, "main": self.body, "back": self.back}[name]


def marks(plan: Plan) -> tuple[tuple[float, int], ...]:
    """List the marks that a program sends to its logger where parts of the main segment begin: (s from start, mark)."""
    found: list[tuple[float, int]] = []
    if plan.poses:
        return ()
    t, warm, measured = 0.0, WARM_UP, MEASURED
    for segment in plan.body.segments:
        for span in segment.turns:
            warm += segment.degree > 0 and not segment.measured
            measured += segment.measured
            still = warm if segment.degree else PARTS.get(segment.name, SETTLE)
            found.append((t, measured if segment.measured else still))
            t += span
    return tuple(found)
