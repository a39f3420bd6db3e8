"""Wrong ROS 2 programs made from a right one: as a wrong emitter would write them, sums and both formats agreeing."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Files = Mapping[str, str]
Table = dict[str, Any]

_FIELDS = ("positions", "velocities", "accelerations")
_CLIENT = "ros2_client.py"


def mutations(files: Files, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """List what was changed, and the changed files."""
    program = json.loads(files[f"{name}.json"])
    measured = [k for k, (_, mark) in enumerate(program["marks"]) if mark > 1000][-1]
    edges = [
        *(t for t, _ in program["marks"]),
        next(s for s in program["stretches"] if s["name"] == "main")["duration"],
    ]
    changes: dict[str, Callable[[Table], object]] = {
        "a point dropped": lambda table: table["points"].pop(len(table["points"]) // 2),
        "the first point dropped": lambda table: table["points"].pop(0),
        "the last point dropped": lambda table: table["points"].pop(),
        "two joints swapped": lambda table: _columns(table, lambda row: [row[1], row[0], *row[2:]]),
        "two joint names swapped": _swap_names,
        "a joint left out": lambda table: _columns(table, lambda row: row[:-1]),
        "degrees for radians": lambda table: _columns(table, lambda row: [57.29577951308232 * x for x in row]),
        "a sign flipped": lambda table: _columns(table, lambda row: [-row[0], *row[1:]]),
        "velocities flipped": lambda table: _columns(table, lambda row: [-x for x in row], "velocities"),
        "velocities left out": lambda table: [point.pop("velocities") for point in table["points"]],
        "no accelerations": lambda table: _columns(table, lambda row: [0.0 for _ in row], "accelerations"),
        "accelerations 1 % larger": lambda table: _columns(table, lambda row: [1.01 * x for x in row], "accelerations"),
        "positions 1 % larger": lambda table: _columns(table, lambda row: [1.01 * x for x in row], "positions"),
        "a point 1e-6 off": lambda table: _nudge(table, 1e-6),
        "a wrong step time": lambda table: _retime(table, lambda t: t + t // 100),
        "seconds without fractions": lambda table: _retime(table, lambda t: t // 10**9 * 10**9),
        "a start at 0 s": lambda table: _retime(table, lambda t: t - _time(table["points"][0])),
        "a period too few": lambda table: _cut(table, edges[measured], edges[measured + 1]),
        "it ends in motion": lambda table: table["points"][-1]["velocities"].__setitem__(0, 0.01),
        "no velocities, but null": lambda table: table["points"][1].__setitem__("velocities", None),
    }
    for label, change in changes.items():
        yield label, _with_table(files, name, "main", change)
    if f"{name}_out.json" in files:
        yield "the way out in degrees", _with_table(files, name, "out", changes["degrees for radians"])
        yield "the way out jumps", _with_table(files, name, "out", lambda table: table["points"].__delitem__(slice(-2)))
        yield "back is the way out again", _back_is_out(files, name)
    yield from _texts(files, name)
    yield from _programs(files, name)
    yield from _clients(files)


def _columns(table: Table, change: Callable[[list[float]], list[float]], *fields: str) -> None:
    for point in table["points"]:
        for field in fields or _FIELDS:
            point[field] = change(point[field])


def _swap_names(table: Table) -> None:
    table["joint_names"][:2] = table["joint_names"][1::-1]


def _nudge(table: Table, by: float) -> None:
    table["points"][len(table["points"]) // 3]["positions"][0] += by


def _time(point: Table) -> int:
    return int(point["time_from_start"]["sec"] * 10**9 + point["time_from_start"]["nanosec"])


def _retime(table: Table, change: Callable[[int], int]) -> None:
    times = [change(_time(point)) for point in table["points"]]
    for point, t in zip(table["points"], times, strict=True):
        point["time_from_start"] = {"sec": t // 10**9, "nanosec": t % 10**9}


def _cut(table: Table, start: float, end: float) -> None:
    first, last = round(1e9 * start), round(1e9 * end)
    table["points"] = [point for point in table["points"] if not first < _time(point) <= last]
    _retime(table, lambda t: t - (last - first) if t > last else t)


def _with_table(files: Files, name: str, stretch: str, change: Callable[[Table], object]) -> dict[str, str]:
    table = json.loads(files[f"{name}_{stretch}.json"])
    change(table)
    text = json.dumps(table)
    return _summed({**files, f"{name}_{stretch}.json": text, f"{name}_{stretch}.yaml": text}, name)


def _summed(files: dict[str, str], name: str) -> dict[str, str]:
    """Let the program tell of its tables as they are now."""
    program = json.loads(files[f"{name}.json"])
    for stretch in program["stretches"]:
        text = files[stretch["file"]]
        stretch["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        times = re.findall(r'"time_from_start": \{"sec": (\d+), "nanosec": (\d+)\}', text)
        stretch["points"] = len(times)
        stretch["duration"] = int(times[-1][0]) + 1e-9 * int(times[-1][1])
    return {**files, f"{name}.json": json.dumps(program)}


def _back_is_out(files: Files, name: str) -> dict[str, str]:
    swapped = {f"{name}_back.{end}": files[f"{name}_out.{end}"] for end in ("yaml", "json")}
    return _summed({**files, **swapped}, name)


def _texts(files: Files, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    yaml, table = f"{name}_main.yaml", f"{name}_main.json"
    comma = re.sub(r"(positions: \[-?\d+)\.", r"\1,", files[yaml], count=1)
    yield "a decimal comma", {**files, yaml: comma}
    yield "a line of the YAML dropped", {**files, yaml: re.sub(r"\n  velocities: .*", "", files[yaml], count=1)}
    yield "a digit of the YAML changed", {**files, yaml: re.sub(_FIRST_DIGIT, _next_digit, files[yaml], count=1)}
    yield "a sign of the YAML flipped", {**files, yaml: re.sub(r"positions: \[(-?)", _flipped, files[yaml], count=1)}
    yield "the JSON's last bracket missing", _summed({**files, table: files[table].rstrip()[:-1]}, name)
    yield "a table of another run", {**files, table: files[table].replace('"effort": []', '"effort": [ ]', 1)}
    yield "a table missing", {file: text for file, text in files.items() if file != table}


_FIRST_DIGIT = r"(positions: \[-?\d+\.)(\d)"


def _next_digit(match: re.Match[str]) -> str:
    return f"{match[1]}{(int(match[2]) + 1) % 10}"


def _flipped(match: re.Match[str]) -> str:
    return "positions: [" + ("" if match[1] else "-")


def _programs(files: Files, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    changes: dict[str, Callable[[Table], object]] = {
        "another home": lambda data: data["home"].__setitem__(0, data["home"][0] + 0.05),
        "a home check 20 times wider": lambda data: data.update(
            home_tolerance=[20.0 * x for x in data["home_tolerance"]]
        ),
        "no run": lambda data: data.update(stretches=[s for s in data["stretches"] if s["name"] != "main"]),
        "a mark removed": lambda data: data["marks"].remove(next(mark for mark in data["marks"] if mark[1] > 1000)),
        "marks half a second late": lambda data: data.update(marks=[[t + 0.5, mark] for t, mark in data["marks"]]),
        "no rest before the run": lambda data: data.update(rest=0.0),
        "an unknown version": lambda data: data.update(version=2),
        "joints in another order": lambda data: data["joints"].reverse(),
    }
    data = json.loads(files[f"{name}.json"])
    if data["payload_kg"] is not None:
        changes["the payload check removed"] = lambda data: data.update(payload_kg=None)
        changes["another payload"] = lambda data: data.update(payload_kg=data["payload_kg"] + 2.0)
    if len(data["stretches"]) > 1:
        changes["the run before the way out"] = lambda data: data["stretches"].reverse()
        changes["no way back"] = lambda data: data["stretches"].pop()
    for label, change in changes.items():
        changed = json.loads(files[f"{name}.json"])
        change(changed)
        yield label, {**files, f"{name}.json": json.dumps(changed)}


def _clients(files: Files) -> Iterator[tuple[str, dict[str, str]]]:
    text = files.get(_CLIENT, "")
    for label, line in {
        "the override check removed": r"\n    _full_speed\(scaling\)",
        "the standstill check removed": r"\n    _at_rest\(program, first, last\)",
        "the log start removed": r"\n    robot\.log_on\(\)",
        "the look at where a stretch begins removed": r"\n            _stands\(robot, program, stretch, begin\)",
    }.items():
        if re.search(line, text):
            yield label, {**files, _CLIENT: re.sub(line, "", text, count=1)}
