"""Torque runs of a campaign: designed, certified by simulation, written, shown; what cannot be is refused in words."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from excitor.design.slow import InfeasibleRun
from excitor.design.torque import TorqueExcitation, TorqueTrajectory, torques
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.design_json import design_data, summary
from excitor.experiments.plan import SearchInterrupted, design
from excitor.experiments.report.plan import plan_data
from excitor.experiments.setup import DEFAULT_EVALUATIONS, DEFAULT_SIMULATIONS, Overrides, set_up, settings_of
from excitor.experiments.stages import write_all
from excitor.experiments.verbs.design import print_designed
from excitor.robots.load import load, robot_text
from excitor.robots.robot import posture
from excitor.robots.simulate import Steps, simulate, with_friction_width

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEAD = 'robot = "rotradi"\nhome_deg = [0, 0, 0]\n'
NOISE = "\n[noise]\ntorque = [0.5, 1.5, 0.15]\n"
DESIGN = '\n[design]\nexcitation = "torque"\nseed = 3\nevaluations = 60\n'
TORQUE = "\n[design.torque]\nduration_s = 1.0\nfade_s = 0.4\ncoast_s = 1.0\nband_rad_s = [3.0, 12.0]\n"


def campaign(folder, *parts):
    folder.mkdir(exist_ok=True)
    (folder / "campaign.toml").write_text("".join(parts))
    return folder


def designed_in(folder, listen=None, **given):
    setup = set_up(open_campaign(folder, "design"))
    return design(setup, settings_of(setup.design, Overrides(**given)), listen)


def refusals(folder, *parts, **given):
    """Design a campaign that cannot be, and list what is told."""
    with pytest.raises(InvalidCampaign) as caught:
        designed_in(campaign(folder, *parts), **given)
    return caught.value.problems


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def designed(tmp_path_factory, told):
    folder = campaign(tmp_path_factory.mktemp("torque"), HEAD, NOISE, DESIGN, TORQUE)
    return designed_in(folder, lambda run, progress: told.append((run, progress)))


@pytest.mark.slow
def test_a_campaign_gets_an_excitation_and_a_validation(designed):
    assert designed.searched == list(designed.runs)
    assert designed.order == ("excitation", "validation")
    first, second = designed.runs
    assert (first.plan.role, second.plan.role) == ("identify", "validate")
    assert not np.array_equal(first.torques.amplitudes, second.torques.amplitudes)
    assert designed.ready
    assert designed.finished
    assert 40 < first.found.evaluations <= 60
    assert "simulation" not in {item.name for item in first.certificate.items}, "one that ends well is no limit"
    assert np.isfinite([first.condition, first.condition_weighted, second.condition]).all()


def test_the_spectrum_is_that_of_the_condition(designed):
    for run in designed.runs:
        assert run.spectrum[0] / run.spectrum[-1] == pytest.approx(run.condition, rel=1e-9)
        assert len(run.columns) == run.spectrum.size == len(run.correlation) == 21


def test_searches_report_progress(designed, told):
    assert {name for name, _ in told} == {"excitation", "validation"}
    shares = [progress.share for name, progress in told if name == "excitation"]
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] <= 1.0
    assert designed.runs[0].found.history[-1, 0] == told[len(shares) - 1][1].evaluations


def test_remarks_say_what_a_simulation_is_worth(designed, capsys):
    text = " ".join(designed.setup.remarks)
    assert "Simulated, not proven" in text
    for run in designed.runs:
        keep = round(run.certificate.simulation.robustness.share * 40)
        assert f"run {run.plan.name!r}: {keep} of 40 models whose parameters are off by up to 20%" in text
    print_designed(designed)
    shown = capsys.readouterr().out
    assert "of 40 models" in " ".join(shown.split())
    assert "simulated" in shown


def test_the_forecast_looks_at_the_measured_part_once(designed):
    assert designed.forecast.duration == pytest.approx(1.0)
    assert designed.forecast.n_periods == 1
    assert designed.forecast.condition == pytest.approx(designed.runs[0].condition, rel=0.3)  # true signs


@pytest.mark.slow
def test_the_file_holds_the_torques_that_were_simulated(designed):
    """A program that reads design.json, and nothing else, makes the same torques, and they move the arm alike."""
    run = json.loads(json.dumps(design_data(designed)))["torque_runs"][0]
    excitation = TorqueExcitation(
        run["duration"],
        run["sample_time"],
        np.array(run["driven"]),
        np.array(run["start"]),
        n_waves=len(run["torques"]["phases"][0]),
        band=tuple(run["band"]),
        rate=run["rate"],
        fade=run["phases"][1]["end"] - run["phases"][1]["start"],
        coast=run["phases"][2]["end"] - run["phases"][2]["start"],
    )
    parts = [np.array(run["torques"][key]) for key in ("constant", "amplitudes", "frequencies", "phases")]
    t = np.arange(excitation.n_samples) * excitation.sample_time
    tau = torques(TorqueTrajectory(excitation, *parts), t)
    fine = designed.runs[0]
    assert np.abs(tau - torques(fine.torques, t)).max() < 1e-9
    steps = Steps(excitation.sample_time, excitation.n_samples, substeps=60)
    again = simulate(
        with_friction_width(load("rotradi"), 0.005), tau.T[None], start=posture(excitation.start[None]), steps=steps
    )
    assert np.abs(again.q[0] - fine.run.at(t).T).max() < 1e-4
    assert [part["name"] for part in run["phases"]] == ["measured", "ramp-out", "hold"]
    assert run["robustness"]["n_models"] == 40
    assert 0.0 <= run["robustness"]["share"] <= 1.0
    assert "not proven" in run["wording"]
    assert all(item["holds"] for item in run["certificate"])


def test_the_summary_is_as_for_periodic_runs(designed):
    data = json.loads(json.dumps(summary(designed), allow_nan=False))
    assert data["condition"] == designed.runs[0].condition
    assert data["certified"] is True
    assert data["evaluations"] == sum(run.found.evaluations for run in designed.runs)
    assert data["cpu_s"] > 0.0
    assert {margin["run"] for margin in data["margins"]} == {"excitation", "validation"}
    assert {"velocity elbow", "torque peak shoulder"} <= {margin["name"] for margin in data["margins"]}
    assert len(data["forecast"]["parameters"]) == 21
    assert [run["name"] for run in data["runs"]] == ["excitation", "validation"]


def test_the_page_shows_the_fine_simulation(designed):
    first = plan_data(designed)["runs"][0]
    run, time = designed.runs[0], np.array(first["time"])
    assert len(time) <= 600
    assert time[-1] == pytest.approx(2.4)
    motion, step = run.run.motion(time), run.run.sample_time
    held = torques(run.torques, np.rint(time / step) * step)
    for key, whole in (("q", motion.q), ("dq", motion.dq), ("ddq", motion.ddq), ("tau", held)):
        assert np.array(first[key]) == pytest.approx(whole.T, abs=1e-9)
    assert "of 40 models" in first["note"]
    assert any("of 40 models" in note for note in first["notes"])
    assert len(first["certificate"]) == len(designed.runs[0].certificate.items)
    assert first["history"][0]["stage"] == "start"


@pytest.mark.slow  # simulates many candidates
def test_the_same_seed_and_budget_write_the_same_file(tmp_path, designed):
    folder = campaign(tmp_path / "again", HEAD, NOISE, DESIGN, TORQUE)
    path, page = write_all(designed_in(folder))
    expected = json.loads(json.dumps(design_data(designed)))
    assert json.loads(path.read_text()) == expected
    assert page.stat().st_size > 10_000
    other = designed_in(campaign(tmp_path / "other", HEAD, NOISE, DESIGN, 'schedule = "single"\n', TORQUE), seed=4)
    assert other.order == ("excitation",)
    assert not np.array_equal(other.runs[0].torques.amplitudes, designed.runs[0].torques.amplitudes)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.slow
def test_a_browser_draws_the_page_without_complaint(designed, tmp_path):
    from excitor.experiments.report.plan import plan_page

    page = tmp_path / "plan.html"
    page.write_text(plan_page(plan_data(designed)))
    found = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "CONSOLE" not in found.stderr
    assert found.stdout.count('class="panel"') >= 12
    assert "Simulated, not proven" in found.stdout


@pytest.mark.slow  # simulates many candidates
def test_joints_that_are_not_driven_swing_along(tmp_path):
    parts = (HEAD, NOISE, DESIGN, TORQUE, 'driven = ["base_joint", "shoulder"]\n')
    run = designed_in(campaign(tmp_path, *parts), evaluations=60).runs[0]
    assert "base_joint and shoulder" in run.plan.note
    t = np.linspace(0.0, 1.0, 100)
    assert not torques(run.torques, t)[:, 2].any()
    assert np.abs(run.run.at(t, 1)[:, 2]).max() > 1e-3


def test_simulations_are_fewer_where_no_budget_is_stated(tmp_path):
    plain = DESIGN.replace("evaluations = 60\n", "")
    setup = set_up(open_campaign(campaign(tmp_path / "a", HEAD, NOISE, plain, TORQUE), "design"))
    assert settings_of(setup.design).budget.evaluations == DEFAULT_SIMULATIONS == 1000
    assert settings_of(setup.design, Overrides(seconds=3.0)).budget.seconds == 3.0
    setup = set_up(open_campaign(campaign(tmp_path / "b", HEAD, NOISE), "design"))
    assert settings_of(setup.design).budget.evaluations == DEFAULT_EVALUATIONS


def test_a_search_that_finds_nothing_names_what_is_broken(tmp_path):
    limits = "\n[limits]\nvelocity_percent = 1.0\nacceleration_percent = 0.5\n"
    folder = campaign(tmp_path, HEAD, limits, NOISE, DESIGN, TORQUE)
    with pytest.raises(
        InfeasibleRun, match=r"run 'excitation': no candidate of \d keeps every limit; the best breaks"
    ) as caught:
        designed_in(folder, evaluations=2)
    *broken, remedy = caught.value.reasons
    assert any(reason.startswith("acceleration") and "of the limit" in reason for reason in broken)
    assert "search longer" in remedy
    assert not (folder / "design.json").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    calls = []

    def listen(name, progress):
        calls.append(name)
        raise KeyboardInterrupt

    stopped = designed_in(campaign(tmp_path, HEAD, NOISE, DESIGN, TORQUE), listen)
    assert len(stopped.runs) == 1
    assert not stopped.finished
    assert design_data(stopped)["torque_runs"][0]["search"]["stopped"] == "interrupted"


@pytest.mark.slow  # simulates many candidates
def test_a_search_of_torques_goes_on_where_it_was_stopped(tmp_path):
    """Stopped in its second stage, it keeps the first, and ends as one that was never stopped."""
    told = []

    def listen(name, progress):
        told.append(progress)
        if progress.stage != "start":
            raise KeyboardInterrupt

    alone = (HEAD, NOISE, DESIGN.replace("60", "150"), 'schedule = "single"\n', TORQUE)
    folder = campaign(tmp_path / "stopped", *alone)
    assert not designed_in(folder, listen).finished
    told.clear()
    again = designed_in(folder, lambda name, progress: told.append(progress))
    assert "start" not in {progress.stage for progress in told}, "the first stage is not made again"
    whole = designed_in(campaign(tmp_path / "whole", *alone))
    assert again.finished
    assert design_data(again)["torque_runs"] == design_data(whole)["torque_runs"]


def test_ctrl_c_before_anything_is_found_is_reported(tmp_path, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("excitor.experiments.plan.run_search", interrupted)
    with pytest.raises(SearchInterrupted, match="run 'excitation': stopped before it was designed"):
        designed_in(campaign(tmp_path, HEAD, NOISE, DESIGN, TORQUE))


@pytest.mark.slow  # simulates many candidates
def test_keys_of_periodic_runs_are_reported_not_to_count(tmp_path):
    extra = "harmonics = 7\nbase_frequency_hz = 0.3\ncontroller_sample_s = 0.003\n"  # no whole period, and no matter
    torque = TORQUE.replace("duration_s = 1.0\nfade_s = 0.4\ncoast_s = 1.0\n", "duration_s = 0.9\n")
    done = designed_in(campaign(tmp_path, HEAD, NOISE, DESIGN, extra, torque), evaluations=60)
    assert any("base_frequency_hz, harmonics of [design] do not count" in remark for remark in done.setup.remarks)
    assert done.runs[0].torques.excitation.fade == pytest.approx(0.999)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("seconds = 5.0\n", "design.seconds: torque runs are searched by evaluations"),
        (
            'schedule = "payload-pair"\n',
            'design.schedule: is "payload-pair"; excitation = "torque" goes with "together"',
        ),
        ('criterion = "d"\n', 'design.criterion: is "d"'),
        ('model = "power"\n', 'design.model: is "power"'),
        ('joints = ["elbow"]\n', "design.joints: needs a position controller"),
        ("locked_deg = { elbow = 5.0 }\n", "design.locked_deg: needs a position controller"),
        ('front = ["condition", "torque"]\n', "design.front: needs a position controller"),
        ("static_poses = 5\n", "design.static_poses: needs a position controller"),
        ("friction_sweeps = true\n", "design.friction_sweeps: needs a position controller"),
        ("warm_up_minutes = 5.0\n", "design.warm_up_minutes: needs a position controller"),
        ("max_frequency_hz = 1.0\n", "design.torque.band_rad_s: ends at 12 rad/s, above max_frequency_hz = 1"),
    ],
)
def test_settings_without_meaning_are_refused(tmp_path, change, expected):
    base = DESIGN.replace("evaluations = 60\n", "")
    problems = refusals(tmp_path, HEAD, NOISE, base, change, TORQUE)
    assert len(problems) == 1
    assert problems[0].startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("duration_s = 1.0", "duration_s = 1.0013", "design.torque.duration_s: duration is 1.0013 s, expected a whole"),
        ("duration_s = 1.0", "duration_s = 500.0", "design.torque.duration_s: duration, fade and coast are"),
        ("fade_s = 0.4", "fade_s = 0.4019", "design.torque.fade_s: fade is 0.4019 s"),
        ("[3.0, 12.0]", "[12.0, 3.0]", "design.torque.band_rad_s: band is (12.0, 3.0) rad/s"),
        ("[3.0, 12.0]", "[3.0, 900.0]", "design.torque.band_rad_s: band is (3.0, 900.0) rad/s"),
        ("duration_s", 'driven = ["wrist"]\nduration_s', "design.torque.driven: 'wrist' is no joint of"),
        ("duration_s = 1.0", "duration_s = 1e6", "design.torque.duration_s: is 1000000.0, expected less than or equal"),
        ("fade_s", "n_waves = 0\nfade_s", "design.torque.n_waves: is 0, expected greater than or equal to 1"),
        ("[3.0, 12.0]", "[3.0]", "design.torque.band_rad_s: has 1 entries, expected at least 2"),
        ("fade_s", "fades", "design.torque.fades: is not a key that this table knows"),
    ],
)
def test_impossible_torque_tables_are_refused(tmp_path, old, new, expected):
    problems = refusals(tmp_path, HEAD, NOISE, DESIGN, TORQUE.replace(old, new))
    assert problems[0].startswith(expected)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('robot = "rotradi"\nhome_deg = [0, 90, 0]\n', r"home_deg: start is no pose of rest: shoulder takes"),
        ('robot = "rotradi"\nhome_deg = [179, 0, 0]\n', r"home_deg[1]: 179 is outside"),
        ('robot = "rotradi"\nhome_deg = [0, 0]\n', r"home_deg: has 2 entries"),
    ],
)
def test_homes_that_are_no_start_are_refused(tmp_path, head, expected):
    problems = refusals(tmp_path, head, NOISE, DESIGN, TORQUE)
    assert any(problem.startswith(expected) for problem in problems), problems


def test_seconds_on_the_command_line_are_refused(tmp_path):
    problems = refusals(tmp_path, HEAD, NOISE, DESIGN, TORQUE, seconds=3.0)
    assert problems[0].startswith("seconds: torque runs are searched by evaluations")


def test_a_robot_without_masses_or_torque_limits_is_refused(tmp_path):
    text = robot_text("rotradi")
    (tmp_path / "arm.toml").write_text(text.replace("M3 = 3.88\n", ""))
    (tmp_path / "free.toml").write_text(text.replace(", torque = 15 }", " }"))
    light, free = (HEAD.replace("rotradi", name) for name in ("arm.toml", "free.toml"))
    problems = refusals(tmp_path, light, NOISE, DESIGN, TORQUE)
    assert problems[0].startswith("prior: torque mode simulates the arm, and the masses of rotradi are not all stated")
    problems = refusals(tmp_path, free, NOISE, DESIGN, TORQUE)
    assert problems[0].startswith("limits.joint: torque limits of elbow are not stated")


def test_a_torque_table_needs_torque_excitation(tmp_path):
    fourier = DESIGN.replace('excitation = "torque"\n', "")
    problems = refusals(tmp_path, HEAD, NOISE, fourier, TORQUE)
    assert problems == ('design: gives a table torque, which goes with excitation = "torque"',)
