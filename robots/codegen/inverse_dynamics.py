"""Feedforward as source code: a robot's inverse dynamics in C, structured text or Python, and what models cost."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.codegen.languages import LANGUAGES, Constant, Routine, identifier
from excitor.robots.codegen.tracer import Count, count, needed
from excitor.robots.codegen.traces import start_trace, traced_energy, traced_power, traced_regressor, traced_torque
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import SIGNED, Robot

SIGN_WIDTH = 1e-3  # rad/s or m/s: [Volkmann2020] §IV feeds tanh(1000 dq) forward instead of sgn(dq)


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """What one evaluation of each model costs, for the same parameters."""

    torque: Count  # inverse dynamics τ, parameters known
    regressor: Count  # the dynamic model's columns, τ = Y χ
    energy: Count  # the power model's energy functions, H = h χ
    power: Count  # the power model's columns, dqᵀτ = dh/dt χ, and what friction takes


def inverse_dynamics_code(
    robot: Robot,
    language: str,
    *,
    chi: FloatArray | None = None,
    kept: Collection[str] | None = None,
    name: str | None = None,
) -> str:
    """Write source code for τ = Y(q, dq, ddq) χ, free of allocation and of everything whose parameter is 0.

    `language` is "c", "st" (IEC 61131-3) or "python". χ is the prior model where not given; of it, only parameters
    named in `kept` remain. Sharp signs of velocities are smoothed over SIGN_WIDTH; `smoothed` takes another width.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}, expected one of {', '.join(LANGUAGES)}")
    robot = smoothed(robot, SIGN_WIDTH)
    values = _kept_values(robot, chi, kept)
    results = traced_torque(start_trace(robot, np.flatnonzero(values).tolist()))
    used = sorted(node.label[0] for node in needed(results) if node.kind == "parameter")
    names, units = layout(robot).names, layout(robot).units
    routine = Routine(
        name=identifier(name if name is not None else f"{identifier(robot.name)}_inverse_dynamics"),
        title=f"Inverse dynamics of {robot.title or robot.name}: tau from q, dq, ddq, in SI units and radians",
        n_joints=robot.n_joints,
        constants=tuple(Constant(k, names[k], units[k], float(values[k])) for k in used),
        results=tuple(results),
    )
    return LANGUAGES[language](routine)


def operation_counts(robot: Robot, kept: Collection[str] | None = None) -> OperationCounts:
    """Count what the dynamic and the power model cost, for the parameters named in `kept`, by default all.

    Name the parameters that base parameters are grouped on to count these. [Gautier2013] §I holds the power model
    to be dramatically simpler.
    """
    robot = smoothed(robot, SIGN_WIDTH)
    wanted = range(len(layout(robot))) if kept is None else layout(robot).indices(list(kept)).tolist()
    trace = start_trace(robot, wanted)
    models = (traced_torque, traced_regressor, traced_energy, traced_power)
    return OperationCounts(*(count(model(trace)) for model in models))


def smoothed(robot: Robot, sign_width: float) -> Robot:
    """Give every sharp sign of a velocity a width: sgn v becomes tanh(v / width). Feedforward must not jump."""
    if not (np.isfinite(sign_width) and sign_width > 0.0):
        raise ValueError(f"sign_width is {sign_width}, expected a positive velocity in rad/s or m/s")
    friction = tuple(
        replace(term, width=sign_width) if term.width == 0.0 and term.model in SIGNED else term
        for term in robot.drive.friction
    )
    return replace(robot, drive=replace(robot.drive, friction=friction))


def _kept_values(robot: Robot, chi: FloatArray | None, kept: Collection[str] | None) -> FloatArray:
    """Take the parameters that code is written for, with 0 for those that are not kept."""
    values = prior(robot) if chi is None else np.array(chi, dtype=float)
    check_shape(values, "n_params", "chi", {"n_params": len(layout(robot))})
    if not np.isfinite(values).all():
        bad = [name for name, value in zip(layout(robot).names, values, strict=True) if not np.isfinite(value)]
        raise ValueError(f"chi is not finite for {', '.join(bad)}; give each a number, or 0 to leave it out")
    if kept is not None:
        outside = np.ones(len(values), dtype=bool)
        outside[layout(robot).indices(list(kept))] = False
        values[outside] = 0.0
    if not values.any():
        raise ValueError(
            f"{robot.name}: every parameter that code would be written for is 0; give an identified model as chi"
        )
    return values
