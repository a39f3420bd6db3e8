"""The interpreter of structured text: programs of other authors run, or are rejected with a sentence."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.target import ProgramError
from excitor.design.programs.twincat.plc import Controller
from excitor.design.programs.twincat.run import Library, Project

FOREIGN = Path(__file__).parent / "foreign" / "st"


def run(text, cycles=1, watch=(), step=0.01):
    """Run the only program for some cycles; list the watched variables after each."""
    controller = Controller(step, automatic=True)
    project = Project({"foreign.st": text}, controller.library())
    ((name, record),) = project.programs.items()
    frame = project.start(name)
    rows = []
    for _ in range(cycles):
        record.body(frame)
        controller.advance()
        rows.append([_value(frame, record.variables[key.lower()]) for key in watch])
    return rows, project


def _value(frame, variable):
    length = getattr(variable.type, "length", 0)
    return frame[variable.slot : variable.slot + length] if hasattr(variable.type, "lows") else frame[variable.slot]


def foreign(name):
    return (FOREIGN / f"{name}.st").read_text()


def snippet(declarations, body, watch, **given):
    rows, _ = run(f"PROGRAM P VAR {declarations} END_VAR\n{body}\nEND_PROGRAM", watch=watch, **given)
    return rows[-1]


def test_a_program_written_by_hand_does_what_its_author_says():
    rows, _ = run(foreign("hand_two_axes"), 600, ("aPlace", "aRate"))
    t = np.arange(600)[:, None] / 100.0
    w = 2.0 * np.pi * np.array([0.5, 1.0])
    moving = (t >= 2.0) & (t < 4.0)
    place = np.array([12.5, -90.0]) + np.where(moving, 5.0 * (1.0 - np.cos(w * (t - 2.0))), 0.0)
    rate = np.where(moving, 5.0 * w * np.sin(w * (t - 2.0)), 0.0)
    assert np.array([row[0] for row in rows]) == pytest.approx(place, abs=1e-12)
    assert np.array([row[1] for row in rows]) == pytest.approx(rate, abs=1e-12)


def test_timers_and_enumerations():
    rows, _ = run(foreign("traffic_light"), 200, ("eLight", "nChanges"))
    lights = [row[0] for row in rows]
    assert lights[:30] == [0] * 30
    assert lights[31:51] == [10] * 20
    assert rows[-1][1] == 9


def test_real_is_float32_after_every_operation():
    rows, _ = run(foreign("pid_single"), 400, ("rTemperature",))
    f = np.float32
    total, temperature = f(0.0), f(20.0)
    for _ in range(400):
        error = f(60.0) - temperature
        total = min(max(total + f(error * f(0.01)) / f(0.25), f(-10.0)), f(10.0))
        temperature = temperature + f(0.05) * (f(0.3) * (error + total))
    assert rows[-1][0] == float(temperature)


def test_loops_leave_and_go_on():
    rows, _ = run(foreign("bubble_sort"), 1, ("aiValues", "j"))
    assert rows[0] == [[-7, -7, 0, 3, 5, 99], 21]


def test_functions_bits_and_texts():
    rows, _ = run(foreign("greatest_divisor"), 1, ("nOne", "nTwo", "nWord", "sText", "bOdd"))
    assert rows[0] == [21, 6, 0x80FC, "n=21", True]


def test_structures_globals_and_constants():
    _, project = run(foreign("recipe_structures"))
    assert project.shared("gTotal") == 8.0 * 2 + 1.5 + 1.5


REJECTED = {
    "wrong_mixing": (3, r"\* joins a number and INT; write INT_TO_LREAL"),
    "wrong_narrowing": (3, "UDINT does not fit into INT; write UDINT_TO_INT"),
    "wrong_end": (5, "';' is not expected here"),
    "method_block": (1, "'FB_Base' is not expected here"),
    "pointer_walk": (4, "pointers are not followed here"),
    "unknown_shift": (3, "SHL is not known"),
    "endless": (3, "the loop does not end"),
    "jog_axis": (5, "the type MC_MoveAbsolute is not known"),
    "undeclared": (3, "bB is not declared"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_run_is_rejected_with_a_sentence(name):
    line, sentence = REJECTED[name]
    with pytest.raises(ProgramError, match=sentence) as caught:
        run(foreign(name))
    assert caught.value.line == line


def test_indices_and_divisors_are_checked_while_it_runs():
    with pytest.raises(ProgramError, match="index 4 is outside the array's 1 to 3") as caught:
        run(foreign("past_the_end"), 9)
    assert caught.value.line == 4
    with pytest.raises(ProgramError, match="divided by 0"):
        snippet("f, g : LREAL;", "f := 1.0 / g;", ("f",))
    with pytest.raises(ProgramError, match="no value at -1"):
        snippet("f : LREAL := -1.0;", "f := SQRT(f);", ("f",))


@pytest.mark.parametrize(
    ("declarations", "body", "value"),
    [
        ("x : INT := 32767;", "x := x + 1;", -32768),
        ("x : INT := -7;", "x := x / 2;", -3),
        ("x : INT := -7;", "x := x MOD 2;", -1),
        ("x : SINT;", "x := LREAL_TO_SINT(-1.5);", -2),
        ("x : DINT;", "x := TRUNC(-1.9);", -1),
        ("x : UDINT;", "x := x - 1;", 2**32 - 1),
        ("x : LREAL;", "x := -2.0 ** 2;", -4.0),
        ("x : LREAL;", "x := 2.0 + 3.0 * 4.0 - 6.0 / 3.0;", 12.0),
        ("x : BOOL; n : INT := 3;", "x := n > 2 AND NOT (n = 4) OR FALSE;", True),
        ("x : LREAL; a : ARRAY[1..2, 1..3] OF LREAL := [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];", "x := a[2, 1];", 4.0),
        ("x : LREAL := 1E3;", "x := x + 1e-3;", 1000.001),
        ("x : INT;", "(* a (comment) *) x := 1_000; // and another", 1000),
        ("x : LREAL; a : ARRAY[1..4] OF LREAL := [4(0.5)]; i : DINT;",
         "FOR i := 1 TO 4 DO x := x + a[i] * a[i]; END_FOR;", 1.0),
        ("x : DINT; i : DINT;", "FOR i := 5 TO 1 BY -2 DO x := x * 10 + i; END_FOR;", 531),
        ("x : STRING(3);", "x := 'it$'s';", "it'"),
    ],
)  # fmt: skip
def test_meanings(declarations, body, value):
    assert snippet(declarations, body, ("x",)) == [value]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("PROGRAM P VAR x : LREAL; END_VAR x := TRUE; END_PROGRAM", "BOOL is given, expected LREAL"),
        ("PROGRAM P VAR x : FLOAT; END_VAR END_PROGRAM", "the type FLOAT is not known"),
        ("PROGRAM P VAR x, X : INT; END_VAR END_PROGRAM", "declared twice"),
        ("PROGRAM P VAR CONSTANT x : INT := 1; END_VAR x := 2; END_PROGRAM", "x cannot be assigned"),
        ("PROGRAM P VAR x : ARRAY[1..2] OF INT := [1, 2, 3]; END_VAR END_PROGRAM", "3 values are given for 2 elements"),
        ("PROGRAM P VAR x : TON; END_VAR x(INN := TRUE); END_PROGRAM", "TON has no input INN"),
        ("PROGRAM P VAR x : MC_Power; END_VAR x(Enable := TRUE); END_PROGRAM", "MC_Power wants axis"),
        ("PROGRAM P VAR x : INT := 40000; END_VAR END_PROGRAM", "40000 does not fit into INT"),
        ("PROGRAM P VAR x : LREAL; END_VAR x := SIN(1.0, 2.0); END_PROGRAM", "SIN wants 1 arguments"),
        ("PROGRAM P VAR x : INT; END_VAR IF x THEN ; END_IF; END_PROGRAM", "a condition is INT, expected BOOL"),
        ("PROGRAM P VAR x : INT; END_VAR CASE x OF 1: ; 1: ; END_CASE; END_PROGRAM", "CASE has 1 twice"),
        ("PROGRAM P VAR x : INT; END_VAR x := 1 END_PROGRAM", "not expected here"),
        ("PROGRAM P VAR x : INT; END_VAR x := 1;", "an END is missing"),
        ("FUNCTION_BLOCK A VAR b : A; END_VAR END_FUNCTION_BLOCK PROGRAM P VAR a : A; END_VAR END_PROGRAM", "itself"),
    ],
)
def test_mistakes_have_sentences(text, sentence):
    with pytest.raises(ProgramError, match=sentence):
        run(text)


def test_a_project_may_hold_many_files():
    project = Project(
        {
            "one.st": "PROGRAM P VAR fb : FB_Two; n : INT; END_VAR fb(nIn := 3, nOut => n); END_PROGRAM",
            "two.st": "FUNCTION_BLOCK FB_Two VAR_INPUT nIn : INT; END_VAR VAR_OUTPUT nOut : INT; END_VAR "
            "nOut := nIn * K; END_FUNCTION_BLOCK VAR_GLOBAL CONSTANT K : INT := 7; END_VAR",
        },
        Library(),
    )
    frame = project.start("p")
    project.programs["p"].body(frame)
    assert frame[1] == 21


def test_sums_that_go_on_from_line_to_line_are_those_of_each_line():
    values = [0.1, 1e16, -1e16, 0.3, 7.0, 1e-3]
    made = "x := 0.7; FOR i := 1 TO 5 DO x := x + a[i] * a[i + 1]; END_FOR; y := y + x * x; y := y + y * x; n := i;"
    declared = f"a : ARRAY[1..6] OF LREAL := {values}; x, y : LREAL; i, n : INT;"
    x, y, n = snippet(declared, made, ("x", "y", "n"))
    expected = 0.7
    for a, b in pairwise(values):
        expected = expected + a * b
    assert (x, y, n) == (expected, expected * expected + expected * expected * expected, 6)
    wrong = "x := a[n];\nx := x + x * y;\nx := x + y * y;\n"
    for body, line in ((wrong, 2), ("x := x + y * y;\nIF x = 0.0\nAND a[n] = 0.0 THEN\nEND_IF;", 3)):
        with pytest.raises(ProgramError, match=f"line {line}: .*index 0 is outside"):
            snippet(declared, body, ("x",))


def test_a_project_starts_with_initial_values_again_and_again():
    shared = "VAR_GLOBAL g : ARRAY[1..2] OF INT := [3, 4]; END_VAR"
    text = f"{shared} PROGRAM P VAR n : INT := 5; END_VAR g[2] := g[2] + n; n := 9; END_PROGRAM"
    project = Project({"one.st": text}, Library())
    for _ in range(2):
        frame = project.start("p")
        assert (frame, project.globals_frame) == ([5], [3, 4])
        project.programs["p"].body(frame)
        assert (frame, project.globals_frame) == ([9], [3, 9])


@pytest.mark.parametrize(("index", "found"), [("1, j", 30.0), ("j, 1", 70.0), ("j, j", 90.0), ("3, 2", 80.0)])
def test_elements_of_two_indices_by_those_that_are_known(index, found):
    declared = (
        "a : ARRAY[1..3, 1..3] OF LREAL := [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]; x : LREAL; j : INT;"
    )
    assert snippet(declared, f"j := 3; x := a[{index}];", ("x",)) == [found]
    if "j" in index:
        with pytest.raises(ProgramError, match="index 4 is outside the array's 1 to 3"):
            snippet(declared, f"j := 4; x := a[{index}];", ("x",))
