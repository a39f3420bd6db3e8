"""Plans to write programs of: any robot, any harmonics, a series or moves, without a search."""

import numpy as np
import pytest

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs.plan import Plan
from excitor.robots.load import load
from tests.plans import lines

SLIDER = """name = "gantry"
[[joint]]
name = "x"
kind = "prismatic"
placement = { xyz = [0, 0, 0.2], axis = [1, 0, 0] }
limits = { position_m = [-0.8, 0.8], velocity_m_s = 1.5, acceleration_m_s2 = 8 }
link = { mass = 2.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
[[joint]]
name = "turn"
placement = { axis = [0, 0, 1] }
limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 200 }
link = { mass = 1.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }
"""


@pytest.fixture(scope="session")
def gantry(tmp_path_factory):
    path = tmp_path_factory.mktemp("gantry") / "gantry.toml"
    path.write_text(SLIDER)
    return load(str(path))


@pytest.fixture(scope="session")
def plan_of():
    """Make a plan: `plan_of("tx40", period=4.0, step=0.004, seed=1)`; `moves=True`: of slow moves, not a series."""
    return make_plan


def make_plan(
    robot="tx40", *, period=2.4, step=0.004, harmonics=(1, 2, 3, 4, 5), measured=2, warm_up=1, ramp=1.2, swing=0.09,
    seed=0, moves=False, way=1, run="excitation", payload=None, campaign="my cell",
):  # fmt: skip
    robot = load(robot) if isinstance(robot, str) else robot
    n = robot.n_joints
    random = np.random.default_rng(seed)
    low, high = (np.nan_to_num(x, posinf=1.0, neginf=-1.0) for x in robot.limits.position.T)
    center = 0.5 * (low + high) + 0.1 * random.uniform(-1, 1, n) * (high - low)
    home = center + 0.1 * random.uniform(-1, 1, n) * (high - low)
    home = home if way else center
    via = [home + (center - home) * (k + 1) / way + (0.05 if k + 1 < way else 0.0) for k in range(way)]
    out = [(to, round((2.0 + 0.4 * k) / step) * step) for k, to in enumerate(via)]
    if moves:
        knots = [center + 0.1 * random.uniform(-1, 1, n) for _ in range(3)]
        once = [
            (knots[0], 1.6, 0.4),
            (knots[0], 1.2, 0.4, True),
            (knots[1], 2.0, 0.6, True),
            (knots[2], 1.6, 0.8),
            (center, 1.6, 0.4),
        ]
        body = lines(robot.joint_names, step, center, *once, *once)
    else:
        excitation = Excitation(
            period, step, tuple(harmonics), np.ones(n, dtype=bool), ramp=ramp, settle=1.0, hold=1.0, warm_up=warm_up,
            measured=measured,
        )  # fmt: skip
        a, b = swing * random.normal(size=(2, n, len(harmonics))) / np.arange(1, len(harmonics) + 1)
        body = periodic_run(excitation, center, a, b, robot.joint_names)
    return Plan(campaign, run, "identify", robot, lines(robot.joint_names, step, home, *out), body, payload)
