"""Verdicts of studies: computed from our number, the printed one and its tolerance, each with a reason."""

import json
import types

import numpy as np
import pytest

from excitor.experiments import studies
from excitor.experiments.figures import REASONS, Figure, Report, to_json
from excitor.experiments.studies import kr150
from excitor.experiments.studies.paper import printed_values


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("a", 0.85, paper=0.81, spread=1.0), "reproduced"),
        (Figure("a", 8.456, "", 8.456, "within", 8.46, 5e-4, 5e-3), "reproduced"),
        (Figure("a", 8.466, "", 8.456, "within", 8.46, 0.1, 5e-3), "not reproduced"),  # the bound holds
        (Figure("a", 3.0, "", 5.0, "at most"), "guard"),
        (Figure("a", 6.0, "", 5.0, "at most"), "guard"),
        (Figure("a", 6.0), "cannot be"),
        (Figure("a", float("nan"), paper=1.0, spread=9.0), "not reproduced"),
    ],
)
def test_verdict_follows_from_ours_and_the_print(figure, verdict):
    assert figure.verdict == verdict


@pytest.mark.parametrize("name", studies.STUDIES)
def test_reasons_are_of_verdicts(name):
    reasons = studies.printed_reasons(name)
    assert set(reasons) <= set(REASONS)
    assert "reproduced" not in reasons


def test_a_study_states_verdicts_everywhere(monkeypatch, tmp_path, capsys):
    from excitor.experiments.verbs.printing import print_figures

    figures = [
        Figure("kr150.table3_order", 2.0, paper=4.0),
        Figure("kr150.efficiency_error", 0.01, "", 0.015, "at most"),
        Figure("kr150.mine", 1.0),
        Figure("kr150.rank_wrist_only", 18.0, "", 18.0, "equal", 18.0),
    ]
    stub = types.SimpleNamespace(run=lambda data, out, full: Report("study", "kr150-load", figures, {}))
    monkeypatch.setattr(studies, "find", lambda name: stub)
    report = studies.reproduce("kr150-load", None, tmp_path)
    found = {figure["name"]: figure for figure in json.loads(to_json(report))["figures"]}
    assert [f["verdict"] for f in found.values()] == ["not reproduced", "guard", "cannot be", "reproduced"]
    assert "a whole sample late" in found["kr150.table3_order"]["reason"]
    assert report.context["verdicts"] == {"reproduced": 1, "not reproduced": 1, "cannot be": 1, "guard": 1}
    page = (tmp_path / "study.html").read_text("utf-8")
    assert "a whole sample late" in page
    assert page.count("<td>not reproduced</td>") == 1
    print_figures(report)
    shown = capsys.readouterr().out
    assert "not reproduced, torques that act a whole" in " ".join(shown.split())


def test_torques_of_the_print_rank_as_printed():
    """Table 3 with the printed numbers themselves is reproduced, figure by figure."""
    table = printed_values("kr150")["table3"]
    zero = np.zeros((1, 10))
    draw = {k: kr150.Outcome(zero, zero, np.array([table[f"approach{k}"]], float), zero) for k in "123"}
    figures = list(kr150.table3_figures([draw], table))
    assert len(figures) == 13
    assert {figure.verdict for figure in figures} == {"reproduced"}
    draw["1"].rms[0, 0] = 120.0
    assert [f.verdict for f in kr150.table3_figures([draw], table)].count("not reproduced") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kr150-load", "parallel-drive-gains", "rotradi-five-schemes", "tx40-power-model"])
def test_every_figure_has_a_verdict_with_a_known_reason(name):
    report = studies.reproduce(name)
    assert {figure.verdict for figure in report.figures} <= set(REASONS)
    unknown = [f.name for f in report.figures if f.reason == REASONS["not reproduced"]]
    assert not unknown
