"""The drive-gain study: its virtual robots, its bars, and what it says of models that fail."""

import json
from dataclasses import replace

import numpy as np
import pytest

from excitor.experiments import studies
from excitor.experiments.figures import to_json
from excitor.experiments.studies import parallel
from excitor.experiments.studies.parallel import ALL, ESSENTIAL, OURS, PAPER, PLAIN
from excitor.identify.drive_gains import drive_gains
from excitor.robots.closed_chain import forward_geometry


def test_tools_stay_in_their_box_and_come_back():
    setting = parallel.SETTINGS["delta"]
    robot = parallel.load(setting.robot)
    motion = parallel.figure(robot, setting, np.random.default_rng(0))
    x = forward_geometry(robot.mechanism, motion.q)
    low, high = x.min(axis=0), x.max(axis=0)
    assert (high + low) / 2.0 == pytest.approx(setting.center, abs=1e-9)
    assert (high - low) / 2.0 == pytest.approx(setting.reach, abs=1e-9)
    step = 1.0 / parallel.RATE
    numeric = (np.roll(motion.q, -1, axis=0) - np.roll(motion.q, 1, axis=0)) / (2.0 * step)
    assert np.abs(numeric - motion.dq).max() < 1e-3 * np.abs(motion.dq).max()


def test_five_bar_gains_are_right_and_least_squares_is_low():
    draws = parallel.compare("five_bar", range(3))
    assert parallel.bias(draws, (ALL, OURS)) < 0.2  # the bar; three draws scatter by 0.05
    assert np.mean([draw.gain_errors[ALL, PLAIN] for draw in draws], axis=0).max() < -0.05
    assert all(draw.answered == 2 for draw in draws)
    assert all(draw.demanded == 0 for draw in draws)
    hurt = max(parallel.bias([draw], (ESSENTIAL, OURS)) for draw in draws)
    assert hurt > 0.3  # elimination makes a good model's gains worse
    rows = parallel.table(draws)
    json.dumps(rows)
    assert rows["verdict"]["gains answered"] == "6 of 6"


def test_noise_drawn_again_differs_only_in_signals():
    setting = parallel.SETTINGS["five_bar"]
    _, system = parallel.virtual_equations(replace(setting, signal=0.0), 0)
    first, second = (parallel.noisy_again(system, setting, np.random.default_rng(k)) for k in (0, 1))
    difference = first.V - system.V
    assert np.array_equal(difference != 0.0, system.V != 0.0)
    assert not np.array_equal(first.V, second.V)
    filtered = np.std(difference[difference != 0.0])
    assert 0.1 * setting.signal < filtered < 0.3 * setting.signal  # 20 of 500 Hz remain: √(20/500) = 0.2
    _, direct = parallel.virtual_equations(setting, 0)
    assert np.std((direct.V - system.V)[direct.V != 0.0]) == pytest.approx(filtered, rel=0.1)


@pytest.mark.slow
def test_full_legs_fail_with_all_columns_noisy_and_the_gap_states_it():
    draws = parallel.compare("orthoglide_full", range(3))
    for draw in draws:
        assert draw.gaps[ALL, PAPER] < 5.0
        assert np.abs(draw.gain_errors[ALL, PAPER]).max() > 10.0
        assert draw.gaps[ESSENTIAL, PAPER] > 5.0
        assert draw.parameter_errors[ESSENTIAL, OURS] < 3.0
        assert draw.afterwards < 3.0
        assert draw.answered == 3
    assert parallel.bias(draws, (ESSENTIAL, OURS)) < 2.5
    assert parallel.bias(draws, (ALL, OURS)) < 2.5


def test_parameters_leave_only_where_the_gap_demands_it():
    """Full legs and signals noisier than the study's: the gap falls below its limit, and elimination cures it."""
    loud = replace(parallel.SETTINGS["orthoglide_full"], signal=0.2)
    robot, system = parallel.virtual_equations(loud, 2)
    result = drive_gains(system)
    assert result.gap_of_all < 5.0 < result.fit.gap
    assert len(result.removed) > 20
    assert result.left_out == ()
    for gain, true in zip(result.gains, parallel.truth(robot).gains, strict=True):
        assert gain.answered
        assert gain.values[0] == pytest.approx(true, rel=0.025)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    gains, parameters = parallel.coverage("five_bar", 100, 10)
    assert 90.0 <= gains <= 99.0
    assert 90.0 <= parameters <= 99.0


@pytest.mark.slow
def test_serial_robot_answers_for_joints_2_and_3_and_refuses_the_wrist():
    outcome = parallel.realise(0)
    assert {"j2", "j3"} <= set(outcome.answered)
    assert max(abs(error) for error in outcome.answered.values()) < 1.5
    wrist = outcome.result.gains[5]
    assert not wrist.answered
    assert "singular-value gap" in wrist.reason
    assert np.abs(outcome.errors[PAPER]).max() > 2.0  # all columns noisy, nothing left out


@pytest.mark.slow
def test_the_study_reports_its_figures_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "SEEDS", 2)
    monkeypatch.setattr(parallel, "DRAWS", 10)
    module = studies.find("parallel-drive-gains")
    assert "weighed body" in studies.title("parallel-drive-gains")
    report = module.run(None, tmp_path)
    names = {figure.name for figure in report.figures}
    for robot in ("five_bar", "orthoglide_rod", "orthoglide_full", "orthoglide_rod_least_squares", "delta", "tx40"):
        assert f"parallel.{robot}.gain_error_percent" in names
    assert "parallel.coverage_percent" in names
    assert all(np.isfinite(figure.ours) for figure in report.figures)
    json.loads(to_json(report))
    assert {path.name for path in tmp_path.iterdir()} == {"gain_errors.png", "singular_value_gap.png", "tx40_gains.png"}
