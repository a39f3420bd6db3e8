"""KUKA KRL with RSI: a computer answers every packet of the controller with the axes' offsets from home."""

from collections.abc import Iterator

import numpy as np

from excitor.design.programs.krl.text import crlf, first_run, program
from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import filled, fixed, in_axes, no_go_lines, stated
from excitor.robots.arrays import FloatArray

TARGET = stated("krl/targets.toml", "krl-rsi", reserved=stated("krl/targets.toml", "krl").reserved)
MARGIN = 1.0  # deg by which corrections may exceed what is planned
_CONNECTION = {
    "ADDRESS": "192.168.1.100",
    "PORT": 59152,
    "SENDER": "Excitor",
    "TIMEOUT": 100,  # cycles without an answer, after which the controller breaks off
    "FLAG": -1,  # none: a number would drive that $FLAG of the controller
}


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the program, the signal flow with its Ethernet configuration, and the run for the server."""
    if plan.poses:
        return first_run(plan, TARGET, name)
    source = program(plan, TARGET, name, {"rsi": True})
    return {f"{name}.src": source, **dict(_files(plan, name)), f"{name}.json": run_json(plan, TARGET)}


def _files(plan: Plan, name: str) -> Iterator[tuple[str, str]]:
    """Write the signal flow, which connects received corrections with the axes within limits, and its Ethernet."""
    low, high = _reach(plan)
    limits = {"low": low, "high": high, "most": np.maximum(-low, high)}
    values: dict[str, object] = dict(_CONNECTION)
    for word, key in (("ADDRESS", "computer_address"), ("PORT", "port")):
        values[word] = plan.site.get(key, values[word])
    values |= {word: [fixed(float(x), 1) for x in axes] for word, axes in limits.items()}
    values |= {"ethernet": f"{name}_eth.xml", "no_go": no_go_lines(plan, "<!-- ", " -->")}
    for template, file in (("flow", f"{name}.rsi.xml"), ("ethernet", f"{name}_eth.xml")):
        yield file, crlf(filled(f"krl/{template}.xml", values))


def _reach(plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Range of the axes about home, with a margin, in tenths of a degree."""
    axes = in_axes(plan, TARGET)
    corners = [axes.stretch(name).at(np.linspace(0.0, axes.stretch(name).duration, 4001)) for name in Stretches]
    away = np.concatenate(corners) - axes.home
    low, high = away.min(axis=0).clip(max=0.0) - MARGIN, away.max(axis=0).clip(min=0.0) + MARGIN
    return np.floor(10.0 * low) / 10.0, np.ceil(10.0 * high) / 10.0
