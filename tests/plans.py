"""Runs of moves and changed series, in few words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from excitor.design.motion import Run, line_run, periodic_run
from excitor.robots.arrays import FloatArray

Go = tuple[FloatArray, float] | tuple[FloatArray, float, float] | tuple[FloatArray, float, float, bool]


def lines(joints: Sequence[str], step: float, begin: FloatArray, *moves: Go) -> Run:
    """Build a run of moves, each (to, duration, blend, measured); without moves the robot is already there."""
    whole = [(*move, *(0.0, False)[len(move) - 2 :]) for move in moves]
    poses = np.array([begin, *(move[0] for move in whole)])
    durations, blends, measured = ([move[k] for move in whole] for k in (1, 2, 3))
    return line_run(joints, step, poses, durations, blends=blends, measured=measured)


def there(plan: Any, home: FloatArray | None = None, seconds: float = 0.0) -> Any:
    """Change the way of a plan: none, or one from `home`."""
    way = () if home is None else ((plan.start, seconds),)
    out = lines(plan.robot.joint_names, plan.sample_time, plan.start if home is None else home, *way)
    return replace(plan, out=out)


def reformed(run: Run, **form: Any) -> Run:
    """Change the form of a periodic run."""
    series = run.periodic
    excitation = replace(run.excitation, **form)
    return periodic_run(excitation, series.center, series.sines, series.cosines, run.joints)


def with_swing(run: Run, sines: FloatArray, cosines: FloatArray) -> Run:
    """Change the coefficients of a periodic run."""
    return periodic_run(run.excitation, run.periodic.center, sines, cosines, run.joints)
