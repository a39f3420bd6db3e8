"""Whole campaigns, good and bad: identify, report, compare, status and export never disagree about a model."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.compare import compare
from excitor.experiments.identification import identify, kept_back, read_and_examine
from excitor.identify.periods import repetition, same_motion
from excitor.robots.load import load
from tests.campaigns import CAMPAIGN, motion_of, true_robot, write_campaign, write_log

ONE_RUN = CAMPAIGN.split("[[run]]")[0] + (
    '[[run]]\nname = "first"\nlog = "logs/first.csv"\n\n[processing]\nlowpass_hz = 20.0\ndecimate = [4]\n'
)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def rewrite(path, change):
    head, *rows = path.read_text().splitlines()
    table = np.array([[float(x) for x in row.split(",")] for row in rows])
    change(table)
    np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.6f")


def good(folder):
    write_campaign(folder, 20.0)


def true_prior(folder):
    (folder / "logs").mkdir()
    for k, name in enumerate(("first", "second")):
        robot = load("rotradi")
        write_log(folder / "logs" / f"{name}.csv", robot, *motion_of(robot, 20.0, k), k)
    (folder / "campaign.toml").write_text(CAMPAIGN)


def noisy_positions(folder):
    """Positions so noisy that accelerations are noise; the file states no filter worth the name."""
    passed = '[identify]\nallow = ["band"]\n\n[processing]\nlowpass_hz = 90.0'
    write_campaign(folder, 20.0, CAMPAIGN.replace("[processing]\nlowpass_hz = 20.0", passed))
    rng = np.random.default_rng(0)
    for name in ("first", "second"):
        rewrite(folder / "logs" / f"{name}.csv", lambda table: table.__iadd__(
            np.pad(0.1 * rng.normal(size=(len(table), 3)), ((0, 0), (1, 3)))))  # fmt: skip


def another_load(folder):
    """The validation run is of a robot that is half as heavy again: what was learned does not hold there."""
    write_campaign(folder, 20.0)
    rewrite(folder / "logs" / "second.csv", lambda table: table[:, 4:].__imul__(-1.0))


def single_run(folder):
    (folder / "logs").mkdir()
    write_log(folder / "logs" / "first.csv", true_robot(), *motion_of(true_robot(), 25.0, 0), 0)
    (folder / "campaign.toml").write_text(ONE_RUN)


@pytest.mark.parametrize(
    ("make", "go", "words"),
    [
        (good, True, "The model may be used"),
        (true_prior, None, "Nothing learned beyond the prior model"),
        (noisy_positions, False, "Do not use this model"),
        (another_load, False, "Do not use this model"),
        (single_run, None, "Use this model with care"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_all_verbs_say_the_same(tmp_path, make, go, words):
    make(tmp_path)
    identified = run("identify", tmp_path)
    assert identified.exit_code == (1 if go is False else 0), identified.output
    assert words in identified.stdout
    model = json.loads((tmp_path / "model.json").read_text())
    assert (model["verdict"]["go"], model["verdict"]["headline"]) == (go, words)
    assert run("report", tmp_path).exit_code == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"]["uses"] == model["verdict"]["uses"]
    assert words in (tmp_path / "report.html").read_text()
    stages = json.loads(run("status", tmp_path, "--json").stdout)["stages"]
    assert {stage["reason"] for stage in stages if stage["name"] in ("model.json", "report.json")} == {words}
    compared = compare(open_campaign(tmp_path), ["wls"]).recommendation
    assert compared.verdict.go is go
    assert compared.verdict.uses[0].reasons == tuple(model["verdict"]["uses"][0]["reasons"])
    assert (compared.method is None) == (go is False)
    exported = run("export", tmp_path, "--format", "py")
    assert exported.exit_code == (1 if go is False else 0)
    if go is False:
        assert "--allow do-not-use" in str(exported.exception)
        assert run("export", tmp_path, "--format", "py", "--allow", "do-not-use").exit_code == 0
    assert run("export", tmp_path, "--format", "py", "--allow", "anything").exit_code == 2


def test_a_refusal_is_passed_over_by_its_name_and_stays_a_doubt(tmp_path):
    write_campaign(tmp_path, 12.0)
    rewrite(tmp_path / "logs" / "first.csv", lambda table: table[:, 5].__imul__(-1.0))
    refused = run("identify", tmp_path)
    assert refused.exit_code == 1
    assert not (tmp_path / "model.json").exists()
    allowed = []
    while refused.exit_code and not (tmp_path / "model.json").exists():  # one refusal may hide another
        allowed += str(refused.exception).split("excitor identify DIR ")[1].split()
        assert len(allowed) <= 8
        refused = run("identify", tmp_path, *allowed)
    model = json.loads((tmp_path / "model.json").read_text())
    assert any("allowed: " in finding["sentence"] for finding in model["findings"])
    assert model["verdict"]["go"] is not True


def test_a_motion_that_repeats_is_never_unseen(tmp_path):
    single_run(tmp_path)  # 25 s of a motion of 10 s
    parts = kept_back(read_and_examine(open_campaign(tmp_path)))
    assert len(parts.training) == len(parts.unseen) == 2
    learned = np.concatenate([part.motion.q for part in parts.training])
    for part in parts.unseen:
        nearest = [np.abs(learned - q).max(axis=1).min() for q in part.motion.q[::10]]
        assert np.median(nearest) > 0.02


def test_a_validation_run_of_the_same_motion_is_none(tmp_path):
    single_run(tmp_path)
    text = (tmp_path / "campaign.toml").read_text()
    log = re.search(r'log = "(.*)"', text[text.index("[[run]]") :])[1]
    late = f'[[run]]\nname = "again"\nlog = "{log}"\nrole = "validate"\nfrom_s = 15.0\n'
    (tmp_path / "campaign.toml").write_text(text.replace(f'log = "{log}"', f'log = "{log}"\nto_s = 15.0') + late)
    found = identify(open_campaign(tmp_path))
    assert found.held_out is None
    assert found.same_run is not None
    assert [(one.level, one.data["runs"]) for one in found.findings if one.what == "again"] == [
        ("doubtful", ("again",))
    ]
    assert found.verdict.go is None


def test_two_motions_are_one_at_whatever_time_logs_begin():
    t = np.arange(1500)[:, None] / 100.0
    q = np.sin(t * [0.9, 1.7]) + 0.5 * np.cos(t * [2.3, 0.4])
    assert same_motion(q, q[130:1100] + 1e-3)
    assert not same_motion(q, 1.2 * q[130:1100])
    assert not same_motion(q, q[::-1])


def test_repetitions_are_found_and_nothing_else_is_one():
    t = np.arange(2000) / 100.0
    once = np.column_stack([np.sin(0.7 * t) + 0.3 * np.sin(1.9 * t), np.cos(1.1 * t)])
    assert repetition(once) == 0
    again = np.column_stack([np.sin(2 * np.pi * t / 4), np.cos(2 * np.pi * t / 2)])
    assert repetition(again) == pytest.approx(400, abs=1)
    assert repetition(np.cumsum(np.random.default_rng(0).normal(size=(2000, 2)), axis=0)) == 0
    assert repetition(np.ones((50, 2))) == 0
