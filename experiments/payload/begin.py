"""What does a payload campaign's campaign.toml begin as? Commented, and ready to be designed as it stands."""

import os
from pathlib import Path

import numpy as np

from excitor.experiments.designing.init import commented, home_pose, key_of, numbers, quoted
from excitor.experiments.designing.noise import assumed_noise
from excitor.experiments.designing.setup import si_to_pendant
from excitor.experiments.payload.schedule import wrist_and_elbow
from excitor.robots.robot import Robot

TEMPLATE = """\
# What does the robot carry? The same motion with and without the load. Only this file is written by hand.
# Lengths in m, torques in N m (N for sliding joints), the rest as the keys say.
robot = {robot}
task = "payload"

# The bare arm, as an earlier campaign of this very robot identified it: links and rotors, with how sure they are.
{prior}

# Where the robot waits before and after every run: degrees, millimetres for sliding joints, in the order
# {joints}
home_deg = {home}

# A guess of the load, in the tool's frame: motions are planned, and proven to keep the limits, with it.
[payload]
mass = {mass}
center = {center}
inertia = {inertia}   # about its centre: xx xy xz yy yz zz

[arm]                                       # without a prior: how far off the robot file's numbers may be, one
links_percent = 5.0                         # standard deviation, of masses, centres, inertias
rotors_percent = 5.0

# What the robot may carry, from its data sheet: without it the report cannot say whether it is too much.
# [rated]
# mass = {mass}
# inertia = {{ {last} = 1.0 }}               # kg m2 about the axes of joints, at the worst pose
# moment = {{ {last} = 10.0 }}               # N m of the load's weight

[limits]
position_margin_deg = 2.0                   # kept free at both ends; sliding joints: mm
velocity_percent = 90.0                     # of the robot's own limits
acceleration_percent = 90.0
torque_percent = 70.0                       # of the prior model's torque: the load may be heavier than guessed

[cell]
self_collision = true
clearance_m = 0.02                          # between surfaces
tool_radius_m = {radius}                      # of a ball about the tool point that holds the load
# [[cell.zone]]                             # what stands around the robot, in its base frame
# name = "table"
# keep = "out"                              # or "in": stay inside
# shape = "box"
# low = [0.3, -0.5, -0.1]
# high = [1.0, 0.5, 0.1]

[noise]                                     # standard deviation of one torque sample, joint side; a guess
torque = {noise}
rate_hz = 100.0                             # rows per second that are independent

[design]
schedule = "payload-pair"                   # bare, loaded, loaded, bare; or "static-pair": poses only, mass and centre
joints = {moving}
model = "load"                              # the motion is good at telling a load, friction and gears' losses
static_poses = 0                            # that many poses are held bare and loaded, too; 15 are enough
base_frequency_hz = 0.1                     # one period takes 10 s
harmonics = 5
controller_sample_s = {step}
settle_s = 2.0
ramp_s = 5.0
warm_up_periods = 1
measured_periods = 5
hold_s = 2.0
seed = 0
evaluations = {evaluations}                         # of each run's search; or seconds = 30.0
"""
DENSITY = 1500.0  # kg/m³ of the cube that is guessed
SHARE = 0.12  # of a wrist joint's torque limit that the guessed load's weight takes
NO_LIMIT = 5.0  # kg, where no torque limit tells
EVALUATIONS = 1500


def payload_text(robot: Robot, source: str, folder: Path, prior: Path | None) -> str:
    """Fill the template for a robot."""
    mass = guessed_mass(robot)
    side = (mass / DENSITY) ** (1.0 / 3.0)
    turn = mass * side**2 / 6.0
    named = '# prior = "../arm/model.json"' if prior is None else f"prior = {quoted(relative(prior, folder))}"
    return TEMPLATE.format(
        robot=quoted(source),
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
        evaluations=EVALUATIONS,
    )


def guessed_mass(robot: Robot) -> float:
    """Guess a load whose weight takes a modest share of the last but one joint's torque, 0.2 m beyond the tool, kg."""
    if robot.n_joints < 2 or not np.isfinite(robot.limits.torque[-2]):
        return NO_LIMIT
    lever = 0.2 + float(np.linalg.norm(robot.tool.T_link_frame[:3, 3]))
    return float(f"{SHARE * robot.limits.torque[-2] / (9.81 * lever):.2g}")


def relative(prior: Path, folder: Path) -> str:
    """Name a file from a folder."""
    return Path(os.path.relpath(prior.resolve(), folder.resolve())).as_posix()
