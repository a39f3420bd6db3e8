"""Beckhoff TwinCAT by cam tables: the axes follow a virtual master whose position is time.

* The unchanging parts of the block that couples axes to a virtual master.
* Cam tables of a run: points of every part, that a quintic joins, over a master whose position is time in s.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from excitor.design.motion import Trajectory, executed, series
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
    Move,
    Plan,
    moved,
)
from excitor.design.programs.target import Target, fixed, in_axes, precise, rounded
from excitor.design.programs.twincat import text
from excitor.robots.arrays import FloatArray

_MARKS = {"out": OUT, "back": BACK}


DECIMALS = 9


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


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """One cam: master positions from 0, and (n_rows, n_axes) of position, velocity and acceleration."""

    begin: float  # s on the master, from the start of the program
    periodic: bool
    master: FloatArray
    values: tuple[FloatArray, FloatArray, FloatArray]


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


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """One stretch on the master: its tables, where its motion begins and ends, where the master stops."""

    name: str
    tables: tuple[Table, ...]
    origin: float
    end: float
    stop: float


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


POINTS = """      FOR iRow := 1 TO aRows[iTable] DO
        aPoint[iRow].PointIndex := DINT_TO_UDINT(iRow);
        aPoint[iRow].FunctionType := MOTIONFUNCTYPE_POLYNOM5_MM;
        aPoint[iRow].PointType := MOTIONPOINTTYPE_MOTION;
        aPoint[iRow].RelIndexNextPoint := 1;
        aPoint[iRow].MasterPos := aMaster_{name}[aFirst[iTable] + iRow - 1];
        aPoint[iRow].SlavePos := aPosition_{name}[iAxis, aFirst[iTable] + iRow - 1];
        aPoint[iRow].SlaveVelo := aVelocity_{name}[iAxis, aFirst[iTable] + iRow - 1];
        aPoint[iRow].SlaveAcc := aAcceleration_{name}[iAxis, aFirst[iTable] + iRow - 1];
        aPoint[iRow].SlaveJerk := 0.0;
      END_FOR;"""

BLOCK = {
    "variables": """VAR
  aPoint : ARRAY[1..{rows}] OF MC_MotionFunctionPoint;
  stTable : MC_CAM_REF;
  stOptions : ST_CamInOptions;
  fbSelect : MC_CamTableSelect;
  fbHome : ARRAY[1..{n}] OF MC_MoveAbsolute;
  fbCam : ARRAY[1..{most}, 1..{n}] OF MC_CamIn;
  fbOut : ARRAY[1..{n}] OF MC_CamOut;
  fbMaster : MC_MoveAbsolute;
  fbHalt : MC_Halt;
  fbStopMaster : MC_Stop;
  fbStop : ARRAY[1..{n}] OF MC_Stop;
  fbRest, fbWait, fbLong : TON;
  nState, nWas, nStep, nWasStep, iTable, iAxis, iRow, iStretch, iCam, nQueued, iPart, nPart, nIndex, nLast : DINT;
  bWasRun, bSlow, bHard, bReady : BOOL;
  fBase, fIn, fLeft : LREAL;
END_VAR""",
    "watch": """(* fresh status; another speed, or bRun going FALSE, slows the master down and with it
all axes; a failure is bHard: every axis stops by itself, too *)
stMaster.ReadStatus();
FOR iAxis := 1 TO {n} DO
  stAxes[iAxis].ReadStatus();
END_FOR;
IF nState >= 10 AND nState < 75 THEN
  IF stMaster.Status.Error OR NOT stMaster.Status.Operational THEN
    bHard := TRUE;
    sMessage := 'Stopped by a failure of the master axis.';
  END_IF;
  FOR iAxis := 1 TO {n} DO
    IF stAxes[iAxis].Status.Error OR NOT stAxes[iAxis].Status.Operational THEN
      bHard := TRUE;
      sMessage := CONCAT('Stopped by a failure of axis ', DINT_TO_STRING(iAxis));
    END_IF;
  END_FOR;
  IF bHard OR bSlow THEN
    bSlow := TRUE;
  ELSIF NOT bRun THEN
    bSlow := TRUE;
    sMessage := 'Stopped, because bRun went FALSE.';
  ELSIF stMaster.PlcToNc.Override <> 1000000 THEN
    bSlow := TRUE;
    sMessage := 'Stopped, because the override of the master axis changed.';
  END_IF;
END_IF;""",
    "master": """  IF stMaster.Status.Error OR NOT stMaster.Status.Operational THEN
    sMessage := 'Switch power on; not ready is the master axis.';
  ELSIF stMaster.PlcToNc.Override <> 1000000 THEN
    sMessage := 'Set the override to 100 percent at the master axis.';
  END_IF;""",
    "states": """bReady := TRUE;
CASE nState OF
10: (* load one table of one axis after the other *)
    IF nStep = 0 THEN
      iTable := 1;
      iAxis := 1;
      iStretch := 1;
      nLast := 0;
      nStep := 1;
    ELSE
      iAxis := nStep - ((nStep - 1) / {n}) * {n};
      iTable := (nStep - 1) / {n} + 1;
    END_IF;
    IF NOT fbSelect.Busy AND NOT fbSelect.Done THEN
{points}
    END_IF;
    stTable.pArray := ADR(aPoint);
    stTable.ArraySize := SIZEOF(aPoint);
    stTable.TableType := MC_TABLETYPE_MOTIONFUNCTION;
    stTable.NoOfRows := DINT_TO_UDINT(aRows[iTable]);
    stTable.NoOfColumns := 1;
    fbSelect(
      Execute := NOT fbSelect.Done, Periodic := aPeriodic[iTable], CamTableID := DINT_TO_UDINT(nStep),
      CamTable := stTable
    );
    IF fbSelect.Error THEN
      bHard := TRUE;
      sMessage := 'Stopped: a cam table could not be loaded.';
    ELSIF fbSelect.Done THEN
      nStep := nStep + 1;
      IF nStep > {n} * {tables} THEN
        fBase := stMaster.NcToPlc.SetPos;
        nStep := 0;
        nState := 20;
      END_IF;
    END_IF;
20: (* to home exactly *)
    FOR iAxis := 1 TO {n} DO
      fbHome[iAxis](
        Execute := nStep > 0, Position := aHome[iAxis], Velocity := 1.0, Acceleration := 5.0, Deceleration := 5.0,
        Jerk := 50.0, Axis := stAxes[iAxis]
      );
      bReady := bReady AND fbHome[iAxis].Done;
      IF fbHome[iAxis].Error OR fbHome[iAxis].CommandAborted THEN
        bHard := TRUE;
        sMessage := CONCAT('Stopped: no move home by axis ', DINT_TO_STRING(iAxis));
      END_IF;
    END_FOR;
    nStep := nStep + 1;
    IF bReady THEN
      nStep := 0;
      nState := 30;
    END_IF;
30: (* couple to the first table of the stretch; before the run, stand still and wait for the Scope *)
    nQueued := 1;
    stOptions.ActivationMode := MC_CAMACTIVATION_INSTANTANEOUS;
    stOptions.ActivationPosition := 0.0;
    FOR iAxis := 1 TO {n} DO
      fbHome[iAxis](Execute := FALSE, Axis := stAxes[iAxis]);
      fbOut[iAxis](Execute := FALSE, Slave := stAxes[iAxis]);
      fbCam[1, iAxis](
        Execute := nStep > 0, MasterOffset := fBase + aBegin[aCamFirst[iStretch]], SlaveOffset := 0.0,
        StartMode := MC_STARTMODE_ABSOLUTE, CamTableID := DINT_TO_UDINT((aCamFirst[iStretch] - 1) * {n} + iAxis),
        Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]
      );
      bReady := bReady AND fbCam[1, iAxis].InSync;
      IF fbCam[1, iAxis].Error THEN
        bHard := TRUE;
        sMessage := CONCAT('Stopped: a cam table was refused by axis ', DINT_TO_STRING(iAxis));
      END_IF;
    END_FOR;
    nStep := nStep + 1;
    fbRest(IN := bReady, PT := T#1s);
    IF iStretch = {main} AND fbRest.Q THEN
      bLog := TRUE;
    END_IF;
    IF bReady AND (iStretch <> {main} OR bLog AND bLoggerRunning) THEN
      nStep := 0;
      nState := 50;
    END_IF;
50: (* let the master run; the next table is queued as soon as all axes follow the one before *)
    fbRest(IN := FALSE, PT := T#1s);
    fbMaster(
      Execute := nStep > 0, Position := fBase + aStop[iStretch], Velocity := 1.0, Acceleration := 5.0,
      Deceleration := 5.0, Jerk := 50.0, Axis := stMaster
    );
    IF fbMaster.Error OR fbMaster.CommandAborted THEN
      bHard := TRUE;
      sMessage := 'Stopped: the master axis does not take its move.';
    END_IF;
    fLeft := fBase + aBegin[aCamFirst[iStretch] + nQueued - 1] - stMaster.NcToPlc.SetPos;
    FOR iCam := 1 TO {most} DO
      IF iCam <= nQueued THEN
        iTable := aCamFirst[iStretch] + iCam - 1;
        stOptions.ActivationMode := MC_CAMACTIVATION_ATMASTERAXISPOS;
        stOptions.ActivationPosition := fBase + aBegin[iTable];
        FOR iAxis := 1 TO {n} DO
          fbCam[iCam, iAxis](
            Execute := TRUE, MasterOffset := fBase + aBegin[iTable], SlaveOffset := 0.0,
            StartMode := MC_STARTMODE_ABSOLUTE, CamTableID := DINT_TO_UDINT((iTable - 1) * {n} + iAxis),
            Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]
          );
          IF fbCam[iCam, iAxis].Error THEN
            bHard := TRUE;
            sMessage := CONCAT('Stopped: a cam table was refused by axis ', DINT_TO_STRING(iAxis));
          END_IF;
        END_FOR;
      END_IF;
    END_FOR;
    (* the newest table must be waiting 0.2 s before it is due, and be in use 0.1 s after: a stop takes 0.15 s of it *)
    FOR iAxis := 1 TO {n} DO
      IF NOT fbCam[nQueued, iAxis].InSync THEN
        bReady := FALSE;
        IF fLeft < -0.1 OR fLeft < 0.2 AND fLeft > 0.05 AND NOT stAxes[iAxis].Status.CamTableQueued THEN
          bSlow := TRUE;
          sMessage := CONCAT('Stopped: the next cam table was not taken by axis ', DINT_TO_STRING(iAxis));
        END_IF;
      END_IF;
    END_FOR;
    IF bReady AND nQueued < aCams[iStretch] THEN
      nQueued := nQueued + 1;
    END_IF;
    nStep := nStep + 1;
    IF fbMaster.Done THEN
      nStep := 0;
      nState := 60;
    END_IF;
60: (* at rest: uncouple *)
    bLog := FALSE;
    fbMaster(Execute := FALSE, Position := 0.0, Velocity := 1.0, Axis := stMaster);
    stOptions.ActivationMode := MC_CAMACTIVATION_INSTANTANEOUS;
    FOR iAxis := 1 TO {n} DO
      FOR iCam := 1 TO {most} DO
        fbCam[iCam, iAxis](Execute := FALSE, Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]);
      END_FOR;
      fbOut[iAxis](Execute := nStep > 0, Slave := stAxes[iAxis]);
      bReady := bReady AND fbOut[iAxis].Done;
      IF fbOut[iAxis].Error THEN
        bHard := TRUE;
        sMessage := CONCAT('Stopped: still coupled is axis ', DINT_TO_STRING(iAxis));
      END_IF;
    END_FOR;
    nStep := nStep + 1;
    fbRest(IN := bReady, PT := T#1s);
    IF fbRest.Q THEN
      fbRest(IN := FALSE, PT := T#1s);
      nStep := 0;
      iStretch := iStretch + 1;
      nState := 30;
      IF iStretch > {spans} THEN
        nState := 80;
      END_IF;
    END_IF;
END_CASE;""",
    "end": """(* what never answers ends the run *)
fbWait(
  IN := nState = nWas AND (nState = 20 OR nState >= 60 OR nState = 30 AND NOT bReady
    OR nState = 10 AND nStep = nWasStep), PT := T#20s
);
nWas := nState;
nWasStep := nStep;
IF fbWait.Q AND nState < 70 THEN
  bHard := TRUE;
  sMessage := 'Stopped: an axis does not answer.';
END_IF;
(* a stop: the master slows down in 0.3 s; if that fails or something else has failed, every axis stops by itself *)
IF (bSlow OR bHard) AND nState >= 10 AND nState < 70 THEN
  bHard := bHard OR nState = 20;
  bSlow := TRUE;
  nStep := 0;
  nState := 70;
END_IF;
IF nState = 70 THEN
  bLog := FALSE;
  fbMaster(Execute := FALSE, Axis := stMaster);
  fbHalt(Execute := nStep > 0 AND NOT bHard, Deceleration := 5.0, Jerk := 50.0, Axis := stMaster);
  fbLong(IN := NOT bHard, PT := T#2s);
  bHard := bHard OR fbHalt.Error OR fbLong.Q;
  fbStopMaster(Execute := bHard, Deceleration := 5.0, Jerk := 50.0, Axis := stMaster);
  bReady := stMaster.Status.NotMoving;
  FOR iAxis := 1 TO {n} DO
    fbHome[iAxis](Execute := FALSE, Axis := stAxes[iAxis]);
    fbStop[iAxis](
      Execute := bHard, Deceleration := 5.0 * aFast[iAxis], Jerk := 50.0 * aFast[iAxis], Axis := stAxes[iAxis]
    );
    bReady := bReady AND stAxes[iAxis].Status.NotMoving;
  END_FOR;
  nStep := nStep + 1;
  fbRest(IN := bReady AND nStep > 5, PT := T#200ms);
  IF fbRest.Q THEN
    nStep := 0;
    nState := 75;
  ELSIF fbWait.Q THEN
    sMessage := 'An axis does not stop: use the emergency stop.';
    nStep := 0;
    nState := 80;
  END_IF;
ELSIF nState = 75 THEN
  (* all stand still: uncouple *)
  fbRest(IN := FALSE, PT := T#1s);
  fbLong(IN := FALSE, PT := T#2s);
  bReady := nStep > 5;
  FOR iAxis := 1 TO {n} DO
    FOR iCam := 1 TO {most} DO
      fbCam[iCam, iAxis](Execute := FALSE, Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]);
    END_FOR;
    fbOut[iAxis](Execute := nStep > 1 AND stAxes[iAxis].Status.Coupled, Slave := stAxes[iAxis]);
    bReady := bReady AND NOT stAxes[iAxis].Status.Coupled;
  END_FOR;
  nStep := nStep + 1;
  IF bReady OR fbWait.Q THEN
    IF NOT bReady THEN
      sMessage := 'An axis is still coupled to the master.';
    END_IF;
    nStep := 0;
    nState := 80;
  END_IF;
ELSIF nState = 80 THEN
  fbSelect(Execute := FALSE, CamTable := stTable);
  fbHalt(Execute := FALSE, Axis := stMaster);
  fbStopMaster(Execute := FALSE, Axis := stMaster);
  FOR iAxis := 1 TO {n} DO
    fbStop[iAxis](Execute := FALSE, Axis := stAxes[iAxis]);
    fbOut[iAxis](Execute := FALSE, Slave := stAxes[iAxis]);
  END_FOR;
  nStep := nStep + 1;
  IF nStep > 10 THEN
    nStep := 0;
    nState := 0;
    bBusy := FALSE;
    bError := sMessage <> '';
    bDone := NOT bError;
  END_IF;
END_IF;""",
}


LEAD = 0.5  # s of rest around every stretch, in which the master speeds up and slows down
POINTS_A_CYCLE = 10  # of the highest harmonic, at least


TIME_DECIMALS = 12  # of the master for other editors; programs state it in full, for periods add up


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
