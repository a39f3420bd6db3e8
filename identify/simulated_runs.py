"""What torques would a robot with given parameters have taken in the measured runs? They are simulated again.

    τ_s: torques of the simulated closed loop, under the runs' own servo;   W_s: regressor along its motion

Torque is what is compared: measured and simulated torques, and W_s, are thinned alike. Rows are those that the
measured runs have, whatever the simulated motion does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.regression import Regression, Rows, dynamic_regression, pick_rows
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import WIDTH, Followed, Servo, follow, smoothed


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """Measured runs with all that is needed to simulate them: what does not change from iteration to iteration."""

    robot: Robot  # true signs of friction smoothed
    runs: tuple[Samples, ...]
    references: tuple[Motion, ...]  # at the servo's rate, one a run
    strides: tuple[int, ...]  # servo samples a sample of the run
    servo: Servo
    columns: IntArray  # that are estimated
    rows: Rows
    kept: BoolArray  # which of all thinned rows take part
    measured: FloatArray  # (n_kept,), torques
    joint: IntArray  # (n_kept,)
    assumed: tuple[str, ...]  # runs whose measured motion stands in for an unknown reference

    def __post_init__(self) -> None:
        freeze(self, columns="int: n_columns", kept="bool: n_rows", measured="n_kept", joint="int: n_kept")

    @property
    def names(self) -> tuple[str, ...]:
        """Name all parameters of the robot."""
        return layout(self.robot).names

    @property
    def units(self) -> tuple[str, ...]:
        """Tell the units of all parameters."""
        return layout(self.robot).units

    @property
    def motion(self) -> Motion:
        """All references, one after another."""
        return Motion(*(np.concatenate([getattr(r, k) for r in self.references]) for k in ("q", "dq", "ddq")))


@dataclass(frozen=True, eq=False, slots=True)
class OutOfControl:
    """A simulated robot that its servo could not hold."""

    run: str
    at: float  # s

    @property
    def sentence(self) -> str:
        """Say it."""
        return f"the simulated robot got out of control {self.at:.3g} s into run {self.run!r}"


def set_up_replay(
    robot: Robot,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    columns: IntArray | None = None,
    rows: Rows | None = None,
    width: float = WIDTH,
) -> Replay:
    """Prepare runs for simulation; where a run's reference is not known its measured motion stands in for it.

    References are sampled at servo.rate_hz, a whole multiple of the run's rate.
    """
    columns = base_parameters(robot).kept if columns is None else columns
    rows, references = rows or Rows(), references or {}
    robot, runs = smoothed(robot, width), tuple(runs)
    if not runs:
        raise ExcitorError("there are no runs to simulate; give at least one")
    strides = tuple(_stride(run, servo) for run in runs)
    led = tuple(_reference(run, stride, references.get(run.run)) for run, stride in zip(runs, strides, strict=True))
    one = columns[:1]
    everything = dynamic_regression(robot, runs, columns=one, rows=Rows(rows.decimate))
    some = dynamic_regression(robot, runs, columns=one, rows=rows)
    kept = np.isin(_labels(everything), _labels(some))
    return Replay(
        robot=robot,
        runs=runs,
        references=led,
        strides=strides,
        servo=servo,
        columns=columns,
        rows=Rows(rows.decimate),
        kept=kept,
        measured=everything.y[kept],
        joint=everything.joint[kept],
        assumed=tuple(run.run for run in runs if run.run not in references),
    )


def replay_runs(replay: Replay, chi: FloatArray, servo: Servo) -> Regression | OutOfControl:
    """Simulate all runs: equations τ - τ_s = W_s δ of a small change of parameters."""
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return simulated
    both = [_beside(run, s, n) for run, s, n in zip(replay.runs, simulated, replay.strides, strict=True)]
    return pick_rows(dynamic_regression(replay.robot, both, columns=replay.columns, rows=replay.rows), replay.kept)


def differences(replay: Replay, chi: FloatArray, servo: Servo) -> FloatArray | OutOfControl:
    """Simulate all runs and compare torques alone: τ - τ_s, (n_kept,)."""
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return simulated
    thin = replay.rows.decimate or (lambda x: x)
    parts = [
        thin(run.tau - s.tau[::n][: len(run)]).T.ravel()
        for run, s, n in zip(replay.runs, simulated, replay.strides, strict=True)
    ]
    return np.asarray(np.concatenate(parts)[replay.kept])


def simulate_runs(replay: Replay, chi: FloatArray, servo: Servo) -> list[Followed] | OutOfControl:
    """Simulate all runs, at the servo's rate."""
    done = []
    for run, reference in zip(replay.runs, replay.references, strict=True):
        followed = follow(replay.robot, reference, servo, chi=chi)
        if followed.diverged:
            return OutOfControl(run.run, followed.diverged_at)
        done.append(followed)
    return done


def _beside(run: Samples, followed: Followed, stride: int) -> Samples:
    """Put the difference of torques beside the simulated motion, at the run's samples."""
    at = slice(None, stride * len(run), stride)
    motion = Motion(followed.motion.q[at], followed.motion.dq[at], followed.motion.ddq[at])
    return replace(run, motion=motion, tau=run.tau - followed.tau[at], steps=(*run.steps, Step("simulated motion", {})))


def _stride(run: Samples, servo: Servo) -> int:
    if run.static:
        raise ExcitorError(f"run {run.run!r} holds poses; a closed loop can only be simulated along a motion")
    stride = round(servo.rate_hz / run.sample_rate_hz)
    if stride < 1 or abs(stride * run.sample_rate_hz / servo.rate_hz - 1.0) > 1e-6:
        raise ExcitorError(
            f"run {run.run!r} has {run.sample_rate_hz:g} samples a second and the servo {servo.rate_hz:g}; the servo's "
            "rate must be a whole multiple of the run's: state the true one, or resample the run"
        )
    return stride


def _reference(run: Samples, stride: int, given: Motion | None) -> Motion:
    if given is None:
        return run.motion if stride == 1 else _resampled(run, stride)
    if len(given) < stride * (len(run) - 1) + 1:
        raise ExcitorError(
            f"the reference of run {run.run!r} has {len(given)} samples, expected "
            f"{stride * (len(run) - 1) + 1}: one for each step of the servo"
        )
    return given


def _resampled(run: Samples, stride: int) -> Motion:
    """Lay splines through a measured motion, for a servo that is faster than the log."""
    from scipy.interpolate import CubicSpline

    if len(run) < 2:
        raise ExcitorError(f"run {run.run!r} has {len(run)} samples, expected at least 2")
    t = np.arange(len(run), dtype=float)
    fine = np.arange(stride * (len(run) - 1) + 1) / stride
    return Motion(*(CubicSpline(t, x)(fine) for x in (run.motion.q, run.motion.dq, run.motion.ddq)))


def _labels(regression: Regression) -> IntArray:
    """Give each row a number of its own."""
    n_joints = len(regression.joint_names)
    return np.asarray((regression.run * n_joints + regression.joint) * 10**9 + regression.sample)


def full_parameters(robot: Robot, chi: FloatArray | None) -> FloatArray:
    """Check parameters, or start from none: chi (n_params,)."""
    n = len(layout(robot))
    if chi is None:
        return np.zeros(n)
    chi = np.array(chi, dtype=float)
    if chi.shape != (n,) or not np.isfinite(chi).all():
        raise ValueError(f"chi has shape {chi.shape}, expected {n} finite numbers, one a parameter of the robot")
    return chi
