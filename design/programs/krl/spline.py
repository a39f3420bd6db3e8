"""KUKA KRL: the run as one PTP_SPLINE block whose TIME_BLOCK states when every point is passed."""

import hashlib

import numpy as np

from excitor.design.programs.krl.text import first_run, pose, program, way
from excitor.design.programs.plan import Plan
from excitor.design.programs.target import fixed, in_axes, rounded, stated, table_times
from excitor.robots.arrays import FloatArray

TARGET = stated("krl/targets.toml", "krl")
_SHARES = 9  # decimals of shares
_PASSES = 100  # of 0.1 s, in which the trace must start


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write one module; without its configuration the trace never runs, and the program reports that."""
    if plan.poses:
        return first_run(plan, TARGET, name)
    values = {
        "rsi": False, "trace": trace_name(name), "passes": _PASSES,
        "out": way(plan, TARGET, "out"), "back": way(plan, TARGET, "back"),
        "main": _run(in_axes(plan, TARGET), spacing or TARGET.spacing or 0.1),
    }  # fmt: skip
    return {f"{name}.src": program(plan, TARGET, name, values)}


def trace_name(name: str) -> str:
    """Shorten a program's name to seven letters and digits: the longest allowed trace name is not published."""
    return f"EX{hashlib.sha256(name.encode()).hexdigest()[:5].upper()}"


def _run(axes: Plan, spacing: float) -> list[str]:
    """Write the block; the robot stands before and after it, so that settling and holding are plain waits."""
    t = table_times(axes, "main", spacing)
    settle = hold = 0.0
    if axes.body.series is not None:
        settle, hold = axes.body.excitation.settle, axes.body.excitation.hold
        t = t[(t > settle - 1e-9) & (t < t[-1] - hold + 1e-9)]
    lines = [f"WAIT SEC {fixed(settle, 6)}"] if settle > 0.0 else []
    points = rounded(axes.body.at(t), TARGET.decimals)
    lines += ["PTP_SPLINE", f"  SPTP {pose(points[0])}", "  TIME_BLOCK START"]
    for point, share in zip(points[1:], _shares(t), strict=True):
        lines += [f"  SPTP {pose(point)}", f"  TIME_BLOCK PART = {share}"]
    lines += [f"  TIME_BLOCK END = {fixed(float(t[-1] - t[0]), 6)}", "ENDSPLINE"]
    # a wait of 0 s stops the advance run as well, before the trace is stopped
    return [*lines, f"WAIT SEC {fixed(hold, 6)}"]


def _shares(t: FloatArray) -> list[str]:
    """Write each segment's share of the time, %: exactly 100 together, the last one takes what rounding left."""
    passed = np.rint((t - t[0]) / (t[-1] - t[0]) * 100.0 * 10.0**_SHARES).astype(np.int64)
    return [f"{share // 10**_SHARES}.{share % 10**_SHARES:0{_SHARES}d}" for share in np.diff(passed).tolist()]
