"""`excitor emit` and `excitor verify`: what is written, what is refused, and what a changed file does."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.design.programs import registry
from excitor.design.programs.package import package
from excitor.design.programs.plan import Stretches
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.emit import plans_of, renamed, verify_contents
from excitor.robots.errors import ExcitorError
from excitor.robots.load import robot_text
from tests.plans import lines

SMALL = """robot = "rotradi"
home_deg = [10, 20, 30]
[design]
schedule = "{schedule}"
base_frequency_hz = 0.5
harmonics = 3
ramp_s = 1.0
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.01
"""


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(x) for x in arguments], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert isinstance(result.exception, (ExcitorError, ValueError)), repr(result.exception)
        assert code == 1, str(result.exception)
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout


def designed_campaign(folder, text, evaluations=300):
    folder.mkdir(parents=True)
    (folder / "campaign.toml").write_text(text)
    call("design", folder, "--evaluations", evaluations, "--json")
    return folder


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """A small campaign with all of its runs, emitted for the neutral tables."""
    folder = designed_campaign(tmp_path_factory.mktemp("programs") / "cell", SMALL.format(schedule="together"))
    told = json.loads(call("emit", folder, "--target", "csv", "--json"))
    return folder, told


@pytest.fixture
def copy(emitted, tmp_path):
    return shutil.copytree(emitted[0], tmp_path / "cell")


def test_every_run_has_its_program_and_its_dry_run(emitted):
    folder, told = emitted
    design = json.loads((folder / "design.json").read_text())
    runs = [entry["run"] for entry in told["files"] if not entry["dry"]]
    assert runs == [name for name in design["order"] if name in runs]
    assert {run["name"] for run in design["runs"]} == set(runs)
    assert sum(entry["dry"] for entry in told["files"]) == 2 * len(runs)  # neither is a run to identify
    order = [entry["file"].removeprefix("csv/") for entry in told["files"]]
    for run in runs:
        name = next(name for name in order if name == run.replace(" ", "_"))
        assert order.index(f"{name}_pos") < order.index(f"{name}_dry") < order.index(name)
    assert [entry["file"].endswith("_pos") for entry in told["files"]] == [entry["poses"] for entry in told["files"]]
    assert told["ok"] is True


def test_what_verify_reports_scripts(emitted):
    folder, _ = emitted
    told = json.loads(call("verify", folder, "--json"))
    assert told["ok"] is True
    for entry in told["files"]:
        assert entry["target"] == "csv"
        assert entry["timing_class"] == "B"
        assert entry["max_position_error_rad"] < 1e-10
        assert entry["limits_hold"] is True
        if entry["poses"]:
            continue
        assert entry["condition_executed"] == pytest.approx(entry["condition_planned"], rel=1e-3)
    design = json.loads((folder / "design.json").read_text())
    stated = {run["name"]: run["condition"] for run in design["runs"]}
    for entry in told["files"]:
        if not entry["dry"]:
            assert entry["condition_planned"] == pytest.approx(stated[entry["run"]], rel=1e-9)


def test_manifest_and_page_stand_beside_the_programs(emitted):
    folder, _ = emitted
    manifest = json.loads((folder / "programs/csv/manifest.json").read_text())
    assert manifest["format"] == "excitor-manifest"
    names = {entry["name"] for entry in manifest["files"]}
    assert names == {path.name for path in (folder / "programs/csv").iterdir()} - {"manifest.json"}
    program = next(entry for entry in manifest["programs"] if not entry["dry"])
    assert [one["periods"] for one in program["main"]["segments"] if one["measured"]] == [2]
    assert program["main"]["series"][0]["period"] == pytest.approx(2.0)
    first = next(entry for entry in manifest["programs"] if entry["poses"])
    assert (first["role"], first["dry"], first["marks"]) == ("none", True, [])
    page = (folder / "programs/csv/README.md").read_text()
    assert page.index(f"Run `{first['name']}`: the poses") < page.index("the dry run of")
    assert "lowest" in page
    for word in ("dry run", "15 %", "three poses", "emergency stop", "how far"):
        assert word in page


def test_tables_are_what_the_coefficients_say(emitted):
    """Every row is evaluated anew from the manifest's coefficients, by a second derivation."""
    folder, _ = emitted
    manifest = json.loads((folder / "programs/csv/manifest.json").read_text())
    program = next(entry for entry in manifest["programs"] if not entry["dry"])
    rows = (folder / "programs/csv" / f"{program['name']}.csv").read_text().splitlines()
    (series,), ends, end = program["main"]["series"], {}, 0.0
    for part in program["main"]["segments"]:
        start, end = end, end + (part.get("duration") or part["periods"] * series["period"])
        ends[part["name"]] = {"start": start, "end": end}
    begin, leave = ends["ramp-in"]["end"], ends["ramp-out"]["start"]
    for row in rows[1 :: len(rows) // 200]:
        t, _, _, *values = (float(x) if x[0] in "-0123456789" else x for x in row.split(","))
        x = np.clip(min((t - ends["ramp-in"]["start"]) / (begin - ends["ramp-in"]["start"]),
                        (ends["ramp-out"]["end"] - t) / (ends["ramp-out"]["end"] - leave)), 0.0, 1.0)  # fmt: skip
        envelope = 35 * x**4 - 84 * x**5 + 70 * x**6 - 20 * x**7
        w = 2.0 * np.pi / series["period"] * np.array(series["harmonics"])
        phase = w * (t - begin)
        swing = np.array(series["sines"]) @ np.sin(phase) + np.array(series["cosines"]) @ np.cos(phase)
        assert values[:3] == pytest.approx(np.array(series["center"]) + envelope * swing, abs=1e-9)


def test_a_changed_program_is_found(copy):
    path = copy / "programs/csv/excitation.csv"
    rows = path.read_text().split("\n")
    cells = rows[500].split(",")
    cells[4] = f"{float(cells[4]) + 1e-3:.12g}"
    rows[500] = ",".join(cells)
    path.write_text("\n".join(rows))
    told = json.loads(call("verify", copy, "--json", code=1))
    bad = next(entry for entry in told["files"] if entry["run"] == "excitation" and not entry["dry"])
    assert bad["ok"] is False
    assert any("from its plan" in problem for problem in bad["problems"]), "the motion itself, not only the digest"
    assert any("was changed since it was emitted" in problem for problem in bad["problems"])


@pytest.mark.parametrize(
    "change", ["deleted, and another added", "no manifest", "manifest is no json", "bytes", "link"]
)
def test_a_changed_folder_is_found(copy, change):
    folder = copy / "programs/csv"
    wanted = ["no manifest"]
    if change == "deleted, and another added":
        (folder / "validation.csv").unlink()
        (folder / "another.csv").write_text("t\n")
        wanted = ["is missing", "was not written by emit"]
    elif change == "no manifest":
        (folder / "manifest.json").unlink()
    elif change == "manifest is no json":
        (folder / "manifest.json").write_text("[" * 100_000)
    elif change == "bytes":
        (folder / "excitation.csv").write_bytes(b"\xff\xfe\x00")
        wanted = ["is no text"]
    else:
        (folder / "excitation.csv").unlink()
        (folder / "excitation.csv").symlink_to("/etc/hostname")
        wanted = ["leads out"]
    told = call("verify", copy, "--json", code=1)
    assert all(words in told for words in wanted)


def test_a_design_of_another_campaign_is_refused(copy):
    text = (copy / "campaign.toml").read_text()
    (copy / "campaign.toml").write_text(text.replace("ramp_s = 1.0", "ramp_s = 2.5"))
    assert "another campaign.toml" in call("emit", copy, "--target", "csv", code=1)
    (copy / "campaign.toml").write_text(text)
    data = json.loads((copy / "design.json").read_text())
    for place in (data["runs"][0], data["runs"][0]["run"]["series"][0]):
        place["sines"][0][0] *= 1.01
    (copy / "design.json").write_text(json.dumps(data))
    told = json.loads(call("verify", copy, "--json", code=1))
    assert any("another design.json" in problem for problem in told["files"][0]["problems"])


def test_an_uncertified_design_becomes_no_program(copy):
    data = json.loads((copy / "design.json").read_text())
    data["ready"] = False
    (copy / "design.json").write_text(json.dumps(data))
    shutil.rmtree(copy / "programs")
    assert "not every limit of this design is proven" in call("emit", copy, "--target", "csv", code=1)
    assert not (copy / "programs").exists()


SPOILT = [
    ("period", -1.0),
    ("period", "x"),
    ("harmonics", [1, 1]),
    ("sines", [[1.0]]),
    ("center", [0.0, float("nan"), 1.0]),
    ("way", None),
    ("phases", [{"name": "nap", "start": 0, "end": 1}]),
    ("measured_periods", 0),
    ("name", "../../x"),
    ("sample_time", 0.0),
]


@pytest.mark.parametrize(("key", "value"), SPOILT, ids=str)
def test_a_spoilt_design_is_reported_in_a_sentence(copy, key, value):
    data = json.loads((copy / "design.json").read_text())
    data["runs"][0][key] = value
    (copy / "design.json").write_text(json.dumps(data))
    answer = call("emit", copy, "--target", "csv", code=1)
    assert "Traceback" not in answer
    assert "design" in answer


@pytest.mark.slow
def test_a_longer_motion_than_certified_breaks_its_limits(copy):
    """Someone doubles the amplitudes in design.json: programs follow it exactly, but limits are looked at anew."""
    data = json.loads((copy / "design.json").read_text())
    for run in data["runs"]:
        for waves in ("sines", "cosines"):
            for place in (run, run["run"]["series"][0]):
                place[waves] = (2.0 * np.array(place[waves])).tolist()
    (copy / "design.json").write_text(json.dumps(data))
    shutil.rmtree(copy / "programs")
    answer = call("emit", copy, "--target", "csv", code=1)
    assert "limit" in answer
    assert not (copy / "programs/csv").exists()


def test_unknown_and_approximate_targets_are_refused(copy):
    assert "there is no target 'abb'" in call("emit", copy, "--target", "abb", code=1)
    assert "use --target twincat" in call("emit", copy, "--target", "twincat-cam", code=1)
    assert "--approximate" in call("emit", copy, "--target", "val3", code=1)
    answer = json.loads(call("emit", copy, "--target", "urscript", "--target", "franka", "--json", code=1))
    refused = {one["target"]: one["refused"] for one in answer["targets"]}
    assert "has 3 joints" in refused["urscript"]
    assert "7" in refused["franka"]
    assert (copy / "programs/csv").is_dir()


@pytest.mark.slow
def test_controllers_that_log_currents_need_no_law(tmp_path):
    """Six joints without a current law: RTDE logs currents, identified in A."""
    robot = robot_text("ur10")
    lawless = "\n".join(line for line in robot.splitlines() if not line.startswith("torque_from_current"))
    assert lawless != robot
    folder = tmp_path / "cell"
    folder.mkdir()
    (folder / "arm.toml").write_text(lawless.replace('name = "ur10"', 'name = "arm"'))
    text = SMALL.format(schedule="single").replace("base_frequency_hz = 0.5\n", "")
    text = text.replace("rotradi", "arm.toml").replace("[10, 20, 30]", "[0, -90, 90, 0, 0, 0]")
    (folder / "campaign.toml").write_text(text)
    call("design", folder, "--evaluations", 200, "--json")
    told = json.loads(call("emit", folder, "--target", "urscript", "--json"))
    notes = {one["target"]: one["note"] for one in told["targets"]}
    assert "arm has no current law: currents are logged and identified in A" in notes["urscript"]
    assert notes["csv"] == ""
    assert (folder / "programs/urscript").is_dir()


def test_names_from_people_stay_harmless(tmp_path):
    folder = tmp_path / "a`rm -rf`<script>alert(1)</script>"
    designed_campaign(folder.with_name("x`rm -rf` (* *) %>"), SMALL.format(schedule="single"), 200)
    folder = folder.with_name("x`rm -rf` (* *) %>")
    call("emit", folder, "--target", "csv", "--target", "twincat", "--target", "ros2")
    for path in (folder / "programs").rglob("*"):
        if path.is_file() and path.suffix not in (".json", ".py"):
            text = path.read_text()
            assert "rm -rf`" not in text
            assert "%>" not in text


@pytest.mark.slow
def test_slow_runs_become_moves(tmp_path):
    text = SMALL.format(schedule="together").replace("rotradi", "tx40").replace("home_deg = [10, 20, 30]\n", "")
    text += 'joints = ["j5", "j6"]\nstatic_poses = 2\nfriction_sweeps = true\nwarm_up_minutes = 0.6\n'
    folder = designed_campaign(tmp_path / "cell", text)
    told = json.loads(call("emit", folder, "--target", "csv", "--allow", "no-go", "--json"))
    runs = {entry["run"] for entry in told["files"]}
    assert {"static", "sweeps", "warm-up", "excitation"} <= runs
    campaign = open_campaign(folder, "design")
    design = json.loads((folder / "design.json").read_text())
    plans = {judged.plan.run: judged.plan for judged in plans_of(campaign).programs if not judged.plan.dry}
    for slow in design["slow_runs"]:
        moves = (slow[key] for key in ("durations", "blends", "measured"))
        moves = zip(slow["knots"][1:], *moves, strict=True)
        run = lines(design["joints"], slow["sample_time"], slow["knots"][0], *moves)
        plan = plans[slow["name"]]
        t = np.linspace(0.0, run.duration, 3001)
        assert plan.body.at(t) == pytest.approx(run.at(t), abs=1e-12)
        assert plan.body.at(t, 2) == pytest.approx(run.at(t, 2), abs=1e-9)
        folded, repeats = plan.body.repeats()
        assert len(folded) * repeats == len(slow["durations"])
        assert (repeats > 1) == (slow["kind"] == "warm-up")


def test_payload_runs_ask_for_their_payload(tmp_path):
    body = "[payload]\nmass = 0.5\ncenter = [0.05, 0.02, 0.03]\ninertia = [0.002, 0, 0, 0.002, 0, 0.001]\n"
    text = SMALL.format(schedule="payload-pair").replace("[design]", body + "[design]")
    folder = designed_campaign(tmp_path / "cell", text)
    programs = plans_of(open_campaign(folder, "design")).programs
    asked = {judged.plan.run: judged.plan.payload for judged in programs}
    assert asked["unloaded"] == 0.0
    assert asked["loaded"] == 0.5


def test_every_segment_of_every_plan_begins_where_the_last_one_ended(emitted):
    for judged in plans_of(open_campaign(emitted[0], "design")).programs:
        plan, here = judged.plan, judged.plan.home
        for stretch in Stretches:
            ends = plan.stretch(stretch).at(np.array([0.0, plan.stretch(stretch).duration]))
            assert ends[0] == pytest.approx(here, abs=1e-12)
            here = ends[1]
        assert here == pytest.approx(plan.home, abs=1e-12)
        assert replace(plan, dry=True).start == pytest.approx(plan.start)


def test_first_runs_of_a_design_are_planned_once(emitted, monkeypatch):
    campaign = open_campaign(emitted[0], "design")
    before = [one.plan for one in plans_of(campaign).programs if one.plan.poses]
    monkeypatch.setattr("excitor.experiments.emit.poses_plan", None)
    again = [one.plan for one in plans_of(campaign).programs if one.plan.poses]
    assert before
    assert [(one.run, one.poses) for one in again] == [(one.run, one.poses) for one in before]
    moved = open_campaign(emitted[0], "design")
    object.__setattr__(moved.content, "site", moved.content.site.model_copy(update={"tool": 7}))
    assert moved.digest == campaign.digest
    assert {one.plan.site["tool"] for one in plans_of(moved).programs} == {7}
    monkeypatch.setattr("excitor.experiments.emit.design_digest", lambda folder: "another")
    with pytest.raises(TypeError):
        plans_of(campaign)


def test_a_program_that_repeats_another_is_executed_once_and_its_own_edits_are_noticed(emitted):
    folder, _ = emitted
    programs = plans_of(open_campaign(folder, "design"), 0.05).programs
    made = package(registry.emitter("ros2"), [one.plan for one in programs])
    names = [one.name for one in made.programs]
    assert "excitation_again" in names

    def verified(texts):
        run = []
        contents = {file: text.encode() for file, text in texts.items()}
        return run, verify_contents(made.target, programs, contents, run.append)

    run, good = verified(made.texts)
    assert good.good
    assert [one.program for one in good.verdicts] == names
    assert {f"ros2/{name}" for name in names if "again" not in name} == {line.removeprefix("running ") for line in run}
    for file, was, now in (
        ("excitation_again_main.json", '"nanosec": 0', '"nanosec": 7'),
        ("excitation_again.json", "excitation_again_main.json", "excitation_main.json"),
    ):
        assert was in made.texts[file]
        run, bad = verified({**made.texts, file: made.texts[file].replace(was, now, 1)})
        assert "running ros2/excitation_again" in run
        assert [one.program for one in bad.verdicts if not one.good] == ["excitation_again"]


@pytest.mark.parametrize(
    ("line", "same"),
    [("(* run {} *)", True), ("<!-- {} -->", True), ("; {}", True), ("x := {};", False), ("(* {} *) x := {};", False)],
)
def test_only_remarks_may_keep_the_name_of_the_run_that_a_program_repeats(line, same):
    one, other = {"a.st": line.format(*"vv")}, {"b.st": line.format(*"ww")}
    assert renamed(one, other, (("a", "v"), ("b", "w"))) is same
