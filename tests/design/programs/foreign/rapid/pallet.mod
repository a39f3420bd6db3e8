%%%
  VERSION:1
  LANGUAGE:ENGLISH
%%%
module Pallet
	! lower-case words, tabs, and a header of an older controller
	var num layer;
	proc main()
		for n from 0 to 11 do
			layer := n div 4;
			if n mod 4 = 0 then
				tpwrite "layer "\num:=layer;
			elseif n = 11 then
				tpwrite "last";
			endif
		endfor
	endproc
endmodule
