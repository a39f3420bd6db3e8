"""Virtual robot: simulated measurements along a motion."""
