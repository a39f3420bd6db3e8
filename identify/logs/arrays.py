"""Channels from arrays by name, as MATLAB, numpy and Parquet files hold them.

Libraries that may crash on damaged files read in a child process, bounded in memory and time; `serve` is that process.
"""

import atexit
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from excitor.identify.log import Channel, Clock, Recording
from excitor.identify.logs.opened import LARGEST_BINARY, WHOLE, check_file
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

_MOST = 10_000  # channels


def arrays_recording(
    path: Path, form: str, arrays: Mapping[str, FloatArray], left: Collection[str] = (), first: int = 0
) -> Recording:
    """Build channels of vectors, and of each column of tables (n_samples, n_joints): `q[0]`, `q[1]`, ...

    `left`: names of what is left out, since it is not numbers. `first`: rows of the file before these.
    """
    found = [f"not numbers, left out: {', '.join([*left][:12])}"] if left else []
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
        clock = clocks.setdefault(len(table), Clock(None, np.arange(first + 1, first + len(table) + 1)))
        if len(channels) + table.shape[1] > _MOST:
            raise InvalidLog(path, f"has more than {_MOST} channels; {name} is {array.shape}")
        for k in range(table.shape[1]):
            label = name if table.shape[1] == 1 else f"{name}[{k}]"
            joint = None if table.shape[1] == 1 else k
            channels.append(Channel(label, table[:, k], clock, joint=joint))
    if not channels:
        raise InvalidLog(path, "holds no arrays of numbers")
    return Recording(str(path), form, tuple(channels), tuple(found))


def _upright(path: Path, name: str, array: FloatArray, lengths: set[int], notes: list[str]) -> FloatArray:
    """Transpose a table if needed, so that each row is a sample."""
    if array.ndim == 1 or (array.ndim == 2 and 1 in array.shape):
        return array.reshape(-1, 1)
    if array.ndim != 2:
        raise InvalidLog(path, f"{name} has shape {array.shape}, expected a table (n_samples, n_joints)")
    rows, columns = array.shape
    if columns in lengths and rows not in lengths:
        notes.append(f"{name} is {rows} by {columns}, samples along rows; transposed")
        return array.T
    return array


MEMORY = 4 * 2**30  # bytes of address space; libraries reserve far more than they use
SECONDS, PER_BYTE = 1.5, 5e-8  # of CPU that reading may take; compressed files are inflated meanwhile
_PATIENCE = 20.0  # times longer on the clock, on a machine with other work
_STARTING = 60.0  # s until the child is ready, on a machine with other work

_child: subprocess.Popen[bytes] | None = None
_owner = 0  # the process that started it: a fork must not speak to its parent's child
_lock = threading.Lock()


Arrays = tuple[dict[str, FloatArray], dict[str, str]]  # numbers by name; what else there is, by name


def read_apart(path: Path, form: str, *rows: int) -> Arrays:
    """Read arrays by name from `matlab`, `hdf5` or `parquet`; InvalidLog states why a file cannot be read.

    `rows`: the first, and how many, where a file of HDF5 or Parquet is read in parts; "hdf5 rows" and "parquet rows"
    count them.
    """
    size = check_file(path, LARGEST_BINARY)
    with _lock:
        try:
            child = _started(form)
        except (OSError, EOFError):
            stop()
            raise InvalidLog(path, f"cannot be read: the process that reads {form} does not start") from None
        alarm = threading.Timer(_PATIENCE * (SECONDS + PER_BYTE * size), child.kill)
        alarm.start()
        try:
            return _asked(child, path, form, rows)
        except (OSError, ValueError, EOFError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1.0)  # until it is known what ended it
            slow = not alarm.is_alive() or child.returncode == -_OUT_OF_TIME
            stop()
            sentence = "takes too long to read" if slow else "is damaged: it ends the library that reads it"
            raise InvalidLog(path, sentence) from None
        finally:
            alarm.cancel()


def _asked(child: subprocess.Popen[bytes], path: Path, form: str, rows: tuple[int, ...]) -> Arrays:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps([form, os.path.abspath(path), *rows]).encode() + b"\n")
    child.stdin.flush()
    answer = json.loads(_line(child.stdout))
    if "error" in answer:
        raise InvalidLog(path, answer["error"], answer.get("row"))
    arrays: dict[str, FloatArray] = {}
    for name, shape in answer["arrays"]:
        count = 8 * int(np.prod(shape))
        data = child.stdout.read(count)
        if len(data) < count:
            raise EOFError
        arrays[name] = np.frombuffer(data).reshape(shape)
    return arrays, answer["left"]


def _line(stream: IO[bytes]) -> bytes:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _started(form: str) -> subprocess.Popen[bytes]:
    global _child, _owner
    if _child is not None and _owner == os.getpid() and _child.poll() is None:
        return _child
    if _owner == os.getpid():
        stop()
    # -P: a file of the folder one stands in is never taken for a module. Plug-ins of HDF5 are not loaded.
    _child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, form],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HDF5_PLUGIN_PRELOAD": "::", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    _owner = os.getpid()
    assert _child.stdout is not None
    alarm = threading.Timer(_STARTING, _child.kill)
    alarm.start()
    ready = _child.stdout.readline()
    alarm.cancel()
    if ready != b"ready\n":
        raise EOFError
    return _child


def stop() -> None:
    """End the child; the next file starts another."""
    global _child
    child, _child = _child, None
    if child is None or _owner != os.getpid():
        return
    child.kill()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    child.wait()


atexit.register(stop)


def serve(first: str) -> None:
    """Answer requests, one a line, until there are no more; `first`: whose library is imported before time counts."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
    _bound()
    with contextlib.suppress(ImportError):
        import_module(_LIBRARIES[first])
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        form, path, *rows = json.loads(line)
        try:
            _limit_cpu(SECONDS + PER_BYTE * os.path.getsize(path))
            arrays, left = READERS[form](path, *rows)
            _limit_cpu(0.0)
            answer = {"arrays": [(name, array.shape) for name, array in arrays.items()], "left": left}
        except Unreadable as error:
            arrays, answer = {}, {"error": str(error)}
        except MemoryError:
            arrays, answer = {}, {"error": "asks for more memory than a log needs"}
        except Exception as error:  # a library's own words for a damaged file, in one sentence
            arrays, answer = {}, {"error": f"is damaged: {' '.join(str(error).split())[:160]}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        for array in arrays.values():
            answers.write(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        answers.flush()


_OUT_OF_TIME = getattr(signal, "SIGPROF", 0)  # ends the child; Windows has the clock alone


def _limit_cpu(seconds: float) -> None:
    """End this process after so many seconds of its CPU time; 0: never."""
    if _OUT_OF_TIME:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _bound() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_LIBRARIES = {"matlab": "scipy.io", "hdf5": "h5py", "hdf5 rows": "h5py"} | dict.fromkeys(
    ("parquet", "parquet rows"), "pyarrow.parquet"
)
_SPARE, _RATIO = 2**26, 100  # bytes a MATLAB file may grow by when it is inflated, and times: no measurement grows more
_COMPRESSED, _BLOCK = 15, 1 << 22  # kind of an element; bytes
_DEEPEST = 8
_MOST_ARRAYS = 2000  # arrays


class Unreadable(Exception):
    """A file that cannot be read, with the reason as a sentence."""


def read_matlab(path: str) -> Arrays:
    """Read all tables of numbers from versions 5 to 7.2; members of structs are named by dots."""
    from scipy.io import loadmat, whosmat

    largest = (_SPARE + _RATIO * os.path.getsize(path)) // 8
    count = sum(prod(shape) for _, shape, kind in whosmat(path) if kind != "sparse")
    if count > largest:
        raise Unreadable("holds a variable larger than a log can be")
    if max(count, _inflated(path) // 8) > WHOLE:
        sentence = f"holds more than the {WHOLE // 10**6} million numbers of a MATLAB file that is read as a whole"
        raise Unreadable(f"{sentence}; save it with -v7.3, or as Parquet, which are read in parts")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Unreadable variable")
        content = loadmat(path)
    arrays: dict[str, FloatArray] = {}
    left: dict[str, str] = {}
    for name, value in content.items():
        if not name.startswith("__"):
            _flatten(name, value, arrays, left)
    if sum(array.size for array in arrays.values()) > largest:
        raise Unreadable("holds a struct larger than a log can be")
    return arrays, left


def _inflated(path: str) -> int:
    """Count the bytes of a MATLAB file's elements, inflated, up to more than a log may have."""
    total = 0
    with open(path, "rb") as file:
        order = "<" if file.read(128)[126:128] == b"IM" else ">"
        while total <= 8 * WHOLE and len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            end = file.tell() + size
            if kind == _COMPRESSED:
                inflate = zlib.decompressobj()
                while total <= 8 * WHOLE and file.tell() < end and (data := file.read(min(_BLOCK, end - file.tell()))):
                    while data and total <= 8 * WHOLE:
                        total += len(inflate.decompress(data, _BLOCK))
                        data = inflate.unconsumed_tail
            else:
                total += size
            file.seek(end)
    return total


def _flatten(name: str, value: Any, arrays: dict[str, FloatArray], left: dict[str, str]) -> None:
    if name.count(".") > _DEEPEST:
        raise Unreadable(f"has structs nested more than {_DEEPEST} deep")
    kind = _kind(value)
    if kind == "a struct":
        for member in value.dtype.names:
            _flatten(f"{name}.{member}", value.flat[0][member], arrays, left)
    elif kind:
        left[name] = kind
    else:
        arrays[name] = value


def _kind(value: Any) -> str:
    """Say what a variable is that is not numbers."""
    from scipy.io import matlab

    if not isinstance(value, np.ndarray):
        return "a sparse matrix"
    if isinstance(value, matlab.MatlabFunction):
        return "a function"
    if isinstance(value, matlab.MatlabObject | matlab.MatlabOpaque):
        return "an object"
    if value.dtype.names:
        return "a struct" if value.size == 1 else "an array of structs"
    return {"O": "a cell array", "U": "text", "c": "an array of complex numbers"}.get(value.dtype.kind, "")


def read_hdf5(path: str, first: int = 0, count: int | None = None) -> Arrays:
    """Read all tables of numbers, or some rows of those that are as long as the longest; members are named by dots."""
    try:
        import h5py
    except ImportError:
        raise Unreadable(
            'is a MATLAB file of version 7.3; reading it needs h5py: pip install "excitor[matlab]"'
        ) from None
    arrays: dict[str, FloatArray] = {}
    left: dict[str, str] = {}
    with h5py.File(path, "r") as file:
        found: dict[str, Any] = {}
        _walk(h5py, file, "", found, left)
        n_rows = max((max(item.shape, default=0) for item in found.values()), default=0)
        for name, item in found.items():
            if count is None:
                _check_size(sum(array.size for array in arrays.values()) + item.size, len(arrays))
                arrays[name] = np.asarray(item[()], dtype=np.float64).T  # MATLAB stores columns first
            elif item.ndim in (1, 2) and n_rows in item.shape:
                last = item.shape[-1] == n_rows
                part = item[..., first : first + count].T if last else item[first : first + count]
                arrays[name] = np.asarray(part, dtype=np.float64)
            else:
                left[name] = "of another length"
    return arrays, left


def count_hdf5(path: str) -> Arrays:
    """Count the rows of a file of HDF5: the longest side of its tables."""
    import h5py

    found: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        _walk(h5py, file, "", found, {})
        sides = [max(item.shape, default=0) for item in found.values()]
    return {"rows": np.array([max(sides, default=0)], dtype=float)}, {}


def _walk(h5py: Any, group: Any, prefix: str, found: dict[str, Any], left: dict[str, str]) -> None:
    """List the tables of numbers of a group, unread."""
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
            _walk(h5py, item, label + ".", found, left)
        elif isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise Unreadable(f"{label} keeps its numbers in another file, which is not read")
            if item.dtype.kind not in "fiu" or item.attrs.get("MATLAB_class") in (b"char", b"cell"):
                left[label] = "not numbers"
                continue
            _check_size(0, len(found))
            found[label] = item
        else:
            left[label] = "not numbers"


def read_parquet(path: str, first: int = 0, count: int | None = None) -> Arrays:
    """Read all columns of numbers, or some rows of them."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise Unreadable('is a Parquet file; reading it needs pyarrow: pip install "excitor[parquet]"') from None
    with parquet.ParquetFile(path, memory_map=False) as file:
        schema = file.schema_arrow
        numeric = [k for k, field in enumerate(schema) if _numeric(pa, field.type)]
        left = {field.name: str(field.type) for k, field in enumerate(schema) if k not in numeric}
        names, rows = [schema[k].name for k in numeric], file.metadata.num_rows if count is None else count
        _check_size(rows * max(len(numeric), 1), len(numeric))
        if count is None:
            table = file.read(columns=names, use_threads=False)
        else:
            table = pa.Table.from_batches(_batches(file, names, first, first + count))
        arrays = {name: _column(table.column(k)) for k, name in enumerate(table.column_names)}
    if len(arrays) < len(numeric):
        raise Unreadable("has two columns of one name; rename one of them")
    return arrays, left


def _batches(file: Any, names: list[str], first: int, end: int) -> Iterator[Any]:
    """Read rows of a Parquet file, batch by batch, from the groups that hold them."""
    ends = np.cumsum([file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)])
    groups = np.flatnonzero((ends > first) & (np.concatenate([[0], ends[:-1]]) < end)).tolist()
    at = int(ends[groups[0] - 1]) if groups and groups[0] else 0
    for batch in file.iter_batches(65_536, row_groups=groups, columns=names, use_threads=False):
        a, b = max(first - at, 0), min(end - at, len(batch))
        if b > a:
            yield batch.slice(a, b - a)
        at += len(batch)
        if at >= end:
            return


def count_parquet(path: str) -> Arrays:
    """Count the rows of a Parquet file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, memory_map=False) as file:
        return {"rows": np.array([file.metadata.num_rows], dtype=float)}, {}


def _numeric(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _column(column: Any) -> FloatArray:
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _check_size(numbers: int, arrays: int) -> None:
    if numbers > WHOLE or arrays > _MOST_ARRAYS:
        sentence = (
            f"holds {numbers} numbers in {arrays} arrays, more than the {WHOLE // 10**6} million that are read as a"
        )
        raise Unreadable(f"{sentence} whole; cut the log into runs, or record it at a lower rate")


READERS: dict[str, Callable[..., Arrays]] = {
    "matlab": read_matlab,
    "hdf5": read_hdf5,
    "hdf5 rows": count_hdf5,
    "parquet": read_parquet,
    "parquet rows": count_parquet,
}


if __name__ == "__main__":
    serve(sys.argv[1])
