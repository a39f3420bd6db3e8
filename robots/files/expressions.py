"""Numbers and linear combinations as people write them: `227/1200`, `-l2`, `ZZ1 + Ia1 + 0.07 MZ3 + d3^2 (M3 + M4)`.

Read by descent, never evaluated as code. A product may leave out its sign; `^` takes a whole number.
"""

import math
import re
from collections.abc import Mapping

LONGEST = 4000
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(.))", re.DOTALL | re.ASCII
)
_CONSTANT = ""  # the key of a combination's constant term

_DIGITS, _POWERS = tuple("0123456789"), tuple("123456789")

Terms = dict[str, float]


def number(text: str, constants: Mapping[str, float] | None = None) -> float:
    """Read a number: digits, fractions, products, named constants. ValueError says what is wrong, and where."""
    terms = _Reader(text, constants or {}, frozenset()).read()
    return terms.get(_CONSTANT, 0.0)


def combination(text: str, names: frozenset[str], constants: Mapping[str, float] | None = None) -> Terms:
    """Read a linear combination of names: {name: factor}."""
    terms = _Reader(text, constants or {}, names).read()
    if terms.pop(_CONSTANT, 0.0) != 0.0:
        raise ValueError(f"{text!r} has a constant term; every term needs one parameter")
    return {name: factor for name, factor in terms.items() if factor != 0.0}


class _Reader:
    def __init__(self, text: str, constants: Mapping[str, float], names: frozenset[str]) -> None:
        if len(text) > LONGEST:
            raise ValueError(f"the expression is {len(text)} characters long, expected at most {LONGEST}")
        self.text, self.constants, self.names = text, constants, names
        self.tokens = [match for match in _TOKEN.finditer(text.rstrip()) if match.group().strip()]
        self.at = 0
        self.depth = 0

    def read(self) -> Terms:
        if not self.tokens:
            raise ValueError("the expression is empty")
        terms = self.sum()
        if self.at < len(self.tokens):
            raise self.wrong("an operator or the end")
        if not all(math.isfinite(factor) for factor in terms.values()):
            raise ValueError(f"{self.text!r} is too large")
        return terms

    def sum(self) -> Terms:
        terms = self.product()
        while self.peek() in ("+", "-"):
            for name, factor in self.product().items():
                terms[name] = terms.get(name, 0.0) + factor
        return terms

    def product(self) -> Terms:
        terms = self.factor()
        while self.peek() not in ("", "+", "-", ")"):
            divide = self.peek() == "/"
            if self.peek() in ("*", "/"):
                self.next()
            terms = self.quotient(terms, self.factor()) if divide else self.times(terms, self.factor())
        return terms

    def factor(self) -> Terms:
        sign = 1.0
        while self.peek() in ("+", "-"):
            sign = -sign if self.next() == "-" else sign
        return _scale(self.power(), sign)

    def power(self) -> Terms:
        terms = self.atom()
        if self.peek() == "^":
            self.next()
            token = self.next()
            base = _plain(terms)
            if base is None or token not in _POWERS:
                raise ValueError(f"{self.text!r}: ^ takes a number or length to a whole power up to 9")
            terms = {_CONSTANT: math.prod([base] * int(token))}
        return terms

    def atom(self) -> Terms:
        token = self.next()
        if token == "(":
            self.depth += 1
            if self.depth > 50:
                raise ValueError(f"{self.text[:40]!r}…: parentheses nest deeper than 50")
            terms = self.sum()
            if self.next() != ")":
                raise ValueError(f"{self.text!r}: a parenthesis is not closed")
            self.depth -= 1
            return terms
        if token[:1] in _DIGITS or (token[:1] == "." and token != "."):
            return {_CONSTANT: float(token)}
        if token in self.constants:
            return {_CONSTANT: self.constants[token]}
        if token in self.names:
            return {token: 1.0}
        self.at -= 1
        known = ", ".join([*self.constants, *sorted(self.names)][:8]) or "no names here"
        raise self.wrong(f"a number, a parenthesis or a known name ({known})")

    def times(self, left: Terms, right: Terms) -> Terms:
        for a, b in ((left, right), (right, left)):
            factor = _plain(b)
            if factor is not None:
                return _scale(a, factor)
        raise ValueError(f"{self.text!r} multiplies parameters with each other; expected a linear combination")

    def quotient(self, left: Terms, right: Terms) -> Terms:
        divisor = _plain(right)
        if divisor is None or divisor == 0.0:
            raise ValueError(f"{self.text!r} divides by something that is not a number other than 0")
        return _scale(left, 1.0 / divisor)

    def peek(self) -> str:
        return self.tokens[self.at].group().strip() if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def wrong(self, expected: str) -> ValueError:
        if self.at >= len(self.tokens):
            return ValueError(f"{self.text!r} ends where {expected} was expected")
        column = self.tokens[self.at].end() - len(self.peek()) + 1
        return ValueError(f"{self.text!r} has {self.peek()!r} at column {column}, expected {expected}")


def _scale(terms: Terms, factor: float) -> Terms:
    return {name: factor * value for name, value in terms.items()}


def _plain(terms: Terms) -> float | None:
    return terms.get(_CONSTANT, 0.0) if set(terms) <= {_CONSTANT} else None
