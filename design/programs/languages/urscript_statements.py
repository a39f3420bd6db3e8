"""Statements of URScript as closures on a frame; what waits is a generator of the control steps it takes."""

from dataclasses import dataclass
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.urscript_expressions import (
    Expression,
    Expressions,
    Frame,
    Pause,
    Run,
    Runtime,
    Steps,
)
from excitor.design.programs.languages.urscript_grammar import Node
from excitor.design.programs.languages.urscript_values import Array, Struct, Trouble, item, put, shown, storable, truth

BREAK, CONTINUE, RETURN = 1, 2, 3  # how a block ends before its end
_WRONG = (ArithmeticError, ValueError, TypeError, Trouble)


class Halt(Exception):
    """The program ends itself."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What to do; a generator where it waits."""

    run: Run
    waits: bool
    line: int | None = None


class Statements:
    """Compiles the statements of one function."""

    def __init__(self, runtime: Runtime, local: tuple[str, ...]) -> None:
        self.runtime = runtime
        self.expressions = Expressions(runtime, local)
        self._loops = 0

    def block(self, suite: Any) -> Statement:
        """Compile statements one after the other."""
        nodes = [child for child in suite.children if child.data != "label"]
        return _sequence(self.runtime.file, [self._statement(node) for node in nodes])

    def _statement(self, node: Node) -> Statement:
        pauses, self.expressions.pauses = self.expressions.pauses, []
        made: Statement = getattr(self, "_" + str(node.data))(node)
        mine, self.expressions.pauses = self.expressions.pauses, pauses
        if mine:
            made = _after(mine, made, bare=node.data == "call")
        return Statement(made.run, made.waits, getattr(node.meta, "line", None))

    def _condition(self, node: Any) -> Expression:
        condition = self.expressions.compile(node)
        if condition.is_constant and not condition.truth:
            raise self.runtime.fail(node, f"a condition is {shown(condition.constant)}, expected True or False")
        return condition

    def _function(self, node: Node) -> Statement:
        function = self.runtime.functions[str(node.children[0])]

        def define(f: Frame) -> None:
            function.defined = True

        return Statement(define, waits=False)

    _thread = _function

    def _secondary(self, node: Node) -> Statement:
        raise self.runtime.fail(node, "a secondary program inside of a program")

    def _call(self, node: Node) -> Statement:
        if node.children[0].data not in ("invoke", "run"):
            raise self.runtime.fail(node, "a value that nothing is done with")
        run = self.expressions.compile(node.children[0]).run

        def call(f: Frame) -> None:
            run(f)

        return Statement(call, waits=False)

    def _assign(self, node: Node) -> Statement:
        target: Any = node.children[1]
        value: Any = node.children[2]
        run = (
            _aliased(self.expressions.compile(value).run)
            if value.data == "name"
            else self.expressions.compile(value).run
        )
        if target.data == "name":
            return Statement(self._to_name(str(target.children[0]), run), waits=False)
        if node.children[0] is not None or target.data not in ("index", "cell", "member"):
            raise self.runtime.fail(node, "only variables, their items and members are assigned values")
        return Statement(self._to_part(target, run), waits=False)

    def _to_name(self, name: str, run: Run) -> Run:
        if name in self.expressions.locals:
            k = self.expressions.locals[name]

            def assign(f: Frame) -> None:
                value = run(f)
                f[k] = value if type(value) is float else storable(value)

            return assign
        values, j = self.runtime.values, self.runtime.globals[name]

        def assign_global(f: Frame) -> None:
            value = run(f)
            values[j] = value if type(value) is float else storable(value)

        return assign_global

    def _to_part(self, target: Any, run: Run) -> Run:
        fetch = self.expressions.compile(target.children[0]).run
        if target.data == "member":
            name = str(target.children[1])

            def set_member(f: Frame) -> None:
                value = fetch(f)
                if not isinstance(value, Struct) or name not in value:
                    raise Trouble(f"no structure with a member {name!r}")
                value[name] = storable(run(f))

            return set_member
        at = self.expressions.compile(target.children[-1]).run
        if target.data == "cell":
            row = self.expressions.compile(target.children[1]).run
            return lambda f: put(item(fetch(f), row(f)), at(f), storable(run(f)))
        return lambda f: put(fetch(f), at(f), storable(run(f)))

    def _declare(self, node: Node) -> Statement:
        return Statement(lambda f: None, waits=False)

    _pass = _critical = _declare

    def _return(self, node: Node) -> Statement:
        value: Any = node.children[0]
        run = (lambda f: None) if value is None else self.expressions.compile(value).run

        def leave(f: Frame) -> int:
            f[0] = run(f)
            return RETURN

        return Statement(leave, waits=False)

    def _break(self, node: Node) -> Statement:
        return self._jump(node, BREAK)

    def _continue(self, node: Node) -> Statement:
        return self._jump(node, CONTINUE)

    def _jump(self, node: Node, signal: int) -> Statement:
        if self._loops == 0:
            raise self.runtime.fail(node, f"{node.data} outside of a loop")
        return Statement(lambda f: signal, waits=False)

    def _halt(self, node: Node) -> Statement:
        def halt(f: Frame) -> None:
            raise Halt

        return Statement(halt, waits=False)

    def _kill(self, node: Node) -> Statement:
        run = self.expressions.compile(node.children[0]).run

        def kill(f: Frame) -> None:
            _thread_of(run(f)).kill()

        return Statement(kill, waits=False)

    def _join(self, node: Node) -> Statement:
        run = self.expressions.compile(node.children[0]).run

        def join(f: Frame) -> Steps:
            thread = _thread_of(run(f))
            while thread.alive:
                yield 1

        return Statement(join, waits=True)

    def _while(self, node: Node) -> Statement:
        pauses, self.expressions.pauses = self.expressions.pauses, []
        condition = self._condition(node.children[0]).run
        mine, self.expressions.pauses = self.expressions.pauses, pauses
        self._loops += 1
        body = self.block(node.children[1])
        self._loops -= 1
        spend = self.runtime.spend
        if mine or body.waits:
            return Statement(_slow_loop(mine, condition, body, spend), waits=True)
        run = body.run

        def loop(f: Frame) -> int | None:
            while truth(condition(f)):
                spend()
                signal = run(f)
                if signal is not None and signal != CONTINUE:
                    return RETURN if signal == RETURN else None
            return None

        return Statement(loop, waits=False)

    def _if(self, node: Node) -> Statement:
        parts: list[Any] = [part for part in node.children[2:] if part is not None]
        branches = [(self._condition(node.children[0]).run, self.block(node.children[1]))]
        for part in parts:
            if part.data == "else":
                branches.append((_always, self.block(part.children[0])))
            else:
                branches.append((self._condition(part.children[0]).run, self.block(part.children[1])))
        if any(block.waits for _, block in branches):
            return Statement(_slow_choice(branches), waits=True)
        plain = [(condition, block.run) for condition, block in branches]

        def choose(f: Frame) -> Any:
            for condition, run in plain:
                if truth(condition(f)):
                    return run(f)
            return None

        return Statement(choose, waits=False)


def _always(f: Frame) -> bool:
    return True


def _thread_of(value: Any) -> Any:
    if not hasattr(value, "alive"):
        raise Trouble(f"{shown(value)} is no thread that was started with run")
    return value


def _aliased(run: Run) -> Run:
    """Mark a list that gets a second name."""

    def fetch(f: Frame) -> Any:
        value = run(f)
        if isinstance(value, Array):
            value.shared = True
        return value

    return fetch


def _sequence(file: str, statements: list[Statement]) -> Statement:
    if any(statement.waits for statement in statements):
        return Statement(_slow_sequence(file, statements), waits=True)
    items = [(statement.run, statement.line) for statement in statements]

    def sequence(f: Frame) -> Any:
        for run, line in items:
            try:
                signal = run(f)
            except _WRONG as error:
                raise _told(file, line, error) from None
            if signal is not None:
                return signal
        return None

    return Statement(sequence, waits=False)


def _slow_sequence(file: str, statements: list[Statement]) -> Run:
    items = [(statement.run, statement.waits, statement.line) for statement in statements]

    def sequence(f: Frame) -> Steps:
        for run, waits, line in items:
            try:
                signal = (yield from run(f)) if waits else run(f)
            except _WRONG as error:
                raise _told(file, line, error) from None
            if signal is not None:
                return signal
        return None

    return sequence


def _told(file: str, line: int | None, error: Exception) -> ProgramError:
    if isinstance(error, Trouble):
        return ProgramError(file, line, str(error))
    if isinstance(error, ZeroDivisionError):
        return ProgramError(file, line, "division by zero")
    return ProgramError(file, line, f"these values do not fit this operation ({error})")


def _after(pauses: list[Pause], made: Statement, *, bare: bool) -> Statement:
    """Make a statement that first makes the calls in it that take time."""
    if bare and len(pauses) == 1:
        call, builtin = pauses[0].call, pauses[0].builtin

        def alone(f: Frame) -> Steps:
            if builtin:
                frames = call(f)
                if frames:
                    yield frames
            else:
                yield from call(f)

        return Statement(alone, waits=True)

    def waiting(f: Frame) -> Steps:
        yield from _paused(pauses, f)
        return (yield from made.run(f)) if made.waits else made.run(f)

    return Statement(waiting, waits=True)


def _paused(pauses: list[Pause], f: Frame) -> Steps:
    for pause in pauses:
        if pause.builtin:
            frames = pause.call(f)
            if frames:
                yield frames
            f[pause.slot] = None
        else:
            f[pause.slot] = yield from pause.call(f)


def _slow_loop(pauses: list[Pause], condition: Run, body: Statement, spend: Any) -> Run:
    run, waits = body.run, body.waits

    def loop(f: Frame) -> Steps:
        while True:
            if pauses:
                yield from _paused(pauses, f)
            if not truth(condition(f)):
                return None
            spend()
            signal = (yield from run(f)) if waits else run(f)
            if signal is not None and signal != CONTINUE:
                return RETURN if signal == RETURN else None

    return loop


def _slow_choice(branches: list[tuple[Run, Statement]]) -> Run:
    def choose(f: Frame) -> Steps:
        for condition, block in branches:
            if truth(condition(f)):
                return (yield from block.run(f)) if block.waits else block.run(f)
        return None

    return choose
