"""Study: load identification on a KUKA KR150, [Swevers2002].

Three approaches on fourteen virtual experiments with the published load: all base parameters and no gear losses; the
load with a known arm and no losses; the load with efficiencies. Beyond the paper: which motions determine the load,
physically consistent estimates of thin loads in much noise, and runs with and without the load while the robot warms
up. The virtual robot is written independently of the library under test.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from excitor.experiments.figures import Bound, Figure, Report
from excitor.experiments.studies.paper import panels, printed_values, save
from excitor.identify.load import equations as loads
from excitor.identify.load.fit import identify_consistent_load, identify_load, load_from_base, load_rank, rank_sentence
from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import about_center_of_mass, from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

DRAWS = 8
MASS_TARGET, INERTIA_TARGET = 1.3, 1.0  # kg, kg m²
OPEN_DEVIATION = 1.96 / np.sqrt(2.0 * 13.0)  # relative: what 14 experiments leave open of a deviation, 95 %
AT_MOST: Bound = "at most"
NO_BOUND: Bound = "none"
INERTIAS = {"ixx": 4, "iyy": 5, "izz": 6}
PRINTED_UNITS = np.array([1.0, *[1000.0] * 3, *[1.0] * 6])  # centre of gravity in mm


@dataclass(frozen=True)
class Outcome:
    """One approach on all experiments of one draw."""

    error: FloatArray  # (n_experiments, 10), in printed units
    sigma: FloatArray  # (n_experiments, 10), as estimated
    rms: FloatArray  # (n_experiments, 4), N m
    efficiency_error: FloatArray  # (n_experiments, 4); zeros where none was estimated


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Repeat the paper's experiments on a virtual robot; no recordings are published, so `data` is not needed."""
    robot, printed = load("kr150"), printed_values("kr150")
    count = 2 * DRAWS if full else DRAWS
    draws = [draw(robot, printed, seed) for seed in range(count)]
    context: dict[str, Any] = {"note": f"medians over {count} draws of a-priori errors, experiments, noise and warmth"}
    if data is not None:
        context["recording"] = "none is published for this robot; --data is not used"
    figures = [
        *approach_figures(draws, printed, context),
        *rank_figures(robot, printed, context),
        *cell_figures(robot, printed, context, full),
        Figure("kr150.cpu_seconds", cpu_seconds(robot, printed), "s an experiment", 1.5, "at most"),
    ]
    if out is not None:
        context["plots"] = [str(path) for path in draw_all(robot, printed, draws, out)]
    return Report("study", "kr150-load", figures, context)


def draw(robot: Robot, printed: dict[str, Any], seed: int) -> dict[str, Outcome]:
    """Run all experiments of one draw through the approaches; `learned` is 3 with an arm that data may correct."""
    arm = arm_of(robot, draw_prior(seed))
    done = experiments(robot, printed, seed=seed)
    return {name: outcome(robot, printed, done, arm, name) for name in ("1", "2", "3", "learned")}


@dataclass(frozen=True)
class Motors:
    """Motors and gears, link side, (6,) each; axes 1 and 2 stand still and do not matter."""

    inertia: FloatArray
    viscous: FloatArray
    coulomb: FloatArray
    efficiency: FloatArray
    ripple: FloatArray  # N m
    phase: FloatArray  # of the ripple, rad
    stribeck: float  # of the Coulomb friction, on top of it near standstill
    current_law: FloatArray  # (6, 3): N m/A, N m/A², N m/A³ at the motor


@dataclass(frozen=True)
class Experiment:
    """One experiment: its processed run, and the true values."""

    run: loads.LoadRun
    motors: Motors


def outcome(robot: Robot, printed: dict[str, Any], done: list[Experiment], arm: loads.Arm, approach: str) -> Outcome:
    """Run one approach on all experiments."""
    exact = np.array(printed["table2"]["exact"])
    axes = list(MOVED)
    errors, sigmas, rms, efficiency = [], [], [], []
    for experiment in done:
        runs = [experiment.run]
        given = np.ones(robot.n_joints) if approach == "2" else None
        task = loads.load_task(robot, runs, arm=arm, efficiency=given, learn_arm=approach == "learned")
        if approach == "1":
            base = load_from_base(task, runs)
            found, fitted = base.load, base.rms
        else:
            estimate = identify_load(task, runs)
            found, fitted = estimate.load, estimate.rms
            efficiency.append(estimate.efficiency[axes] - experiment.motors.efficiency[axes])
        errors.append(found.values * PRINTED_UNITS - exact)
        sigmas.append(found.sigma * PRINTED_UNITS)
        rms.append([fitted[robot.joint_names[i]] for i in axes])
    wrong = np.array(efficiency) if approach in ("3", "learned") else np.zeros((len(done), len(axes)))
    return Outcome(np.array(errors), np.array(sigmas), np.array(rms), wrong)


def approach_figures(draws: list[dict[str, Outcome]], printed: dict[str, Any], context: dict[str, Any]) -> list[Figure]:
    """Compare the approaches: mean absolute errors over the experiments and their spread, medians over the draws."""
    table2, table3 = printed["table2"], printed["table3"]
    mean = {name: np.median([np.abs(d[name].error).mean(axis=0) for d in draws], axis=0) for name in draws[0]}
    figures = [figure for k in (1, 2, 3) for figure in error_figures(k, draws, mean[str(k)], printed)]
    rms = {name: np.median([d[name].rms.mean(axis=0) for d in draws], axis=0) for name in draws[0]}
    worst = median(float(np.abs(d["3"].efficiency_error).max()) for d in draws)
    ratio = float(mean["1"][0] / mean["3"][0])
    printed_ratio = table2["approach1"][0][0] / table2["approach3"][0][0]
    fit_ratio = float(np.max(rms["1"] / rms["2"]))
    printed_fit = max(a / b for a, b in zip(table3["approach1"], table3["approach2"], strict=True))
    ratio_spread = printed_ratio * float(
        np.hypot(*(table2[f"approach{k}"][0][1] / table2[f"approach{k}"][0][0] for k in (1, 3)))
    )
    digit = 0.5 * (1.0 + printed_fit) / min(table3["approach2"])
    figures += [
        Figure("kr150.efficiency_error", worst, "", 0.015, "at most"),
        Figure("kr150.mass_error_ratio_1_to_3", ratio, "", 5.0, "at least", printed_ratio, spread=ratio_spread),
        Figure("kr150.torque_ratio_1_to_2", fit_ratio, "largest axis", 1.02, "at most", printed_fit, spread=digit),
        *table3_figures(draws, table3),
    ]
    context["table2"] = tabled2(draws, table2)
    context["table3"] = tabled3(draws, table3)
    context["coverage_percent"] = {name: coverage(draws, name) for name in ("3", "learned")}
    return figures


def error_figures(
    approach: int, draws: list[dict[str, Outcome]], mean: FloatArray, printed: dict[str, Any]
) -> Iterator[Figure]:
    """Compare errors and their deviation over the experiments with the printed ones; approach 3 has guards."""
    deviation = np.median([d[str(approach)].error.std(axis=0) for d in draws], axis=0)
    for key, k in {"mass": 0, **INERTIAS}.items():
        name, unit = f"kr150.approach{approach}.{key}_error", printed["table2"]["units"][k]
        paper, scatter = printed["table2"][f"approach{approach}"][k]
        target, bound = (MASS_TARGET if k == 0 else INERTIA_TARGET, AT_MOST) if approach == 3 else (None, NO_BOUND)
        yield Figure(name, float(mean[k]), unit, target, bound, paper, spread=scatter)
        yield Figure(f"{name}_deviation", float(deviation[k]), unit, paper=scatter, spread=OPEN_DEVIATION * scatter)


def table3_figures(draws: list[dict[str, Outcome]], table: dict[str, Any]) -> Iterator[Figure]:
    """Compare the torque errors of the first experiment, and how they rank the approaches on each axis."""
    rms = np.array([np.median([d[k].rms[0] for d in draws], axis=0) for k in "123"])
    paper = np.array([table[f"approach{k}"] for k in "123"])
    for (k, axis), value in np.ndenumerate(rms):
        name = f"kr150.approach{k + 1}.{table['axes'][axis].lower()}_torque_error"
        yield Figure(name, float(value), "N m", paper=float(paper[k, axis]), spread=0.5)
    same = (np.argsort(rms, axis=0) == np.argsort(paper, axis=0)).all(axis=0)
    yield Figure("kr150.table3_order", float(same.sum()), "axes that rank as printed", paper=float(len(same)))


def tabled2(draws: list[dict[str, Outcome]], table: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Compare our mean absolute errors and standard deviations with the printed ones."""
    rows: dict[str, dict[str, str]] = {}
    for place, (name, unit) in enumerate(zip(table["names"], table["units"], strict=True)):
        row = {"exact": f"{table['exact'][place]:g} {unit}"}
        for approach in draws[0]:
            error = median(float(np.abs(d[approach].error[:, place]).mean()) for d in draws)
            spread = median(float(d[approach].error[:, place].std()) for d in draws)
            row[f"approach {approach}" if approach.isdigit() else "3, arm corrected"] = f"{error:.2f} ± {spread:.2f}"
            if approach.isdigit():
                paper = table[f"approach{approach}"][place]
                row[f"paper {approach}"] = f"{paper[0]:g} ± {paper[1]:g}"
        rows[name] = row
    return rows


def tabled3(draws: list[dict[str, Outcome]], table: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Compare our rms torque errors (training) of the first experiment with the printed ones, N m."""
    rows: dict[str, dict[str, str]] = {}
    for place, axis in enumerate(table["axes"]):
        rows[axis] = {}
        for k in ("1", "2", "3"):
            rows[axis][f"approach {k}"] = f"{median(float(d[k].rms[0, place]) for d in draws):.0f}"
            rows[axis][f"paper {k}"] = f"{table[f'approach{k}'][place]:g}"
    return rows


def coverage(draws: list[dict[str, Outcome]], name: str) -> float:
    """Count how often the 95 % intervals, the arm's uncertainty included, contain the truth, in percent."""
    inside = [np.abs(d[name].error) < 1.96 * d[name].sigma for d in draws]
    return 100.0 * float(np.mean(inside))


def rank_figures(robot: Robot, printed: dict[str, Any], context: dict[str, Any]) -> list[Figure]:
    """Compute the rank of the load's columns for axes 3 to 6, and for the wrist alone."""
    first = table1(printed)
    wrist = Series(first.offset, tuple(line for line in first.lines if line[0] != MOVED[0]))
    body = load_body(printed["table2"]["exact"])
    figures = []
    for name, series, rank in (("rank_axes_3_to_6", first, 22.0), ("rank_wrist_only", wrist, 18.0)):
        recording = record(printed, series, TRUE_MOTORS, body, np.random.default_rng(0))
        runs = [processed(robot, recording)]
        system = loads.equations(loads.load_task(robot, runs, arm=arm_of(robot, true_prior())), runs)
        found = load_rank(system, loads.linear_start(system))
        context[name] = rank_sentence(found)
        figures.append(Figure(f"kr150.{name}", float(found.rank), f"of {len(found.names)}", rank, "equal", rank))
    return figures


def cell_figures(robot: Robot, printed: dict[str, Any], context: dict[str, Any], full: bool) -> list[Figure]:
    """Compare results beyond the paper: physically consistent loads, and a robot that warms up between runs."""
    draws = physical_loads(robot, printed, draws=200)
    mirrored, aabb = (order_errors(robot, printed, order, seeds=8 if full else 4) for order in ("ABBA", "AABB"))
    context["possible_bodies"] = {
        "draws": draws.count,
        "free estimates that no body has": f"{draws.free_impossible} of the first {draws.free_count}",
        "smallest margin of the consistent ones": draws.smallest_margin,
    }
    context["warming_up"] = {"ABBA, median mass error in kg": median(mirrored), "AABB": median(aabb)}
    return [
        Figure("kr150.consistent_impossible", float(draws.impossible), f"of {draws.count}", 0.0, "equal"),
        Figure("kr150.abba_to_aabb_mass_error", median(mirrored) / median(aabb), "", 0.5, "at most"),
    ]


def cpu_seconds(robot: Robot, printed: dict[str, Any]) -> float:
    """Measure the CPU time of approach 3 from ten periods of currents to a load with intervals, compiled code warm."""
    body, motors = load_body(printed["table2"]["exact"]), TRUE_MOTORS
    recording = record(printed, table1(printed), motors, body, np.random.default_rng(0))
    arm = arm_of(robot, draw_prior(0))
    start = time.process_time()
    runs = [processed(robot, recording)]
    identify_load(loads.load_task(robot, runs, arm=arm), runs)
    return time.process_time() - start


@dataclass(frozen=True)
class Body:
    """A rigid body by its mass, centre of gravity and inertia about it: xx, yy, zz, xy, xz, yz."""

    mass: float
    center: FloatArray
    inertia: FloatArray

    @property
    def tensor(self) -> FloatArray:
        """Inertia about the centre of gravity, (3, 3)."""
        xx, yy, zz, xy, xz, yz = self.inertia
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


THIN = Body(30.0, np.array([0.05, 0.0, 0.1]), np.array([0.4, 0.4, 1e-4, 0.0, 0.0, 0.0]))  # a rod
FLANGE = Body(6.0, np.array([0.0, 0.0, -0.02]), np.array([0.02, 0.02, 0.03, 0.0, 0.0, 0.0]))  # link 6 itself
EVERY = 8  # samples: fewer of them leave more to the noise
FREE = 20  # draws that are estimated without the bound too
FRICTION_FALL, TORQUE_FALL = 0.06, 0.003  # relative, from one run to the next, as motors and grease warm up


@dataclass(frozen=True)
class PhysicalLoads:
    """Count of physically consistent estimates of a thin load."""

    count: int
    impossible: int  # of the consistent estimates
    free_count: int  # draws that were estimated without the bound too
    free_impossible: int  # of those
    smallest_margin: float  # of the pseudo-inertia, scaled to unit diagonal


def physical_loads(robot: Robot, printed: dict[str, Any], draws: int) -> PhysicalLoads:
    """Estimate a rod, whose pseudo-inertia is nearly singular, from one noisy period, again and again."""
    rng = np.random.default_rng(200)
    n, period = printed["table1"]["samples"], printed["table1"]["period_s"]
    parts = evaluate(table1(printed), period, n)
    motion = (parts[0][::EVERY], parts[1][::EVERY], parts[2][::EVERY])
    motors = replace(TRUE_MOTORS, ripple=np.zeros(6), stribeck=0.0)
    tau = motor_torques((*TRUE_LINKS, THIN), motors, coupling(**printed["coupling"]), motion)
    sigma = np.where(NOISE > 0.0, NOISE, 1.0)
    arm = loads.exact_arm(robot, arm_of(robot, true_prior()).chi)
    impossible, free, margins = 0, 0, []
    for number in range(draws):
        run = loads.LoadRun(f"draw {number + 1}", Motion(*motion), tau + NOISE * rng.normal(size=tau.shape), sigma)
        task = loads.load_task(robot, [run], arm=arm)
        found = identify_consistent_load(task, [run]).load.consistency
        impossible += not found.holds or found.relative_margin <= 0.0
        margins.append(found.relative_margin)
        if number < FREE:
            free += not identify_load(task, [run]).load.consistency.holds
    return PhysicalLoads(draws, impossible, min(FREE, draws), free, min(margins))


def order_errors(robot: Robot, printed: dict[str, Any], order: Literal["ABBA", "AABB"], *, seeds: int) -> list[float]:
    """Mass errors, kg, of four runs with and without the load, the arm known as in the study and corrected by the data.

    Friction falls from run to run, and so does what an ampere gives.
    """
    loaded = loads.abba() if order == "ABBA" else (False, False, True, True)
    return [abs(_order_error(robot, printed, loaded, seed)) for seed in range(seeds)]


def _order_error(robot: Robot, printed: dict[str, Any], order: tuple[bool, ...], seed: int) -> float:
    rng = np.random.default_rng([seed, 4])
    motors = warm(rng, TRUE_MOTORS)
    load, series = load_body(printed["table2"]["exact"]), table1(printed)
    runs = []
    for number, on in enumerate(order):
        warmer = replace(
            motors,
            coulomb=motors.coulomb * (1.0 - FRICTION_FALL * number),
            viscous=motors.viscous * (1.0 - 2.0 * FRICTION_FALL * number),
            current_law=motors.current_law * (1.0 - TORQUE_FALL * number),
        )
        carried = joined(load, FLANGE) if on else FLANGE
        recording = record(printed, series, warmer, carried, rng, f"run {number + 1}")
        runs.append(replace(processed(robot, recording), loaded=on, time=float(number)))
    thought = arm_of(robot, draw_prior(seed))
    chi = thought.chi.copy()
    chi[50:60] = parameters(FLANGE)
    task = loads.load_task(robot, runs, arm=loads.Arm(chi, thought.covariance), learn_arm=True)
    return identify_load(task, runs).load.mass - load.mass


# Modified DH: alpha, d, theta at q = 0, r. Frame 6 is the flange and carries the load.
MDH = np.array([
    [0.0, 0.0, 0.0, 0.750],
    [-np.pi / 2, 0.350, -np.pi / 2, 0.0],
    [0.0, 1.250, -np.pi / 2, 0.0],
    [-np.pi / 2, -0.055, 0.0, 1.100],
    [np.pi / 2, 0.0, 0.0, 0.0],
    [-np.pi / 2, 0.0, 0.0, 0.230],
])  # fmt: skip
SENSES = np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])  # of the controller's axes, by those of the MDH axes
GRAVITY = 9.81
RATIO = np.array([180.0, 200.0, 180.0, 107.0, 107.0, 71.4])
STRIBECK_SPEED = 0.03  # rad/s


def motor_torques(
    bodies: tuple[Body, ...], motors: Motors, V: FloatArray, motion: tuple[FloatArray, FloatArray, FloatArray]
) -> FloatArray:
    """Torques that the motors give, link side, (n_samples, 6), for a motion of the joints."""
    q_M, dq_M, ddq_M = (np.linalg.solve(V, part.T).T for part in motion)
    at_gears = newton_euler(bodies, *motion) @ V
    direction = at_gears * dq_M
    before = at_gears.copy()
    before[direction > 0] = (at_gears / motors.efficiency)[direction > 0]
    before[direction < 0] = (at_gears * motors.efficiency)[direction < 0]
    slow = 1.0 + motors.stribeck * np.exp(-np.abs(dq_M) / STRIBECK_SPEED)
    friction = motors.viscous * dq_M + motors.coulomb * slow * np.sign(dq_M)
    ripple = motors.ripple * np.sin(RATIO * q_M + motors.phase)
    return np.asarray(before + motors.inertia * ddq_M + friction + ripple)


def newton_euler(bodies: tuple[Body, ...], q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Joint torques of the links alone, (n_samples, 6), by forward and backward recursion."""
    n = len(q)
    z = np.array([0.0, 0.0, 1.0])
    w, dw, a = np.zeros((n, 3)), np.zeros((n, 3)), np.tile([0.0, 0.0, GRAVITY], (n, 1))
    forces, moments, turns, arms = [], [], [], []
    for j, body in enumerate(bodies):
        alpha, d, theta, r = MDH[j]
        R = _rotation(alpha, q[:, j] + theta)  # child axes in the parent's
        p = np.array([d, -r * np.sin(alpha), r * np.cos(alpha)])
        a = np.einsum("nij,ni->nj", R, a + np.cross(dw, p) + np.cross(w, np.cross(w, p)))
        w_parent = np.einsum("nij,ni->nj", R, w)
        spin = dq[:, j, None] * z
        dw = np.einsum("nij,ni->nj", R, dw) + np.cross(w_parent, spin) + ddq[:, j, None] * z
        w = w_parent + spin
        at_center = a + np.cross(dw, body.center) + np.cross(w, np.cross(w, body.center))
        force = body.mass * at_center
        moments.append(dw @ body.tensor + np.cross(w, w @ body.tensor) + np.cross(body.center, force))
        forces.append(force)
        turns.append(R)
        arms.append(p)
    tau = np.empty((n, 6))
    f, m = np.zeros((n, 3)), np.zeros((n, 3))
    for j in reversed(range(6)):
        f, m = f + forces[j], m + moments[j]
        tau[:, j] = m[:, 2]
        f = np.einsum("nij,nj->ni", turns[j], f)
        m = np.einsum("nij,nj->ni", turns[j], m) + np.cross(arms[j], f)
    return tau


def currents(motors: Motors, tau: FloatArray) -> FloatArray:
    """Invert τ = μ (c1 I + c2 I |I| + c3 I³) by Newton's method, (n_samples, 6), A."""
    c1, c2, c3 = motors.current_law.T
    required = np.abs(tau) / RATIO
    size = required / c1
    for _ in range(30):
        size = size - (size * (c1 + size * (c2 + size * c3)) - required) / (c1 + size * (2.0 * c2 + 3.0 * size * c3))
    return np.asarray(np.sign(tau) * size)


def coupling(V0: float, V1: float, V2: float) -> FloatArray:
    """q = V q_M, in the senses of the MDH axes; the paper prints it in the controller's."""
    V = np.eye(6)
    V[4, 3], V[5, 3], V[5, 4] = V2, V0, V1
    return np.asarray(SENSES[:, None] * V * SENSES)


def _rotation(alpha: float, theta: FloatArray) -> FloatArray:
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    zero = np.zeros_like(c)
    rows = [[c, -s, zero], [s * ca, c * ca, zero - sa], [s * sa, c * sa, zero + ca]]
    return np.array(rows).transpose(2, 0, 1)


AXES = ("axis 3", "axis 4", "axis 5", "axis 6")


def draw_all(robot: Robot, printed: dict[str, Any], draws: "list[dict[str, Outcome]]", out: Path) -> list[Path]:
    """Draw all plots into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    experiment = experiments(robot, printed, seed=0, count=1)[0]
    return [_motion(experiment, out), _torques(robot, experiment, out), _errors(printed, draws, out)]


def _motion(experiment: Experiment, out: Path) -> Path:
    """Draw the paper's Fig. 4: one period of the excitation, as re-estimated from the encoders."""
    figure, axes = panels(2, 2, figsize=(11, 6), sharex=True, xlabel="time (s)")
    q = experiment.run.motion.q
    t = np.arange(len(q)) * 0.024
    for axis, joint, title in zip(axes.flat, MOVED, AXES, strict=True):
        axis.plot(t, np.degrees(q[:, joint]), color="tab:blue", linewidth=0.9)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel("angle (deg)")
    title = "Fig. 4: one period of the excitation, re-estimated from the averaged encoders"
    return save(figure, out / "figure4_motion.png", title)


def _torques(robot: Robot, experiment: Experiment, out: Path) -> Path:
    """Draw the paper's Fig. 5: averaged motor torques beside the model's, and the residuals."""
    runs = [experiment.run]
    task = loads.load_task(robot, runs, arm=arm_of(robot, draw_prior(0)))
    system = loads.equations(task, runs)
    predicted = loads.motor_torque(system, identify_load(task, runs).values)[0].reshape(len(AXES), -1)
    figure, axes = panels(4, 2, figsize=(12, 10), sharex=True, xlabel="time (s)")
    t = np.arange(predicted.shape[1]) * 0.024
    for row, (joint, title) in enumerate(zip(MOVED, AXES, strict=True)):
        measured = experiment.run.tau[:, joint]
        left, right = axes[row]
        left.plot(t, measured, ".", markersize=1.5, color="0.35", label="measured (virtual), mean of ten periods")
        left.plot(t, predicted[row], color="tab:blue", linewidth=0.8, label="approach 3")
        right.plot(t, measured - predicted[row], color="tab:orange", linewidth=0.6)
        left.set_title(title, loc="left", fontsize=10)
        left.set_ylabel("torque (N m)")
        right.set_ylabel("error (N m)")
    axes[0, 0].legend(fontsize=8, loc="upper right")
    title = "Fig. 5: averaged motor torques (left) and what the model leaves of them (right)"
    return save(figure, out / "figure5_torques.png", title)


def _errors(printed: dict[str, Any], draws: "list[dict[str, Outcome]]", out: Path) -> Path:
    """Draw Table 2 as bars: mean absolute errors of the approaches, ours and printed."""
    names, units = printed["table2"]["names"], printed["table2"]["units"]
    figure, axis = panels(figsize=(11, 5))
    place = np.arange(len(names))
    for k, color in ((1, "tab:red"), (2, "tab:orange"), (3, "tab:blue")):
        ours = np.median([np.abs(d[str(k)].error).mean(axis=0) for d in draws], axis=0)
        paper = [entry[0] for entry in printed["table2"][f"approach{k}"]]
        axis.bar(place + 0.26 * (k - 2), ours, width=0.24, color=color, label=f"approach {k}")
        axis.plot(place + 0.26 * (k - 2), paper, "k_", markersize=11, label="printed" if k == 1 else None)
    axis.set_yscale("log")
    axis.set_xticks(place, [f"{name}\n({unit})" for name, unit in zip(names, units, strict=True)])
    axis.set_ylabel("mean |error| over 14 experiments")
    axis.legend(fontsize=8)
    return save(figure, out / "table2_errors.png")


EXPERIMENTS = 14
MOVED = (2, 3, 4, 5)
TRUE_MOTORS = Motors(
    inertia=np.array([0.0, 0.0, 260.0, 18.0, 18.0, 8.3]),
    viscous=np.array([0.0, 0.0, 260.0, 55.0, 50.0, 30.0]),
    coulomb=np.array([0.0, 0.0, 190.0, 75.0, 70.0, 55.0]),
    efficiency=np.array([1.0, 1.0, 0.91, 0.87, 0.88, 0.90]),
    ripple=np.array([0.0, 0.0, 60.0, 25.0, 25.0, 22.0]),
    phase=np.zeros(6),
    stribeck=0.15,
    current_law=np.array([[1.4, 4e-3, -2.2e-4]] * 3 + [[0.95, 3e-3, -3e-4]] * 3),
)
TRUE_LINKS = (
    Body(0.0, np.zeros(3), np.zeros(6)),
    Body(0.0, np.zeros(3), np.zeros(6)),
    Body(190.0, np.array([0.03, 0.15, 0.02]), np.array([14.0, 5.0, 13.0, -0.3, 0.1, 0.5])),
    Body(62.0, np.array([0.0, 0.0, -0.45]), np.array([6.0, 6.0, 0.9, 0.0, 0.0, 0.1])),
    Body(32.0, np.array([0.0, -0.02, 0.03]), np.array([0.45, 0.40, 0.35, 0.0, 0.0, 0.02])),
)
NOISE = np.array([0.0, 0.0, 120.0, 60.0, 60.0, 50.0])  # N m on the link side, of one sample
ENCODER_NOISE = 2e-5  # rad on the link side
LINK_ERROR, ROTOR_ERROR = 0.015, 0.01  # relative, of what is known beforehand
LAG = 0.012  # s, of the controller


@dataclass(frozen=True)
class Series:
    """A periodic motion: offset + Σ sine sin(l w t) + cosine cos(l w t), rad."""

    offset: FloatArray  # (6,)
    lines: tuple[tuple[int, int, float, float], ...]  # axis, harmonic, sine, cosine


@dataclass(frozen=True)
class Prior:
    """Prior of links 3 to 5 and of the rotors."""

    links: tuple[Body, ...]
    rotors: FloatArray  # (6,)


@dataclass(frozen=True)
class Recording:
    """Controller's recording: angles and currents of the motors, (n_samples, 6)."""

    name: str
    position: FloatArray
    current: FloatArray
    periods: loads.Periods


def load_body(exact: list[float]) -> Body:
    """Read the printed load: kg, mm, kg m²."""
    return Body(exact[0], np.array(exact[1:4]) / 1000.0, np.array(exact[4:]))


def parameters(body: Body) -> FloatArray:
    """Write a body in a link's ten parameters."""
    return from_center_of_mass(float(body.mass), body.center, body.tensor)


def joined(one: Body, other: Body) -> Body:
    """Join two bodies of one frame."""
    mass, center, inertia = about_center_of_mass(parameters(one) + parameters(other))
    return Body(mass, center, inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])


def table1(printed: dict[str, Any]) -> Series:
    """Read the printed motion."""
    lines = [(axis, int(n), a, b) for axis in MOVED for n, a, b in printed["table1"][f"axis{axis + 1}"]]
    return Series(np.array(printed["table1"]["offset"], dtype=float), tuple(lines))


def draw_prior(seed: int) -> Prior:
    """Draw the prior (random): every parameter of links 1.5 % off, rotors 1 %."""
    rng = np.random.default_rng([seed, 150])

    def off(value: FloatArray | float, error: float) -> Any:
        return value * (1.0 + error * rng.normal(size=np.shape(value)))

    links = tuple(
        Body(float(off(b.mass, LINK_ERROR)), off(b.center, LINK_ERROR), off(b.inertia, LINK_ERROR)) for b in TRUE_LINKS
    )
    return Prior(links, off(TRUE_MOTORS.inertia, ROTOR_ERROR))


def true_prior() -> Prior:
    """Return the exact prior."""
    return Prior(TRUE_LINKS, TRUE_MOTORS.inertia)


def arm_of(robot: Robot, prior: Prior) -> loads.Arm:
    """Convert a prior, and its uncertainty, to the robot's parameters; link 6 counts with the load."""
    params = layout(robot)
    chi, C = np.zeros(len(params)), np.zeros((len(params), len(params)))
    for j, body in enumerate(prior.links):
        chi[params.link(j)] = parameters(body)
        T = _slope(body)
        spread = LINK_ERROR * np.array([body.mass, *body.center, *body.inertia])
        C[params.link(j), params.link(j)] = T @ np.diag(spread**2) @ T.T
    for axis in MOVED:
        column = params.index(f"Ia{axis + 1}")
        chi[column] = prior.rotors[axis]
        C[column, column] = (ROTOR_ERROR * prior.rotors[axis]) ** 2
    return loads.Arm(chi, C)


def draw_series(rng: np.random.Generator, first: Series) -> Series:
    """Draw another motion of the same kind: the wrist covers its range, axis 3 moves a little."""
    lines = [_line(rng, 2, int(rng.integers(23, 28)), 0.0872 * rng.uniform(0.9, 1.2))]
    fast = rng.choice(np.arange(13, 23), size=3, replace=False)
    for axis, slow_size, n, fast_size in zip(MOVED[1:], (1.57, 0.838, 1.57), fast, (0.46, 0.21, 1.0), strict=True):
        lines.append(_line(rng, axis, 1, slow_size * rng.uniform(0.8, 1.05)))
        lines.append(_line(rng, axis, int(n), fast_size * rng.uniform(0.8, 1.1)))
    return Series(first.offset, tuple(lines))


def warm(rng: np.random.Generator, motors: Motors) -> Motors:
    """Draw (random) the friction and efficiency of another day."""
    efficiency = np.clip(motors.efficiency + 0.015 * rng.normal(size=6), 0.7, 0.99)
    return replace(
        motors,
        viscous=motors.viscous * (1.0 + 0.08 * rng.normal(size=6)),
        coulomb=motors.coulomb * (1.0 + 0.06 * rng.normal(size=6)),
        efficiency=efficiency,
        phase=rng.uniform(0.0, 2.0 * np.pi, size=6),
    )


def experiments(robot: Robot, printed: dict[str, Any], *, seed: int = 0, count: int = EXPERIMENTS) -> list[Experiment]:
    """Run the experiments: the first is the printed motion."""
    rng = np.random.default_rng([seed, 2002])
    load, first = load_body(printed["table2"]["exact"]), table1(printed)
    done = []
    for number in range(count):
        series = first if number == 0 else draw_series(rng, first)
        motors = warm(rng, TRUE_MOTORS)
        recording = record(printed, series, motors, load, rng, f"experiment {number + 1}")
        done.append(Experiment(processed(robot, recording), motors))
    return done


def record(
    printed: dict[str, Any], series: Series, motors: Motors, load: Body, rng: np.random.Generator, name: str = "run"
) -> Recording:
    """Simulate a repeated motion, and record its motors' positions and currents."""
    n, n_periods = printed["table1"]["samples"], printed["table1"]["periods"]
    period = printed["table1"]["period_s"]
    V = coupling(**printed["coupling"])
    motion = evaluate(lagging(series, rng, period), period, n)
    current = currents(motors, motor_torques((*TRUE_LINKS, load), motors, V, motion))
    noise = NOISE / (RATIO * motors.current_law[:, 0])  # A
    measured = np.tile(current, (n_periods, 1)) + noise * rng.normal(size=(n_periods * n, 6))
    measured[:, :2] = 0.0  # axes 1 and 2 hang in their brakes
    q_M = RATIO * np.linalg.solve(V, motion[0].T).T
    position = np.tile(q_M, (n_periods, 1)) + RATIO * ENCODER_NOISE * rng.normal(size=(n_periods * n, 6))
    lines = sorted({line[1] for line in series.lines})
    return Recording(name, position, measured, loads.Periods(n, n / period, lines))


def processed(robot: Robot, recording: Recording) -> loads.LoadRun:
    """Process a recording in the same way as any robot's."""
    return loads.run_from_currents(
        robot, recording.position, recording.current, periods=recording.periods, run=recording.name
    )


def lagging(series: Series, rng: np.random.Generator, period: float) -> Series:
    """Compute the motion that the controller executes: each line with a small delay and amplitude error."""
    lines = []
    for axis, n, a, b in series.lines:
        late = 2.0 * np.pi * n / period * LAG
        size = 1.0 + 0.005 * rng.normal()
        c, s = np.cos(late), np.sin(late)
        lines.append((axis, n, size * (a * c + b * s), size * (b * c - a * s)))
    return Series(series.offset, tuple(lines))


def evaluate(series: Series, period: float, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Evaluate positions, velocities and accelerations at n samples of a period, (n, 6) each."""
    t = period * np.arange(n) / n
    q, dq, ddq = np.tile(series.offset, (n, 1)), np.zeros((n, 6)), np.zeros((n, 6))
    for axis, harmonic, a, b in series.lines:
        w = 2.0 * np.pi * harmonic / period
        s, c = np.sin(w * t), np.cos(w * t)
        q[:, axis] += a * s + b * c
        dq[:, axis] += w * (a * c - b * s)
        ddq[:, axis] -= w**2 * (a * s + b * c)
    return q, dq, ddq


def _line(rng: np.random.Generator, axis: int, harmonic: int, size: float) -> tuple[int, int, float, float]:
    phase = rng.uniform(0.0, 2.0 * np.pi)
    return axis, harmonic, float(size * np.cos(phase)), float(size * np.sin(phase))


def _slope(body: Body) -> FloatArray:
    """Compute the derivative of φ by mass, centre and inertia about it; central differences of a cubic."""
    at, step = np.array([body.mass, *body.center, *body.inertia]), 1e-4
    ends = [[parameters(Body(x[0], x[1:4], x[4:])) for x in (at + step * e, at - step * e)] for e in np.eye(10)]
    return np.column_stack([(after - before) / (2.0 * step) for after, before in ends])
