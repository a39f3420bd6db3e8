"""Interpreter of KRL modules: text -> routines, which run on a robot that the caller provides.

A subset: declarations, IF, SWITCH, the loops, RETURN, HALT, WAIT, axis motions, spline blocks with time blocks,
routines of the module with IN and OUT parameters. What needs the robot's geometry, or other files, is refused by name.

Expressions and statements are compiled to closures, block by block; every block needs its own end. REAL is a float of
24 bits, INT has 32, angles are degrees; operators check the types of their operands.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from excitor.design.programs import runtime
from excitor.design.programs.runtime import (
    BREAK,
    RETURN,
    Fault,
    Guard,
    Level,
    Operators,
    Passes,
    Reader,
    Run,
    Token,
    choice,
    scan,
)
from excitor.design.programs.target import ProgramError

PASSES = 100_000  # of loops in which no time goes by
DEPTH = 50  # of calls


Value = Any  # int, float (of 24 bits), bool, str, Word, or a structure: dict of its members


@dataclass(slots=True)
class State:
    """A running program: its variables, and the robot that it moves."""

    robot: Any  # KrlRobot; raises Fault for unsupported requests
    routines: Mapping[str, Any]
    types: Mapping[str, str]
    passes: Passes  # of loops since time last went by
    depth: int = 0
    variables: dict[str, Value] = field(default_factory=dict)
    result: Value = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a spline block, as its line states it."""

    kind: str
    target: Mapping[str, Value]
    constant: bool  # whether it is written in numbers alone
    line: int


@dataclass(frozen=True, slots=True)
class TimeBlock:
    """Times of a spline block: after the segment numbered `start`, every segment takes its part of `seconds`."""

    start: int
    parts: tuple[str, ...]  # %, as they are written
    seconds: str
    line: int


@dataclass(frozen=True, slots=True)
class Spline:
    """A spline block."""

    kind: str  # "SPLINE" or "PTP_SPLINE"
    segments: tuple[Segment, ...]
    times: TimeBlock | None
    line: int


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument of a routine's call; a variable may be written by the routine."""

    read: Callable[[], Value]
    write: Callable[[Value], None] | None


@dataclass(slots=True)
class Routine:
    """DEF or DEFFCT."""

    name: str
    line: int
    parameters: tuple[tuple[str, bool], ...]  # name, whether it is written back (OUT)
    gives: str  # type of its result; empty: none
    types: dict[str, str]
    body: Run

    def run(self, caller: State, given: Sequence[Argument]) -> Value:
        """Call it from another routine."""
        if len(given) != len(self.parameters):
            raise Fault(f"{self.name} takes {len(self.parameters)} arguments, not {len(given)}")
        if caller.depth >= DEPTH:
            raise Fault(f"calls nest deeper than {DEPTH}")
        state = State(caller.robot, caller.routines, self.types, caller.passes, caller.depth + 1)
        for (name, out), argument in zip(self.parameters, given, strict=True):
            if out and argument.write is None:
                raise Fault(f"{name} of {self.name} is OUT and needs a variable")
            try:
                value = argument.read()
            except Fault:
                if not out:
                    raise
                continue  # an OUT parameter may come without a value
            state.variables[name] = stored(self.types[name], value)
        self.body(state)
        for (name, out), argument in zip(self.parameters, given, strict=True):
            if out and argument.write is not None and name in state.variables:
                argument.write(state.variables[name])
        if self.gives and state.result is None:
            raise Fault(f"{self.name} ends without RETURN of a value")
        return state.result


@dataclass(frozen=True, slots=True)
class Module:
    """A file: its first routine is the program."""

    file: str
    main: Routine
    routines: Mapping[str, Routine]


def run(module: Module, robot: Any) -> None:
    """Run a module's program to its end."""
    if module.main.parameters:
        raise ProgramError(module.file, module.main.line, "a program takes no parameters; call it from another one")
    passes = Passes(PASSES, f"a loop made {PASSES} passes without waiting or moving")
    module.main.body(State(robot, module.routines, module.main.types, passes))


def _sentence(error: Exception) -> str:
    return "expressions nest too deep" if isinstance(error, RecursionError) else str(error)


_CODE = re.compile(r"""(?:[^";]|"[^"]*(?:"|$))*""")
_FIRST = re.compile(r"\s*([A-Za-z_$][\w$]*)")
TYPES = {"INT", "REAL", "BOOL", "CHAR", "AXIS", "E6AXIS", "POS", "E6POS", "FRAME"}
ENDS = {
    "ENDIF", "ELSE", "ENDFOR", "ENDWHILE", "UNTIL", "ENDLOOP", "ENDSWITCH", "CASE", "DEFAULT", "ENDSPLINE", "END",
    "ENDFCT",
}  # fmt: skip
_REFUSED = {
    "GOTO": "jumps; write a loop",
    "TRIGGER": "switches on the way; not part of this subset",
    "STRUC": "declares a structure; not part of this subset",
    "ENUM": "declares an enumeration; not part of this subset",
    "SIGNAL": "declares a signal; not part of this subset",
    "IMPORT": "needs another file; not part of this subset",
    "DEFDAT": "declares data; give the .src file alone",
    "EXT": "declares a routine of another file; not part of this subset",
    "ON_ERROR_PROCEED": "hides errors; not part of this subset",
    "ANOUT": "drives an output while moving; not part of this subset",
    "PULSE": "drives an output; not part of this subset",
}
_NUMBER = re.compile(r"\s*=\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


def uncommented(line: str) -> str:
    """Remove a comment; a semicolon in a string begins none."""
    return _CODE.match(line)[0].strip()  # type: ignore[index]  # it always matches


def first_word(text: str) -> str:
    """Return the first word of a line, in upper case."""
    match = _FIRST.match(text)
    return match[1].upper() if match else ""


def refusal_of(word: str) -> str:
    """Reason why a statement is not supported; empty for a supported one."""
    return f"{word} {_REFUSED[word]}" if word in _REFUSED else ""


def routine_name(line: str) -> str:
    """Name the routine that a line begins; empty if it begins none."""
    head = re.match(r"(?i)(?:GLOBAL\s+)?(?:DEF|DEFFCT\s+\w+)\s+(\w+)\s*\(", line)
    return head[1].upper() if head else ""


def declares(line: str) -> bool:
    """Return True if a line declares a variable."""
    words = line.upper().split()
    if words[:1] == ["GLOBAL"]:
        return words[1:2] == ["DECL"] or words[1:2] == ["CONST"]
    return words[0] in ("DECL", "CONST") or (words[0] in TYPES and len(words) > 1)


def parameter(text: str) -> tuple[str, bool]:
    """Read a parameter: its name, and whether it is written back."""
    match = re.fullmatch(r"(?i)\s*([A-Za-z_]\w*)\s*(?:\[\s*\])?\s*(?::\s*(IN|OUT))?\s*", text)
    if match is None:
        raise Fault(f"{text.strip()[:30]!r} is no parameter")
    return match[1].upper(), (match[2] or "OUT").upper() == "OUT"


def plain_number(text: str) -> str:
    """Read = and a number, as it is written."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise Fault(f"{text.strip()[:30]!r} stands where = and a number are expected")
    return match[1]


class Times:
    """Checks the order of TIME_BLOCK: START after a segment, a PART after each one that follows, END last."""

    def __init__(self) -> None:
        self.start = -1
        self.parts: list[str] = []
        self.seconds = ""
        self.line = 0

    def take(self, text: str, segments: int, line: int) -> None:
        """Parse the text after TIME_BLOCK."""
        word, rest = first_word(text), text[len(first_word(text)) :]
        if word == "START" and not rest and self.start < 0 and segments:
            self.start, self.line = segments, line
        elif word == "PART" and self.start >= 0 and not self.seconds and segments == self.start + len(self.parts) + 1:
            self.parts.append(plain_number(rest))
        elif word == "END" and self.parts and not self.seconds and segments == self.start + len(self.parts):
            self.seconds = plain_number(rest)
        else:
            raise Fault(
                f"TIME_BLOCK {word or text[:20]} is out of order: START follows the first segment, a PART each of the "
                "others, END the last"
            )

    def next_segment(self, segments: int) -> None:
        """Check that a segment may follow."""
        if self.seconds:
            raise Fault("a segment follows TIME_BLOCK END")
        if self.start >= 0 and segments != self.start + len(self.parts):
            raise Fault("the segment before has no TIME_BLOCK PART")

    def closed(self, segments: int) -> TimeBlock | None:
        """Return the times at the end of the block; None without times."""
        if self.start >= 0 and not self.seconds:
            raise Fault("TIME_BLOCK START has no TIME_BLOCK END")
        return TimeBlock(self.start, tuple(self.parts), self.seconds, self.line) if self.seconds else None


_TOKEN = re.compile(
    r"""(?P<blank>\s+)|(?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>\d+)|(?P<string>"[^"]*")
    |(?P<bits>'[HhBb][0-9A-Fa-f]+')|(?P<name>[$A-Za-z_][$\w]*)|(?P<word>\#\w+)
    |(?P<op><>|<=|>=|==|[-+*/<>=(){}\[\],.:])""",
    re.VERBOSE,
)
_AXES = re.compile(r"\{\s*([A-Z]\d\s+[-+]?\d+\.?\d*(?:\s*,\s*[A-Z]\d\s+[-+]?\d+\.?\d*)*)\s*\}")


def tokens_of(text: str, line: int) -> list[Token]:
    """Cut a line into tokens; names and enumerations in upper case."""
    found: list[Token] = []
    for kind, part, _ in scan(_TOKEN, text.rstrip(), line, lambda rest: f"cannot read {rest.strip()[:30]!r}"):
        part = part.upper() if kind in ("name", "word") else part
        found.append(Token(kind, part, line, part if kind in ("name", "op") else ""))
    return [*found, Token("end", "", line, "")]


def plain_axes(text: str) -> dict[str, float] | None:
    """Read {A1 1.0,A2 -2.0} of numbers alone, quickly; None for anything else."""
    match = _AXES.fullmatch(text.strip())
    if match is None:
        return None
    pairs = [pair.split() for pair in match[1].split(",")]
    values = {name: single(float(number)) for name, number in pairs}
    if len(values) != len(pairs):
        raise Fault("names an axis twice")
    return values


class _Words(Reader[Run]):
    """Reads expressions from a line, against the names that its module declares."""

    operators = Operators(
        Level(("==", "<>", "<", ">", "<=", ">=")), Level(("OR", "B_OR")), Level(("EXOR", "B_EXOR")),
        Level(("AND", "B_AND")), Level(("+", "-")), Level(("*", "/")), Level(prefix=("NOT", "-", "+")),
    )  # fmt: skip

    def __init__(self, text: str, module: "_Lines") -> None:
        super().__init__(tokens_of(text, module.number))
        self.module = module

    def missing(self, *keys: str) -> str:
        return f"{self.next.text or 'the end of the line'!r} stands where {keys[0]!r} is expected"

    def name(self) -> str:
        """Consume a name; raise Fault for another token."""
        if self.next.kind != "name":
            self.fail(f"{self.next.text or 'the end of the line'!r} stands where a name is expected")
        return self.take().text

    def end(self) -> None:
        """Raise Fault unless the line ends here."""
        if self.next.kind != "end":
            self.fail(f"{self.next.text!r} is too much")

    def joined(self, sign: Token, left: Run | None, right: Run) -> Run:
        if left is not None:
            operate = OPERATORS[sign.key]
            return lambda state: operate(left(state), right(state))
        if sign.key == "NOT":
            return lambda state: not truth(right(state))
        return right if sign.key == "+" else lambda state: -number(right(state))

    def operand(self) -> Run:
        return self._members(self._primary())

    def _primary(self) -> Run:
        if self.next.kind == "end":
            self.fail("the expression ends too early")
        if self.next.kind == "name":
            return self._named()
        if self.accept("("):
            return self.inner()
        if self.accept("{"):
            return self._structure()
        constant = _constant(self.take())
        return lambda state: constant

    def _structure(self) -> Run:
        if self.tokens[self.at + 1 :] and self.tokens[self.at + 1].key == ":":
            self.name()
            self.expect(":")
        members: dict[str, Run] = {}
        self.listed(lambda: self._component(members))
        self.expect("}")
        return lambda state: {name: real(read(state)) for name, read in members.items()}

    def _component(self, members: dict[str, Run]) -> None:
        name = self.name()
        if name in members:
            raise Fault(f"names {name} twice")
        members[name] = self.expression()

    def _named(self) -> Run:
        name = self.name()
        if name in ("TRUE", "FALSE"):
            constant = name == "TRUE"
            return lambda state: constant
        if self.sees("("):
            return self.call(name)
        if name in self.module.known:
            constant = self.module.known[name]
            return lambda state: constant
        return self.variable(name)

    def variable(self, name: str) -> Run:
        """Read a variable; the robot's own begin with $."""
        if name.startswith("$"):
            return lambda state: state.robot.read(name)
        if name not in self.module.types:
            raise Fault(f"{name} is not declared")

        def read(state: State) -> Value:
            if name not in state.variables:
                raise Fault(f"{name} has no value yet")
            return state.variables[name]

        return read

    def _members(self, read: Run) -> Run:
        while True:
            if self.accept("."):
                name = self.name()
                read = _member(read, name)
            elif self.accept("["):
                index = None if self.sees("]") else self.expression()
                self.expect("]")
                read = _element(read, index)
            else:
                return read

    def call(self, name: str) -> Run:
        """Read the arguments of a routine, ours or the controller's."""
        self.expect("(")
        arguments: list[tuple[str, Run]] = []
        while not self.sees(")"):
            arguments.append(self._argument())
            if not self.accept(","):
                break
        self.expect(")")
        if name not in FUNCTIONS and name not in self.module.routine_names and name not in self.module.calls:
            raise Fault(f"there is no routine {name}")
        if name in FUNCTIONS:
            return _function(name, [read for _, read in arguments])

        def called(state: State) -> Value:
            given = [_argument(state, variable, read) for variable, read in arguments]
            if name in state.routines:
                return state.routines[name].run(state, given)
            return state.robot.call(name, given)

        return called

    def _argument(self) -> tuple[str, Run]:
        """Read an argument: its name if it is a variable, and its value."""
        if self.next.text in self.module.types and self.tokens[self.at + 1].key in (",", ")"):
            name = self.take().text
            return name, self.variable(name)
        return "", self.expression()


def _argument(state: State, variable: str, read: Run) -> Argument:
    def write(value: Value) -> None:
        state.variables[variable] = stored(state.types[variable], value)

    return Argument(lambda: read(state), write if variable else None)


def _constant(token: Token) -> Value:
    kind, text = token.kind, token.text
    if kind == "int":
        return whole(int(text))
    if kind == "real":
        return single(float(text))
    if kind == "string":
        return text[1:-1]
    if kind == "word":
        return Word(text)
    if kind == "bits":
        return whole(int(text[2:-1], 16 if text[1] in "hH" else 2))
    raise Fault(f"{text!r} stands where a value is expected")


def _member(read: Run, name: str) -> Run:
    def member(state: State) -> Value:
        value = read(state)
        if not isinstance(value, dict) or name not in value:
            raise Fault(f"has no member {name}")
        return value[name]

    return member


def _element(read: Run, index: Run | None) -> Run:
    def element(state: State) -> Value:
        value = read(state)
        if index is None:  # a string as a whole: NAME[]
            return value
        k = integer(index(state))
        if not isinstance(value, list) or not 1 <= k <= len(value):
            raise Fault(f"has no element {k}")
        return value[k - 1]

    return element


def _function(name: str, arguments: list[Run]) -> Run:
    count, evaluate = FUNCTIONS[name]
    if len(arguments) != count:
        raise Fault(f"{name} takes {count} arguments, not {len(arguments)}")

    def called(state: State) -> Value:
        try:
            result = evaluate(*(number(read(state)) for read in arguments))
        except ValueError:
            raise Fault(f"{name} of a number that it is not defined for") from None
        return result if isinstance(result, int) else single(result)

    return called


_MOVES = {"PTP", "PTP_REL", "LIN", "LIN_REL", "CIRC", "SPTP", "SLIN", "SCIRC", "SPL"}
_ROUNDED = {"C_PTP", "C_DIS", "C_VEL", "C_ORI", "C_SPL"}
_SEGMENTS = {"PTP_SPLINE": {"SPTP"}, "SPLINE": {"SPL", "SLIN", "SCIRC"}}


@lru_cache(maxsize=8)
def parse(text: str, file: str, known: tuple[tuple[str, Value], ...], calls: frozenset[str]) -> Module:
    """Read a module; `known` are the controller's constants, `calls` the names of its routines."""
    reader = _Lines(text, file, dict(known), calls)
    try:
        routines = reader.routines()
    except Fault as fault:
        raise ProgramError(file, reader.number, fault.sentence) from None
    except RecursionError:
        raise ProgramError(file, reader.number, "nests too deep") from None
    return Module(file, next(iter(routines.values())), routines)


class _Lines:
    """Reads a module's lines from the first to the last."""

    def __init__(self, text: str, file: str, known: Mapping[str, Value], calls: frozenset[str]) -> None:
        self.known, self.calls = known, calls
        self.guard = Guard(file, (Fault, RecursionError), _sentence)
        lines = ((k, uncommented(line)) for k, line in enumerate(text.split("\n"), start=1))
        self.lines = [(k, line) for k, line in lines if line and not line.startswith("&")]
        self.at = 0
        self.number = 1
        self.types: dict[str, str] = {}
        self.routine_names = {routine_name(line) for _, line in self.lines} - {""}
        self.loops = 0

    def routines(self) -> dict[str, Routine]:
        """Read every routine of the module."""
        found: dict[str, Routine] = {}
        while self.at < len(self.lines):
            line = self.next()
            if line.upper().startswith("GLOBAL "):
                line = line[7:].lstrip()
            head = re.fullmatch(r"(?i)(DEF|DEFFCT\s+\w+)\s+(\w+)\s*\((.*)\)", line)
            if head is None:
                word = first_word(line)
                raise Fault(refusal_of(word) or f"{line[:40]!r} stands outside of DEF ... END")
            routine = self.routine(head[1].upper(), head[2].upper(), head[3])
            if routine.name in found:
                raise Fault(f"{routine.name} is defined twice")
            found[routine.name] = routine
        if not found:
            raise Fault("has no DEF ... END")
        return found

    def routine(self, head: str, name: str, listed: str) -> Routine:
        """Read one routine, from the line after its head."""
        begun = self.number
        parameters = [parameter(text) for text in listed.split(",")] if listed.strip() else []
        self.types = dict.fromkeys((name for name, _ in parameters), "ANY")
        while self.at < len(self.lines) and declares(self.lines[self.at][1]):
            self.declare(self.next())
        if "ANY" in self.types.values():
            raise Fault(f"a parameter of {name} has no declared type")
        body, _ = self.block("ENDFCT" if head.startswith("DEFFCT") else "END", begun=f"{head} {name}", line=begun)
        gives = head.split()[1] if head.startswith("DEFFCT") else ""
        return Routine(name, begun, tuple(parameters), gives, self.types, body)

    def next(self) -> str:
        """Return the next line, and advance."""
        self.number, line = self.lines[self.at]
        self.at += 1
        return line

    def declare(self, line: str) -> None:
        """Read a declaration."""
        words = re.sub(r"(?i)^(GLOBAL\s+)?(DECL\s+)?(GLOBAL\s+)?(CONST\s+)?", "", line)
        kind, _, rest = words.partition(" ")
        if "=" in rest:
            raise Fault("a .src file declares without a value; assign it in the program")
        for item in re.split(r",(?![^\[]*\])", rest):
            name = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(\[[\d,\s]*\])?\s*", item)
            if name is None:
                raise Fault(f"{item.strip()[:30]!r} is no name to declare")
            if name[2] and kind.upper() != "CHAR":
                raise Fault("declares an array; not part of this subset")
            if self.types.get(name[1].upper(), "ANY") != "ANY":
                raise Fault(f"{name[1].upper()} is declared twice")
            self.types[name[1].upper()] = kind.upper() if kind.upper() in TYPES else "ENUM"

    def block(self, *ends: str, begun: str, line: int) -> tuple[Run, str]:
        """Read statements up to one of the ends; return them, and the line that ends them."""
        made: list[tuple[int | None, Run]] = []
        while self.at < len(self.lines):
            text = self.next()
            word = first_word(text)
            if word in ends:
                return self.guard.sequence(made), text
            if word in ENDS or word in ("DEF", "DEFFCT"):
                raise Fault(f"{word} stands where {' or '.join(ends)} of {begun} in line {line} is expected")
            number = self.number
            statement = self.statement(word, text)
            if statement is not None:
                made.append((number, statement))
        raise Fault(f"{begun} in line {line} has no {' or '.join(ends)}")

    def expression(self, text: str) -> Run:
        """Read a text that is one expression."""
        words = _Words(text, self)
        found = words.expression()
        words.end()
        return found

    def statement(self, word: str, text: str) -> Run | None:
        """Read a statement; None for one that does nothing here."""
        if refusal := refusal_of(word):
            raise Fault(refusal)
        if declares(text):
            raise Fault("declarations stand before the first statement")
        rest = text[len(word) :].strip()
        special: dict[str, Callable[[str], Run | None]] = {
            "IF": self.branch, "SWITCH": self.switch, "FOR": self.count, "WHILE": self.whilst, "REPEAT": self.repeat,
            "LOOP": self.loop, "EXIT": self.leave, "RETURN": self.give, "HALT": self.halt, "WAIT": self.wait,
            "PTP_SPLINE": partial(self.spline, "PTP_SPLINE"), "SPLINE": partial(self.spline, "SPLINE"),
            "INTERRUPT": partial(_interrupt, word), "GLOBAL": partial(_interrupt, word), "CONTINUE": _nothing,
        }  # fmt: skip
        if word in special:
            return special[word](rest)
        if word in _MOVES:
            return self.move(word, rest)
        return self.assignment_or_call(text)

    def branch(self, rest: str) -> Run:
        """IF ... THEN ... ELSE ... ENDIF."""
        begun = self.number
        head = re.fullmatch(r"(?i)(.*\S)\s*\bTHEN", rest)
        if head is None:
            raise Fault("IF has no THEN at its end")
        condition = self.expression(head[1])
        yes, end = self.block("ELSE", "ENDIF", begun="IF", line=begun)
        branches: list[tuple[Run | None, Run]] = [(lambda state: truth(condition(state)), yes)]
        if first_word(end) == "ELSE":
            branches.append((None, self.block("ENDIF", begun="IF", line=begun)[0]))
        return choice(branches)

    def switch(self, rest: str) -> Run:
        """SWITCH ... CASE ... DEFAULT ... ENDSWITCH."""
        begun, subject = self.number, self.expression(rest)
        empty, text = self.block("CASE", "ENDSWITCH", begun="SWITCH", line=begun)
        cases: list[tuple[list[Run] | None, Run]] = []
        while first_word(text) != "ENDSWITCH":
            labels = None if first_word(text) == "DEFAULT" else [self.expression(x) for x in text[4:].split(",")]
            body, text = self.block("CASE", "DEFAULT", "ENDSWITCH", begun="SWITCH", line=begun)
            cases.append((labels, body))
        return runtime.switch(subject, [*cases, (None, empty)])

    def count(self, rest: str) -> Run:
        """FOR i = a TO b STEP c ... ENDFOR."""
        begun = self.number
        head = re.fullmatch(r"(?i)(\w+)\s*=\s*(.+?)\s+TO\s+(.+?)(?:\s+STEP\s+(.+))?", rest)
        if head is None or self.types.get(head[1].upper()) != "INT":
            raise Fault("FOR counts an INT: FOR I=1 TO 10 STEP 2")
        name, first, last = head[1].upper(), self.expression(head[2]), self.expression(head[3])
        step = self.expression(head[4] or "1")
        body, turn, _ = self.cycle("ENDFOR", "FOR", begun)

        def bounds(state: State) -> list[int]:
            return [integer(limit(state)) for limit in (first, last, step)]

        def store(state: State, k: int) -> None:
            state.variables[name] = stored("INT", k)

        return runtime.count(bounds, store, body, turn, lambda state: state.variables[name], "FOR has a STEP of 0")

    def whilst(self, rest: str) -> Run:
        """WHILE ... ENDWHILE."""
        begun, condition = self.number, self.expression(rest)
        body, turn, _ = self.cycle("ENDWHILE", "WHILE", begun)
        return runtime.loop(lambda state: truth(condition(state)), body, turn)

    def loop(self, rest: str) -> Run:
        """LOOP ... ENDLOOP."""
        if rest:
            raise Fault(f"{rest[:30]!r} is too much")
        body, turn, _ = self.cycle("ENDLOOP", "LOOP", self.number)
        return runtime.loop(lambda state: True, body, turn)

    def repeat(self, rest: str) -> Run:
        """REPEAT ... UNTIL."""
        body, turn, text = self.cycle("UNTIL", "REPEAT", self.number)
        condition = self.expression(text[5:])
        return runtime.loop(lambda state: not truth(condition(state)), body, turn, first=False)

    def cycle(self, end: str, begun: str, line: int) -> tuple[Run, Run, str]:
        """Read a loop's statements; return them, what counts their passes, and the line that ends them."""
        self.loops += 1
        body, text = self.block(end, begun=begun, line=line)
        self.loops -= 1
        return body, self.guard(self.lines[self.at - 2][0], lambda state: state.passes.spend()), text

    def leave(self, rest: str) -> Run:
        """EXIT."""
        if rest or not self.loops:
            raise Fault("EXIT leaves a loop, and stands in none" if not rest else f"{rest[:30]!r} is too much")
        return lambda state: BREAK

    def give(self, rest: str) -> Run:
        """RETURN."""
        value = self.expression(rest) if rest else None

        def given(state: State) -> str:
            state.result = value(state) if value else None
            return RETURN

        return given

    def halt(self, rest: str) -> Run:
        """HALT."""
        if rest:
            raise Fault(f"{rest[:30]!r} is too much")
        return lambda state: state.robot.halt()

    def wait(self, rest: str) -> Run:
        """WAIT SEC, WAIT FOR."""
        word = first_word(rest)
        if word not in ("SEC", "FOR"):
            raise Fault("WAIT needs SEC or FOR")
        value = self.expression(rest[3:])

        def waited(state: State) -> None:
            if word == "FOR" and not truth(value(state)):
                raise Fault("waits for what does not come")
            state.robot.wait(float(number(value(state))) if word == "SEC" else None)
            state.passes.count = 0

        return waited

    def move(self, kind: str, rest: str) -> Run:
        """Read a motion."""
        words = rest.upper().split()
        rounded = bool(words) and words[-1] in _ROUNDED
        target = self.target(rest[: rest.upper().rindex(words[-1])] if rounded else rest)

        def moved(state: State) -> None:
            state.robot.move(kind, target[0](state), rounded)
            state.passes.count = 0

        return moved

    def target(self, text: str) -> tuple[Run, bool]:
        """Read a motion's target, and whether it is written in numbers alone."""
        axes = plain_axes(text)
        if axes is not None:
            return (lambda state: axes), True
        return self.expression(text), False

    def spline(self, kind: str, rest: str) -> Run:
        """SPLINE ... ENDSPLINE: segments and one time block."""
        if rest:
            raise Fault(f"{rest[:30]!r} is not part of this subset")
        begun, times = self.number, Times()
        segments: list[tuple[str, Run, bool, int]] = []
        while self.at < len(self.lines):
            text = self.next()
            word = first_word(text)
            if word == "ENDSPLINE":
                return _splined(kind, segments, times.closed(len(segments)), begun)
            if word == "TIME_BLOCK":
                times.take(text[10:].strip(), len(segments), self.number)
            elif word in _SEGMENTS[kind]:
                times.next_segment(len(segments))
                segments.append((word, *self.target(text[len(word) :]), self.number))
            else:
                raise Fault(f"{word or text[:20]!r} may not stand in a {kind} block")
        raise Fault(f"{kind} in line {begun} has no ENDSPLINE")

    def assignment_or_call(self, text: str) -> Run:
        """NAME = value, NAME.MEMBER = value, NAME[] = "text", NAME(...)."""
        words = _Words(text, self)
        name = words.name()
        if words.sees("("):
            call = words.call(name)
            words.end()

            def called(state: State) -> None:
                call(state)

            return called
        path = [name]
        while words.sees(".", "["):
            if words.accept("."):
                path.append(words.name())
            else:
                words.expect("[")
                words.expect("]")
        words.expect("=")
        value = words.expression()
        words.end()
        return self.assigned(tuple(path), value)

    def assigned(self, path: tuple[str, ...], value: Run) -> Run:
        """Write a variable, the robot's or our own."""
        name = path[0]
        if name.startswith("$"):
            return lambda state: state.robot.write(path, value(state))
        if name not in self.types:
            raise Fault(f"{name} is not declared")
        kind = self.types[name]

        def kept(state: State) -> None:
            if len(path) == 1:
                state.variables[name] = stored(kind, value(state))
            else:
                held = state.variables.setdefault(name, {})
                state.variables[name] = {**held, path[1]: stored("REAL", value(state))}

        return kept


def _splined(kind: str, segments: list[tuple[str, Run, bool, int]], times: TimeBlock | None, line: int) -> Run:
    def run(state: State) -> None:
        made = tuple(Segment(word, target(state), constant, k) for word, target, constant, k in segments)
        state.robot.spline(Spline(kind, made, times, line))
        state.passes.count = 0

    return run


def _nothing(rest: str) -> None:
    return None


def _interrupt(word: str, rest: str) -> Run:
    """Declare an interrupt, or switch it; the robot hears the statement without its blanks, in capitals."""
    text = "".join(f"{word}{rest}".upper().split())
    return lambda state: state.robot.interrupt(text)


Operator = Callable[[Value, Value], Value]


class Word(str):
    """A constant of an enumeration, such as #T1; upper case."""


def single(x: float) -> float:
    """Round to a REAL."""
    try:
        return runtime.single(x)
    except OverflowError:
        raise Fault(f"{x:g} is too large for a REAL") from None


def whole(x: int) -> int:
    """Check that a number fits an INT."""
    if not -(2**31) <= x < 2**31:
        raise Fault(f"{x} is too large for an INT")
    return x


def stored(kind: str, value: Value) -> Value:
    """Convert a value to a variable's type, as an assignment does."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "REAL" and number:
        return single(value)
    if kind == "INT" and number:
        return whole(value if isinstance(value, int) else math.floor(abs(value) + 0.5) * (-1 if value < 0 else 1))
    fits = {
        "BOOL": isinstance(value, bool),
        "CHAR": isinstance(value, str) and not isinstance(value, Word),
        "ENUM": isinstance(value, Word),
        "STRUCTURE": isinstance(value, dict),
    }
    if fits.get(kind if kind in fits else "ENUM" if isinstance(value, Word) else "STRUCTURE", False):
        return value
    raise Fault(f"{shown(value)} is no {kind}")


def shown(value: Value) -> str:
    """Format a value for a message."""
    return "a structure" if isinstance(value, dict) else repr(value)[:40]


def number(value: Value) -> Value:
    """Return a number; raise Fault for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f"{shown(value)} stands where a number is expected")
    return value


def real(value: Value) -> Value:
    """Round numbers to REAL."""
    return value if isinstance(value, str | bool | dict) else single(value)


def integer(value: Value) -> int:
    """Return an INT; raise Fault for other values."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault(f"{shown(value)} stands where an INT is expected")
    return value


def truth(value: Value) -> bool:
    """Return TRUE or FALSE; raise Fault for other values."""
    if not isinstance(value, bool):
        raise Fault(f"{shown(value)} stands where TRUE or FALSE is expected")
    return value


def _calculated(operate: Operator) -> Operator:
    def both(a: Value, b: Value) -> Value:
        result = operate(number(a), number(b))
        return whole(result) if isinstance(result, int) else single(result)

    return both


def _quotient(a: Value, b: Value) -> Value:
    if b == 0:
        raise Fault("divides by zero")
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _compared(operate: Operator, *, ordered: bool) -> Operator:
    def both(a: Value, b: Value) -> Value:
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
        if not numbers and (ordered or type(a) is not type(b)):
            raise Fault(f"compares {shown(a)} with {shown(b)}")
        return operate(a, b)

    return both


OPERATORS: dict[str, Operator] = {
    "==": _compared(operator.eq, ordered=False),
    "<>": _compared(operator.ne, ordered=False),
    **{sign: _compared(operate, ordered=True) for sign, operate in runtime.ORDER.items()},
    "OR": lambda a, b: truth(a) | truth(b),
    "B_OR": lambda a, b: integer(a) | integer(b),
    "EXOR": lambda a, b: truth(a) ^ truth(b),
    "B_EXOR": lambda a, b: integer(a) ^ integer(b),
    "AND": lambda a, b: truth(a) & truth(b),
    "B_AND": lambda a, b: integer(a) & integer(b),
    "+": _calculated(operator.add),
    "-": _calculated(operator.sub),
    "*": _calculated(operator.mul),
    "/": _calculated(_quotient),
}
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "ABS": (1, abs),
    "SQRT": (1, math.sqrt),
    "SIN": (1, lambda x: math.sin(math.radians(x))),
    "COS": (1, lambda x: math.cos(math.radians(x))),
    "TAN": (1, lambda x: math.tan(math.radians(x))),
    "ACOS": (1, lambda x: math.degrees(math.acos(x))),
    "ATAN2": (2, lambda y, x: math.degrees(math.atan2(y, x))),
}
