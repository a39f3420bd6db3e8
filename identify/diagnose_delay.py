"""Do torques come at the time of the motion they belong to? The model is refitted to torques shifted in time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.finding import TURNING, Finding, Level
from excitor.identify.reversals import SETTLES, near_reversals
from excitor.identify.samples import Samples
from excitor.identify.subset import Subset
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

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


def check_delay(robot: Robot, runs: Sequence[Samples], data: Subset) -> list[Finding]:
    """Find the shift of torques against the motion at which the refitted model leaves least."""
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
    return [
        Finding(
            level,
            "delay",
            f"torques come {abs(late) * 1e3:.3g} ms {where} the motion that they belong to, at which the model leaves "
            f"{100 * found.left:.3g} % of them instead of {100 * (found.left + found.cost):.3g} %",
            f"shift them {'back' if late > 0.0 else 'on'} by {abs(late) * 1e3:.3g} ms, and filter both sides alike",
            {"delay_ms": late * 1e3, "cost": found.cost, "left": found.left},
        )
    ]


@dataclass(frozen=True, slots=True)
class Delay:
    """How late torques are, and what that costs."""

    late: float  # s; negative if they are early
    left: float  # share of the torques' norm that a model refitted at this shift leaves
    cost: float  # how much more it leaves without the shift
    sharp: bool  # whether noise alone could hardly move the optimum so far


def delay(robot: Robot, runs: Sequence[Samples], data: Subset) -> Delay | None:
    """Find the shift at which the refitted model leaves least; None if there are too few samples to tell."""
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
    """Weighted torques at shifted times, and what a refit of the model leaves of them."""

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
        """Share of the torques' power that a refit leaves, joints weighted."""
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
