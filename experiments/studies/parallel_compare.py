"""One virtual parallel robot over many draws: every method's gains and parameters beside the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.experiments.studies.parallel_virtual import SETTINGS, Known, Setting, equations, noisy_again, truth
from excitor.identify.drive_gains import (
    GainFit,
    GainSystem,
    Trust,
    drive_gains,
    essential_parameters,
    frobenius_fit,
    known_load_fit,
    prior_fit,
    signal_fit,
    without_faint_parameters,
)
from excitor.robots.arrays import FloatArray

ALL, ESSENTIAL = "all parameters", "essential parameters"
OURS, PAPER, PLAIN = "noise in signals", "all columns noisy", "least squares"  # as fits name themselves
LEVEL = 1.959963984540054  # of two-sided 95 %, normal


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


def compare(name: str, seeds: Sequence[int]) -> list[Draw]:
    """Draw a virtual robot's runs again and again and fit them all ways."""
    return [_draw(SETTINGS[name], seed) for seed in seeds]


def _draw(setting: Setting, seed: int) -> Draw:
    robot, system = equations(setting, seed)
    known = truth(robot)
    result = drive_gains(system)
    smaller, removed = without_faint_parameters(system, Trust().ratio)
    fits: dict[tuple[str, str], tuple[GainSystem, GainFit]] = {}
    for kept, part in ((ALL, system), (ESSENTIAL, smaller)):
        for fit in (signal_fit(part), frobenius_fit(part), known_load_fit(part)):
            fits[kept, fit.method] = (part, fit)
    prior = {kept: prior_fit(part) for kept, part in ((ALL, system), (ESSENTIAL, smaller))}
    after, ours = essential_parameters(result).estimate, fits[ALL, OURS][1]
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


def parameter_error(known: Known, names: Sequence[str], values: FloatArray) -> float:
    """Relative error of the vector of base parameters in percent; those left out are 0."""
    found = dict(zip(names, values.tolist(), strict=True))
    true = np.array(list(known.parameters.values()))
    estimate = np.array([found.get(name, 0.0) for name in known.parameters])
    return 100.0 * float(np.linalg.norm(estimate - true) / np.linalg.norm(true))


def bias(draws: Sequence[Draw], key: tuple[str, str]) -> float:
    """Largest |mean error| of any axis, percent."""
    return float(np.abs(np.mean([draw.gain_errors[key] for draw in draws], axis=0)).max())


def coverage(name: str, draws: int, per_figure: int) -> tuple[float, float]:
    """Percentage of 95 % intervals that hold the truth, of gains and of parameters.

    Each figure is drawn with encoder noise of its own; signals' noise is drawn anew for every draw.
    """
    setting = SETTINGS[name]
    clean = Setting(**{**vars(setting), "signal": 0.0})
    gains, parameters = [], []
    for number in range(draws // per_figure):
        robot, system = equations(clean, 1000 + number)
        known, rng = truth(robot), np.random.default_rng(2000 + number)
        true = np.concatenate([[known.parameters[name] for name in system.names], known.gains])
        for _ in range(per_figure):
            fit = signal_fit(noisy_again(system, setting, rng))
            error = np.abs(np.concatenate([fit.parameters, fit.gains]) - true)
            held = error <= LEVEL * np.sqrt(np.diag(fit.covariance))
            gains.append(held[len(system.names) :])
            parameters.append(held[: len(system.names)])
    return 100.0 * float(np.mean(gains)), 100.0 * float(np.mean(parameters))


def table(draws: Sequence[Draw]) -> dict[str, dict[str, object]]:
    """Tell means and standard deviations of every method, axis by axis."""
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
