"""The unchanging parts of the block that couples axes to a virtual master."""

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
