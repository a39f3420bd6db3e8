"""Mutations of emitted programs, a module per target: each changes what the program does, and must be noticed."""
