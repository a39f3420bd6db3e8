"""Which controller and which reference do methods simulate that need them? A stiff one: no campaign states its own.

What a robot was told is known where its program was planned; elsewhere the measured motion stands in for it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Alignment
from excitor.identify.closed_loop import set_up_replay, simulate_runs
from excitor.identify.methods import Problem, affordable_sensitivity
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import Servo, servo_for

BANDWIDTH_HZ = 20.0
RATE_HZ = 1000.0  # at least
PROBED_S = 0.5  # s of a run that are simulated to tell what all would take
PASSES = {"iv": 4, "didim": 10, "input-error": 10}  # how often methods simulate all runs
ITERATIONS = 4  # that input error needs at least where each parameter asks for a simulation in each of them
ASSUMED = (
    f"no campaign tells the robot's controller, so one of {BANDWIDTH_HZ:g} Hz was assumed, which is fed "
    "forward the torques of a model"
)


def assumed_servo(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> Servo | None:
    """Assume a stiff controller that knows a model, a whole multiple as fast as the logs; None where that cannot be."""
    moving = [run for run in runs if not run.static]
    rates = {run.sample_rate_hz for run in moving}
    if len(rates) != 1 or not positive(robot, moving, chi):
        return None
    rate = rates.pop()
    fast = rate * max(1, int(np.ceil(RATE_HZ / rate - 1e-9)))
    servo = servo_for(robot, moving[0].motion, bandwidth_hz=BANDWIDTH_HZ, chi=chi, rate_hz=fast)
    return Servo(servo.kp, servo.kd, fast, feedforward=chi, inertia=servo.inertia)


def positive(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> bool:
    """Tell whether the mass matrix of a model is positive definite along runs: gains are tuned on it."""
    q = np.concatenate([run.motion.q[:: max(1, len(run) // 200)] for run in runs])
    return bool(np.linalg.eigvalsh(mass_matrix(robot, q, chi)).min() > 0.0)


def planned_references(
    alignments: Mapping[str, Alignment], runs: Sequence[Samples], rate_hz: float | None
) -> Mapping[str, Motion] | None:
    """Say what runs of planned series were told, at a servo's rate or their own; None where no run was planned."""
    found = {}
    for run in runs:
        alignment = alignments.get(run.run)
        if alignment is None or run.static or not isinstance(alignment.expected.body, Trajectory):
            continue
        excitation = alignment.expected.body.excitation
        first = alignment.expected.steady_span[0] + excitation.warm_up * excitation.period
        stride = 1 if rate_hz is None else round(rate_hz / run.sample_rate_hz)
        n = stride * len(run)
        t = first + excitation.period * np.arange(n) / n
        found[run.run] = Motion(*(alignment.expected.planned(t, order) for order in range(3)))
    return found or None


def seconds_of(method: str, problem: Problem) -> float:
    """Estimate what a method that simulates will take, CPU s; 0 if unknown."""
    moving = [run for run in problem.runs if not run.static]
    if problem.servo is None or not moving:
        return 0.0
    run = beginning(moving[0], PROBED_S)
    try:
        replay = set_up_replay(problem.robot, [run], problem.servo)
    except ExcitorError:
        return 0.0
    chi = problem.servo.feedforward
    assert chi is not None
    simulate_runs(replay, chi, problem.servo)  # compiled
    begun = time.process_time()
    simulate_runs(replay, chi, problem.servo)
    taken = time.process_time() - begun
    samples = sum(len(entry) for entry in moving)
    passes = PASSES[method]
    if method == "input-error" and affordable_sensitivity(problem, problem.servo) == "simulated":
        passes = (len(problem.regression.names) + 1) * ITERATIONS
    return taken * samples / len(run) * passes


def beginning(run: Samples, seconds: float) -> Samples:
    """Take the first seconds of a run."""
    n = max(3, int(seconds * run.sample_rate_hz))
    if len(run) <= n:
        return run
    motion = Motion(run.motion.q[:n], run.motion.dq[:n], run.motion.ddq[:n])
    variance = None if run.variance is None else run.variance[:n]
    return replace(run, motion=motion, tau=run.tau[:n], variance=variance, noise=None)
