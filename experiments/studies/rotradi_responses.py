"""Responses of identified models: positions under recorded torques, open loop, and torques along recorded motions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.experiments.studies.rotradi_virtual import RATE, SUBSTEPS, Recorded, Truth
from excitor.identify.samples import backward
from excitor.identify.signals import lowpass
from excitor.identify.validate import friction_doubts, smallest_inertia
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import posture
from excitor.robots.simulate import Steps, simulate

SMOOTH = 20.0  # Hz
TOGETHER = 300  # models that are simulated side by side


@dataclass(frozen=True, eq=False, slots=True)
class Ask:
    """A model to be simulated under the commanded torque of a run, which acts `delay` s late."""

    theta: FloatArray
    run: Recorded
    delay: float = 0.0


def responses(known: Truth, asked: Sequence[Ask]) -> list[FloatArray]:
    """Simulate positions (n_samples, n_joints) from each run's first sample, at rest, under its torques.

    Torques are held from sample to sample, friction is smoothed as the virtual robot's is. Positions are inf from
    where a model flies away.
    """
    found: list[FloatArray] = []
    for first in range(0, len(asked), TOGETHER):
        part = asked[first : first + TOGETHER]
        torques = np.array([late(one.run.tau, one.delay).T for one in part])
        steps = Steps(1.0 / RATE, torques.shape[2], substeps=SUBSTEPS, held=True)
        chi = np.array([known.standard(one.theta) for one in part])
        start = posture(np.array([one.run.q[0] for one in part]))
        done = simulate(known.robot, torques, start=start, steps=steps, chi=chi)
        good = done.t < done.diverged_at[:, None]
        found += [q.T for q in np.where(good[:, None, :], done.q, np.inf)]
    return found


def late(tau: FloatArray, delay: float) -> FloatArray:
    """Delay held torques by any fraction of a sample: means over the samples' intervals, which keep the impulse."""
    whole, share = divmod(max(delay, 0.0) * RATE, 1.0)
    before = np.concatenate([np.zeros((int(whole) + 1, tau.shape[1])), tau])
    return (1.0 - share) * before[1 : len(tau) + 1] + share * before[: len(tau)]


def norms(simulated: FloatArray, run: Recorded) -> FloatArray:
    """Norms of simulated minus measured angles by joint, degrees; inf where the model flew away."""
    return np.asarray(np.linalg.norm(np.degrees(simulated - run.q), axis=0))


def impossible(known: Truth, thetas: Mapping[str, FloatArray]) -> dict[str, str]:
    """Say which models no robot can have: mass matrices that are not positive definite, friction that drives."""
    told = {}
    for name, theta in thetas.items():
        chi = known.standard(theta)
        lightest, doubts = smallest_inertia(known.robot, chi, []), friction_doubts(known.robot, chi)
        if not lightest > 0.0:
            told[name] = f"smallest eigenvalue of the mass matrix {lightest:.3g}"
        elif doubts:
            told[name] = doubts[0]
    return told


def computed_torques(known: Truth, theta: FloatArray, run: Recorded) -> FloatArray:
    """Compute torques from backward differences as the paper does, (n_samples - 2, n_joints), with a true sign."""
    motion = backward("computed", run.q, run.tau, RATE).motion
    return inverse_dynamics(known.sharp, motion, known.standard(theta))


def spanned(run: Recorded) -> FloatArray:
    """Average commanded torques over the two intervals that a second difference spans, (n_samples - 2, n_joints)."""
    return 0.5 * (run.tau[1:-1] + run.tau[:-2])


def torque_errors(known: Truth, theta: FloatArray, run: Recorded) -> dict[str, FloatArray]:
    """Relative errors of computed torques by joint: as they are, over what differences span, and without noise."""
    computed = computed_torques(known, theta, run)
    return {
        "of the same sample": _relative(computed, run.tau[2:]),
        "of the two intervals spanned": _relative(computed, spanned(run)),
        f"the same below {SMOOTH:g} Hz": _relative(smoothed(computed), smoothed(spanned(run))),
    }


def smoothed(x: FloatArray) -> FloatArray:
    """Low-pass without delay."""
    return lowpass(x, sample_rate_hz=RATE, cutoff_hz=SMOOTH)


def _relative(computed: FloatArray, applied: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(computed - applied, axis=0) / np.linalg.norm(applied, axis=0))
