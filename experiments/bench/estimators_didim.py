"""Does DIDIM converge, how fast, and does it say so when it does not? On a virtual six-axis robot under its servo.

Truth: the TX-40 of the published cases. The controller reads encoders with noise and was tuned on inertias that are
not the robot's; torques are measured with noise, white and slow. The start has inertia and nothing else.
"""

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure
from excitor.experiments.studies.tx40 import (
    DEAD_ZONE_TX40_VIRTUAL as DEAD_ZONE,
)
from excitor.experiments.studies.tx40 import (
    RATE_TX40_VIRTUAL as RATE,
)
from excitor.experiments.studies.tx40 import (
    SLOW,
    WHITE,
    Virtual,
    random_moves,
    virtual,
)
from excitor.experiments.studies.tx40 import (
    thin_tx40_virtual as thin,
)
from excitor.experiments.virtual import machine as sensors
from excitor.identify.closed_loop import DidimResult, didim
from excitor.identify.estimate import Estimate
from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion
from excitor.robots.simulate import Servo, follow, servo_for

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


def measure(full: bool) -> tuple[list[Figure], dict[str, Any]]:
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
            f"{n} draws: {SECONDS:g} s of random moves at {RATE:g} Hz, servo of {BANDWIDTH_HZ:g} Hz tuned on inertias "
            f"off by up to {DETUNED:g} times, encoder noise {ENCODER_NOISE:g} rad, torque noise white and slow; "
            f"converged counts those that take at most {WITHIN} iterations from inertia alone"
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
    tuned = servo_for(known.robot, reference, bandwidth_hz=BANDWIDTH_HZ, chi=known.chi, rate_hz=RATE)
    off = DETUNED ** rng.uniform(-1.0, 1.0, known.robot.n_joints)
    servo = Servo(tuned.kp * off, tuned.kd * off, RATE)
    seen = rng.normal(scale=ENCODER_NOISE, size=reference.q.shape)
    done = follow(known.robot, reference, servo, chi=known.chi, seen_noise=seen)
    if done.diverged:
        raise ExcitorError(f"draw {seed}: the virtual robot got out of control {done.diverged_at:.3g} s into its run")
    tau = sensors.with_noise(done.tau, rng, white=WHITE, slow=SLOW)
    return Draw(Samples("run", _seen(done.motion.q + seen), tau, RATE), reference, servo)


def fit(known: Virtual, drawn: Draw, start: FloatArray | None = None) -> DidimResult:
    """Fit the base parameters to one draw."""
    rows = Rows(decimate=thin, dead_zone=np.full(known.robot.n_joints, DEAD_ZONE))
    references = {drawn.run.run: drawn.reference}
    return didim(known.robot, [drawn.run], drawn.servo, references=references, start=start, rows=rows)


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
    dq = differentiate(q, sample_rate_hz=RATE)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=RATE))
