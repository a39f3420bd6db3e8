"""A robot that is not there: what it would measure along a motion."""
