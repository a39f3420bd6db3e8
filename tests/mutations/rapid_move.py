"""How a RAPID program of way-points may go wrong: each mutation of its module must be caught."""

import math
import re
from collections.abc import Iterator, Mapping

Mutation = tuple[str, dict[str, str]]

_NUMBER = r"-?\d+\.\d{6}"
_LAST = r"(?s:(.*))"  # before the last occurrence of what follows

_CHANGES = (
    ("override check removed", r" *IF CSpeedOverride(?s:.*?)ENDIF\n", ""),
    ("mode check removed", r" *IF OpMode(?s:.*?)ENDIF\n", ""),
    ("payload check removed", r" *IF Abs\(exTool(?s:.*?)ENDIF\n", ""),
    ("home check removed", r" *IF Abs\(exHere(?s:.*?)ENDIF\n", ""),
    ("exit after a refusal missing", r" *EXIT;\n(?= *ENDIF)", ""),
    ("load of the tool not read", r" *GetSysData exTool;\n", ""),
    ("not led home", r" *MoveAbsJ exHome[^;]*;\n", ""),
    ("mark of the way out removed", r" *SetGO ex_mark, 1;\n", ""),
    ("a mark of the run removed", r"(SetDO ex_log, 1;\n(?s:.*?)SetGO(?s:.*?)) *SetGO ex_mark, [^;]*;\n", r"\1"),
    ("a wrong mark", r"SetGO ex_mark, 2;", "SetGO ex_mark, 3;"),
    ("mark of the way back removed", r" *SetGO ex_mark, 6;\n", ""),
    ("mark of the end removed", r" *SetGO ex_mark, 7;\n", ""),
    ("log start removed", r" *SetDO ex_log, 1;\n", ""),
    ("log stop removed", r" *SetDO ex_log, 0;\n", ""),
    ("rest before the log removed", r" *WaitTime \\InPos, 1;\n(?= *SetDO ex_log, 1)", ""),
    ("rest after the log removed", r"(SetDO ex_log, 0;\n) *WaitTime \\InPos, 1;\n", r"\1"),
    ("a missing ENDFOR", r" *ENDFOR\n", ""),
    ("a missing ENDPROC", r" *ENDPROC\n", ""),
    ("nothing that automatic mode starts", r" *PROC main\(\)\n(?s:.*?)ENDPROC\n", ""),
    ("main that does nothing", r"(PROC main\(\)\n) *\w+;\n", r"\1"),
    ("a missing semicolon", r"CJointT\(\);", "CJointT()"),
    ("a missing bracket", r"\]\] \\NoEOffs", r"] \\NoEOffs"),
    ("period count off by one", r"(FOR k FROM 1 TO )(\d+)(?= DO(?s:.)*SetDO ex_log, 0)", r"\1 1 + \2"),
    ("a way-point less", r"(FOR i FROM )1", r"\1 2"),
    ("a way-point that is not there", r"(FOR i FROM )1", r"\1 0"),
    ("wrong step time", r"(\{i\}(?s:.*?)\\T:=)([\d.]+)", r"\1 0.9 * \2"),
    ("a move of the way dropped", r" *MoveAbsJ \[\[-?\d[^;]*;\n", ""),
    ("last move of the way back dropped", _LAST + r"\n *MoveAbsJ [^;]*;", r"\1"),
    ("way out at its own time", r"(ex_mark, 1;(?s:.*?)) \\T:=[\d.]+, fine", r"\1, fine"),
    ("the last way-point is passed", r"(\} *\],\[[^]]*\]\] \\NoEOffs, v1000 \\T:=[\d.]+), fine", r"\1, z5"),
    ("two joints swapped", r"\[\[(ex\w+\{i\}),(ex\w+\{i\})", r"[[\2,\1"),
    ("two joints of home swapped", r"(exHome := \[\[)([^,]*),([^,]*),", r"\1\3,\2,"),
    ("decimal comma", r"(\} := \[-?\d+)\.", r"\1,"),
    ("a value dropped", r"(\{\d+\} := \[)[^,]*,", r"\1"),
    ("degrees for radians", r"\[\[(ex\w+\{i\})", r"[[\1 / 57.29578"),
    ("a table misspelt", r"\[\[(ex\w+)\{i\}", r"[[\1x{i}"),
)


def mutations(files: Mapping[str, str], name: str) -> Iterator[Mutation]:
    """Change one thing at a time; what a program has no place for is left out."""
    module = files[f"{name}.mod"]
    for label, pattern, new in _CHANGES:
        changed = re.sub(pattern, new, module, count=1)
        if changed != module:
            yield label, {**files, f"{name}.mod": changed}
    for label, scale, add in (
        ("a way-point 1 % further", 1.01, 0.0),
        ("a sign flipped", -1.0, 0.0),
        ("a way-point half a degree off", 1.0, 0.5),
        ("a way-point in radians", math.radians(1.0), 0.0),
    ):
        yield label, {**files, f"{name}.mod": _moved(module, scale, add)}


def _table(module: str) -> re.Match[str]:
    """Find the numbers of the table of the run's second axis."""
    found = re.search(r"num ex(?:Period|Move1_)2\{\d+\} := \[([^]]*)\]", module)
    assert found is not None, "no table of way-points"
    return found


def _moved(module: str, scale: float, add: float) -> str:
    """Change the number of a table that is farthest from 0."""
    table = _table(module)
    worst = max(re.finditer(_NUMBER, table[1]), key=lambda number: abs(float(number[0])))
    start = table.start(1) + worst.start()
    new = f"{scale * float(worst[0]) + add:.6f}"
    return module[:start] + new + module[start + len(worst[0]) :]
