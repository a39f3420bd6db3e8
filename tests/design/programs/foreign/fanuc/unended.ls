/PROG  UNENDED
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  J P[1] 20% FINE ;
/POS
P[1]{
   GP1:
	UF : 0, UT : 1,
	J1= 0.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
