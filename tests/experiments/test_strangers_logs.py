"""Logs of arms that other simulators integrate, identified by `[log]` and `[[run]]` alone."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from benchmarks.logs import (
    DATA,
    Sensors,
    format_difference,
    mujoco_arm,
    pinocchio_arm,
    random_arm,
    simulate_arm,
    truth,
    write_campaign,
    write_public,
)
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import UnusableData, identify
from excitor.experiments.logs import band_findings, read_run, settle
from excitor.robots.errors import InvalidLog

PLAIN = "[identify]\nconsistent = false\n"


@pytest.fixture(scope="module")
def arm():
    return random_arm(0)


@pytest.fixture(scope="module")
def motions(arm):
    return simulate_arm(arm, 0)


@pytest.fixture
def folder(tmp_path, arm, motions):
    return write_campaign(tmp_path, arm, motions, extra=PLAIN)


def rewritten(folder, change):
    for role in ("identify", "validate"):
        change(pd.read_csv(folder / f"{role}.csv")).to_csv(folder / f"{role}.csv", index=False)


def state(folder, text):
    path = folder / "campaign.toml"
    path.write_text(path.read_text() + text)
    return open_campaign(folder)


def test_two_simulators_agree(arm):
    """The same servo on the same arm; they differ by their integrators and friction about standstill."""
    ours, theirs = (simulate(arm, 0, 4.0) for simulate in (mujoco_arm, pinocchio_arm))
    np.testing.assert_allclose(ours[1], theirs[1], atol=0.01)


def test_nothing_stated_is_right(folder, arm):
    result = CliRunner().invoke(app, ["identify", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    model = json.loads(result.stdout)
    assert model["held_out"]["figures"]["held_out_relative_error"] < 0.03, "1 % noise, drift and ripple of 0.5 %"
    chosen = next(step for step in model["processing"] if step["step"] == "choose the band")
    assert 10.0 <= chosen["chosen_hz"] <= 40.0
    values = np.array([entry["value"] for entry in model["parameters"]])
    assert np.linalg.norm(values - truth(folder, arm)) < 0.01 * np.linalg.norm(truth(folder, arm))


@pytest.mark.parametrize(
    ("times", "cause"),
    [
        (4.0, "too wide: noise"),
        (2.0, ""),
        pytest.param(0.25, "too narrow: motion", marks=pytest.mark.slow),
        pytest.param(0.5, "", marks=pytest.mark.slow),
    ],
)
def test_a_band_that_the_data_contradict_is_refused_with_its_cause(folder, times, cause):
    best = settle(open_campaign(folder))[0].band.hz
    campaign = state(folder, f"[processing]\nlowpass_hz = {times * best}\n")
    if not cause:
        assert band_findings(settle(campaign)[0]) == ()
        return
    with pytest.raises(UnusableData, match=rf"{cause}.*write lowpass_hz = .* or leave the line out"):
        identify(campaign)


@pytest.mark.slow
def test_measured_velocities_are_used_where_positions_are_coarse(tmp_path, arm, motions):
    sensors = Sensors(quantum=3e-3, velocities=True)
    campaign = settle(open_campaign(write_campaign(tmp_path, arm, motions, 0, sensors, PLAIN)))[0]
    assert campaign.band.source == "velocities"
    assert min(one.error for one in campaign.band.candidates if one.source == "positions") > 1.01
    campaign, logs = settle(open_campaign(tmp_path))
    steps = read_run(campaign, campaign.content.run[0], logs["identify"]).steps
    assert any(step.settings.get("of") == "measured velocities" for step in steps)
    fine = write_campaign(tmp_path, arm, motions, 0, Sensors(velocities=True), PLAIN)
    assert settle(open_campaign(fine))[0].band.source == "positions"


@pytest.mark.slow
def test_all_formats_give_one_model():
    assert format_difference() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "npz", "parquet", "mat"])
def test_units_are_proposed_not_guessed(folder, form):
    def write(factor, angle):
        for role in ("identify", "validate"):
            table = pd.read_csv(folder / f"{role}.csv")
            arrays = {name: table[name].to_numpy() for name in table}
            arrays["t"] = arrays["t"] * factor
            arrays |= {name: angle * values for name, values in arrays.items() if name.startswith("q_")}
            path = folder / f"in.{form}"
            if form == "npz":
                np.savez(path, **arrays)
            elif form == "mat":
                savemat(str(path), arrays)
            elif form == "parquet":
                pd.DataFrame(arrays).to_parquet(path)
            else:
                pd.DataFrame(arrays).to_csv(path, index=False)
            return

    text = (folder / "campaign.toml").read_text()
    (folder / "campaign.toml").write_text(text.replace("identify.csv", f"in.{form}"))
    for factor, angle, words in (
        (1e3, 1.0, r'look like ms; add this line to \[log\]: time_unit = "ms"'),
        (1e6, 1.0, r'look like us; add this line to \[log\]: time_unit = "us"'),
        (1.0, 180.0 / np.pi, r'look like degrees; in \[\[log.signals\]\] .* write unit = "deg"'),
    ):
        write(factor, angle)
        with pytest.raises(InvalidLog, match=words):
            settle(open_campaign(folder))
    write(1e3, 180.0 / np.pi)
    text = (folder / "campaign.toml").read_text().replace('time = "t"', 'time = "t"\ntime_unit = "ms"', 1)
    run = text.rindex("[[run]]")
    (folder / "campaign.toml").write_text(text[:run].replace('unit = "rad"', 'unit = "deg"', 1) + PLAIN)
    np.testing.assert_allclose(settle(open_campaign(folder))[0].band.hz, 20.0, rtol=0.5)


@pytest.mark.slow
def test_a_run_is_cut_at_its_gaps(folder):
    whole = identify(open_campaign(folder))
    rewritten(folder, lambda table: table[(table.t < 4.0) | (table.t > 4.7)])
    cut = identify(open_campaign(folder))
    assert [run.name for run in cut.campaign.content.run] == [f"{r} (part {k})" for r in whole.samples for k in (1, 2)]
    span = next(step.settings for step in cut.samples["identify (part 2)"].steps if step.name == "cut")
    assert span["from_s"] == pytest.approx(4.8, abs=0.01), "50 samples after the gap"
    assert cut.held_out.model.relative_total < 1.2 * whole.held_out.model.relative_total
    state(folder, "")
    text = (folder / "campaign.toml").read_text()
    (folder / "campaign.toml").write_text(text.replace('role = "identify"', 'role = "identify"\nperiod_s = 10.0'))
    with pytest.raises(InvalidLog, match=r"rows are missing from 3.998 to 4.702 s; state from_s and to_s between them"):
        identify(open_campaign(folder))


@pytest.mark.slow
def test_lost_rows_and_a_spike_hardly_change_the_model(folder):
    rng = np.random.default_rng(0)
    whole = identify(open_campaign(folder))

    def damaged(table):
        table.loc[5000, "tau_j2"] = 2530.0
        kept = np.ones(len(table), dtype=bool)
        for begin in rng.integers(100, len(table) - 100, len(table) // 100):
            kept[begin : begin + rng.integers(1, 9)] = False
        return table[kept].assign(junk="#N/A")

    rewritten(folder, damaged)
    found = identify(open_campaign(folder))
    assert found.held_out.model.relative_total < 1.3 * whole.held_out.model.relative_total
    notes = next(step.settings["notes"] for step in found.steps if step.name == "read")
    assert "tau_j2 is 2530 at row" in notes
    assert "samples are missing" in notes


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "xmate3").is_dir(), reason="../shared/data/xmate3 is not there")
def test_a_public_recording_by_default(tmp_path):
    found = identify(open_campaign(write_public(tmp_path, "xmate3")))
    assert found.held_out.model.relative_total < 0.05
