"""Arrays by name, as MATLAB, numpy and Parquet files hold them: those of them that are channels."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from excitor.identify.logs.recording import Channel, Clock, Recording, check_measured, distinct
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

_MOST = 10_000  # channels


def arrays_recording(path: Path, form: str, arrays: Mapping[str, FloatArray], notes: Sequence[str]) -> Recording:
    """Make channels of vectors, and of each column of tables (n_samples, n_joints): `q[0]`, `q[1]`, ..."""
    found = [*notes]
    small = [name for name, array in arrays.items() if array.size < 2]
    if small:
        found.append(f"single numbers are left out: {', '.join(small[:12])}")
    lengths = {max(array.shape) for array in arrays.values() if array.ndim == 1 or 1 in array.shape} - {1}
    clocks: dict[int, Clock] = {}
    channels: list[Channel] = []
    for name, array in arrays.items():
        if name in small:
            continue
        table = _upright(path, name, array, lengths, found)
        clock = clocks.setdefault(len(table), Clock(None, np.arange(1, len(table) + 1)))
        if len(channels) + table.shape[1] > _MOST:
            raise InvalidLog(path, f"has more than {_MOST} channels; {name} is {array.shape}")
        for k in range(table.shape[1]):
            label = name if table.shape[1] == 1 else f"{name}[{k}]"
            check_measured(path, label, table[:, k], clock.rows)
            joint = None if table.shape[1] == 1 else k
            channels.append(Channel(label, table[:, k], clock, joint=joint))
    if not channels:
        raise InvalidLog(path, "holds no arrays of numbers")
    return Recording(str(path), form, distinct(path, channels), tuple(found))


def _upright(path: Path, name: str, array: FloatArray, lengths: set[int], notes: list[str]) -> FloatArray:
    """Turn a table so that samples follow each other downward."""
    if array.ndim == 1 or (array.ndim == 2 and 1 in array.shape):
        return array.reshape(-1, 1)
    if array.ndim != 2:
        raise InvalidLog(path, f"{name} has shape {array.shape}, expected a table (n_samples, n_joints)")
    rows, columns = array.shape
    if columns in lengths and rows not in lengths:
        notes.append(f"{name} lies on its side, {rows} by {columns}; it is turned")
        return array.T
    return array
