"""All estimators behind one interface, from least squares to closed-loop simulation: one problem, one form of answer.

Least squares are plain, weighted, robust, with a prior, or recursive; further methods simulate the robot under its
controller (instrumental variables, DIDIM, input error), account for noisy motion or coloured errors (total least
squares, maximum likelihood), or fit other equations of the same runs (filtered momentum, energy and power).
"""

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

import numpy as np
import scipy.linalg

from excitor.identify.closed_loop import (
    DidimResult,
    OutOfControl,
    Replay,
    Sensitivity,
    didim,
    input_error,
    replay_runs,
    require_simulated,
    set_up_replay,
    simulate_runs,
)
from excitor.identify.estimate import (
    By,
    Estimate,
    Factors,
    compress,
    irls,
    merge,
    ols,
    residual_norms,
    ridge,
    rows_of_groups,
    select,
    total,
    triangle,
    wls,
)
from excitor.identify.instruments import InstrumentalFit, Instruments, durbin_wu_hausman, instrumental_variables
from excitor.identify.intervals import (
    Intervals,
    believing,
    estimate_of,
    honest_intervals,
    influence,
    joint_sigma,
    require_rank,
)
from excitor.identify.noise import maximum_likelihood, mixed_total_least_squares
from excitor.identify.recursive import Recursion, rls
from excitor.identify.reduce import Reduction, Rule, backward_selection, by_repetitions, essential, in_process
from excitor.identify.regression import (
    Regression,
    Rows,
    columns_along,
    commanded_motion,
    dynamic_regression,
    pick_rows,
    processed_as,
    segments,
)
from excitor.identify.samples import Samples, pick_samples
from excitor.identify.schemes import Scheme, SchemeKind, scheme_regression
from excitor.identify.validate import closed_loop, open_loop, standard_parameters
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError, RankDeficient, choice
from excitor.robots.files.toml import robot_from_data
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout, prior
from excitor.robots.plugins import Members
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import Servo, TrackedMotion

FOLDS = 5  # stretches of time of every run
WEIGHTS = np.logspace(-4.0, 4.0, 17)  # of the prior against rows divided by their deviation
LEAST_SIZE = 1e-3  # of what a parameter would be if it made all torque: a prior is never believed more closely
VARIANCE = 1e8  # of P0, in units of each parameter's own size squared: nothing is known
SEGMENTS = 8  # of each run, for the test: long beside the time over which errors are alike
FAR = 0.5  # of a joint's velocities: a simulation that is farther off shakes or lags, and tells nothing
MOST_STEPS = 150_000  # control steps that one Jacobian of input error simulates
REFERENCE = "the reference is not known and the measured motion stands in for it: its slow noise stays in instruments"
CLEAR = 2.0  # times nearer to the torques than to a dependence among columns, at least
DRAWS = 4  # of noise, from which that of the columns is found
SHARE = 0.9  # of the power of velocities that lies below the band
CUTOFFS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the band, tried in simulations
SIMULATED_S = 2.0  # s of a run that those last
_RATE_HZ = 100.0
_NOISE = 0.02  # of each joint's rms torque
_WORST = 0.25  # relative torque error of an estimate on noise-free torques of the same motion
_ARM = {
    "name": "two-joint arm",
    "lengths": {"L2": 0.4},
    "joint": [
        {"name": "shoulder", "mdh": {"alpha_deg": 90, "d": 0, "theta_deg": 0, "r": 0}},
        {"name": "elbow", "mdh": {"alpha_deg": 0, "d": "L2", "theta_deg": 0, "r": 0}},
    ],
    "friction": {"terms": ["viscous", "coulomb"], "sign_width": 0},
    "parameters": (
        {"XX1": 0.1, "YY1": 0.6, "ZZ1": 0.6, "MX1": 1.2, "MY1": 0.1, "M1": 6.0, "Fv1": 1.5, "Fc1": 2.0}
        | {"XX2": 0.05, "YY2": 0.14, "ZZ2": 0.14, "MX2": 0.4, "MY2": 0.05, "M2": 2.0, "Fv2": 0.4, "Fc2": 0.8}
    ),
}


@dataclass(frozen=True, eq=False, slots=True)
class Weighting:
    """How wls weights its rows, and by which of two rules it leaves parameters out, if by any."""

    by: By = "joint"
    essential_ratio: float | None = None  # σ of the least sure parameter over that of the surest, at most
    rule: Rule | None = None  # of a backward selection
    judging: Regression | None = None  # equations that a selection by validation is judged on
    in_process: bool = False  # what the motion does not show leaves before the selection

    def __post_init__(self) -> None:
        if self.essential_ratio is not None and self.rule is not None:
            raise ValueError("Weighting has an essential_ratio and a rule; give one of them")


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """Data common to all methods: runs to fit, selected rows, and their dynamic equations in base parameters.

    `references` are the commanded motions, by run, sampled at the servo's rate (the run's where no servo is
    known), from the run's first sample to its last. `position_noise` is the standard deviation of single encoder
    readings, where it is known.
    """

    robot: Robot
    runs: Sequence[Samples]
    rows: Rows
    regression: Regression
    servo: "Servo | None" = None
    references: Mapping[str, Motion] | None = None
    position_noise: FloatArray | None = None  # (n_joints,), rad or m
    weighting: Weighting = field(default_factory=Weighting)

    def __post_init__(self) -> None:
        if self.position_noise is not None:
            freeze(self, position_noise=str(self.robot.n_joints))


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """Result of one method on a problem; where it refused, only the reason."""

    method: str
    estimate: Estimate | None
    intervals: Intervals | None  # 95 %, not trusting residuals to be white
    refused: str = ""  # a sentence; empty where there is an estimate
    notes: tuple[str, ...] = ()  # sentences: what was assumed or chosen on the way
    evidence: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0
    reduction: Reduction | None = None  # which parameters left the model, where a rule was given
    recursion: Recursion | None = None  # the same equations row after row: of the five schemes, rls is the dynamic one


@dataclass(frozen=True, eq=False, slots=True)
class Method:
    """An estimator: its name, its assumptions in a sentence, and its fit."""

    name: str
    title: str
    fit: Callable[[Problem], Answer]


def ols_answer(problem: Problem) -> Answer:
    """Least squares, every row alike."""
    estimate = ols(compress(problem.regression))
    return Answer("ols", estimate, honest_intervals(problem.regression, estimate, problem.runs))


def wls_answer(problem: Problem) -> Answer:
    """Least squares, rows divided by the deviation of their joint; smaller models where the problem asks for one.

    Intervals are those of the parameters that stayed: that others were judged dispensable is not counted in.
    """
    regression, weighting = problem.regression, problem.weighting
    factors, reduction, weights = compress(regression), None, None
    if weighting.rule is not None:
        reduced = in_process if weighting.in_process else backward_selection
        reduction = reduced(regression, weighting.rule, weighting.judging)
        estimate = wls(select(factors, np.isin(regression.names, reduction.estimate.names)), weighting.by)
        if weighting.rule.weights == "sample":
            estimate, weights = by_repetitions(regression, reduction.estimate)
    elif weighting.essential_ratio is not None:
        estimate = essential(factors, ratio=weighting.essential_ratio, by=weighting.by).estimate
    else:
        estimate = wls(factors, weighting.by)
    intervals = honest_intervals(regression, estimate, problem.runs, row_weights=weights)
    return Answer("wls", estimate, intervals, reduction=reduction)


def irls_answer(problem: Problem) -> Answer:
    """Least squares with Huber's weights."""
    regression = problem.regression
    estimate = irls(regression)
    weights, scale = huber(regression, estimate)
    intervals = honest_intervals(regression, estimate, problem.runs, row_weights=weights / scale)
    lowered = float(np.mean(weights < 1.0))
    note = f"{100 * lowered:.0f} % of the rows count less than fully; of normal errors 18 % would"
    return Answer("irls", estimate, intervals, notes=(note,), evidence={"rows_lowered": lowered})


def ridge_answer(problem: Problem) -> Answer:
    """Ridge regression to the robot's prior model, its weight chosen by prediction of left-out segments of time."""
    regression = problem.regression
    factors = compress(regression)
    sigma = wls_sigma(factors)
    believed, certain = prior_values(problem)
    scale = prior_scale(regression, believed)
    weight, errors = choose_weight(regression, sigma, believed, scale)
    estimate = ridge(factors, weight=weight, prior=believed, scale=scale)
    weights = 1.0 / rows_of_groups(regression, estimate)
    W, residual = regression.W * weights[:, None], weights * (regression.y - regression.W @ estimate.values)
    belief = np.diag(weight / scale**2)
    system = influence(W, W, residual, belief)
    intervals = honest_intervals(regression, estimate, problem.runs, system=system)
    # A⁻¹ √belief is R⁻¹ (Uᵀ R_W⁻ᵀ √belief): Q = Q_W U, so Uᵀ R_W⁻ᵀ = (Wᵀ Q)⁻¹
    lifted = np.linalg.solve(W.T @ system.Q, np.sqrt(belief)) if belief.any() else np.zeros_like(belief)
    half = scipy.linalg.solve_triangular(system.R, lifted)
    intervals = believing(intervals, half @ half.T)
    notes: tuple[str, ...] = (
        f"held to {'the prior model' if certain else 'zero, as the robot states no masses'} within its own size, with "
        f"weight {weight:.2g}: of {len(WEIGHTS)} tried the one that best predicts stretches of the runs left out in "
        "turn",
    )
    if weight == WEIGHTS[0]:
        notes = (*notes, "the least weight predicts best: the data need no prior")
    gained = float(1.0 - min(errors) / errors[0]) if errors[0] > 0.0 else 0.0
    return Answer("ridge", estimate, intervals, notes=notes, evidence={"weight": weight, "gained": gained})


def rls_answer(problem: Problem) -> Answer:
    """Weighted least squares row after row, without forgetting, from a very wide prior."""
    regression = problem.regression
    weighted = wls(compress(regression))
    sigma = rows_of_groups(regression, weighted)
    history = rls(regression, variance=VARIANCE * torque_size(regression) ** 2, sigma=sigma)
    found = history.estimate
    intervals = honest_intervals(regression, replace(found, method="wls"), problem.runs)
    apart = float(np.max(np.abs(found.values - weighted.values) / weighted.sigma))
    notes = (
        "rows are weighted by the deviations that wls finds, which an online run would have to know beforehand; "
        f"without forgetting it ends {apart:.1g} standard deviations from wls",
    )
    return Answer("rls", found, intervals, notes=notes, evidence={"from_wls_sigma": apart}, recursion=history)


def iv_answer(problem: Problem) -> Answer:
    """Instrumental variables from a noise-free simulation, and the test whether they are needed."""
    regression = problem.regression
    start = wls(compress(regression))
    simulated = SimulatedColumns(problem)
    fit = instrumental_variables(regression, simulated, start=start)
    test = durbin_wu_hausman(regression, foreign_columns(regression, fit, simulated), start, fit.estimate.values)
    intervals = honest_intervals(regression, fit.estimate, system=fit.system)
    notes = [*simulated.notes, test.sentence, fit.strength.sentence]
    if not fit.converged:
        notes.append(f"the instruments had not settled after {fit.iterations} iterations")
    evidence = {
        "dwh_p": test.p_value,
        "dwh_statistic": test.F,
        "strength_F": fit.strength.F,
        "weakest_correlation": float(fit.strength.correlation[-1]),
        "from_wls_sigma": float(np.max(np.abs(fit.estimate.values - start.values) / intervals.sigma)),
        "iterations": float(fit.iterations),
    }
    return Answer("iv", fit.estimate, intervals, notes=tuple(notes), evidence=evidence)


def didim_answer(problem: Problem) -> Answer:
    """DIDIM from a regular start."""
    replay = moving_replay(problem, _servo(problem))
    return _simulated_answer(problem, replay, didim(replay))


def input_error_answer(problem: Problem) -> Answer:
    """Closed-loop input error from least squares; sensitivities by W_s where simulating them is too expensive."""
    replay = moving_replay(problem, _servo(problem))
    sensitivity = affordable_sensitivity(problem, replay.servo)
    result = _simulated_answer(problem, replay, input_error(replay, sensitivity=sensitivity))
    if sensitivity == "simulated":
        return result
    note = "to save time, what parameters do to the simulated motion is left out of the sensitivities"
    return replace(result, notes=(*result.notes, note))


def tls_answer(problem: Problem) -> Answer:
    """Total least squares of rows weighted as by wls: noise in columns and torque, offsets exact."""
    regression = problem.regression
    weighted = wls(compress(regression))
    sigma = rows_of_groups(regression, weighted)
    W, y = regression.W / sigma[:, None], regression.y / sigma
    noisy = ~exact_columns(problem)
    C, source = column_noise(problem, W, sigma)
    y_noise = float(len(y)) if problem.position_noise is not None else float(y @ y)
    inside = np.ix_(noisy, noisy)
    scale = np.zeros((np.count_nonzero(noisy) + 1,) * 2)
    scale[:-1, :-1], scale[-1, -1] = C[inside], y_noise
    found = mixed_total_least_squares(np.column_stack([W, -y]), np.append(noisy, True), scale)
    among = mixed_total_least_squares(W, noisy, C[inside])
    gap = float(among.singular_values[-1] / max(found.singular_values[-1], 1e-300))
    if gap < CLEAR or abs(found.x[-1]) < 1e-9 * np.abs(found.x).max():
        raise ExcitorError(
            f"the columns nearly depend on one another, given so much noise in them ({gap:.3g} times farther off than "
            f"the torques, {CLEAR} is the least), so no one vector is nearest: {source}; move what keeps them apart, "
            "or state the noise of positions"
        )
    beta = found.x[:-1] / found.x[-1]
    residual = y - W @ beta
    size = y_noise + float(beta @ C @ beta)
    corrected = W + np.outer(residual, C @ beta) / size
    # completes Ŵᵀ W to the derivative of the equations Ŵᵀ r = 0: WᵀW - (rᵀr / size) C in all
    curvature = np.asarray((W - corrected).T @ W - float(residual @ residual) / size * C)
    system = influence(corrected, W, residual, curvature)
    settings: dict[str, float | str] = {"weights by": "joint", "noise of columns": source, "gap": gap}
    estimate = estimate_of(system, regression, beta, method="tls", sigma=sigma, settings=settings)
    moved = float(np.max(np.abs(beta - weighted.values) / weighted.sigma))
    names = [name for name, inexact in zip(regression.names, noisy, strict=True) if not inexact]
    notes = (source, f"exact columns: {', '.join(names) or 'none'}", f"gap {gap:.3g}: so much farther off is no torque")
    intervals = honest_intervals(regression, estimate, problem.runs, system=system)
    return Answer("tls", estimate, intervals, notes=notes, evidence={"gap": gap, "from_wls_sigma": moved})


def ml_answer(problem: Problem) -> Answer:
    """Gaussian maximum likelihood with errors coloured in time and shared between joints."""
    regression = problem.regression
    unordered = [k for k, run in enumerate(problem.runs) if run.static]
    fit = maximum_likelihood(regression, start=wls(compress(regression)), unordered=unordered)
    intervals = honest_intervals(regression, fit.estimate, system=fit.system)
    joints = np.unique(regression.joint)
    orders = ", ".join(f"{regression.joint_names[j]} {order}" for j, order in zip(joints, fit.orders, strict=True))
    notes: tuple[str, ...] = (f"errors are autoregressive, of order {orders} by BIC, in each stretch without gaps",)
    if not fit.converged:
        notes = (*notes, f"parameters and colour together still became more likely after {fit.iterations} iterations")
    evidence = {"iterations": float(fit.iterations), "largest_order": float(max(fit.orders))}
    return Answer("ml", fit.estimate, intervals, notes=notes, evidence=evidence)


def scheme_answer(kind: SchemeKind) -> Callable[[Problem], Answer]:
    """Make the method that fits one kind of equations."""

    def fit(problem: Problem) -> Answer:
        moving = [run for run in problem.runs if not run.static]
        if not moving:
            raise ExcitorError("all runs are static poses, in which nothing has power; use wls")
        scheme, note = choose_scheme(kind, problem, moving)
        regression = scheme_regression(problem.robot, moving, scheme, columns=_columns(problem), rows=problem.rows)
        if len(regression) <= len(regression.names):
            raise ExcitorError(
                f"{len(regression)} equations of {kind} do not determine {len(regression.names)} parameters; record "
                "more, or thin less"
            )
        factors, weighting = compress(regression), problem.weighting
        if weighting.essential_ratio is None:
            estimate = wls(factors, weighting.by)
        else:
            estimate = essential(factors, ratio=weighting.essential_ratio, by=weighting.by).estimate
        notes = (note,) if note else ()
        if len(moving) < len(problem.runs):
            notes = (*notes, "static poses were left out: they have no power")
        evidence = {"condition": estimate.condition}
        if scheme.kind.startswith("filtered"):
            evidence["cutoff_hz"] = scheme.cutoff / (2.0 * np.pi)
        intervals = honest_intervals(regression, estimate)
        sigma = rows_of_groups(regression, estimate)
        history = rls(regression, variance=VARIANCE * torque_size(regression) ** 2, sigma=sigma)
        return Answer(kind, estimate, intervals, notes=notes, evidence=evidence, recursion=history)

    return fit


_FITS: Mapping[str, Callable[[Problem], Answer]] = {
    "ols": ols_answer, "wls": wls_answer, "irls": irls_answer, "ridge": ridge_answer, "tls": tls_answer,
    "rls": rls_answer, "ml": ml_answer, "iv": iv_answer, "didim": didim_answer, "input-error": input_error_answer,
}  # fmt: skip
SCHEMES: tuple[SchemeKind, ...] = ("filtered dynamic", "energy", "power", "filtered power")
_TITLES = tomllib.loads((resources.files("excitor.identify") / "estimators.toml").read_text("utf-8"))
_LIST = {name: Method(name, _TITLES[name], fit) for name, fit in _FITS.items()}
_LIST |= {kind: Method(kind, _TITLES[kind], scheme_answer(kind)) for kind in SCHEMES}
SIMULATING = ("iv", "didim", "input-error")  # under a controller


def method_of(name: str, title: str, solve: Callable[[FloatArray, FloatArray], FloatArray]) -> Method:
    """Make an estimator of a function; `register` makes it known.

    Args:
        name: as `fit` and campaign.toml call it.
        title: what it assumes, in a sentence.
        solve: `solve(W, y) -> beta` of the equations y = W β, W (n_rows, n_params).

    Its intervals are those of weighted least squares around the values that it gives.

    >>> import numpy as np, excitor as ex
    >>> ex.estimator("lstsq", "Plain least squares.", lambda W, y: np.linalg.lstsq(W, y)[0]).name
    'lstsq'
    """

    def fit(problem: Problem) -> Answer:
        regression = problem.regression
        beta = np.array(solve(regression.W, regression.y), dtype=float)
        if beta.shape != (len(regression.names),):
            raise ExcitorError(f"{name}: solve gives shape {beta.shape}, expected ({len(regression.names)},)")
        residual = regression.y - regression.W @ beta
        sigma = joint_sigma(regression, residual)
        W = regression.W / sigma[:, None]
        system = influence(W, W, residual / sigma)
        estimate = estimate_of(system, regression, beta, method=name, sigma=sigma, settings={})
        return Answer(name, estimate, honest_intervals(regression, estimate, problem.runs, system=system))

    return Method(name, title, fit)


def answer(method: str, problem: Problem) -> Answer:
    """Fit by a method of METHODS; where the data make that fail, the answer holds the reason and nothing is raised."""
    if method not in METHODS:
        raise ExcitorError(f"no estimator is called {method!r}; expected one of {choice(method, METHODS)}")
    begun = time.process_time()
    with one_blas_thread():
        try:
            _check(problem)
            with np.errstate(all="ignore"):
                result = METHODS[method].fit(problem)
            found = result.estimate
            if found is not None and not (np.isfinite(found.values).all() and np.isfinite(found.covariance).all()):
                raise ExcitorError("the estimate is not finite; the equations are too close to dependent")
        except np.linalg.LinAlgError as error:
            sentence = f"its linear algebra failed ({error}); the equations are too close to dependent"
            result = Answer(method, None, None, refused=sentence)
        except (ExcitorError, ValueError) as error:
            result = Answer(method, None, None, refused=str(error))
    return replace(result, cpu_s=time.process_time() - begun)


def _check(problem: Problem) -> None:
    n_rows, n = problem.regression.W.shape
    if n == 0:
        raise ExcitorError("the equations have no parameters; free a joint, or choose other columns")
    if n_rows <= n:
        raise ExcitorError(f"{n_rows} equations do not determine {n} parameters; record more, or thin less")


def huber(regression: Regression, estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Find the rows' weights and scales at an estimate, each (n_rows,)."""
    residual = regression.y - regression.W @ estimate.values
    scale = np.ones(len(regression))
    for joint in np.unique(regression.joint):
        rows = regression.joint == joint
        scale[rows] = max(1.4826 * float(np.median(np.abs(residual[rows]))), np.finfo(float).tiny)
    size = np.maximum(np.abs(residual) / scale, 1e-12)
    return np.sqrt(np.minimum(1.0, 1.345 / size)), scale


def prior_values(problem: Problem) -> tuple[FloatArray, bool]:
    """Write the robot's prior model in the regression's parameters; zeros where it states no mass."""
    robot, names = problem.robot, problem.regression.names
    params, base = layout(robot), base_parameters(robot)
    masses = [10 * link + 9 for link in range(params.n_links)]
    if not any(robot.known[k] and robot.chi[k] > 0.0 for k in masses):
        return np.zeros(len(names)), False
    of_base = dict(zip((params.names[k] for k in base.kept), base.values(prior(robot)), strict=True))
    return np.array([of_base.get(name, 0.0) for name in names]), True


def wls_sigma(factors: Factors) -> dict[tuple[int, int], float]:
    """Find the deviation of each group's rows as wls does."""
    return dict(wls(factors).group_sigma)


def torque_size(regression: Regression) -> FloatArray:
    """Compute how large each parameter would be if it alone made the torques of its rows, (n_columns,)."""
    nonzero = regression.W != 0.0
    torque = (regression.y**2) @ nonzero
    motion = np.sum(regression.W**2, axis=0)
    return np.asarray(np.sqrt(torque / np.where(motion > 0.0, motion, 1.0)) + 1e-300)


def prior_scale(regression: Regression, believed: FloatArray) -> FloatArray:
    """Return each parameter's prior scale: its own size, or where it is 0 what would make a tenth of the torques."""
    size = torque_size(regression)
    return np.where(believed == 0.0, 0.1 * size, np.maximum(np.abs(believed), LEAST_SIZE * size))


def choose_weight(
    regression: Regression, sigma: dict[tuple[int, int], float], believed: FloatArray, scale: FloatArray
) -> tuple[float, list[float]]:
    """Choose the prior's weight that best predicts left-out segments of time, one after the other."""
    parts = [compress(pick_rows(regression, rows)) for rows in folds(regression)]
    n = len(believed)
    errors = []
    for weight in WEIGHTS:
        extra = np.column_stack([np.diag(np.sqrt(weight) / scale), np.sqrt(weight) * believed / scale])
        squares = 0.0
        for k, part in enumerate(parts):
            others = merge([other for i, other in enumerate(parts) if i != k])
            deviations = np.array([sigma[group] for group in zip(others.joint, others.run, strict=True)])
            R = triangle(np.concatenate([total(others, 1.0 / deviations), extra]))
            beta = scipy.linalg.solve_triangular(R[:n, :n], R[:n, n])
            own = np.array([sigma[group] for group in zip(part.joint, part.run, strict=True)])
            squares += float(np.sum((residual_norms(part, beta) / own) ** 2))
        errors.append(squares)
    return float(WEIGHTS[int(np.argmin(errors))]), errors


def folds(regression: Regression) -> list[BoolArray]:
    """Partition every run into FOLDS segments of time: (n_rows,) masks."""
    place = segments(regression, FOLDS)
    return [place == k for k in np.unique(place)]


def foreign_columns(regression: Regression, fit: InstrumentalFit, instruments: Instruments) -> FloatArray:
    """Evaluate instruments of every second segment of time with a model fitted to the others, (n_rows, n_columns).

    A model fitted to the same rows depends a little on their errors, which the test would take for noise.
    """
    Z = np.empty(regression.W.shape)
    odd = segments(regression, SEGMENTS) % 2 == 1
    for own in (odd, ~odd):
        Z[own] = instruments(part_estimate(regression, fit, ~own))[own]
    return Z


def part_estimate(regression: Regression, fit: InstrumentalFit, rows: BoolArray) -> Estimate:
    """Solve the instrumental equations of some rows alone; all of them where those do not suffice."""
    sigma = rows_of_groups(regression, fit.estimate)[rows]
    Z, W, y = fit.Z[rows] / sigma[:, None], regression.W[rows] / sigma[:, None], regression.y[rows] / sigma
    if len(Z) <= 2 * Z.shape[1]:
        return fit.estimate
    try:
        R = influence(Z, W, y)
        require_rank(R.R, regression.names, "half of the rows")
    except RankDeficient:
        return fit.estimate
    return replace(fit.estimate, values=np.asarray(scipy.linalg.solve_triangular(R.R, R.Q.T @ y)))


class SimulatedColumns:
    """Columns along a model's simulated motion under the servo; without a servo, along the reference itself."""

    def __init__(self, problem: Problem) -> None:
        if problem.servo is None and not problem.references:
            raise ExcitorError(
                "instruments need a motion that noise has not touched: give the runs' references, or the servo's "
                "gains, best both"
            )
        self.problem = problem
        self.notes: tuple[str, ...] = ()
        self.replay: Replay | None = None
        if problem.servo is None:
            self._note("the servo is not known: the reference itself makes the instruments")
        else:
            self.replay = moving_replay(problem, problem.servo)
            if self.replay.assumed:
                self._note(REFERENCE)

    def __call__(self, estimate: Estimate) -> FloatArray:
        """Evaluate the regression's columns along a model's motion; the prior's, where its simulation diverges."""
        problem = self.problem
        motions = self._commanded() if self.replay is None else self._simulated(self.replay, estimate)
        robot = problem.robot if self.replay is None else self.replay.robot
        return columns_along(robot, problem.runs, motions, problem.regression, problem.rows.decimate)

    def _commanded(self) -> list[Motion]:
        references = self.problem.references or {}
        return [commanded_motion(run, references, run.sample_rate_hz) for run in self.problem.runs]

    def _simulated(self, replay: Replay, estimate: Estimate) -> list[Motion]:
        problem = self.problem
        tried = self._followed(replay, standard_parameters(problem.robot, estimate))
        if isinstance(tried, str):
            if not prior_values(problem)[1]:
                raise ExcitorError(f"with the estimate, {tried}, and there is no prior model to simulate instead")
            self._note(f"with an estimate on the way, {tried}; the prior model made the instruments there")
            tried = self._followed(replay, prior(problem.robot))
        if isinstance(tried, str):
            raise ExcitorError(f"with the estimate and with the prior model, {tried}; check the servo's gains")
        return tried

    def _followed(self, replay: Replay, chi: FloatArray) -> list[Motion] | str:
        """Simulate all runs with parameters; return their motions, or why these are of no use."""
        done = simulate_runs(replay, chi, replay.servo)
        if isinstance(done, OutOfControl):
            return done.sentence
        found, motions = iter(zip(done, replay.strides, strict=True)), []
        for run in self.problem.runs:
            motion = run.motion if run.static else _at_samples(run, *next(found))
            away = np.linalg.norm(motion.dq - run.motion.dq, axis=0)
            if (away > FAR * np.linalg.norm(run.motion.dq, axis=0)).any():
                return f"the simulated robot moves otherwise than the real one did in run {run.run!r}"
            motions.append(motion)
        return motions

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes = (*self.notes, sentence)


def affordable_sensitivity(problem: Problem, servo: Servo) -> Sensitivity:
    """Choose sensitivities of input error: by simulation, a run a parameter, where that is affordable."""
    seconds = sum(len(run) / run.sample_rate_hz for run in _moving(problem))
    return "simulated" if len(_columns(problem)) * seconds * servo.rate_hz <= MOST_STEPS else "regressor"


def moving_replay(problem: Problem, servo: Servo) -> Replay:
    """Prepare the runs that move for simulation."""
    runs = _moving(problem)
    columns = _columns(problem)
    return set_up_replay(problem.robot, runs, servo, references=problem.references, columns=columns, rows=problem.rows)


def _simulated_answer(problem: Problem, replay: Replay, result: DidimResult) -> Answer:
    """Add intervals to a converged result; one that did not converge is refused with its own sentence."""
    estimate = replace(require_simulated(result), method=result.method)
    notes: tuple[str, ...] = (result.sentence,)
    if any(run.static for run in problem.runs):
        notes = (*notes, "static poses were left out: nothing moves there that could be simulated")
    intervals = _replayed_intervals(replay, result, estimate)
    evidence = {"iterations": float(result.iterations), "residual": float(result.history[-1].residual)}
    return Answer(result.method, estimate, intervals, notes=notes, evidence=evidence)


def _replayed_intervals(replay: Replay, result: DidimResult, estimate: Estimate) -> Intervals:
    """Find intervals from the residual torques at the result, along its own motion."""
    equations = replay_runs(replay, result.chi, replay.servo)
    if isinstance(equations, OutOfControl):
        raise ExcitorError(f"with the parameters found, {equations.sentence}")
    sigma = joint_sigma(equations, equations.y)
    W = equations.W / sigma[:, None]
    return honest_intervals(equations, estimate, system=influence(W, W, equations.y / sigma))


def _servo(problem: Problem) -> Servo:
    if problem.servo is None:
        raise ExcitorError("the controller is not known, so nothing can be simulated; give the servo's gains and rate")
    return problem.servo


def _moving(problem: Problem) -> list[Samples]:
    moving = [run for run in problem.runs if not run.static]
    if not moving:
        raise ExcitorError("all runs are static poses, which cannot be simulated; use wls")
    return moving


def _columns(problem: Problem) -> IntArray:
    return layout(problem.robot).indices(problem.regression.names)


def _at_samples(run: Samples, followed: TrackedMotion, stride: int) -> Motion:
    motion = followed.motion[: stride * len(run) : stride]
    return processed_as(run, motion.q, motion)


def exact_columns(problem: Problem) -> BoolArray:
    """Mark columns that hold no motion: those of offsets, (n_columns,)."""
    offsets = {term.parameter for term in problem.robot.drive.friction if friction_model(term).shape == "constant"}
    return np.array([name in offsets for name in problem.regression.names])


def column_noise(problem: Problem, W: FloatArray, sigma: FloatArray) -> tuple[FloatArray, str]:
    """Estimate the covariance of the columns' noise, (n_columns, n_columns), and name its source.

    The noise of positions, where it is stated, is processed as the data: differences, filter, thinning; torques then
    hold the residuals of wls. Otherwise columns and torques are as noisy as they are large.
    """
    if problem.position_noise is None:
        sentence = "every column is taken to be as noisy as the torques, relative to its norm"
        return np.diag(np.sum(W**2, axis=0)), sentence
    rng = np.random.default_rng(0)
    robot, regression, thin = problem.robot, problem.regression, problem.rows.decimate
    clean = columns_along(robot, problem.runs, [run.motion for run in problem.runs], regression, thin)
    C = np.zeros((W.shape[1],) * 2)
    for _ in range(DRAWS):
        motions = [_disturbed(run, problem.position_noise, rng) for run in problem.runs]
        change = (columns_along(robot, problem.runs, motions, regression, thin) - clean) / sigma[:, None]
        C += change.T @ change / DRAWS
    size = np.sqrt(np.diag(C)).max(initial=0.0)
    if not size > 0.0:
        raise ExcitorError("the stated noise of positions does not reach any column; least squares are the answer")
    floor = 1e-12 * np.sum(W**2, axis=0)  # columns that noise hardly reaches still need a size
    return C + np.diag(floor), "noise of positions as stated, gone the way of the data; torques hold what wls leaves"


def _disturbed(run: Samples, deviation: FloatArray, rng: np.random.Generator) -> Motion:
    """Add noise of encoders to a run's motion, processed as the run's own positions."""
    noise = rng.normal(size=run.motion.q.shape) * deviation
    if run.static:
        return run.motion
    change = processed_as(run, noise)
    motion = run.motion
    return Motion(motion.q + change.q, motion.dq + change.dq, motion.ddq + change.ddq)


def choose_scheme(kind: SchemeKind, problem: Problem, moving: Sequence[Samples]) -> tuple[Scheme, str]:
    """Choose the cut-off whose model simulates the longest run's beginning best, motion straight between samples.

    Those tried lie about the band in which the runs move, which decides where no model can be simulated.
    """
    if kind in ("power", "energy"):
        return Scheme(kind, hold="first"), ""
    band = velocity_band(moving)
    run = max(moving, key=len)
    beginning = pick_samples(run, slice(min(len(run), max(3, round(SIMULATED_S * run.sample_rate_hz)))))
    errors: dict[float, float] = {}
    for factor in CUTOFFS:
        scheme = _banded(kind, factor * band)
        if 2.0 * scheme.settle < len(run) / run.sample_rate_hz:
            errors[factor * band] = simulated_error(problem, beginning, scheme, moving)
    chosen = min(errors, key=lambda tried: (errors[tried], abs(np.log(tried / band))), default=band)
    how = f"the one of {len(errors)} cut-offs whose model simulates the beginning of {run.run!r} best"
    if not np.isfinite(errors.get(chosen, np.inf)):
        chosen = band
        how = f"below which lies {100 * SHARE:.0f} % of what velocities vary, as no model could be simulated"
    scheme = _banded(kind, chosen)
    return scheme, f"filtered at {chosen:.2g} Hz, {how}; the first {scheme.settle:.2g} s of each run are left out"


def _banded(kind: SchemeKind, band: float) -> Scheme:
    """Filter at a frequency, Hz, and leave out one time constant at each run's start."""
    cutoff = 2.0 * np.pi * band
    return Scheme(kind, cutoff=cutoff, hold="first", settle=1.0 / cutoff)


def simulated_error(problem: Problem, run: Samples, scheme: Scheme, moving: Sequence[Samples]) -> float:
    """Fit by a scheme and simulate a run: open loop without rotors, else under the servo; inf where that fails.

    Open loop it is the rms of positions over what they vary, under the servo the share of the torques not explained.
    """
    try:
        columns, robot = _columns(problem), problem.robot
        regression = scheme_regression(robot, moving, scheme, columns=columns, rows=problem.rows)
        chi = standard_parameters(robot, wls(compress(regression), problem.weighting.by))
        if robot.drive.rotors:
            if problem.servo is None:
                return float("inf")
            done = closed_loop(robot, chi, [run], problem.servo, rows=problem.rows)
            shares = [one.torque for one in done.runs]
        else:
            spread = np.std(np.concatenate([one.motion.q for one in moving]), axis=0)
            moves = spread > 0.0
            shares = [one.rms[moves] / spread[moves] for one in open_loop(robot, chi, [run]).runs]
    except (ExcitorError, np.linalg.LinAlgError):
        return float("inf")
    error = float(np.sqrt(np.mean(np.square(shares)))) if shares else np.inf
    return error if np.isfinite(error) else float("inf")


def velocity_band(runs: Sequence[Samples]) -> float:
    """Frequency, Hz, below which SHARE of the velocities' power is contained, all joints counted alike."""
    bands = []
    for run in runs:
        power = np.abs(np.fft.rfft(run.motion.dq - run.motion.dq.mean(axis=0), axis=0)) ** 2
        moved = power.sum(axis=0)
        if not (moved > 0.0).any():
            continue
        below: FloatArray = np.cumsum(np.mean(power[:, moved > 0.0] / moved[moved > 0.0], axis=1))
        line = int(np.searchsorted(below, SHARE))
        bands.append(max(line, 1) * run.sample_rate_hz / len(run))
    if not bands:
        raise ExcitorError("nothing moves in any run, so there is no band to filter for; use wls")
    return float(np.median(bands))


def check_estimator(method: Method, *, may_refuse: bool = False) -> None:
    """Run the conformance suite of estimators; ExcitorError lists everything that one does not fulfil.

    Args:
        method: as `estimator` makes it.
        may_refuse: whether it may refuse, as methods that need a controller do.

    It has a name and a title. On a small problem it answers under its own name, twice alike, with finite values of
    the regression's parameters, a covariance that is symmetric and positive semidefinite, intervals around the values,
    and torques near the true ones.

    >>> import numpy as np, excitor as ex
    >>> ex.check_estimator(ex.estimator("lstsq", "Plain.", lambda W, y: np.linalg.lstsq(W, y)[0]))
    """
    problems = list(_named(method))
    if not problems:
        problem, truth = conformance_problem()
        first, second = _answered(method, problem), _answered(method, problem)
        problems = list(_problems(first, method.name, problem, truth, may_refuse)) or list(_repeated(first, second))
    if problems:
        raise ExcitorError(f"estimator {getattr(method, 'name', method)!r}: {'; '.join(problems)}")


@cache
def conformance_problem() -> tuple[Problem, FloatArray]:
    """Simulate a two-joint arm with a known truth: the problem, and the noise-free torque of its equations."""
    robot = robot_from_data(_ARM, "two-joint arm")
    motion = _motion(robot)
    clean = inverse_dynamics(robot, motion)
    rng = np.random.default_rng(0)
    tau = clean + _NOISE * np.sqrt(np.mean(clean**2, axis=0)) * rng.normal(size=clean.shape)
    run = Samples("conformance", motion, tau, _RATE_HZ)
    regression = dynamic_regression(robot, [run])
    truth = dynamic_regression(robot, [Samples("truth", motion, clean, _RATE_HZ)]).y
    return Problem(robot, (run,), Rows(), regression), truth


def _motion(robot: Robot) -> Motion:
    t = np.arange(800) / _RATE_HZ
    omega = 2.0 * np.pi / 8.0
    q, dq, ddq = np.zeros((3, t.size, robot.n_joints))
    rng = np.random.default_rng(1)
    for j in range(robot.n_joints):
        for k in range(1, 5):
            a, phase = rng.uniform(0.2, 0.5) / k, rng.uniform(0.0, 2.0 * np.pi)
            q[:, j] += a * np.sin(k * omega * t + phase)
            dq[:, j] += a * k * omega * np.cos(k * omega * t + phase)
            ddq[:, j] -= a * (k * omega) ** 2 * np.sin(k * omega * t + phase)
    return Motion(q, dq, ddq)


def _named(method: Method) -> Iterator[str]:
    for key in ("name", "title"):
        value = getattr(method, key, None)
        if not isinstance(value, str) or not value.strip():
            yield f"its {key} is {value!r}, expected a text"
    if not callable(getattr(method, "fit", None)):
        yield "it has no fit(problem) to call"


def _answered(method: Method, problem: Problem) -> Answer:
    try:
        found = method.fit(problem)
    except (ExcitorError, ValueError, np.linalg.LinAlgError) as error:
        return Answer(method.name, None, None, refused=str(error))
    except Exception as error:
        sentence = f"estimator {method.name!r}: raises {type(error).__name__} ({error}); raise ExcitorError to refuse"
        raise ExcitorError(sentence) from error
    if not isinstance(found, Answer):
        raise ExcitorError(f"estimator {method.name!r}: fit gives {type(found).__name__}, expected an Answer")
    return found


def _problems(found: Answer, name: str, problem: Problem, truth: FloatArray, may_refuse: bool) -> Iterator[str]:
    if found.method != name:
        yield f"answers under the name {found.method!r}"
    estimate, intervals = found.estimate, found.intervals
    if estimate is None or intervals is None:
        if not found.refused.strip():
            yield "gives neither an estimate with intervals nor a reason for refusing"
        elif not may_refuse:
            yield f"refuses a problem that has an answer: {found.refused}"
        return
    n = len(problem.regression.names)
    unknown = set(estimate.names) - set(problem.regression.names)
    if unknown:
        yield f"estimates {', '.join(sorted(unknown))}, which are no parameters of the problem"
        return
    if not (np.isfinite(estimate.values).all() and np.isfinite(estimate.covariance).all()):
        yield "its values or covariance are not finite"
        return
    largest = float(np.abs(estimate.covariance).max())
    if not np.allclose(estimate.covariance, estimate.covariance.T, atol=1e-9 * largest, rtol=1e-6):
        yield "its covariance is not symmetric"
    elif np.linalg.eigvalsh(estimate.covariance).min() < -1e-9 * largest * n:
        yield "its covariance has a negative eigenvalue"
    if not ((intervals.low <= intervals.values) & (intervals.values <= intervals.high)).all():
        yield "a value lies outside its own interval"
    predicted = problem.regression.W @ np.array([estimate.value(name) for name in problem.regression.names])
    error = float(np.linalg.norm(predicted - truth) / np.linalg.norm(truth))
    if not error <= _WORST:
        yield f"its torques are {100 * error:.0f} % off those of the true model, expected at most {100 * _WORST:.0f} %"


def _repeated(first: Answer, second: Answer) -> Iterator[str]:
    one, other = first.estimate, second.estimate
    if (one is None) != (other is None):
        yield "refuses one of two equal problems"
    elif one is not None and other is not None and not np.array_equal(one.values, other.values):
        yield "gives different values when it is run again; fix its seed"


METHODS: Members[Method] = Members("excitor.estimators", _LIST, check_estimator)
