/PROG  LOGGED
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  !J1 AT 100%: 100 DEG/S ;
   2:  !J2 AT 100%: 100 DEG/S ;
   3:  !J3 AT 100%: 100 DEG/S ;
   4:  !J4 AT 100%: 200 DEG/S ;
   5:  !J5 AT 100%: 200 DEG/S ;
   6:  !J6 AT 100%: 400 DEG/S ;
   7:  J P[2] 100% FINE ;
   8:  F[4:EX LOG]=(ON) ;
   9:  R[7:EX MARK]=2 ;
  10:  WAIT .25(sec) ;
  11:  R[7:EX MARK]=1001 ;
  12:  J P[3] 100% FINE ;
  13:  F[4:EX LOG]=(OFF) ;
  14:  J P[1] 100% FINE ;
/POS
P[1]{
   GP1:
	UF : 0, UT : 1,
	J1= 0.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
P[2]{
   GP1:
	UF : 0, UT : 1,
	J1= 10.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
P[3]{
   GP1:
	UF : 0, UT : 1,
	J1= 10.000 deg,	J2= -20.500 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
/END
