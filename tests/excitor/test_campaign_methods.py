"""Campaign's methods and the command line write the same files."""

import hashlib

import pytest
from typer.testing import CliRunner

import excitor as ex
from excitor.experiments.cli import app


def files(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def command(*arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    return done


@pytest.mark.slow
def test_design_writes_the_same_bytes(tmp_path):
    by_method, by_verb = tmp_path / "a" / "cell", tmp_path / "b" / "cell"
    for folder in (by_method, by_verb):
        folder.parent.mkdir()
        ex.Campaign.begin(folder, "rotradi")
    campaign = ex.Campaign(by_method).design(evaluations=300, seed=2)
    command("design", str(by_verb), "--evaluations", "300", "--seed", "2")
    found, expected = files(by_method), files(by_verb)
    assert set(found) == {"campaign.toml", "design.json", "plan.html"} == set(expected)
    assert unstamped(by_method) == unstamped(by_verb)
    assert campaign.results["design"].ready
    campaign.emit("csv", allow=["no-go"])
    by_verb.joinpath("design.json").write_bytes(by_method.joinpath("design.json").read_bytes())
    command("emit", str(by_verb), "--target", "csv", "--allow", "no-go")
    assert files(by_method / "programs") == files(by_verb / "programs")
    assert all(one.good for one in campaign.verify())


def unstamped(folder):
    """Give what was written, without the CPU time that the search took."""
    import json

    data = json.loads((folder / "design.json").read_text())
    return {**data, "provenance": {**data["provenance"], "cpu_seconds": None}}


def test_what_is_wrong_is_a_sentence(tmp_path):
    with pytest.raises(ex.ExcitorError, match=r"campaign.toml: does not exist"):
        ex.Campaign(tmp_path).design()
    with pytest.raises(ValueError, match="a budget is one of them"):
        ex.Campaign(tmp_path).design(seconds=1.0, evaluations=10)


@pytest.mark.slow
def test_report_writes_the_same_bytes_and_takes_the_model_on_file(tmp_path):
    said = []
    ex.Campaign.begin(tmp_path / "cell", "rotradi")
    campaign = ex.Campaign(tmp_path / "cell", said.append).design(evaluations=300).emit("csv", allow=["no-go"])
    campaign.simulate("csv", seed=1).identify().report()
    assert any("is fresh: used" in sentence for sentence in said)
    by_method = files(tmp_path / "cell")
    done = command("report", str(tmp_path / "cell"))
    assert files(tmp_path / "cell") == by_method
    assert done.stdout.splitlines()[0] == campaign.results["report"].sentences[0]
