"""What `excitor robots` writes of a robot's model: code, closed forms, and what evaluating it costs.

Models are written on base parameters: the fewest terms that give the same torques.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from excitor.robots.base import base_parameters, regroupings
from excitor.robots.errors import ExcitorError
from excitor.robots.lint import lint
from excitor.robots.load import load_with_notes
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot


def model(source: str) -> tuple[Robot, list[str]]:
    """Load a robot whose model may be written, and what its reader must know; ExcitorError if it must not."""
    robot, notes = load_with_notes(source)
    errors = [finding for finding in lint(robot, notes) if finding.level == "error"]
    if errors:
        reasons = "\n".join(f"{finding.where}: {finding.sentence}" for finding in errors)
        raise ExcitorError(f"{source}: no model is written of a robot that cannot be right:\n{reasons}")
    unknown = unknown_parameters(robot)
    warnings = [f"taken as 0 because the file does not give them: {', '.join(unknown)}"] if unknown else []
    # held joints still feel torque: the model is that of the free robot
    return replace(robot, locked={}), warnings


def unknown_parameters(robot: Robot) -> list[str]:
    """Name the parameters that torques show and the robot's file does not give."""
    base = base_parameters(replace(robot, locked={}))
    needed = np.any(base.regrouping != 0.0, axis=0) & ~robot.known & ~robot.assumed_zero
    return [name for name, missing in zip(layout(robot).names, needed, strict=True) if missing]


def code(robot: Robot, language: str) -> str:
    """Write the inverse dynamics in a language, with a note of what went in."""
    from excitor.robots.codegen import SIGN_WIDTH, comment_lines, inverse_dynamics_code

    base = base_parameters(robot)
    chi = base.standard(base.values(np.where(robot.assumed_zero, 0.0, prior(robot))))
    text = inverse_dynamics_code(robot, language, chi=chi)
    lines = [
        f"Written by Excitor {version('excitor')} for {robot.name}; joints in order: {', '.join(robot.joint_names)}",
        "SI units and radians, torques on the joint side"
        + ("" if robot.payload is None else "; the payload is counted with its link"),
        f"Signs of velocities are smoothed: tanh(v / width), width {SIGN_WIDTH:g} where the robot states none",
    ]
    unknown = unknown_parameters(robot)
    if unknown:
        lines.append(f"Taken as 0 because the robot file does not give them: {', '.join(unknown)}")
    lines += [f"{name} = {text_}" for name, text_ in base_legend(robot)]
    return "\n".join(comment_lines(line, language) for line in lines) + "\n" + text


def equations(robot: Robot) -> str:
    """Write M, c, g and friction in closed form, its parameters being base parameters."""
    from excitor.robots.symbolic import closed_form, text

    printed = text(closed_form(robot, kept=base_names(robot)))
    legend = base_legend(robot)
    for name, _ in legend:
        printed = re.sub(rf"\b{re.escape(name.removesuffix('R'))}\b", name, printed)
    if not legend:
        return printed
    return printed + "\nwhere\n" + "".join(f"{name} = {form}\n" for name, form in legend)


def base_legend(robot: Robot) -> list[tuple[str, str]]:
    """Say what the regrouped parameters stand for."""
    base = base_parameters(robot)
    forms = regroupings(robot, base)
    return [(name, form) for name, form in zip(base.names, forms, strict=True) if name.endswith("R") and form != name]


def counts(robot: Robot) -> dict[str, Any]:
    """Count the operations of the dynamic and of the power model, side by side."""
    from excitor.robots.codegen import operation_counts

    kept = base_names(robot)
    return {"name": robot.name, "columns": len(kept), **asdict(operation_counts(robot, kept=kept))}


def print_counts(data: dict[str, Any], echo: Callable[[str], Any]) -> None:
    """Print counts as a small table."""
    rows = {
        "torque": "inverse dynamics, parameters known",
        "regressor": "dynamic model: Y with tau = Y beta",
        "energy": "power model: h with H = h beta",
        "power": "power model: dh/dt and friction power",
    }
    echo(f"{data['name']}, {data['columns']} base parameters, operations a sample")
    echo(f"{'':40} {'+':>6} {'*':>6} {'sin, tanh, …':>14}")
    for key, title in rows.items():
        count = data[key]
        echo(f"{title:40} {count['additions']:6d} {count['multiplications']:6d} {count['functions']:14d}")


def base_names(robot: Robot) -> list[str]:
    """Name the standard parameters that base parameters are grouped on."""
    names = layout(robot).names
    return [names[k] for k in base_parameters(robot).kept]
