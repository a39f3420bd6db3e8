"""Beckhoff TwinCAT by cam tables: the axes follow a virtual master whose position is time."""

import numpy as np

from excitor.design.fourier import Trajectory
from excitor.design.programs.plan import (
    BACK,
    END,
    HOLD,
    MEASURED,
    OUT,
    RAMP_IN,
    RAMP_OUT,
    SETTLE,
    WARM_UP,
    Plan,
)  # fmt: skip
from excitor.design.programs.target import Target, in_axes
from excitor.design.programs.targets import twincat_text as text
from excitor.design.programs.targets.twincat_cam_text import BLOCK, POINTS
from excitor.design.programs.targets.twincat_tables import DECIMALS, Span, Table, csv, spans
from excitor.design.programs.words import fixed, precise

_MARKS = {"out": OUT, "back": BACK}

TARGET = Target(
    name="twincat-cam",
    title="Beckhoff TwinCAT 3 camming",
    timing="B",
    scheme="cam tables of quintic points (POLYNOM5_MM) couple the NC axes to a virtual master whose position is time",
    angle_unit="deg",
    sine_unit=None,
    decimals=DECIMALS,
    float_bits=64,
    longest_name=60,
    reserved=text.RESERVED,
    slides=True,
    spacing=0.05,
    refuses=("override", "mode", "home", "payload"),
    marks=True,
    needs=(
        "TwinCAT 3 with NC PTP (TF5000), NC Camming (TF5050) and the PLC libraries Tc2_Standard, Tc2_MC2 and "
        "Tc2_MC2_Camming.",
        "NC axes scaled in deg (turning) and mm (sliding), with the sign and zero of the robot's description.",
        "One more NC axis, virtual (simulation encoder and drive), scaled in s: the master. Its velocity limit must be "
        "above 1, its acceleration limits above 5 and its jerk limit above 50.",
        "Commands to coupled axes allowed in the parameters of every NC axis (motion commands to slave axis): after a "
        "failure every axis is stopped by itself with MC_Stop.",
        "Cam table IDs from 1 on that nothing else uses: one for each table of each axis.",
    ),
    loading=(
        "Add the points (..._points.st, a global variable list), the function block and the program to the PLC "
        "project, and call the program from the motion task; any cycle of up to 10 ms will do.",
        "Link stAxes[1], stAxes[2] and so on to the NC axes in the order of the file's header, and stMaster to the "
        "virtual axis.",
        *text.LOADING,
        "Set bPower; when all axes are ready and at the home pose, set bRun and leave it TRUE. Stop by bRun, never by "
        "bPower: bRun FALSE slows time down to a stop, and nothing goes on by itself afterwards.",
        "If sMessage asks for something, do it, set bRun to FALSE and to TRUE again.",
        "The CSV files hold the same tables, one file an axis, for cam editors of other makers.",
    ),
    logging=(
        "Record with TwinCAT Scope: actual position, actual velocity, set position and torque or current of every "
        "axis, the set position of the master, and nMark, nMarks, nPeriod and bLog of the program.",
        "Start recording when bLog becomes TRUE and then set bLoggerRunning (or let the Scope do it by its trigger); "
        "the run waits for it.",
        "Stop when bLog becomes FALSE, set bLoggerRunning to FALSE (no run starts while it is TRUE), "
        "and export as CSV with a decimal point.",
    ),
    advice="Use measured positions and measured torque or current; torque comes in per mille or per cent of the "
    "rated torque, so state rated torque or current.",
    assumed="MC_CamTableSelect takes CamTable alone, as in the present library (older ones want Master and Slave as "
    "well); MC_CamIn switches tables exactly at the activation position; PlcToNc.Override = 1000000 is 100 %.",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write points, block and program, and the tables as CSV for each axis."""
    axes = in_axes(plan, TARGET)
    found = spans(axes, spacing or TARGET.spacing or 0.05)
    tables = [table for span in found for table in span.tables]
    head = text.header(plan, TARGET)
    block = [*head, *_block(axes, name, found), "", *text.program(plan, name, master=True), ""]
    points = [*head, *_points(name, tables), ""]
    files = {f"{name}.st": "\n".join(block), f"{name}_points.st": "\n".join(points)}
    return files | {f"{name}_axis{k + 1}.csv": csv(tables, k) for k in range(plan.robot.n_joints)}


def _points(name: str, tables: list[Table]) -> list[str]:
    stacked = [np.concatenate([table.values[k] for table in tables]) for k in range(3)]
    masters = [precise(float(x)) for table in tables for x in table.master]
    lines = ["VAR_GLOBAL CONSTANT", *_numbers(f"aMaster_{name}", f"1..{len(masters)}", masters)]
    for label, values in zip(("aPosition", "aVelocity", "aAcceleration"), stacked, strict=True):
        words = [fixed(float(x), DECIMALS) for x in values.T.ravel()]
        lines += _numbers(f"{label}_{name}", f"1..{values.shape[1]}, 1..{len(values)}", words)
    return [*lines, "END_VAR"]


def _numbers(name: str, bounds: str, words: list[str]) -> list[str]:
    """Declare an array, eight numbers a line."""
    lines = [f"    {', '.join(words[k : k + 8])}," for k in range(0, len(words), 8)]
    return [f"  {name} : ARRAY[{bounds}] OF LREAL := [", *lines[:-1], lines[-1][:-1], "  ];"]


def _block(plan: Plan, name: str, found: list[Span]) -> list[str]:
    n = plan.robot.n_joints
    tables = [table for span in found for table in span.tables]
    rows = [len(table.master) for table in tables]
    most = max(len(span.tables) for span in found)
    points = POINTS.format(name=name)
    main = [span.name for span in found].index("main") + 1
    values = {"n": n, "tables": len(tables), "rows": max(rows), "most": most, "points": points, "main": main,
              "spans": len(found)}  # fmt: skip
    return [
        f"FUNCTION_BLOCK FB_{name}",
        *text.interface(plan, "  stMaster : AXIS_REF;"),
        *_constants(plan, found, tables, rows),
        *BLOCK["variables"].format(**values).split("\n"),
        *BLOCK["watch"].format(**values).split("\n"),
        *text.preflight(plan, 10, BLOCK["master"].split("\n"), ["    bHard := FALSE;"]),
        *BLOCK["states"].format(**values).split("\n"),
        *_marking(plan, found),
        *BLOCK["end"].format(**values).split("\n"),
        "END_FUNCTION_BLOCK",
    ]


def _constants(plan: Plan, found: list[Span], tables: list[Table], rows: list[int]) -> list[str]:
    first = np.cumsum([1, *rows[:-1]]).tolist()
    last = np.cumsum([len(span.tables) for span in found])
    fastest = np.maximum(1.0, np.max([np.abs(table.values[1]).max(axis=0) for table in tables], axis=0))
    return [
        "VAR CONSTANT",
        *text.reals("aHome", plan.home, "where the run begins and ends"),
        *text.reals("aNear", text.near(plan), "how far from home the start may be"),
        *text.reals("aFast", fastest, "the fastest of each axis, per s: it stops from there in 0.3 s"),
        *text.constants("aFirst", "DINT", [first], "first point of each table"),
        *text.constants("aRows", "DINT", [rows], "points of each table"),
        *text.constants("aPeriodic", "BOOL", [[str(table.periodic).upper() for table in tables]]),
        *text.reals("aBegin", np.array([table.begin for table in tables]), "s on the master"),
        *text.constants("aCamFirst", "DINT", [[int(k) + 1 - len(s.tables) for k, s in zip(last, found, strict=True)]],
                        "first table of each stretch"),
        *text.constants("aCams", "DINT", [[len(span.tables) for span in found]], "tables of each stretch"),
        *text.reals("aOrigin", np.array([span.origin for span in found]), "s on the master: its motion begins"),
        *text.reals("aEnd", np.array([span.end for span in found]), "its motion ends"),
        *text.reals("aStop", np.array([span.stop for span in found]), "the master stops"),
        *_mark_constants(plan),
        "END_VAR",
    ]  # fmt: skip


def _mark_constants(plan: Plan) -> list[str]:
    if isinstance(plan.body, Trajectory):
        excitation = plan.body.excitation
        periods = (excitation.warm_up + excitation.measured) * excitation.period
        parts = [
            (SETTLE, excitation.settle), (RAMP_IN, excitation.ramp), (0, periods), (RAMP_OUT, excitation.ramp),
            (HOLD, excitation.hold),
        ]  # fmt: skip
        at, rows = 0.0, []
        for mark, span in parts:
            if span > 0.0:
                rows.append((at, mark))
                at += span
        cycle, cycles = excitation.period, excitation.warm_up + excitation.measured
    else:
        edges = np.cumsum([0.0, *(move.duration for move in plan.body.moves)])
        counts = np.cumsum([move.measured for move in plan.body.moves])
        rows = [
            (float(t), int(k) if move.measured else 0)
            for t, k, move in zip(edges[:-1], counts, plan.body.moves, strict=True)
        ]
        cycle, cycles = float(edges[-1]), plan.body.repeats
    return [
        *text.reals("aPartAt", np.array([row[0] for row in rows]), "s in the run, or in a round: its parts"),
        *text.constants("aPartMark", "DINT", [[row[1] for row in rows]]),
        f"  fCycle : LREAL := {precise(cycle)};  (* s of a period, or a round *)",
        f"  nCycles : DINT := {cycles};",
        *([f"  nWarmUp : DINT := {plan.body.excitation.warm_up};"] if isinstance(plan.body, Trajectory) else []),
    ]


def _marking(plan: Plan, found: list[Span]) -> list[str]:
    """Tell which part of the program the master has reached."""
    ways: list[str] = []
    for k, span in enumerate(found):
        if span.name in _MARKS:
            ways += [f"  IF iStretch = {k + 1} THEN", f"    nMark := {_MARKS[span.name]};", "  END_IF;"]
    main = [span.name for span in found].index("main") + 1
    parts = _parts(plan)
    return [
        "(* which part it is, by the time that the master has reached *)",
        "nMark := 0;",
        f"IF nState = 80 AND sMessage = '' THEN nMark := {END}; END_IF;",
        "IF nState = 50 THEN",
        "  fIn := stMaster.NcToPlc.SetPos - fBase - aOrigin[iStretch] + 0.0000001;",
        "  IF fIn >= 0.0 AND fIn < aEnd[iStretch] - aOrigin[iStretch] THEN",
        *(f"  {line}" for line in ways),
        f"    IF iStretch = {main} THEN",
        *(_series_marks(parts) if isinstance(plan.body, Trajectory) else _round_marks(plan, parts)),
        "      IF nIndex <> nLast THEN",
        "        nMarks := nMarks + 1;",
        "        nLast := nIndex;",
        "      END_IF;",
        "    END_IF;",
        "  END_IF;",
        "END_IF;",
    ]


def _parts(plan: Plan) -> int:
    if not isinstance(plan.body, Trajectory):
        return len(plan.body.moves)
    excitation = plan.body.excitation
    return sum(x > 0.0 for x in (excitation.settle, excitation.ramp, 1.0, excitation.ramp, excitation.hold))


def _series_marks(parts: int) -> list[str]:
    return [
        f"      FOR iPart := 1 TO {parts} DO",
        "        IF fIn >= aPartAt[iPart] THEN",
        "          nPart := iPart;",
        "        END_IF;",
        "      END_FOR;",
        "      nMark := aPartMark[nPart];",
        "      IF nMark = 0 THEN",
        "        nPeriod := MIN(TRUNC((fIn - aPartAt[nPart]) / fCycle) + 1, nCycles);",
        f"        nMark := {MEASURED} + nPeriod - nWarmUp;",
        "        IF nPeriod <= nWarmUp THEN",
        f"          nMark := {WARM_UP} + nPeriod;",
        "        END_IF;",
        "      END_IF;",
        "      nIndex := nPart + nPeriod;",
    ]


def _round_marks(plan: Plan, parts: int) -> list[str]:
    assert not isinstance(plan.body, Trajectory)
    measured = sum(move.measured for move in plan.body.moves)
    return [
        "      nPeriod := MIN(TRUNC(fIn / fCycle) + 1, nCycles);",
        "      fIn := fIn - DINT_TO_LREAL(nPeriod - 1) * fCycle;",
        f"      FOR iPart := 1 TO {parts} DO",
        "        IF fIn >= aPartAt[iPart] THEN",
        "          nPart := iPart;",
        "        END_IF;",
        "      END_FOR;",
        f"      nMark := {SETTLE};",
        "      IF aPartMark[nPart] > 0 THEN",
        f"        nMark := {MEASURED} + (nPeriod - 1) * {measured} + aPartMark[nPart];",
        "      END_IF;",
        f"      nIndex := (nPeriod - 1) * {parts} + nPart;",
    ]
