"""Fronts: nothing on them is dominated, everything on them is feasible, and their ends are good."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design import pareto
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import Excitation
from excitor.design.pareto import front, knee, measure, nondominated, pick
from excitor.design.problem import Candidates, build_problem, candidates_of, evaluate, motions
from excitor.design.search import Budget, solve
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, tool_speeds
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.limits import from_robot

ALL = ("condition", "duration", "torque", "tool speed")


def small(period, torque=120.0, **others):
    """Three joints, whose torque limits matter."""
    robot = load("rotradi")
    n = robot.n_joints
    limits = replace(
        robot.limits,
        velocity=np.minimum(robot.limits.velocity, 4.0),
        acceleration=np.minimum(robot.limits.acceleration, 20.0),
        torque=np.full(n, torque),
    )
    robot = replace(robot, limits=limits)
    return build_problem(
        robot,
        Excitation(period, 0.005, (1, 2, 3), np.ones(n, bool), ramp=0.5),
        constraints=replace(from_robot(robot, scene=Scene()), **others),
        criterion=Criterion(),
        model=DynamicModel(robot, base_parameters(robot).kept, np.ones(n)),
    )


@pytest.fixture(scope="module")
def problems():
    return [small(4.0), small(8.0)]


@pytest.fixture(scope="module")
def found(problems):
    return front(problems, ("condition", "torque"), Budget(evaluations=8000), seed=0)


@pytest.fixture(scope="module")
def wide(problems):
    return front(problems, ALL, Budget(evaluations=5000), seed=0)


@pytest.mark.slow
def test_no_point_dominates_another(found, wide):
    for one in (found, wide):
        assert len(one) >= 10
        for a in one.points:
            worse = (one.points >= a).all(axis=1) & (one.points > a).any(axis=1)
            assert not worse.any()


def test_nondominated_points_of_a_known_set():
    points = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [2.0, 3.0], [3.0, 3.0], [2.0, 2.0]])
    assert nondominated(points).tolist() == [True, True, True, False, False, True]


@pytest.mark.slow
def test_every_point_is_feasible_and_worth_what_it_says(found, wide):
    for one in (found, wide):
        for k, problem in enumerate(one.problems):
            rows = np.flatnonzero(one.which == k)
            candidates = Candidates(one.center[rows], one.swing[rows])
            points, g = measure(problem, one.objectives, candidates)
            assert (g <= 0.0).all()
            np.testing.assert_allclose(points, one.points[rows], rtol=1e-9)


@pytest.mark.slow
def test_objectives_are_what_physics_says(wide):
    """Torque share and tool speed by the public dynamics, at the samples of the search."""
    trajectory = pick(wide, 0)
    problem = wide.problems[wide.which[0]]
    q, dq, ddq = (x[0].T for x in motions(problem, candidates_of([trajectory])))
    motion = Motion(q, dq, ddq)
    row = dict(zip(wide.objectives, wide.points[0], strict=True))
    share = np.abs(inverse_dynamics(problem.robot, motion)) / problem.constraints.limits.torque
    assert share.max() == pytest.approx(row["torque"], rel=1e-9)
    assert tool_speeds(problem.robot, motion).max() == pytest.approx(row["tool speed"], rel=1e-9)
    assert row["duration"] == trajectory.duration


@pytest.mark.slow
def test_same_seed_and_evaluations_give_the_same_front(problems, wide):
    again = front(problems, ALL, Budget(evaluations=5000), seed=0)
    for name in ("points", "which", "center", "swing"):
        assert getattr(again, name).tobytes() == getattr(wide, name).tobytes()
    assert again.chosen == wide.chosen
    assert again.evaluations == wide.evaluations


@pytest.mark.slow
def test_ends_of_the_front_are_good(problems, found, wide):
    one = front(problems[:1], ("condition", "torque"), Budget(evaluations=8000), seed=0)
    alone = solve(problems[0], Budget(evaluations=8000), seed=0)
    assert one.points[:, 0].min() <= 1.10 * alone.value[0]
    # two periods share the same budget
    assert found.points[:, 0].min() <= 1.25 * alone.value[0]
    assert found.points[:, 1].min() < 0.75 * found.points[:, 1].max()
    durations = wide.points[:, 1]
    assert durations.min() == problems[0].excitation.duration
    # a longer run is only there where it is better in something else
    assert set(np.unique(durations)) <= {p.excitation.duration for p in problems}


def test_the_knee_is_between_the_ends():
    points = np.array([[3.0, 1.0], [3.5, 0.5], [30.0, 0.4]])
    assert knee(("condition", "torque"), points) == 1
    assert knee(("condition", "torque"), points[:0]) == -1


def test_picking(found):
    trajectory = pick(found)
    k = found.chosen
    problem = found.problems[found.which[k]]
    assert trajectory.excitation.duration == problem.excitation.duration
    value = evaluate(problem, Candidates(found.center[k : k + 1], found.swing[k : k + 1])).value
    assert value[0] == pytest.approx(found.points[k, 0])
    with pytest.raises(ValueError, match="the front has"):
        pick(found, len(found))


def test_tool_speed_limit_is_the_same_objective():
    limited, free = small(4.0, tool_speed=2.0), small(4.0)
    random = np.random.default_rng(3)
    swing = 0.1 * random.normal(size=(5, 3, 6)) * free.amplitude
    candidates = Candidates(0.2 * random.normal(size=(5, 3)), swing)
    np.testing.assert_allclose(
        measure(limited, ("tool speed",), candidates)[0], measure(free, ("tool speed",), candidates)[0], rtol=1e-12
    )


def test_interrupt_keeps_the_front_so_far(problems):
    def listen(progress):
        if progress.stage == "front" and progress.share > 0.7:
            raise KeyboardInterrupt

    stopped = front(problems, ("condition", "torque"), Budget(evaluations=4000), seed=0, listen=listen)
    assert stopped.stopped == "interrupted"
    assert len(stopped) > 3
    assert stopped.evaluations < 4000


def test_interrupt_in_the_first_stage_ends_it(problems):
    def listen(progress):
        raise KeyboardInterrupt

    stopped = front(problems, ("condition", "torque"), Budget(evaluations=4000), seed=0, listen=listen)
    assert stopped.stopped == "interrupted"
    assert stopped.evaluations < 1000


def test_seconds_are_kept(problems):
    quick = front(problems, ("condition", "torque"), Budget(seconds=1.0), seed=0)
    assert quick.seconds < 3.0
    assert len(quick)


def test_a_problem_without_solution_has_an_empty_front():
    blocked = small(4.0, torque=0.5)
    none = front([blocked], ("condition", "torque"), Budget(evaluations=600), seed=0)
    assert not len(none)
    assert none.chosen == -1
    with pytest.raises(ValueError, match="the front is empty"):
        pick(none)


def test_bad_questions_are_reported(problems):
    budget = Budget(evaluations=100)
    with pytest.raises(ValueError, match="expected different ones of condition, duration"):
        front(problems, ("condition", "price"), budget)
    with pytest.raises(ValueError, match="one for each period"):
        front([], ("condition",), budget)
    with pytest.raises(ValueError, match="differ in more than their period"):
        front([problems[0], small(8.0, tool_speed=1.0)], ("condition",), budget)
    free = small(4.0, torque=np.inf)
    with pytest.raises(ValueError, match="no joint has a torque limit"):
        front([free], ("condition", "torque"), budget)


def test_a_front_is_not_longer_than_it_says(monkeypatch, problems):
    monkeypatch.setattr(pareto, "LONGEST", 12)
    short = front(problems, ALL, Budget(evaluations=1500), seed=0)
    assert len(short) <= 12
