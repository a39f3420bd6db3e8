"""Tables of the Rotradi study: parameters, variation, simulated responses; medians over seeds with their ranges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.experiments.studies.rotradi_virtual import CASES, UNITS, Case, Truth, percent_errors
from excitor.identify.schemes import KINDS, SchemeKind
from excitor.robots.arrays import FloatArray

SCHEMES = KINDS
REFERENCE: SchemeKind = "filtered dynamic"
CAREFUL_ALL: Mapping[str, SchemeKind] = {
    f"careful {kind}": kind for kind in KINDS if kind not in ("dynamic", "power")
}  # those that need no accelerations
CAREFUL = f"careful {REFERENCE}"
TRUE = "true parameters"
MAIN = np.array([1, 2, 6, 11, 12, 14, 17, 20]) - 1  # the parameters that torques show most
TORQUES = ("identification torque", "new torque")


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """What one seed gave in one case."""

    seed: int
    case: Case
    theta: Mapping[str, FloatArray]  # by method, (21,)
    norms: Mapping[str, FloatArray]  # by method, (torques, joints), degrees; inf where the model flew away
    smallest: Mapping[str, float]  # by scheme: smallest eigenvalue that P ever had
    final: Mapping[str, tuple[float, float]]  # by scheme: smallest and largest eigenvalue of P at the end
    batch_difference: float  # of recursive from batch least squares, the worst scheme's, relative
    delay: tuple[float, float]  # of the torque, s, and its deviation, as the equations tell


Outcomes = Sequence[Outcome]


def of_case(outcomes: Outcomes, case: Case) -> list[Outcome]:
    """Keep one case."""
    return [outcome for outcome in outcomes if outcome.case == case]


def median_errors(known: Truth, outcomes: Outcomes, case: Case, method: str) -> list[float]:
    """Median relative parameter error of each seed, percent."""
    return [float(np.median(percent_errors(known, o.theta[method]))) for o in of_case(outcomes, case)]


def worst_main(known: Truth, outcomes: Outcomes, case: Case, method: str) -> list[float]:
    """Worst relative error among the main parameters, seed by seed, percent."""
    return [float(percent_errors(known, o.theta[method])[MAIN].max()) for o in of_case(outcomes, case)]


def median_variation(outcome: Outcome, method: str) -> float:
    """Median relative difference from the filtered dynamic values, percent."""
    reference = outcome.theta[REFERENCE]
    return float(np.median(100.0 * np.abs((outcome.theta[method] - reference) / reference)))


def norm_variation(outcome: Outcome, method: str) -> float:
    """Relative 2-norm of the difference from the filtered dynamic values, percent."""
    reference = outcome.theta[REFERENCE]
    return float(100.0 * np.linalg.norm(outcome.theta[method] - reference) / np.linalg.norm(reference))


def median_norms(outcomes: Outcomes, case: Case, method: str) -> FloatArray:
    """Norms of simulated minus measured positions, medians over seeds, (torques, joints), degrees."""
    return np.asarray(np.median([o.norms[method] for o in of_case(outcomes, case)], axis=0))


def methods_of(outcomes: Outcomes) -> list[str]:
    """Name the methods whose responses were simulated."""
    return list(outcomes[0].norms)


def parameter_table(known: Truth, outcome: Outcome) -> dict[str, str]:
    """Table 3: the values of all schemes beside the truth, of one seed."""
    columns: dict[str, FloatArray] = {"true": known.theta, **outcome.theta}
    table = {"parameter": " | ".join(columns)}
    for i, (name, unit) in enumerate(zip(known.names, UNITS, strict=True)):
        table[f"{i + 1} {name}, {unit}"] = " | ".join(f"{values[i]:.6f}" for values in columns.values())
    return table


def error_table(known: Truth, outcomes: Outcomes) -> dict[str, dict[str, str]]:
    """Relative parameter errors: the median one and the worst main one, over seeds."""
    table: dict[str, dict[str, str]] = {}
    for method in (*SCHEMES, *CAREFUL_ALL):
        table[method] = {}
        for case in CASES:
            table[method][f"{case}, median %"] = spread(median_errors(known, outcomes, case, method))
            table[method][f"{case}, worst main %"] = spread(worst_main(known, outcomes, case, method))
    return table


def variation_table(outcomes: Outcomes) -> dict[str, dict[str, str]]:
    """Table 4: how far the others are from the filtered dynamic values, over seeds."""
    kinds: dict[str, Callable[[Outcome, str], float]] = {
        "median relative difference %": median_variation,
        "relative 2-norm %": norm_variation,
    }
    return {
        method: {
            f"{case}, {kind}": spread([measure(o, method) for o in of_case(outcomes, case)])
            for case in CASES
            for kind, measure in kinds.items()
        }
        for method in SCHEMES
        if method != REFERENCE
    }


def norm_table(outcomes: Outcomes) -> dict[str, dict[str, str]]:
    """Table 2: 2-norms of simulated minus measured angles, joints 1, 2, 3, medians over seeds, degrees."""
    return {
        method: {
            f"{case}, {torque}": row(median_norms(outcomes, case, method)[k])
            for case in CASES
            for k, torque in enumerate(TORQUES)
        }
        for method in methods_of(outcomes)
    }


def eigenvalue_table(outcomes: Outcomes) -> dict[str, str]:
    """Tell the final smallest and largest eigenvalue of P, medians over seeds, ideal case."""
    ends = {name: np.median([o.final[name] for o in of_case(outcomes, "ideal")], axis=0) for name in SCHEMES}
    return {name: f"{low:.1e}, {high:.1e}" for name, (low, high) in ends.items()}


def ablation_errors(known: Truth, steps: Sequence[Mapping[str, FloatArray]]) -> dict[str, FloatArray]:
    """Median relative parameter error of each step of the ablation, by seed, percent."""
    return {name: np.array([np.median(percent_errors(known, one[name])) for one in steps]) for name in steps[0]}


def best_simulated(outcomes: Outcomes) -> str:
    """Name the scheme of the paper's five whose responses are nearest: by joint, torque and case, medians over seeds.

    Empty where no scheme is nearest everywhere.
    """
    norms = np.array([[median_norms(outcomes, case, method) for case in CASES] for method in SCHEMES])
    nearest = np.unique(norms.reshape(len(SCHEMES), -1).argmin(axis=0))
    return SCHEMES[nearest[0]] if len(nearest) == 1 else ""


def farthest(outcomes: Outcomes, case: Case) -> str:
    """Name the scheme whose median variation, median over seeds, is largest."""
    others = [method for method in SCHEMES if method != REFERENCE]
    variation = {m: np.median([median_variation(o, m) for o in of_case(outcomes, case)]) for m in others}
    return max(others, key=lambda method: float(variation[method]))


def spread(values: Sequence[float] | FloatArray) -> str:
    """Write a median with its range."""
    return f"{number(float(np.median(values)))} ({number(float(np.min(values)))} … {number(float(np.max(values)))})"


def row(values: FloatArray) -> str:
    """Write the numbers of all joints."""
    return ", ".join(number(float(x)) for x in values)


def number(x: float) -> str:
    """Write a number in three digits; infinite is a model that flew away."""
    if not np.isfinite(x):
        return "diverged"
    return f"{x:.3g}" if abs(x) < 1000.0 else f"{x:.0f}"
