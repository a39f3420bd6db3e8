"""What does a working day of a repeated process look like in a robot's logs? A robot that is not there works it.

Friction warms up and follows the hall's temperature, torques carry white and slow noise, cycles differ a little, and
friction near standstill is in no model. At some cycle the tool may become heavier.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.samples import Samples
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import with_friction_width

LOG_HZ = 100.0
WIDTH = 0.002  # rad/s, over which friction changes its sign
MODEL_ERROR = 0.03  # of each parameter on file
WHITE, SLOW = 0.004, 0.002  # of the largest torque in the cycle; the slow part changes within SLOW_S
SLOW_S = 90.0
DIFFER = 2e-4  # rad: how cycles differ in where they go
ENCODER = 2.0 * np.pi / 65536 / 100  # rad
STRIBECK, STRIBECK_SPEED = 0.15, 0.05  # of Coulomb friction, rad/s: in no model
VISCOUS_LOSS, COULOMB_LOSS = 0.3, 0.1  # of friction when warm
LOWPASS_HZ = 20.0  # of a campaign's positions: moves of this process take about a second
WARM_UP_S = (1500.0, 3000.0)
HALL = 0.03  # of friction, over a day of 24 h
NO_LOAD = np.zeros(10)


@dataclass(frozen=True, eq=False, slots=True)
class Day:
    """A process, the robot that does it, and the model on file."""

    robot: Robot
    true: Robot
    chi: FloatArray  # (n_params,), cold
    names: tuple[str, ...]  # of the model on file
    beta: FloatArray
    motion: Motion  # of one cycle
    warm_up: FloatArray  # (n_joints,), s
    white: FloatArray  # (n_joints,)
    seed: int

    def __post_init__(self) -> None:
        freeze(self, chi="n_params", beta="n_base", warm_up="n_joints", white="n_joints")

    @property
    def cycle_s(self) -> float:
        """How long a cycle takes."""
        return len(self.motion) / LOG_HZ


@dataclass(slots=True)
class Hours:
    """Where a day has got to: it is gone through cycle by cycle."""

    day: Day
    rng: np.random.Generator
    t: float  # s since the morning
    warmth: FloatArray  # (n_joints,): 0 cold, 1 as warm as it gets
    slow: FloatArray


def draw_day(robot: Robot, seed: int, *, cycle_s: float = 12.0) -> Day:
    """Draw a process of six moves through random poses, how the joints warm up, and the errors of the model."""
    rng = np.random.default_rng([seed, 0x646179])
    true = with_friction_width(robot, WIDTH)
    base = base_parameters(robot)
    chi = prior(robot)
    beta = base.values(chi)
    motion = _process(robot, rng, cycle_s)
    size = np.abs(inverse_dynamics(true, motion, chi)).max(axis=0)
    error = 1.0 + MODEL_ERROR * rng.normal(size=len(beta))
    warm_up = rng.uniform(*WARM_UP_S, size=robot.n_joints)
    names = tuple(layout(robot).names[k] for k in base.kept)
    return Day(robot, true, chi, names, beta * error, motion, warm_up, WHITE * size, seed)


def begin_day(day: Day, *, seed: int = 0) -> Hours:
    """Start in the morning, with a cold robot."""
    cold = np.zeros(day.robot.n_joints)
    return Hours(day, np.random.default_rng([day.seed, seed, 1]), 0.0, cold, cold)


def stand(hours: Hours, seconds: float) -> None:
    """Take a break: the robot cools."""
    hours.t += seconds
    hours.warmth = hours.warmth * np.exp(-seconds / hours.day.warm_up)


def next_cycle(hours: Hours, load: FloatArray = NO_LOAD) -> tuple[FloatArray, FloatArray]:
    """Work one more cycle with a load (10,) beside the robot's own; what the log says of it: q and τ."""
    day, rng = hours.day, hours.rng
    n = len(day.motion)
    motion = _differing(day.motion, rng)
    chi = _friction_at(hours)
    link = layout(day.robot).link(day.robot.tool.link)
    chi[link] += load
    tau = inverse_dynamics(day.true, motion, chi) + _stribeck(day, motion, chi)
    decay = np.exp(-day.cycle_s / SLOW_S)
    before = hours.slow
    share = SLOW / WHITE * day.white
    hours.slow = decay * before + np.sqrt(1.0 - decay**2) * share * rng.normal(size=len(share))
    ramp = np.linspace(0.0, 1.0, n)[:, None]
    tau = tau + before * (1.0 - ramp) + hours.slow * ramp + day.white * rng.normal(size=tau.shape)
    hours.t += day.cycle_s
    hours.warmth = 1.0 - (1.0 - hours.warmth) * np.exp(-day.cycle_s / day.warm_up)
    return np.round(motion.q / ENCODER) * ENCODER, tau


def cycle_samples(q: FloatArray, tau: FloatArray, *, rate: float = LOG_HZ) -> Samples:
    """Differentiate a cycle's positions."""
    dq = differentiate(q, sample_rate_hz=rate)
    return Samples("process", Motion(q, dq, differentiate(dq, sample_rate_hz=rate)), tau, rate)


def tool_load(day: Day, mass: float) -> FloatArray:
    """Parameters of a ball of steel held before the tool's flange, (10,), in the last link's frame."""
    frame = day.robot.tool.T_link_frame
    c = frame[:3, 3] + frame[:3, :3] @ np.array([0.02, -0.01, 0.06])
    radius = (abs(mass) / (4.0 / 3.0 * np.pi * 7800.0)) ** (1.0 / 3.0)
    inertia = mass * (0.4 * radius**2 * np.eye(3) + (c @ c) * np.eye(3) - np.outer(c, c))
    return np.array([*inertia[np.triu_indices(3)], *(mass * c), mass])


def write_campaign(folder: Path, day: Day, cut: str) -> None:
    """Write a campaign with the day's model on file; `cut` is how its process is cut, such as `cycle_s = 10.0`."""
    names = [f"q{k + 1}" for k in range(day.robot.n_joints)], [f"m{k + 1}" for k in range(day.robot.n_joints)]
    signals = "".join(
        f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\ncolumns = {json.dumps(columns)}\n'
        for kind, unit, columns in (("position", "rad", names[0]), ("torque", "N m", names[1]))
    )
    run = f'[[run]]\nname = "process"\nlog = "morning.csv"\n{cut}\n'
    processing = f"[processing]\nlowpass_hz = {LOWPASS_HZ}\n"
    (folder / "campaign.toml").write_text(f'robot = "{day.robot.name}"\n[log]\ntime = "t"\n{signals}{run}{processing}')
    sigma = np.abs(day.beta) * MODEL_ERROR + 1e-3
    params = layout(day.robot)
    model = {
        "schema": 1,
        "robot": day.robot.name,
        "parameters": [
            {"name": name, "unit": params.units[params.index(name)], "value": value, "sigma": s}
            for name, value, s in zip(day.names, day.beta.tolist(), sigma.tolist(), strict=True)
        ],
        "covariance": np.diag(sigma**2).tolist(),
        "weights": [
            {"joint": joint, "run": 0, "sigma": 3.0 * s}
            for joint, s in zip(day.robot.joint_names, day.white.tolist(), strict=True)
        ],
        "standard": {},
    }
    (folder / "model.json").write_text(json.dumps(model))


def log_lines(t: float, q: FloatArray, tau: FloatArray) -> str:
    """Write samples as lines of a log, from time t on."""
    rows = np.column_stack([t + np.arange(len(q)) / LOG_HZ, q, tau])
    return "".join(",".join(f"{x:.7f}" for x in row) + "\n" for row in rows)


def log_heading(robot: Robot) -> str:
    """Write the line of headings."""
    joints = range(1, robot.n_joints + 1)
    return ",".join(["t", *(f"q{k}" for k in joints), *(f"m{k}" for k in joints)]) + "\n"


def _process(robot: Robot, rng: np.random.Generator, cycle_s: float) -> Motion:
    """Go through six poses and back, at rest in each, so fast that a joint reaches half its speed."""
    n_moves, n = 6, round(cycle_s * LOG_HZ)
    limits = np.clip(robot.limits.position, -np.pi, np.pi)
    middle, half = limits.mean(axis=1), 0.3 * np.ptp(limits, axis=1)
    most = 0.5 * robot.limits.velocity * (cycle_s / n_moves - 0.3) / 1.875
    poses = [middle + half * rng.uniform(-1.0, 1.0, robot.n_joints)]
    for _ in range(n_moves - 1):
        aim = middle + half * rng.uniform(-1.0, 1.0, robot.n_joints)
        poses.append(poses[-1] + np.clip(aim - poses[-1], -most, most))
    poses[-1] = np.clip(poses[-1], poses[0] - most, poses[0] + most)
    poses.append(poses[0])
    t = np.arange(n) / LOG_HZ
    move_s = cycle_s / n_moves
    k = np.minimum((t / move_s).astype(int), n_moves - 1)
    s = np.clip((t - k * move_s) / (move_s - 0.3), 0.0, 1.0)
    stations = np.array(poses)
    step = stations[k + 1] - stations[k]
    scale = 1.0 / (move_s - 0.3)
    inside = (s < 1.0)[:, None]
    shape = (s**3 * (10.0 - 15.0 * s + 6.0 * s**2))[:, None]
    speed = (30.0 * s**2 * (1.0 - s) ** 2)[:, None] * scale * inside
    change = (60.0 * s * (1.0 - s) * (1.0 - 2.0 * s))[:, None] * scale**2 * inside
    return Motion(stations[k] + step * shape, step * speed, step * change)


def _differing(motion: Motion, rng: np.random.Generator) -> Motion:
    """Let a cycle go a little elsewhere: slow sines of random size."""
    n, joints = motion.q.shape
    w = 2.0 * np.pi * LOG_HZ / n
    t = np.arange(n) / LOG_HZ
    q, dq, ddq = motion.q.copy(), motion.dq.copy(), motion.ddq.copy()
    for k in (1, 2, 5):
        a, b = DIFFER / k * rng.normal(size=(2, joints))
        s, c = np.sin(k * w * t)[:, None], np.cos(k * w * t)[:, None]
        q += a * s + b * (c - 1.0)
        dq += k * w * (a * c - b * s)
        ddq -= (k * w) ** 2 * (a * s + b * c)
    return Motion(q, dq, ddq)


def _friction_at(hours: Hours) -> FloatArray:
    """Friction now: it falls while joints warm up, and follows the hall."""
    day, warm = hours.day, hours.warmth
    chi = day.chi.copy()
    hall = 1.0 + HALL * np.sin(2.0 * np.pi * hours.t / 86400.0)
    for term, column in zip(day.robot.drive.friction, layout(day.robot).friction_columns, strict=True):
        j = int(np.argmax(np.abs(term.acts)))
        if term.model == "viscous":
            chi[column] *= hall * (1.0 - VISCOUS_LOSS * warm[j])
        elif term.model == "coulomb":
            chi[column] *= hall * (1.0 - COULOMB_LOSS * warm[j])
    return chi


def _stribeck(day: Day, motion: Motion, chi: FloatArray) -> FloatArray:
    """Friction near standstill that no model has."""
    extra = np.zeros_like(motion.q)
    for term, column in zip(day.robot.drive.friction, layout(day.robot).friction_columns, strict=True):
        if term.model == "coulomb":
            v = motion.dq @ term.senses
            shape = np.tanh(v / WIDTH) * np.exp(-np.abs(v) / STRIBECK_SPEED)
            extra += STRIBECK * chi[column] * shape[:, None] * term.acts
    return extra
