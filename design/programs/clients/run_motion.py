"""The motion of one run, read from its JSON file: where each axis must be at a time. Needs Python 3.10 alone."""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Callable
from typing import Any

# e(s) = 35 s^4 - 84 s^5 + 70 s^6 - 20 s^7 and its derivatives; E is its integral.
_Segment = tuple[float, float, dict[str, Any]]

_RISE: tuple[Callable[[float], float], ...] = (
    lambda s: s * s * s * s * (35.0 - s * (84.0 - s * (70.0 - 20.0 * s))),
    lambda s: 140.0 * s * s * s * (1.0 - s) ** 3,
    lambda s: 420.0 * s * s * (1.0 - s) ** 2 * (1.0 - 2.0 * s),
)


def _integral(s: float) -> float:
    return s**5 * (7.0 - s * (14.0 - s * (10.0 - 2.5 * s)))


def _share(t: float, T: float, B: float, order: int) -> float:
    """Share of a move's way travelled at t, or a derivative; B = 0: by the envelope, else with blends of B seconds."""
    t = min(max(t, 0.0), T)
    if B <= 0.0:
        return _RISE[order](t / T) / float(T**order)
    v = 1.0 / (T - B)
    late = t >= max(T - B, B)
    s = (T - t if late else t) / B
    if not late and t > B:
        return (v * (t - 0.5 * B), v, 0.0)[order]
    if order == 0:
        blend = v * B * _integral(s)
        return 1.0 - blend if late else blend
    side = -1.0 if late and order == 2 else 1.0
    return side * v * float(B ** (1 - order)) * _RISE[order - 1](s)


class Run:
    """A run: stretches "out", "main" and "back", each from rest to rest, in the units of the controller's axes."""

    def __init__(self, data: dict[str, Any]) -> None:
        if data.get("format") != "excitor-run" or data.get("version") not in (1, 2):
            raise ValueError("this is no run of a known version; emit the programs again")
        self.data = data = _of_version_1(data) if data["version"] == 1 else data
        self.axes: list[str] = data["axes"]
        self.units: list[str] = data["units"]
        self.payload: float | None = data["payload_kg"]
        self._segments = {name: _placed(data[name]) for name in ("out", "main", "back")}
        self.home = self.at("out", 0.0)
        self.start = self.at("back", 0.0)
        self.marks = [(float(t), int(mark)) for t, mark in data["marks"]]

    def duration(self, stretch: str) -> float:
        """How long a stretch takes, s."""
        return self._segments[stretch][-1][1]

    def at(self, stretch: str, t: float, order: int = 0) -> list[float]:
        """Where every axis must be (order 0), how fast (1) and its acceleration (2), t seconds into a stretch."""
        segments = self._segments[stretch]
        outside = not 0.0 <= t <= segments[-1][1]
        t = min(max(t, 0.0), segments[-1][1])
        k = min(bisect.bisect_right(segments, t, key=lambda segment: segment[0]), len(segments)) - 1
        begin, _, segment = segments[k]
        if segment["kind"] == "hold" or (outside and order):
            return list(segment["pose"]) if order == 0 else [0.0] * len(self.axes)
        if segment["kind"] in ("series", "ramp"):
            return _wave(segment, t - begin, order)
        share = _share(t - begin, segment["duration"], segment["blend"], order)
        ends = zip(segment["from"], segment["to"], strict=True)
        return [(x if order == 0 else 0.0) + share * (y - x) for x, y in ends]

    def mark(self, t: float) -> int:
        """Which part of the main stretch t belongs to."""
        found = 0
        for begin, mark in self.marks:
            if t < begin - 1e-9:
                break
            found = mark
        return found


def _placed(run: dict[str, Any]) -> list[_Segment]:
    """List segments as (begin s, end s, segment), a series with its coefficients."""
    out: list[_Segment] = []
    t = 0.0
    for segment in run["segments"]:
        if segment["kind"] == "table":
            raise ValueError("this run has a table, which clients do not follow")
        if "series" in segment:
            segment = {**run["series"][segment["series"]], **segment}
        end = t + (segment["periods"] * segment["period"] if segment["kind"] == "series" else segment["duration"])
        out.append((t, end, segment))
        t = end
    return out


def _wave(s: dict[str, Any], t: float, order: int) -> list[float]:
    """Series at t seconds of its periods, or of a ramp: into phase 0, or out of it."""
    phase = math.fmod(t, s["period"])
    envelope = [1.0, 0.0, 0.0]
    if s["kind"] == "ramp":
        side = (1.0 if s["rises"] else -1.0) / s["duration"]
        phase = t - s["duration"] if s["rises"] else t
        envelope = [_RISE[i](t * side if s["rises"] else 1.0 + t * side) * side**i for i in range(order + 1)]
    out = list(s["center"] if order == 0 else [0.0] * len(s["center"]))
    w = 2.0 * math.pi / s["period"]
    for k, harmonic in enumerate(s["harmonics"]):
        kw = harmonic * w
        sine, cosine = math.sin(kw * phase), math.cos(kw * phase)
        waves = ((sine, cosine), (kw * cosine, -kw * sine), (-kw * kw * sine, -kw * kw * cosine))
        up = down = 0.0
        for i in range(order + 1):
            share = (1.0, 2.0 if order == 2 and i == 1 else 1.0, 1.0)[i] * envelope[i]
            up += share * waves[order - i][0]
            down += share * waves[order - i][1]
        for j in range(len(out)):
            out[j] += s["sines"][j][k] * up + s["cosines"][j][k] * down
    return out


def _of_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """Write a run of version 1 as one of version 2."""
    start = data["out"][-1]["to"] if data["out"] else data["home"]
    main, series = data["main"], []
    if "series" in main:
        s = main["series"]
        rest, wave = {"kind": "hold", "pose": s["center"]}, {"kind": "series", "series": 0}
        ramp = {"kind": "ramp", "series": 0, "duration": s["ramp"]}
        segments = [
            *([{**rest, "duration": s["settle"]}] if s["settle"] else []),
            *([{**ramp, "rises": True}] if s["ramp"] else []),
            {**wave, "periods": s["warm_up"] + s["measured"]},
            *([{**ramp, "rises": False}] if s["ramp"] else []),
            *([{**rest, "duration": s["hold"]}] if s["hold"] else []),
        ]
        series = [s]
    else:
        segments = _moves(start, main["moves"] * main["repeats"])
    runs = {"out": _moves(data["home"], data["out"]), "main": segments, "back": _moves(start, data["back"])}
    return {**data, **{name: {"series": series, "segments": made} for name, made in runs.items()}}


def _moves(begin: list[float], moves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List the moves of version 1 with the poses that they begin at."""
    poses = [begin, *(move["to"] for move in moves)]
    made = [{"kind": "move", "from": pose, **move} for pose, move in zip(poses, moves, strict=False)]
    return made or [{"kind": "hold", "pose": begin, "duration": 0.0}]


def load(path: str) -> Run:
    """Read a run's JSON file."""
    with open(path, encoding="utf-8") as file:
        return Run(json.load(file))
