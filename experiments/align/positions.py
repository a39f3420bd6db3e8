"""Does every position channel show its joint? Order, sign, unit, gear, zero, and that it moves and follows.

Channels are looked at on the side of the gears where they were recorded: there one fault is in one channel.
"""

from dataclasses import dataclass

import numpy as np

from excitor.experiments.align.nouns import Check, Expected, MeasuredRun
from excitor.experiments.align.timing import Timing, best_order, likeness, shifts
from excitor.identify.diagnose import STILL, several
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.robot import Robot

SCALE = 0.05  # by which a channel's scale may differ from 1: a controller's tracking error is within
ZERO = 0.02  # rad or m that a channel may be off
ALIKE = 0.9  # squared correlation from which a channel shows a planned motion
MOVES = 0.01  # of the planned motion, that a joint with a closed brake does not make
STUCK = 0.2  # of the planned motion: a joint that moves less is stuck
TRACKING = 0.1  # rms tracking error over the rms of the planned motion
FOLLOWS = 5e-3  # rad or m, of tracking error that is never remarked
_NEAR = 0.04  # of a factor that names a unit
_PIECES = 8  # of the run, in which a joint that stops is looked for
_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False, slots=True)
class Channels:
    """Position channels as they were checked, and positions as they should have been logged."""

    checks: tuple[Check, ...]
    q: FloatArray  # (n, n_joints): faults undone where that is possible, so that what follows tells of others
    sound: BoolArray  # (n_joints,): joints whose positions show the planned motion, however it was written
    strays: BoolArray  # (n_joints,): joints that move, but not as planned


@dataclass(frozen=True, eq=False, slots=True)
class _Fit:
    """One channel by a planned motion, x = offset + factor * plan, and what that motion is called."""

    kind: str  # "joint", "motor" or "axis"
    factor: float
    offset: float
    alike: float  # squared correlation
    zero: float = 0.0  # mean of channel less mean of plan


def check_positions(expected: Expected, run: MeasuredRun, timing: Timing, robot: Robot) -> Channels:
    """Hold every channel against the plan."""
    u = (run.t - timing.start) / timing.stretch
    begin, end = expected.moving_span
    inside = (u >= begin) & (u <= end)
    side = robot.drive.motor_from_joint if run.position_side == "motor" else np.eye(robot.n_joints)
    plan, x = expected.planned(u[inside]), run.q @ side.T
    moving = (np.ptp(plan @ side.T, axis=0) > STILL) & (np.ptp(plan, axis=0) > STILL)
    rows = _candidates(expected, robot, side)
    fits = _fits(plan, x[inside], rows)
    order = _order(fits, moving)
    checks = _order_checks(expected, order)
    sound, strays = ~moving, np.zeros(robot.n_joints, dtype=bool)
    fixed = x.copy()
    for j in range(robot.n_joints):
        i = int(order[j])
        if not moving[j]:
            checks += _still(expected, j, x[inside, i])
            continue
        fit = fits[i][j]
        stuck = _stuck(expected, j, plan @ side[j], x[inside, i], fit)
        if stuck.holds and fit.alike < ALIKE and np.count_nonzero(side[j]) > 1:  # its motor turns with other joints
            stuck = _stuck(expected, j, plan[:, j], run.q[inside, j], fit)
        checks.append(stuck)
        if not stuck.holds:
            strays[j] = not _stays(plan @ side[j], x[inside, i])
            continue
        told = _channel_checks(expected, robot, run, j, fit)
        checks += told
        sound[j] = fit.alike > ALIKE
        strays[j] = not sound[j]
        own = fit.kind == "joint"
        away = told[0].cause not in ("", "scale", "unlike the plan")
        if own:
            fixed[:, j] = (x[:, i] - fit.offset * away) / (fit.factor if away else 1.0)
        else:
            fixed[:, j] = expected.planned(np.clip(u, 0.0, expected.duration)) @ side[j]
    q = np.linalg.solve(side, fixed.T).T
    return Channels(tuple(checks), q, sound, strays)


def check_tracking(expected: Expected, channels: Channels, run: MeasuredRun, timing: Timing) -> list[Check]:
    """Tell how far each joint was from the plan, in time with it: its share of the motion, rms."""
    u = (run.t - timing.start) / timing.stretch
    begin, end = expected.moving_span
    inside = (u >= begin) & (u <= end)
    plan = expected.planned(u[inside])
    checks = []
    for j in np.flatnonzero(expected.moving() & channels.sound):
        e = channels.q[inside, j] - plan[:, j]
        error, size = float(np.sqrt(np.mean(e**2))), float(plan[:, j].std())
        unit = "m" if expected.prismatic[j] else "rad"
        tolerance = max(TRACKING * size, FOLLOWS)
        holds = error <= tolerance
        checks.append(
            Check(
                "tracking error",
                error,
                unit,
                tolerance,
                holds,
                f"joint {expected.joints[j]} is {error:.3g} {unit} from the plan (rms), {100 * error / size:.3g} % of "
                "its motion",
                expected.joints[j],
                "doubtful",
                "" if holds else "poor tracking",
                "" if holds else "the controller did not follow: lower speeds, or tell it the payload",
            )
        )
    return checks


def check_lag(expected: Expected, run: MeasuredRun, timing: Timing, interval: float) -> list[Check]:
    """Tell how late joints follow the commanded positions, where a log has both; it explains what tracking costs."""
    if run.q_reference is None:
        return []
    begin, end = expected.moving_span
    u = (run.t - timing.start) / timing.stretch
    inside = (u >= begin) & (u <= end)
    moving = np.flatnonzero(expected.moving())
    error = run.q_reference[inside][:, moving] - expected.planned(u[inside])[:, moving]
    if (error.std(axis=0) > TRACKING * expected.planned(u[inside])[:, moving].std(axis=0) + FOLLOWS).any():
        told = "commanded positions are not the plan's: the fault lies before the robot, or in the conversion of both"
        return [Check("command", float(np.abs(error).max()), "", TRACKING, True, told)]
    lag = -float(shifts(expected, timing, run.t, run.q_reference, np.array([begin, end]))[0])
    told = f"joints follow the commanded positions {1e3 * lag:.3g} ms later, {lag / interval:.2g} samples"
    return [Check("lag", lag, "s", np.inf, True, told)]


def _candidates(expected: Expected, robot: Robot, side: FloatArray) -> dict[str, FloatArray]:
    """List what a channel may show of the planned joints, as rows that combine them."""
    found = {"joint": side}
    if not np.array_equal(side, robot.drive.motor_from_joint) and not _diagonal(robot.drive.motor_from_joint):
        found["motor"] = robot.drive.motor_from_joint
    if not _diagonal(expected.axes):
        found["axis"] = expected.axes
    return found


def _diagonal(matrix: FloatArray) -> bool:
    return bool(np.count_nonzero(matrix - np.diag(np.diagonal(matrix))) == 0)


def _fits(plan: FloatArray, x: FloatArray, rows: dict[str, FloatArray]) -> list[list[_Fit]]:
    """Fit every channel by every candidate of every joint: fits[channel][joint], the likeliest of the candidates."""
    n = x.shape[1]
    best: list[list[_Fit]] = [[_Fit("joint", 0.0, 0.0, -1.0) for _ in range(n)] for _ in range(n)]
    for kind, row in rows.items():
        p = plan @ row.T
        table = likeness(p, x)
        power = ((p - p.mean(axis=0)) ** 2).sum(axis=0)
        slope = (x - x.mean(axis=0)).T @ (p - p.mean(axis=0)) / np.where(power > 0.0, power, 1.0)
        for i in range(n):
            for j in range(n):
                if table[i, j] > best[i][j].alike + (0.0 if kind == "joint" else 1e-3):
                    factor = float(slope[i, j])
                    offset = float(x[:, i].mean() - factor * p[:, j].mean())
                    best[i][j] = _Fit(kind, factor, offset, float(table[i, j]), float(x[:, i].mean() - p[:, j].mean()))
    return best


def _order(fits: list[list[_Fit]], moving: BoolArray) -> IntArray:
    """Choose the channel of each joint, (n_joints,): its own, unless an exchange shows the plan far better."""
    n = len(fits)
    value = np.array([[fits[i][j].alike if moving[j] else 0.0 for j in range(n)] for i in range(n)])
    order = np.argsort(best_order(value + 0.01 * np.eye(n)))
    own = np.arange(n)
    exchanged = order != own
    clear = value[order, own] > ALIKE
    worse = value[own, own] < value[order, own] - 0.02
    return order if (exchanged & clear & worse).sum() >= 2 else own


def _order_checks(expected: Expected, order: IntArray) -> list[Check]:
    wrong = np.flatnonzero(order != np.arange(len(order)))
    names = [expected.joints[j] for j in wrong]
    told = "position channels are in the plan's order"
    if wrong.size:
        shown = [f"{expected.joints[int(order[j])]} shows {expected.joints[j]}" for j in wrong]
        told = f"positions of joints {several(names)} are exchanged: the channel of {several(shown)}"
    return [
        Check(
            "order of positions",
            float(wrong.size),
            "1",
            0.0,
            not wrong.size,
            told,
            level="unusable",
            cause="swapped axes" if wrong.size else "",
            remedy="correct the order of columns" if wrong.size else "",
        )
    ]


def _still(expected: Expected, j: int, x: FloatArray) -> list[Check]:
    """Hold a joint that was to stand still to that."""
    travel = float(np.ptp(x))
    if travel <= ZERO:
        return []
    name = expected.joints[j]
    sentence = f"joint {name} moves by {travel:.3g} where the plan lets it stand still"
    remedy = "check which program ran, and the order of columns"
    return [Check("standing still", travel, "", ZERO, False, sentence, name, "doubtful", "another program", remedy)]


def _stuck(expected: Expected, j: int, plan: FloatArray, x: FloatArray, fit: _Fit) -> Check:
    """Tell how much of the planned motion a joint makes, where it makes least; a clean copy of any size moves."""
    name, share = expected.joints[j], 1.0
    if fit.alike < 0.999:
        moved = [
            float(np.std(b) / np.std(a))
            for a, b in zip(np.array_split(plan, _PIECES), np.array_split(x, _PIECES), strict=True)
            if np.std(a) > 0.2 * np.std(plan)
        ]
        scale = abs(fit.factor) if fit.alike > ALIKE else 1.0
        share = min(moved, default=1.0) / scale
    elif float(np.ptp(x)) == 0.0:
        share = 0.0
    holds = share >= STUCK
    return Check(
        "motion",
        share,
        "1",
        STUCK,
        holds,
        f"joint {name} makes {100 * share:.3g} % of its planned motion" + ("" if holds else ": it is stuck"),
        name,
        "unusable",
        "" if holds else "stuck joint",
        "" if holds else "check its brake and its enable signal, and that its position was logged",
    )


def _stays(plan: FloatArray, x: FloatArray) -> bool:
    """Tell whether a joint never moves, as one whose brake is closed; one that stalls has a drive too weak."""
    parts = zip(np.array_split(plan, _PIECES), np.array_split(x, _PIECES), strict=True)
    return all(np.std(b) <= MOVES * np.std(a) for a, b in parts if np.std(a) > 0.2 * np.std(plan))


def _channel_checks(expected: Expected, robot: Robot, run: MeasuredRun, j: int, fit: _Fit) -> list[Check]:
    name = expected.joints[j]
    if fit.alike < ALIKE:
        sentence = f"positions of joint {name} are unlike the plan: correlation {np.sqrt(max(fit.alike, 0.0)):.3f}"
        remedy = "check which channel this is, and that this program ran"
        return [Check("position", fit.alike, "1", ALIKE, False, sentence, name, "unusable", "unlike the plan", remedy)]
    cause, meaning, remedy = _meaning(expected, robot, run, j, fit)
    holds = not cause
    sentence = f"positions of joint {name} are {fit.factor:.5g} times the plan's{meaning}"
    checks = [Check("position scale", fit.factor, "1", SCALE, holds, sentence, name, "unusable", cause, remedy)]
    if holds:
        off = abs(fit.zero)
        unit = "m" if expected.prismatic[j] else "rad"
        limit = ZERO * (abs(robot.drive.motor_from_joint[j, j]) or 1.0 if run.position_side == "motor" else 1.0)
        right = off <= limit
        checks.append(
            Check(
                "position zero",
                fit.zero,
                unit,
                limit,
                right,
                f"positions of joint {name} are {fit.zero:.3g} {unit} off the plan",
                name,
                "doubtful",
                "" if right else "zero",
                "" if right else "calibrate the joint's zero, or correct it in the robot's description",
            )
        )
    return checks


def _meaning(expected: Expected, robot: Robot, run: MeasuredRun, j: int, fit: _Fit) -> tuple[str, str, str]:
    """Name what a factor comes from: cause, the words for it, the remedy; empty where it is 1."""
    f = fit.factor
    if fit.kind == "axis":
        return "controller axes", ": they are in the controller's coupled axes", "convert axes to joints"
    gears = robot.drive.motor_from_joint[j]
    gear = float(gears[j] or gears[np.argmax(np.abs(gears))])
    unit = 1000.0 if expected.prismatic[j] else 180.0 / np.pi
    in_unit = "millimetres" if expected.prismatic[j] else "degrees"
    if fit.kind == "motor":
        gear = 1.0
    elif abs(f - 1.0) <= SCALE:
        return "", "", ""
    geared = "they are the motor's, the gear ratio is missing" if run.position_side == "joint" else _TWICE
    divide = "divide by the gear ratio"
    known: list[tuple[float, str, str, str]] = [
        (gear, "missing gear", geared, divide),
        (gear * unit, "missing gear", f"{geared}, and in {in_unit}", divide),
        (gear / _TURN, "missing gear", f"{geared}, and in turns", divide),
        (1.0 / gear, "missing gear", "the gear ratio was taken off twice", "multiply by the gear ratio"),
        (unit, "degrees", f"they are in {in_unit}", "convert them to rad and m"),
        (1.0 / unit, "degrees", f"they were converted from {in_unit} twice", "convert them once"),
        (1.0 / _TURN, "turns", "they are in turns", "convert them to rad"),
    ]
    if abs(gear - 1.0) < SCALE and fit.kind != "motor":
        known = known[4:]
    for sign in (1.0, -1.0):
        for factor, cause, told, remedy in known:
            if abs(f / (sign * factor) - 1.0) <= _NEAR:
                flipped = sign < 0.0
                also = ", and of the wrong sign" if flipped else ""
                return cause, f": {told}{also}", remedy + (", and reverse the sign" if flipped else "")
    if abs(f + 1.0) <= SCALE:
        return "flipped sign", ": the sign is reversed", "reverse the sign of this channel"
    return "scale", ", which no unit explains", "check the conversion of this channel"


_TWICE = "the gear was applied twice"
