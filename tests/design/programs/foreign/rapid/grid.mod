MODULE Grid
    CONST num rows := 2;
    VAR num m{rows, 3} := [[1, 2, 3], [4, 5, 6]];
    PROC main()
        VAR num trace := 0;
        FOR r FROM 1 TO 2 DO
            FOR c FROM 1 TO 3 STEP 2 DO
                m{r, c} := m{r, c} * 10 + r;
                trace := trace + m{r, c};
            ENDFOR
        ENDFOR
        TPWrite NumToStr(trace, 1) + " " + NumToStr(m{2, 3}, 0);
    ENDPROC
ENDMODULE
