"""RAPID as a language: what programs do that were not written by any emitter, and what is wrong with others."""

import math
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.rapid.run import Program
from excitor.design.programs.target import ProgramError

FOREIGN = Path(__file__).parent / "foreign" / "rapid"


class Recorder:
    """A controller that writes down what it is asked."""

    def __init__(self):
        self.time, self.did, self.at = 0.0, [], [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]

    def override(self):
        return 100.0

    def carry(self, mass):
        pass

    def automatic(self):
        return True

    def joints(self):
        return self.at

    def mass(self):
        return 0.0

    def write(self, text):
        self.did.append(text)

    def move(self, axes, seconds, speed, fine):
        self.at, self.time = axes, self.time + (seconds or 1.0)
        self.did.append((axes, seconds, speed, fine))

    def wait(self, seconds, standing):
        self.time += seconds

    def hold(self, name, value):
        """Zones of foreign programs are their own."""

    def signal(self, name, value):
        self.did.append(f"{name} {value:g}")

    def egm(self, step, values):
        self.did.append(step)
        self.time += 1.0


def program(text, file="x.mod"):
    cell = Recorder()
    return Program(file, text, cell), cell


def run(name, entry="main"):
    made, cell = program((FOREIGN / name).read_text(), name)
    made.run(entry)
    return cell


def body(lines, data=""):
    return f"MODULE m\n{data}\nPROC main()\n{lines}\nENDPROC\nENDMODULE\n"


def test_the_hand_written_truth():
    did = run("truth.mod").did
    texts = [item for item in did if isinstance(item, str)]
    assert texts == [
        "sum 69.5", "i 7", "third True", "tenth True", "big 0", "sine 0.5", "div -3", "mod 3", "order 11", "minus 3",
        "logic True", "compact", "case", "down 3", "down 2", "down 1", "step 0", "step 5", "step 10",
        "sum of squares 2506.25", "swapped 69.5",
    ]  # fmt: skip
    (first, seconds, _, fine), (second, none, speed, passed) = (item for item in did if not isinstance(item, str))
    assert first == pytest.approx([10, 20.1, 30, 40, 50, 60], abs=1e-6)
    assert first[1] == np.float32(20.0) + np.float32(0.1)
    assert (seconds, fine, second, none, speed, passed) == (2.5, True, [1, 2, 3, 4, 5, 6], None, 50.0, False)


@pytest.mark.parametrize(
    ("name", "did"),
    [
        ("dispatcher.mod", ["move", "unknown: 12", "gripper: OPEN", "gripper: CLOSE", "unknown: ???"]),
        ("grid.mod", ["146.0 62"]),
        ("parts.mod", ["bolt 2.00 0.25 2"]),
        ("pallet.mod", ["layer 0", "layer 1", "layer 2", "last"]),
        ("options.mod", ["a", "b", "b", "c!", "d!"]),
        ("retries.mod", ["done after 2", "skipped", "went on"]),
    ],
)
def test_foreign_programs_run(name, did):
    assert run(name).did == did


def test_a_foreign_series_is_evaluated_in_single_precision():
    cell = run("series.mod")
    moves = [item for item in cell.did if not isinstance(item, str)]
    phase = np.radians(1.8 * np.arange(1, 201))
    wanted = 12 + 5.123456 * np.sin(phase) - 1.25 * np.sin(2 * phase) + 2 * np.cos(phase) + 0.5 * np.cos(2 * phase)
    found = np.array([axes[0] for axes, *_ in moves[1:201]])
    assert found == pytest.approx(wanted, abs=5e-5)
    assert found != pytest.approx(wanted, abs=1e-8)  # a num has 24 bits
    assert len(moves) == 601
    assert [item for item in cell.did if isinstance(item, str)] == ["doMark 1", "doMark 0"] * 3 + ["took 60"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pick_place.mod", "no instruction or procedure MoveJ"),
        ("egm_sample.mod", "loops make|none"),
        ("interrupts.mod", "CONNECT with the trap onAlarm is not executed"),
        ("jumps.mod", "the label again is not executed"),
        ("late.mod", "a routine whose name is a text is not executed"),
        ("tools.sys", "there is no procedure main"),
    ],
)
def test_foreign_programs_are_refused_with_a_reason(name, sentence):
    if name == "egm_sample.mod":  # runs for ever, and time goes by: only a controller can end it
        made, cell = program((FOREIGN / name).read_text())
        cell.wait = lambda seconds, standing: (_ for _ in ()).throw(ProgramError("x", None, "enough"))
        with pytest.raises(ProgramError, match="enough"):
            made.run("main")
        assert cell.did == ["id", "setup", "act", "run", "reset"]
        return
    with pytest.raises(ProgramError, match=sentence):
        run(name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("MODULE m\nPROC main()\nENDMODULE\n", "line 3: expected a statement or .*ENDPROC"),
        ("MODULE m\nENDMODULE\nPROC x()\nENDPROC\n", "nothing may follow ENDMODULE"),
        ("MODULE m\nCONST num a;\nENDMODULE\n", "constant a has no value"),
        ("MODULE m\nVAR nunn a;\nENDMODULE\n", "no type nunn"),
        ("MODULE m\nVAR num a;\nVAR num A;\nENDMODULE\n", "A is declared twice"),
        ("MODULE m\nCONST num a{3} := [1,2];\nENDMODULE\n", r"num\{3\} has 3 parts, found 2"),
        ("MODULE m\nCONST num a{2} := [1,TRUE];\nENDMODULE\n", "expected num, found bool"),
        ("MODULE m\nCONST num a{2} := [1,5];\nENDMODULE", None),
        ('MODULE m\nCONST string a := "x;\nENDMODULE\n', "the letter '\"' has no place"),
        ("MODULE m\nVAR num aaaaaaaaaabbbbbbbbbbccccccccccddd;\nENDMODULE\n", "33 letters, 32 are allowed"),
        (body("IF TRUE THEN\n"), "expected a statement or ELSEIF or ELSE or ENDIF"),
        (body("x := 1;"), "x is not declared"),
        (body("n := 1;", "CONST num n := 2;"), "n cannot be changed"),
        (body("n := TRUE;", "VAR num n;"), "expected num, found bool"),
        (body("n := 1 + TRUE;", "VAR num n;"), "expected num, found bool"),
        (body("n := 4,5;", "VAR num n;"), "expected ;"),
        (body("n{2} := 4;", "VAR num n;"), "n has 0 dimensions"),
        (body("n{5} := 4;", "VAR num n{4};"), "n has elements 1 to 4, not 5"),
        (body("n{1.5} := 4;", "VAR num n{4};"), "not 1.5"),
        (body("IF 1 THEN\nENDIF"), "expected bool, found num"),
        (body("n := 1 / 0;", "VAR num n;"), "line 4: divides by zero"),
        (body("n := Sqrt(-1);", "VAR num n;"), "cannot be computed"),
        (body("n := 1E38 * 1E38;", "VAR num n;"), "cannot be computed"),
        (body("n := 7.5 DIV 2;", "VAR num n;"), "whole numbers"),
        (body("n := Sin(1, 2);", "VAR num n;"), "too many arguments"),
        (body("n := Sin();", "VAR num n;"), "lacks 1 argument"),
        (body("n := Sine(1);", "VAR num n;"), "no function Sine"),
        (body("WaitTime \\InPos;"), "lacks 1 argument"),
        (body("WaitTime 1 \\InPos;"), r"takes no \\InPos there"),
        (body("WaitTime \\InPos:=1, 2;"), "is a switch"),
        (body("WHILE TRUE DO\nENDWHILE"), "passes in which nothing moves"),
        (body("main;"), "calls itself without end"),
        (body("FOR i FROM 1 TO 3 STEP 0 DO\nENDFOR"), "never ends"),
        (body("FOR i FROM 1 TO 3 DO\ni := 2;\nENDFOR"), "i cannot be changed"),
        (body("RETURN 1;"), "RETURN has a value in functions"),
        (body("GetSysData t;", "VAR tooldata t;"), "needs a persistent"),
        (body("here.robax.rax_7 := 1;", "VAR jointtarget here;"), "no component rax_7"),
        (body("RAISE 90;"), "no ERROR handler takes this"),
        (body("n := 1x;", "VAR num n;"), "a letter follows the number"),
        (body("n := 1;ä", "VAR num n;"), "has no place here"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(text, sentence):
    if sentence is None:
        program(text)
        return
    with pytest.raises(ProgramError, match=sentence):
        program(text)[0].run("main")


def test_an_error_names_file_and_line():
    with pytest.raises(ProgramError) as told:
        program(body("\n\nx := 1;"), "here.mod")
    assert (told.value.file, told.value.line) == ("here.mod", 6)
    assert math.isfinite(told.value.line)
