"""FANUC Stream Motion (J519): a small TP program hands the motion over to a client on another computer."""

from collections.abc import Iterator

from excitor.design.programs.fanuc.tp import header, preflight, program_text, refusals
from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import CannotDrive, stated

TARGET = stated("fanuc-j519")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the TP program and the run's data."""
    if "fanuc" in plan.robot.controllers and TARGET.name not in plan.robot.controllers:
        raise CannotDrive(
            f"{TARGET.name}: {plan.robot.name} states the pendant's axes, and the stream's J3 may differ from them by "
            f"J2; add [controllers.{TARGET.name}] to the robot's file"
        )
    return {f"{name}.ls": program_text(name, list(_code(plan)), []), f"{name}.json": run_json(plan, TARGET)}


def _code(plan: Plan) -> Iterator[str]:
    yield from header(plan)
    yield from preflight(plan)
    yield from ("!START THE CLIENT NOW", "IBGN start[1]", "IBGN end[1]")
    yield from refusals(901, 902)
