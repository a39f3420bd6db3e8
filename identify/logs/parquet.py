"""Parquet files: one channel a column of numbers."""

from pathlib import Path

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import arrays_recording, read_apart
from excitor.identify.logs.opened import Head

_MARK = b"PAR1"


def fits(head: Head) -> int:
    """2 for the mark at the beginning."""
    return 2 if head.data[:4] == _MARK else 0


def read(path: Path) -> Recording:
    """Read all columns of numbers."""
    return arrays_recording(path, "parquet", *read_apart(path, "parquet"))
