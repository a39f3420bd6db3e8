"""What a payload identification leaves behind: model.json with the load, from which controllers' load data are made."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.files import write_atomically
from excitor.experiments.model_file import finite, provenance
from excitor.experiments.model_json import FILE, SCHEMA
from excitor.experiments.payload.identify import IdentifiedLoad
from excitor.experiments.payload.rating import Rating, answer_of, ratings
from excitor.identify.load.fit import CENTER_NAMES, CENTER_UNITS, REACH
from excitor.robots.arrays import FloatArray

NO_ARM = "a payload campaign identifies what the robot carries; its arm's model is the prior"


def write_load(result: IdentifiedLoad) -> Path:
    """Write model.json into the campaign's folder, whole or not at all."""
    path = result.campaign.folder / FILE
    write_atomically(path, json.dumps(load_model_data(result), indent=2, allow_nan=False) + "\n")
    return path


def load_model_data(result: IdentifiedLoad) -> dict[str, Any]:
    """Write a load for scripts, with what it rests on."""
    robot, estimate = result.robot, result.estimate
    phi, C = parameters_of_load(result)
    found = load_ratings(result)
    return {
        "schema": SCHEMA,
        "task": "payload",
        "robot": robot.name,
        "parameters": [],
        "standard": {"status": "none", "reason": NO_ARM},
        "weights": [],
        "payload": {
            "link": robot.mechanism.link_names[result.link],
            "frame": "link",
            "phi": phi.tolist(),
            "covariance": C.tolist(),
        },
        "load": {
            "method": "poses held" if estimate is None else "motion",
            "at_center": center_data(result),
            "consistent": result.body is not None or estimate is None,
            "refusal": result.refusal or None,
            "static": static_data(result),
            "efficiency": {
                name: float(estimate.efficiency[k])
                for k, name in enumerate(robot.joint_names)
                if f"R {name}" in estimate.names
            }
            if estimate is not None
            else {},
            "unknowns": unknowns_data(result),
            "condition": None if estimate is None else finite(estimate.condition),
            "predicted": [
                {
                    "run": one.run,
                    "loaded": one.loaded,
                    "unseen": one.unseen,
                    "rms": dict(zip(_axes(result), one.rms.tolist(), strict=True)),
                    "relative": dict(zip(_axes(result), (one.rms / one.size).tolist(), strict=True)),
                }
                for one in result.predicted
            ],
            "rating": {"answer": answer_of(found), "quantities": [rating_data(one) for one in found]},
        },
        "arm": {"source": result.arm_source, "corrected": estimate is not None and "arm 1" in estimate.names},
        "findings": [{"level": f.level, "what": f.what, "sentence": str(f)} for f in result.findings],
        "processing": [{"step": step.name, **step.settings} for step in result.runs.steps],
        "provenance": load_provenance(result),
    }


def parameters_of_load(result: IdentifiedLoad) -> tuple[FloatArray, FloatArray]:
    """Take the ten parameters on the load's link, and their covariance; of poses, those of a point mass."""
    if result.estimate is not None:
        return (result.body or result.estimate).phi, result.covariance
    assert result.static is not None  # nothing else is left
    mass, center = result.static.mass, result.static.center
    x, y, z = center
    inertia = mass * np.array([y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y])
    J = np.zeros((10, 4))  # by mass and centre
    J[:6, 0] = inertia / mass
    J[:6, 1:] = mass * np.array(
        [[0, 2 * y, 2 * z], [-y, -x, 0], [-z, 0, -x], [2 * x, 0, 2 * z], [0, -z, -y], [2 * x, 2 * y, 0]]
    )
    J[6:9, 0], J[6:9, 1:], J[9, 0] = center, mass * np.eye(3), 1.0
    return np.array([*inertia, *(mass * center), mass]), J @ result.static.center_covariance @ J.T


def load_ratings(result: IdentifiedLoad) -> list[Rating]:
    """Hold the load against what the robot may carry."""
    phi, C = parameters_of_load(result)
    return ratings(result.robot, result.campaign.content.rated, phi, C, inertia=result.estimate is not None)


def center_data(result: IdentifiedLoad) -> list[dict[str, Any]]:
    """Write mass, centre and inertia about it, with 95 % intervals."""
    load, static = result.load, result.static
    if load is not None:
        values, sigma = load.values, load.sigma
    else:
        assert static is not None
        values, sigma = np.array([static.mass, *static.center]), static.sigma
    return [
        {
            "name": name,
            "unit": unit,
            "value": float(value),
            "sigma": float(s),
            "interval": [float(value - REACH * s), float(value + REACH * s)],
        }
        for name, unit, value, s in zip(CENTER_NAMES, CENTER_UNITS, values, sigma, strict=False)
    ]


def static_data(result: IdentifiedLoad) -> dict[str, Any] | None:
    """Write what poses held tell, or why they tell nothing."""
    static = result.static
    if static is None:
        return {"refusal": result.static_refusal} if result.static_refusal else None
    return {"mass": static.mass, "center": static.center.tolist(), "sigma": static.sigma.tolist()}


def unknowns_data(result: IdentifiedLoad) -> list[dict[str, Any]]:
    """Write load, friction and efficiencies as they were estimated; the arm's deviations are not of interest."""
    estimate = result.estimate
    if estimate is None:
        return []
    listed = zip(estimate.names, estimate.units, estimate.values, estimate.sigma, strict=True)
    return [
        {"name": name, "unit": unit, "value": float(value), "sigma": float(sigma)}
        for name, unit, value, sigma in listed
        if not name.startswith("arm ")
    ]


def rating_data(one: Rating) -> dict[str, Any]:
    """Write one comparison."""
    return {
        "what": one.what,
        "unit": one.unit,
        "value": one.value,
        "sigma": one.sigma,
        "limit": one.limit,
        "answer": one.answer,
        "sentence": one.sentence,
    }


def load_provenance(result: IdentifiedLoad) -> dict[str, Any]:
    """Name versions and the hashes of everything that was read, the arm's model included."""
    campaign = result.campaign
    known: Mapping[str, Any] = provenance(campaign)
    if campaign.content.prior is None:
        return dict(known)
    prior = campaign.folder / campaign.content.prior
    return {**known, "prior": campaign.content.prior, "prior_sha256": hashlib.sha256(prior.read_bytes()).hexdigest()}


def _axes(result: IdentifiedLoad) -> list[str]:
    assert result.estimate is not None
    return list(result.estimate.axes)
