"""A load from motor torques: the model against the robot's own dynamics, recovery, coverage, rank, drift, bad input."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.identify.load.equations import (
    LOAD_NAMES,
    Arm,
    LoadRun,
    Periods,
    abba,
    equations,
    exact_arm,
    linear_start,
    load_task,
    motor_torque,
    run_from_currents,
    run_from_samples,
)
from excitor.identify.load.fit import (
    CENTER_NAMES,
    _combination,
    _reduced,
    center_slope,
    center_values,
    diagnose_load,
    found_losses,
    identify_load,
    load_from_base,
    load_rank,
    rank_sentence,
    reweighed,
)
from excitor.identify.samples import Samples, Step
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.friction import motor_positions, motor_torques
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.load_torques import carried_from_joints, motor_speeds, own_ratios
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

PERIOD = 20.0
LOADS = {"kr150": 1.0, "ur10": 0.05, "tx40": 0.02}  # of the heavy one
TENSOR = np.array([[40.0, 7.0, 1.5], [7.0, 9.0, -1.2], [1.5, -1.2, 38.0]])


def body(name):
    scale = LOADS[name]
    size = scale ** (1.0 / 3.0)
    return from_center_of_mass(120.0 * scale, np.array([0.09, -0.03, 0.14]) * size, TENSOR * scale * size**2)


def wrist_motion(robot, moved=(2, 3, 4, 5), n=400, seed=0):
    """The wrist turns far, the axis before it a little, the first two stand."""
    rng = np.random.default_rng(seed)
    t = PERIOD * np.arange(n) / n
    q = np.tile(np.array([0.0, 0.0, 1.3, 0.2, 0.3, 0.1]), (n, 1))
    dq, ddq = np.zeros_like(q), np.zeros_like(q)
    for axis in moved:
        for lines, size in (((1,), 0.1 if axis == 2 else 1.2), (tuple(range(7, 14)), 0.1 if axis == 2 else 0.4)):
            harmonic, phase = rng.choice(lines), rng.uniform(0, 2 * np.pi)
            w = 2 * np.pi * harmonic / PERIOD
            q[:, axis] += size * np.sin(w * t + phase)
            dq[:, axis] += size * w * np.cos(w * t + phase)
            ddq[:, axis] -= size * w**2 * np.sin(w * t + phase)
    return Motion(q, dq, ddq)


def lossy(robot, efficiency):
    return replace(robot, drive=replace(robot.drive, efficiency=np.asarray(efficiency)))


def with_known_drives(name):
    """A robot of the catalogue, its unknown rotors and friction filled in."""
    robot = load(name)
    chi, params = robot.chi.copy(), layout(robot)
    for k in range(params.n_link_params, len(params)):
        if chi[k] == 0.0:
            chi[k] = 0.3 if params.names[k].startswith("I") else 2.0
    return replace(robot, chi=chi, payload=None)


def measured(robot, motion, phi, R, chi=None):
    """Motor torques by the robot's own dynamics and gears; losses act on what links carry, not on rotors, friction."""
    chi = (robot.chi if chi is None else chi).copy()
    chi[layout(robot).link(robot.tool.link)] += phi
    n_links, links = layout(robot).n_link_params, chi.copy()
    links[n_links:] = 0.0
    carried = rigid_torque(robot, motion, links)
    drives = inverse_dynamics(robot, motion, np.where(np.arange(len(chi)) < n_links, 0.0, chi))
    lost = motor_torques(lossy(robot, R), carried, motion.dq)
    return (lost + motor_torques(robot, drives)) * own_ratios(robot)


R_TRUE = np.array([0.95, 0.92, 0.91, 0.87, 0.88, 0.90])


def run_of(robot, phi, *, seed=0, noise=None, R=R_TRUE, rng=None, chi=None, **more):
    motion = wrist_motion(robot, seed=seed, **{k: more.pop(k) for k in ("moved", "n") if k in more})
    tau = measured(robot, motion, phi, R, chi)
    sigma = np.ones(6) if noise is None else np.asarray(noise, dtype=float)
    if rng is not None:
        tau = tau + rng.normal(size=tau.shape) * sigma
    return LoadRun(more.pop("run", "run"), motion, tau, sigma, **more)


@pytest.fixture(params=["kr150", "ur10", "tx40"])
def any_robot(request):
    return with_known_drives(request.param)


@pytest.fixture
def kr150():
    return with_known_drives("kr150")


def test_equations_are_the_robots_own_dynamics_and_gears(any_robot):
    """F(θ) at the truth, against inverse dynamics and the drive train's efficiency."""
    phi = body(any_robot.name)
    run = run_of(any_robot, phi)
    system = equations(load_task(any_robot, [run]), [run])
    where = system.unknowns
    theta = np.zeros(len(where))
    theta[where.load], theta[where.efficiency] = phi, R_TRUE[2:]
    theta[where.friction] = any_robot.chi[system.task.friction]
    np.testing.assert_allclose(motor_torque(system, theta)[0], system.tau, atol=1e-9 * np.abs(system.tau).max())


@pytest.mark.parametrize("drift", ["none", "linear", "each run"])
def test_jacobian_against_differences(any_robot, drift):
    phi = body(any_robot.name)
    chi = any_robot.chi
    arm = Arm(chi, np.diag((0.02 * chi) ** 2))
    runs = [run_of(any_robot, phi, n=60), run_of(any_robot, phi, n=60, run="b", seed=1, time=2.0, loaded=False)]
    system = equations(load_task(any_robot, runs, arm=arm, drift=drift, learn_arm=True), runs)
    theta = linear_start(system)
    theta[system.unknowns.efficiency] = [0.9, 0.8, 0.85, 0.95]
    theta[system.unknowns.arm] = 0.1
    J = motor_torque(system, theta)[1]
    for k in range(len(theta)):
        h = 1e-4 * max(abs(theta[k]), 0.1)
        up, down = theta.copy(), theta.copy()
        up[k] += h
        down[k] -= h
        slope = (motor_torque(system, up)[0] - motor_torque(system, down)[0]) / (2.0 * h)
        rounding = 1e-15 * np.abs(system.tau).max() / h
        np.testing.assert_allclose(J[:, k], slope, atol=1e-6 * np.abs(slope).max() + rounding, err_msg=str(k))


def test_exact_data_give_the_truth(any_robot):
    phi = body(any_robot.name)
    run = run_of(any_robot, phi)
    estimate = identify_load(load_task(any_robot, [run]), [run])
    np.testing.assert_allclose(estimate.phi, phi, atol=1e-7 * np.abs(phi).max())
    np.testing.assert_allclose(estimate.efficiency[2:], R_TRUE[2:], atol=1e-7)
    assert estimate.names[:10] == LOAD_NAMES
    assert max(estimate.rms.values()) < 1e-6 * np.abs(run.tau).max()


def test_without_losses_the_linear_solution_is_the_answer(kr150):
    """Approach 2 is a weighted linear least squares: one step, and the load suffers where gears do lose."""
    phi = body("kr150")
    run = run_of(kr150, phi)
    task = load_task(kr150, [run], efficiency=np.ones(6))
    system = equations(task, [run])
    estimate = identify_load(task, [run])
    np.testing.assert_allclose(estimate.values, linear_start(system), rtol=1e-6, atol=1e-6)
    assert len(estimate.names) == 18
    assert abs(estimate.load.mass - phi[9]) > 0.1
    lossless = run_of(kr150, phi, R=np.ones(6))
    exact = identify_load(load_task(kr150, [lossless], efficiency=np.ones(6)), [lossless])
    np.testing.assert_allclose(exact.phi, phi, atol=1e-7 * phi[9])


def test_base_parameters_give_a_load_when_nothing_disturbs(kr150):
    """Approach 1 on exact data without losses; with losses its load is far off though its torques fit."""
    phi = body("kr150")
    exact = run_of(kr150, phi, R=np.ones(6))
    base = load_from_base(load_task(kr150, [exact]), [exact])
    np.testing.assert_allclose(base.phi, phi, atol=1e-5 * phi[9])
    assert len(base.estimate.names) == 34
    lost = run_of(kr150, phi)
    task = load_task(kr150, [lost], efficiency=np.ones(6))
    worse, known = load_from_base(task, [lost]), identify_load(task, [lost])
    assert sum(x**2 for x in worse.rms.values()) <= sum(x**2 for x in known.rms.values())
    assert abs(worse.load.mass - phi[9]) > abs(known.load.mass - phi[9])
    noisy = run_of(kr150, phi, R=np.ones(6), noise=[1, 1, 40, 20, 20, 16], rng=np.random.default_rng(0))
    vague, sure = load_from_base(task, [noisy]).load, identify_load(task, [noisy]).load
    assert vague.sigma[0] > 2.0 * sure.sigma[0]
    assert abs(vague.mass - phi[9]) < 3.5 * vague.sigma[0]


def test_intervals_hold_the_truth_as_often_as_they_say(kr150):
    """95 % intervals over draws of the noise and of the a-priori arm; 25 x 10 of them, alike within one draw."""
    phi, rng = body("kr150"), np.random.default_rng(5)
    noise = np.array([1.0, 1.0, 40.0, 20.0, 20.0, 16.0])
    params = layout(kr150)
    spread = np.where(np.arange(len(params)) < params.n_link_params, 0.01, 0.01) * np.abs(kr150.chi)
    inside = {False: [], True: []}
    for _ in range(25):
        run = run_of(kr150, phi, noise=noise, rng=rng)
        arm = Arm(kr150.chi + spread * rng.normal(size=len(spread)), np.diag(spread**2))
        for learn in inside:
            estimate = identify_load(load_task(kr150, [run], arm=arm, learn_arm=learn), [run])
            inside[learn].append(np.abs(estimate.load.values - center_values(phi)) < 1.96 * estimate.load.sigma)
            assert (estimate.load.low < estimate.load.high).all()
    for learn, hits in inside.items():
        assert 0.88 <= np.mean(hits) <= 0.99, learn


def test_doubt_about_the_arm_is_what_errors_of_the_arm_do(kr150):
    """The propagated covariance against the scatter of estimates from exact torques with a wrong arm."""
    phi, rng = body("kr150"), np.random.default_rng(1)
    run = run_of(kr150, phi)
    n_links = layout(kr150).n_link_params
    spread = 0.001 * np.abs(kr150.chi) * (np.arange(len(kr150.chi)) < n_links + 6)
    arms = [Arm(kr150.chi + spread * rng.normal(size=len(spread)), np.diag(spread**2)) for _ in range(60)]
    estimates = [identify_load(load_task(kr150, [run], arm=arm), [run]) for arm in arms]
    scatter = np.std([estimate.values[:10] for estimate in estimates], axis=0)
    told = np.sqrt(np.diag(estimates[0].arm_covariance))[:10]
    np.testing.assert_allclose(told, scatter, rtol=0.35)  # of 60 draws, a deviation is known to 9 %


def test_axes_3_to_6_determine_all_22_and_the_wrist_alone_not_the_mass(kr150):
    phi = body("kr150")
    run = run_of(kr150, phi)
    system = equations(load_task(kr150, [run]), [run])
    full = load_rank(system, linear_start(system))
    assert (full.rank, len(full.names)) == (22, 22)
    assert "all 22 unknowns" in rank_sentence(full)
    assert full.condition < 100.0
    wrist = run_of(kr150, phi, moved=(3, 4, 5))
    task = load_task(kr150, [wrist])
    found = load_rank(equations(task, [wrist]), linear_start(equations(task, [wrist])))
    assert (found.rank, len(found.names)) == (18, 19)
    point = dict(zip(found.names, found.open_directions[0], strict=True))
    r6 = kr150.lengths["r6"]  # from the wrist's centre to the flange
    expected = {"ML": 1.0, "MZL": -r6, "XXL": r6**2, "YYL": r6**2}
    assert {name: x for name, x in point.items() if abs(x) > 1e-9} == pytest.approx(expected, rel=1e-6)
    (finding,) = diagnose_load(task, [wrist])
    assert finding.level == "unusable"
    assert "rank 18 of 19" in finding.sentence
    assert "a point mass at (0.000, 0.000, -0.230) m" in finding.sentence
    assert "such as A3" in finding.remedy
    with pytest.raises(RankDeficient, match="rank 18 of 19") as error:
        identify_load(task, [wrist])
    assert set(error.value.names) == {"ML", "MZL", "XXL", "YYL"}
    assert {finding.level for finding in diagnose_load(load_task(kr150, [run]), [run])} <= {"note"}


def test_impossible_or_undetermined_gear_losses_are_found(kr150):
    run = run_of(kr150, body("kr150"))
    task = load_task(kr150, [run])
    estimate = identify_load(task, [run])
    theta = estimate.values.copy()
    theta[estimate.names.index("R A4")] = 1.3
    sentences = [finding.sentence for finding in diagnose_load(task, [run], theta)]
    assert any("R A4 comes out as 1.30, which no gear has" in sentence for sentence in sentences), sentences
    assert any("R A3 and Fc3 look alike" in sentence for sentence in sentences)  # its gravity never changes sign


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ([0.05, 0.0, 0.0, 0.0, 0.0, 0.0], True),
        ([0.025, 0.0, 0.0, 0.0, 0.0, 0.0], False),  # 2.5 deviations of one gear in six are chance
        ([-0.05, 0.0, 0.0, 0.0, 0.0, 0.0], False),  # gears gain nothing
        ([0.019, 0.019, 0.019, 0.019, 0.019, 0.019], False),  # together sure, of no gear alone
    ],
)
def test_losses_are_found_where_all_gears_and_one_are_sure(lost, found):
    names = ("ML", *(f"R A{k}" for k in range(1, 7)))
    estimate = SimpleNamespace(
        names=names, values=np.array([5.0, *1.0 - np.array(lost)]), covariance=np.diag([9.0, *[1e-4] * 6])
    )
    sure, sentence = found_losses(estimate)
    assert sure == found
    assert sentence.startswith("gears lose torque" if found else "losses of gears: none found, up to ")
    if found:
        assert "A1 5 ± 2 %, A2 0 ± 2 %" in sentence


def test_directions_are_written_alike_in_all_units():
    flat = np.array([[1.0, 2.0, 0.0, 1.0, 1e-12], [1.0, 2.0, 3.0, 0.0, 2.0]])
    reduced = _reduced(flat)
    assert np.linalg.matrix_rank(np.vstack([flat, reduced]), tol=1e-9) == 2  # 1e-12 is rounding, which is left out
    assert reduced.shape == flat.shape
    assert (np.abs(reduced).sum(axis=0) == 1.0).sum() >= 2
    direction, scale, names = np.array([1.0, -2.0, 3e-5]), np.ones(3), ("ML", "MZL", "Fc1")
    assert _combination(direction, names, scale) == "ML - 2 MZL"
    assert {_combination(x * direction, names, y * scale) for x in (1e-6, 1.0) for y in (1e-6, 1e6)} == {"ML - 2 MZL"}


def test_center_of_gravity_and_back():
    phi = from_center_of_mass(12.0, np.array([0.1, -0.2, 0.3]), TENSOR / 40.0)
    values = dict(zip(CENTER_NAMES, center_values(phi), strict=True))
    assert [values[k] for k in ("m", "cx", "cy", "cz")] == pytest.approx([12.0, 0.1, -0.2, 0.3])
    expected = {"Ixx": (0, 0), "Iyy": (1, 1), "Izz": (2, 2), "Ixy": (0, 1), "Ixz": (0, 2), "Iyz": (1, 2)}
    assert {k: values[k] for k in expected} == pytest.approx({k: TENSOR[e] / 40.0 for k, e in expected.items()})
    T, h = center_slope(phi), 1e-6
    steps = h * np.eye(10)
    differences = np.column_stack([(center_values(phi + e) - center_values(phi - e)) / (2 * h) for e in steps])
    np.testing.assert_allclose(T, differences, atol=1e-8)
    with pytest.raises(ExcitorError, match="mass is 0"):
        center_values(np.zeros(10))


def test_currents_become_torques_motion_and_noise(kr150):
    """Ten periods of motor angles and currents, through each motor's cubic law."""
    phi, rng = body("kr150"), np.random.default_rng(0)
    clean = run_of(kr150, phi, n=500)
    law = kr150.drive.torque_from_current
    motor = clean.tau / own_ratios(kr150)
    grid = np.linspace(0.0, 45.0, 20001)
    current = np.column_stack(
        [np.sign(motor[:, j]) * np.interp(np.abs(motor[:, j]), np.polyval(law[j][::-1], grid), grid) for j in range(6)]
    )
    noisy = np.tile(current, (10, 1)) + 0.3 * rng.normal(size=(5000, 6))
    q_motor = motor_positions(kr150, np.tile(clean.motion.q, (10, 1)))
    q_motor += 1e-3 * rng.normal(size=q_motor.shape)  # rad of the motor
    run = run_from_currents(kr150, q_motor, noisy, periods=Periods(500, 25.0, 14), run="ten")
    np.testing.assert_allclose(run.motion.q, clean.motion.q, atol=2e-5)
    np.testing.assert_allclose(run.motion.ddq, clean.motion.ddq, atol=2e-4)
    slope = own_ratios(kr150) * law[:, 1]
    np.testing.assert_allclose(run.sigma, 0.3 * slope / np.sqrt(10), rtol=0.1)  # droop makes it a little less
    assert np.std(run.tau - clean.tau, axis=0) == pytest.approx(run.sigma, rel=0.1)
    blind = replace(kr150, drive=replace(kr150.drive, torque_from_current=np.full((6, 4), np.nan)))
    with pytest.raises(ValueError, match="no torque_from_current is given for the motors of A1"):
        run_from_currents(blind, q_motor, noisy, periods=Periods(500, 25.0, 14))


def test_processed_samples_are_taken_to_the_motors(kr150):
    run = run_of(kr150, body("kr150"))
    tau = run.tau @ np.linalg.inv(carried_from_joints(kr150)).T
    variance = np.full(tau.shape, 90.0)
    samples = Samples("s", run.motion, tau, 20.0, variance, (Step("average periods", {"n_periods": 10.0}),))
    taken = run_from_samples(kr150, samples)
    np.testing.assert_allclose(taken.tau, run.tau, atol=1e-9 * np.abs(run.tau).max())
    np.testing.assert_allclose(taken.sigma, 3.0, rtol=1e-3)
    np.testing.assert_allclose(
        motor_speeds(kr150, run.motion.dq), motor_positions(kr150, run.motion.dq) / own_ratios(kr150)
    )


def bare_and_loaded(robot, phi, order, *, rng, fall, rise=0.0):
    """Runs in an order; Coulomb friction falls by `fall` from run to run, and what an ampere gives by `rise`."""
    runs = []
    for number, on in enumerate(order):
        chi = robot.chi.copy()
        for column in layout(robot).friction_columns:
            chi[column] *= 1.0 - fall * number
        run = run_of(robot, phi * on, noise=[1, 1, 30, 15, 15, 12], rng=rng, chi=chi, run=f"{number}", loaded=on)
        runs.append(replace(run, tau=run.tau * (1.0 + rise * number), time=float(number)))
    return runs


def test_bare_runs_make_up_for_an_arm_that_is_not_known_well(kr150):
    """With the same motion run bare, errors of the arm cancel; without, they go into the load."""
    phi, rng = body("kr150"), np.random.default_rng(3)
    spread = 0.03 * np.abs(kr150.chi)
    arm = Arm(kr150.chi + spread * rng.normal(size=len(spread)), np.diag(spread**2))
    runs = bare_and_loaded(kr150, phi, abba(), rng=rng, fall=0.0)
    both = identify_load(load_task(kr150, runs, arm=arm, learn_arm=True), runs)
    alone = identify_load(load_task(kr150, runs[1:3], arm=arm), runs[1:3])
    assert abs(both.load.mass - phi[9]) < 0.4
    assert both.load.sigma[0] < 0.3 * alone.load.sigma[0]
    assert abs(both.load.mass - phi[9]) < 4.0 * both.load.sigma[0]
    again = identify_load(load_task(kr150, reweighed(runs, both), arm=arm, learn_arm=True), reweighed(runs, both))
    assert again.load.mass == pytest.approx(both.load.mass, abs=0.3)


def test_rows_are_weighted_run_by_run_and_slow_errors_widen_intervals(ur10_runs):
    """With the load on torques are larger, and so are their errors; slow ones count in what rests on means."""
    robot, phi, runs = ur10_runs
    task = load_task(robot, runs, efficiency=np.ones(6))
    rng = np.random.default_rng(5)
    noisy = [(2.0 if run.loaded else 0.5) * rng.normal(size=run.tau.shape) for run in runs]
    quiet = [replace(run, tau=run.tau + noise) for run, noise in zip(runs, noisy, strict=True)]
    first = identify_load(task, quiet)
    sigma = {run.run: run.sigma[2] for run in reweighed(quiet, first)}
    assert [sigma[run.run] for run in runs] == pytest.approx([0.5, 2.0, 2.0, 0.5], rel=0.1)
    white = identify_load(task, reweighed(quiet, first))
    assert white.load.sigma[0] > 1.2 * first.load.sigma[0]  # which takes bare runs' small errors for the load's
    assert abs(white.load.mass - phi[9]) < 4.0 * white.load.sigma[0]
    slow = [replace(run, tau=run.tau + drifting(run.tau.shape, rng)) for run in quiet]
    coloured = identify_load(task, reweighed(slow, identify_load(task, slow)))
    assert coloured.load.sigma[0] > 2.0 * white.load.sigma[0]
    assert abs(coloured.load.mass - phi[9]) < 4.0 * coloured.load.sigma[0]


@pytest.fixture
def ur10_runs():
    robot, phi = with_known_drives("ur10"), body("ur10")
    return robot, phi, [run_of(robot, phi * on, R=np.ones(6), run=f"{k}", loaded=on) for k, on in enumerate(abba())]


def drifting(shape, rng):
    """Draw errors correlated over 50 samples, of standard deviation 1."""
    e = rng.normal(size=shape)
    x = np.zeros(shape)
    for k in range(1, len(x)):
        x[k] = 0.98 * x[k - 1] + 0.2 * e[k]
    return x


def test_order_of_runs_beats_drift(kr150):
    """What drifts steadily goes into the load when all bare runs come first, and not when they are at either end."""
    phi = body("kr150")
    spread = 0.015 * np.abs(kr150.chi)
    error = {}
    for name, order in (("ABBA", abba()), ("AABB", (False, False, True, True))):
        runs = bare_and_loaded(kr150, phi, order, rng=np.random.default_rng(8), fall=0.05, rise=0.004)
        task = load_task(kr150, runs, arm=Arm(kr150.chi, np.diag(spread**2)), learn_arm=True)
        error[name] = abs(identify_load(task, runs).load.mass - phi[9])
    assert error["ABBA"] < 0.4 * error["AABB"], error


def test_drift_of_friction_is_estimated(kr150):
    phi = body("kr150")
    runs = bare_and_loaded(kr150, phi, abba(), rng=np.random.default_rng(2), fall=0.05)
    estimate = identify_load(load_task(kr150, runs, drift="linear"), runs)
    Fc4 = kr150.chi[layout(kr150).index("Fc4")]
    sigma = dict(zip(estimate.names, estimate.sigma, strict=True))
    assert sigma["Fc4 drift"] < 0.3 * 0.05 * Fc4
    assert estimate.value("Fc4 drift") == pytest.approx(-0.05 * Fc4, abs=3 * sigma["Fc4 drift"])
    assert estimate.value("Fc4") == pytest.approx((1.0 - 0.05 * 1.5) * Fc4, abs=3 * sigma["Fc4"])  # at the mean time
    assert estimate.units[estimate.names.index("Fc4 drift")] == "N m/time"


@pytest.mark.parametrize(("moved", "numbers"), [((3,), "4"), ((2, 4), "35"), ((3, 4, 5), "456")])
def test_only_friction_that_shows_is_unknown(kr150, moved, numbers):
    """Axis 4 alone turns the other wrist motors a little, but their friction shows in their own torques only."""
    run = run_of(kr150, body("kr150"), n=50, moved=moved)
    names = [layout(kr150).names[k] for k in load_task(kr150, [run]).friction]
    assert names == [f"{kind}{number}" for number in numbers for kind in ("Fv", "Fc")]


def test_bad_questions_are_sentences(kr150):
    phi = body("kr150")
    run = run_of(kr150, phi, n=50)
    with pytest.raises(ValueError, match="there are no runs"):
        load_task(kr150, [])
    with pytest.raises(ValueError, match="no run has the load on"):
        load_task(kr150, [replace(run, loaded=False)])
    with pytest.raises(ValueError, match="no axis moves"):
        load_task(kr150, [run_of(kr150, phi, n=50, moved=())])
    with pytest.raises(ValueError, match="learn_arm needs an arm with a covariance"):
        load_task(kr150, [run], learn_arm=True)
    with pytest.raises(ValueError, match="arm has 3 parameters"):
        load_task(kr150, [run], arm=Arm(np.zeros(3), np.zeros((3, 3))))
    with pytest.raises(ValueError, match=r"sigma\[2\] is 0"):
        replace(run, sigma=np.array([1, 1, 0, 1, 1, 1]))
    with pytest.raises(ValueError, match="all runs have the same time"):
        equations(load_task(kr150, [run, run], drift="linear"), [run, run])
    bad = np.zeros((78, 78))
    bad[:2, :2] = [[1.0, 3.0], [3.0, 1.0]]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        equations(load_task(kr150, [run], arm=Arm(kr150.chi, bad)), [run])
    with pytest.raises(ValueError, match="n_blocks is 0"):
        abba(0)
    with pytest.raises(ValueError, match="'speed' was not estimated"):
        identify_load(load_task(kr150, [run], arm=exact_arm(kr150)), [run]).value("speed")
