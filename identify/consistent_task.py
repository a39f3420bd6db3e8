"""What a consistent fit has to solve: equations and limits, in coordinates of the prior and units of the noise."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from excitor.identify.estimate import group_sigma
from excitor.identify.factors import Factors, total, triangle
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread
from excitor.robots.belief import Coordinates, Prior, coordinates
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

_RANK = 1e-10  # of the largest singular value in coordinates of the prior; below, data say nothing
_NARROW = 1e-5  # of the size of what is limited: the least room between bounds
_NOISE = 1e-4  # of the rms torque: residuals of simulated data are not believed to be smaller


@dataclass(frozen=True, slots=True)
class Bounds:
    """What parameters may be, besides physically consistent."""

    mass_ratio: tuple[float, float] | None = (0.3, 3.0)  # to the prior mass, where the robot states one
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # {"M6": (10.6, inf)}: a known payload
    total_mass: tuple[float, float] | None = None  # kg, of all links
    margin: float = 1e-4  # smallest eigenvalue of X, the pseudo-inertia relative to the prior's

    def __post_init__(self) -> None:
        if not 0.0 < self.margin < 1.0:
            raise ValueError(f"Bounds.margin is {self.margin}, expected a number between 0 and 1; 1e-4 is usual")


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
            raise ValueError(
                f"the bounds leave no room to {self.name}: its lowest is not below its highest; widen Bounds"
            )


@dataclass(frozen=True, eq=False, slots=True)
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

    def __post_init__(self) -> None:
        freeze(self, A="n_equations n_free", b="n_equations")


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
    """Take the columns of all free parameters, in the layout's order."""
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
    """Find what each group's rows are divided by: given, or what least squares leaves in the rows of each joint.

    Torques do not depend on which of the equally good standard parameters is taken: the smallest is.
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
    """Say how large each parameter would be if it alone made its joints' torques, (n_params,); 0 where not seen."""
    scaled = factors.R / deviations[:, None, None]
    squares = np.sum(scaled**2, axis=1)  # (n_groups, n_columns + 1)
    seen = squares[:, :-1] > 1e-20 * squares[:, :-1].max(initial=0.0)
    torque = np.sum(np.where(seen, squares[:, -1:], 0.0), axis=0)
    motion = np.sum(np.where(seen, squares[:, :-1], 0.0), axis=0)
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
