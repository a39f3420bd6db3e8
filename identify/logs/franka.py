"""States of 1 kHz joint interfaces: headings `q[0]` to `tau_ext_hat_filtered[6]`, as libfranka and our client write."""

from excitor.identify.logs.table import example_table, known_tables

_EXAMPLE = example_table("time,q[0],q[1],tau_J[0],tau_J[1]", 0.001)
FORMAT = known_tables("franka_csv", ("franka state",), _EXAMPLE, grows=True)
