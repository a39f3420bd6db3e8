"""Plan of one program: motion from home to the start, the run itself, and back.

A program consists of motion segments that each begin and end at rest: "out", "main" and "back". Between them the robot
stands still for as long as people and loggers need.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.design.motion import Excitation, Trajectory, executed, rise
from excitor.design.slow import travelled
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.robot import Robot

StretchName = Literal["out", "main", "back"]
Stretches: tuple[StretchName, ...] = ("out", "main", "back")

OUT, SETTLE, RAMP_IN, RAMP_OUT, HOLD, BACK, END = 1, 2, 3, 4, 5, 6, 7  # marks: what a program tells a logger
WARM_UP, MEASURED = 100, 1000  # + the number of the period, from 1


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """A straight line in joint space from rest to rest; a stop, where its length is 0.

    Without a blend the share of the way travelled is e(t / T), e the envelope of the ramps; with one it is that of
    `excitor.design.slow`: speeding up for `blend` s, cruising, slowing down.
    """

    to: FloatArray  # (n_joints,), rad and m
    duration: float  # s, whole controller samples
    blend: float = 0.0  # s
    measured: bool = False

    def __post_init__(self) -> None:
        freeze(self, to="n_joints")
        if not (self.duration > 0.0 and 0.0 <= self.blend <= 0.5 * self.duration * (1.0 + 1e-9)):
            raise ValueError(
                f"a move takes {self.duration:g} s with blends of {self.blend:g} s, expected a time above 0 "
                "and blends of at most half of it"
            )


@dataclass(frozen=True, eq=False, slots=True)
class Rounds:
    """A body of repeated moves, which end where they began."""

    moves: tuple[Move, ...]
    repeats: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """One program: its motion, and the conditions that must hold before anything may move."""

    campaign: str  # names come from people, and are not safe in any language
    run: str
    role: str  # "identify", "validate" or "none"
    robot: Robot
    home: FloatArray  # (n_joints,): where the program must find the robot, and leaves it
    out: tuple[Move, ...]
    body: Trajectory | Rounds
    sample_time: float  # s: of which all times of the plan are whole multiples
    payload: float | None = None  # kg on the flange that the controller must have been told; None: not known
    dry: bool = False  # the run at a small amplitude, to be tried first
    no_go: tuple[str, ...] = ()  # why the design is a no-go, where its programs are emitted on purpose all the same

    def __post_init__(self) -> None:
        freeze(self, home=str(self.robot.n_joints))

    @property
    def start(self) -> FloatArray:
        """Pose at which the body begins and ends, (n_joints,)."""
        return self.out[-1].to if self.out else self.home

    @property
    def back(self) -> tuple[Move, ...]:
        """The way home: the way out, backwards."""
        poses = [self.home, *(move.to for move in self.out)]
        pairs = zip(poses[-2::-1], self.out[::-1], strict=True)
        return tuple(Move(pose, move.duration, move.blend) for pose, move in pairs)

    def moves(self, stretch: StretchName) -> tuple[Move, ...]:
        """List the moves of a segment that consists of moves."""
        if stretch == "main":
            if isinstance(self.body, Trajectory):
                raise ValueError("the run is a Fourier series; it has no moves")
            return self.body.moves * self.body.repeats
        return self.out if stretch == "out" else self.back


def duration(plan: Plan, stretch: StretchName) -> float:
    """Duration of a segment, s; 0 where the robot is already there."""
    if stretch == "main" and isinstance(plan.body, Trajectory):
        return plan.body.excitation.duration
    return float(sum(move.duration for move in plan.moves(stretch)))


def planned(plan: Plan, stretch: StretchName, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of a segment, (n_t, n_joints), t in s from its start; at rest before and after it."""
    t = np.asarray(t, dtype=float)
    if stretch == "main" and isinstance(plan.body, Trajectory):
        return executed(plan.body, t, order)
    begin = plan.home if stretch == "out" else plan.start
    return moved(begin, plan.moves(stretch), t, order)


def moved(begin: FloatArray, moves: tuple[Move, ...], t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of moves one after the other, (n_t, n_joints)."""
    if not moves:
        return np.tile(begin if order == 0 else 0.0 * begin, (len(t), 1))
    knots = np.array([begin, *(move.to for move in moves)])
    T, B = (np.array([getattr(move, name) for move in moves]) for name in ("duration", "blend"))
    edges = np.concatenate([[0.0], np.cumsum(T)])
    k = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(moves) - 1)
    s = np.clip(t - edges[k], 0.0, T[k])
    blended = travelled(s, T[k], np.where(B[k] > 0.0, B[k], 0.5 * T[k]), order)
    share = np.where(B[k] > 0.0, blended, rise(s / T[k], order) / T[k] ** order)
    out = share[:, None] * np.diff(knots, axis=0)[k]
    return np.asarray(out + knots[k] if order == 0 else out)


def marks(plan: Plan) -> tuple[tuple[float, int], ...]:
    """List the marks that a program sends to its logger where parts of the main segment begin: (s from start, mark)."""
    if isinstance(plan.body, Trajectory):
        return _series_marks(plan.body.excitation)
    found: list[tuple[float, int]] = []
    t, count = 0.0, 0
    for move in plan.moves("main"):
        count += move.measured
        found.append((t, MEASURED + count if move.measured else SETTLE))
        t += move.duration
    return tuple(found)


def _series_marks(excitation: Excitation) -> tuple[tuple[float, int], ...]:
    T = excitation.period
    parts = [
        (SETTLE, excitation.settle),
        (RAMP_IN, excitation.ramp),
        *((WARM_UP + k + 1, T) for k in range(excitation.warm_up)),
        *((MEASURED + k + 1, T) for k in range(excitation.measured)),
        (RAMP_OUT, excitation.ramp),
        (HOLD, excitation.hold),
    ]
    found: list[tuple[float, int]] = []
    t = 0.0
    for mark, span in parts:
        if span > 0.0:
            found.append((t, mark))
            t += span
    return tuple(found)
