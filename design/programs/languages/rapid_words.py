"""Which words, names, numbers and texts a RAPID module is made of."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from excitor.design.programs.execution import ProgramError

WORDS = frozenset(
    ["ALIAS", "AND", "BACKWARD", "CASE", "CONNECT", "CONST", "DEFAULT", "DIV", "DO", "ELSE", "ELSEIF", "ENDFOR",
     "ENDFUNC", "ENDIF", "ENDMODULE", "ENDPROC", "ENDRECORD", "ENDTEST", "ENDTRAP", "ENDWHILE", "ERROR", "EXIT",
     "FALSE", "FOR", "FROM", "FUNC", "GOTO", "IF", "INOUT", "LOCAL", "MOD", "MODULE", "NOSTEPIN", "NOT", "NOVIEW",
     "OR", "PERS", "PROC", "RAISE", "READONLY", "RECORD", "RETRY", "RETURN", "STEP", "SYSMODULE", "TASK", "TEST",
     "THEN", "TO", "TRAP", "TRUE", "TRYNEXT", "UNDO", "VAR", "VIEWONLY", "WHILE", "WITH", "XOR"]
)  # fmt: skip
LONGEST_NAME = 32
LONGEST_STRING = 80

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|!.*)|(?P<line>\n)|(?P<string>"(?:[^"\n]|"")*")|(?P<late>%"[^"\n]*"%)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>:=|<>|<=|>=|[-+*/=<>\\(){}\[\],;:.%])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One of them."""

    kind: str  # "string", "late", "number", "name", "word", "sign" or "end"
    text: str
    line: int


def tokens(file: str, text: str) -> Iterator[Token]:
    """Cut a text into tokens; ProgramError where there is none."""
    text = re.sub(r"\A\s*%%%[^%]*%%%", lambda header: "\n" * header[0].count("\n"), text)
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ProgramError(file, line, f"the letter {text[at]!r} has no place here")
        kind, at = str(found.lastgroup), found.end()
        if kind == "line":
            line += 1
        elif kind != "blank":
            yield _token(file, line, kind, found[0])
            if kind == "number" and re.match(r"[A-Za-z_0-9]", text[at : at + 1]):
                raise ProgramError(file, line, f"a letter follows the number {found[0]}")
    yield Token("end", "the end of the file", line)


def _token(file: str, line: int, kind: str, text: str) -> Token:
    if kind == "name" and len(text) > LONGEST_NAME:
        raise ProgramError(file, line, f"the name {text} has {len(text)} letters, {LONGEST_NAME} are allowed")
    if kind == "name" and text.upper() in WORDS:
        return Token("word", text.upper(), line)
    if kind == "string":
        inner = text[1:-1].replace('""', '"')
        if len(inner) > LONGEST_STRING:
            raise ProgramError(file, line, f"a string has {len(inner)} letters, {LONGEST_STRING} are allowed")
        return Token(kind, inner, line)
    return Token(kind, text, line)


class Reader:
    """Steps through the words of a module."""

    def __init__(self, file: str, tokens: list[Token]) -> None:
        self.file, self.tokens, self.at = file, tokens, 0

    @property
    def next(self) -> Token:
        """Show the next token."""
        return self.tokens[self.at]

    def sees(self, *texts: str) -> bool:
        """Tell whether the next token is one of these words or signs."""
        return self.next.text in texts and self.next.kind in ("word", "sign")

    def accept(self, *texts: str) -> str | None:
        """Take the next token if it is one of these."""
        if not self.sees(*texts):
            return None
        self.at += 1
        return self.tokens[self.at - 1].text

    def expect(self, *texts: str) -> str:
        """Take the next token, which must be one of these."""
        found = self.accept(*texts)
        if found is None:
            self.fail(f"expected {' or '.join(texts)}")
        return found

    def name(self) -> str:
        """Take a name."""
        if self.next.kind != "name":
            self.fail("expected a name")
        self.at += 1
        return self.tokens[self.at - 1].text

    def fail(self, sentence: str) -> NoReturn:
        """Say what is wrong where the reader stands."""
        raise ProgramError(self.file, self.next.line, f"{sentence}, found {self.next.text}")
