"""A payload campaign: how it begins, its runs, its arm, its ratings, and the chain against a load unlike the guess."""

import hashlib
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import _loads
from excitor.experiments.campaign import Arm, InvalidCampaign, PayloadRating, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.init import begin
from excitor.experiments.payload import (
    PayloadRuns,
    answer_of,
    answer_sentence,
    check_sign,
    compared,
    estimated,
    from_base,
    identify_payload,
    parameters_of_load,
    ratings,
)
from excitor.experiments.plan import forecast_load, planned_runs, wrist_and_elbow
from excitor.experiments.report.payload import _approaches, _on_flange, _static_words, load_page, not_told
from excitor.experiments.setup import arm_of_model, doubted_arm, set_up
from excitor.experiments.status import status
from excitor.experiments.virtual.robot import draw_load, draw_truth, true_parameters
from excitor.identify.load.equations import exact_arm, load_task
from excitor.identify.load.fit import center_values, identify_load, reweighed
from excitor.identify.load.poses import StaticLoad
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import about_center_of_mass, change_frame, check_consistency, from_center_of_mass
from excitor.robots.information import Noise
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Payload
from tests.browser import dirty
from tests.identify.test_load import body, run_of, with_known_drives
from tests.pages import Reader

GUESS = from_center_of_mass(8.0, np.array([0.03, -0.02, 0.08]), np.diag([0.06, 0.05, 0.04]))


def edited(path, **changes):
    text = path.read_text()
    for old, new in changes.values():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


@pytest.mark.parametrize("name", ["kr150", "ur10", "tx40"])
def test_a_campaign_that_was_begun_can_be_planned_as_it_stands(tmp_path, name):
    begin(tmp_path / "load", name, "payload")
    campaign = open_campaign(tmp_path / "load", "design")
    plans, waiting = planned_runs(set_up(campaign))
    assert [plan.name for plan in plans] == ["bare", "loaded", "loaded again", "validation", "bare again"]
    assert [plan.payload is not None for plan in plans] == [False, True, True, True, False]
    assert [plan.role for plan in plans] == ["identify", "identify", "identify", "validate", "identify"]
    assert all(list(np.flatnonzero(plan.moving)) == [2, 3, 4, 5] for plan in plans)
    assert not waiting
    assert wrist_and_elbow(campaign.robot) == campaign.robot.joint_names[2:]


def test_poses_are_held_with_the_load_and_without(tmp_path):
    path = begin(tmp_path / "load", "ur10", "payload")
    edited(path, poses=("static_poses = 0", "static_poses = 6"))
    names = [plan.name for plan in planned_runs(set_up(open_campaign(path, "design")))[0]]
    assert names == ["bare poses", "bare", "loaded", "loaded again", "loaded poses", "validation", "bare again"]
    edited(path, pair=('schedule = "payload-pair"', 'schedule = "static-pair"'))
    assert [p.name for p in planned_runs(set_up(open_campaign(path, "design")))[0]] == ["bare poses", "loaded poses"]


def test_the_priors_path_is_relative_to_the_new_folder(tmp_path):
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm/model.json").write_text("{}")
    path = begin(tmp_path / "load", "ur10", "payload", tmp_path / "arm/model.json")
    assert 'prior = "../arm/model.json"' in path.read_text()
    with pytest.raises(InvalidCampaign, match=r"prior: .*model.json: has schema None, expected 1"):
        set_up(open_campaign(path, "design"))
    with pytest.raises(ExcitorError, match="goes with task payload"):
        begin(tmp_path / "other", "ur10", "arm", tmp_path / "arm/model.json")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[payload]\n", "[targets]\n[cell.unknown]\n", "cell.unknown"),
        ('schedule = "payload-pair" ', 'schedule = "together" ', "design.schedule"),
        ('schedule = "payload-pair" ', 'schedule = "static-pair" ', "design.static_poses"),
        ('task = "payload"', 'task = "arm"', 'arm: goes with task = "payload"'),
        ('task = "payload"', 'task = "gripper"', "task"),
        ("links_percent = 5.0", "links_percent = -1.0", "arm.links_percent"),
        ("# [rated]", "[rated]\nmass = -3.0", "rated.mass"),
        ("# [rated]", "[identify]\napproach = 4\n# [rated]", "identify.approach"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(tmp_path, old, new, told):
    path = begin(tmp_path / "load", "ur10", "payload")
    edited(path, it=(old, new))
    with pytest.raises(InvalidCampaign, match=told):
        open_campaign(path, "design")


def test_an_approach_to_a_load_goes_with_a_payload_campaign(tmp_path):
    path = begin(tmp_path / "arm", "ur10", "arm")
    path.write_text(path.read_text("utf-8") + "\n[identify]\napproach = 2\n", "utf-8")
    with pytest.raises(InvalidCampaign, match=r'identify.approach: goes with task = "payload"'):
        open_campaign(path)


def lossy_runs(robot, phi):
    """Two periods' means of wrist motions, whose gears lose 5 to 13 %."""
    noise, rng = np.array([1.0, 1.0, 12.0, 6.0, 6.0, 5.0]), np.random.default_rng(0)
    return [run_of(robot, phi, seed=k, noise=noise, rng=rng, run=str(k)) for k in range(2)]


def payload_runs(robot, runs):
    return PayloadRuns(robot, tuple(runs), (), (), {}, {run.run: run.loaded for run in runs}, {}, ())


MOTION = {"method": "motion", "unknowns": [{"name": "ML"}], "refusal": ""}


@pytest.mark.parametrize(
    ("changes", "loaded", "unseen", "told"),
    [
        ({}, {"a": True, "b": False}, ["v"], []),
        ({}, {"a": True}, ["v"], ["No run is without the load"]),
        ({}, {"a": True, "b": False}, [], ['No run has role = "validate"']),
        ({"unknowns": [{"name": "ML"}, {"name": "R A3"}]}, {"b": False}, ["v"], ["Gears are assumed to lose as much"]),
        ({"method": "poses", "unknowns": [{"name": "R A3"}]}, {"b": False}, [], ["Held poses determine no inertia"]),
        ({"refusal": "its mass is below 0"}, {"b": False}, ["v"], ["No body has these data: its mass is below 0"]),
    ],
)
def test_a_load_says_what_was_assumed(changes, loaded, unseen, told):
    found = not_told(MOTION | changes, SimpleNamespace(loaded=loaded, unseen=unseen))
    assert len(found) == len(told)
    assert all(sentence.startswith(words) for sentence, words in zip(found, told, strict=True))


def test_a_report_lists_what_each_approach_answers():
    one = {"approach": "A", "words": "of differences", "refusal": "", "chosen": True, "rms": {"A3": 1.2345}}
    one["at_center"] = [{"name": "ML", "value": 12.3, "sigma": 0.1}, {"name": "XXC", "value": 0.5, "sigma": None}]
    refused = one | {"approach": "B", "refusal": "is singular", "chosen": False}
    other = one | {"approach": "C", "chosen": False, "rms": {"A3": 2.0}}
    found = _approaches({"approaches": [one, refused, other]})
    assert found["approach_words"] == [
        "A: of differences; the one reported", "B: of differences. No answer: is singular", "C: of differences",
    ]  # fmt: skip
    assert found["approach_heads"] == ["approach A", "approach C"]
    assert dict(found["approach_rows"]) == {
        "ML": ["12.30 ± 0.2"] * 2, "XXC": ["0.5 ± \u2013"] * 2, "residual, A3": ["1.23", "2"],
    }  # fmt: skip


def test_what_held_poses_say_is_in_kilograms_and_millimetres():
    static = {"mass": 12.345, "center": [0.01, -0.02, 0.1], "sigma": [0.05, 0.001, 0.002, 0.003]}
    assert _static_words(static).startswith(
        "Held poses, by gravity alone: 12.345 ± 0.05 kg, centre (10.0, -20.0, 100.0) ± (1.0, 2.0, 3.0) mm;"
    )
    assert _static_words({"refusal": "two are alike"}) == "Held poses do not determine the load: two are alike"
    assert _static_words({}) == ""


def test_a_load_elsewhere_than_at_the_flange_is_not_written():
    robot = load("kr150")
    payload = {"phi": list(body("kr150")), "covariance": np.eye(10).tolist(), "link": robot.mechanism.link_names[-1]}
    assert _on_flange(robot, SimpleNamespace(payload=payload)).mass == pytest.approx(120.0)
    payload["link"] = robot.mechanism.link_names[1]
    with pytest.raises(ExcitorError, match="does not ride on the link that carries the load; name the flange"):
        _on_flange(robot, SimpleNamespace(payload=payload))


def test_three_approaches_answer_for_the_same_rows():
    robot = with_known_drives("kr150")
    phi = body("kr150")
    runs = lossy_runs(robot, phi)
    true = center_values(phi)
    chosen = {k: estimated(payload_runs(robot, runs), exact_arm(robot), k)[:2] for k in (2, 3)}
    assert chosen[2][0].efficiency is not None
    assert chosen[3][0].efficiency is None
    made = compared(chosen[3][0], reweighed(runs, chosen[3][1]), chosen[3][1])
    assert [one.number for one in made] == [1, 2, 3]
    assert not any(one.refusal for one in made)
    off = [abs(one.load.values[6] - true[6]) for one in made]  # the inertia about the third axis, as in the paper
    assert off[2] < 0.3 * min(off[:2])
    assert all(made[2].rms[axis] < made[1].rms[axis] for axis in made[2].rms)
    first = from_base(chosen[2][0], runs, chosen[2][1])
    np.testing.assert_allclose(first.load.values, made[0].load.values, rtol=0.2, atol=0.5)
    said = answer_sentence([{"value": v, "sigma": s} for v, s in zip(true, [0.01] + [0.001] * 9, strict=True)])
    assert said == "120.000 ± 0.020 kg, centre (90.0, -30.0, 140.0) ± (2.0, 2.0, 2.0) mm"


def test_a_load_is_forecast_as_it_is_estimated():
    """Expected deviations against those of the estimate, of the same motions and noise."""
    robot = with_known_drives("ur10")
    phi, sigma = body("ur10"), np.full(6, 0.5)
    runs = [run_of(robot, phi, seed=k, noise=sigma, R=np.ones(6), rng=np.random.default_rng(k)) for k in range(2)]
    bare = run_of(robot, 0.0 * phi, noise=sigma, R=np.ones(6), rng=np.random.default_rng(9), run="bare", loaded=False)
    arm = doubted_arm(robot, 0.05, 0.05)
    task = load_task(robot, [*runs, bare], arm=arm, efficiency=np.ones(6), learn_arm=True)
    found = identify_load(task, [*runs, bare]).load.sigma
    held = replace(robot, payload=Payload(robot.tool.link, phi))
    campaign = SimpleNamespace(content=SimpleNamespace(prior=None, arm=Arm()), robot=robot)
    motions = [(run.motion, 4.0, run.loaded) for run in (*runs, bare)]
    expected = forecast_load(campaign, held, Noise(sigma, 100.0), motions)  # as many rows: 400
    assert (np.abs(np.log(expected / found)) < np.log(1.5)).all()


def test_a_true_load_is_a_body_near_the_guess_and_unlike_it():
    masses = []
    for seed in range(30):
        drawn = draw_load(GUESS, seed)
        assert check_consistency(drawn).relative_margin > 0.0
        mass, center, inertia = about_center_of_mass(drawn)
        assert np.linalg.norm(center - [0.03, -0.02, 0.08]) <= 0.3 * np.linalg.norm([0.03, -0.02, 0.08]) + 1e-12
        assert 0.4 < np.trace(inertia) / 0.15 < 2.2
        masses.append(mass / 8.0)
    assert 0.7 <= min(masses) < 0.8 < 1.2 < max(masses) <= 1.3
    point = draw_load(from_center_of_mass(8.0, np.array([0.0, 0.0, 0.1]), np.zeros((3, 3))), 0)
    assert check_consistency(point).relative_margin > 0.0


def test_a_virtual_robot_carries_its_true_load_and_not_the_guess():
    robot = load("ur10")
    held = replace(robot, payload=Payload(robot.tool.link, GUESS))
    truth = draw_truth(robot, 0)
    true = draw_load(GUESS, 0)
    columns = layout(robot).link(robot.tool.link)
    bare = true_parameters(truth, robot)[columns]
    np.testing.assert_allclose(true_parameters(truth, held)[columns], bare + GUESS)
    carries = replace(truth, load=true)
    np.testing.assert_allclose(true_parameters(carries, held)[columns], bare + true)
    np.testing.assert_allclose(true_parameters(carries, robot)[columns], bare)


def model_of(robot, chi, C, folder, *, whole):
    base, names = base_parameters(robot), layout(robot).names
    B = np.column_stack([base.values(unit) for unit in np.eye(len(names))])
    data = {
        "parameters": [
            {"name": n.removesuffix("R"), "value": float(v)} for n, v in zip(base.names, B @ chi, strict=True)
        ],
        "covariance": (B @ C @ B.T).tolist(),
        "standard": {"status": "none", "reason": "not asked for"},
        "schema": 1,
        "weights": [],
    }
    if whole:
        data["standard"] = {"parameters": [{"name": n, "value": float(v)} for n, v in zip(names, chi, strict=True)]}
    (folder / "model.json").write_text(json.dumps(data))
    return data


@pytest.mark.parametrize("whole", [True, False])
def test_an_arm_of_an_earlier_campaign_has_its_torques_and_their_doubt(tmp_path, whole):
    robot = load("kr150")
    doubt = doubted_arm(robot, 0.02, 0.01)
    rng = np.random.default_rng(0)
    chi = robot.chi * (1.0 + 0.02 * rng.normal(size=len(robot.chi)))
    model_of(robot, chi, doubt.covariance, tmp_path, whole=whole)
    arm = arm_of_model(tmp_path, "model.json", robot)
    Y = regressor(robot, random_motion(robot, 20)).reshape(-1, len(chi))
    np.testing.assert_allclose(Y @ arm.chi, Y @ chi, rtol=1e-8, atol=1e-6)
    told = np.sqrt(np.einsum("ij,jk,ik->i", Y, arm.covariance, Y))
    np.testing.assert_allclose(told, np.sqrt(np.einsum("ij,jk,ik->i", Y, doubt.covariance, Y)), rtol=1e-6)
    rotor = layout(robot).index("Ia2")  # regrouped with a link: the split is the prior's, or the earlier model's
    assert arm.chi[rotor] == pytest.approx(chi[rotor] if whole else robot.chi[rotor])


def test_a_load_is_stale_when_the_arms_model_has_changed(tmp_path):
    (tmp_path / "arm").mkdir()
    prior = tmp_path / "arm/model.json"
    prior.write_text("{}", "utf-8")
    begin(tmp_path / "load", "ur10", "payload", prior)
    digest = hashlib.sha256(prior.read_bytes()).hexdigest()
    made = {"provenance": {"sha256": {}, "prior_sha256": digest}}
    (tmp_path / "load/model.json").write_text(json.dumps(made), "utf-8")

    def state():
        return next(stage for stage in status(tmp_path / "load") if stage.name == "model.json")

    assert state().state == "up to date"
    prior.write_text("{ }", "utf-8")
    assert (state().state, state().reason) == ("stale", "model.json of the arm changed since")


@pytest.mark.parametrize(("mass", "refused"), [(-8.0, True), (-0.1, False), (8.0, False)])
def test_a_load_that_surely_weighs_less_than_nothing_was_on_in_the_other_runs(tmp_path, mass, refused):
    campaign, estimate = (
        SimpleNamespace(folder=tmp_path),
        SimpleNamespace(phi=np.full(10, mass), sigma=np.full(10, 0.1)),
    )
    with pytest.raises(ExcitorError, match="-8 ± 0.2 kg, so .* exchanged") if refused else nullcontext():
        check_sign(campaign, estimate)


@pytest.mark.slow
def test_exchanged_runs_are_refused_in_a_sentence(tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'excitor[mujoco]'")
    _loads.write_cell(tmp_path, _loads.UR10, 3)
    text = (tmp_path / "campaign.toml").read_text("utf-8").replace("loaded = true", "loaded = later")
    text = text.replace("loaded = false", "loaded = true").replace("loaded = later", "loaded = false")
    (tmp_path / "campaign.toml").write_text(text, "utf-8")
    with pytest.raises(InvalidCampaign, match="the runs with and without the load seem to be exchanged"):
        identify_payload(open_campaign(tmp_path))


@pytest.mark.slow
def test_a_load_alone_is_weighed_with_the_arm_of_an_earlier_campaign(tmp_path):
    """MuJoCo's torques of an arm unlike its file: identified from its own campaign, then the prior of the load's."""
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'excitor[mujoco]'")
    robot, rng = load("ur10"), np.random.default_rng(5)
    chi, carried = _loads.drawn(robot, rng), _loads.body(6.0, rng)
    loaded = chi.copy()
    loaded[layout(robot).link(robot.tool.link)] += carried
    time = np.arange(0.0, 20.0, 0.01)[:, None]
    w = 0.1 * np.pi * np.arange(1, 7)
    for task, links in (("arm", chi), ("payload", loaded)):
        folder = tmp_path / task
        folder.mkdir()
        text = [f'robot = "ur10"\ntask = "{task}"\n[log]\ntime = "t"\n']
        if task == "payload":
            text.insert(0, 'prior = "../arm/model.json"\n')
        for kind, side, unit, x in (("position", "joint", "rad", "q"), ("torque", "motor", "N m", "m")):
            columns = [f"{x}{j}" for j in range(6)]
            text.append(f'[[log.signals]]\nkind = "{kind}"\nside = "{side}"\nunit = "{unit}"\ncolumns = {columns}\n')
        for k, name in enumerate(("a", "b", "c")):
            a, b = 0.35 * rng.normal(size=(2, 6, 6))
            s, c = np.sin(time * w), np.cos(time * w)
            q, dq = s @ a + c @ b + [0, -1.2, 1.0, 0.3, 0.5, 0], (c * w) @ a - (s * w) @ b
            moves = q, dq, -(s * w**2) @ a - (c * w**2) @ b
            if task == "payload":
                moves = _loads.motion(robot, (2, 3, 4, 5), rng)
            tau = _loads.driven(robot, links, np.ones(6), moves)
            tau += 0.02 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
            head = ",".join(["t", *(f"q{j}" for j in range(6)), *(f"m{j}" for j in range(6))])
            rows = np.column_stack([time, moves[0] + rng.normal(scale=2e-6, size=tau.shape), tau])
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=head, comments="", fmt="%.9g")
            own = "loaded = true\n" if task == "payload" else 'role = "validate"\n' * (k == 2)
            text.append(f'[[run]]\nname = "{name}"\nlog = "{name}.csv"\n{own}')
        (folder / "campaign.toml").write_text("".join(text), "utf-8")
        told = CliRunner().invoke(app, ["identify", str(folder)])
        assert told.exit_code == 0, told.output
    answer = json.loads((tmp_path / "payload/model.json").read_text("utf-8"))
    assert "as ../arm/model.json has it" in answer["arm"]["source"]
    found = answer["load"]["at_center"]
    for row, true in zip(found[:4], center_values(carried)[:4], strict=True):
        assert abs(row["value"] - true) < 4.0 * row["sigma"], row
    assert abs(found[0]["value"] / carried[9] - 1.0) < 0.01


def test_a_stated_doubt_is_that_of_masses_centres_and_inertias():
    """Against draws: each of the ten numbers about the centre off by a share of itself."""
    robot = load("kr150")
    columns = layout(robot).link(2)
    mass, center, inertia = about_center_of_mass(robot.chi[columns])
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(4000):
        E = 1.0 + 0.01 * rng.normal(size=10)
        T = inertia * np.array([[E[4], E[5], E[6]], [E[5], E[7], E[8]], [E[6], E[8], E[9]]])
        drawn.append(from_center_of_mass(mass * E[0], center * E[1:4], T))
    told = np.sqrt(np.diag(doubted_arm(robot, 0.01, 0.0).covariance)[columns])
    np.testing.assert_allclose(told, np.std(drawn, axis=0), rtol=0.06)  # of 4000 draws: 1.1 % scatter, largest of ten


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parameters": [{"name": "nothing", "value": 1.0}], "covariance": [[1.0]]}, "nothing is no base parameter"),
        ({"covariance": [[1.0]]}, "covariance"),
        ({"parameters": None}, "no whole model"),
    ],
)
def test_a_model_of_something_else_is_no_arm(tmp_path, change, told):
    robot = load("ur10")
    data = model_of(robot, robot.chi, doubted_arm(robot, 0.01, 0.01).covariance, tmp_path, whole=False) | change
    (tmp_path / "model.json").write_text(json.dumps(data))
    with pytest.raises((ValueError, ExcitorError), match=told):
        arm_of_model(tmp_path, "model.json", robot)


def test_ratings_are_those_of_the_parallel_axis_theorem():
    """About the last joint nothing depends on the pose: I = aᵀ J a + m d² and m g d in closed form."""
    robot = load("ur10")
    phi = change_frame(GUESS, robot.tool.T_link_frame)
    C = np.diag((0.01 * np.abs(phi)) ** 2)
    found = {one.what: one for one in ratings(robot, PayloadRating(), phi, C, inertia=True)}
    mass, center, inertia = about_center_of_mass(phi)
    axis, through = last_axis(robot)
    arm = center - through
    d = np.linalg.norm(arm - axis * (axis @ arm))
    about = found["the load's inertia about wrist_3"]
    assert about.value == pytest.approx(axis @ inertia @ axis + mass * d**2, rel=1e-9)
    assert found["its weight's moment about wrist_3"].value == pytest.approx(mass * 9.81 * d, rel=1e-3)
    assert found["the load's mass"].value == pytest.approx(8.0)
    assert found["the load's inertia about wrist_1"].value > about.value
    assert not any("inertia" in one.what for one in ratings(robot, PayloadRating(), phi, C, inertia=False))
    draws = np.random.default_rng(0).multivariate_normal(phi, C, 3000)
    moments = [ratings(robot, PayloadRating(), x, C, inertia=False)[-1].value for x in draws[:60]]
    assert found["its weight's moment about wrist_3"].sigma == pytest.approx(np.std(moments), rel=0.3)


def last_axis(robot):
    """Where the last joint's axis is in the last link's frame: the points that do not move when it turns."""
    q = np.zeros((1, robot.n_joints))
    turned = q.copy()
    turned[0, -1] = np.pi
    T = [robot.mechanism.poses(x)[0, robot.tool.link] for x in (q, turned)]
    relative = np.linalg.inv(T[0]) @ T[1]  # half a turn: R = 2 a aᵀ - E, p = 2 (through - a aᵀ through)
    values, V = np.linalg.eigh(0.5 * (relative[:3, :3] + relative[:3, :3].T))
    return V[:, np.argmax(values)], 0.5 * relative[:3, 3]


@pytest.mark.parametrize(
    ("limit", "answer"), [(9.0, "within"), (7.0, "over"), (8.1, "cannot tell"), (None, "cannot tell")]
)
def test_a_rating_is_judged_by_its_whole_interval(limit, answer):
    robot = load("ur10")
    C = np.diag([0.0] * 9 + [0.1**2])  # kg: 95 % is ± 0.2
    found = ratings(robot, PayloadRating(mass=limit), GUESS, C, inertia=True)
    assert found[0].answer == answer
    assert answer_of(found) == answer
    with pytest.raises(ExcitorError, match="rated.moment: 'elbows'"):
        ratings(robot, PayloadRating(moment={"elbows": 1.0}), GUESS, C, inertia=True)


def test_poses_give_a_point_mass_with_its_covariance():
    C = np.diag([0.01, 1e-6, 2e-6, 3e-6])
    center = np.array([0.03, -0.02, 0.08])
    static = StaticLoad(np.array([0.24, -0.16, 0.64, 8.0]), np.eye(4), 8.0, center, C, 1.0, 40)

    class Result:
        estimate = None

    Result.static = static
    phi, told = parameters_of_load(Result)
    np.testing.assert_allclose(phi, from_center_of_mass(8.0, center, np.zeros((3, 3))), atol=1e-15)
    draws = np.random.default_rng(0).multivariate_normal([8.0, *center], C, 20_000)
    sample = np.cov([from_center_of_mass(x[0], x[1:], np.zeros((3, 3))) for x in draws], rowvar=False)
    np.testing.assert_allclose(np.sqrt(np.diag(told)), np.sqrt(np.diag(sample)), rtol=0.05)


SHORT = {
    "poses": ("static_poses = 0", "static_poses = 3"),
    "hold": ("hold_s = 2.0", "hold_s = 0.48"),
    "ramp": ("ramp_s = 5.0", "ramp_s = 2.4"),
    "settle": ("settle_s = 2.0", "settle_s = 0.8"),
    "frequency": ("base_frequency_hz = 0.1", "base_frequency_hz = 0.2"),
    "periods": ("measured_periods = 5", "measured_periods = 4"),
    "step": ("controller_sample_s = 0.004", "controller_sample_s = 0.008"),
    "evaluations": ("evaluations = 1500", "evaluations = 300"),
    "rated": ("# [rated]", "[rated]\nmass = 2.0\n"),
}


def invoke(*arguments):
    done = CliRunner().invoke(app, [str(x) for x in arguments])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def chained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("payload") / "load"
    invoke("init", folder, "--task", "payload", "--robot", "ur10")
    edited(folder / "campaign.toml", **SHORT)
    invoke("design", folder)
    invoke("emit", folder, "--target", "csv")
    invoke("simulate", folder, "--target", "csv", "--seed", "2")
    return folder


@pytest.mark.slow
def test_from_init_to_the_controllers_load_data(chained):
    told = json.loads(invoke("identify", chained, "--json"))
    truth = np.array(json.loads((chained / "truth.json").read_text())["load"])
    true = center_values(truth)
    found = told["load"]["at_center"]
    assert found[0]["value"] == pytest.approx(true[0], rel=0.015)
    center = np.array([row["value"] for row in found[1:4]])
    assert np.linalg.norm(center - true[1:4]) < 6e-3
    off = [abs(row["value"] - x) / row["sigma"] for row, x in zip(found, true, strict=True)]
    assert max(off) < 5.0
    static = told["load"]["static"]
    assert static["mass"] == pytest.approx(true[0], rel=0.05)
    assert all(run["relative"]["elbow"] < 0.5 for run in told["load"]["predicted"] if run["unseen"])
    assert told["load"]["rating"]["answer"] == "over"
    assert [one["approach"] for one in told["load"]["approaches"] if one["chosen"]] == [told["load"]["approach"]]
    expected = json.loads((chained / "design.json").read_text())["load_sigma"]
    ratio = np.array([row["sigma"] for row in found]) / expected
    assert (ratio > 0.2).all()
    assert (ratio < 5.0).all()
    assert "over the rating" in invoke("report", chained)
    page = (chained / "report.html").read_text()
    assert "The robot carries more than it is rated for." in page
    assert "Of a virtual robot" in page
    assert told["load"]["answer"] in page
    assert "Three ways to the load" in page
    assert "DECL GLOBAL LOAD" in page
    hostile = Reader(load_page(dirty(json.loads((chained / "report.json").read_text()))))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in Reader(page).tags]
    report = json.loads((chained / "report.json").read_text())
    assert report["load"]["at_center"] == told["load"]["at_center"]
    assert [run["loaded"] for run in report["runs"]].count(True) == 4
    invoke("export", chained, "--format", "kuka", "--point-mass")
    text = (chained / "exports/load_payload.dat").read_text()
    assert "DECL GLOBAL LOAD load_payload={M" in text
    refused = CliRunner().invoke(app, ["export", str(chained), "--format", "py"])
    assert refused.exit_code == 1
    assert "everything is up to date" in invoke("status", chained)


@pytest.mark.slow
def test_a_load_left_on_in_a_bare_run_is_refused(chained, tmp_path):
    copy = shutil.copytree(chained, tmp_path / "load")
    logs = copy / "logs/csv"
    bare = next(path for path in logs.iterdir() if path.stem == "bare")
    loaded = next(path for path in logs.iterdir() if path.stem == "loaded")
    shutil.copy(loaded, bare)
    for path in logs.iterdir():
        if path.stem == "loaded":
            path.unlink()
    with pytest.raises(ExcitorError, match="kg at the flange, and no load is stated"):
        identify_payload(open_campaign(copy))


@pytest.mark.slow
def test_without_a_loaded_run_there_is_nothing_to_identify(chained, tmp_path):
    copy = shutil.copytree(chained, tmp_path / "load")
    for path in (copy / "logs/csv").iterdir():
        if "loaded" in path.stem:
            path.unlink()
    with pytest.raises(ExcitorError, match="has the load on"):
        identify_payload(open_campaign(copy))
