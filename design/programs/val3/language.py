"""VAL3 applications: files to programs as functions of a frame; names and types are checked before anything runs."""

import math
import operator
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from excitor.design.programs import runtime
from excitor.design.programs.runtime import BREAK, RETURN, Fault, Guard, Level, Operators, Reader, Run, Token
from excitor.design.programs.target import ProgramError, file_in

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|//[^\n]*)|(?P<end>\n|;)|(?P<num>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<string>"[^"\n]*")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<op><=|>=|==|!=|[-+*/%<>=()\[\],.:!&|])"""
)
_CLOSERS = {"endif", "else", "elseif", "endfor", "endwhile", "until", "endswitch", "case", "default", "end"}


Value = float | bool | str | list[float] | dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Variable:
    """A datum, a local or a parameter: always an array."""

    name: str
    kind: str
    values: list[Value]


@dataclass(frozen=True, slots=True)
class Code:
    """A program as written."""

    name: str
    file: str
    line: int  # of the file that the code begins in
    text: str
    parameters: tuple[Variable, ...]
    locals: tuple[Variable, ...]


_SPACE = "{http://www.staubli.com/robotics/VAL3/"
LONGEST_NAME = 15


_JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6")
_DESCRIPTOR: dict[str, float | str] = {
    "accel": 100.0, "vel": 100.0, "decel": 100.0, "tmax": 99999.0, "rmax": 99999.0, "tvel": 99999.0, "rvel": 99999.0,
    "blend": "joint", "leave": 50.0, "reach": 50.0,
}  # fmt: skip


_NAMED: dict[str, tuple[str, Collection[str]]] = {
    "jointRx": ("joint", _JOINTS), "mdesc": ("motion descriptor", _DESCRIPTOR),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Application:
    """A whole application."""

    data: Mapping[str, Variable]
    programs: Mapping[str, Code]


def read(files: Mapping[str, str], name: str) -> Application:
    """Read the application called `name` from its folder."""
    project_file = f"{name}/{name}.pjx"
    project = _parse(files, project_file, "Project/3}Project")
    data: dict[str, Variable] = {}
    for element in project.iter(f"{_SPACE}Project/3}}Data"):
        _add_data(files, f"{name}/{_needed(element, 'file', project_file)}", data)
    programs: dict[str, Code] = {}
    for element in project.iter(f"{_SPACE}Project/3}}Program"):
        file = _needed(element, "file", project_file)
        code = _code(files, f"{name}/{file}")
        if file != f"{code.name}.pgx":
            raise ProgramError(f"{name}/{file}", None, f"it holds a program called {code.name!r}")
        programs[code.name] = code
    for needed in ("start", "stop"):
        if needed not in programs:
            raise ProgramError(project_file, None, f"the application has no program called {needed!r}")
    return Application(data, programs)


def _parse(files: Mapping[str, str], file: str, root: str) -> ET.Element:
    text = file_in(files, file).removeprefix("\ufeff")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ProgramError(file, None, "document types and entities are not read")
    try:
        element = ET.fromstring(text.encode())
    except ET.ParseError as error:
        raise ProgramError(file, error.position[0], f"no well-formed XML: {error}") from None
    except LookupError as error:
        raise ProgramError(file, 1, f"no well-formed XML: {error}") from None
    if element.tag != _SPACE + root:
        raise ProgramError(file, None, f"the root is {element.tag!r}, expected {_SPACE + root!r}")
    return element


def _needed(element: ET.Element, attribute: str, file: str) -> str:
    value = element.get(attribute)
    if value is None:
        raise ProgramError(file, None, f"a {element.tag.split('}')[-1]} has no attribute {attribute!r}")
    return value


def _add_data(files: Mapping[str, str], file: str, data: dict[str, Variable]) -> None:
    for element in _parse(files, file, "Data/2}Database").iter(f"{_SPACE}Data/2}}Data"):
        variable = _variable(element, file)
        if variable.name in data:
            raise ProgramError(file, None, f"{variable.name!r} is there twice")
        data[variable.name] = variable


def _code(files: Mapping[str, str], file: str) -> Code:
    root = _parse(files, file, "Program/2}Programs")
    program = root.find(f"{_SPACE}Program/2}}Program")
    code = None if program is None else program.find(f"{_SPACE}Program/2}}Code")
    if program is None or code is None:
        raise ProgramError(file, None, "it holds no program with code")
    parameters = tuple(_variable(x, file) for x in program.iter(f"{_SPACE}Param/1}}Parameter"))
    names = tuple(_variable(x, file) for x in program.iter(f"{_SPACE}Program/2}}Local"))
    before = files[file].split("<Code>")[0].count("\n") + 1
    return Code(_needed(program, "name", file), file, before, code.text or "", parameters, names)


def _variable(element: ET.Element, file: str) -> Variable:
    name, kind = _needed(element, "name", file), _needed(element, "type", file)
    if len(name) > LONGEST_NAME or not name.isidentifier() or not name.isascii():
        raise ProgramError(file, None, f"{name!r} is no name of at most {LONGEST_NAME} letters, digits and underscores")
    text = element.get("size", "1").split(",")[0]
    if not text.isdigit() or int(text) < 1:
        raise ProgramError(file, None, f"{name!r} has size {text!r}, expected a number above 0")
    values: list[Value] = [default(kind) for _ in range(int(text))]
    for value in element:
        key = value.get("key", "")
        if not key.isdigit() or int(key) >= len(values):
            raise ProgramError(file, None, f"{name!r} of size {text} has a value with key {key!r}")
        values[int(key)] = _value(kind, value, f"{name}[{key}]", file)
    return Variable(name, kind, values)


def default(kind: str) -> Value:
    """Return the default value of a datum of a type."""
    if kind in ("jointRx", "joint"):
        return [0.0] * len(_JOINTS)
    if kind == "mdesc":
        return dict(_DESCRIPTOR)
    if kind == "bool":
        return False
    return 0.0 if kind == "num" else ""


def _value(kind: str, element: ET.Element, where: str, file: str) -> Value:
    given = {key: text for key, text in element.attrib.items() if key != "key"}
    what, names = _NAMED.get(_plain(kind), ("", given))
    if unknown := set(given) - set(names):
        raise ProgramError(file, None, f"{where} is a {what} and has no {', '.join(sorted(unknown))}")
    if what == "joint":
        return [_number(given.get(axis, "0"), where, file) for axis in _JOINTS]
    if kind == "mdesc":
        numbers = {key: _number(text, where, file) for key, text in given.items() if key != "blend"}
        return {**_DESCRIPTOR, **numbers, "blend": given.get("blend", "joint").lower()}
    if kind == "num":
        return _number(given.get("value", "0"), where, file)
    if kind == "bool":
        return given.get("value", "false") == "true"
    return given.get("value", given.get("link", ""))


def _number(text: str, where: str, file: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProgramError(file, None, f"{where} holds {text!r}, expected a number with a point") from None


Frame = dict[str, list[Any]]
Typed = tuple[str, Run]  # an expression: its type ("" for nothing), and how to evaluate it
_DEEPEST = 50  # calls
ANY = "?"  # the type of what is wrong already
_AXES = {f"j{k + 1}": k for k in range(6)}
_WRONG = (Fault, ArithmeticError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class Function:
    """Function of the controller: argument types ("*": any one), result type ("" for none), and its action."""

    arguments: tuple[str, ...]
    result: str
    act: Callable[..., Any]
    more: bool = False  # trailing arguments may be left out


PURE = {
    "abs": Function(("num",), "num", abs),
    "min": Function(("num", "num"), "num", min),
    "max": Function(("num", "num"), "num", max),
    "sqrt": Function(("num",), "num", math.sqrt),
    "sin": Function(("num",), "num", lambda x: math.sin(math.radians(x))),
    "cos": Function(("num",), "num", lambda x: math.cos(math.radians(x))),
    "tan": Function(("num",), "num", lambda x: math.tan(math.radians(x))),
    "round": Function(("num",), "num", lambda x: float(math.floor(x + 0.5))),
    "roundup": Function(("num",), "num", lambda x: float(math.ceil(x))),
    "rounddown": Function(("num",), "num", lambda x: float(math.floor(x))),
    "tostring": Function(("string", "num"), "string", lambda form, x: f"{x:g}"),
    "sel": Function(("bool", "num", "num"), "num", lambda c, a, b: a if c else b),
}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": math.fmod,
    "==": operator.eq, "!=": operator.ne, **runtime.ORDER,
}  # fmt: skip


class Runner:
    """Compiled application. `wait` is called with a condition; `watched` data report every value they take."""

    def __init__(
        self,
        application: Application,
        functions: Mapping[str, Function],
        wait: Callable[[Callable[[], bool]], None],
        watched: Mapping[str, Callable[[Any], None]],
    ) -> None:
        self.data = {name: list(x.values) for name, x in application.data.items()}
        self.kinds = {name: _plain(x.kind) for name, x in application.data.items()}
        self.functions = {**PURE, **functions}
        self.wait, self.watched = wait, watched
        self.turn = runtime.Passes(1_000_000, "the loop does not end").spend
        self.depth = 0
        self.codes = application.programs
        self.programs = {name: self._compiled(code) for name, code in application.programs.items()}

    def _compiled(self, code: Code) -> Run:
        try:
            return _Program(self, code).body()
        except Fault as fault:
            raise ProgramError(code.file, fault.line, fault.sentence) from None

    def run(self, name: str, arguments: list[Any]) -> None:
        """Run a program from its beginning."""
        called = self.codes[name]
        frame: Frame = {x.name: list(x.values) for x in called.locals}
        frame |= {x.name: [value] for x, value in zip(called.parameters, arguments, strict=True)}
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Fault("programs call each other without end")
        self.programs[name](frame)
        self.depth -= 1


def _plain(kind: str) -> str:
    return "jointRx" if kind == "joint" else kind


def _leaving(left: str) -> Run:
    return lambda frame: left


def _tokens(code: Code) -> list[Token]:
    found = runtime.scan(_TOKEN, code.text, code.line, lambda rest: f"{rest[0]!r} is no part of the language")
    tokens = [Token(kind, text, line, text.lower() if kind in ("name", "op") else "") for kind, text, line in found]
    return [*tokens, Token("end", "", code.line + code.text.count("\n"), "")]


class _Program(Reader[Typed]):
    """Reads a program's lines; every statement becomes a function of a frame as soon as it is read.

    What does not fit the data or the instructions counts once the whole text could be read.
    """

    operators = Operators(
        Level(("or", "|", "xor")), Level(("and", "&")), Level(("==", "!=", "<", ">", "<=", ">=")), Level(("+", "-")),
        Level(("*", "/", "%")), Level(prefix=("-", "!", "not")),
    )  # fmt: skip

    def __init__(self, runner: Runner, code: Code) -> None:
        super().__init__(_tokens(code))
        self.runner, self.guard = runner, Guard(code.file, _WRONG)
        self.local = {x.name: _plain(x.kind) for x in (*code.parameters, *code.locals)}
        self.faults: list[Fault] = []

    def wrong(self, sentence: str) -> None:
        self.faults.append(Fault(sentence, self.tokens[self.at - 1].line))

    # ---- lines

    def missing(self, *keys: str) -> str:
        return f"found {self.next.text.strip() or 'the end of the line'!r}, expected {keys[0]!r}"

    def name(self) -> str:
        if self.next.kind != "name":
            self.fail(f"found {self.next.text.strip() or 'the end of the line'!r}, expected a value")
        name = self.take().text
        return name if not self.sees(":") else self.fail(f"library {name!r} is not there")

    def done(self) -> None:
        if self.next.kind != "end":
            self.fail(f"{self.next.text!r} does not belong to this line")

    def lines(self) -> None:
        while self.next.kind == "end" and self.at < len(self.tokens) - 1:
            self.at += 1

    def body(self) -> Run:
        self.lines()
        self.expect("begin")
        body, _ = self.block("end")
        self.lines()
        if self.at < len(self.tokens) - 1:
            self.fail(f"there is {self.next.text!r} after end")
        for fault in self.faults:
            raise fault
        return body

    def block(self, *closers: str) -> tuple[Run, str]:
        """Read statements up to a closer, and take it."""
        steps: list[tuple[int | None, Run]] = []
        while True:
            self.lines()
            if closer := self.accept(*closers):
                return self.guard.sequence(steps), closer
            if self.next.key in _CLOSERS or self.at >= len(self.tokens) - 1:
                self.fail(f"found {self.next.text or 'the end of the file'!r}, expected {' or '.join(closers)}")
            steps.append((self.next.line, self.statement()))

    # ---- statements

    def statement(self) -> Run:
        known: dict[str, Callable[[], Run]] = {
            "if": self.branch, "for": self.count, "while": self.whilst, "do": self.until, "switch": self.switch,
            "call": self.call, "return": lambda: _leaving(RETURN), "break": lambda: _leaving(BREAK),
        }  # fmt: skip
        if self.sees("taskcreate", "taskcreatesync"):
            self.fail("tasks are not followed: only one program at a time is run")
        word = self.accept(*known)
        run = known[word]() if word else self.assignment()
        self.done()
        return run

    def line(self, kind: str) -> Run:
        """Read an expression of a type, and the end of its line."""
        line, value = self.next.line, self.typed(kind)
        self.done()
        return self.guard(line, value)

    def branch(self) -> Run:
        return runtime.choice(self.branches(lambda: self.line("bool"), self.block, ("elseif", "else", "endif")))

    def count(self) -> Run:
        kind, store = self.place()
        if kind not in ("num", ANY):
            self.wrong("for counts with a num")
        self.expect("=")
        first = self.typed("num")
        self.expect("to")
        last = self.typed("num")
        step = self.typed("num") if self.accept("step") else lambda frame: 1.0
        self.done()

        def bounds(frame: Frame) -> tuple[float, float, float]:
            return first(frame), last(frame), step(frame)

        return runtime.count(bounds, store, self.block("endfor")[0], self.runner.turn, zero="the step of for is 0")

    def whilst(self) -> Run:
        condition = self.line("bool")
        return runtime.loop(condition, self.block("endwhile")[0], self.runner.turn)

    def until(self) -> Run:
        self.done()
        body, _ = self.block("until")
        condition = self.line("bool")
        return runtime.loop(lambda frame: not condition(frame), body, self.runner.turn, first=False)

    def switch(self) -> Run:
        kind, value = self.expression()
        self.done()
        self.lines()
        cases: list[tuple[list[Run] | None, Run]] = []
        word = self.accept("case", "default")
        if not word and not self.sees("endswitch"):
            self.fail(f"found {self.next.text!r}, expected case, default or endSwitch")
        while word in ("case", "default"):
            labels = None
            if word == "case":
                line = self.next.line
                labels = [self.guard(line, label) for label in self.listed(lambda: self.typed(kind))]
            self.done()
            body, word = self.block("case", "default", "endswitch")
            cases.append((labels, body))
        if not word:
            self.expect("endswitch")
        run = runtime.switch(value, cases)

        def chosen(frame: Frame) -> Any:
            left = run(frame)
            return None if left == BREAK else left

        return chosen

    def call(self) -> Run:
        name = self.name()
        if not self.accept("("):
            self.wrong("call needs a program and its arguments in brackets")
            self.at -= 1
            self.operand()
            return _leaving("")
        called = self.runner.codes.get(name)
        if called is None:
            self.wrong(f"there is no program called {name!r}")
        given = self.closed(self.expression)
        wanted = given if called is None else called.parameters
        if len(given) != len(wanted):
            self.wrong(f"{name!r} takes {len(wanted)} arguments, not {len(given)}")
        kinds = [_plain(x.kind) for x in called.parameters] if called else []
        values = [self.of(kind, value) for kind, value in zip(kinds, given, strict=False)]
        return lambda frame: self.runner.run(name, [value(frame) for value in values])

    def assignment(self) -> Run:
        """Read NAME = VALUE, or an instruction."""
        if self.next.kind != "name" or self.tokens[self.at + 1].key == "(":
            return self.instruction()
        before = len(self.faults)
        kind, store = self.place()
        if not self.accept("="):
            del self.faults[before:]
            self.wrong("the line does nothing")
            return _leaving("")
        value = self.typed(kind)
        return lambda frame: store(frame, value(frame))

    def instruction(self) -> Run:
        called = self.next.kind == "name"
        if called and self.sees("wait"):
            self.take()
            self.expect("(")
            given = self.closed(self.expression)
            if len(given) != 1:
                self.wrong("wait takes one condition")
                return _leaving("")
            condition = self.of("bool", given[0])
            return lambda frame: self.runner.wait(lambda: bool(condition(frame)))
        _, act = self.operand()
        if self.accept("="):
            self.wrong("only names take values")
            self.expression()
        elif not called:
            self.wrong("the line does nothing")

        def run(frame: Frame) -> None:
            act(frame)

        return run

    # ---- expressions

    def of(self, kind: str, typed: Typed) -> Run:
        """Demand a type."""
        if typed[0] != kind and ANY not in (typed[0], kind):
            self.wrong(f"found {typed[0] or 'nothing'}, expected {kind}")
        return typed[1]

    def typed(self, kind: str) -> Run:
        return self.of(kind, self.expression())

    def operand(self) -> Typed:
        kind, text, line, key = self.take()
        if kind in ("num", "string"):
            value: Any = float(text) if kind == "num" else text[1:-1]
            return kind, lambda frame: value
        if key == "(":
            return self.inner()
        if kind != "name" or key in _CLOSERS:
            raise Fault(f"found {text.strip() or 'the end of the line'!r}, expected a value", line)
        if key in ("true", "false"):
            return "bool", lambda frame: key == "true"
        if self.next.key != "(":
            self.at -= 1
            return self.read()
        self.take()
        return self.function(text)

    def joined(self, sign: Token, left: Typed | None, right: Typed) -> Typed:
        op = {"|": "or", "&": "and", "not": "!"}.get(sign.key, sign.key)
        if left is None:
            inner = self.of("num" if op == "-" else "bool", right)
            return right[0], (lambda frame: -inner(frame)) if op == "-" else (lambda frame: not inner(frame))
        kind, x = left
        if op in runtime.LOGIC:
            return "bool", runtime.LOGIC[op](self.of("bool", left), self.of("bool", right))
        if kind not in ("num", "string", "bool", ANY) or (op not in ("==", "!=", "+") and kind not in ("num", ANY)):
            self.wrong(f"{op} does not work with {kind or 'nothing'}")
        y, act = self.of(kind, right), _OPERATORS[op]
        return kind if op in "+-*/%" else "bool", lambda frame: act(x(frame), y(frame))

    def function(self, name: str) -> Typed:
        function = self.runner.functions.get(name.lower())
        if function is None:
            self.wrong(f"there is no instruction called {name!r}")
            self.closed(self.expression)
            return ANY, _leaving("")
        given, n = self.closed(self.expression), len(function.arguments)
        if len(given) > n or (len(given) < n and not function.more):
            self.wrong(f"{name} takes {n} arguments, not {len(given)}")
        pairs = zip(given, function.arguments, strict=False)
        values = [value[1] if kind == "*" else self.of(kind, value) for value, kind in pairs]
        return function.result, lambda frame: function.act(*[value(frame) for value in values])

    def read(self) -> Typed:
        kind, element, key = self.path()
        if key is None:
            copied = kind in ("jointRx", "mdesc")

            def whole(frame: Frame) -> Any:
                array, k = element(frame)
                return array[k].copy() if copied else array[k]

            return kind, whole

        def part(frame: Frame) -> Any:
            array, k = element(frame)
            return array[k][key]

        return "num", part

    def place(self) -> tuple[str, Callable[[Frame, Any], None]]:
        """Read where a value is stored, and of which type it must be."""
        name = self.next.text
        kind, element, key = self.path()
        tell = self.runner.watched.get(name) if name not in self.local else None

        def store(frame: Frame, value: Any) -> None:
            array, k = element(frame)
            if key is None:
                array[k] = value
            else:
                array[k][key] = value
            if tell:
                tell(value)

        return (kind if key is None else "num"), store

    def path(self) -> tuple[str, Callable[[Frame], tuple[list[Any], int]], int | str | None]:
        """Read NAME[INDEX].FIELD: its type, the element (the first where none is stated), and the field."""
        name = self.name()
        kind = self.local.get(name) or self.runner.kinds.get(name) or ANY
        if kind == ANY:
            self.wrong(f"{name!r} is not in the application's data")
        shared = None if name in self.local else self.runner.data.get(name, [])
        at = None
        if self.accept("["):
            indices = self.closed(self.expression, "]")
            if len(indices) != 1:
                self.fail("arrays have one index")
            at = self.of("num", indices[0])

        def find(frame: Frame) -> tuple[list[Any], int]:
            array = frame[name] if shared is None else shared
            k = 0 if at is None else at(frame)
            if not (0 <= k < len(array) and k == int(k)):
                raise Fault(f"{name}[{k:g}] is outside its {len(array)} elements")
            return array, int(k)

        return kind, find, self.field(name, kind, self.take().text) if self.accept(".") else None

    def field(self, name: str, kind: str, field: str) -> int | str:
        if kind == "jointRx" and field in _AXES:
            return _AXES[field]
        if kind == "mdesc" and field != "blend" and field in _DESCRIPTOR:
            return field
        if kind != ANY:
            self.wrong(f"{name!r} of type {kind} has no {field!r}")
        return 0
