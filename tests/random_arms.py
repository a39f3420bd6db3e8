"""Random trees as URDF text, light wrists and sliding joints among them, and short motions within their limits."""

from dataclasses import replace

import numpy as np

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs.plan import Plan
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.files.urdf import robot_from_urdf
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion
from tests.plans import lines

STEP = 0.004


def tree_urdf(seed):
    """Write a tree of 4 to 9 joints; masses fall towards its ends, drives can hold it. Every third states friction."""
    rng = np.random.default_rng([seed, 0x7472])
    n = int(rng.integers(4, 10))
    mass = rng.uniform(4.0, 12.0) * np.exp(-np.arange(n) * rng.uniform(0.1, 0.6))
    size = rng.uniform(0.25, 0.5) * np.exp(-np.arange(n) * rng.uniform(0.05, 0.3))
    parents = [j - 1 if j < 2 or rng.random() < 0.9 else int(rng.integers(0, j - 1)) for j in range(n)]
    reach, above = np.cumsum(size[::-1])[::-1], np.cumsum(mass[::-1])[::-1]
    tips = np.zeros((n, 3))
    parts = [f'<robot name="tree{seed}"><link name="base"/>']
    for j in range(n):
        slides, along = rng.random() < 0.2, rng.normal(size=3)
        along /= np.linalg.norm(along)
        tips[j], thick = size[j] * along, 0.15 * size[j]
        thin, long = 0.4 * mass[j] * thick**2, mass[j] * (size[j] ** 2 / 12 + thick**2 / 4)
        inertia = (long * np.eye(3) + (thin - long) * np.outer(along, along))[np.triu_indices(3)]
        axis = np.eye(3)[rng.integers(3)] if rng.random() < 0.7 else rng.normal(size=3)
        effort = 14.81 * above[j] * (1.0 if slides else reach[j]) * rng.uniform(1.0, 2.5)
        low, high, speed = (-0.4, 0.4, 0.8) if slides else (-2.5, 2.5, rng.uniform(1.5, 3.2))
        friction = f'<dynamics damping="{0.01 * effort / speed}" friction="{0.02 * effort}"/>' if seed % 3 == 0 else ""
        start = tips[parents[j]] if parents[j] >= 0 else np.zeros(3)
        terms = " ".join(
            f'{name}="{x}"' for name, x in zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia, strict=True)
        )
        parts += [
            f'<link name="l{j}"><inertial><origin xyz="{words(tips[j] / 2)}"/><mass value="{mass[j]}"/>'
            f'<inertia {terms}/></inertial></link><joint name="j{j}" type="{"prismatic" if slides else "revolute"}">'
            f'<origin xyz="{words(start)}"/><parent link="{f"l{parents[j]}" if parents[j] >= 0 else "base"}"/>'
            f'<child link="l{j}"/><axis xyz="{words(axis / np.linalg.norm(axis))}"/>'
            f'<limit lower="{low}" upper="{high}" velocity="{speed}" effort="{effort}"/>{friction}</joint>'
        ]
    return "".join(parts) + "</robot>"


def words(values):
    return " ".join(map(repr, map(float, values)))


def random_arm(seed):
    """Read a random tree; every other one has no rotors."""
    robot = robot_from_urdf(tree_urdf(seed), "tree.urdf")
    known = robot.known.copy()
    known[list(layout(robot).rotor_columns)] |= seed % 2 == 1
    return replace(robot, known=known)


def tree_plan(seed, period=4.0):
    """A small Fourier motion of a random tree, within its limits."""
    robot = random_arm(seed)
    n, rng = robot.n_joints, np.random.default_rng(seed)
    low, high = robot.limits.position.T
    center = 0.5 * (low + high) + 0.05 * rng.uniform(-1, 1, n) * (high - low)
    excitation = Excitation(
        period, STEP, (1, 2, 3, 4, 5), np.ones(n, dtype=bool), ramp=1.0, settle=0.2, hold=0.2, measured=1
    )
    a, b = rng.normal(size=(2, n, 5)) / np.arange(1, 6)
    fastest = 2.0 * np.pi / period * (np.arange(1, 6) * np.hypot(a, b)).sum(axis=1)
    swing = np.minimum(0.7 * robot.limits.velocity / fastest, 0.35 * (high - low) / np.hypot(a, b).sum(axis=1))
    for share in 0.8 ** np.arange(20):
        body = periodic_run(excitation, center, share * swing[:, None] * a, share * swing[:, None] * b)
        t = np.linspace(0.0, body.duration, 600)
        torque = inverse_dynamics(robot, Motion(*(body.at(t, order) for order in range(3))))
        if (np.abs(torque) < 0.8 * robot.limits.torque).all():
            break
    return Plan("cell", "run", "identify", robot, lines(robot.joint_names, STEP, center - 0.02, (center, 0.8)), body)
