"""Exports of an identified model for simulators, code and controllers."""
