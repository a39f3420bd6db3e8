"""Certificates of closed chains: what happens between samples stays within what is claimed of it."""

from dataclasses import replace
from itertools import pairwise
from math import comb

import numpy as np
import pytest

from excitor.design.approach import NoPath, approach, blocked, is_clear
from excitor.design.certify import bounds as closed_rates
from excitor.design.certify.bounds import (
    closed_row_speeds,
    closed_spans,
    links_curvature,
    singularity_bounds,
    torque_rates,
)
from excitor.design.certify.certify import certify, failing
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.singularity import Singularity
from excitor.design.constraints.torque import largest_torques
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import Excitation, Run, even_spans, periodic_run, spans
from excitor.design.problem import UNBOUNDED, Repair, build_problem, decode, encode, penalty, searched
from excitor.design.problem import run_of as trajectory_of
from excitor.design.search import WHOLE, descend
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone, clearances, row_names, tool_speeds
from excitor.robots.closed_chain import complete, size
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import AssemblyError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion
from tests.limits import from_robot

WITHIN = 9  # moments looked at inside an interval
ROBOTS = {"five-bar-vertical": 0.05, "3-rrr": 0.05, "delta": 0.04, "orthoglide-rod": 0.02, "orthoglide": 0.02}


def swinging(name, share=None, seed=0, harmonics=3):
    """Swing about home: amplitudes a share of a radian, or of the robot's size."""
    robot = load(name)
    loop, rng = robot.mechanism, np.random.default_rng(seed)
    excitation = Excitation(2.0, 0.004, tuple(range(1, harmonics + 1)), np.ones(loop.n_joints, bool), ramp=1.0)
    swing = (ROBOTS[name] if share is None else share) * np.where(loop.prismatic, size(loop), 1.0)[:, None]
    sines, cosines = (swing * rng.uniform(-1.0, 1.0, (loop.n_joints, harmonics)) for _ in range(2))
    return robot, periodic_run(excitation, loop.home[loop.actuated], sines, cosines)


def inside(part):
    """Evaluate the drives at moments inside every interval: (n_spans, WITHIN + 2) of them, ends included."""
    share = np.linspace(0.0, 1.0, WITHIN + 2)
    t = (part.t[part.left][:, None] + share * part.h).ravel()
    return t, Motion(*(part.segment.at(t, order) for order in range(3)))


def by_span(values):
    return values.reshape(-1, WITHIN + 2, *values.shape[1:])


def excess(loop, piece, n_spans):
    """Find how far |q|, |dq|, |ddq|, |J|, |dJ/dt| and |d³q| exceed their bounds inside intervals, as shares of them."""
    part = even_spans(piece, n_spans)
    closed = closed_spans(loop, part)
    assert closed.valid.any()
    _, motion = inside(part)
    whole = complete(loop, motion)
    assert whole.closes.all()
    step = part.h[0, 0] / (WITHIN + 1)
    J = by_span(whole.J.transpose(2, 0, 1))
    true = [by_span(x) for x in (whole.motion.q, whole.motion.dq, whole.motion.ddq)]
    pairs = [(true[k], closed.rates[k]) for k in range(3)]
    pairs += [(np.diff(true[2], axis=1) / step, closed.rates[3])]  # a mean of d³q over a part of the interval
    pairs += [(np.diff(true[2], n=2, axis=1) / step**2, closed.rates[4])]
    pairs += [
        (J, closed.J[0]),
        (np.diff(J, axis=1) / step, closed.J[1]),
        (np.diff(J, n=2, axis=1) / step**2, closed.J[2]),
    ]
    found = []
    for values, bound in pairs:
        scale = np.abs(values).max() + 1e-12
        found.append(((np.abs(values).max(axis=1) - bound)[closed.valid] / scale).max())
    return np.array(found), closed


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("n_spans", [60, 500])
def test_passive_coordinates_stay_within_their_bounds(name, n_spans):
    robot, trajectory = swinging(name)
    for piece in trajectory.pieces()[:2]:
        found, closed = excess(robot.mechanism, piece, n_spans)
        assert found.max() < 1e-6, "rounding of second differences"
        if n_spans == 500:
            assert closed.valid.mean() > 0.9
            speeds = np.abs(closed.whole.motion.dq).max(axis=0)
            assert (closed.rates[1].max(axis=0) <= 1.3 * speeds + 1e-9).all(), "and bounds are of use"


@pytest.mark.parametrize("lost", ["slope of the closures", "their curvature", "inverse"])
def test_a_bound_that_forgets_something_is_caught(lost, monkeypatch):
    """Mutations: the comparison above must see each of them."""
    robot, trajectory = swinging("five-bar-vertical")
    true = closed_rates.closure_rates

    def broken(*arguments):
        A = true(*arguments).copy()
        if lost == "slope of the closures":
            A[1:] = 0.0
        elif lost == "their curvature":
            A[2:] = 0.0
            A[1] *= 0.2
        return A

    monkeypatch.setattr(closed_rates, "closure_rates", broken)
    if lost == "inverse":
        monkeypatch.setattr(closed_rates, "_order", lambda *arguments: 0.0)
    found, _ = excess(robot.mechanism, trajectory.pieces()[1], 60)
    assert found.max() > 1e-3


@pytest.mark.parametrize("name", ["five-bar-vertical", "3-rrr", "delta"])
def test_torques_and_distances_stay_within_their_bounds(name):
    robot, trajectory = swinging(name)
    scene = Scene((Zone("room", Shape("sphere", np.eye(4), np.array([2.0, 0, 0])), "in"),), self_clearance=0.0)
    for piece in trajectory.pieces()[:2]:
        part = even_spans(piece, 400)
        _, motion = inside(part)
        upper, _ = largest_torques(robot, prior(robot), part)
        tau = by_span(np.abs(inverse_dynamics(robot, motion))).max(axis=1)
        assert (tau <= upper * (1.0 + 1e-9)).all()
        lowest, _ = singularity_bounds(robot.mechanism, part)
        distance = by_span(robot.mechanism.singularity_distances(motion.q)).min(axis=1)
        assert (distance >= lowest - 1e-9).all()
        speed = closed_row_speeds(robot, scene, part)
        d = by_span(clearances(robot, scene, motion.q))
        assert (np.abs(np.diff(d, axis=1)).max(axis=1) / (part.h / (WITHIN + 1)) <= speed * (1.0 + 1e-6) + 1e-9).all()


def test_curvature_of_torques_is_bounded_as_a_product_bends():
    """(Jᵀ τ)'' = J''ᵀ τ + 2 J'ᵀ τ' + Jᵀ τ'', each by its bound; a looser one would be as safe, and cost more."""
    robot, trajectory = swinging("delta")
    loop, part = robot.mechanism, even_spans(trajectory.pieces()[1], 400)
    phi = prior(robot)[: layout(robot).n_link_params].reshape(-1, 10)
    found, valid = links_curvature(loop, phi, part)
    closed, phi = closed_spans(loop, part), loop.tree_parameters(phi)
    torque = torque_rates(loop.tree, phi, closed.links)
    inner = np.abs(loop.tree.inverse_dynamics(closed.whole.motion, phi))
    torque[0] = np.minimum(torque[0], part.worst_of_ends(inner) + part.h**2 / 8.0 * torque[2])
    expected = sum(comb(2, k) * (closed.J[2 - k].transpose(0, 2, 1) @ torque[k][..., None])[..., 0] for k in range(3))
    np.testing.assert_allclose(found[valid], expected[valid], rtol=1e-12)


def test_what_leaves_the_workspace_between_samples_is_not_called_assembled():
    robot, trajectory = swinging("five-bar-vertical", share=0.12)
    loop, piece = robot.mechanism, trajectory.pieces()[1]
    t = np.linspace(0.0, piece.duration, 4001)
    near = loop.singularity_distances(piece.at(t, 0)).min(axis=1)
    beyond = np.flatnonzero(near <= 0.0)
    assert beyond.size, "it does leave"
    first, last = beyond[0], beyond[0]
    while near[last] <= 0.0:
        last += 1
    for margin in (1, 20, 100):
        a, b = t[[first - margin]], t[[last + margin]]
        assert singularity_bounds(loop, spans(piece, a, b))[0].max() == -np.inf


def certified():
    robot, trajectory = swinging("five-bar-vertical")
    constraints = from_robot(robot, scene=Scene(self_clearance=0.005))
    home = robot.mechanism.home[robot.mechanism.actuated] + np.array([0.05, -0.03])
    constraints = replace(constraints, home=home, tool_speed=3.0, torque_rms=np.full(2, 8.0))
    return robot, trajectory, constraints, certify(robot, trajectory, constraints)


def test_a_certificate_of_a_closed_chain_holds_on_a_finer_grid_and_against_a_search():
    """The independent check: ten times as many moments as intervals, then random ones, the worst of them improved."""
    robot, trajectory, constraints, certificate = certified()
    assert certificate.ready, [item.name for item in failing(certificate)]
    assert certificate.way is not None
    rows = {item.name: item for item in certificate.items}
    loop = robot.mechanism

    def least(t):
        q, dq, ddq = (trajectory.at(t, order) for order in range(3))
        found = {
            f"singularity: {name}": d
            for name, d in zip(loop.singularity_names, loop.singularity_distances(q).T, strict=True)
        }
        tau = -np.abs(inverse_dynamics(robot, Motion(q, dq, ddq))).T
        found |= {f"torque peak {name}": row for name, row in zip(robot.joint_names, tau, strict=True)}
        names = row_names(robot, constraints.scene)
        found |= {
            f"clearance: {name}": d for name, d in zip(names, clearances(robot, constraints.scene, q).T, strict=True)
        }
        return found | {"tool speed": -tool_speeds(robot, Motion(q, dq, ddq))}

    end, rng = trajectory.duration, np.random.default_rng(1)
    t = np.concatenate([np.linspace(0.0, end, 10_001), rng.uniform(0.0, end, 2000)])
    for name, seen in least(t).items():
        item = rows[name]
        claimed = item.worst if name.startswith(("singularity", "clearance")) else -item.worst
        best, width = t[np.argmin(seen)], end / 1e4
        lowest = seen.min()
        for _ in range(6):
            nearby = np.clip(best + width * rng.uniform(-1.0, 1.0, 30), 0.0, end)
            found = least(nearby)[name]
            best, lowest, width = nearby[np.argmin(found)], min(lowest, found.min()), 0.3 * width
        assert lowest >= claimed - 1e-9, name
    way = certificate.way
    q = way.at(np.linspace(0.0, way.duration, 2001))
    assert loop.singularity_distances(q).min() >= constraints.singularity


def test_motions_that_do_not_keep_away_are_refused_with_sentences():
    robot, trajectory = swinging("five-bar-vertical", 0.05)
    near = certify(robot, trajectory, replace(from_robot(robot), singularity=0.62), torque_model=False)
    assert any(item.name.startswith("singularity: type") for item in failing(near))
    outside = certify(*swinging("five-bar-vertical", 0.12), from_robot(robot))
    reasons = " ".join(item.proof for item in failing(outside))
    assert "a sample exceeds the limit" in reasons
    assert "out of reach" in reasons or "assembly mode" in reasons


@pytest.fixture(scope="module")
def wide():
    """A five-bar whose own limits, which hide its singularities, are lifted; pairs of poses with one between them."""
    robot = load("five-bar-vertical")
    loop, constraints = robot.mechanism, from_robot(robot)
    reach = np.deg2rad([[20.0, 200.0], [-20.0, 160.0]])
    constraints = replace(constraints, limits=replace(constraints.limits, position=reach), singularity=0.2)
    poses = np.random.default_rng(0).uniform(*reach.T, (600, 2))
    poses = poses[loop.singularity_distances(poses).min(axis=1) > 0.25]
    s = np.linspace(0.0, 1.0, 51)[:, None]
    crossing = [(a, b) for a, b in pairwise(poses) if loop.singularity_distances(a + s * (b - a)).min() < 0.19]
    assert len(crossing) >= 3
    return robot, constraints, crossing


def test_lines_and_poses_that_are_singular_are_blocked(wide):
    robot, constraints, crossing = wide
    assert not any(is_clear(robot, constraints, a, b) for a, b in crossing)
    home = robot.mechanism.home[robot.mechanism.actuated]
    assert is_clear(robot, constraints, home, home + 0.05)
    assert not is_clear(robot, replace(constraints, singularity=0.7), home, home + 0.05)
    beyond = np.deg2rad([170.0, 10.0])
    assert blocked(robot, beyond, constraints) == ("the pose cannot be assembled, or lies beyond a singularity",)
    assert "cannot be assembled" in approach(robot, home, beyond, constraints).reason
    none = approach(robot, *crossing[0], constraints, attempts=1)
    assert isinstance(none, NoPath)
    assert "singularity" in none.reason


@pytest.mark.slow
def test_ways_go_around_singularities(wide):
    robot, constraints, crossing = wide
    way = approach(robot, *crossing[0], constraints, attempts=100)
    assert isinstance(way, Run), way
    assert len(way.knots) > 2
    q = way.at(np.linspace(0.0, way.duration, 3001))
    assert robot.mechanism.singularity_distances(q).min() >= 0.2


def five_bar_problem():
    robot = load("five-bar-vertical")
    columns = base_parameters(robot).kept
    return build_problem(
        robot,
        Excitation(5.0, 0.004, (1, 2, 3), np.ones(2, bool)),
        constraints=Constraints(robot.limits, np.full(2, np.inf), singularity=0.3),
        criterion=Criterion(),
        model=DynamicModel(robot, columns, np.ones(2)),
    )


def test_a_search_survives_leaps_out_of_the_workspace():
    problem = five_bar_problem()
    x = np.random.default_rng(0).uniform(-3.0, 3.0, problem.n_design)
    q = trajectory_of(problem, decode(problem, x[None]), 0).periodic.at(np.linspace(0.0, 5.0, 501))
    assert (problem.robot.mechanism.singularity_distances(q) < 0.0).any()
    shift = np.zeros(len(problem.names))
    with pytest.raises(AssemblyError):
        penalty(problem, searched(problem), Repair(problem)(x), shift)
    J, slope = problem.objective(WHOLE)(x, shift)
    assert J >= UNBOUNDED
    assert not slope.any()
    left = descend(problem.objective(WHOLE), x, WHOLE, shift, lambda *_: False)[0]
    motions = [encode(problem, decode(problem, one[None]))[0] for one in (left, x)]
    assert motions[0] == pytest.approx(motions[1], abs=1e-12)


def test_slopes_of_singularity_rows_agree_with_differences():
    problem = five_bar_problem()
    x = 0.25 * np.random.default_rng(3).uniform(-1.0, 1.0, problem.n_design)
    x = encode(problem, decode(problem, x[None]))[0]
    items = searched(problem)
    assert isinstance(items[-1][0], Singularity)
    shift = np.where([name.startswith("singularity") for name in problem.names], 2.0, -1e3)

    def square(x):
        repair = Repair(problem)(x)
        value, slope = penalty(problem, items, repair, shift)
        return value, repair.pull_back(slope)

    slopes, step = square(x)[1], 1e-7
    for k in range(problem.n_design):
        moved = np.zeros(problem.n_design)
        moved[k] = step
        up, down = (square(x + side * moved)[0] for side in (1.0, -1.0))
        assert slopes[k] == pytest.approx((up - down) / (2.0 * step), rel=1e-3, abs=1e-4)
    assert np.abs(slopes).max() > 0.1
