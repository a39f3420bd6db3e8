"""Beckhoff TwinCAT: external set points, and cam tables."""
