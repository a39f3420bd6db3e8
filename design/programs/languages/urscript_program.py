"""A URScript program as closures: statements, functions and threads; what waits is a generator of control steps.

Names follow the language: what is first assigned on the first level is global, and so is what is declared so anywhere;
functions do not see the variables of a function around them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.urscript_expressions import (
    Builtin,
    Expressions,
    Frame,
    Function,
    Run,
    Runtime,
    Steps,
)
from excitor.design.programs.languages.urscript_grammar import Node, parse
from excitor.design.programs.languages.urscript_statements import Statements
from excitor.design.programs.languages.urscript_values import UNSET

_OWN = ("function", "thread", "secondary")


def load(text: str, file: str, builtins: Mapping[str, Builtin]) -> tuple[Runtime, Steps]:
    """Compile a program; the generator runs its main thread."""
    try:
        runtime = Runtime(file, builtins)
        return runtime, _main(runtime, parse(text, file))
    except RecursionError:
        raise ProgramError(file, None, "expressions or blocks lie too deep in one another") from None


def _main(runtime: Runtime, tree: Node) -> Steps:
    suite: Any = tree.children[0]
    statements = [child for child in suite.children if child.data != "label"]
    if not statements:
        raise ProgramError(runtime.file, None, "there is no program in it")
    if len(statements) == 1 and statements[0].data in ("function", "secondary"):
        secondary = statements[0].data == "secondary"
        suite = _body(statements[0])  # the program itself, which is not called
    else:
        secondary = False
    _declare(runtime, suite)
    for function in runtime.functions.values():
        _compile(runtime, function)
    main = Statements(runtime, ())
    body = main.block(suite)
    if secondary and body.waits:
        raise runtime.fail(tree, "a secondary program moves or waits, which only the program itself may")

    def steps() -> Steps:
        frame: Frame = [UNSET] * main.expressions.size
        if body.waits:
            yield from body.run(frame)
        else:
            body.run(frame)

    return steps()


def _body(node: Node) -> Any:
    return node.children[-1]


def _declare(runtime: Runtime, suite: Node) -> None:
    """Register globals and functions, and find out which functions wait."""
    for name in _assigned(suite):
        runtime.slot(name)
    for node in suite.iter_subtrees_topdown():
        if node.data in ("assign", "declare") and node.children[0] == "global":
            runtime.slot(_target(node))
        if node.data in _OWN:
            name = str(node.children[0])
            if name in runtime.functions or name in runtime.builtins:
                raise runtime.fail(node, f"{name!r} is defined twice, or a function of the controller")
            parameters = tuple(str(each.children[0]) for each in _parameters(node))
            runtime.functions[name] = Function(name, node, parameters)
    taken = [name for name in runtime.globals if name in runtime.functions or name in runtime.builtins]
    if taken:
        raise runtime.fail(suite, f"{taken[0]!r} is a function, and is assigned a value")
    _find_waiting(runtime)
    for function in runtime.functions.values():
        function.defaults = [_default(runtime, node) for node in _parameters(function.node)]


def _parameters(node: Node) -> list[Any]:
    listed: Any = node.children[1] if node.data == "function" else None
    return [] if listed is None else list(listed.children)


def _default(runtime: Runtime, parameter: Node) -> Run | None:
    value: Any = parameter.children[1]
    if value is None:
        return None
    expression = Expressions(runtime, ()).compile(value)
    if not expression.is_constant:
        raise runtime.fail(parameter, "the value of a parameter that is not given must be a constant")
    return expression.run


def _find_waiting(runtime: Runtime) -> None:
    calls = {name: _calls(function.node) for name, function in runtime.functions.items()}
    waiting = {name for name, builtin in runtime.builtins.items() if builtin.waits} | {"join"}
    grows = True
    while grows:
        grows = False
        for name, called in calls.items():
            if name not in waiting and called & waiting:
                waiting.add(name)
                grows = True
    for name, function in runtime.functions.items():
        function.waits = name in waiting


def _within(node: Node) -> Iterator[Node]:
    """List the nodes of a body, without those of functions in it."""
    for child in node.children:
        if hasattr(child, "data"):
            yield child
            if child.data not in _OWN:
                yield from _within(child)


def _calls(node: Node) -> set[str]:
    found = set()
    for child in _within(node):
        if child.data == "join":
            found.add("join")
        called: Any = child.children[0] if child.data == "invoke" else None
        if called is not None and called.data == "name":
            found.add(str(called.children[0]))
    return found


def _target(node: Node) -> str:
    """Name the variable that is assigned or declared; nothing, where it is an item or a member of one."""
    target: Any = node.children[1]
    if node.data == "declare":
        return str(target)
    return str(target.children[0]) if target.data == "name" else ""


def _assigned(node: Node) -> list[str]:
    names = [_target(child) for child in _within(node) if child.data in ("assign", "declare")]
    return list(dict.fromkeys(name for name in names if name))


def _compile(runtime: Runtime, function: Function) -> None:
    node = function.node
    declared = {_target(x) for x in _within(node) if x.data in ("assign", "declare") and x.children[0] == "local"}
    own = [name for name in _assigned(node) if name in declared or name not in runtime.globals]
    names = dict.fromkeys([*function.parameters, *own])
    clash = [name for name in names if name in runtime.functions or name in runtime.builtins]
    if clash:
        raise runtime.fail(node, f"{clash[0]!r} is a function, and is assigned a value")
    compiler = Statements(runtime, tuple(names))
    body = compiler.block(_body(node))
    function.body = _generating(body.run) if function.waits and not body.waits else body.run
    function.blanks = (UNSET,) * (compiler.expressions.size - 1 - len(function.parameters))


def _generating(run: Run) -> Run:
    def steps(frame: Frame) -> Steps:
        run(frame)
        yield from ()

    return steps
