"""Numbers and combinations as people write them."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from excitor.robots.files.schema import combination, number

LENGTHS = {"d3": 0.225, "r3": 0.035, "l2": 2.0}
NAMES = frozenset({"ZZ1", "Ia1", "MZ3", "M3", "M4", "M5"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("227/1200", 227 / 1200),
        ("-l2", -2.0),
        ("- -l2", 2.0),
        ("+1.5e-3", 1.5e-3),
        (".5", 0.5),
        ("2.", 2.0),
        ("2 l2", 4.0),
        ("2l2", 4.0),
        ("2 l2^3", 16.0),
        ("-l2^2", -4.0),
        ("(1 + l2) (1 - l2)", -3.0),
        ("1 - 2 - 3", -4.0),
        ("1/2 l2", 1.0),  # from left to right: (1/2) l2
        ("8 / 2 / 2", 2.0),
        ("d3^2 + r3^2", 0.225**2 + 0.035**2),
        ("2 * -3", -6.0),
        ("((((1))))", 1.0),
        ("-0.0093/107", -0.0093 / 107),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert number(text, LENGTHS) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ZZ1", {"ZZ1": 1.0}),
        ("ZZ1 + Ia1 + 2 r3 MZ3", {"ZZ1": 1.0, "Ia1": 1.0, "MZ3": 0.07}),
        ("l2^2 (M3 + M4 - M5)", {"M3": 4.0, "M4": 4.0, "M5": -4.0}),
        ("(M3 - M4) l2 / 4", {"M3": 0.5, "M4": -0.5}),
        ("-(M3 - M4)", {"M3": -1.0, "M4": 1.0}),
        ("M3 + M4 - M3", {"M4": 1.0}),
        ("M3 + 1 - 1", {"M3": 1.0}),
    ],
)
def test_combinations(text: str, terms: dict[str, float]) -> None:
    assert combination(text, NAMES, LENGTHS) == pytest.approx(terms, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the expression is empty"),
        ("   ", "the expression is empty"),
        ("l3", r"'l3' has 'l3' at column 1, expected a number, a parenthesis or a known name \(d3, r3, l2, Ia1, "),
        ("1 +", r"'1 \+' ends where a number, a parenthesis or a known name"),
        ("1 + * 2", r"has '\*' at column 5, expected a number"),
        ("(1", "a parenthesis is not closed"),
        ("1)", r"has '\)' at column 2, expected an operator or the end"),
        (".", r"has '\.' at column 1, expected a number"),
        ("1..2", r"'1..2' .*constant term"),  # 1. times .2
        ("M3 + 1", "has a constant term; every term needs one parameter"),
        ("M3 M4", "multiplies parameters with each other; expected a linear combination"),
        ("M3^2", r"\^ takes a number or length to a whole power up to 9"),
        ("2^d3", r"\^ takes a number or length to a whole power up to 9"),
        ("2^10", r"\^ takes a number or length to a whole power up to 9"),
        ("2^-1", r"\^ takes a number or length to a whole power up to 9"),
        ("M3 / M4", "divides by something that is not a number other than 0"),
        ("M3 / (1 - 1)", "divides by something that is not a number other than 0"),
        ("1e999 M3", "is too large"),
        ("(" * 60, "parentheses nest deeper than 50"),
        ("M3 + " * 1000 + "M3", "is 5002 characters long, expected at most 4000"),
        ("__import__('os').system('id')", "has '__import__' at column 1"),
        ("M3.real", r"has '\.' at column 3"),
        ("M3; M4", "has ';' at column 3"),
        ("٣ M3", "has '٣' at column 1, expected a number"),
        ("M3 ²", "has '²' at column 4, expected a number"),
        ("M3\nM4", "multiplies parameters"),
    ],
)
def test_what_is_wrong_is_reported(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        combination(text, NAMES, LENGTHS)


factors = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 6))


@settings(derandomize=True, deadline=None)
@given(terms=st.dictionaries(st.sampled_from(sorted(NAMES)), factors, min_size=1))
def test_what_is_written_is_read(terms: dict[str, float]) -> None:
    text = " + ".join(f"{factor!r} {name}" for name, factor in terms.items())
    assert combination(text, NAMES) == {name: factor for name, factor in terms.items() if factor != 0.0}


@settings(derandomize=True, deadline=None)
@given(text=st.text(alphabet="0123456789.e+-*/^() dMZl23_\n²٣", max_size=40))
def test_nonsense_is_read_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(isinstance(factor, float) for factor in combination(text, NAMES, LENGTHS).values())
