"""A virtual Rotradi: the paper's kind of torque with noisy phases, held for 2.5 ms, read by quantised encoders.

The truth is the catalogue's robot, its Coulomb friction smoothed over 5 mrad/s. Amplitudes and frequencies of the
torque are lost; these were found by random search under limits of torque, range and conditioning. In the case "noisy"
drives lag and add noise: what is applied is not what was commanded, and only the command is recorded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.signal

from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.load import load
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import Steps, simulate, with_friction_width

Case = Literal["ideal", "noisy"]
CASES: tuple[Case, ...] = ("ideal", "noisy")
SECONDS = 10.0
RATE = 400.0
SUBSTEPS = 8
WIDTH = 5e-3  # rad/s, of the Coulomb friction's sign
QUANTUM = 2.0 * np.pi / 1_024_000
NOISE = np.array([0.5, 1.5, 0.15])  # N m, white, of the torques applied
LAG = ([0.0, 0.9], [1.0, -0.1])  # applied from commanded torque: 0.9 z⁻¹ / (1 - 0.1 z⁻¹), 1.11 samples
UNITS = (*["kg m²"] * 11, *["kg m"] * 2, *["N m"] * 2, *["N m s/rad"] * 3, *["N m"] * 3)


@dataclass(frozen=True, eq=False, slots=True)
class Excitation:
    """Torques α₁(1 - exp(-β t³)) + α₂ sin(w₁ t + r₁) + α₃ sin(w₂ t + r₂), joint by joint; r drawn anew each sample."""

    amplitude: FloatArray  # (n_joints, 3): α₁, α₂, α₃, N m
    frequency: FloatArray  # (n_joints, 2): w₁, w₂, rad/s
    phase_deg: FloatArray  # (n_joints, 2, 2): lowest and highest r₁, r₂
    rise: float = 0.5  # β, s⁻³

    def __post_init__(self) -> None:
        freeze(self, amplitude="n_joints 3", frequency="n_joints 2", phase_deg="n_joints 2 2")


IDENTIFICATION = Excitation(
    amplitude=np.array([[-1.20, 13.74, 13.29], [-4.91, 33.00, 42.65], [-0.90, 2.55, 2.17]]),
    frequency=np.array([[4.26, 12.15], [1.77, 11.38], [6.65, 12.34]]),
    phase_deg=np.array([[[-5, 45], [-35, 35]], [[-50, 0], [40, 100]], [[5, 35], [-30, 30]]]),
)
NEW = Excitation(
    amplitude=IDENTIFICATION.amplitude * [1.0, 0.8, 0.8],
    frequency=IDENTIFICATION.frequency * [1.15, 0.9],
    phase_deg=IDENTIFICATION.phase_deg,
)


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """The robot behind the encoders, and its 21 parameters θ = T β in the declared order."""

    robot: Robot  # friction smoothed as it is simulated
    sharp: Robot  # the same with a true sign, as the paper's regressors have it
    names: tuple[str, ...]
    T: FloatArray
    theta: FloatArray

    def __post_init__(self) -> None:
        freeze(self, T="n n", theta="n")

    def standard(self, theta: FloatArray) -> FloatArray:
        """Write θ as standard parameters that give the same torques."""
        return base_parameters(self.sharp).standard(np.linalg.solve(self.T, theta))


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """One run: what encoders and the controller tell, and what really happened."""

    q: FloatArray  # (n_samples, n_joints), of the encoders
    tau: FloatArray  # commanded; held until the next sample
    true: Motion
    applied: FloatArray

    def __post_init__(self) -> None:
        shape = "n_samples n_joints"
        freeze(self, q=shape, tau=shape, applied=shape)


@dataclass(frozen=True, eq=False, slots=True)
class Experiment:
    """A run for identification and one with a new torque, from one seed in one case."""

    seed: int
    case: Case
    identification: Recorded
    new: Recorded


def truth() -> Truth:
    """Load the robot; its declared parameters are the paper's 21."""
    robot = load("rotradi")
    base = base_parameters(robot)
    T = declared_transform(robot, base)
    assert robot.declared_base is not None
    theta = T @ base.values(robot.chi)
    return Truth(with_friction_width(robot, WIDTH), robot, robot.declared_base.names, T, theta)


def torques(excitation: Excitation, rng: np.random.Generator, n_samples: int) -> FloatArray:
    """Draw the torques of one run, (n_samples, n_joints)."""
    t = np.arange(n_samples)[:, None] / RATE
    low, high = np.radians(excitation.phase_deg).transpose(2, 0, 1)
    phase = rng.uniform(low, high, size=(n_samples, *low.shape))
    waves = np.sin(excitation.frequency * t[:, :, None] + phase)
    a = excitation.amplitude
    return np.asarray(a[:, 0] * (1.0 - np.exp(-excitation.rise * t**3)) + np.sum(a[:, 1:] * waves, axis=2))


def delivered(command: FloatArray, noise: FloatArray) -> FloatArray:
    """Let drives lag and add noise: the torques applied, (n_samples, n_joints)."""
    return np.asarray(scipy.signal.lfilter(*LAG, command, axis=0)) + noise


def experiments(known: Truth, seeds: Iterable[int], seconds: float = SECONDS) -> dict[tuple[int, Case], Experiment]:
    """Simulate both runs of each seed in both cases, all together: held torques, from rest with the arm hanging."""
    n_samples = round(seconds * RATE)
    keys: list[tuple[int, Case]] = []
    commands, applied = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        drawn = [torques(excitation, rng, n_samples) for excitation in (IDENTIFICATION, NEW)]
        noise = [rng.normal(scale=NOISE, size=command.shape) for command in drawn]
        for case in CASES:
            keys.append((seed, case))
            commands += drawn
            applied += drawn if case == "ideal" else [delivered(*pair) for pair in zip(drawn, noise, strict=True)]
    runs = _runs(known, commands, applied)
    return {key: Experiment(*key, runs[2 * k], runs[2 * k + 1]) for k, key in enumerate(keys)}


def _runs(known: Truth, commands: list[FloatArray], applied: list[FloatArray]) -> list[Recorded]:
    """Simulate runs side by side and read their encoders."""
    pushed = np.array(applied).transpose(0, 2, 1)
    steps = Steps(1.0 / RATE, pushed.shape[2], substeps=SUBSTEPS, held=True)
    start = posture(np.zeros(pushed.shape[:2]))
    done = simulate(known.robot, pushed, start=start, steps=steps, chi=known.robot.chi)
    motions = [Motion(*(x.T for x in run)) for run in zip(done.q, done.dq, done.ddq, strict=True)]
    return [
        Recorded(np.round(motion.q / QUANTUM) * QUANTUM, command, motion, torque)
        for motion, command, torque in zip(motions, commands, applied, strict=True)
    ]


def percent_errors(known: Truth, theta: FloatArray) -> FloatArray:
    """Relative errors of parameters, in percent of each."""
    return np.asarray(100.0 * np.abs(theta - known.theta) / np.abs(known.theta))
