"""MATLAB files (version 5 to 7.2) whose signals are means over repeated runs, or plain arrays.

A mean is a struct {average, variance, ...}: its members are reached by a dot, `tau_meas.average`. A field whose name
begins with `deg_` is in degrees. Which field is what, the caller says: the format does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.logs.matlab_file import Unread, Value, read_matlab_file
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog
from excitor.robots.robot import Motion

DEGREES = "deg_"
UNEVEN = 1e-3  # of the sampling interval: what clocks written in decimal seconds round by, and more


@dataclass(frozen=True, slots=True)
class Fields:
    """Which field of a file holds what; arrays are (n_samples, n_joints), time is (n_samples,) in seconds."""

    q: str
    dq: str
    ddq: str
    tau: str
    time: str
    variance: str | None = None  # of tau, in a single repetition


def read_matlab_means(path: str | Path, fields: Fields, *, run: str | None = None) -> Samples:
    """Read one run; InvalidLog says what is wrong with a file, and in which row."""
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
    content = read_matlab_file(Path(path))
    return {
        key: _in_radians(field, _checked(path, field, _find(path, content, field))) for key, field in fields.items()
    }


def _find(path: str | Path, content: Mapping[str, Value], field: str) -> Value:
    """Follow a dotted name into structs."""
    value: Value = content
    so_far: list[str] = []
    for name in field.split("."):
        where = f"{'.'.join(so_far)} has no member" if so_far else "has no field"
        if not isinstance(value, Mapping):
            holds = value.kind if isinstance(value, Unread) else "a table of numbers"
            raise InvalidLog(path, f"{where} {name}; it is {holds}")
        if name not in value:
            raise InvalidLog(path, f"{where} {name}; it holds {', '.join(sorted(value)) or 'nothing'}")
        value = value[name]
        so_far.append(name)
    return value


def _checked(path: str | Path, field: str, value: Value) -> FloatArray:
    """Accept real, finite, two-dimensional numbers only."""
    if isinstance(value, Mapping):
        raise InvalidLog(path, f"{field} is a struct; name a member: {', '.join(f'{field}.{n}' for n in value)}")
    if isinstance(value, Unread):
        raise InvalidLog(path, f"{field} is {value.kind}, expected a table of numbers")
    if value.ndim != 2 or value.size == 0:
        raise InvalidLog(path, f"{field} has shape {value.shape}, expected a table (n_samples, n_joints)")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {value[row, column]} in column {column + 1}", row + 1)
    return value


def _in_radians(field: str, table: FloatArray) -> FloatArray:
    return np.radians(table) if field.rpartition(".")[2].startswith(DEGREES) or field.startswith(DEGREES) else table


def _sample_rate_hz(path: str | Path, time: FloatArray, n_samples: int, field: str) -> float:
    """Measure an even sampling rate; a backward, repeated or missing time is told with its row."""
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
        raise InvalidLog(
            path, f"{field} goes from {time[k]:g} s to {time[k + 1]:g} s, expected steps of {usual:g} s", k + 2
        )
    return float((n_samples - 1) / (time[-1] - time[0]))


def _check_positive(path: str | Path, variance: FloatArray, field: str) -> None:
    bad = np.argwhere(variance <= 0.0)
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise InvalidLog(path, f"{field} is {variance[row, column]:g} in column {column + 1}, expected > 0", row + 1)
