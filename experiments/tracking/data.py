"""What would the identified model be worth as feed-forward? A simulation, as plain data for a report.

[Volkmann2020] §IV.C compares tracking errors without a model and with models fed forward. Here a virtual robot
follows, so that the comparison costs no robot time: it shows what the model can do, not what a robot will do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from excitor.design.certify.limits import has_torque_model
from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.designing.noise import learned_robot
from excitor.experiments.designing.setup import loaded
from excitor.experiments.tracking.errors import Errors, errors_of
from excitor.experiments.tracking.follow import followed, torques
from excitor.experiments.tracking.reference import Reference, run_reference, task_reference
from excitor.experiments.tracking.truths import ImpossibleMasses, drawn_truth, simulated_truth
from excitor.experiments.virtual.truth import Truth
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

PD, PRIOR, IDENTIFIED = "no model", "prior model", "identified model"
STEP = 1e-3  # s, of the servo loop


@dataclass(frozen=True, eq=False, slots=True)
class FittedModel:
    """What was identified: base parameters by name, their covariance, and standard parameters that may be used."""

    robot: Robot  # with the joints held that the model holds
    names: tuple[str, ...]
    values: FloatArray  # (n_names,)
    covariance: FloatArray  # (n_names, n_names)
    consistent: FloatArray | None  # (n_params,): of the parameters that left the model


def in_process(campaign: OpenCampaign) -> bool:
    """Tell whether the model is to serve one process: the campaign has a task, or learns from a process's cycles."""
    return campaign.content.design.task is not None or any(run.cycle_s for run in campaign.content.run)


def tracking_data(
    campaign: OpenCampaign, fitted: FittedModel, runs: Sequence[Samples], *, seed: int = 0
) -> dict[str, Any]:
    """Simulate tracking; where it cannot be, say why. `runs` are those it may take the motion from, best first."""
    try:
        return _tracked(campaign, fitted, runs, seed)
    except ExcitorError as error:
        return {"refused": str(error)}


def _tracked(campaign: OpenCampaign, fitted: FittedModel, runs: Sequence[Samples], seed: int) -> dict[str, Any]:
    reference = _reference(campaign, runs)
    known = loaded(learned_robot(campaign.folder, campaign.content.prior, campaign.robot), campaign.content.payload)
    truth, body, told = _truth(campaign, known, fitted, seed)
    identified = _standard(fitted)
    controllers: dict[str, FloatArray] = {PD: np.zeros((len(reference.motion), known.n_joints))}
    believed = prior(known) if has_torque_model(known) else None
    if believed is not None:
        controllers[PRIOR] = torques(known, reference, believed)
    controllers[IDENTIFIED] = torques(fitted.robot, reference, identified)
    gains = body.chi if believed is None else believed
    wanted = reference.motion.q[reference.lead :]
    errors = {
        name: errors_of(known, wanted, followed(truth, body, reference, forward, gains))
        for name, forward in controllers.items()
    }
    return {
        "refused": None,
        "motion": reference.name,
        "seconds": reference.seconds,
        "cut_after_s": reference.cut,
        "robot": told,
        "seed": seed,
        "bandwidth_hz": truth.settings.bandwidth_hz,
        "joints": list(known.joint_names),
        "units": ["mm" if sliding else "deg" for sliding in known.mechanism.prismatic],
        "controllers": [_data(known, name, found) for name, found in errors.items()],
        "ratios": _ratios(errors),
    }


def _reference(campaign: OpenCampaign, runs: Sequence[Samples]) -> Reference:
    if campaign.content.design.task is not None:
        return task_reference(campaign, STEP)
    moving = [samples for samples in runs if not samples.static]
    if not moving:
        raise ExcitorError("no run moves, so there is no motion to follow")
    return run_reference(moving[0], STEP)


def _truth(campaign: OpenCampaign, known: Robot, fitted: FittedModel, seed: int) -> tuple[Truth, Robot, str]:
    """Choose the robot that follows, with what it carries, and say which it is."""
    truth = simulated_truth(campaign.folder, known)
    if truth is not None:
        return truth, known, "the virtual robot that the campaign's logs were simulated with (truth.json)"
    base, place = base_parameters(fitted.robot), _place(fitted)
    covariance: FloatArray = np.zeros((len(base), len(base)))
    covariance[np.ix_(place, place)] = fitted.covariance
    body = replace(fitted.robot, chi=_standard(fitted), payload=None, declared_base=None)
    told = "a virtual robot drawn from what the identified model leaves open, with ripple that no model has"
    try:
        return drawn_truth(body, base.values(body.chi), covariance, seed=seed), body, told
    except ImpossibleMasses:
        if fitted.consistent is None:
            raise
    body = replace(body, chi=fitted.consistent)
    told = (
        "a virtual robot drawn about the physically consistent model, with ripple that no model has: the estimate's "
        "own masses are none that a robot can have"
    )
    return drawn_truth(body, base.values(fitted.consistent), covariance, seed=seed), body, told


def _standard(fitted: FittedModel) -> FloatArray:
    """Write the identified model as parameters (n_params,): those that left it are as in the consistent one, or 0."""
    base = base_parameters(fitted.robot)
    beta = np.zeros(len(base)) if fitted.consistent is None else base.values(fitted.consistent)
    beta[_place(fitted)] = fitted.values
    return base.standard(beta)


def _place(fitted: FittedModel) -> list[int]:
    """Find the model's parameters among the base parameters."""
    params, base = layout(fitted.robot), base_parameters(fitted.robot)
    names = [params.names[column] for column in base.kept]
    return [names.index(name) for name in fitted.names]


def _data(robot: Robot, name: str, errors: Errors) -> dict[str, Any]:
    factor = np.where(robot.mechanism.prismatic, 1e3, np.degrees(1.0))
    joints = {key: (factor * getattr(errors, key)).tolist() for key in ("rms", "peak", "varying")}
    tool = {key: 1e3 * getattr(errors, key) for key in ("tool_rms", "tool_peak", "path_rms", "path_peak")}
    return {"feed_forward": name, **joints, **{f"{key}_mm": value for key, value in tool.items()}}


def _ratios(errors: dict[str, Errors]) -> dict[str, Any]:
    """Divide rms errors with the identified model by those without it, and with the prior one."""
    best, out = errors[IDENTIFIED], {}
    for name, key in ((PD, "to_no_model"), (PRIOR, "to_prior_model")):
        other = errors.get(name)
        if other is not None:
            joints = np.divide(best.rms, other.rms, out=np.full(len(best.rms), np.nan), where=other.rms > 0.0)
            out[key] = {
                "joints": [float(x) if np.isfinite(x) else None for x in joints],
                "tool": best.tool_rms / other.tool_rms if other.tool_rms > 0.0 else None,
                "path": best.path_rms / other.path_rms if other.path_rms > 0.0 else None,
            }
    return out
