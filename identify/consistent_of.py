"""Which parameters that a robot could have are nearest to an estimate? In the metric of its covariance, from it alone.

    minimise  ½ ‖C^(-½) (β - G χ)‖² + prior      G: base parameters of the standard ones;  χ physically consistent

Any estimator's result becomes a body this way, instruments' or a simulation's too; of weighted least squares it is what
`consistent_fit` finds from the data, for the factor of the data and C^(-½) are the same.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from excitor.identify.consistent import ConsistentEstimate, consistent_fit, standard_columns
from excitor.identify.consistent_task import Bounds
from excitor.identify.estimate import Estimate
from excitor.identify.factors import Factors, triangle
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.belief import Prior
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot


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

    `covariance` (n_params, n_params) stands in for the estimate's own, such as that of honest intervals. Base
    parameters that the estimate left out are free. ExcitorError where the estimate is not one of this robot's.
    """
    columns = standard_columns(robot)
    C = estimate.covariance if covariance is None else np.asarray(covariance, dtype=float)
    factors = _factors(estimate, robot, columns, _root_of_information(C, estimate.names))
    return consistent_fit(factors, robot, prior=prior, bounds=bounds, sigma={(0, 0): 1.0})


def _factors(estimate: Estimate, robot: Robot, columns: IntArray, root: FloatArray) -> Factors:
    """Write the estimate as equations of unit variance, one a parameter, with as much rest as its rows left."""
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
        raise ExcitorError(
            f"{_listed(strange)} {'is' if len(strange) == 1 else 'are'} no base parameters of {robot.name}; estimate "
            "the robot's own base parameters"
        )
    return np.array([rows[name] for name in estimate.names])


def _root_of_information(C: FloatArray, names: Sequence[str]) -> FloatArray:
    """Find U with UᵀU = C⁻¹, by Cholesky of the correlations."""
    sigma = np.sqrt(np.diag(C))
    if not (np.isfinite(C).all() and (sigma > 0.0).all()):
        raise ExcitorError("the estimate's covariance is not positive definite, so nothing is nearest to it")
    try:
        L = np.linalg.cholesky(C / np.outer(sigma, sigma))
    except np.linalg.LinAlgError:
        raise ExcitorError(
            f"the estimate's covariance of {len(names)} parameters is not positive definite, so nothing is nearest to "
            "it"
        ) from None
    return np.asarray(scipy.linalg.solve_triangular(L, np.diag(1.0 / sigma), lower=True))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
