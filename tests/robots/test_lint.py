"""Lint: a good robot has nothing but notes; every kind of mistake is found, with its value, and told in a sentence."""

import math
import tomllib
from importlib import resources
from typing import Any

import numpy as np
import pytest

from excitor.robots.files.toml import robot_from_data
from excitor.robots.files.urdf import read_urdf, robot_from_urdf
from excitor.robots.lint import Finding, lint
from excitor.robots.load import catalog_names, load


@pytest.mark.parametrize("name", catalog_names())
def test_the_catalogue_has_neither_errors_nor_warnings(name: str) -> None:
    assert [str(finding) for finding in lint(load(name)) if finding.level != "note"] == []


def arm(**changes: Any) -> dict[str, Any]:
    """Describe a sound planar arm of two joints; a change is written `path__to__key=value`, joints as a and b."""
    limits = {"position_deg": [-90, 90], "velocity_deg_s": 100, "acceleration_rad_s2": 10, "torque": 50}
    link = {"mass": 4.0, "center": [0.25, 0.0, 0.0], "inertia": [0.01, 0, 0, 0.1, 0, 0.1]}
    data: dict[str, Any] = {
        "name": "arm",
        "joint": [
            {"name": "a", "mdh": {"alpha_deg": 90}, "limits": dict(limits), "link": dict(link)},
            {"name": "b", "mdh": {"d": 0.5}, "limits": dict(limits), "link": dict(link)},
        ],
        "tool": {"xyz": [0.5, 0, 0]},
    }
    for path, value in changes.items():
        *tables, key = path.split("__")
        table: Any = data
        for name in tables:
            table = data["joint"]["ab".index(name)] if name in "ab" else table.setdefault(name, {})
        table[key] = value
    return data


def findings(**changes: Any) -> tuple[Finding, ...]:
    return lint(robot_from_data(arm(**changes), "arm.toml"))


def test_a_sound_arm_has_no_findings() -> None:
    assert findings() == ()


POSE = {"shows": [0, 0], "tool": [0.5, 0.0, 1.0]}
ODD = {
    "negative mass": ({"b__link__mass": -4.0}, "error", "link 'b'", ["weighs -4 kg, expected more than 0"]),
    "no mass": ({"b__link__mass": 0.0}, "warning", "link 'b'", ["weighs 0 kg, expected more than 0"]),
    "grams": (
        {"b__link__mass": 4000.0},
        "warning",
        "link 'b'",
        ["weighs 4000 kg; check that the mass is in kg, not g"],
    ),
    "triangle": (
        {"b__link__inertia": [0.01, 0, 0, 0.1, 0, 0.2]},
        "error",
        "link 'b'",
        ["[0.01, 0.1, 0.2] kg m²: the largest exceeds the sum of the others by 0.09", "triangle inequality"],
    ),
    "negative moment": (
        {"b__link__inertia": [-0.01, 0, 0, 0.1, 0, 0.1]},
        "error",
        "link 'b'",
        ["[-0.01, 0.1, 0.1] kg m², expected none below 0"],
    ),
    "large product": ({"b__link__inertia": [0.1, 0.3, 0, 0.1, 0, 0.1]}, "error", "link 'b'", ["expected none below 0"]),
    "point": (
        {"b__link__inertia": [0] * 6},
        "note",
        "link 'b'",
        ["has a mass but no inertia about its centre of mass"],
    ),
    "kg mm2": (
        {"b__link__inertia": [1e4, 0, 0, 1e5, 0, 1e5]},
        "error",
        "link 'b'",
        ["inertia of 1e+05 kg m² at 4 kg is that of mass 158 m away", "not kg mm²"],
    ),
    "centre in mm": (
        {"b__link__center": [250.0, 0.0, 0.0]},
        "error",
        "link 'b'",
        ["centre of mass is at [250, 0, 0] m, more than 3 m from the joint", "not mm"],
    ),
    "centre outside": (
        {"b__link__center": [0.0, 1.5, 0.0]},
        "warning",
        "link 'b'",
        ["centre of mass is at [0, 1.5, 0] m, far outside the link, which reaches 0.5 m"],
    ),
    "unknown": ({"b__link": None}, "note", "links b", ["inertial parameters are not known beforehand"]),
    "known in part": (
        {"b__link": None, "parameters__M2": 3.0},
        "note",
        "links b",
        ["inertial parameters are known in part only beforehand"],
    ),
    "mass known alone": ({"b__link": None, "parameters__M2": -3.0}, "error", "link 'b'", ["weighs -3 kg"]),
    "payload": ({"payload": {"mass": -1.0}}, "error", "payload", ["weighs -1 kg, expected more than 0"]),
    "payload in mm": (
        {"payload": {"mass": 1.0, "center": [80.0, 0, 0]}},
        "error",
        "payload",
        ["centre of mass is at [80.5, 0, 0] m, more than 3 m"],
    ),
    "nothing to move": (
        {"b__link": {"mass": 0.0}},
        "warning",
        "joint 'b'",
        ["moves a total inertia of 0, expected more than 0 at every pose"],
    ),
    "indefinite": (
        {"b__link": {"mass": 4.0, "center": [0.25, 0, 0], "inertia": [0.01, 0, 0, -0.4, 0, -0.4]}},
        "error",
        "joint 'b'",
        ["moves a total inertia of -0.15"],
    ),
    "indefinite at some pose": (
        {"a__link__inertia": [-0.6, 0, 0, -0.6, 0, -0.6]},
        "error",
        "mass matrix",
        ["is not positive definite at q = ["],
    ),
    "no position limit": (
        {"a__limits": {}},
        "warning",
        "position limits",
        ["no position limit is stated for a; a design may exceed it"],
    ),
    "no limits": (
        {"a__limits": {}, "b__limits": {}},
        "warning",
        "torque limits",
        ["no torque limit is stated for any joint"],
    ),
    "limits in degrees": (
        {"a__limits__position_rad": [-90.0, 90.0], "a__limits__position_deg": None},
        "warning",
        "joint 'a'",
        ["position goes from -90 to 90 rad; check that it is in rad, not degrees"],
    ),
    "limits in mm": (
        {"b__kind": "prismatic", "b__limits": {"position_m": [0.0, 800.0]}},
        "warning",
        "joint 'b'",
        ["position goes from 0 to 800 m; check that it is in m, not mm"],
    ),
    "no room": (
        {"a__limits__position_deg": [-0.1, 0.1]},
        "warning",
        "joint 'a'",
        ["position goes from -0.001745 to 0.001745 rad, which leaves no room"],
    ),
    "zero outside": (
        {"a__limits__position_deg": [10, 90]},
        "note",
        "joint 'a'",
        ["position goes from 0.1745 to 1.571 rad: the pose of zeros cannot be reached"],
    ),
    "locked outside": (
        {"a__locked_deg": 120.0},
        "warning",
        "joint 'a'",
        ["position goes from -1.571 to 1.571 rad, but it is locked at 2.094"],
    ),
    "too fast": (
        {"a__limits__velocity_rad_s": 200.0, "a__limits__velocity_deg_s": None},
        "warning",
        "joint 'a'",
        ["velocity limit is 200 rad/s; check that it is in rad/s of the joint, not deg/s or the motor's"],
    ),
    "motor too fast": (
        {"drive__ratios": [2000, 100]},
        "warning",
        "joint 'a'",
        ["its motor turns 33333 times a minute at full speed"],
    ),
    "millimetres": (
        {"b__mdh": {"d": 500.0}},
        "warning",
        "joint 'b'",
        ["is 500 m long; check that lengths are in metres, not mm"],
    ),
    "tool in mm": ({"tool": {"xyz": [500, 0, 0]}}, "error", "tool", ["is 500 m long"]),
    "capsule in mm": (
        {"capsule": [{"link": "b", "start": [0, 0, 0], "end": [500, 0, 0], "radius": 60}]},
        "warning",
        "capsule[1]",
        ["is 500 m long"],
    ),
    "gravity in mm": (
        {"gravity": [0, 0, -9810]},
        "warning",
        "gravity",
        ["is 9810 m/s², expected 9.78 to 9.83 on Earth"],
    ),
    "no gravity": ({"gravity": [0, 0, 0]}, "note", "gravity", ["is 0: masses are not identifiable from torques"]),
    "power": (
        {"friction__element": [{"parameter": "F", "model": "viscous", "senses": {"a": 1, "b": 1}, "acts": {"b": 2}}]},
        "warning",
        "friction 'F'",
        ["senses 1 a + 1 b but acts through 2 b, so its power does not balance"],
    ),
    "power of a rotor": (
        {"drive__rotor": [{"parameter": "I", "senses": {"a": 1}, "acts": {"b": 1}}]},
        "warning",
        "rotor 'I'",
        ["senses 1 a but acts through 1 b, so its power does not balance"],
    ),
    "negative friction": (
        {"friction__terms": ["viscous"], "parameters__Fv2": -3.0},
        "error",
        "friction 'Fv2'",
        ["is -3, expected 0 or more; check its sign"],
    ),
    "negative rotor": (
        {"drive__rotors": "joints", "parameters__Ia1": -0.1},
        "error",
        "rotor 'Ia1'",
        ["is -0.1, expected 0 or more"],
    ),
    "tool elsewhere": (
        {"controllers__x": {"axes": ["A", "B"], "signs": [1, 1], "pose": [{"shows": [0, 0], "tool": [1.0, 0, 0.01]}]}},
        "error",
        "controller 'x' pose 1",
        ["says the tool is at [1, 0, 0.01] m, the model puts it at [1, 0, 0] m, 10 mm away; check the signs"],
    ),
    "coupled axes": (
        {"controllers__x": {"axes": ["A", "B"], "matrix": [[1, 0], [1, 1]]}},
        "note",
        "controller 'x'",
        ["couples joints, or scales them"],
    ),
    "no check poses": (
        {"controllers__x": {"axes": ["A", "B"], "signs": [1, 1]}},
        "note",
        "controller 'x'",
        ["has 0 check poses, expected 3"],
    ),
    "declared too little": (
        {"declared_base": {"parameters": {"x": "ZZ2"}}},
        "error",
        "declared_base",
        ["arm: the declared set leaves out ZZ1R, MX1R, "],
    ),
    "declared what is not": (
        {"declared_base": {"parameters": {"x": "M1"}}},
        "error",
        "declared_base",
        ["arm: declared parameters are not identifiable: x; check its expressions"],
    ),
    "nearly parallel": (
        {"b__mdh": {"d": 0.5, "alpha_deg": 0.01}},
        "warning",
        "joint 'b'",
        ["axis is nearly parallel to that of 'a', 1.7e-04 rad off", "write the exact angle"],
    ),
    "nearly parallel after standard DH": (
        {"a__mdh": None, "a__dh": {"alpha_deg": 179.99}},
        "warning",
        "joint 'b'",
        ["axis is nearly parallel to that of 'a', 1.7e-04 rad off"],
    ),
    "nearly a quarter turn": (
        {"a__mdh": {"alpha_deg": 89.954}},
        "warning",
        "joint 'a'",
        ["axis is nearly a quarter turn from gravity, 8.0e-04 rad off"],
    ),
    "faint": (
        {"b__mdh": {"d": 0.5, "alpha_deg": math.degrees(1e-6)}},
        "warning",
        "base parameters",
        ["XZ2, YZ2 show in the torques less than 0.0001 times as much as others do"],
    ),
    "rank": (
        {
            "friction__element": [
                {"parameter": "F", "model": "viscous", "senses": {"a": 1}},
                {"parameter": "G", "model": "viscous", "senses": {"a": 1, "b": 3e-7}},
            ]
        },
        "warning",
        "base parameters",
        ["the last one kept shows by ", "no clear gap around 1e-07; check the geometry"],
    ),
}


@pytest.mark.parametrize(("changes", "level", "where", "told"), ODD.values(), ids=ODD)
def test_what_is_odd_is_found(changes: dict[str, Any], level: str, where: str, told: list[str]) -> None:
    found = [finding for finding in findings(**changes) if (finding.level, finding.where) == (level, where)]
    sentences = [finding.sentence for finding in found]
    assert any(all(fragment in sentence for fragment in told) for sentence in sentences), findings(**changes)


def test_what_is_close_to_odd_is_not() -> None:
    plate = [0.01, 0.0, 0.0, 0.1, 0.0, 0.11]  # exactly flat
    turned = {"b__link__inertia": plate, "b__link__center": [0.25, 0.1, 0.0], "b__mdh": {"d": 0.5, "alpha_deg": 45}}
    pose = {"shows": [0, 0], "tool": [1.0, 0.0, 0.0005]}
    axes = {"axes": ["A", "B"], "signs": [1, 1], "pose": [pose] * 3}
    assert findings(**turned) == ()
    assert findings(controllers__x=axes) == ()


def test_numbers_too_small_to_square_are_zero() -> None:
    assert any(finding.sentence.startswith("weighs 0 kg") for finding in findings(b__link__mass=1e-320))


def test_limits_of_locked_joints_are_not_missed() -> None:
    assert findings(a__locked_deg=10.0, a__limits={}) == ()


def test_errors_come_first() -> None:
    levels = [finding.level for finding in findings(b__link=None, a__link__mass=-1.0, a__limits={})]
    assert levels == ["error", *["warning"] * 4, "note"]


def test_the_wrist_friction_of_the_tx40_as_printed_is_found() -> None:
    data = tomllib.loads((resources.files("excitor.robots.catalog") / "tx40.toml").read_text("utf-8"))
    for element in data["friction"]["element"]:
        element["acts"] = {"j6": 1}
    found = [finding for finding in lint(robot_from_data(data, "tx40")) if finding.level == "warning"]
    assert [finding.where for finding in found] == ["friction 'Fvm6'", "friction 'Fsm6'"]
    assert all("senses 1 j5 + 1 j6 but acts through 1 j6" in finding.sentence for finding in found)


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_a_robot_in_other_units_is_found(scale: float) -> None:
    data = tomllib.loads((resources.files("excitor.robots.catalog") / "ur10.toml").read_text("utf-8"))
    data["lengths"] = {name: scale * length for name, length in data["lengths"].items()}
    levels = [finding.level for finding in lint(robot_from_data(data, "ur10"))]
    assert "error" in levels  # the check poses tell
    assert ("warning" in levels) == (scale > 1.0)  # so do the sizes, if they are too large


URDF = (
    '<robot name="r"><link name="ground"/><link name="boom"/><link name="stick"/>'
    '<joint name="a" type="revolute"><parent link="ground"/><child link="boom"/><axis xyz="0 0 1"/></joint>'
    '<joint name="b" type="revolute"><parent link="boom"/><child link="stick"/><origin rpy="{roll} 0 0"/>'
    '<axis xyz="0 0 1"/><limit lower="-180" upper="180" effort="0"/></joint></robot>'
)


@pytest.mark.parametrize("roll", ["1.571", "1.57", "-1.5712"])
def test_an_angle_too_rough_to_snap_is_warned_of(roll: str) -> None:
    found = lint(robot_from_urdf(URDF.format(roll=roll), "f"))
    assert any(
        finding.where == "joint 'b'" and "nearly a quarter turn from that of 'a'" in finding.sentence
        for finding in found
    )


def test_what_reading_a_urdf_changed_is_reported() -> None:
    text = URDF.format(roll="1.5708")
    found = lint(robot_from_urdf(text, "f"), read_urdf(text, "f").notes)
    told = [str(finding) for finding in found]
    assert "note: joint 'b' origin rpy: 1.5708 is read as pi/2, 3.7e-06 rad away" in told
    assert "note: joint 'b' limit effort: is 0, which is taken for 'not stated': there is no such limit" in told
    assert "warning: torque limits: no torque limit is stated for any joint; a design may exceed it. State it" in told
    assert any(line.startswith("warning: joint 'b': position goes from -180 to 180 rad; check") for line in told)
    assert not any("nearly" in line for line in told)


def test_findings_do_not_depend_on_the_seed_of_others() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = findings(a__link__inertia=[-2, 0, 0, -2, 0, -2])
    np.random.seed(2)  # noqa: NPY002
    assert [str(finding) for finding in first] == [
        str(finding) for finding in findings(a__link__inertia=[-2, 0, 0, -2, 0, -2])
    ]
