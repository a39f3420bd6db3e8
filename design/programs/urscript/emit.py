"""Universal Robots: a script that evaluates the run itself, and gives the drives one set point per control step."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from excitor.design.motion import Excitation, Move, Series
from excitor.design.programs.plan import MEASURED, SETTLE, Plan
from excitor.design.programs.target import (
    AT_HOME,
    LOAD_SLACK,
    CannotDrive,
    comment,
    filled,
    fitting_steps,
    fixed,
    in_axes,
    no_go_lines,
    stated,
)
from excitor.robots.arrays import FloatArray

LOOK_AHEAD, GAIN = 0.03, 1000
HOME = f"{np.radians(AT_HOME[0]):.5f}"  # rad, that the robot may be away from home
ABORTED = -1  # register 24 of a program that gave up
SLOW, COUNTED = "2.0 + 0.004", 400  # control steps that may be lost, and the share of the steps; how many are counted
MOST_MOVES = 900  # in one program; controllers run no more than 1000 to 2500 targets

TARGET = stated("urscript/targets.toml", "urscript")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the script, `run.script` filled in; `spacing` is not used, as there is no table."""
    axes = in_axes(plan, TARGET)
    if plan.poses:
        values = {**_common(plan, axes), "moves": [_slow(move) for move in axes.out.moves]}
        return {f"{name}.script": "\n".join(filled("urscript/poses.script", values)) + "\n"}
    series = axes.body.series
    moves, repeats = axes.body.repeats() if series is None else ((), 1)
    written = len(axes.out.moves) * 2 + len(moves)
    if written > MOST_MOVES:
        raise CannotDrive(
            f"urscript: run {plan.run!r} consists of {written} moves, a script holds {MOST_MOVES}; split the run"
        )
    blends = any(move.blend > 0.0 for move in (*axes.out.moves, *moves))

    def each(formula: str) -> str:
        return "[" + ", ".join(formula.format(j=j) for j in range(len(axes.home))) + "]"

    def made(move: Move) -> str:
        """Write a move from rest to rest: with a blend only where some move has one."""
        to = "ex_h" if np.array_equal(move.goal, axes.home) else _list(move.goal)
        return f"ex_move({to}, {_real(move.duration)}{f', {_real(move.blend)}' if blends else ''})"

    values = {
        "LOOK_AHEAD": LOOK_AHEAD, "GAIN": GAIN, "SLOW": SLOW, "COUNTED": COUNTED, **_common(plan, axes),
        "blends": blends, "more": ", ex_b" if blends else "", "sharp": ", 0.0" if blends else "",
        "here": each("ex_q[{j}]"), "there": each("ex_to[{j}] - ex_q[{j}]"),
        "between": each("ex_f[{j}] + ex_e * ex_d[{j}]"),
        "unit": max(fitting_steps(plan, TARGET)), "stop": _real(TARGET.stop_s),
        "out": [made(move) for move in axes.out.moves], "back": [made(move) for move in axes.back.moves],
        "rounds": [] if series else _rounds(moves, repeats, made), "series": series,
    }  # fmt: skip
    if series is not None:
        values |= _series(series, axes.body.excitation)
    return {f"{name}.script": "\n".join(filled("urscript/run.script", values)) + "\n"}


def _slow(move: Move) -> str:
    """Write a move of a first run: the joint with the longest way at the top speed of its plan, or below."""
    speed = float(np.abs(move.goal - move.origin).max()) / (move.duration - move.blend)
    rise, top = (f"{np.floor(1e6 * x) / 1e6:.6f}" for x in (speed / move.blend, speed))
    return f"movej({_list(move.goal)}, a={rise}, v={top})"


def _common(plan: Plan, axes: Plan) -> dict[str, Any]:
    """Write the head of a script, and its checks of the pose and the payload."""
    return {
        "header": _header(plan), "payload": axes.payload is not None, "mass": _real(axes.payload or 0.0),
        "LOAD_SLACK": LOAD_SLACK,
        "away": " or ".join(f"norm(ex_q[{j}] - ex_h[{j}]) > {HOME}" for j in range(len(axes.home))),
        "register": plan.site.get("mark_register", 24),
        "kg": f"{axes.payload or 0.0:g}", "ABORTED": ABORTED, "home": _list(axes.home),
    }  # fmt: skip


def _header(plan: Plan) -> list[str]:
    lines = [f"# {comment(plan.campaign, 50)}: {comment(plan.run, 50)}, written by Excitor"]
    return [*lines, *no_go_lines(plan, "# "), *([f"# {plan.kind}"] if plan.dry else [])]


def _series(body: Series, e: Excitation) -> dict[str, Any]:
    """Tell the series: its sums of waves, and its seconds."""
    waves = [[*body.sines[:, k], *body.cosines[:, k]] for k in range(len(body.harmonics))]
    used = [k for k, values in enumerate(waves) if any(_real(x) != "0.0" for x in values)]
    highest = max((body.harmonics[k] for k in used), default=0)
    recurrence = [
        line
        for k in range(2, highest + 1)
        for line in (
            f"local ex_s{k} = ex_s{k - 1} * ex_c1 + ex_c{k - 1} * ex_s1",
            f"local ex_c{k} = ex_c{k - 1} * ex_c1 - ex_s{k - 1} * ex_s1",
        )
    ]
    seconds = {"settle": e.settle, "ramp": e.ramp, "hold": e.hold}
    return {
        **{part: _real(value) if value > 0.0 else "" for part, value in seconds.items()},
        "period": _real(body.period), "warm_up": e.warm_up, "measured": e.measured, "recurrence": recurrence,
        "sums": [f"ex_q[{j}] = {_joint(body, j, used)}" for j in range(len(body.center))],
    }  # fmt: skip


def _joint(body: Series, j: int, used: Iterable[int]) -> str:
    terms = ""
    for k in used:
        harmonic = body.harmonics[k]
        for wave, value in (("s", body.sines[j, k]), ("c", body.cosines[j, k])):
            text = _real(abs(value))
            if text != "0.0":
                sign = "-" if value < 0.0 else "+"
                terms += f" {sign} {text} * ex_{wave}{harmonic}"
    return _real(body.center[j]) + (f" + ex_e * (0.0{terms})" if terms else "")


def _rounds(moves: Iterable[Move], repeats: int, made: Callable[[Move], str]) -> list[str]:
    lines: list[str] = []
    for move in moves:
        if move.measured:
            lines += [" ex_k = ex_k + 1", f" ex_mark({MEASURED} + ex_k)"]
        else:
            lines.append(f" ex_mark({SETTLE})")
        lines.append(" " + made(move))
    return ["ex_k = 0", "ex_j = 0", f"while ex_j < {repeats}:", " ex_j = ex_j + 1", *lines, "end"]


def _list(values: FloatArray) -> str:
    return "[" + ", ".join(_real(x) for x in values) + "]"


def _real(value: float) -> str:
    """Write a number with its decimals, without zeros behind them; exponents are not documented."""
    head, _, tail = fixed(float(value), TARGET.decimals).partition(".")
    return f"{head}.{tail.rstrip('0') or '0'}"
