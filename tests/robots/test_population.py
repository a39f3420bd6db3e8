"""Populations: each candidate alone gives the same."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, tool_speeds
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.gram import gram
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.population import (
    population_clearances,
    population_grams,
    population_tool_speeds,
    population_torques,
)
from excitor.robots.robot import Frame, Mechanism, Motion

N_SAMPLES = 260  # more than a chunk of the kernel


class ProtocolOnly:
    """A mechanism that shows no more than the protocol."""

    def __init__(self, tree):
        self._tree = tree

    def __getattr__(self, name):
        if name not in dir(Mechanism):
            raise AttributeError(name)
        return getattr(self._tree, name)


def candidates(robot, n_candidates=2, n_samples=N_SAMPLES):
    return np.random.default_rng(0).uniform(-2.0, 2.0, size=(3, n_candidates, robot.n_joints, n_samples))


def motions(q, dq, ddq):
    return [Motion(*(x.T for x in states)) for states in zip(q, dq, ddq, strict=True)]


def without_history(robot):
    """The robot less its friction that remembers or works against a load, which compiled populations leave out."""
    friction = tuple(term for term in robot.drive.friction if term.model not in ("load", "maxwell-slip"))
    slim = replace(robot, drive=replace(robot.drive, friction=friction))
    n = len(robot.chi) - len(robot.drive.friction) + len(friction)  # random trees have these terms last
    slim = replace(slim, chi=robot.chi[:n], known=robot.known[:n], assumed_zero=robot.assumed_zero[:n])
    assert layout(slim).names == layout(robot).names[:n]
    return slim


def check_grams(robot):
    q, dq, ddq = candidates(robot)
    columns = np.arange(len(layout(robot)))[::-2].copy()
    weights = np.linspace(0.5, 2.0, robot.n_joints)
    for n_samples in (None, 130):
        found = population_grams(robot, q, dq, ddq, columns, weights, n_samples)
        for G, motion in zip(found, motions(*(x[:, :, :n_samples] for x in (q, dq, ddq))), strict=True):
            np.testing.assert_array_equal(G, gram(robot, motion, columns, weights))


def check_torques(robot):
    q, dq, ddq = candidates(robot)
    chi = np.random.default_rng(1).normal(size=len(layout(robot)))
    for parameters, n_mean in ((None, None), (chi, 100), (chi, 150)):
        peak, mean_square = population_torques(robot, q, dq, ddq, parameters, n_mean)
        for b, motion in enumerate(motions(q, dq, ddq)):
            tau = inverse_dynamics(robot, motion, parameters)
            np.testing.assert_allclose(peak[b], np.abs(tau).max(axis=0), rtol=1e-9)
            np.testing.assert_allclose(mean_square[b], (tau[:n_mean] ** 2).mean(axis=0), rtol=1e-9)


def check_tool_speeds(robot):
    q, dq, ddq = candidates(robot)
    expected = [tool_speeds(robot, motion).max() for motion in motions(q, dq, ddq)]
    np.testing.assert_allclose(population_tool_speeds(robot, q, dq), expected, rtol=1e-10)


CHECKS = pytest.mark.parametrize("check", [check_grams, check_torques, check_tool_speeds])


@CHECKS
def test_candidates_are_worth_what_each_is_worth_alone(any_robot, check):
    check(without_history(any_robot))


@CHECKS
@pytest.mark.parametrize("any_robot", ["tx40", "iiwa", 1, 4, 9, 12, 17], indirect=True)
def test_a_mechanism_that_is_no_tree_gives_the_same(any_robot, check):
    check(replace(any_robot, mechanism=ProtocolOnly(any_robot.mechanism)))


def test_peaks_lie_in_any_lane(any_robot):
    """A single sample, and one that stands out in a long run, wherever it is."""
    robot = without_history(any_robot)
    q, dq, ddq = 0.1 * candidates(robot, 2)
    for k in (0, 1, 59, 60, 119, 120, 131, 259):
        loud = ddq.copy()
        loud[:, :, k] *= 1e6
        peak, _ = population_torques(robot, q, dq, loud)
        (alone, square) = population_torques(robot, *(x[:, :, k : k + 1].copy() for x in (q, dq, loud)))
        np.testing.assert_allclose(peak, alone, rtol=1e-12)
        np.testing.assert_allclose(square, alone**2, rtol=1e-12)


@pytest.mark.parametrize("terms", [("load",), ("maxwell-slip",), ("load", "maxwell-slip")])
def test_friction_with_a_history_goes_one_by_one(random_robot, terms):
    dropped = {"load", "maxwell-slip"} - set(terms)
    keep = [k for k, term in enumerate(random_robot.drive.friction) if term.model not in dropped]
    columns = layout(random_robot).friction_columns
    lost = [columns[k] for k in range(len(columns)) if k not in keep]
    drive = replace(random_robot.drive, friction=tuple(random_robot.drive.friction[k] for k in keep))
    fields = {name: np.delete(getattr(random_robot, name), lost) for name in ("chi", "known", "assumed_zero")}
    robot = replace(random_robot, drive=drive, **fields)
    q, dq, ddq = candidates(robot, 2)
    grams = population_grams(robot, q, dq, ddq)
    peak, _ = population_torques(robot, q, dq, ddq)
    for b, motion in enumerate(motions(q, dq, ddq)):
        np.testing.assert_array_equal(grams[b], gram(robot, motion))
        np.testing.assert_allclose(peak[b], np.abs(inverse_dynamics(robot, motion)).max(axis=0), rtol=1e-12)


def test_a_tool_on_the_base_stands_still():
    robot = replace(load("tx40"), tool=Frame("tool", -1, np.eye(4)))
    q, dq, _ = candidates(robot)
    assert not population_tool_speeds(robot, q, dq).any()


def test_populations_may_come_in_any_memory_and_stay_as_they_are():
    robot = load("tx40")
    q, dq, ddq = candidates(robot)
    expected = population_torques(robot, q, dq, ddq)
    strange = [np.asfortranarray(x) for x in (q, dq, ddq)]
    locked = [x.copy() for x in (q, dq, ddq)]
    for x in locked:
        x.flags.writeable = False
    for given in (strange, locked):
        np.testing.assert_array_equal(population_torques(robot, *given), expected)
    assert q.flags.writeable


def test_what_does_not_fit_is_reported():
    robot = load("tx40")
    q, dq, ddq = candidates(robot)
    with pytest.raises(ValueError, match=r"dq has shape \(2, 6, 9\), expected \(n_candidates=2, n_joints=6, n_samp"):
        population_grams(robot, q, dq[:, :, :9], ddq)
    with pytest.raises(ValueError, match=r"q has shape \(2, 5, 260\)"):
        population_clearances(robot, Scene(), q[:, :5])
    with pytest.raises(ValueError, match="a population needs candidates, joints and samples"):
        population_clearances(robot, Scene(), q[:, :, :0])
    with pytest.raises(ValueError, match="n_samples is 261, expected 1 to the 260 samples"):
        population_grams(robot, q, dq, ddq, n_samples=261)
    with pytest.raises(ValueError, match="n_mean is 0, expected 1 to the 260"):
        population_torques(robot, q, dq, ddq, n_mean=0)
    with pytest.raises(ValueError, match="chi has shape"):
        population_torques(robot, q, dq, ddq, np.zeros(3))
    broken = q.copy()
    broken[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"q\[1, 2, 3\] is nan, expected a finite number"):
        population_clearances(robot, Scene(), broken)
    with pytest.raises(ValueError, match=r"ddq\[1, 2, 3\] is nan"):
        population_torques(robot, q, dq, broken)


def test_base_columns_of_a_population(catalogue_robot):
    robot = catalogue_robot
    q, dq, ddq = candidates(robot)
    kept = base_parameters(robot).kept
    for G, motion in zip(population_grams(robot, q, dq, ddq, kept), motions(q, dq, ddq), strict=True):
        np.testing.assert_array_equal(G, gram(robot, motion, kept))
