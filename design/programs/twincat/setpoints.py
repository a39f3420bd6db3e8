"""Beckhoff TwinCAT: a function block evaluates the run in every PLC cycle and feeds the axes their set points.

Moves are evaluated by their share of the way, the series by one sine and one cosine.
"""

import numpy as np

from excitor.design.motion import Excitation, Move, Series
from excitor.design.programs.plan import BACK, END, HOLD, MEASURED, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, Plan
from excitor.design.programs.target import in_axes, precise, stated
from excitor.design.programs.twincat import text
from excitor.design.programs.twincat.text import constants, reals

REST, CATCH_UP, STOP = 1.0, 1.0, 0.3  # s: standing still around the run; to home at the start; to a stop

TARGET = stated("twincat")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the function block and the program that calls it."""
    axes = in_axes(plan, TARGET)
    lines = [*text.header(plan, TARGET), *_block(axes, name), "", *text.program(plan, name), ""]
    return {f"{name}.st": TARGET.line_end.join(lines)}


def _block(plan: Plan, name: str) -> list[str]:
    step = plan.sample_time
    moves, spans = all_moves(plan, Move(plan.home, plan.home, round(max(CATCH_UP / step, 1.0)) * step, name="way"))
    return [
        f"FUNCTION_BLOCK FB_{name}",
        *text.interface(plan),
        *_constants(plan, moves),
        *_variables(plan),
        *_watch(plan),
        *text.preflight(plan, 10, _cycle_check()),
        "bMove := FALSE;",
        "bSeries := FALSE;",
        "bOver := FALSE;",
        *_states(plan, spans),
        "fTime := DINT_TO_LREAL(nStep) * fTick + fSlip;",
        *evaluation(plan),
        *_slowing(plan),
        *_feeding(plan),
        *_advance(plan, spans),
        "END_FUNCTION_BLOCK",
    ]


def _constants(plan: Plan, moves: list[Move]) -> list[str]:
    step, series = plan.sample_time, plan.body.series
    return [
        "VAR CONSTANT",
        f"  fTick : LREAL := {precise(step, 15)};  (* s, cycle of the task *)",
        f"  nCycle : UDINT := {round(step * 1e7)};  (* the same in 100 ns *)",
        f"  nRest : DINT := {round(REST / step)};  (* cycles of standing still before and after the run *)",
        f"  fStop : LREAL := {precise(STOP, 15)};  (* s from full speed to a stop *)",
        *text.reals("aHome", plan.home, "where the run begins and ends"),
        *text.reals("aNear", text.near(plan), "how far from home the start may be"),
        *move_constants(moves, step, series is None),
        *(series_constants(series, plan.body.excitation) if series is not None else []),
        "END_VAR",
    ]


def _variables(plan: Plan) -> list[str]:
    n = plan.robot.n_joints
    series = []
    if plan.body.series is not None:
        top, waves = plan.body.series.harmonics[-1], len(plan.body.series.harmonics)
        series = [
            "  iPart, iWave, nPhase : DINT;",
            "  fAngle, fSum, fSum1, fSum2 : LREAL;",
            f"  aSine, aCosine : ARRAY[1..{top}] OF LREAL;",
            f"  aWave, aWave1, aWave2 : ARRAY[1..{2 * waves}] OF LREAL;",
        ]
    return [
        "VAR",
        f"  fbEnable : ARRAY[1..{n}] OF MC_ExtSetPointGenEnable;",
        f"  fbDisable : ARRAY[1..{n}] OF MC_ExtSetPointGenDisable;",
        "  nState, nNext, nStep, iAxis, iMove, nDirection, nCount : DINT;",
        "  bWasRun, bMove, bSeries, bOver, bSlow, bReady, bLate, bCruise : BOOL;",
        "  fTime, fSlip, fSlow, fRate, fRate1 : LREAL;",
        "  fX, fE0, fE1, fE2, fDuration, fBlend, fSpeed, fShare, fShare1, fShare2 : LREAL;",
        f"  aFrom, aWay, aPos, aVel, aAcc : ARRAY[1..{n}] OF LREAL;",
        *series,
        "END_VAR",
    ]


def _watch(plan: Plan) -> list[str]:
    n = plan.robot.n_joints
    return [
        "(* fresh status; an axis that fails, or bRun going FALSE, stops all of them *)",
        f"FOR iAxis := 1 TO {n} DO",
        "  stAxes[iAxis].ReadStatus();",
        "END_FOR;",
        "IF nState >= 20 AND nState < 80 AND NOT bSlow THEN",
        "  IF NOT bRun THEN",
        "    bSlow := TRUE;",
        "    sMessage := 'Stopped, because bRun went FALSE.';",
        "  END_IF;",
        f"  FOR iAxis := 1 TO {n} DO",
        "    IF stAxes[iAxis].Status.Error OR NOT stAxes[iAxis].Status.Operational THEN",
        "      bSlow := TRUE;",
        "      sMessage := CONCAT('Stopped by a failure of axis ', DINT_TO_STRING(iAxis));",
        "    END_IF;",
        "  END_FOR;",
        "END_IF;",
    ]


def _cycle_check() -> list[str]:
    return [
        "  IF TwinCAT_SystemInfoVarList._TaskInfo[GETCURTASKINDEXEX()].CycleTime <> nCycle THEN",
        "    sMessage := 'Call this block in a task whose cycle is fTick.';",
        "  END_IF;",
    ]


def _states(plan: Plan, spans: dict[str, tuple[int, int]]) -> list[str]:
    out, back = (30 if plan.out.duration else 40), (70 if plan.back.duration else 80)
    ways = [("20: (* to home exactly *)", "home", out)]
    if plan.out.duration:
        ways.append(("30: (* to the start *)", "out", 40))
    before = [line for label, name, nxt in ways for line in (label, *way_state(plan, name, spans[name], nxt))]
    after = ["70: (* home again *)", *way_state(plan, "back", spans["back"], 80)] if plan.back.duration else []
    return [
        "CASE nState OF",
        *_enabling(plan),
        *before,
        "40: (* stand still; wait for the Scope *)",
        "  nMark := 0;",
        "  bLog := nStep >= nRest;",
        "  bOver := bLog AND bLoggerRunning;",
        "  nNext := 50;",
        "50: (* the run *)",
        *main_state(plan, spans["main"], 60),
        "  IF nStep = 0 AND NOT bSlow THEN",
        "    nMarks := nMarks + 1;",
        "  END_IF;",
        "60: (* stand still *)",
        "  nMark := 0;",
        "  bLog := FALSE;",
        "  bOver := nStep >= nRest;",
        f"  nNext := {back};",
        *after,
        *_disabling(plan),
        "END_CASE;",
    ]


def _enabling(plan: Plan) -> list[str]:
    n = plan.robot.n_joints
    return [
        "10: (* take over where the axes stand *)",
        "  IF nStep = 0 THEN",
        "    fSlip := 0.0;",
        "    fSlow := 0.0;",
        "    iMove := 1;",
        f"    FOR iAxis := 1 TO {n} DO",
        "      aFrom[iAxis] := stAxes[iAxis].NcToPlc.SetPos;",
        "      aPos[iAxis] := aFrom[iAxis];",
        "      aVel[iAxis] := 0.0;",
        "      aAcc[iAxis] := 0.0;",
        "      fbDisable[iAxis](Execute := FALSE, Axis := stAxes[iAxis]);",
        "    END_FOR;",
        "  END_IF;",
        "  bReady := TRUE;",
        f"  FOR iAxis := 1 TO {n} DO",
        "    fbEnable[iAxis](",
        "      Execute := nStep >= 5, Position := aHome[iAxis], PositionType := POSITIONTYPE_ABSOLUTE,",
        "      Axis := stAxes[iAxis]",
        "    );",
        "    bReady := bReady AND fbEnable[iAxis].Enabled;",
        "  END_FOR;",
        "  IF nStep > 2 * nRest AND NOT bReady THEN",
        "    sMessage := 'An axis takes no external set points.';",
        "    nState := 80;",
        "    nStep := 0;",
        "  END_IF;",
        "  bOver := bReady;",
        "  nNext := 20;",
    ]


def _disabling(plan: Plan) -> list[str]:
    n = plan.robot.n_joints
    return [
        "80: (* give the axes back; hold and feed until they take no set points any more, and 10 cycles longer *)",
        "  IF nStep = 0 THEN",
        "    nCount := 0;",
        "  END_IF;",
        "  nCount := nCount + 1;",
        f"  FOR iAxis := 1 TO {n} DO",
        "    fbEnable[iAxis](",
        "      Execute := FALSE, Position := aHome[iAxis], PositionType := POSITIONTYPE_ABSOLUTE,",
        "      Axis := stAxes[iAxis]",
        "    );",
        "    fbDisable[iAxis](Execute := nStep >= 5, Axis := stAxes[iAxis]);",
        "    IF stAxes[iAxis].Status.ExtSetPointGenEnabled AND NOT fbDisable[iAxis].Done OR nStep <= 5 THEN",
        "      nCount := 0;",
        "      IF nStep > 2 * nRest THEN",
        "        sMessage := CONCAT('External set points cannot be switched off at axis ', DINT_TO_STRING(iAxis));",
        "      END_IF;",
        "    END_IF;",
        "  END_FOR;",
        "  IF sMessage = '' THEN",
        f"    nMark := {END};",
        "  END_IF;",
        "  bLog := FALSE;",
        "  bOver := nCount >= 10 OR nStep > 2 * nRest;",
        "  nNext := 0;",
    ]


def _slowing(plan: Plan) -> list[str]:
    return [
        "(* to a stop along the way: time itself slows down *)",
        "IF bSlow AND nState < 80 THEN",
        "  fRate := 1.0 - fSlow * fSlow * (3.0 - 2.0 * fSlow);",
        "  fRate1 := -6.0 * fSlow * (1.0 - fSlow) / fStop;",
        f"  FOR iAxis := 1 TO {plan.robot.n_joints} DO",
        "    aAcc[iAxis] := aAcc[iAxis] * fRate * fRate + aVel[iAxis] * fRate1;",
        "    aVel[iAxis] := aVel[iAxis] * fRate;",
        "  END_FOR;",
        "  IF fSlow >= 1.0 THEN",
        "    nState := 80;",
        "    nStep := 0;",
        "    bOver := FALSE;",
        "  END_IF;",
        "  fSlow := MIN(fSlow + fTick / fStop, 1.0);",
        "  fSlip := fStop * (fSlow - fSlow * fSlow * fSlow + 0.5 * fSlow * fSlow * fSlow * fSlow);",
        "END_IF;",
    ]


def _feeding(plan: Plan) -> list[str]:
    return [
        "IF nState >= 10 THEN",
        f"  FOR iAxis := 1 TO {plan.robot.n_joints} DO",
        "    nDirection := 0;",
        "    IF aVel[iAxis] > 0.0 THEN",
        "      nDirection := 1;",
        "    ELSIF aVel[iAxis] < 0.0 THEN",
        "      nDirection := -1;",
        "    END_IF;",
        "    MC_ExtSetPointGenFeed(",
        "      Position := aPos[iAxis], Velocity := aVel[iAxis], Acceleration := aAcc[iAxis], Direction := nDirection,",
        "      Axis := stAxes[iAxis]",
        "    );",
        "  END_FOR;",
        "END_IF;",
    ]


def _advance(plan: Plan, spans: dict[str, tuple[int, int]]) -> list[str]:
    """Count the cycles of a state; the next one begins where this one has ended."""
    series = plan.body.series is not None
    begin_main = ["    nCount := 0;", f"    nPeriod := {0 if series else 1};", *(["    iPart := 1;"] if series else [])]
    begins = [("30", spans["out"][0])] if plan.out.duration else []
    begins += [("50", spans["main"][0])] if not series else []
    begins += [("70", spans["back"][0])] if plan.back.duration else []
    starts = [f"  IF nState = {state} THEN iMove := {move}; END_IF;" for state, move in begins]
    return [
        "IF bOver AND NOT bSlow OR bOver AND nState = 80 THEN",
        "  nState := nNext;",
        "  nStep := 0;",
        f"  FOR iAxis := 1 TO {plan.robot.n_joints} DO",
        "    aFrom[iAxis] := aPos[iAxis];",
        "    aVel[iAxis] := 0.0;",
        "    aAcc[iAxis] := 0.0;",
        "  END_FOR;",
        *starts,
        "  IF nState = 50 THEN",
        *begin_main,
        "  ELSIF nState = 0 THEN",
        "    bBusy := FALSE;",
        "    bError := sMessage <> '';",
        "    bDone := NOT bError;",
        "  END_IF;",
        "ELSIF NOT bSlow OR nState = 80 THEN",
        "  nStep := nStep + 1;",
        "END_IF;",
    ]


ENVELOPE = """  (* e(x) = 35 x4 - 84 x5 + 70 x6 - 20 x7, and its derivatives by x *)
  fX := LIMIT(0.0, fX, 1.0);
  fE0 := fX * fX * fX * fX * (35.0 - fX * (84.0 - fX * (70.0 - 20.0 * fX)));
  fE1 := 140.0 * fX * fX * fX * (1.0 - fX) * (1.0 - fX) * (1.0 - fX);
  fE2 := 420.0 * fX * fX * (1.0 - fX) * (1.0 - fX) * (1.0 - 2.0 * fX);"""

MOVE = f"""(* a move: share of the way, by the envelope; or speeding up over a blend, cruising, slowing down *)
IF bMove THEN
  fDuration := DINT_TO_LREAL(aSteps[iMove]) * fTick;
  fBlend := aBlend[iMove];
  fTime := LIMIT(0.0, fTime, fDuration);
  bLate := FALSE;
  IF fBlend <= 0.0 THEN
    fX := fTime / fDuration;
  ELSIF fTime >= MAX(fDuration - fBlend, fBlend) THEN
    bLate := TRUE;
    fX := (fDuration - fTime) / fBlend;
  ELSE
    fX := fTime / fBlend;
  END_IF;
  bCruise := fBlend > 0.0 AND fTime > fBlend AND NOT bLate;
{ENVELOPE}
  IF fBlend <= 0.0 THEN
    fShare := fE0;
    fShare1 := fE1 / fDuration;
    fShare2 := fE2 / (fDuration * fDuration);
  ELSE
    fSpeed := 1.0 / (fDuration - fBlend);
    IF bCruise THEN
      fShare := fSpeed * (fTime - 0.5 * fBlend);
      fShare1 := fSpeed;
      fShare2 := 0.0;
    ELSE
      fShare := fSpeed * fBlend * fX * fX * fX * fX * fX * (7.0 - fX * (14.0 - fX * (10.0 - 2.5 * fX)));
      fShare1 := fSpeed * fE0;
      fShare2 := fSpeed * fE1 / fBlend;
      IF bLate THEN
        fShare := 1.0 - fShare;
        fShare2 := -fShare2;
      END_IF;
    END_IF;
  END_IF;
  FOR iAxis := 1 TO {{n}} DO
    aWay[iAxis] := aTo[iMove, iAxis] - aFrom[iAxis];
    aPos[iAxis] := aFrom[iAxis] + fShare * aWay[iAxis];
    aVel[iAxis] := fShare1 * aWay[iAxis];
    aAcc[iAxis] := fShare2 * aWay[iAxis];
  END_FOR;
END_IF;"""

SERIES = f"""(* the series: envelope, waves of all harmonics, their sums *)
IF bSeries THEN
  nPhase := nStep;
  fE0 := 1.0;
  fE1 := 0.0;
  fE2 := 0.0;
  IF aKind[iPart] = 2 OR aKind[iPart] = 4 THEN
    fX := fTime / fRamp;
    IF aKind[iPart] = 4 THEN
      fX := 1.0 - fX;
    ELSE
      nPhase := nStep + nLead;
    END_IF;
  {ENVELOPE.strip().replace(chr(10), chr(10) + "  ")}
    fE1 := fE1 / fRamp;
    fE2 := fE2 / (fRamp * fRamp);
    IF aKind[iPart] = 4 THEN
      fE1 := -fE1;
    END_IF;
  ELSIF aKind[iPart] = 1 THEN
    fE0 := 0.0;
  END_IF;
  fAngle := fOmega * (DINT_TO_LREAL(nPhase MOD nPeriodSteps) * fTick + fSlip);
  aSine[1] := SIN(fAngle);
  aCosine[1] := COS(fAngle);
  FOR iWave := 2 TO {{top}} DO
    aSine[iWave] := aSine[iWave - 1] * aCosine[1] + aCosine[iWave - 1] * aSine[1];
    aCosine[iWave] := aCosine[iWave - 1] * aCosine[1] - aSine[iWave - 1] * aSine[1];
  END_FOR;
  FOR iWave := 1 TO {{waves}} DO
    aWave[2 * iWave - 1] := aSine[aHarmonic[iWave]];
    aWave[2 * iWave] := aCosine[aHarmonic[iWave]];
  END_FOR;
  FOR iWave := 1 TO {{waves}} DO
    aWave1[2 * iWave - 1] := aRate[iWave] * aWave[2 * iWave];
    aWave1[2 * iWave] := aFall[iWave] * aWave[2 * iWave - 1];
    aWave2[2 * iWave - 1] := aRate[iWave] * aWave1[2 * iWave];
    aWave2[2 * iWave] := aFall[iWave] * aWave1[2 * iWave - 1];
  END_FOR;
  FOR iAxis := 1 TO {{n}} DO
    fSum := 0.0;
    FOR iWave := 1 TO {{double}} DO
      fSum := fSum + aCoefficient[iAxis, iWave] * aWave[iWave];
    END_FOR;
    fSum1 := 0.0;
    FOR iWave := 1 TO {{double}} DO
      fSum1 := fSum1 + aCoefficient[iAxis, iWave] * aWave1[iWave];
    END_FOR;
    fSum2 := 0.0;
    FOR iWave := 1 TO {{double}} DO
      fSum2 := fSum2 + aCoefficient[iAxis, iWave] * aWave2[iWave];
    END_FOR;
    aPos[iAxis] := aCenter[iAxis] + fE0 * fSum;
    aVel[iAxis] := fE0 * fSum1 + fE1 * fSum;
    aAcc[iAxis] := fE0 * fSum2 + 2.0 * fE1 * fSum1 + fE2 * fSum;
  END_FOR;
END_IF;"""


def all_moves(plan: Plan, catch_up: Move) -> tuple[list[Move], dict[str, tuple[int, int]]]:
    """List the moves of a program, and the first and last of each segment; a move to home comes first."""
    body = plan.body.repeats()[0] if plan.body.series is None else ()
    parts: tuple[tuple[Move, ...], ...] = ((catch_up,), plan.out.moves, body, plan.back.moves)
    moves = [move for part in parts for move in part]
    edges = np.cumsum([0, *map(len, parts)])
    names = ("home", "out", "main", "back")
    return moves, {name: (int(edges[k]) + 1, int(edges[k + 1])) for k, name in enumerate(names)}


def move_constants(moves: list[Move], step: float, measured: bool) -> list[str]:
    """Declare the moves' goals, steps and blends."""
    return [
        *reals("aTo 2", np.array([move.goal for move in moves]), "where each move leads"),
        *constants("aSteps", "DINT", [[round(move.duration / step) for move in moves]], "cycles that it takes"),
        *reals("aBlend", np.array([move.blend for move in moves]), "s of speeding up and slowing down; 0: none"),
        *(constants("aMeasured", "BOOL", [[str(m.measured).upper() for m in moves]]) if measured else []),
    ]


def series_constants(series: Series, excitation: Excitation) -> list[str]:
    """Declare the series: centre, coefficients, harmonics, and the parts of the run that take time."""
    step = excitation.sample_time
    n, waves = series.sines.shape
    pairs = np.stack([series.sines, series.cosines], axis=2).reshape(n, 2 * waves)
    ramp, period = round(excitation.ramp / step), round(excitation.period / step)
    rates = np.array(excitation.harmonics) * excitation.omega
    parts = [row for row in _parts(excitation) if row[1] > 0]
    return [
        f"  fOmega : LREAL := {precise(excitation.omega)};  (* rad/s of the first harmonic *)",
        f"  nPeriodSteps : DINT := {period};",
        f"  nWarmUp : DINT := {excitation.warm_up};",
        f"  nPeriods : DINT := {excitation.warm_up + excitation.measured};",
        f"  fRamp : LREAL := {precise(ramp * step)};",
        f"  nLead : DINT := {-ramp % period};  (* phase at which the ramp begins, for it ends at phase 0 *)",
        f"  nParts : DINT := {len(parts)};",
        *constants("aKind", "DINT", [[row[0] for row in parts]], "1 rest, 2 ramp-in, 3 periods, 4 ramp-out"),
        *constants("aLength", "DINT", [[row[1] for row in parts]], "cycles"),
        *constants("aMark", "DINT", [[row[2] for row in parts]], "for the log"),
        *constants("aHarmonic", "DINT", [list(excitation.harmonics)]),
        *reals("aRate", rates, "rad/s of each harmonic"),
        *reals("aFall", -rates, "the same, negative: cosines fall"),
        *reals("aCenter", series.center),
        *reals("aCoefficient 2", pairs, "each axis: sine and cosine of each harmonic"),
    ]


def _parts(excitation: Excitation) -> list[tuple[int, int, int]]:
    step = excitation.sample_time
    settle, ramp, hold = (round(x / step) for x in (excitation.settle, excitation.ramp, excitation.hold))
    period = round(excitation.period / step)
    return [(1, settle, SETTLE), (2, ramp, RAMP_IN), (3, period, 0), (4, ramp, RAMP_OUT), (1, hold, HOLD)]


def main_state(plan: Plan, span: tuple[int, int], next_state: int) -> list[str]:
    """Write the state of the run itself: which part or move, its mark, and when it is over."""
    if plan.body.series is not None:
        return _series_state(next_state)
    repeats = plan.body.repeats()[1]
    first, last = span
    return [
        "  bMove := TRUE;",
        f"  IF nStep = aSteps[iMove] AND (iMove < {last} OR nPeriod < {repeats}) AND NOT bSlow THEN",
        *_next_from(plan, 4),
        "    iMove := iMove + 1;",
        f"    IF iMove > {last} THEN",
        f"      iMove := {first};",
        "      nPeriod := nPeriod + 1;",
        "    END_IF;",
        "    nStep := 0;",
        "  END_IF;",
        "  IF nStep = 0 AND NOT bSlow THEN",
        f"    nMark := {SETTLE};",
        "    IF aMeasured[iMove] THEN",
        "      nCount := nCount + 1;",
        f"      nMark := {MEASURED} + nCount;",
        "    END_IF;",
        "  END_IF;",
        f"  bOver := nStep = aSteps[iMove] AND iMove = {last} AND nPeriod = {repeats};",
        f"  nNext := {next_state};",
    ]


def _series_state(next_state: int) -> list[str]:
    return [
        "  bSeries := TRUE;",
        "  IF nStep = aLength[iPart] AND NOT bSlow THEN",
        "    IF aKind[iPart] = 3 AND nPeriod < nPeriods THEN",
        "      nPeriod := nPeriod + 1;",
        "      nStep := 0;",
        "    ELSIF iPart < nParts THEN",
        "      iPart := iPart + 1;",
        "      nStep := 0;",
        "    END_IF;",
        "  END_IF;",
        "  nMark := aMark[iPart];",
        "  IF aKind[iPart] = 3 THEN",
        "    nPeriod := MAX(nPeriod, 1);",
        f"    nMark := {MEASURED} + nPeriod - nWarmUp;",
        "    IF nPeriod <= nWarmUp THEN",
        f"      nMark := {WARM_UP} + nPeriod;",
        "    END_IF;",
        "  END_IF;",
        "  bOver := iPart = nParts AND nStep = aLength[iPart] AND (aKind[iPart] <> 3 OR nPeriod = nPeriods);",
        f"  nNext := {next_state};",
    ]


def way_state(plan: Plan, stretch: str, span: tuple[int, int], next_state: int) -> list[str]:
    """Write the state of moves on the way: one after the other."""
    mark = {"out": OUT, "back": BACK}.get(stretch, 0)
    last = span[1]
    return [
        f"  nMark := {mark};",
        "  bMove := TRUE;",
        f"  IF nStep = aSteps[iMove] AND iMove < {last} AND NOT bSlow THEN",
        *_next_from(plan, 4),
        "    iMove := iMove + 1;",
        "    nStep := 0;",
        "  END_IF;",
        f"  bOver := nStep = aSteps[iMove] AND iMove = {last};",
        f"  nNext := {next_state};",
    ]


def _next_from(plan: Plan, indent: int) -> list[str]:
    lines = [f"FOR iAxis := 1 TO {plan.robot.n_joints} DO", "  aFrom[iAxis] := aTo[iMove, iAxis];", "END_FOR;"]
    return [" " * indent + line for line in lines]


def evaluation(plan: Plan) -> list[str]:
    """Write the statements that compute positions, velocities and accelerations."""
    n = plan.robot.n_joints
    parts = [MOVE.format(n=n)]
    if plan.body.series is not None:
        harmonics = plan.body.series.harmonics
        parts.append(SERIES.format(n=n, top=harmonics[-1], waves=len(harmonics), double=2 * len(harmonics)))
    return [line for part in parts for line in part.split("\n")]
