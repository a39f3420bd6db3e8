"""`excitor design` on folders: what it writes, what it proves, how it stops and goes on."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.search import Budget, Observer, Search
from excitor.experiments import plan as run_search
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import main
from excitor.experiments.plan import content_of, design_run, planned_runs, run_problem
from excitor.experiments.setup import Settings, set_up
from excitor.robots.load import load

FAST = "harmonics = 3\nramp_s = 2.0\nwarm_up_periods = 0\nmeasured_periods = 2\n"
SMALL = 'robot = "rotradi"\n[design]\nschedule = "single"\n' + FAST
ATTACK = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
LINK = "link = {{ mass = {m}, center = [{x}, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }}\n"
URDF = """<robot name="mine"><link name="base"/>
<link name="upper"><inertial><mass value="3"/><origin xyz="0 0 0.15"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.01"/></inertial></link>
<link name="fore"><inertial><mass value="1.5"/><origin xyz="0.02 0 0.1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.004"/></inertial></link>
<joint name="waist" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" velocity="2" effort="40"/></joint>
<joint name="bend" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="20"/></joint></robot>"""


def joint(name, kind="revolute", extra="", limits="", torque=True, **body):
    unit = "m" if kind == "prismatic" else "rad"
    force = ", torque = 300" if torque else ""
    limits = limits or f"position_{unit} = [-0.8, 0.8], velocity_{unit}_s = 1.5, acceleration_{unit}_s2 = 8{force}"
    return f'[[joint]]\nname = "{name}"\nkind = "{kind}"\n{extra}\nlimits = {{ {limits} }}\n' + LINK.format(
        m=body.get("m", 2.0), x=body.get("x", 0.1)
    )


def arm(*joints, friction=True):
    """A robot file of joints that hang on each other; no capsules."""
    terms = '[friction]\nterms = ["viscous", "coulomb"]\n' if friction else ""
    return 'name = "mine"\n' + "".join(joints) + terms


ALONG_X = "placement = { xyz = [0, 0, 0.2], axis = [1, 0, 0] }"
ABOUT_Y = "placement = { xyz = [0.1, 0, 0.2], axis = [0, 1, 0] }"
ABOUT_Z = "placement = { axis = [0, 0, 1] }"


@pytest.fixture
def designed(monkeypatch, capsys, tmp_path):
    """Design a campaign by the command line: what it says for scripts, and design.json."""

    def call(text, *options, files=None, code=0, evaluations=400):
        for name, content in {"campaign.toml": text, **(files or {})}.items():
            (tmp_path / name).write_text(content, "utf-8")
        budget = ["--evaluations", str(evaluations)] if evaluations else []
        monkeypatch.setattr(sys, "argv", ["excitor", "design", str(tmp_path), "--json", *budget, *options])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        assert stop.value.code == code, printed.err
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
        return json.loads(printed.out), json.loads((tmp_path / "design.json").read_text())

    return call


def tightest(margins, word):
    return min(item["margin"] for item in margins if word in item["name"])


def keys_of(data):
    """All keys in nested data."""
    if isinstance(data, dict):
        return set(data).union(*map(keys_of, data.values()))
    return set().union(*map(keys_of, data)) if isinstance(data, list) else set()


# --- what is written


def test_json_for_scripts(designed, tmp_path):
    told, written = designed('robot = "rotradi"\nhome_deg = [0, 30, 40]\n[design]\n' + FAST)
    assert {"condition", "certified", "margins", "evaluations", "cpu_s", "forecast"} <= told.keys()
    assert told["certified"] is True
    assert told["condition"] < 10.0
    assert told["evaluations"] > 400
    assert told["cpu_s"] > 0.0
    assert [run["name"] for run in told["runs"]] == ["excitation", "validation", "excitation again"]
    for item in told["margins"]:
        assert {"name", "unit", "limit", "worst", "margin", "holds"} <= item.keys()
        assert item["holds"] is True
        assert item["margin"] >= -1e-9
        assert item["margin"] == pytest.approx(
            item["limit"] - item["worst"] if "clearance" not in item["name"] else item["worst"] - item["limit"],
            abs=1e-9,
        ) or item["name"].endswith(("lower", "position"))
    assert written["ready"] is True
    assert written["finished"] is True
    assert written["order"] == [run["name"] for run in written["runs"]]
    assert not {"cpu_s", "time", "date", "created", "started", "wall_s"} & keys_of(written)
    assert len(told["forecast"]["parameters"]) == 21
    page = (tmp_path / "plan.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "://" not in page.replace("http://www.w3.org/", "")  # nothing is fetched from anywhere


def test_margins_are_of_the_motion_that_is_written(designed):
    """Limits are the robot's after the campaign's margins, and what comes near them is what the coefficients say."""
    _, written = designed(SMALL)
    run, robot = written["runs"][0], load("rotradi")
    items = {item["name"]: item for item in run["certificate"]}
    assert items["velocity elbow"]["limit"] == pytest.approx(0.9 * robot.limits.velocity[2])
    assert items["torque peak shoulder"]["limit"] == pytest.approx(0.8 * robot.limits.torque[1])
    assert items["position elbow upper"]["limit"] == pytest.approx(robot.limits.position[2, 1] - np.radians(2.0))
    t = np.linspace(0.0, run["period"], 3000)
    phase = 2.0 * np.pi / run["period"] * np.outer(run["harmonics"], t)
    swing = np.array(run["sines"]) @ np.sin(phase) + np.array(run["cosines"]) @ np.cos(phase)
    highest = (np.array(run["center"])[:, None] + swing).max(axis=1)
    for name, value in zip(robot.joint_names, highest, strict=True):
        assert items[f"position {name} upper"]["worst"] >= value - 1e-9
        assert items[f"position {name} upper"]["limit"] >= value
    assert tightest(run["certificate"], "torque peak") > 0.0
    assert 0.0 <= tightest(run["certificate"], "clearance: ") < 0.5
    assert items["start at rest"]["holds"]
    assert items["way from home: position"]["holds"]


def test_a_six_axis_arm_beside_a_table(designed):
    told, written = designed(
        'robot = "tx40"\nhome_deg = [0, 0, 90, 0, 45, 0]\n[[cell.zone]]\nname = "table"\nkeep = "out"\nshape = "box"\n'
        'low = [0.25, -0.4, -0.1]\nhigh = [0.8, 0.4, 0.15]\n[design]\nschedule = "single"\n' + FAST
    )
    assert told["certified"] is True
    assert told["condition"] < 200.0
    rows = [item for item in told["margins"] if item["name"].startswith("clearance: table / ")]
    assert len(rows) == 7
    assert all(item["limit"] == 0.02 and item["worst"] >= 0.02 for item in rows)
    assert len(written["runs"][0]["columns"]) == 60


def test_the_terminal_reports(monkeypatch, capsys, tmp_path):
    (tmp_path / "campaign.toml").write_text(SMALL)
    monkeypatch.setattr(sys, "argv", ["excitor", "design", str(tmp_path), "--evaluations", "300"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    printed = capsys.readouterr()
    assert "Tightest of" in printed.out
    assert printed.err.count("home_deg is not given") == 1
    page = (tmp_path / "plan.html").read_text()
    banners = {name: page.partition(f'id="{name}"')[2].partition("</section>")[0] for name in ("verdict", "remarks")}
    assert "home_deg is not given" in banners["remarks"]
    assert "home_deg" not in banners["verdict"]


def test_hostile_names_stay_text(designed, tmp_path):
    """Names of joints and zones end up in the page and in the data as what they are."""
    quoted = json.dumps(ATTACK[:70])
    robot = arm(joint("a", extra=ABOUT_Z), joint("b", extra=ABOUT_Y)).replace('"b"', quoted)
    zone = f'[[cell.zone]]\nname = {quoted}\nkeep = "out"\nshape = "sphere"\ncenter = [9, 0, 0]\nradius = 1\n'
    campaign = f'robot = "arm.toml"\n{zone}[design]\nschedule = "single"\n{FAST}'
    _, written = designed(campaign, files={"arm.toml": robot})
    assert written["joints"][1] == ATTACK[:70]
    page = (tmp_path / "plan.html").read_text("utf-8")
    assert "<script>document.title" not in page
    assert "<img src=x" not in page


# --- robots of every kind


def test_a_urdf_robot(designed):
    """A URDF states no accelerations: the campaign does."""
    told, written = designed(
        f'robot = "mine.urdf"\n[limits.joint.waist]\nacceleration_deg_s2 = 300\n[limits.joint.bend]\n'
        f'acceleration_deg_s2 = 300\n[design]\nschedule = "single"\n{FAST}',
        files={"mine.urdf": URDF},
    )
    assert told["certified"] is True
    limits = {item["name"]: item["limit"] for item in told["margins"]}
    assert limits["acceleration bend"] == pytest.approx(0.9 * np.radians(300.0))
    assert limits["torque peak waist"] == pytest.approx(0.8 * 40.0)
    assert any("no capsule" in note for note in written["runs"][0]["notes"]) or not any(
        "clearance" in item["name"] for item in told["margins"]
    )


def test_friction_that_no_urdf_states_is_planned_for(designed):
    """Unknown friction has columns, a belief of its own size, and a note; no forecast of it is relative to 0."""
    _, written = designed(f'robot = "mine.urdf"\n[design]\nschedule = "single"\n{FAST}', files={"mine.urdf": URDF})
    assert any("the friction of waist, bend is unknown and counts as 0" in remark for remark in written["remarks"])
    forecast = written["forecast"]
    drives = {f"{name}{k}" for name in ("Fv", "Fc", "off") for k in (1, 2)}
    of_drives = [entry for entry in forecast["parameters"] if entry["name"] in drives]
    assert len(of_drives) == 6
    assert all(0.0 < entry["sigma"] < np.inf and not entry["stated"] for entry in of_drives)
    believed = {entry["name"]: entry for entry in forecast["standard"]}
    assert all(believed[name]["sigma_prior"] > 2.0 * believed[name]["sigma"] for name in drives)
    assert all(believed[name]["label"] == "data-determined" for name in drives)


def test_a_urdf_robot_as_it_stands(designed):
    """Without accelerations stated, a design is made all the same, and the certificate says what it left out."""
    _, written = designed(f'robot = "mine.urdf"\n[design]\nschedule = "single"\n{FAST}', files={"mine.urdf": URDF})
    assert any("no acceleration limit is stated for waist, bend" in note for note in written["runs"][0]["notes"])


def test_a_robot_that_slides(designed):
    robot = arm(
        joint("slide", "prismatic", ALONG_X, m=4.0), joint("turn", extra=ABOUT_Z), joint("tilt", extra=ABOUT_Y, x=0.2)
    )
    told, written = designed(
        f'robot = "arm.toml"\nhome_deg = [100, 0, 10]\n[design]\nschedule = "single"\n{FAST}', files={"arm.toml": robot}
    )
    items = {item["name"]: item for item in told["margins"]}
    assert told["certified"] is True
    assert written["units"] == ["m", "rad", "rad"]
    assert written["home"][0] == pytest.approx(0.1)
    assert items["velocity slide"]["unit"] == "m/s"
    assert items["velocity slide"]["limit"] == pytest.approx(0.9 * 1.5)
    assert items["torque peak slide"]["unit"] == "N"
    assert items["position slide upper"]["limit"] == pytest.approx(0.798)


def test_a_robot_without_torque_limits(designed):
    robot = arm(joint("a", extra=ABOUT_Z, torque=False), joint("b", extra=ABOUT_Y, torque=False))
    told, written = designed(f'robot = "arm.toml"\n[design]\nschedule = "single"\n{FAST}', files={"arm.toml": robot})
    assert told["certified"] is True
    assert not any("torque" in item["name"] for item in told["margins"])
    assert any("no torque limit is stated for a, b" in note for note in written["runs"][0]["notes"])


def test_a_joint_that_the_robot_locks(designed):
    robot = arm(
        joint("a", extra=ABOUT_Z), joint("b", extra=ABOUT_Y + "\nlocked_deg = 20.0"), joint("c", extra=ABOUT_Y, x=0.2)
    )
    told, written = designed(f'robot = "arm.toml"\n[design]\nschedule = "single"\n{FAST}',
                             files={"arm.toml": robot})  # fmt: skip
    run = written["runs"][0]
    assert told["certified"] is True
    assert run["moving"] == [True, False, True]
    assert run["center"][1] == pytest.approx(np.radians(20.0))
    assert not np.any(run["sines"][1])
    assert written["home"][1] == pytest.approx(np.radians(20.0))


def test_a_robot_without_masses(designed):
    """Nothing is known of its torques: they are left out, and that is said."""
    robot = arm(joint("a", extra=ABOUT_Z), joint("b", extra=ABOUT_Y)).replace("link =", "# link =")
    told, written = designed(f'robot = "arm.toml"\n[design]\nschedule = "single"\n{FAST}', files={"arm.toml": robot})
    assert any("the masses of some links are unknown" in remark for remark in told["remarks"])
    assert any("torque limits of a, b were not checked" in note for note in written["runs"][0]["notes"])
    assert not any("torque" in item["name"] for item in told["margins"])


def test_a_task_of_the_users(designed):
    """The torque error on a path is made small: smaller than that of the best-conditioned motion."""
    t = 0.01 * np.arange(200)
    rows = [f"{x:.2f},{30 * np.sin(5 * x)},{20 * np.cos(3 * x)},{10 * x}" for x in t]
    way = "\n".join(["t,base_joint,shoulder,elbow", *rows])
    _, written = designed(SMALL + 'criterion = "path"\ntask = "way.csv"\n', files={"way.csv": way})
    assert written["runs"][0]["criterion"] == "path"
    assert written["ready"] is True
    assert all(row[1] < 1.0 for row in written["runs"][0]["search"]["history"])


def test_chosen_joints_move_and_others_wait_at_stated_positions(designed):
    _, written = designed(SMALL + 'joints = ["elbow"]\nlocked_deg = { shoulder = 25 }\n')
    run = written["runs"][0]
    assert run["moving"] == [False, False, True]
    assert run["center"][1] == pytest.approx(np.radians(25.0))


# --- schedules


@pytest.mark.slow
def test_a_locked_sequence(designed):
    _, written = designed(
        f'robot = "rotradi"\n[design]\nschedule = "locked-sequence"\nmodel = "power"\n{FAST}', evaluations=300
    )
    moving = {run["name"]: run["moving"] for run in written["runs"]}
    assert list(moving.values())[:3] == [[True, True, True], [False, True, True], [False, False, True]]
    assert written["ready"] is True


def test_gentle_first_waits_for_what_it_learns(designed):
    told, written = designed(f'robot = "rotradi"\n[design]\nschedule = "gentle-first"\n{FAST}', evaluations=300)
    assert written["runs"][0]["name"] == "gentle 30%"
    assert [run["name"] for run in written["waiting"]][:2] == ["gentle 60%", "excitation"]
    assert written["waiting"][0]["after"] == "gentle 30%"
    limits = {item["name"]: item["limit"] for item in written["runs"][0]["certificate"]}
    assert limits["velocity elbow"] == pytest.approx(0.3 * 0.9 * load("rotradi").limits.velocity[2])
    assert "velocity elbow" in {item["name"] for item in told["margins"]}


def test_a_payload_pair_is_one_motion(designed):
    _, written = designed(
        'robot = "rotradi"\n[payload]\nmass = 1.0\ncenter = [0, 0, 0.05]\ninertia = [0.002, 0, 0, 0.002, 0, 0.001]\n'
        f'[design]\nschedule = "payload-pair"\njoints = ["shoulder", "elbow"]\n{FAST}',
        evaluations=300,
    )
    unloaded, loaded = written["runs"][:2]
    assert [unloaded["payload"], loaded["payload"]] == [None, "known"]
    assert unloaded["sines"] == loaded["sines"]
    peaks = [
        next(item["worst"] for item in run["certificate"] if item["name"] == "torque peak shoulder")
        for run in (unloaded, loaded)
    ]
    assert peaks[1] > peaks[0]
    assert written["ready"] is True


@pytest.mark.slow
def test_static_poses_sweeps_and_a_warm_up(designed):
    _, written = designed(
        f'robot = "rotradi"\n[design]\nstatic_poses = 6\nfriction_sweeps = true\nwarm_up_minutes = 0.5\n{FAST}'
    )
    slow = {run["name"]: run for run in written["slow_runs"]}
    assert written["order"] == ["warm-up", "static", "sweeps", "excitation", "validation", "excitation again"]
    assert set(slow) == {"warm-up", "static", "sweeps"}
    assert all(run["ready"] for run in slow.values())
    assert sum(slow["static"]["measured"]) >= 6
    assert sum(slow["warm-up"]["durations"]) == pytest.approx(30.0, rel=0.3)


# --- the same again, interrupted, gone on with


def test_the_same_seed_gives_the_same_file(designed, tmp_path):
    designed(SMALL)
    first = (tmp_path / "design.json").read_bytes()
    designed(SMALL, "--fresh")
    assert (tmp_path / "design.json").read_bytes() == first
    designed(SMALL, "--seed", "1")
    assert (tmp_path / "design.json").read_bytes() != first


def test_a_search_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """With all stages remembered nothing is searched; --fresh forgets them, and damaged ones are begun again."""
    (tmp_path / "campaign.toml").write_text(SMALL)
    setup = set_up(open_campaign(tmp_path, "design"))
    (plan,), _ = planned_runs(setup)
    asked, search = [], run_search.run_search

    def listening(given, state=None, **named):
        asked.append(state)
        return search(given, state, **named)

    monkeypatch.setattr(run_search, "run_search", listening)

    def coefficients(fresh=False):
        asked.clear()
        settings = Settings(3, Budget(evaluations=400), "hybrid", fresh)
        return design_run(setup, settings, index=0, plan=plan, before=[]).run.series.sines

    first = coefficients()
    assert [state and state.done for state in asked] == [None, 1]  # the first stage by itself, then the others
    assert np.array_equal(coefficients(), first)
    assert [state.done for state in asked] == [3]
    (state,) = (tmp_path / ".design").glob("*.npz")
    state.write_bytes(b"not an archive")
    assert np.array_equal(coefficients(), first)
    assert len(asked) == 2
    assert np.array_equal(coefficients(fresh=True), first)
    assert len(asked) == 2


def test_a_search_that_found_nothing_goes_on_from_what_fits(tmp_path, monkeypatch):
    """Where the first stage finds nothing but something fits, the search goes on from that."""
    (tmp_path / "campaign.toml").write_text(SMALL)
    setup = set_up(open_campaign(tmp_path, "design"))
    (plan,), _ = planned_runs(setup)
    problem = run_problem(setup, plan, ())
    settings = Settings(0, Budget(evaluations=300), "hybrid")
    kept = {}
    search = Search(problem, settings.budget)
    run_search.run_search(search, observer=Observer(keep=lambda state: kept.setdefault(state.done, state)))
    none = replace(kept[1], violation=np.ones_like(kept[1].violation))
    found = run_search.search_motion(search, settings, where="run", state=none, observer=Observer())
    assert found.feasible
    assert not none.value[none.violation <= 0.0].size


def test_another_prior_is_another_search(designed, tmp_path):
    """What a model file says is part of what a search depends on, not only its name, where it does depend on it."""

    def stated(sigma, criterion="weighted-condition"):
        weights = [{"joint": name, "sigma": sigma} for name in ("base_joint", "shoulder", "elbow")]
        (tmp_path / "model.json").write_text(json.dumps({"schema": 1, "weights": weights, "parameters": []}))
        given = SMALL.replace("[design]", f'[design]\ncriterion = "{criterion}"')
        (tmp_path / "campaign.toml").write_text(given + '[noise]\nmodel = "model.json"\n')
        setup = set_up(open_campaign(tmp_path, "design"))
        return list(content_of(run_problem(setup, planned_runs(setup)[0][0], ())))

    assert stated(0.5) == stated(0.5)
    assert stated(0.5) != stated(0.6)
    assert stated(0.5, "condition") == stated(0.6, "condition")


def test_a_motion_of_the_family_is_picked_without_another_search(designed, tmp_path, monkeypatch):
    """What changes only how often a motion is repeated keeps the search; the picked motion is certified."""
    told, written = designed(SMALL)
    best = written["runs"][0]
    values = [one["condition"] for one in best["family"]]
    assert len(values) >= 6
    assert values == sorted(values)
    assert told["picked"] == best["picked"] == 0
    assert told["family"][0].keys() == {"value", "condition", "duration_s", "torque_share", "clearance_m"}
    monkeypatch.setattr(run_search, "search_motion", None)
    told, written = designed(SMALL.replace("measured_periods = 2", "measured_periods = 9"), "--pick", "2")
    other = written["runs"][0]
    assert (other["picked"], other["measured_periods"]) == (2, 9)
    assert other["sines"] == [row[: len(row) // 2] for row in best["family"][2]["swing"]]
    assert other["condition"] == pytest.approx(values[2])
    assert other["ready"]
    assert [one["center"] for one in other["family"]] == [one["center"] for one in best["family"]]
    with pytest.raises(AssertionError, match="pick 99"):
        designed(SMALL, "--pick", "99")


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    """The first interrupt ends the search: what it has is certified and written, and the next call goes on."""
    (tmp_path / "campaign.toml").write_text(SMALL)
    command = [sys.executable, "-m", "excitor.experiments.cli", "design", str(tmp_path), "--json"]
    process = subprocess.Popen(
        [*command, "--evaluations", "2000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs are started deaf to it
    )
    while process.poll() is None and not list(tmp_path.glob(".design/*.npz")):
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode == 130, err
    told, written = json.loads(out), json.loads((tmp_path / "design.json").read_text())
    assert told["finished"] is False
    assert told["certified"] is True
    assert written["finished"] is False
    assert written["runs"][0]["search"]["stopped"] == "interrupted"
    assert list(tmp_path.glob(".design/*.npz")), "to go on from"


def test_a_budget_in_seconds_is_kept(designed):
    told, written = designed(SMALL, "--seconds", "1", evaluations=0)
    assert written["settings"] == {"seed": 0, "evaluations": None, "seconds": 1.0, "method": "hybrid"}
    assert told["cpu_s"] < 15.0


def test_links_without_volume_are_no_go_beside_zones_about_links(tmp_path):
    """A zone about links watches nothing where no link has a capsule: that must not read Go."""
    from dataclasses import replace

    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.plan import design
    from excitor.experiments.report.plan import verdict
    from excitor.experiments.setup import Overrides, set_up, settings_of

    (tmp_path / "campaign.toml").write_text(
        'robot = "rotradi"\n[[cell.zone]]\nname = "person"\nkeep = "out"\nshape = "sphere"\n'
        'center = [1.5, 1.5, 0.5]\nradius = 0.3\n[design]\nschedule = "single"\n'
    )
    setup = set_up(open_campaign(tmp_path, "design"))
    watched = design(setup, settings_of(setup.design, Overrides(evaluations=300)))
    assert "collision volumes" not in {check.name for check in watched.checks}
    bare = replace(setup.robot, capsules=())
    unwatched = design(replace(setup, robot=bare), settings_of(setup.design, Overrides(evaluations=300, fresh=True)))
    assert unwatched.ready
    assert not unwatched.go
    assert any("only the tool was kept clear" in reason for reason in verdict(unwatched)["reasons"])
    assert any("no capsule" in note for note in unwatched.notes)


def test_an_unfinished_design_is_no_go(tmp_path, monkeypatch):
    from excitor.experiments.campaign import open_campaign
    from excitor.experiments.plan import design
    from excitor.experiments.setup import Overrides, set_up, settings_of

    (tmp_path / "campaign.toml").write_text('robot = "rotradi"\n[design]\nschedule = "single"\n')
    setup = set_up(open_campaign(tmp_path, "design"))
    calls = []

    def impatient(run, progress):
        calls.append(progress)
        if len(calls) == 3:
            raise KeyboardInterrupt

    stopped = design(setup, settings_of(setup.design, Overrides(evaluations=2000)), impatient)
    assert stopped.ready
    assert not stopped.finished
    assert not stopped.go


def test_a_home_that_cannot_be_held_is_refused_at_once(tmp_path):
    from excitor.experiments.campaign import InvalidCampaign, open_campaign
    from excitor.experiments.setup import set_up

    (tmp_path / "campaign.toml").write_text(
        'robot = "tx40"\nhome_deg = [0, 90, 0, 0, 0, 0]\n[payload]\nmass = 40.0\ncenter = [0, 0, 0.1]\n'
    )
    with pytest.raises(InvalidCampaign, match="home_deg: at home, j2 takes .* N m to hold"):
        set_up(open_campaign(tmp_path, "design"))
