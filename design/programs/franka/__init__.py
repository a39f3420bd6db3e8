"""Franka."""
