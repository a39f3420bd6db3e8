"""The virtual robot: its physics, its controller, what its sensors do to the truth, and every fault."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.stats import chi2

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs.plan import BACK, END, MEASURED, OUT, Plan
from excitor.experiments.log_formats import motor_torque_scale, torque_scale
from excitor.experiments.virtual import robot as virtual_robot
from excitor.experiments.virtual.machine import (
    FAULTS,
    Fault,
    aimed,
    commanded,
    currents,
    drive,
    lay_course,
    run_program,
)
from excitor.experiments.virtual.robot import QUIET as QUIET_RUN
from excitor.experiments.virtual.robot import Settings, draw_truth, encoder_steps, true_parameters, truth_data
from excitor.identify.estimate import compress, wls
from excitor.identify.periods import average_periods, periodic_lowpass
from excitor.identify.regression import Rows, dynamic_regression, pick_rows
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import energy, friction_only, inverse_dynamics, rotor_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import joint_torques, torque_from_current
from excitor.robots.inertia import check_consistency
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Motion, Payload
from tests.plans import lines

STEP = 0.004
QUIET = replace(QUIET_RUN, standing=(0.3, 0.5))  # short, for the tests' sake
GANTRY = """name = "gantry"
[[joint]]
name = "x"
kind = "prismatic"
placement = { xyz = [0, 0, 0.2], axis = [1, 0, 0] }
limits = { position_m = [-0.8, 0.8], velocity_m_s = 1.5, acceleration_m_s2 = 8 }
link = { mass = 2.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
[[joint]]
name = "turn"
placement = { axis = [0, 0, 1] }
limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 200 }
link = { mass = 1.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
"""


def plan_of(robot, *, period=4.0, measured=2, swing=0.4, seed=0):
    robot = load(robot) if isinstance(robot, str) else robot
    n = robot.n_joints
    rng = np.random.default_rng(seed)
    low, high = (np.nan_to_num(x, posinf=1.0, neginf=-1.0) for x in robot.limits.position.T)
    center = 0.5 * (low + high) + 0.05 * rng.uniform(-1, 1, n) * (high - low)
    excitation = Excitation(
        period, STEP, (1, 2, 3, 4, 5), np.ones(n, dtype=bool), ramp=1.0, settle=0.2, hold=0.2, measured=measured
    )
    a, b = swing * rng.normal(size=(2, n, 5)) / np.arange(1, 6)
    body = periodic_run(excitation, center, a, b)
    return Plan("cell", "run", "identify", robot, lines(robot.joint_names, STEP, center - 0.1, (center, 0.8)), body)


def driven(truth, plan, seed=0):
    course = lay_course(plan, truth.settings, np.random.default_rng(seed))
    return course, drive(truth, course)


def samples(recorded, plan, cutoff=60.0):
    """Average the measured periods, on an even grid."""
    n = round(plan.body.excitation.period / STEP)
    begin = recorded.t[np.flatnonzero(recorded.mark >= MEASURED)[0]]
    t = begin + STEP * np.arange(n * plan.body.excitation.measured)
    tau = joint_torques(plan.robot, CubicSpline(recorded.t, recorded.torque_motor)(t))
    motion = periodic_lowpass(
        average_periods(CubicSpline(recorded.t, recorded.q)(t), n).mean, sample_rate_hz=1.0 / STEP, cutoff_hz=cutoff
    )
    return Samples("run", motion, average_periods(tau, n).mean, 1.0 / STEP)


def identified(recorded, plan, dead_zone=0.04):
    """Identify base parameters, without samples where a friction term of the joint reverses, coupled ones too."""
    run = samples(recorded, plan)
    speed = plan.robot.limits.velocity
    regression = dynamic_regression(plan.robot, [run], rows=Rows(dead_zone=dead_zone * speed))
    turning = np.ones(run.motion.dq.shape, dtype=bool)
    for term in plan.robot.drive.friction:
        slow = np.abs(run.motion.dq @ term.senses) < 0.5 * dead_zone * np.abs(term.senses) @ speed
        turning &= ~np.outer(slow, term.acts != 0.0) | (np.count_nonzero(term.senses) < 2)
    regression = pick_rows(regression, turning[regression.sample, regression.joint])
    return regression, wls(compress(regression))


@pytest.fixture(scope="module")
def wrist():
    """The coupled wrist: its plan, its quiet truth and what that recorded."""
    plan = plan_of("tx40")
    truth = draw_truth(plan.robot, 1, QUIET)
    return plan, truth, run_program(truth, plan, seed=1)


@pytest.fixture(scope="module")
def gantry(tmp_path_factory):
    path = tmp_path_factory.mktemp("gantry") / "gantry.toml"
    path.write_text(GANTRY)
    return load(str(path))


@pytest.mark.parametrize("name", ["tx40", "rotradi", "qrc350"])
def test_torques_of_motors_are_those_of_inverse_dynamics(name):
    """Every step solves the equations of motion: what motors give is what the truth needs, rounding aside."""
    plan = plan_of(name, measured=1)
    truth = draw_truth(plan.robot, 2, QUIET)
    _, run = driven(truth, plan)
    needed = inverse_dynamics(truth.robot, Motion(run.q, run.dq, run.ddq), truth.chi)
    given = run.torque_motor @ truth.robot.drive.motor_from_joint
    assert np.abs(given - needed).max() < 1e-10 * np.abs(needed).max()


def test_recorded_torques_balance_the_recorded_motion(wrist):
    """A second derivation, from what is logged: positions differentiated, motors taken through the gear matrix."""
    plan, truth, recorded = wrist
    run = samples(recorded, plan)
    needed = inverse_dynamics(plan.robot, run.motion, true_parameters(truth, plan.robot))
    moving = np.abs(run.motion.dq) > 0.04 * plan.robot.limits.velocity
    error = np.linalg.norm((run.tau - needed)[moving]) / np.linalg.norm(needed[moving])
    assert error < 0.02  # reversals of friction shake the joints above the cut-off


def test_power_of_motors_is_what_energy_and_friction_take():
    """An energy balance over the whole run, which integration has to keep: dqᵀτ = dH/dt + friction."""
    plan = plan_of("rotradi", measured=1)
    truth = draw_truth(plan.robot, 3, replace(QUIET, control_step=2.5e-4, standing=(0.1, 0.1)))
    _, run = driven(truth, plan)
    motion = Motion(run.q, run.dq, run.ddq)
    rub = friction_only(truth.robot, truth.chi)
    loss = np.sum(run.dq * inverse_dynamics(truth.robot, motion, rub), axis=1)
    net = np.sum(run.dq * (run.torque_motor @ truth.robot.drive.motor_from_joint), axis=1) - loss
    worked = np.concatenate([[0.0], np.cumsum(0.5 * (net[1:] + net[:-1]) * np.diff(run.t))])
    stored = energy(truth.robot, motion, truth.chi)
    assert np.abs(worked - (stored - stored[0])).max() < 2e-4 * np.ptp(stored)  # the trapezoid rule at 4 kHz


def test_tracking_is_good_but_not_perfect(wrist):
    plan, _, recorded = wrist
    error = recorded.q - recorded.q_reference
    inside = recorded.mark >= MEASURED
    amplitude = np.ptp(recorded.q_reference[inside], axis=0)
    share = np.abs(error[inside]).max(axis=0) / amplitude
    assert (share < 0.05).all()
    assert (share > 1e-4).all()
    still = recorded.t < 0.3
    assert np.abs(error[still]).max() < 2e-3
    assert plan.robot.n_joints == 6


def test_a_whole_program_is_recorded(wrist):
    plan, truth, recorded = wrist
    assert np.diff(recorded.t) == pytest.approx(STEP)
    assert recorded.program == "run"
    marks = recorded.mark
    changes = marks[np.flatnonzero(np.diff(marks, prepend=-1))].tolist()
    assert changes[:2] == [0, OUT]
    assert changes[-2:] == [BACK, END]
    assert {MEASURED + 1, MEASURED + 2} <= set(changes)
    first = recorded.t[np.flatnonzero(marks == OUT)[0]]
    assert truth.settings.standing[0] <= first <= truth.settings.standing[1] + STEP
    assert recorded.q_reference[0] == pytest.approx(plan.home)
    assert recorded.q_reference[-1] == pytest.approx(plan.home)
    assert recorded.q[-1] == pytest.approx(plan.home, abs=5e-3)
    assert np.isfinite(recorded.current).all()
    assert np.isnan(recorded.torque_joint).all()
    assert np.isfinite(recorded.torque_motor).all()
    total = sum(plan.stretch(stretch).duration for stretch in ("out", "main", "back"))
    assert total + 4 * 0.3 - STEP <= recorded.t[-1] <= total + 4 * 0.5


def test_what_is_commanded_is_the_plan(wrist):
    plan, truth, _ = wrist
    course = lay_course(plan, replace(truth.settings, speed=0.5), np.random.default_rng(0))
    start = dict(course.starts)["main"]
    t = np.linspace(0.0, plan.body.duration * 0.999, 50)
    assert commanded(course, start + 2.0 * t) == pytest.approx(plan.body.at(t))
    assert commanded(course, start + 2.0 * t, 2) == pytest.approx(0.25 * plan.body.at(t, 2))


def test_same_seed_same_bits_and_another_seed_others():
    plan = plan_of("rotradi", measured=1)
    truth = draw_truth(plan.robot, 5, Settings(standing=(0.3, 0.5)))
    one, same, other = (run_program(truth, plan, seed=seed, faults=["dropped-samples"]) for seed in (3, 3, 4))
    for name in ("t", "q", "dq", "torque_motor", "temperature"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert len(one.t) != len(other.t) or not np.array_equal(one.q, other.q)
    assert np.array_equal(draw_truth(plan.robot, 5, truth.settings).chi, truth.chi)
    assert not np.array_equal(draw_truth(plan.robot, 6, truth.settings).chi, truth.chi)


@pytest.mark.parametrize("name", ["tx40", "iiwa", "kr150", "qrc350", "ur10"])
def test_drawn_links_are_bodies_near_the_prior(name):
    robot = load(name)
    n = layout(robot).n_link_params
    for seed in range(5):
        chi = draw_truth(robot, seed, Settings(links=0.2)).chi
        assert all(check_consistency(phi).holds for phi in chi[:n].reshape(-1, 10))
        assert (chi[: len(robot.chi)][robot.assumed_zero] == 0.0).all()
        assert not np.allclose(chi[9:n:10], robot.chi[9:n:10])
    masses = np.array([draw_truth(robot, seed).chi[9:n:10] for seed in range(60)])
    spread = np.std(masses / robot.chi[9:n:10], axis=0)
    assert (spread < 0.2).all()
    assert (spread > 0.02).all()


def test_truth_is_plain_data():
    truth = draw_truth(load("kr150"), 7, Settings(resonance_hz=9.0))
    told = json.loads(json.dumps(truth_data(truth), allow_nan=False))
    assert told["format"] == "excitor-truth"
    values = {entry["name"]: entry["value"] for entry in told["parameters"]}
    assert values["M3"] == truth.chi[layout(truth.robot).index("M3")]
    assert told["settings"]["resonance_hz"] == 9.0
    assert len(told["stiffness"]) == 6
    drawn = json.loads(json.dumps(truth_data(draw_truth(load("rotradi"), 7)), allow_nan=False))
    assert drawn["torque_from_current"][0][1] > 0.0  # of its own, as the file states none
    robot = load("tx40")
    unknown = np.full((6, 4), np.nan)
    coupled = replace(robot, drive=replace(robot.drive, torque_from_current=unknown))
    none = json.loads(json.dumps(truth_data(draw_truth(coupled, 7)), allow_nan=False))
    assert none["torque_from_current"][0][0] is None


def test_robots_without_masses_are_refused():
    robot = load("tx40")
    known = robot.known.copy()
    known[10:20] = False
    with pytest.raises(ExcitorError, match="no masses are known of j2, so it cannot be simulated"):
        draw_truth(replace(robot, known=known), 0)
    chi = robot.chi.copy()
    chi[: layout(robot).n_link_params] *= -1.0
    with pytest.raises(ExcitorError, match="no positive mass matrix"):
        draw_truth(replace(robot, chi=chi), 0)
    with pytest.raises(ValueError, match="another robot"):
        run_program(draw_truth(load("ur10"), 0), plan_of("tx40"), seed=0)


def test_settings_refuse_nonsense():
    for name, value in (("control_step", 0.0), ("white", -0.1), ("jitter", 0.7), ("resonance_hz", -1.0)):
        with pytest.raises(ValueError, match=name):
            Settings(**{name: value})
    with pytest.raises(ValueError, match="standing"):
        Settings(standing=(2.0, 1.0))


def test_noise_quanta_jitter_and_losses_are_what_was_asked(wrist):
    plan, truth, quiet = wrist
    asked = replace(QUIET, white=0.03, slow=0.01, encoder_counts=65536, jitter=0.1, dropped=0.02, clock_drift=1e-4)
    noisy = run_program(replace(truth, settings=asked), plan, seed=1)
    turns = noisy.q_motor / encoder_steps(replace(truth, settings=asked), plan.robot)
    assert np.abs(turns - np.round(turns)).max() < 1e-6
    assert encoder_steps(replace(truth, settings=asked), plan.robot)[0] == pytest.approx(2 * np.pi / 65536 * 0.32)
    clean = CubicSpline(quiet.t, quiet.torque_motor)(noisy.t / (1.0 + 1e-4))
    sizes = np.std(noisy.torque_motor - clean, axis=0) / motor_torque_scale(plan.robot)
    assert sizes == pytest.approx(np.hypot(0.03, 0.01), rel=0.15)
    count = len(quiet.t)
    assert 0.01 < 1.0 - len(noisy.t) / count < 0.03
    steps = np.diff(noisy.t) / (1.0 + 1e-4)
    single = steps[steps < 1.5 * STEP]
    assert np.std(single) == pytest.approx(np.sqrt(2.0) * 0.1 * STEP, rel=0.1)
    assert noisy.t[-1] == pytest.approx(quiet.t[-1] * (1.0 + 1e-4), abs=3 * STEP)


def test_sensors_are_late_by_their_lag(wrist):
    plan, truth, quiet = wrist
    late = run_program(replace(truth, settings=replace(QUIET, sensor_lag=0.02)), plan, seed=1)
    assert np.array_equal(late.q, quiet.q)
    assert late.torque_motor[5:] == pytest.approx(quiet.torque_motor[:-5], abs=1e-9)


def test_friction_warms_up_and_falls():
    plan = plan_of("rotradi", period=3.0, measured=3)
    fast = replace(QUIET, heating=40.0, heating_time=8.0, viscous_drift=0.5, coulomb_drift=0.2)
    truth = draw_truth(plan.robot, 4, fast)
    recorded = run_program(truth, plan, seed=0)
    assert recorded.temperature[0] == pytest.approx(25.0, abs=0.5)
    assert (recorded.temperature.max(axis=0) > 27.0).all()
    warm = true_parameters(truth, plan.robot, temperature=np.full(3, 65.0))
    cold = true_parameters(truth, plan.robot)
    params = layout(plan.robot)
    assert warm[params.index("Fv1")] == pytest.approx(0.5 * cold[params.index("Fv1")])
    assert warm[params.index("Fc2")] == pytest.approx(0.8 * cold[params.index("Fc2")])
    assert np.array_equal(warm[:30], cold[:30])
    held = run_program(replace(truth, settings=replace(fast, viscous_drift=0.0, coulomb_drift=0.0)), plan, seed=0)
    last = recorded.mark == MEASURED + 3
    assert np.abs(recorded.torque_motor[last]).mean() < np.abs(held.torque_motor[last]).mean()
    start = draw_truth(plan.robot, 4, replace(fast, warm=0.5))
    assert start.temperature == pytest.approx(45.0)


def test_gears_lose_torque_in_both_directions():
    """τ_motor = N⁻ᵀ λ (1/R or R) + rotors and friction, λ what links take."""
    plan = plan_of("kr150", measured=1, swing=0.2)
    truth = draw_truth(plan.robot, 2, QUIET)
    _, run = driven(truth, plan)
    gears = plan.robot.drive.motor_from_joint
    carried = run.torque_link @ np.linalg.inv(gears)
    drives = truth.chi.copy()
    drives[: layout(truth.robot).n_link_params] = 0.0
    rest = inverse_dynamics(truth.robot, Motion(run.q, run.dq, run.ddq), drives) @ np.linalg.inv(gears)
    ahead = run.dq @ gears.T
    driving, driven_ = truth.efficiency.T
    expected = np.where(carried * ahead > 0.0, carried / driving, carried * driven_) + rest
    turning = np.abs(ahead) > 0.02 * np.abs(gears) @ plan.robot.limits.velocity  # elsewhere the sense is blurred
    assert turning.mean() > 0.3
    assert np.abs(run.torque_motor - expected)[turning].max() < 1e-6 * np.abs(expected).max()
    assert ((truth.efficiency < 1.0) & (truth.efficiency > 0.8)).all()


def test_currents_follow_their_law():
    plan = plan_of("kr150", measured=1, swing=0.1)
    truth = draw_truth(plan.robot, 2, replace(QUIET, current_law=0.05))
    recorded = run_program(truth, plan, seed=0)
    law = replace(plan.robot, drive=replace(plan.robot.drive, torque_from_current=truth.torque_from_current))
    true = torque_from_current(law, recorded.current)
    assert true == pytest.approx(torque_from_current(law, currents(truth.torque_from_current, true)), abs=1e-9)
    assert recorded.torque_motor == pytest.approx(torque_from_current(plan.robot, recorded.current))
    ratio = np.linalg.norm(recorded.torque_motor, axis=0) / np.linalg.norm(true, axis=0)
    assert (np.abs(ratio - 1.0) > 1e-3).any()
    assert np.abs(ratio - 1.0).max() < 0.2


def test_torque_sensors_of_a_seven_joint_arm_feel_the_links():
    plan = plan_of("iiwa", period=2.0, measured=1, swing=0.05)
    truth = draw_truth(plan.robot, 3, replace(QUIET, joint_sensors=True))
    _, run = driven(truth, plan)
    needed = inverse_dynamics(
        plan.robot, Motion(run.q, run.dq, run.ddq), true_parameters(truth, plan.robot, sensed=True)
    )
    assert np.abs(run.torque_link - needed).max() < 1e-10 * np.abs(needed).max()
    loud = replace(truth, settings=replace(truth.settings, sensor_white=0.01))
    recorded = run_program(loud, plan, seed=0)
    quiet = run_program(truth, plan, seed=0)
    noise = np.std(recorded.torque_joint - quiet.torque_joint, axis=0) / torque_scale(plan.robot)
    assert noise == pytest.approx(np.full(7, 0.01), rel=0.1)


def test_a_sliding_joint_slides(gantry):
    plan = plan_of(gantry, swing=0.1)
    truth = draw_truth(gantry, 1, QUIET)
    recorded = run_program(truth, plan, seed=0)
    assert np.abs(recorded.q - recorded.q_reference)[recorded.mark >= MEASURED].max() < 5e-3
    run = samples(recorded, plan)
    needed = inverse_dynamics(gantry, run.motion, true_parameters(truth, gantry))
    assert np.linalg.norm(run.tau - needed) < 0.03 * np.linalg.norm(needed)


def test_a_payload_of_the_plan_hangs_on_the_truth():
    plan = plan_of("tx40", period=2.0, measured=1)
    truth = draw_truth(plan.robot, 1, QUIET)
    loaded = replace(plan.robot, payload=Payload(5, np.array([0.01, 0, 0, 0.01, 0, 0.01, 0, 0, 0.05, 1.0])))
    chi = true_parameters(truth, loaded)
    assert chi[59] - truth.chi[59] == pytest.approx(1.0)
    _, heavy = driven(truth, replace(plan, robot=loaded))
    _, bare = driven(truth, plan)
    assert not np.allclose(heavy.torque_motor, bare.torque_motor)


def with_terms(robot, terms, values):
    drive_train = replace(robot.drive, friction=(*robot.drive.friction, *terms))
    more = len(values)
    return replace(
        robot,
        drive=drive_train,
        declared_base=None,
        chi=np.concatenate([robot.chi, values]),
        known=np.concatenate([robot.known, np.ones(more, dtype=bool)]),
        assumed_zero=np.concatenate([robot.assumed_zero, np.zeros(more, dtype=bool)]),
    )


def test_every_listed_friction_moves_as_inverse_dynamics_says():
    e = np.eye(3)
    terms = (
        FrictionTerm("Fq", "sqrt", e[0], e[0], width=0.05),
        FrictionTerm("Fst", "stribeck", e[1], e[1], scale=0.2),
        FrictionTerm("Fl", "load", e[1], e[1]),
        FrictionTerm("Fz", "maxwell-slip", e[2], e[2], scale=0.05),
        FrictionTerm("Rs", "ripple-sin", e[0], e[0], scale=20.0),
        FrictionTerm("Rc", "ripple-cos", e[0], e[0], scale=20.0),
        FrictionTerm("off", "offset", e[2], e[2]),
    )
    robot = with_terms(load("rotradi"), terms, np.array([1.0, 2.0, 0.1, 0.8, 0.5, 0.3, 0.2]))
    plan = plan_of(robot, measured=1)
    truth = draw_truth(robot, 1, QUIET)
    _, run = driven(truth, plan)
    others = layout(truth.robot).index("Fz")
    chi = truth.chi.copy()
    chi[others] = 0.0
    given = run.torque_motor @ robot.drive.motor_from_joint
    slip = (given - inverse_dynamics(truth.robot, Motion(run.q, run.dq, run.ddq), chi)) / truth.chi[others]
    assert np.abs(slip[:, :2]).max() < 1e-9
    z = np.empty(len(run.q))
    z[0] = slip[0, 2]
    for k in range(1, len(z)):
        z[k] = np.clip(z[k - 1] + (run.q[k, 2] - run.q[k - 1, 2]) / 0.05, -1.0, 1.0)
    assert slip[:, 2] == pytest.approx(z, abs=1e-3)  # it clips twice a step, this once
    assert np.ptp(z) > 1.5


def test_unmodelled_ripple_and_stribeck_are_in_the_truth_alone():
    robot = load("ur10")
    truth = draw_truth(robot, 1, Settings(ripple=0.01, stribeck=0.2))
    n = len(layout(robot))
    assert layout(truth.robot).names[:n] == layout(robot).names
    extra = layout(truth.robot).names[n:]
    assert sum("ripple" in name for name in extra) == 12
    assert sum("stribeck" in name for name in extra) == 6
    ripple = truth.chi[n : n + 12].reshape(6, 2)
    assert np.hypot(*ripple.T) == pytest.approx(0.01 * robot.limits.torque)
    assert len(true_parameters(truth, robot)) == n


def test_links_swing_on_their_gears():
    """Motors carry the springs' torques besides rotors and friction; their encoders show little of the links' swing."""
    plan = plan_of("ur10", measured=1, swing=0.1)
    elastic = draw_truth(plan.robot, 1, replace(QUIET, resonance_hz=12.0))
    rigid = replace(elastic, stiffness=np.zeros(0), damping=np.zeros(0))
    _, soft = driven(elastic, plan)
    _, stiff = driven(rigid, plan)
    assert 1e-6 < np.abs(soft.q - stiff.q).max() < 1e-2
    links = elastic.chi.copy()
    given = soft.torque_motor @ elastic.robot.drive.motor_from_joint
    links[: layout(elastic.robot).n_link_params] = 0.0
    drives = inverse_dynamics(elastic.robot, Motion(soft.q, soft.dq, soft.ddq), links)
    assert given - drives == pytest.approx(soft.torque_link, abs=1e-8)
    with pytest.raises(ExcitorError, match="need a rotor inertia"):
        draw_truth(load("rotradi"), 1, Settings(resonance_hz=10.0))
    assert np.linalg.eigvalsh(rotor_matrix(elastic.robot, elastic.chi))[0] > 0.0


def test_the_truth_is_identified_from_a_quiet_run(wrist):
    """What is left, 0.3 % of the torques, is how friction's reversals shake the joints between harmonics."""
    plan, truth, recorded = wrist
    regression, estimate = identified(recorded, plan)
    beta = base_parameters(plan.robot).values(true_parameters(truth, plan.robot))
    error = np.linalg.norm(regression.W @ (estimate.values - beta)) / np.linalg.norm(regression.y)
    assert error < 3e-3
    large = np.abs(beta) > 0.05 * np.abs(beta).max()
    assert np.abs(estimate.values / beta - 1.0)[large].max() < 0.03


def test_the_truth_lies_within_the_intervals_of_a_noisy_run():
    """χ² of all base parameters within 99 %, white noise, for the arm of seven joints."""
    plan = plan_of("iiwa")
    truth = draw_truth(plan.robot, 1, Settings(slow=0.0, standing=(0.3, 0.5)))
    recorded = run_program(truth, plan, seed=2)
    _, estimate = identified(recorded, plan)
    mean = recorded.temperature[recorded.mark >= MEASURED].mean(axis=0)
    error = estimate.values - base_parameters(plan.robot).values(true_parameters(truth, plan.robot, temperature=mean))
    assert error @ np.linalg.solve(estimate.covariance, error) < chi2.ppf(0.99, len(error))


@pytest.fixture(scope="module")
def small():
    """A plan, its truth, and what it recorded; a fault that changes the log alone finds the same motion."""
    plan = plan_of("ur10", period=2.0, measured=1, swing=0.05)
    healthy = draw_truth(plan.robot, 1, QUIET)
    kept = {}

    def driven_once(truth, course, engine):
        key = (course.speed, course.starts, course.end)
        if truth is not healthy:
            return drive(truth, course)
        if key not in kept:
            kept[key] = drive(truth, course)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("excitor.experiments.virtual.machine.drive", driven_once)
        yield plan, healthy, run_program(healthy, plan, seed=1)


def with_fault(small, name, channel=""):
    plan, truth, healthy = small
    fault = aimed(replace(FAULTS[name], channel=channel), plan, 1)
    return fault, run_program(truth, plan, seed=1, faults=[fault]), healthy


@pytest.mark.parametrize("channel", ["all", "torque"])
def test_swapped_axes(small, channel):
    fault, ill, healthy = with_fault(small, "swapped-axes", channel)
    a, b = fault.joints
    assert np.array_equal(ill.torque_motor[:, a], healthy.torque_motor[:, b])
    assert np.array_equal(ill.q[:, a], healthy.q[:, b if channel == "all" else a])


def test_degrees(small):
    _, ill, healthy = with_fault(small, "degrees")
    for name in ("q", "dq", "q_reference", "q_motor"):
        assert getattr(ill, name) == pytest.approx(np.degrees(getattr(healthy, name)))
    assert np.array_equal(ill.torque_motor, healthy.torque_motor)


@pytest.mark.parametrize(("channel", "hit"), [("torque", "torque_motor"), ("position", "q")])
def test_flipped_sign(small, channel, hit):
    fault, ill, healthy = with_fault(small, "flipped-sign", channel)
    (j,) = fault.joints
    for name in ("torque_motor", "q", "dq"):
        sign = np.ones(6)
        sign[j] = -1.0 if name == hit or (hit == "q" and name == "dq") else 1.0
        assert np.array_equal(getattr(ill, name), getattr(healthy, name) * sign)


@pytest.mark.parametrize(("channel", "hit"), [("torque", "torque_motor"), ("position", "q")])
def test_missing_gear(small, channel, hit):
    fault, ill, healthy = with_fault(small, "missing-gear", channel)
    factor = np.ones(6)
    factor[fault.joints[0]] = 101.0
    assert getattr(ill, hit) == pytest.approx(getattr(healthy, hit) * factor)


@pytest.mark.parametrize(("channel", "told"), [("shown", 0.5), ("hidden", 1.0)])
def test_half_speed(small, channel, told):
    _, ill, healthy = with_fault(small, "half-speed", channel)
    moving = [np.count_nonzero(log.mark == MEASURED + 1) for log in (healthy, ill)]
    assert moving[1] == pytest.approx(2 * moving[0], abs=2)
    assert (ill.speed_scaling == told).all()
    assert np.abs(ill.dq).max() == pytest.approx(0.5 * np.abs(healthy.dq).max(), rel=0.05)


def test_dropped_samples(small):
    fault, ill, healthy = with_fault(small, "dropped-samples")
    assert 1.0 - len(ill.t) / len(healthy.t) > 0.8 * fault.size
    assert np.diff(ill.t).max() > 0.25
    assert np.isin(ill.t, healthy.t).all()


def test_stuck_joint(small):
    fault, ill, healthy = with_fault(small, "stuck-joint")
    (j,) = fault.joints
    assert np.ptp(ill.q[:, j]) == 0.0
    assert np.ptp(healthy.q[:, j]) > 0.02
    others = np.delete(np.arange(6), j)
    assert (np.ptp(ill.q[:, others], axis=0) > 0.02).all()


def test_saturated_current(small):
    fault, ill, healthy = with_fault(small, "saturated-current")
    (j,) = fault.joints
    size = np.abs(ill.torque_motor[:, j])
    assert np.mean(size > 0.999 * size.max()) > 0.01
    assert size.max() < 0.97 * np.abs(healthy.torque_motor[:, j]).max()


def test_wrong_payload(small):
    plan, truth, _ = small
    fault, ill, healthy = with_fault(small, "wrong-payload")
    heavier = fault.before(truth, plan).chi - truth.chi
    assert 0.5 < heavier[59] < 6.0
    assert fault.before(truth, plan).chi[59] == truth.chi[59] + heavier[59]
    assert check_consistency(heavier[50:60]).holds
    assert np.abs(ill.torque_motor - healthy.torque_motor).max() > 0.02 * np.abs(healthy.torque_motor).max()


def test_faults_are_aimed_by_seed_and_say_what_they_are(small, gantry):
    plan, truth, healthy = small
    assert all(fault.sentence[0].islower() and len(fault.sentence) > 20 for fault in FAULTS.values())
    assert aimed("flipped-sign", plan, 4) == aimed("flipped-sign", plan, 4)
    chosen = {aimed("flipped-sign", plan, seed).joints for seed in range(40)}
    assert len(chosen) == 6
    with pytest.raises(ValueError, match="there is no fault 'gremlins', expected one of swapped-axes"):
        aimed("gremlins", plan, 0)
    with pytest.raises(ValueError, match="'missing-gear' shows in no joint of gantry"):
        aimed("missing-gear", plan_of(gantry, measured=1, swing=0.1), 0)
    own = Fault("flipped-sign", "", "torque", (2,))
    ill = run_program(truth, plan, seed=1, faults=[own])
    assert np.array_equal(ill.torque_motor[:, 2], -healthy.torque_motor[:, 2])


def test_gains_that_no_loop_stands_are_lowered(monkeypatch):
    """Of 400 Hz, steps of 1 ms make no stable loop: gains are lowered; unlowered, the robot is lost, which is said."""
    plan = plan_of("ur10", measured=1, swing=0.1)
    free = replace(plan.robot.limits, torque=np.full(6, np.inf))
    plan = replace(plan, robot=replace(plan.robot, limits=free))
    wild = draw_truth(plan.robot, 1, replace(QUIET, bandwidth_hz=400.0))
    tracking = run_program(wild, plan, seed=0).tracking
    assert (tracking.error < tracking.allowed).all()
    monkeypatch.setattr(virtual_robot, "steady_servo", lambda servo, along, elsewhere: servo)
    with pytest.raises(ExcitorError, match="got out of control after"):
        run_program(wild, plan, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tx40", "qrc350", "iiwa"])
def test_chi_square_of_many_truths(name):
    """Pooled over truths, runs and motions, errors are as large as they say; drift and ripple are in."""
    total, count = 0.0, 0
    for seed in range(6):
        plan = plan_of(name, period=10.0, seed=seed)
        truth = draw_truth(plan.robot, seed, Settings(slow=0.0))
        recorded = run_program(truth, plan, seed=seed)
        _, estimate = identified(recorded, plan, 0.015)
        mean = recorded.temperature[recorded.mark >= MEASURED].mean(axis=0)
        error = estimate.values - base_parameters(plan.robot).values(
            true_parameters(truth, plan.robot, temperature=mean)
        )
        total += error @ np.linalg.solve(estimate.covariance, error)
        count += len(error)
    assert total < 1.3 * count


@pytest.mark.slow
def test_a_long_run_is_fast():
    """130 s of six joints within 10 s of CPU."""
    import time

    plan = plan_of("tx40", period=20.0, measured=6)
    truth = draw_truth(plan.robot, 0)
    run_program(truth, plan_of("tx40", measured=1), seed=0)  # compiles
    start = time.process_time()
    recorded = run_program(truth, plan, seed=0)
    assert recorded.t[-1] > 125.0
    assert time.process_time() - start < 10.0 * recorded.t[-1] / 130.0


def test_losses_that_no_file_states_are_drawn_on_request_and_written():
    robot = load("tx40")
    assert (robot.drive.efficiency == 1.0).all()
    plain, lossy = (draw_truth(robot, 3, Settings(unstated_loss=share)) for share in (0.0, 0.05))
    np.testing.assert_array_equal(plain.efficiency, 1.0)
    assert ((lossy.efficiency > 0.92) & (lossy.efficiency < 0.97)).all()
    assert np.ptp(lossy.efficiency, axis=1).min() > 0.0
    np.testing.assert_array_equal(lossy.chi, plain.chi)
    stated = replace(robot, drive=replace(robot.drive, efficiency=np.full(6, 0.8)))
    np.testing.assert_array_equal(*(draw_truth(stated, 3, Settings(unstated_loss=x)).efficiency for x in (0.0, 0.05)))
    assert truth_data(lossy)["efficiency"][0]["driving"] == lossy.efficiency[0, 0]
