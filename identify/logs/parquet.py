"""Parquet files: one channel a column of numbers."""

from pathlib import Path

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import arrays_recording, read_apart
from excitor.identify.logs.opened import Head, LogFormat

_MARK = b"PAR1"


def fits(head: Head) -> int:
    """2 for the mark at the beginning."""
    return 2 if head.data[:4] == _MARK else 0


def read(path: Path) -> Recording:
    """Read all columns of numbers."""
    return arrays_recording(path, "parquet", *read_apart(path, "parquet"))


def _example(path: Path) -> None:
    from pandas import DataFrame

    DataFrame({"t": 0.01 * np.arange(24), "q": np.ones(24)}).to_parquet(path, engine="pyarrow")


FORMAT = LogFormat("parquet", fits, read, _example)
