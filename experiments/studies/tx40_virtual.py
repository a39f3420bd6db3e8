"""Cases 1 to 4 of [Gautier2013] on a virtual TX-40: dynamic and power model, one trajectory and the locked-joint set.

The recording of the real robot has no phase with locked joints, so what the locked set cures is shown by simulation:
a known truth, quintic moves between random targets, white and slowly varying torque noise.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from excitor.experiments.virtual import measure
from excitor.identify.estimate import Estimate, compress
from excitor.identify.reduce import essential
from excitor.identify.regression import Regression, Rows, combine, dynamic_regression, power_regression
from excitor.identify.samples import Samples
from excitor.identify.signals import decimate, differentiate, lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load, robot_from_data, robot_text
from excitor.robots.robot import Motion, Robot

# Base parameters of the truth, as the paper declares them; the others are 0.
TRUTH = {
    "ZZ1R": 1.277, "XX2R": -0.489, "XY2": 0.005, "XZ2R": -0.162, "ZZ2R": 1.073, "MX2R": 2.173, "MY2": 0.1,
    "XX3R": 0.096, "ZZ3R": 0.128, "MY3R": -0.592, "XX4R": 0.01, "ZZ4R": 0.012, "MX4": -0.02, "XX5R": 0.004,
    "ZZ5R": 0.003, "MY5R": -0.034, "ZZ6": 0.001, "Ia3": 0.0816, "Ia4": 0.0336, "Ia5": 0.0501, "Ia6": 0.0116,
    "Fv1": 8.0, "Fv2": 5.5, "Fv3": 1.98, "Fv4": 1.105, "Fv5": 1.846, "Fv6": 0.664, "Fs1": 7.31, "Fs2": 8.24,
    "Fs3": 6.32, "Fs4": 2.52, "Fs5": 3.035, "Fs6": 0.25, "off1": 0.4, "off2": 1.4, "off3": 0.3, "off4": -0.1,
    "off6": 0.13, "Fvm6": 0.608, "Fsm6": 1.95, "Iam6": 0.0116,
}  # fmt: skip

RATE = 1000.0
BOX_DEG = 0.9 * np.array([[-100, 120], [-4, 110], [-135, 30], [-240, 80], [-90, 108], [-200, 200]])
SPEED = 0.85 * np.array([5.0, 5.0, 7.0, 7.2, 5.6, 11.6])
WHITE = np.array([6.0, 6.0, 4.0, 1.5, 2.0, 1.2])
SLOW = np.array([1.3, 1.3, 0.9, 0.42, 0.6, 0.42])
POSITION_NOISE = 2e-6
DEAD_ZONE = 0.03
RATIO = 20.0


@dataclass(frozen=True)
class CaseResult:
    """One case in one realisation: torque error on the test run, mean relative parameter error, parameters kept."""

    torque_error: float
    parameter_error: float
    kept: int


def virtual_robot() -> Robot:
    """Load the TX-40 with its coupling inertia untied from the rotor, as the published processing estimates it."""
    data = tomllib.loads(robot_text("tx40"))
    data["drive"]["rotor"] = [{"parameter": "Iaw", "senses": {"j6": 1}}]
    declared = data["declared_base"]["parameters"]
    declared |= {"Ia6": "Ia6 + Iaw", "Iam6": "Ia6"}
    return robot_from_data(data, "tx40 with a free wrist coupling")


@dataclass(frozen=True)
class Fitted:
    """The four cases' estimates of one realisation, and the run that they are tested on."""

    estimates: Mapping[int, Estimate]
    unseen: Regression
    truth: FloatArray


@dataclass(frozen=True)
class Virtual:
    """The virtual robot with its true parameters, and how they are written in the declared ones: truth = T β."""

    robot: Robot
    chi: FloatArray
    T: FloatArray
    names: tuple[str, ...]
    truth: FloatArray


def virtual() -> Virtual:
    """Set up the virtual robot and its truth."""
    robot = virtual_robot()
    base = base_parameters(robot)
    T = declared_transform(robot, base)
    names = declared_names(robot)
    truth = np.array([TRUTH.get(name, 0.0) for name in names])
    return Virtual(robot, base.standard(np.linalg.solve(T, truth)), T, names, truth)


def realise(seed: int) -> dict[int, CaseResult]:
    """Simulate one realisation of all four cases and judge them on a run that none has seen."""
    fitted = fit_cases(seed)
    return {case: judge(estimate, fitted.unseen, fitted.truth) for case, estimate in fitted.estimates.items()}


def fit_cases(seed: int) -> Fitted:
    """Simulate one realisation and fit: 1, 2 the dynamic, 3, 4 the power model; single run, locked-joint set."""
    known = virtual()
    rng = np.random.default_rng(seed)
    single = [_run(known.robot, known.chi, "single", rng, seconds=12.0, locked=0)]
    sequence = [_run(known.robot, known.chi, f"{k} locked", rng, seconds=8.0, locked=k) for k in range(6)]
    test = [_run(known.robot, known.chi, "test", rng, seconds=8.0, locked=0)]
    estimates = {}
    for case, runs in ((1, single), (2, sequence)):
        estimates[case] = fit_essential(known, dynamic_regression, runs)
        estimates[case + 2] = fit_essential(known, power_regression, runs)
    return Fitted(estimates, equations(known, dynamic_regression, test), known.truth)


def equations(known: Virtual, model: Callable[..., Regression], runs: list[Samples]) -> Regression:
    """Set up the equations of runs in the declared parameters."""
    rows = Rows(decimate=thin, dead_zone=np.full(6, DEAD_ZONE))
    return combine(model(known.robot, runs, rows=rows), known.T, known.names, [""] * len(known.names))


def fit_essential(known: Virtual, model: Callable[..., Regression], runs: list[Samples]) -> Estimate:
    """Fit the essential parameters to runs."""
    return essential(compress(equations(known, model, runs)), ratio=RATIO, by="joint and run").estimate


def virtual_regression(seed: int) -> Regression:
    """Set up the dynamic model of one simulated single trajectory, of about the size of the recording's."""
    robot = load("tx40")
    base = base_parameters(robot)
    truth = np.array([TRUTH.get(name, 0.0) for name in declared_names(robot)])
    chi = base.standard(np.linalg.solve(declared_transform(robot, base), truth))
    rows = Rows(decimate=thin, dead_zone=np.full(6, DEAD_ZONE))
    run = _run(robot, chi, "single", np.random.default_rng(seed), seconds=9.0, locked=0)
    return dynamic_regression(robot, [run], rows=rows)


def declared_names(robot: Robot) -> tuple[str, ...]:
    """Name the parameters that the paper declares."""
    assert robot.declared_base is not None
    return robot.declared_base.names


def judge(estimate: Estimate, unseen: Regression, truth: FloatArray) -> CaseResult:
    """Compare an estimate with the truth, and its torques with those of a run that it has not seen."""
    columns = [unseen.names.index(name) for name in estimate.names]
    residual = unseen.y - unseen.W[:, columns] @ estimate.values
    large = np.abs(truth[columns]) > 0.03
    errors = np.abs(estimate.values - truth[columns])[large] / np.abs(truth[columns])[large]
    return CaseResult(
        float(np.linalg.norm(residual) / np.linalg.norm(unseen.y)), float(errors.mean()), len(estimate.names)
    )


def _run(robot: Robot, chi: FloatArray, name: str, rng: np.random.Generator, *, seconds: float, locked: int) -> Samples:
    """Simulate, measure and process one run with joints 1 to `locked` held at mid range."""
    return measured(robot, chi, name, rng, motion=random_moves(rng, seconds, locked))


def measured(robot: Robot, chi: FloatArray, name: str, rng: np.random.Generator, *, motion: Motion) -> Samples:
    """Measure a motion sampled at RATE, with noise on torques and positions, and process it."""
    tau = measure.with_noise(inverse_dynamics(robot, motion, chi), rng, white=WHITE, slow=SLOW)
    noisy = motion.q + rng.normal(scale=POSITION_NOISE, size=motion.q.shape)
    seen = differentiated(lowpass(noisy, sample_rate_hz=RATE, cutoff_hz=60.0, true_cutoff=False))
    cut = slice(100, -100)
    return Samples(name, Motion(seen.q[cut], seen.dq[cut], seen.ddq[cut]), tau[cut], RATE)


def random_moves(rng: np.random.Generator, seconds: float, locked: int) -> Motion:
    """Smooth quintic moves to random targets, as an interpolator would."""
    q = quintic_moves(rng, seconds, locked)
    return differentiated(lowpass(q, sample_rate_hz=RATE, cutoff_hz=25.0, order=2, true_cutoff=False))


def quintic_moves(rng: np.random.Generator, seconds: float, locked: int) -> FloatArray:
    """Let each moving joint make quintic moves of its own to random targets, (n_samples, 6)."""
    n = int(seconds * RATE)
    q = np.tile(np.radians(BOX_DEG.mean(axis=1)), (n, 1))
    for j in range(locked, 6):
        low, high = np.radians(BOX_DEG[j])
        at, position = 0, float(rng.uniform(low, high))
        while at < n:
            target = float(rng.uniform(low, high))
            duration = max(0.25, 1.875 * abs(target - position) / SPEED[j] * float(rng.uniform(1.0, 1.6)))
            s = np.arange(int(duration * RATE)) / (duration * RATE)
            move = position + (target - position) * (10 * s**3 - 15 * s**4 + 6 * s**5)
            fits = min(len(move), n - at)
            q[at : at + fits, j] = move[:fits]
            at, position = at + fits, target
    return q


def differentiated(q: FloatArray) -> Motion:
    """Differentiate positions twice."""
    dq = differentiate(q, sample_rate_hz=RATE)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=RATE))


def thin(x: FloatArray) -> FloatArray:
    """Decimate from RATE to 50 Hz, in stages of 5 and 4."""
    flat = x.reshape(len(x), -1)
    thinned = decimate(flat, (5, 4))
    return thinned.reshape(len(thinned), *x.shape[1:])
