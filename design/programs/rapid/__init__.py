"""Rapid."""
