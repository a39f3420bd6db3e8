"""Robots as frozen data, and the protocol of mechanisms, open or closed. Dynamics are in `excitor.robots.dynamics`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, shaped

Origin = Literal["stated", "mesh", "assumed"]


@dataclass(frozen=True, eq=False, slots=True)
@shaped(
    finite=False,
    position="n_joints 2",
    velocity="n_joints",
    acceleration="n_joints",
    jerk="n_joints",
    torque="n_joints",
)
class Limits:
    """Limits of each joint; `inf` where nothing is stated. Velocity and beyond are symmetric."""

    position: FloatArray  # (n_joints, 2): lowest, highest
    velocity: FloatArray
    acceleration: FloatArray
    jerk: FloatArray
    torque: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
@shaped(senses="n_joints", acts="n_joints")
class RotorInertia:
    """A rotor that turns at `senses @ dq`: energy Ia (senses @ dq)² / 2, torque acts · Ia · (senses @ ddq).

    Rotors, and friction terms, that name the same parameter are tied: their columns add.
    """

    parameter: str
    senses: FloatArray  # (n_joints,)
    acts: FloatArray  # (n_joints,), equal to `senses` where power balances


@dataclass(frozen=True, eq=False, slots=True)
@shaped(senses="n_joints", acts="n_joints")
class FrictionTerm:
    """One friction column: torque acts · F · g(v), with v = senses @ dq; `friction.TABLE` has a row for each model.

    viscous       g = v                       coulomb     g = s(v)
    offset        g = 1                       sqrt        g = s(v) √|v|
    stribeck      g = s(v) exp(-|v| / scale)  load        g = s(v) |acts @ τ_load|
    maxwell-slip  g = z, z ← clip(z + Δ(senses @ q) / scale, -1, 1) along the run
    ripple-sin    g = sin(scale · senses @ q)   ripple-cos  g = cos(scale · senses @ q)

    s(v) = sign v where `width` is 0, tanh(v / width) elsewhere. `warm_up` is how many times a Maxwell-slip
    state runs through the whole run before it counts (1 for a periodic run, 0 for a run from rest).
    """

    parameter: str
    model: str
    senses: FloatArray  # (n_joints,)
    acts: FloatArray  # (n_joints,), equal to `senses` where power balances
    width: float = 0.0
    scale: float = 1.0
    warm_up: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class DriveTrain:
    """Motors and gears: q_motor = motor_from_joint @ q,  τ_joint = motor_from_jointᵀ @ τ_motor."""

    motor_from_joint: FloatArray  # (n_joints, n_joints)
    torque_from_current: FloatArray  # (n_joints, 4): τ_motor = sgn(I) (c0 + c1 |I| + c2 I² + c3 |I|³); NaN if unknown
    efficiency: FloatArray  # (n_joints,): of the transmission, motor -> link when driving
    rotors: tuple[RotorInertia, ...] = ()
    friction: tuple[FrictionTerm, ...] = ()
    current_sigma: FloatArray | None = None  # (n_joints,): relative, of the current laws; None where not stated
    ratio_sigma: FloatArray | None = None  # (n_joints,): relative, of the gears' ratios; None where not stated
    in_amperes: bool = False  # torques stand for currents of one drive, A: nothing is in N m or kg

    def __post_init__(self) -> None:
        one = "n_joints"
        sizes = freeze(
            self, motor_from_joint=f"{one} {one}", efficiency=one, current_sigma=f"{one}?", ratio_sigma=f"{one}?"
        )
        freeze(self, finite=False, torque_from_current=f"{sizes['n_joints']} 4")

    @property
    def has_current_law(self) -> bool:
        """True where every motor's torque follows from its current; else currents are taken in A."""
        return not self.in_amperes and not bool(np.isnan(self.torque_from_current).any())


@dataclass(frozen=True, eq=False, slots=True)
@shaped(T_link_frame="4 4")
class Frame:
    """A named frame that rides on a link (-1: the base)."""

    name: str
    link: int
    T_link_frame: FloatArray


@dataclass(frozen=True, slots=True)
class HeldJoint:
    """A joint of the file that stands still for good: what it carries belongs to the link that carries it."""

    position: float  # rad, or m if it slides
    slides: bool
    link: int  # -1: the base
    carries: tuple[int, ...] = ()  # the links whose joints sit on what it carries

    def __str__(self) -> str:
        return f"{1e3 * self.position:g} mm" if self.slides else f"{math.degrees(self.position):.6g}°"


@dataclass(frozen=True, eq=False, slots=True)
@shaped(phi="10", covariance="10 10")
class Payload:
    """A body that a link carries besides its own, as stated; `phi` and its `covariance` are in the link's frame."""

    link: int
    phi: FloatArray
    covariance: FloatArray = field(default_factory=lambda: np.zeros((10, 10)))


@dataclass(frozen=True, eq=False, slots=True)
@shaped(start="3", end="3", corners="n_corners 3")
class Capsule:
    """A collision volume: all points within `radius` of the segment from `start` to `end`, in the link's frame."""

    link: int  # -1: the base
    start: FloatArray
    end: FloatArray
    radius: float
    origin: Origin = "stated"  # "mesh": it contains one; "assumed": nothing is known of the link's shape
    part: str = ""  # what it is of, where several bodies make a link
    corners: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))  # of the hull of what it contains, if known
    on: str = ""  # the held joint that carries it


@dataclass(frozen=True, eq=False, slots=True)
@shaped(axes="n_joints", position="3")
class CheckPose:
    """A pose an operator can check: axis values shown by the pendant, and the tool position they must give."""

    axes: FloatArray  # controller units
    position: FloatArray  # of the tool in the robot's base frame, m


@dataclass(frozen=True, eq=False, slots=True)
@shaped(matrix="n_joints n_joints", zero="n_joints")
class ControllerAxes:
    """Axes of a controller's pendant: axes = matrix @ q + zero, in rad and m; shown in degrees and mm.

    `matrix` holds signs and couplings (FANUC's J3 follows J2), `zero` what the pendant shows at q = 0.
    """

    controller: str
    names: tuple[str, ...]
    matrix: FloatArray
    zero: FloatArray
    poses: tuple[CheckPose, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
@shaped(combination="n_base n_params")
class DeclaredBase:
    """A paper's own base parameters: rows of `combination` express them in the robot's standard parameters."""

    names: tuple[str, ...]
    combination: FloatArray  # (n_base, n_params)
    source: str = ""


class Mechanism(Protocol):
    """Bodies and joints without their drives.

    All arrays are batched over samples. `phi` stacks the ten parameters of each link, (n_links, 10);
    regressors have their columns in the same order, 10 * n_links of them. Links number from 0, the base is -1.
    Drives, friction and everything a motor adds are the same for every mechanism: see `excitor.robots.dynamics`.
    """

    @property
    def n_joints(self) -> int:
        """Count the independent coordinates."""

    @property
    def n_links(self) -> int:
        """Count the bodies that carry parameters."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Name the independent coordinates."""

    @property
    def link_names(self) -> tuple[str, ...]:
        """Name the bodies."""

    @property
    def gravity(self) -> FloatArray:
        """Acceleration of gravity in the base frame, (3,), m/s²."""

    @property
    def prismatic(self) -> BoolArray:
        """True for each coordinate that is a length, (n_joints,)."""

    def poses(self, q: FloatArray) -> FloatArray:
        """Poses T_base_link of all links, (n_samples, n_links, 4, 4)."""

    def jacobians(self, q: FloatArray) -> FloatArray:
        """Linear (at the origin) and angular velocity of link frames by dq, (n_samples, n_links, 6, n_joints)."""

    def regressor(self, motion: "Motion", out: FloatArray) -> None:
        """Write Y with τ = Y φ into out (10 n_links, n_joints, at least n_samples)."""

    def energy_regressor(self, motion: "Motion") -> FloatArray:
        """Kinetic plus potential energy by parameter, (n_samples, 10 n_links)."""

    def power_regressor(self, motion: "Motion") -> FloatArray:
        """Time derivative of the energy regressor, exactly, (n_samples, 10 n_links)."""

    def inverse_dynamics(self, motion: "Motion", phi: FloatArray) -> FloatArray:
        """Joint torques, (n_samples, n_joints)."""

    def mass_matrix(self, q: FloatArray, phi: FloatArray) -> FloatArray:
        """Mass matrices, (n_samples, n_joints, n_joints)."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=False)
@shaped(chi="n_params", known="bool: n_params", assumed_zero="bool: n_params")
class Robot:
    """A mechanism with drives, limits and prior parameters.

    `chi` are the prior parameters, ordered by `parameters.layout(robot)`; where `known` is False the
    entry is 0 and has no meaning. `assumed_zero` marks parameters left out of every model by symmetry.
    """

    name: str
    mechanism: Mechanism
    drive: DriveTrain
    limits: Limits
    tool: Frame
    payload: Payload | None
    chi: FloatArray
    known: BoolArray
    assumed_zero: BoolArray
    frames: tuple[Frame, ...] = ()
    capsules: tuple[Capsule, ...] = ()
    ignored_pairs: Mapping[frozenset[str], str] = field(default_factory=dict)  # parts not kept apart, and the reason
    controllers: Mapping[str, ControllerAxes] = field(default_factory=dict)
    declared_base: DeclaredBase | None = None
    lengths: Mapping[str, float] = field(default_factory=dict)  # named constants of the geometry, m
    locked: Mapping[int, float] = field(default_factory=dict)  # joint index -> the position it is held at
    held: Mapping[str, HeldJoint] = field(default_factory=dict)  # joints of the file that are none of the robot's
    continuous: tuple[str, ...] = ()  # joints without stops, whose range is assumed: a turn each way
    title: str = ""

    def __repr__(self) -> str:
        count = f"{int(self.known.sum())} of {self.known.size} parameters known beforehand"
        return f"<Robot {self.name}: {self.n_joints} joints, {count}>"

    @property
    def n_joints(self) -> int:
        """Count the coordinates that move independently."""
        return self.mechanism.n_joints

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Name the coordinates, in the order of every array's columns."""
        return self.mechanism.joint_names


@dataclass(frozen=True, eq=False, slots=True)
@shaped(order="F", q="n_samples n_joints", dq="n_samples n_joints", ddq="n_samples n_joints")
class Motion:
    """Samples of joint positions, velocities and accelerations, in the order of time.

    Each joint's samples lie together in memory: that is how compiled code reads them.
    """

    q: FloatArray  # (n_samples, n_joints)
    dq: FloatArray
    ddq: FloatArray

    def __len__(self) -> int:
        return int(self.q.shape[0])

    def __getitem__(self, rows: slice | BoolArray | IntArray) -> "Motion":
        return Motion(self.q[rows], self.dq[rows], self.ddq[rows])


def posture(q: FloatArray) -> Motion:
    """Return static samples at positions q (n_samples, n_joints), velocities and accelerations 0."""
    still = np.zeros_like(q)
    return Motion(q, still, still)


@runtime_checkable
class CanBeSingular(Protocol):
    """A mechanism that has singular poses inside its joint ranges, as closed chains do."""

    def singularity_distances(self, q: FloatArray) -> FloatArray:
        """Distance to each type of singularity, positive and 0 at it, (n_samples, n_types)."""

    @property
    def singularity_names(self) -> tuple[str, ...]:
        """Name the types, in the order of the distances' columns."""
