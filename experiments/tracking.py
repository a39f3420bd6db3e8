"""Simulated tracking errors with the identified model as feedforward, as plain data for a report.

[Volkmann2020] §IV.C compares tracking errors without a model and with models fed forward. Here a virtual robot
follows, so that the comparison needs no robot time: it shows what the model can do, not what a robot will do. The robot
is the one a campaign was simulated with, or is drawn from the model's uncertainty; its controller is PD with
feedforward or without. The reference is the task or a validation run, from rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from excitor.design.constraints.torque import has_torque_model
from excitor.design.motion import rise
from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign
from excitor.experiments.report.evidence import Evidence
from excitor.experiments.setup import learned_robot, loaded, pendant_to_si, set_up, task_motion
from excitor.experiments.simulate import ImpossibleMasses, VirtualRobot, drawn_robot, simulated_robot
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import with_friction_width

PD, PRIOR, IDENTIFIED = "no model", "prior model", "identified model"
STEP = 1e-3  # s, of the servo loop


@dataclass(frozen=True, eq=False, slots=True)
class FittedModel:
    """Identified model: base parameters by name, their covariance, and consistent standard parameters."""

    robot: Robot  # with the joints held that the model holds
    names: tuple[str, ...]
    values: FloatArray  # (n_names,)
    covariance: FloatArray  # (n_names, n_names)
    consistent: FloatArray | None  # (n_params,): of the parameters that left the model


def tracking_data(
    campaign: OpenCampaign, fitted: FittedModel, runs: Sequence[Samples], *, seed: int = 0
) -> dict[str, Any]:
    """Simulate tracking; where it is impossible, return why. `runs` may supply the motion, best first."""
    try:
        return _tracked(campaign, fitted, runs, seed)
    except ExcitorError as error:
        return {"refused": str(error)}


def _tracked(campaign: OpenCampaign, fitted: FittedModel, runs: Sequence[Samples], seed: int) -> dict[str, Any]:
    reference = _reference(campaign, runs)
    known = loaded(learned_robot(campaign.folder, campaign.content.prior, campaign.robot), campaign.content.payload)
    follower, robot_words = _follower(campaign, known, fitted, seed)
    identified = _standard(fitted)
    controllers: dict[str, FloatArray] = {PD: np.zeros((len(reference.motion), known.n_joints))}
    believed = prior(known) if has_torque_model(known) else None
    if believed is not None:
        controllers[PRIOR] = torques(known, reference, believed)
    on_tool = prior(known) - known.chi if campaign.content.payload else 0.0 * known.chi  # the model is of the bare arm
    controllers[IDENTIFIED] = torques(fitted.robot, reference, identified + on_tool)
    gains = follower.robot.chi if believed is None else believed
    wanted = reference.motion.q[reference.lead :]
    errors = {
        name: errors_of(known, wanted, follower.follow(reference.motion, forward, gains, STEP)[reference.lead :])
        for name, forward in controllers.items()
    }
    return {
        "refused": None,
        "motion": reference.name,
        "seconds": reference.seconds,
        "cut_after_s": reference.cut,
        "robot": robot_words,
        "seed": seed,
        "bandwidth_hz": follower.truth.settings.bandwidth_hz,
        "joints": list(known.joint_names),
        "units": ["mm" if sliding else "deg" for sliding in known.mechanism.prismatic],
        "controllers": [_data(known, name, found) for name, found in errors.items()],
        "ratios": _ratios(errors),
    }


@dataclass(frozen=True, eq=False, slots=True)
class Reference:
    """Commanded motion; the first `lead` rows are the approach, and are not evaluated."""

    name: str
    step: float  # s
    motion: Motion  # (n_steps, n_joints)
    lead: int
    cut: float | None  # s after which the motion was left out; None: all of it is there

    @property
    def seconds(self) -> float:
        """Duration of the evaluated part, s."""
        return float((len(self.motion) - self.lead) * self.step)


def _reference(campaign: OpenCampaign, runs: Sequence[Samples]) -> Reference:
    if campaign.content.design.task is not None:
        return task_reference(campaign, STEP)
    moving = [samples for samples in runs if not samples.static]
    if not moving:
        raise ExcitorError("no run moves, so there is no motion to follow")
    times = np.arange(len(moving[0])) / moving[0].sample_rate_hz
    return reference_of(f"run {moving[0].run!r}", times, moving[0].motion.q, STEP)


def _follower(campaign: OpenCampaign, known: Robot, fitted: FittedModel, seed: int) -> tuple[VirtualRobot, str]:
    """Choose the simulated robot with its payload, and describe it."""
    simulated = simulated_robot(campaign.folder, known)
    if simulated is not None:
        return simulated, "the virtual robot that the campaign's logs were simulated with (truth.json)"
    base, place = base_parameters(fitted.robot), _place(fitted)
    covariance: FloatArray = np.zeros((len(base), len(base)))
    covariance[np.ix_(place, place)] = fitted.covariance
    carried = known.payload if campaign.content.payload else None  # else the identified model has it
    body = replace(fitted.robot, chi=_standard(fitted), payload=carried, declared_base=None)
    sentence = "a virtual robot drawn from what the identified model leaves open, with ripple that no model has"
    try:
        return drawn_robot(body, base.values(body.chi), covariance, seed=seed), sentence
    except ImpossibleMasses:
        if fitted.consistent is None:
            raise
    body = replace(body, chi=fitted.consistent)
    sentence = (
        "a virtual robot drawn about the physically consistent model, with ripple that no model has: the estimate's "
        "own masses are none that a robot can have"
    )
    return drawn_robot(body, base.values(fitted.consistent), covariance, seed=seed), sentence


def _standard(fitted: FittedModel) -> FloatArray:
    """Convert the identified model to parameters (n_params,): eliminated ones are as in the consistent model, or 0."""
    base = base_parameters(fitted.robot)
    beta = np.zeros(len(base)) if fitted.consistent is None else base.values(fitted.consistent)
    beta[_place(fitted)] = fitted.values
    return base.standard(beta)


def _place(fitted: FittedModel) -> list[int]:
    """Find the model's parameters among the base parameters."""
    params, base = layout(fitted.robot), base_parameters(fitted.robot)
    names = [params.names[column] for column in base.kept]
    return [names.index(name) for name in fitted.names]


@dataclass(frozen=True, eq=False, slots=True)
class Errors:
    """Tracking errors: rad or m of joints, m of the tool."""

    rms: FloatArray  # (n_joints,)
    peak: FloatArray  # (n_joints,)
    varying: FloatArray  # (n_joints,): rms about the mean, which a controller that integrates would take away
    tool_rms: float  # distance to where the tool should be at that time
    tool_peak: float
    path_rms: float  # distance to the path, whenever the tool should be there
    path_peak: float


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


_NEAR = 200  # samples before and after, among which the nearest point of a path is looked for
_POINTS = 4000  # of a motion, at least, whose distance to the path is found


def errors_of(robot: Robot, wanted: FloatArray, q: FloatArray) -> Errors:
    """Compute tracking errors from positions and reference, (n, n_joints) both."""
    e = q - wanted
    there, should = (frame_pose(robot, x)[:, :3, 3] for x in (q, wanted))
    now, path = np.linalg.norm(there - should, axis=1), path_distances(there, should)
    rms, varying = np.sqrt(np.mean(e**2, axis=0)), np.std(e, axis=0)
    return Errors(rms, np.abs(e).max(axis=0), varying, _rms(now), float(now.max()), _rms(path), float(path.max()))


def path_distances(points: FloatArray, path: FloatArray, near: int = _NEAR) -> FloatArray:
    """Compute the distance of some points to the straight segments of a path, near their place in time.

    Both are sampled alike; a point is compared with the segments at most `near` samples away.
    """
    n = len(points)
    which = np.arange(0, n, max(1, n // _POINTS))
    best = np.full(len(which), np.inf)
    for shift in range(-near, near):
        k = np.flatnonzero((which + shift >= 0) & (which + shift + 1 < n))
        at = which[k]
        a, way = path[at + shift], path[at + shift + 1] - path[at + shift]
        length = np.einsum("ij,ij->i", way, way)
        along = np.einsum("ij,ij->i", points[at] - a, way) / np.where(length > 0.0, length, 1.0)
        beyond = points[at] - a - np.clip(along, 0.0, 1.0)[:, None] * way
        best[k] = np.minimum(best[k], np.einsum("ij,ij->i", beyond, beyond))
    return np.asarray(np.sqrt(best))


def _rms(x: FloatArray) -> float:
    return float(np.sqrt(np.mean(x**2)))


WIDTH = 0.01  # rad/s or m/s over which the sign of fed-forward friction changes


def torques(robot: Robot, reference: Reference, chi: FloatArray) -> FloatArray:
    """Compute a model's feedforward torques, (n_steps, n_joints), of the commanded motion."""
    smooth = with_friction_width(robot, WIDTH)
    return np.ascontiguousarray(inverse_dynamics(smooth, reference.motion, chi))


LONGEST = 40.0  # s of a motion that are simulated
LEAD = 1.0  # s, before the motion
_REST = 0.5  # s of it at rest, while controllers settle


def reference_of(name: str, times: FloatArray, q: FloatArray, step: float) -> Reference:
    """Resample a motion, positions q (n, n_joints) at rising times, on a servo loop's clock."""
    from scipy.interpolate import CubicSpline

    if len(times) < 4:
        raise ExcitorError(f"{name}: has {len(times)} samples, expected at least 4 to follow")
    duration = float(times[-1] - times[0])
    cut = LONGEST if duration > LONGEST else None
    spline = CubicSpline(times - times[0], q, axis=0)
    t = step * np.arange(int(min(duration, LONGEST) / step) + 1)
    q, dq, ddq = (spline(t, order) for order in range(3))
    n, still = round(LEAD / step), round(_REST / step)
    s = (np.arange(n) - still) / (n - still)
    span = LEAD - _REST
    share, push = np.where(s > 0.0, rise(s, 0), 0.0), np.where(s > 0.0, rise(s, 1), 0.0) / span
    before = np.cumsum(share[::-1])[::-1] * step + 0.5 * step * (1.0 - share)
    lead = (q[0] - before[:, None] * dq[0], share[:, None] * dq[0], push[:, None] * dq[0])
    whole = (np.concatenate([a, b]) for a, b in zip(lead, (q, dq, ddq), strict=True))
    return Reference(name, step, Motion(*whole), n, cut)


def task_reference(campaign: OpenCampaign, step: float) -> Reference:
    """Read the campaign's task as the reference."""
    setup = set_up(campaign)
    task_motion(setup)  # which says what is wrong with it
    name = str(setup.design.task)
    try:
        table = np.loadtxt(campaign.folder / name, delimiter=",", skiprows=1, encoding="utf-8-sig", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidCampaign(campaign.folder / FILE, [f"design.task: {name!r} {error}"]) from None
    return reference_of(f"task {name}", table[:, 0], pendant_to_si(setup.robot, table[:, 1:]), step)


def reported_tracking(evidence: Evidence, asked: bool) -> dict[str, Any] | None:
    """Simulate tracking of a process, or of the validation motion; None where the campaign does not need it."""
    model, standard = evidence.model, evidence.model.standard
    cycles = {run.name for run in evidence.campaign.content.run if run.cycle_s}
    if not (asked or evidence.campaign.content.design.task is not None or cycles):
        return None
    consistent = None if standard is None else standard.values
    own = dict(zip(model.delivered.names, model.delivered.values, strict=True))
    values = np.array([own[name] for name in model.names])
    fitted = FittedModel(evidence.robot, model.names, values, model.known_covariance(), consistent)
    order = sorted(evidence.runs, key=lambda run: (run.samples.run not in cycles, run.role != "validate"))
    return tracking_data(evidence.campaign, fitted, [run.samples for run in order])
