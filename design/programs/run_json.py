"""A program as JSON, for the clients that stream it: the same numbers as in a controller's program, in its axes."""

import json
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.design.motion import MOST_SEGMENTS, RunForm, problems, read_run, run_data
from excitor.design.programs.plan import Plan, Stretches, marks
from excitor.design.programs.target import ProgramError, Target, axes_of, in_axes


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


class _Program(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: Literal["excitor-run"]
    version: Literal[2]
    campaign: str
    run: str
    dry: bool
    axes: Annotated[list[str], Field(min_length=1)]
    units: list[Literal["rad", "m", "deg", "mm"]]
    payload_kg: Annotated[FiniteFloat, Field(ge=0.0)] | None
    out: RunForm
    main: RunForm
    back: RunForm
    marks: Annotated[list[tuple[FiniteFloat, Annotated[int, Field(ge=1)]]], Field(max_length=MOST_SEGMENTS)]


def read_program(file: str, text: str, *, longest: float) -> dict[str, Any]:
    """Read a run's file and check it; runs of more than `longest` s count as endless."""
    data = read_json(file, text)
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != ("excitor-run", 2):
        raise ProgramError(file, None, "is no run of a known version")
    try:
        form = _Program.model_validate_json(text)
        runs = [read_run(getattr(form, name), name) for name in Stretches]
    except ValidationError as error:
        raise ProgramError(file, None, "; ".join(problems(error)[:5])) from None
    except ValueError as error:
        raise ProgramError(file, None, str(error)) from None
    duration = sum(run.duration for run in runs)
    if not duration <= longest:
        raise ProgramError(file, None, f"takes {duration:g} s; that is endless")
    if len(form.units) != len(form.axes) or any(list(run.joints) != form.axes for run in runs):
        raise ProgramError(
            file, None, "units must state one for each axis, and joints of out, main and back be the axes"
        )
    for (before, _), (t, _) in pairwise(form.marks):
        if not t > before:
            raise ProgramError(file, None, f"marks do not rise at {t:g} s")
    return data


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
