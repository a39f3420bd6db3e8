"""Beyond the paper: smaller errors from A to C, by weights, friction models and a motion that keeps its vibration.

Models are fitted on trajectory A; what there is to choose is chosen on trajectory B; C is only reported. Rows are
divided by their joint's mean absolute torque: the scatter of repetitions, by which the paper divides, is small where
model errors, which repeat, are large.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.studies.qrc350_data import (
    Recordings,
    absolute_errors,
    declared_equations,
    low_passed,
)
from excitor.identify.estimate import compress, ols
from excitor.identify.regression import Regression, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.parameters import layout, layout_of
from excitor.robots.robot import FrictionModel, FrictionTerm, Robot

TRAJECTORIES = ("A", "B", "C")
CUTOFF_HZ = 15.0
SIGN_WIDTHS = (0.001, 0.01)  # rad/s
SLIPS = (0.001, 0.004)  # rad: how far a joint moves before a Maxwell-slip state slips
RIPPLES = (147.0, 294.0)  # per turn of the large axes
RIPPLE_JOINTS = (0, 1)
FEATURES: tuple[tuple[str, ...], ...] = (
    (),
    ("sqrt",),
    ("maxwell-slip",),
    ("ripple",),
    ("sqrt", "maxwell-slip"),
    ("sqrt", "maxwell-slip", "ripple"),
)


PAYLOAD_KG = 10.621  # stated by the paper; counted with the last link


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One model: what it is, its errors in percent of the mean absolute torque by joint, its torques on C."""

    model: str
    n_parameters: int
    training_A: FloatArray  # (n_joints,)
    selection_B: FloatArray
    validation_C: FloatArray
    predicted_C: FloatArray  # (n_samples, n_joints), N m


@dataclass(frozen=True, eq=False, slots=True)
class Beyond:
    """What was tried on one motion of trajectories A, B and C."""

    linear: Outcome
    consistent: Outcome
    friction: tuple[Outcome, ...]
    consistency_loss: float  # of the weighted residual on A

    @property
    def chosen(self) -> Outcome:
        """Choose the friction model with the smallest error on B."""
        return min(self.friction, key=lambda outcome: float(outcome.selection_B.mean()))


def harmonic(recordings: Recordings) -> Beyond:
    """Fit on the paper's motion: five harmonics."""
    return beyond(recordings.robot, [recordings.samples[run] for run in TRAJECTORIES])


def vibrating(recordings: Recordings) -> Beyond:
    """Fit on the mean positions up to the cut-off: five harmonics take structural vibration for noise."""
    return beyond(recordings.robot, [low_passed(recordings, run, CUTOFF_HZ) for run in TRAJECTORIES])


def beyond(robot: Robot, runs: Sequence[Samples]) -> Beyond:
    """Fit all models to the first run, choose by the second, report on the third."""
    linear = [declared_equations(robot, [run]) for run in runs]
    consistent, loss = fit_consistent(robot, runs)
    return Beyond(
        linear=outcome("least squares", linear, joint_scaled(linear[0])),
        consistent=consistent,
        friction=tuple(fit_friction(robot, runs, features, width) for width in SIGN_WIDTHS for features in FEATURES),
        consistency_loss=loss,
    )


def fit_friction(robot: Robot, runs: Sequence[Samples], features: Sequence[str], width: float) -> Outcome:
    """Fit one friction model."""
    equations = extended_equations(with_friction(robot, features, width), robot, runs)
    name = f"{' + '.join(features) or 'plain'}, sign width {width:g} rad/s"
    return outcome(name, equations, joint_scaled(equations[0]))


def fit_consistent(robot: Robot, runs: Sequence[Samples]) -> tuple[Outcome, float]:
    """Fit physically consistent standard parameters, the payload's mass known; also tell what consistency costs."""
    from excitor.identify.consistent import Bounds, consistent_fit, standard_columns

    columns = standard_columns(robot)
    equations = [dynamic_regression(robot, [run], columns=columns) for run in runs]
    last = f"M{layout(robot).n_links}"
    scale = {(j, 0): float(size) for j, size in enumerate(joint_torques(equations[0]))}
    bounds = Bounds(values={last: (PAYLOAD_KG, float("inf"))})
    fit = consistent_fit(compress(equations[0]), robot, bounds=bounds, sigma=scale)
    return outcome("physically consistent", equations, fit.chi[columns]), fit.loss


def joint_scaled(equations: Regression) -> FloatArray:
    """Fit by least squares, each joint's rows divided by its mean absolute torque."""
    return ols(compress(equations, 1.0 / joint_torques(equations)[equations.joint])).values


def joint_torques(equations: Regression) -> FloatArray:
    """Mean absolute torque of each joint, (n_joints,)."""
    return np.asarray(np.bincount(equations.joint, np.abs(equations.y)) / np.bincount(equations.joint))


def outcome(model: str, equations: Sequence[Regression], theta: FloatArray) -> Outcome:
    """Evaluate a model fitted on A on all three trajectories."""
    A, B, C = (absolute_errors(each, theta)[1] for each in equations)
    return Outcome(model, len(theta), A, B, C, predicted(equations[2], theta))


def predicted(equations: Regression, theta: FloatArray) -> FloatArray:
    """Torques W θ of one run as a table, (n_samples, n_joints)."""
    tau = np.empty((int(equations.sample.max()) + 1, len(equations.joint_names)))
    tau[equations.sample, equations.joint] = equations.W @ theta
    return tau


def with_friction(robot: Robot, features: Sequence[str], sign_width: float) -> Robot:
    """Give a robot further friction terms at each joint, and another width of its smoothed sign."""
    smoothed = [
        replace(term, width=sign_width if term.model == "coulomb" else term.width) for term in robot.drive.friction
    ]
    drive = replace(robot.drive, friction=(*smoothed, *_terms(robot.n_joints, features, sign_width)))
    old, new = layout(robot), layout_of(robot.mechanism.n_links, robot.mechanism.prismatic, drive)
    place = new.indices(old.names)
    chi, known, zero = np.zeros(len(new)), np.zeros(len(new), dtype=bool), np.zeros(len(new), dtype=bool)
    chi[place], known[place], zero[place] = robot.chi, robot.known, robot.assumed_zero
    return replace(robot, drive=drive, chi=chi, known=known, assumed_zero=zero, declared_base=None)


def _terms(n_joints: int, features: Sequence[str], width: float) -> list[FrictionTerm]:
    terms = []
    for j, axis in enumerate(np.eye(n_joints)):
        name = f"{j + 1}"
        if "sqrt" in features:
            terms.append(FrictionTerm(f"Fs{name}", "sqrt", axis, axis, width=width))
        if "maxwell-slip" in features:
            terms += [
                FrictionTerm(f"Fm{name} {slip:g}", "maxwell-slip", axis, axis, scale=slip, warm_up=1) for slip in SLIPS
            ]
        if "ripple" in features and j in RIPPLE_JOINTS:
            waves: tuple[FrictionModel, ...] = ("ripple-sin", "ripple-cos")
            terms += [FrictionTerm(f"{w} {n:g} {name}", w, axis, axis, scale=n) for n in RIPPLES for w in waves]
    return terms


def extended_equations(robot: Robot, plain: Robot, runs: Sequence[Samples]) -> list[Regression]:
    """Regress on the plain robot's base columns and all added ones.

    Random states, by which base parameters are found, saturate every Maxwell-slip state: they cannot tell two apart.
    """
    before, after = layout(plain), layout(robot)
    base = [before.names[k] for k in base_parameters(plain).kept]
    columns = after.indices([*base, *(name for name in after.names if name not in before.names)])
    return [dynamic_regression(robot, [run], columns=columns) for run in runs]
