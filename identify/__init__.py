"""Identification of a robot's parameters from measurements."""
