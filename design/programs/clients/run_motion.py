"""The motion of one run, read from its JSON file: where each axis must be at a time. Needs Python 3.10 alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

# e(s) = 35 s^4 - 84 s^5 + 70 s^6 - 20 s^7 and its derivatives; E is its integral.
_Knot = tuple[float, float, list[float], list[float], float]

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
        if data.get("format") != "excitor-run" or data.get("version") != 1:
            raise ValueError("this is no run of a known version; emit the programs again")
        self.data = data
        self.axes: list[str] = data["axes"]
        self.units: list[str] = data["units"]
        self.home: list[float] = data["home"]
        self.payload: float | None = data["payload_kg"]
        self.series: dict[str, Any] | None = data["main"].get("series")
        moves = data["main"].get("moves", []) * data["main"].get("repeats", 1)
        self.start: list[float] = data["out"][-1]["to"] if data["out"] else self.home
        self._moves = {
            "out": _knots(self.home, data["out"]),
            "main": _knots(self.start, moves),
            "back": _knots(self.start, data["back"]),
        }
        self.marks = [(float(t), int(mark)) for t, mark in data["marks"]]
        self._next = dict.fromkeys(self._moves, 0)

    def duration(self, stretch: str) -> float:
        """How long a stretch takes, s."""
        if stretch == "main" and self.series:
            s = self.series
            return float(s["settle"] + 2.0 * s["ramp"] + (s["warm_up"] + s["measured"]) * s["period"] + s["hold"])
        return self._moves[stretch][-1][1] if self._moves[stretch] else 0.0

    def at(self, stretch: str, t: float, order: int = 0) -> list[float]:
        """Where every axis must be (order 0), how fast (1) and its acceleration (2), t seconds into a stretch."""
        if stretch == "main" and self.series:
            return self._series(t, order)
        moves = self._moves[stretch]
        if not moves:
            return list(self.start if stretch != "out" else self.home) if order == 0 else [0.0] * len(self.axes)
        k = self._next[stretch]
        if not moves[k][0] <= t < moves[k][1]:
            k = 0 if t < moves[k][0] else k
            while k + 1 < len(moves) and t >= moves[k][1]:
                k += 1
            self._next[stretch] = k
        begin, end, a, b, blend = moves[k]
        share = _share(t - begin, end - begin, blend, order)
        if order:
            return [share * (y - x) for x, y in zip(a, b, strict=True)]
        return [x + share * (y - x) for x, y in zip(a, b, strict=True)]

    def mark(self, t: float) -> int:
        """Which part of the main stretch t belongs to."""
        found = 0
        for begin, mark in self.marks:
            if t < begin - 1e-9:
                break
            found = mark
        return found

    def _series(self, t: float, order: int) -> list[float]:
        s = self.series
        assert s is not None
        full = s["settle"] + s["ramp"]
        running = (s["warm_up"] + s["measured"]) * s["period"]
        center = s["center"] if order == 0 else [0.0] * len(self.axes)
        phase = t - full
        if t < s["settle"] or phase > running + s["ramp"]:
            return list(center)
        if 0.0 <= phase <= running:
            phase = math.fmod(phase, s["period"])
            envelope = [1.0, 0.0, 0.0]
        else:
            x = (t - s["settle"]) / s["ramp"] if phase < 0.0 else 1.0 - (phase - running) / s["ramp"]
            side = (1.0 if phase < 0.0 else -1.0) / s["ramp"]
            phase = phase if phase < 0.0 else phase - running
            envelope = [_RISE[i](x) * side**i for i in range(order + 1)]
        out = list(center)
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


def _knots(begin: list[float], moves: list[dict[str, Any]]) -> list[_Knot]:
    """List moves as (begin s, end s, from, to, blend)."""
    out: list[_Knot] = []
    t, pose = 0.0, begin
    for move in moves:
        out.append((t, t + move["duration"], pose, move["to"], move["blend"]))
        t, pose = t + move["duration"], move["to"]
    return out


def load(path: str) -> Run:
    """Read a run's JSON file."""
    with open(path, encoding="utf-8") as file:
        return Run(json.load(file))
