"""Validation: torque prediction errors per joint on held-out runs, beside baselines without identification.

All errors are of joint torques. Held-out figures and training figures never carry the same name.

Models are also simulated: in open loop under the recorded torques, compared with measured positions, and in closed loop
under the robot's own servo, compared in torques and positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from excitor.identify.closed_loop import OutOfControl, set_up_replay, simulate_runs
from excitor.identify.intervals import Whiteness, whiteness
from excitor.identify.regression import Decimation, Regression, Rows
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, check_shape, freeze, shaped
from excitor.robots.base import random_positions
from excitor.robots.dynamics import inverse_dynamics, mass_matrix, rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import WIDTH, Method, Servo, integrate_held

VELOCITY_BINS = 10
POSES = 400  # random ones in which the mass matrix is looked at, besides those of the runs
_NO_RETURN = 1e-6  # of a joint's torques: less gravity than this leads it nowhere back
HOW: dict[Method, str] = {
    "rk4": "Runge and Kutta's fixed steps",
    "rk45": "Runge and Kutta's pair of orders 4 and 5, restarted at every sample",
    "events": "steps from event to event, joints sticking where their dry friction holds them",
}


class Parameters(Protocol):
    """Named values, as an estimate or a model has them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Name the parameters."""

    @property
    def values(self) -> FloatArray:
        """Take their values, (n_names,)."""


@dataclass(frozen=True, eq=False, slots=True)
@shaped(finite=False, relative="n_joints", mean_absolute="n_joints", rmse="n_joints")
class Errors:
    """Errors of predicted against measured torques, by joint; relative ones inf where measured torques are all 0."""

    relative: FloatArray  # (n_joints,): ‖τ - τ̂‖ / ‖τ‖
    relative_total: float  # the same over all joints together
    mean_absolute: FloatArray  # (n_joints,): mean |τ - τ̂| / mean |τ|
    mean_absolute_mean: float  # mean of those over the joints
    rmse: FloatArray  # (n_joints,), N m or N


@dataclass(frozen=True, eq=False, slots=True)
@shaped(velocity="n_bins", n_rows="int: n_bins", mean="n_bins", rms="n_bins")
class VelocityTable:
    """One joint's residuals sorted by velocity: a trend here is friction that the model does not have."""

    joint: str
    velocity: FloatArray  # (n_bins,), mean of the bin
    n_rows: IntArray  # (n_bins,)
    mean: FloatArray  # (n_bins,), of the residuals
    rms: FloatArray  # (n_bins,)


@dataclass(frozen=True, eq=False, slots=True)
@shaped(velocity="n_rows", zero="n_rows", gravity="n_rows", prior="n_rows")
class Baselines:
    """Torques predicted without identification, on the rows of one regression: (n_rows,) each."""

    velocity: FloatArray  # of the row's joint
    zero: FloatArray  # torques predicted: none
    gravity: FloatArray  # gravity alone, of the model under test
    prior: FloatArray  # of the robot's prior model


@dataclass(frozen=True, eq=False, slots=True)
class Validation:
    """A model's torque errors on some runs, beside the baselines' on the same rows."""

    joints: tuple[str, ...]  # those that have rows
    runs: tuple[str, ...]
    training: bool  # the model was fitted to these runs: nothing here says how well it predicts
    n_rows: int
    model: Errors
    baselines: Mapping[str, Errors]  # "zero", "gravity only", "prior model"
    whiteness: tuple[Whiteness, ...]  # of the model's residuals
    by_velocity: tuple[VelocityTable, ...]

    @property
    def label(self) -> str:
        """Kind of the figures."""
        return "training error" if self.training else "held-out error"

    @property
    def figures(self) -> dict[str, float]:
        """Name the model's and the baselines' total figures; those of training data are called so."""
        kind = "training" if self.training else "held_out"
        rows = {"": self.model, **{f".{name.replace(' ', '_')}": errors for name, errors in self.baselines.items()}}
        fields = {"relative_error": "relative_total", "mean_absolute_error": "mean_absolute_mean"}
        return {
            f"{kind}_{figure}{name}": getattr(errors, field)
            for name, errors in rows.items()
            for figure, field in fields.items()
        }


def validate(
    regression: Regression,
    model: Parameters | FloatArray,
    *,
    baselines: Baselines,
    trained_on: Sequence[str],
    training: bool = False,
) -> Validation:
    """Compare measured torques with those a model predicts for the same rows.

    `model` is an estimate of the regression's parameters, or predicted torques (n_rows,) such as `predict` gives.
    `trained_on` names the runs that the model was fitted to: they are refused unless `training` is set.
    """
    _check_held_out(regression, trained_on, training)
    y = regression.y
    predicted = (
        np.asarray(model, dtype=float) if isinstance(model, np.ndarray) else estimated_torques(regression, model)
    )
    check_shape(predicted, "n_rows", "model", {"n_rows": len(y)})
    check_shape(baselines.zero, "n_rows", "baselines", {"n_rows": len(y)})
    others = {"zero": baselines.zero, "gravity only": baselines.gravity, "prior model": baselines.prior}
    present = np.unique(regression.joint)
    return Validation(
        joints=tuple(regression.joint_names[j] for j in present),
        runs=regression.runs,
        training=training,
        n_rows=len(y),
        model=torque_errors(regression, predicted),
        baselines={name: torque_errors(regression, torques) for name, torques in others.items()},
        whiteness=whiteness(regression, y - predicted),
        by_velocity=tuple(_velocity_table(regression, y - predicted, baselines.velocity, int(j)) for j in present),
    )


def torque_errors(regression: Regression, predicted: FloatArray) -> Errors:
    """Measure errors of predicted torques (n_rows,), joint by joint."""
    residual, y = regression.y - predicted, regression.y
    rows = [regression.joint == j for j in np.unique(regression.joint)]
    absolute = np.array([_ratio(np.abs(residual[r]).mean(), np.abs(y[r]).mean()) for r in rows])
    return Errors(
        relative=np.array([_ratio(np.linalg.norm(residual[r]), np.linalg.norm(y[r])) for r in rows]),
        relative_total=_ratio(np.linalg.norm(residual), np.linalg.norm(y)),
        mean_absolute=absolute,
        mean_absolute_mean=float(absolute.mean()),
        rmse=np.array([np.sqrt(np.mean(residual[r] ** 2)) for r in rows]),
    )


def estimated_torques(regression: Regression, estimate: Parameters) -> FloatArray:
    """Predict W β on every row, (n_rows,); parameters that the estimate left out are 0."""
    absent = [name for name in estimate.names if name not in regression.names]
    if absent:
        raise ValueError(
            f"the regression has no columns for {', '.join(absent)}, which were estimated; "
            "set it up with the columns, and the combination, that the estimate was made with"
        )
    values = dict(zip(estimate.names, estimate.values, strict=True))
    return np.asarray(regression.W @ np.array([values.get(name, 0.0) for name in regression.names]))


def standard_parameters(robot: Robot, estimate: Parameters) -> FloatArray:
    """Write an estimate as chi (n_params,) that gives the same torques: 0 for what regrouped or was left out."""
    params = layout(robot)
    chi = np.zeros(len(params))
    chi[params.indices(estimate.names)] = estimate.values
    return chi


def predict(
    robot: Robot,
    runs: Sequence[Samples],
    *,
    chi: FloatArray | None,
    regression: Regression,
    decimate: Decimation | None = None,
) -> FloatArray:
    """Predict torques of a full model, the prior where chi is None, on a regression's rows, (n_rows,)."""
    _check_rows(regression, runs, decimate)
    return on_rows(regression, [inverse_dynamics(robot, run.motion, chi) for run in runs], thinning(runs, decimate))


def set_baselines(
    robot: Robot,
    runs: Sequence[Samples],
    *,
    chi: FloatArray,
    regression: Regression,
    decimate: Decimation | None = None,
) -> Baselines:
    """Predict torques without identification, on a regression's rows.

    chi is the model under test, whose gravity torques alone are one of them; `standard_parameters` gives it for an
    estimate. `decimate` is what the regression was thinned with.
    """
    _check_rows(regression, runs, decimate)
    thins = thinning(runs, decimate)
    gravity = [rigid_torque(robot, posture(run.motion.q), chi) for run in runs]
    return Baselines(
        velocity=on_rows(regression, [run.motion.dq for run in runs], thins),
        zero=np.zeros(len(regression)),
        gravity=on_rows(regression, gravity, thins),
        prior=on_rows(regression, [inverse_dynamics(robot, run.motion) for run in runs], thins),
    )


def thinning(runs: Sequence[Samples], decimate: Decimation | None) -> list[Decimation | None]:
    """Return each run's decimation: static poses have none."""
    return [None if run.static else decimate for run in runs]


def on_rows(regression: Regression, arrays: Sequence[FloatArray], thins: Sequence[Decimation | None]) -> FloatArray:
    """Pick from arrays (n_samples, n_joints), one a run, the entries that belong to a regression's rows, (n_rows,)."""
    out = np.empty(len(regression))
    for number, (array, decimate) in enumerate(zip(arrays, thins, strict=True)):
        rows = regression.run == number
        thinned = array if decimate is None else decimate(array)
        out[rows] = thinned[regression.sample[rows], regression.joint[rows]]
    return out


def _check_held_out(regression: Regression, trained_on: Sequence[str], training: bool) -> None:
    if regression.kind != "dynamic":
        raise ValueError(
            f"the regression is of {regression.kind}, but validation is of joint torques; set up dynamic_regression "
            "on the same runs and validate the estimate there"
        )
    repeated = [name for name in regression.runs if name in trained_on]
    if repeated and not training:
        raise ValueError(
            f"the model was fitted to {', '.join(repeated)}, so its error there says nothing about prediction; "
            "validate on other runs, or pass training=True to excitor.identify.validate.validate"
        )
    new = [name for name in regression.runs if name not in trained_on]
    if new and training:
        raise ValueError(
            f"training=True, but the model was not fitted to {', '.join(new)}; keep held-out and training runs apart"
        )


def _check_rows(regression: Regression, runs: Sequence[Samples], decimate: Decimation | None) -> None:
    names = tuple(run.run for run in runs)
    if names != regression.runs:
        raise ValueError(f"runs are {', '.join(names)}, but the regression is of {', '.join(regression.runs)}")
    thins = thinning(runs, decimate)
    thinned = [len(r) if thin is None else len(thin(r.tau[:, :1])) for r, thin in zip(runs, thins, strict=True)]
    beyond = any(
        rows.any() and regression.sample[rows].max() >= n
        for number, n in enumerate(thinned)
        for rows in [regression.run == number]
    )
    if beyond or not np.allclose(on_rows(regression, [run.tau for run in runs], thins), regression.y, rtol=1e-9):
        raise ValueError(
            "torques of the runs are not those of the regression's rows; give the decimation that the regression was "
            "set up with"
        )


def _velocity_table(
    regression: Regression, residual: FloatArray, velocity: FloatArray, joint: int, n_bins: int = VELOCITY_BINS
) -> VelocityTable:
    rows = regression.joint == joint
    v, r = velocity[rows], residual[rows]
    edge = np.abs(v).max()
    edges = np.linspace(-edge, edge, n_bins + 1)
    place = np.clip(np.searchsorted(edges, v, side="right") - 1, 0, n_bins - 1)
    bins = [place == k for k in range(n_bins) if (place == k).any()]
    return VelocityTable(
        joint=regression.joint_names[joint],
        velocity=np.array([v[b].mean() for b in bins]),
        n_rows=np.array([np.count_nonzero(b) for b in bins]),
        mean=np.array([r[b].mean() for b in bins]),
        rms=np.array([np.sqrt(np.mean(r[b] ** 2)) for b in bins]),
    )


def _ratio(part: float | np.floating[Any], whole: float | np.floating[Any]) -> float:
    return float(part / whole) if whole > 0.0 else float("inf")


@dataclass(frozen=True, eq=False, slots=True)
@shaped(finite=False, norm="n_joints", rms="n_joints", first_rms="n_joints", q="n_samples n_joints")
class OpenLoopRun:
    """One run simulated under its own torques; errors are inf where the simulation diverged before."""

    run: str
    n_samples: int
    sample_rate_hz: float
    norm: FloatArray  # (n_joints,): 2-norm of simulated minus measured positions, rad or m; grows with n_samples
    rms: FloatArray  # (n_joints,)
    first_rms: FloatArray  # (n_joints,): of the first first_s seconds
    diverged_at: float  # s; inf where it did not
    q: FloatArray  # (n_samples, n_joints), simulated


@dataclass(frozen=True, eq=False, slots=True)
class OpenLoop:
    """Open-loop simulations of a model on some runs, or the reason why there are none."""

    robot: str
    joint_names: tuple[str, ...]
    method: Method
    width: float  # rad/s or m/s, over which signs of friction are smoothed; 0 with events
    first_s: float
    runs: tuple[OpenLoopRun, ...]  # none where the model cannot be simulated
    lightest: float  # smallest eigenvalue of the mass matrices looked at
    no_return: tuple[str, ...]  # joints that nothing leads back
    refused: str  # why nothing was simulated; empty where it was
    doubts: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """Return sentences about what was simulated, which figures may be compared, and failures."""
        if self.refused:
            return (self.refused, *self.doubts)
        texts = [
            f"The model was integrated from the measured initial state under the recorded torques, each held until the "
            f"next, by {HOW[self.method]}"
            + (f"; signs of friction are smoothed over {self.width:g} rad/s or m/s." if self.width else "."),
            f"Its mass matrix is positive definite in every pose checked (smallest eigenvalue {self.lightest:.3g}).",
            "A 2-norm grows with the number of samples ("
            + ", ".join(f"{run.run}: {run.n_samples}" for run in self.runs)
            + "), an rms does not: compare methods on one run, not digits of different runs.",
        ]
        if self.no_return:
            texts.append(
                f"Nothing leads {', '.join(self.no_return)} back: there a small bias integrates without bound, and the "
                "error says more about the run's length than about the model."
            )
        for run in self.runs:
            if run.diverged_at < np.inf:
                texts.append(
                    f"In run {run.run!r} the simulation got lost after {run.diverged_at:.3g} s; "
                    f"its errors are infinite from there on."
                )
        return (*texts, *self.doubts)


def open_loop(
    robot: Robot,
    chi: FloatArray,
    runs: Sequence[Samples],
    *,
    first_s: float = 1.0,
    width: float = WIDTH,
    method: Method = "rk4",
) -> OpenLoop:
    """Integrate a model (chi (n_params,)) from each run's first sample under its torques, at the raw rate.

    Torques are held for a sample each; `Samples.phase` is where in its interval a sample's motion is (0: torque k
    is held from the motion's sample k to the next). A model that cannot be simulated is reported, not raised.
    """
    if not runs:
        raise ExcitorError("there are no runs to simulate; give at least one")
    chi = np.array(chi, dtype=float)
    lightest = smallest_inertia(robot, chi, runs)
    doubts, refused, done = friction_doubts(robot, chi), "", []
    if not lightest > 0.0:
        refused = (
            f"{robot.name}: the model was not simulated, because its mass matrix is not positive definite (smallest "
            f"eigenvalue {lightest:.3g}); estimate physically consistent parameters"
        )
    else:
        try:
            done = [_run(robot, chi, run, first_s, width, method) for run in runs]
        except ExcitorError as why:
            refused = f"{robot.name}: the model was not simulated: {why}"
    return OpenLoop(
        robot=robot.name,
        joint_names=robot.joint_names,
        method=method,
        width=0.0 if method == "events" else width,
        first_s=first_s,
        runs=tuple(done),
        lightest=lightest,
        no_return=_without_return(robot, chi, runs),
        refused=refused,
        doubts=doubts,
    )


def smallest_inertia(robot: Robot, chi: FloatArray, runs: Sequence[Samples]) -> float:
    """Find the smallest eigenvalue of the mass matrix along the runs and in random poses within the joint limits."""
    poses = [random_positions(robot, POSES, {}, np.random.default_rng(0))]
    poses += [run.motion.q[:: max(1, len(run) // POSES)] for run in runs]
    M = mass_matrix(robot, np.concatenate(poses), chi)
    return float(np.linalg.eigvalsh(0.5 * (M + M.swapaxes(1, 2))).min())


def friction_doubts(robot: Robot, chi: FloatArray) -> tuple[str, ...]:
    """Name friction that would drive the robot instead of braking it."""
    names = []
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        brakes = friction_model(term).sign == "positive"
        if brakes and np.array_equal(term.senses, term.acts) and chi[column] < 0.0 and term.parameter not in names:
            names.append(term.parameter)
    if not names:
        return ()
    spelled = ", ".join(f"{name} = {chi[layout(robot).index(name)]:.3g}" for name in names)
    return (f"Friction that drives instead of braking cannot be right: {spelled}.",)


def _run(robot: Robot, chi: FloatArray, run: Samples, first_s: float, width: float, method: Method) -> OpenLoopRun:
    if run.static:
        raise ExcitorError(f"run {run.run!r} holds poses; there is no motion to simulate")
    tau, parts = _torques_after(run)
    start, rate = (run.motion.q[0], run.motion.dq[0]), parts * run.sample_rate_hz
    done = integrate_held(robot, tau, start=start, rate_hz=rate, chi=chi, method=method, width=width)
    q = done.motion.q[::parts]
    error = q - run.motion.q
    first = error[: max(1, min(len(error), round(first_s * run.sample_rate_hz)))]
    size = np.full(robot.n_joints, np.inf)
    return OpenLoopRun(
        run=run.run,
        n_samples=len(run),
        sample_rate_hz=run.sample_rate_hz,
        norm=size if done.diverged else np.linalg.norm(error, axis=0),
        rms=size if done.diverged else np.sqrt(np.mean(error**2, axis=0)),
        first_rms=size if done.diverged_at < first_s else np.sqrt(np.mean(first**2, axis=0)),
        diverged_at=done.diverged_at,
        q=q,
    )


def _torques_after(run: Samples) -> tuple[FloatArray, int]:
    """List the torques from the first sample's motion on, in equal parts of a sample, and count the parts."""
    parts = {0.0: 1, 0.5: 2, 1.0: 1}.get(run.phase, 20)
    at = np.floor(run.phase + (np.arange(parts * (len(run) - 1) + 1) + 0.5) / parts).astype(np.int64)
    return run.tau[np.minimum(at, len(run) - 1)], parts


def _without_return(robot: Robot, chi: FloatArray, runs: Sequence[Samples]) -> tuple[str, ...]:
    """Name joints that carry no gravity along any run."""
    least: BoolArray = np.ones(robot.n_joints, dtype=bool)
    for run in runs:
        held = np.abs(rigid_torque(robot, posture(run.motion.q[:: max(1, len(run) // POSES)]), chi)).max(axis=0)
        least &= held <= _NO_RETURN * np.maximum(np.abs(run.tau).max(axis=0), 1e-300)
    return tuple(name for name, free in zip(robot.joint_names, least, strict=True) if free)


@dataclass(frozen=True, eq=False, slots=True)
class ClosedLoopRun:
    """One run simulated in closed loop, beside what was measured."""

    run: str
    torque: FloatArray  # (n_joints,): ‖τ - τ_s‖ / ‖τ‖; inf where a joint's measured torques are 0
    position_rms: FloatArray  # (n_joints,), rad or m
    q: FloatArray  # (n_samples, n_joints), simulated
    tau: FloatArray

    def __post_init__(self) -> None:
        freeze(self, finite=False, torque="n_joints", position_rms="n_joints")
        freeze(self, q="n_samples n_joints", tau="n_samples n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class ClosedLoopCheck:
    """Closed-loop simulations of a model, or the reason why there are none."""

    runs: tuple[ClosedLoopRun, ...]
    assumed: tuple[str, ...]  # runs whose measured motion stood in for an unknown reference
    refused: str

    def sentences(self) -> tuple[str, ...]:
        """Return sentences about what was simulated and what may be concluded."""
        if self.refused:
            return (f"The model was not simulated to the end: {self.refused}.",)
        text = "The model was simulated under the robot's servo; feedback hides in the motion what torques then show."
        led = f"The reference of {', '.join(self.assumed)} is not known: the measured motion led the servo."
        return (text, led) if self.assumed else (text,)


def closed_loop(
    robot: Robot,
    chi: FloatArray,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    rows: Rows | None = None,
) -> ClosedLoopCheck:
    """Simulate a model (chi (n_params,)) along each run's reference and compare torques and positions.

    Measured and simulated torques are decimated with `rows.decimate`, which reduces measurement noise.
    """
    columns = np.zeros(1, dtype=np.int64)
    replay = set_up_replay(robot, runs, servo, references=references, columns=columns)
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return ClosedLoopCheck((), replay.assumed, simulated.sentence)
    thin = (rows or Rows()).decimate or (lambda x: x)
    done = []
    for run, followed, stride in zip(replay.runs, simulated, replay.strides, strict=True):
        at = slice(None, stride * len(run), stride)
        q, tau = followed.motion.q[at], followed.tau[at]
        size, apart = np.linalg.norm(thin(run.tau), axis=0), np.linalg.norm(thin(run.tau - tau), axis=0)
        torque = np.where(size > 0.0, apart / np.where(size > 0.0, size, 1.0), np.inf)
        position_rms = np.sqrt(np.mean((q - run.motion.q) ** 2, axis=0))
        done.append(ClosedLoopRun(run=run.run, torque=torque, position_rms=position_rms, q=q, tau=tau))
    return ClosedLoopCheck(tuple(done), replay.assumed, "")
