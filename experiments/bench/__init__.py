"""Our speed against what is installed beside us, as ratios of CPU time measured in one run."""
