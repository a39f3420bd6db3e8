"""Every built-in target conforms; targets that do not are refused with what they do wrong."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from excitor.design.programs.conformance import example
from excitor.design.programs.csv import TARGET, emit, execute
from excitor.design.programs.package import package
from excitor.design.programs.registry import NAMES, TARGETS, Controller, check_target, emitter, executor, target
from excitor.design.programs.verify import aborts
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
