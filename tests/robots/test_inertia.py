"""Pseudo-inertia: round trips, frames, composition, and what no body could be."""

import numpy as np
import pinocchio as pin
import pytest

from excitor.robots.inertia import (
    about_center_of_mass,
    change_frame,
    check_consistency,
    frame_change_matrix,
    from_center_of_mass,
    parameters_of,
    pseudo_inertia,
    tensor,
)

RNG = np.random.default_rng(0)


def point_masses(points, masses):
    """Parameters of point masses, straight from the definition of the inertia tensor."""
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for p, m in zip(points, masses, strict=True))
    xx, xy, xz, yy, yz, zz = inertia[np.triu_indices(3)]
    return np.array([xx, xy, xz, yy, yz, zz, *(masses @ points), masses.sum()])


@pytest.fixture
def cloud():
    return RNG.normal(size=(12, 3)), RNG.uniform(0.1, 2.0, size=12)


def test_pseudo_inertia_is_the_second_moment_of_the_mass(cloud):
    points, masses = cloud
    homogeneous = np.column_stack([points, np.ones(12)])
    second_moment = homogeneous.T @ (masses[:, None] * homogeneous)
    np.testing.assert_allclose(pseudo_inertia(point_masses(points, masses)), second_moment, atol=1e-12)


def test_pseudo_inertia_round_trip():
    phi = RNG.normal(size=10)
    np.testing.assert_allclose(parameters_of(pseudo_inertia(phi)), phi, atol=1e-15)


def test_pseudo_inertia_agrees_with_pinocchio(cloud):
    phi = point_masses(*cloud)
    mass, center, inertia = about_center_of_mass(phi)
    theirs = pin.PseudoInertia.FromInertia(pin.Inertia(mass, center, inertia)).toMatrix()
    np.testing.assert_allclose(pseudo_inertia(phi), theirs, atol=1e-12)


def test_change_of_frame_moves_the_points(cloud):
    points, masses = cloud
    R, _ = np.linalg.qr(RNG.normal(size=(3, 3)))
    T = np.eye(4)
    T[:3, :3] = R * np.linalg.det(R)
    T[:3, 3] = RNG.normal(size=3)
    moved = points @ T[:3, :3].T + T[:3, 3]
    phi = point_masses(points, masses)
    np.testing.assert_allclose(change_frame(phi, T), point_masses(moved, masses), atol=1e-12)
    np.testing.assert_allclose(frame_change_matrix(T) @ phi, change_frame(phi, T), atol=1e-12)


def test_bodies_joined_add_up(cloud):
    points, masses = cloud
    parts = point_masses(points[:5], masses[:5]) + point_masses(points[5:], masses[5:])
    np.testing.assert_allclose(parts, point_masses(points, masses), atol=1e-12)


def test_center_of_mass_round_trip(cloud):
    phi = point_masses(*cloud)
    mass, center, inertia = about_center_of_mass(phi)
    np.testing.assert_allclose(center, cloud[1] @ cloud[0] / mass)
    np.testing.assert_allclose(from_center_of_mass(mass, center, inertia), phi, atol=1e-12)
    with pytest.raises(ValueError, match="the mass is 0"):
        about_center_of_mass(np.zeros(10))


def test_real_bodies_are_consistent(cloud):
    verdict = check_consistency(point_masses(*cloud))
    assert verdict.holds
    assert verdict.triangle_margin > 0.0
    moments = np.linalg.eigvalsh(about_center_of_mass(point_masses(*cloud))[2])
    np.testing.assert_allclose(verdict.principal_moments, moments)


def test_a_thin_rod_is_just_consistent():
    verdict = check_consistency(point_masses(np.array([[-0.5, 0, 0], [0.5, 0, 0]]), np.array([1.0, 1.0])))
    assert abs(verdict.relative_margin) < 1e-12
    assert abs(verdict.triangle_margin) < 1e-12


@pytest.mark.parametrize(
    ("mass", "center", "inertia"),
    [
        (-1.0, [0, 0, 0], np.diag([1.0, 1.0, 1.0])),
        (0.0, [0, 0, 0], np.diag([1.0, 1.0, 1.0])),
        (1.0, [0, 0, 0], np.diag([1.0, 0.2, 0.2])),  # triangle inequality
        (1.0, [0, 0, 0], np.diag([1.0, 1.0, -0.1])),
        (1.0, [0.1, 0, 0], np.array([[1.0, 2.0, 0], [2.0, 1.0, 0], [0, 0, 1.0]])),  # not positive definite
    ],
)
def test_impossible_bodies_are_not(mass, center, inertia):
    assert not check_consistency(from_center_of_mass(mass, np.array(center), inertia)).holds


def test_moments_too_small_for_the_first_moment_are_caught():
    """Inertia about the link's origin taken for one about the centre of mass: a classic."""
    phi = from_center_of_mass(2.0, np.array([0.3, 0.0, 0.0]), np.diag([0.01, 0.02, 0.02]))
    phi[:6] = [0.01, 0, 0, 0.02, 0, 0.02]
    assert not check_consistency(phi).holds


def test_tensor_is_symmetric():
    np.testing.assert_array_equal(tensor(np.arange(10.0)), [[0, 1, 2], [1, 3, 4], [2, 4, 5]])


@pytest.mark.parametrize("seed", range(5))
def test_a_point_mass_is_possible_up_to_rounding(seed):
    noise = 5e-20 * np.random.default_rng(seed).normal(size=6)
    phi = np.array([*noise, 0.0, 0.0, 0.0, 1.0])
    assert check_consistency(phi).holds
    assert not check_consistency(phi - np.array([1e-6, 0, 0, 0, 0, 0, 0, 0, 0, 0])).holds
