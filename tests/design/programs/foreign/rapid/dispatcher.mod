MODULE Dispatcher
    VAR string buffer := "MOVE 12 OPEN CLOSE ???";
    FUNC bool NextWord(INOUT string rest, INOUT string word)
        VAR num at := 1;
        word := "";
        IF StrLen(rest) = 0 RETURN FALSE;
        WHILE at <= StrLen(rest) AND StrPart(rest, at, 1) <> " " DO
            word := word + StrPart(rest, at, 1);
            Incr at;
        ENDWHILE
        IF at >= StrLen(rest) THEN
            rest := "";
        ELSE
            rest := StrPart(rest, at + 1, StrLen(rest) - at);
        ENDIF
        RETURN TRUE;
    ENDFUNC

    PROC main()
        VAR string word;
        WHILE NextWord(buffer, word) DO
            TEST word
            CASE "OPEN", "CLOSE":
                TPWrite "gripper: " + word;
            CASE "MOVE":
                TPWrite "move";
            DEFAULT:
                TPWrite "unknown: " + word;
            ENDTEST
        ENDWHILE
    ENDPROC
ENDMODULE
