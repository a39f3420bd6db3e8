"""The VAL3 language: text -> statements and expressions, as nested tuples that carry their line.

An application's programs and data are read and checked, then compiled to closures: names and types are checked before
anything runs.
"""

import math
import operator
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from excitor.design.programs.target import ProgramError

Node = tuple[Any, ...]  # (kind, line, ...)

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*)|(?P<end>\n|;)|(?P<num>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<string>"[^"\n]*")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<op><=|>=|==|!=|[-+*/%<>=()\[\],.:!&|])"""
)
_LEVELS = (("or", "|", "xor"), ("and", "&"), ("==", "!=", "<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
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


def parse(code: Code) -> list[Node]:
    """Parse a program; raises ProgramError with the line of the file."""
    return _Parser(code).program()


class _Parser:
    def __init__(self, code: Code) -> None:
        self.file = code.file
        self.tokens: list[tuple[str, str, int]] = []
        line, at = code.line, 0
        while at < len(code.text):
            found = _TOKEN.match(code.text, at)
            if not found:
                raise ProgramError(self.file, line, f"{code.text[at]!r} is no part of the language")
            kind = found.lastgroup or ""
            if kind != "skip":
                self.tokens.append((kind, found.group(), line))
            line += found.group() == "\n"
            at = found.end()
        self.tokens.append(("end", "", line))
        self.k = 0

    def program(self) -> list[Node]:
        self.lines()
        self.word("begin")
        body = self.block("end")
        self.lines()
        if self.k < len(self.tokens) - 1:
            raise self.error(f"there is {self.text()!r} after end")
        return body

    def block(self, *closers: str) -> list[Node]:
        """Read statements up to a closer, which is consumed by the caller's next word; `end` is consumed here."""
        body: list[Node] = []
        while True:
            self.lines()
            word = self.lower()
            if word in closers:
                if closers == ("end",):
                    self.k += 1
                return body
            if word in _CLOSERS or self.k >= len(self.tokens) - 1:
                raise self.error(f"found {self.text() or 'the end of the file'!r}, expected {' or '.join(closers)}")
            body.append(self.statement())

    def statement(self) -> Node:
        word, line = self.lower(), self.line()
        known = {"if": self.branch, "for": self.counted, "while": self.looped, "do": self.until, "switch": self.switch}
        if word in known:
            self.k += 1
            return known[word](line)
        if word in ("return", "break"):
            self.k += 1
            node: Node = (word, line)
        elif word == "call":
            self.k += 1
            node = ("run", line, self.postfix())
        elif word in ("taskcreate", "taskcreatesync"):
            raise self.error("tasks are not followed: only one program at a time is run")
        else:
            target = self.postfix()
            node = ("set", line, target, self.expression()) if self.accept("=") else ("do", line, target)
        self.done()
        return node

    def branch(self, line: int) -> Node:
        choices = []
        condition = self.expression()
        self.done()
        while True:
            choices.append((condition, self.block("elseif", "else", "endif")))
            word = self.lower()
            self.k += 1
            if word == "elseif":
                condition = self.expression()
                self.done()
                continue
            other = self.block("endif") if word == "else" else []
            self.k += word == "else"
            self.done()
            return ("if", line, choices, other)

    def counted(self, line: int) -> Node:
        target = self.postfix()
        self.symbol("=")
        first = self.expression()
        self.word("to")
        last = self.expression()
        step: Node = ("num", line, 1.0)
        if self.lower() == "step":
            self.k += 1
            step = self.expression()
        self.done()
        body = self.block("endfor")
        self.k += 1
        self.done()
        return ("for", line, target, first, last, step, body)

    def looped(self, line: int) -> Node:
        condition = self.expression()
        self.done()
        body = self.block("endwhile")
        self.k += 1
        self.done()
        return ("while", line, condition, body)

    def until(self, line: int) -> Node:
        self.done()
        body = self.block("until")
        self.k += 1
        condition = self.expression()
        self.done()
        return ("until", line, condition, body)

    def switch(self, line: int) -> Node:
        value = self.expression()
        self.done()
        self.lines()
        choices: list[tuple[list[Node], list[Node]]] = []
        while self.lower() != "endswitch":
            word = self.lower()
            if word not in ("case", "default"):
                raise self.error(f"found {self.text()!r}, expected case, default or endSwitch")
            self.k += 1
            labels = [] if word == "default" else [self.expression()]
            while labels and self.accept(","):
                labels.append(self.expression())
            self.done()
            choices.append((labels, self.block("case", "default", "endswitch")))
        self.k += 1
        self.done()
        return ("switch", line, value, choices)

    def expression(self, level: int = 0) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.lower() in _LEVELS[level] and self.tokens[self.k][0] in ("op", "name"):
            line, op = self.line(), self.lower()
            self.k += 1
            left = ("binary", line, {"|": "or", "&": "and"}.get(op, op), left, self.expression(level + 1))
        return left

    def unary(self) -> Node:
        line = self.line()
        for op in ("-", "!", "not"):
            if self.lower() == op and self.tokens[self.k][0] != "string":
                self.k += 1
                return ("unary", line, "-" if op == "-" else "!", self.unary())
        return self.postfix()

    def postfix(self) -> Node:
        kind, text, line = self.tokens[self.k]
        self.k += 1
        if kind == "num":
            return ("num", line, float(text))
        if kind == "string":
            return ("string", line, text[1:-1])
        if text == "(":
            inner = self.expression()
            self.symbol(")")
            return inner
        if text == "{":
            raise ProgramError(self.file, line, "constants in braces are not read")
        if kind != "name" or text.lower() in _CLOSERS:
            raise ProgramError(self.file, line, f"found {text.strip() or 'the end of the line'!r}, expected a value")
        if text.lower() in ("true", "false"):
            return ("bool", line, text.lower() == "true")
        return self.name(text, line)

    def name(self, text: str, line: int) -> Node:
        if self.accept(":"):
            raise ProgramError(self.file, line, f"library {text!r} is not there")
        if self.accept("("):
            return ("call", line, text, self.arguments(")"))
        index = None
        if self.accept("["):
            indices = self.arguments("]")
            if len(indices) != 1:
                raise ProgramError(self.file, line, "arrays have one index")
            index = indices[0]
        field = None
        if self.accept("."):
            field = self.text()
            self.k += 1
        return ("name", line, text, index, field)

    def arguments(self, closer: str) -> list[Node]:
        found: list[Node] = []
        if self.accept(closer):
            return found
        while True:
            found.append(self.expression())
            if self.accept(closer):
                return found
            self.symbol(",")

    def text(self) -> str:
        return self.tokens[self.k][1]

    def lower(self) -> str:
        return self.text().lower()

    def line(self) -> int:
        return self.tokens[self.k][2]

    def accept(self, op: str) -> bool:
        found = self.tokens[self.k][:2] == ("op", op)
        self.k += found
        return found

    def symbol(self, op: str) -> None:
        if not self.accept(op):
            raise self.error(f"found {self.text().strip() or 'the end of the line'!r}, expected {op!r}")

    def word(self, word: str) -> None:
        if self.lower() != word:
            raise self.error(f"found {self.text().strip() or 'the end of the line'!r}, expected {word!r}")
        self.k += 1

    def done(self) -> None:
        if self.tokens[self.k][0] != "end":
            raise self.error(f"{self.text()!r} does not belong to this line")

    def lines(self) -> None:
        while self.tokens[self.k][0] == "end" and self.k < len(self.tokens) - 1:
            self.k += 1

    def error(self, sentence: str) -> ProgramError:
        return ProgramError(self.file, self.line(), sentence)


_SPACE = "{http://www.staubli.com/robotics/VAL3/"
LONGEST_NAME = 15


_JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6")
_DESCRIPTOR: dict[str, float | str] = {
    "accel": 100.0, "vel": 100.0, "decel": 100.0, "tmax": 99999.0, "rmax": 99999.0, "tvel": 99999.0, "rvel": 99999.0,
    "blend": "joint", "leave": 50.0, "reach": 50.0,
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
    if file not in files:
        raise ProgramError(file, None, "the application's folder has no such file")
    text = files[file].removeprefix("\ufeff")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ProgramError(file, None, "document types and entities are not read")
    try:
        element = ET.fromstring(text.encode())
    except ET.ParseError as error:
        raise ProgramError(file, error.position[0], f"no well-formed XML: {error}") from None
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
    if kind in ("jointRx", "joint"):
        unknown = set(given) - set(_JOINTS)
        if unknown:
            raise ProgramError(file, None, f"{where} is a joint and has no {', '.join(sorted(unknown))}")
        return [_number(given.get(axis, "0"), where, file) for axis in _JOINTS]
    if kind == "mdesc":
        unknown = set(given) - set(_DESCRIPTOR)
        if unknown:
            raise ProgramError(file, None, f"{where} is a motion descriptor and has no {', '.join(sorted(unknown))}")
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
Expression = Callable[[Frame], Any]
Statement = Callable[[Frame], str | None]  # "break", "return" or on to the next
_ENDLESS = 1_000_000  # passes of loops
_DEEPEST = 50  # calls
_AXES = {f"j{k + 1}": k for k in range(6)}


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
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": math.fmod,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
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
        self.passes = self.depth = 0
        self.codes = application.programs
        self.programs: dict[str, Statement] = {}
        for name, code in application.programs.items():
            self.programs[name] = _Compiler(self, code).block(parse(code))

    def run(self, name: str, arguments: list[Any], code: Code, line: int) -> None:
        """Run a program from its beginning."""
        called = self.codes[name]
        frame: Frame = {x.name: list(x.values) for x in called.locals}
        frame |= {x.name: [value] for x, value in zip(called.parameters, arguments, strict=True)}
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ProgramError(code.file, line, "programs call each other without end")
        self.programs[name](frame)
        self.depth -= 1

    def turn(self, file: str, line: int) -> None:
        """Count a pass of a loop."""
        self.passes += 1
        if self.passes > _ENDLESS:
            raise ProgramError(file, line, "the loop does not end")


def _plain(kind: str) -> str:
    return "jointRx" if kind == "joint" else kind


class _Compiler:
    def __init__(self, runner: Runner, code: Code) -> None:
        self.runner, self.code = runner, code
        self.local = {x.name: _plain(x.kind) for x in (*code.parameters, *code.locals)}

    def error(self, line: int, sentence: str) -> ProgramError:
        return ProgramError(self.code.file, line, sentence)

    def block(self, nodes: list[Node]) -> Statement:
        body = [getattr(self, f"on_{node[0]}")(*node[1:]) for node in nodes]

        def run(frame: Frame) -> str | None:
            for statement in body:
                leave = statement(frame)
                if leave:
                    return str(leave)
            return None

        return run

    def on_return(self, line: int) -> Statement:
        return lambda frame: "return"

    def on_break(self, line: int) -> Statement:
        return lambda frame: "break"

    def on_run(self, line: int, node: Node) -> Statement:
        if node[0] != "call":
            raise self.error(line, "call needs a program and its arguments in brackets")
        name = node[2]
        called = self.runner.codes.get(name)
        if called is None:
            raise self.error(line, f"there is no program called {name!r}")
        if len(node[3]) != len(called.parameters):
            raise self.error(line, f"{name!r} takes {len(called.parameters)} arguments, not {len(node[3])}")
        wanted = [_plain(x.kind) for x in called.parameters]
        given = [self.typed(x, kind) for x, kind in zip(node[3], wanted, strict=True)]

        def run(frame: Frame) -> None:
            self.runner.run(name, [value(frame) for value in given], self.code, line)

        return run

    def on_do(self, line: int, node: Node) -> Statement:
        if node[0] != "call":
            raise self.error(line, "the line does nothing")
        if node[2].lower() == "wait":
            if len(node[3]) != 1:
                raise self.error(line, "wait takes one condition")
            condition = self.typed(node[3][0], "bool")
            return lambda frame: self.guarded(line, lambda: self.runner.wait(lambda: bool(condition(frame))))
        _, act = self.expression(node)

        def run(frame: Frame) -> None:
            act(frame)

        return run

    def on_set(self, line: int, target: Node, node: Node) -> Statement:
        kind, store = self.place(target)
        value = self.typed(node, kind)

        def run(frame: Frame) -> None:
            store(frame, value(frame))

        return run

    def on_if(self, line: int, choices: list[tuple[Node, list[Node]]], other: list[Node]) -> Statement:
        made = [(self.typed(condition, "bool"), self.block(body)) for condition, body in choices]
        rest = self.block(other)

        def run(frame: Frame) -> str | None:
            for condition, body in made:
                if condition(frame):
                    return body(frame)
            return rest(frame)

        return run

    def on_switch(self, line: int, node: Node, choices: list[tuple[list[Node], list[Node]]]) -> Statement:
        kind, value = self.expression(node)
        made = [([self.typed(x, kind) for x in labels], self.block(body)) for labels, body in choices]

        def run(frame: Frame) -> str | None:
            found = value(frame)
            for labels, body in made:
                if not labels or any(label(frame) == found for label in labels):
                    leave = body(frame)
                    return None if leave == "break" else leave
            return None

        return run

    def on_for(
        self, line: int, target: Node, first: Node, last: Node, step: Node, body: list[Node]
    ) -> Statement:  # fmt: skip
        kind, store = self.place(target)
        if kind != "num":
            raise self.error(line, "for counts with a num")
        begin, end, by = (self.typed(x, "num") for x in (first, last, step))
        inner = self.block(body)

        def run(frame: Frame) -> str | None:
            value, top, up = begin(frame), end(frame), by(frame)
            if up == 0.0:
                raise self.error(line, "the step of for is 0")
            while (value <= top) if up > 0.0 else (value >= top):
                store(frame, value)
                self.runner.turn(self.code.file, line)
                leave = inner(frame)
                if leave:
                    return None if leave == "break" else leave
                value += up
            return None

        return run

    def on_while(self, line: int, node: Node, body: list[Node], *, first: bool = False) -> Statement:
        condition, inner = self.typed(node, "bool"), self.block(body)

        def run(frame: Frame) -> str | None:
            go = first
            while go or bool(condition(frame)) is not first:
                go = False
                self.runner.turn(self.code.file, line)
                leave = inner(frame)
                if leave:
                    return None if leave == "break" else leave
            return None

        return run

    def on_until(self, line: int, node: Node, body: list[Node]) -> Statement:
        return self.on_while(line, node, body, first=True)

    def typed(self, node: Node, kind: str) -> Expression:
        found, value = self.expression(node)
        if found != kind:
            raise self.error(node[1], f"found {found or 'nothing'}, expected {kind}")
        return value

    def expression(self, node: Node) -> tuple[str, Expression]:
        kind, line = node[0], node[1]
        if kind in ("num", "string", "bool"):
            value = node[2]
            return kind, lambda frame: value
        if kind == "name":
            return self.read(line, *node[2:])
        if kind == "call":
            return self.call(line, node[2], node[3])
        if kind == "unary":
            wanted = "num" if node[2] == "-" else "bool"
            inner = self.typed(node[3], wanted)
            return wanted, (lambda frame: -inner(frame)) if wanted == "num" else (lambda frame: not inner(frame))
        return self.binary(line, *node[2:])

    def binary(self, line: int, op: str, a: Node, b: Node) -> tuple[str, Expression]:
        kind, left = self.expression(a)
        if op in ("and", "or", "xor"):
            x, y = self.typed(a, "bool"), self.typed(b, "bool")
            if op == "and":
                return "bool", lambda frame: x(frame) and y(frame)
            if op == "or":
                return "bool", lambda frame: x(frame) or y(frame)
            return "bool", lambda frame: x(frame) != y(frame)
        if kind not in ("num", "string", "bool") or (op not in ("==", "!=", "+") and kind != "num"):
            raise self.error(line, f"{op} does not work with {kind or 'nothing'}")
        right = self.typed(b, kind)
        if op in ("==", "!="):
            wanted = op == "=="
            return "bool", lambda frame: (left(frame) == right(frame)) is wanted
        act = _ARITHMETIC[op]
        result = "bool" if op in ("<", ">", "<=", ">=") else kind
        return result, lambda frame: self.guarded(line, lambda: act(left(frame), right(frame)))

    def call(self, line: int, name: str, arguments: list[Node]) -> tuple[str, Expression]:
        function = self.runner.functions.get(name.lower())
        if function is None:
            raise self.error(line, f"there is no instruction called {name!r}")
        n = len(function.arguments)
        if len(arguments) > n or (len(arguments) < n and not function.more):
            raise self.error(line, f"{name} takes {n} arguments, not {len(arguments)}")
        given: list[Expression] = []
        for node, kind in zip(arguments, function.arguments, strict=False):
            given.append(self.expression(node)[1] if kind == "*" else self.typed(node, kind))
        return function.result, lambda frame: self.guarded(
            line, lambda: function.act(*[value(frame) for value in given])
        )

    def guarded(self, line: int, act: Callable[[], Any]) -> Any:
        """Run an action that may fail, and add its line to the error."""
        try:
            return act()
        except (ArithmeticError, ValueError, TypeError) as error:
            raise self.error(line, str(error)) from None

    def read(self, line: int, name: str, index: Node | None, field: str | None) -> tuple[str, Expression]:
        kind, element = self.element(line, name, index)
        if field is None:
            copied = kind in ("jointRx", "mdesc")

            def whole(frame: Frame) -> Any:
                array, k = element(frame)
                return array[k].copy() if copied else array[k]

            return kind, whole
        key = self.field(line, name, kind, field)

        def part(frame: Frame) -> Any:
            array, k = element(frame)
            return array[k][key]

        return "num", part

    def place(self, node: Node) -> tuple[str, Callable[[Frame, Any], None]]:
        """Compile an assignment's target: its type, and the function that stores a value."""
        if node[0] != "name":
            raise self.error(node[1], "only names take values")
        _, line, name, index, field = node
        kind, element = self.element(line, name, index)
        key = None if field is None else self.field(line, name, kind, field)
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

    def field(self, line: int, name: str, kind: str, field: str) -> int | str:
        if kind == "jointRx" and field in _AXES:
            return _AXES[field]
        if kind == "mdesc" and field != "blend" and field in dict(default("mdesc")):  # type: ignore[arg-type]
            return field
        raise self.error(line, f"{name!r} of type {kind} has no {field!r}")

    def element(self, line: int, name: str, index: Node | None) -> tuple[str, Callable[[Frame], tuple[list[Any], int]]]:
        """Compile an element, the first by default: its type, and the function that finds array and index."""
        kind = self.local.get(name) or self.runner.kinds.get(name)
        if kind is None:
            raise self.error(line, f"{name!r} is not in the application's data")
        shared = None if name in self.local else self.runner.data[name]
        at = None if index is None else self.typed(index, "num")

        def find(frame: Frame) -> tuple[list[Any], int]:
            array = frame[name] if shared is None else shared
            k = 0 if at is None else at(frame)
            if not (0 <= k < len(array) and k == int(k)):
                raise self.error(line, f"{name}[{k:g}] is outside its {len(array)} elements")
            return array, int(k)

        return kind, find
