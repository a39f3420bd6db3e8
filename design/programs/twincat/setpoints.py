"""Beckhoff TwinCAT: a function block evaluates the run in every PLC cycle and feeds the axes their set points.

Moves are evaluated by their share of the way, the series by one sine and one cosine; `block.st` is the program.
"""

from collections.abc import Sequence

import numpy as np

from excitor.design.motion import Excitation, Move, Series
from excitor.design.programs.plan import HOLD, RAMP_IN, RAMP_OUT, SETTLE, Plan
from excitor.design.programs.target import AT_HOME, axes_of, comment, filled, in_axes, no_go_lines, precise, stated
from excitor.robots.arrays import FloatArray

REST, CATCH_UP, STOP = 1.0, 1.0, 0.3  # s: standing still around the run; to home at the start; to a stop

TARGET = stated("twincat/targets.toml", "twincat")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the function block and the program that calls it."""
    axes, step = in_axes(plan, TARGET), plan.sample_time
    moves, edges = _moves(axes, Move(axes.home, axes.home, round(max(CATCH_UP / step, 1.0)) * step, name="way"))
    series = plan.body.series
    out, back = plan.out.duration > 0.0, plan.back.duration > 0.0
    values = {
        **edges, "name": name, "n": plan.robot.n_joints, "header": _header(plan),
        "constants": _constants(axes, moves), "series": series, "payload": plan.payload is not None,
        "grams": round(1000.0 * (plan.payload or 0.0)), "out": out, "after_home": 30 if out else 40,
        "back": back, "after_main": 70 if back else 80,
        "repeats": 1 if series or plan.poses else axes.body.repeats()[1],
        "poses": bool(plan.poses), "after_out": 80 if plan.poses else 40,
    }  # fmt: skip
    if series is not None:
        waves = len(series.harmonics)
        values |= {"top": series.harmonics[-1], "waves": waves, "double": 2 * waves}
    return {f"{name}.st": TARGET.line_end.join([*filled("twincat/block.st", values), ""])}


def _header(plan: Plan) -> list[str]:
    """Write comments that describe a file."""
    robot = plan.robot
    dry = [f"{plan.kind}."] if plan.dry else []
    names = comment(", ".join(axes_of(robot, TARGET).names), 200)
    units = sorted({"mm" if slides else "deg" for slides in robot.mechanism.prismatic})
    lines = [
        *no_go_lines(plan),
        f"Campaign {comment(plan.campaign)}, run {comment(plan.run)}, robot {comment(robot.name)}.",
        *dry,
        f"Axes in this order: {names}. Scaled in {', '.join(units)}.",
        f"Takes {plan.out.duration:g} s to the start, {plan.body.duration:g} s there, "
        f"{plan.back.duration:g} s back, and rests between.",
    ]
    return [f"(* {line} *)" for line in lines]


def _constants(plan: Plan, moves: list[Move]) -> list[str]:
    step, series = plan.sample_time, plan.body.series
    return [
        f"  fTick : LREAL := {precise(step, 15)};  (* s, cycle of the task *)",
        f"  nCycle : UDINT := {round(step * 1e7)};  (* the same in 100 ns *)",
        f"  nRest : DINT := {round(REST / step)};  (* cycles of standing still before and after the run *)",
        f"  fStop : LREAL := {precise(STOP, 15)};  (* s from full speed to a stop *)",
        *_reals("aHome", plan.home, "where the run begins and ends"),
        *_reals(
            "aNear", np.where(plan.robot.mechanism.prismatic, *AT_HOME[::-1]), "how far from home the start may be"
        ),
        *_move_constants(moves, step, series is None),
        *(_series_constants(series, plan.body.excitation) if series is not None else []),
    ]


def _moves(plan: Plan, catch_up: Move) -> tuple[list[Move], dict[str, int]]:
    """List the moves of a program, and the first and last of each segment; a move to home comes first."""
    body = plan.body.repeats()[0] if plan.body.series is None and not plan.poses else ()
    edges: dict[str, int] = {}
    moves: list[Move] = []
    for name, part in (("home", (catch_up,)), ("out", plan.out.moves), ("main", body), ("back", plan.back.moves)):
        edges |= {f"{name}_first": len(moves) + 1, f"{name}_last": len(moves) + len(part)}
        moves += part
    return moves, edges


def _move_constants(moves: list[Move], step: float, measured: bool) -> list[str]:
    """Declare the moves' goals, steps and blends."""
    return [
        *_reals("aTo 2", np.array([move.goal for move in moves]), "where each move leads"),
        *_array("aSteps", "DINT", [[round(move.duration / step) for move in moves]], "cycles that it takes"),
        *_reals("aBlend", np.array([move.blend for move in moves]), "s of speeding up and slowing down; 0: none"),
        *(_array("aMeasured", "BOOL", [[str(m.measured).upper() for m in moves]]) if measured else []),
    ]


def _series_constants(series: Series, excitation: Excitation) -> list[str]:
    """Declare the series: centre, coefficients, harmonics, and the parts of the run that take time."""
    step = excitation.sample_time
    n, waves = series.sines.shape
    pairs = np.stack([series.sines, series.cosines], axis=2).reshape(n, 2 * waves)
    ramp, period = round(excitation.ramp / step), round(excitation.period / step)
    rates = np.array(excitation.harmonics) * excitation.omega
    settle, hold = round(excitation.settle / step), round(excitation.hold / step)
    parts = [(1, settle, SETTLE), (2, ramp, RAMP_IN), (3, period, 0), (4, ramp, RAMP_OUT), (1, hold, HOLD)]
    parts = [row for row in parts if row[1] > 0]
    return [
        f"  fOmega : LREAL := {precise(excitation.omega)};  (* rad/s of the first harmonic *)",
        f"  nPeriodSteps : DINT := {period};",
        f"  nWarmUp : DINT := {excitation.warm_up};",
        f"  nPeriods : DINT := {excitation.warm_up + excitation.measured};",
        f"  fRamp : LREAL := {precise(ramp * step)};",
        f"  nLead : DINT := {-ramp % period};  (* phase at which the ramp begins, for it ends at phase 0 *)",
        f"  nParts : DINT := {len(parts)};",
        *_array("aKind", "DINT", [[row[0] for row in parts]], "1 rest, 2 ramp-in, 3 periods, 4 ramp-out"),
        *_array("aLength", "DINT", [[row[1] for row in parts]], "cycles"),
        *_array("aMark", "DINT", [[row[2] for row in parts]], "for the log"),
        *_array("aHarmonic", "DINT", [list(excitation.harmonics)]),
        *_reals("aRate", rates, "rad/s of each harmonic"),
        *_reals("aFall", -rates, "the same, negative: cosines fall"),
        *_reals("aCenter", series.center),
        *_reals("aCoefficient 2", pairs, "each axis: sine and cosine of each harmonic"),
    ]


def _reals(name: str, rows: FloatArray, note: str = "") -> list[str]:
    """Declare a constant array of LREAL, one line per row."""
    rows = np.atleast_2d(rows)
    return _array(name, "LREAL", [[precise(x) for x in row] for row in rows], note)


def _array(name: str, kind: str, rows: Sequence[Sequence[object]], note: str = "") -> list[str]:
    """Declare a constant array: `name` may hold a second dimension, as in `aTo 2`."""
    name, _, dimensions = name.partition(" ")
    n, m = len(rows), len(rows[0])
    bounds = f"1..{n}, 1..{m}" if dimensions else f"1..{m}"
    tail = f"  (* {note} *)" if note else ""
    lines = [f"    {', '.join(str(x) for x in row)}{',' if k + 1 < n else ''}" for k, row in enumerate(rows)]
    return [f"  {name} : ARRAY[{bounds}] OF {kind} := [{tail}", *lines, "  ];"]
