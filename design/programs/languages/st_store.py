"""How values of structured text are written to places: copied, never shared."""

from collections.abc import Callable
from typing import Any

from excitor.design.programs.languages.st_scope import Code, Place
from excitor.design.programs.languages.st_types import Array, Frame, Record

Work = Callable[[Frame], None]


def store(at: Place, code: Code) -> Work:
    """Write a value to a place."""
    index, holder, run = at.index, at.holder, code.run
    if isinstance(at.type, Array) and at.type.inline and isinstance(index, int):
        n = at.type.length

        def copy(F: Frame) -> None:
            (holder(F) if holder else F)[index : index + n] = run(F)

        return copy
    if isinstance(at.type, Record | Array):
        run = copied(run)
    if holder is None and isinstance(index, int):
        if code.slot is not None:
            return _moved(index, code.slot)
        if code.fixed:
            return _set(index, code.constant)

        def assign(F: Frame) -> None:
            F[index] = run(F)

        return assign
    find = index if callable(index) else lambda F: index

    def assign_there(F: Frame) -> None:
        value = run(F)
        (holder(F) if holder else F)[find(F)] = value

    return assign_there


def _moved(to: int, start: int) -> Work:
    def move(F: Frame) -> None:
        F[to] = F[start]

    return move


def _set(to: int, value: Any) -> Work:
    def assign(F: Frame) -> None:
        F[to] = value

    return assign


def copied(run: Callable[[Frame], Any]) -> Callable[[Frame], Any]:
    """Copy a structure or an array of them, so that its two owners change it separately."""

    def deep(value: Any) -> Any:
        return [deep(item) for item in value] if isinstance(value, list) else value

    return lambda F: deep(run(F))
