"""What a campaign declares of its logs: the reader of their format, and what their columns mean."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Kind = Literal["position", "velocity", "acceleration", "torque", "current"]
Side = Literal["joint", "motor"]

# Names, and the modules that are imported when a file needs them. Of equal fits the first wins: the particular ones
# come before the general. Each has `fits(head) -> 0 | 1 | 2` (no, could be, is) and `read(path) -> Recording`.
FORMATS = {
    "ros_bag": "ros",
    "kuka_trace": "kuka",
    "matlab": "matlab",
    "npz": "npz",
    "parquet": "parquet",
    "twincat_scope": "twincat",
    "client_csv": "ours",
    "abb_text": "abb",
    "fanuc_csv": "fanuc",
    "franka_csv": "franka",
    "ur_rtde": "ur",
    "csv": "table",
}


class Columns(BaseModel):
    """The columns of one quantity, one a joint, by heading or by number (1 is the first)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Kind
    side: Side | None = None  # where the format does not say it
    unit: str | None = None  # likewise
    columns: Annotated[list[str | int], Field(min_length=1, max_length=100)]
    scale: list[list[FiniteFloat]] | list[FiniteFloat] | FiniteFloat = 1.0  # a matrix where axes are coupled
    file: str | None = None


class ColumnMap(BaseModel):
    """What a log's columns are, where its format does not say it. Measured quantities only: no model's torque."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: str | None = None  # a reader's name; none: found by the file's content
    signals: Annotated[list[Columns], Field(default_factory=list, max_length=100)]
    joints: list[str] | None = None  # in joint order, as a log calls them that names its joints
    time: str | int | None = None  # the column of time stamps
    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    sample_rate_hz: Annotated[FiniteFloat, Field(gt=0.0)] | None = None  # without such a column; else to resample to
    header: bool = True
