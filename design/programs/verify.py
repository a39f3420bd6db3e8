"""Verify an emitted program on a virtual clock: it executes the plan, and refuses to start where it must."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.constraints.constraints import Constraints
from excitor.design.programs import poses
from excitor.design.programs.interpolate import (
    FINE_SAMPLES,
    ExecutedMotion,
    differences,
    executed,
    spacing_for,
    worst_position,
)
from excitor.design.programs.plan import Plan
from excitor.design.programs.target import (
    CannotDrive,
    Execution,
    Executor,
    Machine,
    ProgramError,
    Refusal,
    Target,
    axes_of,
    fitting_steps,
    from_axes,
    to_axes,
)
from excitor.design.programs.way_points import top_speeds
from excitor.robots.robot import Motion

_AWAY = np.radians(5.0)  # rad or m: from home, where a program must refuse to start
_NEAR = np.radians(0.4), 8e-4  # rad, m: from home, where a program starts all the same, and goes home first
_TOO_HEAVY = 1.0  # kg more than planned
SLOWED = 0.5  # share to which the speed slider falls in the middle of a run
DETECTION = 0.3  # s until a program notices
NEAR_PATH, RESTING = 1e-4, 0.01  # rad or m off the path; rad/s or m/s that count as rest
MOVING, UNEVEN = 0.05, 0.05  # rad/s or m/s of the plan, above which its pace may not rise by so much of its own

Score = Callable[[Motion], float]


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """Verification result of one program."""

    program: str
    problems: tuple[str, ...]
    max_position_error: float  # rad or m, at what the program commands or lists
    executed: ExecutedMotion | None  # None where the program does not run
    condition_planned: float | None  # None for runs of moves, and unless something scores it

    @property
    def good(self) -> bool:
        """True if the program may be loaded onto a controller."""
        return not self.problems


@dataclass(frozen=True, eq=False, slots=True)
class Judge:
    """Constraints, score and allowed loss that a program's motion is checked against."""

    constraints: Constraints | None = None
    score: Score | None = None  # condition number of the matrix that the run is for
    loss: float | None = None  # share by which the condition number may grow in execution


def verify(
    plan: Plan, target: Target, executor: Executor, *, files: Mapping[str, str], name: str, judge: Judge
) -> Verdict:
    """Run a program at every step time it may meet, and in every situation it must refuse."""
    problems = list(_texts(target, files))
    nominal: Execution | None = None
    for step in fitting_steps(plan, target):
        machine = _near_home(plan, target, step)
        try:
            execution = executor.execute(files, name, machine)
        except ProgramError as error:
            problems.append(str(error))
            continue
        if plan.poses:
            problems += poses.differences(plan, target, execution)
        else:
            problems += differences(plan, target, execution, step, machine.axes)
        nominal = nominal or execution
    if nominal is not None:
        problems += _refusals(plan, target, executor, files, name)
        problems += (_any_speed if plan.poses else _aborts)(plan, target, executor, files, name)
    planned_value = condition_planned(plan, judge.score)
    if nominal is None or problems:
        worst = worst_position(plan, target, nominal) if nominal is not None else float("nan")
        return Verdict(name, tuple(dict.fromkeys(problems)), worst, None, planned_value)
    found = executed(plan, target, nominal, constraints=judge.constraints, score=judge.score)
    problems += found.broken
    if judge.loss is not None and planned_value is not None and found.conditions is not None:
        lost = found.conditions[1] / planned_value - 1.0
        if lost > judge.loss:
            problems.append(
                f"the executed motion's condition number may be {found.conditions[1]:.4g}, {lost:.1%} above the "
                f"planned {planned_value:.4g}; allowed are {judge.loss:.1%}; {_remedy(plan, target, nominal, judge)}"
            )
    return Verdict(name, tuple(problems), worst_position(plan, target, nominal), found, planned_value)


def _remedy(plan: Plan, target: Target, execution: Execution, judge: Judge) -> str:
    """Advise a spacing of points that keeps the allowed loss of condition, or another remedy."""
    main = next(stretch for stretch in execution.stretches if stretch.name == "main")
    assert judge.score is not None
    assert judge.loss is not None
    if target.spacing is None:
        return "allow more with --loss-percent, or take another target"
    spacing = spacing_for(plan, target, judge.loss, judge.score, like=main, constraints=judge.constraints)
    if spacing == 0.0:
        return "no spacing of points would do; allow more with --loss-percent, or take another target"
    return f"points {spacing:g} s apart would do: --spacing {spacing:g}"


def condition_planned(plan: Plan, score: Score | None) -> float | None:
    """Score the motion as it was planned, over a fine period."""
    series = plan.body.series
    return None if score is None or series is None else score(series.motion(series.grid(FINE_SAMPLES)))


def _machine(plan: Plan, target: Target, step: float) -> Machine:
    names = axes_of(plan.robot, target).names
    try:
        top = top_speeds(plan.robot, target)
    except CannotDrive:
        top = None  # a joint's is unknown
    return Machine(to_axes(plan.robot, target, plan.home), step, payload=plan.payload or 0.0, names=names, top=top)


def _near_home(plan: Plan, target: Target, step: float) -> Machine:
    """Machine with the robot near home, off by a small angle or length, as programs usually find it."""
    machine = _machine(plan, target, step)
    if "home" not in target.refuses:
        return machine
    off = np.where(plan.robot.mechanism.prismatic, _NEAR[1], _NEAR[0])
    coupled = np.abs(axes_of(plan.robot, target).matrix).sum(axis=1).max()  # an axis may add up several joints
    return replace(machine, axes=to_axes(plan.robot, target, plan.home + off / max(1.0, coupled)))


def _any_speed(plan: Plan, target: Target, executor: Executor, files: Mapping[str, str], name: str) -> Iterator[str]:
    """Run a first run at a low override, in manual reduced mode where there is one; it must run all the same."""
    machine = _machine(plan, target, fitting_steps(plan, target)[0])
    situations = {"the speed slider at 30 %": replace(machine, override=0.3)} if "override" in target.refuses else {}
    situations |= {"manual reduced mode": replace(machine, automatic=False)} if target.manual else {}
    for words, there in situations.items():
        try:
            found = poses.differences(plan, target, executor.execute(files, name, there))
        except ProgramError as error:
            found = [str(error)]
        yield from (f"with {words}: {problem}" for problem in found)


def _texts(target: Target, files: Mapping[str, str]) -> Iterator[str]:
    """Check a file's characters, line ends and length, without parsing it."""
    for file, text in files.items():
        if file.endswith((".json", ".py")):
            continue
        try:
            text.encode("ascii" if target.encoding != "utf-8" else "utf-8")
        except UnicodeEncodeError as error:
            yield f"{file}: letter {text[error.start]!r} is not {target.encoding} text that every controller reads"
        lines = text.split("\n")
        if target.line_end == "\r\n" and not all(line.endswith("\r") for line in lines[:-1]):
            yield f"{file}: lines must end with CR LF"
        if target.line_end == "\n" and "\r" in text:
            yield f"{file}: lines must end with LF alone"
        if target.most_lines is not None and len(lines) > target.most_lines:
            yield f"{file}: has {len(lines)} lines, the controller takes {target.most_lines}; plan fewer periods"


def _refusals(plan: Plan, target: Target, executor: Executor, files: Mapping[str, str], name: str) -> Iterator[str]:
    """Run the program in each situation in which it must refuse to move; yield a sentence for each failure."""
    for refusal, machine, situation in _situations(plan, target):
        if plan.poses and (refusal == "override" or (refusal == "mode" and target.manual)):
            continue
        if refusal not in target.refuses or (refusal == "payload" and plan.payload is None):
            continue
        try:
            execution = executor.execute(files, name, machine)
        except ProgramError as error:
            yield f"with {situation} the program fails rather than refuses: {error}"
            continue
        if execution.stretches:
            yield f"with {situation} the program moves the robot; it must refuse"
        elif not execution.halted:
            yield f"with {situation} the program ends without a message; it must state why it does not start"


def _aborts(plan: Plan, target: Target, executor: Executor, files: Mapping[str, str], name: str) -> Iterator[str]:
    """Run the program into each of its aborts, in the middle of the run; yield a sentence for each failure."""
    if "override" not in target.aborts:
        return
    after = 0.5 * plan.body.duration
    machine = _machine(plan, target, fitting_steps(plan, target)[0])
    try:
        execution = executor.execute(files, name, replace(machine, later=(after, SLOWED)))
    except ProgramError as error:
        yield f"where the speed slider falls to {100 * SLOWED:g} % the program fails rather than stops: {error}"
        return
    for problem in abort_problems(plan, target, execution, after):
        yield f"where the speed slider falls to {100 * SLOWED:g} % {problem}"


def abort_problems(
    plan: Plan, target: Target, execution: Execution, after: float, share: float = SLOWED
) -> Iterator[str]:
    """Check that a run whose override falls to `share` after some seconds ends in time, on its path, at rest for good.

    Each command must be near the planned path, never behind the one before it, at a pace that only falls.
    """
    if not execution.halted:
        yield "the program goes on"
        return
    main = next((stretch for stretch in execution.stretches if stretch.name == "main"), None)
    if main is None or execution.stretches[-1] is not main:
        yield "the program still moves the robot home"
        return
    late = main.t[-1] - after
    if late > (DETECTION + target.stop_s) / share:
        yield f"the robot moves on for {late:.2f} s"
    q, step = from_axes(plan.robot, target, main.axes), float(np.diff(main.t).min())
    begin = int(np.searchsorted(main.t, after))
    u, pace = float(main.t[begin - 1]), 1.0
    for k, wanted in enumerate(q[begin:], start=begin):
        last = u
        for _ in range(2):  # Newton steps to the nearest point of the path, ahead
            here, rate = (plan.body.at(np.array([u]), order)[0] for order in (0, 1))
            u += float((wanted - here) @ rate) / max(float(rate @ rate), 1e-12)
            u = float(np.clip(u, last, min(last + 2.0 * step, plan.body.duration)))
        off = float(np.abs(wanted - plan.body.at(np.array([u]))[0]).max())
        if off > NEAR_PATH:
            yield f"it leaves its path by {off:.2g} rad or m, {main.t[k]:.3f} s into the run"
            return
        if float(np.abs(rate).max()) > MOVING:
            if (u - last) / step > pace + UNEVEN:
                yield f"it speeds up again, {main.t[k]:.3f} s into the run"
                return
            pace = (u - last) / step
    last_speed = float(np.abs(np.diff(q[-3:], axis=0)).max()) / step
    if last_speed > RESTING:
        yield f"it is at {last_speed:.2g} rad/s or m/s when it gives up"


def _situations(plan: Plan, target: Target) -> Iterator[tuple[Refusal, Machine, str]]:
    """List controllers and robots in states in which nothing may move; each joint alone may be away from home."""
    good = _machine(plan, target, fitting_steps(plan, target)[0])
    yield "override", replace(good, override=0.5), "the speed slider at 50 %"
    yield "mode", replace(good, automatic=False), "the wrong mode"
    yield "payload", replace(good, payload=good.payload + _TOO_HEAVY), "another payload"
    for j, joint in enumerate(plan.robot.joint_names):
        for side in (1.0, -1.0):
            q = plan.home.copy()
            q[j] += side * _AWAY
            away = replace(good, axes=to_axes(plan.robot, target, q))
            yield "home", away, f"joint {joint} {5.0 * side:+g} degrees ({87 * side:+g} mm) from home"
