"""What the process apart does: arrays of numbers from HDF5 (MATLAB 7.3) and Parquet files."""

from collections.abc import Callable
from typing import Any

import numpy as np

from excitor.identify.logs.apart import MOST_NUMBERS
from excitor.robots.arrays import FloatArray

Arrays = tuple[dict[str, FloatArray], list[str]]
_DEEPEST = 8
_MOST = 2000  # arrays


class Unreadable(Exception):
    """Why a file is not read, as a sentence."""


def read_hdf5(path: str) -> Arrays:
    """Read all tables of numbers; members of structs are named by dots."""
    try:
        import h5py
    except ImportError:
        raise Unreadable(
            'is a MATLAB file of version 7.3; reading it needs h5py: pip install "excitor[matlab]"'
        ) from None
    arrays: dict[str, FloatArray] = {}
    left: list[str] = []
    with h5py.File(path, "r") as file:
        _walk(h5py, file, "", arrays, left)
    return arrays, [f"not numbers, left out: {', '.join(left[:12])}"] if left else []


def _walk(h5py: Any, group: Any, prefix: str, arrays: dict[str, FloatArray], left: list[str]) -> None:
    if prefix.count(".") > _DEEPEST:
        raise Unreadable(f"has structs nested more than {_DEEPEST} deep")
    for name in group:
        if name.startswith("#"):  # MATLAB's own store of cells and objects
            continue
        label = prefix + name
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise Unreadable(f"{label} is a link to elsewhere, which is not followed")
        item = group[name]
        if isinstance(item, h5py.Group):
            _walk(h5py, item, label + ".", arrays, left)
        elif isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise Unreadable(f"{label} keeps its numbers in another file, which is not read")
            if item.dtype.kind not in "fiu" or item.attrs.get("MATLAB_class") in (b"char", b"cell"):
                left.append(label)
                continue
            _check_size(sum(array.size for array in arrays.values()) + item.size, len(arrays))
            arrays[label] = np.asarray(item[()], dtype=np.float64).T  # MATLAB stores columns first
        else:
            left.append(label)


def read_parquet(path: str) -> Arrays:
    """Read all columns of numbers."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise Unreadable('is a Parquet file; reading it needs pyarrow: pip install "excitor[parquet]"') from None
    with parquet.ParquetFile(path, memory_map=False) as file:
        schema = file.schema_arrow
        numeric = [k for k, field in enumerate(schema) if _numeric(pa, field.type)]
        left = [field.name for k, field in enumerate(schema) if k not in numeric]
        _check_size(file.metadata.num_rows * max(len(numeric), 1), len(numeric))
        table = file.read(columns=[schema[k].name for k in numeric], use_threads=False)
        arrays = {name: _column(table.column(k)) for k, name in enumerate(table.column_names)}
    if len(arrays) < len(numeric):
        raise Unreadable("has two columns of one name; rename one of them")
    return arrays, [f"not numbers, left out: {', '.join(left[:12])}"] if left else []


def _numeric(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _column(column: Any) -> FloatArray:
    import pyarrow as pa

    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _check_size(numbers: int, arrays: int) -> None:
    if numbers > MOST_NUMBERS or arrays > _MOST:
        raise Unreadable(f"holds {numbers} numbers in {arrays} arrays, more than a log of one run; cut it into runs")


READERS: dict[str, Callable[[str], Arrays]] = {"hdf5": read_hdf5, "parquet": read_parquet}
