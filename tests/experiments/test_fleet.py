import os
import shutil

import numpy as np
import pytest

from benchmarks.scale import _content, killed, make_tree
from excitor.experiments.fleet.arms import find_arms
from excitor.experiments.fleet.dataset import PARTS, locked, read_rows, row, write_rows
from excitor.experiments.fleet.fleet import evaluate, fleet
from excitor.experiments.fleet.type_model import FALSE_ALARMS, ArmValues, fit_type
from excitor.experiments.model import read_model
from excitor.robots.errors import ExcitorError


def arms(n=400, p=12, outliers=8, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p))
    S = 0.02 * (A @ A.T / p + np.eye(p))
    Y = rng.normal(size=(n, p)) + rng.multivariate_normal(np.zeros(p), S, n)
    which = rng.integers(p, size=outliers)
    Y[np.arange(outliers), which] += 7.0
    Y[outliers] = 50.0 * rng.normal(size=p)
    return ArmValues(Y, np.broadcast_to(S, (n, p, p))), which


def test_outliers_are_found_and_named_without_false_alarms():
    values, which = arms()
    model, scores = fit_type(values)
    found = scores.beyond.any(axis=1)
    assert found[:9].all()
    assert [scores.worst(k) for k in range(8)] == which.tolist()
    assert found[9:].sum() <= 1
    np.testing.assert_allclose(np.sqrt(np.diagonal(model.between)), 1.0, rtol=0.15)  # 400 arms know it to 4 %
    assert (model.limits[0] < model.mean).all()


def test_good_arms_fail_at_the_stated_rate():
    rng = np.random.default_rng(3)
    p, rate, failed, total = 6, 0.01, 0, 0
    for n in (30, 200):
        for _ in range(1200 // n):
            values = ArmValues(rng.normal(size=(n, p)), np.full((n, p, p), 0.0))
            failed += int(fit_type(values, rate)[1].beyond.any(axis=1).sum())
            total += n
    assert 0.2 * rate < failed / total < 2.0 * rate  # 24 expected; tests of a parameter are not independent


def made_row(arm, value, **more):
    names = ["Fc3", "ZZ1"]
    numbers = {"values": [value, value / 3.0], "sigma": [0.1, 0.1]}
    known = {"names": names, "units": ["N m", "kg m2"], "regroupings": names, "friction": [True, False]}
    head = {"arm": arm, "robot": "r", "columns": "c", "inputs": f"{arm}{value}", "status": "identified"}
    return row(**{**head, **known, **numbers, "usable": True, "measured": "2026-05-01", **more})


def test_friction_is_compared_at_equal_conditions_only_and_drift_is_found():
    rng = np.random.default_rng(0)
    rows = [made_row(f"a{k}", 5.0 + rng.normal(), warm_up_minutes=20.0) for k in range(20)]
    rows.append(made_row("cold", 60.0, warm_up_minutes=0.0, values=[60.0, 1.6]))
    rows.append(made_row("warm", 61.0, warm_up_minutes=20.0, values=[61.0, 1.6]))
    rows.append(made_row("a3", 9.0, measured="2026-06-01", warm_up_minutes=20.0))
    data, _ = evaluate(rows, FALSE_ALARMS)
    found = {one["arm"]: one for one in data["arms"]}
    assert found["warm"]["verdict"] == "outlier"
    assert found["warm"]["parameter"] == "Fc3"
    assert found["cold"]["verdict"] == "good"
    assert found["a3"]["verdict"] == "drift"
    assert "sigma since 2026-05-01" in found["a3"]["sentences"][0]
    without = [one | {"warm_up_minutes": None} for one in rows]
    assert "friction is not compared" in " ".join(evaluate(without, FALSE_ALARMS)[0]["types"][0]["notes"])


def test_the_dataset_keeps_rows_and_refuses_newer_and_damaged_parts(tmp_path):
    rows = [made_row("b", 1.0), made_row("a", 2.0)]
    path = write_rows(tmp_path, rows)
    assert _content(read_rows(tmp_path)) == _content(sorted(rows, key=lambda one: one["arm"]))
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.replace_schema_metadata({b"excitor.fleet": b"2"}), path)
    with pytest.raises(ExcitorError, match="newer version"):
        read_rows(tmp_path)
    path.write_bytes(b"PAR1")
    with pytest.raises(ExcitorError, match="no part of a fleet"):
        read_rows(tmp_path)


def test_two_runs_at_once_are_refused(tmp_path):
    with locked(tmp_path), pytest.raises(ExcitorError, match="another run"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ExcitorError, match="No space left"):
        write_rows(tmp_path, [made_row("a", 1.0)])
    assert not list((tmp_path / PARTS).glob("*"))


def test_a_table_without_its_columns_is_refused(tmp_path):
    table = tmp_path / "arms.csv"
    table.write_text("unit,log\n1,a.csv\n")
    with pytest.raises(ExcitorError, match="has no column arm; its columns are unit, log, expected are"):
        find_arms(table, tmp_path / "fleet")
    table.write_text("x" * 100_000 + "\n1\n")
    with pytest.raises(ExcitorError, match="its columns are x{40}, expected are"):
        find_arms(table, tmp_path / "fleet")
    table.write_text("arm,log\nx,../a.csv\n")
    with pytest.raises(ExcitorError, match="leaves the folder of the table"):
        find_arms(table, tmp_path / "fleet")


@pytest.mark.slow
def test_a_fleet_from_logs_to_the_page(tmp_path):
    root = make_tree(tmp_path / "line", 9)
    (root / "unit 0008" / "logs" / "first.csv").write_text("t,q1\n0,1\n")
    found = fleet(root, reports=True)
    verdicts = {one["arm"]: one["verdict"] for one in found.data["arms"]}
    assert verdicts.pop("unit 0008") == "refused"
    assert set(verdicts.values()) == {"good"}
    assert "unit%200000/report.html" in found.page.read_text()
    assert read_model(root / "fleet" / "type-rotradi.json").standard is not None
    before = sorted((root / "fleet" / PARTS).iterdir())
    sentences = []
    fleet(root, sentences.append)
    assert "9 arms: 9 as before, 0 looked at anew" in sentences
    assert sorted((root / "fleet" / PARTS).iterdir()) == before


@pytest.mark.slow
def test_a_table_of_logs_is_identified(tmp_path):
    root = make_tree(tmp_path / "line", 2)
    shutil.copy(root / "unit 0000" / "campaign.toml", root)
    lines = [f"{k},unit {k:04}/logs/{name}.csv,{name},21.5" for k in range(2) for name in ("first", "second")]
    (root / "arms.csv").write_text("\n".join(["arm,log,run,temperature_c", *lines]) + "\n")
    found = fleet(root / "arms.csv")
    assert [one["status"] for one in found.rows] == ["identified"] * 2
    assert (root / "fleet" / "arms" / "0" / "model.json").exists()


@pytest.mark.slow
def test_a_killed_fleet_ends_like_an_uninterrupted_one(tmp_path):
    assert killed(make_tree(tmp_path / "line", 12), 3)
