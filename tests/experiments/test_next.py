"""`excitor next`: what it expects is what another run brings; it stops at its targets, and says what is wrong."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.next_run import (
    Aim,
    Candidate,
    advise,
    advised_data,
    expected,
    prior_information,
    ranked,
    run_information,
)
from excitor.experiments.plan import planned_runs, run_problem
from excitor.experiments.setup import set_up
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.information import Information, knowledge, sigmas
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.campaigns import COLUMNS

RATE = 100.0
NOISE = np.array([0.5, 1.5, 0.15])
CAMPAIGN = f"""robot = "rotradi"
locked = []

{COLUMNS}
[processing]
lowpass_hz = 10.0
decimate = [4]

[design]
harmonics = 3
"""
RUN = '\n[[run]]\nname = "{0}"\nlog = "logs/{0}.csv"\n'
STRICT = "\n[targets]\nrelative_sigma_percent = 0.2\ntorque_share_percent = 0.0\ntorque_error_percent = 0.1\n"
LAX = "\n[targets]\nrelative_sigma_percent = 50.0\ntorque_error_percent = 50.0\n"


def write_log(folder, name, *, motion_seed, noise_seed, amplitude=0.35, still=(), seconds=40.0):
    robot, rng = load("rotradi"), np.random.default_rng(motion_seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, dq, ddq = np.zeros((3, len(t), 3))
    for k in range(1, 6):
        w, (a, b) = 0.2 * np.pi * k, rng.uniform(-amplitude, amplitude, size=(2, 3))
        a[list(still)] = b[list(still)] = 0.0
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
    noise = np.random.default_rng(noise_seed).normal(size=q.shape) * NOISE
    tau = inverse_dynamics(robot, Motion(q, dq, ddq)) + noise
    (folder / "logs").mkdir(exist_ok=True)
    head = "t,q1,q2,q3,c1,c2,c3"
    table = np.column_stack([t, np.degrees(q), tau])
    np.savetxt(folder / "logs" / f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.6f")


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    assert result.exit_code == code, f"{result.output}{result.exception!r}"
    return result


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("next") / "cell"
    folder.mkdir()
    write_log(folder, "first", motion_seed=0, noise_seed=1)
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first"))
    call("identify", folder, "--json")
    return folder


@pytest.fixture(scope="module")
def strict(measured, tmp_path_factory):
    """Advice for targets that are missed, sought once."""
    return ask(shutil.copytree(measured, tmp_path_factory.mktemp("strict") / "cell"), STRICT)


@pytest.fixture
def folder(measured, tmp_path):
    return shutil.copytree(measured, tmp_path / "cell")


def ask(folder, more):
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first") + more)
    return advise(folder)


def obtained(folder):
    parameters = json.loads((folder / "model.json").read_text())["parameters"]
    return np.array([parameter["sigma"] for parameter in parameters])


def also_measured(folder, name, **log):
    write_log(folder, name, **log)
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first") + RUN.format(name))
    call("identify", folder, "--json")
    return obtained(folder)


def test_it_stops_where_targets_are_met(folder):
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first") + LAX)
    result = call("next", folder)
    assert result.stdout.splitlines()[0] == "stop: targets met"
    data = json.loads(call("next", folder, "--json").stdout)
    assert data["stop"] is True
    assert data["candidates"] == []
    assert all(aim["met"] for aim in data["aims"])


def test_a_stricter_target_is_missed_and_runs_are_ranked_by_gain_per_second(strict):
    data = advised_data(strict)
    assert data["stop"] is False
    rates = [one["gain_per_s"] for one in data["candidates"]]
    assert rates == sorted(rates, reverse=True)
    assert {"again", "motion", "sweeps"} <= {one["kind"] for one in data["candidates"]}
    now = {aim["name"]: aim["sigma"] for aim in data["aims"]}
    for one in data["candidates"]:
        assert all(sigma <= now[name] * (1 + 1e-9) for name, sigma in one["expected_sigma"].items()), "nothing is lost"
        assert 0.0 < one["gain"] <= 1.0
        assert one["how"]
    new = next(one for one in data["candidates"] if one["kind"] == "motion")
    again = next(one for one in data["candidates"] if one["kind"] == "again")
    assert new["gain"] > again["gain"], "a motion sought for what is missing teaches more than any motion again"


def test_measuring_the_same_again_divides_variances_by_two(strict):
    again = next(one for one in strict.ranked if one.candidate.kind == "again")
    for aim, after in zip(strict.aims, again.expected, strict=True):
        assert after == pytest.approx(aim.now / np.sqrt(2.0), rel=1e-6), aim.name


def test_expected_deviations_are_those_that_a_second_run_obtains(folder):
    # deviations from blocks of one run scatter by some 15 %; the median over the parameters by some 5 %
    known = prior_information(open_campaign(folder))
    again = next(iter(known.runs))
    foreseen = sigmas(knowledge(Information(known.names, known.given.matrix, known.given.matrix))) / np.sqrt(2.0)
    found = also_measured(folder, "second", motion_seed=0, noise_seed=2)
    assert again.seconds == pytest.approx(40.0, abs=2.0)
    assert np.median(found / foreseen) == pytest.approx(1.0, abs=0.15)


def test_expected_deviations_of_another_motion_are_obtained(folder):
    from excitor.experiments.logs import read_run

    known = prior_information(open_campaign(folder))
    found = also_measured(folder, "second", motion_seed=7, noise_seed=3, amplitude=0.7)
    campaign = open_campaign(folder)
    samples = read_run(campaign, campaign.content.run[1])
    said = run_information(known, samples.motion, len(samples) / samples.sample_rate_hz)
    C = knowledge(Information(known.names, known.given.matrix + said.matrix, known.given.matrix)).covariance
    foreseen, now = np.sqrt(np.diag(C)), sigmas(knowledge(known.given))
    assert np.median(foreseen / now) < 0.6, "a wider motion teaches more than half as much again"
    assert np.median(found / foreseen) == pytest.approx(1.0, abs=0.2)


def test_gains_and_times_follow_from_the_matrices():
    names, e = ("a", "b"), np.eye(2)
    given = Information(names, np.diag([1.0, 4.0]), np.diag([1.0, 4.0]))
    aims = [
        Aim("a", "parameter", "", 1.0, 1.0, 0.5, np.outer(e[0], e[0])),
        Aim("b", "parameter", "", 1.0, 0.5, 1.0, np.outer(e[1], e[1])),
    ]
    one = Candidate("x", "again", 10.0, Information(names, np.diag([1.0, 0.0]), np.diag([1.0, 0.0])), ())
    slow = replace(one, what="y", seconds=20.0)
    best, other = ranked(given, aims, [slow, one])
    assert (best.candidate.what, other.candidate.what) == ("x", "y")
    assert best.expected == pytest.approx((np.sqrt(0.5), 0.5))
    assert best.gain == pytest.approx((1.0 - 0.5) / (1.0 - 0.25))
    assert best.times == 3, "1 + k >= 4"
    assert best.rate == pytest.approx(2.0 * other.rate)
    blind = replace(one, teaches=Information(names, np.diag([0.0, 1.0]), np.diag([0.0, 1.0])))
    assert ranked(given, aims, [blind])[0].times is None
    assert expected(given, aims, blind.teaches)[1] == pytest.approx(np.sqrt(0.2))


def test_what_a_held_joint_hides_is_reported(tmp_path):
    folder = tmp_path / "cell"
    folder.mkdir()
    write_log(folder, "first", motion_seed=0, noise_seed=1, still=(0,))
    name = load("rotradi").joint_names[0]
    text = (CAMPAIGN + RUN.format("first") + LAX).replace("locked = []", f'locked = ["{name}"]')
    (folder / "campaign.toml").write_text(text)
    call("identify", folder, "--json")
    notes = json.loads(call("next", folder, "--json").stdout)["notes"]
    assert any(f"cannot show while {name} is held" in note for note in notes)


def test_without_a_model_it_says_what_comes_first(folder):
    (folder / "model.json").unlink()
    with pytest.raises(ExcitorError, match=r"model\.json: is missing, so nothing is known yet; next: excitor identify"):
        advise(folder)


def test_a_stale_model_is_used_and_warned_of(folder):
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first") + LAX)
    result = call("next", folder, "--json")
    assert "model.json is stale: campaign.toml changed since" in result.stderr
    assert json.loads(result.stdout)["stop"] is True


def spoiled(folder, **changes):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_models_that_do_not_say_how_sure_they_are_are_refused(folder):
    n = len(obtained(folder))
    with pytest.raises(ExcitorError, match="has no covariance, so its uncertainty is unknown; identify"):
        advise(spoiled(folder, covariance=None))
    with pytest.raises(ExcitorError, match=f"its covariance is not {n} x {n}"):
        advise(spoiled(folder, covariance=[[1.0]]))
    with pytest.raises(ExcitorError, match="covariance is not positive definite"):
        advise(spoiled(folder, covariance=np.ones((n, n)).tolist()))
    with pytest.raises(ExcitorError, match=r"covariance\[1\]\[1\]"):
        advise(spoiled(folder, covariance=[["x"]]))


def test_a_model_of_another_robot_or_no_model_is_refused(folder):
    with pytest.raises(ExcitorError, match="is of tx40, the campaign's robot is"):
        advise(spoiled(folder, robot="tx40"))
    (folder / "model.json").write_text("[1, 2")
    with pytest.raises(ExcitorError, match="is not JSON that excitor identify"):
        advise(folder)


def test_a_target_of_an_unknown_parameter_is_refused(folder):
    with pytest.raises(InvalidCampaign, match=r"targets\.parameters: ZZ99 is no parameter of the model, which has"):
        ask(folder, '\n[targets]\nparameters = ["ZZ99"]\n')
    advised = ask(folder, '\n[targets]\nparameters = ["Fv1"]\n')
    assert [aim.name for aim in advised.aims if aim.kind == "parameter"] == ["Fv1"]


def test_targets_leave_a_design_up_to_date(folder):
    digest = open_campaign(folder).digest
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first") + STRICT)
    assert open_campaign(folder).digest == digest


def test_further_runs_come_last_and_are_for_their_parameters(folder):
    more = '[design]\nfurther = [["Fv1", "ZZ2R"], "static", "sweeps"]\n'
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("[design]\n", more) + RUN.format("first"))
    setup = set_up(open_campaign(folder))
    plans, _ = planned_runs(setup)
    (folder / "campaign.toml").write_text(CAMPAIGN + RUN.format("first"))
    plain, _ = planned_runs(set_up(open_campaign(folder)))
    assert [plan.name for plan in plans[: len(plain)]] == [plan.name for plan in plain]
    added = plans[len(plain) :]
    assert [(plan.name, plan.kind) for plan in added] == [
        ("further 1", "excitation"),
        ("further 2", "static"),
        ("further 3", "sweep"),
    ]
    problem = run_problem(setup, added[0], ())
    assert problem.criterion.kind == "sigma"
    base = base_parameters(setup.robot)
    chosen = [base.names[list(base.kept).index(problem.model.columns[k])] for k in problem.criterion.chosen]
    assert chosen == ["Fv1", "ZZ2R"]
    assert run_problem(setup, plans[0], ()).criterion.kind == "condition"


def test_further_runs_that_cannot_be_are_refused(folder):
    for more, why in (("further = [[]]", "further"), ('further = ["x"]\nmodel = "load"', "further")):
        (folder / "campaign.toml").write_text(CAMPAIGN.replace("[design]\n", f"[design]\n{more}\n"))
        with pytest.raises(InvalidCampaign, match=why):
            open_campaign(folder, "design")


CHAIN = """robot = "rotradi"
home_deg = [10, 20, 30]
[targets]
relative_sigma_percent = 0.2
torque_share_percent = 0.05
[noise]
torque = [0.3, 0.3, 0.1]
[design]
harmonics = 3
ramp_s = 2.0
warm_up_periods = 1
measured_periods = 4
controller_sample_s = 0.01
"""


@pytest.mark.slow
def test_the_run_that_was_advised_obtains_what_was_expected(tmp_path):
    """The whole way: what `next` says is done word by word; runs that were measured stay as they are."""
    folder = tmp_path / "cell"
    folder.mkdir()
    (folder / "campaign.toml").write_text(CHAIN)
    call("design", folder, "--evaluations", "600", "--json")
    call("emit", folder, "--target", "ros2", "--json")
    call("simulate", folder, "--target", "ros2", "--json")
    call("identify", folder, "--json")
    before = json.loads((folder / "design.json").read_text())["runs"]
    data = json.loads(call("next", folder, "--json").stdout)
    new = next(one for one in data["candidates"] if one["kind"] == "motion")
    line = next(line for line in new["how"] if line.startswith("further"))
    (folder / "campaign.toml").write_text(CHAIN.replace("[design]\n", f"[design]\n{line}\n"))
    words = next(line for line in new["how"] if line.startswith("excitor design")).split("   ")[0].split()[1:]
    call(*words, "--json")
    after = json.loads((folder / "design.json").read_text())["runs"]
    assert after[: len(before)] == before
    assert after[-1]["name"] == "further 1"
    call("emit", folder, "--target", "ros2", "--json")
    call("simulate", folder, "--target", "ros2", "--fresh", "--json")
    told = json.loads(call("identify", folder, "--json").stdout)
    found = {parameter["name"]: parameter["sigma"] for parameter in told["parameters"]}
    wanted = [aim["name"] for aim in data["aims"] if aim["kind"] == "parameter"]
    ratios = [found[name.removesuffix("R")] / new["expected_sigma"][name] for name in wanted]
    # the search is longer than the promise's, drift and ripple repeat in both: the median within a third
    assert 0.67 < np.median(ratios) < 1.33, ratios
