"""MATLAB files of any version from 5 on: variables and members of structs, by their names."""

from pathlib import Path

from excitor.identify.logs.apart import read_apart
from excitor.identify.logs.arrays import arrays_recording
from excitor.identify.logs.matlab_file import Unread, Value, read_matlab_file
from excitor.identify.logs.opened import Head, head
from excitor.identify.logs.recording import Recording
from excitor.robots.arrays import FloatArray

_HDF5 = b"\x89HDF\r\n\x1a\n"


def fits(head: Head) -> int:
    """2 for the marks of version 5 or of HDF5."""
    return 2 if _is_hdf5(head.data) or head.data[126:128] in (b"IM", b"MI") else 0


def read(path: Path) -> Recording:
    """Read all arrays of numbers."""
    if _is_hdf5(head(path).data):
        arrays, notes = read_apart(path, "hdf5")
        return arrays_recording(path, "matlab", arrays, notes)
    found: dict[str, FloatArray] = {}
    left: list[str] = []
    for name, value in read_matlab_file(path).items():
        _flatten(name, value, found, left)
    return arrays_recording(path, "matlab", found, [f"not numbers, left out: {', '.join(left[:12])}"] if left else [])


def _is_hdf5(data: bytes) -> bool:
    return any(data[at : at + 8] == _HDF5 for at in (0, 512, 1024, 2048))


def _flatten(name: str, value: Value, found: dict[str, FloatArray], left: list[str]) -> None:
    if isinstance(value, Unread):
        left.append(name)
    elif isinstance(value, dict):
        for member, inner in value.items():
            _flatten(f"{name}.{member}", inner, found, left)
    else:
        found[name] = value  # type: ignore[assignment]
