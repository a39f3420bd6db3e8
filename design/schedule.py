"""Schedules: the runs of a campaign, their order, purpose and role, as plain data to design motions from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.design.constraints.constraint import listed
from excitor.design.constraints.constraints import Constraints
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.base import TOLERANCE, independent_columns, observation, random_motion
from excitor.robots.errors import choice
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

Name = Literal["together", "locked-sequence", "payload-pair", "subset", "gentle-first"]
Kind = Literal["warm-up", "excitation", "static", "sweep"]
Role = Literal["none", "identify", "validate"]

GENTLE = (0.3, 0.6, 1.0)  # shares of speed and acceleration limits, run after run
_POSE_SEED = 11


@dataclass(frozen=True, eq=False, slots=True)
class RunPlan:
    """One run: what moves, what its log is for, and why it is there."""

    name: str  # unique in its schedule
    kind: Kind
    moving: BoolArray  # (n_joints,)
    role: Role
    note: str  # why, in a sentence
    payload: Literal["known"] | None = None
    same_as: str | None = None  # an earlier run whose very motion this one repeats
    learns_from: str | None = None  # an earlier run that must be executed and identified before this one is designed
    share: float = 1.0  # of the limits of speed, acceleration and jerk
    parameters: tuple[str, ...] = ()  # base parameters whose expected deviations this run alone is designed for

    def __post_init__(self) -> None:
        freeze(self, moving="bool: n_joints")
        if not self.moving.any():
            raise ValueError(f"run {self.name!r} moves no joint; let at least one move")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"run {self.name!r} takes a share of {self.share} of the limits, expected 0 to 1")


Schedule = tuple[RunPlan, ...]


def together(robot: Robot, joints: Sequence[str] | None = None) -> Schedule:
    """Plan one excitation of all joints, or of some, with what makes it trustworthy: warm-up, validation, drift."""
    moving = moving_mask(robot, joints)
    who = _listed(robot, moving)
    excitation = RunPlan("excitation", "excitation", moving, "identify", f"{who} move together.")
    return checked((_warm_up(moving), excitation, _validation(moving), _again(excitation)))


def subset(robot: Robot, joints: Sequence[str]) -> Schedule:
    """Plan the same for some joints only, such as the wrist and the elbow for a payload; the others stand still."""
    if not joints:
        raise ValueError("subset needs the names of joints that move, such as those of the wrist and the elbow")
    return together(robot, joints)


def locked_sequence(robot: Robot) -> Schedule:
    """Plan the power model's runs: joints 1 to k stand still, k = 0 … n - 1 ([Gautier2013] §IV.B).

    The energy of links 1 to k is then constant and leaves the power: stacked, the runs are block-triangular, and the
    light links at the end are not lost beside the heavy ones.
    """
    free = np.flatnonzero(moving_mask(robot))
    excitations = []
    for k in range(len(free)):
        moving = np.isin(np.arange(robot.n_joints), free[k:])
        held = [robot.joint_names[j] for j in free[:k]]
        name = f"{' to '.join(dict.fromkeys((held[0], held[-1])))} locked" if held else "all joints"
        why = f"{_listed(robot, moving)} {'move' if k < len(free) - 1 else 'moves'}"
        why += ", so the power shows every link." if k == 0 else ": the power of the links before is gone."
        excitations.append(RunPlan(name, "excitation", moving, "identify", why))
    everything = excitations[0].moving
    return checked((_warm_up(everything), *excitations, _validation(everything), _again(excitations[0])))


def payload_pair(robot: Robot, joints: Sequence[str] | None = None) -> Schedule:
    """Plan one motion without and with a known payload: what differs is the payload's alone."""
    moving = moving_mask(robot, joints)
    first = RunPlan("unloaded", "excitation", moving, "identify", "The arm without the payload, to compare with.")
    note = "The same motion with the known payload."
    loaded = replace(first, name="loaded", payload="known", same_as="unloaded", note=note)
    validation = replace(_validation(moving), payload=loaded.payload)  # so that nobody changes the payload for it
    return checked((_warm_up(moving), first, loaded, validation))


def gentle_first(robot: Robot, joints: Sequence[str] | None = None) -> Schedule:
    """Plan runs for a robot without a prior model: slow at first, each next one designed from what was learned."""
    moving = moving_mask(robot, joints)
    runs: list[RunPlan] = []
    for share in GENTLE:
        before = runs[-1].name if runs else None
        name = "excitation" if share == 1.0 else f"gentle {share:.0%}"
        why = (
            "Nothing is known of the torques yet, so the joints go slowly."
            if before is None
            else f"Designed with the model identified from {before!r}, which predicts the torques."
        )
        runs.append(RunPlan(name, "excitation", moving, "identify", why, learns_from=before, share=share))
    return checked((_warm_up(moving, GENTLE[0]), *runs, _validation(moving), _again(runs[0])))


def plan_runs(robot: Robot, name: Name, joints: Sequence[str] | None = None) -> Schedule:
    """Plan the runs of a schedule by its name."""
    if name == "locked-sequence" and joints is not None:
        raise ValueError("a locked sequence is of all joints; leave the joints out")
    planned: dict[str, Callable[[], Schedule]] = {
        "together": lambda: together(robot, joints),
        "locked-sequence": lambda: locked_sequence(robot),
        "payload-pair": lambda: payload_pair(robot, joints),
        "subset": lambda: subset(robot, joints or ()),
        "gentle-first": lambda: gentle_first(robot, joints),
    }
    if name in planned:
        return planned[name]()
    raise ValueError(f"schedule is {name!r}, expected one of {', '.join(planned)}")


def with_slow_runs(
    robot: Robot, schedule: Schedule, *, static: bool = False, sweeps: bool = False, joints: Sequence[str] | None = None
) -> Schedule:
    """Add static poses and sweeps at constant speeds, of all joints or those named, before what teaches first."""
    first = next((k for k, run in enumerate(schedule) if run.role != "none"), 0)
    added: list[RunPlan] = []
    if static:
        note = "The arm rests in many poses: gravity alone, without friction's help or harm."
        added.append(RunPlan("static", "static", moving_mask(robot, joints), "identify", note))
    if sweeps:
        note = "One joint after another turns at constant speeds: friction by speed, without inertia."
        added.append(RunPlan("sweeps", "sweep", moving_mask(robot, joints), "identify", note))
    return checked((*schedule[:first], *added, *schedule[first:]))


def moving_mask(robot: Robot, joints: Sequence[str] | None = None) -> BoolArray:
    """Mark joints by their names, (n_joints,): all that the robot itself does not lock where none are named."""
    if joints is None:
        return np.array([i not in robot.locked for i in range(robot.n_joints)])
    strange = [name for name in joints if name not in robot.joint_names]
    if strange:
        raise ValueError(
            f"{robot.name} has no joint {', '.join(strange)}; its joints are {choice(strange[0], robot.joint_names)}"
        )
    held = [name for name in joints if robot.joint_names.index(name) in robot.locked]
    if held:
        raise ValueError(f"{', '.join(held)} of {robot.name} cannot move: the robot itself locks it")
    return np.array([name in joints for name in robot.joint_names])


def run_constraints(run: RunPlan, constraints: Constraints) -> Constraints:
    """Scale velocity, acceleration and jerk limits by a run's share: a gentle run is slower, at the same poses."""
    rates = {name: run.share * getattr(constraints.limits, name) for name in ("velocity", "acceleration", "jerk")}
    return constraints if run.share == 1.0 else replace(constraints, limits=replace(constraints.limits, **rates))


def excited_columns(robot: Robot, moving: BoolArray, kept: IntArray, pose: FloatArray | None = None) -> IntArray:
    """Choose the linearly independent columns of a run in which only some joints move, in their order.

    A criterion over them is finite; other columns that the run excites are regrouped into them.
    Joints that stand still are at `pose`, or, where it is NaN or not given, anywhere in their range.
    """
    held = _held(robot, moving, pose)
    W = observation(robot, held)[:, kept]
    norms = np.linalg.norm(W, axis=0)
    links = np.asarray(kept) < layout(robot).n_link_params
    excited = norms > np.where(links, TOLERANCE * norms[links].max(initial=0.0), 0.0)
    return np.asarray(kept)[independent_columns(W / np.where(excited, norms, np.inf))[0]]


def checked(schedule: Schedule) -> Schedule:
    """Check that names are unique, and that runs refer to earlier ones and move as those do."""
    earlier: Mapping[str, RunPlan] = {}
    for run in schedule:
        if run.name in earlier:
            raise ValueError(f"two runs are called {run.name!r}; give each its own name")
        for field, other in (("repeats", run.same_as), ("learns from", run.learns_from)):
            if other is not None and other not in earlier:
                raise ValueError(f"run {run.name!r} {field} {other!r}, which is not an earlier run of the schedule")
        if run.same_as is not None and not np.array_equal(run.moving, earlier[run.same_as].moving):
            raise ValueError(f"run {run.name!r} repeats {run.same_as!r} but moves other joints; let it move the same")
        earlier = {**earlier, run.name: run}
    return schedule


def _held(robot: Robot, moving: BoolArray, pose: FloatArray | None) -> dict[int, float]:
    """Positions of the joints at standstill, by index: of `pose`, or random where it is NaN or not given."""
    anywhere = random_motion(robot, 1, seed=_POSE_SEED).q[0]
    places = anywhere if pose is None else np.where(np.isnan(pose), anywhere, pose)
    return {int(j): float(places[j]) for j in np.flatnonzero(~moving)}


def _warm_up(moving: BoolArray, share: float = 1.0) -> RunPlan:
    note = "Friction changes while gears warm up; this run is not used for estimation."
    return RunPlan("warm-up", "warm-up", moving, "none", note, share=share)


def _validation(moving: BoolArray) -> RunPlan:
    note = "Another motion, not used for estimation: it checks the model's prediction."
    return RunPlan("validation", "excitation", moving, "validate", note)


def _again(first: RunPlan) -> RunPlan:
    note = f"Run {first.name!r} again, at the end: a difference between the two is drift."
    return replace(first, name=f"{first.name} again", role="validate", same_as=first.name, note=note, learns_from=None)


def _listed(robot: Robot, moving: BoolArray) -> str:
    return listed([robot.joint_names[j] for j in np.flatnonzero(moving)])
