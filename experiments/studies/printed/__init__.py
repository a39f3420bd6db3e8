"""What the papers print, as data: shown in the column "paper", never computed with."""
