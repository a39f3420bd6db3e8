/PROG  PALLET
/ATTR
DEFAULT_GROUP	= 1,*,*,*,*;
/MN
   1:  !NESTED BLOCKS ;
   2:  FOR R[1:row]=1 TO 3 ;
   3:  IF (R[1:row]=2) THEN ;
   4:  J P[2:over] 50% FINE ;
   5:  ELSE ;
   6:  J P[1] 50% FINE ;
   7:  ENDIF ;
   8:  ENDFOR ;
   9:  FOR R[2]=3 DOWNTO 4 ;
  10:  J P[2] 10% FINE ;
  11:  ENDFOR ;
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
/END
