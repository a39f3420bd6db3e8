"""A client's run file in few keys, which are easy to change, and back."""

from typing import Any

Data = dict[str, Any]


def short(run: Data) -> Data:
    """Write a run file with a home, lists of moves, and a series of stated times or repeated moves."""
    pose = run["out"]["segments"][0]
    ways = {name: _moves(run[name]) for name in ("out", "back")}
    kept = {key: value for key, value in run.items() if key not in ("out", "main", "back")}
    return {**kept, "home": pose.get("from") or pose["pose"], **ways, "main": _main(run["main"])}


def full(data: Data) -> Data:
    """Write the run file again, whatever has become of its values."""
    start = data["out"][-1]["to"] if data["out"] else data["home"]
    main = data["main"]
    if not isinstance(main, dict):
        body = main
    elif "series" in main:
        body = _periodic(main["series"], data["axes"])
    else:
        body = _lines(start, main["moves"] * main["repeats"], data["axes"])
    runs = {"out": _lines(data["home"], data["out"], data["axes"]), "main": body}
    kept = {key: value for key, value in data.items() if key not in ("home", "out", "main", "back")}
    return {**kept, **runs, "back": _lines(start, data["back"], data["axes"])}


def _moves(run: Data) -> list[Data]:
    made = []
    for segment in run["segments"]:
        if segment["duration"] > 0.0:
            ends = {"to": segment.get("to") or segment["pose"], "duration": segment["duration"]}
            made.append({**ends, "blend": segment.get("blend", segment["duration"] / 3.0)})
    return made


def _main(run: Data) -> Data:
    if not run["series"]:
        moves = _moves(run)
        half = len(moves) // 2
        return {"moves": moves[:half], "repeats": 2} if moves[:half] == moves[half:] else {"moves": moves, "repeats": 1}
    named = {segment["name"]: segment for segment in run["segments"]}
    times = {key: named.get(name, {}).get("duration", 0.0) for key, name in _TIMES}
    counts = {key: named.get(name, {}).get("periods", 0) for key, name in _COUNTS}
    return {"series": {**run["series"][0], **times, **counts}}


_TIMES = (("settle", "settle"), ("ramp", "ramp-in"), ("hold", "hold"))
_COUNTS = (("warm_up", "warm-up"), ("measured", "measured"))


def _lines(begin: Any, moves: list[Data], axes: list[str]) -> Data:
    poses = [begin, *(move["to"] for move in moves)]
    words = {"kind": "move", "name": "way", "measured": False}
    made = [{**words, "from": pose, **move} for pose, move in zip(poses, moves, strict=False)]
    still = {"kind": "hold", "name": "way", "measured": False, "pose": begin, "duration": 0.0}
    return {"joints": axes, "sample_time": 1e-9, "series": [], "segments": made or [still]}


def _periodic(s: Data, axes: list[str]) -> Data:
    still = {"kind": "hold", "measured": False, "pose": s["center"]}
    ramp = {"kind": "ramp", "measured": False, "series": 0, "duration": s["ramp"]}
    wave = {"kind": "series", "series": 0}
    segments = [
        *([{**still, "name": "settle", "duration": s["settle"]}] if s["settle"] else []),
        *([{**ramp, "name": "ramp-in", "rises": True}] if s["ramp"] else []),
        *([{**wave, "name": "warm-up", "measured": False, "periods": s["warm_up"]}] if s["warm_up"] else []),
        {**wave, "name": "measured", "measured": True, "periods": s["measured"]},
        *([{**ramp, "name": "ramp-out", "rises": False}] if s["ramp"] else []),
        *([{**still, "name": "hold", "duration": s["hold"]}] if s["hold"] else []),
    ]
    series = {key: s[key] for key in ("period", "harmonics", "center", "sines", "cosines")}
    return {"joints": axes, "sample_time": 1e-9, "series": [series], "segments": segments}
