"""The fast part of the golden outputs: the catalogue's numbers, and every target's programs of two fixed designs."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RELATIVE, ABSOLUTE = 1e-9, 1e-12  # other processors round differently; what should be zero is 1e-15 on each


def script():
    spec = importlib.util.spec_from_file_location("goldens_script", HERE / "goldens.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # which dataclasses look for
    spec.loader.exec_module(module)
    return module


goldens = script()


@pytest.mark.parametrize("job", ["robots", pytest.param("emission", marks=pytest.mark.slow)])
def test_outputs_are_the_committed_ones(tmp_path, monkeypatch, job):
    for name in ("COLUMNS", "TERM", "NO_COLOR"):  # which the script sets
        monkeypatch.setenv(name, "")
    goldens.write(tmp_path, [job])
    tolerance = goldens.Tolerance(RELATIVE, ABSOLUTE)
    found = goldens.compare(HERE / "goldens", tmp_path, tolerance, jobs=[job])
    assert not found, "\n".join(found)


def test_every_target_has_programs():
    index = goldens.index_of(HERE / "goldens")
    written = {name.split("/")[3] for name in index if "/programs/" in name}
    assert written == {*goldens.EXACT, *goldens.APPROXIMATE}


@pytest.fixture
def two(tmp_path):
    """Two folders that hold the same."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        put(folder, {"x": [1.0, 2.0, 1e-12], "y": {"z": 3.0, "holds": True}}, "digest")
    return folders


def put(folder, tree, other):
    net = goldens.Net(folder, job="job")
    net.store("job/numbers.json", tree)
    net.index["job/page.html"] = other
    (folder / "index.json").write_text(json.dumps(net.index))


def test_the_same_is_the_same(two):
    assert goldens.compare(*two) == []
    assert goldens.compare(*two, goldens.Tolerance()) == []


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"x": [1.0, 2.0, 1e-12], "y": {"z": 3.0 + 1e-7, "holds": True}}, "1 of 4 numbers differ.*by 3.3e-08: y.z"),
        ({"x": [1.0, 2.0 + 1e-8, 1e-12], "y": {"z": 3.0, "holds": True}}, r"by 5.0e-09: x\[1\] is 2.00000001, was 2.0"),
        ({"x": [1.0, 2.0], "y": {"z": 3.0, "holds": True}}, r"x\[2\] is missing"),
        ({"x": [1.0, 2.0, 1e-12], "y": {"z": 3.0, "holds": True, "w": 1}}, "y.w is new"),
        ({"x": [1.0, 2.0, 1e-12], "y": {"z": 3.0, "holds": False}}, "y.holds is false, was true"),
        ({"x": [1.0, 2.0, 1e-12], "y": {"z": None, "holds": True}}, "y.z is null, was 3.0"),
    ],
)
def test_what_differs_is_named(two, tree, told):
    put(two[1], tree, "digest")
    assert goldens.compare(*two) == ["job/numbers.json: differs"]
    (sentence,) = goldens.compare(*two, goldens.Tolerance(RELATIVE))
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(sentence)


def test_numbers_within_the_tolerance_are_the_same(two):
    put(two[1], {"x": [1.0, 2.0 + 1e-10, 3e-12], "y": {"z": 3.0, "holds": True}}, "digest")
    assert goldens.compare(*two, goldens.Tolerance(RELATIVE)) == [], "relative to the largest of a list"
    assert goldens.compare(*two, goldens.Tolerance(1e-15, absolute=1e-9)) == []
    assert goldens.compare(*two) == ["job/numbers.json: differs"]


def test_files_that_came_went_or_changed_are_named(two):
    put(two[1], {"x": [1.0, 2.0, 1e-12], "y": {"z": 3.0, "holds": True}}, "another")
    index = goldens.index_of(two[1]) | {"job/new.csv": "digest"}
    (two[1] / "index.json").write_text(json.dumps(index))
    assert goldens.compare(*two, goldens.Tolerance()) == [
        f"job/new.csv: only in {two[1]}",
        "job/page.html: differs; only its SHA-256 is kept",
    ]
