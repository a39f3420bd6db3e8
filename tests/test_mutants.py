"""The mutator: its operators, which tests it picks, and that a fault is noticed without a change on disk."""

import ast

import pytest

from tests import mutants
from tests.mutants import (
    CORE,
    ROOT,
    Mutant,
    _chosen,
    _faults,
    covering,
    equivalent,
    files,
    mutants_of,
    nearest_tests,
    sample,
    try_mutant,
)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a < 2.0", {"(a <= 2.0)", "(a > 2.0)", "(a < 20.0)"}),
        ("a - b", {"(a + b)", "a", "(b - a)"}),
        ("-a", {"a"}),
        ("not a", {"a"}),
        ("a and b", {"(a or b)", "a"}),
        ("np.abs(x).min(axis=0)", {"np.abs(x).max(axis=0)", "np.abs(x).min(axis=1)"}),
        ("abs(a)", {"a"}),
        ("f(a, b)", {"f(b, a)"}),
        ("min(a, b)", {"max(a, b)"}),
        ("W.T", {"W"}),
        ("np.radians(5)", {"np.degrees(5)"}),
        ("a if b else c", {"a", "(c if b else a)"}),
        ("True", {"False"}),
        ("3", {"4"}),
        ("0.5", {"5.0"}),
        ("1e-12", set()),
        ("a < 1e-12", {"(a > 1e-12)"}),
        ("'a' + b", set()),
    ],
)
def test_operators(source, wanted):
    assert {becomes for _, becomes in _faults(ast.parse(source, mode="eval").body)} == wanted


def test_guards_are_removed_and_steps_dropped():
    assert ("guard", "pass") in list(_faults(ast.parse("if a:\n    raise ValueError").body[0]))
    assert list(_faults(ast.parse("x += 1").body[0])) == [("dropped", "pass"), ("sign", "x -= 1")]


def test_what_no_result_shows_is_no_fault(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(
        "def f(a, b):\n    zip(a, b, strict=True), qr(a, check_finite=False)\n"
        "    return [abs(a - b), (a - b)[0] ** 2, a - b]\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    found = [(m.was, m.becomes) for m in mutants_of("a.py")]
    assert found.count(("a - b", "(b - a)")) == 1
    assert found.count(("a - b", "(a + b)")) == 3
    assert not {("True", "False"), ("False", "True")} & set(found)


def test_tests_that_share_a_fixture_with_one_that_runs_the_line_are_tried_after_it():
    """A fixture of a module runs in the test that asks first; the others look at what it made."""
    mutant = Mutant("identify/verdict.py", "percent", "sign", (7, 8), "a", "b", (0, 1))
    tests = [
        ("tests/a.py::fast", 0.1, frozenset()),
        ("tests/b.py::elsewhere", 0.1, frozenset([3])),
        ("tests/a.py::runs", 0.2, frozenset([8])),
        ("tests/a.py::endless", 1e3, frozenset()),
    ]
    assert _chosen(mutant, tests) == ["tests/a.py::runs", "tests/a.py::fast"]


def test_defaults_of_a_function_are_covered_where_its_body_runs(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("def f(\n    a=2,\n):\n    b = 1\n    return a + b\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (found,) = [mutant.lines for mutant in mutants_of("a.py") if mutant.was == "2"]
    assert found == (1, 5)


@pytest.mark.slow
def test_tests_of_a_module_are_those_that_import_it():
    """A file that is named alike and reaches the module through five others comes after those that call it."""
    nearest = {"tests/experiments/test_report_chain.py", "tests/experiments/test_report.py"}
    assert set(nearest_tests("experiments/report/campaign.py")[:2]) == nearest
    assert "tests/robots/test_bad_robots.py" in nearest_tests("robots/files/xml.py")[:8], "it names URDF most often"


def test_samples_are_of_the_seed_and_every_fault_compiles():
    drawn = sample("design/certify/certify.py", 12, 3)
    assert drawn == sample("design/certify/certify.py", 12, 3)
    assert drawn != sample("design/certify/certify.py", 12, 4)
    assert len({mutant.kind for mutant in drawn}) >= 8
    assert all(ast.parse(mutant.source()) and mutant.source() != (ROOT / mutant.file).read_text() for mutant in drawn)


def test_tests_of_a_module_are_the_nearest():
    assert nearest_tests("identify/verdict.py")[0] == "tests/identify/test_verdict.py"
    assert set(CORE) <= set(files())


def test_what_the_list_calls_equivalent_is_a_mutant():
    for file, function, was, becomes in equivalent():
        found = [(m.function, " ".join(m.was.split()), m.becomes) for m in mutants_of(file)]
        assert (function, was, becomes) in found


@pytest.mark.slow
def test_a_fault_is_noticed_by_the_tests_of_its_line():
    file = "identify/verdict.py"
    before = (ROOT / file).read_bytes()
    fault = next(m for m in mutants_of(file) if m.function == "percent" and m.becomes == "(abs(share) >= 100.0)")
    assert try_mutant(fault, covering(file, 20.0)).killed
    assert (ROOT / file).read_bytes() == before
