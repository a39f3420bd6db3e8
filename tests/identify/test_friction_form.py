"""The form of friction by cross-validation: what is there is found, what is not stays as stated."""

from dataclasses import replace

import numpy as np
import pytest

import excitor as ex
from excitor.identify.friction_form import choose_friction, formed, sentence_of
from excitor.identify.regression import Rows, dynamic_regression
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, with_friction


@pytest.fixture(scope="module")
def robot():
    return ex.load_robot("rotradi")


def measured(robot, change, noise=0.03, seed=0, seconds=20.0):
    """Make a run of a robot whose friction is changed: `change` gives the true terms and their values by name."""
    truth, values = change(robot)
    chi, own = np.zeros(len(layout(truth))), layout(robot).names
    chi[layout(truth).indices(own)] = robot.chi
    for name, value in values.items():
        chi[layout(truth).index(name)] = value
    rng, t = np.random.default_rng(seed), np.arange(0.0, seconds, 0.02)[:, None]
    w = np.array([0.7, 1.1, 1.6])
    q, dq, ddq = (sum(f(a * t * w) for f, a in zip(fs, (1.0, 1.7), strict=True)) for fs in series(w))
    motion = ex.Motion(q, dq, ddq)
    tau = inverse_dynamics(truth, motion, chi)
    tau += noise * rng.normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    return ex.Samples(f"run {seed}", motion, tau, 50.0, robot=robot)


def series(w):
    yield [np.sin, np.sin]
    yield [lambda x: w * np.cos(x), lambda x: 1.7 * w * np.cos(x)]
    yield [lambda x: -(w**2) * np.sin(x), lambda x: -((1.7 * w) ** 2) * np.sin(x)]


def as_it_is(robot):
    return robot, {}


def of_two_forms(robot):
    """Friction of the first joint turns over 0.15 rad/s, that of the second falls off from twice as much."""
    first, second = (next(t for t in robot.drive.friction if t.model == "coulomb" and t.acts[j] != 0.0) for j in (0, 1))
    terms = [replace(t, width=0.15) if t is first else t for t in robot.drive.friction]
    more = replace(second, parameter="Fs2", model="stribeck", scale=0.2)
    return with_friction(robot, [*terms, more]), {"Fs2": float(robot.chi[layout(robot).index(second.parameter)])}


def chosen(robot, run):
    equations = dynamic_regression(robot, [run])
    return choose_friction(robot, [run], equations, equations, Rows(), [0])


def test_stated_friction_stays(robot):
    for seed in range(3):
        choice = chosen(robot, measured(robot, as_it_is, seed=seed))
        assert all(joint["as_stated"] for joint in choice["joints"])
        assert formed(robot, choice).drive.friction == robot.drive.friction
        assert all(one["error"] > 0.98 for joint in choice["joints"] for one in joint["tried"])


def test_width_and_stribeck_are_found(robot):
    choice = chosen(robot, measured(robot, of_two_forms))
    first, second, third = choice["joints"]
    assert first["tried"][0]["kind"].startswith("width")
    assert [term["width"] for term in first["terms"] if term["model"] == "coulomb"] == [pytest.approx(0.15, rel=0.3)]
    assert "stribeck" in second["tried"][0]["kind"]
    assert third["as_stated"]
    assert "as stated" in {one["kind"] for one in first["tried"]}
    assert first["form"] in sentence_of(choice)


def test_laps_are_held_out_together(robot):
    """The same stretch of every lap belongs to one block, so that no form is judged on a motion that was fitted."""
    run = measured(robot, of_two_forms)
    equations = dynamic_regression(robot, [run])
    choice = choose_friction(robot, [run], equations, equations, Rows(), [250])
    assert not choice["joints"][0]["as_stated"]


def test_model_keeps_the_form(robot, tmp_path):
    runs = [measured(robot, of_two_forms, seed=seed) for seed in (0, 1)]
    model = ex.fit(runs[0], unseen=runs[1], consistent=False)
    stated = ex.fit(runs[0], robot, unseen=runs[1], consistent=False)
    assert stated.friction is None
    assert model.error < 0.9 * stated.error
    model.save(tmp_path)
    again = ex.load_model(tmp_path)
    assert "stribeck2" in again.names
    motion = runs[1].motion
    assert np.allclose(again.torque(motion.q, motion.dq, motion.ddq), model.torque(motion.q, motion.dq, motion.ddq))


def test_damaged_form_is_refused(robot):
    good = chosen(robot, measured(robot, of_two_forms))["joints"][0]
    for damage in (
        {"like": "nothing"},
        {"terms": [{"parameter": "x"}]},
        {"terms": [good["terms"][0] | {"model": "?"}]},
    ):
        with pytest.raises(ExcitorError, match="identify again"):
            formed(robot, {"joints": [good | damage]})
