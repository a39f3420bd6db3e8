"""Twincat."""
