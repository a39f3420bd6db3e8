"""What are the columns of a regression along other motions of its runs? Simulated, commanded or noisier ones."""

from collections.abc import Mapping, Sequence

import numpy as np

from excitor.identify.regression import Decimation, Regression
from excitor.identify.samples import Samples
from excitor.identify.signals import differentiate, lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot


def columns_along(
    robot: Robot,
    runs: Sequence[Samples],
    motions: Sequence[Motion],
    regression: Regression,
    decimate: Decimation | None,
) -> FloatArray:
    """Evaluate a dynamic regression's columns on other motions of its runs, sample by sample, (n_rows, n_columns)."""
    if (regression.joint < 0).any():
        raise ExcitorError("equations of all joints' power have no columns along other motions; use the dynamic model")
    columns = layout(robot).indices(regression.names)
    W = np.empty(regression.W.shape)
    for number, (run, motion) in enumerate(zip(runs, motions, strict=True)):
        rows = regression.run == number
        Y = regressor(robot, motion)[:, :, columns]
        if decimate is not None and not run.static:
            Y = decimate(Y)
        W[rows] = Y[regression.sample[rows], regression.joint[rows]]
    return W


def commanded_motion(run: Samples, references: Mapping[str, Motion], rate_hz: float) -> Motion:
    """Read what a run's controller was told at the run's sample times; poses stay as they are held."""
    if run.static:
        return run.motion
    if run.run not in references:
        raise ExcitorError(f"run {run.run!r} has no reference; give what its controller was told")
    reference, n = references[run.run], len(run)
    stride = round(rate_hz / run.sample_rate_hz)
    if len(reference) < stride * (n - 1) + 1:
        raise ExcitorError(
            f"the reference of run {run.run!r} has {len(reference)} samples, expected {stride * (n - 1) + 1}: it "
            "must last from the run's first sample to its last"
        )
    at = slice(None, stride * n, stride)
    return Motion(reference.q[at], reference.dq[at], reference.ddq[at])


def processed_as(run: Samples, q: FloatArray, exact: Motion | None = None) -> Motion:
    """Take positions at a run's samples the way of the run's own: its low-pass and its differences.

    Where the run does not tell how it was differenced, `exact` is the motion; positions are differenced twice if there
    is none.
    """
    rate = run.sample_rate_hz
    names = [step.name for step in run.steps]
    for step in run.steps:
        cutoff = step.settings.get("cutoff_hz")
        if step.name == "lowpass" and isinstance(cutoff, int | float):
            true_cutoff = step.settings.get("true_cutoff") == "True"
            q = lowpass(q, sample_rate_hz=rate, cutoff_hz=float(cutoff), true_cutoff=true_cutoff)
    if "central differences" in names:
        ddq = np.empty_like(q)
        ddq[1:-1] = np.diff(q, n=2, axis=0) * rate**2
        ddq[0], ddq[-1] = ddq[1], ddq[-2]
        return Motion(q, differentiate(q, sample_rate_hz=rate), ddq)
    if "backward differences" in names:
        dq = _backward(q, rate)
        return Motion(q, dq, _backward(dq, rate))
    if "mid-sample differences" in names:
        after = np.concatenate([q[1:], 2.0 * q[-1:] - q[-2:-1]])
        dq = rate * (after - q)
        return Motion(0.5 * (q + after), dq, differentiate(dq, sample_rate_hz=rate))
    if exact is not None and "differentiate" not in names:
        return exact
    dq = differentiate(q, sample_rate_hz=rate)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=rate))


def _backward(x: FloatArray, rate: float) -> FloatArray:
    """Difference backward; what comes before the first sample is taken to go on straight."""
    dx = np.empty_like(x)
    dx[1:] = rate * np.diff(x, axis=0)
    dx[0] = dx[1]
    return dx
