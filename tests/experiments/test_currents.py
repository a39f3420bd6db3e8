"""Currents without a law: identified in A of one drive, with nothing claimed in kg or N m, from logs to exports."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import excitor.experiments.emit as emission
from excitor.experiments.campaign import open_campaign
from excitor.experiments.export.export import ExportOptions, export
from excitor.experiments.identification import identify, write_model
from excitor.experiments.log_formats import CannotLog, declared_for, promised_effort, refusal, remark
from excitor.experiments.log_formats import format_of as log_format
from excitor.experiments.model import read_model
from excitor.experiments.report.data import report_data
from excitor.experiments.setup import learned_robot, set_up
from excitor.experiments.virtual.machine import currents, motor_side
from excitor.experiments.virtual.robot import draw_truth
from excitor.identify.currents import SPREAD, doubt_of_gains, in_amperes, relative_gains, rescaled
from excitor.identify.estimate import rows_of_groups
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.files.write import robot_toml
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from tests.campaigns import CAMPAIGN, NOISE, motion_of

GAINS = np.array([4.0, 9.0, 0.7])  # N m per A, which nobody states
CURRENTS = CAMPAIGN.replace('robot = "rotradi"', 'robot = "arm.toml"').replace("torque", "current").replace("N m", "A")


def lawless(robot):
    drive = replace(robot.drive, torque_from_current=np.full((robot.n_joints, 4), np.nan))
    return replace(robot, drive=drive, declared_base=None)


def write_campaign(folder, text=CURRENTS, gains=GAINS):
    robot = load("rotradi")
    (folder / "logs").mkdir()
    own = re.sub(r"(?m)^torque_from_current.*$", "", robot_toml("rotradi"))
    (folder / "arm.toml").write_text(own)
    (folder / "campaign.toml").write_text(text)
    for k, name in enumerate(("first", "second")):
        rng = np.random.default_rng(k)
        t, motion = motion_of(robot, 40.0, k)
        chi = robot.chi * np.random.default_rng(5).uniform(0.8, 1.2, robot.chi.shape)  # the prior is off
        tau = inverse_dynamics(robot, motion, chi) + rng.normal(size=motion.q.shape) * NOISE
        table = np.column_stack([t, np.degrees(motion.q), tau / gains])
        head = "t,q1,q2,q3,c1,c2,c3"
        np.savetxt(folder / "logs" / f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.7f")
    return folder


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    folder = write_campaign(tmp_path_factory.mktemp("cell"))
    result = identify(open_campaign(folder, "identify"))
    write_model(result)
    return folder, result


def test_relative_gains_are_found_with_the_parameters(identified):
    model = identified[1].model
    reference = [name for name, gain in model.currents.items() if gain == 1.0]
    assert len(reference) == 1
    one = GAINS[list(model.currents).index(reference[0])]
    np.testing.assert_allclose(list(model.currents.values()), GAINS / one, rtol=0.06)
    held_out = model.held_out["figures"]["held_out_relative_error"]
    assert held_out < 0.5 * model.held_out["figures"]["held_out_relative_error.prior_model"]


def test_one_gain_for_all_would_not_fit(identified):
    folder, result = identified
    robot = in_amperes(load(folder / "arm.toml"))
    runs = [replace(run, tau=run.tau / list(result.model.currents.values())) for run in result.samples.values()]
    kept = base_parameters(robot).kept
    equations = dynamic_regression(robot, runs, columns=kept)
    left = equations.y - equations.W @ np.linalg.lstsq(equations.W, equations.y, rcond=None)[0]
    assert np.linalg.norm(left) / np.linalg.norm(equations.y) > 2.0 * result.model.error


def test_nothing_is_claimed_in_kg(identified):
    folder, result = identified
    model = read_model(folder, load(folder / "arm.toml"))
    assert {unit for unit in model.units if "kg" in unit or "N" in unit} == set()
    assert model.standard is None
    assert "currents have no law" in model.refusal
    assert not (folder / "model.c").exists()
    run = result.samples["second"]
    I = model.torque(run.motion.q, run.motion.dq, run.motion.ddq)  # noqa: E741
    measured = run.tau / list(model.currents.values())
    assert np.linalg.norm(I - measured) < 0.2 * np.linalg.norm(measured)
    data = report_data(result)
    assert data["robot"]["torque_units"] == ["A"] * 3
    assert "Relative gains" in data["verdict"]["not_told"][0]
    assert data["verdict"]["uses"][1]["go"] is False
    units = {row["unit"] for row in data["parameters"]}
    assert not any("kg" in unit or "N m" in unit for unit in units)
    assert json.loads((folder / "model.json").read_text())["currents"] == dict(model.currents)


@pytest.mark.parametrize("form", ["mjcf", "py", "c"])
def test_exports_in_kg_are_refused_with_the_line_to_add(identified, form):
    with pytest.raises(ExcitorError, match="state torque_from_current and torque_from_current_sigma under"):
        export(identified[0], [form], ExportOptions())


def test_such_a_model_is_no_prior_and_no_noise(identified):
    folder = identified[0]
    with pytest.raises(ExcitorError, match="for want of a current law"):
        learned_robot(folder, "model.json", load(folder / "arm.toml"))
    text = (folder / "campaign.toml").read_text()
    (folder / "campaign.toml").write_text(text + '\n[noise]\nmodel = "model.json"\nrate_hz = 100.0\n')
    with pytest.raises(ExcitorError, match=r"noise.model: .*for want of a current law"):
        set_up(open_campaign(folder, "design"))
    (folder / "campaign.toml").write_text(text)


def test_torques_stay_torques(tmp_path):
    folder = write_campaign(tmp_path, CAMPAIGN.replace('robot = "rotradi"', 'robot = "arm.toml"'), np.ones(3))
    runs = identify(open_campaign(folder, "identify"))
    assert runs.model.currents is None
    assert "kg m2" in runs.model.units


def test_gains_of_a_drive_alone_come_from_the_prior():
    """A joint that shares no parameter with the others has no gain beside theirs but the prior's."""
    robot = in_amperes(lawless(load("ur10")))
    motion = random_motion(robot, 400)
    law = np.array([2.0, 1.0, 0.5, 0.3, 0.2, 0.1])
    base = base_parameters(robot)
    tau = inverse_dynamics(robot, motion)
    regression = dynamic_regression(robot, [Samples("x", motion, tau / (7.0 * law), 100.0)], columns=base.kept)
    gains, per_torque, reference = relative_gains(regression, base.values(prior(robot)))
    np.testing.assert_allclose(gains, law / law[reference], rtol=1e-6)
    assert per_torque == pytest.approx(1.0 / (7.0 * law[reference]))
    scaled = rescaled(robot, gains, per_torque)
    np.testing.assert_allclose(inverse_dynamics(scaled, motion), per_torque * tau, rtol=1e-9)
    assert set(layout(scaled).units[:10]) == {"A s2", "A s2/m", "A s2/m2"}


def test_intervals_hold_the_doubt_of_gains(identified):
    """Parameters that follow a drive's gain are no surer than the gain is."""
    _, result = identified
    regression, estimate = result.known, result.estimate
    gains = np.array(list(result.model.currents.values()))
    reference, other = int(np.argmax(gains == 1.0)), int(np.argmax(gains != 1.0))
    doubt = doubt_of_gains(regression, estimate, reference, 1.0)
    sigma = rows_of_groups(regression, estimate)
    own = np.where(regression.joint == other, regression.W @ estimate.values, 0.0) / sigma
    moved = np.linalg.lstsq(regression.W / sigma[:, None], own)[0]
    least = own - regression.W @ moved / sigma  # what of the gain no parameters can take up
    assert moved @ np.linalg.pinv(doubt, rcond=1e-12) @ moved <= least @ least + 1.0 / SPREAD**2 + 1e-6
    assert (np.diag(result.intervals.covariance) > np.diag(doubt)).all()
    again = doubt_of_gains(regression, estimate, reference, 2.0)
    assert (np.diag(again) > np.diag(doubt)).all()


def test_reversed_currents_are_refused():
    robot = in_amperes(lawless(load("ur10")))
    motion = random_motion(robot, 200)
    base = base_parameters(robot)
    run = Samples("x", motion, -inverse_dynamics(robot, motion), 100.0)
    with pytest.raises(ExcitorError, match="check their signs"):
        relative_gains(dynamic_regression(robot, [run], columns=base.kept), base.values(prior(robot)))


def test_programs_need_no_law():
    robot = lawless(load("ur10"))
    for target in ("urscript", "krl-rsi", "fanuc-j519"):
        assert refusal(target, robot) == ""
        assert "not claimed. For those state torque_from_current" in remark(target, robot)
        assert remark(target, load("ur10")) == ""
        signal = declared_for(target, robot)["signals"][1]
        assert (signal["kind"], signal["unit"]) == ("current", "A")
    assert promised_effort("csv", log_format("csv"), robot) == "motor torque"
    assert remark("csv", robot) == ""
    assert declared_for("csv", in_amperes(robot)) == declared_for("csv", robot)  # logs are read as they were written


@pytest.mark.parametrize("task", ["arm", "payload"])
def test_a_load_needs_a_law(tmp_path, task):
    """A payload campaign's programs for controllers that log currents are refused, as a load is in kg."""
    said = []

    def stop(campaign, planned, name, spacing, listen, useless):
        said.append(useless)
        raise KeyboardInterrupt

    judge = SimpleNamespace(constraints=None)
    plan = SimpleNamespace(plan=SimpleNamespace(robot=lawless(load("ur10")), unlimited=(), torques=None), judge=judge)
    campaign = SimpleNamespace(content=SimpleNamespace(log=None, task=task))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emission, "open_campaign", lambda folder, stage: campaign)
        patch.setattr(emission, "plans_of", lambda *_: emission.CampaignPlans(tmp_path, (plan,), (), ()))
        patch.setattr(emission, "chosen", lambda *_: ["urscript"])
        patch.setattr(emission, "_emit_one", stop)
        with pytest.raises(KeyboardInterrupt):
            emission.emit(tmp_path, emission.Request(("urscript",)), lambda _: None)
    assert ("not claimed" in said[0]) == (task == "payload")


def test_coupled_motors_need_one():
    robot = lawless(load("tx40"))
    with pytest.raises(CannotLog, match="motors are coupled, so currents do not add; state torque_from_current"):
        promised_effort("urscript", log_format("urscript"), robot)


def test_a_virtual_robot_has_a_law_of_its_own():
    robot = lawless(load("ur10"))
    truth = draw_truth(robot, 3)
    assert np.isfinite(truth.torque_from_current).all()
    assert (draw_truth(robot, 4).torque_from_current[:, 1] != truth.torque_from_current[:, 1]).all()
    torque = np.random.default_rng(0).normal(size=(50, 6))
    current, told = motor_side(truth, robot, torque, np.random.default_rng(1))
    np.testing.assert_allclose(current, currents(truth.torque_from_current, told))
    np.testing.assert_allclose(current * truth.torque_from_current[:, 1], told, rtol=1e-6)
