"""A run as JSON, for the clients that stream it: the same numbers as in a controller's program, in its axes."""

import json

from excitor.design.fourier import Trajectory
from excitor.design.programs.plan import Move, Plan, marks
from excitor.design.programs.target import Target, axes_of, in_axes


def run_json(plan: Plan, target: Target) -> str:
    """Write what `clients/run_motion.py` reads."""
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
