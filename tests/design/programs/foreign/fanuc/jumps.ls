/PROG  JUMPS
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  LBL[1] ;
   2:  JMP LBL[1] ;
/POS
/END
