"""What a RAPID module does when it runs: statements as closures over a routine's data, on the controller's clock."""

from collections.abc import Callable, Sequence
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages import rapid_tree as tree
from excitor.design.programs.languages.rapid_system import Controller, ProgramStop, RapidError, builtins
from excitor.design.programs.languages.rapid_types import BOOL, NUM, PREDECLARED, TYPES, Type, copied, initial
from excitor.design.programs.languages.rapid_values import (
    Evaluate,
    Frame,
    Scope,
    Signature,
    Slot,
    any_value,
    builtin_call,
    place,
    routine_call,
    slot,
    value,
)

MOST_IDLE = 200_000  # passes of loops in which no time goes by
DEEPEST = 60  # calls inside calls
RETRIES = 5

Step = Callable[[Frame], None]


class _Return(Exception):
    def __init__(self, result: Any) -> None:
        self.result = result


class _Handled(Exception):
    """How an error handler ends: RETRY or TRYNEXT."""


class Program:
    """A module, ready to run on a controller."""

    def __init__(self, file: str, module: tree.Module, controller: Controller) -> None:
        self.file, self.controller, self.module = file, controller, module
        self.idle, self.seen, self.depth = 0, -1.0, 0
        system = {name: Slot(kind, "SYSTEM", [copied(kept)]) for name, (kind, kept) in PREDECLARED.items()}
        self.errno: list[Any] = [0.0]
        system["errno"] = Slot(NUM, "SYSTEM", self.errno)
        self.scope = Scope(file, dict(TYPES), system, {}, builtins(controller))
        self._declare(module)

    def run(self, entry: str) -> None:
        """Run a procedure without parameters to its end, or to where the program stops itself."""
        routine = self.scope.routines.get(entry.lower())
        if routine is None or routine.routine.kind != "PROC":
            raise ProgramError(self.file, self.module.line, f"there is no procedure {entry}")
        if any(not parameter.optional for parameter in routine.routine.parameters):
            raise ProgramError(self.file, routine.routine.line, f"{entry} has parameters; nothing can start it")
        try:
            assert routine.call is not None
            routine.call([None] * len(routine.types))
        except ProgramStop:
            pass
        except RapidError as error:
            raise ProgramError(self.file, None, f"no ERROR handler takes this: {error.sentence}") from None

    # ---- declarations

    def _declare(self, module: tree.Module) -> None:
        scope = self.scope
        taken = {module.name.lower(): None}
        for record in module.records:
            fields = tuple((name, self._type(record.line, kind)) for name, kind in record.fields)
            self._new(record.line, record.name, scope.types)
            scope.types[record.name.lower()] = Type(record.name.lower(), fields)
        for routine in module.routines:
            self._new(routine.line, routine.name, scope.routines, scope.data, taken)
            types = tuple(self._parameter(parameter) for parameter in routine.parameters)
            result = self._type(routine.line, routine.type) if routine.kind == "FUNC" else None
            scope.routines[routine.name.lower()] = Signature(routine, result, types)
        for data in module.data:
            own = {k: v for k, v in scope.data.items() if v.storage != "SYSTEM"}
            self._new(data.line, data.name, own, scope.routines, taken)
            kind, make = self._data(scope, data)
            scope.data[data.name.lower()] = Slot(kind, data.storage, [copied(self._now(data.line, make))])
        for signature in scope.routines.values():
            if signature.routine.kind != "TRAP":
                signature.call = self._routine(signature)

    def _new(self, line: int, name: str, *tables: dict[str, Any]) -> None:
        if any(name.lower() in table for table in tables):
            raise ProgramError(self.file, line, f"{name} is declared twice")

    def _type(self, line: int, name: str) -> Type:
        kind = self.scope.types.get(name.lower())
        if kind is None:
            raise ProgramError(self.file, line, f"there is no type {name} here")
        return kind

    def _parameter(self, parameter: tree.Parameter) -> Type:
        kind = self._type(parameter.line, parameter.type)
        return Type(kind.name, kind.fields, (0,) * parameter.rank)

    def _data(self, scope: Scope, data: tree.Data) -> tuple[Type, Evaluate]:
        sizes = tuple(self._size(scope, data, node) for node in data.sizes)
        kind = self._type(data.line, data.type)
        kind = Type(kind.name, kind.fields, sizes)
        if data.value is None:
            return kind, lambda frame: initial(kind)
        return kind, value(scope, data.value, kind)

    def _size(self, scope: Scope, data: tree.Data, node: tree.Expression) -> int:
        size = self._now(data.line, value(scope, node, NUM))
        if not (size == int(size) and 1 <= size <= 100_000):
            raise ProgramError(self.file, data.line, f"the array {data.name} cannot have {size:g} elements")
        return int(size)

    def _now(self, line: int, evaluate: Evaluate) -> Any:
        return self._guard(line, evaluate, [])

    # ---- routines

    def _routine(self, signature: Signature) -> Callable[[Sequence[Any]], Any]:
        routine, scope = signature.routine, self.scope.within()
        scope.width = [0]
        for parameter, kind in zip(routine.parameters, signature.types, strict=True):
            storage = parameter.mode.replace("INOUT", "VAR") or "VAR"
            scope.local(parameter.name, kind, storage, parameter.optional)
        made: list[tuple[int, int, Evaluate]] = []
        for data in routine.data:
            kind, make = self._data(scope, data)
            made.append((scope.local(data.name, kind, data.storage).index, data.line, make))
        compiled: list[Step] = []  # when first called: routines may call each other

        def call(cells: Sequence[Any]) -> Any:
            if not compiled:
                compiled.append(self._body(scope, routine, signature.result))
            frame: Frame = [*cells, *[None] * (scope.width[0] - len(cells))]
            for index, line, make in made:
                frame[index] = [copied(self._guard(line, make, frame))]
            return self._enter(routine, compiled[0], frame, signature.result)

        return call

    def _body(self, scope: Scope, routine: tree.Routine, result: Type | None) -> Step:
        handler = None if routine.handler is None else self._block(scope, routine.handler, result, None)
        return self._block(scope, routine.body, result, handler)

    def _enter(self, routine: tree.Routine, body: Step, frame: Frame, result: Type | None) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ProgramError(self.file, routine.line, f"{routine.name} calls itself without end")
        try:
            body(frame)
        except _Return as end:
            return end.result
        finally:
            self.depth -= 1
        if result is not None:
            raise ProgramError(self.file, routine.line, f"{routine.name} ends without RETURN")
        return None

    def check(self) -> None:
        """Compile every routine, called or not."""
        for signature in self.scope.routines.values():
            scope = self.scope.within()
            scope.width = [0]
            for parameter, kind in zip(signature.routine.parameters, signature.types, strict=True):
                scope.local(parameter.name, kind, "VAR", parameter.optional)
            for data in signature.routine.data:
                scope.local(data.name, self._data(scope, data)[0], data.storage)
            self._body(scope, signature.routine, signature.result)

    # ---- statements

    def _block(self, scope: Scope, block: tree.Block, result: Type | None, handler: Step | None) -> Step:
        steps = [(node.line, self._step(scope, node, result, handler)) for node in block]

        def run(frame: Frame) -> None:
            for line, step in steps:
                self._guard(line, step, frame)

        return run

    def _guard(self, line: int, step: Callable[[Frame], Any], frame: Frame) -> Any:
        try:
            return step(frame)
        except ZeroDivisionError:
            raise ProgramError(self.file, line, "divides by zero") from None
        except (OverflowError, ValueError) as error:
            if isinstance(error, ProgramError):
                raise
            raise ProgramError(self.file, line, f"a number cannot be computed: {error}") from None
        except RecursionError:
            raise ProgramError(self.file, line, "calls go too deep") from None

    def _step(self, scope: Scope, node: tree.Statement, result: Type | None, handler: Step | None) -> Step:
        if isinstance(node, tree.Assign):
            return self._handled(node.line, self._assign(scope, node), handler)
        if isinstance(node, tree.Do):
            return self._handled(node.line, self._do(scope, node), handler)
        if isinstance(node, tree.If):
            return self._if(scope, node, result, handler)
        if isinstance(node, tree.For):
            return self._for(scope, node, result, handler)
        if isinstance(node, tree.While):
            condition, body = value(scope, node.condition, BOOL), self._block(scope, node.body, result, handler)
            return lambda frame: self._while(node.line, condition, body, frame)
        if isinstance(node, tree.Test):
            return self._test(scope, node, result, handler)
        if isinstance(node, tree.Jump):
            return self._jump(scope, node, result)

        def unsupported(frame: Frame) -> None:
            raise ProgramError(self.file, node.line, f"{node.what} is not executed here")

        return unsupported

    def _handled(self, line: int, step: Step, handler: Step | None) -> Step:
        if handler is None:
            return step

        def run(frame: Frame) -> None:
            for _ in range(1 + RETRIES):
                try:
                    return step(frame)
                except RapidError as error:
                    self.errno[0] = error.number
                    raised = error
                try:
                    handler(frame)
                except _Handled as end:
                    if end.args[0] == "TRYNEXT":
                        return None
                    continue
                raise raised  # the handler came to its end without a word what to do
            raise ProgramError(self.file, line, f"fails again after {RETRIES} retries: {raised.sentence}")

        return run

    def _assign(self, scope: Scope, node: tree.Assign) -> Step:
        name = node.place.parts[0].name
        if slot(scope, node.place).storage in ("CONST", "LOOP", "SYSTEM"):
            raise ProgramError(self.file, node.line, f"{name} cannot be changed")
        kind, locate = place(scope, node.place)
        get = value(scope, node.value, kind)

        def assign(frame: Frame) -> None:
            new = copied(get(frame))
            container, key = locate(frame)
            container[key] = new

        return assign

    def _do(self, scope: Scope, node: tree.Do) -> Step:
        routine = scope.routines.get(node.name.lower())
        if routine is not None and routine.routine.kind == "PROC":
            return routine_call(scope, node, routine)
        builtin = scope.builtins.get(node.name.lower())
        if builtin is None or builtin.result is not None:
            raise ProgramError(self.file, node.line, f"there is no instruction or procedure {node.name} here")
        call = builtin_call(scope, node, builtin)

        def run(frame: Frame) -> None:
            try:
                call(frame)
            except ProgramError as error:
                if error.line is not None or error.file != self.file:
                    raise
                raise ProgramError(self.file, node.line, error.sentence) from None

        return run

    def _if(self, scope: Scope, node: tree.If, result: Type | None, handler: Step | None) -> Step:
        branches = [
            (None if condition is None else value(scope, condition, BOOL), self._block(scope, body, result, handler))
            for condition, body in node.branches
        ]

        def run(frame: Frame) -> None:
            for condition, body in branches:
                if condition is None or condition(frame):
                    return body(frame)
            return None

        return run

    def _for(self, scope: Scope, node: tree.For, result: Type | None, handler: Step | None) -> Step:
        first, last = value(scope, node.first, NUM), value(scope, node.last, NUM)
        by = None if node.step is None else value(scope, node.step, NUM)
        inner = scope.within()
        index = inner.local(node.name, NUM, "LOOP").index
        body = self._block(inner, node.body, result, handler)

        def run(frame: Frame) -> None:
            at, end = first(frame), last(frame)
            step = (1.0 if at <= end else -1.0) if by is None else by(frame)
            if step == 0.0:
                raise ProgramError(self.file, node.line, "a loop with STEP 0 never ends")
            while at <= end if step > 0.0 else at >= end:
                self._pass(node.line)
                frame[index] = [at]
                body(frame)
                at += step

        return run

    def _while(self, line: int, condition: Evaluate, body: Step, frame: Frame) -> None:
        while condition(frame):
            self._pass(line)
            body(frame)

    def _pass(self, line: int) -> None:
        if self.controller.time != self.seen:
            self.seen, self.idle = self.controller.time, 0
        self.idle += 1
        if self.idle > MOST_IDLE:
            raise ProgramError(self.file, line, f"loops make {MOST_IDLE} passes in which nothing moves")

    def _test(self, scope: Scope, node: tree.Test, result: Type | None, handler: Step | None) -> Step:
        kind, get = any_value(scope, node.value)
        cases = [
            (
                None if items is None else [value(scope, item, kind) for item in items],
                self._block(scope, body, result, handler),
            )
            for items, body in node.cases
        ]

        def run(frame: Frame) -> None:
            found = get(frame)
            for items, body in cases:
                if items is None or any(item(frame) == found for item in items):
                    return body(frame)
            return None

        return run

    def _jump(self, scope: Scope, node: tree.Jump, result: Type | None) -> Step:
        get: Evaluate | None = None
        if node.word == "RETURN" and (node.value is None) != (result is None):
            raise ProgramError(self.file, node.line, "RETURN has a value in functions and nowhere else")
        if node.value is not None:
            get = value(scope, node.value, result if node.word == "RETURN" and result is not None else NUM)

        def run(frame: Frame) -> None:
            found = None if get is None else get(frame)
            if node.word == "RETURN":
                raise _Return(copied(found))
            if node.word == "EXIT":
                raise ProgramStop
            if node.word == "RAISE":
                raise RapidError(self.errno[0] if found is None else found, f"error {found or self.errno[0]:g}")
            raise _Handled(node.word)

        return run
