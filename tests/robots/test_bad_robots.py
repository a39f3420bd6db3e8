"""Bad robot files: always InvalidRobot, with the key path and a sentence; never another exception, never a hang."""

import contextlib
import re
import time
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from excitor.robots.errors import InvalidRobot
from excitor.robots.files.urdf import read_urdf, robot_from_urdf
from excitor.robots.lint import lint
from excitor.robots.load import load, robot_from_toml

HEAD = 'name = "arm"\n[[joint]]\nname = "a"\nmdh = {}\n'
NEXT = '[[joint]]\nname = "b"\n'
NO_NUMBER = "expected a number, a parenthesis or a known name"

TOML = {
    "no name": ('[[joint]]\nname = "a"\nmdh = {}', ["name: is missing"]),
    "no joint": ('name = "arm"\njoint = []', ["joint: has 0 entries, expected at least 1"]),
    "nothing": ("", ["name: is missing", "joint: is missing"]),
    "not TOML": ("name = ", ["is not TOML: Invalid value"]),
    "JSON": ('{"name": "arm"}', ["is not TOML"]),
    "name is a number": ('name = 5\n[[joint]]\nname = "a"\nmdh = {}', ["name: is 5, expected a valid string"]),
    "name is empty": (HEAD.replace('"a"', '""'), ["joint[1].name: is '', expected at least 1 character"]),
    "name is too long": (HEAD.replace('"a"', f'"{"a" * 90}"'), ["joint[1].name: is 'aaa", "at most 80 characters"]),
    "joint is a table": ('name = "arm"\n[joint]\nname = "a"', ["joint: is {'name': 'a'}, expected a valid list"]),
    "unknown key": (HEAD + "colour = 3", ["joint[1].colour: is not a key that this table knows"]),
    "unknown table": (HEAD + "[gear]", ["gear: is not a key that this table knows"]),
    "wrong type": (HEAD + 'limits = { torque = "5" }', ["joint[1].limits.torque: is '5', expected a valid number"]),
    "bool for number": (HEAD + "locked_deg = true", ["joint[1].locked_deg: is True, expected a valid number"]),
    "NaN": (HEAD + "limits = { torque = nan }", ["joint[1].limits.torque: is nan, expected a finite number"]),
    "NaN in geometry": (HEAD.replace("{}", "{ d = nan }"), ["joint[1].mdh.d: is nan, expected a finite number"]),
    "inf": (HEAD + "limits = { velocity_deg_s = inf }", ["joint[1].limits.velocity_deg_s: is inf, expected a finite"]),
    "huge integer": (HEAD + f"locked_deg = {10**400}", ["joint[1].locked_deg: is 1000", "expected a valid number"]),
    "longer integer": (HEAD + f"locked_deg = 1{'0' * 5000}", ["is not TOML that can be read: Exceeds the limit"]),
    "huge float": (
        HEAD + "[tool]\nxyz = [0, 1e300, 0]",
        ["tool.xyz[2]: is 1e+300, expected a number of at most 1e+12"],
    ),
    "huge product": (
        HEAD + "[tool]\nxyz = ['9^9 9^9', 0, 0]",
        ["tool.xyz: '9^9 9^9' is 1.50095e+17, expected at most"],
    ),
    "endless product": (HEAD + "[tool]\nxyz = ['1e300 1e300', 0, 0]", ["tool.xyz: '1e300 1e300' is too large"]),
    "negative limit": (
        HEAD + "limits = { velocity_deg_s = -1 }",
        ["joint[1].limits.velocity_deg_s: is -1, expected gre"],
    ),
    "zero limit": (HEAD + "limits = { torque = 0 }", ["joint[1].limits.torque: is 0, expected greater than 0"]),
    "lower above upper": (
        HEAD + "limits = { position_deg = [90, -90] }",
        ["joint[1].limits.position: goes from 1.5708 to"],
    ),
    "three bounds": (
        HEAD + "limits = { position_deg = [1, 2, 3] }",
        ["limits.position_deg: has 3 entries, expected at m"],
    ),
    "two units": (
        HEAD + "limits = { velocity_deg_s = 5, velocity_rad_s = 1 }",
        ["joint[1].limits: gives velocity_deg_s and velocity_rad_s; keep one"],
    ),
    "degrees of a slide": (
        HEAD + 'kind = "prismatic"\nlimits = { position_deg = [0, 1] }',
        ["joint[1].limits.position_deg: the joint slides; give it in m"],
    ),
    "metres of a turn": (
        HEAD + "limits = { velocity_m_s = 1 }",
        ["velocity_m_s: the joint turns; give it in deg or rad"],
    ),
    "locked in metres": (HEAD + "locked_m = 1", ["joint[1].locked_m: the joint turns; use locked_deg"]),
    "offset in degrees": (HEAD + 'kind = "prismatic"\noffset_deg = 1', ["offset_deg: the joint slides; use offset_m"]),
    "offset of a fixed joint": (
        HEAD + NEXT + 'mdh = {}\nkind = "fixed"\noffset_m = 1\nlimits = { torque = 1 }\nfollows = { a = 1 }',
        [f"joint[2].{key}: the joint is fixed; leave this out" for key in ("offset_m", "limits", "follows")],
    ),
    "all fixed": (HEAD + 'kind = "fixed"', ["joint: every joint is fixed; a robot needs one that moves"]),
    "unknown kind": (
        HEAD + 'kind = "ball"',
        ["joint[1].kind: is 'ball', expected 'revolute', 'continuous', 'prismatic' or 'fixed'"],
    ),
    "circle": (
        HEAD + 'parent = "c"\n' + NEXT + "mdh = {}\n" + '[[joint]]\nname = "c"\nmdh = {}',
        ["joint: 'a', 'b', 'c' hang on each other in a circle; one of them must hang on the base"],
    ),
    "own parent": (HEAD + 'parent = "a"', ["joint: 'a' hang on each other in a circle"]),
    "unknown parent": (
        HEAD + 'parent = "x"',
        ["joint[1].parent: no joint is named 'x'; expected 'base' or one of ['a']"],
    ),
    "named twice": (
        HEAD + NEXT.replace("b", "a") + "mdh = {}",
        ["joint[1], joint[2]: the name 'a' is used more than once"],
    ),
    "named base": (HEAD.replace('"a"', '"base"'), ["joint[1].name: is 'base', which names the base; choose another"]),
    "dh and mdh": (HEAD + "dh = {}", ["joint[1]: needs exactly one of mdh, dh and placement; it gives mdh and dh"]),
    "no geometry": (HEAD + NEXT, ["joint[2]: needs exactly one of mdh, dh and placement; it gives none"]),
    "zero axis": (
        HEAD + NEXT + "placement = { axis = [0, 0, 0] }",
        ["joint[2].placement.axis: is [0.0, 0.0, 0.0], expected a direction other than 0"],
    ),
    "two angles": (
        HEAD + NEXT + "placement = { rpy_deg = [0, 0, 0], rpy_rad = [0, 0, 0] }",
        ["joint[2].placement: gives both rpy_deg and rpy_rad; keep one"],
    ),
    "follows nobody": (
        HEAD + NEXT + "mdh = {}\nfollows = { x = 1 }",
        ["joint[2].follows: 'x' is not a joint that moves"],
    ),
    "follows each other": (
        HEAD + "follows = { b = 1 }\n" + NEXT + "mdh = {}\nfollows = { a = 1 }",
        ["joint: every joint follows another; one must move by itself"],
    ),
    "limits of a follower": (
        HEAD + NEXT + "mdh = {}\nfollows = { a = 1 }\nlocked_deg = 0\nlimits = { torque = 1 }",
        ["joint[2].limits: the joint only follows others", "joint[2].locked_deg: the joint only follows others"],
    ),
    "nothing moves": (HEAD + "follows = { a = 0 }", ["joint: nothing moves with 'a'"]),
    "singular gears": (
        HEAD + NEXT + "mdh = {}\n[drive]\nmotor_from_joint = [[1, 2], [2, 4]]",
        ["drive.motor_from_joint: is singular (singular values 5", "it must be invertible"],
    ),
    "ragged matrix": (
        HEAD + NEXT + "mdh = {}\n[drive]\njoint_from_motor = [[1, 2], [2]]",
        ["drive.joint_from_motor: has rows of [2, 1] entries, expected 2 rows of 2"],
    ),
    "two matrices": (
        HEAD + "[drive]\nratios = [1]\nmotor_from_joint = [[1]]",
        ["drive: gives ratios and motor_from_joint"],
    ),
    "ratio 0": (HEAD + "[drive]\nratios = [0]", ["drive.ratios: is [0.0], expected 1 numbers other than 0"]),
    "rotor of nobody": (HEAD + '[drive]\nrotors = ["x"]', ["drive.rotors: no joint is named 'x'"]),
    "senses nobody": (
        HEAD + '[[friction.element]]\nparameter = "F"\nmodel = "viscous"\nsenses = { x = 1 }',
        ["friction.element[1].senses: no joint that moves is named 'x'; expected one of ['a']"],
    ),
    "unknown model": (
        HEAD + '[[friction.element]]\nparameter = "F"\nmodel = "lugre"\nsenses = { a = 1 }',
        ["friction.element[1].model: is 'lugre', expected 'viscous', 'coulomb'"],
    ),
    "no scale": (
        HEAD + '[[friction.element]]\nparameter = "F"\nmodel = "stribeck"\nsenses = { a = 1 }',
        ["friction.element[1].scale: is missing; stribeck needs it"],
    ),
    "taken name": (
        HEAD + '[[drive.rotor]]\nparameter = "ZZ1"\nsenses = { a = 1 }',
        ["drive.rotor: 'ZZ1' is already a parameter of a link"],
    ),
    "efficiency 2": (
        HEAD + "[drive]\nefficiency = [2]",
        ["drive.efficiency[1]: is 2, expected less than or equal to 1"],
    ),
    "unknown parameter": (HEAD + "[parameters]\nFv1 = 1", ["parameters: parameter 'Fv1' is not one of this robot's"]),
    "known twice": (
        HEAD + "link = { mass = 1 }\n[parameters]\nM1 = 1",
        ["parameters.M1: is given by its link's body alr"],
    ),
    "unknown zero": (HEAD.replace("[[", 'assumed_zero = ["x"]\n[[', 1), ["assumed_zero: parameter 'x' is not one"]),
    "ragged inertia": (
        HEAD + "link = { mass = 1, inertia = [1, 2] }",
        ["joint[1].link.inertia: has 2 entries, expected"],
    ),
    "negative radius": (
        HEAD + '[[capsule]]\nlink = "x"\nstart = [0, 0, 0]\nend = [0, 0, 1]\nradius = -1',
        ["capsule[1].radius: is -1, expected greater than 0"],
    ),
    "capsule on nothing": (
        HEAD + '[[capsule]]\nlink = "x"\nstart = [0, 0, 0]\nend = [0, 0, 1]\nradius = 1',
        ["capsule[1].link: no joint is named 'x'; expected one of ['base', 'a']"],
    ),
    "tool on nothing": (HEAD + '[tool]\nlink = "x"', ["tool.link: no joint is named 'x'"]),
    "payload on the base": (
        HEAD + '[tool]\nlink = "base"\n[payload]\nmass = 1',
        ["payload: the tool rides on the base, so no joint carries the payload"],
    ),
    "frame named twice": (HEAD + '[[frame]]\nname = "a"', ["frame[1].name: 'a' names another frame or joint already"]),
    "controller of another robot": (
        HEAD + '[controllers.x]\naxes = ["1", "2"]\nsigns = [1]',
        ["controllers.x.axes: has 2 entries, expected one for each of the 1 joints"],
    ),
    "signs and matrix": (
        HEAD + '[controllers.x]\naxes = ["1"]\nsigns = [1]\nmatrix = [[1]]',
        ["controllers.x: gives both signs and matrix; keep one"],
    ),
    "sign 2": (HEAD + '[controllers.x]\naxes = ["1"]\nsigns = [2]', ["controllers.x.signs[1]: is 2, expected 1 or -1"]),
    "code": (
        HEAD + NEXT + "mdh = { d = \"__import__('os')\" }",
        ["joint[2].mdh.d: \"__import__('os')\" has '__import__'"],
    ),
    "attribute": (HEAD + NEXT + 'mdh = { d = "l.real" }\n[lengths]\nl = 1', ["joint[2].mdh.d: 'l.real' has '.'"]),
    "tower of powers": (HEAD + NEXT + 'mdh = { d = "9^9^9^9" }', ["joint[2].mdh.d: '9^9^9^9' has '^'", NO_NUMBER]),
    "parentheses": (HEAD + NEXT + f'mdh = {{ d = "{"(" * 150}" }}', ["joint[2].mdh.d: ", "nest deeper than 50"]),
    "long expression": (
        HEAD + NEXT + f'mdh = {{ d = "{"1+" * 500}1" }}',
        ["joint[2].mdh.d: expected a number or a short"],
    ),
    "division by 0": (HEAD + NEXT + 'mdh = { d = "1/0" }', ["joint[2].mdh.d: '1/0' divides by something that is not"]),
    "declared in two words": (
        HEAD + '[declared_base.parameters]\nx = "ZZ1 ZZ1"',
        ["declared_base.parameters.x: 'ZZ1 ZZ1' multiplies parameters with each other"],
    ),
    "length named as a parameter": (
        HEAD + '[lengths]\nM1 = 1\n[declared_base.parameters]\nx = "M1"',
        ["lengths.M1: is taken, by gravity, a coordinate or a parameter"],
    ),
    "length named as gravity": (HEAD + "[lengths]\ng = 0.5", ["lengths.g: is taken, by gravity, a coordinate"]),
    "length named as a coordinate": (HEAD + "[lengths]\nq2 = 0.5", ["lengths.q2: is taken"]),
    "length that is no name": (HEAD + "[lengths]\n'a b' = 0.5", ["lengths.a b: is not a name"]),
    "friction named twice": (HEAD + '[friction]\nterms = ["viscous", "viscous"]', ["friction.terms", "says one twice"]),
    "deep lists": (HEAD + "x = " + "[" * 5000, ["nests tables too deeply to be read"]),
    "deep tables": (HEAD + "x = " + "{a=" * 5000, ["nests tables too deeply to be read"]),
    "too many joints": (
        'name = "arm"\n' + "".join(f'[[joint]]\nname = "{k}"\nmdh = {{}}\n' for k in range(101)),
        ["101"],
    ),
    "a date": (
        HEAD + "locked_deg = 2024-01-01",
        ["joint[1].locked_deg: is datetime.date(2024, 1, 1), expected a valid"],
    ),
    "control character": (HEAD.replace('"a"', '"a\0"'), ["is not TOML"]),
}


@pytest.mark.parametrize(("text", "told"), TOML.values(), ids=TOML)
def test_bad_toml(text: str, told: list[str]) -> None:
    with pytest.raises(InvalidRobot) as caught:
        robot_from_toml(text, "arm.toml")
    check(caught.value, "arm.toml", told)


def check(error: InvalidRobot, source: str, told: list[str]) -> None:
    message = str(error)
    assert error.problems
    assert all(line.startswith(source) for line in message.splitlines())
    assert len(message) < 2000
    for fragment in told:
        assert fragment in message


def urdf(joint: str = "", link: str = "", more: str = "", kind: str = "revolute") -> str:
    return (
        f'<robot name="r"><link name="ground"/><link name="boom">{link}</link><joint name="elbow" type="{kind}">'
        f'<parent link="ground"/><child link="boom"/>{joint}</joint>{more}</robot>'
    )


def joint(name: str, parent: str, child: str, more: str = "") -> str:
    return f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


BOMB = '<!DOCTYPE b [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<robot name="&b;"/>'
EXTERNAL = '<?xml version="1.0"?>\n<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>'
INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'

URDF = {
    "empty": ("", ["is not XML: no element found: line 1"]),
    "not XML": ("name = 3", ["is not XML: syntax error: line 1, column 0"]),
    "unclosed": ('<robot name="r">\n<link name="a"/>', ["is not XML: no element found: line 2"]),
    "bomb": (BOMB, ["line 1: declares a document type or entities", "remove <!DOCTYPE"]),
    "external entity": (EXTERNAL, ["line 2: declares a document type or entities"]),
    "external document type": ('<!DOCTYPE r SYSTEM "http://x/y.dtd"><robot/>', ["declares a document type"]),
    "undefined entity": ('<robot name="&x;"/>', ["is not XML: undefined entity"]),
    "deep": ("<a>" * 100_000, ["line 1: elements nest deeper than 40"]),
    "a level too deep": ("<a>\n" * 41, ["line 41: elements nest deeper than 40"]),
    "as deep as may be": ("<a>" * 40 + "</a>" * 40, ["<a>: is the outermost element, expected <robot>"]),
    "encoding": ('<?xml version="1.0" encoding="latin-1"?><robot name="é"/>', ["declares the encoding 'latin-1'"]),
    "surrogate": ('<robot name="\ud800"/>', ["is not text that XML can hold"]),
    "not a robot": ("<sdf/>", ["<sdf>: is the outermost element, expected <robot>"]),
    "xacro": ('<robot xmlns:xacro="x"><xacro:arm/></robot>', ["<xacro:…>: is a macro; run xacro on the file first"]),
    "no link": ("<robot/>", ["<robot>: has no <link>; a robot needs one"]),
    "no joint": ('<robot><link name="a"/></robot>', ["<robot>: has no <joint>; a robot needs one"]),
    "no name": (urdf(more="<link/>"), ["<link> number 3: has no name"]),
    "joint named twice": (
        urdf(more=joint("elbow", "boom", "tip") + '<link name="tip"/>'),
        ["joint 'elbow': is there more than once; every one needs a name of its own"],
    ),
    "link named twice": (urdf(more='<link name="boom"/>'), ["link 'boom': is there more than once"]),
    "two parents": (
        urdf(more=joint("wrist", "ground", "boom")),
        ["link 'boom': is the child of several joints ('elbow', 'wrist'); a URDF is a tree"],
    ),
    "two roots": (
        urdf(more='<link name="lost"/>'),
        ["<link>: no joint leads to 'ground', 'lost'; expected one such link"],
    ),
    "circle": (urdf(more=joint("back", "boom", "ground")), ["<link>: every link hangs on another in a circle"]),
    "circle aside": (
        urdf(more=f'<link name="x"/><link name="y"/>{joint("p", "x", "y")}{joint("q", "y", "x")}'),
        ["joint: 'p', 'q' hang on each other in a circle"],
    ),
    "unknown parent": (
        urdf().replace('"ground"/><child', '"sky"/><child'),
        ["joint 'elbow' parent: no link is named 'sky'"],
    ),
    "unknown child": (
        urdf().replace('child link="boom"', 'child link="x"'),
        ["joint 'elbow' child: no link is named 'x'"],
    ),
    "no child": (urdf().replace('<child link="boom"/>', ""), ["joint 'elbow' child: is missing"]),
    "floating": (urdf(kind="floating"), ["joint 'elbow' type: is floating; Excitor knows robots on a fixed base"]),
    "planar": (urdf(kind="planar"), ["joint 'elbow' type: is planar"]),
    "no type": (urdf(kind=""), ["joint 'elbow' type: is '', expected one of revolute, continuous"]),
    "all fixed": (urdf(kind="fixed"), ["joint: every joint is fixed"]),
    "text in a number": (urdf('<limit upper="much"/>'), ["joint 'elbow' limit upper: is 'much', expected a number"]),
    "NaN": (urdf('<limit effort="nan"/>'), ["joint 'elbow' limit effort: is 'nan', expected a number"]),
    "inf": (
        urdf('<limit velocity="inf"/>'),
        ["joint 'elbow' limit velocity: is 'inf', expected a number, each at most"],
    ),
    "negative velocity": (
        urdf('<limit velocity="-1"/>'),
        ["joint 'elbow' limit velocity: is -1, expected a number great"],
    ),
    "negative effort": (urdf('<limit effort="-1"/>'), ["joint 'elbow' limit effort: is -1, expected a number greater"]),
    "lower above upper": (
        urdf('<limit lower="2" upper="1"/>'),
        ["joint 'elbow' limit: goes from 2 to 1; the lower bound"],
    ),
    "two numbers": (urdf('<origin xyz="1 2"/>'), ["joint 'elbow' origin xyz: is '1 2', expected 3 numbers"]),
    "huge number": (
        urdf('<origin xyz="1 2 1e300"/>'),
        ["joint 'elbow' origin xyz: is '1 2 1e300', expected 3 numbers"],
    ),
    "underscore": (urdf('<origin xyz="1_0 2 3"/>'), ["joint 'elbow' origin xyz: is '1_0 2 3'"]),
    "xacro number": (
        urdf('<origin rpy="${pi/2} 0 0"/>'),
        ["joint 'elbow' origin rpy: is '${pi/2} 0 0'", "run xacro on"],
    ),
    "zero axis": (urdf('<axis xyz="0 0 0"/>'), ["joint 'elbow' axis xyz: is [0.0, 0.0, 0.0], expected a direction"]),
    "mimics nobody": (urdf('<mimic joint="x"/>'), ["joint 'elbow' mimic joint: is 'x', expected the name of another"]),
    "mimics itself": (urdf('<mimic joint="elbow"/>'), ["joint 'elbow' mimic joint: is 'elbow', expected the name of"]),
    "mimics what is fixed": (
        urdf('<mimic joint="f"/>', more='<link name="x"/>' + joint("f", "boom", "x").replace("revolute", "fixed")),
        ["joint 'elbow' mimic: 'f' is not a joint that moves by itself"],
    ),
    "no mass": (urdf(link=f"<inertial>{INERTIA}</inertial>"), ["link 'boom' inertial mass value: is missing"]),
    "no inertia": (urdf(link='<inertial><mass value="1"/></inertial>'), ["link 'boom' inertial inertia: is missing"]),
    "half an inertia": (
        urdf(link='<inertial><mass value="1"/><inertia ixx="1"/></inertial>'),
        ["link 'boom' inertial inertia ixy: is missing", "link 'boom' inertial inertia izz: is missing"],
    ),
    "round box": (
        urdf(link='<collision><geometry><box size="1 -1 1"/></geometry></collision>'),
        ["link 'boom' collision box: has the sizes {'size': '1 -1 1'}, expected numbers greater than 0"],
    ),
    "shapeless": (
        urdf(link="<collision><geometry><torus/></geometry></collision>"),
        ["link 'boom' collision torus: is not a shape of URDF"],
    ),
    "no radius": (
        urdf(link="<collision><geometry><sphere/></geometry></collision>"),
        ["link 'boom' collision sphere radius: is missing"],
    ),
    "too many joints": (
        urdf(more="".join(f'<link name="l{k}"/>{joint(f"j{k}", "boom", f"l{k}")}' for k in range(100))),
        ["<robot>: has 101 joints, expected at most 100"],
    ),
    "long name": (
        urdf().replace("elbow", "e" * 90),
        ["joint 'eee", "…' name: is 'eee", "expected at most 80 characters"],
    ),
    "name with a line break": (urdf(kind="x").replace("elbow", "&#10;b"), ["joint '\\nb' type: is 'x'"]),
}


@pytest.mark.parametrize(("text", "told"), URDF.values(), ids=URDF)
def test_bad_urdf(text: str, told: list[str]) -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidRobot) as caught:
        robot_from_urdf(text, "arm.urdf")
    check(caught.value, "arm.urdf", told)
    assert time.perf_counter() - began < 1.0


def test_all_that_is_wrong_is_reported_at_once() -> None:
    text = HEAD + "colour = 1\nlimits = { torque = -1 }\n" + NEXT + "mdh = { d = nan }\n[tool]\nsize = 3"
    with pytest.raises(InvalidRobot) as caught:
        robot_from_toml(text, "f")
    paths = [problem.split(": ")[0] for problem in caught.value.problems]
    assert sorted(paths) == ["joint[1].colour", "joint[1].limits.torque", "joint[2].mdh.d", "tool.size"]


@pytest.mark.parametrize("suffix", [".toml", ".urdf"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe\x00n", "byte 0 is not UTF-8 text; save the file as UTF-8"),
        ('name = "é"'.encode("latin-1"), "byte 8 is not UTF-8 text"),
        ("<robot/>".encode("utf-16"), "byte 0 is not UTF-8"),
        (bytes(range(256)), "byte 128 is not UTF-8 text"),
        (b"\0" * 1000, "is not"),
        (b"", ""),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, suffix: str, content: bytes, told: str) -> None:
    path = tmp_path / f"robot{suffix}"
    path.write_bytes(content)
    with pytest.raises(InvalidRobot) as caught:
        load(path)
    check(caught.value, str(path), [told])


@pytest.mark.parametrize("suffix", [".toml", ".urdf"])
def test_a_huge_line_is_refused_before_it_is_read(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"robot{suffix}"
    with path.open("wb") as file:
        file.seek(100_000_000 - 1)
        file.write(b"x")
    monkeypatch.setattr("excitor.robots.files.bounded.os.fdopen", lambda *_: pytest.fail("the file was read"))
    began = time.perf_counter()
    with pytest.raises(InvalidRobot, match=r"is 100 MB, expected at most 2 MB: not a robot file"):
        load(path)
    assert time.perf_counter() - began < 1.0


def test_a_two_megabyte_line_is_read_quickly() -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidRobot):
        robot_from_toml("x = '" + "y" * 1_999_000 + "'", "f")
    with pytest.raises(InvalidRobot):
        robot_from_urdf("<robot name='r'>" + "<link/>" * 280_000 + "</robot>", "f")
    assert time.perf_counter() - began < 5.0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("tx-40", "is not a robot of the catalogue (did you mean 'tx40'?)"),
        ("", "is not a robot of the catalogue"),
        ("TX40", "is not a robot of the catalogue"),
        ("no/such/robot.toml", "does not exist"),
        ("no/such/robot.urdf", "does not exist"),
        ("nul\0.toml", "does not exist"),
        ("a" * 5000 + ".toml", "cannot be read"),
        ("model.yaml", "nor the path of a .toml, .urdf or MJCF .xml file"),
    ],
)
def test_sources_that_are_nothing(source: str, told: str) -> None:
    with pytest.raises(InvalidRobot) as caught:
        load(source)
    assert told in str(caught.value)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "robot.toml").mkdir()
    with pytest.raises(InvalidRobot, match="is a folder, expected a file"):
        load(tmp_path / "robot.toml")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "robot.toml"
    path.write_text(HEAD)

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")  # chmod does not stop root

    monkeypatch.setattr("excitor.robots.files.bounded.os.open", denied)
    with pytest.raises(InvalidRobot, match=r"cannot be read: .*Permission denied"):
        load(path)


def test_odd_names_do_no_harm() -> None:
    text = HEAD.replace('"a"', '"<script>\\n\\u0007\u202e{0}%s"').replace('"arm"', '"../../etc\\n"')
    robot = robot_from_toml(text, "f")
    assert robot.joint_names == ("<script>\n\a\u202e{0}%s",)
    assert lint(robot)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text(HEAD, encoding="utf-8-sig")
    assert load(path).joint_names == ("a",)


CATALOG = {
    name: (resources.files("excitor.robots.catalog") / f"{name}.toml").read_text("utf-8") for name in ("tx40", "qrc350")
}
GOOD_URDF = urdf(
    '<origin xyz="0 0 1" rpy="0 0 0.5"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" velocity="2" effort="3"/>'
    '<dynamics damping="1"/>',
    link=f'<inertial><mass value="2"/>{INERTIA}</inertial>'
    '<collision><geometry><box size="1 2 3"/></geometry></collision>',
    more='<link name="tip"/>' + joint("wrist", "boom", "tip", '<mimic joint="elbow" multiplier="2"/>'),
)
PIECES = [
    "",
    "0",
    "-1",
    "nan",
    "1e308",
    "1e-320",
    "[",
    "{",
    '"',
    "'",
    "\n",
    "\0",
    "=",
    "<",
    ">",
    "/",
    "é",
    "base",
    "j1",
    " " * 50,
]


def mutations(text: str) -> st.SearchStrategy[str]:
    """Cut pieces out of a text, say others twice, and put odd ones in."""
    place, length = st.integers(0, len(text)), st.integers(0, 30)
    edit = st.tuples(place, length, st.sampled_from(PIECES), st.booleans())
    return st.lists(edit, min_size=1, max_size=5).map(lambda edits: mutated(text, edits))


def mutated(text: str, edits: list[tuple[int, int, str, bool]]) -> str:
    for at, length, piece, again in edits:
        cut = text[at : at + length]
        text = text[:at] + (cut if again else "") + piece + text[at + length * (not again) :]
    return text


@settings(derandomize=True, max_examples=300, deadline=None)
@given(text=st.sampled_from(sorted(CATALOG)).flatmap(lambda name: mutations(CATALOG[name])))
def test_mutated_toml_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidRobot):
        robot_from_toml(text, "f")


@settings(derandomize=True, max_examples=250, deadline=None)
@given(text=mutations(GOOD_URDF))
def test_mutated_urdf_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidRobot):
        robot_from_urdf(text, "f")


NUMBERS = ["0", "-1", "1e12", "-1e12", "1e-12", "5e-324", "999999", "0.1", "180", "true", '"d3"', "[]", "[1]", '"1/3"']


@settings(derandomize=True, max_examples=80, deadline=None)
@given(data=st.data())
def test_toml_with_other_values_is_read_and_linted_or_refused(data: st.DataObject) -> None:
    lines = CATALOG[data.draw(st.sampled_from(sorted(CATALOG)))].splitlines()
    for at in data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=4)):
        key, equals, _ = lines[at].partition("=")
        lines[at] = f"{key}{equals} {data.draw(st.sampled_from(NUMBERS))}" if equals else ""
    with contextlib.suppress(InvalidRobot):
        assert all(finding.sentence for finding in lint(robot_from_toml("\n".join(lines), "f")))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(data=st.data())
def test_urdf_with_other_values_is_read_and_linted_or_refused(data: st.DataObject) -> None:
    pieces = re.split(r'"([^"]*)"', GOOD_URDF)  # odd ones are values
    for at in data.draw(st.lists(st.sampled_from(range(1, len(pieces), 2)), min_size=1, max_size=4)):
        values = [
            "0",
            "-1",
            "1e12",
            "1e-320",
            "0 0 0",
            "1 0 0",
            "-1e12 1 1",
            "1e-9 1 0",
            "fixed",
            "prismatic",
            "base",
            "boom",
        ]
        pieces[at] = data.draw(st.sampled_from([*values, "tip", "wrist", "elbow", "ground", "", "continuous"]))
    text = "".join(f'"{piece}"' if k % 2 else piece for k, piece in enumerate(pieces))
    with contextlib.suppress(InvalidRobot):
        assert all(finding.sentence for finding in lint(robot_from_urdf(text, "f"), read_urdf(text, "f").notes))
