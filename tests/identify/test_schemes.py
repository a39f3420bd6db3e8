"""Five schemes: equations that hold along known motions, runs, timing, and a delay that the equations show."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.signal

from excitor.identify.estimate import compress, ols
from excitor.identify.regression import Rows, dynamic_regression, power_regression
from excitor.identify.samples import Samples, backward, central, mid_sample
from excitor.identify.schemes import (
    KINDS,
    Scheme,
    held_segments,
    integral,
    lagged,
    scheme_delay,
    scheme_regression,
    switching,
    times,
)
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, RotorInertia, posture
from excitor.robots.simulate import Steps, simulate, with_friction_width

SMOOTHED = 0.3  # rad/s: friction that no sampling misses
INTEGRATED = ("filtered dynamic", "energy", "filtered power")


def swinging(robot, rate, seconds=4.0, seed=0):
    """Sample sums of sines about home or mid range, moving at the start already, with the torques they take."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate) + 1)[:, None] / rate
    loop = getattr(robot.mechanism, "home", None)
    middle = robot.limits.position.mean(axis=1) if loop is None else loop[robot.mechanism.actuated]
    reach = np.minimum(0.25, 0.1 * np.diff(robot.limits.position, axis=1)[:, 0])
    q, dq, ddq = np.tile(middle, (len(t), 1)), np.zeros((len(t), robot.n_joints)), np.zeros((len(t), robot.n_joints))
    for w in (2.3, 5.1, 7.7):
        a = reach * rng.uniform(0.4, 1.0, size=robot.n_joints)
        phase = w * t + rng.uniform(0.0, 6.0, size=robot.n_joints)
        q += a * np.sin(phase)
        dq += a * w * np.cos(phase)
        ddq -= a * w * w * np.sin(phase)
    motion = Motion(q, dq, ddq)
    return Samples(f"swing {seed}", motion, inverse_dynamics(robot, motion), rate)


def left(robot, run, scheme):
    """Share of y that the true parameters leave."""
    regression = scheme_regression(robot, [run], scheme, columns=np.arange(len(prior(robot))))
    return np.linalg.norm(regression.y - regression.W @ prior(robot)) / np.linalg.norm(regression.y)


@pytest.mark.parametrize("name", ["rotradi", "tx40", "delta"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 3])
def test_equations_hold_along_sampled_motions(name, kind, order):
    """Careful variants err by the square of the interval, which halves from 100 to 200 Hz; dynamic and power not."""
    robot = with_friction_width(load(name), SMOOTHED)
    scheme = Scheme(kind, cutoff=8.0, order=order, hold="first")
    coarse, fine = (left(robot, swinging(robot, rate), scheme) for rate in (100.0, 200.0))
    if kind in INTEGRATED:
        assert fine < 1e-3
        assert 3.5 < coarse / fine < 4.6
    else:
        assert max(coarse, fine) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_published_variants_err_by_the_interval(kind):
    robot = with_friction_width(load("rotradi"), SMOOTHED)
    errors = []
    for rate in (200.0, 400.0):
        run = swinging(robot, rate)
        errors.append(left(robot, backward("swing", run.motion.q, run.tau, rate), Scheme(kind)))
    assert errors[1] < 0.08
    assert 1.7 < errors[0] / errors[1] < 2.4


@pytest.fixture(scope="module")
def held_run():
    """3 s of an arm under random held torques, from rest; its encoders if they act at once, or 1.6 samples late."""
    robot = with_friction_width(load("rotradi"), 0.05)
    n, rate, finer = 1200, 400.0, 5
    rng = np.random.default_rng(3)
    slow = rng.normal(size=(n // 40, 3)) * [12.0, 35.0, 3.0]
    tau = np.repeat(slow, 40, axis=0) + rng.normal(size=(n, 3)) * [3.0, 6.0, 0.8]
    prompt = np.repeat(tau, finer, axis=0)
    late = np.concatenate([np.zeros((8, 3)), prompt[:-8]])
    steps = Steps(1.0 / (finer * rate), finer * n, substeps=2, held=True)
    done = simulate(robot, np.array([prompt.T, late.T]), start=posture(np.zeros((2, 3))), steps=steps)
    return robot, tau, done.q[0, :, ::finer].T, done.q[1, :, ::finer].T, rate


def percent(robot, regression):
    """Median relative error of the larger base parameters, in percent."""
    truth = base_parameters(robot).values(prior(robot))
    errors = np.abs(ols(compress(regression)).values - truth) / np.abs(truth)
    return 100.0 * float(np.median(errors[np.abs(truth) > 0.1]))


@pytest.mark.parametrize("kind", INTEGRATED)
def test_careful_variants_recover_a_robot_under_held_torques(held_run, kind):
    """Published timing errs by percents here, careful timing by a hundred times less."""
    robot, tau, q, _, rate = held_run
    rough = percent(robot, scheme_regression(robot, [backward("run", q, tau, rate)], Scheme(kind)))
    careful = percent(robot, scheme_regression(robot, [mid_sample("run", q, tau, rate)], Scheme(kind, hold="first")))
    assert rough > 1.0
    assert careful < 0.01 * rough


def test_the_equations_show_the_delay(held_run):
    """Torques act 1.6 samples late; told so, the model is right again."""
    robot, tau, prompt, late, rate = held_run
    scheme = Scheme("filtered dynamic", hold="first")
    none = scheme_delay(robot, [mid_sample("run", prompt, tau, rate)], scheme)
    assert abs(none.value * rate) < 0.01
    run = mid_sample("run", late, tau, rate)
    found = scheme_delay(robot, [run], replace(scheme, kind="energy", delay=0.3))
    assert abs(found.value * rate - 1.6) < 0.02  # mid-sample evaluation errs by the square of the interval
    assert 0.0 < found.sigma * rate < 0.05
    assert found.left < 0.1 * found.without
    told = scheme_regression(robot, [run], replace(scheme, delay=found.value))
    assert percent(robot, told) < 0.1 * percent(robot, scheme_regression(robot, [run], scheme))


def test_what_fitted_columns_take_of_slow_errors(held_run):
    """Σ qᵀ V q / tr V with V written out, runs of two rates, each with the filter's memory in its own samples."""
    from excitor.identify.schemes import MEMORY, _Search

    robot, tau, q, _, rate = held_run
    scheme = Scheme("filtered dynamic", hold="first")
    runs = [mid_sample("fine", q[:300], tau[:300], rate), mid_sample("coarse", q[::4], tau[::4], rate / 4)]
    search = _Search(robot, runs, scheme, base_parameters(robot).kept)
    sizes = [int(kept.sum()) for kept in search.kept]
    basis = search.basis.reshape(sum(sizes), 3, -1)
    total, first = 0.0, 0
    for run, n in zip(runs, sizes, strict=True):
        lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / run.sample_rate_hz
        part = basis[first : first + n]
        total += np.einsum("ajk,ab,bjk->", part, np.exp(-scheme.cutoff * lag), part)
        first += n
    assert 0.0 < total / (3 * first) < 0.9
    assert search._taken() == pytest.approx(total / (3 * first), rel=1e-9)
    g = np.random.default_rng(0).normal(size=first)
    expected = 0.0
    for run, part in zip(runs, np.split(g, sizes[:1]), strict=True):
        reach = int(MEMORY / scheme.cutoff * run.sample_rate_hz) + 1.0
        away = np.abs(np.subtract.outer(np.arange(len(part)), np.arange(len(part))))
        expected += part @ np.maximum(1.0 - away / reach, 0.0) @ part
    assert search._together(g) == pytest.approx(expected, rel=1e-9)


def test_runs_that_show_no_delay_are_refused(held_run):
    robot, tau, q, _, rate = held_run
    run, scheme = mid_sample("run", q, tau, rate), Scheme("filtered dynamic")
    with pytest.raises(ExcitorError, match="there are no runs"):
        scheme_delay(robot, [], scheme)
    with pytest.raises(ExcitorError, match="holds poses"):
        scheme_delay(robot, [replace(run, static=True)], scheme)
    still = mid_sample("run", np.tile(q[0], (100, 1)), np.zeros((100, 3)), rate)
    with pytest.raises(ExcitorError, match="torques hardly change"):
        scheme_delay(robot, [still], scheme)
    gravity = layout(robot).indices(["ZZ1"])
    with pytest.raises(ExcitorError, match="need none of the parameters"):
        scheme_delay(robot, [still], scheme, columns=gravity)


def test_a_delay_is_reported_of_each_joint(held_run):
    robot, tau, q, _, rate = held_run
    late = tau.copy()
    late[:-2, 1] = tau[2:, 1]  # joint 2's command is recorded two samples before it acts
    scheme = Scheme("filtered dynamic", hold="first", delay=np.array([0.0, 2.0 / rate, 0.0]))
    assert hash(scheme) == hash(replace(scheme))
    run = mid_sample("run", q[:-2], late[:-2], rate)
    told = scheme_regression(robot, [run], scheme)
    assert percent(robot, told) < 0.1
    assert told.sample.min() == 2
    power = replace(scheme, kind="filtered power")
    assert percent(robot, scheme_regression(robot, [run], power)) < 0.1
    assert dict(told.steps[-1].settings)["delay"] == "0 0.005 0"


@pytest.mark.parametrize("kind", KINDS)
def test_runs_start_anew(kind):
    robot = load("rotradi")
    runs = [swinging(robot, 100.0, seed=s, seconds=1.5 + s) for s in (0, 1)]
    scheme = Scheme(kind, hold="first")
    both = scheme_regression(robot, runs, scheme)
    apart = [scheme_regression(robot, [run], scheme) for run in runs]
    assert both.kind == kind
    assert np.array_equal(both.W, np.concatenate([r.W for r in apart]))
    assert np.array_equal(both.y, np.concatenate([r.y for r in apart]))
    assert np.array_equal(both.sample, np.concatenate([r.sample for r in apart]))
    assert np.array_equal(both.run, np.repeat([0, 1], [len(r) for r in apart]))
    joints = {0, 1, 2} if "dynamic" in kind else {-1}
    assert set(both.joint.tolist()) == joints
    assert both.variance is None


def test_instantaneous_schemes_are_those_that_exist():
    robot = load("tx40")
    runs = [swinging(robot, 100.0)]
    rows = Rows(decimate=lambda x: x[::4], dead_zone=np.full(6, 0.3))
    for kind, build in (("dynamic", dynamic_regression), ("power", power_regression)):
        ours, theirs = scheme_regression(robot, runs, Scheme(kind), rows=rows), build(robot, runs, rows=rows)
        assert np.array_equal(ours.W, theirs.W)
        assert np.array_equal(ours.y, theirs.y)


def test_filtered_torque_is_the_torque_filtered():
    """F τ by an independent discretisation, a hundred times finer, of torques held about their samples."""
    robot = load("rotradi")
    run = swinging(robot, 100.0, seconds=2.0)
    regression = scheme_regression(robot, [run], Scheme("filtered dynamic", cutoff=5.0))
    t = np.arange(50, 20051) / 10_000.0
    held = run.tau[np.minimum((t * 100.0).astype(int), 200)]
    F = scipy.signal.lsim(([5.0], [1.0, 5.0]), held[:, 1], t - t[0], interp=False)[1][::100]
    np.testing.assert_allclose(regression.y[regression.joint == 1], F[:201], atol=0.02 * np.abs(F).max())


def test_rows_are_thinned_and_settled():
    robot = load("rotradi")
    run = swinging(robot, 100.0, seconds=2.0)
    scheme = Scheme("filtered dynamic", hold="first")
    whole = scheme_regression(robot, [run], scheme)
    late = scheme_regression(robot, [run], replace(scheme, settle=0.5))
    kept = whole.sample >= 50
    assert np.array_equal(late.W, whole.W[kept])
    assert np.array_equal(late.sample, whole.sample[kept])
    thinned = scheme_regression(robot, [run], replace(scheme, settle=0.5), rows=Rows(decimate=lambda x: x[::5]))
    assert np.array_equal(thinned.W, late.W[late.sample % 5 == 0])
    assert np.array_equal(thinned.sample * 5, late.sample[late.sample % 5 == 0])
    dynamic = scheme_regression(robot, [run], Scheme("dynamic", settle=0.5))
    assert dynamic.sample.min() == 50


def test_when_motion_is():
    """Of q = t²: differences belong to the instants they are written down for, or half a sample and a sample later."""
    rate = 10.0
    t = np.arange(12) / rate
    q, tau = np.stack([t**2, -(t**2)], axis=1), np.stack([t, t], axis=1)
    mid, at, late = (how("run", q, tau, rate) for how in (mid_sample, central, backward))
    np.testing.assert_allclose(mid.motion.dq[:, 0], 2.0 * (t[:-1] + 0.05), atol=1e-13)
    np.testing.assert_allclose(mid.motion.q[:, 0], (t[:-1] + 0.05) ** 2, atol=0.05**2 + 1e-13)
    np.testing.assert_allclose(at.motion.dq[:, 0], 2.0 * t[1:-1], atol=1e-13)
    np.testing.assert_allclose(late.motion.dq[:, 0], 2.0 * (t[2:] - 0.05), atol=1e-13)
    for run in (mid, at, late):
        np.testing.assert_allclose(run.motion.ddq, np.tile([2.0, -2.0], (len(run), 1)), atol=1e-11)
    assert (mid.phase, at.phase, late.phase) == (0.5, 0.0, 0.0)
    np.testing.assert_array_equal(mid.tau, tau[:-1])
    np.testing.assert_array_equal(at.tau, tau[1:-1])
    np.testing.assert_array_equal(late.tau, tau[2:])
    with pytest.raises(ExcitorError, match="expected 4 samples or more"):
        backward("run", q[:3], tau[:3], rate)


def test_torque_at_the_motions_instant(held_run):
    """Accelerations that are second differences go with the mean of both torques held about them."""
    robot, tau, q, _, rate = held_run
    run = central("run", q, tau, rate)
    both = scheme_regression(robot, [run], Scheme("dynamic", hold="first"))
    one = both.y[both.joint == 1]
    np.testing.assert_allclose(one, 0.5 * (run.tau[:-1, 1] + run.tau[1:, 1]), rtol=1e-13)
    rough = scheme_regression(robot, [run], Scheme("dynamic"))
    assert percent(robot, both) < 0.5 * percent(robot, rough)


@pytest.mark.parametrize("late", [-3.0, -0.4, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("hold", ["zero", "first"])
@pytest.mark.parametrize("phase", [0.0, 0.5])
def test_torques_early_and_late_at_the_motions_instants(late, hold, phase):
    """Torques that are their own index: each sample gets the held one, or the mean over an interval about it."""
    robot = load("rotradi")
    run = swinging(robot, 10.0, seconds=2.0)
    n = len(run)
    tau = np.tile(np.arange(float(n))[:, None], (1, 3))
    both = scheme_regression(robot, [replace(run, tau=tau, phase=phase)], Scheme("dynamic", hold=hold, delay=late / 10))
    rows = both.joint == 0
    k, y = both.sample[rows], both.y[rows]
    at = k + phase - late
    np.testing.assert_allclose(y, np.floor(at + 1e-9) if hold == "zero" else at - 0.5, atol=1e-9)
    reach = 0.0 if hold == "zero" else 0.5
    known = (np.arange(n) + phase - late - reach > -1e-9) & (np.arange(n) + phase - late + reach < n + 1e-9)
    if hold == "zero":
        known &= np.arange(n) + phase - late < n - 1e-9
    assert np.array_equal(k, np.flatnonzero(known))


def test_refusals():
    robot = load("rotradi")
    run = swinging(robot, 100.0, seconds=1.0)
    poses = replace(run, static=True)
    with pytest.raises(ExcitorError, match="holds poses"):
        scheme_regression(robot, [poses], Scheme("energy"))
    assert len(scheme_regression(robot, [poses], Scheme("dynamic"))) == 3 * len(run)
    with pytest.raises(ExcitorError, match="end before torques so delayed act"):
        scheme_regression(robot, [run], Scheme("energy", delay=3.0))
    with pytest.raises(ExcitorError, match="as long as the runs"):
        scheme_regression(robot, [run], Scheme("power", settle=3.0))
    with pytest.raises(ExcitorError, match="there are no runs"):
        scheme_regression(robot, [], Scheme("power"))
    with pytest.raises(ValueError, match="2 delays are given"):
        scheme_regression(robot, [run], Scheme("energy", delay=np.zeros(2)))
    with pytest.raises(ValueError, match="kind is 'powers'"):
        Scheme("powers")
    with pytest.raises(ValueError, match="hold is 'second'"):
        Scheme("power", hold="second")
    with pytest.raises(ValueError, match="cutoff is 0"):
        Scheme("power", cutoff=0.0)
    with pytest.raises(ValueError, match="phase is 1.5"):
        replace(run, phase=1.5)


def test_a_rotor_without_energy_is_refused_where_energy_is_requested():
    robot = load("rotradi")
    odd = RotorInertia("Ia", np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    at = 10 * robot.mechanism.n_links
    chi = np.insert(robot.chi, at, 0.1)
    free = np.zeros(len(chi), dtype=bool)
    robot = replace(robot, drive=replace(robot.drive, rotors=(odd,)), chi=chi, known=~free, assumed_zero=free)
    run = swinging(robot, 100.0, seconds=1.0)
    with pytest.raises(ExcitorError, match="rotor 'Ia' senses another motion"):
        scheme_regression(robot, [run], Scheme("filtered power"))
    assert left(robot, run, Scheme("filtered dynamic", hold="first")) < 1e-2


@pytest.mark.parametrize("kind", ["energy", "filtered power"])
def test_powers_of_joints_add_up_wherever_their_torques_switch(kind):
    """Torques of one joint at a time, late by its own delay, on the samples that all delays leave."""
    robot = load("rotradi")
    run = swinging(robot, 50.0, seconds=1.0)
    delays = np.array([0.0, 0.3, 0.85]) / 50.0
    scheme = Scheme(kind, hold="first", delay=delays)
    together = scheme_regression(robot, [run], scheme)
    start, stop = together.sample[0], together.sample[-1] + 1
    cut = Motion(run.motion.q[start:stop], run.motion.dq[start:stop], run.motion.ddq[start:stop])
    apart = np.zeros(stop - start)
    for j, late in enumerate(delays * 50.0):
        way = switching(len(run), 0.5, late)
        pieces = times(held_segments(run.tau[:, j], way, 0.02, slice(start, stop)), cut.dq[:, j], 0.02)
        apart += integral(pieces) if kind == "energy" else lagged(pieces, cutoff=scheme.cutoff)[0]
    np.testing.assert_allclose(together.y, apart, atol=1e-12 * np.abs(apart).max())
