"""Results of a fleet: an append-only Parquet dataset, a row an arm and identification.

Rows are added as new part files, each written under a temporary name and renamed; a part is never changed. One process
at a time holds the lock, which the operating system releases when that process ends, however it ends.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.files import mend, write_bytes_atomically
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError

SCHEMA = 1
PARTS = "results"
LOCK = "lock"
_KEY = b"excitor.fleet"  # of the schema's version, in the metadata of each part
_TEXT = [
    "arm",
    "robot",
    "columns",
    "inputs",
    "files",
    "measured",
    "status",
    "reason",
    "headline",
    "method",
    "excitor",
]  # of each row
_NUMBERS = ("error", "temperature_c", "warm_up_minutes")
_TEXTS = ("names", "units", "regroupings", "standard_names", "standard_units")  # lists, an entry a parameter
_LISTS = ("values", "sigma", "low", "high", "standard_values")
Row = dict[str, Any]  # as `row` makes it


def row(**given: Any) -> Row:
    """Make a row; what is not given is empty."""
    empty: Row = dict.fromkeys(_TEXT, "") | dict.fromkeys(_NUMBERS)
    empty |= {name: [] for name in (*_TEXTS, *_LISTS, "friction", "covariance")} | {"usable": None}
    if unknown := set(given) - set(empty):
        raise ValueError(f"a row of a fleet has no {', '.join(sorted(unknown))}")
    return empty | given


def write_rows(folder: Path, rows: Sequence[Row]) -> Path:
    """Add rows as a new part, named by its content; ExcitorError where it cannot be written."""
    pa, parquet = _arrow()
    fields = [(name, pa.string()) for name in _TEXT] + [(name, pa.float64()) for name in _NUMBERS]
    fields += [(name, pa.list_(pa.string())) for name in _TEXTS] + [(name, pa.list_(pa.float64())) for name in _LISTS]
    fields += [("usable", pa.bool_()), ("friction", pa.list_(pa.bool_())), ("covariance", pa.list_(pa.float32()))]
    schema = pa.schema(fields, metadata={_KEY: str(SCHEMA).encode()})
    ordered = sorted(rows, key=lambda one: (one["arm"], one["inputs"]))
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(ordered, schema=schema), buffer, compression="zstd")
    name = hashlib.sha256(json.dumps([(one["arm"], one["inputs"]) for one in ordered]).encode()).hexdigest()[:20]
    place = folder / PARTS
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExcitorError(f"{place}: cannot be made: {error.strerror or error}") from None
    path = place / f"part-{name}.parquet"
    write_bytes_atomically(path, buffer.getvalue())
    return path


def read_rows(folder: Path) -> list[Row]:
    """Read all rows, ordered by arm, time of measurement and inputs; each arm's same inputs once."""
    parts = sorted((folder / PARTS).glob("part-*.parquet"))
    found = {(one["arm"], one["inputs"]): one for path in parts for one in _read_part(path)}
    return sorted(found.values(), key=lambda one: (one["arm"], one["measured"], one["inputs"]))


def _read_part(path: Path) -> Iterator[Row]:
    pa, parquet = _arrow()
    try:
        table = parquet.read_table(path, memory_map=False, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ExcitorError(
            f"{path}: is no part of a fleet's dataset ({str(error)[:200]}); move it away, and its arms are identified "
            "again"
        ) from None
    stated = (table.schema.metadata or {}).get(_KEY, b"").decode(errors="replace")
    if stated != str(SCHEMA):
        newer = stated.isdigit() and int(stated) > SCHEMA
        cause = "was written by a newer version of excitor; update excitor" if newer else "name another folder (--out)"
        raise ExcitorError(f"{path}: has the schema {stated or 'of no fleet'!r}, expected '{SCHEMA}': {cause}")
    if missing := [name for name in row() if name not in table.schema.names]:
        raise ExcitorError(
            f"{path}: lacks the columns {', '.join(missing)}; move it away, and its arms are identified again"
        )
    wide = {name: _arrays(table.column(name)) for name in (*_LISTS, "covariance")}
    for k, one in enumerate(table.drop_columns(list(wide)).to_pylist()):
        yield one | {name: arrays[k] for name, arrays in wide.items()}


def _arrays(column: Any) -> list[FloatArray]:
    """Convert a column of lists to arrays, without an object a number."""
    made: list[FloatArray] = []
    for chunk in column.chunks:
        values, ends = chunk.values.to_numpy(zero_copy_only=False), chunk.offsets.to_numpy()
        made += [np.asarray(part) for part in np.split(values, ends[1:-1])] if len(chunk) else []
    return made


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the dataset's lock; ExcitorError where another process holds it. Leftovers of killed runs are removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ExcitorError(f"{folder}: results cannot be written there: {error.strerror or error}") from None
    try:
        try:
            _lock(handle)
        except OSError:
            raise ExcitorError(
                f"{folder}: another run of the fleet writes there; wait until it has ended, or name another folder "
                "(--out)"
            ) from None
        mend(folder, folder / PARTS)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ExcitorError(
            "results of a fleet are kept by pyarrow, which is not installed: pip install 'excitor[parquet]'"
        ) from None
    return pa, parquet
