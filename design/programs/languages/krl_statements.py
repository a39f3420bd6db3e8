"""Statements of KRL: lines -> closures, block by block; every block needs its own end."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.krl import (
    Module,
    Routine,
    Run,
    Segment,
    Spline,
    TimeBlock,
    passed,
    sequence,
    whilst,
)
from excitor.design.programs.languages.krl_expressions import Closure, Reader, State, plain_axes
from excitor.design.programs.languages.krl_lines import (
    ENDS,
    TYPES,
    Times,
    declares,
    first_word,
    parameter,
    refusal_of,
    routine_name,
    uncommented,
)
from excitor.design.programs.languages.krl_values import Fault, Value, integer, number, stored, truth

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
        raise ProgramError(file, reader.number, str(fault)) from None
    except RecursionError:
        raise ProgramError(file, reader.number, "nests too deep") from None
    return Module(file, next(iter(routines.values())), routines)


class _Lines:
    """Reads a module's lines from the first to the last."""

    def __init__(self, text: str, file: str, known: Mapping[str, Value], calls: frozenset[str]) -> None:
        self.file, self.known, self.calls = file, known, calls
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
        """Take the next line."""
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
        """Read statements up to one of the ends; give them, and the line that ends them."""
        made: list[tuple[int, Run]] = []
        while self.at < len(self.lines):
            text = self.next()
            word = first_word(text)
            if word in ends:
                return sequence(made), text
            if word in ENDS or word in ("DEF", "DEFFCT"):
                raise Fault(f"{word} stands where {' or '.join(ends)} of {begun} in line {line} is expected")
            number = self.number
            statement = self.statement(word, text)
            if statement is not None:
                made.append((number, statement))
        raise Fault(f"{begun} in line {line} has no {' or '.join(ends)}")

    def reader(self, text: str) -> Reader:
        """Begin to read the words of a line."""
        return Reader(text, self.types, self.routine_names, self.known, self.calls)

    def expression(self, text: str) -> Closure:
        """Read a text that is one expression."""
        reader = self.reader(text)
        found = reader.expression()
        reader.end()
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
            "INTERRUPT": _nothing, "GLOBAL": _nothing, "CONTINUE": _nothing,
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
        no: Run = sequence([])
        if first_word(end) == "ELSE":
            no, _ = self.block("ENDIF", begun="IF", line=begun)
        return lambda state: yes(state) if truth(condition(state)) else no(state)

    def switch(self, rest: str) -> Run:
        """SWITCH ... CASE ... DEFAULT ... ENDSWITCH."""
        begun, subject = self.number, self.expression(rest)
        empty, text = self.block("CASE", "ENDSWITCH", begun="SWITCH", line=begun)
        cases: list[tuple[list[Closure] | None, Run]] = []
        while first_word(text) != "ENDSWITCH":
            labels = None if first_word(text) == "DEFAULT" else [self.expression(x) for x in text[4:].split(",")]
            body, text = self.block("CASE", "DEFAULT", "ENDSWITCH", begun="SWITCH", line=begun)
            cases.append((labels, body))

        def chosen(state: State) -> str:
            value = subject(state)
            for labels, body in cases:
                if labels is None or any(label(state) == value for label in labels):
                    return body(state)
            return empty(state)

        return chosen

    def count(self, rest: str) -> Run:
        """FOR i = a TO b STEP c ... ENDFOR."""
        begun = self.number
        head = re.fullmatch(r"(?i)(\w+)\s*=\s*(.+?)\s+TO\s+(.+?)(?:\s+STEP\s+(.+))?", rest)
        if head is None or self.types.get(head[1].upper()) != "INT":
            raise Fault("FOR counts an INT: FOR I=1 TO 10 STEP 2")
        name, first, last = head[1].upper(), self.expression(head[2]), self.expression(head[3])
        step = self.expression(head[4] or "1")
        body = self.cycle("ENDFOR", "FOR", begun)

        def counted(state: State) -> str:
            k, end, by = integer(first(state)), integer(last(state)), integer(step(state))
            if by == 0:
                raise Fault("FOR has a STEP of 0")
            while k <= end if by > 0 else k >= end:
                state.variables[name] = stored("INT", k)
                passed(state)
                if left := body(state):
                    return "" if left == "EXIT" else left
                k = state.variables[name] + by
            return ""

        return counted

    def whilst(self, rest: str) -> Run:
        """WHILE ... ENDWHILE."""
        begun, condition = self.number, self.expression(rest)
        return whilst(condition, self.cycle("ENDWHILE", "WHILE", begun))

    def loop(self, rest: str) -> Run:
        """LOOP ... ENDLOOP."""
        if rest:
            raise Fault(f"{rest[:30]!r} is too much")
        return whilst(lambda state: True, self.cycle("ENDLOOP", "LOOP", self.number))

    def repeat(self, rest: str) -> Run:
        """REPEAT ... UNTIL."""
        begun = self.number
        self.loops += 1
        body, text = self.block("UNTIL", begun="REPEAT", line=begun)
        self.loops -= 1
        condition = self.expression(text[5:])

        def repeated(state: State) -> str:
            while True:
                passed(state)
                if left := body(state):
                    return "" if left == "EXIT" else left
                if truth(condition(state)):
                    return ""

        return repeated

    def cycle(self, end: str, begun: str, line: int) -> Run:
        """Read a loop's statements."""
        self.loops += 1
        body, _ = self.block(end, begun=begun, line=line)
        self.loops -= 1
        return body

    def leave(self, rest: str) -> Run:
        """EXIT."""
        if rest or not self.loops:
            raise Fault("EXIT leaves a loop, and stands in none" if not rest else f"{rest[:30]!r} is too much")
        return lambda state: "EXIT"

    def give(self, rest: str) -> Run:
        """RETURN."""
        value = self.expression(rest) if rest else None

        def given(state: State) -> str:
            state.result = value(state) if value else None
            return "RETURN"

        return given

    def halt(self, rest: str) -> Run:
        """HALT."""
        if rest:
            raise Fault(f"{rest[:30]!r} is too much")

        def halted(state: State) -> str:
            state.robot.halt()
            return ""

        return halted

    def wait(self, rest: str) -> Run:
        """WAIT SEC, WAIT FOR."""
        word = first_word(rest)
        if word not in ("SEC", "FOR"):
            raise Fault("WAIT needs SEC or FOR")
        value = self.expression(rest[3:])

        def waited(state: State) -> str:
            if word == "FOR" and not truth(value(state)):
                raise Fault("waits for what does not come")
            state.robot.wait(float(number(value(state))) if word == "SEC" else None)
            state.passes = 0
            return ""

        return waited

    def move(self, kind: str, rest: str) -> Run:
        """Read a motion."""
        words = rest.upper().split()
        rounded = bool(words) and words[-1] in _ROUNDED
        target = self.target(rest[: rest.upper().rindex(words[-1])] if rounded else rest)

        def moved(state: State) -> str:
            state.robot.move(kind, target[0](state), rounded)
            state.passes = 0
            return ""

        return moved

    def target(self, text: str) -> tuple[Closure, bool]:
        """Read where a motion leads, and whether it is written in numbers alone."""
        axes = plain_axes(text)
        if axes is not None:
            return (lambda state: axes), True
        return self.expression(text), False

    def spline(self, kind: str, rest: str) -> Run:
        """SPLINE ... ENDSPLINE: segments and one time block."""
        if rest:
            raise Fault(f"{rest[:30]!r} is not part of this subset")
        begun, times = self.number, Times()
        segments: list[tuple[str, Closure, bool, int]] = []
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
        reader = self.reader(text)
        name = reader.name()
        if reader.peek() == "(":
            call = reader.call(name)
            reader.end()

            def called(state: State) -> str:
                call(state)
                return ""

            return called
        path = [name]
        while reader.peek() in (".", "["):
            if reader.accept("."):
                path.append(reader.name())
            else:
                reader.expect("[")
                reader.expect("]")
        reader.expect("=")
        value = reader.expression()
        reader.end()
        return self.assigned(tuple(path), value)

    def assigned(self, path: tuple[str, ...], value: Closure) -> Run:
        """Write a variable, the robot's or our own."""
        name = path[0]
        if name.startswith("$"):

            def written(state: State) -> str:
                state.robot.write(path, value(state))
                return ""

            return written
        if name not in self.types:
            raise Fault(f"{name} is not declared")
        kind = self.types[name]

        def kept(state: State) -> str:
            if len(path) == 1:
                state.variables[name] = stored(kind, value(state))
            else:
                held = state.variables.setdefault(name, {})
                state.variables[name] = {**held, path[1]: stored("REAL", value(state))}
            return ""

        return kept


def _splined(kind: str, segments: list[tuple[str, Closure, bool, int]], times: TimeBlock | None, line: int) -> Run:
    def run(state: State) -> str:
        made = tuple(Segment(word, target(state), constant, k) for word, target, constant, k in segments)
        state.robot.spline(Spline(kind, made, times, line))
        state.passes = 0
        return ""

    return run


def _nothing(rest: str) -> None:
    return None
