"""The search problem and its stages, on small robots and on the bench's."""

import os
import signal
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from pymoo.core.population import Population

from benchmarks.design import descents, six_axis_problem
from excitor.design import problem as problem_file
from excitor.design import search as search_file
from excitor.design.constraints.constraint import CLEARANCE_SCALE, SEARCH
from excitor.design.constraints.constraints import Constraints
from excitor.design.criteria import Criterion, DynamicModel, PowerModel
from excitor.design.motion import Excitation
from excitor.design.problem import (
    Candidates,
    Repair,
    build_problem,
    candidates_of,
    decode,
    encode,
    evaluate,
    feasible_start,
    motions,
    penalty,
    run_of,
    searched,
    violation_of,
)
from excitor.design.search import SCREEN, WHOLE, Budget, Observer, Search, State, descend, distances, run_search, solve
from excitor.robots.base import base_parameters
from excitor.robots.cell import clearances, required
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Executor, open_executor
from excitor.robots.gram import condition_number
from excitor.robots.load import load


def test_every_decoded_motion_keeps_all_joint_limits(problem):
    """Between the search's samples too: the periods by the Ehlich-Zeller factor, ramps within their small reserve."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, problem.n_design))
    candidates = decode(problem, X)
    limits = problem.constraints.limits
    for k in range(len(X)):
        chosen = run_of(problem, candidates, k)
        t = np.linspace(0.0, chosen.duration, 12_000)
        q = chosen.at(t)
        assert (q >= limits.position[:, 0] - 1e-9).all()
        assert (q <= limits.position[:, 1] + 1e-9).all()
        for order, limit in ((1, limits.velocity), (2, limits.acceleration), (3, limits.jerk)):
            assert (np.abs(chosen.at(t, order)) <= limit * (1.0 + 1e-9)).all(), (k, order)


def test_decoding_what_was_encoded_changes_nothing(problem):
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (20, problem.n_design))
    once = decode(problem, X)
    again = decode(problem, encode(problem, once))
    assert np.allclose(once.center, again.center, atol=1e-12)
    assert np.allclose(once.swing, again.swing, atol=1e-12)


def test_constraints_are_what_the_public_physics_says(problem):
    """A second way to every constraint: executed motion, inverse dynamics, clearances, differenced tool positions."""
    robot, limits, scene = problem.robot, problem.constraints.limits, problem.constraints.scene
    X = np.random.default_rng(2).uniform(-1.0, 1.0, (5, problem.n_design))
    candidates = decode(problem, X)
    g = evaluate(problem, candidates).g
    for k in range(len(X)):
        chosen = run_of(problem, candidates, k)
        t = np.linspace(0.0, chosen.duration, 60_001)
        q = chosen.at(t)

        tau = inverse_dynamics(robot, chosen.motion(t))
        tool = frame_pose(robot, q)[:, :3, 3]
        speed = np.linalg.norm(np.gradient(tool, t, axis=0), axis=1).max()
        measured = chosen.periodic.motion(chosen.periodic.grid(5000))
        rms = np.sqrt(np.mean(inverse_dynamics(robot, measured) ** 2, axis=0))
        found = dict(zip(problem.names, g[k], strict=True))
        for j, joint in enumerate(robot.joint_names):
            peak = np.abs(tau[:, j]).max() / (0.995 * limits.torque[j]) - 1.0
            assert found[f"torque peak {joint}"] == pytest.approx(peak, abs=0.06)
            assert found[f"torque peak {joint}"] <= peak + 0.01
            share = rms[j] / (0.995 * problem.constraints.torque_rms[j]) - 1.0
            assert found[f"torque rms {joint}"] == pytest.approx(share, abs=0.02)
        assert found["tool speed"] == pytest.approx(speed / (0.995 * 2.5) - 1.0, abs=0.03)
        home = np.linspace(0.0, 1.0, 24)[:, None] * chosen.series.center
        left = np.minimum(clearances(robot, scene, q[::20]).min(axis=0), clearances(robot, scene, home).min(axis=0))
        lacking = (required(robot, scene) + SEARCH.clearance - left) / CLEARANCE_SCALE
        assert np.allclose(g[k][-1 - len(lacking) : -1], lacking, atol=0.12)


@pytest.mark.parametrize("kind", ["dynamic", "power"])
def test_gradients_of_objective_and_constraints(problem, problem_of, kind):
    chosen = problem if kind == "dynamic" else problem_of(model=lambda robot, columns: PowerModel(robot, columns[:30]))
    random = np.random.default_rng(3)
    candidates = decode(chosen, random.uniform(-1.0, 1.0, (1, chosen.n_design)))
    inside = 0.4 * encode(chosen, candidates)[0]
    beyond = 3.0 * inside  # the limits, so that the repair has a slope
    beyond[: chosen.n_design // 11] += 0.8
    free, none = replace(WHOLE, weight=0.0), np.zeros(len(chosen.names))
    objectives = [
        (chosen.objective(free), none),
        (chosen.objective(SCREEN), none),
        (chosen.objective(WHOLE), none + 0.1),
    ]
    assert penalty(chosen, searched(chosen), Repair(chosen)(beyond), none)[0] > 0.0
    for x in (beyond, beyond, inside):
        direction = random.normal(size=x.size)
        step = 1e-7
        for objective, shift in objectives:
            _, slope = objective(x, shift)
            up, down = (objective(x + sign * step * direction, shift)[0] for sign in (1.0, -1.0))
            assert slope @ direction == pytest.approx((up - down) / (2 * step), rel=2e-4, abs=1e-5)


def test_with_a_size_descents_prefer_the_longer_of_columns_of_like_conditions(problem):
    """A joint that hardly moves costs no condition number, and no torque shows what it moves."""
    x = np.random.default_rng(4).uniform(-0.5, 0.5, problem.n_design)
    free, none = replace(WHOLE, weight=0.0), np.zeros(len(problem.names))
    for size in (0.0, 0.2):
        sized = replace(problem, criterion=Criterion("condition", size=size))
        once, twice = (replace(sized, share=share).objective(free)(x, none)[0] for share in (1.0, 4.0))
        assert once - twice == pytest.approx(size * np.log(2.0), rel=1e-6, abs=1e-9)
    with pytest.raises(ValueError, match="size is 0.2, expected"):
        Criterion("raw-condition", size=0.2)


def test_signs_have_a_width_where_no_speed_is_limited(problem):
    limits = replace(problem.constraints.limits, velocity=np.full(6, np.inf))
    constraints = Constraints(limits, np.full(6, np.inf))
    posed = build_problem(
        problem.robot, problem.excitation, constraints=constraints, criterion=problem.criterion, model=problem.model
    )
    objective = problem_file.Objective(posed, SCREEN)
    widths = [term.width for term in objective.model.robot.drive.friction if term.width]
    assert widths
    assert np.isfinite(widths).all()
    J, slope = objective(np.random.default_rng(0).uniform(-0.5, 0.5, posed.n_design), np.zeros(len(posed.names)))
    assert np.isfinite(J)
    assert np.isfinite(slope).all()


def test_the_repair_of_a_descent_is_that_of_decoding(problem):
    X = np.random.default_rng(5).uniform(-1.5, 1.5, (5, problem.n_design))
    candidates = decode(problem, X)
    for k, x in enumerate(X):
        one = Repair(problem)(x)
        assert np.allclose(one.center, candidates.center[k], atol=1e-12)
        assert np.allclose(one.swing, candidates.swing[k], atol=1e-12)


def test_what_almost_keeps_the_constraints_is_moved_into_them_and_little_is_lost(problem):
    start = feasible_start(problem, 8, np.random.default_rng(2))
    for k in range(8):
        grown = Candidates(start.center[k : k + 1], 1.02 * start.swing[k : k + 1])
        before, (_, after) = evaluate(problem, grown), problem.fitted(grown, None)
        if before.violation[0] > 0.0:
            assert after.violation[0] <= 0.0
            assert after.value[0] < 1.1 * before.value[0]


def test_extremes_of_limits_are_their_highest_peaks():
    g = np.random.default_rng(0).normal(size=(50, 4))
    g[:, 2] = -2.0
    found = list(zip(*(part.tolist() for part in problem_file._extremes(g, 0.5, 3)), strict=True))
    for k in range(4):
        padded = np.concatenate([[-np.inf], g[:, k], [-np.inf]])
        peaks = [i for i in range(50) if g[i, k] > 0.5 and padded[i] <= g[i, k] >= padded[i + 2]]
        assert [i for i, limit in found if limit == k] == sorted(peaks, key=lambda i: -g[i, k])[:3]
    alone = problem_file._extremes(g, -np.inf, 1)
    assert sorted(zip(alone[1].tolist(), alone[0].tolist(), strict=True)) == list(enumerate(g.argmax(axis=0).tolist()))


def test_descents_beside_other_constraints_know_the_joints_limits(problem):
    """A descent through kinks of the joints' limits needs more points, and ends higher."""
    start = encode(problem, feasible_start(problem, 3, np.random.default_rng(4)))
    none, ends = np.zeros(len(problem.names)), {}
    for step in (WHOLE, replace(WHOLE, quadratic=0)):
        objective = problem.objective(step)
        ends[step.quadratic] = [descend(objective, x, step, none, lambda n, _: n >= 60)[1] for x in start]
    assert np.mean(ends[WHOLE.quadratic]) < np.mean(ends[0]) - 0.02


def test_descents_of_random_motions_reach_good_conditions():
    """What smooth signs are for: with true ones they end at 4.2, and no difference quotient shows it."""
    assert np.mean(descents(six_axis_problem(), 5)) <= 3.55


def test_the_start_is_feasible_by_construction(problem):
    start = feasible_start(problem, 60, np.random.default_rng(0))
    assert (violation_of(problem, start) <= 0.0).mean() > 0.9


def test_a_search_beats_its_start_and_finds_feasible_motions(problem):
    found = solve(problem, Budget(evaluations=1500), seed=0)
    assert found.feasible
    assert found.evaluations <= 1500
    start = evaluate(problem, feasible_start(problem, 200, np.random.default_rng([0, 0])))
    assert found.value[0] < 0.7 * start.value[start.violation <= 0.0].min()
    best = run_of(problem, found.candidates, 0)
    W = problem.model.observation(best.periodic.motion(best.periodic.grid(2000)))
    assert condition_number(W) == pytest.approx(found.value[0], rel=0.005)
    assert (np.diff(found.history[:, 0]) >= 0).all()
    assert (np.diff(found.history[:, 1]) <= 0).all()


def test_objectives_are_built_once_for_each_fidelity(problem, monkeypatch):
    built = []
    make = type(problem).objective
    monkeypatch.setattr(type(problem), "objective", lambda self, step: built.append(step) or make(self, step))
    solve(problem, Budget(evaluations=600))
    assert built
    assert len(set(built)) == len(built), "building one takes as long as ten points of a descent"


def same(a, b):
    return all(
        np.array_equal(getattr(a, field), getattr(b, field), equal_nan=True)
        for field in ("value", "violation", "history", "evaluations")
    ) and np.array_equal(a.candidates.swing, b.candidates.swing)


@pytest.mark.slow
def test_same_seed_and_evaluations_find_the_same_bit_for_bit(problem):
    first, second = (solve(problem, Budget(evaluations=700), seed=4) for _ in range(2))
    assert same(first, second)
    assert not same(first, solve(problem, Budget(evaluations=700), seed=5))


@pytest.mark.parametrize("after", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_that_was_stopped_goes_on_to_the_same_end(problem, after):
    kept: list[State] = []
    search = Search(problem, Budget(evaluations=700), seed=4)
    whole = run_search(search, observer=Observer(keep=kept.append))
    assert [state.done for state in kept] == [1, 2, 3]
    assert same(whole, run_search(search, kept[after - 1]))


@pytest.fixture(scope="module")
def two():
    """Two workers, and a search in which they descend children and a killed one is replaced."""
    with open_executor(2) as executor:
        yield executor


@pytest.mark.slow
def test_workers_find_what_one_process_finds_and_go_on_from_its_checkpoints(problem_of, two):
    """Stages by one process or by two, in any order, with a worker killed on the way."""
    small = problem_of("rotradi", scene=False, ramp=0.0)
    search = Search(small, Budget(evaluations=6000), seed=1)
    kept: list[State] = []
    alone = run_search(search, observer=Observer(keep=kept.append))
    killed: list[int] = []

    def kill(_):
        if two.crew and not killed:
            killed.append(two.crew[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    assert same(alone, run_search(search, observer=Observer(kill), executor=two))
    assert killed
    assert same(alone, run_search(search, kept[0], executor=two))
    half: list[State] = []
    run_search(search, observer=Observer(keep=half.append), executor=two, until_stage=2)
    assert same(alone, run_search(search, half[-1]))


def test_seconds_are_those_of_all_workers(problem_of, two):
    small = problem_of("rotradi", scene=False, ramp=0.0)
    solve(small, Budget(seconds=0.2), executor=two)  # workers import
    found = solve(small, Budget(seconds=1.0), executor=two)
    assert 0.8 < found.seconds < 2.0


class Crossing(Executor):
    """Works at two tasks, of which the first of each job ends last."""

    away, count = True, 2

    def __init__(self):
        self.lengths = []

    def run(self, job, tasks):
        function, places = job.make(job.given), enumerate(tasks)
        for k, slow in islice(places, 1):
            self.lengths.append(1)
            for place, task in places:
                self.lengths[-1] += 1
                yield place, replace(function(task), seconds=0.0)  # which this process counts
            yield k, replace(function(slow), seconds=0.0)


def test_with_seconds_no_worker_waits_for_the_slowest_of_a_generation(problem_of):
    """Children of motions that landed meanwhile are sent before the first one lands."""
    crossing, small = Crossing(), problem_of("rotradi", scene=False, ramp=0.0)
    found = solve(small, Budget(seconds=2.5), executor=crossing)
    assert crossing.lengths[1] > 4  # of evolution
    assert found.feasible
    assert found.seconds < 4.0


def dying(_):
    os._exit(3)


@pytest.mark.slow
def test_a_descent_that_kills_its_workers_ends_in_a_sentence(problem_of, two, monkeypatch):
    monkeypatch.setattr("excitor.design.search._descending", dying)
    monkeypatch.setattr("excitor.robots.executor.RETRIES", 0)
    small = problem_of("rotradi", scene=False, ramp=0.0)
    with pytest.raises(ExcitorError, match="died 1 times.*the same command goes on"):
        solve(small, Budget(evaluations=6000), executor=two)


@pytest.mark.slow
def test_a_long_search_has_islands_that_come_together(monkeypatch):
    monkeypatch.setattr(search_file, "_LONG", 0.1)
    monkeypatch.setattr(search_file, "_ISLAND_SECONDS", 0.2)
    free = six_axis_problem()
    search, states = Search(free, Budget(evaluations=2400), 3), []
    whole = run_search(search, observer=Observer(keep=states.append))
    assert search.islands == 2
    assert search.stages == (0, 1, 0, 1, 1, 2)
    assert np.all(np.diff([search.until(k) for k in range(6)]) > 0.0)
    assert search.until(5) == 1.0
    assert [state.aside > 0 for state in states] == [False, False, True, True, False, False]
    first, second = states[1], states[3]
    X = [free.encode(state.candidates) for state in (first, second)]
    assert second.swing[-second.aside :].tolist() == first.swing[: second.aside].tolist(), "the best of the first wait"
    own = X[1][: -second.aside]
    assert all(distances(free.genes, x, X[0])[0].min() > 0.0 for x in own), "the second is bred from motions of its own"
    assert np.diff([state.best for state in states]).max() <= 0.0
    assert same(run_search(search, states[2]), whole)


@pytest.mark.parametrize(("draws", "share"), [(1, 1 / 4), (2, 7 / 16)])
def test_parents_are_any_members_or_the_better_of_two(problem, monkeypatch, draws, share):
    """Members come best first; of four, the better of two that are drawn is the first in 7 of 16 cases."""
    firsts = []
    monkeypatch.setattr(search_file, "varied", lambda genes, a, b, random: firsts.append(a[0]) or a)
    mating, _ = search_file._operators(problem.genes, draws)
    members = Population.new("X", np.arange(4.0)[:, None] * np.ones(problem.n_design))
    mating._do(None, members, 4000, random_state=np.random.default_rng(0))
    assert np.mean(np.array(firsts) == 0.0) == pytest.approx(share, abs=0.03)


def test_a_search_has_more_members_and_first_motions_where_nothing_constrains_it(problem):
    """For 10 s: descents without constraints are so short that more regions can be searched."""
    free, kept = (Search(one, Budget(seconds=10.0)) for one in (six_axis_problem(), problem))
    assert kept.problem.names
    assert free.population(0) > kept.population(0)
    assert kept.population(0) == kept.starts
    assert 1 < free.starts < free.population(0)


@pytest.mark.slow
def test_an_interrupt_ends_with_the_best_so_far(problem):
    calls = []

    def impatient(progress):
        calls.append(progress)
        if len(calls) == 5:
            raise KeyboardInterrupt

    found = solve(problem, Budget(evaluations=5000), seed=0, listen=impatient)
    assert found.stopped == "interrupted"
    assert found.feasible
    assert calls[-1].best == found.value[0]


def test_locked_joints_stand_where_the_search_puts_them():
    robot = load("tx40")
    moving = np.array([False, False, True, True, True, True])
    columns = base_parameters(robot).kept[-40:]
    free = build_problem(
        robot,
        Excitation(10.0, 0.004, (1, 2, 3), moving),
        constraints=Constraints(robot.limits, np.full(6, np.inf)),
        criterion=Criterion(),
        model=DynamicModel(robot, columns, np.ones(6)),
        pose=np.array([0.3, np.nan, 0.0, 0.0, 0.0, 0.0]),
    )
    assert free.n_design == 4 * 7 + 1
    candidates = decode(free, np.random.default_rng(0).uniform(-1, 1, (8, free.n_design)))
    assert (candidates.center[:, 0] == 0.3).all()
    assert np.ptp(candidates.center[:, 1]) > 0.1
    assert not candidates.swing[:, :2].any()
    assert np.allclose(encode(free, decode(free, encode(free, candidates))), encode(free, candidates))


def test_earlier_runs_count(problem):
    chosen = decode(problem, np.random.default_rng(0).uniform(-1, 1, (2, problem.n_design)))
    motion = run_of(problem, chosen, 1).periodic.motion(problem.excitation.grid(problem.n_period))
    W = problem.model.observation(motion)
    joined = replace(problem, earlier=W.T @ W)
    first = run_of(problem, chosen, 0).periodic.motion(problem.excitation.grid(problem.n_period))
    both = np.concatenate([problem.model.observation(first), W])
    assert evaluate(joined, chosen).value[0] == pytest.approx(condition_number(both), rel=1e-6)


def test_a_mechanism_that_can_be_singular_stays_away():
    """The protocol by itself: a tree is given singular poses whose distances are known in closed form."""
    robot = load("rotradi")

    class Singular(type(robot.mechanism)):
        singularity_names = ("stretched",)

        def singularity_distances(self, q):
            return np.abs(np.sin(q[:, 2:3]))

    tree = robot.mechanism
    values = {name: getattr(tree, name) for name in tree.__dataclass_fields__}
    robot = replace(robot, mechanism=Singular(**values))
    free = np.full(3, np.inf)
    constraints = Constraints(robot.limits, free, singularity=0.2)
    columns = base_parameters(robot).kept
    chosen = build_problem(
        robot,
        Excitation(10.0, 0.004, (1, 2, 3), np.ones(3, bool)),
        constraints=constraints,
        criterion=Criterion(),
        model=DynamicModel(robot, columns, np.ones(3)),
    )
    assert chosen.names[-1] == "singularity: stretched"
    candidates = decode(chosen, np.random.default_rng(0).uniform(-1, 1, (5, chosen.n_design)))
    g = evaluate(chosen, candidates).g[:, -1]
    for k in range(5):
        q = run_of(chosen, candidates, k).periodic.at(chosen.excitation.grid(chosen.n_period))
        least = np.abs(np.sin(q[:, 2])).min()
        assert g[k] == pytest.approx(1.0 - 0.995 * least / 0.2, abs=1e-12)


def test_trajectories_become_candidates_again(problem):
    chosen = decode(problem, np.random.default_rng(0).uniform(-1, 1, (3, problem.n_design)))
    again = candidates_of([run_of(problem, chosen, k) for k in range(3)])
    assert np.array_equal(again.center, chosen.center)
    assert np.array_equal(again.swing, chosen.swing)


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ({}, "one of them"),
        ({"evaluations": 5, "seconds": 1.0}, "one of them"),
        ({"evaluations": 0}, "at least 1"),
        ({"seconds": -1.0}, "positive time"),
        ({"seconds": float("nan")}, "positive time"),
    ],
)
def test_budgets_that_make_no_sense(budget, sentence):
    with pytest.raises(ValueError, match=sentence):
        Budget(**budget)


def test_first_motions_keep_position_limits_wherever_they_are_gathered(problem, monkeypatch):
    """Centres that are moved near home may not carry their swing beyond a joint's range."""
    monkeypatch.setattr(problem_file, "violation_of", lambda _, candidates: np.ones(len(candidates.center)))
    q = motions(problem, feasible_start(problem, 50, np.random.default_rng(0)))[0]
    over = np.maximum(q.max(axis=2) - problem.position[:, 1], problem.position[:, 0] - q.min(axis=2))
    assert over.max() <= 1e-9
