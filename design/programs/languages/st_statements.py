"""What statements of structured text do: syntax tree -> functions that work on a frame."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from lark import Tree

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st_calls import invoke
from excitor.design.programs.languages.st_expressions import expression, place
from excitor.design.programs.languages.st_scope import Code, Node, Scope, converted, line_of, type_name
from excitor.design.programs.languages.st_store import Work, store
from excitor.design.programs.languages.st_types import LREAL, Frame, Scalar, Variable

MOST_PASSES = 1_000_000  # of a WHILE or REPEAT in one call: more is an endless loop
WRITTEN_OUT = 64  # FOR loops of up to so many passes between constants are compiled pass by pass


class _Leaving(Exception):
    """EXIT, CONTINUE or RETURN on its way."""


class _Exit(_Leaving):
    pass


class _Continue(_Leaving):
    pass


class _Return(_Leaving):
    pass


_LEAVINGS: dict[str, type[_Leaving]] = {"EXIT": _Exit, "CONTINUE": _Continue, "RETURN": _Return}


@dataclass(slots=True)
class Step:
    """A compiled statement: a copy (to, from), a product (to, a, b), adding a product (to, a, b), or any other."""

    work: Work
    kind: Literal["other", "copy", "product", "add"] = "other"
    slots: tuple[int, ...] = ()


def body(node: Node, scope: Scope) -> Work:
    """Compile all statements of a block or a function."""
    work = _sequence(_block(node, scope))
    if not any(str(leave.children[0]).upper() == "RETURN" for leave in node.find_data("leave")):
        return work

    def until_return(F: Frame) -> None:
        try:
            work(F)
        except _Return:
            return

    return until_return


def _block(node: Node, scope: Scope) -> list[Step]:
    return [step for child in node.children if isinstance(child, Tree) for step in _statement(child, scope)]


def _statement(node: Node, scope: Scope) -> list[Step]:
    if node.data == "nothing":
        return []
    if node.data == "count":
        return _count(node, scope)
    if node.data == "assign":
        return [_assign(node, scope)]
    return [Step(_MAKERS[str(node.data)](node, scope))]


def _sequence(steps: Iterable[Step]) -> Work:
    """Do one after the other; runs of copies, of products, and of products added up, are one loop each."""
    works: list[Work] = []
    for (kind, _), group in groupby(steps, key=lambda step: (step.kind, step.slots[0] if step.kind == "add" else 0)):
        alike = list(group)
        if kind == "other" or len(alike) < 2:
            works.extend(step.work for step in alike)
        else:
            works.append(_GATHERED[kind](tuple(step.slots for step in alike)))
    return _in_turn(works)


def _copies(pairs: tuple[tuple[int, ...], ...]) -> Work:
    def copy(F: Frame) -> None:
        for to, i in pairs:
            F[to] = F[i]

    return copy


def _products(triples: tuple[tuple[int, ...], ...]) -> Work:
    def multiply(F: Frame) -> None:
        for to, i, j in triples:
            F[to] = F[i] * F[j]

    return multiply


def _sums(triples: tuple[tuple[int, ...], ...]) -> Work:
    to, pairs = triples[0][0], tuple(triple[1:] for triple in triples)

    def add(F: Frame) -> None:
        total = F[to]
        for i, j in pairs:
            total += F[i] * F[j]
        F[to] = total

    return add


_GATHERED: dict[str, Callable[[tuple[tuple[int, ...], ...]], Work]] = {
    "copy": _copies, "product": _products, "add": _sums,
}  # fmt: skip


def _in_turn(works: Sequence[Work]) -> Work:
    if len(works) == 1:
        return works[0]
    if len(works) == 2:
        first, second = works

        def both(F: Frame) -> None:
            first(F)
            second(F)

        return both
    all_works = tuple(works)

    def run(F: Frame) -> None:
        for work in all_works:
            work(F)

    return run


def _assign(node: Node, scope: Scope) -> Step:
    at = place(node.children[0], scope)
    if not at.writable:
        scope.fail(node, f"{node.children[0].children[0]} cannot be assigned")
    raw = expression(node.children[1], scope)
    code = converted(raw, at.type, scope, node)
    work = store(at, code)
    if at.holder is not None or not isinstance(at.index, int) or at.type is not LREAL:
        return Step(work)
    if raw.total is not None and at.index == raw.total[0] and at.index not in raw.total[1:]:
        return Step(work, "add", raw.total)
    if raw.product is not None:
        return Step(work, "product", (at.index, *raw.product))
    return Step(work) if code.slot is None else Step(work, "copy", (at.index, code.slot))


def _condition(node: Node, scope: Scope) -> Callable[[Frame], Any]:
    code = expression(node, scope)
    if not (isinstance(code.type, Scalar) and code.type.kind == "bool"):
        scope.fail(node, f"a condition is {type_name(code.type)}, expected BOOL")
    return code.run


def _choose(node: Node, scope: Scope) -> Work:
    children = list(node.children)
    otherwise = children.pop()
    cases = [
        (_condition(children[k], scope), _sequence(_block(children[k + 1], scope))) for k in range(0, len(children), 2)
    ]
    last = _sequence(_block(otherwise.children[0], scope)) if otherwise is not None else None
    if len(cases) == 1:
        test, work = cases[0]
        if last is None:

            def only(F: Frame) -> None:
                if test(F):
                    work(F)

            return only

    def choose(F: Frame) -> None:
        for test, work in cases:
            if test(F):
                work(F)
                return
        if last is not None:
            last(F)

    return choose


def _select(node: Node, scope: Scope) -> Work:
    what = expression(node.children[0], scope)
    if not (isinstance(what.type, Scalar) and what.type.kind == "int"):
        scope.fail(node, f"CASE wants a whole number, {type_name(what.type)} is given")
    otherwise = node.children[-1]
    works: dict[int, list[Step]] = {}
    current: list[Step] | None = None
    for child in node.children[1:-1]:
        if child.data == "case_label":
            current = []
            for number in _labels(child, scope):
                if number in works:
                    scope.fail(child, f"CASE has {number} twice")
                works[number] = current
        elif current is None:
            scope.fail(child, "a statement comes before the first label of CASE")
        else:
            current.extend(_statement(child, scope))
    made = {number: _sequence(steps) for number, steps in works.items()}
    last = _sequence(_block(otherwise.children[0], scope)) if otherwise is not None else _sequence([])
    run = what.run
    return lambda F: made.get(run(F), last)(F)


def _labels(node: Node, scope: Scope) -> list[int]:
    numbers: list[int] = []
    for value in node.children:
        ends = [expression(end, scope) for end in value.children if end is not None]
        if any(not (end.fixed and isinstance(end.type, Scalar) and end.type.kind == "int") for end in ends):
            scope.fail(node, "a label of CASE must be a known whole number")
        low, high = ends[0].constant, ends[-1].constant
        if high - low > 10_000:
            scope.fail(node, "a range of CASE is longer than 10000")
        numbers.extend(range(low, high + 1))
    return numbers


def _count(node: Node, scope: Scope) -> list[Step]:
    name, *bounds, block = node.children
    variable = scope.own.variables.get(str(name).lower())
    if variable is None or not (isinstance(variable.type, Scalar) and variable.type.kind == "int"):
        scope.fail(node, f"FOR wants a whole variable of its own block, {name} is given")
    if variable.slot in scope.fixed:
        scope.fail(node, f"{name} counts already")
    codes = [expression(bound, scope) for bound in bounds if bound is not None]
    for code in codes:
        converted(code, variable.type, scope, node)
    if all(code.fixed for code in codes):
        first, last, by = codes[0].constant, codes[1].constant, codes[2].constant if len(codes) > 2 else 1
        if by == 0:
            scope.fail(node, "FOR counts BY 0")
        passes = range(first, last + (1 if by > 0 else -1), by)
        if len(passes) <= WRITTEN_OUT and not _touches(block, str(name)):
            return _written_out(block, variable, passes, scope, first if not passes else passes[-1] + by)
    return [_counted(variable, codes, _sequence(_block(block, scope)), scope, node)]


def _touches(block: Node, name: str) -> bool:
    """Whether a loop is left, or its variable assigned, inside."""
    assigned = (str(found.children[0].children[0]).lower() for found in block.find_data("assign"))
    nested = (str(found.children[0]).lower() for found in block.find_data("count"))
    return any(block.find_data("leave")) or name.lower() in (*assigned, *nested)


def _written_out(block: Node, variable: Variable, passes: range, scope: Scope, end: int) -> list[Step]:
    steps: list[Step] = []
    for value in passes:
        scope.fixed[variable.slot] = value
        steps.extend(_block(block, scope))
    scope.fixed.pop(variable.slot, None)
    slot = variable.slot

    def finish(F: Frame) -> None:
        F[slot] = end

    return [*steps, Step(finish)]


def _counted(variable: Variable, codes: list[Code], work: Work, scope: Scope, node: Node) -> Step:
    slot, runs = variable.slot, [code.run for code in codes]
    file, line = scope.file, line_of(node)

    def loop(F: Frame) -> None:
        k, last = runs[0](F), runs[1](F)
        by = runs[2](F) if len(runs) > 2 else 1
        if by == 0:
            raise ProgramError(file, line, "FOR counts BY 0")
        passes = 0
        while k <= last if by > 0 else k >= last:
            F[slot] = k
            try:
                work(F)
            except _Continue:
                pass
            except _Exit:
                return
            k = F[slot] + by
            passes += 1
            if passes > MOST_PASSES:
                raise ProgramError(file, line, "the loop does not end")
        F[slot] = k

    return Step(loop)


def _while(node: Node, scope: Scope) -> Work:
    first = node.data == "while_true"
    test = _condition(node.children[0 if first else 1], scope)
    work = _sequence(_block(node.children[1 if first else 0], scope))
    file, line = scope.file, line_of(node)

    def loop(F: Frame) -> None:
        for _ in range(MOST_PASSES):
            if first and not test(F):
                return
            try:
                work(F)
            except _Continue:
                pass
            except _Exit:
                return
            if not first and test(F):
                return
        raise ProgramError(file, line, "the loop does not end")

    return loop


def _leave(node: Node, scope: Scope) -> Work:
    leaving = _LEAVINGS[str(node.children[0]).upper()]

    def leave(F: Frame) -> None:
        raise leaving

    return leave


_MAKERS: dict[str, Callable[[Node, Scope], Work]] = {
    "invoke": invoke, "choose": _choose, "select": _select, "while_true": _while, "until_true": _while,
    "leave": _leave,
}  # fmt: skip
