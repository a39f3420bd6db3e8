/PROG  BACKUP
/ATTR
OWNER		= MNEDITOR;
COMMENT		= "test";
PROG_SIZE	= 636;
CREATE		= DATE 20-03-11  TIME 10:12:44;
PROTECT		= READ_WRITE;
TCD:  STACK_SIZE	= 0,
      TASK_PRIORITY	= 50;
DEFAULT_GROUP	= 1,*,*,*,*;
CONTROL_CODE	= 00000000 00000000;
/MN
   1:  !saved by a controller ;
   2:  UFRAME_NUM=0 ;
   3:  UTOOL_NUM=1 ;
   4:  PAYLOAD[1] ;
   5:  TIMER[1]=RESET ;
   6:  TIMER[1]=START ;
   7:  //J P[9] 100% FINE ;
   8:   ;
   9:  J P[1:"home"] 100% FINE ;
  10:  DO[10]=PULSE,0.5sec ;
  11:  TIMER[1]=STOP ;
/POS
P[1:"home"]{
   GP1:
	UF : 0, UT : 1,
	J1= 0.000 deg,	J2= 0.000 deg,	J3= 0.000 deg,
	J4= 0.000 deg,	J5= 0.000 deg,	J6= 0.000 deg
};
/END
