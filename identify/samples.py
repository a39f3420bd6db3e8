"""Samples of one run for regression: motion and torque on the joint side, sampled evenly.

Motion is differenced from encoder positions in three ways: backward, central, or at mid-sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from excitor.identify.periods import Average
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray, check_shape, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion, Robot

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Step:
    """A processing step of the data, with its settings; every result lists all of them."""

    name: str
    settings: Mapping[str, float | str]

    def __post_init__(self) -> None:
        for key, value in self.settings.items():
            if not isinstance(value, int | float | str):
                raise ValueError(f"setting {key} of step {self.name} is {value!r}, expected a number or a text")
        object.__setattr__(self, "settings", dict(self.settings))


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """One run: joint torques beside the motion that goes with them."""

    run: str
    motion: Motion
    tau: FloatArray  # (n_samples, n_joints)
    sample_rate_hz: float
    variance: FloatArray | None = None  # (n_samples, n_joints) of tau in a single repetition; None if run once
    steps: tuple[Step, ...] = ()
    static: bool = False  # poses held, one a row: neither thinned nor left out for standing still
    noise: FloatArray | None = None  # (n_lines, n_joints): density of tau's noise on its lines, if tau is a mean
    repetitions: int = 0  # of which tau is the mean; 0: nobody tells
    phase: float = (
        0.5  # where a sample's motion lies in the interval that its torque is held for; 0.5: they belong together
    )
    robot: Robot | None = None  # that they were processed for

    def __post_init__(self) -> None:
        shape = " ".join(str(size) for size in self.motion.q.shape)
        freeze(self, tau=shape, variance=f"{shape}?", noise=f"n_lines {self.motion.q.shape[1]}?")
        if not self.sample_rate_hz > 0.0:
            sentence = f"run {self.run!r}: sample_rate_hz is {self.sample_rate_hz}, expected a positive frequency"
            raise ValueError(sentence)
        if not 0.0 <= self.phase <= 1.0:
            raise ValueError(f"run {self.run!r}: phase is {self.phase}, expected 0 (start of its interval) to 1 (end)")

    def __len__(self) -> int:
        return len(self.motion)

    def __repr__(self) -> str:
        means = f", means of {self.repetitions} repetitions" if self.repetitions else ""
        kind = "poses" if self.static else f"samples at {self.sample_rate_hz:g} Hz"
        return f"<Samples {self.run!r}: {len(self)} {kind}, {self.tau.shape[1]} joints{means}>"

    def to_frame(self) -> "DataFrame":
        """Write motion and torques as a pandas DataFrame: time, then q, dq, ddq and tau of each joint, in SI units."""
        import pandas as pd

        given = {"q": self.motion.q, "dq": self.motion.dq, "ddq": self.motion.ddq, "tau": self.tau}
        held: dict[str, FloatArray] = {"time": np.arange(len(self)) / self.sample_rate_hz}
        held |= {f"{name}_{j + 1}": x[:, j] for name, x in given.items() for j in range(x.shape[1])}
        return pd.DataFrame(held)


def repeated(run: str, motion: Motion, tau: Average, rate: float, steps: tuple[Step, ...]) -> Samples:
    """Build samples from the means of repetitions, with the noise estimated from their spread."""
    noise = tau.noise_density
    return Samples(
        run, motion, tau.mean, rate, variance=tau.variance, noise=noise, repetitions=tau.n_repetitions, steps=steps
    )


def pick_samples(run: Samples, rows: slice) -> Samples:
    """Keep some samples of a run; without the noise's spectrum, which is of the whole."""
    variance = None if run.variance is None else run.variance[rows]
    return replace(run, motion=run.motion[rows], tau=run.tau[rows], variance=variance, noise=None)


def backward(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Difference backward, twice: velocities come half a sample late, accelerations a whole one, as published.

    The first two samples, which have no such differences, are left out.
    """
    q, tau = _checked(run, q, tau)
    dq = np.diff(q, axis=0) * rate
    motion = Motion(q[2:], dq[1:], np.diff(dq, axis=0) * rate)
    return Samples(run, motion, tau[2:], rate, steps=_step("backward differences"), phase=0.0)


def central(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Difference centrally: velocities and accelerations belong to the sample's own instant, ends are left out."""
    q, tau = _checked(run, q, tau)
    motion = Motion(q[1:-1], 0.5 * rate * (q[2:] - q[:-2]), np.diff(q, n=2, axis=0) * rate**2)
    return Samples(run, motion, tau[1:-1], rate, steps=_step("central differences"), phase=0.0)


def mid_sample(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Evaluate motion between samples, where difference quotients are centred, with the torque held there."""
    q, tau = _checked(run, q, tau)
    dq = np.diff(q, axis=0) * rate
    motion = Motion(0.5 * (q[1:] + q[:-1]), dq, differentiate(dq, sample_rate_hz=rate))
    return Samples(run, motion, tau[:-1], rate, steps=_step("mid-sample differences"), phase=0.5)


def _step(name: str) -> tuple[Step, ...]:
    return (Step(name, {}),)


def _checked(run: str, q: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    q, tau = np.asarray(q, dtype=float), np.asarray(tau, dtype=float)
    if q.ndim != 2 or len(q) < 4:
        raise ExcitorError(f"run {run!r}: positions have shape {q.shape}, expected 4 samples or more of every joint")
    check_shape(tau, f"{q.shape[0]} {q.shape[1]}", "tau")
    return q, tau
