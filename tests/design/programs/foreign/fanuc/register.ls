/PROG  REGISTER
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  PR[5:home]=JPOS ;
   2:  R[1]=PR[5,2] ;
   3:  J P[2] 100msec FINE ;
   4:  J PR[5:home] 100% FINE ;
/POS
P[2]{
   GP1:
	UF : 0, UT : 1,
	J1= 10.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
/END
