"""Benchmark of strangers' logs: arms of other simulators, written as CSV files, identified with nothing stated.

MuJoCo and pinocchio integrate random arms of six or seven joints under a PD servo that nobody tells us, with friction
of their own. Their logs have quantised encoders, uneven clocks, drifting and rippling torque sensors. Public recordings
are identified where they are found.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import IdentifiedModel, identify
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout

STEP = 5e-4  # s of the simulators
RATE = 500.0  # Hz of the logs
PERIOD, HARMONICS = 10.0, 5
SECONDS = {"identify": 30.0, "validate": 15.0}
FIXED = (5.0, 10.0, 20.0, 40.0)  # Hz, of the low-passes that the default is compared with
NOISES = (0.01, 0.1)  # of each torque's rms


@dataclass(frozen=True, slots=True)
class Arm:
    """A random arm: its URDF, and what a URDF does not hold."""

    urdf: str
    rotors: FloatArray  # kg m2, on the joint side
    viscous: FloatArray
    dry: FloatArray

    @property
    def n(self) -> int:
        """Number of its joints."""
        return len(self.rotors)


@dataclass(frozen=True, slots=True)
class Sensors:
    """Sensors of a log: what they add to positions and torques, and when they are read."""

    noise: float = 0.01  # of each torque's rms, white
    drift: float = 0.005  # of the same, a random walk's by the end
    chatter: float = 0.005  # of the same, at 70 Hz and more
    quantum: float = 2.0 * np.pi / 2**20  # rad
    jitter: bool = False  # whether the clock is late at times
    velocities: bool = False  # whether measured velocities stand beside


def random_arm(seed: int) -> Arm:
    """Draw a serial arm of six or seven revolute joints; its bodies are clouds of points along the links."""
    rng = np.random.default_rng(seed)
    n = 6 + seed % 2
    lengths = np.linspace(0.34, 0.08, n) * rng.uniform(0.8, 1.2, n)
    masses = np.geomspace(9.0, 0.8, n) * rng.uniform(0.7, 1.3, n)
    links, joints = [_link("base", 4.0, np.zeros(3), np.eye(3) * 0.02)], []
    viscous, dry = np.geomspace(6.0, 0.4, n) * rng.uniform(0.7, 1.3, n), np.geomspace(7.0, 0.5, n)
    for j in range(n):
        points = rng.normal(size=(12, 3)) * 0.06 + [0.0, 0.0, 0.5 * lengths[j]]
        center, r = points.mean(axis=0), points - points.mean(axis=0)
        inertia = (np.sum(r**2) * np.eye(3) - r.T @ r) * masses[j] / len(points)
        links.append(_link(f"link{j + 1}", masses[j], center, inertia))
        turn = 0.0 if j == 0 else (1 if j % 2 else -1) * np.pi / 2.0
        offset = (0.0, 0.0, 0.15) if j == 0 else (0.0, 0.0, lengths[j - 1])
        joints.append(
            f'<joint name="j{j + 1}" type="revolute"><parent link="{"base" if j == 0 else f"link{j}"}"/>'
            f'<child link="link{j + 1}"/><origin xyz="{" ".join(map(str, offset))}" rpy="{turn} 0 0"/>'
            '<axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="3" effort="400"/></joint>'
        )
    urdf = f'<robot name="arm{seed}">{"".join(links)}{"".join(joints)}</robot>'
    return Arm(urdf, np.geomspace(0.8, 0.02, n), viscous, dry * rng.uniform(0.7, 1.3, n))


def _link(name: str, mass: float, center: FloatArray, inertia: FloatArray) -> str:
    terms = {a + b: inertia["xyz".index(a), "xyz".index(b)] for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")}
    values = " ".join(f'i{key}="{value:.12g}"' for key, value in terms.items())
    place = " ".join(f"{x:.12g}" for x in center)
    return (
        f'<link name="{name}"><inertial><origin xyz="{place}"/><mass value="{mass:.12g}"/>'
        f"<inertia {values}/></inertial></link>"
    )


def reference(n: int, seed: int, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positions and velocities of a Fourier series, that starts from rest within a second."""
    rng = np.random.default_rng(seed)
    w = 2.0 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    a, b = rng.normal(size=(2, HARMONICS, n)) / np.arange(1, HARMONICS + 1)[:, None] ** 0.5
    scale = 0.9 / np.sqrt((a**2 + b**2).sum(axis=0))
    angle = np.outer(t, w)
    q = (np.sin(angle) @ a + np.cos(angle) @ b) * scale
    dq = (np.cos(angle) * w @ a - np.sin(angle) * w @ b) * scale
    s = np.clip(t, 0.0, 1.0)[:, None]
    blend, slope = s**3 * (10.0 - 15.0 * s + 6.0 * s**2), np.where(s < 1.0, 30.0 * s**2 * (1.0 - s) ** 2, 0.0)
    return blend * q, blend * dq + slope * q


def mujoco_arm(arm: Arm, seed: int, seconds: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Times, positions, velocities and motors' torques of an arm in MuJoCo, at each of its steps."""
    import mujoco

    head = '<mujoco><compiler fusestatic="true" balanceinertia="false"/></mujoco></robot>'
    model = mujoco.MjModel.from_xml_string(arm.urdf.replace("</robot>", head))
    model.opt.timestep = STEP
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.dof_armature[:], model.dof_damping[:], model.dof_frictionloss[:] = arm.rotors, arm.viscous, arm.dry
    model.jnt_limited[:] = 0
    data = mujoco.MjData(model)
    full = np.empty((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, full, data.qM) if not hasattr(data, "M") else mujoco.mj_fullM(model, data, full)
    kp, kd = _gains(np.diag(full))
    t = STEP * np.arange(round(seconds / STEP))
    wanted, speed = reference(arm.n, seed, t)
    q, dq, tau = (np.empty((len(t), arm.n)) for _ in range(3))
    for k in range(len(t)):
        q[k], dq[k] = data.qpos, data.qvel
        tau[k] = kp * (wanted[k] - q[k]) + kd * (speed[k] - dq[k]) + data.qfrc_bias
        data.qfrc_applied[:] = tau[k]
        mujoco.mj_step(model, data)
    return t, q, dq, tau


def pinocchio_arm(arm: Arm, seed: int, seconds: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The same of an arm in pinocchio: semi-implicit Euler, dry friction as a steep tanh."""
    import pinocchio as pin

    model = pin.buildModelFromXML(arm.urdf)
    model.armature = arm.rotors
    data = model.createData()
    kp, kd = _gains(np.diag(pin.crba(model, data, np.zeros(arm.n))))
    t = STEP * np.arange(round(seconds / STEP))
    wanted, speed = reference(arm.n, seed, t)
    q, dq, tau = (np.zeros((len(t), arm.n)) for _ in range(3))
    for k in range(len(t)):
        tau[k] = kp * (wanted[k] - q[k]) + kd * (speed[k] - dq[k]) + pin.nle(model, data, q[k], dq[k])
        lost = arm.viscous * dq[k] + arm.dry * np.tanh(dq[k] / 0.01)
        ddq = pin.aba(model, data, q[k], dq[k], tau[k] - lost)
        if k + 1 < len(t):
            dq[k + 1] = dq[k] + STEP * ddq
            q[k + 1] = q[k] + STEP * dq[k + 1]
    return t, q, dq, tau


def _gains(inertia: FloatArray) -> tuple[FloatArray, FloatArray]:
    w = 2.0 * np.pi * 6.0  # of the servo, rad/s
    return inertia * w**2, 1.4 * inertia * w


SIMULATORS = {"mujoco": mujoco_arm, "pinocchio": pinocchio_arm}


def measured(
    motion: Sequence[FloatArray], sensors: Sensors, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Times, positions, velocities and torques as sensors read them at the rate of the log."""
    t, q, dq, tau = motion
    rng = np.random.default_rng(seed)
    size = np.sqrt(np.mean(tau**2, axis=0))
    stride = round(1.0 / (RATE * STEP))
    at = np.arange(0, len(t) - 2, stride)
    if sensors.jitter:
        at = at + rng.choice([0, 0, 0, 1, 2], size=len(at))
        at = np.delete(at, rng.integers(10, len(at), size=len(at) // 100))
    q = np.round(q[at] / sensors.quantum) * sensors.quantum
    walk = np.cumsum(rng.normal(size=(len(at), q.shape[1])), axis=0) / np.sqrt(len(at))
    chatter = np.sin(2.0 * np.pi * 73.0 * t[at, None] + rng.uniform(0.0, 6.0, q.shape[1])) * np.sqrt(2.0)
    errors = sensors.noise * rng.normal(size=q.shape) + sensors.drift * walk + sensors.chatter * chatter
    return t[at], q, dq[at] + 2e-3 * rng.normal(size=q.shape), tau[at] + size * errors


def write_campaign(
    folder: Path, arm: Arm, seed: int, simulator: str = "mujoco", sensors: Sensors | None = None, extra: str = ""
) -> Path:
    """Write an arm's URDF, two logs and a campaign of `[log]` and `[[run]]` alone; return the folder."""
    sensors = sensors or Sensors()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arm.urdf").write_text(arm.urdf)
    names = [f"j{j + 1}" for j in range(arm.n)]
    heads = {"position": "q", "velocity": "dq", "torque": "tau"}
    headings = ",".join(["t", *(f"{head}_{name}" for head in heads.values() for name in names)])
    for number, (role, seconds) in enumerate(SECONDS.items()):
        columns = measured(SIMULATORS[simulator](arm, 10 * seed + number, seconds), sensors, 10 * seed + number)
        np.savetxt(folder / f"{role}.csv", np.column_stack(columns), "%.9g", ",", header=headings, comments="")
    units = {"position": "rad", "velocity": "rad/s", "torque": "N m"}
    signals = [
        f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\n'
        f"columns = {[f'{heads[kind]}_{name}' for name in names]}\n".replace("'", '"')
        for kind, unit in units.items()
        if kind != "velocity" or sensors.velocities
    ]
    runs = [f'[[run]]\nname = "{role}"\nlog = "{role}.csv"\nrole = "{role}"\n' for role in SECONDS]
    text = 'robot = "arm.urdf"\n[log]\ntime = "t"\n' + "".join(signals) + "".join(runs) + extra
    (folder / "campaign.toml").write_text(text)
    return folder


def truth(folder: Path, arm: Arm) -> FloatArray:
    """Base parameters of an arm, as its simulator had them."""
    robot = load(str(folder / "arm.urdf"))
    chi = robot.chi.copy()
    for letters, values in (("Ia", arm.rotors), ("Fv", arm.viscous), ("Fc", arm.dry)):
        for j, value in enumerate(values):
            chi[layout(robot).index(f"{letters}{j + 1}")] = value
    return base_parameters(robot).values(chi)


DATA = Path(__file__).parents[2] / "shared" / "data"  # of the folder that a developer works in
_SEVEN = (
    """name = "seven"
[[joint]]
name = "j1"
mdh = { alpha_deg = 0, d = 0, theta_deg = 0, r = 0.3415 }
"""
    + "".join(
        f'[[joint]]\nname = "j{j}"\nmdh = {{ alpha_deg = {-90 if j % 2 == 0 else 90}, d = 0, theta_deg = 0, r = {r} }}\n'
        for j, r in ((2, 0.0), (3, 0.394), (4, 0.0), (5, 0.366), (6, 0.0), (7, 0.2503))
    )
    + '[drive]\nrotors = "motors"\n[friction]\nterms = ["viscous", "coulomb", "offset"]\n'
)
_JOINTS = '["Joint_1", "Joint_2", "Joint_3", "Joint_4", "Joint_5", "Joint_6"]'


def _signals(side: str, kinds: Mapping[str, tuple[str, str, str]]) -> str:
    """Write the entries of signals: unit, columns and file of each kind."""
    entries = [
        f'[[log.signals]]\nkind = "{kind}"\nside = "{side}"\nunit = "{unit}"\ncolumns = {columns}\n'
        + (f'file = "{file}"\n' if file else "")
        for kind, (unit, columns, file) in kinds.items()
    ]
    return "".join(entries)


def _halves(log: str, at: float) -> str:
    run = f'[[run]]\nname = "{{}}"\nlog = "{log}"\nrole = "{{}}"\n{{}} = {at}\n'
    return run.format("first", "identify", "to_s") + run.format("last", "validate", "from_s")


PUBLIC = {
    "xmate3": (
        'robot = "seven.toml"\n[log]\nheader = false\nsample_rate_hz = 1000\n'
        + _signals(
            "joint",
            {
                "position": ("rad", "[1, 2, 3, 4, 5, 6, 7]", ""),
                "velocity": ("rad/s", "[1, 2, 3, 4, 5, 6, 7]", "excit_vel_record.txt"),
                "torque": ("N m", "[1, 2, 3, 4, 5, 6, 7]", "excit_torque_record.txt"),
            },
        )
        + _halves("excit_ang_record.txt", 12.0)
    ),
    "tx40": (
        'robot = "tx40"\n[log]\nsample_rate_hz = 5000\n'
        + _signals("motor", {"position": ("rad", _JOINTS, ""), "torque": ("N m", _JOINTS, "curr_data.csv")})
        + _halves("pos_read_data.csv", 4.7)
    ),
    "qrc350": (
        'robot = "qrc350"\n[log]\ntime = "time_vec_save"\n'
        + _signals(
            "joint", {"position": ("rad", '["q_meas.average"]', ""), "torque": ("N m", '["tau_meas.average"]', "")}
        )
        + '[[run]]\nname = "A"\nlog = "trajectory_a.mat"\n[[run]]\nname = "C"\nlog = "trajectory_c.mat"\nrole = "validate"\n'
    ),
}


def write_public(folder: Path, name: str) -> Path:
    """Copy a public recording beside a campaign that states nothing of its processing."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (DATA / name).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "seven.toml").write_text(_SEVEN)
    (folder / "campaign.toml").write_text(PUBLIC[name])
    return folder
