"""Alignment against a small simulator of its own: what was put in is found, named, and measured."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.signal import lfilter

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs import csv
from excitor.design.programs.package import package
from excitor.design.programs.plan import Plan, marks
from excitor.experiments.align import align as align_module
from excitor.experiments.align import channels, windows
from excitor.experiments.align.align import align
from excitor.experiments.align.channels import INDEPENDENT, _weights, edit_of_load, flange_load, pooled_load
from excitor.experiments.align.clock import Timing, shifts
from excitor.experiments.align.nouns import Load, MeasuredRun, Misalignment
from excitor.experiments.align.windows import aligned_samples, aligned_windows, raw_samples, usable
from excitor.experiments.campaign import Body
from excitor.experiments.manifest import InvalidManifest, expected_of, manifest_data, parse_manifest, read_manifest
from excitor.experiments.setup import loaded
from excitor.identify.currents import in_amperes
from excitor.identify.samples import Samples
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import change_frame, from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, posture
from excitor.robots.simulate import with_friction_width
from tests.plans import lines, with_swing

SLIDING = """name = "gantry"
[[joint]]
name = "x"
kind = "prismatic"
placement = { xyz = [0, 0, 0.2], axis = [1, 0, 0] }
limits = { position_m = [-0.8, 0.8], velocity_m_s = 1.5, acceleration_m_s2 = 8 }
link = { mass = 8.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
[[joint]]
name = "lift"
placement = { xyz = [0, 0, 0.3], axis = [0, 1, 0] }
limits = { position_deg = [-120, 120], velocity_deg_s = 180, acceleration_deg_s2 = 600 }
link = { mass = 3.0, center = [0.2, 0, 0], inertia = [0.01, 0, 0, 0.05, 0, 0.05] }
[[joint]]
name = "turn"
placement = { xyz = [0.4, 0, 0], axis = [0, 1, 0] }
limits = { position_deg = [-120, 120], velocity_deg_s = 180, acceleration_deg_s2 = 600 }
link = { mass = 2.0, center = [0.15, 0, 0.05], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
[drive]
ratios = [60, 100, 80]
[friction]
terms = ["viscous", "coulomb"]
[parameters]
Fv1 = 20
Fv2 = 1
Fv3 = 0.5
Fc1 = 15
Fc2 = 1.5
Fc3 = 0.7
"""


@dataclass(frozen=True)
class World:
    """How the simulated robot and its log differ from the plan."""

    speed: float = 1.0
    lag: float = 0.006  # s, of the joints after the plan
    delay: float = 0.0  # s, of torques after the motion
    clock: float = 0.0  # share by which the log's clock gains speed until the end
    noise: float = 0.015  # of the torque scale
    links: float = 0.08
    friction: float = 0.15
    jitter: float = 0.02
    quantum: float = 2e-5
    warm: float = 0.1  # share of friction lost when warm
    side: str = "joint"


def robot_of(name, tmp_path_factory=None):
    from excitor.robots.load import robot_from_toml

    return robot_from_toml(SLIDING, "gantry.toml") if name == "gantry" else load(name)


def series_plan(robot, seed, *, period=4.8, measured=4, step=0.008, warm_up=1):
    rng = np.random.default_rng([seed, 1])
    n, k = robot.n_joints, np.arange(1, 6)
    low, high = (np.nan_to_num(x, posinf=2.0, neginf=-2.0) for x in robot.limits.position.T)
    low, high = np.maximum(low, -2.5), np.minimum(high, 2.5)
    a, b = rng.normal(size=(2, n, 5))
    excitation = Excitation(
        period, step, tuple(k), np.ones(n, dtype=bool), ramp=period / 2, settle=1.0, hold=1.0, warm_up=warm_up,
        measured=measured,
    )  # fmt: skip
    t = np.linspace(0, period, 400)
    w = 2 * np.pi * k / period
    wave = np.sin(np.outer(t, w)) @ a.T + np.cos(np.outer(t, w)) @ b.T
    rate = np.cos(np.outer(t, w)) @ (a * w).T - np.sin(np.outer(t, w)) @ (b * w).T
    size = np.minimum(0.35 * (high - low) / np.ptp(wave, axis=0), 0.5 * robot.limits.velocity / np.abs(rate).max(0))
    center = 0.5 * (low + high) + rng.uniform(-0.1, 0.1, n) * (high - low)
    for _ in range(8):  # within what the drives can give
        body = periodic_run(excitation, center, size[:, None] * a, size[:, None] * b, robot.joint_names)
        most = np.abs(inverse_dynamics(robot, body.periodic.motion(t))).max(axis=0) / robot.limits.torque
        size = size * np.where(most > 0.7, 0.8, 1.0)
    home = center + 0.2
    return Plan("cell", "excitation", "identify", robot, lines(robot.joint_names, step, home, (center, 2.0)), body)


def moves_plan(robot, seed, step=0.008):
    rng = np.random.default_rng([seed, 2])
    home = np.full(robot.n_joints, 0.1)
    moves, here = [], home
    for _ in range(8):
        there = home + rng.uniform(-0.5, 0.5, robot.n_joints)
        moves += [(there, 2.0, 0.4, True), (there, 1.2, 0.4, True)]
        here = there
    del here
    moves.append((home, 2.0, 0.4))
    names = robot.joint_names
    return Plan("cell", "poses", "identify", robot, lines(names, step, home), lines(names, step, home, *moves))


def manifest_of(plan):
    return manifest_data(package(csv, [plan]), {})


def expectation(plan):
    data = manifest_of(plan)
    return expected_of(parse_manifest(json.dumps(data)), data["programs"][0]["name"])


def torque_scale(robot):
    own = 3.0 * np.sqrt(np.mean(rigid_torque(robot, posture(np.zeros((1, robot.n_joints)))) ** 2)) + 5.0
    return np.where(np.isfinite(robot.limits.torque), robot.limits.torque, own)


def command(plan, starts, t, speed, order=0):
    q = np.tile(plan.home if order == 0 else 0 * plan.home, (len(t), 1))
    for stretch, start in starts.items():
        after = t >= start
        if order == 0:
            q[after] = plan.home if stretch == "back" else plan.start
        inside = after & (t < start + plan.stretch(stretch).duration / speed)
        q[inside] = speed**order * plan.stretch(stretch).at(speed * (t[inside] - start), order)
    return q


def true_chi(robot, rng, world):
    chi, params = prior(robot).copy(), layout(robot)
    for j in range(params.n_links):
        chi[params.link(j)] *= 1 + world.links * rng.normal()
    chi[params.n_link_params :] *= np.exp(world.friction * rng.normal(size=len(params) - params.n_link_params))
    return chi


def simulate(plan, seed, world=None, *, payload=0.0, limited=None, stuck=None):
    """Run a plan; also where its main stretch starts on the log's clock."""
    world = world or World()
    rng = np.random.default_rng([seed, 3])
    robot, t0, starts = plan.robot, rng.uniform(1, 2), {}
    for stretch in ("out", "main", "back"):
        if plan.stretch(stretch).duration > 0:
            starts[stretch] = t0
            t0 += plan.stretch(stretch).duration / world.speed + rng.uniform(1, 2)
    step = plan.sample_time
    t = np.arange(int(t0 / step)) * step
    t = t + np.clip(rng.normal(size=len(t)), -3, 3) * world.jitter * step

    def motion_at(t):
        q, dq, ddq = (command(plan, starts, t - world.lag, world.speed, k) for k in range(3))
        if stuck is not None:
            q[:, stuck], dq[:, stuck], ddq[:, stuck] = q[0, stuck], 0.0, 0.0
        return Motion(q, dq, ddq)

    chi = true_chi(robot, rng, world)
    if payload:
        ball = from_center_of_mass(payload, np.array([0, 0, 0.05]), 1e-3 * payload * np.eye(3))
        chi[layout(robot).link(robot.tool.link)] += change_frame(ball, robot.tool.T_link_frame)
    smooth = with_friction_width(robot, 0.01)
    at = motion_at(t - world.delay)
    rigid = rigid_torque(smooth, at, chi)
    loss = 1 - world.warm * (1 - np.exp(-t / 100))
    tau = rigid + loss[:, None] * (inverse_dynamics(smooth, at, chi) - rigid)
    N = robot.drive.motor_from_joint
    motor = np.linalg.solve(N.T, tau.T).T
    if limited is not None:
        peak = np.abs(motor).max(axis=0)
        still = np.abs(np.linalg.solve(N.T, rigid_torque(robot, posture(at.q), prior(robot)).T).T).max(axis=0)
        top = 0.5 * (peak + still)[limited]
        motor[:, limited] = np.clip(motor[:, limited], -top, top)
    noise = rng.normal(size=tau.shape) + 0.15 * lfilter([0.2], [1, -0.98], rng.normal(size=tau.shape), axis=0)
    own = np.abs(np.diagonal(N))
    motor = motor + world.noise * noise * torque_scale(robot) / np.where(own > 0, own, 1)
    q = np.round(motion_at(t).q / world.quantum) * world.quantum
    mark = np.zeros(len(t))
    for begin, number in marks(plan):
        mark[t >= starts["main"] + begin / world.speed] = number
    mark[t >= starts["main"] + plan.body.duration / world.speed] = 0
    stamps = t + 0.5 * world.clock * t**2 / t[-1]
    run = MeasuredRun(
        "run.csv", stamps, q, motor @ N, "torque", world.side, world.side, mark, np.full(len(t), world.speed)
    )
    return run, starts["main"]


def scaled(run, robot, name, joints, factor):
    """Multiply channels on the side of the gears where the log recorded them."""
    side = run.position_side if name == "q" else run.effort_side
    N = robot.drive.motor_from_joint if side == "motor" else np.eye(robot.n_joints)
    f = np.ones(robot.n_joints)
    f[joints] = factor
    if name == "q":
        return replace(run, q=np.linalg.solve(N, ((run.q @ N.T) * f).T).T)
    return replace(run, tau=(np.linalg.solve(N.T, run.tau.T).T * f) @ N)


def swapped(run, robot, names, pair):
    order = np.arange(robot.n_joints)
    order[list(pair)] = pair[::-1]
    for name in names:
        side = run.position_side if name == "q" else run.effort_side
        N = robot.drive.motor_from_joint if side == "motor" else np.eye(robot.n_joints)
        if name == "q":
            run = replace(run, q=np.linalg.solve(N, (run.q @ N.T)[:, order].T).T)
        else:
            run = replace(run, tau=np.linalg.solve(N.T, run.tau.T).T[:, order] @ N)
    return run


FAULTS = {
    "swapped axes": "swapped axes", "swapped torques": "swapped axes", "degrees": "degrees",
    "flipped position": "flipped sign", "flipped torque": "flipped sign", "missing gear": "missing gear",
    "missing gear torque": "missing gear", "half speed": "speed slider", "dropped": "dropped samples",
    "stuck": "stuck joint", "saturated": "saturation", "payload": "wrong payload",
}  # fmt: skip


def faulty(fault, plan, seed, world=None):
    """Simulate a plan with one fault in it."""
    world, rng, robot = world or World(), np.random.default_rng([seed, 4]), plan.robot
    n = robot.n_joints
    j, pair = int(rng.integers(n)), [int(x) for x in rng.choice(n, 2, replace=False)]
    if fault == "half speed":
        run, _ = simulate(plan, seed, replace(world, speed=0.5))
        return replace(run, speed_scaling=None) if seed % 2 else run
    if fault == "stuck":
        return simulate(plan, seed, world, stuck=j)[0]
    if fault == "payload":
        masses = prior(robot)[9 : layout(robot).n_link_params : 10].sum()
        return simulate(plan, seed, world, payload=rng.uniform(0.08, 0.2) * masses)[0]
    if fault == "saturated":
        return simulate(plan, seed, world, limited=hungry(plan, rng))[0]
    run, _ = simulate(plan, seed, world)
    gear = robot.drive.motor_from_joint[j]
    gear = float(gear[j])
    turning = np.flatnonzero(~robot.mechanism.prismatic)
    if fault == "dropped":
        kept = rng.uniform(size=len(run.t)) >= rng.uniform(0.02, 0.06)
        middle = rng.choice(run.t)
        kept &= np.abs(run.t - middle) > 0.5 * rng.uniform(0.3, 1.0)
        return replace(
            run, t=run.t[kept], q=run.q[kept], tau=run.tau[kept], mark=run.mark[kept],
            speed_scaling=run.speed_scaling[kept],
        )  # fmt: skip
    return {
        "swapped axes": lambda: swapped(run, robot, ("q", "tau"), pair),
        "swapped torques": lambda: swapped(run, robot, ("tau",), pair),
        "degrees": lambda: replace(run, q=run.q * np.where(np.isin(np.arange(n), turning), 180 / np.pi, 1)),
        "flipped position": lambda: scaled(run, robot, "q", j, -1),
        "flipped torque": lambda: scaled(run, robot, "tau", j, -1),
        "missing gear": lambda: scaled(run, robot, "q", j, gear),
        "missing gear torque": lambda: scaled(run, robot, "tau", j, gear),
    }[fault]()


def hungry(plan, rng):
    t = np.linspace(0, plan.body.duration, 800)
    motion = Motion(*(plan.body.at(t, k) for k in range(3)))
    peak = np.abs(inverse_dynamics(plan.robot, motion)).max(axis=0)
    still = np.abs(rigid_torque(plan.robot, posture(motion.q))).max(axis=0)
    open_to = np.flatnonzero(peak > 1.3 * still)
    return int(rng.choice(open_to)) if open_to.size else int(np.argmax(peak - still))


@pytest.fixture(scope="module")
def cells():
    """Robots of six joints, seven joints, a coupled wrist, and a sliding joint; a plan and its expectation each."""
    made = {}
    for seed, name in enumerate(("tx40", "iiwa", "kr150", "gantry")):
        robot = robot_of(name)
        plan = series_plan(robot, seed)
        made[name] = robot, plan, expectation(plan)
    return made


def one(alignment, what, joint=None):
    found = [check for check in alignment.checks if check.what == what and joint in (None, check.joint)]
    assert found, what
    return found[0]


@pytest.mark.parametrize(
    ("name", "side"),
    [("tx40", "motor"), ("iiwa", "joint"), ("kr150", "motor"), ("kr150", "joint"), ("gantry", "joint")],
)
def test_healthy_runs_give_no_finding(cells, name, side):
    robot, plan, expected = cells[name]
    run, start = simulate(plan, 11, World(side=side))
    alignment = align(expected, run, robot)
    assert not alignment.faults, [str(check) for check in alignment.faults]
    assert any(check.what == "clock jumps" for check in alignment.checks)
    assert alignment.start == pytest.approx(start + 0.006, abs=5e-4)
    assert abs(alignment.stretch - 1.0) < 1e-5
    assert alignment.periods == 4
    found = usable(alignment)
    assert found.periods == 4
    assert found.samples == round(4.8 / 0.008)
    assert found.steps[0].settings["method"] == "cubic splines through the time stamps"


@pytest.mark.parametrize(
    ("fault", "name"),
    [(fault, ("tx40", "kr150")[k % 2]) for k, fault in enumerate(FAULTS)]
    + [
        pytest.param("half speed", "tx40", marks=pytest.mark.slow),
        pytest.param("stuck", "kr150", marks=pytest.mark.slow),
    ],
)
def test_faults_are_named(cells, name, fault):
    robot, plan, expected = cells[name]
    alignment = align(expected, faulty(fault, plan, 1 if name == "tx40" else 5, World(side="motor")), robot)
    assert FAULTS[fault] in alignment.causes, [str(check) for check in alignment.faults]
    with pytest.raises(Misalignment) as error:
        usable(alignment, name="run.csv")
    assert any(check.cause == FAULTS[fault] for check in error.value.checks)
    assert "run.csv: " in str(error.value)


@pytest.mark.parametrize(
    ("measured", "pushed", "kept", "causes"),
    [
        pytest.param(4, 0, (1, 3), (), marks=pytest.mark.slow),
        (4, 3, (0, 3), ()),
        (4, 1, (2, 2), ("transients",)),
        (3, 0, (1, 2), ()),
        pytest.param(2, 0, (0, 2), (), marks=pytest.mark.slow),  # of two nobody knows which is the odd one
    ],
)
def test_a_period_that_differs_is_left_out(measured, pushed, kept, causes):
    robot = load("tx40")
    plan = series_plan(robot, 3, measured=measured)
    expected = expectation(plan)
    run, start = simulate(plan, 7)
    series, tau = expected.run.series, run.tau.copy()
    k = (run.t - start - series.start) / series.period - pushed
    tau[(k >= 0.3) & (k < 0.6), 1] += 0.5 * np.abs(tau[:, 1]).max()
    alignment = align(expected, replace(run, tau=tau), robot)
    assert (alignment.first_period, alignment.periods, alignment.causes) == (*kept, causes)
    found = [check.figure for check in alignment.checks if check.what == "usable periods"]
    assert found == ([kept[1]] if measured >= 3 else [])


def test_torques_beside_a_joint_that_is_stuck_are_not_timed(cells):
    """What the arm would have felt is not known: neither delays nor trends are judged, nor a load."""
    robot, plan, expected = cells["tx40"]
    healthy, stuck = (align(expected, simulate(plan, 7, stuck=joint)[0], robot) for joint in (None, 3))
    told = [{check.what for check in alignment.checks} for alignment in (healthy, stuck)]
    assert {"torque delay", "friction drift"} <= told[0]
    assert not {"torque delay", "friction drift"} & told[1]
    assert healthy.load is not None
    assert stuck.load is None


def weighed(cells, stated, carried):
    robot, plan, expected = cells["tx40"]
    body = Body(mass=stated, center=[0.0, 0.0, 0.05]) if stated else None
    return align(expected, simulate(plan, 3, World(side="motor"), payload=carried)[0], loaded(robot, body))


def test_a_stated_load_is_confirmed(cells):
    alignment = weighed(cells, 3.0, 3.0)
    assert not alignment.faults, [str(check) for check in alignment.faults]
    assert "3 ± 0.12 kg are stated" in one(alignment, "payload").sentence
    mass, sigma = alignment.load.confirmed
    assert abs(mass - 3.0) < 0.1
    assert sigma < min(alignment.load.sigma, 0.0601)
    assert abs(alignment.load.total - 3.0) < 2.5 * alignment.load.sigma


@pytest.mark.parametrize(
    ("stated", "carried", "asked"),
    [
        (3.0, 7.0, "3 ± 0.12 kg are stated: they contradict"),
        (0.0, 4.0, "no load is stated"),
        (4.0, 0.0, "4 ± 0.16 kg are stated: they contradict"),
    ],
)
def test_another_load_is_named_with_both_figures(cells, stated, carried, asked):
    alignment = weighed(cells, stated, carried)
    check = one(alignment, "payload")
    assert (check.cause, check.level) == ("wrong payload", "unusable")
    assert asked in check.sentence
    assert f"torques indicate {alignment.load.total:.3g} ± " in check.sentence
    assert alignment.load.total == pytest.approx(carried, abs=2.5 * alignment.load.sigma)
    assert ("remove [payload]" if not carried else "state [payload] mass = ") in check.remedy


@pytest.mark.parametrize("carried", [30.0, 100.0])
def test_a_heavy_load_is_not_called_a_wrong_scale_of_the_drives_that_carry_it(cells, carried):
    """Without the load, the lift's torques look scaled; the load explains them, and is the one thing that is named."""
    robot, plan, expected = cells["gantry"]
    alignment = align(expected, simulate(plan, 3, payload=carried)[0], robot)
    assert alignment.causes == ("wrong payload",)
    assert one(alignment, "torque scale", "lift").holds
    assert alignment.load.total == pytest.approx(carried, rel=0.05)


def test_a_load_that_torques_cannot_tell_closely_is_to_be_weighed(cells):
    robot, _, _ = cells["tx40"]
    vague, clear = Load(2.42, 0.33, evidence=500.0), Load(2.42, 0.2, evidence=500.0)
    assert edit_of_load(robot, clear).startswith("state [payload] mass = 2.42, center = [")
    assert "closer than from 1.77 to 3.07 kg" in edit_of_load(robot, vague)


def test_jumps_are_looked_for_in_half_periods_or_twentieths_of_the_moves(cells, monkeypatch):
    seen = []
    monkeypatch.setattr(align_module.times, "shifts", lambda *x: seen.append(x[-1]) or shifts(*x))
    moves = moves_plan(load("tx40"), 1)
    for plan in (cells["gantry"][1], moves):
        expected = expectation(plan)
        seen.clear()
        align(expected, simulate(plan, 1)[0], plan.robot)
        begin, end = expected.moving_span
        wanted = 0.05 * (end - begin) if plan is moves else 0.5 * expected.run.periodic.period
        parts = next(edges for edges in seen if edges[0] == begin and edges[-1] == end)
        assert np.diff(parts).mean() == pytest.approx(wanted, rel=0.03)


def test_torques_without_faults_are_not_explained_by_a_load(cells, monkeypatch):
    robot, plan, expected = cells["gantry"]
    weighings = []
    monkeypatch.setattr(channels, "flange_load", lambda *x: weighings.append(x) or flange_load(*x))
    assert align(expected, simulate(plan, 3)[0], robot).faults == ()
    assert len(weighings) == 1  # for the payload, and for no fault


def weighed_exactly(carried, seed, noise=0.3):
    """A run of the prior arm itself with a bulky load, torques of motors with white noise."""
    rng, robot, t, w = (
        np.random.default_rng(seed),
        load("tx40"),
        np.arange(0, 10, 0.005)[:, None],
        0.2 * np.pi * np.arange(1, 6),
    )
    a, b = 0.2 * rng.normal(size=(2, 5, 6))
    s, c = np.sin(t * w), np.cos(t * w)
    motion = Motion(s @ a + c @ b, (c * w) @ a - (s * w) @ b, -(s * w**2) @ a - (c * w**2) @ b)
    body = Body(mass=carried, center=[0.02, -0.01, 0.09], inertia=[0.006, 0, 0, 0.005, 0, 0.004])
    tau = inverse_dynamics(loaded(robot, body), motion)
    tau = tau + noise * rng.normal(size=tau.shape)
    run = MeasuredRun("run", t[:, 0], motion.q, tau)
    return flange_load(robot, run, Samples("run", motion, tau, 200.0))


def test_torques_count_by_their_noise_and_by_errors_that_do_not_average_out():
    """Of 2000 rows, noise of 0.3 counts as such; of a slow error of 0.2, 60 are independent; units change nothing."""
    rng, t = np.random.default_rng(4), np.linspace(0.0, 1.0, 2000)
    A = np.stack([np.cos(3.0 * t), np.cos(3.0 * t), np.cos(3.0 * t)], axis=1)[..., None]
    noise, slow = 0.3 * rng.normal(size=2000), 0.2 * np.sqrt(2.0) * np.sin(8.0 * np.pi * t)
    b = 2.0 * A[..., 0] + np.column_stack([noise, slow, 0.0 * t])
    weights = _weights(A, b, b)
    floor = 1e-4 * np.mean(b**2, axis=0)
    expected = np.array(
        [0.09 + floor[0] * 2000 / INDEPENDENT, 0.04 * 2000 / INDEPENDENT, floor[2] * 2000 / INDEPENDENT]
    )
    np.testing.assert_allclose(weights, expected**-0.5, rtol=0.05)
    np.testing.assert_allclose(_weights(A, 50.0 * b, 50.0 * b), weights / 50.0, rtol=1e-9)


def test_weights_see_small_columns_beside_large_ones():
    rng, t = np.random.default_rng(4), np.linspace(0.0, 1.0, 2000)
    A = np.stack([np.cos(3.0 * t), np.sin(9.0 * t)], axis=1)[:, None, :]
    b = A.sum(axis=2) + 0.01 * rng.normal(size=(2000, 1))
    np.testing.assert_allclose(_weights(A * [1.0, 1e-8], b, b), _weights(A, b, b), rtol=1e-9)


def test_a_channel_of_the_other_sign_fits_its_own_joint(cells):
    robot, plan, _ = cells["gantry"]
    motion = plan.body.periodic.motion(np.linspace(0.0, 4.8, 600))
    run = MeasuredRun("run", np.zeros(1), motion.q[:1], motion.q[:1], effort_side="joint")
    samples = Samples("run", motion, inverse_dynamics(robot, motion), 125.0)
    model = channels._model(robot, run, samples)
    found = channels._cross_fits(model, -samples.tau, np.ones(3), scaled=True)
    assert (np.diagonal(found) < 0.01).all()
    assert (found[~np.eye(3, dtype=bool)] > 0.1).all()


def test_a_joint_in_another_unit_is_not_stuck():
    run = SimpleNamespace(run=SimpleNamespace(joints=("a",)))
    plan = np.sin(np.linspace(0.0, 30.0, 900))
    check = channels._stuck(run, 0, plan, np.degrees(plan), channels._Fit("joint", np.degrees(1.0), 0.0, 0.99))
    assert check.figure == pytest.approx(1.0)


def test_of_moves_all_samples_but_the_ends_are_looked_at():
    robot = robot_of("ur10")
    plan = moves_plan(robot, 1)
    run = simulate(plan, 8, World(lag=0.0))[0]
    found = align(expectation(plan), run, robot)
    assert len(windows.seen(found, run, run.q).samples) == windows.MOST


def test_a_bulky_load_is_weighed_without_bias():
    found = [weighed_exactly(2.0, seed) for seed in range(4)]
    assert [one.total for one in found] == pytest.approx([2.0] * 4, abs=0.06)
    together = pooled_load(found)
    assert together.sigma < min(one.sigma for one in found)
    assert together.total == pytest.approx(2.0, abs=0.03)  # 1.85 as a point without moments of inertia


@pytest.mark.parametrize("delay", [0.0, 0.0137])
def test_the_delay_of_currents_is_found_whatever_their_gains(cells, delay):
    robot, plan, expected = cells["iiwa"]
    run, _ = simulate(plan, 3, World(delay=delay, lag=0.0, noise=0.005))
    law = np.array([11.0, 13.0, 9.0, 7.0, 2.0, 1.6, 1.2])
    found = align(expected, replace(run, tau=run.tau / law, effort="current"), in_amperes(robot))
    assert found.delay == pytest.approx(delay, abs=0.15 * plan.sample_time)


def test_torques_that_come_before_the_motion_are_said_to(cells):
    robot, plan, expected = cells["gantry"]
    found = align(expected, simulate(plan, 2, World(delay=-0.0137, lag=0.0, noise=0.002))[0], robot)
    assert found.delay == pytest.approx(-0.0137, abs=0.1 * plan.sample_time)
    assert " ms before the motion" in one(found, "torque delay").sentence


def test_figures_are_the_injected_ones(cells):
    robot, plan, expected = cells["tx40"]
    run, start = simulate(plan, 2, World(delay=0.0137, lag=0.0, noise=0.002))
    alignment = align(expected, run, robot)
    assert alignment.delay == pytest.approx(0.0137, abs=0.1 * plan.sample_time)
    assert "13.7 ms after the motion" in one(alignment, "torque delay").sentence
    assert alignment.start == pytest.approx(start, abs=1e-4)
    assert not alignment.faults
    late = replace(run, q=simulate(plan, 2, World(lag=0.02))[0].q, q_reference=run.q)
    assert one(align(expected, late, robot), "lag").figure == pytest.approx(0.02, abs=1e-4)
    flipped = replace(run, q_reference=run.q * np.where(np.arange(robot.n_joints) == 2, -1.0, 1.0))
    checks = {check.what: check for check in align(expected, flipped, robot).checks}
    assert "lag" not in checks, "of commands that are not the plan's"
    assert "the fault is before the robot" in checks["command"].sentence
    for factor, joint in ((1.3, 2), (0.37, 4)):
        found = align(expected, scaled(run, robot, "q", joint, factor), robot)
        check = one(found, "position scale", robot.joint_names[joint])
        assert check.figure == pytest.approx(factor, rel=0.01)
        assert check.cause == "scale"


@pytest.mark.parametrize(
    "speed", [pytest.param(0.1, marks=pytest.mark.slow), 0.97, 0.998, pytest.param(1.5, marks=pytest.mark.slow)]
)
def test_a_slider_is_found_with_its_figure(cells, speed):
    robot, plan, expected = cells["gantry"]
    run, _ = simulate(plan, 3, World(speed=speed))
    alignment = align(expected, replace(run, speed_scaling=None), robot)
    assert alignment.stretch == pytest.approx(1 / speed, rel=1e-5)
    assert one(alignment, "stretch").cause == ("speed slider" if speed < 1 else "sample rate")
    if speed < 1:
        assert f"a speed slider at {100 * speed:.3g} %" in one(alignment, "stretch").sentence


@pytest.mark.parametrize("part", ["first", "last"])
def test_a_log_of_a_part_is_cut_short_and_no_joint_is_stuck(cells, part):
    robot, plan, expected = cells["gantry"]
    run, start = simulate(plan, 7)
    share = (run.t - start) / expected.run.duration
    kept = share < 0.45 if part == "first" else share > 0.65
    alignment = align(expected, MeasuredRun(part, run.t[kept], run.q[kept], run.tau[kept]), robot)
    assert alignment.causes == ("log cut short",)
    assert alignment.start == pytest.approx(start, abs=0.02)


@pytest.mark.parametrize("part", ["all", "first", "last"])
def test_the_motion_as_logged_is_the_planned_one_where_a_robot_follows(cells, part):
    """Resampled and filtered by its own stamps, whatever part is logged: the plan's derivatives are the truth."""
    robot, plan, expected = cells["gantry"]
    run, _ = simulate(plan, 7)
    alignment = align(expected, run, robot)
    begin, end = alignment.log_time(np.array(expected.steady_span))
    kept = {"all": run.t > 0.0, "first": run.t < begin + 6.0, "last": run.t > end - 6.0}[part]
    run = MeasuredRun(part, run.t[kept], run.q[kept], run.tau[kept])
    samples = raw_samples(alignment, run, run.q + 5e-5 * np.random.default_rng(1).normal(size=run.q.shape))
    assert samples.sample_rate_hz == pytest.approx(125.0, rel=1e-6)
    n = len(samples)
    step = 1.0 / samples.sample_rate_hz
    first = max(begin, run.t[0])
    lost = np.ceil(0.5 * ((min(end, run.t[-1]) - first) / step - n))  # where the filter has no neighbours
    assert 0.0 < lost * step < 0.15
    plans = (first + step * (lost + np.arange(n)) - alignment.start) / alignment.stretch
    states = samples.motion.q, samples.motion.dq, samples.motion.ddq
    for order, (found, near) in enumerate(zip(states, (0.001, 0.006, 0.06), strict=True)):
        truth = expected.run.at(plans, order)
        error = np.sqrt(((found - truth) ** 2).mean(axis=0))
        assert (error < near * np.sqrt((truth**2).mean(axis=0))).all(), (order, error)


def test_a_clock_that_drifts(cells):
    robot, plan, expected = cells["tx40"]
    run, _ = simulate(plan, 4, World(clock=6e-4))
    span = run.t[-1]
    check = one(align(expected, run, robot), "clock drift")
    # the clock runs at 1 + c t / span: the middles of the halves of five periods are 12 s apart
    assert check.figure == pytest.approx(6e-4 * 12.0 / span, rel=0.05)
    assert check.cause == "clock drift"


@pytest.mark.parametrize(("stretch", "delay"), [(1.0, 0.002), (1.5, 0.002), (0.7, -0.003)])
def test_delays_are_measured_in_the_time_of_the_log(cells, stretch, delay):
    """Channels that come later than the plan says, in the first half of it; in the second as said."""
    _, _, expected = cells["gantry"]
    begin, end = expected.moving_span
    middle = 0.5 * (begin + end)
    t = np.arange(0.0, 60.0, 0.008)
    u = (t - 2.0) / stretch
    late = delay / stretch * (u < middle)
    found = shifts(expected, Timing(2.0, stretch, 1.0), t, expected.run.at(u - late), np.array([begin, middle, end]))
    np.testing.assert_allclose(found, [delay, 0.0], atol=1e-5)


@pytest.mark.parametrize("periods", [1, 3, -1])
def test_rows_that_are_lost_without_a_trace_in_the_stamps_are_found(cells, periods):
    """Five rows of 8 ms, of which the fit of start and stretch hides a part; near the start and the end as well."""
    robot, plan, expected = cells["gantry"]
    run, start = simulate(plan, 7, World(jitter=0.0))
    at = start + expected.moving_span[periods < 0] + 4.8 * periods
    first = int(np.searchsorted(run.t, at))
    kept = np.delete(np.arange(len(run.t)), np.arange(first, first + 5))
    lost = align(expected, MeasuredRun("run", run.t[: len(kept)], run.q[kept], run.tau[kept]), robot)
    check = one(lost, "clock jumps")
    assert (check.holds, check.cause, check.level) == (False, "lost rows", "doubtful")
    assert (0.01 if periods == 3 else 0.025) < check.figure < 0.04


def test_uneven_stamps_are_taken_as_they_are(cells):
    robot, plan, expected = cells["iiwa"]
    run, _ = simulate(plan, 5, World(jitter=0.15))
    alignment = align(expected, run, robot)
    assert not alignment.faults
    periods = aligned_samples(alignment, run)
    q, tau = periods.averages()
    t = expected.steady_span[0] + plan.body.excitation.period + np.arange(len(q.mean)) / periods.rate
    assert np.abs(q.mean - expected.run.at(t)).max() < 1e-3
    white = World().noise * torque_scale(robot)
    assert (tau.noise_variance > 0.2 * white**2).all()
    assert (tau.noise_variance < 3.0 * white**2).all()


def test_marks_missing_doubled_and_late(cells):
    robot, plan, expected = cells["gantry"]
    run, _ = simulate(plan, 6)
    missing = replace(run, mark=np.where(run.mark == 1002, 1001, run.mark))
    assert "missing 1002" in one(align(expected, missing, robot), "marks").sentence
    twice = run.mark.copy()
    twice[np.flatnonzero(run.mark == 1003)[50]] = 5
    assert "too often" in one(align(expected, replace(run, mark=twice), robot), "marks").sentence
    late = replace(run, mark=np.roll(run.mark, 40))
    check = one(align(expected, late, robot), "mark times")
    assert not check.holds
    assert check.figure == pytest.approx(40 * 0.008 - 0.006, abs=0.01)


@pytest.mark.parametrize(("periods", "whole"), [(1.6, 0), (2.4, 1), (3.5, 2)])
def test_a_log_cut_short_has_its_whole_periods_and_no_torques_are_judged_without(cells, periods, whole):
    """The first of them is the warm-up."""
    robot, plan, expected = cells["gantry"]
    run, start = simulate(plan, 7)
    kept = run.t < start + 1.0 + 2.4 + 4.8 * periods
    alignment = align(expected, MeasuredRun("short", run.t[kept], run.q[kept], run.tau[kept]), robot)
    assert alignment.causes == ("log cut short",)
    assert alignment.periods == whole
    assert ("payload" in {check.what for check in alignment.checks}) == (whole > 0)
    if whole < 2:
        with pytest.raises(Misalignment, match="period"):
            usable(alignment)
    else:
        assert usable(alignment).periods == whole


def test_a_log_of_another_program_robot_or_time(cells):
    robot, plan, expected = cells["gantry"]
    run, _ = simulate(plan, 7)
    t = run.t[::8]
    strange = MeasuredRun("strange", t, 0.3 * np.sin(np.outer(t, [0.9, 1.3, 5.7])), run.tau[::8])
    other = align(expected, strange, robot)
    assert other.causes == ("another program",)
    with pytest.raises(Misalignment, match="no part of the log looks like"):
        usable(other)
    with pytest.raises(ExcitorError, match="time runs backward"):
        align(expected, replace(run, t=run.t[::-1]), robot)
    with pytest.raises(ExcitorError, match="give the robot that the program was made for"):
        align(expected, run, robot_of("tx40"))


def test_moves_are_aligned_and_cut_into_stops_and_cruises():
    robot = robot_of("ur10")
    plan = moves_plan(robot, 1)
    expected = expectation(plan)
    run, start = simulate(plan, 8, World(lag=0.0))
    alignment = align(expected, run, robot)
    assert not alignment.faults, [str(check) for check in alignment.faults]
    assert alignment.start == pytest.approx(start, abs=2e-3)
    found = usable(alignment)
    assert [window.kind for window in found.windows] == ["cruise", "stop"] * 8
    parts = aligned_windows(found.windows, run, rate=found.rate, delay=found.delay)
    for window, (t, q, _) in zip(found.windows, parts, strict=True):
        assert window.start <= t[0] <= t[-1] <= window.end
        if window.kind == "stop":
            assert np.abs(q - plan.body.moves[window.number].goal).max() < 1e-3
    slow, _ = simulate(plan, 8, World(speed=0.5))
    assert align(expected, slow, robot).stretch == pytest.approx(2.0, rel=1e-4)


def test_manifests_are_read_strictly(tmp_path):
    plan = series_plan(robot_of("gantry"), 0)
    good = json.loads(json.dumps(manifest_of(plan)))
    name = good["programs"][0]["name"]
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(good))
    assert expected_of(read_manifest(path), name).run.duration == plan.body.duration
    for where, value, told in (
        (("version",), 3, "version"),
        (("joints",), ["a"], "one for each of"),
        (("programs", 0, "main", "series", 0, "sines"), [[1.0]], "sines"),
        (("programs", 0, "main", "series", 0, "period"), -1.0, "period"),
        (("programs", 0, "main", "segments"), [], "segments"),
        (("programs", 0, "main", "joints"), ["a", "b"], "expected those of the manifest"),
        (("programs", 0, "surprise"), 1, "surprise"),
        (("programs", 0, "durations_s", "main"), 1.0, "durations_s"),
        (("programs", 0, "main", "series", 0, "harmonics"), [3, 1], "rising numbers"),
    ):
        bad = json.loads(json.dumps(good))
        place = bad
        for key in where[:-1]:
            place = place[key]
        place[where[-1]] = value
        with pytest.raises(InvalidManifest, match=told):
            expected_of(parse_manifest(json.dumps(bad)), name)
    with pytest.raises(InvalidManifest, match="0 programs named 'other'"):
        expected_of(parse_manifest(json.dumps(good)), "other")


def test_no_manifest_makes_it_stumble():
    plan = series_plan(robot_of("gantry"), 0)
    text = json.dumps(manifest_of(plan))
    rng = np.random.default_rng(0)
    junk = ["", "null", "[]", "{}", "[" * 5000, "\x00", '{"format": "excitor-manifest"}', text[: len(text) // 2]]
    marks_in = [k for k, letter in enumerate(text) if letter in '0123456789,:[]{}"']
    for _ in range(300):
        k = int(rng.choice(marks_in))
        junk.append(
            text[:k] + str(rng.choice(["9", "-", "1e400", "null", '"', "[", "}", "0", "NaN", "99999"])) + text[k + 1 :]
        )
    for content in junk:
        with suppress(InvalidManifest):
            manifest = parse_manifest(content)
            for program in manifest.programs:
                expected_of(manifest, program.name)


def test_what_sensors_at_the_joints_feel_is_held_against_links_alone(cells):
    robot, plan, expected = cells["iiwa"]
    run, _ = simulate(plan, 12, World(friction=0.0, warm=0.0, noise=0.001))
    links = replace(robot, chi=np.where(np.arange(len(robot.chi)) < layout(robot).n_link_params, robot.chi, 0.0))
    felt, _ = simulate(replace(plan, robot=links), 12, World(friction=0.0, warm=0.0, noise=0.001))
    alignment = align(expected, felt, robot)
    assert not alignment.faults, [str(check) for check in alignment.faults]
    assert one(alignment, "torque sensors").holds
    assert not any(check.what == "torque sensors" for check in align(expected, run, robot).checks)
    wrong = align(expected, scaled(felt, robot, "tau", 1, -1), robot)
    assert wrong.causes == ("flipped sign",)


def test_one_wrong_motor_is_named_where_torques_come_through_coupled_gears(cells):
    robot, plan, _ = cells["tx40"]
    alike = [0, 1, 2, 3, 4, 4]  # joints 5 and 6 move alike: what is wrong with motor 6 looks like joint 5's torque
    plan = replace(plan, body=with_swing(plan.body, plan.body.series.sines[alike], plan.body.series.cosines[alike]))
    expected = expectation(plan)
    run, _ = simulate(plan, 13)
    motors = np.linalg.solve(robot.drive.motor_from_joint.T, run.tau.T).T
    motors[:, 5] *= 32.0
    alignment = align(expected, replace(run, tau=motors @ robot.drive.motor_from_joint), robot)
    wrong = [check for check in alignment.faults if check.level == "unusable"]
    assert [(check.joint, check.cause) for check in wrong] == [("j6", "missing gear")]
