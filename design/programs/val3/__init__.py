"""Stäubli controllers: VAL3 applications."""
