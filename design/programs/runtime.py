"""What interpreters of controllers' languages share: words with their lines, operators by precedence, control flow.

A statement is a function of a frame, the data of one call. It returns nothing, or how it leaves its block before the
end. Types, operators and sentences are each language's own.
"""

import operator
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from excitor.design.programs.target import ProgramError

Run = Callable[[Any], Any]  # of a frame
Value = TypeVar("Value")  # what a language makes of an expression
Item = TypeVar("Item")
Body = TypeVar("Body")
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
LOGIC: dict[str, Callable[[Run, Run], Run]] = {  # of True and False; the right side only where it matters
    "and": lambda a, b: lambda frame: a(frame) and b(frame),
    "or": lambda a, b: lambda frame: a(frame) or b(frame),
    "xor": lambda a, b: lambda frame: a(frame) != b(frame),
}
_SINGLE = struct.Struct("<f")
BREAK, CONTINUE, RETURN = "break", "continue", "return"  # how a block is left


class Fault(Exception):
    """What is wrong with a program; a statement that is running adds its line."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        self.sentence, self.line = sentence, line
        super().__init__(sentence)


class Token(NamedTuple):
    """A word, sign or literal of a program."""

    kind: str
    text: str
    line: int
    key: str  # what the grammar knows it as; empty: a name or a literal


def scan(
    pattern: re.Pattern[str], text: str, line: int, unread: Callable[[str], str]
) -> Iterator[tuple[str, str, int]]:
    """Cut a text into (kind, text, line) by the groups of a pattern, without those called blank."""
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise Fault(unread(text[at:]), line)
        kind, at = str(found.lastgroup), found.end()
        if kind != "blank":
            yield kind, found[kind], line
        line += found[0].count("\n")


class Level(NamedTuple):
    """Operators that bind alike: between operands, from left to right, and before one."""

    signs: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    chain: bool = True  # False: one of them at most


class Operators:
    """The operators of a language, by levels from the weakest on."""

    def __init__(self, *levels: Level) -> None:
        self.between = {sign: k for k, level in enumerate(levels) for sign in level.signs}
        self.once = {k for k, level in enumerate(levels) if not level.chain}
        prefixes = {sign for level in levels for sign in level.prefix}
        self.before = {sign: [k for k, level in enumerate(levels) if sign in level.prefix] for sign in prefixes}


class Reader(Generic[Value]):
    """Steps through tokens, the last of which is the end; a language adds its operands and its sentences."""

    operators = Operators()

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.at = tokens, 0

    @property
    def next(self) -> Token:
        """Show the next token."""
        return self.tokens[self.at]

    def take(self) -> Token:
        """Step over the next token."""
        self.at += 1
        return self.tokens[self.at - 1]

    def sees(self, *keys: str) -> bool:
        """Tell whether the next token is one of these."""
        return self.next.key in keys

    def accept(self, *keys: str) -> str:
        """Take the next token if it is one of these; empty if it is none."""
        return self.take().key if self.next.key in keys else ""

    def expect(self, *keys: str) -> str:
        """Take the next token, which must be one of these."""
        return self.accept(*keys) or self.fail(self.missing(*keys))

    def fail(self, sentence: str) -> NoReturn:
        """Say what is wrong where the reader stands."""
        raise Fault(sentence, self.next.line)

    def listed(self, item: Callable[[], Item]) -> list[Item]:
        """Read items with commas between them."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def closed(self, item: Callable[[], Item], closer: str = ")") -> list[Item]:
        """Read any number of items with commas between them up to a closing bracket, which is taken."""
        found: list[Item] = []
        while not self.accept(closer):
            if found:
                self.expect(",")
            found.append(item())
        return found

    def inner(self) -> Value:
        """Read an expression and the bracket that closes it."""
        found = self.expression()
        self.expect(")")
        return found

    def branches(
        self, test: Callable[[], Run], block: Callable[..., tuple[Body, str]], words: tuple[str, str, str]
    ) -> list[tuple[Run | None, Body]]:
        """Read tests, each with its block; `words`: before another test, before the rest, and at the end."""
        found: list[tuple[Run | None, Body]] = []
        word = words[0]
        while word == words[0]:
            condition = test()
            body, word = block(*words)
            found.append((condition, body))
        if word == words[1]:
            found.append((None, block(words[2])[0]))
        return found

    def expression(self, weakest: int = 0) -> Value:
        """Read an expression whose operators bind at least as tightly as a level."""
        operators, tightest = self.operators, 99
        levels = operators.before.get(self.next.key)
        if levels and weakest <= levels[-1]:
            level = max(weakest, levels[0])
            left = self.joined(self.take(), None, self.expression(level))
            tightest = level - 1
        else:
            left = self.operand()
        while weakest <= (level := operators.between.get(self.next.key, -1)) <= tightest:
            left = self.joined(self.take(), left, self.expression(level + 1))
            tightest = level - (level in operators.once)
        return left

    def operand(self) -> Value:
        """Read what operators join."""
        raise NotImplementedError

    def joined(self, sign: Token, left: Value | None, right: Value) -> Value:
        """Apply an operator between two operands, or before one (`left` is None)."""
        raise NotImplementedError

    def missing(self, *keys: str) -> str:
        """Say that the next token is none of these."""
        raise NotImplementedError


class Operand(NamedTuple):
    """What an operator joins: how it is found, its slot of the frame, and whether its value is known already."""

    run: Run
    slot: int | None = None
    known: bool = False
    value: Any = None


def single(value: float) -> float:
    """Round to single precision; OverflowError where a number is too large for it."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


@dataclass(frozen=True, slots=True)
class Assign:
    """A statement that keeps what an expression gives in a slot of the frame; a sequence does it without a call."""

    slot: int
    value: Run

    def __call__(self, frame: Any) -> None:
        """Execute it."""
        frame[self.slot] = self.value(frame)


@dataclass(frozen=True, slots=True)
class Guard:
    """Gives the line of a statement to what goes wrong in it."""

    file: str
    wrong: tuple[type[Exception], ...]
    sentence: Callable[[Exception], str] = str

    def __call__(self, line: int | None, run: Run) -> Run:
        """Guard one function of a frame."""

        def guarded(frame: Any) -> Any:
            try:
                return run(frame)
            except self.wrong as error:
                raise ProgramError(self.file, line, self.sentence(error)) from None

        return guarded

    def sequence(self, steps: Sequence[tuple[int | None, Run]]) -> Run:
        """Run statements one after the other, each with its line."""
        lines, wrong = [line for line, _ in steps], self.wrong
        runs = [(step.slot, step.value) if isinstance(step, Assign) else (-1, step) for _, step in steps]

        def run(frame: Any) -> Any:
            left = iter(runs)
            try:
                for slot, step in left:
                    if slot >= 0:
                        frame[slot] = step(frame)
                    elif way := step(frame):
                        return way
            except wrong as error:
                line = lines[-1 - operator.length_hint(left)]
                raise ProgramError(self.file, line, self.sentence(error)) from None
            return None

        return run


def operation(op: Callable[[Any, Any], Any], left: Operand, right: Operand) -> Run:
    """Join two operands, without a call for those that are known or in the frame."""
    (f, i, known, x), (g, j, fixed, y) = left, right
    if i is not None:
        if j is not None:
            return lambda frame: op(frame[i], frame[j])
        return (lambda frame: op(frame[i], y)) if fixed else (lambda frame: op(frame[i], g(frame)))
    if j is not None:
        return (lambda frame: op(x, frame[j])) if known else (lambda frame: op(f(frame), frame[j]))
    if fixed:
        return lambda frame: op(f(frame), y)
    return (lambda frame: op(x, g(frame))) if known else (lambda frame: op(f(frame), g(frame)))


def choice(branches: Sequence[tuple[Run | None, Run]]) -> Run:
    """Run the first branch whose test holds; None: the rest."""
    (test, body), *others = branches
    if test is None:
        return body
    if not others:
        return lambda frame: body(frame) if test(frame) else None
    rest = choice(others)
    return lambda frame: body(frame) if test(frame) else rest(frame)


def switch(value: Run, cases: Sequence[tuple[Sequence[Run] | None, Run]]) -> Run:
    """Run the first case with a label that a value equals; None: any value."""

    def run(frame: Any) -> Any:
        found = value(frame)
        for labels, body in cases:
            if labels is None or any(label(frame) == found for label in labels):
                return body(frame)
        return None

    return run


def loop(test: Run, body: Run, turn: Run, first: bool = True) -> Run:
    """Run a body while a test holds, with a turn before every pass; with `first` False, the test comes after it."""

    def run(frame: Any) -> Any:
        go = not first
        while go or test(frame):
            go = False
            turn(frame)
            if (left := body(frame)) and left != CONTINUE:
                return None if left == BREAK else left
        return None

    return run


def count(
    bounds: Run,
    store: Callable[[Any, Any], None],
    body: Run,
    turn: Run,
    fetch: Run | None = None,
    zero: str = "the step is 0",
) -> Run:
    """Run a body for every number from the first to the last by a step; `zero` is wrong with a step of 0.

    `fetch` reads what the body made of the number, which is left beyond the last one.
    """

    def run(frame: Any) -> Any:
        at, last, step = bounds(frame)
        if step == 0:
            raise Fault(zero)
        while at <= last if step > 0 else at >= last:
            store(frame, at)
            turn(frame)
            if (left := body(frame)) and left != CONTINUE:
                return None if left == BREAK else left
            at = (at if fetch is None else fetch(frame)) + step
        if fetch is not None:
            store(frame, at)
        return None

    return run


class Passes:
    """Counts passes of loops; beyond the most, a program counts as endless."""

    def __init__(self, most: int, sentence: str) -> None:
        self.most, self.sentence = most, sentence
        self.count = 0

    def spend(self, frame: Any = None) -> None:
        """Count one."""
        self.count += 1
        if self.count > self.most:
            raise Fault(self.sentence)
