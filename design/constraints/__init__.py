"""Constraints of a motion, one kind a file."""
