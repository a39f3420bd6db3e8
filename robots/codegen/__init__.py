"""A robot's inverse dynamics as source code for controllers."""
