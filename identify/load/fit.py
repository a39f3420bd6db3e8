"""Identification of a load's ten parameters from motor torques, by maximum likelihood, with intervals.

[Swevers2002] eq. (18): rows divided by the noise estimated from averaging, Levenberg-Marquardt from the linear solution
without losses. `identify_load` is its approach 3, or 2 where the task gives the efficiencies.

`identify_consistent_load` is the same maximum likelihood over pseudo-inertias P ≻ 0 only. `load_from_base` estimates
the base parameters of the loaded robot and subtracts the known arm. `at_center` converts a load to mass, centre of
gravity and the inertia about it, with intervals. `load_rank` names combinations of parameters that motions do not
determine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.diagnose import Finding, several
from excitor.identify.estimate import Estimate, compress, ols, triangle
from excitor.identify.intervals import WhitenedSystem, spectral_covariance, whiteness
from excitor.identify.load.equations import (
    LOAD_NAMES,
    Equations,
    LoadRun,
    LoadTask,
    arm_slope,
    efficiencies,
    equations,
    linear_start,
    motor_torque,
    residual,
)
from excitor.identify.regression import Regression
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError
from excitor.robots.inertia import Consistency, check_consistency, parameters_of, pseudo_inertia, tensor
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.parameters import LINK_COMPONENTS, layout

Status = Literal["gradient", "step", "cost", "iterations", "not finite"]
CENTER_NAMES = ("m", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
CENTER_UNITS = ("kg", "m", "m", "m", *("kg m2",) * 6)
REACH = 1.959963984540054  # standard deviations of a 95 % interval
CHANCE = 0.01  # that losses are found in gears without any
_ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
Evaluate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # x -> residual (n_rows,), J (n_rows, n_params)
MEANING: dict[Status, str] = {
    "gradient": "no direction lowers the cost",
    "step": "steps no longer change the parameters",
    "cost": "steps no longer lower the cost",
    "iterations": "the limit of iterations was reached",
    "not finite": "the model is not finite at the start",
}
TOLERANCE = 1e-3  # of a parameter's standard deviation
ROUNDING = 1e-12  # of the parameters: smaller steps are rounding
RANK_TOLERANCE = 1e-7  # of column-normalised singular values of J
_CRAWL_STEPS, _CRAWL = 5, 30.0  # so many steps that together gain less than one of that many tolerances
_STEPS_UPHILL = 30  # in a row: the damping has then grown beyond any use
POOR_CONDITION = 1e3
ALIKE = 0.98  # correlation from which a friction and an efficiency are hardly distinguishable
EFFICIENCIES = (0.3, 1.05)  # beyond, something else is called efficiency
_SMALL = 1e-6  # of the largest entry of a direction, in normalised columns


@dataclass(frozen=True, eq=False, slots=True)
class LoadAtCenter:
    """m, c and the tensor's entries about the centre of gravity, axes of the link's frame (Ixy is the entry itself)."""

    values: FloatArray  # (10,), as CENTER_NAMES
    covariance: FloatArray  # (10, 10)
    consistency: Consistency  # whether a body could have these values

    def __post_init__(self) -> None:
        freeze(self, values="10", covariance="10 10")

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (10,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.values[0])

    @property
    def center(self) -> FloatArray:
        """Centre of gravity, (3,), m."""
        return self.values[1:4]

    @property
    def low(self) -> FloatArray:
        """Lower ends of the 95 % intervals, (10,)."""
        return np.asarray(self.values - REACH * self.sigma)

    @property
    def high(self) -> FloatArray:
        """Upper ends of the 95 % intervals, (10,)."""
        return np.asarray(self.values + REACH * self.sigma)


@dataclass(frozen=True, eq=False, slots=True)
class NonlinearFit:
    """Result of a nonlinear least-squares search, with its status and history."""

    x: FloatArray  # (n_params,)
    R: FloatArray  # (n_params, n_params), triangle with RᵀR = JᵀJ there
    residual: FloatArray  # (n_rows,), weighted
    status: Status
    iterations: int
    evaluations: int
    history: tuple[float, ...]  # ‖r‖ after each iteration, the start's first

    def __post_init__(self) -> None:
        freeze(self, x="n_params", R="n_params n_params", residual="n_rows")

    @property
    def converged(self) -> bool:
        """True if the search ended at a minimum."""
        return self.status in ("gradient", "step", "cost")

    @property
    def message(self) -> str:
        """Meaning of the status, as a clause."""
        return MEANING[self.status]


@dataclass(frozen=True, eq=False, slots=True)
class LoadEstimate:
    """A load, with friction and efficiencies, their covariances, and the status of the search."""

    method: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # (n_unknowns,)
    noise_covariance: FloatArray  # (n_unknowns, n_unknowns): what residuals leave open, correlated as they are
    arm_covariance: FloatArray  # the same size: what doubt about the arm adds
    load: LoadAtCenter
    efficiency: FloatArray  # (n_joints,): 1 where none was asked for or given
    n_rows: int
    axes: Mapping[str, int]  # whose equations count -> their index
    noise: Mapping[str, float]  # axis -> standard deviation of a row's noise, N m on the link side
    rms: Mapping[str, float]  # axis -> root mean square of the training residual, N m on the link side
    rms_by_run: Mapping[str, FloatArray]  # run -> the same, (n_joints,); 1 where an axis has no rows
    condition: float  # of the column-normalised, weighted Jacobian
    fit: NonlinearFit

    def __post_init__(self) -> None:
        n = freeze(self, values="n_unknowns", efficiency="n_joints")["n_unknowns"]
        freeze(self, noise_covariance=f"{n} {n}", arm_covariance=f"{n} {n}")

    @property
    def covariance(self) -> FloatArray:
        """Covariance from noise and the arm's uncertainty together, (n_unknowns, n_unknowns)."""
        return np.asarray(self.noise_covariance + self.arm_covariance)

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (n_unknowns,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def phi(self) -> FloatArray:
        """The load's ten parameters at the origin of its link's frame."""
        return self.values[:10]

    def value(self, name: str) -> float:
        """Return an unknown's value by name; ValueError lists the names."""
        if name not in self.names:
            raise ValueError(f"{name!r} was not estimated; expected one of {', '.join(self.names)}")
        return float(self.values[self.names.index(name)])


@one_blas_thread()
def identify_load(
    task: LoadTask, runs: Sequence[LoadRun], *, start: FloatArray | None = None, max_iterations: int = 200
) -> LoadEstimate:
    """Find the load, friction and efficiencies that explain the motor torques best.

    Raises RankDeficient with what the motions do not determine, SolverFailed where the search does not converge.
    """
    system = equations(task, runs)
    first = linear_start(system) if start is None else start
    fit = levenberg_marquardt(lambda theta: residual(system, theta), first, max_iterations=max_iterations)
    check_load_rank(system, fit.x)
    require_converged(fit, task.robot.name)
    return described(system, fit, "maximum likelihood")


def reweighed(runs: Sequence[LoadRun], estimate: LoadEstimate) -> list[LoadRun]:
    """Weight rows by the residuals of a first estimate, axis by axis and run by run, instead of by their noise.

    Where model errors exceed the noise, these are the scale to compare the arm's covariance with; with the load on
    they are larger than without it.
    """
    tiny = np.finfo(float).tiny
    return [replace(run, sigma=np.maximum(estimate.rms_by_run[run.run], tiny)) for run in runs]


def described(system: Equations, fit: NonlinearFit, method: str, theta: FloatArray | None = None) -> LoadEstimate:
    """Build the estimate from the end of a search in the unknowns θ; `theta` where it searched in others."""
    theta = fit.x if theta is None else theta
    where, task = system.unknowns, system.task
    r, J = residual(system, theta)
    noise, arm = covariances(system, theta)
    C = noise + arm
    n_rows, names = len(system), task.robot.joint_names
    axes = np.flatnonzero(task.axes)
    raw = (r * np.append(system.sigma, np.ones(len(r) - n_rows)))[:n_rows]
    spectrum = np.linalg.svd(triangle(J / np.linalg.norm(J, axis=0)), compute_uv=False)
    return LoadEstimate(
        method=method,
        names=where.names,
        units=where.units,
        values=theta,
        noise_covariance=noise,
        arm_covariance=arm,
        load=at_center(theta[where.load], C[:10, :10]),
        efficiency=efficiencies(system, theta),
        n_rows=n_rows,
        axes={names[i]: int(i) for i in axes},
        noise={names[i]: float(np.sqrt(np.mean(system.sigma[system.axis == i] ** 2))) for i in axes},
        rms={names[i]: float(np.sqrt(np.mean(raw[system.axis == i] ** 2))) for i in axes},
        rms_by_run={name: _run_rms(system, raw, k) for k, name in enumerate(system.runs)},
        condition=float(spectrum[0] / spectrum[-1]),
        fit=fit,
    )


def _run_rms(system: Equations, raw: FloatArray, run: int) -> FloatArray:
    """Root mean square of each axis' residuals in a run, (n_joints,); 1 where it has no rows."""
    found = np.ones(system.task.robot.n_joints)
    for axis in np.unique(system.axis):
        found[axis] = np.sqrt(np.mean(raw[(system.axis == axis) & (system.run == run)] ** 2))
    return found


def residual_rms(task: LoadTask, runs: Sequence[LoadRun], theta: FloatArray) -> dict[str, float]:
    """Root mean square of the torques that θ leaves in runs, by axis, N m on the link side."""
    system, names = equations(task, runs), task.robot.joint_names
    left = system.tau - motor_torque(system, theta)[0]
    axes = np.flatnonzero(task.axes)
    return {names[i]: float(np.sqrt(np.mean(left[system.axis == i] ** 2))) for i in axes}


def found_losses(estimate: LoadEstimate) -> tuple[bool, str]:
    """Whether gears surely lose, as a sentence, too: a likelihood ratio of all efficiencies against 1, at 1 %.

    It is δᵀ C⁻¹ δ with δ = 1 - R, whose covariance counts correlated residuals.
    """
    at = [k for k, name in enumerate(estimate.names) if name.startswith("R ")]
    lost, C = 1.0 - estimate.values[at], estimate.covariance[np.ix_(at, at)]
    spread = np.sqrt(np.diag(C))
    sure = lost @ np.linalg.solve(C, lost) > scipy.stats.chi2.ppf(1.0 - CHANCE, len(at))
    if sure and (lost > REACH * spread).any():
        each = zip(at, lost, spread, strict=True)
        words = [f"{estimate.names[k][2:]} {100.0 * x:.3g} ± {100.0 * REACH * s:.2g} %" for k, x, s in each]
        return True, f"gears lose torque by the direction of power: {', '.join(words)}"
    most = 100.0 * float(np.max(np.maximum(lost, 0.0) + REACH * spread))
    return False, f"losses of gears: none found, up to {most:.2g} %"


def covariances(system: Equations, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariances of θ from the residuals, and from the uncertainty of current laws and, where it stays, the arm.

    The former is `_noise_covariance`; the latter (A⁻¹ Jᵀ J_arm)(…)ᵀ with A = JᵀJ, as least squares takes an error of
    the arm for one of the load.
    """
    r, J = residual(system, theta)
    n, n_rows = len(theta), len(system)
    R = triangle(J)
    if undetermined := undetermined_names(R, system.unknowns.names):
        raise RankDeficient(f"the motions do not separate {', '.join(undetermined)}", undetermined)
    data = J[:n_rows]
    noise = _noise_covariance(system, r, J, R)
    arm = np.zeros((n, n))
    if not system.task.learn_arm and system.arm_root.shape[1]:
        taken = _solve_gram(R, data.T @ (arm_slope(system, theta) / system.sigma[:, None]))
        arm = taken @ taken.T
    laws = system.task.robot.drive.current_sigma
    if laws is not None:  # an arm known by the same drives has their errors, too: those of the load's torques are left
        wrong = system.tau
        if system.task.arm.own_drives:
            bare = theta.copy()
            bare[system.unknowns.load] = 0.0
            wrong = motor_torque(system, theta)[0] - motor_torque(system, bare)[0]
        by_motor = (system.axis[:, None] == np.arange(len(laws))) * (wrong / system.sigma)[:, None]
        taken = _solve_gram(R, data.T @ (by_motor * laws))
        arm += taken @ taken.T
    return 0.5 * (noise + noise.T), arm


def _noise_covariance(system: Equations, r: FloatArray, J: FloatArray, R: FloatArray) -> FloatArray:
    """A⁻¹ M A⁻¹ by the residuals' densities, axis by axis and band by band, with the arm's prior as it stands.

    Where the number of independent residuals alone, M = Σ_axes s² f A_axis, gives a larger deviation, it counts.
    """
    n, n_rows = J.shape[1], len(system)
    data, left = J[:n_rows], r[:n_rows]
    believed = J[n_rows:].T @ J[n_rows:]
    linear, pooled = labelled(system, data, left), believed.copy()
    for entry in whiteness(linear, left):
        rows = system.axis == system.task.robot.joint_names.index(entry.joint)
        variance = float(np.mean(left[rows] ** 2)) * n_rows / max(n_rows - n, 1)
        pooled += variance * entry.inflation * (data[rows].T @ data[rows])
    weighted = WhitenedSystem(scipy.linalg.solve_triangular(R, data.T, trans="T").T, R, left)
    noise = spectral_covariance(linear, weighted) + _solve_gram(R, _solve_gram(R, believed).T)
    grown = np.sqrt(np.maximum(np.diag(_solve_gram(R, _solve_gram(R, pooled).T)) / np.diag(noise), 1.0))
    return np.asarray(noise * np.outer(grown, grown))


def labelled(system: Equations, J: FloatArray, y: FloatArray) -> Regression:
    """Label linearised, weighted equations by axis, run and sample."""
    return Regression(
        kind="dynamic",
        names=system.unknowns.names,
        units=system.unknowns.units,
        joint_names=system.task.robot.joint_names,
        runs=system.runs,
        W=J,
        y=y,
        joint=system.axis,
        run=system.run,
        sample=system.sample,
        variance=None,
    )


def _solve_gram(R: FloatArray, right: FloatArray) -> FloatArray:
    """(RᵀR)⁻¹ times the right-hand side."""
    return np.asarray(scipy.linalg.solve_triangular(R, scipy.linalg.solve_triangular(R, right, trans="T")))


INSIDE = 1e-9  # relative margin of the pseudo-inertia from which a load counts as a body without further ado
BARRIERS = (1.0, 0.1, 1e-2, 1e-3)  # μ, in units of ½ χ²
DECREMENT = 1e-2  # of μ: what one more step would gain, when it is time for the next μ
STEPS = 40  # for each μ
_BASIS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False, slots=True)
class _Point:
    theta: FloatArray
    residual: FloatArray
    J: FloatArray
    P: FloatArray

    def cost(self, mu: float) -> float:
        return float(0.5 * self.residual @ self.residual - mu * np.linalg.slogdet(self.P)[1])


@one_blas_thread()
def identify_consistent_load(task: LoadTask, runs: Sequence[LoadRun]) -> LoadEstimate:
    """Find the physically consistent load that explains the motor torques best, with friction and efficiencies.

    Where the free optimum is a body already it is the answer. The covariance does not count the bound either way.
    """
    system = equations(task, runs)
    free = levenberg_marquardt(lambda theta: residual(system, theta), linear_start(system))
    check_load_rank(system, free.x)
    where = system.unknowns
    if free.converged and check_consistency(free.x[where.load]).relative_margin > INSIDE:
        return described(system, free, "maximum likelihood of a body")
    start = free.x.copy()
    start[where.load] = nearest_body(free.x[where.load])
    fit = inside(system, start)
    found = check_consistency(fit.x[where.load])
    if not found.holds:
        raise SolverError(
            f"{task.robot.name}: the search ended at a load that no body has (margin {found.relative_margin:.1e}); "
            "it is refused: check that the load was on the robot",
            "not a body",
        )
    return described(system, fit, "maximum likelihood of a body")


def inside(system: Equations, start: FloatArray) -> NonlinearFit:
    """Follow the barrier's minima from a body, μ by μ."""
    point = _at(system, start)
    history, evaluations = [float(np.linalg.norm(point.residual))], 1
    for mu in BARRIERS:
        for _ in range(STEPS):
            step, decrement = _newton(system, point, mu)
            moved, tried = _line_search(system, point, step, mu) if decrement > DECREMENT * mu else (None, 0)
            evaluations += tried
            if moved is None:
                break
            point = moved
            history.append(float(np.linalg.norm(point.residual)))
    R = triangle(point.J)
    return NonlinearFit(point.theta, R, point.residual, "cost", len(history) - 1, evaluations, tuple(history))


def nearest_body(phi: FloatArray) -> FloatArray:
    """Build a consistent start near inconsistent parameters: mass and second moments raised above 0."""
    P = pseudo_inertia(phi)
    size = max(float(np.abs(P[:3, :3]).max()), 1e-6)
    mass = max(float(phi[9]), 1e-3 * float(np.abs(phi).max()), 1e-6)
    center = P[:3, 3] / mass
    reach = np.sqrt(size / mass)  # no farther off than the second moments allow
    center = center * min(1.0, reach / max(float(np.linalg.norm(center)), 1e-12))
    values, V = scipy.linalg.eigh(P[:3, :3] - mass * np.outer(center, center))
    spread = V @ np.diag(np.maximum(values, 1e-2 * size)) @ V.T
    body = np.zeros((4, 4))
    body[:3, :3] = spread + mass * np.outer(center, center)
    body[:3, 3] = body[3, :3] = mass * center
    body[3, 3] = mass
    return parameters_of(body)


def _at(system: Equations, theta: FloatArray) -> _Point:
    r, J = residual(system, theta)
    return _Point(theta, r, J, pseudo_inertia(theta[system.unknowns.load]))


def _newton(system: Equations, point: _Point, mu: float) -> tuple[FloatArray, float]:
    """Solve (JᵀJ + μ B) Δ = Jᵀr - μ b: the step, and twice the decrease predicted by the quadratic model."""
    turned = np.linalg.inv(point.P) @ _BASIS
    H, g = point.J.T @ point.J, point.J.T @ point.residual
    load = system.unknowns.load
    H[load, load] += mu * np.einsum("iab,jba->ij", turned, turned)
    g[load] += mu * np.trace(turned, axis1=1, axis2=2)
    scale = 1.0 / np.sqrt(np.diag(H))
    step = scale * scipy.linalg.solve(H * np.outer(scale, scale), scale * g, assume_a="pos")
    return step, float(step @ g)


def _line_search(system: Equations, point: _Point, step: FloatArray, mu: float) -> tuple[_Point | None, int]:
    """Shorten a step until the load is consistent and the cost decreases; None where it cannot be decreased."""
    before, slope = point.cost(mu), 0.0
    for tried in range(1, 31):
        share = 0.5 ** (tried - 1)
        theta = point.theta + share * step
        if check_consistency(theta[system.unknowns.load]).relative_margin <= 0.0:
            continue
        trial = _at(system, theta)
        slope = before - trial.cost(mu)
        if slope > 0.0:
            return trial, tried
    return None, 30


@dataclass(frozen=True, eq=False, slots=True)
class BaseLoad:
    """A load computed from base parameters, and the base parameters themselves."""

    phi: FloatArray  # (10,), at the origin of the link's frame
    covariance: FloatArray  # (10, 10), with doubt about the arm
    load: LoadAtCenter
    estimate: Estimate  # of the base parameters of the robot with its load
    rms: Mapping[str, float]  # axis -> root mean square of the training residual, N m on the link side

    def __post_init__(self) -> None:
        freeze(self, phi="10", covariance="10 10")


@one_blas_thread()
def load_from_base(task: LoadTask, runs: Sequence[LoadRun]) -> BaseLoad:
    """Estimate the base parameters of the loaded robot, then solve for the load: M_load φ = β - M_known χ.

    Equations in which the load appears are weighted with the variances of their β. Runs without load are left out.
    """
    runs = [run for run in runs if run.loaded]
    robot, params = task.robot, layout(task.robot)
    base = base_parameters(robot, locked={int(i): float(runs[0].motion.q[0, i]) for i in np.flatnonzero(~task.axes)})
    regression = motor_regression(task, runs, base.kept)
    assert regression.variance is not None
    estimate = ols(compress(regression, 1.0 / np.sqrt(regression.variance)))
    link = params.link(task.link)
    there = np.abs(base.regrouping[:, link]).max(axis=1) > 0.0
    known = base.regrouping[there]
    M, y, C = known[:, link], estimate.values[there] - known @ task.arm.chi, estimate.covariance[np.ix_(there, there)]
    weights = 1.0 / np.sqrt(np.diag(C))
    lost = undetermined_names(M * weights[:, None], [f"{component}L" for component in LINK_COMPONENTS])
    if lost:
        raise RankDeficient(
            f"the base parameters do not determine {', '.join(lost)} of the load; move another axis", lost
        )
    solve = scipy.linalg.pinv(M * weights[:, None]) * weights
    phi = solve @ y
    C = solve @ (C + known @ task.arm.covariance @ known.T) @ solve.T
    residual = regression.y - regression.W @ estimate.values
    rms = {
        robot.joint_names[i]: float(np.sqrt(np.mean(residual[regression.joint == i] ** 2)))
        for i in np.flatnonzero(task.axes)
    }
    return BaseLoad(phi, C, at_center(phi, C), estimate, rms)


def motor_regression(task: LoadTask, runs: Sequence[LoadRun], columns: IntArray) -> Regression:
    """Build τ_M = W β of lossless gears, rows of the axes that count, torques referred to the link side."""
    robot, axes, params = task.robot, np.flatnonzero(task.axes), layout(task.robot)
    A = carried_from_joints(robot)[axes]
    blocks = [np.einsum("ai,nip->anp", A, regressor(robot, run.motion)[:, :, columns]) for run in runs]
    lengths = [len(run) for run in runs]
    return Regression(
        kind="dynamic",
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint_names=robot.joint_names,
        runs=tuple(run.run for run in runs),
        W=np.concatenate([block.reshape(-1, len(columns)) for block in blocks]),
        y=np.concatenate([run.tau[:, axes].T.ravel() for run in runs]),
        joint=np.concatenate([np.repeat(axes, n) for n in lengths]),
        run=np.repeat(np.arange(len(runs)), [n * len(axes) for n in lengths]),
        sample=np.concatenate([np.tile(np.arange(n), len(axes)) for n in lengths]),
        variance=np.concatenate([np.repeat(run.sigma[axes] ** 2, len(run)) for run in runs]),
    )


def at_center(phi: FloatArray, covariance: FloatArray) -> LoadAtCenter:
    """Move parameters at the frame's origin (10,), and their covariance, to the centre of gravity."""
    T = center_slope(phi)
    C = T @ covariance @ T.T
    return LoadAtCenter(center_values(phi), 0.5 * (C + C.T), check_consistency(phi))


def center_values(phi: FloatArray) -> FloatArray:
    """Evaluate c = h / m and I = I_0 - (hᵀh E - h hᵀ) / m, (10,) as CENTER_NAMES."""
    h, m = _moments(phi)
    inertia = tensor(phi) - (h @ h * np.eye(3) - np.outer(h, h)) / m
    return np.array([m, *(h / m), *(inertia[entry] for entry in _ENTRIES)])


def center_slope(phi: FloatArray) -> FloatArray:
    """Differentiate `center_values` by phi, (10, 10)."""
    h, m = _moments(phi)
    E = np.eye(3)
    T = np.zeros((10, 10))
    T[0, 9] = 1.0
    T[1:4, 6:9], T[1:4, 9] = E / m, -h / m**2
    for column, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):  # XX XY XZ YY YZ ZZ
        T[4 + _ENTRIES.index((a, b)), column] = 1.0
    for row, (a, b) in enumerate(_ENTRIES):
        T[4 + row, 6:9] = (E[a] * h[b] + E[b] * h[a] - 2.0 * h * E[a, b]) / m
        T[4 + row, 9] = (h @ h * E[a, b] - h[a] * h[b]) / m**2
    return T


def _moments(phi: FloatArray) -> tuple[FloatArray, float]:
    m = float(phi[9])
    if m == 0.0:
        raise ExcitorError("the load's mass is 0, so it has no centre of gravity; was the load on the robot?")
    return np.asarray(phi[6:9]), m


@dataclass(frozen=True, eq=False, slots=True)
class _Iterate:
    x: FloatArray
    residual: FloatArray
    R: FloatArray
    z: FloatArray  # Qᵀ r: what a full step could take away

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.residual))


@one_blas_thread()
def levenberg_marquardt(
    evaluate: Evaluate, start: FloatArray, *, max_iterations: int = 60, tolerance: float = TOLERANCE
) -> NonlinearFit:
    """Minimise ‖r(x)‖² from a start; damping is adapted by the ratio of each step's actual to its predicted gain."""
    point = _at_nonlinear(evaluate, np.asarray(start, dtype=float))
    history, evaluations, damping, growth = [point.size], 1, 1e-6, 2.0
    if not np.isfinite(point.size):
        return _ended(point, "not finite", 0, evaluations, history)
    D = _norms(point.R)
    uphill = 0
    while len(history) <= max_iterations:
        unit = tolerance * point.size / np.sqrt(max(len(point.residual) - len(point.x), 1))
        if np.linalg.norm(point.z) <= unit:
            return _ended(point, "gradient", len(history) - 1, evaluations, history)
        step = _step(point, D, damping)
        if np.linalg.norm(D * step) <= ROUNDING * np.linalg.norm(D * point.x):
            return _ended(point, "step", len(history) - 1, evaluations, history)
        trial = _at_nonlinear(evaluate, point.x + step)
        evaluations += 1
        predicted = float(point.z @ point.z - np.sum((point.z - point.R @ step) ** 2))
        gained = point.size**2 - trial.size**2 if np.isfinite(trial.size) else -np.inf
        if gained <= 0.0:
            damping, growth, uphill = damping * growth, 2.0 * growth, uphill + 1
            if uphill == _STEPS_UPHILL or predicted <= unit**2:
                return _ended(point, "cost", len(history) - 1, evaluations, history)
            continue
        ratio = gained / predicted
        damping *= max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
        growth, uphill = 2.0, 0
        point = trial
        D = np.maximum(D, _norms(point.R))
        history.append(point.size)
        if gained <= unit**2 or _crawls(history, unit):
            return _ended(point, "cost", len(history) - 1, evaluations, history)
    return _ended(point, "iterations", len(history) - 1, evaluations, history)


def covariance(fit: NonlinearFit, names: Sequence[str]) -> FloatArray:
    """(JᵀJ)⁻¹ of rows divided by their noise, (n_params, n_params); RankDeficient names inseparable parameters."""
    if undetermined := undetermined_names(fit.R, names):
        which = ", ".join(undetermined)
        sentence = f"the data do not separate {which}; fix one, or add a motion that separates them"
        raise RankDeficient(sentence, undetermined)
    norms = np.linalg.norm(fit.R, axis=0)
    inverse = scipy.linalg.solve_triangular(fit.R / norms, np.eye(len(norms))) / norms[:, None]
    return np.asarray(inverse @ inverse.T)


def undetermined_names(J: FloatArray, names: Sequence[str], tolerance: float = RANK_TOLERANCE) -> tuple[str, ...]:
    """Name the parameters that take part in directions along which J is 0; none if its rank is full."""
    norms = np.linalg.norm(J, axis=0)
    _, values, directions = np.linalg.svd(J / np.where(norms > 0.0, norms, 1.0))
    flat = directions[np.append(values, np.zeros(len(directions) - len(values))) <= tolerance * values[0]]
    if not len(flat):
        return ()
    part = np.abs(flat).max(axis=0)
    strong: BoolArray = part > 0.05 * part.max()
    return tuple(name for name, there in zip(names, strong, strict=True) if there)


def require_converged(fit: NonlinearFit, what: str) -> None:
    """Refuse a search that did not end at a minimum."""
    if not fit.converged:
        raise SolverError(
            f"{what}: the search for the parameters ended after {fit.iterations} iterations because {fit.message}; "
            "check units and signs of motion and torque, or start nearer",
            fit.status,
        )


def _crawls(history: Sequence[float], unit: float) -> bool:
    """Return True if several steps together gained next to nothing, as at the end of a search where F has kinks."""
    if len(history) <= _CRAWL_STEPS:
        return False
    return history[-1 - _CRAWL_STEPS] ** 2 - history[-1] ** 2 <= (_CRAWL * unit) ** 2


def _at_nonlinear(evaluate: Evaluate, x: FloatArray) -> _Iterate:
    residual, J = evaluate(x)
    n = len(x)
    if not (np.isfinite(residual).all() and np.isfinite(J).all()):
        return _Iterate(x, np.full(len(residual), np.inf), np.zeros((n, n)), np.zeros(n))
    T = triangle(np.column_stack([J, residual]))
    return _Iterate(x, residual, T[:n, :n], T[:n, n])


def _step(point: _Iterate, D: FloatArray, damping: float) -> FloatArray:
    """Solve the damped equations as least squares: [R; √μ D] Δ = [z; 0]."""
    n = len(point.x)
    rows = np.column_stack([np.vstack([point.R, np.sqrt(damping) * np.diag(D)]), np.append(point.z, np.zeros(n))])
    T = triangle(rows)
    return np.asarray(scipy.linalg.solve_triangular(T[:n, :n], T[:n, n]))


def _norms(R: FloatArray) -> FloatArray:
    norms = np.linalg.norm(R, axis=0)
    return np.asarray(np.where(norms > 0.0, norms, 1.0))


def _ended(point: _Iterate, status: Status, iterations: int, evaluations: int, history: list[float]) -> NonlinearFit:
    residual = np.where(np.isfinite(point.residual), point.residual, 0.0)
    return NonlinearFit(point.x, point.R, residual, status, iterations, evaluations, tuple(history))


@dataclass(frozen=True, eq=False, slots=True)
class LoadRank:
    """The Jacobian's rank at some θ: the number of unknowns, or combinations, that the motions determine."""

    names: tuple[str, ...]
    rank: int
    singular_values: FloatArray  # of the column-normalised, weighted Jacobian
    open_directions: FloatArray  # (n_unknowns - rank, n_unknowns), along which no torque changes; largest mass 1
    combinations: tuple[str, ...]  # the same in words

    def __post_init__(self) -> None:
        freeze(self, singular_values="n_values", open_directions=f"n_open {len(self.names)}")

    @property
    def condition(self) -> float:
        """Condition number of the column-normalised, weighted Jacobian."""
        return float(self.singular_values[0] / self.singular_values[-1]) if self.rank == len(self.names) else np.inf


def load_rank(system: Equations, theta: FloatArray) -> LoadRank:
    """Compute the Jacobian's rank at θ, and the combinations that it does not determine."""
    names = system.unknowns.names
    J = motor_torque(system, theta)[1] / system.sigma[:, None]
    arm = system.unknowns.arm
    if arm.stop > arm.start:  # bounded by their prior
        names, J = names[: arm.start], J[:, : arm.start]
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    values, V = np.linalg.svd(np.linalg.qr(J / scale, mode="r"))[1:]
    flat = V[values <= RANK_TOLERANCE * values[0]]
    directions = _reduced(flat) / scale
    return LoadRank(
        names=names,
        rank=len(names) - len(flat),
        singular_values=values,
        open_directions=np.array([_normalised(row, names) for row in directions]).reshape(-1, len(names)),
        combinations=tuple(_combination(row, names, scale) for row in directions),
    )


def rank_words(W: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return the combinations of columns that a matrix does not determine, as text; none if its rank is full."""
    norms = np.linalg.norm(W, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    padded = np.vstack([W / scale, np.zeros((max(0, W.shape[1] - len(W)), W.shape[1]))])
    values, V = np.linalg.svd(padded, full_matrices=False)[1:]
    return tuple(_combination(row, names, scale) for row in _reduced(V[values <= RANK_TOLERANCE * values[0]]) / scale)


def rank_sentence(found: LoadRank) -> str:
    """Return a sentence on the rank and the undetermined combinations."""
    n = len(found.names)
    if found.rank == n:
        return f"all {n} unknowns are determined: the Jacobian has full rank, condition {found.condition:.1f}"
    return f"rank {found.rank} of {n}: the motions do not determine {several(list(found.combinations))}"


def check_load_rank(system: Equations, theta: FloatArray) -> LoadRank:
    """Raise RankDeficient with a sentence unless all unknowns are determined."""
    found = load_rank(system, theta)
    if found.rank < len(found.names):
        names = [name for name, open_ in zip(found.names, found.open_directions.T, strict=True) if open_.any()]
        raise RankDeficient(f"{rank_sentence(found)}; {_remedy(system, found)}", names)
    return found


def diagnose_load(task: LoadTask, runs: Sequence[LoadRun], theta: FloatArray | None = None) -> tuple[Finding, ...]:
    """Check what runs determine of a load, at an estimate, or before there is one."""
    system = equations(task, runs)
    theta = linear_start(system) if theta is None else theta
    found = load_rank(system, theta)
    if found.rank < len(found.names):
        data: dict[str, float | str | tuple[str, ...]] = {"rank": float(found.rank)}
        data |= {"unknowns": float(len(found.names)), "combinations": found.combinations}
        return (Finding("unusable", "load rank", rank_sentence(found), _remedy(system, found), data),)
    findings = []
    if found.condition > POOR_CONDITION:
        sentence = f"the motions hardly separate the unknowns: condition {found.condition:.0f}"
        remedy = "let the axis before the wrist move too, and the wrist cover its range"
        findings.append(Finding("doubtful", "load condition", sentence, remedy, {"condition": found.condition}))
    return (*findings, *_alike(system, theta), *_impossible(system, theta))


def _alike(system: Equations, theta: FloatArray) -> list[Finding]:
    """Find axes whose gravity never changes sign: their losses look like Coulomb friction."""
    where, J = system.unknowns, motor_torque(system, theta)[1]
    found = []
    for k, axis in enumerate(where.efficiency_axes):
        rows = system.axis == axis
        loss = J[rows, where.efficiency.start + k]
        for column in range(where.friction.start, where.friction.stop):
            friction = J[rows, column]
            size = float(np.linalg.norm(loss) * np.linalg.norm(friction))
            alike = abs(float(loss @ friction)) / size if size > 0.0 else 0.0
            if alike > ALIKE:
                name, other = where.names[where.efficiency.start + k], where.names[column]
                sentence = f"{name} and {other} look alike (correlation {alike:.2f}): the torque carried hardly changes"
                remedy = "their sum is well determined and the load is not affected; do not quote either alone"
                data: dict[str, float | str | tuple[str, ...]] = {"correlation": alike, "parameters": (name, other)}
                found.append(Finding("note", "load losses", sentence, remedy, data))
    return found


def _impossible(system: Equations, theta: FloatArray) -> list[Finding]:
    where = system.unknowns
    found = []
    for k in range(where.efficiency.start, where.efficiency.stop):
        if not EFFICIENCIES[0] <= theta[k] <= EFFICIENCIES[1]:
            sentence = f"{where.names[k]} comes out as {theta[k]:.2f}, which no gear has"
            remedy = "check the sign and scale of that motor's current, or give the efficiencies"
            found.append(Finding("doubtful", "load losses", sentence, remedy, {"value": float(theta[k])}))
    return found


def _remedy(system: Equations, found: LoadRank) -> str:
    if all(not np.any(np.abs(row[10:]) > _SMALL) for row in found.open_directions):
        still = [name for name, moves in zip(system.task.robot.joint_names, system.task.axes, strict=True) if not moves]
        if still:
            return f"let another axis move a little too, such as {still[-1]}, or know the mass beforehand"
        return "let the axes cover more of their range, or know the mass beforehand"
    return "let each axis turn both ways, at different speeds and under different torques"


def _reduced(flat: FloatArray) -> FloatArray:
    """Reduce a basis of directions to one with few shared parameters: echelon form by columns."""
    if not len(flat):
        return flat
    order = scipy.linalg.qr(flat, mode="r", pivoting=True)[1][: len(flat)]
    reduced = np.linalg.solve(flat[:, order], flat)
    return np.where(np.abs(reduced) > _SMALL * np.abs(reduced).max(axis=1, keepdims=True), reduced, 0.0)


def _normalised(direction: FloatArray, names: Sequence[str]) -> FloatArray:
    """Divide a direction by its mass, or by its largest entry where it has none."""
    mass = direction[names.index("ML")]
    return np.asarray(direction / (mass if mass != 0.0 else direction[np.argmax(np.abs(direction))]))


def _combination(direction: FloatArray, names: Sequence[str], scale: FloatArray) -> str:
    row = _normalised(direction, names)
    part = np.abs(row * scale)
    kept = [k for k in np.argsort(-part) if part[k] > 1e-4 * part.max()]
    mass = names.index("ML")
    kept.sort(key=lambda k: (k != mass, -part[k]))
    text = "".join(_term(row[k], names[k], first=place == 0) for place, k in enumerate(kept))
    if tuple(names[:10]) != LOAD_NAMES or any(k >= 10 for k in kept) or mass not in kept:
        return text
    point = row[6:9]
    P = pseudo_inertia(row[:10])
    if np.abs(P[:3, :3] - np.outer(point, point)).max() > 1e-3 * max(float(point @ point), 1e-6):
        return text
    there = ", ".join(f"{x:.3f}" for x in np.where(np.abs(point) < 5e-4, 0.0, point))
    return f"{text}, which is a point mass at ({there}) m of the link's frame"


def _term(factor: float, name: str, *, first: bool) -> str:
    size = f"{abs(factor):.3g}"
    sign = ("-" if factor < 0.0 else "") if first else f" {'-' if factor < 0.0 else '+'} "
    return f"{sign}{'' if size == '1' else size + ' '}{name}"
