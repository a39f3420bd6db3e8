"""Logs from DataFrames and arrays: what is refused, in which words, and how often values are copied."""

import tracemalloc

import numpy as np
import pytest

import excitor as ex
from excitor.robots.errors import InvalidLog

pd = pytest.importorskip("pandas")
COLUMNS = {"time": "t", "position": ["q1", "q2"], "torque": ["m1", "m2"]}


def table(n=200):
    t = np.arange(n) / 100.0
    return pd.DataFrame({"t": t, "q1": np.sin(t), "q2": np.cos(t), "m1": 2 * t, "m2": 3 * t})


def test_values_units_and_rate():
    columns = {"time": "t", "q": {"columns": ["q1", "q2"], "unit": "deg"}, "tau": ["m1", "m2"]}
    log = ex.Log.from_frame(table(), columns)
    assert log.sample_rate_hz == pytest.approx(100.0)
    assert np.allclose(log.signal("position").values[:, 0], np.radians(table()["q1"]))
    assert np.array_equal(log.to_frame()["torque_2"], table()["m2"])


def changed(change):
    frame = table()
    return change(frame)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda f: f.drop(columns="m2"), "has no column 'm2'; its columns are t, q1, q2, m1"),
        (lambda f: f.assign(m1=["17", *f["m1"].astype(object)[1:-1], "broken"]), "'m1' holds 'broken', expected"),
        (lambda f: f.assign(q2=f["q2"].where(f.index != 17)), r"column 'q2' is nan"),
        (lambda f: f.set_index(np.r_[np.arange(199), 5]), "its index has .*5.* twice"),
        (lambda f: pd.concat([f, f[["m1"]]], axis=1), "has 2 columns 'm1'"),
        (lambda f: f.head(2), "has 2 rows, expected at least 3"),
        (lambda f: f.assign(t=f["t"].where(f.index != 17, 0.0)), "time runs backward"),
    ],
)
def test_wrong_tables_are_refused_with_column_and_row(change, match):
    with pytest.raises(InvalidLog, match=match):
        ex.Log.from_frame(changed(change), COLUMNS)


def test_the_row_is_named():
    with pytest.raises(InvalidLog, match=r"17"):
        ex.Log.from_frame(table().assign(q2=lambda f: f["q2"].where(f.index != 17)), COLUMNS)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({**COLUMNS, "torque": ["m1"]}, "different numbers of joints"),
        ({**COLUMNS, "torques": ["m1"]}, "'torques' is no quantity"),
        ({"position": ["q1"], "torque": ["m1"]}, "has no time"),
        ({**COLUMNS, "torque": {"columns": ["m1", "m2"], "units": "N m"}}, "has the key 'units'"),
        ({**COLUMNS, "torque": {"columns": ["m1", "m2"], "unit": "lbf ft"}}, "'lbf ft' is not known"),
        ({**COLUMNS, "torque": ["m1", "m1"]}, "'m1' is named twice"),
    ],
)
def test_wrong_column_maps_are_refused(columns, match):
    with pytest.raises(InvalidLog, match=match):
        ex.Log.from_frame(table(), columns)


def test_a_million_rows_are_copied_at_most_once():
    names = [f"{kind}{j}" for kind in "qm" for j in range(6)]
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(1_000_000, 12)), columns=names)
    columns = {"position": names[:6], "torque": names[6:]}
    tracemalloc.start()
    log = ex.Log.from_frame(frame, columns, sample_rate_hz=1000.0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = 12 * 8_000_000
    assert held < 1.01 * size
    assert peak < 1.2 * size
    assert len(log) == 1_000_000
