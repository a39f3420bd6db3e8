"""Design of excitation motions whose measurements are most informative about a robot's parameters."""
