"""A few hundred samples that stand for all: enough for looking at data, cheap whatever the log's length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SIZE = 1000


@dataclass(frozen=True, eq=False, slots=True)
class Subset:
    """Samples spread evenly over all runs, with their equations."""

    motion: Motion
    tau: FloatArray  # (n_samples, n_joints)
    run: IntArray  # (n_samples,)
    sample: IntArray  # (n_samples,)
    names: tuple[str, ...]  # of the base parameters
    W: FloatArray  # (n_samples, n_joints, n_base)

    def __post_init__(self) -> None:
        freeze(self, tau="n_samples n_joints", run="int: n_samples", sample="int: n_samples")
        freeze(self, W="n_samples n_joints n_base")


def subset(robot: Robot, runs: Sequence[Samples], size: int = SIZE) -> Subset:
    """Pick about `size` samples, at odd distances lest they fall into step with a periodic motion."""
    total = sum(len(run) for run in runs)
    size = max(size, 20 * len(layout(robot)) // robot.n_joints)
    step = max(1, total // size) | 1
    places = [np.arange(step // 2, len(run), step) for run in runs]
    chosen = [(run.motion, place) for run, place in zip(runs, places, strict=True)]
    motion = Motion(
        np.concatenate([m.q[k] for m, k in chosen]),
        np.concatenate([m.dq[k] for m, k in chosen]),
        np.concatenate([m.ddq[k] for m, k in chosen]),
    )
    base = base_parameters(robot)
    slipping = {term.parameter for term in robot.drive.friction if term.model == "maxwell-slip"}  # need every sample
    params = layout(robot)
    columns = np.array([k for k in base.kept if params.names[k] not in slipping], dtype=np.int64)
    return Subset(
        motion=motion,
        tau=np.concatenate([run.tau[place] for run, place in zip(runs, places, strict=True)]),
        run=np.repeat(np.arange(len(runs)), [len(place) for place in places]),
        sample=np.concatenate(places),
        names=tuple(params.names[k] for k in columns),
        W=regressor(robot, motion)[:, :, columns],
    )
