"""Verbs of the command line: they call the stages and print their results."""
