"""How a RAPID program with guided motion may go wrong: each mutation of its module or run must be caught."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.mutations.run_file import full, short

Mutation = tuple[str, dict[str, str]]

_MODULE = (
    ("override check removed", r" *IF CSpeedOverride(?s:.*?)ENDIF\n", ""),
    ("mode check removed", r" *IF OpMode(?s:.*?)ENDIF\n", ""),
    ("payload check removed", r" *IF Abs\(exTool(?s:.*?)ENDIF\n", ""),
    ("home check removed", r" *IF Abs\(exHere(?s:.*?)ENDIF\n", ""),
    ("home check turned round", r"\) > 0\.5", ") < 0.5"),
    ("load of the tool not read", r" *GetSysData exTool;\n", ""),
    ("exit after a refusal missing", r" *EXIT;\n(?= *ENDIF)", ""),
    ("a missing ENDIF", r" *ENDIF\n", ""),
    ("a missing ENDPROC", r" *ENDPROC\n", ""),
    ("a missing ENDMODULE", r"ENDMODULE\n", ""),
    ("nothing that automatic mode starts", r" *PROC main\(\)\n(?s:.*?)ENDPROC\n", ""),
    ("main that does nothing", r"(PROC main\(\)\n) *\w+;\n", r"\1"),
    ("a missing semicolon", r"CJointT\(\);", "CJointT()"),
    ("decimal comma in home", r"(exHome := \[\[-?\d+)\.", r"\1,"),
    ("a joint missing in home", r"(exHome := \[\[)[^,]*,", r"\1"),
    ("guidance not registered", r"\n *EGMGetId[^;]*;(?=\n)", ""),
    ("guidance not set up", r"\n *EGMSetupUC[^;]*;(?=\n)", ""),
    ("guidance not prepared", r"\n *EGMActJoint[^;]*;(?=\n)", ""),
    ("guidance not run", r"\n *EGMRunJoint[^;]*;(?=\n)", ""),
    ("guidance of poses", r" \\Joint\b", r" \\Pose"),
    ("guidance without a joint", r"(\n *EGMRunJoint[^;]*) \\J5", r"\1"),
    ("wrong step time", r"\\SampleRate:=4", r"\\SampleRate:=8"),
    ("speed limit of guidance too low", r"\\MaxSpeedDeviation:=\d+", r"\\MaxSpeedDeviation:=1"),
    ("ends at the first pause", r"\\CondTime:=\d+", r"\\CondTime:=1"),
    ("a misspelt instruction", r"EGMReset", "EGMRest"),
    ("an undeclared name", r"exNear :=", "exFar :="),
)  # fmt: skip


def mutations(files: Mapping[str, str], name: str) -> Iterator[Mutation]:
    """Change one thing at a time; what a program has no place for is left out."""
    module, run = files[f"{name}.mod"], files[f"{name}.json"]
    for label, pattern, new in _MODULE:
        changed = re.sub(pattern, new, module, count=0 if "turned" in label else 1)
        if changed != module:
            yield label, {**files, f"{name}.mod": changed}
    swapped = _swapped_home(module)
    if swapped != module:
        yield "two joints of home swapped", {**files, f"{name}.mod": swapped}
    for label, change in (*_RUN, *(_SERIES if "series" in short(json.loads(run))["main"] else _MOVES)):
        data = short(json.loads(run))
        change(data)
        if data != short(json.loads(run)):
            yield label, {**files, f"{name}.json": json.dumps(full(data))}
    yield "run cut short", {**files, f"{name}.json": run[: len(run) // 2]}
    yield "run missing", {file: text for file, text in files.items() if file != f"{name}.json"}


def _swapped_home(module: str) -> str:
    return re.sub(r"(exHome := \[\[)([^,]*),([^,]*),", r"\1\3,\2,", module)


def _degrees_for_radians(data: dict[str, Any]) -> None:
    main = data["main"]
    if "series" in main:
        for key in ("sines", "cosines"):
            main["series"][key] = [[math.radians(x) for x in row] for row in main["series"][key]]
    else:
        for move in main["moves"]:
            move["to"] = [math.radians(x) for x in move["to"]]


def _set(*path: str | int, to: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            if not data[key]:
                return
            data = data[key]
        data[path[-1]] = to(data[path[-1]])

    return change


def _swap(a: int, b: int) -> Callable[[list[Any]], list[Any]]:
    def swapped(row: list[Any]) -> list[Any]:
        out = list(row)
        out[a], out[b] = out[b], out[a]
        return out

    return swapped


def _first(scale: float, add: float = 0.0) -> Callable[[list[float]], list[float]]:
    return lambda row: [scale * row[0] + add, *row[1:]]


_RUN = (
    ("home of the run moved", _set("home", to=_first(1.0, 1.0))),
    ("degrees for radians", _degrees_for_radians),
    ("a marker removed", _set("marks", to=lambda marks: [marks[0], *marks[2:]])),
    ("a marker late", _set("marks", 1, 0, to=lambda t: t + 0.1)),
    ("way out 1 % further", _set("out", 0, "to", to=lambda row: [1.01 * x for x in row])),
    ("way out faster", _set("out", 0, "duration", to=lambda t: 0.5 * t)),
    ("way back dropped", _set("back", to=lambda moves: moves[1:])),
    ("way back blended", _set("back", 0, "blend", to=lambda blend: blend + 0.2)),
    ("a nonsense number", _set("home", to=_first(math.nan, math.nan))),
)

_SERIES = tuple(
    (label, _set("main", "series", *path, to=to))
    for label, path, to in (
        ("a coefficient 1 % larger", ("sines", 0), _first(1.01)),
        ("a sign flipped", ("cosines", 0), _first(-1.0)),
        ("two joints swapped", ("sines",), _swap(0, 1)),
        ("two harmonics swapped", ("sines", 2), _swap(0, -1)),
        ("a harmonic replaced", ("harmonics",), lambda row: [*row[:-1], row[-1] + 1]),
        ("all 1 % larger", ("cosines",), lambda rows: [[1.01 * x for x in row] for row in rows]),
        ("center moved", ("center",), _first(1.0, 0.01)),
        ("one period more", ("measured",), lambda n: n + 1),
        ("one period less", ("warm_up",), lambda n: max(n - 1, 0)),
        ("ramp shortened", ("ramp",), lambda t: round(0.8 * t / 0.004) * 0.004),
        ("rest before the run shortened", ("settle",), lambda t: 0.5 * t),
        ("rest after the run longer", ("hold",), lambda t: t + 0.2),
        ("another period", ("period",), lambda t: round(1.01 * t / 0.004) * 0.004),
    )
)

_MOVES = tuple(
    (label, _set("main", *path, to=to))
    for label, path, to in (
        ("a move 1 % further", ("moves", 0, "to"), lambda row: [1.01 * x for x in row]),
        ("a sign flipped", ("moves", 0, "to"), _first(-1.0)),
        ("two joints swapped", ("moves", 2, "to"), _swap(0, 1)),
        ("a move dropped", ("moves",), lambda moves: moves[1:]),
        ("a move longer", ("moves", 2, "duration"), lambda t: t + 0.4),
        ("a blend shortened", ("moves", 2, "blend"), lambda t: 0.5 * t),
        ("one round more", ("repeats",), lambda n: n + 1),
    )
)
