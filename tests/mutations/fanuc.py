"""Mistakes in a FANUC TP program, each of which its check must find."""

import re
from collections.abc import Callable, Iterator, Mapping

_Change = Callable[[re.Match[str]], str]


def mutations(files: Mapping[str, str], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Change the program called `name` in one way after another; a label, and all files."""
    file = f"{name}.ls"
    for label, pattern, change in _CHANGES:
        changed = re.sub(pattern, change, files[file], count=1, flags=re.MULTILINE | re.DOTALL)
        if changed != files[file]:
            yield label, {**files, file: changed}


def _constant(text: str) -> _Change:
    return lambda match: text


def _number(change: Callable[[float], float]) -> _Change:
    return lambda match: f"{match['before']}{change(float(match['number'])):.3f}"


def _whole(change: Callable[[int], int]) -> _Change:
    return lambda match: f"{match['before']}{change(int(match['number']))}"


def _swapped(match: re.Match[str]) -> str:
    return f"{match['before']}J1 = {match['b']} deg, J2 = {match['a']} deg"


_POINT = r"(?P<before>^P\[7\].*?)"
_ANGLE = r"(?P<before>^P\[\d+\]\{[^}]*?J[1-6] = )(?P<number>-?[1-9]\d*\.\d+)"
_AGAIN = r"(?P<before>!AGAIN.*?)^ *\d+:  {} ;\n"
_LINE = r"^ *\d+:  {} ;\n"

_CHANGES: tuple[tuple[str, str, _Change], ...] = (
    ("a position dropped", r"^P\[7\]\{.*?\};\n", _constant("")),
    ("a motion dropped", _LINE.format(r"J P\[7\][^\n]*?"), _constant("")),
    ("a motion made twice", _LINE.format(r"J P\[7\][^\n]*?"), lambda match: 2 * match[0]),
    ("two joints swapped", rf"{_POINT}J1 = (?P<a>[-\d.]+) deg, J2 = (?P<b>[-\d.]+) deg", _swapped),
    ("radians for degrees", _ANGLE, _number(lambda x: x / 57.29577951308232)),
    ("a sign flipped", _ANGLE, _number(lambda x: -x)),
    ("an angle 1 % larger", _ANGLE, _number(lambda x: 1.01 * x)),
    ("a decimal comma", r"(J1 = -?\d+)\.", lambda match: f"{match[1]},"),
    ("an axis missing", r", J3 = [-\d.]+ deg", _constant("")),
    ("/END missing", r"^/END\n", _constant("")),
    ("/POS missing", r"^/POS\n", _constant("")),
    ("semicolon missing", r"CNT100 ;", _constant("CNT100")),
    ("a speed much higher", r"(?P<before>J P\[7\] )(?P<number>\d+)", _whole(lambda x: 2 * x + 5)),
    ("a stop in the middle of the motion", r"(J P\[\d+\] \d+% )FINE(?= ;\n *\d+:  (?:WAIT|!END)[^/]*/POS)",
     lambda match: f"{match[1]}CNT100"),
    ("one round more", r"(?P<before>IF R\[196\]<)(?P<number>\d+)(?=,JMP LBL\[10\])", _whole(lambda x: x + 1)),
    ("one round less", r"(?P<before>IF R\[196\]<)(?P<number>\d+)(?=,JMP LBL\[10\])", _whole(lambda x: x - 1)),
    ("the counter never counts", r"^ *\d+:  R\[196\]=R\[196\]\+1 ;\n", _constant("")),
    ("a label missing", r"^ *\d+:  LBL\[10\] ;\n", _constant("")),
    ("a wrong time between points", r"(?P<before>!WAYS OF )(?P<number>[\d.]+)(?= S ;\n *\d+:  J P\[\d+\] \d+% CNT)",
     _number(lambda x: 1.02 * x)),
    ("an axis twice as fast", r"(?P<before>!J1 AT 100%: )(?P<number>[\d.]+)", _number(lambda x: 0.01 * x)),
    ("override check removed", _LINE.format(r"IF [^\n]*?JMP LBL\[901\]"), _constant("")),
    ("override check weakened", r"<>100,JMP LBL\[901\]", _constant("<40,JMP LBL[901]")),
    ("override not checked again", _AGAIN.format(r"IF [^\n]*?JMP LBL\[901\]"), lambda match: match["before"]),
    ("mode not checked again", _AGAIN.format(r"IF [^\n]*?JMP LBL\[902\]"), lambda match: match["before"]),
    ("pose not checked again", r"^ *\d+:  IF [^\n]*?JMP LBL\[904\] ;\n", _constant("")),
    ("mode check removed", _LINE.format(r"IF [^\n]*?JMP LBL\[902\]"), _constant("")),
    ("home not checked", r"PR\[99\]=JPOS.*?(?= *\d+:  UFRAME)", _constant("UTOOL_NUM=1 ;\n")),
    ("home checked elsewhere", r"(?P<before>IF R\[196\]<)\(?(?P<number>-?[\d.]+)\)?(?=,JMP LBL\[903\])",
     lambda match: f"{match['before']}{abs(float(match['number'])) + 200.0:.3f}"),
    ("the step to home elsewhere", r"(?P<before>^P\[1\]\{.*?J1 = )(?P<number>[-\d.]+)", _number(lambda x: x + 0.1)),
    ("a refusal that goes on", r"^ *\d+:  END ;\n", _constant("")),
    ("log start removed", _LINE.format(r"F\[99:EX LOG\]=\(ON\)"), _constant("")),
    ("log stop removed", _LINE.format(r"F\[99:EX LOG\]=\(OFF\)"), _constant("")),
    ("marker removed", r"(EX LOG\]=\(ON\).*?)\n *\d+:  R\[199:EX MARK\]=[^\n]*", lambda match: match[1]),
    ("a rest shortened", r"(?P<before>!REST OF )(?P<number>[\d.]+)", _number(lambda x: 0.5 * x)),
    ("a wait shortened",
     r"(?P<before>!REST OF [\d.]+ S ;\n *\d+:  WAIT )(?P<number>[\d.]+)", _number(lambda x: 0.5 * x)),
    ("an instruction misspelt", r"WAIT ", _constant("WEIT ")),
)  # fmt: skip
