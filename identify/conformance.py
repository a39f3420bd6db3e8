"""What every estimator must fulfil, built in or from elsewhere: one suite on a small robot with a known truth."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from excitor.identify.methods import Answer, Method, Problem
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import robot_from_data
from excitor.robots.robot import Motion, Robot

_RATE_HZ = 100.0
_NOISE = 0.02  # of each joint's rms torque
_WORST = 0.25  # relative torque error of an estimate on noise-free torques of the same motion
_ARM = {
    "name": "two-joint arm",
    "lengths": {"L2": 0.4},
    "joint": [
        {"name": "shoulder", "mdh": {"alpha_deg": 90, "d": 0, "theta_deg": 0, "r": 0}},
        {"name": "elbow", "mdh": {"alpha_deg": 0, "d": "L2", "theta_deg": 0, "r": 0}},
    ],
    "friction": {"terms": ["viscous", "coulomb"], "sign_width": 0},
    "parameters": (
        {"XX1": 0.1, "YY1": 0.6, "ZZ1": 0.6, "MX1": 1.2, "MY1": 0.1, "M1": 6.0, "Fv1": 1.5, "Fc1": 2.0}
        | {"XX2": 0.05, "YY2": 0.14, "ZZ2": 0.14, "MX2": 0.4, "MY2": 0.05, "M2": 2.0, "Fv2": 0.4, "Fc2": 0.8}
    ),
}


def check_estimator(method: Method, *, may_refuse: bool = False) -> None:
    """Check what an estimator must fulfil; ExcitorError lists everything that it does not.

    It has a name and a title. On a small problem it answers under its own name, twice alike, with finite values of
    the regression's parameters, a covariance that is symmetric and positive semidefinite, intervals around the values,
    and torques near the true ones. With `may_refuse`, as for methods that need a controller, it may refuse instead.
    """
    problems = list(_named(method))
    if not problems:
        problem, truth = conformance_problem()
        first, second = _answered(method, problem), _answered(method, problem)
        problems = list(_problems(first, method.name, problem, truth, may_refuse)) or list(_repeated(first, second))
    if problems:
        raise ExcitorError(f"estimator {getattr(method, 'name', method)!r}: {'; '.join(problems)}")


@cache
def conformance_problem() -> tuple[Problem, FloatArray]:
    """Simulate a two-joint arm with a known truth: the problem, and the noise-free torque of its equations."""
    robot = robot_from_data(_ARM, "two-joint arm")
    motion = _motion(robot)
    clean = inverse_dynamics(robot, motion)
    rng = np.random.default_rng(0)
    tau = clean + _NOISE * np.sqrt(np.mean(clean**2, axis=0)) * rng.normal(size=clean.shape)
    run = Samples("conformance", motion, tau, _RATE_HZ)
    regression = dynamic_regression(robot, [run])
    truth = dynamic_regression(robot, [Samples("truth", motion, clean, _RATE_HZ)]).y
    return Problem(robot, (run,), Rows(), regression), truth


def _motion(robot: Robot) -> Motion:
    t = np.arange(800) / _RATE_HZ
    omega = 2.0 * np.pi / 8.0
    q, dq, ddq = np.zeros((3, t.size, robot.n_joints))
    rng = np.random.default_rng(1)
    for j in range(robot.n_joints):
        for k in range(1, 5):
            a, phase = rng.uniform(0.2, 0.5) / k, rng.uniform(0.0, 2.0 * np.pi)
            q[:, j] += a * np.sin(k * omega * t + phase)
            dq[:, j] += a * k * omega * np.cos(k * omega * t + phase)
            ddq[:, j] -= a * (k * omega) ** 2 * np.sin(k * omega * t + phase)
    return Motion(q, dq, ddq)


def _named(method: Method) -> Iterator[str]:
    for key in ("name", "title"):
        value = getattr(method, key, None)
        if not isinstance(value, str) or not value.strip():
            yield f"its {key} is {value!r}, expected a text"
    if not callable(getattr(method, "fit", None)):
        yield "it has no fit(problem) to call"


def _answered(method: Method, problem: Problem) -> Answer:
    try:
        found = method.fit(problem)
    except (ExcitorError, ValueError, np.linalg.LinAlgError) as error:
        return Answer(method.name, None, None, refused=str(error))
    except Exception as error:
        raise ExcitorError(
            f"estimator {method.name!r}: raises {type(error).__name__} ({error}); raise ExcitorError to refuse"
        ) from error
    if not isinstance(found, Answer):
        raise ExcitorError(f"estimator {method.name!r}: fit gives {type(found).__name__}, expected an Answer")
    return found


def _problems(found: Answer, name: str, problem: Problem, truth: FloatArray, may_refuse: bool) -> Iterator[str]:
    if found.method != name:
        yield f"answers under the name {found.method!r}"
    estimate, intervals = found.estimate, found.intervals
    if estimate is None or intervals is None:
        if not found.refused.strip():
            yield "gives neither an estimate with intervals nor a reason for refusing"
        elif not may_refuse:
            yield f"refuses a problem that has an answer: {found.refused}"
        return
    n = len(problem.regression.names)
    unknown = set(estimate.names) - set(problem.regression.names)
    if unknown:
        yield f"estimates {', '.join(sorted(unknown))}, which are no parameters of the problem"
        return
    if not (np.isfinite(estimate.values).all() and np.isfinite(estimate.covariance).all()):
        yield "its values or covariance are not finite"
        return
    largest = float(np.abs(estimate.covariance).max())
    if not np.allclose(estimate.covariance, estimate.covariance.T, atol=1e-9 * largest, rtol=1e-6):
        yield "its covariance is not symmetric"
    elif np.linalg.eigvalsh(estimate.covariance).min() < -1e-9 * largest * n:
        yield "its covariance has a negative eigenvalue"
    if not ((intervals.low <= intervals.values) & (intervals.values <= intervals.high)).all():
        yield "a value lies outside its own interval"
    predicted = problem.regression.W @ np.array([estimate.value(name) for name in problem.regression.names])
    error = float(np.linalg.norm(predicted - truth) / np.linalg.norm(truth))
    if not error <= _WORST:
        yield f"its torques are {100 * error:.0f} % off those of the true model, expected at most {100 * _WORST:.0f} %"


def _repeated(first: Answer, second: Answer) -> Iterator[str]:
    if (first.estimate is None) != (second.estimate is None):
        yield "refuses one of two equal problems"
    elif first.estimate is not None and second.estimate is not None:
        same = np.array_equal(first.estimate.values, second.estimate.values)
        if not same:
            yield "gives different values when it is run again; fix its seed"
