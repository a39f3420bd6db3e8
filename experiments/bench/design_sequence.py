"""The power model's locked-joint sequence on a virtual TX-40: designed, against random moves and a single run.

Truth, noise, processing and the undesigned cases are those of the study ([Gautier2013], cases 1 to 4 by simulation).
Criterion and periods were chosen on seeds from 100 on, which no figure uses: the expected torque error of the power
model on a task path, its rows weighted by their noise. Geometric means of the held-out torque error and of the
parameter error there, six runs of 8 s: 0.069, 0.097; expected relative σ 0.073, 0.100; both 0.070, 0.101; the dynamic
model's torque error 0.069, 0.101 and relative σ 0.069, 0.119; condition of the weighted power model 0.098, 0.136;
random moves 0.074, 0.106. Longer all-joint runs and shorter wrist runs make 0.067, 0.102 of the first.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, PowerModel
from excitor.design.motion import Excitation, Trajectory, executed_motion, period_grid, steady
from excitor.design.problem import build_problem, trajectory
from excitor.design.schedule import EarlierRun, earlier_gram, locked_sequence
from excitor.design.search import Budget, solve
from excitor.experiments.figures import Figure
from excitor.experiments.studies import tx40 as study
from excitor.experiments.studies.tx40 import CaseResult, Virtual
from excitor.experiments.virtual.machine import with_noise
from excitor.identify.regression import dynamic_regression, power_regression
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.robot import Limits, Motion, Robot

REALISATIONS, FEW = 30, 10  # in full, and otherwise; of ten, the single run's median still moves by a fifth
EVALUATIONS, FEWER = 4000, 4000  # for the design of one run
PERIODS = (12.0, 12.0, 8.0, 8.0, 4.0, 4.0)  # s, each measured once: 48 s, as the undesigned six runs of 8 s
HIGHEST_HZ = 1.625  # where speed and acceleration limits meet
RAMP = 1.0
ROWS_HZ = 50.0
ACCELERATION = np.array([45.0, 45.0, 65.0, 57.0, 44.0, 95.0])  # rad/s², what the undesigned moves reach
TASK_SEED = 99_999


@dataclass(frozen=True, eq=False, slots=True)
class Designed:
    """The designed runs, and what the criterion said after each."""

    runs: list[Trajectory]
    values: list[float]
    cpu_s: float


@one_blas_thread()
def measure(full: bool = False) -> dict[str, Any]:
    """Design the sequence, run it on the virtual robot and compare, each figure a median over seeds from 0."""
    known = study.virtual()
    designed = design_sequence(known.robot, EVALUATIONS if full else FEWER)
    seeds = range(REALISATIONS if full else FEW)
    results = [realise(known, designed.runs, seed) for seed in seeds]
    middle = {case: [median(getattr(r[case], f) for r in results) for f in ("torque_error", "parameter_error")]
              for case in results[0]}  # fmt: skip
    torque, parameters = middle["power, designed sequence"]
    random_torque, random_parameters = middle["power, undesigned sequence"]
    return {
        "figures": [
            Figure(
                "design.sequence.torque_ratio", torque / middle["dynamic, designed sequence"][0], "", 1.2, "at most"
            ),
            Figure("design.sequence.parameter_ratio", _parameter_ratio(results), "", 0.5, "at most"),
            Figure("design.sequence.torque_error", torque, "held out"),
            Figure("design.sequence.parameter_error", parameters),
            Figure("design.sequence.beats_undesigned", random_torque / torque, "times"),
            Figure("design.sequence.beats_undesigned_parameters", random_parameters / parameters, "times"),
        ],
        "context": {
            "what": f"virtual TX-40, medians of {len(seeds)} realisations; six runs of {sum(PERIODS):g} s",
            "parameter_ratio_by_tens": [_parameter_ratio(results[k : k + 10]) for k in range(0, len(results), 10)],
            "cases": {case: _spread([r[case] for r in results]) for case in middle},
            "criterion_after_each_run": designed.values,
            "share_of_limits_used": share_of_limits(known.robot, designed.runs),
            "design_cpu_s": designed.cpu_s,
        },
    }


def design_sequence(robot: Robot, evaluations: int) -> Designed:
    """Design one run after another, each for what those before it leave uncertain; locked joints' poses are chosen too.

    Speeds, positions and accelerations keep to those of the undesigned moves, torques to the robot's limits.
    """
    start = time.process_time()
    columns = base_parameters(robot).kept
    model = PowerModel(robot, columns, row_sigma(robot.n_joints))
    criterion = Criterion("path", task=task(robot))
    constraints = Constraints(moves_limits(robot), np.full(robot.n_joints, np.inf))
    runs: list[EarlierRun] = []
    values = []
    plans = [run for run in locked_sequence(robot) if run.role == "identify"]
    for period, plan in zip(PERIODS, plans, strict=True):
        harmonics = tuple(range(1, round(HIGHEST_HZ * period) + 1))
        excitation = Excitation(period, 1.0 / study.RATE_TX40_VIRTUAL, harmonics, plan.moving, ramp=RAMP)
        n_samples = max(192, 24 * harmonics[-1])
        problem = build_problem(
            robot,
            excitation,
            constraints=constraints,
            criterion=criterion,
            model=model,
            earlier=earlier_gram(columns, runs),
            share=period * ROWS_HZ / n_samples,
            n_samples=n_samples,
        )
        found = solve(problem, Budget(evaluations=evaluations), seed=plan.seed_offset)
        assert found.feasible, f"no feasible motion for {plan.name}"
        runs.append(EarlierRun(model, trajectory(problem, found.candidates), period * ROWS_HZ))
        values.append(float(found.value[0]))
    return Designed([run.trajectory for run in runs], values, time.process_time() - start)


def moves_limits(robot: Robot) -> Limits:
    """Collect where and how fast the undesigned moves go; torques are the robot's own limits."""
    no_jerk = np.full(robot.n_joints, np.inf)
    return Limits(np.radians(study.BOX_DEG), study.SPEED, ACCELERATION, no_jerk, robot.limits.torque)


def share_of_limits(robot: Robot, runs: list[Trajectory]) -> dict[str, float]:
    """Find the largest share of each limit in the whole runs, ramps included, at the controller's rate."""
    limits = moves_limits(robot)
    used: dict[str, list[float]] = {"position": [], "velocity": [], "acceleration": [], "torque": []}
    for run in runs:
        motion = executed_motion(run, np.arange(0.0, run.excitation.duration, run.excitation.sample_time))
        middle, half = limits.position.mean(axis=1), 0.5 * np.ptp(limits.position, axis=1)
        used["position"].append(float((np.abs(motion.q - middle) / half).max()))
        used["velocity"].append(float((np.abs(motion.dq) / limits.velocity).max()))
        used["acceleration"].append(float((np.abs(motion.ddq) / limits.acceleration).max()))
        used["torque"].append(float((np.abs(inverse_dynamics(robot, motion)) / limits.torque).max()))
    return {name: max(shares) for name, shares in used.items()}


def task(robot: Robot) -> FloatArray:
    """Form the mean WᵀW of a task path: random moves like the test run's, which no run repeats."""
    motion = study.random_moves(np.random.default_rng(TASK_SEED), 20.0, 0)
    motion = Motion(*(x[::20] for x in (motion.q, motion.dq, motion.ddq)))
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept]
    return np.asarray(np.einsum("kic,kid->cd", W, W) / len(motion))


def row_sigma(n_joints: int) -> FloatArray:
    """Measure the standard deviation of the torque noise that processing leaves, (n_joints,)."""
    rng = np.random.default_rng(TASK_SEED)
    noise = with_noise(np.zeros((60_000, n_joints)), rng, white=study.WHITE, slow=study.SLOW)
    return np.asarray(study.thin_tx40_virtual(noise).std(axis=0))


def realise(known: Virtual, runs: list[Trajectory], seed: int) -> dict[str, CaseResult]:
    """Measure the undesigned runs, the designed ones and a test run once, and fit both models."""
    fitted = study.fit_cases(seed)
    rng = np.random.default_rng([seed, 1])
    logs = []
    for k, run in enumerate(runs):
        motion = steady(run, period_grid(run.excitation, round(run.excitation.period * study.RATE_TX40_VIRTUAL)))
        logs.append(study.measured(known.robot, known.chi, f"run {k}", rng, motion=motion))
    cases = {1: "dynamic, single run", 2: "dynamic, undesigned sequence"}
    cases |= {3: "power, single run", 4: "power, undesigned sequence"}
    estimates = {cases[case]: estimate for case, estimate in fitted.estimates.items()}
    estimates["dynamic, designed sequence"] = study.fit_essential(known, dynamic_regression, logs)
    estimates["power, designed sequence"] = study.fit_essential(known, power_regression, logs)
    return {case: study.judge(estimate, fitted.unseen, fitted.truth) for case, estimate in estimates.items()}


def _parameter_ratio(results: list[dict[str, CaseResult]]) -> float:
    designed, single = (
        median(result[f"power, {case}"].parameter_error for result in results)
        for case in ("designed sequence", "single run")
    )
    return designed / single


def _spread(results: list[CaseResult]) -> dict[str, list[float]]:
    """Least, median and largest of errors, and of how many parameters were kept."""
    fields = ("torque_error", "parameter_error", "kept")
    values = {field: sorted(getattr(result, field) for result in results) for field in fields}
    return {field: [found[0], median(found), found[-1]] for field, found in values.items()}
