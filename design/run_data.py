"""A run as plain data, the one form in which files hold a motion: design.json, manifest.json and the clients' run file.

    {"joints": [...], "sample_time": s, "series": [{"period", "harmonics", "center", "sines", "cosines"}, ...],
     "segments": [{"kind": "hold", "name", "measured", "pose", "duration"},
                  {"kind": "move", ..., "from", "to", "duration", "blend"},
                  {"kind": "series", ..., "series": which, "periods"},
                  {"kind": "ramp", ..., "series": which, "duration", "rises"},
                  {"kind": "table", ..., "t", "q", "joined", "dq", "ddq"}]}

Positions in rad and m, or in a controller's axes, times in s. A file may be a stranger's: every value is checked.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.design.motion import Interpolation, Move, Run, Segment, Series, Table, checked, hold
from excitor.robots.files.schema import sentences

_KIND = re.compile(r"(segments\[\d+\])\.(hold|move|series|ramp|table)\b")  # which is no key of the file
MOST_SEGMENTS = 100_000
MOST_JOINTS = 100

Time = Annotated[FiniteFloat, Field(ge=0.0, le=1e6)]
Step = Annotated[FiniteFloat, Field(gt=0.0, le=1e6)]
Size = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Row = Annotated[list[Size], Field(min_length=1, max_length=MOST_JOINTS)]
Waves = Annotated[list[Annotated[list[Size], Field(max_length=1000)]], Field(min_length=1, max_length=MOST_JOINTS)]
Points = Annotated[list[Row], Field(min_length=2, max_length=10_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=0, le=MOST_SEGMENTS)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Segment(_Form):
    name: Name
    measured: bool


class _Hold(_Segment):
    kind: Literal["hold"]
    goal: Annotated[Row, Field(alias="pose")]
    time: Annotated[Time, Field(alias="duration")]


class _Move(_Segment):
    kind: Literal["move"]
    origin: Annotated[Row, Field(alias="from")]
    goal: Annotated[Row, Field(alias="to")]
    time: Annotated[Step, Field(alias="duration")]
    blend: Time


class _Periods(_Segment):
    kind: Literal["series"]
    series: Number
    periods: Annotated[int, Field(ge=1, le=MOST_SEGMENTS)]


class _Ramp(_Segment):
    kind: Literal["ramp"]
    series: Number
    ramp: Annotated[Step, Field(alias="duration")]
    rises: bool


class _Table(_Segment):
    kind: Literal["table"]
    t: Annotated[list[Time], Field(min_length=2, max_length=10_000_000)]
    q: Points
    interpolation: Annotated[Interpolation, Field(alias="joined")]
    dq: Points | None
    ddq: Points | None


class _Series(_Form):
    period: Step
    harmonics: Annotated[list[Annotated[int, Field(ge=1, le=10_000)]], Field(min_length=1, max_length=1000)]
    center: Row
    sines: Waves
    cosines: Waves


class RunForm(_Form):
    """A run as a file holds it; `read_run` makes a `Run` of it."""

    joints: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOINTS)]
    sample_time: Step
    series: Annotated[list[_Series], Field(max_length=1000)]
    segments: Annotated[
        list[Annotated[_Hold | _Move | _Periods | _Ramp | _Table, Field(discriminator="kind")]],
        Field(min_length=1, max_length=MOST_SEGMENTS),
    ]


def run_data(run: Run) -> dict[str, Any]:
    """Write a run as plain data."""
    series: list[dict[str, Any]] = []
    segments = [_segment_data(segment, series) for segment in run.segments]
    return {"joints": list(run.joints), "sample_time": run.sample_time, "series": series, "segments": segments}


def read_run(data: Any, where: str = "run") -> Run:
    """Read a run from plain data; ValueError names every key path that is wrong."""
    try:
        form = data if isinstance(data, RunForm) else RunForm.model_validate(data)
    except ValidationError as error:
        raise ValueError("; ".join(f"{where}.{problem}" for problem in problems(error)[:5])) from None
    n = len(form.joints)
    if len(set(form.joints)) < n:
        raise ValueError(f"{where}.joints: two of them have one name")
    segments = []
    for k, entry in enumerate(form.segments, start=1):
        path = f"{where}.segments[{k}]"
        try:
            segments.append(_segment(entry, form, n))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    try:
        return checked(Run(tuple(form.joints), form.sample_time, tuple(segments)))
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from None


def problems(error: ValidationError) -> list[str]:
    """List what is wrong with the form of runs, or with a file that holds some, in sentences."""
    return [_KIND.sub(r"\1", sentence) for sentence in sentences(list(error.errors(include_url=False)))]


def old_moves(
    joints: Sequence[str], sample_time: float, start: list[float], moves: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Write moves of files before runs had one form, each with "to", "duration", "blend" and "measured"."""
    poses = [start, *(move["to"] for move in moves)]
    made = [
        {"kind": "move", "name": "measured" if move["measured"] else "way", "from": pose, **move}
        for pose, move in zip(poses, moves, strict=False)
    ]
    still = {"kind": "hold", "name": "way", "measured": False, "pose": start, "duration": 0.0}
    return {"joints": joints, "sample_time": sample_time, "series": [], "segments": made or [still]}


def old_series(
    joints: Sequence[str], sample_time: float, period: float, spans: Mapping[str, float], old: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a series of files before runs had one form; `spans` are the durations of its rests and ramps."""
    counts = {"warm-up": old["warm_up_periods"], "measured": old["measured_periods"]}
    form = {key: (old.get("series") or old)[key] for key in ("harmonics", "center", "sines", "cosines")}
    segments = []
    for name in ("settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold"):
        words = {"name": name, "measured": name == "measured"}
        if counts.get(name) or name == "measured":
            segments.append({"kind": "series", **words, "series": 0, "periods": counts[name]})
        elif spans.get(name) and name.startswith("ramp"):
            segments.append({"kind": "ramp", **words, "series": 0, "duration": spans[name], "rises": name == "ramp-in"})
        elif spans.get(name):
            segments.append({"kind": "hold", **words, "pose": form["center"], "duration": spans[name]})
    series = [{"period": period, **form}]
    return {"joints": joints, "sample_time": sample_time, "series": series, "segments": segments}


def _segment_data(segment: Segment, series: list[dict[str, Any]]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if segment.kind in ("series", "ramp"):
        form = {name: _plain(getattr(segment, name)) for name in _Series.model_fields}
        if form not in series:
            series.append(form)
        more["series"] = series.index(form)
    for name, entry in _FORMS[segment.kind].model_fields.items():
        if name == "rises":
            more["rises"] = isinstance(segment, Series) and segment.envelope == "rise"
        elif name not in ("kind", "name", "measured", "series"):
            more[entry.alias or name] = _plain(getattr(segment, name))
    return {"kind": segment.kind, "name": segment.name, "measured": segment.measured, **more}


_FORMS: dict[str, type[_Segment]] = {"hold": _Hold, "move": _Move, "series": _Periods, "ramp": _Ramp, "table": _Table}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _segment(entry: _Segment, form: RunForm, n: int) -> Segment:
    words: dict[str, Any] = {"name": entry.name, "measured": entry.measured}
    match entry:
        case _Hold():
            return hold(_row(entry.goal, "pose", n), entry.time, **words)
        case _Move():
            ends = _row(entry.origin, "from", n), _row(entry.goal, "to", n)
            return Move(*ends, entry.time, entry.blend, **words)
        case _Periods() | _Ramp():
            if entry.series >= len(form.series):
                raise ValueError(f"series is {entry.series}, expected one of the run's {len(form.series)}, from 0")
            one = form.series[entry.series]
            center = _row(one.center, f"series[{entry.series + 1}].center", n)
            if isinstance(entry, _Periods):
                words["periods"] = entry.periods
            else:
                words |= {"ramp": entry.ramp, "envelope": "rise" if entry.rises else "fall"}
            return Series(one.period, tuple(one.harmonics), center, _rows(one.sines), _rows(one.cosines), **words)
        case _Table():
            for k, row in enumerate(entry.q, start=1):
                _row(row, f"q[{k}]", n)
            dq, ddq = (None if x is None else _rows(x) for x in (entry.dq, entry.ddq))
            return Table(np.array(entry.t), _rows(entry.q), entry.interpolation, dq, ddq, **words)
    raise TypeError(f"no segment is known for {entry}")


def _row(values: Sequence[float], name: str, n: int) -> np.ndarray[Any, Any]:
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} entries, expected one for each of {n} joints")
    return np.array(values)


def _rows(values: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    widths = {len(row) for row in values}
    if len(widths) > 1:
        raise ValueError(f"rows have {min(widths)} to {max(widths)} entries, expected the same number in each")
    return np.array(values)
