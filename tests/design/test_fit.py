"""Drawing motions together about a pose until they keep every constraint."""

import numpy as np
import pytest

from excitor.design.problem import (
    Candidates,
    constraint_values,
    decode,
    drawn,
    evaluate,
    feasible_start,
    fitted,
    motions,
    run_of,
    violation_of,
)
from excitor.robots.cell import clearances, required


@pytest.fixture(scope="module")
def anchor(problem):
    start = feasible_start(problem, 40, np.random.default_rng(0))
    good = np.flatnonzero(violation_of(problem, start) <= 0.0)
    return start.center[good[0]]


def test_what_is_fitted_keeps_every_constraint(problem, anchor):
    candidates = decode(problem, np.random.default_rng(1).uniform(-1.0, 1.0, (80, problem.n_design)))
    assert (violation_of(problem, candidates) > 0.0).mean() > 0.5
    chosen, found = fitted(problem, candidates, anchor)
    assert (found.violation <= 0.0).mean() > 0.95
    again = evaluate(problem, chosen)
    assert np.allclose(again.value, found.value, rtol=1e-9)
    assert np.array_equal(again.violation <= 0.0, found.violation <= 0.0)


def test_what_is_good_already_stays_as_it_is(problem, anchor):
    start = feasible_start(problem, 30, np.random.default_rng(2))
    good = np.flatnonzero(violation_of(problem, start) <= 0.0)
    kept = Candidates(start.center[good], start.swing[good])
    chosen, _ = fitted(problem, kept, anchor)
    assert np.array_equal(chosen.center, kept.center)
    assert np.array_equal(chosen.swing, kept.swing)


def test_an_anchor_that_is_no_good_mends_nothing_and_states_it(problem):
    """Below the table: whatever is drawn together there stays violated, and is not called feasible."""
    bad = np.array([0.0, 2.0, 1.5, 0.0, 0.0, 0.0])
    scene = problem.constraints.scene
    assert (clearances(problem.robot, scene, bad[None]) < required(problem.robot, scene)).any()
    candidates = decode(problem, np.random.default_rng(3).uniform(-1.0, 1.0, (20, problem.n_design)))
    broken = violation_of(problem, candidates) > 0.0
    chosen, found = fitted(problem, candidates, bad)
    assert (found.violation[broken] > 0.0).any()
    assert np.array_equal(violation_of(problem, chosen) > 0.0, found.violation > 0.0)


def test_drawing_together_is_a_shrinking_about_the_anchor(problem, anchor):
    candidates = decode(problem, np.random.default_rng(4).uniform(-1.0, 1.0, (3, problem.n_design)))
    smaller = drawn(candidates, anchor, np.array([0.5, 0.2, 0.0]), np.arange(3))
    for k, s in enumerate((0.5, 0.2, 0.0)):
        q = motions(problem, candidates)[0][k]
        expected = anchor[:, None] + s * (q - anchor[:, None])
        assert np.allclose(motions(problem, smaller)[0][k], expected, atol=1e-12)
    assert run_of(problem, smaller, 2).series.center == pytest.approx(anchor)
    assert constraint_values(problem, smaller).shape == (3, len(problem.names))
