"""[site] of campaign.toml: what the cell calls its tool, base, addresses and devices; hostile values are refused."""

import re
from dataclasses import replace

import pytest
from pydantic import ValidationError

from excitor.design.programs.conformance import example
from excitor.design.programs.package import operator_page, package
from excitor.design.programs.registry import NAMES, emitter, executor, target
from excitor.design.programs.verify import Judge, verify
from excitor.experiments.campaign import InvalidCampaign, Site, open_campaign
from excitor.experiments.emit import other_makers
from excitor.robots.load import load

SITE = {
    "computer_address": "10.0.0.7", "port": 50000, "tool": 3, "base": 2, "device": "Sensor1", "task": "T_ROB2",
    "trace": "MINE.XML",
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('device = "x\\"; STOP"', "device"),
        ('device = "a\\nb"', "device"),
        ('task = "T_ROB1;"', "task"),
        ('trace = "$(rm).XML"', "trace"),
        ('trace = "A.XML\\"\\r\\nHALT"', "trace"),
        ('computer_address = "1.2.3.4</IP_NUMBER><PORT>1"', "computer_address"),
        ('computer_address = "0.0.0.0"', "computer_address"),
        ('computer_address = "255.255.255.255"', "computer_address"),
        ('computer_address = "1.2.3.256"', "computer_address"),
        ('computer_address = "010.0.0.1"', "computer_address"),  # octal to some
        ("port = 80", "port"),
        ("tool = 0", "tool"),
        ("base = -1", "base"),
        ("tools = 1", "tools"),
    ],
)
def test_hostile_values_are_sentences(tmp_path, line, key):
    (tmp_path / "campaign.toml").write_text(f'robot = "tx40"\n[site]\n{line}\n')
    with pytest.raises(InvalidCampaign) as refused:
        open_campaign(tmp_path, "design")
    assert f"site.{key}" in str(refused.value)


@pytest.mark.parametrize("name", ["krl", "fanuc", "rapid-move"])
def test_programs_take_them_and_are_held_to_them(name):
    plan = example(target(name))
    there = replace(plan, site=Site(**SITE).model_dump())
    made = package(emitter(name), [there])
    given = {"files": made.texts, "name": made.programs[0].name, "judge": Judge()}
    assert verify(there, made.target, executor(name), **given).problems == ()
    if name != "rapid-move":
        assert "the target's record states" in verify(plan, made.target, executor(name), **given).problems[0]
    assert "EXCITOR.XML" not in operator_page(made)


def test_all_leaves_out_other_makers():
    kuka = load("kr150")
    assert "left out: kr150 is driven by krl" in other_makers("urscript", kuka)
    assert [name for name in NAMES if not other_makers(name, kuka)] == ["csv", "twincat", "ros2", "krl", "krl-rsi"]
    assert not any(other_makers(name, replace(kuka, controllers={})) for name in NAMES)


HOSTILE = (
    'x"; STOP', "a\nb", "1.2.3.4\n", "A.XML\r\n", "</IP_NUMBER><PORT>1", "A.XML&B", "$(rm -rf /)", "A'\"",
    "{{ 7 * 7 }}",
    "\u0661", "A\0", "A" * 99, "", True, 1.5, -1, 10**30, [1], {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("key", Site.model_fields)
def test_no_key_takes_hostile_text_or_another_kind_of_value(key):
    for value in HOSTILE:
        with pytest.raises(ValidationError):
            Site.model_validate({key: value})


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("rapid", ("device called SENSOR_9",)),
        ("krl-rsi", ("--port 50001", "UDP port 50001")),
        ("urscript", ("--register 31", "Output integer register 31", "output integer register 31")),
    ],
)
def test_pages_name_what_the_site_states(name, named):
    own = {"device": "SENSOR_9", "task": "T_ROB2", "port": 50001, "trace": "MINE.XML", "mark_register": 31}
    page = operator_page(package(emitter(name), [replace(example(target(name)), site=Site(**own).model_dump())]))
    assert [text for text in named if text not in page] == []
    assert not re.search(r"\b(EXCITOR|T_ROB1|59152|register[ _]24)\b", page)
    plain = operator_page(package(emitter(name), [example(target(name))]))
    assert not any(text in plain for text in named)
