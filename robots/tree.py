"""Open chains: a tree of links on revolute and prismatic joints, possibly coupled linearly."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, check_shape, freeze
from excitor.robots.kernel.compile import Chain, joint_constants, pairs
from excitor.robots.robot import Motion, posture


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Tree:
    """Links on joints.

    Link j is reached from its parent by

        T_parent_link = before_j · M(axis_j, θ_j) · after_j,    θ = coupling @ q + offset,

    M a rotation about the axis, or a translation along it. `after` is where standard DH puts its constants;
    in modified DH and URDF it is the identity. `coupling` is the identity unless joints are geared together.
    """

    joint_names: tuple[str, ...]
    link_names: tuple[str, ...]
    parents: IntArray  # (n_links,), -1: the base; a parent stands before its children
    before: FloatArray  # (n_links, 4, 4)
    axis: FloatArray  # (n_links, 3), unit vectors
    after: FloatArray  # (n_links, 4, 4)
    sliding: BoolArray  # (n_links,): the joint is prismatic
    coupling: FloatArray  # (n_links, n_joints)
    offset: FloatArray  # (n_links,)
    gravity: FloatArray  # (3,)

    def __post_init__(self) -> None:
        freeze(
            self,
            parents="int: n_links",
            before="n_links 4 4",
            axis="n_links 3",
            after="n_links 4 4",
            sliding="bool: n_links",
            coupling="n_links n_joints",
            offset="n_links",
            gravity="3",
        )
        if (self.parents >= np.arange(self.n_links)).any() or (self.parents < -1).any():
            raise ValueError(f"Tree.parents is {self.parents.tolist()}, expected each parent before its children")
        lengths = np.linalg.norm(self.axis, axis=1)
        if (np.abs(lengths - 1.0) > 1e-9).any():
            raise ValueError(f"Tree.axis has lengths {lengths.tolist()}, expected unit vectors")

    @property
    def n_joints(self) -> int:
        """Count the independent coordinates."""
        return int(self.coupling.shape[1])

    @property
    def n_links(self) -> int:
        """Count the links."""
        return int(self.parents.size)

    @property
    def prismatic(self) -> BoolArray:
        """True for each coordinate that is a length: the link of the same name slides.

        Where no link has a coordinate's name, it is the first that the coordinate moves.
        """
        first = np.argmax(self.coupling != 0.0, axis=0)
        named = {name: j for j, name in enumerate(self.link_names)}
        own = [named.get(name, int(first[i])) for i, name in enumerate(self.joint_names)]
        return np.asarray(self.sliding[own])

    def poses(self, q: FloatArray) -> FloatArray:
        """Poses T_base_link of all links, (n_samples, n_links, 4, 4)."""
        from excitor.robots.kernel.columns import fill_frames

        out = np.empty((len(q), self.n_links, 4, 4))
        fill_frames(chain(self), samples(posture(q), self.n_joints), out, np.empty((0, 0, 0, 0)))
        return out

    def jacobians(self, q: FloatArray) -> FloatArray:
        """Velocity of each link frame's origin, then its angular velocity, by dq: (n_samples, n_links, 6, n_joints)."""
        from excitor.robots.kernel.columns import fill_frames

        poses = np.empty((len(q), self.n_links, 4, 4))
        screws = np.empty((len(q), self.n_links, 6, self.n_joints))
        fill_frames(chain(self), samples(posture(q), self.n_joints), poses, screws)
        rotation = poses[:, :, :3, :3]
        return np.concatenate([rotation @ screws[:, :, 3:], rotation @ screws[:, :, :3]], axis=2)

    def regressor(self, motion: Motion, out: FloatArray) -> None:
        """Write Y with τ = Y φ into out (10 n_links, n_joints, at least n_samples)."""
        from excitor.robots.kernel.columns import fill_regressor

        fill_regressor(chain(self), samples(motion, self.n_joints), out)

    def energy_regressor(self, motion: Motion) -> FloatArray:
        """Kinetic plus potential energy by parameter, (n_samples, 10 n_links)."""
        return self._energy(motion, derivative=False)

    def power_regressor(self, motion: Motion) -> FloatArray:
        """Time derivative of the energy regressor, exactly, (n_samples, 10 n_links)."""
        return self._energy(motion, derivative=True)

    def _energy(self, motion: Motion, derivative: bool) -> FloatArray:
        from excitor.robots.kernel.columns import fill_energy

        out = np.empty((10 * self.n_links, len(motion)))
        fill_energy(chain(self), samples(motion, self.n_joints), derivative, out)
        return out.T

    def inverse_dynamics(self, motion: Motion, phi: FloatArray) -> FloatArray:
        """Joint torques, (n_samples, n_joints)."""
        from excitor.robots.kernel.columns import fill_torque_and_mass

        check_shape(phi, f"{self.n_links} 10", "phi")
        out, links = np.empty((len(motion), self.n_joints)), np.array(phi, dtype=float, order="C")
        fill_torque_and_mass(chain(self), samples(motion, self.n_joints), links, out, np.empty((0, 0, 0)))
        return out

    def mass_matrix(self, q: FloatArray, phi: FloatArray) -> FloatArray:
        """Mass matrices, (n_samples, n_joints, n_joints)."""
        from excitor.robots.kernel.columns import fill_torque_and_mass

        check_shape(phi, f"{self.n_links} 10", "phi")
        out, links = np.empty((len(q), self.n_joints, self.n_joints)), np.array(phi, dtype=float, order="C")
        fill_torque_and_mass(chain(self), samples(posture(q), self.n_joints), links, np.empty((0, 0)), out)
        return out


def samples(motion: Motion, n_joints: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Hand a motion to compiled code, which checks no bounds: q, dq, ddq, each (n_joints, n_samples)."""
    if motion.q.shape[1] != n_joints:
        raise ValueError(f"the motion has {motion.q.shape[1]} joints, expected the robot's {n_joints}")
    return motion.q.T, motion.dq.T, motion.ddq.T


def locked(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    """View arrays as a motion's are: the kernel is compiled anew for arrays that may be written."""
    views = tuple(x.view() for x in arrays)
    for x in views:
        x.flags.writeable = False
    return views


@lru_cache(maxsize=64)
def chain(tree: Tree) -> Chain:
    """Pack a tree for the kernel; trees are immutable, so the packing is kept."""
    constants = [
        joint_constants(tree.before[j], tree.axis[j], tree.after[j], bool(tree.sliding[j])) for j in range(tree.n_links)
    ]
    supports, pair_start, pair_joint, pair_above = pairs(tree.parents, tree.coupling)
    parents = tree.parents
    coupling = tree.coupling
    return Chain(
        parents, np.array(constants), coupling, tree.offset, tree.gravity, supports, pair_start, pair_joint, pair_above
    )
