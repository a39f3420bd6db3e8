"""Campaign folders of a simulated Rotradi: campaign.toml, and CSV logs with known noise."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.robot import Motion

RATE = 200.0
TRUTH = 1.1  # times the prior parameters of the robot's file
NOISE = np.array([0.5, 1.5, 0.15])
COLUMNS = """
[log]
time = "t"

[[log.signals]]
kind = "position"
side = "joint"
unit = "deg"
columns = ["q1", "q2", "q3"]

[[log.signals]]
kind = "torque"
side = "joint"
unit = "N m"
columns = ["c1", "c2", "c3"]
"""
CAMPAIGN = (
    'robot = "rotradi"\n'
    + COLUMNS
    + """
[[run]]
name = "first"
log = "logs/first.csv"

[[run]]
name = "second"
log = "logs/second.csv"
role = "validate"

[processing]
lowpass_hz = 20.0
decimate = [4]
"""
)
PLANNED = """robot = "rotradi"
home_deg = [10, 20, 30]
[design]
schedule = "together"
base_frequency_hz = 0.5
harmonics = 3
settle_s = 0.5
ramp_s = 1.0
hold_s = 0.5
warm_up_periods = 0
measured_periods = 2
controller_sample_s = 0.01
"""


def motion_of(robot, seconds, seed, harmonics=6, base_hz=0.1, rate=RATE):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    q, dq, ddq = np.zeros((3, len(t), robot.n_joints))
    for k in range(1, harmonics + 1):
        w = 2 * np.pi * base_hz * k
        a, b = rng.uniform(-0.35, 0.35, size=(2, robot.n_joints))
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q += a * s + b * c
        dq += w * (a * c - b * s)
        ddq -= w * w * (a * s + b * c)
    return t, Motion(q, dq, ddq)


def write_log(path, robot, t, motion, seed):
    rng = np.random.default_rng(100 + seed)
    tau = inverse_dynamics(robot, motion) + rng.normal(size=motion.q.shape) * NOISE
    path.parent.mkdir(exist_ok=True)
    table = np.column_stack([t, np.degrees(motion.q), tau])
    np.savetxt(path, table, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="", fmt="%.6f")


def true_robot():
    """Return the robot that the logs are of: other than the prior model."""
    robot = load("rotradi")
    return replace(robot, chi=TRUTH * robot.chi)


@cache
def log_of(seconds, k, noise_seed):
    """Make the text of the log of run k, once: formatting numbers takes long."""
    robot = true_robot()
    with TemporaryDirectory() as place:
        path = Path(place) / "logs" / "run.csv"
        write_log(path, robot, *motion_of(robot, seconds, k), noise_seed)
        return path.read_bytes()


def write_campaign(folder, seconds=40.0, text=CAMPAIGN, noise_seed=lambda k: k):
    """Write a campaign of two runs, the second to validate with."""
    (folder / "logs").mkdir()
    for k, name in enumerate(("first", "second")):
        (folder / "logs" / f"{name}.csv").write_bytes(log_of(seconds, k, noise_seed(k)))
    (folder / "campaign.toml").write_text(text)
    return folder
