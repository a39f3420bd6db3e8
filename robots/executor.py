"""Independent tasks in this process, in local worker processes, or on a dask cluster.

A job's `make(given)` is sent to each worker once and called there; what it returns is called with each task. Local
workers are fresh interpreters that read tasks from a pipe, so a caller's script is not imported again, and a worker
whose parent is gone ends.
"""

import hashlib
import os
import pickle
import platform
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from typing import Any, TypedDict

from excitor.robots.errors import ExcitorError

RETRIES = 2  # of a task whose worker died
CLUSTER = "EXCITOR_CLUSTER"  # environment variable: the scheduler's address
_ANSWERS = 10.0  # s within which a scheduler has to answer
_PATIENCE = 60.0  # s that a cluster may be without workers
_AHEAD, _MOST_AHEAD = 2, 16  # tasks that a worker of a cluster has, and may have where one takes less than
_SHORT = 0.03  # s, which is about what sending it takes
_START = "from excitor.robots.executor import work; work()"
_EXACT = ("excitor", "python")  # versions without which a task cannot be sent

Task = Any
Function = Callable[[Task], Any]
Results = Generator[tuple[int, Any], None, None]  # place of a task, and its result


@dataclass(frozen=True, slots=True)
class Lost:
    """Result of a task that raised an error, or whose worker died each time."""

    reason: str


@dataclass(frozen=True, eq=False)
class Job:
    """What workers do: `make(given)`, called once in each, returns the function of a task."""

    make: Callable[[Any], Function]
    given: Any

    @cached_property
    def payload(self) -> bytes:
        """The job as it is sent; classes of a script, which workers cannot import, are sent by value."""
        cloudpickle: Any = import_module("numba.cloudpickle")
        try:
            return bytes(cloudpickle.dumps((self.make, self.given)))
        except Exception as error:  # whatever a class of the user's does
            raise ExcitorError(
                f"this cannot be sent to worker processes ({type(error).__name__}: {error}); use one process"
            ) from None

    @cached_property
    def token(self) -> str:
        """Hash of the payload."""
        return hashlib.sha256(self.payload).hexdigest()


class Workers(TypedDict, total=False):
    """Who works, as the arguments of `open_executor`."""

    workers: int
    cluster: Any


class Executor:
    """Who works: this process. Close it, or leave its `with`, to end all workers."""

    count = 1  # of workers
    away = False  # whether tasks leave this process
    notes: tuple[str, ...] = ()  # what is to be known of the workers, in sentences

    def run(self, job: Job, tasks: Iterable[Task]) -> Results:
        """Yield the place and the result of each task as it finishes; close the iterator to drop the others.

        A generator of tasks is asked for the next one when somebody is free, and knows the results before.
        """
        function = job.make(job.given)
        for k, task in enumerate(tasks):
            yield k, _run(function, task)

    def ordered(self, job: Job, tasks: Sequence[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks."""
        waiting: dict[int, Any] = {}
        with closing(self.run(job, tasks)) as done:
            for k in range(len(tasks)):
                while k not in waiting:
                    place, result = next(done)
                    waiting[place] = result
                yield waiting.pop(k)

    def close(self) -> None:
        """End all workers."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_executor(workers: int = 1, cluster: Any = None) -> Executor:
    """Choose who works.

    Args:
        workers: local processes, which begin when they are needed; 1: this one.
        cluster: a scheduler's address, or a dask client; none: as EXCITOR_CLUSTER says, or else this machine.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    cluster = cluster if cluster is not None else os.environ.get(CLUSTER) or None
    if cluster is not None:
        return _Cluster(cluster)
    return Executor() if workers == 1 else _Processes(workers)


def run_tasks(function: Function, tasks: Iterable[Task], executor: Executor) -> Results:
    """Yield the place and the result of each task as it finishes.

    Args:
        function: of a task; importable by name.
        tasks: picklable, large enough (0.1 s) that sending them does not matter.
        executor: who works.
    """
    return executor.run(Job(_itself, function), tasks)


def _itself(function: Function) -> Function:
    return function


def _run(function: Function, task: Task) -> Any:
    """Run a task; an error of one task is its result, not the end of the others."""
    try:
        return function(task)
    except Exception as error:
        return Lost(f"{type(error).__name__}: {error}")


_made: dict[str, Function] = {}  # the latest job of a worker process, by its token
_busy = threading.Lock()  # a worker works at one task at a time, whatever its threads are


def _run_job(token: str, payload: bytes | None, task: Task) -> Any:
    """Run a task in a worker, which makes the job's function when it is new."""
    with _busy:
        try:
            if token not in _made:
                _made.clear()
                make, given = pickle.loads(payload or b"")
                _made[token] = make(given)
        except Exception as error:
            reason = Lost(f"the worker cannot begin: {type(error).__name__}: {error}")
            _made[token] = lambda _: reason
        return _run(_made[token], task)


@dataclass(frozen=True, eq=False, slots=True)
class _Entry:
    """A task that waits for a local worker, and where its result goes."""

    done: "queue.SimpleQueue[tuple[int, Any]]"
    job: Job
    place: int
    task: Task


class _Processes(Executor):
    """Local worker processes, which live until this is closed."""

    away = True

    def __init__(self, workers: int) -> None:
        self.count = workers
        self.waiting: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self.crew: list[_Worker] = []

    def run(self, job: Job, tasks: Iterable[Task]) -> Results:
        """Hand the tasks to whoever is free."""
        done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        _ = job.payload  # what cannot be sent is refused here
        most, left = len(tasks) if isinstance(tasks, Sized) else self.count, 0
        places = enumerate(tasks)
        try:
            while True:
                for place, task in islice(places, most - left):
                    self.waiting.put(_Entry(done, job, place, task))
                    left += 1
                    if len(self.crew) < min(self.count, left):
                        self.crew.append(_Worker(self.waiting))
                if not left:
                    return
                result = done.get()
                left -= 1
                yield result
        finally:
            with suppress(queue.Empty):
                while True:
                    self.waiting.get_nowait()

    def close(self) -> None:
        """End all processes, whatever they do."""
        for worker in self.crew:
            worker.end()
        for _ in self.crew:
            self.waiting.put(None)
        for worker in self.crew:
            worker.join()
        self.crew = []


class _Worker(threading.Thread):
    """A thread with a process of its own, which is replaced when it dies."""

    def __init__(self, waiting: "queue.SimpleQueue[_Entry | None]") -> None:
        super().__init__(daemon=True)
        self.waiting, self.ended, self.token = waiting, False, ""
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def run(self) -> None:
        """Take tasks until there is no task but None."""
        while (entry := self.waiting.get()) is not None:
            try:
                result = self._result(entry)
            except Exception as error:  # such as a task that cannot be pickled: nobody must wait for it
                result = Lost(f"{type(error).__name__}: {error}")
            entry.done.put((entry.place, result))
        self.end()

    def _result(self, entry: _Entry) -> Any:
        code: int | None = None
        for _ in range(1 + RETRIES):
            process = self._running()
            if process is None:
                break
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                payload = None if self.token == entry.job.token else entry.job.payload
                pickle.dump((entry.job.token, payload, pickle.dumps(entry.task)), process.stdin)
                process.stdin.flush()
                result = pickle.load(process.stdout)
                self.token = entry.job.token
                return result
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
                self.token = ""
            return self.process

    def end(self) -> None:
        """End the process: who reads its answer finds the end of the pipe."""
        with self.lock:
            self.ended = True
            process = self.process
        if process is not None:
            process.kill()
            if threading.current_thread() is self:
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
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            token, payload, task = pickle.load(sys.stdin.buffer)
            answers.write(_answer(token, payload, task))
            answers.flush()
        except (EOFError, OSError):
            os._exit(0)


def _answer(token: str, payload: bytes | None, task: bytes) -> bytes:
    try:
        return pickle.dumps(_run_job(token, payload, pickle.loads(task)))
    except Exception as error:  # a task or a result that cannot be pickled
        return pickle.dumps(Lost(f"{type(error).__name__}: {error}"))


def _end_with(parent: int) -> None:
    """End this process, whatever it does, when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


class _Cluster(Executor):
    """Workers of a dask cluster, which are others' to start and to end."""

    away = True

    def __init__(self, cluster: Any) -> None:
        self.name, self.own = cluster if isinstance(cluster, str) else "of the given client", isinstance(cluster, str)
        self.client = _connected(cluster) if self.own else cluster
        self.job: tuple[str, Any] = ("", None)  # token of the latest, and its payload on the cluster
        try:
            self.count, self.notes = check_workers(self.client, self.name)
        except BaseException:
            self.close()
            raise

    def run(self, job: Job, tasks: Iterable[Task]) -> Results:
        """Keep two tasks a worker on the cluster until all are done, more where they are short."""
        if job.token != self.job[0]:  # submitted, not scattered: dask makes it again when its worker is gone
            self.job = job.token, self.client.submit(_itself, job.payload, pure=False)
        sent, places, ahead = _Sent(self, job.token), enumerate(tasks), _AHEAD
        most = _MOST_AHEAD if isinstance(tasks, Sized) else _AHEAD
        try:
            while sent.submit(dict(islice(places, max(0, ahead * self.count - len(sent.futures))))):
                begun = time.monotonic()
                found = sent.finished()
                short = (time.monotonic() - begun) * self.count < _SHORT * len(found)
                ahead = min(2 * ahead, most) if short else max(ahead // 2, _AHEAD)
                yield from found
        finally:
            if sent.futures:
                with suppress(Exception):  # of a connection that is gone
                    self.client.cancel([*sent.futures.values()], force=True)

    def close(self) -> None:
        """Leave the cluster; its tasks of ours are dropped."""
        self.job = ("", None)
        if self.own:
            with suppress(Exception):
                self.client.close()


@dataclass(eq=False, slots=True)
class _Sent:
    """Tasks that are on a cluster, and their results, which come as bytes: dask need not look into them."""

    cluster: _Cluster
    token: str
    tasks: dict[int, bytes] = field(default_factory=dict)  # by their places, as are the futures
    futures: dict[int, Any] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    done: "queue.SimpleQueue[tuple[int, Any]]" = field(default_factory=queue.SimpleQueue)
    since: float | None = None  # when the cluster was found without workers

    def submit(self, tasks: Mapping[int, Task]) -> int:
        """Send tasks together; return how many are on the cluster."""
        self.tasks |= {k: pickle.dumps(task) for k, task in tasks.items()}
        return self._send([*tasks])

    def _send(self, places: Sequence[int]) -> int:
        if places:
            n, (token, job) = len(places), self.cluster.job
            written = [self.tasks[k] for k in places]
            futures = self.cluster.client.map(_answer, [token] * n, [job] * n, written, pure=False)
            for k, future in zip(places, futures, strict=True):
                self.futures[k], self.tries[k] = future, self.tries.get(k, 0) + 1
                future.add_done_callback(lambda ended, k=k: self.done.put((k, ended)))
        return len(self.futures)

    def finished(self) -> list[tuple[int, Any]]:
        """Wait until tasks are done, and fetch their results together; those that were lost are sent again."""
        ended: dict[int, Any] = {k: future for k, future in self._ended() if self.futures.get(k) is future}
        good = [k for k, future in ended.items() if future.status == "finished"]
        found: dict[int, Any] = {}
        with suppress(Exception):  # a connection that is gone
            fetched = self.cluster.client.sync(self._gather, [ended[k] for k in good], callback_timeout=_PATIENCE)
            found = {k: pickle.loads(result) for k, result in zip(good, fetched, strict=True)}
        found |= {k: Lost(str(one.exception())[:500]) for k, one in ended.items() if one.status == "error"}
        again = [k for k in ended if k not in found]
        if again and (self.cluster.client.status != "running" or max(self.tries[k] for k in again) > RETRIES):
            raise self._gone("the connection to the scheduler was lost")
        self._send(again)
        for k in found:
            del self.futures[k], self.tasks[k]
        return [*found.items()]

    async def _gather(self, futures: Sequence[Any]) -> Any:
        return await self.cluster.client.gather(futures, asynchronous=True)

    def _ended(self) -> list[tuple[int, Any]]:
        """Wait for tasks that are done, well or not."""
        while True:
            try:
                ended = [self.done.get(timeout=5.0)]
            except queue.Empty:
                self._check()
                continue
            self.since = None
            with suppress(queue.Empty):
                while True:
                    ended.append(self.done.get_nowait())
            return ended

    def _check(self) -> None:
        """Refuse to wait for ever for workers."""
        client = self.cluster.client
        if client.status not in ("running", "connecting"):
            raise self._gone("the connection to the scheduler was lost")
        with suppress(Exception):  # a cut link, which may come back
            self.since = None if client.nthreads() else self.since or time.monotonic()
        if self.since is not None and time.monotonic() - self.since > _PATIENCE:
            raise self._gone(f"there were no workers for {_PATIENCE:g} s")

    def _gone(self, what: str) -> ExcitorError:
        return ExcitorError(
            f"cluster {self.cluster.name}: {what}; what was finished is kept, and the same command goes on from there"
        )


def _connected(cluster: str) -> Any:
    try:
        distributed: Any = import_module("dask.distributed")
    except ImportError:
        raise ExcitorError(
            "clusters are reached through dask.distributed, which is not installed: pip install 'excitor[cluster]'"
        ) from None
    try:
        return distributed.Client(cluster, timeout=_ANSWERS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ExcitorError(
            f"cluster {cluster}: no scheduler answers within {_ANSWERS:g} s ({reason}); check that it runs and that "
            "this machine reaches it, or leave the cluster out to use this machine"
        ) from None


def check_workers(client: Any, name: str) -> tuple[int, tuple[str, ...]]:
    """Count a cluster's workers, and describe those whose numbers may differ from this process's.

    ExcitorError where there are none, or one has another version of Excitor or Python.
    """
    found = _answered(client, name)
    ours, notes = versions(), []
    for worker, theirs in found.items():
        if wrong := _differences(ours, theirs, _EXACT):
            raise ExcitorError(
                f"cluster {name}: worker {worker} has {wrong}; tasks cannot be exchanged, so install equal versions"
            )
        if other := _differences(ours, theirs, tuple(ours)):
            notes.append(
                f"cluster {name}: worker {worker} has {other}: its numbers agree with those of this machine to about "
                "1e-6, not bit for bit, and a search may end in another motion"
            )
    return len(found), tuple(notes)


def _answered(client: Any, name: str) -> Mapping[str, Mapping[str, str]]:
    """Ask all workers for their versions, again for some seconds where there are none or one is just being replaced."""
    until = time.monotonic() + _ANSWERS
    while True:
        try:
            found: Mapping[str, Mapping[str, str]] = client.run(versions)
            wrong = "" if found else "has no workers; start some with: dask worker ADDRESS --nthreads 1"
        except OSError as error:  # of a connection
            wrong = f"a worker does not answer ({type(error).__name__}: {str(error)[:200]}); start it again"
        except Exception as error:  # whatever stands in the way of a worker
            raise ExcitorError(
                f"cluster {name}: a worker cannot import excitor ({type(error).__name__}: {str(error)[:200]}); install "
                f"excitor {version('excitor')} there"
            ) from None
        if not wrong:
            return found
        if time.monotonic() > until:
            raise ExcitorError(f"cluster {name}: {wrong}")
        time.sleep(0.5)


def _differences(ours: Mapping[str, str], theirs: Mapping[str, str], keys: Sequence[str]) -> str:
    other = [f"{key} {theirs.get(key, 'unknown')} (here {ours[key]})" for key in keys if theirs.get(key) != ours[key]]
    return ", ".join(other)


def versions() -> dict[str, str]:
    """State what decides the bits of results: versions of libraries, and the processor's features that they use."""
    import scipy.linalg  # noqa: F401 - its BLAS must be loaded to be found
    from threadpoolctl import threadpool_info

    llvm: Any = import_module("llvmlite.binding")
    features = hashlib.sha256(llvm.get_host_cpu_features().flatten().encode()).hexdigest()[:8]
    libraries = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    own = [one for one in libraries if re.search("numpy|scipy", str(one["filepath"]))]  # solvers may load others
    blas = sorted({str(one.get("architecture")) for one in own or libraries})
    found = {name: version(name) for name in ("excitor", "numpy", "scipy", "numba")}
    found["python"] = ".".join(platform.python_version_tuple()[:2])
    return found | {"processor": f"{llvm.get_host_cpu_name()}-{features} with BLAS for {' and '.join(blas)}"}
