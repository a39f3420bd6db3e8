"""Which functions and instructions RAPID has, with their parameters, and what they ask of the controller."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from excitor.design.programs.languages.rapid_types import (
    BOOL,
    DNUM,
    JOINTTARGET,
    NUM,
    OP_AUTO,
    OP_MAN_PROG,
    STRING,
    TOOLDATA,
    Type,
    copied,
    single,
)

_AWAY = single(9e9)  # of an external axis that there is not


class Controller(Protocol):
    """What a program can find out and do."""

    time: float  # s, virtual

    def override(self) -> float:
        """Tell the speed override, %."""

    def automatic(self) -> bool:
        """Tell whether the controller is in automatic mode."""

    def joints(self) -> list[float]:
        """Tell where the robot stands, deg."""

    def mass(self) -> float:
        """Tell the load that the controller has been told of, kg."""

    def write(self, text: str) -> None:
        """Show a line on the pendant."""

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Go to a pose, in a time where one is given, else at a speed."""

    def wait(self, seconds: float, standing: bool) -> None:
        """Let time pass; once the robot stands still, where that is asked for."""

    def signal(self, name: str, value: float) -> None:
        """Set an output."""

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Prepare, run or end externally guided motion; RapidError where it fails."""


class RapidError(Exception):
    """An error that an ERROR handler may see, by its number."""

    def __init__(self, number: float, sentence: str) -> None:
        self.number, self.sentence = number, sentence
        super().__init__(sentence)


class ProgramStop(Exception):
    """The program ended itself."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter of something built in. Its type: one of RAPID's, "switch", "signal", "any", or "ref" + a type."""

    name: str  # empty: required
    type: str


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function (with a result) or instruction: `act` gets the required values in order, and the named ones."""

    wanted: tuple[Wanted, ...]
    result: Type | None
    act: Callable[..., Any]


def _spec(text: str, result: Type | None, act: Callable[..., Any]) -> Builtin:
    r"""Read parameters from words such as `jointtarget \T:num \NoEOffs zonedata`; a name alone is a switch."""
    wanted = []
    for word in text.split():
        name, _, kind = word.partition(":") if word.startswith("\\") else ("", "", word)
        wanted.append(Wanted(name.lstrip("\\").lower(), kind or "switch"))
    return Builtin(tuple(wanted), result, act)


def builtins(controller: Controller) -> dict[str, Builtin]:
    """List what is built in, by name in lower case."""
    return {
        name.lower(): _spec(text, result, act)
        for name, text, result, act in (*_arithmetic(), *_questions(controller), *_instructions(controller))
    }


_Row = tuple[str, str, Type | None, Callable[..., Any]]


def _arithmetic() -> list[_Row]:
    def degrees(function: Callable[[float], float]) -> Callable[..., float]:
        return lambda x: single(function(math.radians(x)))

    def text(value: float, decimals: float) -> str:
        return f"{value:.{int(decimals)}f}"

    return [
        ("Abs", "num", NUM, abs),
        ("Sin", "num", NUM, degrees(math.sin)),
        ("Cos", "num", NUM, degrees(math.cos)),
        ("Tan", "num", NUM, degrees(math.tan)),
        ("Sqrt", "num", NUM, lambda x: single(math.sqrt(x))),
        ("Pow", "num num", NUM, lambda x, y: single(math.pow(x, y))),
        ("Exp", "num", NUM, lambda x: single(math.exp(x))),
        ("ATan2", "num num", NUM, lambda y, x: single(math.degrees(math.atan2(y, x)))),
        ("Round", "num \\Dec:num", NUM, lambda x, dec=0.0: single(_half_up(x, int(dec)))),
        ("Trunc", "num \\Dec:num", NUM, lambda x, dec=0.0: single(math.trunc(x * 10.0**dec) / 10.0**dec)),
        ("NumToDnum", "num", DNUM, lambda x: x),
        ("DnumToNum", "dnum \\Integer", NUM, lambda x, integer=False: single(x)),
        ("NumToStr", "num num \\Exp", STRING, lambda x, n, exp=False: text(x, n)),
        ("ValToStr", "any", STRING, lambda x: f"{x:g}" if isinstance(x, float) else str(x)),
        ("StrLen", "string", NUM, lambda x: float(len(x))),
        ("StrPart", "string num num", STRING, lambda x, at, n: x[int(at) - 1 : int(at) - 1 + int(n)]),
        ("Present", "present", BOOL, lambda x: x),
        ("Dim", "any num", NUM, lambda x, n: float(len(x if n == 1.0 else x[0]))),
    ]


def _half_up(x: float, decimals: int) -> float:
    return math.copysign(math.floor(abs(x) * 10.0**decimals + 0.5) / 10.0**decimals, x)


def _questions(controller: Controller) -> list[_Row]:
    def tool() -> list[Any]:
        return [True, [[0.0] * 3, [1.0, 0.0, 0.0, 0.0]], load(controller.mass())]

    def load(mass: float) -> list[Any]:
        return [single(mass + 0.001), [0.0, 0.0, single(0.001)], [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0]

    def system_data(place: tuple[Any, Any], kind: str, **_: Any) -> None:
        container, key = place
        container[key] = tool() if kind == "tooldata" else load(0.0)

    return [
        ("CSpeedOverride", "\\CTask", NUM, lambda ctask=False: controller.override()),
        ("OpMode", "", NUM, lambda: OP_AUTO if controller.automatic() else OP_MAN_PROG),
        (
            "CJointT",
            "\\TaskRef:any \\TaskName:string",
            JOINTTARGET,
            lambda **_: [[single(x) for x in controller.joints()], [_AWAY] * 6],
        ),
        ("CTool", "\\TaskRef:any", TOOLDATA, lambda **_: tool()),
        ("GetSysData", "ref:data \\ObjectName:string", None, system_data),
        ("ClkRead", "ref:clock \\HighRes", NUM, lambda place, **_: single(_clock(controller, place))),
        ("CTime", "", STRING, lambda: "00:00:00"),
        ("EGMGetState", "ref:egmident", NUM, lambda place: 1.0),
    ]


def _clock(controller: Controller, place: tuple[Any, Any]) -> float:
    kept, since = place[0][place[1]] or (0.0, None)
    return float(kept + (controller.time - since if since is not None else 0.0))


def _instructions(controller: Controller) -> list[_Row]:
    return [*_motions(controller), *_signals(controller), *_counters(controller), *_guided(controller)]


def _motions(controller: Controller) -> list[_Row]:
    def move(to: Any, speed: Any, zone: Any, tool: Any, **named: Any) -> None:
        controller.move(list(to[0]), named.get("t"), speed[0], bool(zone[0]))

    def stop(**_: Any) -> None:
        raise ProgramStop

    return [
        (
            "MoveAbsJ",
            "\\Conc jointtarget \\ID:any \\NoEOffs speeddata \\V:num \\T:num zonedata \\Z:num \\Inpos:any "
            "ref:tooldata \\WObj:any \\TLoad:any",
            None,
            move,
        ),
        ("WaitTime", "\\InPos num", None, lambda t, inpos=False: controller.wait(t, inpos)),
        ("WaitRob", "\\InPos \\ZeroSpeed", None, lambda **_: controller.wait(0.0, True)),
        ("Stop", "\\NoRegain \\AllMoveTasks", None, stop),
        ("ConfJ", "\\On \\Off", None, lambda **_: None),
        ("ConfL", "\\On \\Off", None, lambda **_: None),
        ("SingArea", "\\Wrist \\Off", None, lambda **_: None),
        ("AccSet", "num num", None, lambda *_: None),
        ("VelSet", "num num", None, lambda *_: None),
    ]


def _signals(controller: Controller) -> list[_Row]:
    def write(text: str, **named: Any) -> None:
        controller.write(text + "".join(f"{x:g}" if isinstance(x, float) else str(x) for x in named.values()))

    return [
        ("SetDO", "\\SDelay:num \\Sync signal num", None, lambda name, x, **_: controller.signal(name, x)),
        ("SetGO", "\\SDelay:num signal num", None, lambda name, x, **_: controller.signal(name, x)),
        ("Set", "signal", None, lambda name: controller.signal(name, 1.0)),
        ("Reset", "signal", None, lambda name: controller.signal(name, 0.0)),
        ("TPWrite", "string \\Num:num \\Bool:bool \\Dnum:dnum", None, write),
        ("TPErase", "", None, lambda: None),
        ("ErrWrite", "\\W \\I string string", None, lambda head, text, **_: controller.write(f"{head}: {text}")),
    ]


def _counters(controller: Controller) -> list[_Row]:
    """Clocks and numbers that instructions change in their place."""

    def clock(start: bool | None) -> Callable[..., None]:
        def change(place: tuple[Any, Any]) -> None:
            kept = 0.0 if start is None else _clock(controller, place)
            place[0][place[1]] = (kept, controller.time if start else None)

        return change

    def add(sign: float) -> Callable[..., None]:
        def change(place: tuple[Any, Any], step: float = sign) -> None:
            place[0][place[1]] = single(place[0][place[1]] + step)

        return change

    def clear(place: tuple[Any, Any]) -> None:
        place[0][place[1]] = copied(0.0)

    return [
        ("ClkReset", "ref:clock", None, clock(None)),
        ("ClkStart", "ref:clock", None, clock(True)),
        ("ClkStop", "ref:clock", None, clock(False)),
        ("Incr", "ref:num", None, add(1.0)),
        ("Decr", "ref:num", None, add(-1.0)),
        ("Add", "ref:num num", None, add(0.0)),
        ("Clear", "ref:num", None, clear),
    ]


def _guided(controller: Controller) -> list[_Row]:
    """Externally guided motion, step by step."""

    def egm(step: str) -> Callable[..., None]:
        return lambda *values, **named: controller.egm(step, {"values": values, **named})

    near = " ".join(f"\\J{k}:egm_minmax" for k in range(1, 8))
    axes = " ".join(f"\\J{k}" for k in range(1, 8))
    return [
        ("EGMReset", "ref:egmident", None, egm("reset")),
        ("EGMGetId", "ref:egmident", None, egm("id")),
        (
            "EGMSetupUC",
            "ref:mecunit ref:egmident string string \\Joint \\Pose \\PathCorr \\APTR \\LATR \\CommTimeout:num",
            None,
            egm("setup"),
        ),
        (
            "EGMActJoint",
            f"ref:egmident \\StreamStart \\Tool:any \\WObj:any \\TLoad:any {near} \\LpFilter:num \\SampleRate:num "
            "\\MaxPosDeviation:num \\MaxSpeedDeviation:num",
            None,
            egm("act"),
        ),
        (
            "EGMRunJoint",
            f"ref:egmident num \\NoWaitCond {axes} \\CondTime:num \\RampInTime:num \\RampOutTime:num \\Offset:any "
            "\\PosCorrGain:num",
            None,
            egm("run"),
        ),
        ("EGMStop", "ref:egmident num \\RampOutTime:num", None, egm("stop")),
    ]
