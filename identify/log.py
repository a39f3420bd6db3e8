"""What came back from a robot: signals with a kind and a side on one time base, before anything is done to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.identify.logs.recording import Recording
from excitor.identify.samples import Step
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import InvalidLog
from excitor.robots.friction import joint_positions, joint_torques, torque_from_current
from excitor.robots.robot import Robot

Kind = Literal["position", "velocity", "acceleration", "torque", "current"]
Side = Literal["joint", "motor"]


@dataclass(frozen=True, eq=False, slots=True)
class Signal:
    """One quantity of all joints, in SI units, sampled together."""

    kind: Kind
    side: Side
    values: FloatArray  # (n_samples, n_joints)

    def __post_init__(self) -> None:
        freeze(self, values="n_samples n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class Log:
    """Signals on one even time base, and what reading them found or mended."""

    path: str
    sample_rate_hz: float
    start_s: float
    signals: tuple[Signal, ...]
    notes: tuple[str, ...] = ()
    raw: Recording | None = None  # what the file held, on its own clocks

    def signal(self, *kinds: Kind) -> Signal | None:
        """Find the first signal of one of these kinds, in the order given."""
        return next((signal for kind in kinds for signal in self.signals if signal.kind == kind), None)


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """Positions and torques on the joint side, and the steps that brought them there."""

    q: FloatArray
    tau: FloatArray
    sample_rate_hz: float
    steps: tuple[Step, ...]


def joint_side(robot: Robot, log: Log) -> Measured:
    """Bring positions and torques to the joint side: q = N⁻¹ q_motor, τ = Nᵀ τ_motor, currents through their law."""
    position = log.signal("position")
    effort = log.signal("torque", "current")
    for what, signal in (("positions", position), ("torques or currents", effort)):
        if signal is None:
            raise InvalidLog(log.path, f"has no {what}; declare their columns in the column map")
        if signal.values.shape[1] != robot.n_joints:
            count = signal.values.shape[1]
            raise InvalidLog(log.path, f"has {what} of {count} joints, expected the {robot.n_joints} of {robot.name}")
    assert position is not None
    assert effort is not None
    steps = [Step("read", {"file": log.path, "notes": "; ".join(log.notes)})]
    q, tau = position.values, effort.values
    if position.side == "motor":
        q = joint_positions(robot, q)
        steps.append(Step("positions to the joint side", {}))
    if effort.kind == "current":
        try:
            tau = torque_from_current(robot, tau)
        except ValueError as error:
            raise InvalidLog(log.path, str(error)) from None
        steps.append(Step("current to torque", {}))
    if effort.side == "motor" or effort.kind == "current":
        tau = joint_torques(robot, tau)
        steps.append(Step("torques to the joint side", {}))
    return Measured(q, tau, log.sample_rate_hz, tuple(steps))


def even_rate(path: str, time: FloatArray, rows: Sequence[int]) -> tuple[FloatArray, float, list[str]]:
    """Check a time base: which samples to keep, the rate in Hz, and what was mended.

    Repeated stamps are dropped; time that runs backward, gaps and an uneven rate are refused with their row.
    """
    notes: list[str] = []
    kept = np.ones(len(time), dtype=bool)
    step = np.diff(time)
    repeated = np.flatnonzero(step == 0.0)
    if repeated.size:
        kept[repeated + 1] = False
        first = rows[repeated[0] + 1]
        notes.append(f"{repeated.size} rows repeat the time of the row before (first: row {first}); they are left out")
        rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
        time = time[kept]
        step = np.diff(time)
    if len(time) < 3:
        raise InvalidLog(path, f"has {len(time)} samples, expected at least 3")
    backward = np.flatnonzero(step < 0.0)
    if backward.size:
        k = int(backward[0])
        raise InvalidLog(path, f"time runs backward, from {time[k]:g} to {time[k + 1]:g} s", rows[k + 1])
    interval = float(np.median(step))
    gap = np.flatnonzero(step > 1.5 * interval)
    if gap.size:
        k = int(gap[0])
        raise InvalidLog(
            path,
            f"{step[k]:g} s are missing before this row ({gap.size} gaps in all, the interval is {interval:g} s); "
            "cut the run there, or record it again",
            rows[k + 1],
        )
    jitter = float(np.abs(step - interval).max() / interval)
    if jitter > 0.2:
        k = int(np.argmax(np.abs(step - interval)))
        raise InvalidLog(
            path, f"the sampling interval varies by {100 * jitter:.0f} % ({step[k]:g} s here)", rows[k + 1]
        )
    if jitter > 0.01:
        notes.append(f"time stamps jitter by up to {100 * jitter:.0f} % of the interval; an even rate is taken")
    return kept, (len(time) - 1) / float(time[-1] - time[0]), notes
