"""What goes out with the code: workflow, citation, source distribution."""

import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(path):
    return YAML(typ="safe").load((ROOT / path).read_text("utf-8"))


def test_the_workflow_runs_everything_on_linux_and_the_fast_tests_elsewhere():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    everything, fast = jobs["everything"], jobs["fast"]
    assert everything["runs-on"].startswith("ubuntu")
    assert [step["run"] for step in everything["steps"] if "run" in step] == [".ci/run"]
    assert {name.partition("-")[0] for name in fast["strategy"]["matrix"]["os"]} == {"windows", "macos"}
    assert "python -m pytest -q" in [step.get("run") for step in fast["steps"]]
    for job in (everything, fast):
        python = job.get("container", "") or str(job["steps"][1]["with"]["python-version"])
        assert "3.11" in python


def test_the_citation_is_of_this_version():
    cited = read("CITATION.cff")
    assert (str(cited["version"]), cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["cff-version"] == "1.2.0"
    assert all(cited[key] for key in ("message", "title", "authors", "abstract"))


def test_the_oldest_versions_are_tried_and_a_release_lists_what_it_installs():
    steps = [step.get("run", "") for step in read(".github/workflows/ci.yml")["jobs"]["oldest"]["steps"]]
    assert any("--resolution lowest-direct" in step for step in steps)
    assert "python -m pytest -q" in steps
    assert all(re.search(">=", each) for each in PROJECT["dependencies"])
    released = [step.get("run", "") for step in read(".github/workflows/release.yml")["jobs"]["release"]["steps"]]
    assert "nox -s release" in released


FAMILIES = {
    "BSD": "BSD",
    "Apache-2.0": "Apache",
    "MIT": "MIT",
    "Software Foundation": "Python Software Foundation|^PSF",
}
STATED = (ROOT / "SECURITY.md").read_text("utf-8").partition("**What it is made of.**")[2].partition("A release")[0]


@pytest.mark.parametrize("extra", ["", "matlab", "parquet", "mujoco", "cluster"])
def test_licences_of_what_is_installed_are_listed(extra):
    """Each name stands in the clause of its licence, and its own metadata say the same."""
    clauses = re.split(r"; |\. (?=Under)", " ".join(STATED.split()))
    for requirement in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        name = re.split(r"[ <>=\[]", requirement)[0]
        (clause,) = (each for each in clauses if re.search(rf"(?<![\w.]){name}\b", each))
        (family,) = (each for each in FAMILIES if each in clause)
        try:
            about = metadata(name)
        except PackageNotFoundError:
            continue
        said = [about.get("License-Expression"), about.get("License"), *(about.get_all("Classifier") or [])]
        assert re.search(FAMILIES[family], "\n".join(filter(None, said)), re.MULTILINE), f"{name}: {said[:2]}"


@pytest.mark.parametrize("name", ["problem", "wish"])
def test_issue_templates_are_forms(name):
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"]
    assert form["description"]
    assert all(part["type"] in ("textarea", "input", "checkboxes") and part["attributes"] for part in form["body"])


def test_versions_of_python_are_those_that_are_tried():
    stated = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line]
    assert stated == ["3.11"]


@pytest.mark.slow
def test_the_source_distribution_holds_what_the_tests_need(tmp_path):
    copy = tmp_path / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "setuptools>=77"], check=True)
    build = "import setuptools.build_meta as build, sys; build.build_sdist(sys.argv[1])"
    subprocess.run([python, "-c", build, tmp_path / "made"], cwd=copy, check=True, capture_output=True)
    with tarfile.open(next((tmp_path / "made").iterdir())) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        path.relative_to(copy).as_posix()
        for folder in ("tests", "benchmarks", "examples", "docs", "robots", "design", "identify", "experiments")
        for path in (copy / folder).rglob("*")
        if path.is_file()
    }
    assert wanted <= held | {name for name in wanted if "egg-info" in name}
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "noxfile.py", ".ci/run"} <= held
