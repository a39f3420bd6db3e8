"""Chains of a search in processes of their own."""

import multiprocessing
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from excitor.design.budget import STAGES, Budget, Method, State
from excitor.design.problem import Problem
from excitor.robots.arrays import one_blas_thread

_problem: list[Problem] = []  # of a worker process, sent once


def run_chains(
    problem: Problem,
    budget: Budget,
    seed: int,
    method: Method,
    states: dict[int, State],
    n_chains: int,
    workers: int,
    keep: object = None,
) -> bool:
    """Run all chains that are not finished, filling `states`; True tells that they were interrupted."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
    pool = ProcessPoolExecutor(min(workers, n_chains), context, _receive, (problem,))
    open_: dict[Future[State], int] = {}
    try:
        for chain in range(n_chains):
            state = states.get(chain)
            if state is None or state.done < len(STAGES):
                open_[pool.submit(_run, budget, seed, method, chain, state)] = chain
        while open_:
            finished, _ = wait(open_, return_when=FIRST_COMPLETED)
            for future in finished:
                chain = open_.pop(future)
                states[chain] = future.result()
                if callable(keep):
                    keep(chain, states[chain])
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            child.terminate()  # what they had not finished is lost
        return True
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return False


def _receive(problem: Problem) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked to stop, and ends its children
    _problem[:] = [problem]


def _run(budget: Budget, seed: int, method: Method, chain: int, state: State | None) -> State:
    from excitor.design.search import run_chain

    with one_blas_thread():
        return run_chain(_problem[0], budget, seed=seed, method=method, chain=chain, state=state)[0]
