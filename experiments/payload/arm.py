"""What is known of the arm that carries the load, and how surely? An earlier campaign's model, or the robot's file."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.designing.noise import learned_robot, read_model_file
from excitor.identify.load.equations import Arm, exact_arm
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import about_center_of_mass, from_center_of_mass
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def known_arm(campaign: OpenCampaign) -> tuple[Arm, str]:
    """Take the campaign's prior, or the robot file's numbers with the doubt that the campaign states; and say which."""
    content, robot = campaign.content, campaign.robot
    if content.prior is not None:
        try:
            return arm_of_model(campaign.folder, content.prior, robot), f"the arm as {content.prior} has it"
        except ValueError as error:
            raise ExcitorError(f"prior: {content.prior}: {error}") from None
    links, rotors = content.arm.links_percent, content.arm.rotors_percent
    if links == rotors == 0.0:
        return exact_arm(robot), f"the arm as the file of {robot.name} has it, taken for exact"
    told = f"the arm as the file of {robot.name} has it, links {links:g} % and rotors {rotors:g} % in doubt"
    return doubted_arm(robot, links / 100.0, rotors / 100.0), told


def arm_of_model(folder: Path, name: str, robot: Robot) -> Arm:
    """Read base parameters and their covariance from a model.json; what regrouped is split as it was planned with.

    Torques are those of the base parameters; the split tells links, whose torque gears lose some of, from rotors.
    """
    data = read_model_file(folder / name)
    names, beta, C = _estimated(data)
    base, params = base_parameters(robot), layout(robot)
    place = {own.removesuffix("R"): k for k, own in enumerate(base.names)}
    place |= {params.names[column]: k for k, column in enumerate(base.kept)}
    strange = [name for name in names if name.removesuffix("R") not in place]
    if strange:
        raise ValueError(
            f"{', '.join(strange[:5])} is no base parameter of {robot.name}; the arm must have been identified with "
            "this very robot file"
        )
    rows = [place[name.removesuffix("R")] for name in names]
    if len(set(rows)) < len(rows):
        raise ValueError("names a base parameter twice")
    split = learned_robot(folder, name, robot, elsewhere=True).chi if _has_bodies(data) else robot.chi
    target = np.zeros(len(base.names))
    target[rows] = beta
    chi = np.array(split, dtype=float)
    chi[base.kept] += target - base.values(chi)
    full = np.zeros((len(params), len(params)))
    columns = np.asarray(base.kept)[rows]
    full[np.ix_(columns, columns)] = C
    return Arm(chi, full)


def doubted_arm(robot: Robot, links: float, rotors: float) -> Arm:
    """Spread masses, centres and inertias about them, and rotors, each by a share of itself; friction is open anyway.

    Cov φ = T diag(share · value)² Tᵀ, T = ∂φ/∂(m, c, I).
    """
    params = layout(robot)
    C = np.zeros((len(params), len(params)))
    for j in range(params.n_links):
        columns = params.link(j)
        phi = robot.chi[columns]
        if phi[9] == 0.0:
            spread = np.diag((links * phi) ** 2)
        else:
            values, T = _about_center(phi)
            spread = T @ np.diag((links * values) ** 2) @ T.T
        C[columns, columns] = spread
    for column in set(params.rotor_columns):
        C[column, column] = (rotors * robot.chi[column]) ** 2
    return Arm(robot.chi, C)


def _about_center(phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Write (m, c, I) and its derivative's inverse, ∂φ/∂(m, c, I); central differences of a cubic are exact enough."""
    mass, center, inertia = about_center_of_mass(phi)
    at = np.array([mass, *center, *(inertia[pair] for pair in _PAIRS)])
    step = 1e-4
    slope = [(_parameters(at + step * e) - _parameters(at - step * e)) / (2.0 * step) for e in np.eye(10)]
    return at, np.column_stack(slope)


def _parameters(values: FloatArray) -> FloatArray:
    xx, xy, xz, yy, yz, zz = values[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return from_center_of_mass(float(values[0]), values[1:4], inertia)


def _has_bodies(data: dict[str, Any]) -> bool:
    standard = data.get("standard")
    return isinstance(standard, dict) and "parameters" in standard


def _estimated(data: dict[str, Any]) -> tuple[list[str], FloatArray, FloatArray]:
    """Take names, values and covariance; ValueError where they are none."""
    try:
        names = [str(entry["name"]) for entry in data["parameters"]]
        beta = np.array([entry["value"] for entry in data["parameters"]], dtype=float)
        C = np.array(data["covariance"], dtype=float)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"is no whole model ({json.dumps(str(error))[:80]} is missing or wrong)") from None
    if C.shape != (len(names), len(names)) or not (np.isfinite(beta).all() and np.isfinite(C).all()):
        raise ValueError(f"has a covariance of {C.shape}, expected finite numbers for {len(names)} parameters")
    scale = np.sqrt(np.maximum(np.diag(C), 0.0))
    unit = C / np.outer(*(np.where(scale > 0.0, scale, 1.0),) * 2)
    if np.abs(unit - unit.T).max(initial=0.0) > 1e-6 or np.linalg.eigvalsh(unit).min(initial=0.0) < -1e-6:
        raise ValueError("has a covariance that is none: not symmetric, or with a negative variance")
    return names, beta, C
