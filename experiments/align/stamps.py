"""Is a log complete? Gaps in its stamps, the speed slider, marks, and the periods that it holds."""

from dataclasses import dataclass, replace

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Check, Expected, MeasuredRun
from excitor.experiments.align.timing import Timing
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError

MISSING = 0.005  # share of all samples that may be missing; splines bridge them
LONGEST_GAP = 6.5  # intervals
SPEED = 0.005  # by which the speed scaling may differ from 1
LATE_MARK = 0.1  # s, between marks and motion: a logger's delay and a controller's lag


@dataclass(frozen=True, slots=True)
class Clock:
    """The stamps of a log, put in order."""

    interval: float
    missing: int
    longest: float  # s, the longest step


def in_order(run: MeasuredRun) -> MeasuredRun:
    """Leave out rows that repeat a stamp; refuse time that runs backward."""
    step = np.diff(run.t)
    if (step < 0.0).any():
        k = int(np.argmax(step < 0.0))
        raise ExcitorError(f"{run.name}: time runs backward, from {run.t[k]:g} to {run.t[k + 1]:g} s")
    kept = np.concatenate([[True], step > 0.0]) if len(run.t) else np.zeros(0, dtype=bool)
    if np.count_nonzero(kept) < 100:
        raise ExcitorError(f"{run.name}: has {np.count_nonzero(kept)} samples, expected at least 100; record longer")
    names = ("t", "q", "tau", "mark", "speed_scaling", "q_reference")
    return replace(run, **{name: x[kept] for name in names if (x := getattr(run, name)) is not None})


def clock_of(t: FloatArray) -> Clock:
    """Find the typical interval, and how many samples are missing."""
    step = np.diff(t)
    usual = float(np.median(step))
    interval = float(np.mean(step[step <= 1.5 * usual]))
    return Clock(interval, int(np.sum(np.round(step / interval) - 1.0).clip(0)), float(step.max()))


def check_stamps(run: MeasuredRun, clock: Clock) -> list[Check]:
    """Compare gaps with what can be bridged."""
    total = len(run.t) + clock.missing
    share, gap = clock.missing / total, clock.longest / clock.interval
    holds = share <= MISSING and gap <= LONGEST_GAP
    sentence = (
        f"{clock.missing} of {total} samples are missing, the longest step is {1e3 * clock.longest:.3g} ms at an "
        f"interval of {1e3 * clock.interval:.3g} ms"
    )
    return [
        Check(
            "samples",
            share,
            "1",
            MISSING,
            holds,
            sentence,
            level="unusable",
            cause="" if holds else "dropped samples",
            remedy="" if holds else "the logger lost samples: log less, or on a faster machine, and repeat the run",
        )
    ]


def check_speed(run: MeasuredRun, timing: Timing, expected: Expected) -> list[Check]:
    """Look at the controller's own word for its speed while the program ran."""
    if run.speed_scaling is None:
        return []
    u = (run.t - timing.start) / timing.stretch
    begin, end = expected.moving_span
    inside = (u >= begin) & (u <= end)
    if not inside.any():
        return []
    off = float(np.abs(run.speed_scaling[inside] - 1.0).max())
    lowest = float(run.speed_scaling[inside].min())
    holds = off <= SPEED
    return [
        Check(
            "speed scaling",
            lowest,
            "1",
            SPEED,
            holds,
            f"the controller's speed scaling was {100 * lowest:.4g} % at its lowest while the program ran",
            level="unusable",
            cause="" if holds else "speed slider",
            remedy="" if holds else "set the speed slider to 100 % and repeat the run",
        )
    ]


def check_stretch(expected: Expected, stretch: float, tolerance: float) -> list[Check]:
    """Compare the duration with the planned one: a slider slows motion down, lost rows make it look faster."""
    holds = abs(stretch - 1.0) <= tolerance
    what = "period" if isinstance(expected.body, Trajectory) else "motion"
    sentence = f"the {what} took {stretch:.6g} times as long as planned"
    cause = remedy = ""
    if not holds and stretch > 1.0:
        cause, remedy = "speed slider", "set the speed slider (override) to 100 % and repeat the run"
        sentence += f": a speed slider at {100 / stretch:.3g} %, most likely"
    elif not holds:
        cause = "sample rate"
        remedy = "check the log's sample rate, and whether it lost rows that its stamps don't show"
        sentence += ": the log's clock is wrong, or rows are missing that its stamps don't show"
    return [Check("stretch", stretch, "1", tolerance, holds, sentence, level="unusable", cause=cause, remedy=remedy)]


def check_marks(expected: Expected, run: MeasuredRun, timing: Timing) -> list[Check]:
    """Compare marks with those of the program: none missing, none twice, and at the time that the motion says."""
    if run.mark is None or not expected.marks:
        return []
    begun = _beginnings(run)
    marks = [mark for _, mark in expected.marks]
    wanted = [mark for k, mark in enumerate(marks) if k == 0 or marks[k - 1] != mark]  # one after its like is not seen
    numbers = sorted(set(wanted))
    missing = [m for m in numbers if len(begun.get(m, [])) < wanted.count(m)]
    twice = [m for m in numbers if len(begun.get(m, [])) > wanted.count(m)]
    wrong = len(missing) + len(twice)
    told = "all marks are there"
    if wrong:
        parts = [f"{name} {_listed(marks)}" for name, marks in (("missing", missing), ("too often", twice)) if marks]
        told = f"{wrong} of {len(numbers)} marks are not as the program sets them: {'; '.join(parts)}"
    checks = [
        Check(
            "marks",
            float(wrong),
            "1",
            0.0,
            not wrong,
            told,
            level="doubtful",
            cause="marks" if wrong else "",
            remedy="check that the whole run was logged, once, with the marker channel" if wrong else "",
        )
    ]
    ahead = [
        begun[mark][0] - (timing.start + timing.stretch * t)
        for t, mark in expected.marks
        if wanted.count(mark) == 1 and len(begun.get(mark, [])) == 1
    ]
    return checks + (_mark_times(np.array(ahead)) if ahead else [])


def check_periods(expected: Expected, run: MeasuredRun, timing: Timing) -> tuple[list[Check], int, int]:
    """Count measured periods that the log holds whole; also the first of them, and how many there are."""
    if not isinstance(expected.body, Trajectory):
        begin, end = timing.start, timing.start + timing.stretch * expected.duration
        slack = 2e-2 * (end - begin)
        whole = run.t[0] <= begin + slack and run.t[-1] >= end - slack
        return [_complete("program", float(whole), 1.0, whole)], 0, 0
    excitation = expected.body.excitation
    first = expected.steady_span[0] + excitation.warm_up * excitation.period
    starts = timing.start + timing.stretch * (first + np.arange(excitation.measured + 1) * excitation.period)
    slack = 2.0 * float(np.median(np.diff(run.t)))
    inside = (starts[:-1] >= run.t[0] - slack) & (starts[1:] <= run.t[-1] + slack)
    count = int(np.count_nonzero(inside))
    check = _complete("measured periods", float(count), float(excitation.measured), count == excitation.measured)
    return [check], int(np.argmax(inside)) if count else 0, count


def _complete(what: str, found: float, planned: float, holds: bool) -> Check:
    return Check(
        what,
        found,
        "1",
        0.0,
        holds,
        f"the log holds {found:g} of {planned:g} planned {what}",
        level="unusable" if found < 2.0 or planned == 1.0 else "doubtful",
        cause="" if holds else "log cut short",
        remedy="" if holds else "log from before the program starts until after it ends",
    )


def _beginnings(run: MeasuredRun) -> dict[int, list[float]]:
    assert run.mark is not None
    value = np.round(run.mark).astype(np.int64)
    rises = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
    begun: dict[int, list[float]] = {}
    for k in rises:
        begun.setdefault(int(value[k]), []).append(float(run.t[k]))
    return begun


def _mark_times(ahead: FloatArray) -> list[Check]:
    typical = float(np.median(ahead))
    holds = abs(typical) <= LATE_MARK
    when = "after" if typical > 0.0 else "before"
    return [
        Check(
            "mark times",
            typical,
            "s",
            LATE_MARK,
            holds,
            f"marks come {1e3 * abs(typical):.3g} ms {when} the motion that they announce",
            level="doubtful",
            cause="" if holds else "marker delay",
            remedy="" if holds else "marks and positions are not on one clock: log both by the same logger",
        )
    ]


def _listed(marks: list[int]) -> str:
    shown = ", ".join(str(mark) for mark in marks[:6])
    return shown + (f" and {len(marks) - 6} more" if len(marks) > 6 else "")
