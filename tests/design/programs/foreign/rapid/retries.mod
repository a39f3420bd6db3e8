MODULE Retries
    CONST errnum ERR_MINE := 90;
    VAR num tries := 0;
    PROC main()
        Work;
        TPWrite "done after " \Num:=tries;
        Fail;
        TPWrite "went on";
    ERROR
        IF ERRNO = ERR_MINE THEN
            TPWrite "skipped";
            TRYNEXT;
        ENDIF
    ENDPROC
    PROC Work()
        Attempt;
    ERROR
        Incr tries;
        RETRY;
    ENDPROC
    PROC Attempt()
        IF tries < 2 RAISE ERR_MINE;
    ENDPROC
    PROC Fail()
        RAISE ERR_MINE;
    UNDO
        TPWrite "never";
    ENDPROC
ENDMODULE
