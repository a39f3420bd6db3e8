"""Verify an emitted program on a virtual clock: it executes the plan, and refuses to start where it must."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.constraints.constraints import Constraints
from excitor.design.motion import Run
from excitor.design.programs import poses
from excitor.design.programs.facts import STEEPEST
from excitor.design.programs.interpolate import (
    FINE_SAMPLES,
    ExecutedMotion,
    differences,
    executed,
    spacing_for,
    worst_position,
    worst_positions,
)
from excitor.design.programs.plan import Plan, Stretches, StretchName
from excitor.design.programs.target import (
    AT_HOME,
    Condition,
    Event,
    Execution,
    Executor,
    Machine,
    ProgramError,
    Refusal,
    Stretch,
    Target,
    axes_of,
    fitting_steps,
    from_axes,
    to_axes,
    units,
)
from excitor.design.programs.way_points import tops
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.robot import Motion

SLOWED = 0.5  # share to which the speed slider falls in the middle of a run
DETECTION = 0.3  # s until a program notices that
LATER = 0.05  # s by which it may take longer than stated
STRETCHED = 0.25  # share by which a stop may be longer or shorter than stated
_GRID = 1e-3  # s between the points of a path that commands are looked for at
_NEARER = 5e-3  # rad/s or m/s: by how much a point counts as farther off for every second that it is from its time
_GOOD = {"flag": 0.0, "%": 100.0}  # values at which nothing is wrong: just inside of such a limit a run is as any other
_LATE = 0.9  # of the steps among which lost ones are counted
_EARLY = 5.0  # s of a run in which verify lets something happen
_RETURN = frozenset({"override", "run", "drive", "mode", "program"})  # of what is watched, that can be good again
NEAR_PATH, RESTING = 1e-4, 0.01  # rad or m off the path; rad/s or m/s that count as rest
_FED = 0.1  # share of the largest value of a stop, by which a fed velocity or acceleration may be off its positions
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
    position_errors: FloatArray | None = None  # (n_joints,), each joint's own; None where the program does not run

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
    problems = [*_texts(target, files), *_enforced(plan, target)]
    nominal: Execution | None = None
    for k, step in enumerate(fitting_steps(plan, target)):
        machine = just_inside(plan, target, step, (-1.0) ** k)
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
        problems += (_any_speed if plan.poses else aborts)(plan, target, executor, files, name)
    planned_value = condition_planned(plan, judge.score)
    if nominal is None:
        return Verdict(name, tuple(dict.fromkeys(problems)), float("nan"), None, planned_value)
    errors = worst_positions(plan, target, nominal)
    worst = float(errors.max())
    if problems:
        return Verdict(name, tuple(dict.fromkeys(problems)), worst, None, planned_value, errors)
    found = executed(plan, target, nominal, constraints=judge.constraints, score=judge.score)
    problems += found.broken
    if judge.loss is not None and planned_value is not None and found.conditions is not None:
        lost = found.conditions[1] / planned_value - 1.0
        if lost > judge.loss:
            problems.append(
                f"the executed motion's condition number may be {found.conditions[1]:.4g}, {lost:.1%} above the "
                f"planned {planned_value:.4g}; allowed are {judge.loss:.1%}; {_remedy(plan, target, nominal, judge)}"
            )
    return Verdict(name, tuple(problems), worst, found, planned_value, errors)


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
    limits = plan.robot.limits
    stated = [tops(plan.robot, target, values) for values in (limits.velocity, limits.acceleration)]
    top, rise = (None if missing else values for values, missing in stated)
    home, told = to_axes(plan.robot, target, plan.home), plan.payload or 0.0
    return Machine(home, step, payload=told, names=names, top=top, rise=rise, settings={**target.settings, **plan.site})


def just_inside(plan: Plan, target: Target, step: float, side: float = 1.0) -> Machine:
    """Machine just inside of every threshold of the start: axes off home by turns, a payload that is too heavy."""
    machine = _machine(plan, target, step)
    good = {name: target.condition(name).sides[0] for name in target.refuses}
    if "home" in good:
        signs = side * np.where(np.arange(len(machine.axes)) % 2, -1.0, 1.0)
        machine = replace(machine, axes=machine.axes + signs * _off_home(plan, target, good["home"]))
    if "payload" in good and plan.payload is not None:
        machine = replace(machine, payload=machine.payload + good["payload"])
    return replace(
        machine, events=tuple(Event(name, x, stretch="start") for name, x in good.items() if name in ("logger", "axes"))
    )


def _off_home(plan: Plan, target: Target, degrees: float) -> FloatArray:
    """Write a distance from home in each axis' own unit; a sliding one is off by as many twice as many mm."""
    slides = plan.robot.mechanism.prismatic
    return np.where(slides, degrees / AT_HOME[0] * 1e-3 * AT_HOME[1], np.radians(degrees)) * units(plan.robot, target)


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


def _enforced(plan: Plan, target: Target) -> Iterator[str]:
    """Yield a sentence for each limit of the controller itself that the planned motion exceeds."""
    for line in target.limits(plan) if target.limits is not None else ():
        if line.state == "exceeded":
            yield f"{line.name}: the motion needs {line.worst:.0%} of it, allowed are {line.limit:.0%}; lower [limits]"


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
        free = (*target.poses_allow, *(("mode",) if target.manual else ()))
        if (plan.poses and refusal in free) or (refusal == "payload" and plan.payload is None):
            continue
        try:
            execution = executor.execute(files, name, machine)
        except ProgramError as error:
            yield f"with {situation} the program fails rather than refuses: {error}"
            continue
        if any(one.name == "main" or refusal != "logger" for one in execution.stretches):
            yield f"with {situation} the program moves the robot; it must refuse"
        elif not execution.halted:
            yield f"with {situation} the program ends without a message; it must state why it does not start"


def aborts(
    plan: Plan, target: Target, executor: Executor, files: Mapping[str, str], name: str, moments: int = 0
) -> Iterator[str]:
    """Run a program to both sides of what it watches in motion; yield a sentence for each failure.

    It runs on with all conditions just inside; just outside of each it stops: `moments` of them at random, over all
    stretches, or 0 for each condition once, where the run is fast.
    """
    watched = {key: each for key, each in target.conditions.items() if each.does}
    if not watched:
        return
    machine = replace(just_inside(plan, target, fitting_steps(plan, target)[0]), events=())
    events = tuple(
        Event(key, each.sides[0], (k + 1) / (len(watched) + 1) * plan.body.duration)
        for k, (key, each) in enumerate(watched.items())
    )
    if moments or any(event.value != _GOOD.get(watched[event.name].unit) for event in events):  # else nothing happens
        yield from _inside(plan, target, executor, (files, name), replace(machine, events=events))
    outside = [*_outside(plan, target, moments, np.random.default_rng(moments))]
    brief = [*_brief(plan, target, machine.step)] if not moments else []
    for k, event in enumerate([*outside, *(event for event, _ in brief)]):
        condition = watched[event.name]
        what = f"where {event.name} is {event.value:g} {condition.unit}, {event.after:.3f} s into {event.stretch}"
        passing = (*_passing(event, condition),) if k % 2 or not moments else ()
        passing = brief[k - len(outside)][1:] if k >= len(outside) else passing
        what += ", and good again soon" if passing else ""
        try:
            execution = executor.execute(files, name, replace(machine, events=(event, *passing)))
        except ProgramError as error:
            yield f"{what}, the program fails rather than stops: {error}"
            continue
        yield from (f"{what}, {problem}" for problem in abort_problems(plan, target, execution, event))


def _inside(
    plan: Plan, target: Target, executor: Executor, given: tuple[Mapping[str, str], str], machine: Machine
) -> Iterator[str]:
    """Run a program on a machine that is just inside of all limits, and on which it must reach its end."""
    try:
        execution = executor.execute(*given, machine)
        off = worst_position(plan, target, execution)
        why = execution.halted or (f"it is {off:.2g} rad or m off its path" if off > NEAR_PATH else "")
        made = [one.name for one in execution.stretches]
        if why or made[-1:] != [one for one in Stretches if plan.stretch(one).duration > 0.0][-1:]:
            yield f"with all that it watches just inside of its limits it does not run to its end: {why}"
    except ProgramError as error:
        yield f"with all that it watches just inside of its limits the program fails: {error}"


def _passing(event: Event, condition: Condition) -> Iterator[Event]:
    """List the event by which a condition is good again in the middle of the stop, which must go on all the same."""
    halved = event.name == "override" and event.value <= 100.0 * SLOWED
    if event.name in _RETURN and condition.does == "slows" and (halved or condition.within <= DETECTION):
        after = event.after + (min(condition.within, DETECTION) if halved else condition.within) + LATER
        yield replace(event, value=condition.sides[0], after=after)


def _brief(plan: Plan, target: Target, step: float) -> Iterator[tuple[Event, Event]]:
    """List a slider at half for just the steps that are noticed, late among those that they are counted in.

    From then on all is good again, and a stop must end all the same.
    """
    stretch: StretchName = "out" if plan.out.duration > _EARLY else "main"
    for key, each in target.conditions.items():
        if each.counts:
            lost, among, anew = each.counts
            after = (anew * int(_fast(plan, stretch)[2] / step / anew) + int(_LATE * among)) * step
            event = Event(key, 100.0 * SLOWED, after, stretch)
            yield event, replace(event, value=each.sides[0], after=after + lost / SLOWED * step)


def _outside(plan: Plan, target: Target, moments: int, rng: np.random.Generator) -> Iterator[Event]:
    """List events just outside of the limits; a slider falls to half as well, and a stop at low speed has a floor."""
    watched = {key: each for key, each in target.conditions.items() if each.does}
    stretches = [name for name in Stretches if plan.stretch(name).duration > 0.0]
    t, speeds, fast = _fast(plan, "main")
    out = _fast(plan, "out")[2] if plan.out.duration > 1.0 else None
    if target.stop_braking and not moments:
        slow = float(t[np.abs(speeds - 0.4 * target.stop_s * target.stop_braking / STEEPEST).argmin()])
        yield from (Event(key, each.sides[1], slow) for key, each in [*watched.items()][-1:])
    for key, each in watched.items():
        values = [each.sides[1], 100.0 * SLOWED] if key == "override" and each.within > DETECTION else [each.sides[1]]
        if not moments:
            yield Event(key, values[-1], fast)
        if not moments and out is not None:
            yield Event(key, values[-1], out, "out")
        latest = plan.body.duration - each.within - 1.0
        if not moments and len(values) > 1 and latest > 0.0:
            yield Event(key, values[0], min(fast, latest))
        for k in range(moments):
            stretch = stretches[int(rng.integers(len(stretches)))]
            latest = each.within + 0.4 if values[k % len(values)] == each.sides[1] else 2.0 * DETECTION
            length = plan.stretch(stretch).duration - latest / (0.5 if key == "override" else 1.0)
            if length > 0.0:
                yield Event(key, values[k % len(values)], float(rng.uniform(0.0, length)), stretch)


def _fast(plan: Plan, name: StretchName) -> tuple[FloatArray, FloatArray, float]:
    """Sample the fastest joint's speed early in a stretch: times, speeds, and when it is fastest, s."""
    run = plan.stretch(name)
    t = np.linspace(0.0, min(run.duration, _EARLY), 400)[1:-1]
    speeds = np.abs(run.at(t, 1)).max(axis=1)
    return t, speeds, float(t[speeds.argmax()])


def abort_problems(plan: Plan, target: Target, execution: Execution, event: Event) -> Iterator[str]:
    """Check that a program ends in time on its path, slowing down as stated, and stays at rest for good.

    Each command must be near the planned path, never behind the one before it, at a pace that only falls.
    """
    if not execution.halted:
        yield "the program goes on"
        return
    stretch = next((one for one in execution.stretches if one.name == event.stretch), None)
    if stretch is None or execution.stretches[-1] is not stretch:
        last = execution.stretches[-1].name if execution.stretches else ""
        yield f"the program still moves the robot{' home' * (last == 'back')}" if last else "nothing has moved before"
        return
    condition = target.condition(event.name)
    halved = event.name == "override" and event.value <= 100.0 * SLOWED
    within = (min(condition.within, DETECTION) if halved else condition.within) + LATER
    share = 0.01 * event.value if event.name == "override" and target.timing == "A" and condition.within > 0.1 else 1.0
    if condition.does == "ends":
        since = stretch.axes[max(0, int(np.searchsorted(stretch.t, event.after)) - 2) :]
        stood = not np.ptp(since, axis=0).any()  # before it happened, too: a pose held in motion is no stop
        if stretch.t[-1] > event.after + within + 1e-6 and not stood:
            yield f"commands come for {stretch.t[-1] - event.after:.2f} s more"
        return
    yield from _slowing(plan, target, stretch, event.after, (within, share, event.name == "packets"))


def _slowing(
    plan: Plan, target: Target, stretch: Stretch, after: float, slow: tuple[float, float, bool]
) -> Iterator[str]:
    """Follow the commands along the planned path.

    `slow`: s until the stop must begin, share of the speed until then, and whether commands may be held until then.
    """
    run, (within, share, held) = plan.stretch(stretch.name), slow
    q, gaps = from_axes(plan.robot, target, stretch.axes), np.diff(stretch.t)
    speeds = np.abs(run.at(np.linspace(after, after + within, 50), 1)).max(axis=1)
    stops = [
        STEEPEST * float(x) / target.stop_braking if target.stop_braking else 0.0 for x in np.sort(speeds)[[0, -1]]
    ]
    least, most = (max(target.stop_s, stop) for stop in stops)
    moves = np.flatnonzero(np.abs(np.diff(q, axis=0)).max(axis=1) > 1e-3 * RESTING * gaps)
    late = float(stretch.t[moves[-1] + 1]) - after if moves.size else 0.0
    if late > (within + most) / share:
        yield f"the robot moves on for {late:.2f} s"
    part = slice(max(1, int(np.searchsorted(stretch.t, after))), (int(moves[-1]) if moves.size else 0) + 3)
    u, off, rate = _on_path(run, q[part], stretch.t[part], (after - 0.1, after + within + most + 0.1))
    if u.size and off.max() > NEAR_PATH:
        yield f"it leaves its path by {off.max():.2g} rad or m, {stretch.t[part][off.argmax()]:.3f} s into the run"
        return
    yield from _feed(plan, target, stretch, part)
    pace, fell, began = 1.0, False, np.inf
    for k in np.flatnonzero(np.minimum(rate[1:], rate[:-1]) > MOVING) + 1:
        taken = float(gaps[part][k - 1] if held else gaps.min())  # a slider makes some commands take longer
        new, at = float(u[k] - u[k - 1]) / taken, float(stretch.t[part][k])
        if (not held or at > after + within) and (new > pace + UNEVEN or new < -UNEVEN):
            yield f"it {'speeds up again' if new > 0.0 else 'goes back'}, {at:.3f} s into the run"
            return
        fell = fell or new < share * (1.0 - UNEVEN)
        began = min(began, at) if fell else began
        pace = 1.0 if held and at <= after + within else min(new, 1.0)
    slowed = late + after - began
    if not held and slowed > most / share + 2.0 * float(gaps.max()):
        yield f"it slows down for {slowed:.3f} s, stated is a stop of {most:.3g} s"
    last_speed = float((np.abs(np.diff(q[-3:], axis=0)).max(axis=1) / gaps[-2:]).max())
    if last_speed > max(RESTING, 0.005 * float(speeds.max())):
        yield f"it is at {last_speed:.2g} rad/s or m/s when it gives up"
    passed = float(u[-1]) - after if u.size else 0.0
    low, high = 0.5 * least * (1.0 - STRETCHED) - 2.0 * float(gaps.min()), within + 0.5 * most * (1.0 + STRETCHED)
    if fell and not low <= passed <= high:
        yield f"it passes {passed:.3f} s of its path before it stops, stated is a stop of {most:.3g} s"


def _feed(plan: Plan, target: Target, stretch: Stretch, part: slice) -> Iterator[str]:
    """Check that velocities and accelerations that are fed beside the positions of a stop are theirs."""
    t = stretch.t[part]
    if len(t) < 5:
        return
    values = from_axes(plan.robot, target, stretch.axes[part])
    for word, order, stated in (("velocity", 1, stretch.rates), ("acceleration", 2, stretch.accelerations)):
        values = np.gradient(values, t, axis=0)
        if stated is not None:
            off = np.abs(from_axes(plan.robot, target, stated[part], order) - values)[order:-order]
            differences = np.abs(np.diff(values, 2, axis=0)).max()  # bound the error of central differences
            allowed = _FED * np.abs(values).max() + differences + RESTING
            if off.size and off.max() > allowed:
                yield f"the {word} that it feeds is {off.max():.3g} rad or m from that of its positions"


def _on_path(
    run: Run, q: FloatArray, t: FloatArray, span: tuple[float, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find for each command the time of the path's nearest point, how far it is, and the path's speed there."""
    grid = np.arange(max(0.0, span[0]), min(run.duration, span[1]) + _GRID, _GRID)
    path = run.at(np.minimum(grid, run.duration))

    def nearest(k: IntArray, nearer: float) -> FloatArray:
        rows = zip(q[k], t[k], strict=True)
        u = np.array([grid[(np.abs(path - at).max(axis=1) + nearer * np.abs(grid - now)).argmin()] for at, now in rows])
        for _ in range(2):  # Newton steps
            rate = run.at(u, 1)
            step = ((q[k] - run.at(u)) * rate).sum(axis=1) / np.maximum((rate * rate).sum(axis=1), 1e-9)
            u = np.clip(u + np.clip(step, -_GRID, _GRID), 0.0, run.duration)
        return u

    u = nearest(np.arange(len(q)), _NEARER)
    far = np.flatnonzero(np.abs(run.at(u) - q).max(axis=1) > 0.5 * NEAR_PATH)
    if far.size:  # where the path is slow, its nearest point is farther off in time
        u[far] = nearest(far, 0.0)
    return u, np.abs(run.at(u) - q).max(axis=1), np.abs(run.at(u, 1)).max(axis=1)


def _situations(plan: Plan, target: Target) -> Iterator[tuple[Refusal, Machine, str]]:
    """List controllers just outside of each threshold, in which nothing may move; each axis alone is away from home."""
    good = _machine(plan, target, fitting_steps(plan, target)[0])
    bad = {name: target.condition(name).sides[1] for name in target.refuses}
    for name in target.refuses:
        if name == "override":
            yield name, replace(good, override=0.01 * bad[name]), f"the speed slider at {bad[name]:g} %"
        elif name == "mode":
            yield name, replace(good, automatic=False), "the wrong mode"
        elif name == "payload":
            for side in (1.0, -1.0) if good.payload > bad[name] else (1.0,):
                yield name, replace(good, payload=good.payload + side * bad[name]), "another payload"
        elif name == "cycle":
            yield name, replace(good, step=1.37 * good.step), "another control step"
        elif name != "home":
            event = Event(name, bad[name], stretch="start")
            yield name, replace(good, events=(event,)), f"{name} of {bad[name]:g} {target.condition(name).unit}"
    for j, axis in enumerate(axes_of(plan.robot, target).names if "home" in bad else ()):
        for side in (1.0, -1.0):
            axes = good.axes.copy()
            axes[j] += side * _off_home(plan, target, bad["home"])[j]
            words = f"axis {axis} {side * bad['home']:+g} degrees ({2.0 * side * bad['home']:+g} mm) from home"
            yield "home", replace(good, axes=axes), words
