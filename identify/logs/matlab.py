"""MATLAB files of any version from 5 on: variables and members of structs, by their names.

scipy and h5py read them in a process of its own: damaged files may crash either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import Arrays, arrays_recording, read_apart
from excitor.identify.logs.opened import Head, LogFormat, check_file, head
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog
from excitor.robots.robot import Motion

LARGEST_FILE = 2**29  # bytes, of versions 5 to 7.2
_HDF5 = b"\x89HDF\r\n\x1a\n"
_MARKS = (b"IM", b"MI")


def fits(head: Head) -> int:
    """2 for the marks of version 5 or of HDF5."""
    return 2 if is_hdf5(head.data) or head.data[126:128] in _MARKS else 0


def read(path: Path) -> Recording:
    """Read all arrays of numbers."""
    found = read_apart(path, "hdf5") if is_hdf5(head(path).data) else read_version_5(path)
    return arrays_recording(path, "matlab", *found)


def is_hdf5(data: bytes) -> bool:
    """Return True for the beginning of a file of version 7.3."""
    return any(data[at : at + 8] == _HDF5 for at in (0, 512, 1024, 2048))


def read_version_5(path: Path) -> Arrays:
    """Read a file of version 5 to 7.2: its arrays of numbers, and what its other variables are."""
    check_file(path, LARGEST_FILE)
    version, mark = (head(path).data[at : at + 2] for at in (124, 126))
    if mark not in _MARKS:
        raise InvalidLog(path, "is not a MATLAB file of version 5 to 7.2")
    if version != (b"\0\1" if mark == b"IM" else b"\1\0"):
        raise InvalidLog(path, "is a MATLAB file of another version, 7.3 or later; save it with -v7")
    return read_apart(path, "matlab")


def _example(path: Path) -> None:
    from scipy.io import savemat

    savemat(str(path), {"t": 0.01 * np.arange(24), "run": {"q": np.ones((24, 2))}}, appendmat=False)


FORMAT = LogFormat("matlab", fits, read, _example)
DEGREES = "deg_"
UNEVEN = 1e-3  # of the sampling interval: what clocks written in decimal seconds round by, and more


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of a file's fields; arrays are (n_samples, n_joints), time is (n_samples,) in seconds."""

    q: str
    dq: str
    ddq: str
    tau: str
    time: str
    variance: str | None = None  # of tau, in a single repetition


def read_matlab_means(path: str | Path, fields: Fields, *, run: str | None = None) -> Samples:
    """Read one run; InvalidLog states a file's fault and its row."""
    names = {"q": fields.q, "dq": fields.dq, "ddq": fields.ddq, "tau": fields.tau}
    if fields.variance is not None:
        names["variance"] = fields.variance
    arrays = read_arrays(path, {**names, "time": fields.time})
    time = arrays.pop("time").ravel()
    shape = arrays["q"].shape
    for key, array in arrays.items():
        if array.shape != shape:
            raise InvalidLog(path, f"{names[key]} has shape {array.shape}, expected {shape} as {fields.q} has")
    rate = _sample_rate_hz(path, time, shape[0], fields.time)
    if "variance" in arrays:
        _check_positive(path, arrays["variance"], names["variance"])
    return Samples(
        run=run or Path(path).stem,
        motion=Motion(arrays["q"], arrays["dq"], arrays["ddq"]),
        tau=arrays["tau"],
        sample_rate_hz=rate,
        variance=arrays.get("variance"),
        steps=(Step("read_matlab_means", {"file": Path(path).name, **names}),),
    )


def read_arrays(path: str | Path, fields: Mapping[str, str]) -> dict[str, FloatArray]:
    """Read chosen fields as finite two-dimensional arrays (key -> field), degrees turned into radians."""
    arrays, left = read_version_5(Path(path))
    found = {}
    for key, field in fields.items():
        if field not in arrays:
            raise InvalidLog(path, _absent(arrays, left, field))
        table = _checked(path, field, arrays[field])
        degrees = any(name.startswith(DEGREES) for name in (field, field.rpartition(".")[2]))
        found[key] = np.radians(table) if degrees else table
    return found


def _absent(arrays: Mapping[str, FloatArray], left: Mapping[str, str], field: str) -> str:
    """Say what stands in place of a field, or where its dotted name ends."""
    if field in left:
        return f"{field} is {left[field]}, expected a table of numbers"
    names = [*arrays, *left]
    if members := _members(names, field):
        return f"{field} is a struct; name a member: {', '.join(f'{field}.{name}' for name in members)}"
    parent, _, name = field.rpartition(".")
    while parent and parent not in names and not _members(names, parent):
        parent, _, name = parent.rpartition(".")
    where = f"{parent} has no member" if parent else "has no field"
    if parent in names:
        return f"{where} {name}; it is {left.get(parent, 'a table of numbers')}"
    return f"{where} {name}; it holds {', '.join(_members(names, parent)) or 'nothing'}"


def _members(names: Iterable[str], struct: str) -> list[str]:
    start = f"{struct}." if struct else ""
    return sorted({name.removeprefix(start).partition(".")[0] for name in names if name.startswith(start)})


def _checked(path: str | Path, field: str, value: FloatArray) -> FloatArray:
    """Accept finite, two-dimensional numbers only."""
    if value.ndim != 2 or value.size == 0:
        raise InvalidLog(path, f"{field} has shape {value.shape}, expected a table (n_samples, n_joints)")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {value[row, column]} in column {column + 1}", row + 1)
    return value


def _sample_rate_hz(path: str | Path, time: FloatArray, n_samples: int, field: str) -> float:
    """Compute the rate of even sampling; a backward, repeated or missing time is refused with its row."""
    if len(time) != n_samples:
        raise InvalidLog(path, f"{field} has {len(time)} times for {n_samples} samples")
    if n_samples < 3:
        raise InvalidLog(path, f"holds {n_samples} samples, expected at least 3")
    intervals = np.diff(time)
    usual = float(np.median(intervals))
    if not usual > 0.0:
        raise InvalidLog(path, f"{field} does not increase", int(np.argmax(intervals <= 0.0)) + 2)
    uneven = np.abs(intervals - usual) > UNEVEN * usual
    if uneven.any():
        k = int(np.argmax(uneven))
        sentence = f"{field} goes from {time[k]:g} s to {time[k + 1]:g} s, expected steps of {usual:g} s"
        raise InvalidLog(path, sentence, k + 2)
    return float((n_samples - 1) / (time[-1] - time[0]))


def _check_positive(path: str | Path, variance: FloatArray, field: str) -> None:
    bad = np.argwhere(variance <= 0.0)
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {variance[row, column]:g} in column {column + 1}, expected > 0", row + 1)
