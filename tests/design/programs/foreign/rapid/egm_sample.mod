MODULE TRob1Guided
    LOCAL CONST jointtarget home := [[0, 0, 0, 0, 30, 0], [9E9, 9E9, 9E9, 9E9, 9E9, 9E9]];
    LOCAL VAR egmident egm_id;
    LOCAL VAR egm_minmax egm_condition := [-0.1, 0.1];

    PROC main()
        WHILE TRUE DO
            EGMGetId egm_id;
            EGMSetupUC ROB_1, egm_id, "default", "ROB_1", \Joint;
            EGMActJoint egm_id
                        \J1:=egm_condition
                        \J2:=egm_condition
                        \J3:=egm_condition
                        \J4:=egm_condition
                        \J5:=egm_condition
                        \J6:=egm_condition
                        \MaxSpeedDeviation:=20.0;
            EGMRunJoint egm_id, EGM_STOP_RAMP_DOWN, \J1 \J2 \J3 \J4 \J5 \J6 \CondTime:=5 \RampOutTime:=5;
            EGMReset egm_id;
            WaitTime 5;
        ENDWHILE
    ERROR
        IF ERRNO = ERR_UDPUC_COMM THEN
            TPWrite "Communication timed out";
            TRYNEXT;
        ENDIF
    ENDPROC
ENDMODULE
