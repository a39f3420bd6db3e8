"""Tasks in this process, in local processes and on a cluster: order, errors, deaths, and what is left behind."""

import math
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from excitor.robots import executor as module
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Executor, Job, Lost, check_workers, open_executor, run_tasks, versions


def scaled(factor):
    return lambda x: factor * x


def slow_first(_):
    return lambda x: (time.sleep(0.2 if x == 0 else 0.0), os.getpid())[1] if x < 9 else os.getpid()


def mortal(path):
    """Die at the first task that finds no file, once."""

    def run(x):
        if not path.exists():
            path.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    return run


def children():
    own = os.getpid()
    found = subprocess.run(["ps", "-o", "pid=,stat=,args=", "--ppid", str(own)], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if "excitor.robots.executor" in line]


def test_a_worker_that_dies_costs_its_task_alone(tmp_path):
    with open_executor(2) as two:
        assert sorted(run_tasks(math.sqrt, [4.0, 9.0], two)) == [(0, 2.0), (1, 3.0)]
        assert all("died 3 times (exit code 3)" in lost.reason for _, lost in run_tasks(os._exit, [3, 3], two))
        assert sorted(two.run(Job(mortal, tmp_path / "died"), [5, 6, 7])) == [(0, 5), (1, 6), (2, 7)]
        assert (tmp_path / "died").exists()
        assert children()
    assert isinstance(dict(run_tasks(math.sqrt, [-1.0], Executor()))[0], Lost)
    assert not children()


def test_jobs_are_sent_once_and_results_come_in_the_order_of_the_tasks():
    with open_executor(2) as two:
        assert list(two.ordered(Job(scaled, 3.0), list(range(12)))) == [3.0 * x for x in range(12)]
        assert list(two.ordered(Job(scaled, 5.0), [1, 2])) == [5.0, 10.0]
        job = Job(slow_first, None)
        assert len(set(two.ordered(job, list(range(8))))) == 2
        some = two.run(Job(scaled, 2.0), list(range(50)))
        next(some)
        some.close()  # the others are dropped, and do not come among the next
        assert list(two.ordered(Job(scaled, 7.0), [1])) == [7.0]
        assert isinstance(next(two.ordered(Job(math.sqrt, -1.0), [1])), Lost)
        assert "cannot begin: ValueError" in next(two.ordered(Job(math.sqrt, -1.0), [1])).reason


def test_what_cannot_be_sent_is_refused_in_a_sentence():
    with open_executor(2) as two:
        with pytest.raises(ExcitorError, match="cannot be sent to worker processes"):
            list(two.run(Job(scaled, threading.Lock()), [1, 2]))
        (one, _), (other, _) = two.run(Job(scaled, 2.0), [1.0, 2.0])
        assert {one, other} == {0, 1}
    with pytest.raises(ValueError, match="expected at least 1"):
        open_executor(0)


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    """Even those that are at work."""
    code = (
        "import time\nfrom excitor.robots.executor import open_executor, run_tasks\ne = open_executor(2)\n"
        "print(*run_tasks(time.sleep, [0.0, 0.0], e), [w.process.pid for w in e.crew], flush=True)\n"
        "list(run_tasks(time.sleep, [60.0, 60.0], e))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    line = parent.stdout.readline()
    pids = [int(word) for word in line[line.index("[") + 1 : line.index("]")].split(",")]
    assert len(pids) == 2
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10.0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_classes_of_a_script_reach_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from excitor.robots.executor import Job, open_executor\n"
        "class Own:\n    def __call__(self, x):\n        return 2 * x\n"
        "def make(own):\n    return own\n"
        "with open_executor(2) as two:\n    print(list(two.ordered(Job(make, Own()), [1, 2])))\n"
    )
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[2, 4]"


def test_an_unreachable_scheduler_is_a_sentence(monkeypatch):
    monkeypatch.setattr(module, "_ANSWERS", 0.5)
    with pytest.raises(ExcitorError, match=r"no scheduler answers|dask.distributed, which is not installed"):
        open_executor(cluster="tcp://127.0.0.1:9")
    monkeypatch.setenv(module.CLUSTER, "tcp://127.0.0.1:9")
    with pytest.raises(ExcitorError, match=r"no scheduler answers|dask.distributed, which is not installed"):
        open_executor()


class Client:
    """A client of a cluster that has workers of given versions."""

    def __init__(self, *workers):
        self.workers = workers

    def run(self, function):
        assert function is versions
        return {f"tcp://{k}": worker for k, worker in enumerate(self.workers)}


class Replaced(Client):
    """A client of a cluster whose worker fails once."""

    def run(self, function):
        error, *others = self.workers
        self.workers = (None, *others)
        if error is not None:
            raise error
        return {"tcp://0": others[0]}


def test_versions_and_processors_of_workers_are_compared(monkeypatch):
    ours = versions()
    assert check_workers(Client(ours, ours), "c") == (2, ())
    with pytest.raises(ExcitorError, match=r"has excitor 9 \(here .*install equal versions"):
        check_workers(Client(ours, ours | {"excitor": "9"}), "c")
    count, (note,) = check_workers(Client(ours, ours | {"processor": "other", "numpy": "1.0"}), "c")
    assert count == 2
    assert "processor other" in note
    assert "numpy 1.0" in note
    assert "not bit for bit" in note
    monkeypatch.setattr(module, "_ANSWERS", 0.0)
    with pytest.raises(ExcitorError, match="has no workers"):
        check_workers(Client(), "c")
    with pytest.raises(ExcitorError, match="cannot import excitor"):
        check_workers(Replaced(ImportError("excitor"), ours), "c")
    with pytest.raises(ExcitorError, match="does not answer"):
        check_workers(Replaced(OSError("closed"), ours), "c")


def test_workers_that_are_being_replaced_are_waited_for(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    assert check_workers(Replaced(OSError("closed"), versions()), "c") == (1, ())


class Done:
    """A future whose task is done when it is sent."""

    status = "finished"

    def __init__(self, result):
        self.result = result

    def add_done_callback(self, call):
        call(self)


class Immediate(Client):
    """A client that does tasks when they are sent, and notes how many results it is asked for at once."""

    takes = 0.0

    def run(self, function):
        return {"one": versions(), "other": versions()}

    def submit(self, function, *given, pure):
        return function(*given)

    def map(self, function, *columns, pure):
        return [Done(function(*given)) for given in zip(*columns, strict=True)]

    def sync(self, _, futures, callback_timeout):
        time.sleep(self.takes)
        self.workers += (len(futures),)
        return [future.result for future in futures]


def test_results_of_a_cluster_are_fetched_together_and_short_tasks_are_sent_ahead():
    client = Immediate()
    with open_executor(cluster=client) as executor:
        assert list(executor.ordered(Job(scaled, 3.0), list(range(50)))) == [3.0 * x for x in range(50)]
        assert client.workers[:3] == (4, 8, 16)
        assert isinstance(next(executor.ordered(Job(scaled, 3.0), [None])), Lost)
        client.workers, client.takes = (), 0.1
        assert len(list(executor.run(Job(scaled, 5.0), list(range(12))))) == 12
        assert client.workers == (4, 4, 4)  # two a worker, so that the last ones are shared evenly


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_cluster_does_the_same_and_outlives_a_killed_worker(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        open_executor(cluster=cluster.scheduler_address) as executor,
    ):
        assert executor.count == 2
        assert executor.notes == ()
        assert list(executor.ordered(Job(scaled, 3.0), list(range(12)))) == [3.0 * x for x in range(12)]
        assert sorted(executor.run(Job(mortal, tmp_path / "died"), [5, 6, 7])) == [(0, 5), (1, 6), (2, 7)]
        lost = dict(run_tasks(math.sqrt, [-1.0, 4.0], executor))
        assert isinstance(lost[0], Lost)
        assert lost[1] == 2.0
        np.testing.assert_array_equal(next(executor.ordered(Job(scaled, np.arange(3)), [2])), [0, 2, 4])
