"""Files of the form before runs had one: design.json, manifest.json and the clients' run file are still read."""

import json
from pathlib import Path

import numpy as np
import pytest

from excitor.design.motion import run_data
from excitor.design.programs.clients.run_motion import Run
from excitor.experiments.design_json import parse_design
from excitor.experiments.manifest import InvalidManifest, expected_of, parse_manifest, read_manifest
from excitor.robots.errors import ExcitorError

HERE = Path(__file__).parent / "version_1"  # written by the version that had it, with the motion it evaluated
STRETCHES = ("out", "main", "back")


def motion_of(name):
    return json.loads((HERE / f"{name}_motion.json").read_text())


def agrees(at, told, rounding=1e-12):
    t = np.array(told["t"])[1:-1]  # at the ends of a run without a rest derivatives jump by rounding
    for order in range(3):
        wanted = np.array(told[f"order_{order}"])[1:-1]
        assert np.abs(np.asarray(at(t, order)) - wanted).max() < rounding * max(1.0, np.abs(wanted).max()), order


@pytest.mark.parametrize("name", ["static", "excitation"])
def test_designs_are_still_read(name):
    design = parse_design(HERE)
    run = next(run for run in (*design.runs, *design.slow_runs) if run.name == name)
    agrees(run.motion(design.joints).at, motion_of("design")[name])


@pytest.mark.parametrize("kind", ["series", "moves"])
def test_manifests_are_still_read(kind):
    manifest = read_manifest(HERE / f"{kind}_manifest.json")
    (program,) = manifest.programs
    expected = expected_of(manifest, program.name)
    agrees(expected.run.at, motion_of(kind)["main"])
    assert (expected.run.series is None) == (kind == "moves")
    assert expected.run.repeats()[1] == 2 if kind == "moves" else expected.run.series.periods == 2


@pytest.mark.parametrize("kind", ["series", "moves"])
def test_clients_still_read_run_files(kind):
    run = Run(json.loads((HERE / f"{kind}_run.json").read_text()))
    for stretch in STRETCHES:
        told = motion_of(kind)[stretch]
        assert run.duration(stretch) == pytest.approx(told["t"][-1])
        agrees(lambda t, order, stretch=stretch: [run.at(stretch, float(x), order) for x in t], told, 1e-9)


def test_clients_read_a_run_file_without_a_way_out():
    data = json.loads((HERE / "moves_run.json").read_text())
    run = Run({**data, "out": [], "home": data["out"][-1]["to"] if data["out"] else data["home"]})
    assert run.duration("out") == 0.0
    np.testing.assert_allclose(run.at("out", 0.0, 0), run.at("main", 0.0, 0), atol=1e-12)


def test_a_manifest_of_before_is_one_of_now_without_loss():
    manifest = read_manifest(HERE / "series_manifest.json")
    run = expected_of(manifest, manifest.programs[0].name).run
    data = json.loads((HERE / "series_manifest.json").read_text())
    assert [phase["name"] for phase in data["programs"][0]["phases"]] == [phase.name for phase in run.phases]
    assert run_data(run)["series"][0]["sines"] == data["programs"][0]["series"]["sines"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda program: program.pop("series"), "damaged manifest of version 1 .KeyError: 'series'"),
        (lambda program: program.update(phases=5), "damaged manifest of version 1"),
        (lambda program: program["series"].update(period_s=-1.0), "main.series"),
        (lambda program: program["out"][0].update(duration="long"), r"out\.segments\[1\]"),
        (lambda program: program.update(kind="moves", repeats=10**9, moves=program["out"]), "more than 100000 moves"),
        (lambda program: program["durations_s"].update(main=1.0), "durations_s"),
    ],
)
def test_a_damaged_manifest_of_before_is_refused(change, told):
    data = json.loads((HERE / "series_manifest.json").read_text())
    change(data["programs"][0])
    with pytest.raises(InvalidManifest, match=told):
        expected_of(parse_manifest(json.dumps(data)), data["programs"][0]["name"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: run.pop("period"), r"runs\[1\]\.period: is missing"),
        (lambda run: run.update(period=-1.0), r"runs\[1\]\.period: is -1\.0, expected greater than 0"),
        (lambda run: run.update(sample_time="x"), r"runs\[1\]: times, poses or coefficients are no numbers"),
        (lambda run: run.update(phases=5), r"runs\[1\]: times, poses"),
        (lambda run: run["way"]["durations"].append(1.0), r"runs\[1\]: .* not as many as expected"),
        (lambda run: run.update(measured_periods=0), r"runs\[1\]\..*periods: is 0"),
    ],
)
def test_a_damaged_design_of_before_is_refused(tmp_path, change, told):
    data = json.loads((HERE / "design.json").read_text())
    change(data["runs"][0])
    (tmp_path / "design.json").write_text(json.dumps(data))
    with pytest.raises(ExcitorError, match=told):
        parse_design(tmp_path)
