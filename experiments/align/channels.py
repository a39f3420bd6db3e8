"""Checks of logged channels: positions, torques, saturation and payload.

Positions: order, sign, unit, gear ratio, zero, motion and tracking. Torques: order, sign and scale by the prior model;
saturation of drives, as commanded against delivered torque; payload, as a mass at the flange beyond the prior's, with
its uncertainty. Channels are checked on the side of the gears where they were recorded: there one fault is in one
channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.align.clock import Timing, best_order, likeness, shifts, while_moving
from excitor.experiments.align.nouns import REACH_95, Alignment, Check, ExpectedMotion, Load, MeasuredRun, carrier
from excitor.experiments.align.windows import TrackingSummary, followed, thinned
from excitor.identify.diagnose import STILL, check_clipping, check_dead, several
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, regressor, rigid_torque
from excitor.robots.inertia import change_frame, inverse, parameters_of, pseudo_inertia
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot

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
    """Checked position channels, and positions corrected for their faults."""

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


def check_positions(expected: ExpectedMotion, run: MeasuredRun, timing: Timing, robot: Robot) -> Channels:
    """Check every position channel against the plan."""
    u, inside = while_moving(expected, timing, run.t)
    side = robot.drive.motor_from_joint if run.position_side == "motor" else np.eye(robot.n_joints)
    plan, x = expected.run.at(u[inside]), run.q @ side.T
    moving = (np.ptp(plan @ side.T, axis=0) > STILL) & (np.ptp(plan, axis=0) > STILL)
    rows = _candidates(expected, robot, side)
    fits = _fits(plan, x[inside], rows)
    order = _order(fits, moving)
    checks = _order_checks("position", "plan", expected, order)
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
        of_joint = _channel_checks(expected, robot, run, j, fit)
        checks += of_joint
        sound[j] = fit.alike > ALIKE
        strays[j] = not sound[j]
        own = fit.kind == "joint"
        away = of_joint[0].cause not in ("", "scale", "unlike the plan")
        if own:
            fixed[:, j] = (x[:, i] - fit.offset * away) / (fit.factor if away else 1.0)
        else:
            fixed[:, j] = expected.run.at(np.clip(u, 0.0, expected.run.duration)) @ side[j]
    q = np.linalg.solve(side, fixed.T).T
    return Channels(tuple(checks), q, sound, strays)


def check_tracking(expected: ExpectedMotion, channels: Channels, run: MeasuredRun, timing: Timing) -> list[Check]:
    """Compute each joint's tracking error after time alignment: its share of the motion, rms."""
    u, inside = while_moving(expected, timing, run.t)
    plan = expected.run.at(u[inside])
    checks = []
    remedy = "the controller did not follow: lower speeds, or set its payload"
    for j in np.flatnonzero(expected.moving() & channels.sound):
        e = channels.q[inside, j] - plan[:, j]
        error, size = float(np.sqrt(np.mean(e**2))), float(plan[:, j].std())
        name, unit = expected.run.joints[j], "m" if expected.prismatic[j] else "rad"
        tolerance = max(TRACKING * size, FOLLOWS)
        holds = error <= tolerance
        sentence = f"joint {name} is {error:.3g} {unit} from the plan (rms), {100 * error / size:.3g} % of its motion"
        checks.append(
            Check("tracking error", error, unit, tolerance, holds, sentence, name, "doubtful", "poor tracking", remedy)
        )
    return checks


def check_lag(expected: ExpectedMotion, run: MeasuredRun, timing: Timing, interval: float) -> list[Check]:
    """Estimate the delay of joints behind commanded positions, where a log has both; it explains tracking errors."""
    if run.q_reference is None:
        return []
    u, inside = while_moving(expected, timing, run.t)
    moving = np.flatnonzero(expected.moving())
    plan = expected.run.at(u[inside])[:, moving]
    error = run.q_reference[inside][:, moving] - plan
    if (error.std(axis=0) > TRACKING * plan.std(axis=0) + FOLLOWS).any():
        sentence = "commanded positions are not the plan's: the fault is before the robot, or in the conversion of both"
        return [Check("command", float(np.abs(error).max()), "", TRACKING, True, sentence)]
    lag = -float(shifts(expected, timing, run.t, run.q_reference, np.array(expected.moving_span))[0])
    sentence = f"joints follow the commanded positions {1e3 * lag:.3g} ms later, {lag / interval:.2g} samples"
    return [Check("lag", lag, "s", np.inf, True, sentence)]


def _candidates(expected: ExpectedMotion, robot: Robot, side: FloatArray) -> dict[str, FloatArray]:
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


def _order_checks(what: str, whose: str, expected: ExpectedMotion, order: IntArray) -> list[Check]:
    """Check that channels of `what` ("position") are in the order of `whose` ("plan"): each shows its own joint."""
    wrong = np.flatnonzero(order != np.arange(len(order)))
    sentence = f"{what} channels are in the {whose}'s order"
    if wrong.size:
        shown = [f"{expected.run.joints[int(order[j])]} shows {expected.run.joints[j]}" for j in wrong]
        names = several([expected.run.joints[j] for j in wrong])
        sentence = f"{what}s of joints {names} are exchanged: the channel of {several(shown)}"
    figure, remedy = float(wrong.size), "correct the order of columns"
    return [Check(f"order of {what}s", figure, "1", 0.0, not figure, sentence, "", "unusable", "swapped axes", remedy)]


def _still(expected: ExpectedMotion, j: int, x: FloatArray) -> list[Check]:
    """Check that a joint planned to stand still does."""
    travel = float(np.ptp(x))
    if travel <= ZERO:
        return []
    name = expected.run.joints[j]
    sentence = f"joint {name} moves by {travel:.3g} where the plan lets it stand still"
    remedy = "check which program ran, and the order of columns"
    return [Check("standing still", travel, "", ZERO, False, sentence, name, "doubtful", "another program", remedy)]


def _stuck(expected: ExpectedMotion, j: int, plan: FloatArray, x: FloatArray, fit: _Fit) -> Check:
    """Compute the least share of the planned motion that a joint makes in any part; a clean copy of any size moves."""
    name, share = expected.run.joints[j], 1.0
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
    sentence = f"joint {name} makes {100 * share:.3g} % of its planned motion" + ("" if holds else ": it is stuck")
    remedy = "check its brake and its enable signal, and that its position was logged"
    return Check("motion", share, "1", STUCK, holds, sentence, name, "unusable", "stuck joint", remedy)


def _stays(plan: FloatArray, x: FloatArray) -> bool:
    """Return True if a joint never moves, as with a closed brake; one that stalls has too weak a drive."""
    parts = zip(np.array_split(plan, _PIECES), np.array_split(x, _PIECES), strict=True)
    return all(np.std(b) <= MOVES * np.std(a) for a, b in parts if np.std(a) > 0.2 * np.std(plan))


def _channel_checks(expected: ExpectedMotion, robot: Robot, run: MeasuredRun, j: int, fit: _Fit) -> list[Check]:
    name = expected.run.joints[j]
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
        text = f"positions of joint {name} are {fit.zero:.3g} {unit} off the plan"
        remedy = "calibrate the joint's zero, or correct it in the robot's description"
        checks.append(
            Check("position zero", fit.zero, unit, limit, off <= limit, text, name, "doubtful", "zero", remedy)
        )
    return checks


def _meaning(expected: ExpectedMotion, robot: Robot, run: MeasuredRun, j: int, fit: _Fit) -> tuple[str, str, str]:
    """Classify a position channel's factor: cause, description, remedy; empty where it is 1."""
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
        for factor, cause, sentence, remedy in known:
            if abs(f / (sign * factor) - 1.0) <= _NEAR:
                flipped = sign < 0.0
                also = ", and of the wrong sign" if flipped else ""
                return cause, f": {sentence}{also}", remedy + (", and reverse the sign" if flipped else "")
    if abs(f + 1.0) <= SCALE:
        return "flipped sign", ": the sign is reversed", "reverse the sign of this channel"
    return "scale", ", which no unit explains", "check the conversion of this channel"


_TWICE = "the gear was applied twice"
SCALES = (0.4, 2.5)  # of the prior's torque: masses on paper are off, but rarely so much
# By which an exchange must leave less than wrong units and signs would, in the misfits' product.
EXCHANGED = np.log(5.0)
REVERSED = 1.5  # times that a channel's misfit must shrink before its sign is said to be wrong
INDEPENDENT = 60  # samples of a run: the rest repeat the same errors
SENSED = 2.0  # times that the prior of links alone must be nearer, in the median joint's variance
_LEAST, _MOST = 1e-3, 10.0  # a misfit below is as good as none; one above says no more
_TORQUE_NEAR = np.log(1.6)  # of a factor that names a unit


@dataclass(frozen=True, slots=True)
class _SideVerdict:
    """Faults found on one side of the gears, and the gain of exchanged channels over any unit error."""

    checks: list[Check]
    gain: float = 0.0

    @property
    def wrong(self) -> int:
        """Count what does not hold."""
        return sum(not check.holds for check in self.checks)


@dataclass(frozen=True, eq=False, slots=True)
class _Model:
    """Components of a joint's model torque, on the side where it was recorded."""

    rigid: FloatArray  # (n, n_joints)
    friction: FloatArray  # (n, n_joints) of the prior
    speed: FloatArray  # (n, n_joints)


def felt(
    expected: ExpectedMotion, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray
) -> tuple[Robot, list[Check]]:
    """Remove rotors and friction from the prior where torques are from joint sensors, which measure neither.

    Most joints must agree, so that one wrong channel does not decide it.
    """
    rest = layout(robot).n_link_params
    judged = expected.moving() & sound
    if run.effort != "torque" or run.effort_side != "joint" or not judged.any() or not prior(robot)[rest:].any():
        return robot, []
    links = replace(robot, chi=np.where(np.arange(len(robot.chi)) < rest, robot.chi, 0.0))
    models = [inverse_dynamics(one, samples.motion, prior(one)) for one in (robot, links)]
    left = [np.var(samples.tau - model, axis=0)[judged] for model in models]
    better = float(np.median(np.log(np.maximum(left[0], 1e-300) / np.maximum(left[1], 1e-300))))
    if better < np.log(SENSED):
        return robot, []
    sentence = "torques are those of links alone, as sensors at the joints measure them"
    return links, [Check("torque sensors", better, "1", np.inf, True, f"{sentence}: no rotors, no friction of motors")]


def check_torques(
    expected: ExpectedMotion, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray
) -> list[Check]:
    """Check torque channels against the prior model of the measured motion.

    Controllers convert torques of coupled motors to the joints: there one wrong motor shows in several joints.
    """
    own = _checked(expected, run, robot, samples, sound)
    gears = robot.drive.motor_from_joint
    if run.effort_side == "motor" or np.array_equal(gears, np.diag(np.diagonal(gears))):
        return own.checks
    motors = _checked(expected, replace(run, effort_side="motor"), robot, samples, sound)
    one = motors.wrong == 1 and own.wrong > 1
    return motors.checks if motors.gain > own.gain or (one and not own.gain) else own.checks


def _checked(
    expected: ExpectedMotion, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray
) -> _SideVerdict:
    if not prior(robot).any():
        sentence = "the robot has no prior model, so sign, scale and order of torques were not checked"
        remedy = "give masses and centres of mass, however rough"
        return _SideVerdict([Check("prior model", 0.0, "1", 1.0, True, sentence, remedy=remedy)])
    dead = {str(finding.data["joint"]): finding for finding in check_dead(robot, [samples])}
    checks = [
        Check("torque", 0.0, "1", 0.0, False, f.sentence, joint, "unusable", "dead channel", f.remedy)
        for joint, f in dead.items()
    ]
    moving = expected.moving() & sound
    judged = moving & np.array([name not in dead for name in expected.run.joints])
    model, tau = _model(robot, run, samples), on_side(robot, run.effort_side, samples.tau)
    gains = np.ones(robot.n_joints) if run.gains is None else run.gains
    order, gain = _torque_order(_cross_fits(model, tau, gains, run.effort == "torque"), judged)
    checks += _order_checks("torque", "model", expected, order)
    for j in np.flatnonzero(judged):
        channel = tau[:, order[j]] * (gains[j] / gains[order[j]])
        checks.append(_sign_and_scale(expected, robot, run, int(j), model, channel))
    return _SideVerdict(checks, gain)


def on_side(robot: Robot, side: str, tau: FloatArray) -> FloatArray:
    """Convert joint torques back to the side where they were recorded: τ_motor = N⁻ᵀ τ."""
    return tau if side == "joint" else np.linalg.solve(robot.drive.motor_from_joint.T, tau.T).T


def _model(robot: Robot, run: MeasuredRun, samples: Samples) -> _Model:
    chi = prior(robot)
    rigid = rigid_torque(robot, samples.motion, chi)
    friction = inverse_dynamics(robot, samples.motion, chi) - rigid
    speed = samples.motion.dq
    if run.effort_side == "motor":
        speed = speed @ robot.drive.motor_from_joint.T
    return _Model(on_side(robot, run.effort_side, rigid), on_side(robot, run.effort_side, friction), speed)


def _cross_fits(model: _Model, tau: FloatArray, gains: FloatArray, scaled: bool) -> FloatArray:
    """Fit every channel by every joint's model: misfits (n_channels, n_joints).

    In another's place a current went through another's law. In its own, a channel may be of any unit and sign: an
    exchange must explain more than those.
    """
    n = tau.shape[1]
    misfit = np.array([[_fit(model, j, tau[:, i] * gains[j] / gains[i], scaled) for j in range(n)] for i in range(n)])
    own = [min(_fit(model, j, sign * tau[:, j], False) for sign in (1.0, -1.0)) for j in range(n)]
    np.fill_diagonal(misfit, np.minimum(np.diagonal(misfit), own))
    return misfit


def _fit(model: _Model, j: int, tau: FloatArray, scaled: bool) -> float:
    """Fit a channel by s (rigid + offset) + friction that brakes, s within SCALES of the prior where `scaled`.

    What is left over the channel's variance is above 1 where the least that is expected is too much.
    """
    from scipy.optimize import lsq_linear

    v = model.speed[:, j]
    fastest = float(np.abs(v).max()) or 1.0
    braking = np.column_stack([v / fastest, np.tanh(v / (0.02 * fastest))])
    rest = np.ones((len(v), 1))
    size = float(np.sqrt(np.mean(model.rigid[:, j] ** 2))) or 1.0
    columns = np.column_stack([model.rigid[:, j] / size, braking, rest])
    low, high = (size * s for s in SCALES) if scaled else (0.0, np.inf)
    varies = float(np.sum((tau - tau.mean()) ** 2)) or 1.0
    typical = float(np.abs(tau).max()) or 1.0
    bounds = ([low / typical, 0.0, 0.0, -np.inf], [max(high, 1e-12) / typical, np.inf, np.inf, np.inf])
    found = lsq_linear(columns, tau / typical, bounds)
    left = 2.0 * float(found.cost) * typical**2
    return min(_MOST, left / varies)


def _torque_order(misfit: FloatArray, judged: BoolArray) -> tuple[IntArray, float]:
    """Choose the channel of each joint: its own, unless an exchange explains torques far better; and the gain."""
    own = np.arange(len(misfit))
    value = -np.log(np.maximum(misfit, _LEAST))
    value[~judged] = 0.0
    value[:, ~judged] = 0.0
    value[own[~judged], own[~judged]] = 1e3
    order = np.argsort(best_order(value))
    gain = float(np.sum(value[order, own] - value[own, own]))
    return (order, gain) if gain > EXCHANGED else (own, 0.0)


def _sign_and_scale(
    expected: ExpectedMotion, robot: Robot, run: MeasuredRun, j: int, model: _Model, tau: FloatArray
) -> Check:
    name = expected.run.joints[j]
    factor, sign, doubt = _factor(model, j, tau)
    cause = meaning = remedy = ""
    if run.effort == "torque" and (abs(factor) + doubt < SCALES[0] or abs(factor) - doubt > SCALES[1]):
        cause, meaning, remedy = _torque_meaning(robot, run, j, abs(factor), doubt)
    if sign < 0.0:
        meaning = f"{meaning}; its sign is reversed" if meaning else ": its sign is reversed"
        cause, remedy = cause or "flipped sign", f"{remedy}, and reverse the sign" if remedy else "reverse its sign"
    sentence = f"torque of joint {name} is {factor:.3g} times what the prior model expects{meaning}"
    return Check("torque scale", factor, "1", SCALES[1], not cause, sentence, name, "unusable", cause, remedy)


def _factor(model: _Model, j: int, tau: FloatArray) -> tuple[float, float, float]:
    """Find the scale of a channel, friction of the prior's ratio to it, its sign, and what noise may add to it."""
    whole = model.rigid[:, j] + model.friction[:, j]
    m, t = whole - whole.mean(), tau - tau.mean()
    power = float(m @ m)
    factor = float(m @ t) / power if power > 0.0 else 0.0
    size = float(np.sqrt(float(t @ t) / power)) if power > 0.0 else 1.0
    up, down = (_fit(model, j, sign * tau / (size or 1.0), True) for sign in (1.0, -1.0))
    sign = -1.0 if down * REVERSED < up else 1.0
    left = float(np.sum((t - factor * m) ** 2))
    doubt = 3.0 * float(np.sqrt(left / power / INDEPENDENT)) if power > 0.0 else np.inf
    return sign * abs(factor), sign, doubt


def _torque_meaning(robot: Robot, run: MeasuredRun, j: int, factor: float, doubt: float) -> tuple[str, str, str]:
    """Classify a torque channel's factor: cause, description, remedy."""
    gears = robot.drive.motor_from_joint[j]
    gear, limit = abs(float(gears[j] or gears[np.argmax(np.abs(gears))])), float(robot.limits.torque[j])
    known = {1e3: ("scale", "it is in N mm", "divide by 1000"), 1e-3: ("scale", "it is in kN m", "multiply by 1000")}
    if np.isfinite(limit) and run.effort_side == "joint":
        known[100.0 / limit] = ("scale", "it is in percent of the limit", "multiply by the limit / 100")
        known[1.0 / limit] = ("scale", "it is a share of the limit", "multiply by the limit")
    if gear > SCALES[1]:
        known[gear] = ("missing gear", "the gear ratio is in it once too often", "divide by the gear ratio")
        known[1.0 / gear] = ("missing gear", "it is the motor's, before the gear", "multiply by the gear ratio")
    nearest = min(known, key=lambda scale: abs(np.log(factor / scale)) if factor > 0.0 else np.inf)
    if factor <= 0.0 or abs(np.log(factor / nearest)) > max(_TORQUE_NEAR, np.log1p(doubt / factor)):
        return "scale", ", which no unit explains: is it a current?", "check unit and prior masses"
    cause, sentence, remedy = known[nearest]
    return cause, f": {sentence}", remedy


EVIDENCE = 15.0  # logarithm of the residual's power that an end must save, times the samples: chance saves 9
BEYOND = 0.1  # of the end: what must be asked for beyond it, in the mean
LITTLE = 0.05  # ... where the joint is left behind as well
CLEAR = 0.1  # saved, from where on an end is one even where no joint is behind: what measures is at its end, then
AHEAD = 1.0  # times the joint's usual scatter about the plan: no drive at its end leaves its joint ahead
BEHIND = 6.0  # times the joint's usual scatter about the plan: a drive at its end leaves its joint behind
EXPLAINED = 0.7  # of the torque's variance, by the model and its end
AFFECTED = 0.3  # of what the clearest end saves: a drive beside a saturated one is disturbed, not at its end
LEAST = 6  # samples that are cut off
SHARES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6)  # of the samples, that a search supposes to be cut off
PILED = 0.35  # of the samples, that stay at the end of a drive whose joint does not follow
ROUNDS = 8
RIDGE = 1e-3
SLOW = 0.02  # of a motor's highest speed, below which its friction may hold it with any torque


@dataclass(frozen=True, slots=True)
class _Cut:
    """Torque level at which a channel saturates, if any."""

    level: float = 0.0
    saved: float = 0.0  # logarithm of the residual's power
    beyond: float = 0.0  # share of the end that is asked for beyond it
    share: float = 0.0  # of the samples that are cut off
    explained: float = 0.0  # share of the variance
    behind: float = 0.0  # how far the joint is behind where its drive is at its end, in its usual tracking error


def check_saturation(found: Alignment, run: MeasuredRun, robot: Robot, channels: Channels) -> list[Check]:
    """Detect saturation of every motor's torque; a blocked joint saturates its drive for another reason."""
    tracking = followed(found, run, channels.q)
    tau = on_side(robot, "motor", tracking.tau)
    asked, held = _asked(robot, tracking), _held(robot, run)
    series = found.expected.run.series is not None
    moving = found.expected.moving() & (channels.sound | channels.strays)
    speed = np.abs(tracking.motion.dq @ robot.drive.motor_from_joint.T)
    turns = speed > SLOW * speed.max(axis=0)  # static friction is in no model
    cuts = {
        j: _cut(asked[j][0][on], asked[j][1][on], tau[on, j], tracking.error[on, j])
        for j in np.flatnonzero(moving)
        for on in [turns[:, j]]
    }
    clearest = max((cut.saved for cut in cuts.values()), default=0.0)
    checks = []
    for j, cut in cuts.items():
        name = found.expected.run.joints[j]
        ends = _sure(cut, int(turns[:, j].sum()), series) and cut.saved > AFFECTED * clearest
        if not ends and channels.strays[j]:
            level, share = _piled(np.abs(on_side(robot, "motor", run.tau)[:, j]))
            cut, ends = _Cut(level, np.inf, np.inf, share), share > PILED  # at its limit, whatever the motion needs
        checks.append(_check(name, cut, ends, name in held))
    return checks


def _asked(robot: Robot, tracking: TrackingSummary) -> list[tuple[FloatArray, FloatArray]]:
    """Build each motor's possible command: the plan's columns, and tracking errors of the joints that it moves.

    Errors have the sense in which a controller asks for more.
    """
    ungeared = np.linalg.inv(robot.drive.motor_from_joint.T)
    W = regressor(robot, tracking.motion)[:, :, list(base_parameters(robot).kept)]
    W = np.einsum("ij,njk->ink", ungeared, W)
    return [
        (W[j], np.hstack([tracking.error[:, own], tracking.error_rate[:, own]]) * np.tile(np.sign(ungeared[j, own]), 2))
        for j, own in enumerate(np.abs(ungeared) > 0.0)
    ]


def _piled(size: FloatArray) -> tuple[float, float]:
    """Find the level at which torques accumulate near their maximum, and the share of all but small ones that does."""
    noise = 1.5 * float(np.median(np.abs(np.diff(size)))) / np.sqrt(2.0)
    width = max(2.5 * noise, 0.01 * float(size.max()))
    highest = float(np.quantile(size, 0.995)) - width
    near = size[np.abs(size - highest) < 2.0 * width]
    level = float(np.median(near)) if near.size else highest
    large = size > 0.3 * level
    return level, float(np.mean(np.abs(size[large] - level) < width)) if large.any() else 0.0


def _held(robot: Robot, run: MeasuredRun) -> set[str]:
    """Find channels that repeat their extreme, sample by sample, in the raw log."""
    tau = on_side(robot, run.effort_side, run.tau)
    still = np.zeros_like(tau)
    found = check_clipping(robot, [Samples("run", Motion(still, still, still), tau, 1.0)])
    return {str(finding.data["joint"]) for finding in found if finding.level == "unusable"}


def _cut(W: FloatArray, behind: FloatArray, tau: FloatArray, error: FloatArray) -> _Cut:
    """Find the saturation level that explains a channel best, from several initial levels."""
    Q = _basis(np.hstack([W, behind]))
    if len(tau) < 2 * Q.shape[1]:
        return _Cut()
    fitted, straight = Q @ (Q.T @ tau), _straight(W, behind, tau)
    varies = float(np.sum((tau - tau.mean()) ** 2))
    signs = (np.abs(tau), np.abs(fitted), error * np.sign(fitted), -error * np.sign(fitted))
    starts = [x >= float(np.quantile(x, 1.0 - share)) for x in signs for share in SHARES]
    tried = [_searched(Q, tau, (straight, varies), (cut, error)) for cut in starts]
    return max(tried, key=lambda one: one.saved)


def _basis(A: FloatArray) -> FloatArray:
    """Compute an orthonormal basis of the linearly independent columns."""
    norms = np.linalg.norm(A, axis=0)
    shown = norms > 1e-9 * norms.max(initial=1e-300)
    U, values, _ = np.linalg.svd(A[:, shown] / norms[shown], full_matrices=False)
    return np.asarray(U[:, values > RIDGE * values.max(initial=0.0)])


def _straight(W: FloatArray, behind: FloatArray, tau: FloatArray) -> float:
    """Sum of squared residuals without saturation: where its joint is behind, a drive gives more, never less."""
    from scipy.optimize import nnls

    U = _basis(W)
    E, rest = behind - U @ (U.T @ behind), tau - U @ (U.T @ tau)
    norms = np.linalg.norm(E, axis=0)
    return float(nnls(E / np.where(norms > 0.0, norms, 1.0), rest)[1] ** 2)


def _searched(Q: FloatArray, tau: FloatArray, power: tuple[float, float], start: tuple[BoolArray, FloatArray]) -> _Cut:
    """Fit the command and the saturation level alternately, from samples `cut` off; Q has orthonormal columns."""
    (straight, varies), (cut, error) = power, start
    best = _Cut()
    for _ in range(ROUNDS):
        if np.count_nonzero(cut) < LEAST or np.count_nonzero(~cut) < Q.shape[1]:
            break
        R = Q[cut]
        normal = np.eye(Q.shape[1]) * (1.0 + RIDGE) - R.T @ R
        wanted = Q @ np.linalg.solve(normal, Q[~cut].T @ tau[~cut])
        level = float(np.mean(tau[cut] * np.sign(wanted[cut])))
        if level <= 0.0:
            break
        cut = np.abs(wanted) > level
        left = float(np.sum((tau - np.clip(wanted, -level, level)) ** 2))
        if not cut.any() or min(left, straight, varies) <= 0.0:
            break
        saved = float(np.log(straight / left))
        if saved > best.saved:
            beyond, late = float(np.mean(np.abs(wanted[cut]) - level)) / level, error * np.sign(wanted)
            behind = float((late[cut].mean() - late[~cut].mean()) / (late[~cut].std() or 1.0))
            best = _Cut(level, saved, beyond, float(np.mean(cut)), 1.0 - left / varies, behind)
    return best


def _sure(cut: _Cut, n: int, series: bool) -> bool:
    """Accept a saturation level that torques show clearly, or show while the joint also falls behind."""
    if n * cut.saved < EVIDENCE or cut.explained < EXPLAINED:
        return False
    clear = series and cut.saved > CLEAR and cut.beyond > 2.0 * BEYOND and cut.behind > -AHEAD
    return clear or (cut.beyond > LITTLE and cut.behind > BEHIND)


def _check(name: str, cut: _Cut, ends: bool, held: bool) -> Check:
    holds = not ends and not held
    sentence = f"the torque of joint {name} shows no end"
    if not holds:
        sentence = f"the torque of joint {name} ends at {cut.level:.4g} at its motor, where the motion needs "
        known = np.isfinite(cut.beyond) and cut.beyond < 1.0
        more = f"{100 * cut.beyond:.3g} % more in" if known else "far more: it stays there for"
        sentence += f"{more} {100 * cut.share:.2g} % of the samples; its drive is saturated"
    beyond = cut.beyond if ends else 0.0
    remedy = "repeat the run with less acceleration, or raise the drive's current limit"
    return Check("saturation", beyond, "1", BEYOND, holds, sentence, name, "unusable", "saturation", remedy)


SPREAD = 0.1  # of links' mass distributions about the prior; twice that of rotors
REACH = 0.1  # m, of a load's centre from the flange
BULK = 0.5  # of its mass times REACH²: standard deviation of its moments of inertia
LOADED = 10  # columns of the load
ROWS = 400  # means of samples that are used


def can_weigh(run: MeasuredRun, robot: Robot) -> bool:
    """Return True if there are torques and a prior to estimate a load with."""
    return run.effort == "torque" and bool(prior(robot).any())


def check_payload(run: MeasuredRun, robot: Robot, samples: Samples) -> tuple[Load | None, list[Check]]:
    """Estimate the load at the flange, and compare it with the stated one; None where nothing can be weighed."""
    if not can_weigh(run, robot):
        return None, []
    load = flange_load(robot, run, samples)
    return load, [payload_check(robot, load)]


def payload_check(robot: Robot, load: Load) -> Check:
    """Compare a load that was found with the stated one."""
    holds, stated = not load.sure(robot), robot.payload
    found = f"torques indicate {load.total:.3g} ± {REACH_95 * load.sigma:.2g} kg at the flange"
    asked = "no load is stated"
    if stated is not None:
        asked = f"{stated.phi[9]:.3g} ± {REACH_95 * load.stated_sigma:.2g} kg are stated"
    sentence = f"{found}, and {asked}" + ("" if holds or stated is None else ": they contradict each other")
    remedy = f"check what hangs on the flange; if the torques are right, {edit_of_load(robot, load)}"
    cause, least = "wrong payload", load.least(robot)
    return Check("payload", load.mass, "kg", least, holds, sentence, "", "unusable", cause, remedy)


def edit_of_load(robot: Robot, load: Load) -> str:
    """Describe how a load that was found is stated."""
    if load.total <= REACH_95 * load.sigma:
        return "remove [payload] in campaign.toml"
    if load.vague:
        low, high = (max(load.total + side * REACH_95 * load.sigma, 0.0) for side in (-1.0, 1.0))
        return (
            f"weigh it and state [payload] mass: the arm's own masses are known too little to tell it closer than from "
            f'{low:.3g} to {high:.3g} kg; a campaign of task = "payload" tells it by runs with and without it'
        )
    phi = np.zeros(10) if robot.payload is None else robot.payload.phi
    stated = change_frame(phi, inverse(robot.tool.T_link_frame))
    center = ", ".join(f"{x:.3f}" for x in (stated[6:9] + load.moments) / load.total)
    percent = f"{100 * load.sigma / load.total:.0f}"
    return f"state [payload] mass = {load.total:.3g}, center = [{center}], percent = {percent} in campaign.toml"


def loaded(robot: Robot, load: Load) -> Robot:
    """Add a load at the flange to a robot's prior model."""
    chi, ball = robot.chi.copy(), np.zeros(10)
    ball[6:9], ball[9] = load.moments, load.mass
    params = layout(robot)
    chi[params.link(carrier(robot))] += change_frame(ball, robot.tool.T_link_frame)
    return replace(robot, chi=chi)


def flange_load(robot: Robot, run: MeasuredRun, samples: Samples) -> Load:
    """Estimate the load by least squares with a prior on all other parameters; friction and offsets are free."""
    data = thinned(samples, ROWS)
    Y = regressor(robot, data.motion)
    columns, spreads = _columns(robot, Y)
    residual = data.tau - Y @ prior(robot)
    gears = np.eye(robot.n_joints) if run.effort_side == "joint" else robot.drive.motor_from_joint
    A = np.einsum("ij,njk->nik", np.linalg.inv(gears.T), columns)
    b = on_side(robot, run.effort_side, residual)
    weights = _weights(A, b, on_side(robot, run.effort_side, data.tau))
    speed = np.abs(data.motion.dq)
    fastest = speed.max(axis=0)
    weights = weights * ((speed > SLOW * fastest) | (fastest == 0.0))  # static friction is not modelled
    A, b = (A * weights[:, :, None]).reshape(-1, A.shape[2]), (b * weights).ravel()
    load = Load(0.0, np.inf, spreads=spreads, equations=_root(np.column_stack([A, b])))
    if robot.payload is not None:
        sigma = float(robot.payload.covariance[9, 9]) ** 0.5
        load = replace(load, stated=float(robot.payload.phi[9]), stated_sigma=sigma)
    return pooled_load([load])


def pooled_load(loads: Sequence[Load]) -> Load:
    """Estimate the load of all runs that were weighed alike as the first; its centre is about REACH from the flange.

    Its moments of inertia are those of its mass there, give or take its size.
    """
    first = loads[0]
    alike = [one for one in loads if one.stated == first.stated and len(one.spreads) == len(first.spreads)]
    root = _root(np.vstack([one.equations for one in alike]))
    A, b, sigmas = root[:, :-1], root[:, -1], first.spreads.copy()
    load, inertia, moments = first, np.zeros(6), REACH
    for _ in range(4):
        sigmas[1:4], sigmas[4:LOADED] = moments, BULK * REACH * moments
        load = _solved(A, b - A[:, 4:LOADED] @ inertia, sigmas)
        mass, h = max(abs(load.mass), load.sigma), np.array(load.moments)
        moments = REACH * mass
        inertia = np.sign(load.mass) * (h @ h * np.eye(3) - np.outer(h, h))[np.triu_indices(3)] / mass
    load = replace(load, stated=first.stated, stated_sigma=first.stated_sigma)
    return replace(load, equations=root, spreads=first.spreads)


def _root(equations: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(equations, mode="r"))


def _columns(robot: Robot, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Build the load's columns, then those of all other parameters; and each one's prior standard deviation.

    A link's mass distribution is uncertain as a whole: its pseudo-inertia is P + L G Lᵀ with P = L Lᵀ and a random
    symmetric G, so that mass, first moments and inertias deviate together; its columns are those of G's entries.
    """
    params, n, T = layout(robot), robot.n_joints, robot.tool.T_link_frame
    here, links = Y[:, :, params.link(carrier(robot))], robot.chi[: params.n_link_params].reshape(-1, 10)
    load = np.stack([here @ change_frame(unit, T) for unit in np.eye(10)[[9, 6, 7, 8, *range(6)]]], axis=2)
    typical = float(np.abs(links[:, 9]).mean()) or 1.0
    shapes = [Y[:, :, params.link(j)] @ _deviations(phi, typical) for j, phi in enumerate(links)]
    offsets = np.broadcast_to(np.eye(n), (len(Y), n, n))
    columns = np.concatenate([load, *shapes, Y[:, :, params.n_link_params :], offsets], axis=2)
    spreads = np.full(columns.shape[2], np.inf)  # of friction and offsets
    spreads[1:LOADED], spreads[LOADED : LOADED + params.n_link_params] = 0.0, SPREAD
    for column in params.rotor_columns:
        spreads[LOADED + column] = 2.0 * SPREAD * abs(float(robot.chi[column])) or np.inf
    if robot.payload is not None:  # what is stated is uncertain, too
        values, V = np.linalg.eigh(robot.payload.covariance)
        half = V * np.sqrt(np.maximum(values, 0.0))
        columns = np.concatenate([columns, Y[:, :, params.link(robot.payload.link)] @ half], axis=2)
        spreads = np.append(spreads, np.ones(10))
    return columns, spreads


def _deviations(phi: FloatArray, typical: float) -> FloatArray:
    """Deviations of a link's parameters by the entries of G, (10, 10); an impossible link counts as a ball."""
    mass, P = float(phi[9]), pseudo_inertia(phi)
    if mass <= 0.0 or np.linalg.eigvalsh(P)[0] <= 1e-9 * mass:
        mass = abs(mass) or 0.3 * typical
        arm = max(float(np.linalg.norm(phi[6:9])) / mass, float(np.sqrt(np.abs(phi[[0, 3, 5]]).sum() / mass)), 0.02)
        P = mass * np.diag([arm**2, arm**2, arm**2, 1.0])
    L, found = np.linalg.cholesky(P), []
    for a, b in zip(*np.triu_indices(4), strict=True):
        E = np.zeros((4, 4))
        E[a, b] = E[b, a] = 1.0 if a == b else np.sqrt(0.5)
        found.append(parameters_of(L @ E @ L.T))
    return np.column_stack(found)


def _weights(A: FloatArray, b: FloatArray, tau: FloatArray) -> FloatArray:
    """Compute one over each joint's torque uncertainty, a row.

    What differs from row to row is noise, and averages out; the rest is the model's error, which is correlated along
    the motion: as many values of it are independent as `INDEPENDENT`.
    """
    n, sizes = len(A), []
    for j in range(A.shape[1]):
        scale = np.linalg.norm(A[:, j], axis=0)
        own = A[:, j][:, scale > 0.0] / scale[scale > 0.0]
        found, _, rank, _ = np.linalg.lstsq(own, b[:, j], rcond=1e-6)
        rest = b[:, j] - own @ found
        left, noise = float(rest @ rest) / max(1, n - rank), 0.5 * float(np.mean(np.diff(rest) ** 2))
        error = max(left - noise, 1e-4 * float(np.mean(tau[:, j] ** 2)), 1e-18)
        sizes.append(noise + error * max(1.0, n / INDEPENDENT))
    return np.asarray(1.0 / np.sqrt(sizes))


def _solved(A: FloatArray, b: FloatArray, sigmas: FloatArray) -> Load:
    """Solve min ‖A x - b‖² + ‖x / σ‖²: the first of x, its deviation, and what the load's columns save."""
    norms = np.linalg.norm(A, axis=0)
    units = np.where(np.isfinite(sigmas), sigmas, 1.0 / np.where(norms > 0.0, norms, 1.0))
    scaled = A * units
    ridge = np.where(np.isfinite(sigmas), 1.0, 1e-6)
    normal, right = scaled.T @ scaled + np.diag(ridge), scaled.T @ b
    x = np.linalg.solve(normal, right)
    spread = float(np.sqrt(np.linalg.inv(normal)[0, 0]) * units[0])
    evidence = float(right @ x - right[LOADED:] @ np.linalg.solve(normal[LOADED:, LOADED:], right[LOADED:]))
    mass, *moments = (float(value) for value in x[:4] * units[:4])
    return Load(mass, spread, (moments[0], moments[1], moments[2]), evidence)
