"""`excitor init`: a folder with a commented campaign.toml that can be designed as it stands."""

from pathlib import Path
from typing import Literal

import numpy as np

from excitor.experiments.campaign import FILE
from excitor.experiments.designing.noise import assumed_noise
from excitor.experiments.designing.setup import si_to_pendant
from excitor.experiments.files import mend, write_atomically, write_bytes_atomically
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, clearances, required
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.errors import ExcitorError
from excitor.robots.load import catalog_names, load
from excitor.robots.robot import Robot

TEMPLATE = """\
# What to identify, where, and how. Only this file is written by hand; excitor design reads it.
# Lengths in m, torques in N m (N for sliding joints), the rest as the keys say.
robot = {robot}

# Where the robot waits before and after every run: degrees, millimetres for sliding joints, in the order
# {joints}
home_deg = {home}

# A body that hangs on the tool in every run and whose data are known.
# [payload]
# mass = 5.0
# center = [0.0, 0.0, 0.08]                 # in the tool's frame
# inertia = [0.02, 0, 0, 0.02, 0, 0.01]     # about its centre: xx xy xz yy yz zz

[limits]
position_margin_deg = 2.0                   # kept free at both ends; sliding joints: mm
velocity_percent = 90.0                     # of the robot's own limits
acceleration_percent = 90.0
torque_percent = 80.0                       # of the prior model's torque, friction and payload included
# tool_speed_m_s = 1.5
# [limits.joint.{first}]                    # tighter than the robot's own, or where those are not stated
# velocity_deg_s = 60.0

[cell]
self_collision = true
clearance_m = 0.02                          # between surfaces
tool_radius_m = 0.05                        # of a ball about the tool point that holds the tool
# [[cell.zone]]                             # what stands around the robot, in its base frame
# name = "table"
# keep = "out"                              # or "in": stay inside
# shape = "box"                             # box: low, high, or center, size, rpy_deg; sphere: center, radius;
# low = [0.3, -0.5, -0.1]                   # cylinder: center, axis, radius, height; half-space: point, normal
# high = [1.0, 0.5, 0.1]
# bodies = "all"                            # or "tool", "links"

[noise]                                     # standard deviation of one torque sample, joint side; a guess until you
torque = {noise}   # have measured: then model = "model.json"
rate_hz = 100.0                             # rows per second that are independent

[design]
schedule = "together"                       # or "single", "locked-sequence", "payload-pair", "gentle-first"
base_frequency_hz = 0.1                     # one period takes 10 s
harmonics = 5
# max_frequency_hz = 2.0                    # below the first resonance
controller_sample_s = 0.004
# excitation = "torque"                     # for a direct-drive arm without a controller; its table is [design.torque]
settle_s = 2.0
ramp_s = 5.0
warm_up_periods = 1
measured_periods = 5
hold_s = 2.0
criterion = "condition"                     # or "d", "a", "e", "sigma" (with parameters), "path" (with task)
seed = 0
evaluations = 20000                         # of each run's search; or seconds = 30.0
"""


def begin(folder: Path, source: str, task: Literal["arm", "payload"] = "arm", prior: Path | None = None) -> Path:
    """Write a campaign for a robot of the catalogue, or for a robot file, which is copied into the folder.

    `prior`: of a payload campaign, the arm's model.json.
    """
    if prior is not None and task == "arm":
        raise ExcitorError("a prior at the beginning goes with task payload; else state it in campaign.toml")
    if prior is not None and not prior.is_file():
        raise ExcitorError(f"{prior}: is no file; name the model.json of the arm's campaign")
    if (folder / FILE).exists():
        raise ExcitorError(f"{folder / FILE}: exists already; give another folder, or remove it first")
    if folder.exists() and not folder.is_dir():
        raise ExcitorError(f"{folder}: is a file; give the name of a folder")
    robot = load(source)
    own = source not in catalog_names()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mend(folder)
        copy = folder / Path(source).name
        if own and copy.resolve() != Path(source).resolve():
            content = Path(source).read_bytes()
            if copy.exists() and copy.read_bytes() != content:
                raise ExcitorError(f"{copy}: exists already, and is not {source}; rename one")
            write_bytes_atomically(copy, content)
    except OSError as error:
        raise ExcitorError(f"{folder}: cannot be written: {error.strerror or error}") from None
    path = folder / FILE
    named = Path(source).name if own else source
    if task == "payload":
        from excitor.experiments.payload.begin import payload_text

        write_atomically(path, payload_text(robot, named, folder, prior))
    else:
        write_atomically(path, campaign_text(robot, named))
    return path


def campaign_text(robot: Robot, source: str) -> str:
    """Fill the template for a robot."""
    sigma = assumed_noise(robot, 100.0, 1.0).sigma
    return TEMPLATE.format(
        robot=quoted(source),
        joints=commented(robot),
        home=numbers(si_to_pendant(robot, home_pose(robot))),
        first=key_of(robot.joint_names[0]),
        noise=numbers(sigma),
    )


def home_pose(robot: Robot) -> FloatArray:
    """Suggest where a robot may wait: its zero, the middle of its ranges, or any posture clear of itself."""
    low, high = robot.limits.position.T
    low, high = np.where(np.isfinite(low), low, -np.pi), np.where(np.isfinite(high), high, np.pi)
    inner = 0.05 * (high - low)
    likely = np.stack([np.zeros(robot.n_joints), 0.5 * (low + high)])
    if isinstance(robot.mechanism, ClosedLoop):
        likely = robot.mechanism.home[None, robot.mechanism.actuated]
    tries = np.vstack([likely, random_motion(robot, 400).q])
    tries = np.clip(tries, low + inner, high - inner)
    for j, value in robot.locked.items():
        tries[:, j] = value
    if not robot.capsules:
        return np.asarray(tries[0])
    scene = Scene((), True, 0.02, 0.05)
    slack = (clearances(robot, scene, tries) - required(robot, scene)).min(axis=1, initial=np.inf)
    return np.asarray(np.round(tries[int(np.argmax(slack > 0.0))], 3))


def numbers(values: FloatArray) -> str:
    """Write numbers as TOML does, four digits each."""
    return "[" + ", ".join(f"{float(f'{x:.4g}'):g}" if x else "0.0" for x in values) + "]"


def commented(robot: Robot) -> str:
    """List the joints in the order of every row of numbers."""
    return ", ".join(quoted(name) for name in robot.joint_names)


def quoted(text: str) -> str:
    """Write a TOML basic string."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04X}" for c in plain) + '"'


def key_of(name: str) -> str:
    """Write a TOML key."""
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else quoted(name)
