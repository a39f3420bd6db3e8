"""Where positions are low-passed that no campaign.toml states it for: by the plan, else not at all, and that is said.

Logs are those of torque-sensor arms: positions of four decimals at 500 Hz. Rigid torques are pinocchio's.
"""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.watch import LOWPASS_HZ, draw_day, write_campaign
from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs import csv
from excitor.design.programs.package import package
from excitor.design.programs.plan import Plan
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.logs import planned_bands, planned_cutoff, read_run, settle
from excitor.experiments.manifest import manifest_data
from excitor.experiments.watch.session import open_basis
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import posture
from tests.oracles import Oracle
from tests.plans import lines, reformed

RATE, PERIOD, HARMONICS = 500.0, 5.0, (1, 2, 3)  # the highest planned frequency is 0.6 Hz
NOISE = 0.01  # of each joint's torque, rms
NEAR = 0.02  # held-out error: twice the noise; friction near its reversals is in no model
CAMPAIGN = """robot = "rotradi"
[log]
time = "t"
[[log.signals]]
kind = "position"
side = "joint"
unit = "rad"
columns = ["q1", "q2", "q3"]
[[log.signals]]
kind = "torque"
side = "joint"
unit = "N m"
columns = ["c1", "c2", "c3"]
"""
RUNS = (("excitation", "identify"), ("validation", "validate"))


def series(seed, scale=0.35, harmonics=HARMONICS):
    a, b = np.random.default_rng(seed).uniform(-scale, scale, size=(2, 3, len(harmonics)))
    excitation = Excitation(PERIOD, 0.01, harmonics, np.ones(3, dtype=bool), measured=4)
    return periodic_run(excitation, np.array([0.2, 0.4, -0.5]), a, b)


def plan_data(trajectories, slow=()):
    """Write what design.json says of the runs, and no more than programs are made of."""
    excitation = trajectories[0].excitation
    common = {"payload": None, "ready": True, "period": PERIOD, "sample_time": 0.01, "moving": [True] * 3, "way": None}
    runs = [
        {"name": name, "role": role, "harmonics": list(excitation.harmonics), "phases": [], **common}
        | {"warm_up_periods": 0, "measured_periods": 4, "center": body.series.center.tolist()}
        | {"sines": body.series.sines.tolist(), "cosines": body.series.cosines.tolist()}
        for (name, role), body in zip(RUNS, trajectories, strict=True)
    ]
    return {
        "schema": 1, "robot": "rotradi", "joints": list(load("rotradi").joint_names), "ready": True, "go": True,
        "home": None, "order": [name for name, _ in RUNS], "runs": runs, "slow_runs": list(slow), "torque_runs": [],
        "provenance": {"inputs_sha256": ""},
    }  # fmt: skip


def write_table(path, q, tau, rate=RATE):
    path.parent.mkdir(exist_ok=True)
    table = np.column_stack([np.arange(len(q)) / rate, np.round(q, 4), tau])
    np.savetxt(path, table, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="", fmt="%.6f")


def runs_of(how=""):
    return "".join(f'[[run]]\nname = "{n}"\nlog = "logs/{n}.csv"\nrole = "{r}"\n{how}\n' for n, r in RUNS)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Four periods of two series, whose torques are pinocchio's, with friction and noise."""
    folder = tmp_path_factory.mktemp("foreign")
    robot = load("rotradi")
    chi, params, oracle = prior(robot), layout(robot), Oracle(robot.mechanism)
    viscous, dry = (np.array([chi[params.index(f"{kind}{j}")] for j in (1, 2, 3)]) for kind in ("Fv", "Fc"))
    bodies = [series(seed) for seed in (3, 4)]
    t = np.arange(round(PERIOD * RATE)) / RATE
    for k, (body, (name, _)) in enumerate(zip(bodies, RUNS, strict=True)):
        motion = body.periodic.motion(t)
        states = oracle.mass_matrix_and_bias(motion, chi[:30].reshape(3, 10))
        rigid = np.array([M @ a + bias for (M, bias), a in zip(states, motion.ddq, strict=True)])
        tau = np.tile(rigid + viscous * motion.dq + dry * np.tanh(motion.dq / 0.01), (4, 1))
        noise = np.random.default_rng(k).normal(size=tau.shape) * NOISE * np.sqrt(np.mean(tau**2, axis=0))
        write_table(folder / "logs" / f"{name}.csv", np.tile(motion.q, (4, 1)), tau + noise)
    (folder / "design.json").write_text(json.dumps(plan_data(bodies)))
    return folder


@pytest.fixture
def folder(tmp_path, recorded):
    """Copy the logs, without their plan, into a campaign's folder."""
    (tmp_path / "logs").mkdir()
    for path in (recorded / "logs").iterdir():
        (tmp_path / "logs" / path.name).write_bytes(path.read_bytes())
    return tmp_path


def planned(folder, recorded):
    (folder / "design.json").write_bytes((recorded / "design.json").read_bytes())


def call(*arguments):
    return CliRunner().invoke(app, [str(x) for x in arguments])


def worst(model):
    return max(joint["relative"] for joint in model["held_out"]["joints"].values())


@pytest.mark.parametrize("how", [f"period_s = {PERIOD}", ""], ids=["averaged", "one pass"])
def test_a_planned_run_takes_the_band_of_its_plan(folder, recorded, how):
    planned(folder, recorded)
    (folder / "campaign.toml").write_text(CAMPAIGN + runs_of(how))
    result = call("identify", folder, "--json")
    assert result.exit_code == 0, result.output
    model = json.loads(result.stdout)
    assert worst(model) < NEAR
    filters = [step for step in model["processing"] if "lowpass" in step["step"]]
    assert [step["cutoff_hz"] for step in filters] == pytest.approx([6.0, 6.0])
    reason = "10 times 0.6 Hz, the highest planned frequency"
    assert {step["chosen_as"] for step in filters} == {reason}
    assert f"low-pass of positions at 6 Hz, {reason}: 'excitation' and 'validation'" in result.stderr


@pytest.mark.parametrize("how", [f"period_s = {PERIOD}", ""], ids=["averaged", "one pass"])
def test_logs_without_a_plan_get_the_band_that_predicts_torques_best(folder, how):
    path = folder / "campaign.toml"
    path.write_text(CAMPAIGN + runs_of(how))
    result = call("identify", folder, "--json")
    assert result.exit_code == 0, result.output
    model = json.loads(result.stdout)
    assert worst(model) < NEAR
    chosen = next(step for step in model["processing"] if step["step"] == "choose the band")
    assert 2.0 <= chosen["chosen_hz"] <= 12.0, "the motion ends at 0.6 Hz"
    tried = {name: error for name, error in chosen.items() if name.startswith("positions at")}
    assert len(tried) > 8
    assert min(tried.values()) == 1.0
    assert "chosen by the torques of held-out blocks: error +" in result.stderr


def test_every_verb_takes_the_same_band(folder):
    """Watching takes the one in model.json."""
    (folder / "campaign.toml").write_text(CAMPAIGN + runs_of(f"period_s = {PERIOD}"))
    (folder / "model.json").unlink(missing_ok=True)
    result = call("identify", folder, "--json")
    assert result.exit_code == 0, result.output
    steps = json.loads(result.stdout)["processing"]
    (hz,) = {step["cutoff_hz"] for step in steps if "cutoff_hz" in step}
    basis = open_basis(campaign := open_campaign(folder))
    assert basis.campaign.band.hz == hz
    settled, logs = settle(campaign)
    run = settled.content.run[0]
    told = read_run(settled, run, logs[run.name]).steps
    assert next(step.settings["cutoff_hz"] for step in told if "cutoff_hz" in step.settings) == hz


def test_a_motion_that_the_rate_does_not_show_gets_a_template(folder):
    t = np.arange(4000) / RATE
    for (name, _), hz in zip(RUNS, (40.0, 41.0), strict=True):
        fast = np.sin(2.0 * np.pi * hz * t)[:, None] * [0.1, 0.2, 0.3]
        write_table(folder / "logs" / f"{name}.csv", fast, fast)
    (folder / "campaign.toml").write_text(CAMPAIGN + runs_of())
    with pytest.raises(InvalidCampaign, match=r"\[processing\]\nlowpass_hz = HZ  # 10 times the highest frequency"):
        read_run(campaign := open_campaign(folder), campaign.content.run[0])


def test_another_motion_is_not_taken_for_the_plan(folder, recorded):
    """A run that no plan names must look like it; a process has a motion of its own."""
    planned(folder, recorded)
    text = CAMPAIGN + runs_of()
    (folder / "campaign.toml").write_text(text.replace('name = "validation"', 'name = "afternoon"'))
    campaign = open_campaign(folder)
    _, run = campaign.content.run
    samples = read_run(campaign, run)
    told = next(step.settings for step in samples.steps if step.name == "lowpass")
    assert told["chosen_as"].endswith("the highest planned frequency of the run 'excitation'")
    t = np.arange(4000) / RATE
    fast = np.sin(2.0 * np.pi * np.array([1.0, 2.0, 3.0]) * t[:, None])
    write_table(folder / "logs" / "validation.csv", fast, fast)
    with pytest.raises(InvalidCampaign, match=r"no plan .* declares the motion"):
        read_run(campaign, run)
    settled, logs = settle(campaign)
    assert settled.band is not None, "it is chosen by the run itself"
    told = read_run(settled, run, logs[run.name]).steps
    assert next(step.settings for step in told if step.name == "choose the band")["chosen_hz"] == settled.band.hz
    assert planned_cutoff(folder, run.model_copy(update={"cycle_s": 2.0})) is None


def test_moves_are_as_fast_as_their_blends(folder, recorded):
    slow = {"kind": "friction", "role": "identify", "ready": True, "sample_time": 0.01}
    sweeps = slow | {
        "name": "sweeps", "knots": [[0.0] * 3, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0] * 3],
        "durations": [2.0, 1.0, 4.0], "blends": [0.25, 0.1, 0.5], "measured": [True, False, True],
    }  # fmt: skip
    poses = sweeps | {"name": "poses", "measured": [False, True, False]}
    bodies = [series(seed) for seed in (3, 4)]
    (folder / "design.json").write_text(json.dumps(plan_data(bodies, [sweeps, poses])))
    by_series, by_moves = planned_bands(folder)
    assert by_series == pytest.approx({"excitation": 0.6, "validation": 0.6})
    assert by_moves == {"sweeps": 2.0}, "the shortest blend of a measured move is half a period; poses declare none"
    (folder / "design.json").write_text("{}")
    with pytest.raises(ExcitorError, match=r"design\.json"):
        planned_bands(folder)


def test_programs_declare_their_motion_without_a_design(folder):
    robot, home = load("rotradi"), np.array([0.2, 0.4, -0.5])
    body = series(3, scale=0.05)
    body = reformed(body, ramp=2.5, settle=1.0, hold=1.0)
    there = home + 0.3
    names = robot.joint_names
    rounds = lines(names, 0.01, home, (there, 3.0, 0.5, True), (home, 3.0, 1.0, True))
    plans = [
        Plan("cell", name, "identify", robot, lines(names, 0.01, home, (home, 2.0)), replace(motion, joints=names))
        for name, motion in (("excitation", body), ("sweeps", rounds))
    ]
    programs = folder / "programs" / "csv"
    programs.mkdir(parents=True)
    (programs / "manifest.json").write_text(json.dumps(manifest_data(package(csv, plans), {})))
    by_series, by_moves = planned_bands(folder)
    assert by_series == pytest.approx({"excitation": 0.6})
    assert by_moves == pytest.approx({"sweeps": 1.0})


def test_held_poses_need_no_band(tmp_path):
    """Noise that hides standstill from differences of raw positions, on a log without a plan."""
    robot, rate = load("rotradi"), 1000.0
    poses = np.array([[0.0, 0.5, -0.6], [0.4, -0.3, 0.5], [-0.5, 0.9, 0.2]])
    s = np.linspace(0.0, 1.0, 1000)[:, None]
    bend = 10 * s**3 - 15 * s**4 + 6 * s**5
    stops = [poses[0], *(pose + side for pose in poses for side in (-0.2, 0.0, 0.2, 0.0))]
    q = np.concatenate([np.concatenate([a + (b - a) * bend, np.tile(b, (1000, 1))]) for a, b in pairwise(stops)])
    noise = np.random.default_rng(0).normal(size=q.shape) * 2e-4
    write_table(tmp_path / "logs" / "poses.csv", q + noise, rigid_torque(robot, posture(q)), rate)
    run = '[[run]]\nname = "poses"\nlog = "logs/poses.csv"\nstatic = true\n'
    (tmp_path / "campaign.toml").write_text(CAMPAIGN + run)
    campaign = open_campaign(tmp_path)
    samples = read_run(campaign, campaign.content.run[0])
    gravity = rigid_torque(robot, posture(samples.motion.q))
    np.testing.assert_allclose(samples.tau, gravity, atol=0.05)
    for pose in poses:
        assert np.abs(samples.motion.q - pose).max(axis=1).min() < 1e-4
    filters = [step for step in samples.steps if step.name == "lowpass"]
    assert (filters[0].settings["cutoff_hz"], filters[0].settings["chosen_as"]) == (10.0, "poses are held")


def test_a_cut_off_stays_below_what_the_rate_can_show(folder, recorded):
    planned(folder, recorded)
    text = (folder / "logs" / "excitation.csv").read_text().splitlines()
    (folder / "logs" / "excitation.csv").write_text("\n".join([text[0], *text[1::50]]) + "\n")
    (folder / "campaign.toml").write_text(CAMPAIGN + runs_of(f"period_s = {PERIOD}"))
    campaign = open_campaign(folder)
    told = read_run(campaign, campaign.content.run[0]).steps[-1].settings
    assert told["cutoff_hz"] == pytest.approx(0.4 * RATE / 50)
    assert "at most 0.4 of the sampling rate" in told["chosen_as"]


def test_a_watch_is_refused_before_it_reads(tmp_path):
    write_campaign(tmp_path, draw_day(load("rotradi"), 3, cycle_s=6.0), "period_s = 6.0")
    open_basis(open_campaign(tmp_path))
    path = tmp_path / "campaign.toml"
    path.write_text(path.read_text().replace(f"lowpass_hz = {LOWPASS_HZ}", ""))
    with pytest.raises(InvalidCampaign, match=r"no plan .* declares the motion"):
        open_basis(open_campaign(tmp_path))
