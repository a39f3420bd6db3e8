"""Methods of the papers in a user's folder, end to end: gains of drives, timing, losses of gears, and loads.

Arms and closed chains go from `init` to `excitor gains`, simulated in MuJoCo; a design is made once, seeds repeat
simulate and gains. The hexapod's logs are written by dynamics of this file, and are read without a plan. Believed gains
are 10 % off, up or down; of the load the mass alone is known.
"""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._loads import begun, losses_figures, payload_figures
from excitor.experiments.campaign import open_campaign
from excitor.experiments.emit import Request, emit
from excitor.experiments.figures import Figure, Report
from excitor.experiments.gains import identify_gains, write_gains
from excitor.experiments.identification import identify
from excitor.experiments.plan import design
from excitor.experiments.setup import settings_of
from excitor.experiments.simulate import GAINS_OFF, TRUTH, SimulationOptions, simulate
from excitor.experiments.stages import write_all
from excitor.experiments.studies import rotradi, tx40
from excitor.experiments.virtual.machine import with_noise
from excitor.experiments.virtual.robot import Settings
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.closed_chain import ClosedLoop, inverse_geometry
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load

REACH = 1.959963984540054
SEEDS, FEW = 20, 1
MOST_CPU = 180.0  # s


@dataclass(frozen=True, slots=True)
class Case:
    """A robot, its load, its bars in percent, and lines of its campaign."""

    robot: str
    mass: float  # kg
    worst: float
    median: float | None = None
    needed: tuple[int, ...] = ()  # drives that are to be answered
    often: int = SEEDS  # in how many seeds
    noise: float = 0.02  # of a torque sample, share of the joints' limits
    lines: Mapping[str, str] = field(default_factory=dict)


SHORT = {"ramp_s": "2.0", "settle_s": "0.5", "hold_s": "0.5"}
ARM = SHORT | {"base_frequency_hz": "0.2", "measured_periods": "4", "evaluations": "400"}
CLOSED = SHORT | {"base_frequency_hz": "0.5", "measured_periods": "10", "evaluations": "200"}
CASES = {  # noise of the closed chains as in the study: 0.08 and 0.03 A
    "tx40": Case("tx40", 4.5, 2.5, 1.0, (1, 2), 19, lines=ARM | {"measured_periods": "6"}),
    "ur10": Case("ur10", 5.0, 3.0, 1.5, (0, 1, 2, 3), 17, lines=ARM),
    "five_bar": Case("five-bar", 1.2, 0.5, noise=0.0045, lines=CLOSED),
    "orthoglide": Case("orthoglide-rod", 1.98, 1.0, noise=0.0033, lines=CLOSED),
}
HEXAPOD = 1.0  # %
PARTS = ("losses", *CASES, "payload", "power", "timing", "hexapod")  # the longest first


@dataclass(frozen=True, slots=True)
class Draw:
    """One seed's answers: errors and deviations in percent, NaN where a gain is refused."""

    errors: FloatArray  # (n_drives,)
    sigma: FloatArray  # (n_drives,)
    needed: bool = True


def run(full: bool = False) -> Report:
    """Run all parts, on all cores; with `full` 20 seeds of each robot, else one of a TX-40 and three of the hexapod."""
    names = PARTS if full else tuple(name for name in PARTS if name not in CASES or name == "tx40")
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), context) as pool:
        found = dict(zip(names, pool.map(part, names, [full] * len(names)), strict=True))
    draws = [one for _, some, _ in found.values() for one in some]
    held = np.concatenate([np.ravel(np.abs(one.errors) <= REACH * one.sigma) for one in draws])
    there = np.concatenate([np.isfinite(one.errors) for one in draws])
    covered, unit = 100.0 * float(np.mean(held[there])), f"% of {int(there.sum())} 95 % intervals"
    goal = {"target": 94.85, "bound": "within", "tolerance": 4.85} if full else {}
    figures = [figure for some, _, _ in found.values() for figure in some]
    figures.append(Figure("gains.covered_percent", covered, unit, **goal))
    told_of = {name: {"draws": told(some), "cpu_s": round(spent, 1)} for name, (_, some, spent) in found.items()}
    return Report("bench", "methods", figures, told_of)


@one_blas_thread()
def part(name: str, full: bool) -> tuple[list[Figure], list[Draw], float]:
    """Measure one part: its figures, draws of gains, and CPU time, s."""
    start, draws, figures = time.process_time(), list[Draw](), list[Figure]()
    if name in CASES:
        with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
            where, expected = designed(Path(folder) / name, CASES[name])
            first = time.process_time()
            draws = [draw(where, CASES[name], seed) for seed in range(SEEDS if full else FEW)]
        chain = first - start + (time.process_time() - first) / len(draws)
        figures = case_figures(name, CASES[name], draws, expected, full)
        figures.append(Figure(f"gains.{name}_cpu_s", chain, "s CPU, init to gains", MOST_CPU, "at most"))
    elif name == "hexapod":
        with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
            draws = [hexapod(Path(folder) / f"{k}", k) for k in range(SEEDS if full else 3)]
        figures = case_figures("hexapod", Case("hexapod", BODY, HEXAPOD), draws, None, full)
    elif name in ("timing", "power"):
        figures = timing_figures(10 if full else 2) if name == "timing" else power_figures(5 if full else 1)
    else:
        figures = losses_figures(full) if name == "losses" else payload_figures(full)
    return figures, draws, time.process_time() - start


ROTRADI = (
    'robot = "rotradi"\n[log]\ntime = "t"\n'
    + "".join(
        f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\ncolumns = ["{x}1", "{x}2", "{x}3"]\n'
        for kind, unit, x in (("position", "rad", "q"), ("torque", "N m", "tau"))
    )
    + '[[run]]\nname = "a"\nlog = "a.csv"\n'
)
BARS = {"ideal": (0.8, 5.0), "noisy": (1.5, 15.0)}  # %: median of all parameters, worst of the main ones


def timing_figures(seeds: int) -> list[Figure]:
    """Errors of parameters from held torques and encoders as plain CSV, by default; drives ideal, or late and noisy."""
    known = rotradi.truth()
    done = rotradi.experiments(known, range(seeds))
    figures, inside = [], list[FloatArray]()
    for case in rotradi.CASES:
        found = [timed(known, done[seed, case].identification) for seed in range(seeds)]
        errors = np.array([rotradi.percent_errors(known, theta) for theta, _ in found])
        inside += [held for _, held in found]
        median, worst = BARS[case]
        values = float(np.median(np.median(errors, axis=1))), float(errors[:, rotradi.MAIN].max())
        for name, value, bar in zip(("median", "worst"), values, (median, worst), strict=True):
            figures.append(Figure(f"timing.{case}_{name}_percent", value, f"%, {seeds} seeds", bar, "at most"))
    goal = {"target": 93.85, "bound": "within", "tolerance": 5.85}
    figures.append(Figure("timing.covered_percent", 100.0 * float(np.mean(inside)), "% of 95 % intervals", **goal))
    return figures


LOCKED = (
    'robot = "tx40"\n[identify]\nmethod = "{method}"\nweights = "joint and run"\nessential_ratio = 20\n'
    'friction = "as stated"\n[processing]\nlowpass_hz = 60\ndead_zone_percent = 1.0\ndecimate = [5, 4]\n'
    '[log]\ntime = "t"\n'
)


def power_figures(seeds: int) -> list[Figure]:
    """Torque error of essential parameters by the power model of a locked-joint set, beside the dynamic model's."""
    errors = [[locked_error(seed, method) for method in ("power", "wls")] for seed in range(seeds)]
    power, dynamic = np.median(errors, axis=0)
    unit = f"medians of {seeds} seeds: {power:.3f} against {dynamic:.3f}"
    return [Figure("power.error_ratio", float(power / dynamic), unit, 1.1, "at most")]


def locked_error(seed: int, method: str) -> float:
    """Identify the study's virtual TX-40 from files of six runs, k joints locked in each; error on a run of all."""
    known, rng = tx40.virtual(), np.random.default_rng(seed)
    columns = {kind: [f"{kind[0]}{j}" for j in range(6)] for kind in ("position", "torque")}
    text = LOCKED.format(method=method)
    for kind, unit in (("position", "rad"), ("torque", "N m")):
        text += f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\ncolumns = {columns[kind]}\n'
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as name:
        for k in range(7):
            motion = tx40.random_moves(rng, 8.0, k % 6)
            exact = inverse_dynamics(known.robot, motion, known.chi)
            tau = with_noise(exact, rng, white=tx40.WHITE, slow=tx40.SLOW)
            q = motion.q + rng.normal(scale=tx40.POSITION_NOISE, size=tau.shape)
            table = np.column_stack([np.arange(len(q)) / tx40.VIRTUAL_RATE, q, tau])
            head = ",".join(["t", *columns["position"], *columns["torque"]])
            np.savetxt(Path(name) / f"{k}.csv", table, delimiter=",", header=head, comments="", fmt="%.9g")
            role = "validate" if k == 6 else "identify"
            text += f'[[run]]\nname = "{k}"\nlog = "{k}.csv"\nrole = "{role}"\n'
        (Path(name) / "campaign.toml").write_text(text, "utf-8")
        found = identify(open_campaign(Path(name))).held_out
    assert found is not None
    return float(found.model.relative_total)


def timed(known: rotradi.Truth, run: rotradi.RecordedRun) -> tuple[FloatArray, FloatArray]:
    """Identify one run with nothing stated: θ, and whether each base parameter is inside its interval."""
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as name:
        folder = Path(name)
        table = np.column_stack([np.arange(len(run.q)) / rotradi.RATE, run.q, run.tau])
        head = "t,q1,q2,q3,tau1,tau2,tau3"
        np.savetxt(folder / "a.csv", table, delimiter=",", header=head, comments="", fmt="%.9g")
        (folder / "campaign.toml").write_text(ROTRADI)
        found = identify(open_campaign(folder))
    sharp = base_parameters(known.sharp)
    place = [found.intervals.names.index(name.removesuffix("R")) for name in sharp.names]
    low, high = found.intervals.low[place], found.intervals.high[place]
    truth = sharp.values(known.robot.chi)
    return known.T @ found.estimate.values[place], (low <= truth) & (truth <= high)


def told(draws: Sequence[Draw]) -> list[str]:
    """Write each seed's errors and deviations."""
    return [", ".join(f"{e:+.2f} ({s:.2f})" for e, s in zip(one.errors, one.sigma, strict=True)) for one in draws]


def case_figures(name: str, case: Case, draws: Sequence[Draw], expected: FloatArray | None, full: bool) -> list[Figure]:
    """Largest error of all answers, the median over seeds of each seed's, and how the forecast compares."""
    worst = [float(np.nanmax(np.abs(one.errors), initial=0.0)) for one in draws]
    n, key = len(draws), f"gains.{name}_percent"
    unit = f"%, worst of all answers, {n} seeds"
    figures = [
        Figure(f"{key}.worst", max(worst), unit, case.worst, "at most"),
        Figure(f"{key}.median", float(np.median(worst)), unit, case.median, "at most")
        if case.median and full
        else Figure(f"{key}.median", float(np.median(worst)), unit),
    ]
    count = sum(one.needed for one in draws)
    least = case.often if full else None
    figures.append(Figure(f"gains.{name}_answered", count, f"of {n} seeds", least, "at least"))
    if expected is not None and full:
        scatter = np.array([np.nanstd(x, ddof=1) if np.isfinite(x).sum() > 9 else np.nan for x in _errors(draws).T])
        ratio = np.nanmedian(scatter / expected) if np.isfinite(scatter).any() else np.nan
        goal = {"target": 13.0 / 12.0, "bound": "within", "tolerance": 5.0 / 12.0}  # 1 / 1.5 to 1.5
        figures.append(Figure(f"gains.{name}_scatter_over_forecast", float(ratio), "1", **goal))
    return figures


def _errors(draws: Sequence[Draw]) -> FloatArray:
    return np.array([one.errors for one in draws])


def designed(folder: Path, case: Case) -> tuple[Path, FloatArray]:
    """Begin, design and emit a campaign; return its forecast deviations, percent."""
    noise = (case.noise * load(case.robot).limits.torque).tolist()
    setup = begun(folder, case.robot, "gains", {"mass": f"{case.mass}", "torque": f"{noise}", **case.lines})
    made = design(setup, settings_of(setup.design))
    write_all(made)
    emit(folder, Request(("csv",), allow=("no-go",)), lambda _: None)
    return folder, 100.0 * np.array([one.relative_sigma for one in made.gains])


def draw(folder: Path, case: Case, seed: int) -> Draw:
    """Simulate a seed and identify its gains."""
    settings = Settings(white=case.noise, slow=0.1 * case.noise)
    simulate(folder, ["csv"], SimulationOptions(seed, fresh=True, settings=settings, engine="mujoco"), lambda _: None)
    truth = json.loads((folder / TRUTH).read_text("utf-8"))["torque_from_current"]
    return answered(folder, np.array(truth, dtype=float)[:, 1], case.needed)


def answered(folder: Path, true: FloatArray, needed: Sequence[int] = ()) -> Draw:
    """Identify the gains of a folder, and compare them with the true ones."""
    result = identify_gains(open_campaign(folder))
    write_gains(result)
    drives = result.to_json()["drives"]
    found = np.array([one["values"][0] if one["answered"] else np.nan for one in drives])
    sigma = np.array([one["sigma"][0] if one["answered"] else np.nan for one in drives])
    good = np.isfinite(found)
    return Draw(100.0 * (found / true - 1.0), 100.0 * sigma / true, bool(good[list(needed)].all() and good.any()))


# The hexapod: sliders and one rigid body, joined by rods without mass; Newton and Euler, by hand.
RATE, PERIOD, PERIODS, BODY = 250.0, 4.0, 6, 3.0
HEXAPOD_FILE = Path(__file__).with_name("hexapod.toml")
FORM = """robot = "hexapod.toml"
[payload]
mass = {mass}
percent = 0.0
[log]
time = "t"
[[log.signals]]
kind = "position"
side = "joint"
unit = "m"
columns = {positions}
[[log.signals]]
kind = "current"
side = "motor"
unit = "A"
columns = {currents}
[processing]
lowpass_hz = 15.0
"""


SLIDERS = np.array([1.2 + 0.05 * k for k in range(6)])  # kg


def hexapod(folder: Path, seed: int, sliders: FloatArray = SLIDERS) -> Draw:
    """Write logs of a bare and a loaded hexapod, and identify its gains without a plan."""
    robot, rng = load(HEXAPOD_FILE), np.random.default_rng([seed, 0x68])
    true = robot.drive.torque_from_current[:, 1] * (1.0 + GAINS_OFF * rng.choice([-1.0, 1.0], 6))
    folder.mkdir(parents=True)
    (folder / "hexapod.toml").write_text(HEXAPOD_FILE.read_text("utf-8"), "utf-8")
    names = [f'"{kind}{k}"' for kind in "qi" for k in range(1, 7)]
    text = FORM.format(mass=BODY, positions=f"[{', '.join(names[:6])}]", currents=f"[{', '.join(names[6:])}]")
    center = np.array([0.01, -0.02, 0.04]) * (1.0 + 0.3 * rng.uniform(-1.0, 1.0, 3))
    x, dx, ddx = platform_motion(rng)
    for name, mass in (("bare", 0.0), ("loaded", BODY), ("loaded again", BODY), ("bare again", 0.0)):
        q, forces = hexapod_forces(robot, (x, dx, ddx), mass, center, sliders)
        current = with_noise(forces, rng, white=np.full(6, 0.5), slow=np.full(6, 0.05)) / true
        rows = np.column_stack([np.arange(len(q)) / RATE, q + rng.normal(scale=1e-6, size=q.shape), current])
        header = ",".join(["t", *(word.strip('"') for word in names)])
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=header, comments="", fmt="%.10g")
        text += f'[[run]]\nname = "{name}"\nlog = "{name}.csv"\nloaded = {str(mass > 0.0).lower()}\n'
    (folder / "campaign.toml").write_text(text, "utf-8")
    return answered(folder, true)


def platform_motion(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fourier series of the platform's six coordinates, with their derivatives, each (n_samples, 6)."""
    t = np.arange(round(RATE * PERIOD * PERIODS)) / RATE
    omega = 2.0 * np.pi / PERIOD * np.arange(1, 6)
    a, b = rng.normal(size=(2, 5, 6)) / np.arange(1, 6)[None, :, None] ** 0.5
    c, s = np.cos(omega * t[:, None]), np.sin(omega * t[:, None])
    x = s @ a + c @ b
    size = np.array([0.05, 0.05, 0.05, 0.15, 0.15, 0.2]) / np.abs(x).max(axis=0)
    center = np.array([0.0, 0.0, 0.48, 0.0, 0.0, 0.0])
    dx, ddx = (c * omega) @ a - (s * omega) @ b, -(s * omega**2) @ a - (c * omega**2) @ b
    return center + x * size, dx * size, ddx * size


def hexapod_forces(
    robot: Any,
    motion: tuple[FloatArray, FloatArray, FloatArray],
    mass: float,
    center: FloatArray,
    sliding: FloatArray = SLIDERS,
) -> tuple[FloatArray, FloatArray]:
    """Positions of the sliders and the forces of their drives, (n_samples, 6) each: m a = Σ f n, İω = Σ r × f n."""
    x, g = motion[0], np.array([0.0, 0.0, -9.81])
    assert isinstance(robot.mechanism, ClosedLoop)
    h = 1e-4

    def slid(shift: float) -> FloatArray:
        return inverse_geometry(robot.mechanism, x + shift * motion[1] + 0.5 * shift**2 * motion[2])

    q, before, after = slid(0.0), slid(-h), slid(h)
    dq, ddq = (after - before) / (2.0 * h), (after - 2.0 * q + before) / h**2
    R = turned(x[:, 3:])
    later, sooner = (turned(x[:, 3:] + s * h * motion[1][:, 3:] + 0.5 * h**2 * motion[2][:, 3:]) for s in (1.0, -1.0))
    ddR = (later - 2.0 * R + sooner) / h**2
    own, I_own = np.array([0.0, 0.0, 0.01]), np.diag([0.02, 0.021, 0.035])
    bodies = [(2.4, own, I_own), (mass, center, 0.4 * mass * 0.05**2 * np.eye(3))]
    wrench = np.zeros((len(x), 6))
    for m, c, inertia in bodies:
        force = m * (motion[2][:, :3] + ddR @ c - g)
        # d/dt of angular momentum about the centre of gravity, by the second moments S: Σ m (R r) × (R̈ r)
        S = 0.5 * np.trace(inertia) * np.eye(3) - inertia
        spin = ddR @ S @ R.transpose(0, 2, 1)
        moment = np.stack([spin[:, b, a] - spin[:, a, b] for a, b in ((1, 2), (2, 0), (0, 1))], axis=1)
        wrench += np.hstack([force, moment + np.cross(R @ c, force)])
    feet = robot_points(robot)
    J = np.empty((len(x), 6, 6))
    n = np.empty((len(x), 6, 3))
    for k, (base, tip) in enumerate(feet):
        arm = R @ tip
        rod = x[:, :3] + arm - base - np.outer(q[:, k], [0.0, 0.0, 1.0])
        n[:, k] = rod / np.linalg.norm(rod, axis=1)[:, None]
        J[:, :, k] = np.hstack([n[:, k], np.cross(arm, n[:, k])])
    push = np.linalg.solve(J, wrench[:, :, None])[:, :, 0]
    drag = np.array([30, 32, 28, 31, 29, 33]) * dq + np.array([9, 10, 8.5, 9.5, 9, 10.5]) * np.sign(dq)
    return q, sliding * (ddq + 9.81) + push * n[:, :, 2] + drag


def turned(angles: FloatArray) -> FloatArray:
    """Rotation Rx Ry Rz of angles (n, 3)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles).T, np.sin(angles).T
    one, nil = np.ones_like(cx), np.zeros_like(cx)
    X = np.array([[one, nil, nil], [nil, cx, -sx], [nil, sx, cx]]).transpose(2, 0, 1)
    Y = np.array([[cy, nil, sy], [nil, one, nil], [-sy, nil, cy]]).transpose(2, 0, 1)
    Z = np.array([[cz, -sz, nil], [sz, cz, nil], [nil, nil, one]]).transpose(2, 0, 1)
    return np.asarray(X @ Y @ Z)


def robot_points(robot: Any) -> list[tuple[FloatArray, FloatArray]]:
    """Each leg's foot at slider position 0, and where its rod meets the platform."""
    import tomllib

    data = tomllib.loads(HEXAPOD_FILE.read_text("utf-8"))
    return [
        (np.array(joint["placement"]["xyz"], dtype=float), np.array(closure["points"][1], dtype=float))
        for joint, closure in zip(data["joint"], data["closure"], strict=True)
    ]
