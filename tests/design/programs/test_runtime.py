"""What the controllers' languages share: operators by precedence, how loops are left, and the lines of faults."""

import re

import pytest

from excitor.design.programs.runtime import (
    BREAK,
    CONTINUE,
    RETURN,
    Fault,
    Guard,
    Level,
    Operators,
    Passes,
    Reader,
    Token,
    choice,
    count,
    loop,
    scan,
    switch,
)
from excitor.design.programs.target import ProgramError

PATTERN = re.compile(r"(?P<blank>\s+|#.*)|(?P<number>\d+)|(?P<sign>[a-z]+|[-+*=()])")


def tokens(text):
    found = scan(PATTERN, text, 1, lambda rest: f"{rest[0]} is nothing")
    made = [Token(kind, part, line, part if kind == "sign" else "") for kind, part, line in found]
    return [*made, Token("end", "", 1 + text.count("\n"), "")]


class Brackets(Reader):
    """Writes an expression with all its brackets."""

    operators = Operators(
        Level(("or",)), Level(("and",), ("not",)), Level(("=",), ("not",), chain=False), Level(("+", "-")),
        Level(("*",)), Level(prefix=("-",)),
    )  # fmt: skip

    def operand(self):
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.next.kind != "number":
            self.fail(f"no number: {self.next.text}")
        return self.take().text

    def joined(self, sign, left, right):
        return f"({'' if left is None else left}{sign.key}{right})"

    def missing(self, *keys):
        return f"no {keys[0]}"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1-2-3*4", "((1-2)-(3*4))"),
        ("-1*2--3", "(((-1)*2)-(-3))"),
        ("1=2 and 3 or 4 and 5=6", "(((1=2)and3)or(4and(5=6)))"),
        ("not 1 and 2 or 3", "((not(1and2))or3)"),
        ("1 and not 2 = 3 and 4", "((1and(not(2=3)))and4)"),
        ("(1+2)*3", "((1+2)*3)"),
    ],
)
def test_operators_bind_by_their_level(text, meant):
    reader = Brackets(tokens(text))
    assert reader.expression() == meant
    assert reader.next.kind == "end"


@pytest.mark.parametrize(("text", "rest"), [("1 = 2 = 3", "="), ("not 1 = 2 = 3", "="), ("1 2", "2")])
def test_an_expression_ends_where_nothing_joins_on(text, rest):
    reader = Brackets(tokens(text))
    reader.expression()
    assert reader.next.text == rest


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [("1 +\n\n* 2", 3, "no number: *"), ("1 + not 2", 1, "no number: not"), ("# a\n(1", 2, "no )"), ("1\n?", 2, "?")],
)
def test_faults_have_the_line_of_their_token(text, line, sentence):
    with pytest.raises(Fault) as fault:
        Brackets(tokens(text)).expression()
    assert fault.value.line == line
    assert fault.value.sentence.startswith(sentence)


def doing(did, left_at=None, left=None):
    def body(frame):
        did.append(frame["k"])
        frame["k"] += 1
        return left if frame["k"] == left_at else None

    return body


@pytest.mark.parametrize(
    ("left", "did", "result"),
    [(None, [0, 1, 2, 3], None), (CONTINUE, [0, 1, 2, 3], None), (BREAK, [0, 1], None), (RETURN, [0, 1], RETURN)],
)
def test_how_a_loop_is_left(left, did, result):
    found = []
    assert loop(lambda f: f["k"] < 4, doing(found, 2, left), lambda f: None)({"k": 0}) == result
    assert found == did


def test_a_loop_that_tests_after_its_body_runs_once():
    found = []
    loop(lambda f: False, doing(found), lambda f: None, first=False)({"k": 7})
    assert found == [7]


@pytest.mark.parametrize(
    ("bounds", "values"),
    [((1, 3, 1), [1, 2, 3]), ((3, 1, -2), [3, 1]), ((3, 1, 1), []), ((0.0, 1.0, 0.5), [0, 0.5, 1])],
)
def test_counting(bounds, values):
    found = []
    assert count(lambda f: bounds, lambda f, k: found.append(k), lambda f: None, lambda f: None)({}) is None
    assert found == values


def test_counting_goes_on_from_what_the_body_made_of_the_number():
    found = []

    def body(frame):
        found.append(frame["k"])
        frame["k"] += 1

    count(lambda f: (1, 6, 1), lambda f, k: f.update(k=k), body, lambda f: None, lambda f: f["k"])({})
    assert found == [1, 3, 5]


def test_branches_and_cases():
    branch = choice([(lambda f: f == 1, lambda f: "one"), (None, lambda f: "other")])
    assert [branch(1), branch(2)] == ["one", "other"]
    assert choice([(lambda f: False, lambda f: "one")])(1) is None
    case = switch(lambda f: f, [([lambda f: 1, lambda f: 2], lambda f: "low"), (None, lambda f: "rest")])
    assert [case(2), case(3)] == ["low", "rest"]


def test_a_guard_adds_the_line_of_the_statement_that_fails():
    passes, did = Passes(2, "endless"), []
    guard = Guard("x.prg", (Fault, ZeroDivisionError), lambda error: f"wrong: {error}")
    inner = guard.sequence([(5, lambda f: did.append(1)), (6, lambda f: 0 / f)])
    outer = guard.sequence([(4, inner), (8, passes.spend), (9, lambda f: RETURN), (10, lambda f: did.append(2))])
    assert [outer(1), outer(1), did] == [RETURN, RETURN, [1, 1]]
    for frame, line, sentence in ((0, 6, "wrong: division by zero"), (1, 8, "wrong: endless")):
        with pytest.raises(ProgramError) as error:
            outer(frame)
        assert (error.value.file, error.value.line, error.value.sentence) == ("x.prg", line, sentence)
    with pytest.raises(TypeError):
        guard(3, lambda f: None + f)(1)
