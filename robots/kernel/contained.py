"""Functions that only compiled functions call: numba is kept from making machine code of each, which nothing runs.

This relies on what numba does inside, so that `kernel.compile` uses it with versions it was tried with.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


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


class ContainedCompiler(Compiler):
    """Compile functions for compiled callers only."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = library or ContainedCode(target.codegen(), "contained")  # type: ignore[no-untyped-call]
        super().__init__(typing, target, library, *rest)  # type: ignore[no-untyped-call]
