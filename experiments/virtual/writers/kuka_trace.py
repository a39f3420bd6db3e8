"""Traces in DIAdem form: a header and a binary file for the axes, and a pair for every drive, at different rates."""

import struct
from dataclasses import dataclass
from pathlib import Path

from excitor.experiments.virtual.writers.format import Format, Shown
from excitor.robots.arrays import FloatArray

FORMATS = (
    Format(
        "kuka_trace", "the trace", "kuka_trace", "KRCIpo/AxisPos_Act{k}",
        {"motor torque": "NextGenDrive#{k}/Istmoment"},
        suffix="", whole=False, lead=1.0, even=True, marks=False, step=0.004,
    ),
)  # fmt: skip
SLOWER = 3  # axes are recorded every so many rows of the drives
_KELVIN = 273.15  # added to temperatures in the binary files, and taken off by their header


@dataclass(frozen=True, eq=False)
class _Trace:
    name: str
    unit: str
    values: FloatArray  # (n,)
    offset: float = 0.0
    factor: float = 1.0


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write a folder: the axes' pair, and those of the drives."""
    place = folder / name
    place.mkdir()
    slow = slice(None, None, SLOWER)
    axes = [
        _Trace(f"{kind}{k + 1}", unit, values[slow, k])
        for kind, unit, values in (
            ("AxisPos_CmdIpo", "°", shown.reference),
            ("AxisVel_CmdIpo", "°/s", shown.reference_velocity),
            ("AxisPos_Act", "°", shown.position),
            ("AxisVel_Act", "°/s", shown.velocity),
        )
        for k in range(len(shown.axes))
    ]
    _pair(place / f"{name}_KRCIpo", axes, SLOWER * shown.step)
    for k in range(len(shown.axes)):
        _pair(place / f"{name}_NextGenDrive#{k + 1}", _drive(shown, k), shown.step)
    return [place]


def _drive(shown: Shown, k: int) -> list[_Trace]:
    return [
        _Trace("Istposition", "rad", shown.motor[:, k]),
        _Trace("Motortemperatur", "°C", shown.temperature[:, k], -_KELVIN),
        _Trace("Istmoment", "Nm", shown.effort[:, k]),
    ]


def _pair(stem: Path, traces: list[_Trace], step: float) -> None:
    """Write a header of code and value, and the rows of its channels one after the other."""
    header, data = stem.with_name(stem.name + ".dat"), stem.with_name(stem.name + ".r64")
    n = len(traces[0].values)
    lines = ["DIAEXTENDED", *_channel((200, "Zeit"), (202, "s"), (210, "IMPLIZIT"), (220, n), (240, 0), (241, step))]
    for column, trace in enumerate(traces, start=1):
        lines += _channel(
            (200, trace.name), (202, trace.unit), (210, "EXPLIZIT"), (211, data.name), (213, "BLOCK"),
            (214, "REAL64"), (220, n), (221, column), (240, trace.offset), (241, trace.factor),
        )  # fmt: skip
    header.write_bytes("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
    raw = [((trace.values - trace.offset) / trace.factor).tolist() for trace in traces]
    with data.open("wb") as file:
        file.writelines(struct.pack(f"<{len(row)}d", *row) for row in zip(*raw, strict=True))


def _channel(*codes: tuple[int, object]) -> list[str]:
    return ["#BEGINCHANNELHEADER", *(f"{code},{value}" for code, value in codes), "#ENDCHANNELHEADER"]
