"""Parts of a TwinCAT program: header, numbers, the checks before a start, and the program around a block."""

from collections.abc import Sequence

import numpy as np

from excitor.design.programs.plan import Plan
from excitor.design.programs.target import Target, axes_of, comment, no_go_lines, precise
from excitor.robots.arrays import FloatArray

NEAR = (0.5, 1.0)  # deg, mm: how far from home a program starts


def header(plan: Plan, target: Target) -> list[str]:
    """Write comments that describe a file."""
    robot = plan.robot
    dry = ["DRY RUN: the same motion at a small amplitude."] if plan.dry else []
    names = comment(", ".join(axes_of(robot, target).names), 200)
    lines = [
        *no_go_lines(plan),
        f"Campaign {comment(plan.campaign)}, run {comment(plan.run)}, robot {comment(robot.name)}.",
        *dry,
        f"Axes in this order: {names}. Scaled in {', '.join(sorted(set(unit_names(plan))))}.",
        f"Takes {plan.out.duration:g} s to the start, {plan.body.duration:g} s there, "
        f"{plan.back.duration:g} s back, and rests between.",
    ]
    return [f"(* {line} *)" for line in lines]


def unit_names(plan: Plan) -> list[str]:
    """List the units that axes are scaled in."""
    return ["mm" if slides else "deg" for slides in plan.robot.mechanism.prismatic]


def near(plan: Plan) -> FloatArray:
    """Tolerance of each axis about home at the start, (n_joints,), in its unit."""
    return np.where(plan.robot.mechanism.prismatic, NEAR[1], NEAR[0])


def reals(name: str, rows: FloatArray, note: str = "") -> list[str]:
    """Declare a constant array of LREAL, one line per row."""
    rows = np.atleast_2d(rows)
    return constants(name, "LREAL", [[precise(x) for x in row] for row in rows], note)


def constants(name: str, kind: str, rows: Sequence[Sequence[object]], note: str = "") -> list[str]:
    """Declare a constant array: `name` may hold a second dimension, as in `aTo 2`."""
    name, _, dimensions = name.partition(" ")
    n, m = len(rows), len(rows[0])
    bounds = f"1..{n}, 1..{m}" if dimensions else f"1..{m}"
    tail = f"  (* {note} *)" if note else ""
    lines = [f"    {', '.join(str(x) for x in row)}{',' if k + 1 < n else ''}" for k, row in enumerate(rows)]
    return [f"  {name} : ARRAY[{bounds}] OF {kind} := [{tail}", *lines, "  ];"]


def interface(plan: Plan) -> list[str]:
    """Declare inputs and outputs of a block."""
    payload = []
    if plan.payload is not None:
        payload = ["  nPayloadGrams : DINT := -1;  (* what the operator says hangs on the flange *)"]
    return [
        "VAR_INPUT",
        "  bRun : BOOL;  (* a rising edge starts; FALSE while it moves: it slows down and stops *)",
        "  bLoggerRunning : BOOL;  (* the Scope is recording *)",
        *payload,
        "END_VAR",
        "VAR_OUTPUT",
        "  bLog : BOOL;  (* the Scope must record *)",
        "  nMark : DINT;  (* part of the run, for the log *)",
        "  nMarks : DINT;  (* count of marks of the run: tells two equal ones apart *)",
        "  nPeriod : DINT;  (* period of the run, from 1 *)",
        "  bBusy : BOOL;",
        "  bDone : BOOL;",
        "  bError : BOOL;",
        "  sMessage : STRING;",
        "END_VAR",
        "VAR_IN_OUT",
        f"  stAxes : ARRAY[1..{plan.robot.n_joints}] OF AXIS_REF;",
        "END_VAR",
    ]


def preflight(plan: Plan, first_state: int, special: Sequence[str] = ()) -> list[str]:
    """Check everything at a rising edge of bRun; nothing moves after a message.

    `special` lines add checks.
    """
    payload = []
    if plan.payload is not None:
        grams = round(1000.0 * plan.payload)
        payload = [
            f"  IF ABS(nPayloadGrams - {grams}) > 10 THEN",
            f"    sMessage := 'Hang {grams} g on the flange, and say so in nPayloadGrams.';",
            "  END_IF;",
        ]
    return [
        "(* a rising edge of bRun starts, if everything is as it must be *)",
        "IF bRun AND NOT bWasRun AND nState = 0 THEN",
        "  bDone := FALSE;",
        "  bError := FALSE;",
        "  sMessage := '';",
        "  nMark := 0;",
        "  nMarks := 0;",
        "  nPeriod := 0;",
        "  IF bLoggerRunning THEN",
        "    sMessage := 'Set bLoggerRunning to FALSE first.';",
        "  END_IF;",
        *special,
        *payload,
        *_axes_ready(plan.robot.n_joints),
        "  IF sMessage = '' THEN",
        "    bBusy := TRUE;",
        "    bSlow := FALSE;",
        "    nStep := 0;",
        f"    nState := {first_state};",
        "  ELSE",
        "    bError := TRUE;",
        "  END_IF;",
        "END_IF;",
        "bWasRun := bRun;",
    ]


def _axes_ready(n: int) -> list[str]:
    """Check that every axis is ready, at full override and at home."""
    return [
        f"  FOR iAxis := 1 TO {n} DO",
        "    IF stAxes[iAxis].Status.Error THEN",
        "      sMessage := CONCAT('Reset the error of axis ', DINT_TO_STRING(iAxis));",
        "    ELSIF NOT stAxes[iAxis].Status.Operational THEN",
        "      sMessage := CONCAT('Switch power on; not ready is axis ', DINT_TO_STRING(iAxis));",
        "    ELSIF stAxes[iAxis].PlcToNc.Override <> 1000000 THEN",
        "      sMessage := CONCAT('Set the override to 100 percent at axis ', DINT_TO_STRING(iAxis));",
        "    ELSIF ABS(stAxes[iAxis].NcToPlc.ActPos - aHome[iAxis]) > aNear[iAxis] THEN",
        "      sMessage := CONCAT('Move to the home pose first; away is axis ', DINT_TO_STRING(iAxis));",
        "    END_IF;",
        "  END_FOR;",
    ]


def program(plan: Plan, name: str) -> list[str]:
    """Write the program that switches power and calls the block."""
    n = plan.robot.n_joints
    told = ("bLog", "nMark", "nMarks", "nPeriod", "bDone", "bError", "sMessage")
    return [
        f"PROGRAM PRG_{name}",
        *_operated(plan, name),
        f"FOR iAxis := 1 TO {n} DO",
        "  fbPower[iAxis](",
        "    Enable := bPower, Enable_Positive := bPower, Enable_Negative := bPower, Override := fOverride, "
        "Axis := stAxes[iAxis]",
        "  );",
        "END_FOR;",
        "fbRun(",
        "  bRun := bRun,",
        "  bLoggerRunning := bLoggerRunning,",
        *(["  nPayloadGrams := nPayloadGrams,"] if plan.payload is not None else []),
        "  stAxes := stAxes",
        ");",
        *(f"{variable} := fbRun.{variable};" for variable in told),
        "END_PROGRAM",
    ]


def _operated(plan: Plan, name: str) -> list[str]:
    """Declare what the operator sets and sees."""
    n, payload = plan.robot.n_joints, plan.payload is not None
    return [
        "VAR",
        f"  stAxes : ARRAY[1..{n}] OF AXIS_REF;  (* link each one to its NC axis *)",
        f"  fbPower : ARRAY[1..{n}] OF MC_Power;",
        f"  fbRun : FB_{name};",
        "  bPower : BOOL;  (* operator: power on *)",
        "  bRun : BOOL;  (* operator: start; FALSE stops *)",
        "  bLoggerRunning : BOOL;  (* operator: the Scope is recording *)",
        "  fOverride : LREAL := 100.0;  (* operator: per cent *)",
        *(["  nPayloadGrams : DINT := -1;  (* operator: what hangs on the flange *)"] if payload else []),
        "  bLog : BOOL;",
        "  nMark : DINT;",
        "  nMarks : DINT;",
        "  nPeriod : DINT;",
        "  bDone : BOOL;",
        "  bError : BOOL;",
        "  sMessage : STRING;",
        "  iAxis : DINT;",
        "END_VAR",
    ]
