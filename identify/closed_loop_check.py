"""Does an identified model move and take torques as the robot did? Simulated under the robot's own servo.

For geared and feedback-controlled robots: open simulation would show how far errors integrate, not how good a model is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.identify.simulated_runs import OutOfControl, set_up_replay, simulate_runs
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import WIDTH, Servo


@dataclass(frozen=True, eq=False, slots=True)
class ClosedLoopRun:
    """One run simulated in closed loop, beside what was measured."""

    run: str
    torque: FloatArray  # (n_joints,): ‖τ - τ_s‖ / ‖τ‖; inf where a joint's measured torques are 0
    position_rms: FloatArray  # (n_joints,), rad or m
    q: FloatArray  # (n_samples, n_joints), simulated
    tau: FloatArray

    def __post_init__(self) -> None:
        freeze(self, finite=False, torque="n_joints", position_rms="n_joints")
        freeze(self, q="n_samples n_joints", tau="n_samples n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class ClosedLoopCheck:
    """Closed-loop simulations of a model, or why there are none."""

    runs: tuple[ClosedLoopRun, ...]
    assumed: tuple[str, ...]  # runs whose measured motion stood in for an unknown reference
    refused: str

    def sentences(self) -> tuple[str, ...]:
        """Say what was simulated and what may be concluded."""
        if self.refused:
            return (f"The model was not simulated to the end: {self.refused}.",)
        said = ["The model was simulated under the robot's servo; feedback hides in the motion what torques then show."]
        if self.assumed:
            said.append(f"The reference of {', '.join(self.assumed)} is not known: the measured motion led the servo.")
        return tuple(said)


def closed_loop(
    robot: Robot,
    chi: FloatArray,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    rows: Rows | None = None,
    width: float = WIDTH,
) -> ClosedLoopCheck:
    """Simulate a model (chi (n_params,)) along each run's reference and compare torques and positions.

    Torques of both sides are thinned with `rows.decimate`, which takes measurement noise away.
    """
    columns = np.zeros(1, dtype=np.int64)
    replay = set_up_replay(robot, runs, servo, references=references, columns=columns, width=width)
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return ClosedLoopCheck((), replay.assumed, simulated.sentence)
    thin = (rows or Rows()).decimate or (lambda x: x)
    done = []
    for run, followed, stride in zip(replay.runs, simulated, replay.strides, strict=True):
        at = slice(None, stride * len(run), stride)
        q, tau = followed.motion.q[at], followed.tau[at]
        size, apart = np.linalg.norm(thin(run.tau), axis=0), np.linalg.norm(thin(run.tau - tau), axis=0)
        done.append(
            ClosedLoopRun(
                run=run.run,
                torque=np.where(size > 0.0, apart / np.where(size > 0.0, size, 1.0), np.inf),
                position_rms=np.sqrt(np.mean((q - run.motion.q) ** 2, axis=0)),
                q=q,
                tau=tau,
            )
        )
    return ClosedLoopCheck(tuple(done), replay.assumed, "")
