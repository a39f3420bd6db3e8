"""Figures on the operator's page: every limit holds, is exceeded or is unknown; speeds, swept box and stops."""

import re
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.constraints.constraints import Constraints
from excitor.design.programs.facts import facts_of, overrun, unknown_accelerations
from excitor.design.programs.package import operator_page, package
from excitor.design.programs.plan import Stretches
from excitor.design.programs.registry import NAMES, emitter
from excitor.robots.dynamics import frame_pose, link_poses

RATES = ("velocity", "acceleration", "jerk", "torque peak")


def limited(plan, **given):
    n = plan.robot.n_joints
    return Constraints(replace(plan.robot.limits, **given), np.full(n, np.inf))


@pytest.fixture(scope="module")
def plans(plan_of):
    made = {
        n: plan_of(name, period=2.0, step=0.008, ramp=1.0, swing=0.02, measured=1, warm_up=0)
        for n, name in ((6, "tx40"), (7, "iiwa"))
    }
    return {n: (plan, limited(plan)) for n, plan in made.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_every_page_has_one_of_three_words(plans, name):
    plan, constraints = plans[7 if name == "franka" else 6]
    page = operator_page(package(emitter(name), [plan], facts=[facts_of(plan, constraints)]))
    rows = re.findall(r"^\| (.+) \|$", page.partition("## Limits")[2].partition("## Stops")[0], re.MULTILINE)[2:]
    names = {row.split(" | ")[0]: row for row in rows}
    assert all(sum(word in row for word in ("holds", "exceeded", "unknown")) == 1 for row in rows)
    for joint in plan.robot.joint_names:
        assert all(f"{kind} {joint}" in names for kind in RATES)
        assert "unknown" in names[f"jerk {joint}"]
    assert "the controller's own pause: unknown here" in page


def test_peaks_are_those_of_the_motion(plans):
    plan, constraints = plans[6]
    facts = facts_of(plan, constraints)
    speeds, accelerations, tool = [], [], []
    for name in Stretches:
        t = np.linspace(0.0, plan.stretch(name).duration, 20_001)
        q, h = plan.stretch(name).at(t), t[1] - t[0]
        speeds.append(np.abs(np.diff(q, axis=0) / h).max(axis=0))
        accelerations.append(np.abs(np.diff(q, 2, axis=0) / h**2).max(axis=0))
        tool.append(np.linalg.norm(np.diff(frame_pose(plan.robot, q)[:, :3, 3], axis=0), axis=1).max() / h)
    assert facts.speed == pytest.approx(np.max(speeds, axis=0), rel=2e-3)
    assert facts.tool_speed == pytest.approx(max(tool), rel=2e-3)
    stated = {line.key: line for line in facts.lines}
    for j, peak in enumerate(np.max(accelerations, axis=0)):
        assert stated["acceleration", j].worst == pytest.approx(peak, rel=5e-3)
        assert stated["acceleration", j].state == "holds"


def test_of_limits_that_nobody_states_the_motions_peaks_are_told_and_no_torque(plans):
    plan, _ = plans[6]
    free = np.full(6, np.inf)
    facts = facts_of(plan, limited(plan, velocity=free, acceleration=free, jerk=free, torque=free))
    lines = {line.key: line for line in facts.lines}
    for order, kind in enumerate(("velocity", "acceleration", "jerk"), start=1):
        found = [
            plan.stretch(name).at(np.linspace(0.0, plan.stretch(name).duration, 20_001), order) for name in Stretches
        ]
        peaks = np.max([np.abs(x).max(axis=0) for x in found], axis=0)
        assert [lines[kind, j].worst for j in range(6)] == pytest.approx(peaks, rel=5e-3)
    assert np.isnan([lines["torque peak", j].worst for j in range(6)]).all()
    assert {lines[kind, j].state for kind in RATES for j in range(6)} == {"unknown"}


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_a_limit_just_below_the_peak_is_exceeded(plans, factor):
    plan, constraints = plans[6]
    worst = {line.key: line.worst for line in facts_of(plan, constraints).lines}["velocity", 2]
    velocity = plan.robot.limits.velocity.copy()
    velocity[2] = factor * worst
    lines = facts_of(plan, limited(plan, velocity=velocity)).lines
    wrong = [line.key for line in lines if line.state == "exceeded"]
    assert wrong == ([("velocity", 2)] if factor < 1.0 else [])


def test_only_joints_that_move_need_an_acceleration_limit(plan_of):
    plan = plan_of("tx40", period=2.0, step=0.008, ramp=1.0, measured=1)
    free = np.where(np.arange(6) < 2, np.inf, 10.0)
    assert unknown_accelerations(plan, limited(plan, acceleration=free).limits) == ("j1", "j2")
    still = replace(plan, out=plan.out.scaled(0.0), body=plan.body.scaled(0.0))
    assert unknown_accelerations(still, limited(plan, acceleration=free).limits) == ()


def test_the_swept_box_holds_all_volumes_and_is_tight(plans):
    plan, constraints = plans[7]
    low, high = facts_of(plan, constraints).swept
    rng, points = np.random.default_rng(0), []
    for name in Stretches:
        q = plan.stretch(name).at(rng.uniform(0.0, plan.stretch(name).duration, 300))
        poses = link_poses(plan.robot, q)
        for capsule in plan.robot.capsules:
            if capsule.link < 0:
                continue
            ray = rng.normal(size=(300, 3))
            ray *= capsule.radius / np.linalg.norm(ray, axis=1)[:, None]
            at = capsule.start + rng.uniform(size=(300, 1)) * (capsule.end - capsule.start)
            T = poses[:, capsule.link]
            points.append(np.einsum("nij,nj->ni", T[:, :3, :3], at + ray) + T[:, :3, 3])
    every = np.concatenate(points)
    assert (every >= low - 1e-9).all()
    assert (every <= high + 1e-9).all()
    assert np.abs(every.min(axis=0) - low).max() < 0.03
    assert np.abs(every.max(axis=0) - high).max() < 0.03


@pytest.mark.parametrize("name", ["rapid", "krl-rsi", "fanuc-j519", "twincat", "urscript", "franka"])
def test_overrun_is_what_integration_of_the_slowing_clock_gives(plans, name):
    plan, _ = plans[7 if name == "franka" else 6]
    target = emitter(name).TARGET
    assert target.stop_s > 0.0
    worst = np.zeros(plan.robot.n_joints)
    u = np.linspace(0.0, 1.0, 2001)
    rate = 1.0 - u**3 * (10.0 - 15.0 * u + 6.0 * u**2)
    for part in Stretches:
        run = plan.stretch(part)
        for t in np.linspace(0.0, run.duration, 400):
            seconds = target.stop_s
            if target.stop_braking:
                seconds = max(seconds, 2.1875 * np.abs(run.at(np.array([t]), 1)).max() / target.stop_braking)
            end = min(t + seconds * np.trapezoid(rate, u), run.duration)
            worst = np.maximum(worst, np.abs(run.at(np.array([end])) - run.at(np.array([t])))[0])
    assert overrun(plan, target) == pytest.approx(worst, rel=0.03, abs=1e-4)


def test_what_is_left_of_a_rate_is_a_share_of_its_limit(plans):
    plan, constraints = plans[6]
    lines = [line for line in facts_of(plan, constraints).lines if line.key[0] in RATES and np.isfinite(line.limit)]
    assert lines
    for line in lines:
        assert line.left == pytest.approx(1.0 - abs(line.worst) / abs(line.limit), rel=1e-9)
