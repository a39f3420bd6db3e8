"""Parser of RAPID modules, written from the language's description and independent of any emitter.

Text becomes words, words become declarations, expressions and statements with their lines. Types and predeclared data
are RAPID's; a num has single precision.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from excitor.design.programs.runtime import Fault, Level, Operators, Reader, Run, Token, scan, single
from excitor.design.programs.target import ProgramError

WORDS = frozenset(
    ["ALIAS", "AND", "BACKWARD", "CASE", "CONNECT", "CONST", "DEFAULT", "DIV", "DO", "ELSE", "ELSEIF", "ENDFOR",
     "ENDFUNC", "ENDIF", "ENDMODULE", "ENDPROC", "ENDRECORD", "ENDTEST", "ENDTRAP", "ENDWHILE", "ERROR", "EXIT",
     "FALSE", "FOR", "FROM", "FUNC", "GOTO", "IF", "INOUT", "LOCAL", "MOD", "MODULE", "NOSTEPIN", "NOT", "NOVIEW",
     "OR", "PERS", "PROC", "RAISE", "READONLY", "RECORD", "RETRY", "RETURN", "STEP", "SYSMODULE", "TASK", "TEST",
     "THEN", "TO", "TRAP", "TRUE", "TRYNEXT", "UNDO", "VAR", "VIEWONLY", "WHILE", "WITH", "XOR"]
)  # fmt: skip
LONGEST_NAME = 32
LONGEST_STRING = 80

_NUMBER = r"0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+|!.*)|(?P<string>"(?:[^"\n]|"")*")|(?P<late>%"[^"\n]*"%)
    |(?P<odd>(?>{_NUMBER})(?=[A-Za-z_0-9]))|(?P<number>{_NUMBER})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>:=|<>|<=|>=|[-+*/=<>\\(){{}}\[\],;:.%])""",
    re.VERBOSE,
)


def _tokens(text: str) -> list[Token]:
    """Cut a text into tokens, the last of which is its end."""
    text = re.sub(r"\A\s*%%%[^%]*%%%", lambda header: "\n" * header[0].count("\n"), text)
    found = scan(_TOKEN, text, 1, lambda rest: f"the letter {rest[0]!r} has no place here")
    tokens = [_token(kind, part, line) for kind, part, line in found]
    return [*tokens, Token("end", "the end of the file", 1 + text.count("\n"), "")]


def _token(kind: str, text: str, line: int) -> Token:
    if kind == "odd":
        raise Fault(f"a letter follows the number {text}", line)
    if kind == "name" and len(text) > LONGEST_NAME:
        raise Fault(f"the name {text} has {len(text)} letters, {LONGEST_NAME} are allowed", line)
    if kind == "name" and text.upper() in WORDS:
        return Token("word", text.upper(), line, text.upper())
    if kind == "string":
        inner = text[1:-1].replace('""', '"')
        if len(inner) > LONGEST_STRING:
            raise Fault(f"a string has {len(inner)} letters, {LONGEST_STRING} are allowed", line)
        return Token(kind, inner, line, "")
    return Token(kind, text, line, text if kind == "sign" else "")


@dataclass(frozen=True, slots=True)
class Value:
    """A number, a text or TRUE and FALSE."""

    line: int
    value: float | str | bool


@dataclass(frozen=True, slots=True)
class Part:
    """One name of a path such as `here.robax.rax_1` or `table{3}`."""

    name: str
    indices: tuple["Expression", ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A variable, a component or an element."""

    line: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    r"""An argument of a call; `\name` and `\name:=value` have a name, a switch has no value."""

    line: int
    name: str | None
    value: "Expression | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function for its value, or of an instruction or procedure."""

    line: int
    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator between two expressions, or before one (`left` is None)."""

    line: int
    sign: str
    left: "Expression | None"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`[a, b, ...]`: a record's components or an array's elements."""

    line: int
    items: tuple["Expression", ...]


Expression = Value | Path | Call | Operation | Aggregate


Statement = tuple[int, Callable[[Any], Run]]  # its line, and what makes it in a routine: run.Body
Block = list[Statement]


@dataclass(frozen=True, slots=True)
class Data:
    """A declaration of a constant, a variable or a persistent."""

    line: int
    storage: Literal["CONST", "VAR", "PERS"]
    type: str
    name: str
    sizes: tuple[Expression, ...]
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a routine; `rank` counts the stars of `{*, *}`."""

    line: int
    type: str
    name: str
    optional: bool
    mode: str  # "", "INOUT", "VAR" or "PERS"
    rank: int


@dataclass(frozen=True, slots=True)
class Record:
    """A user's record: names and types of its components."""

    line: int
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Routine:
    """A procedure, function or trap."""

    line: int
    kind: str
    name: str
    type: str
    parameters: tuple[Parameter, ...]
    data: tuple[Data, ...]
    body: Block
    handler: Block | None  # ERROR


@dataclass(frozen=True, slots=True)
class Module:
    """All that one file declares."""

    line: int
    name: str
    records: tuple[Record, ...] = ()
    data: tuple[Data, ...] = ()
    routines: tuple[Routine, ...] = field(default=())


def parse(file: str, text: str) -> Module:
    """Parse a module; raise ProgramError where the text is not a valid one."""
    try:
        return _Parser(_tokens(text)).module()
    except Fault as fault:
        raise ProgramError(file, fault.line, fault.sentence) from None


class _Parser(Reader):
    operators = Operators(
        Level(("OR", "XOR")), Level(("AND",), ("NOT",)),
        Level(("=", "<>", "<", ">", "<=", ">="), ("NOT",), chain=False), Level(("+", "-")),
        Level(("*", "/", "DIV", "MOD")),
        Level(prefix=("+", "-")),
    )  # fmt: skip

    def missing(self, *keys: str) -> str:
        return f"expected {' or '.join(keys)}"

    def fail(self, sentence: str) -> NoReturn:
        super().fail(f"{sentence}, found {self.next.text}")

    def name(self) -> str:
        if self.next.kind != "name":
            self.fail("expected a name")
        return self.take().text

    # ---- declarations

    def module(self) -> Module:
        line = self.next.line
        self.expect("MODULE")
        name = self.name()
        if self.accept("("):
            self.listed(lambda: self.expect("SYSMODULE", "NOSTEPIN", "VIEWONLY", "READONLY", "NOVIEW"))
            self.expect(")")
        records: list[Record] = []
        data: list[Data] = []
        routines: list[Routine] = []
        while not self.accept("ENDMODULE"):
            self.accept("LOCAL", "TASK")
            if self.sees("RECORD"):
                records.append(self.record())
            elif self.sees("CONST", "VAR", "PERS"):
                data.append(self.data())
            elif self.sees("PROC", "FUNC", "TRAP"):
                routines.append(self.routine())
            else:
                self.fail("expected a declaration, a routine or ENDMODULE")
        if self.next.kind != "end":
            self.fail("nothing may follow ENDMODULE")
        return Module(line, name, tuple(records), tuple(data), tuple(routines))

    def record(self) -> Record:
        line = self.next.line
        self.expect("RECORD")
        name, fields = self.name(), []
        while not self.accept("ENDRECORD"):
            kind = self.name()
            fields.append((self.name(), kind))
            self.expect(";")
        return Record(line, name, tuple(fields))

    def data(self) -> Data:
        line = self.next.line
        storage = self.expect("CONST", "VAR", "PERS")
        kind, name = self.name(), self.name()
        sizes: tuple[Expression, ...] = ()
        value = None
        if self.accept("{"):
            sizes = tuple(self.listed(self.expression))
            self.expect("}")
        if self.accept(":="):
            value = self.expression()
        elif storage == "CONST":
            self.fail(f"the constant {name} has no value: expected :=")
        self.expect(";")
        return Data(line, storage, kind, name, sizes, value)  # type: ignore[arg-type]

    def routine(self) -> Routine:
        line, kind = self.next.line, self.expect("PROC", "FUNC", "TRAP")
        returns = self.name() if kind == "FUNC" else ""
        name = self.name()
        parameters: tuple[Parameter, ...] = ()
        if kind != "TRAP":
            self.expect("(")
            parameters = () if self.sees(")") else self.parameters()
            self.expect(")")
        data = []
        while self.sees("CONST", "VAR", "PERS"):
            data.append(self.data())
        end = f"END{kind}"
        body, handler = self.block("ERROR", "UNDO", "BACKWARD", end), None
        while not self.accept(end):
            section = self.expect("ERROR", "UNDO", "BACKWARD")
            if section == "ERROR" and self.accept("("):
                self.listed(self.expression)
                self.expect(")")
            block = self.block("ERROR", "UNDO", "BACKWARD", end)
            handler = block if section == "ERROR" else handler
        return Routine(line, kind, name, returns, parameters, tuple(data), body, handler)

    def parameters(self) -> tuple[Parameter, ...]:
        found = [self.parameter()]
        while self.accept(",") or self.sees("\\") or self.accept("|"):
            found.append(self.parameter())
        return tuple(found)

    def parameter(self) -> Parameter:
        line, optional = self.next.line, bool(self.accept("\\"))
        mode = self.accept("INOUT", "VAR", "PERS")
        kind, name, rank = self.name(), self.name(), 0
        if self.accept("{"):
            rank = len(self.listed(lambda: self.expect("*")))
            self.expect("}")
        return Parameter(line, kind, name, optional, mode, rank)

    # ---- statements

    def block(self, *ends: str) -> Block:
        found: Block = []
        while not self.sees(*ends):
            found.append((self.next.line, self.statement(ends)))
        return found

    def statement(self, ends: tuple[str, ...]) -> Callable[[Any], Run]:
        makers = {"IF": self.choice, "FOR": self.count, "WHILE": self.loop, "TEST": self.switch}
        if word := self.accept(*makers):
            return makers[word]()
        if self.next.kind not in ("name", "late") and not self.sees(
            "RETURN", "RAISE", "RETRY", "TRYNEXT", "EXIT", "GOTO", "CONNECT", "%"
        ):
            self.fail(f"expected a statement or {' or '.join(ends)}")
        if self.next.kind == "name" and self.tokens[self.at + 1].key == ":":
            label = self.name()
            self.expect(":")
            return _unsupported(f"the label {label}")
        found = self.simple()
        self.expect(";")
        return found

    def simple(self) -> Callable[[Any], Run]:
        if word := self.accept("RETRY", "TRYNEXT", "EXIT", "RETURN", "RAISE"):
            value = self.expression() if word in ("RETURN", "RAISE") and not self.sees(";") else None
            return lambda body: body.jump(word, value)
        if self.accept("GOTO"):
            return _unsupported(f"GOTO {self.name()}")
        if self.accept("CONNECT"):
            self.path()
            self.expect("WITH")
            return _unsupported(f"CONNECT with the trap {self.name()}")
        if self.next.kind == "late" or self.sees("%"):
            while not self.sees(";"):
                self.at += 1
            return _unsupported("a call of a routine whose name is a text")
        start = self.at
        place = self.path()
        if self.accept(":="):
            value = self.expression()
            return lambda body: body.assign(place, value)
        self.at = start
        name, bracket = self.name(), self.accept("(")
        call = Call(place.line, name, self.arguments(")" if bracket else ";"))
        if bracket:
            self.expect(")")
        return lambda body: body.do(call)

    def choice(self) -> Callable[[Any], Run]:
        branches: list[tuple[Expression | None, Block]] = []
        condition = self.expression()
        if not self.accept("THEN"):  # compact: one statement
            branches.append((condition, [(self.next.line, self.statement(()))]))
            return lambda body: body.choice(branches)
        while True:
            branches.append((condition, self.block("ELSEIF", "ELSE", "ENDIF")))
            if not self.accept("ELSEIF"):
                break
            condition = self.expression()
            self.expect("THEN")
        if self.accept("ELSE"):
            branches.append((None, self.block("ENDIF")))
        self.expect("ENDIF")
        return lambda body: body.choice(branches)

    def count(self) -> Callable[[Any], Run]:
        name = self.name()
        self.expect("FROM")
        limits = [self.expression()]
        self.expect("TO")
        limits.append(self.expression())
        if self.accept("STEP"):
            limits.append(self.expression())
        self.expect("DO")
        block = self.block("ENDFOR")
        self.expect("ENDFOR")
        return lambda body: body.count(name, limits, block)

    def loop(self) -> Callable[[Any], Run]:
        condition = self.expression()
        self.expect("DO")
        block = self.block("ENDWHILE")
        self.expect("ENDWHILE")
        return lambda body: body.loop(condition, block)

    def switch(self) -> Callable[[Any], Run]:
        value = self.expression()
        cases: list[tuple[list[Expression] | None, Block]] = []
        while self.accept("CASE"):
            values = self.listed(self.expression)
            self.expect(":")
            cases.append((values, self.block("CASE", "DEFAULT", "ENDTEST")))
        if self.accept("DEFAULT"):
            self.expect(":")
            cases.append((None, self.block("ENDTEST")))
        self.expect("ENDTEST")
        return lambda body: body.switch(value, cases)

    # ---- expressions

    def arguments(self, end: str) -> tuple[Argument, ...]:
        """Read arguments: commas part required ones, and may stand before optional ones."""
        found: list[Argument] = []
        while not self.sees(end):
            if found and not self.accept(",") and not self.sees("\\"):
                self.fail(f"expected a comma, \\ or {end}")
            line = self.next.line
            if self.accept("\\"):
                name = self.name()
                found.append(Argument(line, name, self.expression() if self.accept(":=") else None))
            else:
                found.append(Argument(line, None, self.expression()))
        return tuple(found)

    def path(self) -> Path:
        line, parts = self.next.line, [self.part()]
        while self.accept("."):
            parts.append(self.part())
        return Path(line, tuple(parts))

    def part(self) -> Part:
        name = self.name()
        if not self.accept("{"):
            return Part(name)
        indices = tuple(self.listed(self.expression))
        self.expect("}")
        return Part(name, indices)

    def joined(self, sign: Token, left: Expression | None, right: Expression) -> Expression:
        return right if left is None and sign.key == "+" else Operation(sign.line, sign.key, left, right)

    def operand(self) -> Expression:
        token = self.next
        if token.kind == "number":
            self.at += 1
            hexadecimal = token.text[:2] in ("0x", "0X")
            return Value(token.line, float(int(token.text, 16)) if hexadecimal else float(token.text))
        if token.kind == "string":
            self.at += 1
            return Value(token.line, token.text)
        if self.accept("TRUE", "FALSE"):
            return Value(token.line, token.text == "TRUE")
        if self.accept("("):
            inner: Expression = self.expression()
            self.expect(")")
            return inner
        if self.accept("["):
            items = tuple(self.listed(self.expression))
            self.expect("]")
            return Aggregate(token.line, items)
        if self.next.kind != "name":
            self.fail("expected a value")
        if self.tokens[self.at + 1].key == "(":
            name = self.name()
            self.expect("(")
            arguments = self.arguments(")")
            self.expect(")")
            return Call(token.line, name, arguments)
        return self.path()


def _unsupported(what: str) -> Callable[[Any], Run]:
    """Make a statement that is RAPID and is not executed here: GOTO, CONNECT, late binding."""
    return lambda body: body.refuse(f"{what} is not executed here")


@dataclass(frozen=True, slots=True)
class Type:
    """A type: atomic where it has no fields; an array of it where it has sizes."""

    name: str
    fields: tuple[tuple[str, "Type"], ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def element(self) -> "Type":
        """Type of an array's elements."""
        return replace(self, sizes=())

    def __str__(self) -> str:
        return self.name + (f"{{{','.join(str(n or '*') for n in self.sizes)}}}" if self.sizes else "")


NUM, DNUM, BOOL, STRING, SWITCH = (Type(name) for name in ("num", "dnum", "bool", "string", "switch"))


def _record(name: str, **fields: Type) -> Type:
    return Type(name, tuple(fields.items()))


_POS = _record("pos", x=NUM, y=NUM, z=NUM)
_ORIENT = _record("orient", q1=NUM, q2=NUM, q3=NUM, q4=NUM)
_POSE = _record("pose", trans=_POS, rot=_ORIENT)
_ROBJOINT = Type("robjoint", tuple((f"rax_{k}", NUM) for k in range(1, 7)))
_EXTJOINT = Type("extjoint", tuple((f"eax_{k}", NUM) for k in "abcdef"))
JOINTTARGET = _record("jointtarget", robax=_ROBJOINT, extax=_EXTJOINT)
_CONFDATA = _record("confdata", cf1=NUM, cf4=NUM, cf6=NUM, cfx=NUM)
ROBTARGET = _record("robtarget", trans=_POS, rot=_ORIENT, robconf=_CONFDATA, extax=_EXTJOINT)
LOADDATA = _record("loaddata", mass=NUM, cog=_POS, aom=_ORIENT, ix=NUM, iy=NUM, iz=NUM)
TOOLDATA = _record("tooldata", robhold=BOOL, tframe=_POSE, tload=LOADDATA)
WOBJDATA = _record("wobjdata", robhold=BOOL, ufprog=BOOL, ufmec=STRING, uframe=_POSE, oframe=_POSE)
SPEEDDATA = _record("speeddata", v_tcp=NUM, v_ori=NUM, v_leax=NUM, v_reax=NUM)
ZONEDATA = _record(
    "zonedata", finep=BOOL, pzone_tcp=NUM, pzone_ori=NUM, pzone_eax=NUM, zone_ori=NUM, zone_leax=NUM, zone_reax=NUM
)
EGM_MINMAX = _record("egm_minmax", min=NUM, max=NUM)

_OPAQUE = ("clock", "egmident", "intnum", "iodev", "mecunit", "rawbytes", "socketdev", "tasks", "syncident")
_SIGNALS = ("signaldo", "signaldi", "signalgo", "signalgi", "signalao", "signalai")
_NUMBERS = ("errnum", "egmstate", "byte", "dionum", "opnum", "egmstopmode", "symnum")

TYPES: dict[str, Type] = {
    kind.name: kind
    for kind in (
        NUM, DNUM, BOOL, STRING, SWITCH, _POS, _ORIENT, _POSE, _ROBJOINT, _EXTJOINT, JOINTTARGET, _CONFDATA, ROBTARGET,
        LOADDATA, TOOLDATA, WOBJDATA, SPEEDDATA, ZONEDATA, EGM_MINMAX, *map(Type, (*_OPAQUE, *_SIGNALS)),
    )
} | dict.fromkeys(_NUMBERS, NUM)  # fmt: skip


def initial(kind: Type) -> Any:
    """Return the initial value of data declared without one."""
    if kind.sizes:
        rest = replace(kind, sizes=kind.sizes[1:])
        return [initial(rest) for _ in range(kind.sizes[0])]
    if kind.fields:
        return [initial(part) for _, part in kind.fields]
    return {"num": 0.0, "dnum": 0.0, "bool": False, "string": ""}.get(kind.name)


def copied(value: Any) -> Any:
    """Copy records and arrays: RAPID assigns values, never references."""
    return [copied(item) for item in value] if isinstance(value, list) else value


def _zone(finep: bool, *sizes: float) -> tuple[Type, Any]:
    return ZONEDATA, [finep, *map(single, sizes)]


_UNTURNED = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
_NO_LOAD = [single(0.001), [0.0, 0.0, single(0.001)], [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0]
_SPEEDS = (5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000, 2500, 3000, 4000,
           5000, 6000, 7000)  # fmt: skip
_ZONES = {
    0: (0.3, 0.3, 0.3, 0.03, 0.3, 0.03),
    1: (1, 1, 1, 0.1, 1, 0.1),
    5: (5, 8, 8, 0.8, 8, 0.8),
    10: (10, 15, 15, 1.5, 15, 1.5),
    15: (15, 23, 23, 2.3, 23, 2.3),
    20: (20, 30, 30, 3, 30, 3),
    30: (30, 45, 45, 4.5, 45, 4.5),
    40: (40, 60, 60, 6, 60, 6),
    50: (50, 75, 75, 7.5, 75, 7.5),
    60: (60, 90, 90, 9, 90, 9),
    80: (80, 120, 120, 12, 120, 12),
    100: (100, 150, 150, 15, 150, 15),
    150: (150, 225, 225, 23, 225, 23),
    200: (200, 300, 300, 30, 300, 30),
}

OP_AUTO, OP_MAN_PROG = 1.0, 2.0
ERR_UDPUC_COMM = 1195.0  # only compared with ERRNO: its value is the controller's own affair

# name (lower case) -> type and value of data that is always there
PREDECLARED: dict[str, tuple[Type, Any]] = {
    "pi": (NUM, single(3.1415927)),
    "op_undef": (NUM, 0.0),
    "op_auto": (NUM, OP_AUTO),
    "op_man_prog": (NUM, OP_MAN_PROG),
    "op_man_test": (NUM, 3.0),
    "egm_stop_hold": (NUM, 0.0),
    "egm_stop_ramp_down": (NUM, 1.0),
    "egm_state_disconnected": (NUM, 0.0),
    "egm_state_connected": (NUM, 1.0),
    "egm_state_running": (NUM, 2.0),
    "err_udpuc_comm": (NUM, ERR_UDPUC_COMM),
    "high": (NUM, 1.0),
    "low": (NUM, 0.0),
    "stempty": (STRING, ""),
    "rob_1": (TYPES["mecunit"], None),
    "tool0": (TOOLDATA, [True, _UNTURNED, _NO_LOAD]),
    "load0": (LOADDATA, _NO_LOAD),
    "wobj0": (WOBJDATA, [False, True, "", _UNTURNED, _UNTURNED]),
    "fine": _zone(True, 0, 0, 0, 0, 0, 0),
    **{f"z{size}": _zone(False, *sizes) for size, sizes in _ZONES.items()},
    **{f"v{speed}": (SPEEDDATA, [float(speed), 500.0, 5000.0, 1000.0]) for speed in _SPEEDS},
    "vmax": (SPEEDDATA, [5000.0, 500.0, 5000.0, 1000.0]),
}
