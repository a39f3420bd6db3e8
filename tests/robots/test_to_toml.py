"""Robots written as robot files: read back, they are the same to 1e-12."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app
from excitor.robots.errors import ExcitorError
from excitor.robots.files.write import differences, robot_toml, toml_text, toml_value
from excitor.robots.inertia import roll_pitch_yaw, roll_pitch_yaw_of
from excitor.robots.load import catalog_names, load, read_content, robot_from_toml, toml_data
from excitor.robots.robot import DriveTrain, FrictionTerm, Payload
from tests.random_robots import N_RANDOM_TREES, make_random_robot
from tests.robots.test_overlay import FULL, URDF
from tests.robots.test_urdf import random_urdf

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "urdf"
OPEN = [name for name in catalog_names() if read_content(name).data.get("platform") is None]


def check(source, text):
    lost = differences(load(source) if isinstance(source, str | Path) else source, robot_from_toml(text, "again.toml"))
    assert not lost


@pytest.mark.parametrize("name", catalog_names())
def test_catalogue_robots_come_back(name):
    """Closed chains, couplings, sliding joints and declared base parameters among them."""
    check(name, robot_toml(name))
    check(name, toml_text(read_content(name).data))


@pytest.mark.parametrize("name", OPEN)
def test_open_chains_come_back_from_memory(name):
    text = robot_toml(load(name))
    check(name, text)
    again, original = robot_from_toml(text, "again"), load(name)
    np.testing.assert_allclose(again.mechanism.coupling, original.mechanism.coupling, rtol=1e-12)
    np.testing.assert_allclose(again.chi, original.chi, rtol=1e-12, atol=1e-12)
    assert again.controllers.keys() == original.controllers.keys()


@pytest.mark.parametrize("seed", range(N_RANDOM_TREES))
def test_random_trees_come_back_from_memory(seed):
    """Branches, arbitrary axes, shifted link frames, couplings, tied friction, ripples."""
    robot = make_random_robot(seed)
    tool = robot.tool
    robot = replace(
        robot, payload=Payload(tool.link, robot.chi[:10]), locked={0: 0.3}, frames=(replace(tool, name="f"),)
    )
    check(robot, robot_toml(robot))


@pytest.mark.parametrize("seed", range(10))
def test_random_urdfs_come_back(seed, tmp_path):
    (tmp_path / "random.urdf").write_text(random_urdf(seed))
    check(tmp_path / "random.urdf", robot_toml(tmp_path / "random.urdf"))
    check(tmp_path / "random.urdf", robot_toml(load(tmp_path / "random.urdf")))


@pytest.mark.slow
@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public URDF files are not there")
def test_public_urdfs_come_back():
    files = sorted(PUBLIC.rglob("*.urdf"))
    assert files
    for file in files:
        check(file, robot_toml(file))
        if load(file).held:
            with pytest.raises(ExcitorError, match="a robot file cannot state its .*held"):
                robot_toml(load(file))
        else:
            check(file, robot_toml(load(file)))


def test_an_overlay_comes_back_with_where_its_figures_are_from(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "my.toml").write_text(FULL)
    text = robot_toml(tmp_path / "my.toml")
    check(tmp_path / "my.toml", text)
    lines = text.splitlines()
    assert "from arm.urdf, with my.toml put over it." in lines[0]
    for expected in (
        "gravity = [0.0, 0.0, -9.81]  # assumed: z is up",
        'rotors = "motors"  # assumed for a URDF',
        "efficiency = [0.9, 0.8]  # my.toml",
        "Fv1 = 0.5  # <dynamics>",
        "Fv2 = 4.0  # my.toml",
        "radius = 0.05  # my.toml",
        "locked_m = 0.1  # my.toml",
    ):
        assert expected in lines
    (limits,) = (line for line in lines if "jerk_rad_s3" in line)
    assert "position_rad: <limit>; torque: <limit>; velocity_deg_s: my.toml" in limits
    assert sum(line.startswith("link = {") and line.endswith("# <inertial>") for line in lines) == 3


@pytest.mark.parametrize("base", ["arm.urdf", "tx40", "kr150", "delta"])
def test_what_an_overlay_left_behind_is_not_written(tmp_path, base):
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "my.toml").write_text(f'base = "{base}"\nfriction = []\n[drive]\nrotors = "none"')
    text = robot_toml(tmp_path / "my.toml")
    check(tmp_path / "my.toml", text)
    assert "Fv1" not in text


def test_what_was_changed_on_reading_a_urdf_is_in_the_header(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF.replace('xyz="0.3 0 0"', 'xyz="0.3 0 0" rpy="1.5708 0 0"'))
    assert "# joint 'mount' origin rpy: 1.5708 is read as pi/2, 3.7e-06 rad away\n" in robot_toml(tmp_path / "arm.urdf")


def test_a_robot_file_without_a_base_stands_as_it_is():
    head, _, rest = robot_toml("tx40").partition("\n")
    assert head == "# From tx40, as it stands."
    assert rest == read_content("tx40").text


@pytest.mark.parametrize("pitch", [0.3, math.pi / 2, -math.pi / 2, math.pi / 2 - 1e-9, 1.2e-17 + math.pi / 2])
def test_angles_are_found_also_where_pitch_is_a_quarter_turn(pitch):
    for roll, yaw in ((0.4, -2.0), (math.pi, 3.0), (0.0, 0.0)):
        T = roll_pitch_yaw(roll, pitch, yaw)
        np.testing.assert_allclose(roll_pitch_yaw(*roll_pitch_yaw_of(T)), T, atol=1e-15)


def test_names_and_numbers_survive():
    data = {"name": 'a "b" \\ \n\U000e0001', "joint": [{"name": "x y", "senses": {"ü.1": 1e-300, "b": -0.1}}]}
    assert toml_data(toml_text(data), "f") == data
    assert toml_value([True, 3, [0.1]]) == "[true, 3, [0.1]]"


def weak(robot, **changed):
    """Change the drive train."""
    fields = {key: getattr(robot.drive, key) for key in DriveTrain.__slots__}
    return replace(robot, drive=DriveTrain(**fields | changed))


def half_a_ripple(robot):
    term = robot.drive.friction[0]
    half = FrictionTerm(term.parameter, "ripple-sin", term.senses, term.acts)
    return weak(robot, friction=(half, *robot.drive.friction[1:]))


def one_sided(robot):
    position = robot.limits.position.copy()
    position[0, 1] = np.inf
    return replace(robot, limits=replace(robot.limits, position=position))


def known_law(robot):
    law = robot.drive.torque_from_current.copy()
    law[0] = np.nan
    return weak(robot, torque_from_current=law)


def test_a_law_may_be_unknown_of_some_motors():
    robot = known_law(load("tx40"))
    again = robot_from_toml(robot_toml(robot), "tx40.toml")
    np.testing.assert_array_equal(again.drive.torque_from_current, robot.drive.torque_from_current)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda robot: load("delta"), "delta: a closed chain is written from the file that describes it only"),
        (half_a_ripple, "friction 'Fv1' is a part of 'ripple'; a file states it whole"),
        (one_sided, "tx40: a robot file cannot state its limits.position"),
        (lambda robot: replace(robot, payload=Payload(1, robot.chi[:10])), "the payload hangs on another link"),
        (
            lambda robot: replace(robot, mechanism=replace(robot.mechanism, joint_names=("j2", "j1", *"cdef"))),
            "no link",
        ),
        (lambda robot: replace(robot, mechanism=replace(robot.mechanism, joint_names=(*"abcde", "j1"))), "no link"),
    ],
)
def test_what_a_file_cannot_hold_is_a_sentence(change, match):
    with pytest.raises(ExcitorError, match=match):
        robot_toml(change(load("tx40")))


def test_the_command_line_writes_a_file(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "my.toml").write_text(FULL)
    out = tmp_path / "whole.toml"
    done = CliRunner().invoke(app, ["robots", str(tmp_path / "my.toml"), "--to", "toml", "--out", str(out)])
    assert done.exit_code == 0
    check(tmp_path / "my.toml", out.read_text())
    printed = CliRunner().invoke(app, ["robots", str(tmp_path / "arm.urdf"), "--to", "toml"])
    check(tmp_path / "arm.urdf", printed.stdout)
    lost = CliRunner().invoke(
        app, ["robots", str(tmp_path / "my.toml"), "--to", "toml", "--out", str(tmp_path / "arm.urdf")]
    )
    assert "would be lost" in str(lost.exception)
    assert (tmp_path / "arm.urdf").read_text() == URDF
