"""Printed values of the papers, as data: shown in the column "paper", never used in computations."""
