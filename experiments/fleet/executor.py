"""Independent tasks in this process, in local worker processes, or on a dask cluster.

Local workers are fresh interpreters that read tasks from a pipe, so a caller's script is not imported again, and a
worker whose parent is gone finds its pipe closed and ends.
"""

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import Any

import numpy as np

from excitor.robots.errors import ExcitorError

RETRIES = 2  # of a task whose worker died
CLUSTER = "EXCITOR_CLUSTER"  # environment variable: the scheduler's address
_ANSWERS = 10.0  # s within which a scheduler has to answer
_START = "from excitor.experiments.fleet.executor import work; work()"

Task = Any
Function = Callable[[Task], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """Result of a task that raised an error, or whose worker died each time."""

    reason: str


def run_tasks(
    function: Function, tasks: Sequence[Task], *, workers: int = 1, cluster: Any = None
) -> Iterator[tuple[int, Any]]:
    """Yield the place and the result of each task as it finishes; close the iterator to end all workers.

    Args:
        function: of a task; importable by name.
        tasks: picklable, large enough (0.1 s) that sending them does not matter.
        workers: local processes; 1: this one.
        cluster: a scheduler's address, or a dask client; none: this machine.
    """
    if cluster is not None:
        yield from _on_dask(function, tasks, cluster)
    elif workers <= 1 or len(tasks) <= 1:
        for k, task in enumerate(tasks):
            yield k, _run(function, task)
    else:
        yield from _in_processes(function, tasks, min(workers, len(tasks)))


def _run(function: Function, task: Task) -> Any:
    """Run a task; an error of one task is its result, not the end of the others."""
    try:
        return function(task)
    except Exception as error:
        return Lost(f"{type(error).__name__}: {error}")


def _in_processes(function: Function, tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Any]]:
    waiting: queue.SimpleQueue[tuple[int, Task]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    for entry in enumerate(tasks):
        waiting.put(entry)
    crew = [_Worker(function, waiting, done) for _ in range(workers)]
    try:
        for _ in tasks:
            yield done.get()
    finally:
        for worker in crew:
            worker.end()


class _Worker(threading.Thread):
    """A thread with a process of its own, which is replaced when it dies."""

    def __init__(self, function: Function, waiting: "queue.SimpleQueue[Any]", done: "queue.SimpleQueue[Any]") -> None:
        super().__init__(daemon=True)
        self.function, self.waiting, self.done, self.ended = function, waiting, done, False
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def run(self) -> None:
        """Take tasks until none is left."""
        while not self.ended:
            try:
                k, task = self.waiting.get_nowait()
            except queue.Empty:
                break
            try:
                self.done.put((k, self._result(task)))
            except Exception as error:  # such as a task that cannot be pickled: nobody must wait for it
                self.done.put((k, Lost(f"{type(error).__name__}: {error}")))
        self.end()

    def _result(self, task: Task) -> Any:
        code: int | None = None
        for _ in range(1 + RETRIES):
            process = self._running()
            if process is None:
                break
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump((self.function, task), process.stdin)
                process.stdin.flush()
                return pickle.load(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                with self.lock:
                    self.process = None
                process.kill()
                code = _close(process)
        return Lost(f"its worker died {1 + RETRIES} times (exit code {code})")

    def _running(self) -> "subprocess.Popen[bytes] | None":
        with self.lock:
            if self.ended:
                return None
            if self.process is None:
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                self.process = subprocess.Popen([sys.executable, "-c", _START], start_new_session=True, **pipes)  # type: ignore[call-overload]
            return self.process

    def end(self) -> None:
        """End the process, whatever it does."""
        with self.lock:
            self.ended = True
            process = self.process
        if process is not None:
            process.kill()  # who reads its answer finds the end of the pipe
            if threading.current_thread() is not self:
                self.join()
            _close(process)


def _close(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a process that ends, and close its pipes; return its exit code."""
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not sent is lost
            if pipe is not None:
                pipe.close()
    return code


def work() -> None:
    """Serve tasks from standard input to standard output until the input ends: what a local worker runs."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not get among the answers
    while True:
        try:
            function, task = pickle.load(sys.stdin.buffer)
            pickle.dump(_run(function, task), answers)
            answers.flush()
        except (EOFError, OSError):
            os._exit(0)


def _on_dask(function: Function, tasks: Sequence[Task], cluster: Any) -> Iterator[tuple[int, Any]]:
    try:
        from dask.distributed import Client, as_completed
    except ImportError:
        raise ExcitorError(
            "clusters are reached through dask.distributed, which is not installed: pip install 'excitor[cluster]'"
        ) from None
    own = isinstance(cluster, str)
    try:
        client = Client(cluster, timeout=_ANSWERS, set_as_default=False) if own else cluster
    except (OSError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ExcitorError(
            f"cluster {cluster}: no scheduler answers within {_ANSWERS:g} s ({reason}); check that it runs and that "
            "this machine reaches it, or leave the cluster out to use this machine"
        ) from None
    try:
        check_workers(client, cluster)
        order = iter(range(len(tasks)))
        places: dict[str, int] = {}

        def submit(k: int) -> Any:
            future = client.submit(_run, function, tasks[k], pure=False)
            places[future.key] = k
            return future

        ahead = 2 * sum(client.nthreads().values())
        running = as_completed([submit(k) for k in islice(order, ahead)])
        for future in running:
            result = future.result() if future.status == "finished" else Lost(str(future.exception())[:500])
            yield places.pop(future.key), result
            for k in islice(order, 1):
                running.add(submit(k))
    finally:
        if own:
            client.close()


def check_workers(client: Any, cluster: Any) -> None:
    """Refuse a cluster without workers, or with workers of other versions than this process."""
    try:
        found = client.run(versions)
    except Exception as error:  # whatever stands in the way of a worker
        raise ExcitorError(
            f"cluster {cluster}: a worker cannot import excitor ({type(error).__name__}: {str(error)[:200]}); install "
            f"excitor {version('excitor')} there"
        ) from None
    if not found:
        raise ExcitorError(f"cluster {cluster}: has no workers; start some with: dask worker ADDRESS")
    for worker, theirs in found.items():
        if theirs != versions():
            raise ExcitorError(
                f"cluster {cluster}: worker {worker} has {theirs}, this process {versions()}; results would not be "
                "the same, so install equal versions"
            )


def versions() -> str:
    """State the versions that results depend on."""
    return f"excitor {version('excitor')}, numpy {np.__version__}"
