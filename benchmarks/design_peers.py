"""Peers of the search, each through the same repair into the joints' limits and the same gradient.

The hybrid search that the memetic one has replaced (a genetic algorithm, then CMA-ES, then SLSQP) is kept as figures:
means of the condition number at 2000 samples over seeds 1, 2, 3 (10 s: 1 to 5), fixed six-axis problem, one thread.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from excitor.design.problem import Candidates, Fidelity, Problem, decode, encode, evaluate
from excitor.design.search import descend
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import ExcitorError

HYBRID = {"3s": 3.486, "10s": 3.314, "60s": 3.300}  # the best of single runs: 3.440, 3.268, 3.272
HYBRID_NARROW = 38.37  # 10 s, seeds 1, 2, 3 (41.90, 37.06, 36.16): the seven-joint arm in its narrow cell
SMOOTH = Fidelity(1.0, 0.25, 100.0, 0.0, 200, 1e-7)
SHARP = Fidelity(4.0, 0.1, 400.0, 0.0, 300, 1e-8)
_CMA_SHARE = 0.6  # of the time, before L-BFGS
_POPULATION = 24
_LAST = 0.12  # of the time, for the descent of the best motions

Peer = Callable[[Problem, float, int], Candidates]


def cma_lbfgs(problem: Problem, seconds: float, seed: int) -> Candidates:
    """Run pycma on the true criterion, restarted when it has converged, then L-BFGS on the smoothed one."""
    try:
        import cma
    except ImportError:
        raise ExcitorError(
            "the design bench compares with pycma, which is not installed; install it with: pip install cma"
        ) from None
    end, random = time.process_time() + seconds, np.random.default_rng(seed)
    found: list[FloatArray] = []
    with one_blas_thread():
        while time.process_time() < end - (1.0 - _CMA_SHARE) * seconds:
            x = random.uniform(-1.0, 1.0, problem.n_design)
            options = {"popsize": _POPULATION, "verbose": -9, "seed": int(random.integers(1, 2**31)), "tolfun": 1e-5}
            strategy = cma.CMAEvolutionStrategy(x, 0.3, options)
            while not strategy.stop() and time.process_time() < end - (1.0 - _CMA_SHARE) * seconds:
                X = strategy.ask()
                strategy.tell(X, np.log(evaluate(problem, decode(problem, np.array(X))).value).tolist())
            found.append(np.asarray(strategy.result.xbest))
        return _descended(problem, sorted(found, key=lambda x: _value(problem, x)), end)


def multistart_lbfgs(problem: Problem, seconds: float, seed: int) -> Candidates:
    """Run L-BFGS on the smoothed criterion from random motions, then on the finest grid from the best of them."""
    end, random = time.process_time() + seconds, np.random.default_rng(seed)
    found: list[FloatArray] = []
    with one_blas_thread():
        objective, none = problem.objective(SMOOTH), np.empty(0)
        while time.process_time() < end - _LAST * seconds:
            x = random.uniform(-1.0, 1.0, problem.n_design)
            found.append(descend(objective, x, SMOOTH, none, lambda *_: time.process_time() > end - _LAST * seconds)[0])
        return _descended(problem, sorted(found, key=lambda x: _value(problem, x)), end)


def multistart_slsqp(problem: Problem, seconds: float, seed: int) -> Candidates:
    """Run SLSQP from random motions, on the smoothed criterion and under the joints' limits, which are linear in x."""
    from scipy.optimize import minimize

    def run(
        value: Callable[[FloatArray], tuple[float, FloatArray]], x: FloatArray, A: FloatArray, b: FloatArray
    ) -> Any:
        inside = {"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda _: -A}
        return minimize(value, x, jac=True, method="SLSQP", constraints=inside, options={"maxiter": 200, "ftol": 1e-7})

    return _multistart(problem, seconds, seed, run)


def multistart_ipopt(problem: Problem, seconds: float, seed: int) -> Candidates:
    """Run IPOPT as `multistart_slsqp` runs SLSQP; ExcitorError where cyipopt is not installed."""
    try:
        import cyipopt
    except ImportError:
        raise ExcitorError(
            "cyipopt is not installed, and its wheels hold no IPOPT; install both with: conda install cyipopt"
        ) from None

    def run(
        value: Callable[[FloatArray], tuple[float, FloatArray]], x: FloatArray, A: FloatArray, b: FloatArray
    ) -> Any:
        inside = {"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda _: -A}
        options = {"max_iter": 200, "tol": 1e-6, "hessian_approximation": "limited-memory", "print_level": 0}
        return cyipopt.minimize_ipopt(value, x, jac=True, constraints=inside, options=options)

    return _multistart(problem, seconds, seed, run)


def _multistart(problem: Problem, seconds: float, seed: int, run: Callable[..., Any]) -> Candidates:
    """Minimise the smoothed criterion under the limits from random motions, then descend the best of them."""
    end, random, none = time.process_time() + seconds, np.random.default_rng(seed), np.empty(0)
    objective, (A, b), found = problem.objective(SMOOTH), _limits(problem), []

    def value(x: FloatArray) -> tuple[float, FloatArray]:
        if time.process_time() > end - _LAST * seconds:
            raise TimeoutError
        found[-1] = x.copy()
        return objective(x, none)

    with one_blas_thread():
        while time.process_time() < end - _LAST * seconds:
            x = random.uniform(-1.0, 1.0, problem.n_design)
            found.append(0.9 * encode(problem, decode(problem, x[None]))[0])
            with suppress(TimeoutError):
                found[-1] = run(value, found[-1], A, b).x
        return _descended(problem, sorted(found, key=lambda x: _value(problem, x)), end)


def _limits(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Write the joints' limits at every eighth sample as A x ≤ b; with more rows a step takes longer."""
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    n, n_waves = problem.amplitude.shape
    rows, right = [], []
    for j in range(n):
        for order, basis in enumerate(problem.basis):
            one = np.zeros((basis[:, ::8].shape[1], problem.n_design))
            one[:, n + j * n_waves : n + (j + 1) * n_waves] = basis[:, ::8].T * problem.amplitude[j]
            one[:, j] = half[j] * (order == 0)
            bounds = problem.position[j] if order == 0 else problem.rates[order - 1][j] * np.array([-1.0, 1.0])
            offset, scale = middle[j] * (order == 0), 0.5 * np.ptp(bounds)
            rows += [one / scale, -one / scale]
            right += [np.full(len(one), (bounds[1] - offset) / scale), np.full(len(one), (offset - bounds[0]) / scale)]
    return np.concatenate(rows), np.concatenate(right)


def tuned_ga(problem: Problem, seconds: float, seed: int) -> Candidates:
    """Run pymoo's genetic algorithm with the population and operators that suit this problem best."""
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM

    return plain_ga(
        problem, seconds, seed, pop_size=60, crossover=SBX(eta=3, prob=0.9), mutation=PM(eta=10, prob_var=0.1)
    )


def plain_ga(problem: Problem, seconds: float, seed: int, **settings: Any) -> Candidates:
    """Run pymoo's genetic algorithm as it comes, on the true criterion."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    end, n = time.process_time() + seconds, problem.n_design
    algorithm: Any = GA(**{"pop_size": 100, **settings})
    shape = PymooProblem(n_var=n, n_obj=1, xl=-np.ones(n), xu=np.ones(n))
    algorithm.setup(shape, termination=NoTermination(), seed=seed, verbose=False)
    best, value = np.zeros(n), np.inf
    with one_blas_thread():
        while time.process_time() < end:
            asked = algorithm.ask()
            X = np.asarray(asked.get("X"), dtype=float)
            F = evaluate(problem, decode(problem, X)).value
            asked.set("F", F[:, None])
            for individual in asked:
                individual.evaluated.update(("F", "G", "H"))
            algorithm.tell(infills=asked)
            if F.min() < value:
                best, value = X[F.argmin()], float(F.min())
    return decode(problem, best[None])


def _value(problem: Problem, x: FloatArray) -> float:
    return float(evaluate(problem, decode(problem, x[None])).value[0])


def _descended(problem: Problem, found: Sequence[FloatArray], end: float) -> Candidates:
    """Descend the best points smoothly, then sharply, until the time is over; return the best."""
    finer, none = problem.finer(), np.empty(0)
    best, value = found[0], np.inf
    for x in found:
        for fidelity in (SMOOTH, SHARP):
            if value < np.inf and time.process_time() >= end:
                break
            x = encode(problem, decode(problem, x[None]))[0]
            x = descend(problem.objective(fidelity), x, fidelity, none, lambda *_: time.process_time() >= end)[0]
        judged = float(finer.evaluate(decode(problem, x[None])).value[0])
        if judged < value:
            best, value = x, judged
        if time.process_time() >= end:
            break
    return decode(problem, best[None])
