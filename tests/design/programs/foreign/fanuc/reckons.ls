/PROG  RECKONS
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  R[1]=7 ;
   2:  R[2:half]=R[1]/2 ;
   3:  R[3]=R[1]-R[2]*2+(-3) ;
   4:  R[4]=R[1] DIV 2 ;
   5:  IF R[3]=(-3) AND R[4]=3,JMP LBL[5] ;
   6:  JMP LBL[9] ;
   7:  LBL[5:good] ;
   8:  J P[1] 5.0sec FINE ;
   9:  END ;
  10:  LBL[9] ;
  11:  MESSAGE[WRONG SUM] ;
  12:  ABORT ;
/POS
P[1]{
   GP1:
	UF : 0, UT : 1,
	J1= 0.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
/END
