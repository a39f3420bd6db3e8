"""Every built-in target conforms; targets that do not are refused with what they do wrong."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from excitor.design.programs.conformance import example
from excitor.design.programs.csv import TARGET, emit, execute
from excitor.design.programs.package import operator_page, package
from excitor.design.programs.registry import NAMES, TARGETS, Controller, check_target, emitter, executor, target
from excitor.design.programs.verify import Judge, aborts
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.emit import CheckedPlan, checked_package, verify_contents
from excitor.experiments.manifest import found_logs, manifests_of
from excitor.robots.errors import ExcitorError


@pytest.mark.parametrize("name", NAMES)
def test_built_in_targets_conform(name):
    check_target(TARGETS[name])


WATCHING = [name for name in NAMES if any(each.does for each in target(name).conditions.values())]


def aborted(name, moments):
    plan = example(target(name))
    made = package(emitter(name), [plan])
    return list(aborts(plan, made.target, executor(name), made.texts, made.programs[0].name, moments))


QUICK = ("franka", "fanuc-j519")


@pytest.mark.parametrize("name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in WATCHING])
def test_what_is_watched_stops_a_program_just_outside_of_its_limit_alone(name):
    assert aborted(name, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WATCHING)
def test_programs_stop_at_any_moment(name):
    assert aborted(name, 20) == []


COUNT = iter(range(100))


def changed(change):
    def write(plan, name, spacing):
        return {file: change(file, text) for file, text in emit(plan, name, spacing).items()}

    return write


@pytest.mark.parametrize(
    ("emits", "executes", "sentence"),
    [
        (changed(lambda file, text: f"{text}{next(COUNT)}\n"), execute, "differ when they are written again"),
        (lambda *given: {f"../{file}": text for file, text in emit(*given).items()}, execute, "a file is named '../"),
        (lambda plan, *rest: {**emit(plan, *rest), "about.csv": plan.run}, execute, "names must not become code"),
        (changed(lambda file, text: text.replace("0.1", "0.2")), execute, "from its plan|at rest|not rise"),
        (emit, lambda files, *rest: replace(execute(files, *rest), stretches=()), "makes nothing, planned are out"),
    ],
)
def test_targets_that_do_not_conform_are_refused(monkeypatch, emits, executes, sentence):
    module = SimpleNamespace(TARGET=replace(TARGET, name="theirs"), emit=emits, execute=executes)
    monkeypatch.setitem(sys.modules, "their_target", module)
    with pytest.raises(ExcitorError, match=sentence):
        TARGETS.add("theirs", Controller("theirs", "their_target", "their_target"))
    assert "theirs" not in TARGETS


def test_a_registered_target_is_found_by_its_name(monkeypatch):
    module = SimpleNamespace(TARGET=replace(TARGET, name="theirs"), emit=emit, execute=execute)
    monkeypatch.setitem(sys.modules, "their_target", module)
    TARGETS.add("theirs", Controller("theirs", "their_target", "their_target"))
    try:
        assert emitter("theirs").TARGET.name == "theirs"
        with pytest.raises(ExcitorError, match="there is no target 'thiers'; targets are csv, .*theirs"):
            emitter("thiers")
    finally:
        TARGETS.remove("theirs")


LAB = """
from dataclasses import replace
from excitor.design.programs import csv
from excitor.design.programs.registry import Controller
from excitor.design.programs.target import UNPROVEN
TARGET = replace(csv.TARGET, name="lab", timing="unverified")
emit = lambda *given: {file: "# " + UNPROVEN + "\\n" + text for file, text in csv.emit(*given).items()}
lab = Controller("lab", "their_lab")
"""

CELL = """robot = "rotradi"
home_deg = [10, 20, 30]
[design]
schedule = "single"
harmonics = 3
ramp_s = 2.0
measured_periods = 2
controller_sample_s = 0.01
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Install a package with a target that nothing runs."""
    (tmp_path / "their_lab.py").write_text(LAB)
    info = tmp_path / "their_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[excitor.targets]\nlab = their_lab:lab\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "their_lab.py"
    TARGETS.remove("lab")
    sys.modules.pop("their_lab", None)


def test_an_installed_target_without_an_executor_says_so_on_its_page_and_in_each_file(lab):
    made, verified = checked_package("lab", [CheckedPlan(example(target("lab")), Judge())], None, lambda _: None)
    assert verified.good
    assert "UNVERIFIED PROGRAM. No interpreter" in operator_page(made)
    with pytest.raises(ExcitorError, match="'lab' is unverified: nothing runs its programs"):
        executor("lab")
    bare = {file: text.replace("UNVERIFIED", "").encode() for file, text in made.texts.items()}
    assert not verify_contents(made.target, verified.judged, bare, lambda _: None).good


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        ('"# " + UNPROVEN', '"# program"', "example_out.csv does not state 'UNVERIFIED PROGRAM'"),
        ('timing="unverified"', 'timing="B"', "its timing is 'B', and it has no executor"),
    ],
)
def test_a_target_without_an_executor_cannot_hide_it(lab, was, now, sentence):
    lab.write_text(LAB.replace(was, now))
    with pytest.raises(ExcitorError, match=f"package their-lab.*fails its conformance suite.*{sentence}"):
        target("lab")


@pytest.mark.slow
def test_an_installed_target_is_emitted_listed_simulated_and_its_logs_are_found(lab, tmp_path):
    folder = tmp_path / "cell"
    folder.mkdir()
    (folder / "campaign.toml").write_text(CELL)

    def call(*words):
        result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=True)
        assert result.exit_code == 0, result.output or repr(result.exception)
        return result.stdout

    call("design", folder, "--evaluations", 300, "--json")
    assert json.loads(call("emit", folder, "--target", "lab", "--json"))["targets"][-1]["target"] == "lab"
    stages = {stage["name"]: stage["state"] for stage in json.loads(call("status", folder, "--json"))["stages"]}
    assert stages["programs/lab"] == "up to date"
    call("simulate", folder, "--json")  # of all that was emitted for, but the tables
    assert list(manifests_of(folder)) == ["csv", "lab"]
    logs = found_logs(folder)
    assert {log.program for log in logs} == {"lab/excitation"}
    run = '[[run]]\nname = "a"\nrole = "identify"\nprogram = "lab/excitation"\n'
    (folder / "campaign.toml").write_text(f'{CELL}{run}log = "{logs[0].log}"\n')
    assert open_campaign(folder, "identify").content.run[0].program == "lab/excitation"
