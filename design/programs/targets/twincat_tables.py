"""Cam tables of a run: points of every part, that a quintic joins, over a master whose position is time in s."""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from excitor.design.fourier import Trajectory, executed, series
from excitor.design.programs.plan import Move, Plan, moved
from excitor.design.programs.words import fixed, rounded
from excitor.robots.arrays import FloatArray

LEAD = 0.5  # s of rest around every stretch, in which the master speeds up and slows down
POINTS_A_CYCLE = 10  # of the highest harmonic, at least
DECIMALS = 9
TIME_DECIMALS = 12  # of the master for other editors; programs state it in full, for periods add up


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """One cam: master positions from 0, and (n_rows, n_axes) of position, velocity and acceleration."""

    begin: float  # s on the master, from the start of the program
    periodic: bool
    master: FloatArray
    values: tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """One stretch on the master: its tables, where its motion begins and ends, where the master stops."""

    name: str
    tables: tuple[Table, ...]
    origin: float
    end: float
    stop: float


def spans(plan: Plan, spacing: float) -> list[Span]:
    """Cut a program into stretches and their tables, one after the other on the master."""
    found: list[Span] = []
    base = 0.0
    for name in ("out", "main", "back"):
        if name == "main":
            tables, span = _main(plan, spacing, base)
        elif plan.moves(name):
            moves, begin = plan.moves(name), plan.home if name == "out" else plan.start
            t = _move_times(moves, spacing)
            span = float(t[-1])
            tables = (_table(base, False, _values(begin, moves, t), t, LEAD, LEAD),)
        else:
            continue
        found.append(Span(name, tables, base + LEAD, base + LEAD + span, base + 2.0 * LEAD + span))
        base = found[-1].stop
    return found


def _main(plan: Plan, spacing: float, base: float) -> tuple[tuple[Table, ...], float]:
    if isinstance(plan.body, Trajectory):
        return _series(plan.body, spacing, base)
    moves, repeats = plan.body.moves, plan.body.repeats
    t = _move_times(moves, spacing)
    rest = np.array([0.0])
    still = (plan.start[None, :], 0.0 * plan.start[None, :], 0.0 * plan.start[None, :])
    round_end = base + LEAD + repeats * float(t[-1])
    tables = (
        _table(base, False, still, rest, LEAD, 0.0),
        _table(base + LEAD, True, _values(plan.start, moves, t), t, 0.0, 0.0),
        _table(round_end, False, still, rest, 0.0, LEAD),
    )
    return tables, repeats * float(t[-1])


def _series(body: Trajectory, spacing: float, base: float) -> tuple[tuple[Table, ...], float]:
    excitation = body.excitation
    dense = min(spacing, excitation.period / (POINTS_A_CYCLE * excitation.harmonics[-1]))
    into = np.concatenate([[0.0], excitation.settle + _even(excitation.ramp, dense)])
    into = into if excitation.settle > 0.0 else into[1:]
    period = _even(excitation.period, dense)
    out = _even(excitation.ramp, dense)
    leave = np.concatenate([out, [excitation.ramp + excitation.hold]]) if excitation.hold > 0.0 else out
    periods = (excitation.warm_up + excitation.measured) * excitation.period
    full = float(into[-1])

    def run(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return executed(body, t), executed(body, t, 1), executed(body, t, 2)

    steady = (series(body, period), series(body, period, 1), series(body, period, 2))
    tables = (
        _table(base, False, run(into), into, LEAD, 0.0),
        _table(base + LEAD + full, True, steady, period, 0.0, 0.0),
        _table(base + LEAD + full + periods, False, run(full + periods + leave), leave, 0.0, LEAD),
    )
    return tables, full + periods + float(leave[-1])


def _even(span: float, spacing: float) -> FloatArray:
    """Divide a span evenly, no wider than the spacing."""
    return np.linspace(0.0, span, max(ceil(span / spacing - 1e-9), 1) + 1)


def _move_times(moves: tuple[Move, ...], spacing: float) -> FloatArray:
    """Divide each move, and each blend of a move, evenly."""
    times: list[FloatArray] = [np.zeros(1)]
    begin = 0.0
    for move in moves:
        cuts = [0.0, move.blend, move.duration - move.blend, move.duration] if move.blend else [0.0, move.duration]
        for low, high in pairwise(cuts):
            if high - low > 1e-9:
                times.append(begin + low + _even(high - low, spacing)[1:])
        begin += move.duration
    return np.concatenate(times)


def _values(begin: FloatArray, moves: tuple[Move, ...], t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    position, velocity, acceleration = (moved(begin, moves, t, order) for order in range(3))
    return position, velocity, acceleration


def _table(
    begin: float,
    periodic: bool,
    values: tuple[FloatArray, FloatArray, FloatArray],
    t: FloatArray,
    before: float,
    after: float,
) -> Table:
    """Add rests before and after, and round as it is written; a cycle ends exactly as it begins."""
    master = before + t
    rows = [np.array(x) for x in values]
    if before:
        master = np.concatenate([[0.0], master])
        rows = [np.concatenate([x[:1], x]) for x in rows]
    if after:
        master = np.concatenate([master, [master[-1] + after]])
        rows = [np.concatenate([x, x[-1:]]) for x in rows]
    rows = [rounded(x, DECIMALS) for x in rows]
    if periodic:
        for x in rows:
            x[-1] = x[0]
    return Table(begin, periodic, master, (rows[0], rows[1], rows[2]))


def csv(tables: list[Table], axis: int) -> str:
    """Write one axis' tables for other cam editors: number of the table; master in s; slave, and its derivatives."""
    lines = ["table;master;slave;velocity;acceleration"]
    for k, table in enumerate(tables):
        for master, *row in zip(table.master, *(x[:, axis] for x in table.values), strict=True):
            words = [fixed(float(master), TIME_DECIMALS), *(fixed(float(x), DECIMALS) for x in row)]
            lines.append(";".join([str(k + 1), *words]))
    return "\n".join(lines) + "\n"
