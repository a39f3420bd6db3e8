"""A stage that is killed at any moment: nothing earlier is lost, nothing half-written is believed, and it runs again.

Each stage is killed five times at random moments, one run after the other in the same folder: twice where its files do
not exist yet, then where they do. Moments are counted in touches of the folder's files, which is where harm is done,
and once in seconds.
"""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app
from excitor.experiments.files import mend, new_folder, swap, write_atomically

SERVER = Path(__file__).with_name("kill_server.py")
ROBOT = Path(__file__).parents[2] / "robots" / "catalog" / "rotradi.toml"
DESIGN = """
[noise]
torque = [0.3, 0.3, 0.1]
[design]
harmonics = 2
base_frequency_hz = 0.5
settle_s = 0.5
hold_s = 0.5
ramp_s = 1.0
warm_up_periods = 1
measured_periods = 3
controller_sample_s = 0.02
"""
STAGES = {
    "init": (["init", "{folder}", "--robot", "{robot}"], ()),
    "design": (["design", "{folder}", "--evaluations", "60", "--json"], ("design.json", "plan.html")),
    "emit": (["emit", "{folder}", "--target", "csv", "--json"], ("programs/",)),
    "verify": (["verify", "{folder}", "--json"], ()),
    "simulate": (["simulate", "{folder}", "--target", "csv", "--fresh", "--json"], ("logs/", "truth.json")),
    "identify": (["identify", "{folder}", "--json"], ("model.json", "model.c", "model.py")),
    "report": (["report", "{folder}", "--json"], ("report.json", "report.html")),
    "export": (["export", "{folder}", "--format", "c", "--format", "mjcf", "--format", "parquet"], ("exports/",)),
}
TOLD_BY = {"design.json": ("plan.html",), "model.json": ("model.c", "model.py"), "report.json": ("report.html",)}
AGAIN = ("design", "emit", "simulate", "identify", "report", "export")  # whose files are replaced by the next run
CLOCK = re.compile(rb'"(?:cpu_s|seconds|search_s)": ?[0-9.e-]+')


@pytest.fixture(scope="module")
def server():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    process.wait(timeout=60)


def run(server, folder, stage, **when):
    arguments = [x.format(folder=folder, robot=ROBOT) for x in STAGES[stage][0]]
    output = folder.parent / "told.txt"
    request = {"arguments": arguments, "folder": str(folder), "output": str(output), **when}
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    if not answer["killed"]:
        assert answer["code"] == 0, output.read_text()
    return answer


def files(folder):
    """Digest all files, whatever their names."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(CLOCK.sub(b"", path.read_bytes())).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def status(folder):
    result = CliRunner().invoke(app, ["status", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    return {stage["name"]: stage["state"] for stage in json.loads(result.stdout)["stages"]}


def hidden(name):
    return any(part.startswith(".") for part in name.split("/"))


def owned(stage, name):
    return any(name == own or (own.endswith("/") and name.startswith(own)) for own in STAGES[stage][1])


def check(folder, stage, before, whole):
    """What is there is as it was, or as an undisturbed run leaves it; what was complete is not gone."""
    if (folder / "campaign.toml").exists():
        states = status(folder)
        assert "unusable" not in states.values(), states
        for marker, others in TOLD_BY.items():  # what is called up to date has all of its files
            if states.get(marker) == "up to date":
                assert not [name for name in others if name in whole and not (folder / name).exists()]
    now = files(folder)
    for name, digest in before.items():
        assert now.get(name) in ((digest, whole.get(name)) if owned(stage, name) else (digest,)), name
    temporary = {name for name in now if hidden(name)}
    for name in set(now) - set(before) - temporary:
        assert now[name] == whole.get(name), f"{name} is half-written"
    if (folder / "campaign.toml").exists():
        assert all(name.startswith(".design/") for name in temporary), "status cleans up"


def killed_runs(server, folder, stage, tmp_path, rng, kills=5):
    """Kill a stage at random, run it again, and compare with a run that nobody disturbed."""
    calm = tmp_path / stage / folder.name
    calm.parent.mkdir(exist_ok=True)
    if folder.exists():
        shutil.copytree(folder, calm)
    undisturbed = run(server, calm, stage)
    whole, start = files(calm), files(folder) if folder.exists() else {}
    moments = sorted(rng.sample(range(1, undisturbed["touched"] + 1), min(kills - 1, undisturbed["touched"])))
    rng.shuffle(moments)
    whens = [{"at": k} for k in moments]
    while len(whens) < kills:  # a stage that hardly writes, and once each of the others
        whens.append({"after": rng.uniform(0.1, 0.95) * undisturbed["seconds"]})
    before, died = start, 0
    for k, when in enumerate(whens):
        if k == 2 and stage in AGAIN:  # from here on there is something to lose
            run(server, folder, stage)
            before = files(folder)
            assert before == whole
        told = run(server, folder, stage, **when)
        if not told["killed"] and told["touched"] and "at" in when:  # a run that resumed ends before its moment
            told = run(server, folder, stage, at=rng.randint(1, told["touched"]))
        died += told["killed"]
        check(folder, stage, before, whole)
        before = {name: digest for name, digest in files(folder).items() if not hidden(name)}
    assert died >= min(kills - 1, undisturbed["touched"])
    if stage != "init" or not (folder / "campaign.toml").exists():
        run(server, folder, stage)
    assert files(folder) == whole, "as if nothing had happened"


@pytest.mark.slow
def test_every_stage_survives_being_killed(server, tmp_path):
    rng = random.Random(6)
    folder = tmp_path / "cell"
    for stage in STAGES:
        if stage == "design":
            lines = (folder / "campaign.toml").read_text().splitlines()
            kept = [line for line in lines if line.startswith(("robot =", "home_deg ="))]
            (folder / "campaign.toml").write_text("\n".join(kept) + DESIGN)
        killed_runs(server, folder, stage, tmp_path, rng)
    assert set(status(folder).values()) == {"up to date"}


KILLED = """
import os, signal, sys
from pathlib import Path
from excitor.experiments.files import new_folder, swap, write_atomically
place, at = Path(sys.argv[1]), int(sys.argv[2])
count = 0
def hook(event, arguments):
    global count
    events = ("os.rename", "os.chmod", "os.mkdir", "os.rmdir", "os.remove", "open")
    if event in events and str(place) in str(arguments[0]):
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
write_atomically(place / "a.json", "new")
folder = new_folder(place / "target")
(folder / "x").write_text("new")
swap(folder, place / "target")
print(count)
"""


def start(place, at):
    return subprocess.run([sys.executable, "-c", KILLED, str(place), str(at)], capture_output=True, text=True)


def test_what_a_killed_run_leaves_is_put_right(tmp_path):
    """Killed before each touch of the disk in turn: old or new, and nothing else once the next run has looked."""
    (tmp_path / "a.json").write_text("old")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "x").write_text("old")
    (tmp_path / ".a.json.mine").write_text("somebody's own")
    whole = start(shutil.copytree(tmp_path, tmp_path / "calm"), 0)
    assert whole.returncode == 0, whole.stderr
    seen = set()
    for at in range(1, int(whole.stdout) + 1):
        place = shutil.copytree(tmp_path, tmp_path / f"at{at}", ignore=shutil.ignore_patterns("calm", "at*"))
        assert start(place, at).returncode == -9
        mend(place)
        assert sorted(path.name for path in place.iterdir()) == [".a.json.mine", "a.json", "target"], at
        seen.add(((place / "a.json").read_text(), (place / "target" / "x").read_text()))
    assert seen == {("old", "old"), ("new", "old"), ("new", "new")}


def test_what_a_living_run_works_on_is_left_alone(tmp_path):
    folder = new_folder(tmp_path / "target")
    mend(tmp_path)
    assert folder.is_dir()
    other = folder.with_name(folder.name.replace(folder.name.split(".")[2][:8], "00000000"))
    folder.rename(other)  # of another machine that shares the folder
    mend(tmp_path)
    assert other.is_dir()
    swap(other, tmp_path / "target")
    write_atomically(tmp_path / "a", "x")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "target"}


def test_a_half_copied_robot_does_not_keep_init_from_running_again(tmp_path):
    folder = tmp_path / "cell"
    folder.mkdir()
    shutil.copyfile(ROBOT, folder / ROBOT.name)  # a run that was killed before it wrote campaign.toml
    assert CliRunner().invoke(app, ["init", str(folder), "--robot", str(ROBOT)]).exit_code == 0
    (folder / "campaign.toml").unlink()
    (folder / ROBOT.name).write_text("another's")
    result = CliRunner().invoke(app, ["init", str(folder), "--robot", str(ROBOT)])
    assert "exists already" in str(result.exception)
    assert (folder / ROBOT.name).read_text() == "another's"
