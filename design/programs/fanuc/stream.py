"""FANUC Stream Motion (J519): a small TP program hands the motion over to a client on another computer."""

from excitor.design.programs.fanuc.tp import TARGET as TP
from excitor.design.programs.fanuc.tp import first_run, header, preflight, program_text, refusals
from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import CannotDrive, stated, to_axes

TARGET = stated("fanuc/targets.toml", "fanuc-j519")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the TP program and the run's data."""
    if plan.poses:
        if (to_axes(plan.robot, TP, plan.out.knots) != to_axes(plan.robot, TARGET, plan.out.knots)).any():
            raise CannotDrive(f"{TARGET.name}: poses are in the pendant's axes, which the stream's are not; use fanuc")
        return first_run(plan, name)
    if "fanuc" in plan.robot.controllers and TARGET.name not in plan.robot.controllers:
        raise CannotDrive(
            f"{TARGET.name}: {plan.robot.name} states the pendant's axes, and the stream's J3 may differ from them by "
            f"J2; add [controllers.{TARGET.name}] to the robot's file"
        )
    stream = ("!START THE CLIENT NOW", "IBGN start[1]", "IBGN end[1]")
    code = [*header(plan), *preflight(plan), *stream, *refusals(901, 902)]
    return {f"{name}.ls": program_text(name, code, [], plan.site), f"{name}.json": run_json(plan, TARGET)}
