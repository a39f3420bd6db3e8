"""Fleets: many arms identified, each compared with its type and with its own past."""
