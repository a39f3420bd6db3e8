"""A program as JSON, for the clients that stream it: the same numbers as in a controller's program, in its axes."""

import json
from typing import Any

from excitor.design.motion import Run
from excitor.design.programs.plan import Plan, Stretches, marks
from excitor.design.programs.target import ProgramError, Target, axes_of, in_axes
from excitor.design.run_data import read_run, run_data


def run_json(plan: Plan, target: Target) -> str:
    """Write a run's JSON file for `clients/run_motion.py`."""
    axes = in_axes(plan, target)
    length, angle = ("m", "rad") if target.angle_unit == "rad" else ("mm", "deg")
    data: dict[str, Any] = {
        "format": "excitor-run",
        "version": 2,
        "campaign": plan.campaign,
        "run": plan.run,
        "dry": plan.dry,
        "axes": list(axes_of(plan.robot, target).names),
        "units": [length if slides else angle for slides in plan.robot.mechanism.prismatic],
        "payload_kg": plan.payload,
        **{name: run_data(axes.stretch(name)) for name in Stretches},
        "marks": [[t, mark] for t, mark in marks(plan)],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


MOST_MOVES = 100_000
HUGE = 1e100

_TOP = ("format", "version", "campaign", "run", "dry", "axes", "units", "payload_kg", *Stretches, "marks")


def read_program(file: str, text: str, *, longest: float) -> dict[str, Any]:
    """Read a run's file and check it; runs of more than `longest` s count as endless."""
    data = read_json(file, text)
    check = _Check(file)
    check.keys(data, "the run", _TOP)
    if data["format"] != "excitor-run" or data["version"] != 2 or type(data["version"]) is not int:
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
    runs = {name: check.run(data[name], name) for name in Stretches}
    if any(list(run.joints) != data["axes"] for run in runs.values()):
        raise check.fail("joints of out, main and back must be the axes")
    if not sum(run.duration for run in runs.values()) <= longest:
        raise check.fail(f"takes {sum(run.duration for run in runs.values()):g} s; that is endless")
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

    def run(self, data: Any, where: str) -> Run:
        try:
            return read_run(data, where)
        except ValueError as error:
            raise self.fail(str(error)) from None

    def count(self, x: Any, where: str, least: int) -> int:
        if type(x) is not int or not least <= x <= MOST_MOVES:
            raise self.fail(f"{where} is {x!r:.40}, expected a whole number from {least}")
        return x

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
