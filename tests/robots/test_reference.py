"""The compiled kernel against the plain recursion, and the plain recursion against itself."""

import numpy as np
import pytest

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.reference import (
    reference_energy_regressor,
    reference_power_regressor,
    reference_regressor,
    reference_torque,
)
from excitor.robots.robot import Motion
from excitor.robots.tree import Tree

SEEDS = range(12)
# Both sides round differently: a few hundred operations of relative error 1e-16 each, against the largest entry.
ROUNDING = 1e-12


def pose(rng: np.random.Generator, kind: int) -> FloatArray:
    """A general pose, one of quarter turns and half-empty shifts, or none at all."""
    T = np.eye(4)
    if kind == 0:
        T[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        T[:3, 0] *= np.linalg.det(T[:3, :3])
        T[:3, 3] = rng.normal(size=3)
    elif kind == 1:
        alpha = rng.integers(-2, 3) * np.pi / 2
        c, s = np.cos(alpha), np.sin(alpha)
        T[:3, :3] = [[1, 0, 0], [0, c, -s], [0, s, c]]
        T[:3, 3] = rng.normal(size=3) * rng.integers(0, 2, size=3)
    return T


def random_tree(seed: int) -> Tree:
    """Branching, revolute and prismatic, z and free axes, with `after` frames and joints geared together."""
    rng = np.random.default_rng(seed)
    n_links = int(rng.integers(2, 7))
    axis = np.where(rng.random((n_links, 1)) < 0.5, [0.0, 0.0, 1.0], rng.normal(size=(n_links, 3)))
    coupling = np.eye(n_links)
    coupling[np.tril_indices(n_links, -1)] = rng.choice([0.0, 0.0, 1.0, -1.0, 0.3], size=n_links * (n_links - 1) // 2)
    if seed % 3 == 0 and n_links > 2:  # one joint has no coordinate of its own
        coupling = np.delete(coupling, rng.integers(1, n_links), axis=1)
        coupling[coupling.any(axis=1) == 0.0, 0] = 1.0
    return Tree(
        joint_names=tuple(f"j{i}" for i in range(coupling.shape[1])),
        link_names=tuple(f"l{i}" for i in range(n_links)),
        parents=[rng.integers(-1, j) if j and seed % 2 else j - 1 for j in range(n_links)],
        before=[pose(rng, rng.integers(0, 3)) for _ in range(n_links)],
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        after=[pose(rng, rng.integers(0, 3)) for _ in range(n_links)],
        sliding=rng.random(n_links) < 0.3,
        coupling=coupling,
        offset=rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi, 0.4], size=n_links),
        gravity=rng.normal(size=3) if seed % 2 else [0.0, 0.0, -9.81],
    )


def random_motion(tree: Tree, seed: int, n_samples: int = 70) -> Motion:
    rng = np.random.default_rng(1000 + seed)
    return Motion(*rng.normal(size=(3, n_samples, tree.n_joints)))


def assert_close(ours: FloatArray, theirs: FloatArray) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=ROUNDING * np.abs(theirs).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_regressor_is_the_compiled_one(seed: int) -> None:
    tree = random_tree(seed)
    motion = random_motion(tree, seed)
    compiled = np.empty((10 * tree.n_links, tree.n_joints, len(motion)))
    tree.regressor(motion, compiled)
    assert_close(reference_regressor(tree, motion), compiled.transpose(2, 1, 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_torque_by_wrenches_is_the_compiled_one_by_screws(seed: int) -> None:
    tree = random_tree(seed)
    motion = random_motion(tree, seed)
    phi = np.random.default_rng(seed).normal(size=(tree.n_links, 10))
    ours = reference_torque(tree, motion, phi)
    assert_close(ours, tree.inverse_dynamics(motion, phi))
    assert_close(ours, reference_regressor(tree, motion) @ phi.ravel())


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_and_power_are_the_compiled_ones(seed: int) -> None:
    tree = random_tree(seed)
    motion = random_motion(tree, seed)
    assert_close(reference_energy_regressor(tree, motion), tree.energy_regressor(motion))
    assert_close(reference_power_regressor(tree, motion), tree.power_regressor(motion))


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_what_the_torques_give(seed: int) -> None:
    tree = random_tree(seed)
    motion = random_motion(tree, seed)
    given = np.einsum("ni,nip->np", motion.dq, reference_regressor(tree, motion))
    assert_close(reference_power_regressor(tree, motion), given)


def test_a_motionless_column_is_a_column_of_zeros() -> None:
    tree = random_tree(0)
    still = Motion(*np.zeros((3, 4, tree.n_joints)))
    assert not reference_power_regressor(tree, still).any()
