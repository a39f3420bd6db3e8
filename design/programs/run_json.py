"""A run as JSON, for the clients that stream it: the same numbers as in a controller's program, in its axes."""

import json
from typing import Any

from excitor.design.motion import Trajectory
from excitor.design.programs.plan import Move, Plan, marks
from excitor.design.programs.target import ProgramError, Target, axes_of, in_axes


def run_json(plan: Plan, target: Target) -> str:
    """Write a run's JSON file for `clients/run_motion.py`."""
    axes = in_axes(plan, target)
    body = axes.body
    if isinstance(body, Trajectory):
        excitation = body.excitation
        main: dict[str, object] = {
            "series": {
                "period": excitation.period,
                "harmonics": list(excitation.harmonics),
                "settle": excitation.settle,
                "ramp": excitation.ramp,
                "warm_up": excitation.warm_up,
                "measured": excitation.measured,
                "hold": excitation.hold,
                "center": body.center.tolist(),
                "sines": body.sines.tolist(),
                "cosines": body.cosines.tolist(),
            }
        }
    else:
        main = {"moves": _moves(body.moves), "repeats": body.repeats}
    length, angle = ("m", "rad") if target.angle_unit == "rad" else ("mm", "deg")
    data = {
        "format": "excitor-run",
        "version": 1,
        "campaign": plan.campaign,
        "run": plan.run,
        "dry": plan.dry,
        "axes": list(axes_of(plan.robot, target).names),
        "units": [length if slides else angle for slides in plan.robot.mechanism.prismatic],
        "payload_kg": plan.payload,
        "home": axes.home.tolist(),
        "out": _moves(axes.out),
        "main": main,
        "back": _moves(axes.back),
        "marks": [[t, mark] for t, mark in marks(plan)],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _moves(moves: tuple[Move, ...]) -> list[dict[str, object]]:
    return [{"to": move.to.tolist(), "duration": move.duration, "blend": move.blend} for move in moves]


MOST_MOVES = 100_000
HUGE = 1e100

_TOP = (
    "format",
    "version",
    "campaign",
    "run",
    "dry",
    "axes",
    "units",
    "payload_kg",
    "home",
    "out",
    "main",
    "back",
    "marks",
)
_SERIES = ("period", "harmonics", "settle", "ramp", "warm_up", "measured", "hold", "center", "sines", "cosines")


def read_run(file: str, text: str, *, longest: float) -> dict[str, Any]:
    """Read a run and check it; runs of more than `longest` s count as endless."""
    data = read_json(file, text)
    check = _Check(file)
    check.keys(data, "the run", _TOP)
    if data["format"] != "excitor-run" or data["version"] != 1 or type(data["version"]) is not int:
        raise check.fail("is no run of a known version")
    if type(data["dry"]) is not bool or not all(isinstance(data[word], str) for word in ("campaign", "run")):
        raise check.fail("dry must be true or false; campaign and run must be texts")
    check.texts(data["axes"], "axes")
    check.texts(data["units"], "units")
    n = len(data["axes"])
    if not n or len(data["units"]) != n or not set(data["units"]) <= {"rad", "m", "deg", "mm"}:
        raise check.fail("units must be one of rad, m, deg and mm for each axis")
    if data["payload_kg"] is not None and not check.number(data["payload_kg"], "payload_kg") >= 0.0:
        raise check.fail("payload_kg must be null, or at least 0")
    check.numbers(data["home"], "home", n)
    total = check.moves(data["out"], "out", n) + check.moves(data["back"], "back", n)
    series = isinstance(data["main"], dict) and "series" in data["main"]
    total += check.series(data["main"], n) if series else check.rounds(data["main"], n)
    if not total <= longest:
        raise check.fail(f"takes {total:g} s; that is endless")
    check.marks(data["marks"])
    return dict(data)


def read_json(file: str, text: str) -> Any:
    """Read JSON; refuse NaN, infinite numbers and duplicate keys."""

    def no_number(word: str) -> float:
        raise ProgramError(file, None, f"has {word}, which is no number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ProgramError(file, None, "states a key a second time")
        return found

    try:
        return json.loads(text, parse_constant=no_number, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ProgramError(file, error.lineno, f"is no JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise ProgramError(file, None, "is nested too deeply, or has a number of too many digits") from error


class _Check:
    """Checks fields, and refuses invalid ones in a sentence."""

    def __init__(self, file: str) -> None:
        self.file = file

    def fail(self, sentence: str) -> ProgramError:
        return ProgramError(self.file, None, sentence)

    def keys(self, data: Any, where: str, names: tuple[str, ...]) -> None:
        if not isinstance(data, dict) or set(data) != set(names):
            found = ", ".join(map(str, data)) if isinstance(data, dict) else repr(data)[:40]
            raise self.fail(f"{where} must have {', '.join(names)}, and has {found[:200]}")

    def texts(self, data: Any, where: str) -> None:
        if not isinstance(data, list) or not all(isinstance(x, str) for x in data):
            raise self.fail(f"{where} must list texts")

    def number(self, x: Any, where: str) -> float:
        if type(x) not in (int, float) or not -HUGE < x < HUGE:
            raise self.fail(f"{where} has {x!r:.40}, expected a finite number")
        return float(x)

    def numbers(self, data: Any, where: str, n: int) -> None:
        if not isinstance(data, list) or len(data) != n:
            raise self.fail(f"{where} must list {n} numbers")
        for x in data:
            self.number(x, where)

    def count(self, x: Any, where: str, least: int) -> int:
        if type(x) is not int or not least <= x <= MOST_MOVES:
            raise self.fail(f"{where} is {x!r:.40}, expected a whole number from {least}")
        return x

    def moves(self, data: Any, where: str, n: int) -> float:
        if not isinstance(data, list) or len(data) > MOST_MOVES:
            raise self.fail(f"{where} must list moves")
        total = 0.0
        for move in data:
            self.keys(move, f"a move of {where}", ("to", "duration", "blend"))
            self.numbers(move["to"], f"a move of {where}", n)
            T, B = (self.number(move[word], f"{word} of a move of {where}") for word in ("duration", "blend"))
            if not (T > 0.0 and 0.0 <= B <= 0.5 * T * (1.0 + 1e-9)):
                raise self.fail(f"a move of {where} takes {T:g} s with blends of {B:g} s")
            total += T
        return total

    def rounds(self, main: Any, n: int) -> float:
        self.keys(main, "main", ("moves", "repeats"))
        repeats = self.count(main["repeats"], "repeats", 1)
        total = self.moves(main["moves"], "main", n)
        if len(main["moves"]) * repeats > MOST_MOVES:
            raise self.fail(f"makes {len(main['moves']) * repeats} moves; that is endless")
        return total * repeats

    def series(self, main: Any, n: int) -> float:
        self.keys(main, "main", ("series",))
        s = main["series"]
        self.keys(s, "the series", _SERIES)
        times = {word: self.number(s[word], word) for word in ("period", "settle", "ramp", "hold")}
        if not (times["period"] > 0.0 and min(times.values()) >= 0.0):
            raise self.fail("period must be above 0; settle, ramp and hold at least 0")
        periods = self.count(s["warm_up"], "warm_up", 0) + self.count(s["measured"], "measured", 1)
        k = s["harmonics"]
        if not isinstance(k, list) or not k or [self.count(x, "harmonics", 1) for x in k] != sorted(set(k)):
            raise self.fail("harmonics must be rising whole numbers from 1")
        self.numbers(s["center"], "center", n)
        for word in ("sines", "cosines"):
            if not isinstance(s[word], list) or len(s[word]) != n:
                raise self.fail(f"{word} must have {n} rows")
            for row in s[word]:
                self.numbers(row, word, len(k))
        return times["settle"] + 2.0 * times["ramp"] + periods * times["period"] + times["hold"]

    def marks(self, data: Any) -> None:
        if not isinstance(data, list) or len(data) > MOST_MOVES:
            raise self.fail("marks must be a list")
        last = -1.0
        for entry in data:
            if not isinstance(entry, list) or len(entry) != 2:
                raise self.fail("marks must be pairs of a time and a number")
            t = self.number(entry[0], "marks")
            self.count(entry[1], "marks", 1)
            if not t > last:
                raise self.fail(f"marks do not rise at {t:g} s")
            last = t
