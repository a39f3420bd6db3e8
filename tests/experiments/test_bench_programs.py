"""The programs' bench in small: some mutations of every target, each noticed without the help of a digest."""

from itertools import islice

import pytest

from benchmarks import programs
from excitor.design.programs import registry


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.NAMES)
def test_wrong_programs_are_noticed(folder, name):
    robot = "iiwa" if registry.target(name).joints == 7 else "tx40"
    made, judged = programs.short_package(folder / robot, robot, name)
    found = list(programs.noticed(made, judged, islice(programs.mutated(made, full=True), 3, 20, 11)))
    assert len(found) == 2
    assert all(noticed for _, noticed in found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", "val3", pytest.param("urscript", marks=pytest.mark.slow)])
def test_a_wrong_emission_is_noticed(folder, name):
    robot = "iiwa" if registry.target(name).joints == 7 else "tx40"
    made, judged = programs.short_package(folder / robot, robot, name)
    found = list(programs.emitted(made, judged, full=False))
    assert len(found) == 3
    assert all(noticed for _, noticed in found), found
