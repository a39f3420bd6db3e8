"""Fanuc."""
