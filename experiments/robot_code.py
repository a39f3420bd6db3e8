"""What `excitor robots` writes of a robot's model: code, closed forms, and what evaluating it costs.

Models are written on base parameters: the fewest terms that give the same torques.
"""

from collections.abc import Callable
from typing import Any

from excitor.robots.base import base_parameters
from excitor.robots.description import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot


def code(source: str, language: str) -> str:
    """Write the inverse dynamics in a language."""
    from excitor.robots.codegen.inverse_dynamics import inverse_dynamics_code

    robot = load(source)
    base = base_parameters(robot)
    return inverse_dynamics_code(robot, language, chi=base.standard(base.values(prior(robot))))


def equations(source: str) -> str:
    """Write M, c, g and friction in closed form."""
    from excitor.robots.symbolic import closed_form, text

    robot = load(source)
    return text(closed_form(robot, kept=base_names(robot)))


def counts(source: str) -> dict[str, Any]:
    """Count the operations of the dynamic and of the power model, side by side."""
    from dataclasses import asdict

    from excitor.robots.codegen.inverse_dynamics import operation_counts

    robot = load(source)
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
