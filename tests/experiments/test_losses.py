"""Losses of an arm's gears: found in motors' torques, modelled once, as friction that grows with the torque carried."""

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify, write_model
from excitor.experiments.model import read_model
from excitor.robots.friction import friction_model
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.identify.test_load import measured
from tests.identify.test_motor_side import noise

JOINTS = range(6)


def motion(seed):
    rng, t, w = np.random.default_rng(seed), np.arange(0, 20, 0.01)[:, None], 0.1 * np.pi * np.arange(1, 7)
    a, b = 0.25 * rng.normal(size=(2, 6, 6))
    s, c = np.sin(t * w), np.cos(t * w)
    return Motion(s @ a + c @ b, (c * w) @ a - (s * w) @ b, -(s * w**2) @ a - (c * w**2) @ b)


def signals(kind, side, unit, letter):
    columns = ", ".join(f'"{letter}{j}"' for j in JOINTS)
    return f'[[log.signals]]\nkind = "{kind}"\nside = "{side}"\nunit = "{unit}"\ncolumns = [{columns}]\n'


def campaign(folder, R, seed=0, robot="ur10"):
    arm = load("ur10")
    head = ",".join(["t", *(f"q{j}" for j in JOINTS), *(f"m{j}" for j in JOINTS)])
    for k, name in enumerate("ab"):
        run = motion(k)
        tau = measured(arm, run, np.zeros(10), R)
        tau = np.linalg.solve(arm.drive.motor_from_joint.T, (tau + noise(tau, 2 * seed + k)).T).T
        table = np.column_stack([0.01 * np.arange(len(tau)), run.q, tau])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.9g")
    (folder / "campaign.toml").write_text(
        f'robot = "{robot}"\n[log]\ntime = "t"\n'
        + signals("position", "joint", "rad", "q")
        + signals("torque", "motor", "N m", "m")
        + '[[run]]\nname = "a"\nlog = "a.csv"\n[[run]]\nname = "b"\nlog = "b.csv"\nrole = "validate"\n'
    )
    return open_campaign(folder)


def losses(found):
    return [term for term in found.campaign.robot.drive.friction if friction_model(term).load]


def test_losses_become_part_of_the_model(tmp_path):
    R = 1.0 - np.random.default_rng(0).uniform(0.08, 0.14, 6)
    told: list[str] = []
    found = identify(campaign(tmp_path, R), told.append)
    assert {term.parameter for term in losses(found)} >= {"load1", "load2"}
    assert found.held_out.model.relative_total < 0.02  # 0.032 without
    assert any("shoulder_pan: load" in sentence for sentence in told)
    note = next(finding for finding in found.findings if finding.what == "losses")
    value, half = note.data["shoulder_pan"]
    assert "which the model has as friction by load" in note.sentence
    assert 0.0 < half < 5.0
    assert abs(value - 100.0 * (1.0 - R[0])) < half + 3.0
    write_model(found)
    assert "load1" in (tmp_path / "model.c").read_text()
    model = read_model(tmp_path)
    assert "load" in next(joint["form"] for joint in model.friction["joints"] if joint["joint"] == "shoulder_pan")


def test_gears_without_losses_have_none_in_the_model(tmp_path):
    assert losses(identify(campaign(tmp_path, np.ones(6)))) == []


def test_a_stated_efficiency_is_estimated_too(tmp_path):
    text = 'base = "ur10"\n[drive]\nefficiency = [0.9, 0.9, 0.9, 0.9, 0.9, 0.9]\n'
    (tmp_path / "lossy.toml").write_text(text)
    found = identify(campaign(tmp_path, np.full(6, 0.9), robot="lossy.toml"))
    assert losses(found)
    assert (found.campaign.robot.drive.efficiency == 1.0).all()  # one model of losses
