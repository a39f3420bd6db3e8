"""Words, types and predeclared data of RAPID; a num has single precision."""

import re
from dataclasses import dataclass, replace
from typing import Any

from excitor.design.programs.runtime import Fault, Token, scan, single

WORDS = frozenset(
    ["ALIAS", "AND", "BACKWARD", "CASE", "CONNECT", "CONST", "DEFAULT", "DIV", "DO", "ELSE", "ELSEIF", "ENDFOR",
     "ENDFUNC", "ENDIF", "ENDMODULE", "ENDPROC", "ENDRECORD", "ENDTEST", "ENDTRAP", "ENDWHILE", "ERROR", "EXIT",
     "FALSE", "FOR", "FROM", "FUNC", "GOTO", "IF", "INOUT", "LOCAL", "MOD", "MODULE", "NOSTEPIN", "NOT", "NOVIEW",
     "OR", "PERS", "PROC", "RAISE", "READONLY", "RECORD", "RETRY", "RETURN", "STEP", "SYSMODULE", "TASK", "TEST",
     "THEN", "TO", "TRAP", "TRUE", "TRYNEXT", "UNDO", "VAR", "VIEWONLY", "WHILE", "WITH", "XOR"]
)  # fmt: skip
LONGEST_NAME = 32
LONGEST_STRING = 80

_NUMBER = r"0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+|!.*)|(?P<string>"(?:[^"\n]|"")*")|(?P<late>%"[^"\n]*"%)
    |(?P<odd>(?>{_NUMBER})(?=[A-Za-z_0-9]))|(?P<number>{_NUMBER})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>:=|<>|<=|>=|[-+*/=<>\\(){{}}\[\],;:.%])""",
    re.VERBOSE,
)


def tokens(text: str) -> list[Token]:
    """Cut a text into tokens, the last of which is its end."""
    text = re.sub(r"\A\s*%%%[^%]*%%%", lambda header: "\n" * header[0].count("\n"), text)
    found = scan(_TOKEN, text, 1, lambda rest: f"the letter {rest[0]!r} has no place here")
    return [
        *(_token(kind, part, line) for kind, part, line in found),
        Token("end", "the end of the file", 1 + text.count("\n"), ""),
    ]


def _token(kind: str, text: str, line: int) -> Token:
    if kind == "odd":
        raise Fault(f"a letter follows the number {text}", line)
    if kind == "name" and len(text) > LONGEST_NAME:
        raise Fault(f"the name {text} has {len(text)} letters, {LONGEST_NAME} are allowed", line)
    if kind == "name" and text.upper() in WORDS:
        return Token("word", text.upper(), line, text.upper())
    if kind == "string":
        inner = text[1:-1].replace('""', '"')
        if len(inner) > LONGEST_STRING:
            raise Fault(f"a string has {len(inner)} letters, {LONGEST_STRING} are allowed", line)
        return Token(kind, inner, line, "")
    return Token(kind, text, line, text if kind == "sign" else "")


@dataclass(frozen=True, slots=True)
class Type:
    """A type: atomic where it has no fields; an array of it where it has sizes."""

    name: str
    fields: tuple[tuple[str, "Type"], ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def element(self) -> "Type":
        """Type of an array's elements."""
        return replace(self, sizes=())

    def __str__(self) -> str:
        return self.name + (f"{{{','.join(str(n or '*') for n in self.sizes)}}}" if self.sizes else "")


NUM, DNUM, BOOL, STRING, SWITCH = (Type(name) for name in ("num", "dnum", "bool", "string", "switch"))


def _record(name: str, **fields: Type) -> Type:
    return Type(name, tuple(fields.items()))


_POS = _record("pos", x=NUM, y=NUM, z=NUM)
_ORIENT = _record("orient", q1=NUM, q2=NUM, q3=NUM, q4=NUM)
_POSE = _record("pose", trans=_POS, rot=_ORIENT)
_ROBJOINT = Type("robjoint", tuple((f"rax_{k}", NUM) for k in range(1, 7)))
_EXTJOINT = Type("extjoint", tuple((f"eax_{k}", NUM) for k in "abcdef"))
JOINTTARGET = _record("jointtarget", robax=_ROBJOINT, extax=_EXTJOINT)
_CONFDATA = _record("confdata", cf1=NUM, cf4=NUM, cf6=NUM, cfx=NUM)
ROBTARGET = _record("robtarget", trans=_POS, rot=_ORIENT, robconf=_CONFDATA, extax=_EXTJOINT)
LOADDATA = _record("loaddata", mass=NUM, cog=_POS, aom=_ORIENT, ix=NUM, iy=NUM, iz=NUM)
TOOLDATA = _record("tooldata", robhold=BOOL, tframe=_POSE, tload=LOADDATA)
WOBJDATA = _record("wobjdata", robhold=BOOL, ufprog=BOOL, ufmec=STRING, uframe=_POSE, oframe=_POSE)
SPEEDDATA = _record("speeddata", v_tcp=NUM, v_ori=NUM, v_leax=NUM, v_reax=NUM)
ZONEDATA = _record(
    "zonedata", finep=BOOL, pzone_tcp=NUM, pzone_ori=NUM, pzone_eax=NUM, zone_ori=NUM, zone_leax=NUM, zone_reax=NUM
)
EGM_MINMAX = _record("egm_minmax", min=NUM, max=NUM)

_OPAQUE = ("clock", "egmident", "intnum", "iodev", "mecunit", "rawbytes", "socketdev", "tasks", "syncident")
_SIGNALS = ("signaldo", "signaldi", "signalgo", "signalgi", "signalao", "signalai")
_NUMBERS = ("errnum", "egmstate", "byte", "dionum", "opnum", "egmstopmode", "symnum")

TYPES: dict[str, Type] = {
    kind.name: kind
    for kind in (
        NUM, DNUM, BOOL, STRING, SWITCH, _POS, _ORIENT, _POSE, _ROBJOINT, _EXTJOINT, JOINTTARGET, _CONFDATA, ROBTARGET,
        LOADDATA, TOOLDATA, WOBJDATA, SPEEDDATA, ZONEDATA, EGM_MINMAX, *map(Type, (*_OPAQUE, *_SIGNALS)),
    )
} | dict.fromkeys(_NUMBERS, NUM)  # fmt: skip


def initial(kind: Type) -> Any:
    """Return the initial value of data declared without one."""
    if kind.sizes:
        rest = replace(kind, sizes=kind.sizes[1:])
        return [initial(rest) for _ in range(kind.sizes[0])]
    if kind.fields:
        return [initial(part) for _, part in kind.fields]
    return {"num": 0.0, "dnum": 0.0, "bool": False, "string": ""}.get(kind.name)


def copied(value: Any) -> Any:
    """Copy records and arrays: RAPID assigns values, never references."""
    return [copied(item) for item in value] if isinstance(value, list) else value


def _zone(finep: bool, *sizes: float) -> tuple[Type, Any]:
    return ZONEDATA, [finep, *map(single, sizes)]


_UNTURNED = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
_NO_LOAD = [single(0.001), [0.0, 0.0, single(0.001)], [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0]
_SPEEDS = (5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000, 2500, 3000, 4000,
           5000, 6000, 7000)  # fmt: skip
_ZONES = {
    0: (0.3, 0.3, 0.3, 0.03, 0.3, 0.03),
    1: (1, 1, 1, 0.1, 1, 0.1),
    5: (5, 8, 8, 0.8, 8, 0.8),
    10: (10, 15, 15, 1.5, 15, 1.5),
    15: (15, 23, 23, 2.3, 23, 2.3),
    20: (20, 30, 30, 3, 30, 3),
    30: (30, 45, 45, 4.5, 45, 4.5),
    40: (40, 60, 60, 6, 60, 6),
    50: (50, 75, 75, 7.5, 75, 7.5),
    60: (60, 90, 90, 9, 90, 9),
    80: (80, 120, 120, 12, 120, 12),
    100: (100, 150, 150, 15, 150, 15),
    150: (150, 225, 225, 23, 225, 23),
    200: (200, 300, 300, 30, 300, 30),
}

OP_AUTO, OP_MAN_PROG = 1.0, 2.0
ERR_UDPUC_COMM = 1195.0  # only compared with ERRNO: its value is the controller's own affair

# name (lower case) -> type and value of data that is always there
PREDECLARED: dict[str, tuple[Type, Any]] = {
    "pi": (NUM, single(3.1415927)),
    "op_undef": (NUM, 0.0),
    "op_auto": (NUM, OP_AUTO),
    "op_man_prog": (NUM, OP_MAN_PROG),
    "op_man_test": (NUM, 3.0),
    "egm_stop_hold": (NUM, 0.0),
    "egm_stop_ramp_down": (NUM, 1.0),
    "egm_state_disconnected": (NUM, 0.0),
    "egm_state_connected": (NUM, 1.0),
    "egm_state_running": (NUM, 2.0),
    "err_udpuc_comm": (NUM, ERR_UDPUC_COMM),
    "high": (NUM, 1.0),
    "low": (NUM, 0.0),
    "stempty": (STRING, ""),
    "rob_1": (TYPES["mecunit"], None),
    "tool0": (TOOLDATA, [True, _UNTURNED, _NO_LOAD]),
    "load0": (LOADDATA, _NO_LOAD),
    "wobj0": (WOBJDATA, [False, True, "", _UNTURNED, _UNTURNED]),
    "fine": _zone(True, 0, 0, 0, 0, 0, 0),
    **{f"z{size}": _zone(False, *sizes) for size, sizes in _ZONES.items()},
    **{f"v{speed}": (SPEEDDATA, [float(speed), 500.0, 5000.0, 1000.0]) for speed in _SPEEDS},
    "vmax": (SPEEDDATA, [5000.0, 500.0, 5000.0, 1000.0]),
}
