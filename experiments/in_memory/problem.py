"""A design problem in memory: which series, within which limits, by which criterion.

Limits and volumes are plain descriptions, which `build_problem` turns into the constraints that the search,
the certificate and the check of the executed motion share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from excitor.design import problem as _search
from excitor.design.constraints.constraint import Constraint
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.registry import check_constraint
from excitor.design.constraints.tool_speed import ToolSpeed
from excitor.design.motion import Excitation
from excitor.design.schedule import RunPlan
from excitor.experiments import campaign as _files
from excitor.experiments.plan import run_problem
from excitor.experiments.setup import Setup, assumed_noise
from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.cell import Scene, Shape, Zone, scene_rows
from excitor.robots.errors import choice
from excitor.robots.files.schema import sentences
from excitor.robots.inertia import translation
from excitor.robots.robot import Limits, Robot

SAMPLE_TIME = 0.004  # s


@dataclass(frozen=True)
class Series:
    """A finite Fourier series of joint positions, repeated, between ramps from rest to rest.

    Args:
        period: s.
        harmonics: how many from the first, or which.
        joints: names of those that move; none named: all.
        sample_time: of the controller, s; all times are whole multiples of it.
        measured, warm_up: whole periods that count, and that are made before.
        ramp, settle, hold: s.
    """

    period: float = 10.0
    harmonics: int | Sequence[int] = 5
    joints: Sequence[str] = ()
    sample_time: float = SAMPLE_TIME
    measured: int = 5
    warm_up: int = 1
    ramp: float = 5.0
    settle: float = 2.0
    hold: float = 2.0

    def excitation(self, robot: Robot) -> Excitation:
        """Write the series for a robot; ValueError names what does not fit."""
        unknown = [name for name in self.joints if name not in robot.joint_names]
        if unknown:
            raise ValueError(f"joints: {unknown[0]!r} is no joint of {robot.name}; it has {robot.joint_names}")
        moving = np.array([not self.joints or name in self.joints for name in robot.joint_names])
        moving[list(robot.locked)] = False
        harmonics = range(1, self.harmonics + 1) if isinstance(self.harmonics, int) else self.harmonics
        rest = {key: getattr(self, key) for key in ("ramp", "settle", "hold", "warm_up", "measured")}
        return Excitation(self.period, self.sample_time, tuple(harmonics), moving, **rest)


@dataclass(frozen=True)
class Box:
    """A box with its faces along the base frame's axes.

    Args:
        center: in the base frame, m.
        size: whole edge lengths, m.
    """

    center: Sequence[float]
    size: Sequence[float]

    def shape(self) -> Shape:
        """Write the box as a solid that distances are measured to."""
        return Shape("box", translation(*self.center), 0.5 * np.asarray(self.size, dtype=float))


@dataclass(frozen=True)
class Sphere:
    """A ball.

    Args:
        center: in the base frame, m.
        radius: m.
    """

    center: Sequence[float]
    radius: float

    def shape(self) -> Shape:
        """Write the ball as a solid that distances are measured to."""
        return Shape("sphere", translation(*self.center), np.array([self.radius, 0.0, 0.0]))


@dataclass(frozen=True)
class KeepOut:
    """A volume that links and tool stay outside of.

    Args:
        volume: Box or Sphere.
        clearance: kept between surfaces, m.
        name: in reports; by default a number.
        bodies: "all", "links" or "tool".
    """

    volume: Box | Sphere
    clearance: float = 0.02
    name: str = ""
    bodies: str = "all"
    keep: str = "out"


@dataclass(frozen=True)
class KeepIn(KeepOut):
    """A volume that links and tool stay inside of."""

    keep: str = "in"


@dataclass(frozen=True)
class SelfCollision:
    """Clearance between the robot's own links, m."""

    clearance: float = 0.02


@dataclass(frozen=True)
class PositionLimit:
    """Joint positions: a margin kept free at both ends of the robot's own range.

    Args:
        margin: rad or m.
        joints: tighter ranges (low, high) by joint name, rad or m.
    """

    margin: float = 0.0
    joints: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class VelocityLimit:
    """Joint velocities: a share of the robot's own limits.

    Args:
        share: 0 to 1.
        joints: tighter limits by joint name, rad/s or m/s.
    """

    share: float = 1.0
    joints: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AccelerationLimit:
    """Joint accelerations: a share of the robot's own limits.

    Args:
        share: 0 to 1.
        joints: tighter limits by joint name, rad/s² or m/s².
    """

    share: float = 1.0
    joints: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TorqueLimit:
    """Joint torques of the prior model: a share of the robot's own limits.

    Args:
        share: 0 to 1, of the peak.
        joints: tighter limits by joint name, N m or N.
        rms_share: of the limits above, over the measured period; none: not limited.
    """

    share: float = 1.0
    joints: Mapping[str, float] = field(default_factory=dict)
    rms_share: float | None = None


Limit = KeepOut | SelfCollision | PositionLimit | VelocityLimit | AccelerationLimit | TorqueLimit


@dataclass(frozen=True, eq=False)
class Problem:
    """A design problem: a robot, a series, constraints and a criterion. Built by `build_problem`.

    >>> import excitor as ex
    >>> ex.build_problem(ex.load_robot("rotradi"), ex.Series(period=5, harmonics=3))
    <Problem rotradi: 3 joints, 3 harmonics of 5 s, criterion condition, 21 design variables>
    """

    setup: Setup
    plan: RunPlan
    search: _search.Problem

    @property
    def robot(self) -> Robot:
        """The robot that moves."""
        return self.setup.robot

    def __repr__(self) -> str:
        series = self.search.excitation
        return (
            f"<Problem {self.robot.name}: {int(series.moving.sum())} joints, {len(series.harmonics)} harmonics of "
            f"{series.period:g} s, criterion {self.setup.design.criterion}, {self.search.n_design} design variables>"
        )


def build_problem(
    robot: Robot,
    series: Series,
    constraints: Sequence[Constraint | Limit] = (),
    criterion: str = "condition",
    *,
    home: ArrayLike | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Problem:
    """Collect a design problem.

    Args:
        robot: whose own limits hold in any case.
        series: the motion's form.
        constraints: what else holds: ToolSpeed, KeepOut, KeepIn, SelfCollision, PositionLimit, VelocityLimit,
            AccelerationLimit, TorqueLimit, ToolCone, JointSum, ToolAcceleration, TorqueEnvelope, RobustTorque, or a
            Constraint of your own.
        criterion: "condition", "d", "a", "e" or "sigma" (with `parameters` in settings).
        home: where the robot waits, (n_joints,) in rad or m; by default every joint's zero or the nearest limit.
        settings: other keys of the table [design] of campaign.toml, such as {"parameters": ["ZZ1R"]}.

    >>> import excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> ex.build_problem(robot, ex.Series(5, 3), [ex.ToolSpeed(2.0), ex.VelocityLimit(0.8)], "d")
    <Problem rotradi: 3 joints, 3 harmonics of 5 s, criterion d, 21 design variables>
    """
    excitation = series.excitation(robot)
    limits, torque_rms = _limits(robot, constraints)
    scene = _scene(robot, constraints)
    speed = min([entry.limit for entry in constraints if isinstance(entry, ToolSpeed)], default=np.inf)
    waiting = _home(robot, limits, home)
    others = tuple(entry for entry in constraints if isinstance(entry, Constraint) and not isinstance(entry, ToolSpeed))
    for entry in others:
        if not type(entry).__module__.startswith("excitor."):  # the own ones are tested
            check_constraint(entry, robot)
    held = Constraints(limits, torque_rms, scene, speed, waiting, others=others)
    content = _content(robot, {**(settings or {}), "criterion": criterion}, scene)
    noise = assumed_noise(robot, content.noise.rate_hz, content.noise.inflation)
    pose = np.full(robot.n_joints, np.nan)
    pose[list(robot.locked)] = list(robot.locked.values())
    setup = Setup(
        _files.in_memory(robot, content), robot, content.design, excitation, held, noise, pose, False, (noise.source,)
    )
    plan = RunPlan("excitation", "excitation", excitation.moving, "identify", "designed in memory")
    return Problem(setup, plan, run_problem(setup, plan, ()))


def _content(robot: Robot, design: Mapping[str, Any], scene: Scene | None) -> _files.Campaign:
    itself = scene is not None and scene.self_collision
    try:
        return _files.Campaign.model_validate(
            {"robot": robot.name, "design": dict(design), "cell": {"self_collision": itself}}
        )
    except ValidationError as error:
        raise ValueError("; ".join(sentences(list(error.errors(include_url=False)), _files.Campaign))) from None


def _limits(robot: Robot, constraints: Sequence[Constraint | Limit]) -> tuple[Limits, FloatArray]:
    """Tighten a robot's own limits by all that is given."""
    own = robot.limits
    position, torque, rms = own.position.copy(), own.torque.copy(), np.full(robot.n_joints, np.inf)
    rates = {VelocityLimit: own.velocity.copy(), AccelerationLimit: own.acceleration.copy()}
    for entry in constraints:
        if isinstance(entry, PositionLimit):
            position += entry.margin * np.array([1.0, -1.0])
            for j, (low, high) in _by_joint(robot, entry.joints):
                position[j] = max(low, position[j, 0]), min(high, position[j, 1])
        elif isinstance(entry, VelocityLimit | AccelerationLimit):
            _tighten(robot, rates[type(entry)], entry)
        elif isinstance(entry, TorqueLimit):
            _tighten(robot, torque, entry)
            if entry.rms_share is not None:
                rms = np.minimum(rms, entry.rms_share * torque)
        elif not isinstance(entry, Constraint | KeepOut | SelfCollision):
            raise ValueError(f"constraints: {entry!r} is no constraint; expected ToolSpeed, KeepOut, VelocityLimit, …")
    for name, (low, high) in zip(robot.joint_names, position, strict=True):
        if not low < high:
            raise ValueError(f"PositionLimit leaves joint {name} no range: {low:g} to {high:g}")
    return Limits(position, rates[VelocityLimit], rates[AccelerationLimit], own.jerk, torque), rms


def _tighten(robot: Robot, values: FloatArray, entry: VelocityLimit | AccelerationLimit | TorqueLimit) -> None:
    if not 0.0 < entry.share <= 1.0:
        raise ValueError(f"{type(entry).__name__}: share is {entry.share}, expected above 0 and at most 1")
    values *= entry.share
    for j, limit in _by_joint(robot, entry.joints):
        if not limit > 0.0:
            raise ValueError(f"{type(entry).__name__}: {robot.joint_names[j]} has the limit {limit}, expected above 0")
        values[j] = min(values[j], limit)


def _by_joint(robot: Robot, given: Mapping[str, Any]) -> list[tuple[int, Any]]:
    unknown = [name for name in given if name not in robot.joint_names]
    if unknown:
        known = choice(unknown[0], robot.joint_names)
        raise ValueError(f"{unknown[0]!r} is no joint of {robot.name}; its joints are {known}")
    return [(robot.joint_names.index(name), value) for name, value in given.items()]


def _scene(robot: Robot, constraints: Sequence[Constraint | Limit]) -> Scene | None:
    volumes = [entry for entry in constraints if isinstance(entry, KeepOut)]
    itself = [entry.clearance for entry in constraints if isinstance(entry, SelfCollision)]
    if not volumes and not itself:
        return None
    zones = tuple(
        Zone(entry.name or f"volume {k}", entry.volume.shape(), entry.keep, entry.bodies, entry.clearance)  # type: ignore[arg-type]
        for k, entry in enumerate(volumes, start=1)
    )
    scene = Scene(zones, bool(itself), max(itself, default=0.0))
    scene_rows(robot, scene)  # what does not fit the robot is refused here
    return scene


def _home(robot: Robot, limits: Limits, given: ArrayLike | None) -> FloatArray:
    if given is None:
        zero = np.clip(np.zeros(robot.n_joints), limits.position[:, 0], limits.position[:, 1])
        zero[list(robot.locked)] = list(robot.locked.values())
        return np.asarray(zero)
    home = np.asarray(given, dtype=float)
    check_shape(home, str(robot.n_joints), "home")
    for name, x, (low, high) in zip(robot.joint_names, home, limits.position, strict=True):
        if not low <= x <= high:
            raise ValueError(f"home: {name} is at {x:g}, outside its limits {low:g} to {high:g}")
    return home
