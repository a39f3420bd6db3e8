"""What a comparison found, as plain data: compare.json, of which the page is a drawing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from excitor.experiments.comparing.compare import Compared
from excitor.experiments.comparing.judge import Judged, by_name
from excitor.experiments.comparing.prepare import noise_errors
from excitor.experiments.model_file import provenance
from excitor.experiments.page.words import finite
from excitor.experiments.report.data import robot_data
from excitor.identify.methods import METHODS, Answer
from excitor.identify.validate import Errors
from excitor.robots.base import base_parameters, regroupings

SCHEMA = 1
KIND = "excitor compare"


def compare_data(compared: Compared) -> dict[str, Any]:
    """Collect everything."""
    prepared, advice = compared.prepared, compared.recommendation
    joints = judged_joints(compared)
    judged = {entry.name: entry for entry in compared.judged}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": prepared.examined.campaign.folder.resolve().name,
        "robot": robot_data(prepared.problem.robot),
        "recommendation": {
            "method": advice.method,
            "best": advice.best,
            "is_best": advice.is_best,
            "careful": advice.careful,
            "headline": advice.headline,
            "reasons": list(advice.reasons),
            "within_noise": list(advice.within),
        },
        "beliefs": list(compared.beliefs),
        "bias": bias_data(compared),
        "runs": {
            "fitted": list(prepared.problem.regression.runs),
            "judged": list(prepared.judging.runs),
            "substitute": prepared.substitute,
            "n_fitted": len(prepared.problem.regression),
            "n_judged": len(prepared.judging),
        },
        "joints": joints,
        "methods": [method_data(compared, entry, judged.get(entry.method), joints) for entry in compared.answers],
        "baselines": {name: errors_data(errors, joints) for name, errors in compared.baselines.items()},
        "noise": noise_data(compared, joints),
        "parameters": parameters_data(compared),
        "pairs": [
            {
                "one": pair.one,
                "other": pair.other,
                "torque": finite(pair.torque),
                "apart": None if pair.apart is None else list(pair.apart),
                "compared": pair.compared,
            }
            for pair in compared.pairs
        ],
        "simulated": None if compared.simulated is None else compared.simulated.data(),
        "findings": [{"level": f.level, "what": f.what, "sentence": str(f)} for f in compared.findings],
        "provenance": provenance(prepared.examined.campaign),
    }


def judged_joints(compared: Compared) -> list[str]:
    """Name the joints that have equations to judge by."""
    judging = compared.prepared.judging
    return [judging.joint_names[j] for j in np.unique(judging.joint)]


def method_data(compared: Compared, found: Answer, judged: Judged | None, joints: Sequence[str]) -> dict[str, Any]:
    """Write one method's answer, or why it refused."""
    told: dict[str, Any] = {
        "name": found.method,
        "title": METHODS[found.method].title,
        "refused": found.refused,
        "notes": list(found.notes),
        "evidence": {key: finite(value) for key, value in found.evidence.items()},
        "cpu_s": found.cpu_s,
    }
    if judged is None:
        return told | {"parameters": [], "n_parameters": 0}
    difference, bodies = compared.differences[judged.name], compared.bodies.get(judged.name)
    own = known_joints(compared)
    return told | {
        "n_parameters": len(judged.estimate.names),
        "parameters": parameters_of(judged),
        "held_out": errors_data(judged.held_out, joints),
        "training": errors_data(judged.training, own),
        "behind_the_best": {
            "value": difference.value,
            "low": difference.low,
            "high": difference.high,
            "within_noise": difference.within_noise,
        },
        "smallest_mass_matrix_eigenvalue": finite(judged.smallest_inertia),
        "friction_below_zero": list(judged.driving),
        "consistent": None if bodies is None else bodies.data(),
    }


def known_joints(compared: Compared) -> list[str]:
    """Name the joints that have equations to learn from."""
    fitted = compared.prepared.fitted
    return [fitted.joint_names[j] for j in np.unique(fitted.joint)]


def parameters_of(judged: Judged) -> list[dict[str, Any]]:
    """List a method's parameters, with their 95 % intervals where it gives them."""
    bounds = {} if judged.answer.intervals is None else by_name(judged.answer.intervals)
    nothing = (None, None, None)
    return [
        {
            "name": name,
            "unit": unit,
            "value": finite(value),
            "low": finite(bounds.get(name, nothing)[1]),
            "high": finite(bounds.get(name, nothing)[2]),
        }
        for name, unit, value in zip(judged.estimate.names, judged.estimate.units, judged.estimate.values, strict=True)
    ]


def errors_data(errors: Errors, joints: Sequence[str]) -> dict[str, Any]:
    """Write errors of torques, by joint and in total."""
    return {
        "total": finite(errors.relative_total),
        "mean_absolute": finite(errors.mean_absolute_mean),
        "joints": {joint: finite(x) for joint, x in zip(joints, errors.relative, strict=True)},
    }


def noise_data(compared: Compared, joints: Sequence[str]) -> dict[str, Any] | None:
    """Write what noise alone would leave."""
    found = noise_errors(compared.prepared)
    if found is None:
        return None
    shares, total = found
    return {"total": finite(total), "joints": {joint: finite(x) for joint, x in zip(joints, shares, strict=True)}}


def bias_data(compared: Compared) -> dict[str, Any] | None:
    """Write the verdict of the test for bias."""
    bias = compared.bias
    if bias is None:
        return None
    return {
        "p_value": finite(bias.p_value),
        "statistic": finite(bias.statistic),
        "found": bias.found,
        "sentence": bias.sentence,
    }


def parameters_data(compared: Compared) -> list[dict[str, Any]]:
    """Name the parameters that methods give, what they stand for, and how many pairs of methods contradict there."""
    robot = compared.prepared.problem.robot
    base = base_parameters(robot)
    names = compared.prepared.problem.regression.names
    forms: Mapping[str, str] = dict(zip(names, regroupings(robot, base), strict=True))
    units = dict(zip(names, compared.prepared.problem.regression.units, strict=True))
    contradicted = [name for pair in compared.pairs for name in pair.apart or ()]
    return [
        {"name": name, "unit": units[name], "regrouping": forms[name], "contradictions": contradicted.count(name)}
        for name in names
    ]
