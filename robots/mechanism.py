"""What every robot's body must be able to answer, whether its chain is open or closed: the robot protocol."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from excitor.robots.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from excitor.robots.robot import Motion


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
        """Tell which coordinates are lengths, (n_joints,)."""

    def poses(self, q: FloatArray) -> FloatArray:
        """Poses T_base_link of all links, (n_samples, n_links, 4, 4)."""

    def jacobians(self, q: FloatArray) -> FloatArray:
        """Velocity of each link frame's origin, then its angular velocity, in base axes, by dq.

        (n_samples, n_links, 6, n_joints)
        """

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


@runtime_checkable
class CanBeSingular(Protocol):
    """A mechanism that has singular poses inside its joint ranges, as closed chains do."""

    def singularity_distances(self, q: FloatArray) -> FloatArray:
        """Distance to each type of singularity, positive and 0 at it, (n_samples, n_types)."""

    @property
    def singularity_names(self) -> tuple[str, ...]:
        """Name the types, in the order of the distances' columns."""
