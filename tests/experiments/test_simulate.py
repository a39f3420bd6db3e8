"""`excitor simulate`: what is written where, what is refused, and what is never lost."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app
from excitor.experiments.simulate import fault_of
from excitor.experiments.verbs.simulate import run_simulate
from excitor.experiments.virtual.machine import FAULTS, run_program
from excitor.identify.log import joint_side
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import read_raw
from excitor.identify.logs.read import read_log
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from tests.campaigns import PLANNED

pytestmark = pytest.mark.usefixtures("coarse_steps")


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulate") / "cell"
    folder.mkdir()
    (folder / "campaign.toml").write_text(PLANNED)
    for arguments in (["design", "--evaluations", "200"], ["emit", "--target", "ros2"]):
        done = CliRunner().invoke(app, [arguments[0], str(folder), *arguments[1:], "--json"])
        assert done.exit_code == 0, done.output + repr(done.exception)
    return folder


@pytest.fixture
def copy(emitted, tmp_path):
    return shutil.copytree(emitted, tmp_path / "cell")


@pytest.fixture(scope="module")
def simulated(emitted, tmp_path_factory):
    folder = shutil.copytree(emitted, tmp_path_factory.mktemp("simulated") / "cell")
    assert run_simulate(folder, True, targets=["ros2"], seed=3)
    return folder


def run(folder, capsys, **given):
    good = run_simulate(folder, True, **{"targets": ["ros2"], "seed": 3} | given)
    return good, json.loads(capsys.readouterr().out)


def bytes_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_nothing_is_written_where_the_robot_does_not_follow(copy, capsys, monkeypatch):
    """No log, no truth."""
    before = bytes_of(copy)
    monkeypatch.setattr("excitor.experiments.virtual.machine.ALLOWED", 0.0)
    monkeypatch.setattr("excitor.experiments.virtual.machine.ALLOWED_STILL", 1e-9)
    with pytest.raises(ExcitorError, match="off its reference, more than the 1e-09 allowed: .*; nothing was written"):
        run(copy, capsys)
    assert bytes_of(copy) == before


def test_logs_lie_where_they_are_looked_for_and_the_truth_apart(simulated):
    told = json.loads((simulated / "logs/ros2/simulated.json").read_text())
    manifest = json.loads((simulated / "programs/ros2/manifest.json").read_text())
    wanted = [entry["name"] for entry in manifest["programs"] if not entry["dry"]]
    assert [program["program"] for program in told["programs"]] == wanted
    assert told["seed"] == 3
    assert told["faults"] == []
    robot = load("rotradi")
    for program in told["programs"]:
        path = simulated / "logs/ros2" / program["log"]
        assert path.stem == program["program"]
        log = read_log(path, ColumnMap.model_validate(told["log"]), robot.joint_names)
        assert joint_side(robot, log).tau.shape[1] == robot.n_joints
    truth = (simulated / "truth.json").read_bytes()
    assert json.loads(truth)["seed"] == 3
    assert json.loads(truth)["engine"] == "excitor"
    servos = json.loads(truth)["servos"]
    assert sorted(servos) == [f"ros2/{name}" for name in sorted(wanted)]
    assert all(e < a for servo in servos.values() for e, a in zip(servo["error"], servo["allowed"], strict=True))
    assert hashlib.sha256(truth).hexdigest() == told["truth_sha256"]
    assert not any(b"efficiency" in content for content in bytes_of(simulated / "logs").values())


def test_the_same_seed_makes_the_same_bytes(simulated, copy, capsys):
    good, told = run(copy, capsys)
    assert good
    assert told["ok"] is True
    assert bytes_of(copy / "logs") == bytes_of(simulated / "logs")
    assert (copy / "truth.json").read_bytes() == (simulated / "truth.json").read_bytes()


def test_logs_are_not_lost(simulated, tmp_path, capsys):
    folder = shutil.copytree(simulated, tmp_path / "cell")
    before = bytes_of(folder / "logs")
    with pytest.raises(ExcitorError, match="has simulated logs already; add --fresh"):
        run(folder, capsys)
    (folder / "logs/ros2/monday.csv").write_text("what a robot told")
    with pytest.raises(ExcitorError, match="holds monday.csv, which no simulation wrote; move it elsewhere"):
        run(folder, capsys, fresh=True)
    (folder / "logs/ros2/monday.csv").unlink()
    log = next((folder / "logs/ros2").glob("*.csv"))
    log.write_text(log.read_text() + "\n")
    with pytest.raises(ExcitorError, match="which no simulation wrote"):
        run(folder, capsys, fresh=True)
    log.write_bytes(before[f"ros2/{log.name}"])
    assert bytes_of(folder / "logs") == before
    assert {path.name for path in (folder / "logs").iterdir()} == {"ros2"}


def test_stale_programs_are_refused(copy, capsys):
    path = next((copy / "programs/ros2").glob("*_main.json"))
    path.write_text(path.read_text() + " ")
    with pytest.raises(ExcitorError, match="was changed since it was emitted; emit it again"):
        run(copy, capsys)
    with pytest.raises(ExcitorError, match="has no programs; run excitor emit .* --target twincat first"):
        run(copy, capsys, targets=["twincat"])
    (copy / "campaign.toml").write_text(PLANNED.replace("10, 20", "11, 20"))
    with pytest.raises(ExcitorError, match="was made from another campaign.toml"):
        run(copy, capsys)
    assert not (copy / "logs").exists()
    assert not (copy / "truth.json").exists()


def test_a_fault_shows_in_every_program(simulated, copy, capsys):
    good, told = run(copy, capsys, fault=["flipped-sign:2,torque"])
    assert good
    (fault,) = told["targets"][0]["faults"]
    joint = load("rotradi").joint_names[1]
    assert (fault["name"], fault["joints"], fault["channel"]) == ("flipped-sign", [joint], "torque")
    assert json.loads((copy / "truth.json").read_text())["faults"] == [fault]
    for entry in told["targets"][0]["logs"]:
        name = entry["log"].rpartition("/")[2]
        ours, theirs = (read_raw(folder / "logs/ros2" / name).group("effort") for folder in (copy, simulated))
        signs = [np.sign(float(a.values @ b.values)) for a, b in zip(ours, theirs, strict=True)]
        assert signs == [1.0, -1.0, 1.0]


def test_faults_are_requested_by_name():
    robot = load("rotradi")
    with pytest.raises(ExcitorError, match="there is no fault 'gremlin'; faults are") as caught:
        fault_of("gremlin", robot)
    assert all(name in str(caught.value) for name in FAULTS)
    with pytest.raises(ExcitorError, match="has no joint '9'; expected one of .*, or how it shows: torque, position"):
        fault_of("flipped-sign:9", robot)
    with pytest.raises(ExcitorError, match="name the two joints that change places"):
        fault_of("swapped-axes:1", robot)
    assert fault_of(f"swapped-axes:{robot.joint_names[2]},1", robot).joints == (2, 0)
    assert fault_of("half-speed:hidden", robot).channel == "hidden"


@pytest.fixture
def once(monkeypatch):
    """Every program records what the first one did: for tests of what is done with it."""
    stage, first = "excitor.experiments.simulate.run_program", []

    def fake(truth, plan, **given):
        first.extend([] if first else [run_program(truth, plan, **given)])
        return first[0]

    monkeypatch.setattr(stage, fake)


@pytest.mark.usefixtures("once")
def test_without_targets_controllers_programs_are_simulated(copy, capsys):
    good, told = run(copy, capsys, targets=[])
    assert good
    assert [entry["target"] for entry in told["targets"]] == ["ros2"]
    assert not any(log["dry"] for entry in told["targets"] for log in entry["logs"])
    with pytest.raises(ExcitorError, match="log format npz goes with one target"):
        run(copy, capsys, targets=["csv", "ros2"], log_format="npz", fresh=True)


@pytest.mark.usefixtures("once")
def test_dry_runs_and_other_formats_where_they_are_requested(copy, simulated, capsys):
    good, told = run(copy, capsys, targets=["csv"], dry=True, log_format="npz", seed=4)
    assert (copy / "truth.json").read_bytes() != (simulated / "truth.json").read_bytes()
    assert good
    (entry,) = told["targets"]
    assert sorted(log["dry"] for log in entry["logs"]) == [False] * 3 + [True] * 3
    assert {log["log"].rpartition(".")[2] for log in entry["logs"]} == {entry["log_format"]} == {"npz"}


def test_a_target_that_cannot_be_logged_is_reported(copy, capsys, monkeypatch):
    monkeypatch.setattr("excitor.experiments.simulate.refusal", lambda target, robot, form: f"{target}: no")
    good, told = run(copy, capsys)
    assert not good
    assert told["ok"] is False
    assert told["targets"][0]["refused"] == "ros2: no"
    assert told["truth"] is None
    assert not (copy / "logs").exists()
    assert not (copy / "truth.json").exists()


def test_a_crash_leaves_nothing_behind(copy, capsys, monkeypatch):
    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("excitor.experiments.simulate.write", fails)
    with pytest.raises(ExcitorError, match="cannot be written: No space left on device"):
        run(copy, capsys)
    assert not list((copy / "logs").iterdir())


def test_the_table_beside_a_controllers_programs_is_not_run(tmp_path):
    from types import SimpleNamespace

    from excitor.experiments.simulate import _emitted

    (tmp_path / "programs/csv").mkdir(parents=True)
    assert _emitted(SimpleNamespace(folder=tmp_path)) == ["csv"]
    (tmp_path / "programs/ros2").mkdir()
    assert _emitted(SimpleNamespace(folder=tmp_path)) == ["ros2"]
