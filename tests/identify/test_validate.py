"""Validation is held out, joint by joint, beside baselines; and it cannot be asked to flatter."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.identify.estimate import compress, select, wls, wls_measured
from excitor.identify.regression import Rows, combine, dynamic_regression, power_regression
from excitor.identify.samples import Samples
from excitor.identify.validate import (
    estimated_torques,
    predict,
    set_baselines,
    standard_parameters,
    torque_errors,
    validate,
)
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, posture

DATA = Path(__file__).parents[3] / "shared" / "data"
NOISE = np.array([1.0, 1.0, 0.5, 0.15, 0.2, 0.1])
ROWS = Rows(decimate=lambda x: x[::3], dead_zone=np.full(6, 0.02))


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


@pytest.fixture
def campaign(robot, simulate):
    """A fit to one run and the equations of another, thinned and without standstill."""
    chi = 1.2 * prior(robot)
    trained, held = (simulate(robot, chi, seed, noise=NOISE, run=name) for seed, name in ((0, "fit"), (1, "other")))
    training, regression = (dynamic_regression(robot, [run], rows=ROWS) for run in (trained, held))
    return trained, training, held, regression, wls(compress(training))


def beside(robot, run, regression, estimate):
    chi = standard_parameters(robot, estimate)
    return set_baselines(robot, [run], chi=chi, regression=regression, decimate=ROWS.decimate)


def test_held_out_error_is_the_noise(robot, campaign):
    _, _, held, regression, estimate = campaign
    baselines = beside(robot, held, regression, estimate)
    result = validate(regression, estimate, baselines=baselines, trained_on=["fit"])
    assert result.label == "held-out error"
    np.testing.assert_allclose(result.model.rmse, NOISE, rtol=0.35)
    assert result.model.relative_total < 0.1
    assert result.baselines["zero"].relative_total == 1.0
    np.testing.assert_array_equal(result.baselines["zero"].mean_absolute, 1.0)
    assert result.baselines["prior model"].relative_total == pytest.approx(0.2 / 1.2, rel=0.1)
    assert result.model.relative_total < result.baselines["gravity only"].relative_total < 1.0
    assert all(key.startswith("held_out_") for key in result.figures)
    assert "held_out_relative_error.prior_model" in result.figures


def test_errors_are_those_of_their_definitions(campaign):
    _, _, _, regression, estimate = campaign
    predicted = estimated_torques(regression, estimate)
    errors = torque_errors(regression, predicted)
    r = regression.y - predicted
    for j in range(6):
        rows = regression.joint == j
        assert errors.relative[j] == pytest.approx(np.sqrt(np.sum(r[rows] ** 2) / np.sum(regression.y[rows] ** 2)))
        assert errors.mean_absolute[j] == pytest.approx(np.abs(r[rows]).sum() / np.abs(regression.y[rows]).sum())
        assert errors.rmse[j] == pytest.approx(np.sqrt(np.mean(r[rows] ** 2)))
    assert errors.relative_total == pytest.approx(np.linalg.norm(r) / np.linalg.norm(regression.y))
    assert errors.mean_absolute_mean == pytest.approx(errors.mean_absolute.mean())


def test_training_data_are_refused_unless_called_so(robot, campaign):
    trained, training, held, regression, estimate = campaign
    baselines = beside(robot, trained, training, estimate)
    with pytest.raises(ValueError, match=r"fitted to fit, so its error there says nothing about prediction"):
        validate(training, estimate, baselines=baselines, trained_on=["fit"])
    result = validate(training, estimate, baselines=baselines, trained_on=["fit"], training=True)
    assert result.training
    assert result.label == "training error"
    assert all("training" in key for key in result.figures)
    other = beside(robot, held, regression, estimate)
    with pytest.raises(ValueError, match=r"training=True, but the model was not fitted to other"):
        validate(regression, estimate, baselines=other, trained_on=["fit"], training=True)


def test_mixed_runs_are_refused(robot, campaign):
    trained, _, held, _, estimate = campaign
    both = dynamic_regression(robot, [trained, held], rows=ROWS)
    chi = standard_parameters(robot, estimate)
    baselines = set_baselines(robot, [trained, held], chi=chi, regression=both, decimate=ROWS.decimate)
    for training in (False, True):
        with pytest.raises(ValueError, match="fitted to"):
            validate(both, estimate, baselines=baselines, trained_on=["fit"], training=training)


def test_power_is_not_torque(robot, campaign):
    _, _, held, regression, estimate = campaign
    baselines = beside(robot, held, regression, estimate)
    with pytest.raises(ValueError, match=r"the regression is of power, but validation is of joint torques"):
        validate(power_regression(robot, [held]), estimate, baselines=baselines, trained_on=["fit"])


def test_full_model_predicts_what_the_base_predicts(robot, campaign):
    _, _, held, regression, estimate = campaign
    chi = standard_parameters(robot, estimate)
    rows = predict(robot, [held], chi=chi, regression=regression, decimate=ROWS.decimate)
    np.testing.assert_allclose(rows, estimated_torques(regression, estimate), atol=1e-8)
    result = validate(regression, rows, baselines=beside(robot, held, regression, estimate), trained_on=["fit"])
    assert result.model.relative_total == pytest.approx(torque_errors(regression, rows).relative_total)


def test_baselines_follow_rows_and_decimation(robot, campaign):
    _, _, held, regression, estimate = campaign
    chi = standard_parameters(robot, estimate)
    baselines = beside(robot, held, regression, estimate)
    gravity = rigid_torque(robot, posture(held.motion.q), chi)
    known = inverse_dynamics(robot, held.motion)
    for row in (0, 100, len(regression) - 1):
        k, j = 3 * regression.sample[row], regression.joint[row]
        assert baselines.gravity[row] == gravity[k, j]
        assert baselines.prior[row] == known[k, j]
        assert baselines.velocity[row] == held.motion.dq[k, j]


def test_wrong_decimation_or_runs_are_refused(robot, campaign):
    trained, _, held, regression, estimate = campaign
    chi = standard_parameters(robot, estimate)
    for decimate in (None, lambda x: x[::4]):
        with pytest.raises(ValueError, match=r"give the decimation that the regression was set up with"):
            set_baselines(robot, [held], chi=chi, regression=regression, decimate=decimate)
    with pytest.raises(ValueError, match=r"runs are fit, but the regression is of other"):
        predict(robot, [trained], chi=chi, regression=regression, decimate=ROWS.decimate)


def test_essential_parameters_count_the_others_as_zero(campaign):
    _, training, _, regression, _ = campaign
    kept = np.ones(len(training.names), dtype=bool)
    kept[3] = False
    part = wls(select(compress(training), kept))
    expected = regression.W[:, kept] @ part.values
    np.testing.assert_allclose(estimated_torques(regression, part), expected, atol=1e-9)


def test_parameters_of_another_regression_are_refused(robot, campaign):
    _, _, _, regression, estimate = campaign
    names = ["other"] * len(regression.names)
    renamed = combine(regression, np.eye(len(names)), names, names)
    with pytest.raises(ValueError, match=r"the regression has no columns for"):
        estimated_torques(renamed, estimate)


def test_other_parameters_predict_the_same_torques(campaign):
    """W' = W T⁻¹ and β' = T β, of a T that is neither symmetric nor triangular."""
    _, _, _, regression, estimate = campaign
    T = np.eye(len(regression.names)) + 0.1 * np.random.default_rng(3).normal(size=(len(regression.names),) * 2)
    other = combine(regression, T, [f"b{k}" for k in range(len(T))], ["1"] * len(T))
    np.testing.assert_allclose(other.W @ (T @ estimate.values), regression.W @ estimate.values, rtol=1e-9, atol=1e-9)
    assert other.names[:2] == ("b0", "b1")
    assert set(other.units) == {"1"}


def test_velocity_table_shows_missing_friction(robot, campaign):
    """Coulomb friction left out of the prediction stands in the table: residuals change sign with velocity."""
    _, _, held, regression, _ = campaign
    chi = 1.2 * prior(robot)
    from excitor.robots.parameters import layout

    column = layout(robot).index("Fc2")
    size, chi[column] = chi[column], 0.0
    rows = predict(robot, [held], chi=chi, regression=regression, decimate=ROWS.decimate)
    baselines = set_baselines(robot, [held], chi=chi, regression=regression, decimate=ROWS.decimate)
    table = validate(regression, rows, baselines=baselines, trained_on=["fit"]).by_velocity[1]
    assert table.joint == "j2"
    assert table.n_rows.sum() == np.count_nonzero(regression.joint == 1)
    np.testing.assert_allclose(table.mean, size * np.sign(table.velocity), atol=0.25 * size)
    assert (np.diff(table.velocity) > 0.0).all()


def test_whiteness_comes_with_it(robot, campaign):
    _, _, held, regression, estimate = campaign
    result = validate(regression, estimate, baselines=beside(robot, held, regression, estimate), trained_on=["fit"])
    assert [entry.joint for entry in result.whiteness] == list(robot.joint_names)
    shifted = estimated_torques(regression, estimate) + np.sin(0.05 * regression.sample)
    coloured = validate(regression, shifted, baselines=beside(robot, held, regression, estimate), trained_on=["fit"])
    assert not coloured.whiteness[3].white


def test_joints_without_torque_do_not_divide_by_zero(campaign):
    _, _, _, regression, _ = campaign
    silent = replace(regression, y=np.where(regression.joint == 2, 0.0, regression.y))
    errors = torque_errors(silent, silent.y + 1.0)
    assert errors.relative[2] == np.inf
    assert np.isfinite(np.delete(errors.relative, 2)).all()


@pytest.mark.skipif(not (DATA / "qrc350").is_dir(), reason=f"no real measurements in {DATA}")
def test_published_figure_of_a_real_robot():
    """Fitted to trajectory A, compared with C: the paper's mean of the six errors is 14.915 %."""
    from scipy.io import loadmat

    robot = load("qrc350")
    runs = []
    for name in ("trajectory_a", "trajectory_c"):
        data = loadmat(DATA / "qrc350" / f"{name}.mat", squeeze_me=True, struct_as_record=False)
        motion = Motion(*(data[key].average_rect for key in ("q_meas", "dq_meas", "ddq_meas")))
        tau = data["tau_meas"]
        runs.append(Samples(name, motion, tau.average, 500.0, tau.variance))
    estimate = wls_measured(dynamic_regression(robot, runs[:1]), 50)
    regression = dynamic_regression(robot, runs[1:])
    baselines = set_baselines(robot, runs[1:], chi=standard_parameters(robot, estimate), regression=regression)
    result = validate(regression, estimate, baselines=baselines, trained_on=["trajectory_a"])
    printed = [15.22, 13.73, 17.44, 16.31, 14.26, 12.52]
    np.testing.assert_allclose(100.0 * result.model.mean_absolute, printed, atol=0.0051)
    assert 100.0 * result.model.mean_absolute_mean == pytest.approx(14.915, abs=5e-4)
    assert not any(entry.white for entry in result.whiteness)
