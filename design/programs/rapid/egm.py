"""ABB RAPID with Externally Guided Motion: a module that hands over to a client, and the run that it streams."""

import math

import numpy as np

from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.text import RESERVED, first_run, module
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import in_axes, stated
from excitor.robots.arrays import FloatArray

TARGET = stated("rapid/targets.toml", "rapid", reserved=RESERVED)
_STEP = TARGET.steps[0]  # s
_NEAR = 0.01  # deg: joints this near to their commands count as arrived
_CREEP = _NEAR / _STEP  # deg/s: slower motion may count as standing still
_PAUSE = 5.0  # s that the joints must stand still for longer than in any pause of the run


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the module and the run."""
    if plan.poses:
        return first_run(plan, TARGET, name)
    fastest, still = _speeds(in_axes(plan, TARGET))
    values = {
        "guided": True, "near": f"{_NEAR:g}", "sample_ms": f"{1e3 * _STEP:g}",
        "limit": math.ceil(1.1 * fastest + 2.0), "wait": math.ceil(_PAUSE + still),
    }  # fmt: skip
    return {f"{name}.mod": module(plan, TARGET, name, values), f"{name}.json": run_json(plan, TARGET)}


def _speeds(axes: Plan) -> tuple[float, float]:
    """Find the highest speed of an axis, deg/s, and the longest time for which all of them creep, s."""
    pause = np.zeros((round(1.0 / _STEP), len(axes.home)))
    rates: list[FloatArray] = [pause]
    for name in Stretches:
        t = np.arange(round(axes.stretch(name).duration / _STEP) + 1) * _STEP
        rates += [axes.stretch(name).at(t, 1), pause]
    speed = np.abs(np.concatenate(rates)).max(axis=1)
    moving = np.concatenate([[-1], np.flatnonzero(speed > _CREEP), [len(speed)]])
    return float(speed.max()), float(np.diff(moving).max() * _STEP)
