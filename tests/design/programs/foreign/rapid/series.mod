MODULE Series
    CONST num S1{2} := [5.123456,-1.250000];
    CONST num C1{2} := [2.000000,0.500000];
    VAR clock ckRun;
    FUNC num Q1(num ph)
        VAR num v := 12.000000;
        FOR k FROM 1 TO 2 DO
            v := v + S1{k} * Sin(k * ph) + C1{k} * Cos(k * ph);
        ENDFOR
        RETURN v;
    ENDFUNC
    PROC main()
        IF CSpeedOverride() < 100 THEN
            TPWrite "Set speed override to 100 percent";
            Stop;
        ENDIF
        ConfJ \Off;
        MoveAbsJ [[Q1(0),0,0,0,90,0],[9E9,9E9,9E9,9E9,9E9,9E9]] \NoEOffs, v50, fine, tool0;
        WaitRob \ZeroSpeed;
        WaitTime 1;
        ClkReset ckRun;
        ClkStart ckRun;
        FOR p FROM 1 TO 3 DO
            SetDO doMark, 1;
            FOR i FROM 1 TO 200 DO
                MoveAbsJ [[Q1(1.8*i),0,0,0,90,0],[9E9,9E9,9E9,9E9,9E9,9E9]] \NoEOffs, v1000 \T:=0.1, z5, tool0;
            ENDFOR
            SetDO doMark, 0;
        ENDFOR
        ClkStop ckRun;
        TPWrite "took " \Num:=Round(ClkRead(ckRun) \Dec:=2);
    ENDPROC
ENDMODULE
