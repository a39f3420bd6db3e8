"""The change detector: quiet on healthy cycles that drift, quick on steps, and right about what changed."""

import numpy as np
import pytest

from excitor.identify.change import LEARN, Group, base_equations, begin, cycle_equations, features, observe, watched
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion

GROUPS = (
    Group("load", "", ("δMX", "δMY", "δMZ", "δM"), ("kg m",) * 3 + ("kg",), 0),
    Group("friction", "a", ("Fv1", "Fc1"), ("N m s/rad", "N m"), 4),
    Group("unexplained", "a", ("residual of a",), ("log",), 6),
)
SIGMA = np.array([2.0, 3.0, 1.0, 0.5, 0.4, 0.3])
SCALE = np.array([0.01, 0.02, 0.01, 0.1, 0.5, 0.2, 0.05])


def healthy(n, seed, mix=0.5):
    """Correlated features that warm up exponentially."""
    rng = np.random.default_rng(seed)
    L = np.eye(7) + mix * np.tril(rng.uniform(-1, 1, (7, 7)), -1)
    x = rng.normal(size=(n, 7)) @ L.T
    x[:, 4:6] += 60.0 * np.exp(-np.arange(n) / 200.0)[:, None]  # sixty standard deviations of warming
    return x * SCALE


def judged(cycles, **options):
    detector, verdicts = begin(GROUPS), []
    for k, x in enumerate(cycles):
        detector, verdict = observe(detector, x, **{key: k == at for key, at in options.items()})
        verdicts.append(verdict)
    return verdicts


def test_healthy_cycles_raise_no_alarm():
    verdicts = [verdict for seed in range(4) for verdict in judged(healthy(1000, seed))]
    assert sum(bool(verdict.alarms) for verdict in verdicts) <= 1
    surprise = np.array([verdict.surprise for verdict in verdicts if not verdict.learning])
    for level in (1.0, 2.0, 3.0):  # -log10 of a probability: it must be one
        share = np.mean(surprise > level)
        assert 0.4 * 10.0**-level < share < 2.0 * 10.0**-level


@pytest.mark.parametrize("sigmas", [10.0, 15.0, 200.0])
@pytest.mark.parametrize("feature", [3, 4, 6])
def test_a_step_is_reported_within_two_cycles_and_confirmed(sigmas, feature):
    for seed in range(3):
        cycles = healthy(200, seed)
        cycles[150:, feature] += sigmas * SCALE[feature]
        verdicts = judged(cycles)
        alarmed = [k for k, verdict in enumerate(verdicts) if verdict.alarms]
        assert alarmed
        assert alarmed[0] in (150, 151)
        confirmed = verdicts[alarmed[0] + 1].confirmed
        assert confirmed[0].group is next(group for group in GROUPS if group.first <= feature < group.where.stop)
        assert all(verdict.learning for verdict in verdicts[alarmed[0] + 2 : alarmed[0] + LEARN])
        assert len(alarmed) == 1


def test_one_odd_cycle_passes_and_nothing_is_forgotten():
    cycles = healthy(200, 1)
    cycles[150] += 50.0 * SCALE
    verdicts = judged(cycles)
    assert [k for k, verdict in enumerate(verdicts) if verdict.alarms] == [150]
    assert verdicts[151].passed
    assert not any(verdict.learning for verdict in verdicts[LEARN:])


def test_slow_drift_of_the_load_is_reported_though_the_line_follows_it():
    cycles = healthy(900, 2)
    cycles[300:, 3] += 0.03 * SCALE[3] * np.arange(600)
    verdicts = judged(cycles)
    first = next(verdict for verdict in verdicts if verdict.alarms)
    assert 300 < first.cycle < 600
    assert first.alarms[0].kind == "drift"
    assert first.alarms[0].group.kind == "load"
    assert "drifted slowly" in first.alarms[0].sentence


def test_friction_after_a_break_is_no_alarm_but_a_load_is():
    cycles = healthy(300, 3)
    cycles[200:, 4:6] += 20.0 * SCALE[4:6] * np.exp(-np.arange(100) / 60.0)[:, None]
    assert any(verdict.alarms for verdict in judged(cycles))
    assert not any(verdict.alarms for verdict in judged(cycles, after_break=200))
    cycles[205:, 3] += 20.0 * SCALE[3]
    told = [verdict for verdict in judged(cycles, after_break=200) if verdict.alarms]
    assert told[0].cycle in (206, 207)
    assert told[0].alarms[0].group.kind == "load"


def test_memory_does_not_grow():
    detector = begin(GROUPS)
    sizes = []
    for k, x in enumerate(healthy(300, 5)):
        detector, _ = observe(detector, x)
        if k > LEARN:
            sizes.append(sum(getattr(detector, name).size for name in ("first", "level", "spread", "sums", "last")))
    assert len(set(sizes)) == 1


def test_features_must_fit():
    with pytest.raises(ValueError, match="expected 7 finite features"):
        observe(begin(GROUPS), np.zeros(6))


@pytest.fixture(scope="module")
def arm():
    robot = load("ur10")
    base = base_parameters(robot)
    names = tuple(layout(robot).names[k] for k in base.kept)
    return robot, base, watched(robot, names, base.values(prior(robot)), SIGMA)


def changed(robot, simulate, chi):
    motion = simulate(robot, prior(robot)).motion
    return Samples("cycle", motion, inverse_dynamics(robot, motion, chi), 100.0)


def test_a_load_is_seen_as_the_load_that_it_is(arm, simulate):
    robot, _, what = arm
    chi = prior(robot)
    center, mass = np.array([0.02, -0.03, 0.12]), 1.9
    inertia = mass * (center @ center * np.eye(3) - np.outer(center, center))
    chi[layout(robot).link(5)] += [*inertia[np.triu_indices(3)], *(mass * center), mass]
    found = features(what, cycle_equations(what, changed(robot, simulate, chi), Rows()))
    np.testing.assert_allclose(found[:4], [*(mass * center), mass], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[4 : 4 + 18], 0.0, atol=5e-3)


@pytest.mark.parametrize("name", ["delta", "palletiser"])
def test_loads_of_odd_robots_and_what_a_motion_cannot_show(name):
    """Some of a load never shows in such a robot's torques: it must be 0, not rounding over rounding."""
    robot = load(name)
    base = base_parameters(robot)
    names = tuple(layout(robot).names[k] for k in base.kept)
    what = watched(robot, names, base.values(prior(robot)), np.ones(robot.n_joints))
    closed = isinstance(robot.mechanism, ClosedLoop)
    home = robot.mechanism.home[robot.mechanism.actuated] if closed else robot.limits.position.mean(axis=1)
    t, w = np.arange(600)[:, None] / 100.0, np.arange(1, robot.n_joints + 1) * np.pi / 3.0
    motion = Motion(home + 0.1 * np.sin(w * t), 0.1 * w * np.cos(w * t), -0.1 * w**2 * np.sin(w * t))
    chi = prior(robot)
    chi[layout(robot).link(robot.tool.link).stop - 1] += 1.0
    cycle = Samples("cycle", motion, inverse_dynamics(robot, motion, chi), 100.0)
    found = features(what, cycle_equations(what, cycle, Rows()))
    np.testing.assert_allclose(found[:4], [0.0, 0.0, 0.0, 1.0], atol=2e-3)


def test_friction_is_seen_at_its_joint_and_not_as_a_load(arm, simulate):
    robot, _, what = arm
    chi = prior(robot)
    params = layout(robot)
    chi[params.index("Fc3")] += 2.0
    chi[params.index("Fv2")] -= 5.0
    tau = changed(robot, simulate, chi)
    found = features(what, cycle_equations(what, tau, Rows()))
    told = {name: x for group in what.groups for name, x in zip(group.names, found[group.where], strict=True)}
    assert told.pop("Fc3") == pytest.approx(2.0, rel=1e-3)
    assert told.pop("Fv2") == pytest.approx(-5.0, rel=1e-3)
    rest = [x for name, x in told.items() if not name.startswith("residual")]
    np.testing.assert_allclose(rest, 0.0, atol=5e-3)
    joints = {name: group.joint for group in what.groups for name in group.names}
    assert joints["Fc3"] == robot.joint_names[2]


def test_an_offset_is_seen_at_its_joint(arm, simulate):
    robot, _, what = arm
    cycle = changed(robot, simulate, prior(robot))
    shifted = Samples("cycle", cycle.motion, cycle.tau + np.array([0, 0, 0, 0.7, 0, 0]), 100.0)
    found = features(what, cycle_equations(what, shifted, Rows()))
    group = next(group for group in what.groups if group.kind == "friction" and group.joint == robot.joint_names[3])
    assert found[group.where][-1] == pytest.approx(0.7, rel=1e-3)


def test_what_nothing_explains_shows_in_the_residual(arm, simulate):
    robot, _, what = arm
    cycle = changed(robot, simulate, prior(robot))
    noise = np.random.default_rng(0).normal(size=cycle.tau.shape) * np.array([0, 0, 1.0, 0, 0, 0])
    found = features(what, cycle_equations(what, Samples("cycle", cycle.motion, cycle.tau + noise, 100.0), Rows()))
    left = found[-6:]
    assert np.argmax(left) == 2
    assert left[2] > np.delete(left, 2).max() + 1.0


def test_base_equations_are_those_of_the_cycle(arm, simulate):
    robot, _, what = arm
    cycle = changed(robot, simulate, prior(robot))
    R, z = base_equations(what, cycle_equations(what, cycle, Rows(decimate=lambda x: x[::3])))
    direct = dynamic_regression(robot, [cycle], rows=Rows(decimate=lambda x: x[::3]))
    W = direct.W / SIGMA[direct.joint, None]
    np.testing.assert_allclose(R.T @ R, W.T @ W, rtol=1e-8, atol=1e-5)
    np.testing.assert_allclose(R.T @ z, W.T @ (direct.y / SIGMA[direct.joint]), rtol=1e-8, atol=1e-4)
