"""Virtual parallel robots: a tool that writes Fourier figures, with and without a weighed body, and noisy signals.

Encoders and current references are sampled at 1 kHz with white noise; positions are filtered without delay and
differentiated, regressors and signals decimated alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.drive_gains import DriveRun, GainSystem, KnownLoad, Law, gain_system
from excitor.identify.regression import Rows
from excitor.identify.signals import decimate, differentiate, lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.closed_chain import ClosedLoop, inverse_geometry
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

RATE = 1000.0
SECONDS = 20
CUTOFF = 40.0
STEP = 20  # decimation, to 50 Hz
ENDS = 100  # samples dropped where filters ring
FREQUENCY, HARMONICS = 0.5, 5
MASS_ONLY = np.arange(10) == 9
BELIEVED = np.array([1.10, 0.90, 1.08])  # a-priori gains over the true ones


@dataclass(frozen=True)
class Setting:
    """One virtual robot: where its tool moves, what it weighs up, and how noisy its sensors are."""

    robot: str
    center: tuple[float, ...]
    reach: tuple[float, ...]  # half ranges of the tool, m
    load: float  # kg
    encoder: float  # rad or m, white
    signal: float  # unit of the drives' signals, white


SETTINGS: Mapping[str, Setting] = {
    "five_bar": Setting("five-bar", (0.0, 0.30), (0.07, 0.06), 1.2, 2e-6, 0.03),
    "orthoglide_rod": Setting("orthoglide-rod", (0.0, 0.0, 0.0), (0.07, 0.07, 0.07), 1.98, 1e-6, 0.08),
    "orthoglide_full": Setting("orthoglide", (0.0, 0.0, 0.0), (0.07, 0.07, 0.07), 1.98, 1e-6, 0.08),
    "delta": Setting("delta", (0.0, 0.0, -0.95), (0.22, 0.22, 0.10), 5.0, 2e-6, 0.05),
}


@dataclass(frozen=True)
class Known:
    """The truth behind a virtual robot: base parameters and gains by name."""

    parameters: Mapping[str, float]
    gains: FloatArray  # (n_drives,)


def truth(robot: Robot) -> Known:
    """Tell a robot's true base parameters and gains: those of its file."""
    base = base_parameters(robot)
    values = dict(zip(base.names, base.values(robot.chi).tolist(), strict=True))
    return Known(values, robot.drive.torque_from_current[:, 1])


def equations(setting: Setting, seed: int) -> tuple[Robot, GainSystem]:
    """Draw motions without and with the load, measure them, and set up the equations with wrong a-priori gains."""
    robot = load(setting.robot)
    rng = np.random.default_rng(seed)
    weight = KnownLoad("weighed body", -1, setting.load * MASS_ONLY, MASS_ONLY)
    runs = [measured(robot, setting, figure(robot, setting, rng), body, rng) for body in (None, weight)]
    gains = truth(robot).gains
    laws = [Law((1,), np.array([g])) for g in gains * BELIEVED[: len(gains)]]
    return robot, gain_system(robot, runs, laws, rows=Rows(decimate=thin))


def figure(robot: Robot, setting: Setting, rng: np.random.Generator) -> Motion:
    """Let the tool write a random Fourier figure that fills its box; derivatives are those of the series."""
    n = round(RATE / FREQUENCY)
    phase = 2.0 * np.pi * np.arange(n)[:, None] / n
    x: FloatArray = np.zeros((n, len(setting.reach)))
    for k in range(1, HARMONICS + 1):
        a, b = rng.normal(size=(2, len(setting.reach))) / k
        x += a * np.sin(k * phase) + b * np.cos(k * phase)
    low, high = x.min(axis=0), x.max(axis=0)
    x = (2.0 * x - low - high) / (high - low) * np.array(setting.reach) + np.array(setting.center)
    loop = robot.mechanism
    assert isinstance(loop, ClosedLoop)
    q = inverse_geometry(loop, x)
    spectrum, slope = np.fft.rfft(q, axis=0), 2j * np.pi * np.fft.rfftfreq(n, 1.0 / RATE)[:, None]
    dq, ddq = (np.fft.irfft(spectrum * slope**order, n, axis=0) for order in (1, 2))
    return Motion(q, dq, ddq)


def measured(
    robot: Robot, setting: Setting, period: Motion, body: KnownLoad | None, rng: np.random.Generator
) -> DriveRun:
    """Repeat a period for the whole run and measure it."""
    chi = robot.chi.copy()
    if body is not None:
        chi[layout(robot).link(robot.mechanism.n_links - 1)] += body.phi
    repeats = round(SECONDS * FREQUENCY)
    signal = np.tile(motor_torques(robot, inverse_dynamics(robot, period, chi)) / truth(robot).gains, (repeats, 1))
    signal += rng.normal(scale=setting.signal, size=signal.shape)
    noisy = np.tile(period.q, (repeats, 1)) + rng.normal(scale=setting.encoder, size=signal.shape)
    q = lowpass(noisy, sample_rate_hz=RATE, cutoff_hz=CUTOFF, true_cutoff=False)
    dq = differentiate(q, sample_rate_hz=RATE)
    ddq = differentiate(dq, sample_rate_hz=RATE)
    cut = slice(ENDS, -ENDS)
    name = "unloaded" if body is None else "loaded"
    return DriveRun(name, Motion(q[cut], dq[cut], ddq[cut]), signal[cut], body)


def thin(x: FloatArray) -> FloatArray:
    """Decimate to 50 Hz in one stage."""
    return decimate(x, (STEP,))


def noisy_again(system: GainSystem, setting: Setting, rng: np.random.Generator) -> GainSystem:
    """Add noise of the signals to equations that have none, filtered as the signals were; one gain a drive."""
    n_samples = SECONDS * round(RATE) - 2 * ENDS
    V = system.V.copy()
    for run in np.unique(system.run):
        noise = thin(rng.normal(scale=setting.signal, size=(n_samples, len(system.laws))))
        rows = system.run == run
        V[rows, system.drive[rows]] += noise[system.sample[rows], system.drive[rows]]
    return replace(system, V=V)
