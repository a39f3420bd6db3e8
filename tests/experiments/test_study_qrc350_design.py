"""The design part of the QRC 350 study: a model in declared parameters; what is asked, how it is judged, the bars."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.design.criteria import Criterion, DeclaredModel, declared_model
from excitor.design.criteria import gradient as criterion_gradient
from excitor.experiments.studies import qrc350
from excitor.experiments.studies.paper import printed_values
from excitor.identify.estimate import wls_measured
from excitor.robots.base import base_parameters, declared_transform, random_motion
from excitor.robots.dynamics import frame_pose, regressor
from excitor.robots.gram import gram_condition, stack
from excitor.robots.load import load
from excitor.robots.robot import Motion

DATA = Path(__file__).parents[3] / "shared" / "data" / "qrc350"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the QRC 350 recordings are not at {DATA}")


@pytest.fixture(scope="module")
def recordings():
    return qrc350.read_recordings(DATA)


@pytest.fixture(scope="module")
def theta(recordings):
    return {run: wls_measured(recordings.equations[run], 50) for run in ("A", "B")}


@pytest.fixture(scope="module")
def rivals(recordings, theta):
    return {run: qrc350.rival(recordings, run, theta[run].values) for run in ("A", "B")}


def mixed_model(robot):
    """Combine columns in a way that no permutation does."""
    model = declared_model(robot)
    n = len(model.columns)
    return DeclaredModel(model.model, model.inverse @ (np.eye(n) + 0.1 * np.random.default_rng(3).normal(size=(n, n))))


def test_declared_columns_give_the_same_torques():
    robot = load("qrc350")
    motion = random_motion(robot, 20)
    declared = robot.declared_base
    theta = np.where(robot.assumed_zero, 0.0, declared.combination) @ robot.chi
    model = declared_model(robot)
    chi = np.where(robot.assumed_zero, 0.0, robot.chi)
    np.testing.assert_allclose(model.observation(motion) @ theta, stack(regressor(robot, motion)) @ chi, atol=1e-9)
    weights = np.arange(1.0, 7.0)
    rows = np.repeat(weights, len(motion))[:, None]
    np.testing.assert_allclose(declared_model(robot, weights).observation(motion), rows * model.observation(motion))


def test_gram_matrices_of_a_population_are_those_of_the_observation():
    robot = load("qrc350")
    model = mixed_model(robot)
    motions = [random_motion(robot, 30, seed=seed) for seed in (1, 2)]
    states = (np.array([getattr(m, name).T for m in motions]) for name in ("q", "dq", "ddq"))
    found = model.grams(*states, 25)
    for G, m in zip(found, motions, strict=True):
        W = model.observation(Motion(m.q[:25], m.dq[:25], m.ddq[:25]))
        np.testing.assert_allclose(G, W.T @ W, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("kind", ["condition", "a"])
def test_gradient_through_the_combination(kind):
    robot = load("qrc350")
    model, motion = mixed_model(robot), random_motion(robot, 40)
    states = (motion.q, motion.dq, motion.ddq)
    steps = [np.random.default_rng(k).normal(size=x.shape) for k, x in enumerate(states)]

    def value(h):
        moved = [(x + h * s).T[None] for x, s in zip(states, steps, strict=True)]
        return criterion_gradient(Criterion(kind), model.grams(*moved, 40)[0], 30.0)

    bars = model.gradient(motion, value(0.0)[1])
    slope = sum(float(np.sum(bar * s)) for bar, s in zip(bars, steps, strict=True))
    assert slope == pytest.approx((value(1e-6)[0] - value(-1e-6)[0]) / 2e-6, rel=1e-5)


def test_a_combination_of_the_wrong_size_is_a_sentence():
    model = declared_model(load("qrc350"))
    with pytest.raises(ValueError, match=r"inverse has shape \(34, 34\), expected 35 x 35"):
        DeclaredModel(model.model, np.eye(34))


@needs_data
def test_measured_trajectories_score_as_known(rivals):
    assert rivals["A"].condition == pytest.approx(5.738, abs=5e-4)
    assert rivals["B"].condition == pytest.approx(6.920, abs=5e-4)
    low, high = np.array(rivals["B"].box)
    grown = np.array([1.05 * low - 0.05 * high, 1.05 * high - 0.05 * low])
    np.testing.assert_allclose(qrc350.GROWN_BOX_M, grown, atol=5e-3)
    np.testing.assert_allclose(rivals["A"].limits.velocity, [1.73, 1.81, 2.16, 5.16, 2.85, 6.18], atol=5e-3)


@needs_data
def test_one_noise_per_joint_gives_the_published_deviations(rivals, theta):
    """The paper weights every sample by its own scatter; designs have none, so each joint has one."""
    for run in ("A", "B"):
        ratio = rivals[run].sigma / theta[run].relative_sigma
        assert np.median(ratio) == pytest.approx(1.0, abs=0.03)
        assert ratio.min() > 0.75
        assert ratio.max() < 1.35


@needs_data
def test_a_short_search_is_reproducible_and_keeps_the_envelope_and_the_box(recordings, rivals):
    """Judged here from scratch, ten times finer than the search looks, ramps included."""
    task = qrc350.Task("restrained", "B", qrc350.GROWN_BOX_M)
    effort = qrc350.Effort(1, 1200)
    first, again = (qrc350.one(recordings, task, rivals["B"], 0, effort) for _ in range(2))
    np.testing.assert_array_equal(first.run.series.sines, again.run.series.sines)
    np.testing.assert_array_equal(first.run.series.center, again.run.series.center)
    assert first.certificate.ready
    t = np.linspace(0.0, first.run.duration, 20_001)
    q, dq, ddq = (first.run.at(t, order) for order in range(3))
    limits = rivals["B"].limits
    assert ((q >= limits.position[:, 0]) & (q <= limits.position[:, 1])).all()
    assert (np.abs(dq) <= limits.velocity).all()
    assert (np.abs(ddq) <= limits.acceleration).all()
    tool = frame_pose(recordings.robot, q)[:, :3, 3]
    low, high = np.array(task.box)
    assert ((tool >= low) & (tool <= high)).all()
    motion = first.run.periodic.motion(0.005 * np.arange(2000))
    base = base_parameters(recordings.robot)
    W = np.linalg.solve(
        declared_transform(recordings.robot, base).T, stack(regressor(recordings.robot, motion)[:, :, base.kept]).T
    ).T
    assert first.condition == pytest.approx(gram_condition(W.T @ W), rel=5e-3)


@needs_data
def test_a_design_outside_the_envelope_is_not_certified(recordings, rivals):
    task = qrc350.Task("full", "A")
    tight = replace(rivals["A"].limits, velocity=0.5 * rivals["A"].limits.velocity)
    found = qrc350.one(recordings, task, rivals["A"], 0, qrc350.Effort(1, 600))
    from excitor.design.certify.certify import certify

    limits = replace(qrc350.problem(recordings, task, rivals["A"]).constraints, limits=tight)
    assert not certify(recordings.robot, found.run, limits).ready


@needs_data
def test_figures_and_what_is_reported(recordings, theta):
    """Searches that hardly begin: all is reported, and judged by the bars."""
    values = {run: each.values for run, each in theta.items()}
    designs = qrc350.design(recordings, values, qrc350.Effort(1, 400))
    figures = {figure.name: figure for figure in qrc350.design_figures(designs, printed_values("qrc350"))}
    assert [figures[f"qrc350.design.{run}"].holds for run in ("a", "b")] == [True, True]
    bars = {name: figures[f"qrc350.design.{name}"].target for name in ("full", "restrained", "restrained_exact")}
    assert bars == {"full": 3.6, "restrained": 4.0, "restrained_exact": None}
    assert figures["qrc350.design.full"].holds is False
    told = json.loads(json.dumps(qrc350.design_context(designs)))
    assert len(told["expected relative sigma, %"]) == 1 + 35
    assert told["restrained"]["condition of B"] == 6.92


@needs_data
@pytest.mark.slow
def test_low_conditions_are_not_information(recordings, rivals):
    """A design by condition number reaches the bar and tells less than A; informative ones tell more than A and B.

    Their condition numbers, which they are not designed for, are about those of A and B.
    """
    effort = qrc350.QUICK
    asked = {task.name: task for task in qrc350.tasks(rivals["B"])}
    design, rival = qrc350.one(recordings, asked["full"], rivals[asked["full"].rival], 0, effort), rivals["A"]
    assert asked["full"].rival == "A"
    assert design.certificate.ready
    assert design.condition < 3.6
    assert np.median(design.sigma / rival.sigma) > 1.0
    for name in ("full_informative", "restrained_informative"):
        rival = rivals[asked[name].rival]
        designs = [qrc350.one(recordings, asked[name], rival, seed, effort) for seed in range(effort.seeds)]
        assert np.median([design.condition for design in designs]) < 1.1 * rival.condition
        for design in designs:
            assert design.certificate.ready
            assert np.count_nonzero(design.sigma < rival.sigma) >= 22
            assert np.exp(np.log(design.sigma / rival.sigma).mean()) < 0.95
            assert design.sigma.max() < rival.sigma.max()
