"""Logs of our own clients: rows of time, mark, reference, measured positions and currents, torques or efforts."""

from excitor.identify.logs.table import example_table, known_tables

_EXAMPLE = example_table("time,mark,speed_scaling,position:a,position:b,effort:a,effort:b", 0.01)
_LAYOUTS = ("client rsi", "client ros")
FORMAT = known_tables("client_csv", _LAYOUTS, _EXAMPLE, missing=True, grows=True)  # empty: the driver reports none
