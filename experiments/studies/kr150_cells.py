"""What the load study adds to the paper: thin loads in much noise, and runs with and without load while warming up."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from excitor.experiments.studies import kr150_recipe as recipe
from excitor.experiments.studies.kr150_plant import Body, coupling, motor_torques
from excitor.identify.load.equations import Arm, LoadRun, abba, exact_arm, load_task
from excitor.identify.load.fit import identify_consistent_load, identify_load
from excitor.robots.robot import Motion, Robot

THIN = Body(30.0, np.array([0.05, 0.0, 0.1]), np.array([0.4, 0.4, 1e-4, 0.0, 0.0, 0.0]))  # a rod
FLANGE = Body(6.0, np.array([0.0, 0.0, -0.02]), np.array([0.02, 0.02, 0.03, 0.0, 0.0, 0.0]))  # link 6 itself
EVERY = 8  # samples: fewer of them leave more to the noise
FREE = 20  # draws that are estimated without the bound too
FRICTION_FALL, TORQUE_FALL = 0.06, 0.003  # relative, from one run to the next, as motors and grease warm up


@dataclass(frozen=True)
class PhysicalLoads:
    """How many estimates of a thin load are bodies."""

    count: int
    impossible: int  # of the consistent estimates
    free_count: int  # draws that were estimated without the bound too
    free_impossible: int  # of those
    smallest_margin: float  # of the pseudo-inertia, scaled to unit diagonal


def physical_loads(robot: Robot, printed: dict[str, Any], draws: int) -> PhysicalLoads:
    """Estimate a rod, whose pseudo-inertia is nearly singular, from one noisy period, again and again."""
    rng = np.random.default_rng(200)
    n, period = printed["table1"]["samples"], printed["table1"]["period_s"]
    parts = recipe.evaluate(recipe.table1(printed), period, n)
    motion = (parts[0][::EVERY], parts[1][::EVERY], parts[2][::EVERY])
    motors = replace(recipe.TRUE_MOTORS, ripple=np.zeros(6), stribeck=0.0)
    tau = motor_torques((*recipe.TRUE_LINKS, THIN), motors, coupling(**printed["coupling"]), motion)
    sigma = np.where(recipe.NOISE > 0.0, recipe.NOISE, 1.0)
    arm = exact_arm(robot, recipe.arm_of(robot, recipe.true_prior()).chi)
    impossible, free, margins = 0, 0, []
    for number in range(draws):
        run = LoadRun(f"draw {number + 1}", Motion(*motion), tau + recipe.NOISE * rng.normal(size=tau.shape), sigma)
        task = load_task(robot, [run], arm=arm)
        found = identify_consistent_load(task, [run]).load.consistency
        impossible += not found.holds or found.relative_margin <= 0.0
        margins.append(found.relative_margin)
        if number < FREE:
            free += not identify_load(task, [run]).load.consistency.holds
    return PhysicalLoads(draws, impossible, min(FREE, draws), free, min(margins))


def order_errors(robot: Robot, printed: dict[str, Any], order: Literal["ABBA", "AABB"], *, seeds: int) -> list[float]:
    """Mass errors, kg, of four runs with and without the load, the arm known as in the study and corrected by the data.

    Friction falls from run to run, and so does what an ampere gives.
    """
    loaded = abba() if order == "ABBA" else (False, False, True, True)
    return [abs(_order_error(robot, printed, loaded, seed)) for seed in range(seeds)]


def _order_error(robot: Robot, printed: dict[str, Any], order: tuple[bool, ...], seed: int) -> float:
    rng = np.random.default_rng([seed, 4])
    motors = recipe.warm(rng, recipe.TRUE_MOTORS)
    load, series = recipe.load_body(printed["table2"]["exact"]), recipe.table1(printed)
    runs = []
    for number, on in enumerate(order):
        warmer = replace(
            motors,
            coulomb=motors.coulomb * (1.0 - FRICTION_FALL * number),
            viscous=motors.viscous * (1.0 - 2.0 * FRICTION_FALL * number),
            current_law=motors.current_law * (1.0 - TORQUE_FALL * number),
        )
        carried = recipe.joined(load, FLANGE) if on else FLANGE
        recording = recipe.record(printed, series, warmer, carried, rng, f"run {number + 1}")
        runs.append(replace(recipe.processed(robot, recording), loaded=on, time=float(number)))
    thought = recipe.arm_of(robot, recipe.draw_prior(seed))
    chi = thought.chi.copy()
    chi[50:60] = recipe.parameters(FLANGE)
    task = load_task(robot, runs, arm=Arm(chi, thought.covariance), learn_arm=True)
    return identify_load(task, runs).load.mass - load.mass
