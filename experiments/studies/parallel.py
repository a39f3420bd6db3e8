"""Study: drive gains and parameters of parallel robots from runs without and with a weighed body, [Briot2012].

The paper is theory and prints no numbers: virtual robots with a known truth, a-priori gains 10 % off. A five-bar, an
Orthoglide as rod model and with full legs, a Delta with published CAD values; and a TX-40 with a weighed 4.5 kg body,
a serial robot, where some joints must be refused. The virtual tools move along random Fourier series.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies import tx40
from excitor.experiments.studies.paper import declared_chi, panels, save
from excitor.experiments.virtual import machine
from excitor.identify import drive_gains
from excitor.identify.regression import Rows
from excitor.identify.signals import decimate
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.closed_chain import ClosedLoop, inverse_geometry
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SEEDS = 16
DRAWS = 200
PER_FIGURE = 10
UNIT = "%, |mean| of the worst axis"


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Run the study on seeds 0 to 15; `full` draws every figure of the coverage anew. It needs no data."""
    seeds = range(SEEDS)
    context: dict[str, Any] = {
        "setting": f"seeds 0 to {SEEDS - 1}; a-priori gains 8 to 10 % off; the paper prints no results",
        "methods": {
            OURS: "mixed total least squares, columns of motion exact, rows weighted by drives' noise: the default",
            PAPER: "weighted total least squares of eq. (13) with unit columns",
            PLAIN: "weighted least squares with the known load on the right",
        },
    }
    drawn = {name: compare(name, seeds) for name in ("five_bar", "orthoglide_rod", "orthoglide_full", "delta")}
    for name, draws in drawn.items():
        context[name] = table(draws)
    serial = [realise(seed) for seed in seeds]
    context["tx40"] = serial_table(serial)
    figures = [*gain_figures(drawn), *full_leg_figures(drawn["orthoglide_full"])]
    figures += [*serial_figures(serial), *coverage_figures(context, full)]
    if out is not None:
        context["plots"] = [str(path) for path in draw(drawn, serial, out)]
    return Report("study", "parallel-drive-gains", figures, context)


@dataclass(frozen=True)
class Draw:
    """One draw: errors in percent by (parameters kept, method)."""

    gain_errors: Mapping[tuple[str, str], FloatArray]  # (n_drives,)
    gaps: Mapping[tuple[str, str], float]
    parameter_errors: Mapping[tuple[str, str], float]  # of the whole vector
    believed: Mapping[str, float]  # the same of least squares with a-priori gains, by parameters kept
    afterwards: float  # the same of essential parameters found with the identified gains
    sigma: FloatArray  # (n_drives,), percent, predicted
    removed: int  # parameters that elimination leaves out
    answered: int  # gains that are answered, with nothing left out unless the gap demands it
    demanded: int  # parameters that the gap made leave


def gain_figures(drawn: dict[str, list[Draw]]) -> list[Figure]:
    """Evaluate the gains of well-conditioned models, and the bias of least squares for comparison."""
    figures = [
        Figure(f"parallel.{name}.gain_error_percent", bias(drawn[name], (ALL, OURS)), UNIT, bound, "at most")
        for name, bound in (("five_bar", 0.2), ("orthoglide_rod", 0.5), ("delta", 0.5))
    ]
    low = {name: bias(drawn[name], (ALL, PLAIN)) for name in drawn}
    name = "parallel.{}_least_squares.gain_error_percent"
    figures.append(Figure(name.format("orthoglide_rod"), low.pop("orthoglide_rod"), UNIT, 2.0, "within", tolerance=1.0))
    figures += [Figure(name.format(robot), error, UNIT) for robot, error in low.items()]
    return figures


def full_leg_figures(draws: Sequence[Draw]) -> list[Figure]:
    """Compare full legs: total least squares of all columns fails and its gap shows it; elimination corrects it."""
    flagged = [draw.gaps[ALL, PAPER] < drive_gains.Trust().gap for draw in draws]
    worst = float(np.median([np.abs(draw.gain_errors[ALL, PAPER]).max() for draw in draws]))
    error = float(np.median([draw.parameter_errors[ESSENTIAL, OURS] for draw in draws]))
    believed = float(np.median([draw.believed[ESSENTIAL] for draw in draws]))
    afterwards = float(np.median([draw.afterwards for draw in draws]))
    name = "parallel.orthoglide_full"
    return [
        Figure(f"{name}.gain_error_percent", bias(draws, (ESSENTIAL, OURS)), UNIT, 2.5, "at most"),
        Figure(f"{name}.parameter_error_percent", error, "% of the vector, median", 3.0, "at most"),
        Figure(
            f"{name}.identified_gains.parameter_error_percent", afterwards, "% of the vector, median", 3.0, "at most"
        ),
        Figure(f"{name}.believed_gains.parameter_error_percent", believed, "% of the vector, median"),
        Figure(f"{name}.without_elimination.gain_error_percent", bias(draws, (ALL, OURS)), UNIT),
        Figure(f"{name}.all_columns_without_elimination.gain_error_percent", worst, "%, worst axis, median"),
        Figure(f"{name}.all_columns_without_elimination.flagged", float(np.mean(flagged)), "of draws", 1.0, "equal"),
    ]


@dataclass(frozen=True)
class Outcome:
    """One realisation: its result, and the error of each method, in percent."""

    result: drive_gains.DriveGains
    answered: Mapping[str, float]  # joint -> error
    errors: Mapping[str, FloatArray]  # method -> (6,), all joints, asked or not
    gaps: Mapping[str, float]


def serial_figures(serial: Sequence[Outcome]) -> list[Figure]:
    """Compare the serial robot: every accepted gain, and that the most loaded joints are accepted."""
    largest = max(abs(error) for outcome in serial for error in outcome.answered.values())
    both = np.mean([{"j2", "j3"} <= set(outcome.answered) for outcome in serial])
    untouched = max(float(np.abs(outcome.errors[PAPER]).max()) for outcome in serial)
    return [
        Figure("parallel.tx40.gain_error_percent", largest, "%, worst of all answers", 1.5, "at most"),
        Figure("parallel.tx40.joints_2_and_3_answered", float(both), "of draws", 1.0, "equal"),
        Figure("parallel.tx40.all_columns_untouched.gain_error_percent", untouched, "%, worst of all joints"),
    ]


def serial_table(serial: Sequence[Outcome]) -> dict[str, Any]:
    """Count how often and how accurately each joint's gain is accepted, with the reasons for refusals."""
    rows: dict[str, Any] = {}
    for j, name in enumerate(gain.drive for gain in serial[0].result.gains):
        errors = [outcome.answered[name] for outcome in serial if name in outcome.answered]
        gains = [outcome.result.gains[j] for outcome in serial]
        refusals = [gain.reason for gain in gains if not gain.answered]
        rows[name] = {
            "answered": f"{len(errors)} of {len(serial)}",
            "largest error %": round(max((abs(error) for error in errors), default=float("nan")), 2) if errors else "-",
            "predicted deviation %": round(100.0 * float(np.median([gain.relative_sigma for gain in gains])), 2),
            "refused because": refusals[0] if refusals else "-",
        }
    for method in (OURS, PAPER, PLAIN):
        every = np.array([outcome.errors[method] for outcome in serial])
        rows[f"all joints and parameters, {method}"] = {
            "mean error %": [round(float(x), 2) for x in every.mean(axis=0)],
            "largest": [round(float(x), 2) for x in np.abs(every).max(axis=0)],
        }
    return rows


def coverage_figures(context: dict[str, Any], full: bool) -> list[Figure]:
    """Count how often 95 % intervals of gains contain the truth."""
    found = {name: coverage(name, DRAWS, 1 if full else PER_FIGURE) for name in ("five_bar", "orthoglide_rod")}
    context["coverage_of_parameters_percent"] = {name: round(pair[1], 1) for name, pair in found.items()}
    worst = max((pair[0] for pair in found.values()), key=lambda share: abs(share - 95.0))
    shares = {"parallel": worst, **{f"parallel.{name}": pair[0] for name, pair in found.items()}}
    unit = f"% of gains' 95 % intervals, {DRAWS} draws"
    return [
        Figure(f"{name}.coverage_percent", share, unit, 94.5, "within", tolerance=4.5) for name, share in shares.items()
    ]


ALL, ESSENTIAL = "all parameters", "essential parameters"
OURS, PAPER, PLAIN = "noise in signals", "all columns noisy", "least squares"  # as fits name themselves
LEVEL = 1.959963984540054  # of two-sided 95 %, normal


def compare(name: str, seeds: Sequence[int]) -> list[Draw]:
    """Draw a virtual robot's runs again and again and fit them all ways."""
    return [_draw(SETTINGS[name], seed) for seed in seeds]


@dataclass(frozen=True)
class VirtualSetting:
    """One virtual robot: where its tool moves, what it weighs up, and how noisy its sensors are."""

    robot: str
    center: tuple[float, ...]
    reach: tuple[float, ...]  # half ranges of the tool, m
    load: float  # kg
    encoder: float  # rad or m, white
    signal: float  # unit of the drives' signals, white


def _draw(setting: VirtualSetting, seed: int) -> Draw:
    robot, system = virtual_equations(setting, seed)
    known = truth(robot)
    result = drive_gains.drive_gains(system)
    smaller, removed = drive_gains.without_faint_parameters(system, drive_gains.Trust().ratio)
    fits: dict[tuple[str, str], tuple[drive_gains.GainSystem, drive_gains.GainFit]] = {}
    for kept, part in ((ALL, system), (ESSENTIAL, smaller)):
        for fit in (drive_gains.signal_fit(part), drive_gains.frobenius_fit(part), drive_gains.known_load_fit(part)):
            fits[kept, fit.method] = (part, fit)
    prior = {kept: drive_gains.prior_fit(part) for kept, part in ((ALL, system), (ESSENTIAL, smaller))}
    after, ours = drive_gains.essential_parameters(result).estimate, fits[ALL, OURS][1]
    return Draw(
        gain_errors={key: 100.0 * (fit.gains / known.gains - 1.0) for key, (_, fit) in fits.items()},
        gaps={key: fit.gap for key, (_, fit) in fits.items()},
        parameter_errors={key: parameter_error(known, part.names, fit.parameters) for key, (part, fit) in fits.items()},
        believed={kept: parameter_error(known, fit.names, fit.values) for kept, fit in prior.items()},
        afterwards=parameter_error(known, after.names, after.values),
        sigma=100.0 * np.sqrt(np.diag(ours.covariance)[len(system.names) :]) / known.gains,
        removed=len(removed),
        answered=sum(gain.answered for gain in result.gains),
        demanded=len(result.removed),
    )


@dataclass(frozen=True)
class VirtualTruth:
    """The truth behind a virtual robot: base parameters and gains by name."""

    parameters: Mapping[str, float]
    gains: FloatArray  # (n_drives,)


def parameter_error(known: VirtualTruth, names: Sequence[str], values: FloatArray) -> float:
    """Relative error of the vector of base parameters in percent; those left out are 0."""
    found = dict(zip(names, values.tolist(), strict=True))
    true = np.array(list(known.parameters.values()))
    estimate = np.array([found.get(name, 0.0) for name in known.parameters])
    return 100.0 * float(np.linalg.norm(estimate - true) / np.linalg.norm(true))


def bias(draws: Sequence[Draw], key: tuple[str, str]) -> float:
    """Largest |mean error| of any axis, percent."""
    return float(np.abs(np.mean([draw.gain_errors[key] for draw in draws], axis=0)).max())


def coverage(name: str, draws: int, per_figure: int) -> tuple[float, float]:
    """Percentage of 95 % intervals that contain the truth, of gains and of parameters.

    Each figure is drawn with encoder noise of its own; signals' noise is drawn anew for every draw.
    """
    setting = SETTINGS[name]
    clean = VirtualSetting(**{**vars(setting), "signal": 0.0})
    gains, parameters = [], []
    for number in range(draws // per_figure):
        robot, system = virtual_equations(clean, 1000 + number)
        known, rng = truth(robot), np.random.default_rng(2000 + number)
        true = np.concatenate([[known.parameters[name] for name in system.names], known.gains])
        for _ in range(per_figure):
            fit = drive_gains.signal_fit(noisy_again(system, setting, rng))
            error = np.abs(np.concatenate([fit.parameters, fit.gains]) - true)
            held = error <= LEVEL * np.sqrt(np.diag(fit.covariance))
            gains.append(held[len(system.names) :])
            parameters.append(held[: len(system.names)])
    return 100.0 * float(np.mean(gains)), 100.0 * float(np.mean(parameters))


def table(draws: Sequence[Draw]) -> dict[str, dict[str, object]]:
    """Compute means and standard deviations of every method, axis by axis."""
    rows: dict[str, dict[str, object]] = {}
    for key in draws[0].gain_errors:
        errors = np.array([draw.gain_errors[key] for draw in draws])
        gaps = [draw.gaps[key] for draw in draws]
        row: dict[str, object] = {
            "gain error %, mean": _rounded(errors.mean(axis=0)),
            "standard deviation": _rounded(errors.std(axis=0, ddof=1)) if len(draws) > 1 else [],
            "parameter error %, median": round(float(np.median([draw.parameter_errors[key] for draw in draws])), 3),
        }
        if np.isfinite(gaps).all():
            row["singular-value gap"] = f"{min(gaps):.1f} to {max(gaps):.1f}"
        rows[", ".join(key)] = row
    for kept in (ALL, ESSENTIAL):
        error = float(np.median([draw.believed[kept] for draw in draws]))
        rows[f"{kept}, least squares with believed gains"] = {"parameter error %, median": round(error, 2)}
    error = float(np.median([draw.afterwards for draw in draws]))
    rows["essential parameters, least squares with identified gains"] = {"parameter error %, median": round(error, 3)}
    rows["verdict"] = {
        "predicted standard deviation %": _rounded(np.mean([draw.sigma for draw in draws], axis=0)),
        "gains answered": f"{sum(draw.answered for draw in draws)} of {sum(len(draw.sigma) for draw in draws)}",
        "parameters that the gap made leave": max(draw.demanded for draw in draws),
        "parameters that elimination leaves out": f"{min(d.removed for d in draws)} to {max(d.removed for d in draws)}",
    }
    return rows


def _rounded(values: FloatArray) -> list[float]:
    return [round(float(value), 3) for value in values]


COLORS = {OURS: "tab:blue", PAPER: "tab:orange", PLAIN: "0.6"}


def draw(drawn: Mapping[str, Sequence[Draw]], serial: Sequence[Outcome], out: Path) -> list[Path]:
    """Draw all plots into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    return [_gains(drawn, out), _gaps(drawn, out), _serial(serial, out)]


def _gains(drawn: Mapping[str, Sequence[Draw]], out: Path) -> Path:
    """Mean gain errors with standard deviations, a panel a robot."""
    figure, axes = panels(1, len(drawn), figsize=(13, 4))
    for axis, (name, draws) in zip(axes, drawn.items(), strict=True):
        kept = ESSENTIAL if name == "orthoglide_full" else ALL
        for k, method in enumerate(COLORS):
            errors = np.array([one.gain_errors[kept, method] for one in draws])
            place = np.arange(errors.shape[1]) + 0.27 * (k - 1)
            spread = errors.std(axis=0)
            axis.bar(place, errors.mean(axis=0), yerr=spread, width=0.25, color=COLORS[method], label=method, capsize=2)
        axis.axhline(0.0, color="0.2", linewidth=0.6)
        axis.set_xticks(range(errors.shape[1]), [f"drive {j + 1}" for j in range(errors.shape[1])])
        axis.set_title(f"{name.replace('_', ' ')}, {kept}", loc="left", fontsize=9)
    axes[0].set_ylabel("gain error (%), mean and standard deviation")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=3)
    return save(figure, out / "gain_errors.png")


def _gaps(drawn: Mapping[str, Sequence[Draw]], out: Path) -> Path:
    """Worst gain error of every draw over its singular-value gap, and the limit of trust."""
    figure, axis = panels(figsize=(8, 5))
    for k, (name, draws) in enumerate(drawn.items()):
        for (kept, method), marker in (((ALL, PAPER), "x"), ((ESSENTIAL, PAPER), "+"), ((ALL, OURS), ".")):
            gaps = [one.gaps[kept, method] for one in draws]
            errors = [float(np.abs(one.gain_errors[kept, method]).max()) for one in draws]
            label = f"{name.replace('_', ' ')}, {kept}, {method}"
            axis.plot(gaps, errors, marker, color=f"C{k}", markersize=6, label=label)
    axis.axvline(drive_gains.Trust().gap, color="0.3", linewidth=0.8, linestyle="--")
    axis.set(xscale="log", yscale="log")
    axis.set_xlabel("ratio of the last two singular values; dashed: least that is believed")
    axis.set_ylabel("largest gain error (%)")
    axis.legend(fontsize=6, ncols=2)
    return save(figure, out / "singular_value_gap.png")


def _serial(serial: Sequence[Outcome], out: Path) -> Path:
    """Draw errors of all joints by every method, and of the accepted gains."""
    figure, axis = panels(figsize=(8, 4))
    names = [gain.drive for gain in serial[0].result.gains]
    for k, method in enumerate(COLORS):
        errors = np.array([outcome.errors[method] for outcome in serial])
        place = np.arange(len(names)) + 0.2 * (k - 1)
        for one in errors:
            axis.plot(place, one, "_", color=COLORS[method], markersize=7)
        axis.plot([], [], "_", color=COLORS[method], label=method)
    for outcome in serial:
        joints = [names.index(name) for name in outcome.answered]
        axis.plot(np.array(joints) - 0.35, list(outcome.answered.values()), ".", color="tab:green", markersize=4)
    axis.plot([], [], ".", color="tab:green", label="answered")
    axis.axhline(0.0, color="0.2", linewidth=0.6)
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("gain error (%)")
    axis.legend(fontsize=8)
    return save(figure, out / "tx40_gains.png")


SECONDS = 30.0
CUTOFF = 60.0
ENDS = 100
MASS = 4.5
CENTER = np.array([0.05, 0.02, 0.15])  # m, in the last link's frame
INERTIA = MASS / 12.0 * np.diag([0.02, 0.02, 0.02])  # of a cube with edges of 0.1 m
JOINT_GAINS = np.array([35.24, 32.04, 23.94, 9.05, 15.5, 6.56])  # N m/A with gears, as a public model states them
BELIEVED = 0.1  # a-priori gains are off by so much, up or down at random


def realise(seed: int) -> Outcome:
    """Simulate one pair of runs and identify the gains."""
    gains, system = equations(seed)
    result = drive_gains.drive_gains(system)
    fits = [drive_gains.signal_fit(system), drive_gains.frobenius_fit(system), drive_gains.known_load_fit(system)]
    return Outcome(
        result,
        {
            gain.drive: 100.0 * float(gain.values[0] / true - 1.0)
            for gain, true in zip(result.gains, gains, strict=True)
            if gain.values is not None
        },
        {fit.method: 100.0 * (fit.gains / gains - 1.0) for fit in fits},
        {fit.method: fit.gap for fit in fits},
    )


def equations(seed: int, seconds: float = SECONDS) -> tuple[FloatArray, drive_gains.GainSystem]:
    """Simulate and process a run without and one with the body; return the true gains and the equations."""
    robot = load("tx40")
    gains = JOINT_GAINS / np.abs(np.diag(robot.drive.motor_from_joint))
    body = drive_gains.KnownLoad("4.5 kg", -1, from_center_of_mass(MASS, CENTER, INERTIA), np.ones(10, dtype=bool))
    rng = np.random.default_rng(seed)
    runs = [_run(robot, gains, body=carried, rng=rng, seconds=seconds) for carried in (None, body)]
    laws = [drive_gains.Law((1,), np.array([g * (1.0 + BELIEVED * rng.choice([-1.0, 1.0]))])) for g in gains]
    return gains, drive_gains.gain_system(robot, runs, laws, rows=tx40.VIRTUAL_ROWS)


def _run(
    robot: Robot, gains: FloatArray, *, body: drive_gains.KnownLoad | None, rng: np.random.Generator, seconds: float
) -> drive_gains.DriveRun:
    chi = declared_chi(robot, tx40.TRUTH)
    if body is not None:
        chi[layout(robot).link(robot.mechanism.n_links - 1)] += body.phi
    motion = tx40.random_moves(rng, seconds, 0)
    tau = inverse_dynamics(robot, motion, chi)
    tau = machine.with_noise(tau, rng, white=tx40.WHITE, slow=tx40.SLOW)
    seen = tx40.encoder_motion(motion.q, rng, tx40.POSITION_NOISE, rate=tx40.VIRTUAL_RATE, cutoff=CUTOFF)
    cut = slice(ENDS, -ENDS)
    name = "unloaded" if body is None else "loaded"
    signal = motor_torques(robot, tau)[cut] / gains
    return drive_gains.DriveRun(name, seen[cut], signal, body)


RATE = 1000.0
VIRTUAL_SECONDS = 20
VIRTUAL_CUTOFF = 40.0
STEP = 20  # decimation, to 50 Hz
FREQUENCY, HARMONICS = 0.5, 5
MASS_ONLY = np.arange(10) == 9
VIRTUAL_BELIEVED = np.array([1.10, 0.90, 1.08])  # a-priori gains over the true ones

SETTINGS: Mapping[str, VirtualSetting] = {
    "five_bar": VirtualSetting("five-bar", (0.0, 0.30), (0.07, 0.06), 1.2, 2e-6, 0.03),
    "orthoglide_rod": VirtualSetting("orthoglide-rod", (0.0, 0.0, 0.0), (0.07, 0.07, 0.07), 1.98, 1e-6, 0.08),
    "orthoglide_full": VirtualSetting("orthoglide", (0.0, 0.0, 0.0), (0.07, 0.07, 0.07), 1.98, 1e-6, 0.08),
    "delta": VirtualSetting("delta", (0.0, 0.0, -0.95), (0.22, 0.22, 0.10), 5.0, 2e-6, 0.05),
}


def truth(robot: Robot) -> VirtualTruth:
    """Return a robot's true base parameters and gains: those of its file."""
    base = base_parameters(robot)
    values = dict(zip(base.names, base.values(robot.chi).tolist(), strict=True))
    return VirtualTruth(values, robot.drive.torque_from_current[:, 1])


def virtual_equations(setting: VirtualSetting, seed: int) -> tuple[Robot, drive_gains.GainSystem]:
    """Draw motions without and with the load, measure them, and set up the equations with wrong a-priori gains."""
    robot = load(setting.robot)
    rng = np.random.default_rng(seed)
    weight = drive_gains.KnownLoad("weighed body", -1, setting.load * MASS_ONLY, MASS_ONLY)
    runs = [measured(robot, setting, figure(robot, setting, rng), body, rng) for body in (None, weight)]
    gains = truth(robot).gains
    laws = [drive_gains.Law((1,), np.array([g])) for g in gains * VIRTUAL_BELIEVED[: len(gains)]]
    return robot, drive_gains.gain_system(robot, runs, laws, rows=Rows(decimate=thin))


def figure(robot: Robot, setting: VirtualSetting, rng: np.random.Generator) -> Motion:
    """Draw a random Fourier series of the tool that fills its box; derivatives are those of the series."""
    n = round(RATE / FREQUENCY)
    phase = 2.0 * np.pi * np.arange(n)[:, None] / n
    x: FloatArray = np.zeros((n, len(setting.reach)))
    for k in range(1, HARMONICS + 1):
        a, b = rng.normal(size=(2, len(setting.reach))) / k
        x += a * np.sin(k * phase) + b * np.cos(k * phase)
    low, high = x.min(axis=0), x.max(axis=0)
    x = (2.0 * x - low - high) / (high - low) * np.array(setting.reach) + np.array(setting.center)
    loop = robot.mechanism
    assert isinstance(loop, ClosedLoop)
    q = inverse_geometry(loop, x)
    spectrum, slope = np.fft.rfft(q, axis=0), 2j * np.pi * np.fft.rfftfreq(n, 1.0 / RATE)[:, None]
    dq, ddq = (np.fft.irfft(spectrum * slope**order, n, axis=0) for order in (1, 2))
    return Motion(q, dq, ddq)


def measured(
    robot: Robot, setting: VirtualSetting, period: Motion, body: drive_gains.KnownLoad | None, rng: np.random.Generator
) -> drive_gains.DriveRun:
    """Repeat a period for the whole run and measure it."""
    chi = robot.chi.copy()
    if body is not None:
        chi[layout(robot).link(robot.mechanism.n_links - 1)] += body.phi
    repeats = round(VIRTUAL_SECONDS * FREQUENCY)
    signal = np.tile(motor_torques(robot, inverse_dynamics(robot, period, chi)) / truth(robot).gains, (repeats, 1))
    signal += rng.normal(scale=setting.signal, size=signal.shape)
    q = np.tile(period.q, (repeats, 1))
    seen = tx40.encoder_motion(q, rng, setting.encoder, rate=RATE, cutoff=VIRTUAL_CUTOFF)
    cut = slice(ENDS, -ENDS)
    name = "unloaded" if body is None else "loaded"
    return drive_gains.DriveRun(name, seen[cut], signal[cut], body)


def thin(x: FloatArray) -> FloatArray:
    """Decimate to 50 Hz in one stage."""
    return decimate(x, (STEP,))


def noisy_again(
    system: drive_gains.GainSystem, setting: VirtualSetting, rng: np.random.Generator
) -> drive_gains.GainSystem:
    """Add noise of the signals to noise-free equations, filtered as the signals were; one gain per drive."""
    n_samples = VIRTUAL_SECONDS * round(RATE) - 2 * ENDS
    V = system.V.copy()
    for run in np.unique(system.run):
        noise = thin(rng.normal(scale=setting.signal, size=(n_samples, len(system.laws))))
        rows = system.run == run
        V[rows, system.drive[rows]] += noise[system.sample[rows], system.drive[rows]]
    return replace(system, V=V)
