/PROG  CARTESIAN
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  J P[1] 20% FINE ;
/POS
P[1]{
   GP1:
	UF : 0, UT : 1,	CONFIG : 'N U T, 0, 0, 0',
	X = 100.000 mm,	Y = 0.000 mm,	Z = 500.000 mm,
	W = 180.000 deg,	P = 0.000 deg,	R = 0.000 deg
};
/END
