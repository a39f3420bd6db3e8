"""Alignment of measured logs with the planned programs."""
