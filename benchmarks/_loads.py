"""Virtual cells of the bench of methods: an arm unlike its file carries a load, and nothing is known of it before.

Torques of the links are MuJoCo's inverse dynamics; gears, rotors, friction, ripple and noise are of this file. The arm
differs from its file by as much as [arm] says, and is measured bare in the same campaign. Losses are looked for in the
motion that `excitor design` finds for a payload by default, repeated as often; other cells have a random motion each.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.signal import lfilter

from excitor.design.motion import Series
from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure
from excitor.experiments.init import begin
from excitor.experiments.payload import IdentifiedLoad, identify_payload
from excitor.experiments.plan import design
from excitor.experiments.setup import Setup, set_up, settings_of
from excitor.experiments.virtual.mujoco_plant import coordinates_of, model_text
from excitor.identify.load.fit import center_values
from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

REACH = 1.959963984540054
Moves = tuple[FloatArray, FloatArray, FloatArray]  # q, dq, ddq
RATE, PERIOD, PERIODS = 100.0, 20.0, 2
DOUBT = 0.05  # of links and rotors, as [arm] states by default
TENSOR = np.array([[40.0, 7.0, 1.5], [7.0, 9.0, -1.2], [1.5, -1.2, 38.0]])  # kg m², of 120 kg


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of cell: robot, load, which joints move, and errors of torques on the link side."""

    robot: str
    mass: float  # kg
    moved: tuple[int, ...]
    white: tuple[float, ...] | None = None  # N m, of moved joints; none: 2 % of their torque
    ripple: tuple[float, ...] | None = None  # N m, once a motor's turn; none: 0.5 % of their torque
    slow: float = 0.005  # share of torque, correlated over 0.5 s
    losses: tuple[float, float] = (0.0, 0.0)  # between which gears lose
    designed: bool = False  # its motion, by default settings


KR150 = Cell("kr150", 120.0, (2, 3, 4, 5), (120.0, 60.0, 60.0, 50.0), (60.0, 25.0, 25.0, 22.0), 0.0, (0.09, 0.13))
UR10, IIWA = Cell("ur10", 6.0, (2, 3, 4, 5)), Cell("iiwa", 5.0, (3, 4, 5, 6))
LOSSY = Cell("ur10", 8.0, (2, 3, 4, 5), losses=(0.08, 0.14), designed=True)


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What a cell's identification says of its load beside the truth, (10,) each: mass, centre, inertia about it."""

    error: FloatArray
    sigma: FloatArray
    true: FloatArray
    claimed: bool  # that gears lose


def found(cell: Cell, seed: int) -> Found:
    """Write a cell's logs, bare, loaded, loaded and bare again, and identify its load."""
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as name:
        true = write_cell(Path(name), cell, seed)
        result = identify_payload(open_campaign(Path(name)))
    assert result.load is not None
    values = center_values(true)
    return Found(result.load.values - values, result.load.sigma, values, claims(result))


def claims(result: IdentifiedLoad) -> bool:
    """Return True if a payload's findings say that gears lose."""
    return any(one.what == "losses" and one.sentence.startswith("gears lose") for one in result.findings)


def write_cell(folder: Path, cell: Cell, seed: int) -> FloatArray:
    """Write campaign.toml and four logs; return the true load's parameters on its link."""
    rng, robot = np.random.default_rng([seed, len(cell.robot), 0x19]), load(cell.robot)
    chi, carried = drawn(robot, rng), body(cell.mass, rng)
    moves, periods = designed(cell.robot, cell.mass) if cell.designed else (motion(robot, cell.moved, rng), PERIODS)
    q, dq, ddq = moves
    N, n = robot.drive.motor_from_joint, robot.n_joints
    R = np.ones(n)
    R[list(cell.moved)] -= rng.uniform(*cell.losses, len(cell.moved))
    phase = rng.uniform(0.0, 2.0 * np.pi, n)
    lines = [f'robot = "{cell.robot}"\ntask = "payload"\n[log]\ntime = "t"']
    for kind, side, unit, x in (("position", "joint", "rad", "q"), ("torque", "motor", "N m", "m")):
        columns = [f"{x}{j}" for j in range(n)]
        lines.append(f'[[log.signals]]\nkind = "{kind}"\nside = "{side}"\nunit = "{unit}"\ncolumns = {columns}')
    head = ",".join(["t", *(f"q{j}" for j in range(n)), *(f"m{j}" for j in range(n))])
    time, ratio = np.arange(len(q) * periods) / RATE, np.abs(np.diagonal(N))
    for name, on in (("bare", False), ("loaded", True), ("loaded again", True), ("bare again", False)):
        links = chi.copy()
        links[layout(robot).link(robot.tool.link)] += on * carried
        tau = driven(robot, links, R, (q, dq, ddq)) * ratio  # link side
        size = np.sqrt(np.mean(tau**2, axis=0))
        white, ripple = 0.02 * size, 0.005 * size
        for target, given in ((white, cell.white), (ripple, cell.ripple)):
            target[list(cell.moved)] = target[list(cell.moved)] if given is None else given
        tau = np.tile(tau + ripple * np.sin(q @ N.T + phase), (periods, 1))
        old = np.exp(-1.0 / (0.5 * RATE))
        slow = lfilter([np.sqrt(1.0 - old**2)], [1.0, -old], rng.normal(size=tau.shape), axis=0)
        tau = tau + white * rng.normal(size=tau.shape) + cell.slow * size * slow
        seen = np.tile(q, (periods, 1)) + rng.normal(scale=2e-6, size=tau.shape)
        rows = np.column_stack([time, seen, tau / ratio])
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=head, comments="", fmt="%.9g")
        lines.append(f'[[run]]\nname = "{name}"\nlog = "{name}.csv"\nloaded = {str(on).lower()}')
    (folder / "campaign.toml").write_text("\n".join(lines) + "\n", "utf-8")
    return carried


def drawn(robot: Robot, rng: np.random.Generator) -> FloatArray:
    """Draw the true arm: masses, centres, inertias and rotors off by DOUBT; friction of a plausible size."""
    params, chi = layout(robot), robot.chi.copy()
    for j in range(params.n_links):
        own = params.link(j)
        if chi[own][9] > 0.0:
            off = 1.0 + DOUBT * rng.normal(size=5)
            m, *more = center_values(chi[own]) * np.append(off[:4], np.full(6, off[4]))  # slender bodies stay bodies
            xx, yy, zz, xy, xz, yz = more[3:]
            tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            chi[own] = from_center_of_mass(m, np.array(more[:3]), tensor)
        else:  # MuJoCo's bodies have a mass
            chi[own] = from_center_of_mass(1e-6, np.zeros(3), 1e-9 * np.eye(3))
    for column in set(params.rotor_columns):
        chi[column] *= 1.0 + DOUBT * rng.normal()
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        if chi[column] == 0.0:
            chi[column] = (2.0 if term.model in ("viscous", "coulomb") else 0.0) * rng.uniform(0.8, 1.2)
    return chi


def body(mass: float, rng: np.random.Generator) -> FloatArray:
    """Draw a load: its size grows with the cube root of its mass."""
    share, size = mass / 120.0 * rng.uniform(0.8, 1.2), (mass / 120.0) ** (1.0 / 3.0)
    center = np.array([0.09, -0.03, 0.14]) * size * rng.uniform(0.7, 1.3, 3)
    return from_center_of_mass(120.0 * share, center, TENSOR * share * size**2)


def begun(folder: Path, robot: str, task: Literal["payload", "gains"], changed: Mapping[str, str]) -> Setup:
    """Begin a campaign with some keys of its file changed."""
    path = begin(folder, robot, task)
    lines = path.read_text("utf-8").splitlines()
    lines = [next((f"{k} = {v}" for k, v in changed.items() if line.startswith(f"{k} =")), line) for line in lines]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return set_up(open_campaign(folder, "design"))


@cache
def designed(robot: str, mass: float) -> tuple[Moves, int]:
    """One period of a payload campaign as `excitor init` and `excitor design` make it, and how often it is measured."""
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as name:
        setup = begun(Path(name) / "cell", robot, "payload", {"mass": f"{mass}"})
        segments = design(setup, settings_of(setup.design)).runs[0].run.segments
    kept = max((one for one in segments if isinstance(one, Series)), key=lambda one: one.duration)
    found = kept.motion(np.arange(0.0, kept.period, 1.0 / RATE))
    return (found.q, found.dq, found.ddq), round(kept.duration / kept.period)


def motion(robot: Robot, moved: tuple[int, ...], rng: np.random.Generator) -> Moves:
    """One period in which the wrist turns far, and the joint before it a little."""
    t, n = np.arange(0.0, PERIOD, 1.0 / RATE), robot.n_joints
    q = np.tile(np.array([0.0] * (n - 5) + [0.3, 1.2, 0.2, 0.3, 0.1])[:n], (len(t), 1))
    dq, ddq = np.zeros_like(q), np.zeros_like(q)
    for j in moved:
        far = j != moved[0]
        for lines, size in (((1, 2), 1.1 if far else 0.12), (range(7, 14), 0.4 if far else 0.1)):
            w, phase = 2.0 * np.pi * rng.choice(list(lines)) / PERIOD, rng.uniform(0.0, 2.0 * np.pi)
            q[:, j] += size * np.sin(w * t + phase)
            dq[:, j] += size * w * np.cos(w * t + phase)
            ddq[:, j] -= size * w**2 * np.sin(w * t + phase)
    return q, dq, ddq


def driven(robot: Robot, chi: FloatArray, R: FloatArray, moves: Moves) -> FloatArray:
    """Torques at the motors' shafts, (n_samples, n_joints): links by MuJoCo, gears, rotors and friction by hand."""
    import mujoco

    q, dq, ddq = moves
    params, N = layout(robot), robot.drive.motor_from_joint
    links = np.where(np.arange(len(chi)) < params.n_link_params, chi, 0.0)
    model = mujoco.MjModel.from_xml_string(model_text(robot, links, coordinates_of(robot, np.zeros(q.shape[1])), 1e-3))
    data, carried = mujoco.MjData(model), np.empty_like(q)
    dof = [model.joint(f"j{j}").dofadr[0] for j in range(q.shape[1])]
    for k in range(len(q)):
        data.qpos[dof], data.qvel[dof], data.qacc[dof] = q[k], dq[k], ddq[k]
        mujoco.mj_inverse(model, data)
        carried[k] = data.qfrc_inverse[dof]
    carried = np.linalg.solve(N.T, carried.T).T
    tau = np.where(carried * (dq @ N.T) > 0.0, carried / R, carried * R)
    drag = np.zeros_like(q)
    for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True):
        drag += np.outer(chi[column] * (ddq @ rotor.senses), rotor.acts)
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        v = dq @ term.senses
        g = {"viscous": v, "coulomb": np.sign(v)}.get(term.model, np.zeros_like(v))
        drag += np.outer(chi[column] * g, term.acts)
    return np.asarray(tau + np.linalg.solve(N.T, drag.T).T)


def payload_figures(full: bool) -> list[Figure]:
    """Coverage of the 95 % intervals of mass, centre and inertia, and their width beside the scatter."""
    drawn = {cell.robot: [found(cell, seed) for seed in range(14 if full else 1)] for cell in (KR150, UR10, IIWA)}
    every = [one for cells in drawn.values() for one in cells]
    inside = np.array([np.abs(one.error) <= REACH * one.sigma for one in every])
    goal = {"target": 94.85, "bound": "within", "tolerance": 4.85} if full else {}
    figures = [Figure("payload.covered_percent", 100.0 * float(inside.mean()), f"% of {inside.size} intervals", **goal)]
    if full:
        ratios = [
            np.median([one.sigma for one in cells], axis=0) / np.sqrt(np.mean([one.error**2 for one in cells], axis=0))
            for cells in drawn.values()
        ]
        figures.append(Figure("payload.width_ratio", float(np.median(ratios)), "of the scatter", 1.6, "at most"))
    return figures


def losses_figures(full: bool) -> list[Figure]:
    """Load under gears whose losses nobody states, and losses claimed where there are none."""
    lossy = [found(LOSSY, seed) for seed in range(20 if full else 1)]
    worst = max(abs(one.error[0]) / one.true[0] for one in lossy)
    held = np.mean([np.abs(one.error[4:]) <= REACH * one.sigma[4:] for one in lossy])
    free = replace(LOSSY, losses=(0.0, 0.0))
    none, n = sum(found(free, 100 + seed).claimed for seed in range(80 if full else 1)), 80 if full else 1
    return [
        Figure("losses.mass_percent", 100.0 * float(worst), f"%, worst of {len(lossy)}", 0.3, "at most"),
        Figure("losses.inertia_covered_percent", 100.0 * float(held), "%", 90.0 if full else None, "at least"),
        Figure("losses.claimed_falsely", float(none), f"of {n}", 2.0, "at most"),
    ]
