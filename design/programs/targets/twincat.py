"""Beckhoff TwinCAT: a function block evaluates the run in every PLC cycle and feeds the axes their set points."""

from excitor.design.fourier import Trajectory
from excitor.design.programs.plan import END, Move, Plan
from excitor.design.programs.target import Target, in_axes
from excitor.design.programs.targets import twincat_motion as motion
from excitor.design.programs.targets import twincat_text as text
from excitor.design.programs.words import precise

REST, CATCH_UP, STOP = 1.0, 1.0, 0.3  # s: standing still around the run; to home at the start; to a stop

TARGET = Target(
    name="twincat",
    title="Beckhoff TwinCAT 3",
    timing="A",
    scheme="a function block evaluates the run in every PLC cycle and feeds position, velocity and acceleration to "
    "the NC axes as external set points",
    angle_unit="deg",
    sine_unit="rad",
    decimals=12,
    float_bits=64,
    longest_name=60,
    reserved=text.RESERVED,
    slides=True,
    refuses=("override", "mode", "home", "payload"),
    marks=True,
    needs=(
        "TwinCAT 3 with NC PTP (TF5000) and the PLC libraries Tc2_Standard, Tc2_System and Tc2_MC2.",
        "NC axes scaled in deg (turning) and mm (sliding), with the sign and zero of the robot's description.",
        "A PLC task whose cycle is the controller sample of the design. The block refuses to start in another cycle.",
        "IMPORTANT: the NC task (SAF) must have the same cycle as this PLC task; compare both in the system manager. "
        "The block cannot see it, and with another cycle the set points become stairs that shake the robot.",
        "Software end positions and position-lag monitoring of the NC axes switched on: external set points pass no "
        "other check.",
    ),
    loading=(
        "Add the function block and the program of the .st file to the PLC project (new POU, structured text, paste "
        "declaration and body), and call the program from the motion task.",
        "Link stAxes[1], stAxes[2] and so on to the NC axes in the order of the file's header.",
        *text.LOADING,
        "Set bPower; when all axes are ready and at the home pose, set bRun and leave it TRUE. Stop by bRun, never by "
        "bPower: bRun FALSE slows the motion down to a stop, and nothing goes on by itself afterwards.",
        "If sMessage asks for something, do it, set bRun to FALSE and to TRUE again.",
    ),
    logging=(
        "Record with TwinCAT Scope in the cycle of the task: actual position, actual velocity, set position and torque "
        "or current of every axis, and nMark, nMarks, nPeriod and bLog of the program.",
        "Start recording when bLog becomes TRUE and then set bLoggerRunning (or let the Scope do it by its trigger); "
        "the run waits for it.",
        "Stop when bLog becomes FALSE, set bLoggerRunning to FALSE (no run starts while it is TRUE), "
        "and export as CSV with a decimal point.",
    ),
    advice="Use measured positions and measured torque or current; torque comes in per mille or per cent of the "
    "rated torque, so state rated torque or current.",
    assumed="The override does not slow external set points down (it must stand at 100 % at the start all the same); "
    "PlcToNc.Override = 1000000 is 100 %.",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the function block and the program that calls it."""
    axes = in_axes(plan, TARGET)
    lines = [*text.header(plan, TARGET), *_block(axes, name), "", *text.program(plan, name), ""]
    return {f"{name}.st": TARGET.line_end.join(lines)}


def _block(plan: Plan, name: str) -> list[str]:
    step = plan.sample_time
    moves, spans = motion.all_moves(plan, Move(plan.home, round(max(CATCH_UP / step, 1.0)) * step))
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
        *motion.evaluation(plan),
        *_slowing(plan),
        *_feeding(plan),
        *_advance(plan, spans),
        "END_FUNCTION_BLOCK",
    ]


def _constants(plan: Plan, moves: list[Move]) -> list[str]:
    step, series = plan.sample_time, plan.body if isinstance(plan.body, Trajectory) else None
    return [
        "VAR CONSTANT",
        f"  fTick : LREAL := {precise(step, 15)};  (* s, cycle of the task *)",
        f"  nCycle : UDINT := {round(step * 1e7)};  (* the same in 100 ns *)",
        f"  nRest : DINT := {round(REST / step)};  (* cycles of standing still before and after the run *)",
        f"  fStop : LREAL := {precise(STOP, 15)};  (* s from full speed to a stop *)",
        *text.reals("aHome", plan.home, "where the run begins and ends"),
        *text.reals("aNear", text.near(plan), "how far from home the start may be"),
        *motion.move_constants(moves, step, series is None),
        *(motion.series_constants(series, step) if series is not None else []),
        "END_VAR",
    ]


def _variables(plan: Plan) -> list[str]:
    n = plan.robot.n_joints
    series = []
    if isinstance(plan.body, Trajectory):
        top, waves = plan.body.excitation.harmonics[-1], len(plan.body.excitation.harmonics)
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
    out, back = (30 if plan.out else 40), (70 if plan.back else 80)
    ways = [("20: (* to home exactly *)", "home", out)]
    if plan.out:
        ways.append(("30: (* to the start *)", "out", 40))
    before = [line for label, name, nxt in ways for line in (label, *motion.way_state(plan, name, spans[name], nxt))]
    after = ["70: (* home again *)", *motion.way_state(plan, "back", spans["back"], 80)] if plan.back else []
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
        *motion.main_state(plan, spans["main"], 60),
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
    series = isinstance(plan.body, Trajectory)
    begin_main = ["    nCount := 0;", f"    nPeriod := {0 if series else 1};", *(["    iPart := 1;"] if series else [])]
    begins = [("30", spans["out"][0])] if plan.out else []
    begins += [("50", spans["main"][0])] if not series else []
    begins += [("70", spans["back"][0])] if plan.back else []
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
