"""Do the estimators agree? One interface to all of them, from least squares to closed-loop simulation."""

import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from excitor.identify import ladder_linear, ladder_loops, ladder_noise, ladder_schemes
from excitor.identify.ladder_nouns import Answer, Method, Problem
from excitor.robots.arrays import one_blas_thread
from excitor.robots.errors import ExcitorError

__all__ = ["METHODS", "Answer", "Method", "Problem", "answer"]

_LIST = (
    Method(
        "ols",
        "Assumes exact motion and errors alike in every row; for data whose joints are equally large and noisy.",
        ladder_linear.ols_answer,
    ),
    Method(
        "wls",
        "Assumes exact motion and errors alike within each joint; the usual choice.",
        ladder_linear.wls_answer,
    ),
    Method(
        "irls",
        "Assumes exact motion and errors with outliers; for collisions, stiction or a log with bad stretches.",
        ladder_linear.irls_answer,
    ),
    Method(
        "ridge",
        "Assumes exact motion and a prior model not far off, trusted as far as held-out stretches of the runs ask; "
        "for motion that excites little.",
        ladder_linear.ridge_answer,
    ),
    Method(
        "tls",
        "Assumes white noise in the columns too, of known size or proportional to them; for noisy motion without a "
        "controller to simulate.",
        ladder_noise.tls_answer,
    ),
    Method(
        "rls",
        "Assumes what wls does, row after row; for following a robot while it moves.",
        ladder_linear.rls_answer,
    ),
    Method(
        "ml",
        "Assumes exact motion and Gaussian errors that are coloured in time and shared between joints; for drift, "
        "ripple and densely sampled data.",
        ladder_noise.ml_answer,
    ),
    Method(
        "iv",
        "Assumes a simulation that moves about as the robot did, and noise of any colour, in the motion too; for "
        "positions hardly filtered, and to test whether that matters.",
        ladder_loops.iv_answer,
    ),
    Method(
        "didim",
        "Assumes a known controller and reference and errors in torque alone; needs no measured motion.",
        ladder_loops.didim_answer,
    ),
    Method(
        "input-error",
        "Assumes what didim does, and lets the simulated motion answer to every parameter; slower, and exact where "
        "didim is near.",
        ladder_loops.input_error_answer,
    ),
    Method(
        "filtered dynamic",
        "Assumes exact velocities and torques sampled with them; momentum through a low-pass, without accelerations.",
        ladder_schemes.scheme_answer("filtered dynamic"),
    ),
    Method(
        "energy",
        "Assumes exact velocities and no drift; all joints' work since the start in one equation, so errors add up.",
        ladder_schemes.scheme_answer("energy"),
    ),
    Method(
        "power",
        "Assumes exact motion and timing; all joints' power in one equation, for what torques alone do not settle.",
        ladder_schemes.scheme_answer("power"),
    ),
    Method(
        "filtered power",
        "Assumes exact velocities and timing; all joints' power through a low-pass, without accelerations.",
        ladder_schemes.scheme_answer("filtered power"),
    ),
)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _LIST})


def answer(method: str, problem: Problem) -> Answer:
    """Fit by a method of METHODS; whatever is wrong with the data, the answer says so instead of failing."""
    if method not in METHODS:
        raise ExcitorError(f"no estimator is called {method!r}; expected one of {', '.join(METHODS)}")
    begun = time.process_time()
    with one_blas_thread():
        try:
            _check(problem)
            with np.errstate(all="ignore"):
                told = METHODS[method].fit(problem)
                _check_finite(told)
        except (ExcitorError, ValueError, np.linalg.LinAlgError) as error:
            told = Answer(method, None, None, refused=_sentence(error))
    return replace(told, cpu_s=time.process_time() - begun)


def _check(problem: Problem) -> None:
    n_rows, n = problem.regression.W.shape
    if n == 0:
        raise ExcitorError("the equations have no parameters; free a joint, or choose other columns")
    if n_rows <= n:
        raise ExcitorError(f"{n_rows} equations do not determine {n} parameters; record more, or thin less")


def _check_finite(told: Answer) -> None:
    if told.estimate is None:
        return
    if not (np.isfinite(told.estimate.values).all() and np.isfinite(told.estimate.covariance).all()):
        raise ExcitorError("the estimate is not finite; the equations are too close to dependent")


def _sentence(error: Exception) -> str:
    if isinstance(error, np.linalg.LinAlgError):
        return f"its linear algebra failed ({error}); the equations are too close to dependent"
    return str(error)
