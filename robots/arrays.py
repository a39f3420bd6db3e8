"""Read-only arrays: copying, shape checks and locking of the fields of frozen data classes; limit on BLAS threads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Class = TypeVar("Class", bound=type)
_DTYPES = {"float": np.dtype(np.float64), "int": np.dtype(np.int64), "bool": np.dtype(np.bool_)}


def finite(value: Any) -> float | None:
    """Write a number as JSON can have it: None for what is missing, not a number or infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def plain(value: Any) -> Any:
    """Write a value as JSON can have it: numbers finite or null, arrays and tuples as lists, tables entry by entry."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return finite(value) if isinstance(value, float) else value


def picked(source: object, names: str) -> dict[str, Any]:
    """Write attributes for JSON, by name; `key=attribute` gives one another key."""
    pairs = (name.partition("=") for name in names.split())
    return {key: plain(getattr(source, attribute or key)) for key, _, attribute in pairs}


def freeze(owner: object, finite: bool = True, order: Literal["C", "F"] = "C", **shapes: str) -> dict[str, int]:
    """Copy, check and lock array fields: `freeze(self, q="n_samples n_joints", parents="int: n_links")`.

    A word in a shape names a dimension, equal wherever the name appears; a number is a fixed size.
    Elements are floats unless `int:` or `bool:` stands in front; with a `?` behind it, a field may be None.
    Returns the dimensions found. Raises ValueError with the field, its shape and the expected one.
    """
    sizes: dict[str, int] = {}
    for field, spelled in shapes.items():
        kind, _, shape = spelled.rstrip("?").rpartition(":")
        if getattr(owner, field) is None and spelled.endswith("?"):
            continue
        array = locked(getattr(owner, field), kind or "float", order)
        where = f"{type(owner).__name__}.{field}"
        check_shape(array, shape, where, sizes)
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"{where}{list(bad)} is {array[bad]}, expected a finite number")
        object.__setattr__(owner, field, array)
    return sizes


def locked(values: ArrayLike, kind: str = "float", order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Copy values into a read-only array of float, int or bool; one that is all this already is not copied again."""
    dtype = _DTYPES[kind]
    if type(values) is np.ndarray and not values.flags.writeable and values.base is None:
        ordered = values.flags.c_contiguous if order == "C" else values.flags.f_contiguous
        if values.dtype == dtype and ordered:
            return values
    array: NDArray[Any] = np.array(values, dtype=dtype, order=order)
    array.flags.writeable = False
    return array


def shaped(finite: bool = True, order: Literal["C", "F"] = "C", **shapes: str) -> Callable[[Class], Class]:
    """Let a data class `freeze` these fields when it is made: `@shaped(q="n_samples n_joints")` below `@dataclass`."""

    def decorated(cls: Class) -> Class:
        cls.__post_init__ = lambda self: freeze(self, finite, order, **shapes)  # type: ignore[attr-defined]
        return cls

    return decorated


def check_shape(array: NDArray[Any], shape: str, name: str, sizes: dict[str, int] | None = None) -> None:
    """Check an array against named dimensions, filling `sizes` with the dimensions it determines."""
    sizes = {} if sizes is None else sizes
    words = _words(shape)
    if array.ndim != len(words) or any(
        have != (sizes.get(word, have) if type(word) is str else word)
        for word, have in zip(words, array.shape, strict=True)
    ):
        expected = ", ".join(f"{word}={sizes[word]}" if word in sizes else f"{word}" for word in words)
        raise ValueError(f"{name} has shape {array.shape}, expected ({expected})")
    for word, have in zip(words, array.shape, strict=True):
        if type(word) is str:
            sizes[word] = have


@cache
def _words(shape: str) -> tuple[str | int, ...]:
    return tuple(int(word) if word.isdigit() else word for word in shape.split())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit numpy's and scipy's linear algebra to one thread: more threads slow small matrices down."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 - scipy brings a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
