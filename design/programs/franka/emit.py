"""Robots with a 1 kHz joint position interface: a client streams the series, and logs the robot's states."""

from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import stated

TARGET = stated("franka/targets.toml", "franka")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the run for the client, which is the same for every run."""
    del spacing  # the motion is evaluated at every step
    return {f"{name}.json": run_json(plan, TARGET)}
