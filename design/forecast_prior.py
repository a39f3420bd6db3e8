"""Standard parameters under the consistent prior: how far data will move what is believed of each link.

The entropic prior tr(P0⁻¹P) - log det(P0⁻¹P) of [Lee2020] has at P = P0 the Hessian tr(P0⁻¹ dP P0⁻¹ dP): linearised, it
is a Gaussian of that precision, ±100 % of the prior body whatever the units. Rotors are believed within their own size,
friction within what would explain all of its joints' torques. Posterior: (F + Λ)⁻¹. That bodies stay positive is not
counted.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import link_poses
from excitor.robots.inertia import check_consistency, pseudo_inertia
from excitor.robots.information import Information, worth
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

WIDTH = 1.0  # of the belief: ±100 %
HALF = 0.5  # of the precision: above, a parameter is the data's doing
FLOOR = 1e-3  # smallest eigenvalue of a prior body scaled to unit diagonal; thinner ones are replaced by a ball
_VAGUE = 1e-6  # of the prior's precision: what "nothing is believed of the others" is computed with
_WATER = 1000.0  # kg/m³

Label = Literal["data-determined", "prior-dominated", "assumed zero"]


@dataclass(frozen=True, slots=True)
class StandardForecast:
    """What will be known of one standard parameter, the payload counted with its link."""

    name: str
    unit: str
    value: float  # of the prior model
    sigma_prior: float  # of the belief
    sigma: float  # of belief and data, rows white
    sigma_inflated: float
    share: float  # of the precision that data alone bring, inflated
    label: Label


def forecast_standard(robot: Robot, total: Information, B: FloatArray) -> tuple[StandardForecast, ...]:
    """Forecast every standard parameter from what is believed (`belief`) and what runs say."""
    params, chi = layout(robot), prior(robot)
    K = base_parameters(robot).regrouping @ B
    sigma, _ = _posterior(K, B, total.matrix)
    inflated, share = _posterior(K, B, worth(total).matrix)
    return tuple(
        StandardForecast(
            name=params.names[k],
            unit=params.units[k],
            value=float(chi[k]),
            sigma_prior=float(np.linalg.norm(B[k])),
            sigma=float(sigma[k]),
            sigma_inflated=float(inflated[k]),
            share=float(share[k]),
            label=_label(float(share[k]), bool(robot.assumed_zero[k])),
        )
        for k in range(len(params))
    )


def belief(robot: Robot, torque_size: FloatArray) -> FloatArray:
    """Find B (n_params, n_free) with B Bᵀ the belief's covariance: χ = χ0 + B v, v of unit variance.

    `torque_size` (n_params,) is how large each parameter would be if it alone made its joints' torques (0: not seen);
    it stands in for the size of friction and of drives of which nothing is known.
    """
    params, chi = layout(robot), prior(robot)
    B = np.zeros((len(params), len(params)))
    bodies = _bodies(robot)
    for j in range(params.n_links):
        free = np.flatnonzero(~robot.assumed_zero[params.link(j)])
        if len(free):
            solved = [np.linalg.solve(bodies[j], pseudo_inertia(unit)) for unit in np.eye(10)[free]]
            H = np.array([[np.trace(a @ b) for b in solved] for a in solved])
            size = np.sqrt(np.diag(H))  # scaled first: inertias and masses are decades apart
            factor = np.linalg.cholesky(0.5 * (H + H.T) / np.outer(size, size))
            half = scipy.linalg.solve_triangular(factor, np.eye(len(free)), lower=True).T / size[:, None]
            B[np.ix_(10 * j + free, 10 * j + free)] = WIDTH * half
    drives = np.arange(params.n_link_params, len(params))
    sizes = _drive_sizes(robot, chi, torque_size)
    B[drives, drives] = np.where(robot.assumed_zero, 0.0, WIDTH * sizes)[drives]
    return B[:, B.any(axis=0)]


def _drive_sizes(robot: Robot, chi: FloatArray, torque_size: FloatArray) -> FloatArray:
    """Take a rotor for as large as believed; friction, which wears and warms, for what would explain all torques."""
    friction = np.zeros(len(chi), dtype=bool)
    friction[list(layout(robot).friction_columns)] = True
    sizes = np.where(friction | (chi == 0.0), np.maximum(np.abs(chi), torque_size), np.abs(chi))
    return np.where(sizes == 0.0, 1.0, sizes)


def _posterior(K: FloatArray, B: FloatArray, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate σ and the data's share of each parameter's precision.

    As the consistent fit labels them: p_data = 1 / (c (KᵀFK)⁻¹ cᵀ), p_prior = 1 / (c cᵀ) for c = eᵀB, nothing else
    believed; the share is p_data / (p_data + p_prior).
    """
    F = K.T @ matrix @ K
    values, V = np.linalg.eigh(0.5 * (F + F.T))
    values = np.where(values > len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0), values, 0.0)
    squares, along = np.sum(B**2, axis=1), (B @ V) ** 2
    alone = along @ (1.0 / (values + _VAGUE))
    share = np.divide(squares, squares + alone, out=np.zeros(len(B)), where=squares > 0.0)
    return np.sqrt(along @ (1.0 / (values + 1.0))), share


def _bodies(robot: Robot) -> FloatArray:
    """Give each link a body P0 (n_links, 4, 4): the prior's where it is one, else a ball of the likely mass.

    The ball's radius of gyration is the n-th part of the reach. Without any known mass, a link is as heavy as water
    in a ball of that radius.
    """
    n = layout(robot).n_links
    origins = link_poses(robot, random_motion(robot, 50, robot.locked).q)[:, :, :3, 3]
    radius = max(float(np.linalg.norm(origins - origins[:, :1], axis=2).max()), 0.1) / n
    phi, known = prior(robot)[: 10 * n].reshape(n, 10), (robot.known | robot.assumed_zero)[: 10 * n].reshape(n, 10)
    weighed = known[:, 9] & (phi[:, 9] > 0.0)
    likely = float(phi[weighed, 9].mean()) if weighed.any() else _WATER * 4.0 / 3.0 * np.pi * radius**3
    mass = np.where(weighed, phi[:, 9], likely)
    return np.array([_body(phi[j], known[j], mass=float(mass[j]), radius=radius) for j in range(n)])


def _body(phi: FloatArray, known: BoolArray, *, mass: float, radius: float) -> FloatArray:
    if known.all() and phi[9] > 0.0 and check_consistency(phi).relative_margin >= FLOOR:
        return pseudo_inertia(phi)
    h = phi[6:9] if known[6:].all() and phi[9] > 0.0 else np.zeros(3)
    P = np.empty((4, 4))
    P[:3, :3] = np.outer(h, h) / mass + mass * radius**2 * np.eye(3)
    P[:3, 3] = P[3, :3] = h
    P[3, 3] = mass
    return P


def _label(share: float, assumed_zero: bool) -> Label:
    if assumed_zero:
        return "assumed zero"
    return "data-determined" if share > HALF else "prior-dominated"
