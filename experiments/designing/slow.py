"""Runs that are not periodic: warm-up, static poses, friction sweeps; made, and certified like the others."""

from dataclasses import dataclass, replace

import numpy as np

from excitor.design.certify.certificate import Certificate
from excitor.design.certify.certify import certify_slow
from excitor.design.constraints import Constraints
from excitor.design.schedule import RunPlan, run_constraints
from excitor.design.slow import SlowRun, StaticPlan, SweepPlan, WarmUpPlan, friction_sweeps, static_poses, warm_up
from excitor.experiments.designing.periodic import carries, torque_model
from excitor.experiments.designing.setup import Setup
from excitor.robots.robot import Robot

FURTHER_POSES = 15  # of a further static run, where the campaign names no number


@dataclass(frozen=True, eq=False, slots=True)
class DesignedSlowRun:
    """A slow run, and what is proven of it."""

    plan: RunPlan
    run: SlowRun
    certificate: Certificate


def design_slow_run(setup: Setup, plan: RunPlan, seed: int) -> DesignedSlowRun:
    """Make the run of a plan, and certify it; InfeasibleRun tells why there is none."""
    robot, run, constraints = make_slow_run(setup, plan, seed)
    robot = robot if carries(setup, plan) else replace(robot, payload=None)  # the same poses as with it
    return DesignedSlowRun(plan, run, certify_slow(robot, run, constraints, torque_model=torque_model(robot)))


def make_slow_run(setup: Setup, plan: RunPlan, seed: int) -> tuple[Robot, SlowRun, Constraints]:
    """Make the run of a plan, with the robot as it is held and the limits that were kept."""
    design, home, step = setup.design, setup.constraints.home, setup.design.controller_sample_s
    assert home is not None
    held = {int(j): float(home[j]) for j in np.flatnonzero(~plan.moving)}
    robot = replace(setup.robot, locked={**setup.robot.locked, **held})
    constraints = run_constraints(plan, setup.constraints)
    if torque_model(robot) is False:
        free = np.full(robot.n_joints, np.inf)
        constraints = replace(constraints, limits=replace(constraints.limits, torque=free), torque_rms=free)
    if plan.kind == "static":
        poses = StaticPlan(step, n_poses=design.static_poses or FURTHER_POSES, seed=seed)
        run = static_poses(robot, constraints, home=home, plan=poses, weights=1.0 / setup.noise.sigma)
    elif plan.kind == "sweep":
        run = friction_sweeps(robot, constraints, home=home, plan=SweepPlan(step))
    else:
        minutes = max(design.warm_up_minutes, 0.1)
        run = warm_up(robot, constraints, home=home, plan=WarmUpPlan(step, minutes=minutes, seed=seed))
    return robot, run, constraints
