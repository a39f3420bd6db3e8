"""Robots that tests share: the catalogue, and random trees with everything a tree may have."""

import numpy as np
import pytest

from excitor.robots.base import random_motion as random_states
from excitor.robots.load import catalog_names, load, robot_text
from excitor.robots.robot import CanBeSingular, Motion
from tests.random_robots import N_RANDOM_TREES, make_random_robot

OPEN_CHAINS = tuple(name for name in catalog_names() if "[platform]" not in robot_text(name))


@pytest.fixture(params=OPEN_CHAINS)
def catalogue_robot(request):
    return load(request.param)


@pytest.fixture(params=range(N_RANDOM_TREES))
def random_robot(request):
    return make_random_robot(request.param)


@pytest.fixture(params=[*OPEN_CHAINS, *range(N_RANDOM_TREES)])
def any_robot(request):
    return load(request.param) if isinstance(request.param, str) else make_random_robot(request.param)


@pytest.fixture
def random_motion():
    return make_motion


def make_motion(robot, n_samples=20, seed=0):
    """Random states, with more samples than one block of the kernel where asked for; closed chains stay assembled."""
    if isinstance(robot.mechanism, CanBeSingular):
        return random_states(robot, n_samples, seed=seed)
    rng = np.random.default_rng(seed)
    return Motion(*rng.uniform(-2.0, 2.0, size=(3, n_samples, robot.n_joints)))
