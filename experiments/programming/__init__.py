"""`excitor emit` and `excitor verify`: from a design to controllers' programs, and what running them shows."""
