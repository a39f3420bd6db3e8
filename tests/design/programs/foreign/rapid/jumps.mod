MODULE Jumps
    VAR num tries := 0;
    PROC main()
        again:
        Incr tries;
        IF tries < 3 GOTO again;
    ENDPROC
ENDMODULE
