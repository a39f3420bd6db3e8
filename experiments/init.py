"""`excitor init`: a folder with a commented campaign.toml that can be designed without changes."""

import os
from dataclasses import replace
from importlib import resources
from pathlib import Path
from textwrap import wrap
from typing import Literal

import numpy as np

from excitor.experiments.campaign import FILE
from excitor.experiments.files import LARGEST, mend, write_atomically, write_bytes_atomically
from excitor.experiments.plan import wrist_and_elbow
from excitor.experiments.setup import assumed_noise, pendant_to_si, si_to_pendant
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, Shape, Zone, clearances, required, volumes_sentence
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.errors import ExcitorError
from excitor.robots.files.bounded import read_bounded
from excitor.robots.files.mjcf import mesh_files
from excitor.robots.files.parts import unclear
from excitor.robots.files.urdf import companions
from excitor.robots.files.write import key_of, quoted, toml_text
from excitor.robots.load import Content, catalog_names, load, part_notes, read_content, robot_of, unclear_part
from excitor.robots.robot import Robot

Task = Literal["arm", "payload", "gains"]


def template(name: str) -> str:
    """Read the text of a campaign.toml with places to fill."""
    return (resources.files("excitor.experiments") / name).read_text("utf-8")


def begin(folder: Path, source: str, task: Task = "arm", prior: Path | None = None) -> Path:
    """Write a campaign for a robot of the catalogue, or for a robot file, which is copied into the folder.

    `prior`: of a payload campaign, the arm's model.json.
    """
    if prior is not None and task != "payload":
        raise ExcitorError("a prior at the beginning goes with task payload; else state it in campaign.toml")
    if prior is not None and not prior.is_file():
        raise ExcitorError(f"{prior}: is no file; name the model.json of the arm's campaign")
    if (folder / FILE).exists():
        raise ExcitorError(f"{folder / FILE}: exists already; give another folder, or remove it first")
    if folder.exists() and not folder.is_dir():
        raise ExcitorError(f"{folder}: is a file; give the name of a folder")
    content = read_content(source)
    robot = robot_of(content)
    own = source not in catalog_names()
    named, branching = Path(source).name if own else source, unclear_part(content)
    part = folder / f"{Path(source).stem}-part.toml"
    if branching and (content.urdf_file != Path(source) or part.exists()):
        raise ExcitorError(f"{part}: exists already; rename it" if part.exists() else f"{source}: {branching}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mend(folder)
        for file in content.files if own else ():  # and what the robot's file is based on
            if not file.resolve().is_relative_to(Path(source).parent.resolve()):
                way = "write the whole robot with excitor robots --to toml --out, and begin with that"
                raise ExcitorError(f"{file}: is outside the folder of {source}, which is based on it; {way}")
            _copy(file, folder / file.relative_to(Path(source).parent))
            if content.urdf is not None and file == content.files[0]:
                beside = (folder / file.relative_to(Path(source).parent)).parent  # where its meshes and SRDF are found
                for path, place in mesh_files(file) if content.urdf.language == "MJCF" else companions(file):
                    _copy(path, beside / place)
    except OSError as error:
        raise ExcitorError(f"{folder}: cannot be written: {error.strerror or error}") from None
    path = folder / FILE
    if branching:
        named = part.name
        write_atomically(part, part_text(content))
        robot = load(part)
    text = campaign_text(robot, named) if task == "arm" else payload_text(robot, named, folder, prior, task)
    write_atomically(path, text)
    return path


def part_text(content: Content) -> str:
    """Write a robot file that says which joints of a robot with branches move, and where the others are held."""
    moving = unclear(content.data)
    part = robot_of(replace(content, data={**content.data, "moving": moving}))
    held = [
        {"name": name} | ({"held_m": at.position} if at.slides else {"held_deg": float(np.degrees(at.position))})
        for name, at in part.held.items()
    ]
    return f"base = {quoted(Path(content.source).name)}\n{_PART}{toml_text({'moving': moving, 'joint': held})}"


_PART = (
    "# A guess of the joints that move. The others are held: what they carry belongs to the links that carry them.\n"
)


def notes_comment(robot: Robot) -> str:
    """Say as comments of campaign.toml which joints are held, and which have an assumed range."""
    lines = [line for where, sentence in part_notes(robot) for line in wrap(f"{where}: {sentence}", 110)]
    return "".join(f"# {line}\n" for line in lines)


def _copy(source: Path, copy: Path) -> None:
    """Copy a file, unless it is there already; another one of its name is never lost."""
    if copy.resolve() == source.resolve():
        return
    content = read_bounded(source, LARGEST)
    if copy.exists() and copy.read_bytes() != content:
        raise ExcitorError(f"{copy}: exists already, and is not {source}; rename one")
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomically(copy, content)


def campaign_text(robot: Robot, source: str) -> str:
    """Fill the template for a robot."""
    sigma = assumed_noise(robot, 100.0, 1.0).sigma
    return template("campaign-arm.toml").format(
        robot=quoted(source),
        notes=notes_comment(robot),
        joints=commented(robot),
        home=numbers(si_to_pendant(robot, home_pose(robot))),
        first=key_of(robot.joint_names[0]),
        noise=numbers(sigma),
        volumes=volumes_comment(robot),
        acceleration=acceleration_lines(robot),
    )


def acceleration_lines(robot: Robot) -> str:
    """Write acceleration limits for joints whose robot states none, for a person to confirm."""
    unknown = ~np.isfinite(robot.limits.acceleration)
    sliding = robot.mechanism.prismatic
    lines = [
        ("acceleration_deg_s2 = 300.0", (unknown & ~sliding).any()),
        ("acceleration_m_s2 = 2.0", (unknown & sliding).any()),
    ]
    remark = "# assumed, of every joint, as the robot states none; put in what its drives stand"
    return "".join(f"{line:44}{remark}\n" for line, needed in lines if needed)


def volumes_comment(robot: Robot) -> str:
    """Say where the links' volumes come from, as comments of campaign.toml; nothing where all are stated."""
    origins = {capsule.origin for capsule in robot.capsules}
    if origins <= {"stated"}:
        return ""
    asked = "# assumed_volumes = true                    # rely on those that are assumed\n" * ("assumed" in origins)
    return f"# {volumes_sentence(robot)}\n{asked}"


MARGIN = 2.1  # degrees or mm: more than a new campaign keeps free at the ends of ranges, by what rounding takes


def home_pose(robot: Robot) -> FloatArray:
    """Return a home pose clear of the robot itself and, if it can, of a table that it stands on.

    The first of these: zero, the middle of the ranges, one or two joints a quarter turn from zero, random postures.
    """
    low, high = robot.limits.position.T
    low, high = np.where(np.isfinite(low), low, -np.pi), np.where(np.isfinite(high), high, np.pi)
    kept = pendant_to_si(robot, np.full(robot.n_joints, MARGIN))
    inner = np.minimum(np.maximum(0.05 * (high - low), kept), 0.5 * (high - low))
    turns = 0.5 * np.pi * np.vstack([np.eye(robot.n_joints), -np.eye(robot.n_joints)])
    pairs = (turns[:, None] + turns)[~np.tile(np.eye(robot.n_joints, dtype=bool), (2, 2))]
    likely = np.vstack([np.zeros(robot.n_joints), 0.5 * (low + high), turns, pairs])
    if isinstance(robot.mechanism, ClosedLoop):
        likely = robot.mechanism.home[None, robot.mechanism.actuated]
    tries = np.vstack([likely, random_motion(robot, 400).q])
    tries = np.clip(tries, low + inner, high - inner)
    for j, value in robot.locked.items():
        tries[:, j] = value
    tries = pendant_to_si(robot, np.round(si_to_pendant(robot, tries), 1) + 0.0)  # as they are written
    if not robot.capsules:
        return np.asarray(tries[0])
    scene = Scene((), True, 0.02, 0.05)
    table = replace(scene, zones=(Zone("table", Shape("half-space", np.eye(4)), "out", clearance=0.1),))
    own, over = (clearances(robot, cell, tries) - required(robot, cell) for cell in (scene, table))
    clear = (own > 0.0).all(axis=1)
    above = clear & (over[:, (over > 0.0).any(axis=0)] > 0.0).all(axis=1)
    return np.asarray(tries[int(np.argmax(above if above.any() else clear))])


def numbers(values: FloatArray) -> str:
    """Write numbers as TOML does, four digits each."""
    return "[" + ", ".join(f"{float(f'{x:.4g}'):g}" if x else "0.0" for x in values) + "]"


def commented(robot: Robot) -> str:
    """List the joints in the order of every row of numbers."""
    return ", ".join(quoted(name) for name in robot.joint_names)


DENSITY = 1500.0  # kg/m³ of the cube that is guessed
SHARE = 0.12  # of a wrist joint's torque limit that the guessed load's weight takes
NO_LIMIT = 5.0  # kg, where no torque limit tells
EVALUATIONS = 1500


def payload_text(robot: Robot, source: str, folder: Path, prior: Path | None, task: Task = "payload") -> str:
    """Fill the template of a payload or gains campaign for a robot."""
    mass = guessed_mass(robot)
    side = (mass / DENSITY) ** (1.0 / 3.0)
    turn = mass * side**2 / 6.0
    named = '# prior = "../arm/model.json"' if prior is None else f"prior = {quoted(relative(prior, folder))}"
    return template(f"campaign-{task}.toml").format(
        robot=quoted(source),
        notes=notes_comment(robot),
        prior=named,
        joints=commented(robot),
        home=numbers(si_to_pendant(robot, home_pose(robot))),
        mass=f"{mass:.3g}",
        center=numbers(np.array([0.0, 0.0, 0.5 * side])),
        inertia=numbers(np.array([turn, 0.0, 0.0, turn, 0.0, turn])),
        last=key_of(robot.joint_names[-1]),
        radius=f"{0.05:g}",
        noise=numbers(assumed_noise(robot, 100.0, 1.0).sigma),
        moving="[" + ", ".join(quoted(name) for name in wrist_and_elbow(robot)) + "]",
        step="0.004",
        acceleration=acceleration_lines(robot),
        evaluations=EVALUATIONS,
        volumes=volumes_comment(robot),
    )


def guessed_mass(robot: Robot) -> float:
    """Estimate a load, kg, whose weight takes a share of the last but one joint's torque, 0.2 m beyond the tool."""
    if robot.n_joints < 2 or not np.isfinite(robot.limits.torque[-2]):
        return NO_LIMIT
    lever = 0.2 + float(np.linalg.norm(robot.tool.T_link_frame[:3, 3]))
    return float(f"{SHARE * robot.limits.torque[-2] / (9.81 * lever):.2g}")


def relative(prior: Path, folder: Path) -> str:
    """Write a file's path relative to a folder."""
    return Path(os.path.relpath(prior.resolve(), folder.resolve())).as_posix()
