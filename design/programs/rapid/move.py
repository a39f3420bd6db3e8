"""ABB RAPID without options: the run as way-points of MoveAbsJ, whose times the controller keeps approximately."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.design.motion import Move
from excitor.design.programs.plan import HOLD, MEASURED, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, Plan
from excitor.design.programs.rapid.text import DECIMALS, NOWHERE, RESERVED, first_run, jointtarget, module, move_line
from excitor.design.programs.target import CannotDrive, fixed, in_axes, precise, stated
from excitor.robots.arrays import FloatArray

_WIDTH = 110  # letters of a line

TARGET = stated("rapid/targets.toml", "rapid-move", reserved=RESERVED)
_MOST_LINES = TARGET.most_lines or 0


@dataclass(frozen=True, slots=True)
class _Table:
    """Way-points, passed one after the other, `spacing` s each; the first is `spacing` s after the pose before."""

    name: str
    points: FloatArray  # (n, 6), deg
    spacing: float  # s
    ends: bool = False  # whether the robot stops at the last


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the module."""
    if plan.poses:
        return first_run(plan, TARGET, name)
    axes, spacing = in_axes(plan, TARGET), spacing or TARGET.spacing or 0.1
    tables, body = _rounds(axes, spacing) if axes.body.series is None else _series(axes, spacing)
    columns = [(f"{table.name}{j + 1}", values) for table in tables for j, values in enumerate(table.points.T)]
    values = {
        "guided": False, "tables": [line for column in columns for line in _array(*column)], "body": body,
        "out": _way(axes.out.moves), "back": _way(axes.back.moves),
    }  # fmt: skip
    text = module(plan, TARGET, name, values)
    lines = text.count("\n")
    if lines > _MOST_LINES:
        raise CannotDrive(
            f"rapid-move: run {plan.run!r} makes {lines} lines, a module takes {_MOST_LINES}; "
            f"points {spacing * 1.05 * lines / _MOST_LINES:.2g} s apart would do"
        )
    return {f"{name}.mod": text}


def _way(moves: Sequence[Move]) -> list[str]:
    return [move_line(jointtarget(move.goal), move.duration, "fine") for move in moves]


def _mark(value: str, indent: int = 8) -> Iterator[str]:
    yield f"{' ' * indent}SetGO ex_mark, {value};"


def _array(name: str, values: FloatArray) -> Iterator[str]:
    """Declare numbers over as many lines as they need."""
    line = f"    LOCAL CONST num {name}{{{len(values)}}} := ["
    for k, value in enumerate(values):
        cell = fixed(float(value), DECIMALS) + ("," if k + 1 < len(values) else "];")
        if len(line) + len(cell) > _WIDTH:
            yield line
            line = "        "
        line += cell
    yield line


def _passed(table: _Table, indent: int = 8) -> Iterator[str]:
    """Pass a table's points in a loop; one where the robot stops comes after it."""
    n, space = len(table.points), " " * indent
    through = n - 1 if table.ends else n
    if through:
        yield f"{space}FOR i FROM 1 TO {through} DO"
        yield move_line(_pose(table, "i"), table.spacing, "z5", indent + 4)
        yield f"{space}ENDFOR"
    if table.ends:
        yield move_line(_pose(table, str(n)), table.spacing, "fine", indent)


def _pose(table: _Table, index: str) -> str:
    cells = ",".join(f"{table.name}{j + 1}{{{index}}}" for j in range(table.points.shape[1]))
    return f"[[{cells}],{NOWHERE}]"


def _series(axes: Plan, spacing: float) -> tuple[list[_Table], list[str]]:
    x = axes.body.excitation
    full = x.settle + x.ramp

    def table(name: str, start: float, span: float, ends: bool = False) -> _Table:
        n = max(1, math.ceil(span / spacing - 1e-9))
        t = start + span / n * np.arange(1, n + 1)
        return _Table(name, axes.body.at(t), span / n, ends)

    ramp_in = table("exIn", x.settle, x.ramp)
    period = table("exPeriod", full, x.period)
    ramp_out = table("exOut", full + (x.warm_up + x.measured) * x.period, x.ramp, ends=True)
    body = [*_mark(str(SETTLE)), *_wait(x.settle), *_mark(str(RAMP_IN)), *_passed(ramp_in)]
    for count, mark in ((x.warm_up, WARM_UP), (x.measured, MEASURED)):
        if count:
            body += [f"        FOR k FROM 1 TO {count} DO", *_mark(f"{mark} + k", 12), *_passed(period, 12)]
            body += ["        ENDFOR"]
    body += [*_mark(str(RAMP_OUT)), *_passed(ramp_out)]
    body += [*_mark(str(HOLD)), *_wait(x.hold)] if x.hold > 0.0 else []
    return [ramp_in, period, ramp_out], body


def _wait(seconds: float, indent: int = 8) -> list[str]:
    return [f"{' ' * indent}WaitTime \\InPos, {precise(seconds, 9)};"] if seconds > 0.0 else []


def _rounds(axes: Plan, spacing: float) -> tuple[list[_Table], list[str]]:
    moves, repeats = axes.body.repeats()
    each = sum(move.measured for move in moves)
    tables: list[_Table] = []
    body = [f"        FOR k FROM 1 TO {repeats} DO"]
    count = 0
    for move in moves:
        count += move.measured
        body += _mark(f"{MEASURED - each + count} + {each} * k" if move.measured else str(SETTLE), 12)
        if move.still:
            body += _wait(move.duration, 12)
            continue
        n = max(1, math.ceil(move.duration / spacing - 1e-9))
        t = move.duration / n * np.arange(1, n + 1)
        tables.append(_Table(f"exMove{len(tables) + 1}_", move.at(t), move.duration / n, ends=True))
        body += _passed(tables[-1], 12)
    return tables, [*body, "        ENDFOR"]
