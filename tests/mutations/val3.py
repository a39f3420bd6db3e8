"""Mistakes in a VAL3 application, each of which its check must find."""

import re
from collections.abc import Callable, Iterator, Mapping

_Change = Callable[[re.Match[str]], str]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Change the application called `name` in one way after another; a label, and all files."""
    flowing = "nNext)" in files[f"{name}/start.pgx"]  # marks are set while the arm moves
    for label, suffix, pattern, change in (*_CHANGES, _FLOWING if flowing else _RESTING):
        file = f"{name}/{suffix.format(name=name)}"
        changed = re.sub(pattern, change, files[file], count=1, flags=re.MULTILINE | re.DOTALL)
        if changed != files[file]:
            yield label, {**files, file: changed}
    for missing in (f"{name}/ride.pgx", f"{name}/{name}.dtx"):
        yield f"without {missing.split('/')[1]}", {file: text for file, text in files.items() if file != missing}


def _constant(text: str) -> _Change:
    return lambda match: text


def _number(change: Callable[[float], float]) -> _Change:
    return lambda match: f"{match['before']}{change(float(match['number'])):.9f}"


def _whole(by: int) -> _Change:
    return lambda match: f"{match['before']}{int(match['number']) + by}"


def _swapped(match: re.Match[str]) -> str:
    return f'{match["before"]}j1="{match["b"]}" j2="{match["a"]}"'


def _faster(match: re.Match[str]) -> str:
    return re.sub(r'value="([\d.]+)"', lambda one: f'value="{1.01 * float(one[1]):.9f}"', match[0])


_POINT = r'(?P<before><Data name="jRide".*?<Value key="7" )'
_J1 = rf'{_POINT}j1="(?P<a>[-\d.]+)" j2="(?P<b>[-\d.]+)"'
_AXIS = r'(?P<before><Data name="jRide".*?<Value key="\d+" [^>]*?j[1-6]=")(?P<number>-?[1-9]\d*\.\d+)'
_SPEED = r'(?P<before><Data name="nVel".*?<Value key="7" value=")(?P<number>[\d.]+)'
_TOPS = r'<Data name="nTopSpeed".*?</Data>'
_REFUSED = r"^  if {}[^\n]*\n[^\n]*\n[^\n]*\n  endIf\n"
_AGAIN = r"(?P<before>// again.*?)" + _REFUSED[1:]
_CALL = r"call ride\("

_CHANGES: tuple[tuple[str, str, str, _Change], ...] = (
    ("a way-point dropped", "{name}.dtx", rf'{_POINT}[^>]*>\n', lambda match: match["before"].rsplit("<", 1)[0]),
    ("two joints swapped", "{name}.dtx", _J1, _swapped),
    ("radians for degrees", "{name}.dtx", _AXIS, _number(lambda x: x / 57.29577951308232)),
    ("a sign flipped", "{name}.dtx", _AXIS, _number(lambda x: -x)),
    ("an angle 1 % larger", "{name}.dtx", _AXIS, _number(lambda x: 1.01 * x)),
    ("a decimal comma", "{name}.dtx", r'(j1="-?\d+)\.', lambda match: f"{match[1]},"),
    ("a speed 1 % higher", "{name}.dtx", _SPEED, _number(lambda x: 1.01 * x)),
    ("every axis 1 % faster", "{name}.dtx", _TOPS, _faster),
    ("data not closed", "{name}.dtx", r"</Datas>", _constant("")),
    ("a datum missing", "{name}.dtx", r'^    <Data name="tNone".*?</Data>\n', _constant("")),
    ("a home angle wrong", "{name}.dtx", r'(?P<before>"jHome".*?j1=")(?P<number>[-\d.]+)', _number(lambda x: x + 3.0)),
    ("endFor missing", "ride.pgx", r"^  endFor\n", _constant("")),
    ("end missing", "start.pgx", r"\nend\]\]", _constant("\n]]")),
    ("a name misspelt", "ride.pgx", r"movej\(jRide", _constant("movej(jRode")),
    ("an index off by one", "ride.pgx", r"movej\(jRide\[nIdx\]", _constant("movej(jRide[nIdx+1]")),
    ("an argument left out", "ride.pgx", r"tNone,", _constant("")),
    ("one round more", "start.pgx", r"(?P<before>for n(?:Per|Round)=1 to )(?P<number>\d+)", _whole(1)),
    ("one round less", "start.pgx", r"(?P<before>for n(?:Per|Round)=1 to )(?P<number>\d+)", _whole(-1)),
    ("a way shortened", "start.pgx", rf"(?P<before>{_CALL}\d+,)(?P<number>[1-9]\d*)(?=,)", _whole(1)),
    ("a wrong time between points", "start.pgx", rf"(?P<before>{_CALL}\d+,\d+,)(?P<number>[\d.]+)(?=,nNext|,0)",
     _number(lambda x: 1.02 * x)),
    ("override check removed", "start.pgx", _REFUSED.format(r"getMonitorSpeed"), _constant("")),
    ("override check weakened", "start.pgx", r"getMonitorSpeed\(\)!=100", _constant("getMonitorSpeed()<10")),
    ("override not checked again", "start.pgx", _AGAIN.format(r"getMonitorSpeed"), lambda match: match["before"]),
    ("mode not checked again", "start.pgx", _AGAIN.format(r"workingMode"), lambda match: match["before"]),
    ("mode check removed", "start.pgx", _REFUSED.format(r"workingMode"), _constant("")),
    ("home not checked", "start.pgx", r"^  jHere=herej\(\)\n", _constant("  jHere=jHome\n")),
    ("the step to home left out", "start.pgx", r"^  movej\(jHome[^\n]*\n", _constant("")),
    ("refusal without a stop", "start.pgx", r"^    return\n", _constant("")),
    ("log start removed", "start.pgx", r"^  nLog=1\n", _constant("")),
    ("log stop removed", "start.pgx", r"^  nLog=0\n", _constant("")),
    ("mark of the first part removed", "start.pgx", r"(nLog=1\n.*?)\n *n(?:Mark|Next)=[^\n]*", lambda match: match[1]),
    ("a rest shortened", "start.pgx", r"(?P<before>nLog=1\n.*?delay\()(?P<number>[\d.]+)", _number(lambda x: 0.5 * x)),
    ("the way home left out", "start.pgx", r"(nLog=0\n.*?)  call ride[^\n]*\n", lambda match: match[1]),
    ("a loop without end", "ride.pgx", r"^  for nIdx=nFrom to nTo", _constant("  for nIdx=nFrom to nTo step 0")),
)  # fmt: skip
_FLOWING = ("marker removed", "ride.pgx", r"^ *nMark=nTell\n", _constant(""))
_RESTING = ("marker removed", "start.pgx", r"^ *nMark=nNext\n", _constant(""))
