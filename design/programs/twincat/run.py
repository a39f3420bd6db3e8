"""Programs of structured text (IEC 61131-3, in Beckhoff's dialect), compiled to functions of frames as they are read.

Stricter than most compilers: whole numbers become reals, and wide numbers narrow ones, only by an explicit conversion;
literals adapt their type. LREAL is float64, REAL float32 after every operation. Methods, dereferenced pointers and
inheritance are not supported.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

from excitor.design.programs import runtime
from excitor.design.programs.runtime import (
    BREAK,
    CONTINUE,
    ORDER,
    RETURN,
    Assign,
    Fault,
    Guard,
    Level,
    Operators,
    Passes,
    Reader,
    Run,
    Token,
    choice,
    operation,
)
from excitor.design.programs.target import ProgramError
from excitor.design.programs.twincat.parse import (
    ADDRESS,
    BOOL,
    FRACTION,
    INT,
    LINT,
    LREAL,
    NOT_CONSTANT,
    SCALARS,
    STRING,
    TIME,
    UDINT,
    WHOLE,
    Array,
    Code,
    Found,
    Frame,
    Place,
    Record,
    Role,
    Routine,
    Scalar,
    Type,
    Variable,
    begin,
    bytes_of,
    constant,
    converted,
    copied,
    find,
    same,
    single,
    span,
    store,
    summed,
    tokens,
    type_name,
    wrapped,
)

_ROLES: dict[str, Role] = {
    "VAR_INPUT": "input", "VAR_OUTPUT": "output", "VAR_IN_OUT": "in-out", "VAR_TEMP": "local", "VAR": "local",
}  # fmt: skip
_UNITS = ("TYPE", "VAR_GLOBAL", "FUNCTION_BLOCK", "PROGRAM", "FUNCTION")
MOST_PASSES = 1_000_000  # of loops in one cycle: more is an endless loop
WRITTEN_OUT = 64  # FOR loops of up to so many passes between constants are compiled pass by pass


@dataclass
class Library:
    """Library of a controller: types (blocks among them), functions, values of enumerations, variables."""

    types: dict[str, Type] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    constants: dict[str, tuple[Type, Any]] = field(default_factory=dict)
    shared: dict[str, tuple[Type, Any]] = field(default_factory=dict)


class Project:
    """All files of a project, compiled together."""

    def __init__(self, files: Mapping[str, str], library: Library) -> None:
        self.programs: dict[str, Record] = {}
        self.types: dict[str, Type] = {name.lower(): type for name, type in SCALARS.items()}
        self.types.update({name.lower(): type for name, type in library.types.items()})
        self.routines = {name.lower(): routine for name, routine in library.routines.items()}
        self.constants = {name.lower(): value for name, value in library.constants.items()}
        self.globals = Record("global variables")
        self.globals_frame: Frame = []
        self.passes = Passes(MOST_PASSES, "the loop does not end")
        for name, (type, value) in library.shared.items():
            self.share(name, type, value)
        texts = [_Text(file, text, self) for file, text in files.items()]
        units = [(text, *unit) for text in texts for unit in text.read(0, text.units)]
        # Blocks first, for they may be used before they are written; then types, then global variables.
        order = (("FUNCTION_BLOCK", _Text.announced), ("TYPE", _Text.type_unit), ("VAR_GLOBAL", _Text.globals))
        for wanted, method in order:
            for text, kind, at in units:
                if kind == wanted:
                    text.read(at, method, text)
        bodies = [(text, *text.read(at, text.outline, kind)) for text, kind, at in units if kind in _UNITS[2:]]
        for text, record, kind, at in bodies:
            record.body = text.read(at, text.body, record, f"END_{kind}")

    def share(self, name: str, type: Type, value: Any, role: Role = "local") -> None:
        """Add a global variable."""
        variable = self.globals.add(name, type, role, value)
        self.globals_frame.extend(begin(variable))

    def start(self, name: str) -> Frame:
        """Build the frame of a program with initial values, which global variables get again."""
        for variable in self.globals.variables.values():
            self.globals_frame[variable.slot : variable.slot + span(variable.type)] = begin(variable)
        try:
            return self.programs[name.lower()].frame()
        except RecursionError:
            raise ProgramError(name, None, "a block contains itself") from None

    def shared(self, name: str) -> Any:
        """Find a global variable."""
        return self.globals_frame[self.globals.variables[name.lower()].slot]


Step = tuple[int, Run]  # a compiled statement, with its line


class Argument(NamedTuple):
    """An argument of a call: its name and sign (:=, => or none), and its value."""

    name: str
    sign: str
    code: Code | None


class _Text(Reader[Code]):
    """Reads a file against the names of its project, unit by unit."""

    operators = Operators(
        Level(("OR", "OR_ELSE")), Level(("XOR",)), Level(("AND", "AND_THEN")), Level(("=", "<>")), Level(tuple(ORDER)),
        Level(("+", "-")), Level(("*", "/", "MOD")), Level(prefix=("-", "+", "NOT")),
    )  # fmt: skip
    _POWER = 7  # the level of what stands after **

    def __init__(self, file: str, text: str, project: Project) -> None:
        super().__init__(tokens(file, text))
        self.file, self.project = file, project
        self.guard = Guard(file, (Fault,))
        self.own = Record("nothing")
        self.fixed: dict[int, int] = {}  # slots of loop variables in loops that are written out
        self.line = 1  # of the statement or declaration that is read

    def read(self, at: int, method: Callable[..., Any], *given: Any) -> Any:
        """Read with a method from a token on."""
        self.at = at
        try:
            return method(*given)
        except Fault as fault:
            raise ProgramError(self.file, fault.line or self.line, fault.sentence) from None
        except RecursionError:
            raise ProgramError(self.file, self.line, "expressions or blocks lie too deep in one another") from None

    def missing(self, *keys: str) -> str:
        if self.next.kind == "end":
            return "the text ends where more is expected; an END is missing"
        return f"{self.next.text[:40]!r} is not expected here"

    def name(self) -> Token:
        if self.next.kind != "name" or self.next.key:
            self.fail(self.missing())
        return self.take()

    # ---- units

    def units(self) -> list[tuple[str, int]]:
        """Find what the file consists of: the word that begins each unit, and the place of the token after it."""
        found = []
        while self.next.kind != "end":
            word = self.expect(*_UNITS)
            found.append((word, self.at))
            end = "END_VAR" if word == "VAR_GLOBAL" else f"END_{word}"
            while not self.sees(end):
                if self.next.kind == "end":
                    self.fail(self.missing())
                self.at += 1
            self.at += 1
        return found

    def register(self, name: Token, type: Type) -> None:
        self.line = name.line
        if name.text.lower() in self.project.types:
            raise Fault(f"{name.text} is declared twice")
        self.project.types[name.text.lower()] = type

    def announced(self) -> None:
        """Register a block by its name alone."""
        name = self.name()
        self.register(name, Record(name.text, block=True))

    def type_unit(self) -> None:
        while not self.accept("END_TYPE"):
            name = self.name()
            self.expect(":")
            if self.accept("STRUCT"):
                record = Record(name.text)
                self.register(name, record)
                while not self.accept("END_STRUCT"):
                    self.fields(record, "local")
            elif self.accept("("):
                self.enumeration(name)
            else:
                self.register(name, self.type())
                if self.accept(":="):
                    self.expression()
            while self.accept(";"):
                pass

    def enumeration(self, name: Token) -> None:
        type = Scalar(name.text, "int", INT.low, INT.high)
        self.register(name, type)
        number = -1
        while True:
            value = self.name().text
            number = self.known() if self.accept(":=") else number + 1
            for key in (value, f"{name.text}.{value}"):
                self.project.constants[key.lower()] = (type, number)
            if not self.accept(","):
                break
        self.expect(")")
        if self.next.kind == "name" and self.tokens[self.at + 1].key in (";", ":="):
            self.name()
        if self.accept(":="):
            self.name()

    def options(self) -> list[str]:
        found = []
        while word := self.accept("CONSTANT", "RETAIN", "PERSISTENT"):
            found.append(word)
        return found

    def globals(self) -> None:
        role: Role = "constant" if "CONSTANT" in self.options() else "local"
        while not self.accept("END_VAR"):
            self.fields(Record("nothing"), role, self.shared)

    def shared(self, name: str, type: Type, role: Role, value: Any) -> None:
        project = self.project
        if name.lower() in project.globals.variables:
            raise Fault(f"{name} is declared twice")
        project.share(name, type, value, role)
        if role == "constant" and isinstance(type, Scalar) and type.kind in ("int", "bool"):
            project.constants[name.lower()] = (type, value if value is not None else type.zero())
            del project.globals.variables[name.lower()]

    def outline(self, kind: str) -> tuple[Record, str, int]:
        """Declare the variables of a program, block or function; return it, and where its statements begin."""
        name = self.name()
        found = self.project.types.get(name.text.lower())
        record = found if kind == "FUNCTION_BLOCK" and isinstance(found, Record) else Record(name.text, block=True)
        self.own, result = record, None
        if kind == "FUNCTION":
            self.expect(":")
            result = self.type()
        while word := self.accept(*_ROLES):
            role: Role = "constant" if "CONSTANT" in self.options() else _ROLES[word]
            while not self.accept("END_VAR"):
                self.fields(record, role)
        self.line = name.line
        if name.text.lower() in (self.project.programs if kind == "PROGRAM" else self.project.routines):
            raise Fault(f"{name.text} is declared twice")
        if kind == "PROGRAM":
            self.project.programs[name.text.lower()] = record
        if result is not None:
            self.function(record, result)
        return record, kind, self.at

    def function(self, record: Record, result: Type) -> None:
        taken = [v for v in record.variables.values() if v.role in ("input", "in-out")]
        slot = record.add(record.name, result).slot
        if any(isinstance(v.type, Array) and v.type.inline and v.role == "in-out" for v in taken):
            raise Fault(f"{record.name} takes an array by reference; that is not known here")

        def run(*values: Any) -> Any:
            frame = record.frame()
            for variable, value in zip(taken, values, strict=True):
                n = span(variable.type)
                frame[variable.slot : variable.slot + n] = value if n > 1 else [value]
            assert record.body is not None
            record.body(frame)
            return frame[slot]

        parameters = tuple((v.name, v.type, v.role == "in-out") for v in taken)
        self.project.routines[record.name.lower()] = Routine(record.name, parameters, result, run)

    # ---- declarations

    def fields(self, record: Record, role: Role, add: Callable[[str, Type, Role, Any], object] | None = None) -> None:
        """Read variables of one type."""
        self.line = self.next.line
        names = self.listed(self.name)
        if self.accept("AT"):
            self.take()
        self.expect(":")
        type = self.type()
        value = self.initial(type) if self.accept(":=") else None
        self.expect(";")
        for name in names:
            if name.text.lower() in record.variables:
                raise Fault(f"{name.text} is declared twice", name.line)
            (add or record.add)(name.text, type, role, value)

    def type(self) -> Type:
        if self.accept("POINTER", "REFERENCE"):
            self.expect("TO")
            self.type()
            return ADDRESS
        if self.accept("ARRAY"):
            return self.array()
        name = self.name().text
        type = self.project.types.get(name.lower())
        if type is None:
            raise Fault(f"the type {name} is not known")
        if bracket := self.accept("(", "["):
            length = self.known()
            if self.accept(".."):
                self.known()
            else:
                type = Scalar("STRING", "text", length=length)
            self.expect(")" if bracket == "(" else "]")
        return type

    def array(self) -> Array:
        self.expect("[")
        ends = self.listed(self.limits)
        self.expect("]")
        self.expect("OF")
        sizes = tuple(high - low + 1 for low, high in ends)
        if min(sizes) < 1:
            raise Fault("an array ends before it begins")
        inner = self.type()
        if isinstance(inner, Array):
            raise Fault("arrays of arrays are not known here")
        return Array(tuple(low for low, _ in ends), sizes, inner)

    def limits(self) -> tuple[int, int]:
        low = self.known()
        self.expect("..")
        return low, self.known()

    def known(self) -> int:
        """Read a whole number that is known before the program runs."""
        code = self.expression()
        if not (code.fixed and isinstance(code.constant, int)):
            raise Fault("a known whole number is expected here")
        return int(code.constant)

    def initial(self, type: Type) -> Any:
        """Read what a variable of a type begins as."""
        named = self.sees("(") and self.tokens[self.at + 2].key == ":="
        if isinstance(type, Array):
            return self.initial_array(type)
        if isinstance(type, Record):
            if not named:
                raise Fault(f"{type.name} begins as (member := value, ...)")
            self.expect("(")
            made = dict(self.listed(lambda: self.initial_member(type)))
            self.expect(")")
            return made
        if named or self.sees("["):
            raise Fault(f"{type.name} begins as one value")
        code = converted(self.expression(), type)
        if not code.fixed and type.kind != "text":
            raise Fault("what a variable begins as must be known before the program runs")
        return code.constant if code.fixed else code.run([])

    def initial_member(self, record: Record) -> tuple[str, Any]:
        name = self.name().text
        self.expect(":=")
        if name.lower() not in record.variables:
            raise Fault(f"{record.name} has no {name}")
        return name.lower(), self.initial(record.variables[name.lower()].type)

    def initial_array(self, type: Array) -> list[Any]:
        if not isinstance(type.of, Scalar) or not self.accept("["):
            raise Fault("an array begins as a list of values, [a, b, ...]")
        values: list[Any] = []
        while True:
            times = 1
            if self.next.kind == "whole" and self.tokens[self.at + 1].key == "(":
                times = int(self.take().text)
                self.expect("(")
            values += [self.initial(type.of)] * times
            if self.tokens[self.at].key == ")":
                self.expect(")")
            if not self.accept(","):
                break
        self.expect("]")
        if len(values) > type.length:
            raise Fault(f"{len(values)} values are given for {type.length} elements")
        return values + [type.of.zero()] * (type.length - len(values))

    # ---- statements

    def body(self, record: Record, end: str) -> Run:
        """Read all statements of a block or a function."""
        self.own = record
        return self.block(end)[0]

    def block(self, *ends: str) -> tuple[Run, str]:
        """Read statements up to one of some words, which is taken."""
        steps: list[Step] = []
        while not (end := self.accept(*ends)):
            steps += self.statement()
        return self.sequence(steps), end

    def sequence(self, steps: list[Step]) -> Run:
        return self.guard.sequence(summed(steps))

    def statement(self) -> list[Step]:
        line = self.line = self.next.line
        known: dict[str, Callable[[], Run]] = {
            "IF": self.branch, "CASE": self.switch, "WHILE": self.whilst, "REPEAT": self.until,
            "RETURN": lambda: self.leave(RETURN), "EXIT": lambda: self.leave(BREAK),
            "CONTINUE": lambda: self.leave(CONTINUE),
        }  # fmt: skip
        if self.accept(";"):
            return []
        if self.accept("FOR"):
            return self.count(line)
        if word := self.accept(*known):
            return [(line, known[word]())]
        made = self.simple(line)
        self.expect(";")
        return [made]

    def simple(self, line: int) -> Step:
        """Read an assignment or a call."""
        name, after = self.name().text, self.next.key
        if after not in (":=", "(", ".", "[", "^"):
            self.fail(self.missing())
        key = name.lower()
        if after == "(" and key in self.project.routines and key not in self.own.variables:
            return line, _unvalued(self.routine_call(self.project.routines[key]).run)
        at = self.place(name)
        if self.accept(":="):
            code = self.expression()
            if not at.writable:
                raise Fault(f"{name} cannot be assigned")
            return line, store(at, converted(code, at.type))
        if not self.sees("("):
            self.fail(self.missing())
        given = self.arguments()
        owner = _reference(at)
        if at.method is not None:
            method = at.method
            if given:
                raise Fault("this action has no arguments")
            return line, lambda F: method(owner(F))
        if not (isinstance(at.type, Record) and at.type.block):
            raise Fault(f"{key} is {type_name(at.type)}, which is not called")
        return line, _block_call(at.type, owner, given)

    def leave(self, left: str) -> Run:
        self.expect(";")
        return lambda F: left

    def condition(self, then: str = "", begun: int | None = None) -> Run:
        """Read a condition, and the word after it; `begun`: the line of its statement, which is guarded."""
        self.line = self.next.line
        code = self.expression()
        if not (isinstance(code.type, Scalar) and code.type.kind == "bool"):
            raise Fault(f"a condition is {type_name(code.type)}, expected BOOL")
        if then:
            self.expect(then)
        return code.run if self.line == begun else self.guard(self.line, code.run)

    def branch(self) -> Run:
        line = self.tokens[self.at - 1].line
        return choice(self.branches(lambda: self.condition("THEN", line), self.block, ("ELSIF", "ELSE", "END_IF")))

    def switch(self) -> Run:
        what = self.expression()
        self.expect("OF")
        if not (isinstance(what.type, Scalar) and what.type.kind == "int"):
            raise Fault(f"CASE wants a whole number, {type_name(what.type)} is given")
        works: dict[int, list[Step]] = {}
        current: list[Step] | None = None
        while not (end := self.accept("ELSE", "END_CASE")):
            if self.labelled():
                current = []
                for number in (number for numbers in self.listed(self.label) for number in numbers):
                    if number in works:
                        raise Fault(f"CASE has {number} twice")
                    works[number] = current
                self.expect(":")
            elif current is None:
                raise Fault("a statement comes before the first label of CASE")
            else:
                current += self.statement()
        last = self.block("END_CASE")[0] if end == "ELSE" else self.sequence([])
        made = {number: self.sequence(steps) for number, steps in works.items()}
        run = what.run
        return lambda F: made.get(run(F), last)(F)

    def labelled(self) -> bool:
        """Tell whether a label of CASE follows."""
        k = self.at
        while self.tokens[k].kind == "name" or self.tokens[k].key == ".":
            k += 1
        if k == self.at:
            return self.next.kind in ("whole", "typed", "based") or self.sees("-")
        return self.tokens[k].key in (":", ",", "..")

    def label(self) -> Iterable[int]:
        self.line = self.next.line
        ends: list[Code] = [self.expression()]
        if self.accept(".."):
            ends.append(self.expression())
        if any(not (end.fixed and isinstance(end.type, Scalar) and end.type.kind == "int") for end in ends):
            raise Fault("a label of CASE must be a known whole number")
        low, high = ends[0].constant, ends[-1].constant
        if high - low > 10_000:
            raise Fault("a range of CASE is longer than 10000")
        return range(low, high + 1)

    def whilst(self) -> Run:
        test = self.condition("DO", self.tokens[self.at - 1].line)
        return runtime.loop(test, self.block("END_WHILE")[0], self.project.passes.spend)

    def until(self) -> Run:
        body, _ = self.block("UNTIL")
        test = self.condition()
        self.accept(";")
        self.expect("END_REPEAT")
        return runtime.loop(lambda F: not test(F), body, self.project.passes.spend, first=False)

    def count(self, line: int) -> list[Step]:
        name = self.name().text
        variable = self.own.variables.get(name.lower())
        if variable is None or not (isinstance(variable.type, Scalar) and variable.type.kind == "int"):
            raise Fault(f"FOR wants a whole variable of its own block, {name} is given")
        if variable.slot in self.fixed:
            raise Fault(f"{name} counts already")
        codes: list[Code] = []
        for sign in (":=", "TO", "BY"):
            if sign != "BY" or self.sees(sign):
                self.expect(sign)
                codes.append(self.expression())
                converted(codes[-1], variable.type)
        self.expect("DO")
        if all(code.fixed for code in codes):
            first, last, by = [code.constant for code in [*codes, constant(INT, 1)][:3]]
            if by == 0:
                raise Fault("FOR counts BY 0")
            passes = range(first, last + (1 if by > 0 else -1), by)
            end = self.end_of_loop()
            if len(passes) <= WRITTEN_OUT and not self.touched(end, name):
                return self.written_out(line, variable.slot, passes, end)
        return [(line, self.counted(variable.slot, codes))]

    def counted(self, slot: int, codes: list[Code]) -> Run:
        runs = [code.run for code in codes]

        def bounds(F: Frame) -> list[int]:
            return [*(run(F) for run in runs), 1][:3]

        def keep(F: Frame, k: int) -> None:
            F[slot] = k

        body, spend = self.block("END_FOR")[0], self.project.passes.spend
        return runtime.count(bounds, keep, body, spend, operator.itemgetter(slot), "FOR counts BY 0")

    def end_of_loop(self) -> int:
        """Find the end of a loop whose statements follow."""
        depth, k = 1, self.at
        while depth and k < len(self.tokens) - 1:
            depth += (self.tokens[k].key == "FOR") - (self.tokens[k].key == "END_FOR")
            k += 1
        return k - 1

    def touched(self, end: int, name: str) -> bool:
        """Tell whether a loop is left, or its variable assigned, before its end."""
        return any(
            token.key in ("RETURN", "EXIT", "CONTINUE")
            or (token.text.lower() == name.lower() and self.tokens[k + 1].key == ":=")
            for k, token in enumerate(self.tokens[self.at : end], self.at)
        )

    def written_out(self, line: int, slot: int, passes: range, end: int) -> list[Step]:
        steps: list[Step] = []
        begin = self.at
        for value in passes:
            self.at, self.fixed[slot] = begin, value
            while not self.sees("END_FOR"):
                steps += self.statement()
        self.fixed.pop(slot, None)
        self.at = end
        self.expect("END_FOR")
        after = passes.start + len(passes) * passes.step

        return [*steps, (line, Assign(slot, lambda F: after))]

    # ---- expressions

    def operand(self) -> Code:
        base = self.primary()
        if not self.accept("**"):
            return base
        return _called_function("expt", [base, self.expression(self._POWER)])

    def primary(self) -> Code:
        if self.accept("("):
            return replace(self.inner(), place=None)
        if word := self.accept("TRUE", "FALSE"):
            return constant(BOOL, word == "TRUE")
        if self.next.kind in _LITERALS:
            token = self.take()
            return _LITERALS[token.kind](token.text)
        name = self.name().text
        if self.sees("("):
            return self.call(name.lower())
        code = load(self.place(name))
        if self.sees("("):
            raise Fault("a block has no value; call it in a line of its own")
        return code

    def joined(self, sign: Token, left: Code | None, right: Code) -> Code:
        if left is not None:
            return _binary(sign.key, left, right)
        if sign.key == "+":
            return replace(right, place=None)
        return _negated(right) if sign.key == "-" else _inverted(right)

    def place(self, name: str) -> Place:
        """Find a variable, and follow its members and indices."""
        key, project = name.lower(), self.project
        own, common = self.own.variables.get(key), project.globals.variables.get(key)
        if own is not None:
            known = self.fixed.get(own.slot, NOT_CONSTANT)
            if own.role == "constant" and isinstance(own.type, Scalar) and own.type.kind in ("int", "bool"):
                known = own.initial if own.initial is not None else own.type.zero()
            at = Place(own.type, own.slot, None, known, own.role != "constant" and own.slot not in self.fixed)
        elif common is not None:
            shared = project.globals_frame
            at = Place(common.type, common.slot, lambda F: shared, writable=common.role != "constant", path=None)
        else:
            at = self.enumerated(name)
        while sign := self.accept(".", "[", "^"):
            if sign == "^":
                raise Fault("pointers are not followed here")
            at = self.member(at) if sign == "." else self.element(at)
        return at

    def enumerated(self, name: str) -> Place:
        """Find a value of an enumeration: `eValue` or `E_Type.eValue`."""
        key = name.lower()
        if isinstance(self.project.types.get(key), Scalar) and self.accept("."):
            key = f"{key}.{self.take().text.lower()}"
        if key not in self.project.constants or self.sees(".", "[", "^"):
            raise Fault(f"{name} is not declared")
        type, value = self.project.constants[key]
        return Place(type, -1, None, value, False)

    def member(self, at: Place) -> Place:
        name = self.take().text
        if not isinstance(at.type, Record):
            raise Fault(f"member {name} of {type_name(at.type)}, which has no members")
        if self.sees("(") and name.lower() in at.type.methods:
            return replace(at, method=at.type.methods[name.lower()])
        member = at.type.variables.get(name.lower())
        if member is None:
            raise Fault(f"{at.type.name} has no {name}")
        inside = at.type.block and member.role in ("local", "constant")
        writable = at.writable and not inside
        return Place(member.type, member.slot, _reference(at), writable=writable, path=at.whole_path)

    def element(self, at: Place) -> Place:
        if not isinstance(at.type, Array):
            raise Fault(f"{type_name(at.type)} has no elements")
        codes = self.listed(self.expression)
        self.expect("]")
        base = at.index if at.type.inline else 0
        offset = _offset(codes, at.type, base if isinstance(base, int) else 0)
        if not at.type.inline:
            return Place(at.type.of, offset, _reference(at), writable=at.writable, path=at.whole_path)
        if callable(base):
            raise Fault("arrays of arrays are not known here")
        return Place(at.type.of, offset, at.holder, self.known_element(at, offset), at.writable, path=at.path)

    def known_element(self, at: Place, offset: int | Run) -> Any:
        """Return an element of a constant array of whole numbers at compile time, else NOT_CONSTANT."""
        if at.holder is None and isinstance(offset, int) and not at.writable:
            for variable in self.own.variables.values():
                whole = isinstance(variable.type, Array) and getattr(variable.type.of, "kind", "") == "int"
                if variable.slot == at.index and whole and variable.initial is not None:
                    return variable.initial[offset - variable.slot]
        return NOT_CONSTANT

    # ---- calls

    def arguments(self) -> list[Argument]:
        """Read the arguments of a call in their brackets."""
        self.expect("(")
        return self.closed(self.argument)

    def argument(self) -> Argument:
        name, sign = "", self.tokens[self.at + 1].key
        if sign in (":=", "=>"):
            name = self.name().text
            self.at += 1
        empty = sign == "=>" and self.sees(",", ")")
        return Argument(name, sign if name else "", None if empty else self.expression())

    def call(self, name: str) -> Code:
        if name in self.project.routines:
            return self.routine_call(self.project.routines[name])
        given = self.arguments()
        if name in ("adr", "sizeof"):
            return _address(name, given)
        if any(argument.sign for argument in given):
            raise Fault(f"{name.upper()} takes its arguments without names")
        return _called_function(name, [argument.code for argument in given if argument.code])

    def routine_call(self, routine: Routine) -> Code:
        """Read the arguments of a function, by name or in their order."""
        given = self.arguments()
        names = [name.lower() for name, _, _ in routine.parameters]
        pairs = zip(given, names, strict=False)
        taken = {name: argument.code for argument, name in pairs if not argument.sign}
        taken |= {argument.name.lower(): argument.code for argument in given if argument.sign == ":="}
        unknown = [name for name in taken if name not in names]
        if unknown or len(taken) != len(names) or len(given) != len(names):
            what = f"has no {unknown[0]}" if unknown else f"wants {len(names)} arguments: {', '.join(names)}"
            raise Fault(f"{routine.name} {what}")
        codes: list[Code] = []
        for name, type, by_reference in routine.parameters:
            code = taken[name.lower()]
            assert code is not None
            codes.append(Code(type, _handed(code, type)) if by_reference else converted(code, type))
        work, fetch = routine.run, _fetched(codes)
        return Code(routine.result or BOOL, lambda F: work(*fetch(F)))


def _fetched(codes: list[Code]) -> Callable[[Frame], Iterable[Any]]:
    """Compute several values; those of the frame, which come first, at once."""
    plain = [code.slot for code in takewhile(lambda code: code.slot is not None, codes)]
    runs = [code.run for code in codes]
    if len(plain) < 2:
        return lambda F: [run(F) for run in runs]
    first, rest = operator.itemgetter(*plain), runs[len(plain) :]
    if len(rest) == 1:
        last = rest[0]
        return lambda F: (*first(F), last(F))
    return (lambda F: (*first(F), *[run(F) for run in rest])) if rest else first


def _unvalued(run: Run) -> Run:
    def call(F: Frame) -> None:
        run(F)

    return call


def _block_call(record: Record, find: Run, given: list[Argument]) -> Run:
    """Compile a call of a block: inputs in, its body, outputs out; in-out variables by reference."""
    inputs: list[tuple[int | slice, Run]] = []
    plain: dict[int, int] = {}  # the first inputs, where they are slots of the frame
    copies: list[tuple[int, int, Run, Run, list[Any], bool]] = []
    outputs: list[tuple[int, Run]] = []
    wanted = {key for key, variable in record.variables.items() if variable.role == "in-out"}
    scratch: list[Any] = [None]
    for name, sign, code in given:
        if not sign:
            raise Fault(f"{record.name} takes its arguments by name")
        variable, output = record.variables.get(name.lower()), sign == "=>"
        if variable is None or variable.role not in (("output",) if output else ("input", "in-out")):
            raise Fault(f"{record.name} has no {'output' if output else 'input'} {name}")
        if output:
            if code is not None:
                at = _placed(code, f"{variable.name} wants a variable")
                value = converted(Code(variable.type, lambda F: scratch[0]), at.type)
                outputs.append((variable.slot, store(at, value)))
            continue
        assert code is not None
        if variable.role == "input":
            code = converted(code, variable.type)
            if code.slot is not None and not inputs and variable.slot == len(plain):
                plain[variable.slot] = code.slot
            else:
                inputs.append((variable.slot, copied(code.run) if isinstance(variable.type, Record) else code.run))
            continue
        wanted.discard(name.lower())
        if isinstance(variable.type, Scalar) or (isinstance(variable.type, Array) and variable.type.inline):
            copies.append(_copying(variable, code))
        else:
            inputs.append((variable.slot, _handed(code, variable.type)))
    if wanted:
        raise Fault(f"{record.name} wants {', '.join(sorted(wanted))}")
    if len(plain) > 1:
        inputs.insert(0, (slice(len(plain)), operator.itemgetter(*plain.values())))
    else:
        inputs += [(slot, operator.itemgetter(source)) for slot, source in plain.items()]
    return _called(record, find, inputs, copies, outputs, scratch)


def _placed(code: Code, sentence: str) -> Place:
    if code.place is None:
        raise Fault(sentence)
    return code.place


def _copying(variable: Variable, code: Code) -> tuple[int, int, Run, Run, list[Any], bool]:
    """Hand over a scalar or an array of scalars in both directions."""
    box: list[Any] = [None]
    at = _placed(code, f"{variable.name} wants a variable")
    converted(code, variable.type)
    back = store(at, Code(variable.type, lambda F: box[0]))
    run, listed = code.run, isinstance(variable.type, Array)
    return variable.slot, span(variable.type), (run if listed else lambda F: [run(F)]), back, box, listed


def _called(
    record: Record, find: Run, inputs: list[Any], copies: list[Any], outputs: list[Any], scratch: list[Any]
) -> Run:
    native = record.native is not None

    def call(F: Frame) -> None:
        B = find(F)
        for slot, run in inputs:
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


def _handed(code: Code, type: Type) -> Run:
    """Find the list that is handed over by reference."""
    at = _placed(code, "an in-out variable wants a variable")
    if not same(at.type, type):
        raise Fault(f"an in-out variable is {type_name(at.type)}, expected {type_name(type)}")
    return _reference(at)


def _address(name: str, given: list[Argument]) -> Code:
    if len(given) != 1 or given[0].sign or given[0].code is None or given[0].code.place is None:
        raise Fault(f"{name.upper()} wants one variable")
    code, at = given[0].code, given[0].code.place
    if name == "sizeof":
        return constant(UDINT, bytes_of(at.type))
    inline = isinstance(at.type, Scalar) or (isinstance(at.type, Array) and at.type.inline)
    return Code(ADDRESS, code.run if inline else _reference(at))


def _called_function(name: str, codes: list[Code]) -> Code:
    """Call a standard function."""
    found: Found | str = find(name, [code.type for code in codes])
    if isinstance(found, str):
        raise Fault(found)
    result, work = found

    runs = [code.run for code in codes]

    def call(F: Frame) -> Any:
        values = [run(F) for run in runs]
        try:
            return work(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            raise Fault(f"a function has no value at {values[0]}") from None

    return Code(result, call)


def _number(text: str) -> Code:
    digits = text.replace("_", "")
    return constant(WHOLE, int(digits)) if digits.isdigit() else constant(FRACTION, float(digits))


def _based(text: str) -> Code:
    base, digits = text.replace("_", "").split("#")
    try:
        return constant(WHOLE, int(digits, int(base)))
    except ValueError:
        raise Fault(f"{text} is no whole number of base {base}") from None


def _text(text: str) -> Code:
    escapes = {"$N": "\n", "$L": "\n", "$R": "\r", "$T": "\t", "$P": "\f"}
    return constant(STRING, re.sub(r"\$(.)", lambda m: escapes.get(m[0].upper(), m[1]), text[1:-1]))


def _duration(written: str) -> Code:
    text = written.split("#")[1].replace("_", "").lower()
    scale = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1, "us": 1e-3, "ns": 1e-6}
    parts = re.findall(r"([0-9.]+)(ms|us|ns|d|h|m|s)", text)
    if "".join(a + b for a, b in parts) != text:
        raise Fault(f"{written} is no time")
    return constant(TIME, round(sum(float(a) * scale[b] for a, b in parts)))


def _typed(written: str) -> Code:
    name, _, text = written.partition("#")
    type = SCALARS[name.upper()]
    if type.kind == "bool":
        if text.upper() not in ("TRUE", "FALSE", "0", "1"):
            raise Fault(f"{text} is no BOOL")
        return constant(type, text.upper() in ("TRUE", "1"))
    try:
        if type.kind == "real":
            return constant(type, single(float(text)) if type.name == "REAL" else float(text))
        base, _, digits = text.rpartition("#")
        return converted(constant(WHOLE, int(digits, int(base or 10))), type)
    except ValueError:
        raise Fault(f"{text} is no {name}") from None


_LITERALS: dict[str, Callable[[str], Code]] = {
    "real": _number, "whole": _number, "based": _based, "text": _text, "duration": _duration, "typed": _typed,
}  # fmt: skip


def _offset(codes: list[Code], array: Array, base: int) -> int | Run:
    """Compile the place of an element among all of them, plus a base."""
    if len(codes) != len(array.lows):
        raise Fault(f"the array has {len(array.lows)} indices, {len(codes)} are given")
    for code in codes:
        if not (isinstance(code.type, Scalar) and code.type.kind == "int"):
            raise Fault(f"an index is {type_name(code.type)}, expected a whole number")
    limits = list(zip(array.lows, array.sizes, strict=True))

    def find(numbers: list[int]) -> int:
        at = 0
        for number, (low, size) in zip(numbers, limits, strict=True):
            if not low <= number < low + size:
                raise Fault(f"index {number} is outside the array's {low} to {low + size - 1}")
            at = at * size + number - low
        return base + at

    if all(code.fixed for code in codes):
        return find([code.constant for code in codes])
    runs = [code.run for code in codes]
    moves = [k for k, code in enumerate(codes) if not code.fixed]
    if len(moves) > 1:
        return lambda F: find([run(F) for run in runs])
    (k,) = moves
    (low, size), run = limits[k], runs[k]
    numbers = [code.constant if code.fixed else low for code in codes]
    begin, end, stride = find(numbers), low + size, math.prod(size for _, size in limits[k + 1 :])

    def find_one(F: Frame) -> int:
        number: int = run(F)
        if low <= number < end:
            return begin + stride * (number - low)
        return find([*numbers[:k], number, *numbers[k + 1 :]])

    return find_one


def _reference(at: Place) -> Run:
    """Load the list that a record, or an array of records, is."""
    index, holder, path = at.index, at.holder, at.whole_path or ()
    if 1 < len(path) <= len(_FOLLOWED) + 1:
        return _FOLLOWED[len(path) - 2](*path)
    if holder is None:
        return (lambda F: F[index(F)]) if callable(index) else operator.itemgetter(index)
    if callable(index):
        return lambda F: holder(F)[index(F)]
    return lambda F: holder(F)[index]


_FOLLOWED: tuple[Callable[..., Run], ...] = (  # lists in lists, by known indices
    lambda a, b: lambda F: F[a][b],
    lambda a, b, c: lambda F: F[a][b][c],
    lambda a, b, c, d: lambda F: F[a][b][c][d],
)


def load(at: Place) -> Code:
    """Read a variable."""
    if at.constant is not NOT_CONSTANT:
        return replace(constant(at.type, at.constant), place=at)
    if isinstance(at.type, Array) and at.type.inline:
        n, index, holder = at.type.length, at.index, at.holder
        if callable(index):
            raise Fault("arrays of arrays are not known here")
        return Code(at.type, lambda F: (holder(F) if holder else F)[index : index + n], place=at)
    slot = at.index if at.holder is None and isinstance(at.index, int) and isinstance(at.type, Scalar) else None
    return Code(at.type, _reference(at), slot=slot, place=at)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<>": operator.ne, **ORDER}
_JOIN: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _binary(symbol: str, a: Code, b: Code) -> Code:
    """Compile `a symbol b`."""
    if not (isinstance(a.type, Scalar) and isinstance(b.type, Scalar)):
        raise Fault(f"{symbol} joins {type_name(a.type)} and {type_name(b.type)}")
    if symbol in _COMPARE:
        return _folded(_comparison(symbol, a, b), a, b)
    if symbol in ("AND", "OR", "XOR", "AND_THEN", "OR_ELSE"):
        return _folded(_logic(symbol, a, b), a, b)
    kinds = {a.type.kind, b.type.kind}
    if kinds == {"int"}:
        return _folded(_whole(symbol, a, b), a, b)
    if kinds == {"real"} or (kinds == {"int", "real"} and WHOLE in (a.type, b.type)):
        return _folded(_real(symbol, a, b), a, b)
    if "time" in kinds and kinds <= {"time", "int"}:
        return _folded(_time(symbol, a, b), a, b)
    advice = ""
    if kinds == {"int", "real"}:
        whole, real = (a, b) if a.type.kind == "int" else (b, a)
        target = "LREAL" if real.type is FRACTION else type_name(real.type)
        advice = f"; write {type_name(whole.type)}_TO_{target}"
    raise Fault(f"{symbol} joins {a.type.name} and {b.type.name}{advice}")


def _folded(code: Code, a: Code, b: Code) -> Code:
    """Fold a constant expression at compile time."""
    return constant(code.type, code.run([])) if a.fixed and b.fixed else code


def _comparison(symbol: str, a: Code, b: Code) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kinds = {a.type.kind, b.type.kind}
    literal = WHOLE in (a.type, b.type)
    if len(kinds) > 1 and not (kinds == {"int", "real"} and literal):
        raise Fault(f"{symbol} compares {a.type.name} with {b.type.name}")
    if "bool" in kinds and symbol not in ("=", "<>"):
        raise Fault(f"{symbol} compares BOOL with BOOL")
    return Code(BOOL, operation(_COMPARE[symbol], a.operand, b.operand))


def _logic(symbol: str, a: Code, b: Code) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    f, g = a.run, b.run
    if a.type.kind == b.type.kind == "bool":
        if symbol == "AND_THEN":
            return Code(BOOL, lambda F: f(F) and g(F))
        if symbol == "OR_ELSE":
            return Code(BOOL, lambda F: f(F) or g(F))
    elif not a.type.kind == b.type.kind == "int":
        raise Fault(f"{symbol} joins {a.type.name} and {b.type.name}")
    result = BOOL if a.type.kind == "bool" else _wider(a.type, b.type)
    op = {"XOR": operator.xor, "OR": operator.or_}.get(symbol, operator.and_)
    return Code(result, operation(op, a.operand, b.operand))


def _wider(a: Scalar, b: Scalar) -> Scalar:
    if a is WHOLE or (b is not WHOLE and b.low <= a.low and b.high >= a.high):
        return b
    return a if b is WHOLE or (a.low <= b.low and a.high >= b.high) else LINT


def _whole(symbol: str, a: Code, b: Code) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    result = _wider(a.type, b.type)
    f, g = a.run, b.run

    def divided(F: list[Any]) -> int:
        x, y = f(F), g(F)
        if y == 0:
            raise Fault("a whole number is divided by 0")
        quotient = abs(x) // abs(y)
        quotient = quotient if (x < 0) == (y < 0) else -quotient
        return wrapped(quotient if symbol == "/" else x - y * quotient, result)

    if symbol in ("/", "MOD"):
        return Code(result, divided)
    joined = operation(_JOIN[symbol], a.operand, b.operand)
    low, high = result.low, result.high

    def kept(F: list[Any]) -> int:
        value: int = joined(F)
        return value if low <= value <= high else wrapped(value, result)

    return Code(result, kept)


def _real(symbol: str, a: Code, b: Code) -> Code:
    if symbol == "MOD":
        raise Fault("MOD wants whole numbers")
    names = {a.type.name, b.type.name} if isinstance(a.type, Scalar) and isinstance(b.type, Scalar) else set()
    if "REAL" in names and "LREAL" not in names:
        a, b = _as_single(a), _as_single(b)
        run = _divided(a, b) if symbol == "/" else operation(_JOIN[symbol], a.operand, b.operand)
        real = a.type if type_name(a.type) == "REAL" else b.type
        return Code(real, lambda F: single(run(F)))
    result = LREAL if "LREAL" in names else FRACTION
    if symbol == "/":
        return Code(result, _divided(a, b))
    made = Code(result, operation(_JOIN[symbol], a.operand, b.operand))
    if symbol == "*" and a.slot is not None and b.slot is not None:
        made.terms = ((a.slot, b.slot),)
    elif symbol == "+" and a.slot is not None and b.terms and b.begin is None:
        made.begin, made.terms = a.slot, b.terms
    return made


def _as_single(code: Code) -> Code:
    return constant(code.type, single(code.constant)) if code.fixed else code


def _divided(a: Code, b: Code) -> Run:
    f, g = a.run, b.run
    if b.fixed and b.constant != 0:
        divisor = float(b.constant)
        return lambda F: f(F) / divisor

    def divide(F: list[Any]) -> float:
        try:
            return float(f(F) / g(F))
        except ZeroDivisionError:
            raise Fault("a number is divided by 0") from None

    return divide


def _time(symbol: str, a: Code, b: Code) -> Code:
    f, g = a.run, b.run
    both = type_name(a.type) == type_name(b.type)
    if both and symbol in ("+", "-"):
        return Code(TIME, operation(_JOIN[symbol], a.operand, b.operand))
    if not both and type_name(a.type) == "TIME" and symbol in ("*", "/"):
        return Code(TIME, (lambda F: f(F) * g(F)) if symbol == "*" else (lambda F: f(F) // g(F)))
    raise Fault(f"{symbol} joins {type_name(a.type)} and {type_name(b.type)}")


def _negated(a: Code) -> Code:
    """Compile `-a`."""
    if not (isinstance(a.type, Scalar) and a.type.kind in ("int", "real")):
        raise Fault(f"{type_name(a.type)} has no sign")
    if a.fixed:
        return constant(a.type, -a.constant)
    f, type = a.run, a.type
    return Code(type, (lambda F: -f(F)) if type.kind == "real" else (lambda F: wrapped(-f(F), type)))


def _inverted(a: Code) -> Code:
    """Compile `NOT a`."""
    f, type = a.run, a.type
    if isinstance(type, Scalar) and type.kind == "bool":
        made = Code(type, lambda F: not f(F))
        return constant(type, not a.constant) if a.constant is not NOT_CONSTANT else made
    if isinstance(type, Scalar) and type.kind == "int" and type is not WHOLE:
        return Code(type, lambda F: wrapped(~f(F), type))
    raise Fault(f"NOT wants BOOL, {type_name(type)} is given")
