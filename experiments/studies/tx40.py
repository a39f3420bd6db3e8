"""Study: dynamic against power identification model on a Stäubli TX-40, [Gautier2013].

On the public recording: the dynamic model, its essential parameters, the failing power model on a single trajectory,
joint 1 alone; the paper's own Table II applied unchanged. On a virtual TX-40, cases 1 to 4: both models, on one
trajectory and on the locked-joint set.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.logs import differentiated
from excitor.experiments.studies import paper as comparison
from excitor.experiments.virtual import machine
from excitor.identify.consistent import ConsistentEstimate, consistent_fit, standard_columns
from excitor.identify.estimate import Estimate, compress, ols, wls
from excitor.identify.reduce import Essential, essential
from excitor.identify.regression import Regression, Rows, dynamic_regression, pick_rows, power_regression
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.files.toml import robot_from_data
from excitor.robots.friction import joint_positions, joint_torques
from excitor.robots.load import load, robot_text
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Motion, Robot

REALISATIONS = 10
LAST_DIGIT = 0.5e-4  # half of it, of Table IV
RANGES = {1: (0.0602, 0.0682), 2: (0.0589, 0.0686), 3: (0.0790, 0.1198), 4: (0.0662, 0.1091)}  # of the torque errors


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Reproduce the paper; `data` is the folder of the recording, without which only the simulated part runs."""
    figures: list[Figure] = []
    context: dict[str, Any] = {}
    if data is not None:
        figures += recorded(data, context, out)
    else:
        context["recording"] = "skipped: give its folder with --data"
    figures += simulated(context, 3 * REALISATIONS if full else REALISATIONS)
    if out is not None:
        drawn = draw_virtual(fit_cases(seed=0), out)
        context["plots"] = [*context.get("plots", []), *(str(path) for path in drawn)]
    return Report("study", "tx40-power-model", figures, context)


def recorded(folder: Path, context: dict[str, Any], out: Path | None) -> list[Figure]:
    """Fit the recording and compare with what the paper prints."""
    if not folder.is_dir():
        raise ExcitorError(f"{folder}: is not a folder; --data takes the one with pos_read_data.csv and curr_data.csv")
    robot = load("tx40")
    recording = regress(robot, read_recording(robot, folder))
    fits = fit(robot, recording)
    context |= recording_context(robot, recording, fits)
    if out is not None:
        context["plots"] = [str(path) for path in draw(recording, fits, out)]
    return [*dynamic_figures(recording, fits), *power_figures(recording, fits)]


@dataclass(frozen=True)
class Recording:
    """The recording as equations in the paper's parameters."""

    samples: Samples
    dynamic: Regression
    power: Regression
    standard: Regression  # the dynamic model in standard parameters, for the physically consistent fit


@dataclass(frozen=True)
class Fits:
    """Everything fitted to the recording."""

    wls: Estimate
    essential: dict[int, Essential]
    holdout: Estimate
    power: Estimate
    power_essential: Essential
    joint1: dict[str, float]
    consistent: ConsistentEstimate  # of the first part of the recording


def dynamic_figures(recording: Recording, fits: Fits) -> list[Figure]:
    """Evaluate the dynamic model: all base parameters, the essential ones, held out, physically consistent."""
    dynamic, unseen, unseen_standard = recording.dynamic, halves(recording.dynamic)[1], halves(recording.standard)[1]
    twenty, thirty = fits.essential[20].estimate, fits.essential[30].estimate
    twenty_error, held_out = torque_error(dynamic, named(twenty)), torque_error(unseen, named(fits.holdout))
    consistent = dict(zip(fits.consistent.names, fits.consistent.chi.tolist(), strict=True))
    consistent_error = torque_error(unseen_standard, consistent)
    paper = comparison.printed_values("tx40")["table4"]["case1"]
    return [
        Figure("tx40.base_parameters", float(len(dynamic.names)), "", 60.0, "equal"),
        Figure(
            "tx40.wls_error",
            torque_error(dynamic, named(fits.wls)),
            "training",
            0.0505,
            "at most",
            paper,
            spread=LAST_DIGIT,
        ),
        Figure("tx40.essential20_error", twenty_error, "training", 0.0555, "at most", paper, spread=LAST_DIGIT),
        Figure("tx40.essential20_parameters", float(len(twenty.names)), "", 25.0, "within", 23.0, 1.0),
        Figure("tx40.essential30_error", torque_error(dynamic, named(thirty)), "training", 0.053, "at most"),
        Figure("tx40.holdout_error", held_out, "held out", 0.073, "at most"),
        Figure("tx40.consistent_holdout_error", consistent_error, "held out", held_out + 0.003, "at most"),
    ]


def power_figures(recording: Recording, fits: Fits) -> list[Figure]:
    """Evaluate the power model on one trajectory, and joint 1 alone: low residuals, but wrong torques."""
    power = torque_error(recording.power, named(fits.power))
    torques = torque_error(recording.dynamic, named(fits.power))
    alone = torque_error(recording.dynamic, fits.joint1)
    paper = comparison.printed_values("tx40")["table4"]
    return [
        Figure("tx40.power.power_error", power, "training", 0.018, "at most"),
        Figure("tx40.power.torque_error", torques, "", 0.44, "within", paper["case3"], 0.06, LAST_DIGIT),
        Figure("tx40.joint1_only_error", alone, "", 0.72, "within", paper["case5"], 0.04, LAST_DIGIT),
    ]


def recording_context(robot: Robot, recording: Recording, fits: Fits) -> dict[str, Any]:
    """Collect the context of the figures: tables, processing, the physical form of the consistent fit."""
    dynamic, printed = recording.dynamic, comparison.printed_values("tx40")
    twenty = fits.essential[20].estimate
    power_essential = fits.power_essential.estimate
    masses = [layout(robot).index(f"M{j + 1}") for j in range(robot.mechanism.n_links)]
    return {
        "rows": {"torque": len(dynamic), "power": len(recording.power)},
        "processing": [f"{step.name} {dict(step.settings)}" for step in recording.samples.steps],
        "condition": {"normalised": fits.wls.condition},
        "wls_by_joint": joint_errors(dynamic, named(fits.wls)),
        "table2": table2(printed, named(twenty), twenty.names, twenty.relative_sigma),
        "table2_applied_unchanged": {
            case: torque_error(dynamic, physical(values)) for case, values in printed["table2"].items()
        },
        "table3_percent": table3(printed["table2"]),
        "essential": {ratio: len(fit.estimate.names) for ratio, fit in fits.essential.items()},
        "power_essential": {
            "parameters": len(power_essential.names),
            "torque_error": torque_error(dynamic, named(power_essential)),
        },
        "printed_wrist_friction": printed_form(robot, recording),
        "consistent": {
            "status": fits.consistent.status,
            "smallest_eigenvalues": fits.consistent.eigenvalue.tolist(),
            "mass_over_prior": [float(fits.consistent.chi[k] / prior(robot)[k]) for k in masses],
        },
        "note": "errors are unweighted relative 2-norms over the training rows, except the held-out one",
    }


def printed_form(robot: Robot, recording: Recording) -> dict[str, float]:
    """Fit the essential parameters with the wrist friction as printed, for its Fs6 and Fsm6."""
    other = regress(printed_wrist(robot), recording.samples).dynamic
    estimate = essential(compress(other), ratio=20.0).estimate
    return {
        "parameters": len(estimate.names),
        "error": torque_error(other, named(estimate)),
        "Fs6": estimate.value("Fs6"),
        "Fsm6": estimate.value("Fsm6"),
    }


def simulated(context: dict[str, Any], count: int) -> list[Figure]:
    """Run the four cases on the virtual robot: medians over seeds 0 … count - 1."""
    results = [realise(seed) for seed in range(count)]
    printed = comparison.printed_values("tx40")["table4"]
    figures = []
    for case, bound in RANGES.items():
        errors = [result[case].torque_error for result in results]
        name = f"tx40.virtual.case{case}_error"
        middle, reach = (bound[0] + bound[1]) / 2, (bound[1] - bound[0]) / 2
        paper = printed[f"case{case}"]
        figures.append(Figure(name, median(errors), "held out", middle, "within", paper, reach, LAST_DIGIT))
        context[f"virtual_case{case}"] = {
            "torque_error_range": [min(errors), max(errors)],
            "parameter_error_median": median(result[case].parameter_error for result in results),
            "kept": [min(r[case].kept for r in results), max(r[case].kept for r in results)],
        }
    medians = [median(result[case].torque_error for result in results) for case in (1, 2, 3, 4)]
    context["virtual_order_holds"] = max(medians[:2]) < medians[3] < medians[2]
    ranked = float(np.argsort(medians).tolist() == np.argsort([printed[f"case{case}"] for case in RANGES]).tolist())
    figures.append(Figure("tx40.virtual.cases_ranked", ranked, "as printed", paper=1.0))
    context["virtual"] = f"medians of {count} realisations, seeds 0 to {count - 1}"
    return figures


def physical(values: dict[str, list[float]]) -> dict[str, float]:
    """Convert a printed column's wrist friction to the physical form: Fs6 = printed Fs6 - Fsm6, an exact rewriting."""
    named = {name: value for name, (value, _) in values.items()}
    if "Fs6" in named and "Fsm6" in named:
        named["Fs6"] -= named["Fsm6"]
    return named


def table2(
    printed: dict[str, Any], ours: dict[str, float], names: tuple[str, ...], relative_sigma: Any
) -> dict[str, dict[str, float | None]]:
    """Compare our essential parameters with the paper's case 1, with relative σ in percent and the difference."""
    case1 = {name: tuple(pair) for name, pair in printed["table2"]["case1"].items()}
    percent = dict(zip(names, (100.0 * float(s) for s in relative_sigma), strict=True))
    table: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys([*case1, *ours]):
        paper = case1.get(name)
        mine = ours.get(name)
        both = paper is not None and mine is not None
        table[name] = {
            "paper": None if paper is None else paper[0],
            "paper_sigma_percent": None if paper is None else paper[1],
            "ours": mine,
            "sigma_percent": percent.get(name),
            "difference_percent": 100.0 * abs(mine - paper[0]) / abs(paper[0]) if both else None,  # type: ignore[index]
        }
    return table


def table3(table: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Recompute the lost Table III: mean |e| in percent of cases 3 and 4 against 1 and 2, over common parameters."""
    means = {}
    for case, reference in (("case3", "case1"), ("case3", "case2"), ("case4", "case1"), ("case4", "case2")):
        common = [name for name in table[case] if name in table[reference]]
        errors = [abs(table[case][n][0] - table[reference][n][0]) / abs(table[reference][n][0]) for n in common]
        means[f"{case} against {reference}"] = 100.0 * sum(errors) / len(errors)
    return means


def draw(recording: Recording, fits: Fits, out: Path) -> list[Path]:
    """Draw all plots into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    return [_torques(recording, fits, out), _errors(recording, fits, out), _parameters(fits, out)]


@dataclass(frozen=True)
class CaseEstimates:
    """The four cases' estimates of one realisation, and the run that they are tested on."""

    estimates: Mapping[int, Estimate]
    unseen: Regression
    truth: FloatArray


def draw_virtual(fitted: CaseEstimates, out: Path) -> list[Path]:
    """Draw the paper's Figs. 2 to 4 for the virtual robot: cases 2, 3 and 4 on an unseen run."""
    out.mkdir(parents=True, exist_ok=True)
    titles = {
        2: "Fig. 2: dynamic model, locked-joint set",
        3: "Fig. 3: power model, one trajectory",
        4: "Fig. 4: power model, locked-joint set",
    }
    return [_reconstruction(fitted, case, title, out) for case, title in titles.items()]


def _reconstruction(fitted: CaseEstimates, case: int, title: str, out: Path) -> Path:
    """Measured and reconstructed torques of one case, joint by joint."""
    predicted = torques_of(fitted.unseen, named(fitted.estimates[case]))
    lines = {"reconstructed": (predicted, "tab:blue", 0.9), "error": (fitted.unseen.y - predicted, "tab:orange", 0.7)}
    figure = _joint_panels(fitted.unseen, "measured (virtual)", lines, height=8)
    return comparison.save(figure, out / f"figure{case}_virtual.png", f"{title}; held-out run of the virtual robot")


def _joint_panels(
    equations: Regression, measured: str, lines: Mapping[str, tuple[FloatArray, str, float]], height: float
) -> Any:
    """Draw measured torques and others, by label each with its color and width, joint by joint over time."""
    figure, axes = comparison.panels(3, 2, figsize=(11, height), sharex=True, xlabel="time (s)")
    for j, axis in enumerate(axes.flat):
        rows = np.flatnonzero(equations.joint == j)
        rows = rows[np.argsort(equations.sample[rows])]
        t = equations.sample[rows] * 0.02
        axis.plot(t, equations.y[rows], ".", markersize=2.5, color="0.35", label=measured)
        for label, (torque, color, width) in lines.items():
            axis.plot(t, torque[rows], color=color, linewidth=width, label=label)
        axis.set_title(f"joint {j + 1}", loc="left", fontsize=10)
        axis.set_ylabel("torque (N m)")
    axes[0, 0].legend(fontsize=8, loc="upper right")
    return figure


def torques_of(equations: Regression, values: Mapping[str, float]) -> FloatArray:
    """Compute W β; parameters that are not named are 0."""
    return np.asarray(equations.W @ np.array([values.get(name, 0.0) for name in equations.names]))


def _torques(recording: Recording, fits: Fits, out: Path) -> Path:
    """Measured torque beside the dynamic and the power model, joint by joint."""
    dynamic = torques_of(recording.dynamic, named(fits.essential[20].estimate))
    power = torques_of(recording.dynamic, named(fits.power))
    lines = {"dynamic model": (dynamic, "tab:blue", 0.8), "power model": (power, "tab:red", 0.8)}
    figure = _joint_panels(recording.dynamic, "measured", lines, height=9)
    title = "Fitted on one trajectory: the power model explains the power, not the torques"
    return comparison.save(figure, out / "torques.png", title)


def _errors(recording: Recording, fits: Fits, out: Path) -> Path:
    """Relative torque errors by joint."""
    figure, axis = comparison.panels(figsize=(8, 4))
    models = {
        "dynamic, 60 parameters": named(fits.wls),
        "dynamic, essential (r = 20)": named(fits.essential[20].estimate),
        "power, one trajectory": named(fits.power),
    }
    for k, (label, values) in enumerate(models.items()):
        errors = joint_errors(recording.dynamic, values)
        axis.bar(np.arange(6) + 0.27 * (k - 1), errors, width=0.25, label=label)
    axis.set_xticks(range(6), [f"joint {j + 1}" for j in range(6)])
    axis.set_ylabel("training error |τ - τ̂| / |τ|")
    axis.set_yscale("log")
    axis.legend(fontsize=8)
    return comparison.save(figure, out / "errors.png")


def _parameters(fits: Fits, out: Path) -> Path:
    """Essential parameters with their 95 % intervals of white residuals."""
    estimate = fits.essential[20].estimate
    figure, axis = comparison.panels(figsize=(8, 6))
    relative = 100.0 * estimate.relative_sigma * 1.96
    order = np.argsort(relative)
    axis.barh(np.arange(len(order)), relative[order], color="tab:blue")
    axis.set_yticks(np.arange(len(order)), [estimate.names[k] for k in order], fontsize=8)
    axis.set_xlabel("half width of the 95 % interval, % of the value (white residuals)")
    axis.set_title(f"{len(order)} essential parameters", loc="left", fontsize=10)
    return comparison.save(figure, out / "parameters.png")


RATE = 5000.0
CUTOFF = 50.0
ENDS = 50  # samples dropped at both ends, where the filter rings
DEAD_ZONE = 0.01  # of each joint's speed limit
TRAIN_UNTIL = 4.7  # s: the second half is held out


def read_recording(robot: Robot, folder: Path) -> Samples:
    """Read motor angles and motor torques (5 kHz, no time column) and turn them to the joint side."""
    q_motor = read_columns(folder / "pos_read_data.csv", robot.n_joints)
    tau_motor = read_columns(folder / "curr_data.csv", robot.n_joints)
    if len(q_motor) != len(tau_motor):
        raise InvalidLog(folder, f"has {len(q_motor)} positions and {len(tau_motor)} torques; they must pair up")
    q = lowpass(joint_positions(robot, q_motor), sample_rate_hz=RATE, cutoff_hz=CUTOFF, true_cutoff=False)
    kept = slice(ENDS, -ENDS)
    steps = (
        Step("joint side", {}),
        Step("lowpass", {"cutoff_hz": CUTOFF, "order": 4, "true_cutoff": "no"}),
        Step("differentiate", {"ends": "second-order"}),
        Step("drop ends", {"samples": ENDS}),
    )
    tau = joint_torques(robot, tau_motor)[kept]
    return Samples("recording", differentiated(q, RATE)[kept], tau, RATE, steps=steps)


def read_columns(path: Path, n_columns: int) -> FloatArray:
    """Read a CSV of numbers under one line of headings."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidLog(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = [float(cell) for cell in line.split(",")]
        except ValueError:
            raise InvalidLog(path, f"is {line[:40]!r}, expected {n_columns} numbers", number) from None
        if len(row) != n_columns:
            raise InvalidLog(path, f"has {len(row)} entries, expected {n_columns}", number)
        rows.append(row)
    return np.array(rows)


def regress(robot: Robot, samples: Samples) -> Recording:
    """Build both models in the parameters that the paper declares."""
    rows = Rows(decimate=thin, dead_zone=DEAD_ZONE * robot.limits.velocity)
    return Recording(
        samples,
        comparison.declared(robot, dynamic_regression(robot, [samples], rows=rows)),
        comparison.declared(robot, power_regression(robot, [samples], rows=rows)),
        dynamic_regression(robot, [samples], columns=standard_columns(robot), rows=rows),
    )


def printed_wrist(robot: Robot) -> Robot:
    """Replace the wrist friction by that printed under eq. (25), which does not balance power.

    Joint 5 gets Fsm6 s(dq6), joint 6 Fsm6 [s(dq5 + dq6) - s(dq6)]: two tied elements in place of one.
    """
    e5, e6 = np.eye(robot.n_joints)[4:6]
    others = tuple(term for term in robot.drive.friction if term.parameter != "Fsm6")
    printed = (FrictionTerm("Fsm6", "coulomb", e6, e5 - e6), FrictionTerm("Fsm6", "coulomb", e5 + e6, e6))
    return replace(robot, drive=replace(robot.drive, friction=(*others, *printed)))


def thin(x: FloatArray) -> FloatArray:
    """Decimate from 5 kHz to 50 Hz."""
    return comparison.thinned(x, (10, 10))


def halves(regression: Regression) -> tuple[Regression, Regression]:
    """Split into the first part of the recording and the held-out rest."""
    before = regression.sample * 0.02 + ENDS / RATE < TRAIN_UNTIL
    return pick_rows(regression, before), pick_rows(regression, ~before)


def torque_error(regression: Regression, values: dict[str, float]) -> float:
    """Relative error |y - W β| / |y|; parameters that are not named are 0."""
    return float(np.linalg.norm(regression.y - torques_of(regression, values)) / np.linalg.norm(regression.y))


def joint_errors(regression: Regression, values: dict[str, float]) -> list[float]:
    """Relative error joint by joint."""
    return [
        torque_error(pick_rows(regression, regression.joint == j), values) for j in range(len(regression.joint_names))
    ]


def named(estimate: Estimate) -> dict[str, float]:
    """List an estimate's values by name."""
    return dict(zip(estimate.names, (float(value) for value in estimate.values), strict=True))


def fit(robot: Robot, recording: Recording) -> Fits:
    """Fit the dynamic model, its essential parameters, the power model, and joint 1 alone."""
    factors = compress(recording.dynamic)
    power = compress(recording.power)
    first = pick_rows(recording.dynamic, recording.dynamic.joint == 0)
    alone = np.linalg.lstsq(first.W, first.y, rcond=None)[0]  # minimum norm: one joint does not tell 60 parameters
    return Fits(
        wls=wls(factors),
        essential={ratio: essential(factors, ratio=float(ratio)) for ratio in (10, 20, 30)},
        holdout=wls(compress(halves(recording.dynamic)[0])),
        power=ols(power),
        power_essential=essential(power, ratio=20.0, weighted=False),
        joint1=dict(zip(first.names, (float(value) for value in alone), strict=True)),
        consistent=consistent_fit(compress(halves(recording.standard)[0]), robot),
    )


# Base parameters of the truth, as the paper declares them; the others are 0.
TRUTH = {
    "ZZ1R": 1.277, "XX2R": -0.489, "XY2": 0.005, "XZ2R": -0.162, "ZZ2R": 1.073, "MX2R": 2.173, "MY2": 0.1,
    "XX3R": 0.096, "ZZ3R": 0.128, "MY3R": -0.592, "XX4R": 0.01, "ZZ4R": 0.012, "MX4": -0.02, "XX5R": 0.004,
    "ZZ5R": 0.003, "MY5R": -0.034, "ZZ6": 0.001, "Ia3": 0.0816, "Ia4": 0.0336, "Ia5": 0.0501, "Ia6": 0.0116,
    "Fv1": 8.0, "Fv2": 5.5, "Fv3": 1.98, "Fv4": 1.105, "Fv5": 1.846, "Fv6": 0.664, "Fs1": 7.31, "Fs2": 8.24,
    "Fs3": 6.32, "Fs4": 2.52, "Fs5": 3.035, "Fs6": 0.25, "off1": 0.4, "off2": 1.4, "off3": 0.3, "off4": -0.1,
    "off6": 0.13, "Fvm6": 0.608, "Fsm6": 1.95, "Iam6": 0.0116,
}  # fmt: skip

VIRTUAL_RATE = 1000.0
BOX_DEG = 0.9 * np.array([[-100, 120], [-4, 110], [-135, 30], [-240, 80], [-90, 108], [-200, 200]])
SPEED = 0.85 * np.array([5.0, 5.0, 7.0, 7.2, 5.6, 11.6])
WHITE = np.array([6.0, 6.0, 4.0, 1.5, 2.0, 1.2])
SLOW = np.array([1.3, 1.3, 0.9, 0.42, 0.6, 0.42])
POSITION_NOISE = 2e-6
VIRTUAL_DEAD_ZONE = 0.03
RATIO = 20.0


@dataclass(frozen=True)
class CaseResult:
    """One case in one realisation: torque error on the test run, mean relative parameter error, parameters kept."""

    torque_error: float
    parameter_error: float
    kept: int


def virtual_robot() -> Robot:
    """Load the TX-40 with its coupling inertia untied from the rotor, as the published processing estimates it."""
    data = tomllib.loads(robot_text("tx40"))
    data["drive"]["rotor"] = [{"parameter": "Iaw", "senses": {"j6": 1}}]
    parameters = data["declared_base"]["parameters"]
    parameters |= {"Ia6": "Ia6 + Iaw", "Iam6": "Ia6"}
    return robot_from_data(data, "tx40 with a free wrist coupling")


@dataclass(frozen=True)
class Virtual:
    """The virtual robot with its true parameters, and how they are written in the declared ones: truth = T β."""

    robot: Robot
    chi: FloatArray
    T: FloatArray
    names: tuple[str, ...]
    truth: FloatArray


def virtual() -> Virtual:
    """Build the virtual robot and its true parameters."""
    robot = virtual_robot()
    T, names = declared_transform(robot, base_parameters(robot)), comparison.declared_names(robot)
    truth = np.array([TRUTH.get(name, 0.0) for name in names])
    return Virtual(robot, comparison.declared_chi(robot, TRUTH), T, names, truth)


def realise(seed: int) -> dict[int, CaseResult]:
    """Simulate one realisation of all four cases, and evaluate them on an unseen run."""
    fitted = fit_cases(seed)
    return {case: judge(estimate, fitted.unseen, fitted.truth) for case, estimate in fitted.estimates.items()}


def fit_cases(seed: int) -> CaseEstimates:
    """Simulate one realisation and fit: 1, 2 the dynamic, 3, 4 the power model; single run, locked-joint set."""
    known = virtual()
    rng = np.random.default_rng(seed)
    single = [_run(known.robot, known.chi, "single", rng, seconds=12.0, locked=0)]
    sequence = [_run(known.robot, known.chi, f"{k} locked", rng, seconds=8.0, locked=k) for k in range(6)]
    test = [_run(known.robot, known.chi, "test", rng, seconds=8.0, locked=0)]
    estimates = {}
    for case, runs in ((1, single), (2, sequence)):
        estimates[case] = fit_essential(known, dynamic_regression, runs)
        estimates[case + 2] = fit_essential(known, power_regression, runs)
    return CaseEstimates(estimates, equations(known, dynamic_regression, test), known.truth)


def equations(known: Virtual, model: Callable[..., Regression], runs: list[Samples]) -> Regression:
    """Build the equations of runs in the declared parameters."""
    return comparison.declared(known.robot, model(known.robot, runs, rows=VIRTUAL_ROWS))


def fit_essential(known: Virtual, model: Callable[..., Regression], runs: list[Samples]) -> Estimate:
    """Fit the essential parameters to runs."""
    return essential(compress(equations(known, model, runs)), ratio=RATIO, by="joint and run").estimate


def virtual_regression(seed: int) -> Regression:
    """Build the dynamic model of one simulated single trajectory, of about the size of the recording's."""
    robot = load("tx40")
    chi = comparison.declared_chi(robot, TRUTH)
    run = _run(robot, chi, "single", np.random.default_rng(seed), seconds=9.0, locked=0)
    return dynamic_regression(robot, [run], rows=VIRTUAL_ROWS)


def judge(estimate: Estimate, unseen: Regression, truth: FloatArray) -> CaseResult:
    """Compare an estimate with the truth, and its torques with those of an unseen run."""
    columns = [unseen.names.index(name) for name in estimate.names]
    residual = unseen.y - unseen.W[:, columns] @ estimate.values
    large = np.abs(truth[columns]) > 0.03
    errors = np.abs(estimate.values - truth[columns])[large] / np.abs(truth[columns])[large]
    return CaseResult(
        float(np.linalg.norm(residual) / np.linalg.norm(unseen.y)), float(errors.mean()), len(estimate.names)
    )


def _run(robot: Robot, chi: FloatArray, name: str, rng: np.random.Generator, *, seconds: float, locked: int) -> Samples:
    """Simulate, measure and process one run with joints 1 to `locked` held at mid range."""
    return measured(robot, chi, name, rng, motion=random_moves(rng, seconds, locked))


def measured(robot: Robot, chi: FloatArray, name: str, rng: np.random.Generator, *, motion: Motion) -> Samples:
    """Measure a motion sampled at RATE, with noise on torques and positions, and process it."""
    tau = machine.with_noise(inverse_dynamics(robot, motion, chi), rng, white=WHITE, slow=SLOW)
    measured = encoder_motion(motion.q, rng, POSITION_NOISE, rate=VIRTUAL_RATE, cutoff=60.0)
    cut = slice(100, -100)
    return Samples(name, measured[cut], tau[cut], VIRTUAL_RATE)


def encoder_motion(q: FloatArray, rng: np.random.Generator, noise: float, *, rate: float, cutoff: float) -> Motion:
    """Measure positions with white noise, low-pass and differentiate them."""
    noisy = q + rng.normal(scale=noise, size=q.shape)
    return differentiated(lowpass(noisy, sample_rate_hz=rate, cutoff_hz=cutoff, true_cutoff=False), rate)


def random_moves(rng: np.random.Generator, seconds: float, locked: int) -> Motion:
    """Smooth quintic moves to random targets, as an interpolator would."""
    q = quintic_moves(rng, seconds, locked)
    q = lowpass(q, sample_rate_hz=VIRTUAL_RATE, cutoff_hz=25.0, order=2, true_cutoff=False)
    return differentiated(q, VIRTUAL_RATE)


def quintic_moves(rng: np.random.Generator, seconds: float, locked: int) -> FloatArray:
    """Draw quintic moves of each joint to its own random targets, (n_samples, 6)."""
    n = int(seconds * VIRTUAL_RATE)
    q = np.tile(np.radians(BOX_DEG.mean(axis=1)), (n, 1))
    for j in range(locked, 6):
        low, high = np.radians(BOX_DEG[j])
        at, position = 0, float(rng.uniform(low, high))
        while at < n:
            target = float(rng.uniform(low, high))
            duration = max(0.25, 1.875 * abs(target - position) / SPEED[j] * float(rng.uniform(1.0, 1.6)))
            s = np.arange(int(duration * VIRTUAL_RATE)) / (duration * VIRTUAL_RATE)
            move = position + (target - position) * (10 * s**3 - 15 * s**4 + 6 * s**5)
            fits = min(len(move), n - at)
            q[at : at + fits, j] = move[:fits]
            at, position = at + fits, target
    return q


def thin_virtual(x: FloatArray) -> FloatArray:
    """Decimate from VIRTUAL_RATE to 50 Hz."""
    return comparison.thinned(x, (5, 4))


VIRTUAL_ROWS = Rows(decimate=thin_virtual, dead_zone=np.full(6, VIRTUAL_DEAD_ZONE))
