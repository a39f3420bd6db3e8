"""Joint recordings of FANUC controllers: `timestamp,J1..` in ms and deg, and what our Stream Motion client writes."""

from excitor.identify.logs.table import Layout, Rule, example_table, known_tables

_J = r"J(?P<joint>\d+)"
RECORDER = Layout("timestamp", (r"J\d+",), (Rule(_J, "position", "deg", "measured", "joint"),), "ms", alone=True)
CLIENT = Layout(
    "time_stamp_ms",
    (r"J\d+_deg", "mark"),
    (
        Rule(f"command_{_J}_deg", "position", "deg", "reference", "joint"),
        Rule(f"{_J}_deg", "position", "deg", "measured", "joint"),
        Rule(f"current_{_J}_A", "current", "A", "measured", "motor"),
        Rule("mark", "marker", "1"),
        Rule("safety_scale", "speed_scaling", "1"),
    ),
    "ms",
)
_COUPLED = (
    "a controller may count J3 from the horizontal, a recorder may add J2 to it: where the robot's joints do "
    "not, declare the positions with scale as a matrix"
)
FORMAT = known_tables("fanuc_csv", (CLIENT, RECORDER), example_table("timestamp,J1,J2", 8.0), note=_COUPLED)
