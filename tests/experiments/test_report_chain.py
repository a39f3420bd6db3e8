"""A report of a whole chain: planned, emitted, run by a virtual robot, read back and identified."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments import logs as program_logs
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import identify
from excitor.experiments.report.campaign import noise_floor, tracking_error
from excitor.experiments.report.data import read_report
from excitor.experiments.report.evidence import gather, simulated_runs
from excitor.experiments.report.page import report_page
from excitor.identify.logs.read import read_log
from tests import campaigns
from tests.pages import Reader

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Run every stage in a folder; how often logs were read for the report is told apart."""
    folder = tmp_path_factory.mktemp("chain") / "my cell"
    folder.mkdir()
    text = campaigns.PLANNED.replace("measured_periods = 2", "measured_periods = 4")
    (folder / "campaign.toml").write_text(text)
    for arguments in (["design", "--evaluations", "200"], ["emit", "--target", "csv"], ["simulate", "--seed", "7"]):
        done = CliRunner().invoke(app, [arguments[0], str(folder), *arguments[1:], "--json"])
        assert done.exit_code == 0, done.output + repr(done.exception)
    count = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_logs, "read_log", lambda *given: count.append(given) or read_log(*given))
        done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return folder, len(count)


@pytest.fixture(scope="module")
def chained(chain):
    return read_report(chain[0] / "report.json")


@pytest.fixture(scope="module")
def gathered(chain):
    return gather(identify(open_campaign(chain[0])))


def test_logs_are_read_once(chain, chained):
    assert chain[1] == len(chained["runs"]) == 3


def test_no_path_of_this_machine_is_reported(chain, chained):
    for file in ("report.json", "report.html"):
        assert str(chain[0].parent) not in (chain[0] / file).read_text()
    for run in chained["processing"]["runs"]:
        assert run["steps"][0]["settings"]["file"] == run["log"] == f"logs/csv/{Path(run['log']).name}"


def test_tracking_errors_are_those_of_the_alignment(chained):
    """There it is of every sample of the log: with the encoders' noise, and the parts where the robot moves less."""
    entries = {(e["run"], e["joint"]): e for e in chained["alignment"] if e["what"] == "tracking error"}
    assert len(entries) == 9
    for run in chained["planned"]["tracking"]:
        for joint, rms, peak in zip(chained["robot"]["joints"], run["rms"], run["peak"], strict=True):
            assert 0.3 * entries[run["run"], joint]["found"] < rms < 1.2 * entries[run["run"], joint]["found"]
            assert rms <= peak <= 6.0 * rms


def test_what_the_robot_did_not_follow_is_its_tracking_error(gathered):
    run = gathered.runs[0]
    motion, strayed = run.samples.motion, 0.01 * np.sin(np.linspace(0.0, 7.0, run.samples.motion.q.size))
    strayed = strayed.reshape(motion.q.shape)
    other = replace(run, samples=replace(run.samples, motion=replace(motion, q=motion.q + strayed)))
    np.testing.assert_allclose(tracking_error(other) - tracking_error(run), strayed, atol=1e-12)
    late = replace(run, samples=replace(run.samples, motion=replace(motion, q=np.roll(motion.q, 1, axis=0))))
    step = np.abs(np.diff(motion.q, axis=0)).max(axis=0)
    np.testing.assert_allclose(np.abs(tracking_error(late)).max(axis=0), step, rtol=0.05)
    assert tracking_error(replace(run, alignment=None)) is None


def test_noise_is_what_does_not_repeat(chain, chained):
    """Periods of the log itself, without the report's way through alignment, give the same to its sampling error."""
    design = json.loads((chain[0] / "design.json").read_text())
    assert [row["expected"] for row in chained["planned"]["noise_by_joint"]] == design["noise"]["sigma"]
    log = np.genfromtxt(chain[0] / "logs/csv/excitation.csv", delimiter=",", names=True)
    names = [name for name in log.dtype.names if name.startswith(("tau", "torque", "effort"))]
    start = next(
        e["found"] for e in chained["alignment"] if e["what"] == "start" and e["run"] == chained["runs"][0]["name"]
    )
    first = int((start + 0.5 + 1.0 - 0.0) / 0.01)
    for row, name in zip(chained["planned"]["noise_by_joint"], names, strict=True):
        periods = log[name][first : first + 800].reshape(4, 200)
        assert row["obtained"] == pytest.approx(np.sqrt(periods.var(axis=0, ddof=1).mean()), rel=0.15)
    held_out = chained["errors"][0]
    assert 0.5 * held_out["model"]["total"] < held_out["noise"]["total"] < 1.2 * held_out["model"]["total"]


def test_the_noise_floor_is_that_of_the_mean(gathered):
    seen = gathered
    judged = seen.training
    flat = replace(judged, regression=replace(judged.regression, variance=np.full(len(judged.regression), 0.36)))
    floor = noise_floor(seen, flat)
    assert floor["rmse"] == pytest.approx([0.3] * 3)  # of a mean of four
    y = judged.regression.y
    assert floor["total"] == pytest.approx(0.3 / np.sqrt(np.mean(y**2)))
    once = replace(judged, regression=replace(judged.regression, variance=None))
    assert noise_floor(seen, once) is None


def test_a_virtual_robot_is_called_one(chain, chained, tmp_path):
    assert [(run["target"], run["seed"], run["faults"]) for run in chained["simulated"]] == [("csv", 7, [])] * 3
    assert chained["verdict"]["virtual"].startswith("All logs are of a virtual robot")
    assert "All logs are of a virtual robot" in Reader((chain[0] / "report.html").read_text()).text
    folder = shutil.copytree(chain[0], tmp_path / "cell")
    with (folder / "logs/csv/excitation.csv").open("a") as log:
        log.write("\n")  # no longer what the simulation wrote
    campaign = open_campaign(folder)
    assert "excitation" not in [run["run"] for run in simulated_runs(campaign)]
    for text in ("", "[]", '{"programs": 3}', '{"programs": [{"files": [{}]}]}'):
        (folder / "logs/csv/simulated.json").write_text(text)
        assert simulated_runs(campaign) == []


def test_a_report_states_how_it_was_made(chain, chained):
    known = chained["provenance"]
    assert known["commands"] == [
        "excitor design 'my cell' --seed 0 --evaluations 200",
        "excitor emit 'my cell' --target csv",
        "excitor simulate 'my cell' --target csv --seed 7",
        "excitor identify 'my cell'",
        "excitor report 'my cell'",
    ]
    for name, digest in known["sha256"].items():
        assert hashlib.sha256((chain[0] / name).read_bytes()).hexdigest() == digest
    assert {"design.json", "campaign.toml", "programs/csv/manifest.json"} <= set(known["sha256"])
    assert (known["design_seed"], known["robot"]) == (0.0, "rotradi")


def test_the_report_is_complete(chained):
    """Every part of it has something in it, and no number is none of JSON's."""
    assert all(
        chained[key] not in ({}, [], None) for key in chained if key not in ("findings", "open_loop", "tracking")
    )
    text = Reader(report_page(chained)).text
    for words in ("Tracking error", "Torque noise", "checks of 3 runs hold", "noise alone, which no model predicts"):
        assert words in text
