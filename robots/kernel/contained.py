"""Compilers that do less: what numba works out again and again is remembered, and what nothing runs is left out.

This relies on what numba does inside, so that `kernel.compile` uses it with versions it was tried with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.types.functions import BaseFunction

_find_signature: Any = BaseFunction.get_call_type
_SIGNATURES: dict[Any, Any] = {}


def remember_signature(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Find which signature an operator or function of numba's own has for types, once.

    numba tries all that an operator may be, of strings and of lists too, each time that two numbers are added: a tenth
    of compiling. What has an implementation compiled for the types (`max`) is found as numba finds it.
    """
    key = self, context, tuple(args)
    if kws or key not in _SIGNATURES:
        found = _find_signature(self, context, args, kws)
        if kws or self.get_impl_key(found) is not self.typing_key:
            return found
        _SIGNATURES[key] = found
    return _SIGNATURES[key]


@contextmanager
def remembered_signatures() -> Iterator[None]:
    """Let numba remember signatures, while it compiles one of our functions; a lock keeps others from compiling."""
    before = BaseFunction.get_call_type
    BaseFunction.get_call_type = remember_signature  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = before  # type: ignore[method-assign]


class RememberingCompiler(Compiler):
    """Compile functions faster."""

    def _compile_core(self) -> Any:
        with remembered_signatures():
            return super()._compile_core()  # type: ignore[no-untyped-call]


class ContainedCode(JITCodeLibrary):
    """Code of a function for compiled callers only: each contains and optimises a copy, so this one stays as it is."""

    def _optimize_final_module(self) -> None:
        """Leave out the optimisation that the callers' copies get."""

    def _finalize_final_module(self) -> None:
        """Leave out the machine code."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Cache what callers read."""
        return self.serialize_using_bitcode()  # type: ignore[no-untyped-call]

    @property
    def codegen(self) -> "ContainedCode":
        """Be asked to `set_env`, which numba does where there is machine code."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave out the environment of the machine code."""


class ContainedCompiler(RememberingCompiler):
    """Compile functions for compiled callers only."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = library or ContainedCode(target.codegen(), "contained")  # type: ignore[no-untyped-call]
        super().__init__(typing, target, library, *rest)  # type: ignore[no-untyped-call]
