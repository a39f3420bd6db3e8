"""Which types and predeclared data RAPID has, and how a num is kept: in single precision."""

import struct
from dataclasses import dataclass, replace
from typing import Any

_SINGLE = struct.Struct("<f")


def single(value: float) -> float:
    """Round to single precision, as a num is kept; OverflowError where it is too large."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


@dataclass(frozen=True, slots=True)
class Type:
    """A type: atomic where it has no fields; an array of it where it has sizes."""

    name: str
    fields: tuple[tuple[str, "Type"], ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def element(self) -> "Type":
        """What an array of this type is made of."""
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
    """Make the value that data has without one."""
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
