"""Plan, run, read back, report."""
