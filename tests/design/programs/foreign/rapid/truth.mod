MODULE Truth
  ! written by hand: each line of the pendant is known from the language's description
  CONST num table{4} := [1.5, -2, 30, 4E1];
  VAR num total := 0;
  VAR num i := 7;
  VAR jointtarget here;
  PROC main()
    FOR i FROM 1 TO Dim(table, 1) DO
      total := total + table{i};
    ENDFOR
    TPWrite "sum " \Num:=total;
    TPWrite "i " \Num:=i;
    TPWrite "third " \Bool:=(1 / 3 = 0.33333334);
    TPWrite "tenth " \Bool:=(0.1 + 0.2 = 0.3);
    TPWrite "big " \Num:=16777216 + 1 - 16777216;
    TPWrite "sine " \Num:=Sin(30);
    TPWrite "div " \Num:=-7 DIV 2;
    TPWrite "mod " \Num:=7 MOD 4;
    TPWrite "order " \Num:=2 + 3 * 4 - 6 / 2;
    TPWrite "minus " \Num:=-2 + 5;
    TPWrite "logic " \Bool:=(NOT FALSE AND FALSE OR TRUE);
    IF total = 69.5 TPWrite "compact";
    TEST total
    CASE 1, 2:
      TPWrite "no";
    CASE 69.5:
      TPWrite "case";
    DEFAULT:
      TPWrite "default";
    ENDTEST
    FOR k FROM 3 TO 1 DO
      TPWrite "down " \Num:=k;
    ENDFOR
    FOR k FROM 0 TO 10 STEP 5 DO
      TPWrite "step " \Num:=k;
    ENDFOR
    here := CJointT();
    here.robax.rax_2 := here.robax.rax_2 + 0.1;
    MoveAbsJ here \NoEOffs, v1000 \T:=2.5, fine, tool0;
    WaitTime 0.5;
    MoveAbsJ [[1,2,3,4,5,6],[9E9,9E9,9E9,9E9,9E9,9E9]] \NoEOffs, v50, z5, tool0 \WObj:=wobj0;
    TPWrite "sum of squares " \Num:=Squares(table);
    Swap total, i;
    TPWrite "swapped " \Num:=i;
  ENDPROC
  FUNC num Squares(num row{*})
    VAR num s := 0;
    FOR k FROM 1 TO Dim(row, 1) DO
      s := s + row{k} * row{k};
    ENDFOR
    RETURN s;
  ENDFUNC
  PROC Swap(INOUT num a, INOUT num b)
    VAR num kept;
    kept := a;
    a := b;
    b := kept;
  ENDPROC
ENDMODULE
