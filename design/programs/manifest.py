"""manifest.json: what a target's programs do, for whoever reads the logs that come back."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.design.fourier import Trajectory, phases
from excitor.design.programs.plan import Move, Plan, Stretches, duration, marks
from excitor.design.programs.target import axes_of, fitting_steps, units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from excitor.design.programs.package import Package, Program

FORMAT, VERSION = "excitor-manifest", 1


def manifest_data(made: "Package", inputs: "Mapping[str, str]") -> dict[str, Any]:
    """Describe a folder of programs: joints in rad and m, times in s from the start of each program's run."""
    target, robot = made.target, made.programs[0].plan.robot
    axes = axes_of(robot, target)
    return {
        "format": FORMAT,
        "version": VERSION,
        "excitor": version("excitor"),
        "made_from_sha256": dict(inputs),
        "go": not made.programs[0].plan.no_go,
        "allowed": ["no-go"] if made.programs[0].plan.no_go else [],
        "reasons": list(made.programs[0].plan.no_go),
        "target": target.name,
        "timing_class": target.timing,
        "approximate": target.approximate,
        "spacing_s": made.spacing or target.spacing,
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "units": {
            "position": ["m" if slides else "rad" for slides in robot.mechanism.prismatic],
            "time": "s",
        },
        "axes": {
            "names": list(axes.names),
            "matrix": axes.matrix.tolist(),
            "zero": axes.zero.tolist(),
            "units_per_rad_or_m": units(robot, target).tolist(),
            "stated_by_the_robot": (target.controller or target.name) in robot.controllers,
        },
        "limits": {
            "position": [[_finite(x) for x in pair] for pair in robot.limits.position],
            "velocity": [_finite(x) for x in robot.limits.velocity],
            "acceleration": [_finite(x) for x in robot.limits.acceleration],
            "jerk": [_finite(x) for x in robot.limits.jerk],
        },
        "marks": target.marks,
        "identification": target.advice,
        "assumed": target.assumed,
        "programs": [_program(program, made) for program in made.programs],
    }


def _program(program: "Program", made: "Package") -> dict[str, Any]:
    plan = program.plan
    return {
        "name": program.name,
        "run": plan.run,
        "role": plan.role,
        "dry": plan.dry,
        "payload_kg": plan.payload,
        "files": sorted(program.files),
        "control_steps_s": list(fitting_steps(plan, made.target)) if made.target.spacing is None else None,
        "home": plan.home.tolist(),
        "start": plan.start.tolist(),
        "durations_s": {name: duration(plan, name) for name in Stretches},
        "out": _moves(plan.out),
        "back": _moves(plan.back),
        "marks": [{"t": t, "mark": mark} for t, mark in marks(plan)],
        **_body(plan),
    }


def _body(plan: Plan) -> dict[str, Any]:
    if not isinstance(plan.body, Trajectory):
        return {"kind": "moves", "moves": _moves(plan.body.moves), "repeats": plan.body.repeats}
    excitation = plan.body.excitation
    return {
        "kind": "series",
        "series": {
            "period_s": excitation.period,
            "harmonics": list(excitation.harmonics),
            "center": plan.body.center.tolist(),
            "sines": plan.body.sines.tolist(),
            "cosines": plan.body.cosines.tolist(),
        },
        "warm_up_periods": excitation.warm_up,
        "measured_periods": excitation.measured,
        "phases": [{"name": phase.name, "start": phase.start, "end": phase.end} for phase in phases(excitation)],
        "envelope": "35 s^4 - 84 s^5 + 70 s^6 - 20 s^7",
    }


def _moves(moves: tuple[Move, ...]) -> list[dict[str, Any]]:
    return [
        {"to": move.to.tolist(), "duration": move.duration, "blend": move.blend, "measured": move.measured}
        for move in moves
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
