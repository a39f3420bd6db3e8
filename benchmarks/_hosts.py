"""A dask cluster on several hosts of one machine: network namespaces where allowed, else loopback addresses."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

NET, PORT = "10.213.77", 8786
NAMES = ("scheduler", "worker-a", "worker-b")
_REACHES = 60.0  # s within which a host has to answer
_LEAVES = 10.0  # s within which who has left a cluster has no tasks there


@dataclass(frozen=True, eq=False, slots=True)
class Hosts:
    """A scheduler and two workers, each with an address of its own."""

    client: Any
    address: str  # of the scheduler
    links: tuple[str, ...]  # network devices of the hosts; none: all are on this machine's loopback

    def pids(self) -> list[int]:
        """List the worker processes."""
        return [*self.client.run(os.getpid).values()]

    def kill_one(self, k: int) -> bool:
        """Kill -9 a worker, whose nanny starts another; False where there is none just now."""
        try:
            pids = self.pids()
            os.kill(pids[k % len(pids)], signal.SIGKILL)
        except Exception:  # of workers that are being replaced
            return False
        return True

    def tasks_left(self) -> int:
        """Count the tasks that the scheduler still knows, once others have had some seconds to leave."""
        until = time.monotonic() + _LEAVES
        while (left := self.client.run_on_scheduler(_known)) and time.monotonic() < until:
            time.sleep(0.2)
        return int(left)

    def cut(self, seconds: float) -> bool:
        """Cut a worker's link for some time; False where hosts have none."""
        if not self.links:
            return False
        _ip(f"link set {self.links[-1]} down")
        time.sleep(seconds)
        _ip(f"link set {self.links[-1]} up")
        return True


@contextmanager
def hosts() -> Iterator[Hosts]:
    """Start a scheduler and two workers on hosts of their own, and end them."""
    from dask.distributed import Client

    with ExitStack() as stack:
        tag = secrets.token_hex(2)
        links = _namespaces(stack, tag)
        addresses = [f"{NET}.{k + 2}" if links else f"127.0.0.{k + 2}" for k in range(3)]
        scheduler = f"tcp://{addresses[0]}:{PORT}"
        started: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, started)
        for k, (name, address) in enumerate(zip(NAMES, addresses, strict=True)):
            own = [scheduler, "--nthreads", "1"] if k else ["--port", str(PORT)]
            command = ["-m", "distributed.cli.dask_worker" if k else "distributed.cli.dask_scheduler"]
            inside = ["ip", "netns", "exec", f"{name}-{tag}"] if links else []
            started.append(_started([*inside, sys.executable, *command, *own, "--no-dashboard", "--host", address]))
        client = stack.enter_context(Client(scheduler, timeout=_REACHES, set_as_default=False))
        client.wait_for_workers(2, timeout=_REACHES)
        yield Hosts(client, scheduler, links)


def _known(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.tasks)


def _started(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "20"}  # kills of this bench
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload]


def _end(started: "Sequence[subprocess.Popen[bytes]]") -> None:
    """End schedulers and nannies with what they started."""
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _namespaces(stack: ExitStack, tag: str) -> tuple[str, ...]:
    """Make a bridge with this machine and three namespaces on it; nothing where that is not allowed."""
    try:
        _ip(f"link add x{tag} type bridge")
    except (OSError, subprocess.CalledProcessError):
        return ()
    stack.callback(_ip, f"link del x{tag}")
    _ip(f"addr add {NET}.1/24 dev x{tag}")
    _ip(f"link set x{tag} up")
    devices = []
    for k, name in enumerate(NAMES):
        space, device, inner = f"{name}-{tag}", f"x{tag}{k}", f"y{tag}{k}"
        _ip(f"netns add {space}")
        stack.callback(_ip, f"netns del {space}")
        _ip(f"link add {device} type veth peer name {inner}")
        stack.callback(_ip, f"link del {device}")  # a namespace outlives its name while sockets close
        _ip(f"link set {inner} netns {space}")
        _ip(f"link set {device} master x{tag} up")
        _ip(f"-n {space} addr add {NET}.{k + 2}/24 dev {inner}")
        _ip(f"-n {space} link set {inner} up")
        _ip(f"-n {space} link set lo up")
        devices.append(device)
    return tuple(devices)


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)
