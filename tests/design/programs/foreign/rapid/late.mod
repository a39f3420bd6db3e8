MODULE Late
    VAR num n := 2;
    PROC main()
        %"job" + NumToStr(n, 0)%;
    ENDPROC
    PROC job2()
        TPWrite "two";
    ENDPROC
ENDMODULE
