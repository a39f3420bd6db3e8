"""Does every torque channel belong to its joint: order, sign, scale? The prior model is asked, not trusted.

A channel is a multiple of the prior's rigid torque, and friction that brakes: both on the side of the gears where the
channel was recorded. A channel of the wrong sign would need masses below zero, or friction that drives.
"""

from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.align.nouns import Check, Expected, MeasuredRun
from excitor.experiments.align.timing import best_order
from excitor.identify.diagnose import check_dead, several
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

SCALES = (0.4, 2.5)  # of the prior's torque: masses on paper are off, but rarely so much
EXCHANGED = np.log(
    5.0
)  # by which an exchange must leave less than wrong units and signs would, in the misfits' product
REVERSED = 1.5  # times that a channel's misfit must shrink before its sign is said to be wrong
INDEPENDENT = 60  # samples of a run: the rest repeat the same errors
SENSED = 2.0  # times that the prior of links alone must be nearer, in the median joint's variance
_LEAST, _MOST = 1e-3, 10.0  # a misfit below is as good as none; one above says no more
_NEAR = np.log(1.6)  # of a factor that names a unit


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was found on one side of the gears, and by how much exchanged channels explain it better than any unit."""

    checks: list[Check]
    gain: float = 0.0

    @property
    def wrong(self) -> int:
        """Count what does not hold."""
        return sum(not check.holds for check in self.checks)


@dataclass(frozen=True, eq=False, slots=True)
class _Model:
    """What a joint's torque may consist of, on the side where it was recorded."""

    rigid: FloatArray  # (n, n_joints)
    friction: FloatArray  # (n, n_joints) of the prior
    speed: FloatArray  # (n, n_joints)


@dataclass(frozen=True, slots=True)
class _Fit:
    scale: float  # of the channel over the prior
    misfit: float  # left, over the channel's variance: above 1 where the least that is expected is too much


def felt(
    expected: Expected, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray
) -> tuple[Robot, list[Check]]:
    """Take rotors and friction out of the prior where torques are those of sensors at the joints, which feel neither.

    Most joints must agree, so that one wrong channel does not decide it.
    """
    rest = layout(robot).n_link_params
    judged = expected.moving() & sound
    if run.effort != "torque" or run.effort_side != "joint" or not judged.any() or not prior(robot)[rest:].any():
        return robot, []
    links = replace(robot, chi=np.where(np.arange(len(robot.chi)) < rest, robot.chi, 0.0))
    left = [
        np.var(samples.tau - inverse_dynamics(one, samples.motion, prior(one)), axis=0)[judged]
        for one in (robot, links)
    ]
    better = float(np.median(np.log(np.maximum(left[0], 1e-300) / np.maximum(left[1], 1e-300))))
    if better < np.log(SENSED):
        return robot, []
    told = "torques are those of links alone, as sensors at the joints feel them: no rotors, no friction of motors"
    return links, [Check("torque sensors", better, "1", np.inf, True, told)]


def check_torques(
    expected: Expected, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray
) -> list[Check]:
    """Hold torque channels against the prior model of the motion that was measured.

    Controllers bring torques of coupled motors to the joints: there one wrong motor shows in several joints.
    """
    own = _checked(expected, run, robot, samples, sound)
    gears = robot.drive.motor_from_joint
    if run.effort_side == "motor" or np.array_equal(gears, np.diag(np.diagonal(gears))):
        return own.checks
    motors = _checked(expected, replace(run, effort_side="motor"), robot, samples, sound)
    one = motors.wrong == 1 and own.wrong > 1
    return motors.checks if motors.gain > own.gain or (one and not own.gain) else own.checks


def _checked(expected: Expected, run: MeasuredRun, robot: Robot, samples: Samples, sound: BoolArray) -> _Judged:
    if not prior(robot).any():
        sentence = "the robot has no prior model, so sign, scale and order of torques were not checked"
        remedy = "give masses and centres of mass, however rough"
        return _Judged([Check("prior model", 0.0, "1", 1.0, True, sentence, remedy=remedy)])
    dead = {str(finding.data["joint"]): finding for finding in check_dead(robot, [samples])}
    checks = [
        Check("torque", 0.0, "1", 0.0, False, f.sentence, joint, "unusable", "dead channel", f.remedy)
        for joint, f in dead.items()
    ]
    moving = expected.moving() & sound
    judged = moving & np.array([name not in dead for name in expected.joints])
    model, tau = _model(robot, run, samples), on_side(robot, run.effort_side, samples.tau)
    gains = np.ones(robot.n_joints) if run.gains is None else run.gains
    order, gain = _order(_cross_fits(model, tau, gains, run.effort == "torque"), judged)
    checks += _order_checks(expected, order)
    for j in np.flatnonzero(judged):
        channel = tau[:, order[j]] * (gains[j] / gains[order[j]])
        checks.append(_sign_and_scale(expected, robot, run, int(j), model, channel))
    return _Judged(checks, gain)


def on_side(robot: Robot, side: str, tau: FloatArray) -> FloatArray:
    """Bring joint torques back to where they were recorded: τ_motor = N⁻ᵀ τ."""
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
    misfit = np.array(
        [[_fit(model, j, tau[:, i] * gains[j] / gains[i], scaled).misfit for j in range(n)] for i in range(n)]
    )
    own = [min(_fit(model, j, sign * tau[:, j], False).misfit for sign in (1.0, -1.0)) for j in range(n)]
    np.fill_diagonal(misfit, np.minimum(np.diagonal(misfit), own))
    return misfit


def _fit(model: _Model, j: int, tau: FloatArray, scaled: bool) -> _Fit:
    """Fit a channel by s (rigid + offset) + friction that brakes, s within SCALES of the prior where `scaled`."""
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
    return _Fit(float(found.x[0]) * typical / size, min(_MOST, left / varies))


def _order(misfit: FloatArray, judged: BoolArray) -> tuple[IntArray, float]:
    """Choose the channel of each joint: its own, unless an exchange explains torques far better; and by how much."""
    own = np.arange(len(misfit))
    value = -np.log(np.maximum(misfit, _LEAST))
    value[~judged] = 0.0
    value[:, ~judged] = 0.0
    value[own[~judged], own[~judged]] = 1e3
    order = np.argsort(best_order(value))
    gain = float(np.sum(value[order, own] - value[own, own]))
    return (order, gain) if gain > EXCHANGED else (own, 0.0)


def _order_checks(expected: Expected, order: IntArray) -> list[Check]:
    wrong = np.flatnonzero(order != np.arange(len(order)))
    told = "torque channels are in the model's order"
    if wrong.size:
        shown = [f"{expected.joints[int(order[j])]} shows {expected.joints[j]}" for j in wrong]
        names = several([expected.joints[j] for j in wrong])
        told = f"torques of joints {names} are exchanged: the channel of {several(shown)}"
    return [
        Check(
            "order of torques",
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


def _sign_and_scale(
    expected: Expected, robot: Robot, run: MeasuredRun, j: int, model: _Model, tau: FloatArray
) -> Check:
    name = expected.joints[j]
    factor, sign, doubt = _factor(model, j, tau)
    cause = meaning = remedy = ""
    if run.effort == "torque" and (abs(factor) + doubt < SCALES[0] or abs(factor) - doubt > SCALES[1]):
        cause, meaning, remedy = _meaning(robot, run, j, abs(factor), doubt)
    if sign < 0.0:
        meaning = f"{meaning}; its sign is reversed" if meaning else ": its sign is reversed"
        cause, remedy = cause or "flipped sign", f"{remedy}, and reverse the sign" if remedy else "reverse its sign"
    return Check(
        "torque scale",
        factor,
        "1",
        SCALES[1],
        not cause,
        f"torque of joint {name} is {factor:.3g} times what the prior model expects{meaning}",
        name,
        "unusable",
        cause,
        remedy,
    )


def _factor(model: _Model, j: int, tau: FloatArray) -> tuple[float, float, float]:
    """Find the scale of a channel, friction of the prior's ratio to it, its sign, and what noise may add to it."""
    whole = model.rigid[:, j] + model.friction[:, j]
    m, t = whole - whole.mean(), tau - tau.mean()
    power = float(m @ m)
    factor = float(m @ t) / power if power > 0.0 else 0.0
    size = float(np.sqrt(float(t @ t) / power)) if power > 0.0 else 1.0
    up, down = (_fit(model, j, sign * tau / (size or 1.0), True).misfit for sign in (1.0, -1.0))
    sign = -1.0 if down * REVERSED < up else 1.0
    left = float(np.sum((t - factor * m) ** 2))
    doubt = 3.0 * float(np.sqrt(left / power / INDEPENDENT)) if power > 0.0 else np.inf
    return sign * abs(factor), sign, doubt


def _meaning(robot: Robot, run: MeasuredRun, j: int, factor: float, doubt: float) -> tuple[str, str, str]:
    """Name what a torque's factor comes from: cause, the words for it, the remedy."""
    gears = robot.drive.motor_from_joint[j]
    gear, limit = abs(float(gears[j] or gears[np.argmax(np.abs(gears))])), float(robot.limits.torque[j])
    known = {
        1e3: ("scale", "it is in N mm", "divide by 1000"),
        1e-3: ("scale", "it is in kN m", "multiply by 1000"),
    }
    if np.isfinite(limit) and run.effort_side == "joint":
        known[100.0 / limit] = ("scale", "it is in percent of the limit", "multiply by the limit / 100")
        known[1.0 / limit] = ("scale", "it is a share of the limit", "multiply by the limit")
    if gear > SCALES[1]:
        known[gear] = ("missing gear", "the gear ratio is in it once too often", "divide by the gear ratio")
        known[1.0 / gear] = ("missing gear", "it is the motor's, before the gear", "multiply by the gear ratio")
    nearest = min(known, key=lambda scale: abs(np.log(factor / scale)) if factor > 0.0 else np.inf)
    if factor <= 0.0 or abs(np.log(factor / nearest)) > max(_NEAR, np.log1p(doubt / factor)):
        return "scale", ", which no unit explains: is it a current?", "check unit and prior masses"
    cause, told, remedy = known[nearest]
    return cause, f": {told}", remedy
