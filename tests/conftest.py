"""What all tests share: one BLAS thread a worker, and kernels that are compiled once for all workers."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two workers on two cores would otherwise fight over them
os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    import fcntl
except ImportError:  # Windows: each worker compiles for itself
    fcntl = None  # type: ignore[assignment]

import pytest
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher


def _compile_once(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap numba's compile: a worker waits for another that compiles the same function, then loads its result.

    Callees are compiled inside their callers. Locks nest in that order, so that two workers cannot wait for each other.
    """
    held: set[str] = set()

    @contextmanager
    def alone(path: str) -> Iterator[None]:
        if path in held:  # another signature of a function that calls itself
            yield
            return
        with global_compiler_lock, open(path, "w") as file:  # first the lock between this worker's threads
            fcntl.flock(file, fcntl.LOCK_EX)
            held.add(path)
            try:
                yield
            finally:
                held.discard(path)

    def compile_once(self: Any, sig: Any) -> Any:
        folder = getattr(self._cache, "_cache_path", None)
        if folder is None:  # not kept on disk
            return compile_(self, sig)
        Path(folder).mkdir(parents=True, exist_ok=True)
        with alone(f"{folder}/{self.py_func.__module__}.{self.py_func.__name__}.lock"):
            return compile_(self, sig)

    return compile_once


if fcntl is not None:
    Dispatcher.compile = _compile_once(Dispatcher.compile)


@pytest.fixture(scope="module")
def coarse_steps():
    """Integrate the virtual robot in steps of twice the length, where the exact motion is not the subject."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("excitor.experiments.virtual.robot.LONGEST_STEP", 1e-3)
        yield


FIRST = ("test_closed_loop.py",)  # the longest to compile: the other worker goes on meanwhile


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the file that would otherwise keep one worker busy alone in the end."""
    items.sort(key=lambda item: item.path.name not in FIRST)


gc.set_threshold(50_000, 20, 20)  # imports, syntax trees and compilation make many objects that stay


def pytest_collection_finish() -> None:
    """Spare what collection has made from garbage collection, which would look through it again and again."""
    gc.freeze()
