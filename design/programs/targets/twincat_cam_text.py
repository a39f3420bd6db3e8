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
  fbRest : TON;
  nState, nStep, iTable, iAxis, iRow, iStretch, iCam, iPart, nPart, nIndex, nLast : DINT;
  bWasRun, bSlow, bReady, bQueue : BOOL;
  fBase, fIn : LREAL;
END_VAR""",
    "watch": """(* fresh status; a failure, another speed, or bRun going FALSE, stops the master and with it all axes *)
stMaster.ReadStatus();
FOR iAxis := 1 TO {n} DO
  stAxes[iAxis].ReadStatus();
END_FOR;
IF nState >= 10 AND nState < 80 AND NOT bSlow THEN
  IF NOT bRun THEN
    bSlow := TRUE;
    sMessage := 'Stopped, because bRun went FALSE.';
  ELSIF stMaster.Status.Error OR NOT stMaster.Status.Operational OR stMaster.PlcToNc.Override <> 1000000 THEN
    bSlow := TRUE;
    sMessage := 'Stopped: the master axis failed, or its override changed.';
  END_IF;
  FOR iAxis := 1 TO {n} DO
    IF stAxes[iAxis].Status.Error OR NOT stAxes[iAxis].Status.Operational THEN
      bSlow := TRUE;
      sMessage := CONCAT('Stopped by a failure of axis ', DINT_TO_STRING(iAxis));
    END_IF;
  END_FOR;
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
      sMessage := 'A cam table was not taken.';
      nState := 80;
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
        Axis := stAxes[iAxis]
      );
      bReady := bReady AND fbHome[iAxis].Done;
    END_FOR;
    nStep := nStep + 1;
    IF bReady THEN
      nStep := 0;
      nState := 30;
    END_IF;
30: (* couple to the first table of the stretch; before the run, stand still and wait for the Scope *)
    stOptions.ActivationMode := MC_CAMACTIVATION_INSTANTANEOUS;
    stOptions.ActivationPosition := 0.0;
    FOR iAxis := 1 TO {n} DO
      fbHome[iAxis](
        Execute := FALSE, Position := aHome[iAxis], Velocity := 1.0, Acceleration := 5.0, Deceleration := 5.0,
        Axis := stAxes[iAxis]
      );
      fbOut[iAxis](Execute := FALSE, Slave := stAxes[iAxis]);
      fbCam[1, iAxis](
        Execute := nStep > 0, MasterOffset := fBase + aBegin[aCamFirst[iStretch]], SlaveOffset := 0.0,
        StartMode := MC_STARTMODE_ABSOLUTE, CamTableID := DINT_TO_UDINT((aCamFirst[iStretch] - 1) * {n} + iAxis),
        Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]
      );
      bReady := bReady AND fbCam[1, iAxis].InSync;
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
50: (* let the master run; the next table is queued as soon as the one before is in use *)
    fbRest(IN := FALSE, PT := T#1s);
    fbMaster(
      Execute := nStep > 0, Position := fBase + aStop[iStretch], Velocity := 1.0, Acceleration := 10.0,
      Deceleration := 10.0, Axis := stMaster
    );
    FOR iCam := 2 TO {most} DO
      IF iCam <= aCams[iStretch] THEN
        iTable := aCamFirst[iStretch] + iCam - 1;
        bQueue := stMaster.NcToPlc.SetPos > fBase + aBegin[iTable - 1];
        stOptions.ActivationMode := MC_CAMACTIVATION_ATMASTERAXISPOS;
        stOptions.ActivationPosition := fBase + aBegin[iTable];
        FOR iAxis := 1 TO {n} DO
          fbCam[iCam, iAxis](
            Execute := bQueue, MasterOffset := fBase + aBegin[iTable], SlaveOffset := 0.0,
            StartMode := MC_STARTMODE_ABSOLUTE, CamTableID := DINT_TO_UDINT((iTable - 1) * {n} + iAxis),
            Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]
          );
        END_FOR;
      END_IF;
    END_FOR;
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
    "end": """(* a stop: time slows down in 0.3 s; then the axes are uncoupled *)
IF bSlow AND nState < 70 THEN
  fbHalt(Execute := FALSE, Deceleration := 3.3, Axis := stMaster);
  nStep := 0;
  nState := 70;
END_IF;
IF nState = 70 THEN
  bLog := FALSE;
  fbMaster(Execute := FALSE, Position := 0.0, Velocity := 1.0, Axis := stMaster);
  fbHalt(Execute := TRUE, Deceleration := 3.3, Axis := stMaster);
  IF fbHalt.Done OR fbHalt.Error THEN
    nStep := nStep + 1;
    FOR iAxis := 1 TO {n} DO
      FOR iCam := 1 TO {most} DO
        fbCam[iCam, iAxis](Execute := FALSE, Options := stOptions, Master := stMaster, Slave := stAxes[iAxis]);
      END_FOR;
      fbOut[iAxis](Execute := nStep > 1, Slave := stAxes[iAxis]);
    END_FOR;
    IF nStep > 10 THEN
      nState := 80;
      nStep := 0;
    END_IF;
  END_IF;
ELSIF nState = 80 THEN
  nStep := nStep + 1;
  IF nStep > 10 THEN
    fbHalt(Execute := FALSE, Deceleration := 3.3, Axis := stMaster);
    nStep := 0;
    nState := 0;
    bBusy := FALSE;
    bError := sMessage <> '';
    bDone := NOT bError;
  END_IF;
END_IF;""",
}
