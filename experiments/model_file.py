"""What an identification leaves behind: model.json, code of the model, and the robot's URDF with inertials filled."""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import FILE, OpenCampaign
from excitor.experiments.files import write_atomically
from excitor.experiments.identification import Identified
from excitor.experiments.model_json import SCHEMA
from excitor.experiments.program_logs import MANIFEST, PROGRAMS
from excitor.identify.logs.read import log_files
from excitor.identify.validate import Validation, standard_parameters
from excitor.robots.base import base_parameters, regroupings
from excitor.robots.codegen import inverse_dynamics_code
from excitor.robots.parameters import layout
from excitor.robots.tree import Tree


def write_model(result: Identified) -> list[Path]:
    """Write everything into the campaign's folder; each file whole or not at all."""
    folder = result.campaign.folder
    robot = result.campaign.robot
    chi = standard_parameters(robot, result.estimate)
    texts = {"model.json": json.dumps(model_data(result), indent=2, allow_nan=False) + "\n"}
    if isinstance(robot.mechanism, Tree):
        texts["model.c"] = inverse_dynamics_code(robot, "c", chi=chi)
        texts["model.py"] = inverse_dynamics_code(robot, "python", chi=chi)
    if Path(str(result.campaign.robot_source)).suffix.lower() in (".urdf", ".xml") and result.consistent is not None:
        from excitor.robots.files.urdf import filled_urdf

        source = Path(result.campaign.robot_source)
        texts["model.urdf"] = filled_urdf(source.read_text("utf-8-sig"), robot, result.consistent.chi)
    for name in reversed(texts):  # model.json last: it tells that the others are up to date
        write_atomically(folder / name, texts[name])
    return [folder / name for name in texts]


def code_note(result: Identified) -> str:
    """Say why no code of the model is written, if so."""
    if isinstance(result.campaign.robot.mechanism, Tree):
        return ""
    return (
        f"no model.c and model.py: {result.campaign.robot.name} has closed loops, which are closed by iteration; "
        "code is written for open chains only, so use model.json"
    )


def model_data(result: Identified) -> dict[str, Any]:
    """Write a model for scripts, with what it rests on."""
    robot, estimate, intervals = result.campaign.robot, result.estimate, result.intervals
    base = base_parameters(robot)
    forms = dict(zip((base_name.removesuffix("R") for base_name in base.names), regroupings(robot, base), strict=True))
    return {
        "schema": SCHEMA,
        "robot": robot.name,
        "method": result.campaign.content.identify.method,
        "parameters": [
            {
                "name": name,
                "regrouping": forms.get(name, name),
                "unit": unit,
                "value": float(value),
                "sigma_white": float(white),
                "sigma": float(robust),
                "interval": [float(low), float(high)],
            }
            for name, unit, value, white, robust, low, high in zip(
                estimate.names,
                estimate.units,
                estimate.values,
                estimate.sigma,
                intervals.sigma,
                intervals.low,
                intervals.high,
                strict=True,
            )
        ],
        "covariance": [[float(x) for x in row] for row in intervals.covariance],
        "standard": standard_data(result),
        "rank": len(estimate.names),
        "condition": estimate.condition,
        "smallest_mass_matrix_eigenvalue": result.smallest_inertia,
        "singular_values": [float(x) for x in estimate.singular_values],
        "weights": [
            {"joint": robot.joint_names[joint], "run": run, "sigma": sigma}
            for (joint, run), sigma in estimate.group_sigma.items()
        ],
        "training": validation_data(result.training),
        "held_out": None if result.held_out is None else validation_data(result.held_out),
        "reduction": reduction_data(result),
        "findings": [
            {"level": finding.level, "what": finding.what, "sentence": str(finding)} for finding in result.findings
        ],
        "processing": [{"step": step.name, **step.settings} for step in result.steps],
        "provenance": provenance(result.campaign),
    }


def reduction_data(result: Identified) -> dict[str, Any] | None:
    """Write which parameters left by sensitivity, and on which data that was judged."""
    if result.reduction is None:
        return None
    return {
        "acceptance": result.reduction.rule.acceptance,
        "tolerance": result.reduction.rule.tolerance,
        "decisions": [
            {"name": d.name, "sensitivity": d.sensitivity, "ratio": d.ratio, "joint": d.joint, "kept": d.kept}
            for d in result.reduction.decisions
        ],
    }


def standard_data(result: Identified) -> dict[str, Any]:
    """Write the physically consistent parameters, or why there are none."""
    consistent = result.consistent
    if consistent is None:
        return {"status": "none", "reason": result.refusal}
    params = layout(result.campaign.robot)
    return {
        "status": consistent.status,
        "solver": consistent.solver,
        "loss": consistent.loss,
        "smallest_eigenvalues": [float(x) for x in consistent.eigenvalue],
        "parameters": [
            {"name": name, "unit": unit, "value": float(value), "label": label}
            for name, unit, value, label in zip(
                consistent.names, consistent.units, consistent.chi, consistent.labels, strict=True
            )
        ],
        "link_covariances": {
            name: [[float(x) for x in row] for row in consistent.covariance[params.link(j), params.link(j)]]
            for j, name in enumerate(result.campaign.robot.mechanism.link_names)
        },
    }


def validation_data(validation: Validation) -> dict[str, Any]:
    """Write errors beside the baselines."""
    return {
        "runs": list(validation.runs),
        "figures": {name: finite(value) for name, value in validation.figures.items()},
        "joints": {
            joint: {
                "relative": finite(validation.model.relative[k]),
                "mean_absolute": finite(validation.model.mean_absolute[k]),
                "rmse": finite(validation.model.rmse[k]),
            }
            for k, joint in enumerate(validation.joints)
        },
    }


def provenance(campaign: OpenCampaign) -> dict[str, Any]:
    """Name versions and the hashes of everything that was read."""
    robot_file = Path(campaign.robot_source)
    own = [robot_file] if robot_file.is_file() else []
    logs = (file for run in campaign.content.run for file in log_files(campaign.folder / run.log))
    read = [campaign.folder / FILE, *own, *logs]
    targets = {run.program.partition("/")[0] for run in campaign.content.run if run.program is not None}
    read += [campaign.folder / PROGRAMS / target / MANIFEST for target in sorted(targets)]
    for entry in campaign.content.log.signals if campaign.content.log is not None else ():
        if entry.file:
            read += [(campaign.folder / run.log).parent / entry.file for run in campaign.content.run]
    return {
        "excitor": version("excitor"),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "sha256": {
            str(path.relative_to(campaign.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in dict.fromkeys(read)
        },
    }


def finite(value: Any) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None
