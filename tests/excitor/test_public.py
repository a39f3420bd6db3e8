"""The front door: lazy names, their documentation, doctests, examples, and what is refused."""

import ast
import doctest
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import excitor as ex
from excitor.robots.information import Noise

ROOT = Path(__file__).parents[2]
HEAVY = ("cvxpy", "pymoo", "sympy", "numba", "matplotlib", "pandas", "pydantic", "numpy", "scipy")
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
NAMES = sorted(set(ex.__all__) - {"__version__"})
FUNCTIONS = tuple(name for name in NAMES if not isinstance(getattr(ex, name), type))
LIGHT = (
    "load_robot",
    "base_parameters",
    "inverse_dynamics",
    "regressor",
    "build_problem",
    "Campaign",
    "check_friction",
)


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


def test_importing_is_light():
    code = (
        "import time, sys; before = set(sys.modules); t = time.process_time(); import excitor; dir(excitor);"
        f"print(time.process_time() - t, *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    seconds, *loaded = run("-c", code).stdout.split()
    assert not loaded
    assert float(seconds) <= 0.1


def test_help_is_light():
    code = (
        "import sys, time; from excitor.experiments.cli import main; sys.argv = ['excitor', '--help']\n"
        "try: main()\n"
        f"except SystemExit: print(time.process_time(), *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    seconds, *loaded = run("-c", code).stdout.splitlines()[-1].split()
    assert not loaded
    assert float(seconds) <= 0.6  # of the interpreter, its site and the help; alone it is below 0.15


def test_every_name_is_there_once_in_all_lists():
    assert sorted(ex.__all__) == sorted([*ex._PLACES, "__version__"])
    tree = ast.parse((ROOT / "excitor" / "__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {name.asname or name.name: (node.module, name.name) for node in imports for name in node.names}
    assert typed == ex._PLACES
    assert set(ex.__all__) <= set(dir(ex))
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = ex.magic


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name):
    value = getattr(ex, name)
    assert value.__doc__
    if name in FUNCTIONS:
        assert ">>>" in value.__doc__
        assert "Args:" in value.__doc__ or not value.__code__.co_argcount


def check_examples_of(name):
    value = getattr(ex, name)
    found = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in found:
        runner.run(test)
    assert runner.failures == 0
    assert runner.tries > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(LIGHT)))
def test_doctests(name):
    check_examples_of(name)


@pytest.mark.parametrize("name", LIGHT)
def test_light_doctests(name):
    check_examples_of(name)


def test_examples_are_short_and_numbered():
    assert len(EXAMPLES) >= 8
    assert [path.name[:2] for path in EXAMPLES] == [f"{k:02}" for k in range(1, len(EXAMPLES) + 1)]
    for path in EXAMPLES:
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 40, path
        assert ast.get_docstring(ast.parse(text)), path


def run_example(path):
    if "import pandas" in path.read_text("utf-8"):
        pytest.importorskip("pandas")
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2


@pytest.mark.parametrize("number", ["01", "09"])
def test_light_examples_run(number, capsys):
    """In this process: starting another takes longer than the example."""
    try:
        runpy.run_path(str(next(path for path in EXAMPLES if path.name.startswith(number))), run_name="__main__")
    finally:
        if number == "09":
            ex.unregister("list")
    assert len(capsys.readouterr().out.splitlines()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path):
    run_example(path)


def test_a_series_is_what_it_says():
    """A number of harmonics counts from the first; named joints alone move; the rest is as the reference states it."""
    robot = ex.load_robot("rotradi")
    usual, other = ex.Series(), ex.Series(4.0, [2, 5], joints=robot.joint_names[1:2], measured=3, ramp=1.0)
    excitation = usual.excitation(robot)
    assert (excitation.period, excitation.harmonics, excitation.moving.tolist()) == (10.0, (1, 2, 3, 4, 5), [True] * 3)
    kept = ("measured", "warm_up", "ramp", "settle", "hold")
    assert [getattr(excitation, key) for key in kept] == [5, 1, 5.0, 2.0, 2.0]
    excitation = other.excitation(robot)
    assert (excitation.harmonics, excitation.moving.tolist()) == ((2, 5), [False, True, False])
    assert [getattr(excitation, key) for key in kept] == [3, 1, 1.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="'knee' is no joint of rotradi"):
        ex.Series(joints=["knee"]).excitation(robot)


@pytest.fixture(scope="module")
def solved():
    robot = ex.load_robot("rotradi")
    problem = ex.build_problem(robot, ex.Series(period=5, harmonics=3, measured=2), [ex.VelocityLimit(0.5)])
    return robot, problem, ex.solve(problem, evaluations=300, seed=1)


def test_a_design_keeps_what_was_asked(solved):
    robot, _, design = solved
    t = np.arange(0.0, design.run.plan.body.excitation.duration, 0.002)
    assert (np.abs(design.run.at(t, 1)) <= 0.5 * robot.limits.velocity).all()
    assert design.certificate.ready
    assert f"{design.condition:.4g}" in repr(design)


def test_the_same_seed_gives_the_same_run(solved):
    _, problem, design = solved
    again = ex.solve(problem, evaluations=300, seed=1)
    assert np.array_equal(again.run.plan.body.periodic.sines, design.run.plan.body.periodic.sines)


def test_a_certificate_is_of_the_problem_asked(solved):
    robot, problem, design = solved
    assert ex.certify(design.run, problem).ready
    tight = ex.build_problem(robot, ex.Series(period=5, harmonics=3), [ex.VelocityLimit(0.1)])
    assert not ex.certify(design.run, tight).ready


def test_design_and_model_draw_themselves(solved):
    axes = solved[2].plot()
    assert [line.get_label() for line in axes.get_lines()] == list(solved[0].joint_names)


@pytest.mark.parametrize(
    ("constraints", "match"),
    [
        ([ex.VelocityLimit(1.5)], "VelocityLimit: share is 1.5, expected above 0 and at most 1"),
        ([ex.TorqueLimit(joints={"wrist": 1.0})], "'wrist' is no joint of rotradi; its joints are base_joint"),
        ([ex.PositionLimit(margin=9.0)], "PositionLimit leaves joint base_joint no range"),
        (["fast"], "'fast' is no constraint"),
    ],
)
def test_wrong_constraints_are_sentences(constraints, match):
    with pytest.raises(ValueError, match=match):
        ex.build_problem(ex.load_robot("rotradi"), ex.Series(5, 3), constraints)


def test_a_no_go_is_not_emitted(solved, tmp_path):
    robot = solved[0]
    problem = ex.build_problem(robot, ex.Series(5, 3, measured=1))
    noise = Noise(np.full(3, 1e3), 100.0, 1.0, source="stated")
    hopeless = replace(problem, setup=replace(problem.setup, noise=noise))
    design = ex.solve(hopeless, evaluations=200)
    assert not design.go
    with pytest.raises(ex.ExcitorError, match="no-go, so no program of it is written"):
        ex.emit(design.run, robot, "csv", tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ex.ExcitorError, match="'danger' is no refusal"):
        ex.emit(design.run, robot, "csv", tmp_path, allow={"danger"})


def test_a_changed_program_is_found_out(solved, tmp_path):
    robot, _, design = solved
    folder = ex.emit(design.run, robot, "csv", tmp_path, allow={"no-go"})
    assert ex.verify(folder, design.run).good
    table = folder / "excitation.csv"
    lines = table.read_text().splitlines()
    cells = lines[len(lines) // 2].split(",")
    cells[-1] = str(float(cells[-1]) + 0.01)
    table.write_text("\n".join([*lines[: len(lines) // 2], ",".join(cells), *lines[len(lines) // 2 + 1 :]]) + "\n")
    assert not ex.verify(folder, design.run).good


def test_a_run_of_another_robot_is_refused(solved, tmp_path):
    with pytest.raises(ValueError, match="was designed for rotradi, not for tx40"):
        ex.emit(solved[2].run, ex.load_robot("tx40"), "csv", tmp_path)


@pytest.fixture(scope="module")
def log(solved):
    return ex.simulate(solved[2].run, solved[0], seed=3)


def test_a_simulated_run_is_learned(solved, log):
    robot, _, design = solved
    samples = ex.samples(log, robot, run=design.run)
    assert samples.repetitions == 2
    assert samples.robot is robot
    model = ex.fit(samples, consistent=False)
    assert model.error < 0.15


def test_a_log_that_is_not_of_the_run_is_refused(solved, log):
    robot, problem, _ = solved
    other = ex.solve(problem, evaluations=50, seed=5)
    with pytest.raises(ex.ExcitorError):
        ex.samples(log, robot, run=other.run)


def measured(w, name, n=2000, noise=0.05, seed=0):
    robot = ex.load_robot("rotradi")
    t = np.arange(n)[:, None] / 100.0
    q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + noise * np.random.default_rng(seed).normal(size=q.shape)
    return ex.Samples(name, ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)


@pytest.fixture(scope="module")
def model():
    return ex.fit(measured(np.array([0.9, 1.7, 2.6]), "one"))


def test_the_truth_lies_within_the_intervals(model):
    base = ex.base_parameters(model.robot)
    true = dict(zip(base.names, base.values(model.robot.chi), strict=True))
    known = {name.removesuffix("R"): value for name, value in true.items()}
    inside = [
        low <= known[name.removesuffix("R")] <= high
        for name, low, high in zip(model.names, model.low, model.high, strict=True)
    ]
    assert np.mean(inside) > 0.8  # of 95 %, over 21 parameters


def test_a_model_is_read_back_as_it_was_saved(model, tmp_path):
    again = ex.load_model(model.save(tmp_path))
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 5, 3))
    assert np.array_equal(again.torque(q, dq, ddq), model.torque(q, dq, ddq))
    assert repr(again) == repr(model)


def test_a_model_is_judged_on_what_it_has_not_seen(model):
    assert ex.validate(model, measured(np.array([1.2, 1.4, 2.2]), "two", seed=2)).model.relative_total < 0.05
    with pytest.raises((ex.ExcitorError, ValueError), match="one"):
        ex.validate(model, measured(np.array([0.9, 1.7, 2.6]), "one"))


def test_a_model_as_a_table_for_a_paper(model):
    text = model.to_latex()
    assert text.count(r"\\") == len(model.names) + 1
    assert text.startswith(r"\begin{tabular}{lrrl}")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda one: ex.fit([]), "samples are empty"),
        (lambda one: ex.fit(3.0), "float"),
        (lambda one: ex.fit(one, method="magic"), "no estimator is called 'magic'; expected one of ols, wls"),
        (lambda one: ex.fit([one, one]), "two runs are named 'one'"),
    ],
)
def test_wrong_samples_are_sentences(call, match):
    with pytest.raises((ValueError, TypeError, ex.ExcitorError), match=match):
        call(measured(np.array([0.9, 1.7, 2.6]), "one", n=300))
