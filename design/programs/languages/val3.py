"""The VAL3 language: text -> statements and expressions, as nested tuples that carry their line."""

import re
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.val3_files import Code

Node = tuple[Any, ...]  # (kind, line, ...)

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*)|(?P<end>\n|;)|(?P<num>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<string>"[^"\n]*")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<op><=|>=|==|!=|[-+*/%<>=()\[\],.:!&|])"""
)
_LEVELS = (("or", "|", "xor"), ("and", "&"), ("==", "!=", "<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
_CLOSERS = {"endif", "else", "elseif", "endfor", "endwhile", "until", "endswitch", "case", "default", "end"}


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
