"""KRL programs for RSI: executed against planned over loopback, limits, refusals, mutations."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lxml import etree

from excitor.design.programs.interpolate import differences
from excitor.design.programs.krl import rsi as krl_rsi
from excitor.design.programs.krl import rsi_controller as check
from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, to_axes
from excitor.design.programs.target import check as check_plan
from excitor.design.programs.verify import Judge, verify
from tests.mutations.krl_rsi import mutations

HOSTILE = 'x"\r\n<!ENTITY a> ]]> ;END é ' + "long " * 60
SHORT = {"period": 1.0, "ramp": 0.4, "measured": 1, "warm_up": 0, "harmonics": (1, 3), "swing": 0.08}


def machine_of(plan, **given):
    axes = to_axes(plan.robot, krl_rsi.TARGET, plan.home)
    return Machine(**{"axes": axes, "step": 0.004, "payload": plan.payload or 0.0} | given)


def emitted(plan):
    return krl_rsi.emit(plan, "excitation", None)


def verified(plan, files=None):
    return verify(plan, krl_rsi.TARGET, check, files=files or emitted(plan), name="excitation", judge=Judge())


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        SHORT,
        {"way": 3, "payload": 2.5, "period": 2.0},
        {"moves": True},
        {"robot": "kr150", "period": 2.4, "harmonics": range(1, 13), "swing": 0.04, "measured": 3},
    ],
    ids=str,
)
def test_programs_do_what_was_planned(plan_of, given):
    plan = plan_of(**given)
    verdict = verified(plan)
    assert not verdict.problems
    assert verdict.max_position_error <= 2e-7  # home is a REAL; the server adds nothing


@pytest.mark.slow
@pytest.mark.parametrize("by", [0.0, 1e-9, -1.0])
def test_coefficients_of_any_size(plan_of, by):
    plan = plan_of(**SHORT)
    plan = replace(plan, body=plan.body.scaled(by), dry=True)
    assert not verified(plan).problems


def test_marks_are_those_of_the_plan(plan_of):
    plan = plan_of(**SHORT)
    execution = check.execute(emitted(plan), "excitation", machine_of(plan))
    assert [mark for _, mark in execution.marks] == [mark for _, mark in marks(plan)]
    assert np.array(execution.marks)[:, 0] == pytest.approx(np.array(marks(plan))[:, 0])
    assert execution.events == ("log on", "out", "main", "back", "log off")


def test_limits_are_what_the_motion_needs(plan_of):
    plan = plan_of()
    flow = etree.fromstring(emitted(plan)["excitation.rsi.xml"].encode())
    assert etree.fromstring(emitted(plan)["excitation_eth.xml"].encode()).findtext("CONFIG/PORT") == "59152"
    values = {
        x.get("Name"): float(x.get("ParamValue"))
        for x in flow.iter("Parameter")
        if "Lim" in x.get("Name") or "Max" in x.get("Name")
    }
    q = np.concatenate(
        [plan.stretch(name).at(np.linspace(0, plan.stretch(name).duration, 20_001)) for name in Stretches]
    )
    away = to_axes(plan.robot, krl_rsi.TARGET, q) - to_axes(plan.robot, krl_rsi.TARGET, plan.home)
    for k in range(6):
        assert 0.9 <= values[f"UpperLimA{k + 1}"] - away[:, k].max() <= 1.2
        assert 0.9 <= away[:, k].min() - values[f"LowerLimA{k + 1}"] <= 1.2
        assert values[f"MaxA{k + 1}"] == max(values[f"UpperLimA{k + 1}"], -values[f"LowerLimA{k + 1}"])


def test_texts_are_small_safe_and_do_not_grow_with_the_periods(plan_of):
    few, many = (emitted(plan_of(run=HOSTILE, campaign=HOSTILE, measured=n)) for n in (1, 40))
    for name, text in few.items():
        if name.endswith(".json"):
            assert json.loads(text)["campaign"] == HOSTILE
        else:
            assert text.isascii()
            assert len(text) == len(many[name])
            assert len(text) < 4000
            assert "\n" not in text.replace("\r\n", "")
    assert not verified(plan_of(**SHORT, run=HOSTILE, campaign=HOSTILE)).problems


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"override": 0.5}, "override must be 100 percent"),
        ({"automatic": False}, "T1 limits the speed"),
        ({"payload": 6.0}, "load data of tool 1 must say 5.000 kg"),
        ({"axes": None}, "axis A1 is not within 0.5 degrees"),
    ],
)
def test_refusals_come_before_any_motion(plan_of, given, told):
    plan = plan_of(payload=5.0)
    if "axes" in given:
        given = {"axes": to_axes(plan.robot, krl_rsi.TARGET, plan.home - np.radians(0.6))}
    execution = check.execute(emitted(plan), "excitation", machine_of(plan, **given))
    assert told in execution.halted
    assert not execution.stretches


def test_the_page_reports_how_it_is_started():
    told = " ".join(krl_rsi.TARGET.loading)
    order = ["(BCO)", "Press start again", "Sensor correction goes active", "only now the connection opens", "deselect"]
    assert [told.index(words) for words in order] == sorted(told.index(words) for words in order)
    assert "cold start with the option Reload files" in " ".join(krl_rsi.TARGET.needs)


def test_robots_it_cannot_drive(plan_of):
    with pytest.raises(CannotDrive, match="7 joints"):
        check_plan(plan_of("iiwa"), krl_rsi.TARGET)
    with pytest.raises(CannotDrive, match="steps of 4 ms"):
        check_plan(plan_of(step=0.005, period=4.01), krl_rsi.TARGET)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (".rsi.xml", "<RSIObjects", "<!DOCTYPE a [<!ENTITY b 'c'>]><RSIObjects", "declares a document type"),
        (".rsi.xml", 'ParamID="4" ParamValue="-1"', 'ParamID="4" ParamValue="1"', "Flag must be -1"),
        (".rsi.xml", 'ParamID="1" ParamValue="100"', 'ParamID="1" ParamValue="101"', "expected 1 to 100"),
        ("_eth.xml", "<IP_NUMBER>192", "<IP_NUMBER>x", "expected four numbers"),
        ("_eth.xml", "<PORT>59152", "<PORT>80", "expected 1024 to 65534"),
        ("_eth.xml", "DEF_Delay", "DEF_Tech", "is not known here"),
        (".json", '"excitor-run"', '"x"', "is no run"),
        (".json", '"out"', '"away"', "is no run"),
        (".json", '"period": 1.0', '"period": 0.0', "the server fails on the run's numbers"),
    ],
)
def test_wrong_files_are_refused_with_a_sentence(plan_of, file, old, new, told):
    plan = plan_of(**SHORT)
    files = emitted(plan)
    assert old in files[f"excitation{file}"]
    files[f"excitation{file}"] = files[f"excitation{file}"].replace(old, new, 1)
    with pytest.raises(ProgramError, match=told):
        check.execute(files, "excitation", machine_of(plan))


@pytest.mark.parametrize(
    "given", [SHORT, pytest.param({"moves": True}, marks=pytest.mark.slow)], ids=["series", "moves"]
)
@pytest.mark.slow
def test_every_mutation_is_noticed(plan_of, given):
    plan = plan_of(**given, payload=3.0)
    found = list(mutations(emitted(plan), "excitation"))
    assert len(found) >= 40
    assert not [label for label, files in found if not noticed(plan, files)]


def noticed(plan, files):
    """Tell whether the first run shows it, or else all of verify; a run takes a third of a second."""
    try:
        execution = check.execute(files, "excitation", machine_of(plan))
    except ProgramError:
        return True
    return bool(differences(plan, krl_rsi.TARGET, execution, 0.004) or verified(plan, files).problems)


def test_an_emitter_that_errs_is_noticed(plan_of, monkeypatch):
    right = krl_rsi.run_json
    monkeypatch.setattr(
        krl_rsi, "run_json", lambda plan, target: right(plan, target).replace('"periods": 1', '"periods": 2')
    )
    assert verified(plan_of(**SHORT)).problems
