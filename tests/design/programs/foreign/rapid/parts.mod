MODULE Parts
    RECORD part
        string label;
        num weight;
        pos at;
    ENDRECORD
    VAR part bolt := ["bolt", 0.25, [1, 2, 3]];
    VAR part copy;
    FUNC num Total(part p, num n)
        RETURN p.weight * n;
    ENDFUNC
    PROC main()
        copy := bolt;
        copy.weight := 2 * copy.weight;
        copy.at.z := copy.at.z - bolt.at.x;
        TPWrite copy.label + " " + NumToStr(Total(copy, 4), 2) + " " + NumToStr(bolt.weight, 2) + " " + NumToStr(copy.at.z, 0);
    ENDPROC
ENDMODULE
