"""May the robot carry it? The load against the rated mass, and against what its wrist may turn and hold.

    inertia about axis j   M_jj(q) of the load alone, at the worst pose q          linear in φ
    moment about axis j    m g d, d the centre's distance from the axis, at the worst pose

Half of all robots on the floor carry more than they are rated for: [Swevers2002] §1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.experiments.designing.schema import Rated
from excitor.identify.load.fit import REACH
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

Answer = Literal["within", "over", "cannot tell"]
POSES = 400
WRIST = 3  # joints, from the last


@dataclass(frozen=True, slots=True)
class Rating:
    """One quantity of the load beside what is allowed."""

    what: str
    unit: str
    value: float
    sigma: float
    limit: float | None

    @property
    def answer(self) -> Answer:
        """Tell whether the whole 95 % interval lies on one side of the limit."""
        if self.limit is None:
            return "cannot tell"
        reach = REACH * self.sigma
        if self.value + reach <= self.limit:
            return "within"
        return "over" if self.value - reach > self.limit else "cannot tell"

    @property
    def sentence(self) -> str:
        """Say it."""
        told = f"{self.what} is {self.value:.4g} ± {REACH * self.sigma:.2g} {self.unit}"
        if self.limit is None:
            return f"{told}; no rating is stated, so whether that is too much cannot be told"
        beside = f"{told}, {100.0 * self.value / self.limit:.0f} % of the {self.limit:.4g} that are allowed"
        why = {
            "within": "within the rating",
            "over": "over the rating",
            "cannot tell": "its interval holds the limit, so it cannot be told",
        }
        return f"{beside}: {why[self.answer]}"


def ratings(robot: Robot, rated: Rated, phi: FloatArray, covariance: FloatArray, *, inertia: bool) -> list[Rating]:
    """Compare mass, and for the last three joints inertia and moment, with what is rated; all at the worst pose.

    `inertia`: whether it is known at all, which poses held do not tell.
    """
    check_joints(robot, rated)
    mass = Rating("the load's mass", "kg", float(phi[9]), float(np.sqrt(max(float(covariance[9, 9]), 0.0))), rated.mass)
    return [mass, *_about_axes(robot, rated, phi, covariance, inertia=inertia)]


def check_joints(robot: Robot, rated: Rated) -> None:
    """Refuse ratings of joints that there are not."""
    for key, given in (("inertia", rated.inertia), ("moment", rated.moment)):
        strange = [name for name in given if name not in robot.joint_names]
        if strange:
            known = ", ".join(robot.joint_names)
            raise ExcitorError(f"rated.{key}: {strange[0]!r} is no joint of {robot.name}; it has {known}")


def answer_of(found: list[Rating]) -> Answer:
    """Sum up: over where one is, within where all that are rated are."""
    rated = [rating.answer for rating in found if rating.limit is not None]
    if "over" in rated:
        return "over"
    return "within" if rated and all(answer == "within" for answer in rated) else "cannot tell"


def _about_axes(robot: Robot, rated: Rated, phi: FloatArray, C: FloatArray, *, inertia: bool) -> Iterator[Rating]:
    q = random_motion(robot, POSES).q
    rows = load_rows(robot, q)
    g = float(np.linalg.norm(robot.mechanism.gravity))
    wrist = range(max(0, robot.n_joints - WRIST), robot.n_joints)
    for j in wrist:
        name = robot.joint_names[j]
        if robot.mechanism.prismatic[j]:
            continue
        if inertia:
            worst: FloatArray = rows[int(np.argmax(rows[:, j] @ phi)), j]
            about = f"the load's inertia about {name}"
            spread = float(np.sqrt(max(float(worst @ C @ worst), 0.0)))
            yield Rating(about, "kg m2", float(worst @ phi), spread, rated.inertia.get(name))
        pose: FloatArray = rows[int(np.argmax(rows[:, j] @ _point(phi))), j]
        value, slope = _moment(pose, phi, g)
        spread = float(np.sqrt(max(float(slope @ C @ slope), 0.0)))
        yield Rating(f"its weight's moment about {name}", "N m", value, spread, rated.moment.get(name))


def load_rows(robot: Robot, q: FloatArray) -> FloatArray:
    """Rows r with M_jj = r φ of a load on the tool's link, (n_poses, n_joints, 10)."""
    rows = np.empty((len(q), robot.n_joints, 10))
    for k in range(10):
        phi = np.zeros((robot.mechanism.n_links, 10))
        phi[robot.tool.link, k] = 1.0
        rows[:, :, k] = np.diagonal(robot.mechanism.mass_matrix(q, phi), axis1=1, axis2=2)
    return rows


def _point(phi: FloatArray) -> FloatArray:
    """Concentrate a load in its centre, (10,)."""
    h, m = phi[6:9], phi[9]
    x, y, z = h
    flat = [y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y, *(m * h), m * m]
    return np.asarray(np.array(flat) / m)


def _moment(row: FloatArray, phi: FloatArray, g: float) -> tuple[float, FloatArray]:
    """m g d with m d² = row · point(φ), and its slope by central differences."""

    def value(at: FloatArray) -> float:
        return g * float(np.sqrt(max(float(row @ _point(at)) * float(at[9]), 0.0)))

    step = 1e-5 * np.maximum(np.abs(phi), 1e-3 * abs(phi[9]))
    slope = [(value(phi + s * e) - value(phi - s * e)) / (2.0 * s) for s, e in zip(step, np.eye(10), strict=True)]
    return value(phi), np.array(slope)
