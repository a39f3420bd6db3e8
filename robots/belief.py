"""What is believed of a robot before it moves, as coordinates in which every belief has unit strength.

The prior body of a link is its pseudo-inertia P0 = L Lᵀ; any other body is seen as X = L⁻¹ P L⁻ᵀ, the identity where
it is the prior ([Wensing2017], [Lee2020]). In X a unit step means "as different as the prior is large", whatever the
units, the size of the link or where its frame lies. Rotor inertias and friction are divided by their own sizes.

One rule for what a robot is forecast to be known by and for the model that is fitted to its data: `coordinates` gives
bodies and widths, `shares` and `labels` compare what data alone and the prior alone know of each parameter.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, shaped
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import link_poses, mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.inertia import check_consistency, parameters_of, pseudo_inertia
from excitor.robots.information import Information, as_white
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

FLOOR = 1e-3  # how thin a prior body may be: a belief without thickness could not be changed by any data
_GRAVITY = 9.81
_WATER = 1000.0  # kg/m³
Label = Literal["data-determined", "prior-dominated", "assumed zero"]
HALF = 0.5
_VAGUE = 1e-6  # of the prior's precision: what "nothing is believed of the others" is computed with


@dataclass(frozen=True, eq=False, slots=True)
class Prior:
    """Prior of the parameters: form, weight and values.

    `entropic` costs weight · (tr X - log det X - 4) for each link: no body without mass or size is ever chosen.
    `ridge` costs weight / 2 · ‖X - 1‖², with which bodies may be as thin as the bounds allow. Drives cost
    weight / 2 · ((x - x0) / size)². Data cost half their squared residuals over their variance, so a weight of 1 is
    a prior within ± 100 %, against independent rows; if only one row in k is independent, use a weight of k.
    """

    kind: Literal["entropic", "ridge"] = "entropic"
    weight: float = 1.0
    chi: FloatArray | None = None  # (n_params,), all believed; the robot's own prior, payload included, if None

    def __post_init__(self) -> None:
        if not self.weight > 0.0:
            raise ValueError(
                f"Prior.weight is {self.weight}, expected a positive number: without a prior, links that no torque "
                "shows may weigh anything"
            )
        if self.chi is not None:
            freeze(self, chi="n_params")


@dataclass(frozen=True, eq=False, slots=True)
@shaped(M="16 n_free", P0="4 4")
class Body:
    """One link in coordinates v: X = M v as a (4, 4) matrix, with the parameters' columns and their place in v."""

    link: int
    place: slice
    M: FloatArray  # (16, n_free)
    known: bool  # whether the robot states its mass
    P0: FloatArray  # (4, 4)


@dataclass(frozen=True, eq=False, slots=True)
@shaped(columns="int: n_free", B="n_free n_free", v0="n_free", drives="int: n_drives", positive="bool: n_free")
class Coordinates:
    """Free parameters χ[columns] = B v, with ‖v - v0‖ in units of the prior."""

    columns: IntArray  # (n_free,), of the layout
    B: FloatArray  # (n_free, n_free)
    v0: FloatArray  # (n_free,)
    bodies: tuple[Body, ...]
    drives: IntArray  # places in v of rotor inertias and friction
    positive: BoolArray  # (n_free,): drives that cannot be negative


def coordinates(robot: Robot, belief: Prior, torque_size: FloatArray, level: float | None) -> Coordinates:
    """Build coordinates of all parameters that are not assumed zero.

    `torque_size` (n_params,) is how large each parameter would be if it alone made its joints' torques (0: not
    seen), `level` the largest rms torque of a joint, None before any was measured; both stand in where nothing is
    known.
    """
    params = layout(robot)
    chi, known = _believed(robot, belief)
    free = np.flatnonzero(~robot.assumed_zero)
    B, v0 = np.zeros((len(free), len(free))), np.zeros(len(free))
    bodies: list[Body] = []
    generic = _generic_bodies(robot, chi, known, level)
    for link in range(params.n_links):
        own = np.flatnonzero((free >= 10 * link) & (free < 10 * link + 10))
        if not len(own):
            continue
        place = slice(int(own[0]), int(own[-1]) + 1)
        P0 = prior_body(chi[params.link(link)], known[params.link(link)], generic[link])
        M, U = _whiten(P0, free[place] - 10 * link)
        B[place, place] = scipy.linalg.solve_triangular(U, np.eye(len(own)))
        v0[place] = U @ parameters_of(P0)[free[place] - 10 * link]
        bodies.append(Body(link, place, M, bool(known[10 * link + 9]), P0))
    drives = np.flatnonzero(free >= params.n_link_params)
    sizes = _drive_sizes(robot, chi, torque_size)[free[drives]]
    B[drives, drives] = sizes
    v0[drives] = chi[free[drives]] / sizes
    return Coordinates(free, B, v0, tuple(bodies), drives, _positive(robot)[free])


def prior_body(phi: FloatArray, known: BoolArray, generic: FloatArray) -> FloatArray:
    """Build P0 (4, 4): known parameters completed from a generic body, thickened where nearly singular.

    A side thinner than FLOOR of the longest gets that much, and a pseudo-inertia whose smallest eigenvalue, scaled to
    unit diagonal, is below FLOOR gets the missing part of its diagonal: zeros stay zeros. Of a body that
    would need more than a tenth, only mass and centre of mass are used, which are in `generic` already.
    """
    P0 = pseudo_inertia(np.where(known, phi, generic))
    sides = np.diag(P0)[:3]
    if P0[3, 3] <= 0.0 or sides.max() <= 0.0 or sides.min() < 0.0:
        return pseudo_inertia(generic)
    P0[range(3), range(3)] = np.maximum(sides, FLOOR * sides.max())
    missing = FLOOR - check_consistency(parameters_of(P0)).relative_margin
    if missing > 0.1:
        return pseudo_inertia(generic)
    return np.asarray(P0 + max(missing, 0.0) * np.diag(np.diag(P0)))


def _believed(robot: Robot, belief: Prior) -> tuple[FloatArray, BoolArray]:
    if belief.chi is None:
        return np.where(robot.assumed_zero, 0.0, prior(robot)), robot.known | robot.assumed_zero
    if len(belief.chi) != len(robot.chi):
        raise ValueError(f"Prior.chi has {len(belief.chi)} entries, expected the {len(robot.chi)} of {robot.name}")
    return np.where(robot.assumed_zero, 0.0, belief.chi), np.ones(len(robot.chi), dtype=bool)


def _generic_bodies(robot: Robot, chi: FloatArray, known: BoolArray, level: float | None) -> FloatArray:
    """Build a generic body of each link, (n_links, 10): known mass and centre, else the mean mass, or one from torques.

    Each link's mass sits one n-th of the reach around its frame's origin (radius of gyration). Where no mass is
    known, the largest torque is taken for that of all links at half the reach; before any torque was measured, a link
    is as heavy as water in a ball of that radius.
    """
    n = layout(robot).n_links
    origins = link_poses(robot, random_motion(robot, 50, robot.locked).q)[:, :, :3, 3]
    reach = max(float(np.linalg.norm(origins - origins[:, :1], axis=2).max()), 0.1)
    phi, given = chi[: 10 * n].reshape(n, 10), known[: 10 * n].reshape(n, 10)
    weighed = given[:, 9] & (phi[:, 9] > 0.0)
    if weighed.any():
        mean = float(phi[weighed, 9].mean())
    elif level is not None:
        mean = 2.0 * max(level, 1e-3) / (_GRAVITY * reach * n)
    else:
        mean = _WATER * 4.0 / 3.0 * np.pi * (reach / n) ** 3
    bodies = np.empty((n, 10))
    for j in range(n):
        m = float(phi[j, 9]) if weighed[j] else mean
        h = phi[j, 6:9] if weighed[j] and given[j, 6:9].all() else np.zeros(3)
        P = np.zeros((4, 4))
        P[:3, :3] = np.outer(h, h) / m + m * (reach / n) ** 2 * np.eye(3)
        P[:3, 3] = P[3, :3] = h
        P[3, 3] = m
        bodies[j] = parameters_of(P)
    left = np.where(robot.assumed_zero[: 10 * n].reshape(n, 10), 0.0, bodies)
    is_body = [check_consistency(phi).relative_margin > 0.0 for phi in left]  # not where a diagonal is assumed zero
    return np.where(np.array(is_body)[:, None], left, bodies)


def _whiten(P0: FloatArray, entries: IntArray) -> tuple[FloatArray, FloatArray]:
    """Find M (16, n) with orthonormal columns and U with X = M U phi for the free entries of phi."""
    L = np.linalg.cholesky(P0)
    halves = [scipy.linalg.solve_triangular(L, pseudo_inertia(unit), lower=True).T for unit in np.eye(10)[entries]]
    M, U = np.linalg.qr(np.array([scipy.linalg.solve_triangular(L, X, lower=True).ravel() for X in halves]).T)
    return M, U


def _drive_sizes(robot: Robot, chi: FloatArray, torque_size: FloatArray) -> FloatArray:
    """Compute the size of a large change of each parameter, (n_params,).

    For a rotor, the prior's inertia. Friction changes with temperature and wear: the value that would explain all of
    its joints' torques, if that is more. A parameter with neither prior nor data stays constant, whatever its size.
    """
    sizes = np.abs(chi)
    friction = np.zeros(len(chi), dtype=bool)
    friction[list(layout(robot).friction_columns)] = True
    sizes = np.where(friction | (sizes == 0.0), np.maximum(sizes, torque_size), sizes)
    return np.where(sizes == 0.0, 1.0, sizes)


def unknown_friction(robot: Robot) -> BoolArray:
    """Mark the joints that feel friction of which no size is stated, (n_joints,)."""
    columns = layout(robot).friction_columns
    unknown = [term for term, k in zip(robot.drive.friction, columns, strict=True) if not robot.known[k]]
    acts = [term.acts for term in unknown if friction_model(term).dissipates]
    return np.asarray(np.any(np.array(acts).reshape(-1, robot.n_joints) != 0.0, axis=0))


def draw_robots(robot: Robot, n: int, *, spread: float, seed: int = 0) -> FloatArray:
    """Draw parameters about the prior, (n, n_params), the first the prior itself; every robot has positive inertia.

    Bodies by χ = χ0 + spread B z in `coordinates`, z standard normal, drives by the same share of their size, friction,
    which changes with temperature and wear, by twice that. Bodies that are none, as papers' base parameters, have each
    parameter spread by itself.
    """
    random, nominal = np.random.default_rng(seed), prior(robot)
    believed = coordinates(robot, Prior(), np.zeros(len(nominal)), None)
    B = spread * believed.B
    for body in believed.bodies:
        own = believed.columns[body.place]
        if np.abs(parameters_of(body.P0)[own % 10] - nominal[own]).max() > 1e-6 * np.abs(nominal[own]).max():
            B[body.place, body.place] = spread * np.diag(nominal[own])
    friction = np.isin(believed.columns, layout(robot).friction_columns)
    B[friction] *= 2.0
    q, found = random_motion(robot, 60, robot.locked).q, [nominal]
    bodies = [body for body in believed.bodies if _is_body(nominal, body.link)]
    for _ in range(50 * n):
        if len(found) == n:
            return np.array(found)
        chi = nominal.copy()
        chi[believed.columns] += B @ random.normal(size=len(B))
        bodies_hold = all(_is_body(chi, body.link) for body in bodies)
        drives_hold = not (believed.positive & (chi[believed.columns] < 0.0)).any()
        if bodies_hold and drives_hold and np.linalg.eigvalsh(mass_matrix(robot, q, chi)).min() > 0.0:
            found.append(chi)
    raise ExcitorError(
        f"{robot.name}: of {50 * n} robots drawn within {spread:.0%} of the prior only {len(found)} have positive "
        "inertia everywhere; state the masses better, or a smaller spread"
    )


def _is_body(chi: FloatArray, link: int) -> bool:
    return check_consistency(chi[10 * link : 10 * link + 10]).relative_margin > 0.0


def _positive(robot: Robot) -> BoolArray:
    """Mark parameters that must be positive: rotor inertias and dissipative friction, (n_params,)."""
    params = layout(robot)
    positive = np.zeros(len(params), dtype=bool)
    positive[list(params.rotor_columns)] = True
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        positive[column] |= friction_model(term).dissipates
    return positive


@dataclass(frozen=True, eq=False, slots=True)
@shaped(share="n_params", covariance="n_params n_params")
class Shares:
    """Posterior of a prior and data: covariance, and the data's share of each parameter's precision."""

    share: FloatArray  # (n_params,): part of the precision that data alone bring, 0 … 1
    covariance: FloatArray  # (n_params, n_params), of data and prior together


def shares(A: FloatArray, B: FloatArray, weight: float) -> Shares:
    """Compare the precision of each parameter χ = B v from data alone with that from the prior alone.

    The prior gives v the covariance 1 / weight, data A v ≈ b of unit variance the information AᵀA. For parameter
    c = eᵀB, with no prior on all others, p_data = 1 / (c (AᵀA)⁻¹ cᵀ) and p_prior = weight / (c cᵀ); its share
    is p_data / (p_data + p_prior). A parameter that torques show only combined with others has p_data = 0, although
    data may have moved it. Constraints are not counted.
    """
    _, s, Vt = np.linalg.svd(A, full_matrices=True)
    information = np.zeros(B.shape[1])
    information[: len(s)] = s**2
    directions = B @ Vt.T
    squares = np.sum(B**2, axis=1)
    alone = np.sum(directions**2 / (information + _VAGUE * weight), axis=1)
    both = directions / np.sqrt(information + weight)
    return Shares((squares / weight) / (squares / weight + alone), both @ both.T)


def labels(share: FloatArray, assumed_zero: BoolArray) -> tuple[Label, ...]:
    """Label each parameter by its larger precision, of data alone or of the prior alone."""
    return tuple(
        "assumed zero" if zero else "data-determined" if part > HALF else "prior-dominated"
        for part, zero in zip(share, assumed_zero, strict=True)
    )


@dataclass(frozen=True, slots=True)
class StandardForecast:
    """Predicted accuracy of one standard parameter, the payload counted with its link."""

    name: str
    unit: str
    value: float  # of the prior model
    sigma_prior: float  # of the belief
    sigma: float  # of belief and data, rows white
    sigma_inflated: float
    share: float  # of the precision that data alone bring, inflated
    label: Label


def forecast_standard(robot: Robot, total: Information, believed: Coordinates) -> tuple[StandardForecast, ...]:
    """Forecast every standard parameter from what is believed and what runs say."""
    params, chi = layout(robot), prior(robot)
    K = base_parameters(robot).regrouping[:, believed.columns] @ believed.B
    white, inflated = (shares(_root(K, each.matrix), believed.B, 1.0) for each in (total, as_white(total)))
    sigma, sigma_inflated, sigma_prior, share = np.zeros((4, len(params)))
    sigma[believed.columns] = np.sqrt(np.diag(white.covariance))
    sigma_inflated[believed.columns] = np.sqrt(np.diag(inflated.covariance))
    sigma_prior[believed.columns] = np.linalg.norm(believed.B, axis=1)
    share[believed.columns] = inflated.share
    return tuple(
        StandardForecast(
            name=params.names[k],
            unit=params.units[k],
            value=float(chi[k]),
            sigma_prior=float(sigma_prior[k]),
            sigma=float(sigma[k]),
            sigma_inflated=float(sigma_inflated[k]),
            share=float(share[k]),
            label=label,
        )
        for k, label in enumerate(labels(share, robot.assumed_zero))
    )


def _root(K: FloatArray, matrix: FloatArray) -> FloatArray:
    """Find A with AᵀA = Kᵀ matrix K, rounding errors left out."""
    F = K.T @ matrix @ K
    values, V = np.linalg.eigh(0.5 * (F + F.T))
    values = np.where(values > len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0), values, 0.0)
    return np.asarray(np.sqrt(values)[:, None] * V.T)
