"""Benchmark of estimators beyond least squares: instruments and their test, and closed-loop simulation.

Measured are DIDIM's convergence on a virtual six-axis robot under its servo, and the test's power and the instruments'
bias with noisy encoders.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies.tx40 import (
    SLOW,
    VIRTUAL_DEAD_ZONE,
    VIRTUAL_RATE,
    WHITE,
    Virtual,
    random_moves,
    thin_virtual,
    virtual,
)
from excitor.experiments.virtual import machine as sensors
from excitor.identify.closed_loop import DidimResult, didim, set_up_replay
from excitor.identify.estimate import Estimate
from excitor.identify.instruments import LEVEL
from excitor.identify.methods import Answer, Problem, answer
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import Samples, central
from excitor.identify.schemes import Scheme, at_motion
from excitor.identify.signals import decimate, differentiate
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion
from excitor.robots.simulate import Servo, follow, servo_for, smoothed


def run(full: bool = False) -> Report:
    """Measure; `full` draws all experiments, otherwise a tenth."""
    of_iv, context_iv = measure_instruments(full)
    of_didim, context_didim = measure_didim(full)
    return Report("bench", "estimators", [*of_iv, *of_didim], {"iv": context_iv, "didim": context_didim})


DRAWS, FEW = 50, 5
SECONDS = 8.0
BANDWIDTH_HZ = 10.0
DETUNED = 1.4  # inertias that the controller was tuned on are off by up to this factor
ENCODER_NOISE = 1e-5  # rad
WITHIN = 6  # iterations
LARGE = 0.03  # of true parameters whose relative errors count


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """One virtual experiment."""

    run: Samples
    reference: Motion
    servo: Servo


def measure_didim(full: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Fit draws from a regular start, then with a servo and a start that cannot work."""
    known, n = virtual(), DRAWS if full else FEW
    began = time.process_time()
    with one_blas_thread():
        draws = [draw(known, seed) for seed in range(n)]
        results = [fit(known, each) for each in draws]
        hopeless = hopeless_fits(known, draws[0])
    spent = time.process_time() - began
    good = [result for result in results if result.converged and result.iterations <= WITHIN]
    converged = 100.0 * len(good) / n
    errors = [100.0 * parameter_error(known, r.estimate) for r in results if r.estimate is not None and r.converged]
    told = sum(not result.converged for result in hopeless.values())
    figures = [
        Figure("didim.converged_percent", converged, "%", 95.0, "at least"),
        Figure("didim.iterations", float(median(r.iterations for r in results)), "", float(WITHIN), "at most"),
        Figure("didim.parameter_error_percent", float(median(errors)) if errors else float("inf"), "%"),
        Figure("didim.hopeless_told_percent", 100.0 * told / len(hopeless), "%", 100.0, "equal"),
    ]
    context = {
        "what": (
            f"{n} draws: {SECONDS:g} s of random moves at {VIRTUAL_RATE:g} Hz, servo of {BANDWIDTH_HZ:g} Hz tuned on "
            f"inertias off by up to {DETUNED:g} times, encoder noise {ENCODER_NOISE:g} rad, torque noise white and "
            f"slow; converged counts those that take at most {WITHIN} iterations from inertia alone"
        ),
        "iterations_spread": [min(r.iterations for r in results), max(r.iterations for r in results)],
        "parameter_error_spread_percent": [round(min(errors), 2), round(max(errors), 2)] if errors else [],
        "hopeless": {name: result.sentence for name, result in hopeless.items()},
        "cpu_s_a_draw": round(spent / n, 2),
    }
    return figures, context


def draw(known: Virtual, seed: int) -> Draw:
    """Run the virtual robot under its servo and measure it."""
    rng = np.random.default_rng([seed, 8])
    reference = random_moves(rng, SECONDS, 0)
    tuned = servo_for(known.robot, reference, bandwidth_hz=BANDWIDTH_HZ, chi=known.chi, rate_hz=VIRTUAL_RATE)
    off = DETUNED ** rng.uniform(-1.0, 1.0, known.robot.n_joints)
    servo = Servo(tuned.kp * off, tuned.kd * off, VIRTUAL_RATE)
    seen = rng.normal(scale=ENCODER_NOISE, size=reference.q.shape)
    done = follow(known.robot, reference, servo, chi=known.chi, position_noise=seen)
    if done.diverged:
        raise ExcitorError(f"draw {seed}: the virtual robot got out of control {done.diverged_at:.3g} s into its run")
    tau = sensors.with_noise(done.tau, rng, white=WHITE, slow=SLOW)
    return Draw(Samples("run", _seen(done.motion.q + seen), tau, VIRTUAL_RATE), reference, servo)


def fit(known: Virtual, drawn: Draw, start: FloatArray | None = None) -> DidimResult:
    """Fit the base parameters to one draw."""
    rows = Rows(decimate=thin_virtual, dead_zone=np.full(known.robot.n_joints, VIRTUAL_DEAD_ZONE))
    references = {drawn.run.run: drawn.reference}
    return didim(set_up_replay(known.robot, [drawn.run], drawn.servo, references=references, rows=rows), start=start)


def hopeless_fits(known: Virtual, drawn: Draw) -> dict[str, DidimResult]:
    """Fit with gains that no loop bears, with another run's reference, and from a robot of negative inertia."""
    servo = drawn.servo
    wild = replace(drawn, servo=replace(servo, kp=2000.0 * servo.kp, kd=2000.0 * servo.kd))
    other = replace(drawn, reference=random_moves(np.random.default_rng(999), SECONDS, 0))
    return {"gains": fit(known, wild), "reference": fit(known, other), "start": fit(known, drawn, -known.chi)}


def parameter_error(known: Virtual, estimate: Estimate) -> float:
    """Average the relative errors of the declared parameters that are not small."""
    declared = known.T @ estimate.values
    large = np.abs(known.truth) > LARGE
    return float(np.mean(np.abs(declared - known.truth)[large] / np.abs(known.truth)[large]))


def _seen(q: FloatArray) -> Motion:
    dq = differentiate(q, sample_rate_hz=VIRTUAL_RATE)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=VIRTUAL_RATE))


IV_DRAWS, IV_FEW = 100, 10
IV_SECONDS = 3.0
IV_BANDWIDTH_HZ = 8.0
BITS = 11  # of a coarse resolver, a motor turn
TORQUE_NOISE = 0.2  # of the published cases': what current sensors leave, without what those count as model errors
CLEAN = 1e-3  # of that noise, where least squares have nothing to fear


@dataclass(frozen=True)
class Drawn:
    """Result of one experiment."""

    p_value: float
    iv_inside: float  # share of parameters whose 95 % interval holds the truth
    ols_inside: float
    iv_bias: FloatArray  # (n_base,): errors in standard deviations of the interval
    ols_bias: FloatArray
    F: float


def measure_instruments(full: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Test and estimate in as many experiments with noisy encoders as with clean ones."""
    known, n = virtual(), IV_DRAWS if full else IV_FEW
    began = time.process_time()
    with one_blas_thread():
        noisy = [experiment(known, seed, 1.0) for seed in range(n)]
        clean = [experiment(known, seed, CLEAN) for seed in range(n)]
    spent = time.process_time() - began
    return figures_of(noisy, clean), {
        "what": (
            f"{n} draws each of noisy and clean encoders: {IV_SECONDS:g} s of random moves, "
            f"servo of {IV_BANDWIDTH_HZ:g} Hz"
        ),
        "noise": (
            f"quantisation of {BITS} bits a motor turn through the gears, as white noise of "
            f"{', '.join(f'{1e6 * s:.2g}' for s in encoder_noise(known))} µrad at the joints; clean is {CLEAN:g} of it"
        ),
        "torque_noise": f"{TORQUE_NOISE:g} of the published cases', white and slow",
        "processing": "central differences of positions, no low-pass, thinned from 1 kHz to 500 Hz",
        "why": (
            "a coarse resolver, differenced without a filter, is as bad as a controller's log may be; with finer "
            "encoders or more filtering least squares' intervals hold the truth as well"
        ),
        "strength_F_least": round(min(each.F for each in noisy), 1),
        "cpu_s_a_draw": round(spent / (2 * n), 2),
    }


def figures_of(noisy: Sequence[Drawn], clean: Sequence[Drawn]) -> list[Figure]:
    """Count alarms, and intervals that contain the truth."""
    mean_iv = np.abs(np.mean([each.iv_bias for each in noisy], axis=0))
    mean_ols = np.abs(np.mean([each.ols_bias for each in noisy], axis=0))
    return [
        Figure("iv.power", float(np.mean([d.p_value < LEVEL for d in noisy])), "", 0.9, "at least"),
        Figure("iv.false_alarms", float(np.mean([d.p_value < LEVEL for d in clean])), "", 0.1, "at most"),
        Figure("iv.covered", float(np.mean([d.iv_inside for d in noisy])), "", 0.9, "at least"),
        Figure("iv.covered_ols", float(np.mean([d.ols_inside for d in noisy]))),
        Figure("iv.covered_clean", float(np.mean([d.iv_inside for d in clean]))),
        Figure("iv.bias_sigma", float(median(mean_iv)), "deviations"),
        Figure("iv.bias_sigma_ols", float(median(mean_ols)), "deviations"),
    ]


def experiment(known: Virtual, seed: int, noise: float) -> Drawn:
    """Run the robot, fit least squares and instruments, and compare with the truth."""
    problem = draw_noisy(known, seed, noise)
    ols, iv = answer("wls", problem), answer("iv", problem)
    if ols.estimate is None or iv.estimate is None:
        raise ExcitorError(f"draw {seed}: refused: {ols.refused or iv.refused}")
    truth = base_parameters(known.robot).values(known.chi)
    return Drawn(
        iv.evidence["dwh_p"],
        inside(iv, truth),
        inside(ols, truth),
        errors(iv, truth),
        errors(ols, truth),
        iv.evidence["strength_F"],
    )


def draw_noisy(known: Virtual, seed: int, noise: float) -> Problem:
    """Run the virtual robot under its servo, which reads noisy encoders, and process the recorded signals."""
    rng = np.random.default_rng([seed, 11])
    reference, servo = motion_of(known, rng)
    seen = rng.normal(size=reference.q.shape) * noise * encoder_noise(known)
    done = follow(known.robot, reference, servo, chi=known.chi, position_noise=seen)
    if done.diverged:
        raise ExcitorError(f"draw {seed}: the virtual robot got out of control {done.diverged_at:.3g} s into its run")
    tau = sensors.with_noise(done.tau, rng, white=TORQUE_NOISE * WHITE, slow=TORQUE_NOISE * SLOW)
    run, later = at_motion(central("run", done.motion.q + seen, tau, VIRTUAL_RATE), Scheme("dynamic", hold="first"))
    robot = smoothed(known.robot)  # friction turns in the equations as it does in the robot
    rows = Rows(decimate=thin, dead_zone=np.full(robot.n_joints, VIRTUAL_DEAD_ZONE))
    first = 1 + later  # the ends have no differences
    told = Motion(reference.q[first:], reference.dq[first:], reference.ddq[first:])
    regression = dynamic_regression(robot, [run], rows=rows)
    return Problem(robot, [run], rows, regression, servo, {run.run: told})


def motion_of(known: Virtual, rng: np.random.Generator) -> tuple[Motion, Servo]:
    """Draw random moves, and tune a servo on them."""
    reference = random_moves(rng, IV_SECONDS, 0)
    return reference, servo_for(
        known.robot, reference, bandwidth_hz=IV_BANDWIDTH_HZ, chi=known.chi, rate_hz=VIRTUAL_RATE
    )


def encoder_noise(known: Virtual) -> FloatArray:
    """Find the standard deviation of a step's rounding, seen at the joints, (n_joints,)."""
    step = 2.0 * np.pi / 2**BITS
    return np.asarray(step / np.sqrt(12.0) * np.linalg.norm(np.linalg.inv(known.robot.drive.motor_from_joint), axis=1))


def inside(told: Answer, truth: FloatArray) -> float:
    """Compute the share of parameters whose interval contains the truth."""
    assert told.intervals is not None
    return float(np.mean((told.intervals.low <= truth) & (truth <= told.intervals.high)))


def errors(told: Answer, truth: FloatArray) -> FloatArray:
    """Errors over the standard deviations of their intervals, (n_base,)."""
    assert told.intervals is not None
    return np.asarray((told.intervals.values - truth) / told.intervals.sigma)


def thin(x: FloatArray) -> FloatArray:
    """Thin from VIRTUAL_RATE to 500 Hz."""
    flat = x.reshape(len(x), -1)
    thinned = decimate(flat, 2)
    return thinned.reshape(len(thinned), *x.shape[1:])
