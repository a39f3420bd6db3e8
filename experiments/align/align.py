"""Alignment of a log with its program: start time, time scale, fit quality, and faults."""

from dataclasses import replace

import numpy as np

from excitor.experiments.align import channels as signals
from excitor.experiments.align import clock as times
from excitor.experiments.align.nouns import Alignment, Check, ExpectedMotion, MeasuredRun
from excitor.experiments.align.windows import ObservedLog, check_friction_drift, raw_samples, repeating, seen
from excitor.identify.currents import one_current
from excitor.identify.diagnose import LEAST_GAIN, delay
from excitor.identify.regression import dynamic_regression, subset
from excitor.robots.arrays import BoolArray, one_blas_thread
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

STRETCH = 1e-3  # by which a period may be longer or shorter than planned
DRIFT = 1e-4  # by which the period of the second half may differ from that of the first
LIKE = 0.4  # mean squared correlation from which a log shows its program at all
LATE = 0.05  # s: torques that come later than that are of another clock
JUMP = 1.5  # intervals by which the motion may jump on the log's clock
OVERWHELMING = 100.0  # evidence of a load, from which it may explain what looks like wrong channels
STRAYING = ("unlike the plan", "scale", "stuck joint", "torque delay", "log cut short")  # symptoms of deviating joints
UNSETTLED = ("torque delay", "clock jumps", "usable periods")  # secondary symptoms of a deviating joint
FEW = 2  # periods of a half, below which drift is not checked


@one_blas_thread()
def align(expected: ExpectedMotion, measured: MeasuredRun, robot: Robot) -> Alignment:
    """Align a log with its plan and the robot's prior model; faults are in the result, not raised."""
    _check_fits(expected, measured, robot)
    run = times.in_order(measured)
    clock = times.clock_of(run.t)
    timing = times.locate(expected, run.t, run.q)
    found = Alignment(expected, tuple(times.check_stamps(run, clock)), interval=clock.interval)
    if timing.likeness < LIKE:
        return replace(found, checks=(*found.checks, _unlike(expected, timing)))
    timing, checks = _timed(expected, run, timing)
    channels = signals.check_positions(expected, run, timing, robot)
    checks += channels.checks
    tracking = signals.check_tracking(expected, channels, run, timing)
    slow = {check.joint for check in tracking if not check.holds}
    channels = replace(channels, strays=channels.strays | np.isin(expected.run.joints, list(slow)))
    checks += tracking
    checks += signals.check_lag(expected, run, timing, clock.interval)
    checks += _jumps(expected, run, timing, channels, clock.interval)
    checks += times.check_marks(expected, run, timing)
    whole, first, count = times.check_periods(expected, run, timing)
    found = replace(
        found,
        checks=(*found.checks, *checks, *whole),
        start=timing.start,
        stretch=timing.stretch,
        first_period=first,
        periods=count,
    )
    return _with_torques(found, run, robot, channels)


def _timed(expected: ExpectedMotion, run: MeasuredRun, timing: times.Timing) -> tuple[times.Timing, list[Check]]:
    """Refine the period of a series by its harmonics, and compare its halves."""
    checks: list[Check] = []
    if expected.run.series is not None:
        begin, end = expected.steady_span
        u = (run.t - timing.start) / timing.stretch
        steady = (u >= begin) & (u <= end)
        period = expected.run.periodic.period
        if np.ptp(u[steady]) > 1.2 * period if steady.any() else False:
            stretch = times.period_stretch(expected, run.t[steady], run.q[steady], timing.stretch)
            middle = float(np.median(u[steady]))
            timing = replace(timing, start=timing.start + (timing.stretch - stretch) * middle, stretch=stretch)
            checks += _drift(expected, run, timing, steady)
    return timing, [
        Check(
            "start",
            timing.start,
            "s",
            np.inf,
            True,
            f"the program's main part starts at {timing.start:.6g} s of the log",
        ),
        *times.check_stretch(expected, timing.stretch, STRETCH),
        *times.check_speed(run, timing, expected),
        *checks,
    ]


def _drift(expected: ExpectedMotion, run: MeasuredRun, timing: times.Timing, steady: BoolArray) -> list[Check]:
    """Compare the period of the second half with that of the first."""
    t, q, period = run.t[steady], run.q[steady], expected.run.periodic.period
    middle = 0.5 * (t[0] + t[-1])
    if middle - t[0] < FEW * period * timing.stretch:
        return []
    halves = [times.period_stretch(expected, t[part], q[part], timing.stretch) for part in (t < middle, t >= middle)]
    drift = halves[1] / halves[0] - 1.0
    sentence = f"the period of the second half is {1.0 + drift:.7g} times that of the first"
    remedy = "log with the controller's own clock"
    return [
        Check("clock drift", drift, "1", DRIFT, abs(drift) <= DRIFT, sentence, "", "doubtful", "clock drift", remedy)
    ]


def _jumps(
    expected: ExpectedMotion, run: MeasuredRun, timing: times.Timing, channels: signals.Channels, interval: float
) -> list[Check]:
    """Detect jumps of the motion on the log's clock, as where rows are lost and stamps don't show it."""
    begin, end = expected.moving_span
    span = 0.5 * expected.run.periodic.period if expected.run.series is not None else 0.05 * (end - begin)
    edges = np.linspace(begin, end, max(3, round((end - begin) / span) + 1))
    usable = channels.q if channels.sound.all() else np.where(channels.sound, channels.q, 0.0)
    plan = expected.run.at((run.t - timing.start) / timing.stretch)
    late = times.shifts(expected, timing, run.t, np.where(channels.sound, usable, plan), edges)[1:-1]
    late = late[np.isfinite(late)]
    if len(late) < 4:
        return []
    jump = float(np.abs(late - np.median(late)).max())
    limit = max(JUMP * interval, 0.005)
    sentence = f"parts of the motion are up to {1e3 * jump:.3g} ms apart from where the log's clock puts them"
    remedy = "check whether the log lost rows that its stamps don't show, or the clock drifts"
    return [Check("clock jumps", jump, "s", limit, jump <= limit, sentence, "", "doubtful", "lost rows", remedy)]


def _with_torques(found: Alignment, run: MeasuredRun, robot: Robot, channels: signals.Channels) -> Alignment:
    """Add the torque checks: order, sign and scale first, as the others depend on them."""
    series = found.expected.run.series is not None
    if series and found.periods >= 3:
        found = _repeating(found, run, channels)
    view = seen(found, run, channels.q) if found.periods or not series else None
    right = view is not None and bool(channels.sound.all())
    if view is not None:
        robot, sensed = signals.felt(found.expected, run, robot, view.samples, channels.sound)
        torques = _weighed(found.expected, run, robot, view, channels)
        found = replace(found, checks=(*found.checks, *sensed, *torques))
        right = right and all(check.holds for check in torques)
    if series and view is not None and right:
        late, checks = _delay(robot, run, view)
        found = replace(found, delay=late, checks=(*found.checks, *checks))
        view = seen(found, run, channels.q) if late else view
        assert view.periods is not None
        found = replace(found, checks=(*found.checks, *check_friction_drift(found.expected, view.periods)))
    # A wrong clock or channel is nothing that saturated drives explain.
    may_end = all(check.holds or check.level != "unusable" or check.cause in STRAYING for check in found.checks)
    ends = signals.check_saturation(found, run, robot, channels) if may_end else []
    ended = {check.joint for check in ends if not check.holds}
    if ended:
        samples = raw_samples(found, run, channels.q) if view is None or channels.strays.any() else view.samples
        heavier = [one for one in signals.check_payload(run, robot, samples)[1] if one.holds or one.figure > 0.0]
        return replace(found, checks=(*heavier, *ends, *_explained(found, ended)))
    found = replace(found, checks=(*found.checks, *ends))
    if view is None or not right:
        return found
    load, weighed = signals.check_payload(run, robot, view.samples)
    return replace(found, checks=(*found.checks, *weighed), load=load)


def _explained(found: Alignment, ended: set[str]) -> list[Check]:
    """Downgrade faults that saturated drives cause: tracking errors of their joints, delayed torques."""
    return [
        replace(check, level="doubtful")
        if not check.holds and ((check.joint in ended and check.what != "motion") or check.what in UNSETTLED)
        else check
        for check in found.checks
    ]


def _repeating(found: Alignment, run: MeasuredRun, channels: signals.Channels) -> Alignment:
    """Keep the periods that repeat; missing samples are the stated reason for the others."""
    periods = seen(found, run, channels.q).periods
    assert periods is not None
    kept, repeats = repeating(periods, found.periods)
    complete = all(check.holds for check in found.checks if check.what == "samples")
    checks = (*found.checks, *(repeats if complete else []))
    return replace(found, first_period=found.first_period + kept.first, periods=kept.count, checks=checks)


def _weighed(
    expected: ExpectedMotion, run: MeasuredRun, robot: Robot, view: ObservedLog, channels: signals.Channels
) -> list[Check]:
    """Check torques; where a load at the flange explains all their faults, report the load."""
    checks = signals.check_torques(expected, run, robot, view.samples, channels.sound)
    if all(check.holds for check in checks) or not channels.sound.all() or not signals.can_weigh(run, robot):
        return checks
    load = signals.flange_load(robot, run, view.samples)
    if load.evidence < OVERWHELMING or not (load.sure(robot) and load.possible(robot)):
        return checks
    better = signals.check_torques(expected, run, signals.loaded(robot, load), view.samples, channels.sound)
    return better if all(check.holds for check in better) else checks


def _delay(robot: Robot, run: MeasuredRun, view: ObservedLog) -> tuple[float, list[Check]]:
    """Estimate the delay of torques after the motion; one that is not significant is not compensated.

    Currents without a law are brought to one drive's before: no model fits them as they are, and its best shift is any.
    """
    samples = view.samples
    if run.effort == "current":
        robot, gains, _ = one_current(robot, dynamic_regression(robot, [samples]))
        samples = replace(samples, tau=samples.tau * gains)
    found = delay(robot, [samples], subset(robot, [samples]))
    if found is None:
        return 0.0, []
    chance = abs(found.late) > LATE and found.cost < LEAST_GAIN * found.left  # what the model lacks moves the best too
    late = found.late if found.sharp and not chance else 0.0
    holds, remedy = abs(late) <= LATE, "log torques and positions on one clock"
    when = "before" if late < 0.0 else "after"
    sentence = f"torques come {1e3 * abs(late):.3g} ms {when} the motion that they belong to"
    return late, [Check("torque delay", late, "s", LATE, holds, sentence, "", "unusable", "torque delay", remedy)]


def _unlike(expected: ExpectedMotion, timing: times.Timing) -> Check:
    sentence = (
        f"no part of the log looks like program {expected.program!r}: mean squared correlation {timing.likeness:.2f}"
    )
    remedy = "check that this log is of this program, and that positions were logged"
    return Check("likeness", timing.likeness, "1", LIKE, False, sentence, "", "unusable", "another program", remedy)


def _check_fits(expected: ExpectedMotion, run: MeasuredRun, robot: Robot) -> None:
    if robot.joint_names != expected.run.joints:
        raise ExcitorError(
            f"program {expected.program!r} is of joints {', '.join(expected.run.joints)}, and {robot.name} has "
            f"{', '.join(robot.joint_names)}; give the robot that the program was made for"
        )
    for name, values in (("positions", run.q), ("torques", run.tau)):
        if values.shape[1] != robot.n_joints:
            raise ExcitorError(
                f"{run.name}: has {name} of {values.shape[1]} joints, expected the {robot.n_joints} of {robot.name}"
            )
