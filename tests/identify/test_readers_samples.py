"""Real recordings are read to the right values, rates and units, as a second, independent reading finds them."""

import csv
from pathlib import Path

import numpy as np
import pytest

from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import read_raw, sniff
from excitor.identify.logs.read import read_log, recording_log
from excitor.robots.errors import InvalidLog

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "log-samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no real log samples in {SAMPLES}")
SCOPES = ["twincat_scope_default.csv", "twincat_scope_decimal_comma.csv"]


def cells(name):
    """The file as nothing but cells: rows of text, by Python's own reader."""
    with (SAMPLES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def number(text):
    return float(text.replace(",", "."))


@pytest.mark.parametrize("name", SCOPES)
def test_every_channel_of_a_scope_export(name):
    recording = read_raw(SAMPLES / name)
    table = cells(name)
    start = next(k for k, row in enumerate(table) if row[:1] == ["Name"] and len(row) > 2)
    names, sample_time = table[start], next(row for row in table if row[:1] == ["SampleTime[ms]"])
    body = [row for row in table[start + 14 :] if row and row[0][:1] in (*"-0123456789 ",)]
    time_column = 0
    checked = 0
    for k, channel_name in enumerate(names):
        if sample_time[k] == "SampleTime[ms]":
            time_column = k
            continue
        rows = [row for row in body if len(row) > k and row[k].strip()]
        channel = recording.channel(channel_name)
        np.testing.assert_array_equal(channel.values, [number(row[k]) for row in rows])
        np.testing.assert_allclose(channel.t, [1e-3 * number(row[time_column]) for row in rows], rtol=0, atol=1e-15)
        np.testing.assert_allclose(np.diff(channel.t), 1e-3 * number(sample_time[k]), rtol=1e-9)
        checked += 1
    assert checked == len(recording.channels) == 21
    assert sniff(SAMPLES / name)[0] == "twincat_scope"


@pytest.mark.parametrize("name", SCOPES)
def test_a_scope_says_what_it_does_not_say(name):
    """One of the two exports has the scales of its headings in its numbers, the other has not: so no unit is taken."""
    recording = read_raw(SAMPLES / name)
    assert "read with a decimal comma" in recording.notes
    assert recording.channel("func_units_scaled").unit is None
    assert recording.channel("func_units_unscaled").unit == "V"
    assert any("func_units_scaled has Unit ScaleFactor -10" in note for note in recording.notes)
    assert {channel.side for channel in recording.channels} == {"unknown"}


def test_the_two_exports_are_one_recording():
    default, comma = (read_raw(SAMPLES / name) for name in SCOPES)
    plain = [c for c in default.channels if not c.name.startswith("func_scaled") and c.name != "func_units_scaled"]
    for channel in plain:
        np.testing.assert_array_equal(channel.values, comma.channel(channel.name).values)


def test_rates_of_a_scope_come_together():
    """A fast counter and slow ones, on a common grid at the fast rate: they count the same milliseconds."""
    declared = ColumnMap.model_validate(
        {
            "signals": [
                {"kind": "position", "side": "joint", "unit": "rad", "columns": ["var_REAL64", "var_INT32"]},
                {"kind": "current", "side": "motor", "unit": "A", "columns": ["func_OS", "func_freesample"]},
            ]
        }
    )
    log = recording_log(read_raw(SAMPLES / SCOPES[0]), declared)
    assert log.sample_rate_hz == pytest.approx(5000.0)
    t = log.start_s + np.arange(len(log.signals[0].values)) / 5000.0
    np.testing.assert_allclose(log.signals[0].values[:, 0], 1e3 * t, atol=1e-6)
    np.testing.assert_allclose(log.signals[1].values[:, 0], 1e3 * t, atol=1e-6)
    assert any("1000 Hz and 200 Hz and 5000 Hz, resampled to 5000 Hz" in note for note in log.notes)
    assert log.raw.channel("func_freesample").t[0] == pytest.approx(-0.003)


def test_the_fanuc_recording():
    recording = read_raw(SAMPLES / "fanuc_joint_log.csv")
    rows = list(csv.reader((SAMPLES / "fanuc_joint_log.csv").read_text().splitlines()))
    table = np.array([[float(cell) for cell in row] for row in rows[1:]])
    assert sniff(SAMPLES / "fanuc_joint_log.csv")[0] == "fanuc_csv"
    for k in range(6):
        channel = recording.channel(f"J{k + 1}")
        np.testing.assert_array_equal(channel.values, table[:, k + 1])
        np.testing.assert_allclose(channel.t, table[:, 0] / 1000.0)
        assert (channel.kind, channel.unit, channel.role, channel.joint) == ("position", "deg", "measured", k)
    assert any("J2" in note for note in recording.notes)


def test_the_fanuc_recording_on_an_even_grid():
    """Seven samples were dropped: time stamps tell where, a spline bridges them."""
    log = read_log(SAMPLES / "fanuc_joint_log.csv", ColumnMap.model_validate({}))
    assert log.sample_rate_hz == pytest.approx(125.0)
    assert any("7 samples are missing, up to 1 in a row" in note for note in log.notes)
    positions = log.signal("position").values
    assert len(positions) == 118
    raw = log.raw.channel("J2")
    on_grid = np.round((raw.t - log.start_s) * 125.0).astype(int)
    np.testing.assert_allclose(np.degrees(positions[on_grid, 1]), raw.values, atol=1e-9)
    assert log.signal("torque", "current") is None


def test_a_fanuc_recording_with_coupled_joints():
    J23 = np.eye(6)
    J23[2, 1] = 1.0
    entry = {"kind": "position", "columns": ["J"], "scale": J23.tolist()}
    plain = read_log(SAMPLES / "fanuc_joint_log.csv", ColumnMap.model_validate({})).signal("position").values
    log = read_log(SAMPLES / "fanuc_joint_log.csv", ColumnMap.model_validate({"signals": [entry]}))
    np.testing.assert_allclose(log.signal("position").values[:, 2], plain[:, 2] + plain[:, 1], atol=1e-12)


def test_a_scope_asks_for_what_it_does_not_define():
    with pytest.raises(InvalidLog, match=r"does not say what its channels are; declare them in \[\[log.signals\]\]"):
        read_log(SAMPLES / SCOPES[0], ColumnMap.model_validate({}))
