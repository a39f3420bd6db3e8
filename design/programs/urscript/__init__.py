"""Urscript."""
