"""States of 1 kHz joint interfaces: headings `q[0]` to `tau_ext_hat_filtered[6]`, as libfranka and our client write."""

from excitor.identify.logs.table import Layout, Rule, example_table, known_tables

_J = r"\[(?P<joint>\d+)\]"
# theta is the motor's angle already divided by the gear ratio in some versions: its side is asked for.
_RULES = (
    Rule(rf"(?:.*\.)?q{_J}", "position", "rad", "measured", "joint"),
    Rule(rf"(?:.*\.)?dq{_J}", "velocity", "rad/s", "measured", "joint"),
    Rule(rf"(?:.*\.)?tau_J{_J}", "torque", "N m", "measured", "joint"),
    Rule(rf"(?:.*\.)?q_d{_J}", "position", "rad", "reference", "joint"),
    Rule(rf"(?:.*\.)?dq_d{_J}", "velocity", "rad/s", "reference", "joint"),
    Rule(rf"(?:.*\.)?ddq_d{_J}", "acceleration", "rad/s2", "reference", "joint"),
    Rule(rf"(?:.*\.)?tau_J_d{_J}", "torque_model", "N m", "reference", "joint"),
    Rule(rf"(?:.*\.)?tau_ext_hat_filtered{_J}", "torque_model", "N m", "unknown", "joint"),
    Rule(rf"(?:.*\.)?theta{_J}", "position", "rad", "measured"),
    Rule(rf"(?:.*\.)?dtheta{_J}", "velocity", "rad/s", "measured"),
    Rule("mark", "marker", "1"),
    Rule("t", "time", "s"),
)
STATE = Layout(r"(?:.*\.)?time", (r"(.*\.)?(q|theta)\[0\]",), _RULES, unit=None)
FORMAT = known_tables("franka_csv", (STATE,), example_table("time,q[0],q[1],tau_J[0],tau_J[1]", 0.001), grows=True)
