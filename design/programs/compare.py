"""What a program did, held against what was planned: each difference is a sentence."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from excitor.design.programs.execution import Execution, Stretch
from excitor.design.programs.plan import Plan, Stretches, StretchName, duration, marks, planned
from excitor.design.programs.tables import part_edges
from excitor.design.programs.target import Target, from_axes, to_axes
from excitor.robots.arrays import FloatArray

_SINGLE = 2.0**-23  # relative spacing of numbers with 24 bits
_STOOD = 1e-3  # of the controller's units: rounding of where a robot stands
_CLOCK = 1e-6  # s: rounding of times
_RATES = 1e-6  # of the peak: how well stated velocities and accelerations agree


def position_tolerance(plan: Plan, target: Target) -> FloatArray:
    """Say how far a joint may be from where it was planned, (n_joints,): rounding, and nothing else.

    Evaluated in the program: 1e-8 rad in double precision, 1e-5 rad in single; in a table half of the last decimal.
    """
    n = plan.robot.n_joints
    if target.timing == "A":
        return np.full(n, 1e-8 if target.float_bits == 64 else 1e-5)
    last = np.full(n, 0.5 * 10.0**-target.decimals)
    if target.float_bits == 32:
        reach = np.abs(to_axes(plan.robot, target, np.array([plan.home, *_extremes(plan)]))).max(axis=0)
        last += _SINGLE * reach
    span = from_axes(plan.robot, target, np.diag(1.001 * last), order=1)
    return np.asarray(np.abs(span).sum(axis=0)) + 1e-12


def differences(
    plan: Plan, target: Target, execution: Execution, step: float, stood: FloatArray | None = None
) -> list[str]:
    """List everything that was not as planned, where the robot `stood` near home (axes); none if all is right."""
    wanted = [name for name in Stretches if duration(plan, name) > 0.0]
    made = list(execution.stretches)
    if stood is not None:
        made = [_from_home(plan, target, stretch, stood) for stretch in made]
    made = [stretch for stretch in made if len(stretch.t) > 1 or stretch.name in wanted]
    found = [stretch.name for stretch in made]
    if execution.halted:
        return [f"halts although nothing is wrong: {execution.halted}"]
    if found != wanted:
        return [f"makes {_listed(found)}, planned are {_listed(wanted)}"]
    told = [sentence for stretch in made for sentence in _stretch(plan, target, stretch, step)]
    return [*told, *_marks(plan, target, execution, step), *_events(execution)]


def _from_home(plan: Plan, target: Target, stretch: Stretch, stood: FloatArray) -> Stretch:
    """Leave out that way-points begin where the robot stood, a little off home, and lead there first."""
    if stretch.name != "out" or stretch.kind != "way-points" or len(stretch.t) < 2:
        return stretch
    home = to_axes(plan.robot, target, plan.home)
    off = np.abs(stretch.axes[0] - stood).max() < _STOOD < np.abs(stood - home).max()
    if not (off and np.abs(stretch.axes[1] - home).max() < _STOOD):
        return stretch
    return replace(stretch, t=stretch.t[1:] - stretch.t[1], axes=stretch.axes[1:])


def worst_position(plan: Plan, target: Target, execution: Execution) -> float:
    """Find the largest difference of positions at what the program commands or lists, rad or m."""
    errors = [
        np.abs(from_axes(plan.robot, target, stretch.axes) - planned(plan, stretch.name, stretch.t)).max(initial=0.0)
        for stretch in execution.stretches
        if stretch.kind != "way-points" or stretch.name == "main"
    ]
    return float(max(errors, default=0.0))


def _stretch(plan: Plan, target: Target, stretch: Stretch, step: float) -> Iterator[str]:
    if stretch.axes.shape[1] != plan.robot.n_joints:
        yield f"{stretch.name}: moves {stretch.axes.shape[1]} axes, the robot has {plan.robot.n_joints}"
    elif not len(stretch.t):
        yield f"{stretch.name}: nothing moves"
    elif stretch.kind == "way-points" and stretch.name != "main":
        yield from _corners(plan, target, stretch)
    else:
        yield from _times(plan, stretch, step)
        yield from _positions(plan, target, stretch)
        yield from _derivatives(plan, target, stretch)


def _times(plan: Plan, stretch: Stretch, step: float) -> Iterator[str]:
    t, T = stretch.t, duration(plan, stretch.name)
    slack = step + _CLOCK if stretch.kind == "commands" else _CLOCK + 1e-3 * (stretch.kind == "way-points")
    if not (-_CLOCK <= t[0] <= slack and abs(t[-1] - T) <= slack):
        yield f"{stretch.name}: runs from {t[0]:.6g} s to {t[-1]:.6g} s, planned is 0 to {T:.6g} s"
        return
    gaps = np.diff(t)
    if stretch.kind == "commands":
        if len(gaps) and np.abs(gaps - step).max() > _CLOCK:
            k = int(np.argmax(np.abs(gaps - step)))
            yield f"{stretch.name}: commands at {t[k]:.6g} s and {t[k + 1]:.6g} s are not {step:g} s apart"
        return
    if len(gaps) and gaps.min() <= 0.0:
        yield f"{stretch.name}: times do not rise after {t[int(np.argmin(gaps))]:.6g} s"
        return
    yield from _even(plan, stretch, 10.0 * _CLOCK + 2e-7 * T)


def _even(plan: Plan, stretch: Stretch, slack: float) -> Iterator[str]:
    """Points divide each part of the run evenly: one that is lost leaves a gap."""
    edges = part_edges(plan, stretch.name)
    for start, end in pairwise(edges):
        inside = stretch.t[(stretch.t >= start - slack) & (stretch.t <= end + slack)]
        gaps = np.diff(inside)
        if len(inside) < 2 or abs(inside[0] - start) > slack or abs(inside[-1] - end) > slack:
            yield f"{stretch.name}: the part from {start:.6g} s to {end:.6g} s does not begin and end with a point"
            return
        if gaps.max() - gaps.min() > 2.0 * slack:
            yield f"{stretch.name}: points are missing after {inside[int(np.argmax(gaps))]:.6g} s"
            return


def _positions(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    wanted = planned(plan, stretch.name, stretch.t)
    off = np.abs(from_axes(plan.robot, target, stretch.axes) - wanted)
    allowed = position_tolerance(plan, target)
    if stretch.kind == "way-points":  # of which only the order counts: their times are the program's own estimate
        allowed = allowed + 1e-3 * np.abs(planned(plan, stretch.name, stretch.t, 1)).max(axis=0)
    over = off / allowed
    if not np.isfinite(over).all() or over.max() > 1.0:
        k, j = np.unravel_index(int(np.argmax(np.nan_to_num(over, nan=np.inf))), over.shape)
        unit = "m" if plan.robot.mechanism.prismatic[j] else "rad"
        yield (
            f"{stretch.name}: {plan.robot.joint_names[j]} is {off[k, j]:.3g} {unit} from its plan at "
            f"{stretch.t[k]:.6g} s, allowed is {float(np.broadcast_to(allowed, off.shape)[k, j]):.2g} {unit}"
        )


def _derivatives(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    stated = (("velocity", 1, stretch.rates), ("acceleration", 2, stretch.accelerations))
    for word, order, values in stated:
        if values is None:
            continue
        wanted = planned(plan, stretch.name, stretch.t, order)
        off = np.abs(from_axes(plan.robot, target, values, order) - wanted)
        peak = np.abs(wanted).max(axis=0)
        j = int(np.argmax((off / (_RATES * peak + 1e-9)).max(axis=0)))
        if not off[:, j].max() <= _RATES * peak[j] + 1e-9:
            k = int(np.argmax(off[:, j]))
            yield (
                f"{stretch.name}: the {word} stated for {plan.robot.joint_names[j]} at {stretch.t[k]:.6g} s is "
                f"{off[k, j]:.3g} from its plan"
            )


def _corners(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    """Way-points out and back are the ends of the certified lines, one after the other."""
    moves = plan.moves(stretch.name)
    begin = plan.home if stretch.name == "out" else plan.start
    wanted = _without_repeats(np.array([begin, *(move.to for move in moves)]))
    found = _without_repeats(from_axes(plan.robot, target, stretch.axes), 2e-6)
    if len(found) != len(wanted):
        yield f"{stretch.name}: passes {len(found)} poses, planned are {len(wanted)}"
        return
    off = np.abs(found - wanted)
    if not (off <= position_tolerance(plan, target)).all():
        k, j = np.unravel_index(int(np.argmax(off)), off.shape)
        yield f"{stretch.name}: {plan.robot.joint_names[j]} is {off[k, j]:.3g} from its plan at pose {k + 1}"


def _marks(plan: Plan, target: Target, execution: Execution, step: float) -> Iterator[str]:
    if not target.marks:
        return
    wanted, found = _changes(marks(plan)), _changes(execution.marks)
    slack = 2.0 * step + 1e-3
    if [mark for _, mark in found] != [mark for _, mark in wanted]:
        yield f"marks are {_listed([m for _, m in found])}, planned are {_listed([m for _, m in wanted])}"
    else:
        for (t, mark), (due, _) in zip(found, wanted, strict=True):
            if abs(t - due) > slack:
                yield f"mark {mark} is set at {t:.6g} s, planned is {due:.6g} s"
                return


def _events(execution: Execution) -> Iterator[str]:
    """Demand that the logger runs from before the run to after it, where the program says when."""
    events = list(execution.events)
    if "log on" not in events and "log off" not in events:
        return
    order = [event for event in events if event in ("log on", "main", "log off")]
    if order != ["log on", "main", "log off"]:
        yield f"the logger and the run come as {_listed(order)}, expected log on, main, log off"


def _changes(given: tuple[tuple[float, int], ...]) -> list[tuple[float, int]]:
    """Leave out marks that say the same as the one before."""
    return [pair for k, pair in enumerate(given) if k == 0 or pair[1] != given[k - 1][1]]


def _without_repeats(poses: FloatArray, apart: float = 1e-12) -> FloatArray:
    keep = np.concatenate([[True], np.abs(np.diff(poses, axis=0)).max(axis=1) > apart])
    return np.asarray(poses[keep])


def _extremes(plan: Plan) -> list[FloatArray]:
    names: tuple[StretchName, ...] = Stretches
    samples = [planned(plan, name, np.linspace(0.0, duration(plan, name), 400)) for name in names]
    return [x for q in samples for x in (q.min(axis=0), q.max(axis=0))]


def _listed(items: list[object] | list[str] | list[int] | list[StretchName]) -> str:
    text = [str(item) for item in items]
    return ", ".join(text[:12]) + (f" … ({len(text)} in all)" if len(text) > 12 else "") if text else "nothing"
