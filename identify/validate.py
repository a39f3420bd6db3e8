"""Does a model predict torques that it was not fitted to? Errors per joint, beside what no identification would give.

All errors are of joint torques. Held-out figures and training figures never carry the same name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from excitor.identify.estimate import Estimate
from excitor.identify.regression import Decimation, Regression
from excitor.identify.samples import Samples
from excitor.identify.whiteness import Whiteness, whiteness
from excitor.robots.arrays import FloatArray, IntArray, check_shape, freeze
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot, posture

VELOCITY_BINS = 10


@dataclass(frozen=True, eq=False, slots=True)
class Errors:
    """How far predicted torques are from measured ones, by joint; inf where a joint's measured torques are all 0."""

    relative: FloatArray  # (n_joints,): ‖τ - τ̂‖ / ‖τ‖
    relative_total: float  # the same over all joints together
    mean_absolute: FloatArray  # (n_joints,): mean |τ - τ̂| / mean |τ|
    mean_absolute_mean: float  # mean of those over the joints
    rmse: FloatArray  # (n_joints,), N m or N

    def __post_init__(self) -> None:
        freeze(self, finite=False, relative="n_joints", mean_absolute="n_joints", rmse="n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class VelocityTable:
    """One joint's residuals sorted by velocity: a trend here is friction that the model does not have."""

    joint: str
    velocity: FloatArray  # (n_bins,), mean of the bin
    n_rows: IntArray  # (n_bins,)
    mean: FloatArray  # (n_bins,), of the residuals
    rms: FloatArray  # (n_bins,)

    def __post_init__(self) -> None:
        freeze(self, velocity="n_bins", n_rows="int: n_bins", mean="n_bins", rms="n_bins")


@dataclass(frozen=True, eq=False, slots=True)
class Baselines:
    """What is known without identification, on the rows of one regression: (n_rows,) each."""

    velocity: FloatArray  # of the row's joint
    zero: FloatArray  # torques predicted: none
    gravity: FloatArray  # gravity alone, of the model under test
    prior: FloatArray  # of the robot's prior model

    def __post_init__(self) -> None:
        freeze(self, velocity="n_rows", zero="n_rows", gravity="n_rows", prior="n_rows")


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
        """Say what kind of figures these are."""
        return "training error" if self.training else "held-out error"

    @property
    def figures(self) -> dict[str, float]:
        """Name the model's and the baselines' total figures; those of training data are called so."""
        kind = "training" if self.training else "held_out"
        rows = {"": self.model, **{f".{name.replace(' ', '_')}": errors for name, errors in self.baselines.items()}}
        return {
            f"{kind}_{figure}{name}": value
            for name, errors in rows.items()
            for figure, value in (
                ("relative_error", errors.relative_total),
                ("mean_absolute_error", errors.mean_absolute_mean),
            )
        }


def validate(
    regression: Regression,
    model: Estimate | FloatArray,
    *,
    baselines: Baselines,
    trained_on: Sequence[str],
    training: bool = False,
) -> Validation:
    """Compare measured torques with those a model predicts for the same rows.

    `model` is an estimate of the regression's parameters, or predicted torques (n_rows,) such as `predict` gives.
    `trained_on` names the runs that the model was fitted to: they are refused unless `training` says that it is meant.
    """
    _check_held_out(regression, trained_on, training)
    y = regression.y
    predicted = estimated_torques(regression, model) if isinstance(model, Estimate) else np.asarray(model, dtype=float)
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


def estimated_torques(regression: Regression, estimate: Estimate) -> FloatArray:
    """Predict W β on every row, (n_rows,); parameters that the estimate left out are 0."""
    absent = [name for name in estimate.names if name not in regression.names]
    if absent:
        raise ValueError(
            f"the regression has no columns for {', '.join(absent)}, which were estimated; "
            "set it up with the columns, and the combination, that the estimate was made with"
        )
    return np.asarray(regression.W @ np.array([estimate.value(name) for name in regression.names]))


def standard_parameters(robot: Robot, estimate: Estimate) -> FloatArray:
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
    """Predict torques as one could without identification, on a regression's rows.

    chi is the model under test, whose gravity stands alone in one of them; `standard_parameters` gives it for an
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
    """Say how each run is thinned: static poses are not."""
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
    known = [name for name in regression.runs if name in trained_on]
    if known and not training:
        raise ValueError(
            f"the model was fitted to {', '.join(known)}, so its error there says nothing about prediction; validate "
            "on other runs, or ask for the training error with training=True"
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
