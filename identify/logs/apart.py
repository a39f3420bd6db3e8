"""How are formats read whose libraries may crash on damaged files? In a process of their own, with bounds on both.

A file from a stranger can end such a library in the middle of a sentence (HDF5's and Parquet's readers are written in
C and C++). The child reads, the parent waits, not for ever, and says what happened.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import numpy as np

from excitor.identify.logs.opened import LARGEST_BINARY, check_file
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

MOST_NUMBERS = 100_000_000
MEMORY = 4 * 2**30  # bytes of address space; libraries reserve far more than they use
SECONDS, PER_BYTE = 1.5, 2e-8  # how long reading may take
_STARTING = 60.0  # s until the child is ready, on a machine with other work

_child: subprocess.Popen[bytes] | None = None
_owner = 0  # the process that started it: a fork must not speak to its parent's child
_lock = threading.Lock()


def read_apart(path: Path, form: str) -> tuple[dict[str, FloatArray], list[str]]:
    """Read arrays by name from `hdf5` or `parquet`; InvalidLog says why a file is not read."""
    size = check_file(path, LARGEST_BINARY)
    with _lock:
        try:
            child = _started()
        except (OSError, EOFError):
            stop()
            raise InvalidLog(path, f"cannot be read: the process that reads {form} does not start") from None
        alarm = threading.Timer(SECONDS + PER_BYTE * size, child.kill)
        alarm.start()
        try:
            return _asked(child, path, form)
        except (OSError, ValueError, EOFError):
            slow = not alarm.is_alive()
            stop()
            told = "takes too long to read" if slow else "is damaged: it ends the library that reads it"
            raise InvalidLog(path, told) from None
        finally:
            alarm.cancel()


def _asked(child: subprocess.Popen[bytes], path: Path, form: str) -> tuple[dict[str, FloatArray], list[str]]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps([form, os.path.abspath(path)]).encode() + b"\n")
    child.stdin.flush()
    answer = json.loads(_line(child.stdout))
    if "error" in answer:
        raise InvalidLog(path, answer["error"], answer.get("row"))
    arrays: dict[str, FloatArray] = {}
    for name, shape in answer["arrays"]:
        count = 8 * int(np.prod(shape))
        data = child.stdout.read(count)
        if len(data) < count:
            raise EOFError
        arrays[name] = np.frombuffer(data).reshape(shape)
    return arrays, answer["notes"]


def _line(stream: IO[bytes]) -> bytes:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _started() -> subprocess.Popen[bytes]:
    global _child, _owner
    if _child is not None and _owner == os.getpid() and _child.poll() is None:
        return _child
    if _owner == os.getpid():
        stop()
    # -P: a file of the folder one stands in is never taken for a module. Plug-ins of HDF5 are not loaded.
    _child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HDF5_PLUGIN_PRELOAD": "::", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    _owner = os.getpid()
    assert _child.stdout is not None
    alarm = threading.Timer(_STARTING, _child.kill)
    alarm.start()
    ready = _child.stdout.readline()
    alarm.cancel()
    if ready != b"ready\n":
        raise EOFError
    return _child


def stop() -> None:
    """End the child; the next file starts another."""
    global _child
    child, _child = _child, None
    if child is None or _owner != os.getpid():
        return
    child.kill()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    child.wait()


atexit.register(stop)


def serve() -> None:
    """Answer requests, one a line, until there are no more."""
    from excitor.identify.logs.apart_reading import READERS, Unreadable

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
    _bound()
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        form, path = json.loads(line)
        try:
            arrays, notes = READERS[form](path)
            answer = {"arrays": [(name, array.shape) for name, array in arrays.items()], "notes": notes}
        except Unreadable as error:
            arrays, answer = {}, {"error": str(error)}
        except MemoryError:
            arrays, answer = {}, {"error": "asks for more memory than a log needs"}
        except Exception as error:  # a library's own words for a damaged file, in one sentence
            arrays, answer = {}, {"error": f"is damaged: {' '.join(str(error).split())[:160]}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        for array in arrays.values():
            answers.write(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        answers.flush()


def _bound() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()
