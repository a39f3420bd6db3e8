"""Identification of a load from motor torques, in motion or in static poses."""
