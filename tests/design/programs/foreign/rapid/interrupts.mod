MODULE Interrupts
    VAR intnum alarm;
    PROC main()
        CONNECT alarm WITH onAlarm;
        TPWrite "armed";
    ENDPROC
    TRAP onAlarm
        TPWrite "alarm";
        Stop;
    ENDTRAP
ENDMODULE
