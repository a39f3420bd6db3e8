MODULE Options
    PROC main()
        Say "a";
        Say "b" \times:=2;
        Say "c" \loud;
        Say "d" \times:=1 \loud;
    ENDPROC
    PROC Say(string text \num times \switch loud)
        VAR num n := 1;
        IF Present(times) n := times;
        FOR k FROM 1 TO n DO
            IF Present(loud) THEN
                TPWrite text + "!";
            ELSE
                TPWrite text;
            ENDIF
        ENDFOR
    ENDPROC
ENDMODULE
