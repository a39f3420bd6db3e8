"""Drive gains of a virtual TX-40 with a weighed 4.5 kg body: a serial robot, where some joints must be refused.

Motion, truth and noise are those of the virtual power-model study; the body's parameters are all known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from excitor.experiments.studies import tx40_virtual
from excitor.experiments.virtual import measure
from excitor.identify.drive_gains import (
    DriveGains,
    DriveRun,
    GainSystem,
    KnownLoad,
    Law,
    drive_gains,
    frobenius_fit,
    gain_system,
    known_load_fit,
    signal_fit,
)
from excitor.identify.regression import Rows
from excitor.identify.signals import lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SECONDS = 30.0
CUTOFF = 60.0
ENDS = 100
MASS = 4.5
CENTER = np.array([0.05, 0.02, 0.15])  # m, in the last link's frame
INERTIA = MASS / 12.0 * np.diag([0.02, 0.02, 0.02])  # of a cube with edges of 0.1 m
JOINT_GAINS = np.array([35.24, 32.04, 23.94, 9.05, 15.5, 6.56])  # N m/A with gears, as a public model states them
BELIEVED = 0.1  # a-priori gains are off by so much, up or down at random


@dataclass(frozen=True)
class Outcome:
    """One realisation: what is answered, and how far each method is off, in percent."""

    result: DriveGains
    answered: Mapping[str, float]  # joint -> error
    errors: Mapping[str, FloatArray]  # method -> (6,), all joints, asked or not
    gaps: Mapping[str, float]


def realise(seed: int) -> Outcome:
    """Simulate one pair of runs and identify the gains."""
    gains, system = equations(seed)
    result = drive_gains(system)
    fits = [signal_fit(system), frobenius_fit(system), known_load_fit(system)]
    return Outcome(
        result,
        {
            gain.drive: 100.0 * float(gain.values[0] / true - 1.0)
            for gain, true in zip(result.gains, gains, strict=True)
            if gain.values is not None
        },
        {fit.method: 100.0 * (fit.gains / gains - 1.0) for fit in fits},
        {fit.method: fit.gap for fit in fits},
    )


def equations(seed: int, seconds: float = SECONDS) -> tuple[FloatArray, GainSystem]:
    """Simulate and process a run without and one with the body; also tell the true gains."""
    robot = load("tx40")
    gains = JOINT_GAINS / np.abs(np.diag(robot.drive.motor_from_joint))
    body = KnownLoad("4.5 kg", -1, from_center_of_mass(MASS, CENTER, INERTIA), np.ones(10, dtype=bool))
    rng = np.random.default_rng(seed)
    runs = [_run(robot, gains, body=carried, rng=rng, seconds=seconds) for carried in (None, body)]
    laws = [Law((1,), np.array([g * (1.0 + BELIEVED * rng.choice([-1.0, 1.0]))])) for g in gains]
    rows = Rows(decimate=tx40_virtual.thin, dead_zone=np.full(robot.n_joints, tx40_virtual.DEAD_ZONE))
    return gains, gain_system(robot, runs, laws, rows=rows)


def _run(
    robot: Robot, gains: FloatArray, *, body: KnownLoad | None, rng: np.random.Generator, seconds: float
) -> DriveRun:
    chi = _truth(robot)
    if body is not None:
        chi[layout(robot).link(robot.mechanism.n_links - 1)] += body.phi
    motion = tx40_virtual.random_moves(rng, seconds, 0)
    tau = inverse_dynamics(robot, motion, chi)
    tau = measure.with_noise(tau, rng, white=tx40_virtual.WHITE, slow=tx40_virtual.SLOW)
    noisy = motion.q + rng.normal(scale=tx40_virtual.POSITION_NOISE, size=motion.q.shape)
    q = lowpass(noisy, sample_rate_hz=tx40_virtual.RATE, cutoff_hz=CUTOFF, true_cutoff=False)
    seen, cut = tx40_virtual.differentiated(q), slice(ENDS, -ENDS)
    name = "unloaded" if body is None else "loaded"
    signal = motor_torques(robot, tau)[cut] / gains
    return DriveRun(name, Motion(seen.q[cut], seen.dq[cut], seen.ddq[cut]), signal, body)


def _truth(robot: Robot) -> FloatArray:
    base = base_parameters(robot)
    declared = np.array([tx40_virtual.TRUTH.get(name, 0.0) for name in tx40_virtual.declared_names(robot)])
    return base.standard(np.linalg.solve(declared_transform(robot, base), declared))
