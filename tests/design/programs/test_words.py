"""Whatever people type: names are names of the language, comments end nowhere, numbers read back."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excitor.design.programs.target import Target, comment, fixed, precise, program_names, rounded, safe_name

RESERVED = frozenset({"if", "then", "else", "end", "while", "for", "def", "var", "proc", "module", "ex", "run", "x"})
TARGET = Target("any", "any", "A", "", "rad", "rad", 9, 64, longest_name=24, reserved=RESERVED)
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")

HOSTILE = [
    "", " ", "\n", "\0", "\r\nEND\r\n", '"; movej([0,0,0,0,0,0]) #', "*) END_PROGRAM (*", "-->", "--", "]]>", "&lt;",
    "%s%n{}", "../../etc/passwd", "\\", "'''", '"""', "!", ";", "`rm`", "$(id)", "\u2028", "\u202e", "\U0001f916",
    "Ünïcödé", "日本語", "\ufb01", "\u2167", "½", "end", "END", "End ", "e n d", "_", "__init__", "1st", "9" * 300,
    "a" * 300, "if" * 200, "a_" * 100, "\x1b[31m", "\x85", "\xa0",
]  # fmt: skip
texts = st.one_of(st.text(max_size=60), st.sampled_from(HOSTILE), st.text("-_*/!;#'\"()\n\r aE1", max_size=30))


@given(text=texts, longest=st.integers(6, 40))
def test_names_are_safe(text, longest):
    name = safe_name(text, longest, RESERVED)
    assert NAME.match(name) or name == "ex"
    assert len(name) <= longest
    assert name == "ex" or name not in RESERVED
    assert safe_name(text, longest, RESERVED) == name


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_one_by_one(text):
    assert NAME.match(safe_name(text, 24, RESERVED - {"ex"}))
    assert len(safe_name(text, 24, RESERVED)) <= 24


def test_names_stay_legible():
    assert safe_name("Excitation run 2", 32) == "excitation_run_2"
    assert safe_name("  Grüße, Jörg! ", 32) == "grue_jorg"  # what has no letter in ASCII is left out
    assert safe_name("while", 32, RESERVED) == "ex_while"
    assert safe_name("2nd", 32) == "ex_2nd"
    assert safe_name("a-very-long-name-of-a-run", 10) == "a_very_lon"


@given(runs=st.lists(texts, max_size=12), longest=st.integers(12, 40))
def test_programs_have_different_names(runs, longest):
    target = Target("any", "any", "A", "", "rad", "rad", 9, 64, longest_name=longest, reserved=RESERVED - {"ex"})
    names = program_names(runs, target)
    assert len(names) == len(runs)
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert NAME.match(name)
        assert len(name) <= longest - 4
        assert name not in target.reserved


def test_many_runs_of_one_name_differ():
    names = program_names(["the same long name of a run"] * 120, TARGET)
    assert len(set(names)) == 120
    assert max(map(len, names)) <= TARGET.longest_name - 4


@given(text=texts, longest=st.integers(0, 100))
def test_comments_end_no_comment_and_no_line(text, longest):
    told = comment(text, longest)
    assert len(told) <= longest
    assert told.isascii()
    assert told.isprintable() or not told
    for forbidden in "\n\r\t\0;#!'\"*(){}[]<>&|\\%$`~^?@":
        assert forbidden not in told


def test_comments_stay_legible():
    assert comment("My cell: run 2, +15 % / payload_a") == "My cell: run 2, +15 / payload_a"
    assert comment("x" * 300) == "x" * 100


numbers = st.floats(-1e12, 1e12, allow_nan=False)


@given(value=numbers, decimals=st.integers(0, 12))
def test_fixed_numbers_read_back_to_their_last_decimal(value, decimals):
    text = fixed(value, decimals)
    assert re.fullmatch(r"-?\d+(\.\d+)?", text)
    assert len(text.partition(".")[2]) == decimals
    assert abs(float(text) - value) <= 0.5 * 10.0**-decimals + 2e-16 * abs(value)
    assert float(text) != 0.0 or not text.startswith("-")


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_precise_numbers_read_back_exactly(value):
    text = precise(value)
    assert float(text) == value
    assert re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text)  # always a point: some languages want one in a real
    assert "+" not in text


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_nine_digits_are_enough_for_24_bits(value):
    assert np.float32(precise(value, 9)) == np.float32(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (1e22, "1.0e22"),
        (-2.5e-9, "-2.5e-9"),
        (1e-5, "1.0e-5"),
        (0.1, "0.10000000000000001"),
    ],
)
def test_precise_numbers_as_they_look(value, text):
    assert float(precise(value)) == value
    assert precise(value) == text or precise(value, 16) == text


@given(values=st.lists(st.floats(-400.0, 400.0), min_size=1, max_size=12), decimals=st.integers(0, 9))
def test_rounding_is_what_is_written(values, decimals):
    grid = np.array(values)
    np.testing.assert_array_equal(rounded(grid, decimals), [float(fixed(x, decimals)) for x in values])
    assert rounded(grid.reshape(1, -1), decimals).shape == (1, len(values))
    np.testing.assert_array_equal(rounded(rounded(grid, decimals), decimals), rounded(grid, decimals))
