"""Diagnosis of measured data before estimation: findings in sentences.

Checks cover the delay of torques against motion (the model is refitted to torques shifted in time); units, limits,
derivatives and reversals of the motion; sign, scale, unit, order and clipping of torques, compared with the prior
model; and the rank of the equations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.regression import SETTLES, Subset, near_reversals, subset
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread
from excitor.robots.base import lost_when_locked
from excitor.robots.dynamics import inverse_dynamics, regressor, rigid_torque
from excitor.robots.errors import AssemblyError
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Motion, Robot

RANK_TOLERANCE = 1e-7  # of column-normalised singular values
POOR_CONDITION = 1e4
FEW_SAMPLES = 5  # a joint, for each base parameter


Level = Literal["unusable", "doubtful", "note"]
STILL = 1e-3  # rad or m: a joint that covers less does not move
TURNING = 0.05  # of a joint's highest speed: slower is standstill, where the sign of a velocity is noise
LONGEST = 0.1  # s, that torques may be late or early
GRID = 20  # coarse shifts to either side
STEPS = 5  # towards the shift at which the model is linearised
SURE = 5.0  # σ: residuals are rarely white
LEAST_GAIN = 0.1  # of what the model leaves: noise alone moves the best shift about, at hardly any gain
COSTS: dict[Level, tuple[float, float]] = {  # from here on: residual lost, over the torque; and over what remains
    "unusable": (0.05, 0.5),
    "doubtful": (0.003, 0.03),
    "note": (0.001, 0.01),
}
TOO_FAST = (1.1, 3.0)  # of the velocity limit: doubtful, unusable
WILD = 1e6  # no joint of a robot goes so far, or takes so much, in SI units
DEGREES = 180.0 / np.pi
STEADY = 0.01  # of the largest value: increments smaller than this tell nothing
WINDOWS = 100  # a run is cut into so many pieces to compare increments
SCALES = (0.25, 4.0)  # a prior may be off so far
PERHAPS = (0.1, 10.0)  # a prior might be off so far, if no unit explains it
TELLING = 0.5  # share of a channel's power, friction apart, from which the prior's torque tells its scale
DEAD = 1e-3  # of the prior's torque: a channel that varies less says nothing
CLIPPED = 0.05  # of the samples: from here on, unusable


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or limitation of the data that an estimate would not show."""

    level: Level  # unusable: a number made of these data would mislead; doubtful: part of it would; note: worth knowing
    what: str  # the check that found it
    sentence: str
    remedy: str
    data: Mapping[str, float | str | tuple[str, ...]]

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}"


@one_blas_thread()
def diagnose(robot: Robot, runs: Samples | Sequence[Samples]) -> tuple[Finding, ...]:
    """Examine runs, worst findings first; later checks are left out where earlier ones make them meaningless."""
    runs = (runs,) if isinstance(runs, Samples) else tuple(runs)
    _check_fits(robot, runs)
    found = list(check_values(runs)) or list(check_units(robot, runs))
    if not found:
        found = [*check_derivatives(robot, runs), *check_limits(robot, runs)]
    stages = (_motion_and_channels, _torques, _equations)
    for stage in stages:
        if not usable(found):
            break
        try:
            found += list(stage(robot, runs))
        except AssemblyError as error:
            found.append(_out_of_reach(error))
    rank = {"unusable": 0, "doubtful": 1, "note": 2}
    return tuple(sorted(found, key=lambda finding: rank[finding.level]))


def _out_of_reach(error: AssemblyError) -> Finding:
    sentence = f"positions are measured that a closed chain cannot take: {error}"
    remedy = "check the order of the columns, their signs, units and zeros"
    return Finding("unusable", "workspace", sentence, remedy, {})


def usable(findings: Sequence[Finding]) -> bool:
    """Return True if no finding makes the data unusable for an estimate."""
    return all(finding.level != "unusable" for finding in findings)


def check_repetitions(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find runs whose noise cannot be separated from model error, or is known from few repetitions."""
    for run in runs:
        n = run.repetitions
        data: dict[str, float | str | tuple[str, ...]] = {"run": run.run, "repetitions": float(n)}
        if run.variance is None and n < 2:
            sentence = f"run {run.run!r} was measured once, so its noise cannot be separated from errors of the model"
            yield Finding("note", "repetitions", sentence, "repeat it five times or more", data)
        elif 0 < n < 5:
            sentence = (
                f"run {run.run!r} is the mean of {n} repetitions, so its noise is known to "
                f"{100 * np.sqrt(0.5 / (max(n, 2) - 1)):.0f} % only"
            )
            yield Finding("doubtful", "repetitions", sentence, "repeat it five times or more", data)


def check_amount(data: Subset, runs: Sequence[Samples]) -> list[Finding]:
    """Compare the number of samples with that of parameters."""
    n, needed = sum(len(run) for run in runs), len(data.names)
    if n >= FEW_SAMPLES * needed:
        return []
    return [
        Finding(
            "unusable" if n < needed else "doubtful",
            "few samples",
            f"there are {n} samples for {needed} base parameters",
            f"record longer, or thin out less: {FEW_SAMPLES * needed} samples are a beginning",
            {"samples": float(n), "parameters": float(needed)},
        )
    ]


def check_rank(data: Subset) -> list[Finding]:
    """Name the parameters that these motions do not show, or do not separate."""
    W = data.W.reshape(-1, data.W.shape[2])
    norms = np.linalg.norm(W, axis=0)
    shown = norms > 1e-12 * float(np.median(norms))
    absent = tuple(name for name, there in zip(data.names, shown, strict=True) if not there)
    names = [name for name, there in zip(data.names, shown, strict=True) if there]
    R = np.asarray(np.linalg.qr(W[:, shown] / norms[shown], mode="r"))
    return [*_absent(absent), *_inseparable(R, names)]


def _absent(names: tuple[str, ...]) -> list[Finding]:
    if not names:
        return []
    sentence = f"no equation contains {several(names)}"
    remedy = "add a run that shows them, or leave them out"
    return [Finding("unusable", "absent", sentence, remedy, {"parameters": names})]


def _inseparable(R: FloatArray, names: list[str]) -> list[Finding]:
    """Judge the condition of normalised columns by their triangle."""
    _, values, directions = np.linalg.svd(R)
    deficient = values <= RANK_TOLERANCE * values[0]
    if deficient.any():
        mixed = _strong(directions[deficient], names)
        sentence = f"{int(deficient.sum())} combinations of {several(mixed)} do not show in the torques"
        remedy = "add a run that moves them apart, or leave some out"
        return [Finding("unusable", "rank", sentence, remedy, {"parameters": mixed, "missing": float(deficient.sum())})]
    if not values[0] > POOR_CONDITION * values[-1]:
        return []
    mixed = _strong(directions[-1:], names)
    return [
        Finding(
            "doubtful",
            "condition",
            f"the motions hardly separate {several(mixed)}: condition number {values[0] / values[-1]:.0f}",
            "add a run designed for them, or report essential parameters only",
            {"parameters": mixed, "condition": float(values[0] / values[-1])},
        )
    ]


def _motion_and_channels(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    return [
        *check_moving(robot, runs),
        *check_reversals(robot, runs),
        *check_dead(robot, runs),
        *check_clipping(robot, runs),
        *check_repetitions(robot, runs),
    ]


def _torques(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    if not prior(robot).any():
        sentence = f"{robot.name} has no prior model, so sign, scale and order of torques were not checked"
        return [Finding("note", "no prior", sentence, "give masses and centres of mass, however rough", {})]
    data = subset(robot, runs)
    return check_order(robot, data.motion, data.tau) or list(check_scale(robot, data.motion, data.tau))


def _equations(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    data = subset(robot, runs)
    return [*check_amount(data, runs), *check_rank(data), *check_delay(robot, runs, data)]


def _strong(directions: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    weight = np.abs(directions).max(axis=0)
    return tuple(name for name, part in zip(names, weight, strict=True) if part > 0.2 * weight.max())


def _check_fits(robot: Robot, runs: Sequence[Samples]) -> None:
    if not runs:
        raise ValueError("there are no runs to examine")
    for run in runs:
        if run.tau.shape[1] != robot.n_joints:
            raise ValueError(
                f"run {run.run!r} has {run.tau.shape[1]} joints, {robot.name} has {robot.n_joints}; "
                "give the run of this robot, its columns one for each joint"
            )
        if len(run) < 10:
            raise ValueError(f"run {run.run!r} has {len(run)} samples, expected at least 10")


def moving_joints(robot: Robot, run: Samples) -> BoolArray:
    """Mark the joints that move in a run, (n_joints,); those that the robot locks count as still."""
    moves = np.ptp(run.motion.q, axis=0) > STILL
    moves[list(robot.locked)] = False
    return np.asarray(moves)


def fit_factor(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Fit y = f x: the factor, and the residual's share of y's norm."""
    power = float(x @ x)
    factor = float(x @ y) / power if power > 0.0 else 0.0
    size = float(np.linalg.norm(y))
    return factor, float(np.linalg.norm(y - factor * x)) / size if size > 0.0 else 0.0


def several(names: list[str] | tuple[str, ...]) -> str:
    """Write names as a list that can be read."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def check_delay(robot: Robot, runs: Sequence[Samples], data: Subset) -> list[Finding]:
    """Find the delay of torques against the motion, by the least residual of the refitted model."""
    found = delay(robot, runs, data)
    if found is None:
        return []
    levels: list[Level] = [
        level for level, (cost, ratio) in COSTS.items() if found.cost > cost and found.cost > ratio * found.left
    ]
    if not found.sharp or not levels or found.cost < LEAST_GAIN * found.left:
        return []
    late, level = found.late, levels[0]
    where = "after" if late > 0.0 else "before"
    sentence = (
        f"torques come {abs(late) * 1e3:.3g} ms {where} the motion that they belong to, at which the model leaves "
        f"{100 * found.left:.3g} % of them instead of {100 * (found.left + found.cost):.3g} %"
    )
    remedy = f"shift them {'back' if late > 0.0 else 'on'} by {abs(late) * 1e3:.3g} ms, and filter both sides alike"
    return [Finding(level, "delay", sentence, remedy, {"delay_ms": late * 1e3, "cost": found.cost, "left": found.left})]


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay of torques against the motion, and its effect on the residual."""

    late: float  # s; negative if they are early
    left: float  # share of the torques' norm that a model refitted at this shift leaves
    cost: float  # how much more it leaves without the shift
    sharp: bool  # whether noise alone could hardly move the optimum so far


def delay(robot: Robot, runs: Sequence[Samples], data: Subset) -> Delay | None:
    """Estimate the shift at which the refitted model's residual is least; None if there are too few samples."""
    rate = runs[0].sample_rate_hz
    reach = int(min(round(LONGEST * rate), min(len(run) for run in runs) // 10))
    inside = _inside(runs, data, reach, rate)
    if reach < 2 or np.count_nonzero(inside) * robot.n_joints < 2 * len(data.names):
        return None
    whole, search = _Search(robot, runs, data, inside, 0.0), _Search(robot, runs, data, inside, SETTLES)
    step = max(1, reach // GRID)
    best = min(range(-(reach // step) * step, reach + 1, step), key=whole.left)
    late, sigma = search.refined(best)
    for _ in range(STEPS):
        near = int(np.clip(round(late * rate), -reach, reach))
        if near == best:
            break
        best = near
        late, sigma = search.refined(best)
    late = float(np.clip(late, -reach / rate, reach / rate))
    least, now = whole.left(round(late * rate)), whole.left(0)
    sharp = bool(abs(late) > SURE * sigma)
    return Delay(late, float(np.sqrt(least)), float(np.sqrt(now) - np.sqrt(least)), sharp)


class _Search:
    """Weighted torques at shifted times, and the residuals of a refitted model."""

    def __init__(self, robot: Robot, runs: Sequence[Samples], data: Subset, inside: BoolArray, within: float) -> None:
        self.runs = runs
        self.rate = runs[0].sample_rate_hz
        self.run, self.sample = data.run[inside], data.sample[inside]
        tau, dq = self.shifted(0), np.abs(data.motion.dq[inside])
        size = np.sqrt(np.mean(tau**2, axis=0))
        turning = [near_reversals(robot, run.motion.dq, run.sample_rate_hz, within=within) for run in runs]
        turns = np.concatenate([turning[number][self.sample[self.run == number]] for number in range(len(runs))])
        moving = (dq > TURNING * dq.max(axis=0)) & ~turns  # at standstill friction is anything, early and late
        self.weights = np.where(moving, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)  # fair to all joints
        self.basis = _orthonormal((data.W[inside] * self.weights[:, :, None]).reshape(tau.size, -1))
        self.size = float(np.linalg.norm(tau * self.weights)) or 1.0
        self.n_rows = int(np.count_nonzero(moving))
        self.robot, self.data = robot, data
        self.inside = inside
        self.known: dict[int, float] = {}

    def left(self, shift: int) -> float:
        """Residual's share of the torques' power after a refit, joints weighted."""
        if shift not in self.known:
            y = (self.shifted(shift) * self.weights).ravel() / self.size
            self.known[shift] = max(float(y @ y - np.sum((self.basis.T @ y) ** 2)), 1e-12)
        return self.known[shift]

    def refined(self, shift: int) -> tuple[float, float]:
        """Find how late torques are, s, and σ of that, about a shift: τ(t + s) = W β + (s - late) dτ/dt.

        The slope is the model's: noise of the torques does not move it, as it moves the best of all shifts.
        """
        y = (self.shifted(shift) * self.weights).ravel() / self.size
        slope = self._slopes(shift)
        slope = slope - self.basis @ (self.basis.T @ slope)
        y = y - self.basis @ (self.basis.T @ y)
        steep = float(slope @ slope)
        if not steep > 0.0:
            return 0.0, np.inf
        ahead = float(slope @ y) / steep
        left = y - ahead * slope
        sigma = np.sqrt(float(left @ left) / max(self.n_rows - self.basis.shape[1] - 1, 1) / steep)
        return shift / self.rate - ahead, float(sigma)

    def _slopes(self, shift: int) -> FloatArray:
        """Differentiate the torques of the model that fits them at a shift, weighted."""
        robot, rows = self.robot, self.weights.ravel()
        W = self.data.W[self.inside].reshape(-1, self.data.W.shape[2]) * rows[:, None]
        norms = np.linalg.norm(W, axis=0)
        norms = np.where(norms > 0.0, norms, 1.0)
        beta = np.linalg.lstsq(W / norms, rows * self.shifted(shift).ravel(), rcond=1e-9)[0] / norms
        chi = np.zeros(len(layout(robot)))
        chi[[layout(robot).index(name) for name in self.data.names]] = beta
        found = [
            np.gradient(inverse_dynamics(robot, run.motion, chi), 1.0 / run.sample_rate_hz, axis=0)[
                self.sample[self.run == number]
            ]
            for number, run in enumerate(self.runs)
        ]
        return np.asarray((np.concatenate(found) * self.weights).ravel() / self.size)

    def shifted(self, shift: int) -> FloatArray:
        """Torques `shift` samples after the motion, (n_samples, n_joints)."""
        return np.concatenate(
            [run.tau[self.sample[self.run == number] + shift] for number, run in enumerate(self.runs)]
        )


def _inside(runs: Sequence[Samples], data: Subset, reach: int, rate: float) -> BoolArray:
    """Mark samples that stay within their run at every shift; runs of another sample rate stay out."""
    lengths: IntArray = np.array([len(run) if run.sample_rate_hz == rate else 0 for run in runs])
    return np.asarray((data.sample >= reach) & (data.sample + reach < lengths[data.run]))


def _orthonormal(W: FloatArray) -> FloatArray:
    norms = np.linalg.norm(W, axis=0)
    U, values, _ = np.linalg.svd(W[:, norms > 0.0] / norms[norms > 0.0], full_matrices=False)
    return np.asarray(U[:, values > 1e-9 * values[0]])


def check_values(runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find values that cannot be measurements."""
    for run in runs:
        channels = {"q": run.motion.q, "dq": run.motion.dq, "ddq": run.motion.ddq, "tau": run.tau}
        for name, values in channels.items():
            bad = np.argwhere(~(np.abs(values) < WILD))
            if bad.size:
                sample, joint = (int(k) for k in bad[0])
                yield Finding(
                    "unusable",
                    "values",
                    f"run {run.run!r}: {name} of joint {joint + 1} is {values[sample, joint]:g} at sample "
                    f"{sample}, and {len(bad)} values in all are beyond {WILD:g}",
                    "repair the recording, or cut these samples out before anything is filtered",
                    {"run": run.run, "channel": name, "sample": float(sample), "count": float(len(bad))},
                )


def check_units(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find degrees where radians are expected: positions far beyond travel, or beyond two turns and the limits."""
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
        sentence = f"{what} of {several(names)} reach {largest:.4g}, far beyond what the joints can do in radians"
        remedy = "they are probably in degrees: divide them, and their derivatives, by 57.3"
        yield Finding("unusable", "degrees", sentence, remedy, {"joints": tuple(names), "largest": largest})


def check_limits(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Compare speeds and positions with the robot's limits."""
    for j, name in enumerate(robot.joint_names):
        speed = max(float(np.abs(run.motion.dq[:, j]).max()) for run in runs)
        limit = float(robot.limits.velocity[j])
        if speed > TOO_FAST[0] * limit:
            yield Finding(
                "unusable" if speed > TOO_FAST[1] * limit else "doubtful",
                "speed",
                f"joint {name} moves at up to {speed:.3g}, {speed / limit:.2g} times its limit {limit:.3g}",
                "check gear ratio, unit and sample rate, or correct the limit in the robot's description",
                {"joint": name, "ratio": speed / limit},
            )
        low, high = robot.limits.position[j]
        lowest = min(float(run.motion.q[:, j].min()) for run in runs)
        highest = max(float(run.motion.q[:, j].max()) for run in runs)
        beyond = max(low - lowest, highest - high)
        if beyond > 0.05 * (high - low):
            yield Finding(
                "doubtful",
                "travel",
                f"joint {name} goes from {lowest:.3g} to {highest:.3g}, beyond its travel {low:.3g} to {high:.3g}",
                "check the sign and the zero of its position, or correct the limits in the robot's description",
                {"joint": name, "beyond": beyond},
            )


def check_derivatives(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Compare increments of positions with velocities, and of velocities with accelerations."""
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
                yield _derivative_finding(robot, run, rate, value, wrong, len(wrong) == len(moving))


def check_moving(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find joints that no run moves, and name the base parameters that are therefore not identifiable."""
    for j in np.flatnonzero(~np.any([moving_joints(robot, run) for run in runs], axis=0)):
        if int(j) in robot.locked:
            continue
        name, place = robot.joint_names[j], float(runs[0].motion.q[:, j].mean())
        lost = lost_when_locked(robot, {int(j): place}).lost
        sentence = f"joint {name} does not move in any run, so the data do not show {several(lost)}"
        remedy = 'add a run that moves it, declare it locked there, or write mode = "in-process" in [identify]'
        yield Finding("unusable", "does not move", sentence, remedy, {"joint": name, "parameters": lost})


def check_reversals(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Count reversals of the velocity of each dry friction: below two it cannot be separated from an offset."""
    seen: list[tuple[float, ...]] = []
    moves = np.any([moving_joints(robot, run) for run in runs], axis=0)
    for term in robot.drive.friction:
        senses = np.where(moves, term.senses, 0.0)
        key = tuple(senses)
        if not _is_dry(term) or not senses.any() or key in seen:
            continue
        seen.append(key)
        count = reversals([_whole(run, senses) for run in runs])
        if count < 2:
            yield _reversal_finding(robot, term, count)


def _whole(run: Samples, senses: FloatArray) -> FloatArray:
    """Compute what a term senses; a mean of periods is cut where it is fastest, and closed there."""
    v = run.motion.dq @ senses
    cut = int(np.argmax(np.abs(v)))
    return np.concatenate([v[cut:], v[: cut + 1]]) if run.repetitions else v


def _is_dry(term: FrictionTerm) -> bool:
    """Tell whether a term looks like an offset as long as the motion does not reverse."""
    row = friction_model(term)
    return row.reverses and not row.load


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
    dry = [other.parameter for other in terms if _is_dry(other)]
    offsets = [
        other.parameter
        for other in robot.drive.friction
        if friction_model(other).shape == "constant" and np.any((other.acts != 0.0) & (term.acts != 0.0))
    ]
    rival = several(offsets) if offsets else "an offset that the model does not have"
    who = "joint" if len(joints) == 1 else "the motor of joints"
    motion = "never reverses" if count == 0 else "reverses only once"
    return Finding(
        "unusable" if count == 0 and offsets else "doubtful",
        "never reverses",
        f"{who} {several(joints)} {motion}, so {several(dry)} cannot be separated from {rival}",
        f"add a run that moves it to and fro, or leave {several(offsets or dry)} out of the model",
        {"joints": tuple(joints), "reversals": float(count), "parameters": tuple(dict.fromkeys([*dry, *offsets]))},
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """One torque channel by a multiple of one joint's prior torque and that joint's friction."""

    factor: float
    explained: float  # share of the channel's power, friction apart, that the multiple explains
    share: float  # norm of the prior's torque over that of the channel, friction apart
    misfit: float  # share of the channel's variance left by friction and a multiple between SCALES
    dissipation: float  # power of the friction part over the product of norms, negative if it drives the joint


def check_clipping(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find torques that stay at their extreme for several samples, or at the joint's limit."""
    for run in runs:
        for j, name in enumerate(robot.joint_names):
            tau, limit = run.tau[:, j], float(robot.limits.torque[j])
            count = _held_extreme(tau)
            at_limit = int(np.count_nonzero(np.abs(np.abs(tau) - limit) < 1e-3 * limit)) if np.isfinite(limit) else 0
            if count == 0 and at_limit < max(3.0, 0.005 * len(tau)):
                continue
            share = max(count, at_limit) / len(tau)
            yield Finding(
                "unusable" if share > CLIPPED else "doubtful",
                "clipped",
                f"run {run.run!r}: torque of joint {name} stays at {np.abs(tau).max():.4g} for "
                f"{max(count, at_limit)} of {len(tau)} samples: it is clipped",
                "leave these samples out, or repeat the run with less acceleration",
                {"run": run.run, "joint": name, "share": share},
            )


def check_dead(robot: Robot, runs: Sequence[Samples]) -> Iterator[Finding]:
    """Find torque channels that do not change while their joint moves."""
    for j, name in enumerate(robot.joint_names):
        active = [run for run in runs if moving_joints(robot, run)[j]]
        if not active:
            continue
        tau = np.concatenate([run.tau[:, j] for run in active])
        model = np.concatenate([rigid_torque(robot, run.motion)[:, j] for run in active])
        if np.ptp(tau) <= DEAD * 1e-3 * np.ptp(model) or np.ptp(tau) == 0.0:
            sentence = f"torque of joint {name} stays at {tau[0]:.4g} while the joint moves"
            remedy = "check that its channel was recorded and converted"
            yield Finding("unusable", "dead channel", sentence, remedy, {"joint": name})


def check_order(robot: Robot, motion: Motion, tau: FloatArray) -> list[Finding]:
    """Test whether exchanging two joints, in torque or motion or both, explains the torques much better."""
    n = robot.n_joints
    usual = cross_fits(robot, motion, tau)
    if sum(usual[i][i].factor < 0.0 and usual[i][i].explained > TELLING for i in range(n)) > n // 2:
        return []  # signs are wrong, which are named one by one
    own = np.array([usual[i][i].misfit for i in range(n)])
    trials: dict[tuple[str, int, int], float] = {}
    for i in range(n):
        for j in range(i + 1, n):
            order = np.arange(n)
            order[[i, j]] = j, i
            trials["torques", i, j] = _gain(own, np.array([usual[order[k]][k].misfit for k in range(n)]))
            if robot.mechanism.prismatic[i] != robot.mechanism.prismatic[j]:
                continue
            swapped = Motion(motion.q[:, order], motion.dq[:, order], motion.ddq[:, order])
            try:
                fits = cross_fits(robot, swapped, tau)
            except AssemblyError:  # a closed chain cannot have been there
                continue
            trials["positions", i, j] = _gain(own, np.array([fits[k][k].misfit for k in range(n)]))
            trials["torques and positions", i, j] = _gain(own, np.array([fits[order[k]][k].misfit for k in range(n)]))
    best = min(trials, key=lambda key: trials[key], default=None)
    if best is None or trials[best] > np.log(0.2):
        return []
    what, i, j = best
    names = (robot.joint_names[i], robot.joint_names[j])
    return [
        Finding(
            "unusable",
            "swapped",
            f"{what} of joints {several(names)} seem exchanged: the prior model explains them "
            f"{np.exp(-0.5 * trials[best]):.2g} times better the other way round",
            "correct the order of columns",
            {"channels": what, "joints": names, "gain": float(np.exp(-0.5 * trials[best]))},
        )
    ]


def check_scale(robot: Robot, motion: Motion, tau: FloatArray) -> Iterator[Finding]:
    """Find torques of wrong sign, unit or side of the gear, joint by joint."""
    fits = cross_fits(robot, motion, tau)
    links = replace(robot, chi=np.where(np.arange(len(robot.chi)) < layout(robot).n_link_params, robot.chi, 0.0))
    felt = cross_fits(links, motion, tau)  # by sensors at the joints, beyond rotors
    for j, name in enumerate(robot.joint_names):
        fit = fits[j][j]
        if felt[j][j].explained > TELLING and SCALES[0] < felt[j][j].factor < SCALES[1]:
            fit = felt[j][j]
        if fit.explained > TELLING:
            if not SCALES[0] < fit.factor < SCALES[1]:
                yield _scale_finding(robot, j, fit.factor)
        elif fit.dissipation < -0.5:
            sentence = f"torque of joint {name} has the wrong sign: friction would drive the joint"
            remedy = "reverse the sign of the torque, or of the position"
            yield Finding("unusable", "sign", sentence, remedy, {"joint": name, "factor": fit.factor})
        elif fit.share > 1.0 and fit.explained < 0.1:
            sentence = f"torque of joint {name} has nothing of what the prior model expects ({fit.factor:.2g} of it)"
            remedy = "check which channel this is, its unit, and the prior masses"
            yield Finding("doubtful", "unrelated", sentence, remedy, {"joint": name, "factor": fit.factor})


def cross_fits(robot: Robot, motion: Motion, tau: FloatArray) -> list[list[Fit]]:
    """Fit every torque channel by every joint's model: fits[channel][joint]."""
    model = rigid_torque(robot, motion)
    columns = regressor(robot, motion)[:, :, layout(robot).n_link_params :]
    by_joint = []
    for j in range(robot.n_joints):
        friction = _friction_columns(robot, motion, j, columns[:, j])
        basis, values, _ = np.linalg.svd(friction, full_matrices=False)
        by_joint.append(
            [
                _fit(tau[:, i], model[:, j], basis[:, values > 1e-9 * values[0]], motion.dq[:, j])
                for i in range(robot.n_joints)
            ]
        )
    return [[by_joint[j][i] for j in range(robot.n_joints)] for i in range(robot.n_joints)]


def _friction_columns(robot: Robot, motion: Motion, j: int, columns: FloatArray) -> FloatArray:
    """Collect the free columns of joint j's torque, (n_samples, n_columns): friction, unknown rotors."""
    params = layout(robot)
    chi = robot.chi[params.n_link_params :]
    rotors = set(params.rotor_columns)
    free = [k for k in range(columns.shape[1]) if k + params.n_link_params not in rotors or chi[k] == 0.0]
    dq = motion.dq[:, j]
    own = np.column_stack([dq, np.sign(dq), np.ones(len(dq)), columns[:, free]])
    size = np.linalg.norm(own, axis=0)
    return np.asarray(own[:, size > 0.0] / size[size > 0.0])


def _fit(tau: FloatArray, model: FloatArray, basis: FloatArray, dq: FloatArray) -> Fit:
    t, m = tau - basis @ (basis.T @ tau), model - basis @ (basis.T @ model)
    power, both, left = float(m @ m), float(m @ t), float(t @ t)
    varies = float(np.sum((tau - tau.mean()) ** 2))
    if power <= 1e-12 * float(model @ model) or left <= 0.0 or varies <= 0.0:
        return Fit(0.0, 0.0, 0.0, min(left / varies, 1.0) if varies > 0.0 else 1.0, 0.0)
    factor = both / power
    allowed = float(np.clip(factor, *SCALES))
    friction = basis @ (basis.T @ (tau - factor * model))
    size = float(np.linalg.norm(friction) * np.linalg.norm(dq))
    telling = float(np.linalg.norm(friction)) > 0.3 * float(np.linalg.norm(tau))
    return Fit(
        factor=factor,
        explained=both**2 / (power * left),
        share=float(np.sqrt(power / left)),
        misfit=min(1.0, max(float(np.sum((t - allowed * m) ** 2)) / varies, 1e-6)),
        dissipation=float(dq @ friction) / size if size > 0.0 and telling else 0.0,
    )


def _gain(before: FloatArray, after: FloatArray) -> float:
    """Sum the logarithms of the ratios of the joints' misfits; misfits below 0.1 % count as 0.1 %."""
    return float(np.log(np.maximum(after, 1e-3) / np.maximum(before, 1e-3)).sum())


def _scale_finding(robot: Robot, j: int, factor: float) -> Finding:
    name = robot.joint_names[j]
    gear, limit = float(np.abs(robot.drive.motor_from_joint[j, j])), float(robot.limits.torque[j])
    meanings = {1.0: "", 1e3: "it is in N mm", 1e-3: "it is in kN m"}
    if np.isfinite(limit):
        meanings |= {100.0 / limit: "it is in percent of the torque limit", 1.0 / limit: "it is a share of the limit"}
    if gear > 3.0:
        meanings |= {1.0 / gear: "it is the motor's torque, before the gear", gear: "the gear was applied twice"}
    nearest = min(meanings, key=lambda scale: abs(np.log(abs(factor) / scale)))
    off = abs(np.log(abs(factor) / nearest)) > np.log(2.0)
    meaning = "no unit explains it: is it a current?" if off else meanings[nearest]
    sign = "has the wrong sign" if factor < 0.0 else ""
    scale = "" if nearest == 1.0 and not off else f"is {abs(factor):.3g} times what the prior model expects ({meaning})"
    wrong = " and ".join(part for part in (sign, scale) if part)
    prior_perhaps = off and PERHAPS[0] < factor < PERHAPS[1]
    return Finding(
        "doubtful" if prior_perhaps else "unusable",
        "sign" if factor < 0.0 else "scale",
        f"torque of joint {name} {wrong or f'is {factor:.2g} times what the prior model expects'}",
        "correct the conversion of this channel" if scale else "reverse its sign" if sign else "check unit and masses",
        {"joint": name, "factor": factor, "meaning": meaning},
    )


def _held_extreme(tau: FloatArray) -> int:
    """Count samples in runs of identical values at either extreme, if such runs are longer than elsewhere."""
    if np.ptp(tau) == 0.0:
        return 0
    starts = np.flatnonzero(np.concatenate([[True], np.diff(tau) != 0.0]))
    lengths = np.diff(np.append(starts, len(tau)))
    values = tau[starts]
    extreme = (values == tau.max()) | (values == tau.min())
    usual = int(lengths[~extreme].max()) if (~extreme).any() else 1
    return int(lengths[extreme & (lengths >= max(4, 2 * usual))].sum())
