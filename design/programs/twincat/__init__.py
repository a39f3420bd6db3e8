"""Beckhoff TwinCAT: external set points in structured text."""
