"""Physically consistent standard parameters that explain a robot's torques; the only module that uses cvxpy.

    minimise    ½ ‖W χ - τ‖²_{Σ⁻¹} + weight · Σ_links (tr X - log det X)       X = L⁻¹ P L⁻ᵀ, P0 = L Lᵀ the prior
    subject to  X ≥ margin,  rotor inertias and friction ≥ 0,  masses and what else is bounded within bounds

Solved on the triangular factor ([Sousa2014], [Lee2020]) and never projected afterwards. Feasible is not sensible:
without the prior, links that no torque shows may weigh a tonne at the same residual.

Equations and limits are written in coordinates of the prior and units of the noise. `consistent_of` finds the
consistent parameters nearest to an estimate, in the metric of its covariance. `audit` checks independently of any
solver that parameters are physically consistent.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import scipy.linalg

from excitor.identify.currents import LAW_NEEDED
from excitor.identify.estimate import Estimate, Factors, group_sigma, merge, residual_norms, total, triangle, wls
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread, shaped
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.belief import Coordinates, Label, Prior, coordinates, labels, shares
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError
from excitor.robots.inertia import Consistency, check_consistency
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

_INSIDE = 1e-6  # of a bound's size: how far inside the solver must stay, so that bounds hold to the last digit
COSTLY = 0.1  # of the residual: bodies that cost more contradict the data, and are not handed out for the estimate
Solver = Literal["CLARABEL", "SCS"]
_RANK = 1e-10  # of the largest singular value in coordinates of the prior; below, data say nothing
_NARROW = 1e-5  # of the size of what is limited: the least room between bounds
_NOISE = 1e-4  # of the rms torque: residuals of simulated data are not believed to be smaller
WEIGHTS = np.logspace(0.0, 3.0, 13)  # of the prior


@dataclass(frozen=True, slots=True)
class Attempt:
    """Scaling of a problem for a solver: objectives in units of `unit`², gaps closed to `tolerance`."""

    unit: float
    tolerance: float


@dataclass(frozen=True, eq=False, slots=True)
@shaped(v="n_free")
class Solution:
    """A solution that a solver reports as optimal, and the tolerance it was solved to."""

    v: FloatArray  # (n_free,)
    solver: Solver
    tolerance: float


# What data do not show is flat: it is found to the root of the gap. 1e-8 is CLARABEL's own idea of optimal.
ATTEMPTS: Mapping[Solver, tuple[Attempt, ...]] = {
    "CLARABEL": tuple(Attempt(*a) for a in ((1.0, 1e-12), (10.0, 1e-10), (10.0, 1e-8), (1.0, 1e-8), (0.1, 1e-8))),
    "SCS": (Attempt(1.0, 1e-9),),
}


@dataclass(frozen=True, eq=False, slots=True)
class Audit:
    """Physical consistency of each link's body, and of the mass matrix in random poses."""

    links: tuple[Consistency, ...]
    smallest_eigenvalue: float  # of M(q) over the poses, mixed units
    relative_margin: float  # the same of M(q) scaled to unit diagonal; negative where M(q) is indefinite
    n_poses: int

    @property
    def holds(self) -> bool:
        """True if every link is physically consistent and M(q) > 0 in every pose."""
        return all(link.holds for link in self.links) and self.relative_margin > 0.0


@dataclass(frozen=True, eq=False, slots=True)
@shaped(
    chi="n_params",
    covariance="n_params n_params",
    share="n_params",
    beta="n_base",
    links="int: n_bodies",
    whitened_eigenvalue="n_bodies",
    eigenvalue="n_bodies",
)
class ConsistentEstimate:
    """Standard parameters, how they were estimated, and the data's share of each one's precision."""

    names: tuple[str, ...]  # of all parameters, as the layout orders them
    units: tuple[str, ...]
    chi: FloatArray  # (n_params,); a payload is counted with the link that carries it
    covariance: FloatArray  # (n_params, n_params), of white residuals and the prior, bounds not counted
    base_names: tuple[str, ...]
    beta: FloatArray  # (n_base,)
    labels: tuple[Label, ...]
    share: FloatArray  # (n_params,): of what data alone and the prior alone know of it, the data's part
    active: tuple[str, ...]  # parameters that lie on a bound
    links: IntArray  # (n_bodies,): links that have a body
    whitened_eigenvalue: FloatArray  # (n_bodies,): smallest of X
    eigenvalue: FloatArray  # (n_bodies,): smallest of P, mixed units
    data_residual: float  # norm of the weighted residuals
    wls_residual: float  # the same of least squares without constraints or prior
    prior_cost: float  # weight · divergence from the prior, 0 at the prior
    group_sigma: Mapping[tuple[int, int], float]  # (joint, run) -> standard deviation that weighted its rows
    n_rows: int
    solver: str
    status: str
    settings: Mapping[str, float | str]
    audit: Audit

    @property
    def loss(self) -> float:
        """Cost of consistency: the weighted residual relative to unconstrained least squares, minus 1."""
        return self.data_residual / self.wls_residual - 1.0 if self.wls_residual > 0.0 else 0.0


def standard_columns(robot: Robot) -> IntArray:
    """List the columns that a consistent fit needs: all parameters that are not assumed zero."""
    return np.flatnonzero(~robot.assumed_zero)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of parameters besides physical consistency."""

    mass_ratio: tuple[float, float] | None = (0.3, 3.0)  # to the prior mass, where the robot states one
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # {"M6": (10.6, inf)}: a known payload
    total_mass: tuple[float, float] | None = None  # kg, of all links
    margin: float = 1e-4  # smallest eigenvalue of X, the pseudo-inertia relative to the prior's

    def __post_init__(self) -> None:
        if not 0.0 < self.margin < 1.0:
            raise ValueError(f"Bounds.margin is {self.margin}, expected a number between 0 and 1; 1e-4 is usual")


def consistent_fit(
    factors: Factors,
    robot: Robot,
    *,
    prior: Prior | None = None,
    bounds: Bounds | None = None,
    sigma: Mapping[tuple[int, int], float] | None = None,
    solver: Solver = "CLARABEL",
) -> ConsistentEstimate:
    """Fit standard parameters; SolverFailed unless the solver calls the result optimal.

    `factors` compress a dynamic regression over `standard_columns(robot)`, which may be rank deficient. Rows are
    weighted by joint as `wls` does it, or with `sigma` by (joint, run), of which only the ratios count: residuals of
    unconstrained least squares are scaled to unit variance. SCS, at tight tolerances, is slower and coarser than
    CLARABEL, for when that has failed.
    """
    if robot.drive.in_amperes:
        raise ValueError(f"currents have no law, so nothing is in kg; {LAW_NEEDED}")
    return fit_task(pose(factors, robot, prior=prior, bounds=bounds, sigma=sigma), solver)


@dataclass(frozen=True, eq=False, slots=True)
class Limit:
    """low ≤ row @ v ≤ high, scaled so that 1 is the size of what is limited."""

    name: str
    row: FloatArray  # (n_free,)
    low: float
    high: float

    def __post_init__(self) -> None:
        freeze(self, row="n_free")
        if not self.low + _NARROW < self.high:
            sentence = f"the bounds leave no room to {self.name}: its lowest is not below its highest; widen Bounds"
            raise ValueError(sentence)


@dataclass(frozen=True, eq=False, slots=True)
@shaped(A="n_equations n_free", b="n_equations")
class Task:
    """Minimise ½ ‖A v - b‖² + prior(v) within limits."""

    robot: Robot
    coordinates: Coordinates
    prior: Prior
    bounds: Bounds
    limits: tuple[Limit, ...]
    A: FloatArray  # (n_equations, n_free)
    b: FloatArray  # (n_equations,)
    noise: float  # standard deviation of a weighted row, the unit of A and b
    rest: float  # norm of the weighted residuals that no parameters explain
    group_sigma: Mapping[tuple[int, int], float]
    n_rows: int


@one_blas_thread()
def minimise(task: Task, solver: Solver, attempts: Sequence[Attempt] | None = None) -> Solution:
    """Solve a task; SolverFailed unless the status is `optimal`.

    Where a solver ends close to the optimum but not at it, the same problem is solved again in other units or, last,
    with its usual tolerances: the solution is the same, its rounding is not.
    """
    import cvxpy as cp

    v = cp.Variable(task.A.shape[1])
    constraints = _constraints(cp, v, task)
    status = ""
    for attempt in attempts or ATTEMPTS[solver]:
        problem = cp.Problem(cp.Minimize(_objective(cp, v, task, attempt.unit)), constraints)
        status = _solved(cp, problem, solver, attempt.tolerance)
        if status == "optimal":
            return Solution(np.asarray(v.value, dtype=float), solver, attempt.tolerance)
        if "infeasible" in status:
            break
    raise SolverError(_failure(status, solver, task.robot.name), status)


def _solved(cp: Any, problem: Any, solver: Solver, tolerance: float) -> str:
    settings: dict[str, float] = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance}
    if solver == "SCS":
        settings = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": 200_000}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy warns of inaccurate solutions, which are refused
            problem.solve(solver=solver, **settings)
    except cp.error.SolverError:
        return "solver_error"
    return str(problem.status)


def _objective(cp: Any, v: Any, task: Task, unit: float) -> Any:
    place, weight = task.coordinates, unit**2 * task.prior.weight
    cost = 0.5 * cp.sum_squares((unit * task.A) @ v - unit * task.b)
    for body in place.bodies:
        if task.prior.kind == "entropic":
            X = _matrix(cp, body.M, v[body.place])
            cost += weight * (cp.trace(X) - cp.log_det(X))
        else:
            cost += 0.5 * weight * cp.sum_squares(v[body.place] - place.v0[body.place])
    if len(place.drives):
        cost += 0.5 * weight * cp.sum_squares(v[place.drives] - place.v0[place.drives])
    return cost


def _constraints(cp: Any, v: Any, task: Task) -> list[Any]:
    constraints = [
        _matrix(cp, body.M, v[body.place]) >> task.bounds.margin * np.eye(4) for body in task.coordinates.bodies
    ]
    low = [limit for limit in task.limits if np.isfinite(limit.low)]
    high = [limit for limit in task.limits if np.isfinite(limit.high)]
    if low:
        constraints.append(np.array([x.row for x in low]) @ v >= np.array([x.low for x in low]) + _INSIDE)
    if high:
        constraints.append(np.array([x.row for x in high]) @ v <= np.array([x.high for x in high]) - _INSIDE)
    return constraints


def _matrix(cp: Any, M: FloatArray, v: Any) -> Any:
    return cp.reshape(M @ v, (4, 4), order="C")


def _failure(status: str, solver: str, name: str) -> str:
    if "infeasible" in status:
        return f"{name}: no consistent parameters lie within the bounds ({solver}: {status}); widen Bounds"
    return (
        f"{name}: {solver} ended with {status!r}, so there is no consistent model; check the prior and the data's "
        "units, raise Prior.weight, or try solver='SCS'"
    )


def fit_task(task: Task, solver: Solver) -> ConsistentEstimate:
    """Solve a task, check the result independently of the solver, and describe it."""
    solution = minimise(task, solver)
    v = solution.v
    whitened = np.array(
        [np.linalg.eigvalsh((body.M @ v[body.place]).reshape(4, 4))[0] for body in task.coordinates.bodies]
    )
    _confirm(task, v, whitened, solver)
    params, base, columns = layout(task.robot), base_parameters(task.robot), task.coordinates.columns
    chi, share = np.zeros(len(params)), np.zeros(len(params))
    chi[columns] = task.coordinates.B @ v
    determined = shares(task.A, task.coordinates.B, task.prior.weight)
    share[columns] = determined.share
    covariance = np.zeros((len(params), len(params)))
    covariance[np.ix_(columns, columns)] = determined.covariance
    phis = [chi[params.link(body.link)] for body in task.coordinates.bodies]
    return ConsistentEstimate(
        names=params.names,
        units=params.units,
        chi=chi,
        covariance=covariance,
        base_names=base.names,
        beta=base.values(chi),
        labels=labels(share, task.robot.assumed_zero),
        share=share,
        active=_active(task, v, whitened),
        links=np.array([body.link for body in task.coordinates.bodies], dtype=np.int64),
        whitened_eigenvalue=whitened,
        eigenvalue=np.array([check_consistency(phi).smallest_eigenvalue for phi in phis]),
        data_residual=float(np.hypot(task.noise * np.linalg.norm(task.A @ v - task.b), task.rest)),
        wls_residual=task.rest,
        prior_cost=_prior_cost(task, v),
        group_sigma=task.group_sigma,
        n_rows=task.n_rows,
        solver=f"{solver} {version(solver.lower())}",
        status="optimal",
        settings=_settings(task, solution),
        audit=audit(task.robot, chi),
    )


def _settings(task: Task, solution: Solution) -> dict[str, float | str]:
    bounds = {"mass ratio": task.bounds.mass_ratio, **task.bounds.values, "total mass": task.bounds.total_mass}
    ranges = {name: f"{pair[0]:g} to {pair[1]:g}" for name, pair in bounds.items() if pair is not None}
    numbers = {"weight": task.prior.weight, "margin": task.bounds.margin, "tolerance": solution.tolerance}
    return {"prior": task.prior.kind, **numbers, **ranges}


def _confirm(task: Task, v: FloatArray, whitened: FloatArray, solver: str) -> None:
    """Refuse a solution reported as optimal that violates the limits: nothing is projected afterwards."""
    outside = [x.name for x in task.limits if not x.low <= x.row @ v <= x.high]
    outside += [
        f"link {body.link + 1}" for body, low in zip(task.coordinates.bodies, whitened, strict=True) if low <= 0.0
    ]
    if outside:
        raise SolverError(
            f"{task.robot.name}: {solver} calls a result optimal in which {', '.join(outside)} cannot be; "
            "it is refused: raise Bounds.margin or Prior.weight",
            "outside bounds",
        )


def _active(task: Task, v: FloatArray, whitened: FloatArray) -> tuple[str, ...]:
    near = 1e-3
    names = [x.name for x in task.limits if min(x.row @ v - x.low, x.high - x.row @ v) < near]
    thin = whitened < 1.1 * task.bounds.margin
    return (*names, *(f"link {body.link + 1}" for body, low in zip(task.coordinates.bodies, thin, strict=True) if low))


def _prior_cost(task: Task, v: FloatArray) -> float:
    """weight · (Σ_links divergence from the prior + ½ ‖drives‖²), 0 where nothing was learned."""
    place, cost = task.coordinates, 0.0
    for body in place.bodies:
        X = (body.M @ v[body.place]).reshape(4, 4)
        if task.prior.kind == "entropic":
            cost += float(np.trace(X) - np.linalg.slogdet(X)[1]) - 4.0
        else:
            cost += 0.5 * float(np.sum((v - place.v0)[body.place] ** 2))
    return task.prior.weight * (cost + 0.5 * float(np.sum((v - place.v0)[place.drives] ** 2)))


@one_blas_thread()
def pose(
    factors: Factors,
    robot: Robot,
    *,
    prior: Prior | None = None,
    bounds: Bounds | None = None,
    sigma: Mapping[tuple[int, int], float] | None = None,
) -> Task:
    """Weight, merge and reduce equations to one for each direction that the data show."""
    prior, bounds = prior or Prior(), bounds or Bounds()
    part = _in_layout_order(factors, robot)
    deviations = _deviations(part, sigma)
    place = coordinates(robot, prior, torque_size=_torque_sizes(part, robot, deviations), level=_level(part))
    T = total(part, 1.0 / deviations)
    U, s, Vt = np.linalg.svd(T[:, :-1] @ place.B, full_matrices=False)
    rank = max(1, int(np.count_nonzero(s > _RANK * s[0])))
    b = U[:, :rank].T @ T[:, -1]
    rest = float(np.linalg.norm(T[:, -1] - U[:, :rank] @ b))
    n_rows = int(part.n_rows.sum())
    floor = _NOISE * float(np.linalg.norm(T[:, -1])) / np.sqrt(n_rows)
    noise = max(rest / np.sqrt(max(n_rows - rank, 1)), floor, np.finfo(float).tiny)
    groups = zip(part.joint, part.run, deviations, strict=True)
    return Task(
        robot=robot,
        coordinates=place,
        prior=prior,
        bounds=bounds,
        limits=tuple(_limits(robot, place, bounds)),
        A=s[:rank, None] * Vt[:rank] / noise,
        b=b / noise,
        noise=noise,
        rest=rest,
        group_sigma={(int(joint), int(run)): float(value) for joint, run, value in groups},
        n_rows=n_rows,
    )


def _in_layout_order(factors: Factors, robot: Robot) -> Factors:
    """Select the columns of all free parameters, in the layout's order."""
    names = [layout(robot).names[k] for k in np.flatnonzero(~robot.assumed_zero)]
    where = {name: k for k, name in enumerate(factors.names)}
    missing = [name for name in names if name not in where]
    if missing:
        raise ValueError(
            f"the factors lack {len(missing)} of {robot.name}'s parameters ({', '.join(missing[:5])}, …); "
            "compress a regression with columns=standard_columns(robot)"
        )
    order = [where[name] for name in names]
    R = factors.R[:, :, [*order, factors.n_columns]]
    R = np.array([triangle(group) for group in R])
    units = tuple(factors.units[k] for k in order)
    return Factors(tuple(names), units, factors.joint, factors.run, factors.n_rows, R)


def _deviations(factors: Factors, sigma: Mapping[tuple[int, int], float] | None) -> FloatArray:
    """Find the deviation that each group's rows are divided by: given, or that of each joint's least-squares residuals.

    Of all standard parameters with the same residual, those of least norm are used: torques do not depend on that.
    """
    if sigma is None:
        T = total(factors, np.ones(len(factors.n_rows)))
        norms = np.linalg.norm(T[:, :-1], axis=0)
        scale = np.where(norms > _RANK * norms.max(initial=0.0), norms, np.inf)  # a column of rounding errors is none
        beta = np.linalg.lstsq(T[:, :-1] / scale, T[:, -1], rcond=_RANK)[0] / scale
        return group_sigma(factors, beta, "joint")
    groups = [(int(joint), int(run)) for joint, run in zip(factors.joint, factors.run, strict=True)]
    missing = [group for group in groups if not sigma.get(group, 0.0) > 0.0]
    if missing:
        raise ValueError(f"sigma has no positive entry for (joint, run) {missing[0]}; give one for each group of rows")
    return np.array([sigma[group] for group in groups])


def _torque_sizes(factors: Factors, robot: Robot, deviations: FloatArray) -> FloatArray:
    """Compute how large each parameter would be if it alone made its joints' torques, (n_params,); 0 where not seen."""
    scaled = factors.R / deviations[:, None, None]
    squares = np.sum(scaled**2, axis=1)  # (n_groups, n_columns + 1)
    visible = squares[:, :-1] > 1e-20 * squares[:, :-1].max(initial=0.0)
    torque = np.sum(np.where(visible, squares[:, -1:], 0.0), axis=0)
    motion = np.sum(np.where(visible, squares[:, :-1], 0.0), axis=0)
    sizes = np.zeros(len(layout(robot)))
    sizes[~robot.assumed_zero] = np.sqrt(torque / np.where(motion > 0.0, motion, 1.0))
    return sizes


def _level(factors: Factors) -> float:
    """Largest rms torque of a group."""
    return float((np.linalg.norm(factors.R[:, :, -1], axis=1) / np.sqrt(factors.n_rows)).max(initial=0.0))


def _limits(robot: Robot, place: Coordinates, bounds: Bounds) -> Iterator[Limit]:
    names, columns = layout(robot).names, [int(column) for column in place.columns]
    for k in np.flatnonzero(place.positive):
        yield Limit(names[columns[k]], np.eye(len(columns))[k], 0.0, np.inf)
    total_row, total_size = np.zeros(len(columns)), 0.0
    for body in place.bodies:
        column, mass = 10 * body.link + 9, float(body.P0[3, 3])
        if column not in columns:
            continue
        row = place.B[columns.index(column)] / mass
        total_row, total_size = total_row + mass * row, total_size + mass
        if body.known and bounds.mass_ratio is not None:
            yield Limit(names[column], row, *bounds.mass_ratio)
    for name, (low, high) in bounds.values.items():
        column = layout(robot).index(name)
        if column not in columns:
            raise ValueError(f"Bounds.values names {name!r}, which {robot.name} assumes to be zero; leave it out")
        row = place.B[columns.index(column)]
        size = float(np.linalg.norm(row))
        yield Limit(name, row / size, low / size, high / size)
    if bounds.total_mass is not None:
        low, high = bounds.total_mass
        yield Limit("total mass", total_row / total_size, low / total_size, high / total_size)


@one_blas_thread()
def consistent_of(
    estimate: Estimate,
    robot: Robot,
    *,
    covariance: FloatArray | None = None,
    prior: Prior | None = None,
    bounds: Bounds | None = None,
) -> ConsistentEstimate:
    """Find physically consistent standard parameters nearest to an estimate of base parameters, all or some.

    `covariance` (n_params, n_params) stands in for the estimate's own, such as that of `honest_intervals`. Base
    parameters that the estimate left out are free. ExcitorError where the estimate is not one of this robot's.
    """
    columns = standard_columns(robot)
    C = estimate.covariance if covariance is None else np.asarray(covariance, dtype=float)
    factors = _factors(estimate, robot, columns, _root_of_information(C, estimate.names))
    return consistent_fit(factors, robot, prior=prior, bounds=bounds, sigma={(0, 0): 1.0})


def prior_weight(parts: Sequence[Factors], robot: Robot, sigma: Mapping[tuple[int, int], float]) -> float:
    """Choose the weight of the prior that best predicts left-out stretches of time.

    `parts` are the compressed stretches of base-parameter equations, `sigma` the deviations that weighted their rows.
    Bodies are taken for unbounded and the prior for quadratic, as it is near its centre.
    """
    base, chi, errors = base_parameters(robot), np.zeros(len(layout(robot))), np.zeros(len(WEIGHTS))
    for k, part in enumerate(parts):
        try:
            estimate = wls(merge(other for i, other in enumerate(parts) if i != k))
        except RankDeficient:
            continue
        root = _root_of_information(estimate.covariance, estimate.names)
        task = pose(_factors(estimate, robot, standard_columns(robot), root), robot, sigma={(0, 0): 1.0})
        place, gap = task.coordinates, task.b - task.A @ task.coordinates.v0
        size, Q = np.linalg.eigh(task.A.T @ task.A)
        deviations = np.array([sigma[group] for group in zip(part.joint.tolist(), part.run.tolist(), strict=True)])
        for i, weight in enumerate(WEIGHTS):
            chi[place.columns] = place.B @ (place.v0 + Q @ (Q.T @ (task.A.T @ gap) / (size + weight)))
            errors[i] += np.sum((residual_norms(part, base.values(chi)) / deviations) ** 2)
    return float(WEIGHTS[int(np.argmin(errors))])


@dataclass(frozen=True, eq=False, slots=True)
@shaped(values="n_names", root="n_names k", chi="n_params")
class Delivered:
    """The parameters that are handed out: consistent ones where all base parameters are modelled, else the estimate."""

    names: tuple[str, ...]  # of base parameters
    values: FloatArray  # (n_names,)
    chi: FloatArray  # (n_params,)
    consistent: bool
    root: FloatArray  # (n_names, k), their covariance is root @ root.T


def delivered(
    robot: Robot, estimate: Estimate, covariance: FloatArray | None, consistent: ConsistentEstimate | None
) -> Delivered:
    """Choose between an estimate with its covariance (n_names, n_names), and its consistent parameters."""
    params, base = layout(robot), base_parameters(robot)
    kept = tuple(params.names[k] for k in base.kept)
    if consistent is None or not whole(consistent, kept, estimate.names):
        chi = np.zeros(len(params))
        chi[params.indices(estimate.names)] = estimate.values
        C = np.zeros((len(chi), 0))[: len(estimate.names)] if covariance is None else _root(covariance)
        return Delivered(estimate.names, estimate.values, chi, False, C)
    root = _root(consistent.covariance)
    spread = np.array([base.values(column) for column in root.T[root.any(axis=0)]])
    return Delivered(kept, base.values(consistent.chi), consistent.chi, True, spread.reshape(-1, len(kept)).T)


def whole(consistent: ConsistentEstimate, kept: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if consistent parameters are to be handed out: sound, cheap, and of all base parameters."""
    return consistent.audit.holds and consistent.loss <= COSTLY and set(kept) == set(names)


def _root(covariance: FloatArray) -> FloatArray:
    """Factor a covariance as root @ root.T, whatever its rank."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _factors(estimate: Estimate, robot: Robot, columns: IntArray, root: FloatArray) -> Factors:
    """Write the estimate as equations of unit variance, one a parameter, with its rows' residual."""
    params = layout(robot)
    n = len(columns)
    equations = np.zeros((max(len(root), n) + 1, n + 1))
    equations[: len(root), :n] = root @ _mapping(estimate, robot)[:, columns]
    equations[: len(root), n] = root @ estimate.values
    equations[-1, n] = np.sqrt(max(estimate.n_rows - len(root), 1))
    return Factors(
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint=np.array([0]),
        run=np.array([0]),
        n_rows=np.array([max(estimate.n_rows, len(root) + 1)]),
        R=triangle(equations)[None],
    )


def _mapping(estimate: Estimate, robot: Robot) -> FloatArray:
    """Find the estimate's parameters as combinations of the standard ones, (n_base, n_params)."""
    base, params = base_parameters(robot), layout(robot)
    rows = {params.names[k]: row for k, row in zip(base.kept, base.regrouping, strict=True)}
    strange = [name for name in estimate.names if name not in rows]
    if strange:
        which = ", ".join(strange[:5]) + (", …" if len(strange) > 5 else "")
        sentence = f"{which} {'is' if len(strange) == 1 else 'are'} no base parameters of {robot.name}"
        raise ExcitorError(f"{sentence}; estimate the robot's own base parameters")
    return np.array([rows[name] for name in estimate.names])


def _root_of_information(C: FloatArray, names: Sequence[str]) -> FloatArray:
    """Find U with UᵀU = C⁻¹, by Cholesky of the correlations."""
    sigma = np.sqrt(np.diag(C))
    if not (np.isfinite(C).all() and (sigma > 0.0).all()):
        raise ExcitorError("the estimate's covariance is not positive definite, so nothing is nearest to it")
    try:
        L = np.linalg.cholesky(C / np.outer(sigma, sigma))
    except np.linalg.LinAlgError:
        sentence = f"the estimate's covariance of {len(names)} parameters is not positive definite"
        raise ExcitorError(f"{sentence}, so nothing is nearest to it") from None
    return np.asarray(scipy.linalg.solve_triangular(L, np.diag(1.0 / sigma), lower=True))


def audit(robot: Robot, chi: FloatArray, *, n_poses: int = 200, seed: int = 0) -> Audit:
    """Check that every link is consistent and that M(q) > 0 in random poses within the joint limits.

    Links whose ten parameters are all assumed zero have no body and are not checked.
    """
    params = layout(robot)
    bodies = [params.link(j) for j in range(params.n_links) if not robot.assumed_zero[params.link(j)].all()]
    M = mass_matrix(robot, random_motion(robot, n_poses, robot.locked, seed).q, chi)
    moving = [i for i in range(robot.n_joints) if i not in robot.locked]
    M = M[:, moving][:, :, moving]
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    if (diagonal > 0.0).all():
        scale = 1.0 / np.sqrt(diagonal)
        relative = float(np.linalg.eigvalsh(M * scale[:, :, None] * scale[:, None, :]).min())
    else:
        relative = float(min(diagonal.min() / max(np.abs(diagonal).max(), np.finfo(float).tiny), 0.0))
    links = tuple(check_consistency(chi[columns]) for columns in bodies)
    smallest_eigenvalue = float(np.linalg.eigvalsh(M).min())
    return Audit(links=links, smallest_eigenvalue=smallest_eigenvalue, relative_margin=relative, n_poses=n_poses)
