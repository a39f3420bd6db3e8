"""What does a model rest on? Its runs: measured torques beside those that it predicts, part by part."""

from dataclasses import dataclass

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import Role
from excitor.experiments.identification import Identified, equations, thinner
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.identify.validate import Validation, estimated_torques, standard_parameters, thinning
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import friction_load, friction_only, rotor_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import drive_columns
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot, posture

PARTS = ("inertia", "Coriolis and centrifugal", "gravity", "friction", "rotors")


@dataclass(frozen=True, eq=False)
class SeenRun:
    """One run as the equations saw it: thinned where they are, slow joints not left out."""

    role: Role
    log: str
    samples: Samples
    time: FloatArray  # (n,), s since the log began; of static poses their number
    measured: FloatArray  # (n, n_joints)
    parts: dict[str, FloatArray]  # of the predicted torque, (n, n_joints) each
    alignment: Alignment | None = None  # with the plan of its program, where it is one's

    @property
    def predicted(self) -> FloatArray:
        """Predicted torque, (n, n_joints)."""
        return np.asarray(sum(self.parts.values()))

    @property
    def residual(self) -> FloatArray:
        """Measured less predicted torque, (n, n_joints)."""
        return self.measured - self.predicted


@dataclass(frozen=True, eq=False)
class Judged:
    """A validation with the equations that it is of, and what the model leaves of them."""

    validation: Validation
    regression: Regression
    residual: FloatArray  # (n_rows,)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a report is made of."""

    identified: Identified
    runs: tuple[SeenRun, ...]
    training: Judged
    held_out: Judged | None

    @property
    def robot(self) -> Robot:
        """The robot, with the joints locked that stood still."""
        return self.identified.campaign.robot

    @property
    def shown(self) -> SeenRun:
        """The run that shows most: one the model has not seen, if there is one that moves."""
        order = sorted(self.runs, key=lambda run: (run.samples.static, run.role != "validate"))
        return order[0]


def gather(identified: Identified) -> Evidence:
    """Predict the torques of all runs."""
    campaign = identified.campaign
    chi = standard_parameters(campaign.robot, identified.estimate)
    runs = []
    for run in campaign.content.run:
        samples = identified.samples[run.name]
        thin = thinning([samples], thinner(campaign))[0] or (lambda x: x)
        parts = {name: thin(tau) for name, tau in torque_split(campaign.robot, samples.motion, chi).items()}
        measured = thin(samples.tau)
        time = _time(samples, len(samples) / len(measured))
        alignment = identified.alignments.get(run.name)
        runs.append(SeenRun(run.role, run.log, samples, time[: len(measured)], measured, parts, alignment))
    known = [run.samples for run in runs if run.role == "identify"]
    unseen = [run.samples for run in runs if run.role == "validate"]
    held_out = identified.held_out
    return Evidence(
        identified=identified,
        runs=tuple(runs),
        training=_judged(identified, identified.training, known),
        held_out=None if held_out is None else _judged(identified, held_out, unseen),
    )


def torque_split(robot: Robot, motion: Motion, chi: FloatArray) -> dict[str, FloatArray]:
    """Split a motion's torques by their cause, (n_samples, n_joints) each: they add up to τ = Y χ.

    Of a motion without velocities and one without accelerations, gravity taken off. A rotor's inertia that regroups
    with a link's counts as inertia.
    """
    params, mechanism = layout(robot), robot.mechanism
    phi = np.ascontiguousarray(chi[: params.n_link_params]).reshape(-1, 10)
    still = np.zeros_like(motion.q)
    gravity = mechanism.inverse_dynamics(posture(motion.q), phi)
    columns = np.empty((len(params) - params.n_link_params, robot.n_joints, len(motion)))
    if len(columns):
        drive_columns(robot, motion, friction_load(robot, motion), columns)
    friction = friction_only(robot, chi)[params.n_link_params :]
    torques = (
        mechanism.inverse_dynamics(Motion(motion.q, still, motion.ddq), phi) - gravity,
        mechanism.inverse_dynamics(Motion(motion.q, motion.dq, still), phi) - gravity,
        gravity,
        np.tensordot(columns, friction, axes=(0, 0)).T,
        motion.ddq @ rotor_matrix(robot, chi).T,
    )
    return dict(zip(PARTS, torques, strict=True))


def _judged(identified: Identified, validation: Validation, runs: list[Samples]) -> Judged:
    regression = equations(identified.campaign, runs, judging=True)
    if len(regression) != validation.n_rows:
        raise ExcitorError(
            f"{', '.join(validation.runs)}: the logs give {len(regression)} equations, but gave {validation.n_rows} "
            "when the model was identified; identify it again"
        )
    return Judged(validation, regression, regression.y - estimated_torques(regression, identified.estimate))


def _time(samples: Samples, factor: float) -> FloatArray:
    """Tell the times of thinned samples, s since the log began; of poses their numbers from 1."""
    if samples.static:
        return np.arange(1.0, len(samples) + 1.0)
    began = next((step.settings.get("from_s", 0.0) for step in samples.steps if step.name == "cut"), 0.0)
    return float(began) + np.arange(len(samples)) * round(factor) / samples.sample_rate_hz
