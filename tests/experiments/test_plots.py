"""Figures and tables of a report: files in every form, values as in the report, hostile names that do nothing."""

import csv

import numpy as np
import pandas as pd
import pytest

import excitor as ex
from excitor.experiments.model import escape_latex
from excitor.experiments.report.page import example_reports
from excitor.experiments.report.plots import write_figures, write_tables

HOSTILE = "=cmd()$x^{2$\\input{/etc/passwd}<script>"


@pytest.fixture(scope="module")
def report():
    return example_reports()["complete"]


def test_figures_are_written_in_every_form(report, tmp_path):
    data = {**report, "robot": {**report["robot"], "joints": [HOSTILE] * len(report["robot"]["joints"])}}
    written = write_figures({**data, "runs": data["runs"][:1]}, tmp_path / "figures")
    assert {path.name for path in written} >= {"parameters.svg", "errors.pdf", "torques-1.png"}
    first = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(first[path.suffix]) for path in written)
    drawn = (tmp_path / "figures" / "torques-1.svg").read_text("utf-8")
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


def test_tables_hold_the_values_of_the_report(report, tmp_path):
    kept = [row for row in report["parameters"] if row["kept"]]
    kept = [{**kept[0], "name": HOSTILE}, *kept[1:]]
    write_tables({**report, "parameters": kept}, tmp_path)
    rows = list(csv.DictReader((tmp_path / "parameters.csv").read_text("utf-8").splitlines()))
    assert rows[0]["name"] == f"'{HOSTILE}"
    assert np.allclose([float(row["high"]) for row in rows], [row["high"] for row in kept], rtol=1e-12)
    text = (tmp_path / "parameters.tex").read_text("utf-8")
    assert r"\input" not in text
    assert text.count(r" \\") == len(kept) + 1
    errors = pd.read_csv(tmp_path / "errors.csv")
    assert errors.iloc[-1, 1] == pytest.approx(report["errors"][0]["model"]["total"])


def test_latex_of_a_name_runs_nothing():
    assert escape_latex("a\\b_{c}") == r"a\textbackslash{}b\_\{c\}"


def test_base_parameters_are_a_table_in_latex_and_notebooks():
    base = ex.base_parameters(ex.load_robot("rotradi"))
    assert r"\toprule" in base.to_latex()
    assert base._repr_html_().count("<tr") == len(base) + 1
