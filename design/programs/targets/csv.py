"""Neutral tables: every position with its velocity and acceleration, for a controller that Excitor does not know."""

from collections.abc import Iterator

import numpy as np

from excitor.design.programs.plan import (
    HOLD,
    MEASURED,
    RAMP_IN,
    RAMP_OUT,
    SETTLE,
    WARM_UP,
    Plan,
    Stretches,
    StretchName,
    duration,
    marks,
    planned,
)
from excitor.design.programs.tables import table_times
from excitor.design.programs.target import Target

TARGET = Target(
    name="csv",
    title="neutral CSV tables",
    timing="B",
    scheme="positions, velocities and accelerations at stated times; whoever reads them joins them by quintics",
    angle_unit="rad",
    sine_unit=None,
    decimals=10,  # of 12 significant digits
    float_bits=64,
    longest_name=60,
    slides=True,
    spacing=0.01,
    refuses=(),
    marks=True,
    needs=("a controller, or a script of your own, that follows time-stamped positions",),
    loading=(
        "Check that the robot stands at the home pose and that its speed slider is at 100 %.",
        "Play the table that ends in _out, if there is one, wait for standstill, start your logger, play the table "
        "of the run, stop the logger, play the table that ends in _back.",
    ),
    logging=("Log time, measured positions and measured currents or torques, from before the run to after it.",),
    advice="Pair measured positions with measured torques; align by time and by correlation.",
)

_NAMES = {SETTLE: "settle", RAMP_IN: "ramp-in", RAMP_OUT: "ramp-out", HOLD: "hold"}
_SUFFIX: dict[StretchName, str] = {"out": "_out", "main": "", "back": "_back"}


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write a table per stretch, joints in rad and m."""
    made = [stretch for stretch in Stretches if duration(plan, stretch) > 0.0]
    step = spacing or TARGET.spacing or 0.01
    return {f"{name}{_SUFFIX[stretch]}.csv": "".join(_rows(plan, stretch, step)) for stretch in made}


def _rows(plan: Plan, stretch: StretchName, spacing: float) -> Iterator[str]:
    n = plan.robot.n_joints
    columns = [f"{letter}{j}" for letter in ("q", "qd", "qdd") for j in range(1, n + 1)]
    yield ",".join(["t", "phase", "period", *columns]) + "\n"
    t = table_times(plan, stretch, spacing)
    values = np.concatenate([planned(plan, stretch, t, order) for order in range(3)], axis=1)
    values[np.abs(values) < 1e-15] = 0.0
    parts = marks(plan) if stretch == "main" else ((0.0, 0),)
    which = np.searchsorted([start - 1e-9 for start, _ in parts], t, side="right") - 1
    line = ",".join(["%.12g"] * values.shape[1])
    for time, part, row in zip(t, which, values, strict=True):
        phase, period = _part(stretch, parts[part][1])
        yield f"{time:.15g},{phase},{period}," + line % tuple(row) + "\n"


def _part(stretch: StretchName, mark: int) -> tuple[str, int]:
    """Name a part, and number its period."""
    if stretch != "main":
        return stretch, 0
    if mark >= MEASURED:
        return "measured", mark - MEASURED
    if mark >= WARM_UP:
        return "warm-up", mark - WARM_UP
    return _NAMES[mark], 0
