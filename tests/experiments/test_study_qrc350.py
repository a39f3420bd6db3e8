"""The QRC 350 study: how cells are judged; and, where the recordings are at hand, what the study finds."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app
from excitor.experiments.studies import paper, qrc350
from excitor.identify.samples import Samples
from excitor.robots.base import random_motion
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout

DATA = Path(__file__).parents[3] / "shared" / "data" / "qrc350"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the QRC 350 recordings are not at {DATA}")


@pytest.fixture(scope="module")
def printed():
    return paper.printed_values("qrc350")


@pytest.fixture(scope="module")
def recordings():
    return qrc350.read_recordings(DATA)


@pytest.fixture(scope="module")
def models(recordings):
    return qrc350.fit(recordings)


def test_printed_tables_have_the_counts_of_the_paper(printed):
    counts = {table["number"]: sum(len(row) for row in table["cells"]) for table in printed["table"]}
    assert counts == {"I": 140, "II": 24, "III": 24, "IV": 140, "V": 24, "VI": 24, "VII": 24}
    left_out = [cell for table in printed["table"] for row in table["cells"] for cell in row if cell == paper.LEFT_OUT]
    assert len(left_out) == 15 + 19  # process 1 and 2


@pytest.mark.parametrize(
    ("value", "text", "equal"),
    [
        (19.763138, "19.763", True),
        (19.7636, "19.763", False),
        (0.0800, "0.080", True),
        (-0.0020781, "-0.002", True),
        (1632.21, "1632", True),
        (0.0001, "0.000", True),
        (None, "-", True),
        (None, "0.000", False),
        (1.163, "-", False),
    ],
)
def test_every_printed_digit_counts(value, text, equal):
    assert paper.rounds_to(value, text) is equal


def test_a_contradiction_must_be_known_and_agree_with_the_other_procedure():
    table = {"number": "V", "columns": ["x"], "cells": [["1.0"], ["1.0"], ["1.0"], ["1.0"]]}
    known = {"number": "V", "column": "x", "rows": [2, 3]}
    found = paper.cells(
        {"table": [table], "contradiction": [known]},
        {"V": {"x": [1.0, 2.0, 2.0, 2.0]}},
        {"V": {"x": [9.0, 1.0, 3.0, 1.0]}},
    )
    assert [cell.verdict for cell in found] == ["equal", "contradicted", "unequal", "unequal"]
    assert paper.count(found) == 4
    assert "unequal: x, row 3, ours 2.0, printed 1.0" in paper.summary(found)["V"]
    assert paper.as_csv(found).splitlines()[2] == "V,2,x,1.0,2,1,contradicted"


def test_added_friction_terms_leave_the_others_as_they_are():
    robot = load("qrc350")
    extended = qrc350.with_friction(robot, ("sqrt", "maxwell-slip", "ripple"), sign_width=0.001)
    before, after = layout(robot), layout(extended)
    assert len(after) - len(before) == 6 + 12 + 8
    shared = after.indices(before.names)
    np.testing.assert_array_equal(extended.chi[shared], robot.chi)
    np.testing.assert_array_equal(extended.assumed_zero[shared], robot.assumed_zero)
    motion = random_motion(robot, 5)
    np.testing.assert_array_equal(regressor(extended, motion)[:, :, shared], regressor(robot, motion))


def test_the_list_of_studies():
    assert "qrc350-in-process" in CliRunner().invoke(app, ["study"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["study", "--json"]).stdout)["studies"]
    assert "in-process identification" in {entry["name"]: entry["title"] for entry in listed}["qrc350-in-process"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["nothing"], ValueError, "there is no study 'nothing'; expected one of"),
        (["qrc350-in-process"], ExcitorError, "give their folder with --data"),
        (["qrc350-in-process", "--data", "/nowhere"], ExcitorError, "/nowhere: is not a folder"),
    ],
)
def test_bad_calls_are_sentences(arguments, error, words):
    result = CliRunner().invoke(app, ["study", *arguments])
    assert isinstance(result.exception, error)
    assert words in str(result.exception)


def test_a_folder_without_the_recordings(tmp_path):
    with pytest.raises(ExcitorError, match=r"trajectory_a.mat: does not exist"):
        qrc350.run(tmp_path)


@needs_data
def test_tables_equal_the_print(recordings, models, printed):
    found = paper.cells(printed, qrc350.tables(recordings, models), qrc350.other_tables(recordings, models))
    wrong = [cell for cell in found if cell.verdict == "unequal"]
    assert not wrong
    assert paper.count(found, "equal") == 396
    assert {(cell.table, cell.column, cell.row) for cell in found if cell.verdict == "contradicted"} == {
        ("V", "process 2 N m", 5),
        *(("V", "process 2 %", row) for row in (4, 5, 6)),
    }


@needs_data
def test_decisions_are_the_published_ones(models, printed):
    assert qrc350.agreement(printed["decisions"], models) == qrc350.Agreement(81, 81)


@needs_data
def test_a_changed_decision_is_noticed(models, printed):
    first, *others = printed["decisions"]
    changed = [{**first, "log": first["log"].replace("K 2 (1.0541 j1)", "2 (1.0541 j1)")}, *others]
    assert qrc350.agreement(changed, models).equal == 80
    changed = [{**first, "log": first["log"].replace("10 (1.0177 j3)", "10 (1.0178 j3)")}, *others]
    assert qrc350.agreement(changed, models).equal == 80


@needs_data
def test_conditions_and_the_leak(recordings, models):
    assert models.process1.full.condition == pytest.approx(61.703, abs=5e-4)
    assert models.process1.estimate.condition == pytest.approx(8.456, abs=5e-4)
    assert models.process2.full.condition == pytest.approx(1632.21, abs=5e-3)
    assert models.process2.estimate.condition == pytest.approx(2.735, abs=5e-4)
    assert models.process2_preset.estimate.condition == pytest.approx(94.51, abs=5e-3)
    on_training = qrc350.reduced(recordings, 1, "training", preset=True).estimate
    assert (len(on_training.names), round(on_training.condition, 2)) == (26, 54.91)


@needs_data
def test_figure_4_overshoots(recordings):
    over = qrc350.overshoot_mm(qrc350.paths_mm(recordings))
    assert over["without_model"]["+x"] == pytest.approx(0.2807, abs=5e-5)
    assert over["process_model"]["+x"] == pytest.approx(0.1021, abs=5e-5)


@needs_data
def test_friction_is_chosen_without_trajectory_c(recordings):
    """By C the plain model would be chosen, by B the one with √|v|; C changes neither fit nor choice."""
    A, B, C = (recordings.samples[run] for run in ("A", "B", "C"))
    other = Samples("C", C.motion, np.ones_like(C.tau), C.sample_rate_hz)
    for runs in ([A, B, C], [A, B, other]):
        fits = [qrc350.fit_friction(recordings.robot, runs, features, 0.01) for features in ((), ("sqrt",))]
        chosen = qrc350.Beyond(fits[0], fits[0], tuple(fits), 0.0).chosen
        assert chosen.model == "sqrt, sign width 0.01 rad/s"
        assert chosen.training_A.mean() == pytest.approx(12.836, abs=5e-4)
        if runs[2] is C:
            assert fits[0].validation_C.mean() < chosen.validation_C.mean()


@needs_data
@pytest.mark.slow
def test_the_whole_study(tmp_path):
    result = CliRunner().invoke(
        app, ["study", "qrc350-in-process", "--data", str(DATA), "--out", str(tmp_path), "--json"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert not [name for name, figure in figures.items() if figure["holds"] is False]
    assert figures["qrc350.a_to_c.consistent_15hz"]["ours"] <= 9.4
    assert figures["qrc350.a_to_c.extended_15hz"]["ours"] <= 8.8
    assert figures["qrc350.a_to_c.five_harmonic_best"]["ours"] <= 13.6
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "qrc350_cells.csv",
        "qrc350_errors_on_c.png",
        "qrc350_figure4.png",
        "qrc350_torques_on_c.png",
        "study.html",
    ]
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
