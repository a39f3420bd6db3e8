"""Can a recorded motion be true, in units, limits and derivatives, and does it reverse.

Every check is of what was recorded, none needs a model.
"""

from collections.abc import Sequence

import numpy as np

from excitor.identify.finding import TURNING, Finding, fit_factor, moving_joints, several
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.base import lost_when_locked
from excitor.robots.robot import FrictionTerm, Robot

TOO_FAST = (1.1, 3.0)  # of the velocity limit: doubtful, unusable
WILD = 1e6  # no joint of a robot goes so far, or takes so much, in SI units
DEGREES = 180.0 / np.pi
STEADY = 0.01  # of the largest value: increments smaller than this tell nothing
WINDOWS = 100  # a run is cut into so many pieces to compare increments


def check_values(runs: Sequence[Samples]) -> list[Finding]:
    """Look for values that cannot be measurements."""
    found = []
    for run in runs:
        channels = {"q": run.motion.q, "dq": run.motion.dq, "ddq": run.motion.ddq, "tau": run.tau}
        for name, values in channels.items():
            bad = np.argwhere(~(np.abs(values) < WILD))
            if bad.size:
                sample, joint = (int(k) for k in bad[0])
                found.append(
                    Finding(
                        "unusable",
                        "values",
                        f"run {run.run!r}: {name} of joint {joint + 1} is {values[sample, joint]:g} at sample "
                        f"{sample}, and {len(bad)} values in all are beyond {WILD:g}",
                        "repair the recording, or cut these samples out before anything is filtered",
                        {"run": run.run, "channel": name, "sample": float(sample), "count": float(len(bad))},
                    )
                )
    return found


def check_units(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Look for degrees where radians are meant: positions far beyond travel, or beyond two turns and the limits."""
    found = []
    limits = robot.limits
    q = np.max([np.abs(run.motion.q).max(axis=0) for run in runs], axis=0)
    dq = np.max([np.abs(run.motion.dq).max(axis=0) for run in runs], axis=0)
    travel = np.abs(limits.position).max(axis=1)
    turning = ~robot.mechanism.prismatic
    far = turning & (q > np.where(np.isfinite(travel), np.maximum(3.0 * travel, 4.0 * np.pi), 40.0 * np.pi))
    fast = turning & (dq > 20.0 * limits.velocity)
    if far.any() or fast.any():
        names = [name for name, hit in zip(robot.joint_names, far | fast, strict=True) if hit]
        what = "positions" if far.any() else "velocities"
        largest = float((q if far.any() else dq)[far | fast].max())
        found.append(
            Finding(
                "unusable",
                "degrees",
                f"{what} of {several(names)} reach {largest:.4g}, far beyond what the joints can do in radians",
                "they are probably in degrees: divide them, and their derivatives, by 57.3",
                {"joints": tuple(names), "largest": largest},
            )
        )
    return found


def check_limits(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Compare speeds and positions with the robot's limits."""
    found = []
    for j, name in enumerate(robot.joint_names):
        speed = max(float(np.abs(run.motion.dq[:, j]).max()) for run in runs)
        limit = float(robot.limits.velocity[j])
        if speed > TOO_FAST[0] * limit:
            found.append(
                Finding(
                    "unusable" if speed > TOO_FAST[1] * limit else "doubtful",
                    "speed",
                    f"joint {name} moves at up to {speed:.3g}, {speed / limit:.2g} times its limit {limit:.3g}",
                    "check gear ratio, unit and sample rate, or correct the limit in the robot's description",
                    {"joint": name, "ratio": speed / limit},
                )
            )
        low, high = robot.limits.position[j]
        lowest = min(float(run.motion.q[:, j].min()) for run in runs)
        highest = max(float(run.motion.q[:, j].max()) for run in runs)
        beyond = max(low - lowest, highest - high)
        if beyond > 0.05 * (high - low):
            found.append(
                Finding(
                    "doubtful",
                    "travel",
                    f"joint {name} goes from {lowest:.3g} to {highest:.3g}, beyond its travel {low:.3g} to {high:.3g}",
                    "check the sign and the zero of its position, or correct the limits in the robot's description",
                    {"joint": name, "beyond": beyond},
                )
            )
    return found


def check_derivatives(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Compare increments of positions with velocities, and of velocities with accelerations."""
    found = []
    for run in runs:
        moving = np.flatnonzero(moving_joints(robot, run))
        pairs = (
            ("velocity", "position", run.motion.q - run.motion.q.mean(axis=0), run.motion.dq),
            ("acceleration", "velocity", run.motion.dq, run.motion.ddq),
        )
        for rate, value, x, dx in pairs:
            fits = {int(j): _increments_fit(x[:, j], dx[:, j], run.sample_rate_hz) for j in moving}
            wrong = {j: fit for j, fit in fits.items() if fit[1] > 0.2 or not 0.8 < fit[0] < 1.25}
            if wrong:
                found.append(_derivative_finding(robot, run, rate, value, wrong, len(wrong) == len(moving)))
    return found


def check_moving(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Find joints that no run moves, and name the base parameters that this loses."""
    moves = np.any([moving_joints(robot, run) for run in runs], axis=0)
    found = []
    for j in np.flatnonzero(~moves):
        if int(j) in robot.locked:
            continue
        name, place = robot.joint_names[j], float(runs[0].motion.q[:, j].mean())
        lost = lost_when_locked(robot, {int(j): place}).lost
        found.append(
            Finding(
                "unusable",
                "does not move",
                f"joint {name} does not move in any run, so the data do not show {several(lost)}",
                "add a run that moves it, or declare it locked there",
                {"joint": name, "parameters": lost},
            )
        )
    return found


def check_reversals(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Count reversals of whatever dry friction senses: below two it cannot be told from an offset."""
    found = []
    seen: list[tuple[float, ...]] = []
    moves = np.any([moving_joints(robot, run) for run in runs], axis=0)
    for term in robot.drive.friction:
        senses = np.where(moves, term.senses, 0.0)
        key = tuple(senses)
        if term.model not in ("coulomb", "stribeck", "sqrt") or not senses.any() or key in seen:
            continue
        seen.append(key)
        count = reversals([run.motion.dq @ senses for run in runs])
        if count < 2:
            found.append(_reversal_finding(robot, term, count))
    return found


def reversals(velocities: Sequence[FloatArray]) -> int:
    """Count sign changes between moments faster than a dead zone, over all runs in a row."""
    fastest = max(float(np.abs(v).max()) for v in velocities)
    signs = np.concatenate([np.sign(v[np.abs(v) > TURNING * fastest]) for v in velocities])
    return int(np.count_nonzero(signs[1:] != signs[:-1]))


def _increments_fit(x: FloatArray, dx: FloatArray, rate_hz: float) -> tuple[float, float]:
    """Fit Δx = f ∫dx dt over windows, a tenth of them (seams, where samples were cut out) left aside."""
    area = np.concatenate([[0.0], np.cumsum(0.5 * (dx[1:] + dx[:-1]))]) / rate_hz
    ends = np.unique(np.linspace(0, len(x) - 1, min(WINDOWS, len(x)) + 1).round().astype(int))
    moved, integral = np.diff(x[ends]), np.diff(area[ends])
    if max(np.abs(moved).max(), np.abs(integral).max()) < STEADY * np.abs(x).max():
        return 1.0, 0.0  # a steady speed: its changes are noise
    factor, _ = fit_factor(integral, moved)
    kept = np.argsort(np.abs(moved - factor * integral))[: max(2, int(0.9 * len(moved)))]
    return fit_factor(integral[kept], moved[kept])


def _derivative_finding(
    robot: Robot, run: Samples, rate: str, value: str, wrong: dict[int, tuple[float, float]], everywhere: bool
) -> Finding:
    names = [robot.joint_names[j] for j in wrong]
    factors = np.array([factor for factor, _ in wrong.values()])
    clean = max(rest for _, rest in wrong.values()) < 0.2
    alike = clean and np.ptp(factors) < 0.05 * abs(factors.mean())
    factor = float(factors.mean())
    sentence = f"run {run.run!r}: {rate} of {several(names)} is not the derivative of {value}"
    remedy = "compute both from the same positions, filtered alike"
    if alike and abs(factor / DEGREES - 1.0) < 0.1:
        sentence, remedy = f"{sentence}, but 57.3 times smaller", f"{value} is probably in degrees: convert it"
    elif alike and abs(factor * DEGREES - 1.0) < 0.1:
        sentence, remedy = f"{sentence}, but 57.3 times larger", f"{rate} is probably in degrees: convert it"
    elif alike and abs(factor + 1.0) < 0.2:
        sentence, remedy = f"{sentence}, but its negative", "one of the two has the wrong sign"
    elif alike and everywhere:
        sentence = f"{sentence}: it is off by the factor {1.0 / factor if factor else np.inf:.3g} in all joints alike"
        remedy = f"the sample rate {run.sample_rate_hz:g} Hz is probably wrong"
    # accelerations decimated without a filter are noisy and yet right on the average: a doubt, not an end
    noisy = rate == "acceleration" and bool((np.abs(factors - 1.0) < 0.5).all())
    data: dict[str, float | str | tuple[str, ...]] = {"run": run.run, "joints": tuple(names), "factor": factor}
    return Finding("doubtful" if noisy else "unusable", "derivative", sentence, remedy, data)


def _reversal_finding(robot: Robot, term: FrictionTerm, count: int) -> Finding:
    joints = [name for name, sense in zip(robot.joint_names, term.senses, strict=True) if sense]
    terms = [other for other in robot.drive.friction if np.array_equal(other.senses, term.senses)]
    dry = [other.parameter for other in terms if other.model in ("coulomb", "stribeck", "sqrt")]
    offsets = [
        other.parameter
        for other in robot.drive.friction
        if other.model == "offset" and np.any((other.acts != 0.0) & (term.acts != 0.0))
    ]
    rival = several(offsets) if offsets else "an offset that the model does not have"
    who = "joint" if len(joints) == 1 else "the motor of joints"
    motion = "never reverses" if count == 0 else "reverses only once"
    return Finding(
        "unusable" if count == 0 and offsets else "doubtful",
        "never reverses",
        f"{who} {several(joints)} {motion}, so {several(dry)} cannot be told from {rival}",
        f"add a run that moves it to and fro, or leave {several(offsets or dry)} out of the model",
        {"joints": tuple(joints), "reversals": float(count), "parameters": tuple(dict.fromkeys([*dry, *offsets]))},
    )
