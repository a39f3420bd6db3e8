"""Joint recordings of FANUC controllers: `timestamp,J1..` in ms and deg, and what our Stream Motion client writes."""

from excitor.identify.logs.table import example_table, known_tables

_COUPLED = (
    "a controller may count J3 from the horizontal, a recorder may add J2 to it: where the robot's joints do "
    "not, declare the positions with scale as a matrix"
)
_EXAMPLE = example_table("timestamp,J1,J2", 8.0)
FORMAT = known_tables("fanuc_csv", ("fanuc client", "fanuc recorder"), _EXAMPLE, note=_COUPLED)
