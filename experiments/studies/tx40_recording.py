"""The public TX-40 recording: how it is read and processed, and what is fitted to it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.identify.consistent import ConsistentEstimate, consistent_fit, standard_columns
from excitor.identify.estimate import Estimate, compress, ols, wls
from excitor.identify.reduce import Essential, essential
from excitor.identify.regression import Regression, Rows, combine, dynamic_regression, pick_rows, power_regression
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import decimate, differentiate, lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.errors import InvalidLog
from excitor.robots.friction import joint_positions, joint_torques
from excitor.robots.robot import FrictionTerm, Motion, Robot

RATE = 5000.0
CUTOFF = 50.0
ENDS = 50  # samples dropped at both ends, where the filter rings
DEAD_ZONE = 0.01  # of each joint's speed limit
TRAIN_UNTIL = 4.7  # s: the second half is held out


@dataclass(frozen=True)
class Recording:
    """The recording as equations in the paper's parameters."""

    samples: Samples
    dynamic: Regression
    power: Regression
    standard: Regression  # the dynamic model in standard parameters, for the physically consistent fit


def read_recording(robot: Robot, folder: Path) -> Samples:
    """Read motor angles and motor torques (5 kHz, no time column) and turn them to the joint side."""
    q_motor = read_columns(folder / "pos_read_data.csv", robot.n_joints)
    tau_motor = read_columns(folder / "curr_data.csv", robot.n_joints)
    if len(q_motor) != len(tau_motor):
        raise InvalidLog(folder, f"has {len(q_motor)} positions and {len(tau_motor)} torques; they must pair up")
    q = lowpass(joint_positions(robot, q_motor), sample_rate_hz=RATE, cutoff_hz=CUTOFF, true_cutoff=False)
    dq = differentiate(q, sample_rate_hz=RATE)
    ddq = differentiate(dq, sample_rate_hz=RATE)
    kept = slice(ENDS, -ENDS)
    steps = (
        Step("joint side", {}),
        Step("lowpass", {"cutoff_hz": CUTOFF, "order": 4, "true_cutoff": "no"}),
        Step("differentiate", {"ends": "second-order"}),
        Step("drop ends", {"samples": ENDS}),
    )
    tau = joint_torques(robot, tau_motor)[kept]
    return Samples("recording", Motion(q[kept], dq[kept], ddq[kept]), tau, RATE, steps=steps)


def read_columns(path: Path, n_columns: int) -> FloatArray:
    """Read a CSV of numbers under one line of headings."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidLog(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = [float(cell) for cell in line.split(",")]
        except ValueError:
            raise InvalidLog(path, f"is {line[:40]!r}, expected {n_columns} numbers", number) from None
        if len(row) != n_columns:
            raise InvalidLog(path, f"has {len(row)} entries, expected {n_columns}", number)
        rows.append(row)
    return np.array(rows)


def regress(robot: Robot, samples: Samples) -> Recording:
    """Set up both models in the parameters that the paper declares."""
    T = declared_transform(robot, base_parameters(robot))
    assert robot.declared_base is not None
    names = robot.declared_base.names
    units = [""] * len(names)
    rows = Rows(decimate=thin, dead_zone=DEAD_ZONE * robot.limits.velocity)
    return Recording(
        samples,
        combine(dynamic_regression(robot, [samples], rows=rows), T, names, units),
        combine(power_regression(robot, [samples], rows=rows), T, names, units),
        dynamic_regression(robot, [samples], columns=standard_columns(robot), rows=rows),
    )


def printed_wrist(robot: Robot) -> Robot:
    """Give the wrist the friction that is printed under eq. (25), which does not balance power.

    Joint 5 gets Fsm6 s(dq6), joint 6 Fsm6 [s(dq5 + dq6) - s(dq6)]: two tied elements in place of one.
    """
    e5, e6 = np.eye(robot.n_joints)[4:6]
    others = tuple(term for term in robot.drive.friction if term.parameter != "Fsm6")
    printed = (FrictionTerm("Fsm6", "coulomb", e6, e5 - e6), FrictionTerm("Fsm6", "coulomb", e5 + e6, e6))
    return replace(robot, drive=replace(robot.drive, friction=(*others, *printed)))


def thin(x: FloatArray) -> FloatArray:
    """Decimate from 5 kHz to 50 Hz, two stages of ten."""
    flat = x.reshape(len(x), -1)
    thinned = decimate(flat, (10, 10))
    return thinned.reshape(len(thinned), *x.shape[1:])


def halves(regression: Regression) -> tuple[Regression, Regression]:
    """Split into the first part of the recording and the held-out rest."""
    before = regression.sample * 0.02 + ENDS / RATE < TRAIN_UNTIL
    return pick_rows(regression, before), pick_rows(regression, ~before)


def torque_error(regression: Regression, values: dict[str, float]) -> float:
    """Relative error |y - W β| / |y|; parameters that are not named are 0."""
    beta = np.array([values.get(name, 0.0) for name in regression.names])
    return float(np.linalg.norm(regression.y - regression.W @ beta) / np.linalg.norm(regression.y))


def joint_errors(regression: Regression, values: dict[str, float]) -> list[float]:
    """Relative error joint by joint."""
    return [
        torque_error(pick_rows(regression, regression.joint == j), values) for j in range(len(regression.joint_names))
    ]


def named(estimate: Estimate) -> dict[str, float]:
    """List an estimate's values by name."""
    return dict(zip(estimate.names, (float(value) for value in estimate.values), strict=True))


@dataclass(frozen=True)
class Fits:
    """Everything fitted to the recording."""

    wls: Estimate
    essential: dict[int, Essential]
    holdout: Estimate
    power: Estimate
    power_essential: Essential
    joint1: dict[str, float]
    consistent: ConsistentEstimate  # of the first part of the recording


def fit(robot: Robot, recording: Recording) -> Fits:
    """Fit the dynamic model, its essential parameters, the power model, and joint 1 alone."""
    factors = compress(recording.dynamic)
    power = compress(recording.power)
    first = pick_rows(recording.dynamic, recording.dynamic.joint == 0)
    alone = np.linalg.lstsq(first.W, first.y, rcond=None)[0]  # minimum norm: one joint does not tell 60 parameters
    return Fits(
        wls=wls(factors),
        essential={ratio: essential(factors, ratio=float(ratio)) for ratio in (10, 20, 30)},
        holdout=wls(compress(halves(recording.dynamic)[0])),
        power=ols(power),
        power_essential=essential(power, ratio=20.0, weighted=False),
        joint1=dict(zip(first.names, (float(value) for value in alone), strict=True)),
        consistent=consistent_fit(compress(halves(recording.standard)[0]), robot),
    )
