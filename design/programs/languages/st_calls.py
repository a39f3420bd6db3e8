"""How blocks, their actions and functions of structured text are called."""

from collections.abc import Callable
from typing import Any

from lark import Tree

from excitor.design.programs.languages.st_expressions import expression, load, place, reference, routine_call
from excitor.design.programs.languages.st_scope import Code, Node, Place, Scope, converted, type_name
from excitor.design.programs.languages.st_store import Work, copied, store
from excitor.design.programs.languages.st_types import Array, Frame, Record, Scalar, Variable, span


def invoke(node: Node, scope: Scope) -> Work:
    """Compile a call as a statement."""
    target: Node = node.children[0]
    given = node.children[1].children if node.children[1] is not None else []
    name = str(target.children[0]).lower()
    if len(target.children) == 1 and name in scope.routines and name not in scope.own.variables:
        return routine_call(scope.routines[name], given, scope, node).run
    last = target.children[-1]
    if isinstance(last, Tree) and last.data == "member":
        owner = place(Tree("variable", target.children[:-1], target.meta), scope)
        method = owner.type.methods.get(str(last.children[0]).lower()) if isinstance(owner.type, Record) else None
        if method is not None:
            return _method(method, load(owner, scope, node), given, scope, node)
    at = place(target, scope)
    if not (isinstance(at.type, Record) and at.type.block):
        scope.fail(node, f"{name} is {type_name(at.type)}, which is not called")
    return _block_call(at.type, load(at, scope, node), given, scope, node)


def _method(method: Callable[[Frame], None], owner: Code, given: list[Any], scope: Scope, node: Node) -> Work:
    if given:
        scope.fail(node, "this action has no arguments")
    find = owner.run
    return lambda F: method(find(F))


def _block_call(record: Record, instance: Code, given: list[Any], scope: Scope, node: Node) -> Work:
    """Compile a call of a block: inputs in, its body, outputs out; in-out variables by reference."""
    inputs: list[tuple[int, int | Callable[[Frame], Any]]] = []
    copies: list[tuple[Variable, Place]] = []
    outputs: list[tuple[int, Work]] = []
    wanted = {key for key, variable in record.variables.items() if variable.role == "in-out"}
    scratch: list[Any] = [None]
    for argument in given:
        if argument.data == "positional":
            scope.fail(node, f"{record.name} takes its arguments by name")
        key = str(argument.children[0]).lower()
        variable = record.variables.get(key)
        output = argument.data == "taken"
        if variable is None or variable.role not in (("output",) if output else ("input", "in-out")):
            scope.fail(node, f"{record.name} has no {'output' if output else 'input'} {argument.children[0]}")
        if output:
            if argument.children[1] is not None:
                at = place(argument.children[1], scope)
                value = converted(Code(variable.type, lambda F: scratch[0]), at.type, scope, node)
                outputs.append((variable.slot, store(at, value)))
        elif variable.role == "input":
            code = converted(expression(argument.children[1], scope), variable.type, scope, node)
            run = copied(code.run) if isinstance(variable.type, Record) else code.run
            inputs.append((variable.slot, code.slot if code.slot is not None else run))
        else:
            wanted.discard(key)
            child: Node = argument.children[1]
            if isinstance(variable.type, Scalar) or (isinstance(variable.type, Array) and variable.type.inline):
                if child.data != "variable":
                    scope.fail(node, f"{variable.name} wants a variable")
                at = place(child, scope)
                converted(load(at, scope, node), variable.type, scope, node)
                copies.append((variable, at))
            else:
                inputs.append((variable.slot, reference(child, variable.type, scope, node)))
    if wanted:
        scope.fail(node, f"{record.name} wants {', '.join(sorted(wanted))}")
    return _called(record, instance, inputs, [_copying(*copy, scope, node) for copy in copies], outputs, scratch)


def _copying(variable: Variable, at: Place, scope: Scope, node: Node) -> tuple[int, int, Any, Work, list[Any], bool]:
    """Hand over a scalar or an array of scalars in both directions."""
    box: list[Any] = [None]
    back = store(at, Code(variable.type, lambda F: box[0]))
    run, listed = load(at, scope, node).run, isinstance(variable.type, Array)
    return variable.slot, span(variable.type), (run if listed else lambda F: [run(F)]), back, box, listed


def _called(
    record: Record, instance: Code, inputs: list[Any], copies: list[Any], outputs: list[Any], scratch: list[Any]
) -> Work:
    find = instance.run
    moves = tuple((slot, value) for slot, value in inputs if isinstance(value, int))
    values = tuple((slot, value) for slot, value in inputs if not isinstance(value, int))
    native = record.native is not None

    def call(F: Frame) -> None:
        B = find(F)
        for slot, i in moves:
            B[slot] = F[i]
        for slot, run in values:
            B[slot] = run(F)
        if native:
            B[-1](B)
        elif record.body is not None:
            record.body(B)

    def call_with_copies(F: Frame) -> None:
        B = find(F)
        for slot, n, run, _, _, _ in copies:
            B[slot : slot + n] = run(F)
        call(F)
        for slot, n, _, back, box, listed in copies:
            box[0] = B[slot : slot + n] if listed else B[slot]
            back(F)
        for slot, take in outputs:
            scratch[0] = B[slot]
            take(F)

    return call_with_copies if copies or outputs else call
