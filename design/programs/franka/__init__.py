"""Franka robots: joint positions streamed at 1 kHz."""
