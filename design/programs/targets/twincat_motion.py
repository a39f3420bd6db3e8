"""How a function block evaluates a run each cycle: moves by their share, the series by one sine and one cosine."""

import numpy as np

from excitor.design.fourier import Trajectory
from excitor.design.programs.plan import BACK, HOLD, MEASURED, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, Move, Plan
from excitor.design.programs.targets.twincat_text import constants, reals
from excitor.design.programs.words import precise

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
    """List the moves of a program, and the first and last of each stretch; one to home comes before all."""
    body = () if isinstance(plan.body, Trajectory) else plan.body.moves
    moves = [catch_up, *plan.out, *body, *plan.back]
    edges = np.cumsum([0, 1, len(plan.out), len(body), len(plan.back)])
    names = ("home", "out", "main", "back")
    return moves, {name: (int(edges[k]) + 1, int(edges[k + 1])) for k, name in enumerate(names)}


def move_constants(moves: list[Move], step: float, measured: bool) -> list[str]:
    """Declare the moves' goals, steps and blends."""
    return [
        *reals("aTo 2", np.array([move.to for move in moves]), "where each move leads"),
        *constants("aSteps", "DINT", [[round(move.duration / step) for move in moves]], "cycles that it takes"),
        *reals("aBlend", np.array([move.blend for move in moves]), "s of speeding up and slowing down; 0: none"),
        *(constants("aMeasured", "BOOL", [[str(m.measured).upper() for m in moves]]) if measured else []),
    ]


def series_constants(trajectory: Trajectory, step: float) -> list[str]:
    """Declare the series: centre, coefficients, harmonics, and the parts of the run that take time."""
    excitation = trajectory.excitation
    n, waves = trajectory.sines.shape
    pairs = np.stack([trajectory.sines, trajectory.cosines], axis=2).reshape(n, 2 * waves)
    ramp, period = round(excitation.ramp / step), round(excitation.period / step)
    rates = np.array(excitation.harmonics) * excitation.omega
    parts = [row for row in _parts(trajectory, step) if row[1] > 0]
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
        *reals("aCenter", trajectory.center),
        *reals("aCoefficient 2", pairs, "each axis: sine and cosine of each harmonic"),
    ]


def _parts(trajectory: Trajectory, step: float) -> list[tuple[int, int, int]]:
    excitation = trajectory.excitation
    settle, ramp, hold = (round(x / step) for x in (excitation.settle, excitation.ramp, excitation.hold))
    period = round(excitation.period / step)
    return [(1, settle, SETTLE), (2, ramp, RAMP_IN), (3, period, 0), (4, ramp, RAMP_OUT), (1, hold, HOLD)]


def main_state(plan: Plan, span: tuple[int, int], next_state: int) -> list[str]:
    """Write the state of the run itself: which part or move, its mark, and when it is over."""
    if isinstance(plan.body, Trajectory):
        return _series_state(next_state)
    first, last = span
    return [
        "  bMove := TRUE;",
        f"  IF nStep = aSteps[iMove] AND (iMove < {last} OR nPeriod < {plan.body.repeats}) AND NOT bSlow THEN",
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
        f"  bOver := nStep = aSteps[iMove] AND iMove = {last} AND nPeriod = {plan.body.repeats};",
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
    lines = [
        f"FOR iAxis := 1 TO {plan.robot.n_joints} DO",
        "  aFrom[iAxis] := aTo[iMove, iAxis];",
        "END_FOR;",
    ]
    return [" " * indent + line for line in lines]


def evaluation(plan: Plan) -> list[str]:
    """Write what computes positions, velocities and accelerations."""
    n = plan.robot.n_joints
    parts = [MOVE.format(n=n)]
    if isinstance(plan.body, Trajectory):
        harmonics = plan.body.excitation.harmonics
        parts.append(SERIES.format(n=n, top=harmonics[-1], waves=len(harmonics), double=2 * len(harmonics)))
    return [line for part in parts for line in part.split("\n")]
