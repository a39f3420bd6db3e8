MODULE PickPlace
  PERS tooldata tGrip := [TRUE,[[0,0,120],[1,0,0,0]],[1.2,[0,0,60],[1,0,0,0],0,0,0]];
  CONST robtarget pPick := [[400,0,300],[0,0,1,0],[0,0,0,0],[9E9,9E9,9E9,9E9,9E9,9E9]];
  CONST robtarget pPlace := [[300,250,300],[0,0,1,0],[0,0,0,0],[9E9,9E9,9E9,9E9,9E9,9E9]];
  PROC main()
    MoveJ Offs(pPick,0,0,100), v500, z50, tGrip;
    MoveL pPick, v100, fine, tGrip;
    Set doGrip;
    WaitTime 0.2;
    MoveL Offs(pPick,0,0,100), v500, z10, tGrip \WObj:=wobj0;
    MoveL pPlace, v100, fine, tGrip;
    Reset doGrip;
  ENDPROC
ENDMODULE
