"""What controllers share that are fed by a client: its file and run, a connection, and the motion by its rows."""

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

import numpy as np

from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.plan import Stretches
from excitor.design.programs.target import ProgramError, Stretch, file_in, file_text

STILL = 1.0  # s that the robot stands between two stretches
Client = TypeVar("Client")
Row = tuple[str, int, int, int, Any]  # stretch, part of it, the part's mark, number of the control step, axes


@contextmanager
def socket_pair(addresses: bool = False) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect two sockets in this process; what one sends the other receives at once. Those of UDP have addresses."""
    if addresses or not hasattr(socket, "AF_UNIX"):
        near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        near.bind(("127.0.0.1", 0))
        far.connect(near.getsockname())
        near.connect(far.getsockname())
    else:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


def client_of(files: Mapping[str, str], name: str, client: Callable[[Run], Client]) -> Client:
    """Build the client that streams the run of a program."""
    file = f"{name}.json"
    text = file_in(files, file)
    try:
        return client(_run(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        line = getattr(error, "lineno", None)
        raise ProgramError(file, line, f"this is no run that can be streamed: {error!r}") from None


@lru_cache(maxsize=4)  # a program is executed in many situations
def _run(text: str) -> Run:
    return Run(json.loads(text, parse_constant=_no_number))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def check_clients(files: Mapping[str, str], clients: Iterable[str]) -> None:
    """Check that a program's copies of clients are the package's own."""
    for client in clients:
        if client in files and files[client] != file_text(f"clients/{client}"):
            raise ProgramError(client, None, "is not the client as it is given out; emit the programs again")


def streamed(rows: Iterable[Row], step: float) -> tuple[tuple[Stretch, ...], tuple[tuple[float, int], ...]]:
    """Divide commands, one per control step of some s, into stretches; return them and the marks of the main one."""
    found: dict[str, list[Any]] = {name: [] for name in Stretches}
    for name, *row in rows:
        found.get(name, []).append(row)
    stretches, marks, ended = [], [], None
    for name in Stretches:
        if not found[name]:
            continue
        begun = found[name][0][2]
        if ended is not None and (begun - ended) * step < STILL - 1e-6:
            raise ProgramError("client", None, f"stands still for {(begun - ended) * step:.3g} s before {name!r}")
        ended = found[name][-1][2]
        part, mark, number, axes = (np.array(column) for column in zip(*found[name], strict=True))
        t = (number - number[0]) * step
        stretches.append(Stretch(name, "commands", t, axes))
        if name == "main":
            new = np.flatnonzero(np.diff(part, prepend=part[0] - 1))
            marks = [(float(t[k]), int(mark[k])) for k in new]
    return tuple(stretches), tuple(marks)
