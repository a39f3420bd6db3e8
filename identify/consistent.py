"""Standard parameters that a robot could have and that explain its torques: the one file that knows cvxpy.

    minimise    ½ ‖W χ - τ‖²_{Σ⁻¹} + weight · Σ_links (tr X - log det X)       X = L⁻¹ P L⁻ᵀ, P0 = L Lᵀ the prior
    subject to  X ≥ margin,  rotor inertias and friction ≥ 0,  masses and what else is bounded within bounds

Solved on the triangular factor ([Sousa2014], [Lee2020]) and never projected afterwards. Feasible is not sensible:
without the prior, links that no torque shows may weigh a tonne at the same residual.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from excitor.identify.consistent_audit import Audit, audit
from excitor.identify.consistent_task import Bounds, Task, pose
from excitor.identify.factors import Factors
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.belief import Body, Label, Prior, labels, shares
from excitor.robots.errors import SolverFailed
from excitor.robots.inertia import check_consistency
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

_INSIDE = 1e-6  # of a bound's size: how far inside the solver must stay, so that bounds hold to the last digit
Solver = Literal["CLARABEL", "SCS"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a problem is put to a solver: objectives counted in `unit`², gaps closed to `tolerance`."""

    unit: float
    tolerance: float


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """What a solver calls optimal, and how closely it was asked."""

    v: FloatArray  # (n_free,)
    solver: Solver
    tolerance: float

    def __post_init__(self) -> None:
        freeze(self, v="n_free")


# What data do not show is flat: it is found to the root of the gap. 1e-8 is CLARABEL's own idea of optimal.
ATTEMPTS: Mapping[Solver, tuple[Attempt, ...]] = {
    "CLARABEL": (
        Attempt(1.0, 1e-12),
        Attempt(10.0, 1e-10),
        Attempt(10.0, 1e-8),
        Attempt(1.0, 1e-8),
        Attempt(0.1, 1e-8),
    ),
    "SCS": (Attempt(1.0, 1e-9),),
}


@dataclass(frozen=True, eq=False, slots=True)
class ConsistentEstimate:
    """Standard parameters, how they came about, and how far each is the data's doing."""

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

    def __post_init__(self) -> None:
        freeze(self, chi="n_params", covariance="n_params n_params", share="n_params", beta="n_base")
        freeze(self, links="int: n_bodies", whitened_eigenvalue="n_bodies", eigenvalue="n_bodies")

    @property
    def loss(self) -> float:
        """Tell what consistency costs: the weighted residual relative to unconstrained least squares, minus 1."""
        return self.data_residual / self.wls_residual - 1.0 if self.wls_residual > 0.0 else 0.0


def standard_columns(robot: Robot) -> IntArray:
    """List the columns that a consistent fit needs: all parameters that are not assumed zero."""
    return np.flatnonzero(~robot.assumed_zero)


def consistent_fit(
    factors: Factors,
    robot: Robot,
    *,
    prior: Prior | None = None,
    bounds: Bounds | None = None,
    sigma: Mapping[tuple[int, int], float] | None = None,
) -> ConsistentEstimate:
    """Fit standard parameters with CLARABEL; SolverFailed unless it calls the result optimal.

    `factors` compress a dynamic regression over `standard_columns(robot)`, which may be rank deficient. Rows are
    weighted by joint as `wls` does it, or with `sigma` by (joint, run), of which only the ratios count: residuals of
    unconstrained least squares are scaled to unit variance.
    """
    return fit_task(pose(factors, robot, prior=prior, bounds=bounds, sigma=sigma), "CLARABEL")


def consistent_fit_by_scs(
    factors: Factors,
    robot: Robot,
    *,
    prior: Prior | None = None,
    bounds: Bounds | None = None,
    sigma: Mapping[tuple[int, int], float] | None = None,
) -> ConsistentEstimate:
    """Fit as `consistent_fit` does with SCS at tight tolerances: slower and coarser, for when CLARABEL has failed."""
    return fit_task(pose(factors, robot, prior=prior, bounds=bounds, sigma=sigma), "SCS")


@one_blas_thread()
def minimise(task: Task, solver: Solver, attempts: Sequence[Attempt] | None = None) -> Solution:
    """Solve a task; SolverFailed unless the status is `optimal`.

    Where a solver comes close but not all the way, the same problem is put to it again in other units or, last,
    with its usual tolerances: its solution is the same, its rounding is not.
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
    raise SolverFailed(_told(status, solver, task.robot.name), status)


def _solved(cp: Any, problem: Any, solver: Solver, tolerance: float) -> str:
    settings = (
        {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": 200_000}
        if solver == "SCS"
        else {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance}
    )
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


def _told(status: str, solver: str, name: str) -> str:
    if "infeasible" in status:
        return f"{name}: no consistent parameters lie within the bounds ({solver}: {status}); widen Bounds"
    return (
        f"{name}: {solver} ended with {status!r}, so there is no consistent model; check the prior and the data's "
        "units, raise Prior.weight, or try consistent_fit_by_scs"
    )


def fit_task(task: Task, solver: Solver) -> ConsistentEstimate:
    """Solve a task, measure the result afresh, and describe it."""
    solution = minimise(task, solver)
    v = solution.v
    whitened = np.array([np.linalg.eigvalsh((body.M @ v[body.place]).reshape(4, 4))[0] for body in _bodies(task)])
    _confirm(task, v, whitened, solver)
    params, base, columns = layout(task.robot), base_parameters(task.robot), task.coordinates.columns
    chi, share = np.zeros(len(params)), np.zeros(len(params))
    chi[columns] = task.coordinates.B @ v
    known = shares(task.A, task.coordinates.B, task.prior.weight)
    share[columns] = known.share
    covariance = np.zeros((len(params), len(params)))
    covariance[np.ix_(columns, columns)] = known.covariance
    phis = [chi[params.link(body.link)] for body in _bodies(task)]
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
        links=np.array([body.link for body in _bodies(task)], dtype=np.int64),
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
    asked = {"mass ratio": task.bounds.mass_ratio, **task.bounds.values, "total mass": task.bounds.total_mass}
    told = {name: f"{pair[0]:g} to {pair[1]:g}" for name, pair in asked.items() if pair is not None}
    numbers = {"weight": task.prior.weight, "margin": task.bounds.margin, "tolerance": solution.tolerance}
    return {"prior": task.prior.kind, **numbers, **told}


def _bodies(task: Task) -> tuple[Body, ...]:
    return task.coordinates.bodies


def _confirm(task: Task, v: FloatArray, whitened: FloatArray, solver: str) -> None:
    """Refuse what a solver calls optimal and is not within the limits: nothing is projected afterwards."""
    outside = [x.name for x in task.limits if not x.low <= x.row @ v <= x.high]
    outside += [f"link {body.link + 1}" for body, low in zip(_bodies(task), whitened, strict=True) if low <= 0.0]
    if outside:
        raise SolverFailed(
            f"{task.robot.name}: {solver} calls a result optimal in which {', '.join(outside)} cannot be; "
            "it is refused: raise Bounds.margin or Prior.weight",
            "outside bounds",
        )


def _active(task: Task, v: FloatArray, whitened: FloatArray) -> tuple[str, ...]:
    near = 1e-3
    names = [x.name for x in task.limits if min(x.row @ v - x.low, x.high - x.row @ v) < near]
    thin = whitened < 1.1 * task.bounds.margin
    return (*names, *(f"link {body.link + 1}" for body, low in zip(_bodies(task), thin, strict=True) if low))


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
