"""Long logs are read in parts: parameters as of a whole log, faults by their row, memory that does not grow."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from excitor.experiments import identification, logs
from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify
from excitor.identify.intervals import segment_intervals
from excitor.identify.logs import arrays, long, opened
from excitor.identify.logs.read import read_log
from excitor.robots.base import base_parameters
from excitor.robots.errors import InvalidLog
from tests.campaigns import CAMPAIGN, true_robot, write_campaign

PLAIN = CAMPAIGN.split("[processing]")[0] + '[identify]\nconsistent = false\nfriction = "as stated"\n'
SECONDS = 40.0


@pytest.fixture
def short(monkeypatch):
    """Take logs of 3000 rows for long ones."""
    for module, name, value in (
        (long, "LONG", 3000), (long, "ROWS", 2500), (logs, "ROWS", 2500), (identification, "ROWS", 2500),
        (logs, "SAMPLED", 3000), (identification, "SEGMENTS", 16),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def written(folder, form="csv"):
    folder.mkdir(exist_ok=True)
    write_campaign(folder, SECONDS, PLAIN.replace(".csv", f".{form}"))
    for path in (folder / "logs").glob("*.csv"):
        table = pd.read_csv(path)
        arrays = {name: table[name].to_numpy() for name in table}
        if form == "npz":
            np.savez(path.with_suffix(".npz"), **arrays)
        elif form == "zip":
            with path.with_suffix(".zip").open("wb") as file:
                np.savez_compressed(file, **arrays)
        elif form == "mat":
            write_hdf5(path.with_suffix(".mat"), arrays)
        elif form == "parquet":
            table.to_parquet(path.with_suffix(".parquet"), row_group_size=1700)
    return folder


def write_hdf5(path, arrays):
    """Write columns as MATLAB 7.3 does: (1, n_samples), in chunks, and a number."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, x in arrays.items():
            file.create_dataset(name, data=x[None, :], chunks=(1, min(len(x), 50_000)), compression="gzip")
        file["rate"] = np.array([[200.0]])
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return identify(open_campaign(written(tmp_path_factory.mktemp("whole") / "csv")))


def test_parameters_are_those_of_all_rows(tmp_path, short, whole):
    """A whole log and one in parts differ by the band that is chosen, within a part of the intervals."""
    found = identify(open_campaign(written(tmp_path / "a")))
    assert found.estimate.names == whole.estimate.names
    assert found.estimate.n_rows > 0.9 * 8000 * 3 / found.campaign.content.processing.average_samples * 0.6
    apart = np.abs(found.estimate.values - whole.estimate.values) / whole.intervals.sigma
    assert apart.max() < 1.5
    width = (found.intervals.high - found.intervals.low) / (whole.intervals.high - whole.intervals.low)
    assert 0.5 < np.median(width) < 2.5
    robot = true_robot()
    true = base_parameters(robot).values(robot.chi)
    assert np.mean((found.intervals.low <= true) & (true <= found.intervals.high)) > 0.85
    (note,) = [finding for finding in found.findings if finding.what == "long log"]
    assert "parameters and intervals are those of all rows" in note.sentence
    assert not any("stretch" in finding.sentence for finding in found.findings if finding.what == "repetitions")


@pytest.mark.parametrize("form", ["npz", "zip", "mat", "parquet"])
def test_parts_are_rows_of_the_whole(tmp_path, short, form):
    """Compressed archives and MATLAB 7.3 too; rows are those that a whole table of text has."""
    folder = written(tmp_path / form, form)
    declared = open_campaign(folder).content.log
    csv = read_log(folder / "logs" / "first.csv", declared)
    log = long.open_long(folder / "logs" / f"first.{form}", declared, ())
    assert log.n_rows == len(csv)
    part = long.read_rows(log, 4000, 2000)
    assert part.skipped_s == pytest.approx(20.0)
    for mine, theirs in zip(part.signals, csv.signals, strict=True):
        np.testing.assert_allclose(mine.values, theirs.values[4000:6000], rtol=1e-9)


def test_lines_above_the_headings_are_no_rows(tmp_path, short):
    folder = written(tmp_path / "a")
    declared = open_campaign(folder).content.log
    path = folder / "logs" / "first.csv"
    plain = long.read_rows(long.open_long(path, declared, ()), 4000, 2000)
    path.write_text("".join(f"# key {k}: value\n" for k in range(20)) + path.read_text())
    part = long.read_rows(long.open_long(path, declared, ()), 4000, 2000)
    np.testing.assert_array_equal(part.signals[0].values, plain.signals[0].values)
    assert part.skipped_s == plain.skipped_s


def test_what_is_not_read_in_parts_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    """MATLAB before 7.3, its structs too; and text and archives of runs with a plan, which are read as a whole."""
    monkeypatch.setattr(opened, "LARGEST_TEXT", 1000)
    path = tmp_path / "run.csv"
    path.write_text("t,q\n" + "0.0,1.0\n" * 1000)
    with pytest.raises(
        InvalidLog, match=r"more than the 1e-06 GB that are read as a whole; cut the log into runs, or re"
    ):
        opened.read_lines(path)
    monkeypatch.setattr(arrays, "WHOLE", 5000)
    rng = np.random.default_rng(0)
    for k, content in enumerate(({"q": rng.normal(size=6000)}, {"run": {"q": rng.normal(size=6000)}})):
        path = tmp_path / f"{k}.mat"
        savemat(path, content, do_compression=True)
        with pytest.raises(arrays.Unreadable, match="save it with -v7.3, or as Parquet, which are read in parts"):
            arrays.read_matlab(str(path))


@pytest.mark.parametrize("form", ["npz", pytest.param("parquet", marks=pytest.mark.slow)])
def test_formats_give_one_model(tmp_path, short, form):
    one, other = (identify(open_campaign(written(tmp_path / name, name))) for name in ("csv", form))
    assert [entry.log.form for entry in other.campaign.long] == [form] * 2
    np.testing.assert_allclose(other.estimate.values, one.estimate.values, rtol=1e-9)


def test_the_part_that_counts_and_gaps_are_kept(tmp_path, short):
    folder = written(tmp_path / "a")
    text = (folder / "campaign.toml").read_text()
    path = folder / "logs" / "first.csv"
    (folder / "campaign.toml").write_text(text.replace('first.csv"', 'first.csv"\nfrom_s = 3.0\nto_s = 33.0', 1))
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *rows[:3900], *rows[4200:]]) + "\n")  # 1.5 s from 19.5 s on are lost
    campaign = logs.settle(open_campaign(folder))[0]
    samples = list(logs.all_samples(campaign, campaign.long[0]))
    spans = [next(step.settings for step in one.steps if step.name == "cut") for one in samples]
    assert spans[0]["from_s"] == pytest.approx(3.0, abs=0.01)
    assert spans[-1]["to_s"] == pytest.approx(33.0, abs=0.01)
    assert all(span["to_s"] <= 19.5 or span["from_s"] >= 21.0 for span in spans)
    edges = 2 * 50 / 200.0  # s that the filter spoils on both sides of the gap
    assert sum(len(one) for one in samples) / 200.0 == pytest.approx(30.0 - 1.5 - edges, abs=0.1)
    begins, ends = (np.array([span[key] for span in spans]) for key in ("from_s", "to_s"))
    assert ((begins[1:] > ends[:-1]) & ((begins[1:] - ends[:-1] < 0.006) | (begins[1:] > 20.0))).all(), "each row once"


def test_a_fault_is_named_with_its_row_of_the_file(tmp_path, short):
    folder = written(tmp_path / "a")
    path = folder / "logs" / "first.csv"
    lines = path.read_text().splitlines()
    lines[5555] = lines[5555].replace(",", ",oops,", 1).rsplit(",", 1)[0]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidLog, match=r"first\.csv, row 5556: column 2 is 'oops'"):
        identify(open_campaign(folder))


def test_intervals_of_segments_are_those_of_independent_errors(whole):
    """White errors in segments: the jackknife's deviations agree with those of least squares."""
    from excitor.identify.estimate import compress, wls
    from excitor.identify.regression import pick_rows, segments

    rng, regression = np.random.default_rng(0), whole.known
    ratios = []
    for _ in range(5):
        noisy = regression.W @ whole.estimate.values + 0.5 * rng.normal(size=len(regression))
        from dataclasses import replace

        equations = replace(regression, y=noisy)
        place = segments(equations, 64)
        estimate = wls(compress(equations))
        parts = [compress(pick_rows(equations, place == k)) for k in range(64)]
        ratios.append(np.median(segment_intervals(parts, estimate).sigma / estimate.sigma))
    assert 0.95 < np.mean(ratios) < 1.35  # each is the widest of three


MEASURED = """
import re, sys
from pathlib import Path
from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify
identify(open_campaign(Path(sys.argv[1])))
status = Path("/proc/self/status").read_text()  # getrusage counts what the parent needed, too
print(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["npz", "zip", "mat", "parquet", "csv"])
def test_memory_does_not_grow_with_rows(tmp_path, form):
    peaks = []
    for million in (1, 2):
        folder = tmp_path / str(million)
        written(folder)
        table = pd.read_csv(folder / "logs" / "first.csv").to_numpy()
        table = np.tile(table, (125 * million, 1))
        table[:, 0] = np.arange(len(table)) / 200.0
        table[:, 1:4] += 1e-5 * np.arange(len(table))[:, None] / len(table)  # as another repetition
        frame = pd.DataFrame(table, columns=["t", "q1", "q2", "q3", "c1", "c2", "c3"])
        path = folder / "logs" / f"first.{form}"
        if form == "csv":
            np.savetxt(path, table, "%.6f", ",", header=",".join(frame.columns), comments="")
        elif form == "npz":
            np.savez(path, **{name: frame[name].to_numpy() for name in frame})
        elif form == "zip":
            with path.open("wb") as file:
                np.savez_compressed(file, **{name: frame[name].to_numpy() for name in frame})
        elif form == "mat":
            write_hdf5(path, {name: frame[name].to_numpy() for name in frame})
        else:
            frame.to_parquet(path)
        text = (folder / "campaign.toml").read_text()
        (folder / "campaign.toml").write_text(text.replace("first.csv", f"first.{form}"))
        done = subprocess.run([sys.executable, "-c", MEASURED, str(folder)], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
        path.unlink()
    assert peaks[1] < peaks[0] + 40_000  # kB
    assert peaks[1] < 600_000
