"""Programs for a computer beside the controller, given out as they stand here; they need Python and nothing else."""
