"""Every door answers damaged files with a reading or a sentence; what once escaped stays answered."""

import pytest

from excitor.robots.errors import ExcitorError
from tests.fuzzing import DOORS, Door, answer, edited_text, exchanged, fuzz, toml_of

EXECUTED = [name for name in DOORS if name.startswith("programs/")]
ESCAPED = {  # door: what raised something else, before it was mended
    "campaign.toml": [
        'robot = "\\u0000"',
        f'robot = "{"a" * 3000}.toml"',
        'robot = "rotradi"\n[[run]]\nlog = "\\u0000"',
    ],
    "programs/val3": ['example/example.pjx\n<?xml version="1.0" encoding="nan-8"?>\n<Project/>'],
    "log.csv": ["t,q1,q2,q3,c1,c2,c3\n0.000000,-1.850433,55.099999,2.6\t0780,-8\t"],
}


@pytest.mark.parametrize("name", DOORS)
def test_damaged_files_are_read_or_refused(name):
    assert fuzz(name, examples=2 if name in EXECUTED else 10)[0] == []


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in ESCAPED.items() for text in texts])
def test_what_escaped_once_is_answered(name, text, tmp_path):
    assert answer(DOORS[name], text, tmp_path) == ""


@pytest.mark.parametrize("share", ["9" * 400 + ".5", "0." + "9" * 5000, "1e2"])
def test_shares_that_no_controller_holds_are_refused(share, tmp_path):
    door = DOORS["programs/krl"]
    text = door.seeds()[0].replace("TIME_BLOCK PART = 1.250000000", f"TIME_BLOCK PART = {share}", 1)
    assert answer(door, text, tmp_path) == ""
    with pytest.raises(ExcitorError, match="shares of a time block are positive"):
        door.read(text, tmp_path)


def test_the_fuzz_finds_what_is_no_sentence(monkeypatch):
    def reads(text, folder):
        if "[" not in text:
            raise ExcitorError("has no list")
        return text[3000]

    monkeypatch.setitem(DOORS, "x", Door(lambda: ["[1, 2, 3]" * 500], reads))
    found, count = fuzz("x", examples=60)
    assert count == 60
    assert len(found) == 1
    assert "IndexError at test_fuzzing.py" in found[0]


def test_changes_change():
    assert edited_text("abcdef", [(0.5, 1, "x")]) == "abcxef"
    assert exchanged("json", '{"a": [1, {"b": 2}]}', [(0.99, "value", 3)]) == '{"a": [1, {"b": 0}]}'
    assert exchanged("toml", "a = [1, 2]\n[b]\nc = 1.5", [(0.0, "drop", 0)]) == '"b" = {"c" = 1.5}'
    assert toml_of({"a": [True, float("nan"), None]}) == '"a" = [true, nan, "None"]'
