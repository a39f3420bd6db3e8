"""What is wrong with the data, and what can they not tell? Findings in sentences, before anything is solved."""

from collections.abc import Sequence

import numpy as np

from excitor.identify.diagnose_delay import check_delay
from excitor.identify.diagnose_motion import (
    check_derivatives,
    check_limits,
    check_moving,
    check_reversals,
    check_units,
    check_values,
)
from excitor.identify.diagnose_torque import check_clipping, check_dead, check_order, check_scale
from excitor.identify.finding import Finding, several
from excitor.identify.samples import Samples
from excitor.identify.subset import Subset, subset
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import NotAssembled
from excitor.robots.parameters import prior
from excitor.robots.robot import Robot

RANK_TOLERANCE = 1e-7  # of column-normalised singular values
POOR_CONDITION = 1e4
FEW_SAMPLES = 5  # a joint, for each base parameter


@one_blas_thread()
def diagnose(robot: Robot, runs: Samples | Sequence[Samples]) -> tuple[Finding, ...]:
    """Examine runs, worst findings first; later checks are left out where earlier ones make them meaningless."""
    runs = (runs,) if isinstance(runs, Samples) else tuple(runs)
    _check_fits(robot, runs)
    found = check_values(runs) or check_units(robot, runs)
    if not found:
        found = [*check_derivatives(robot, runs), *check_limits(robot, runs)]
    stages = (_motion_and_channels, _torques, _equations)
    for stage in stages:
        if not usable(found):
            break
        try:
            found += stage(robot, runs)
        except NotAssembled as error:
            found.append(_out_of_reach(error))
    rank = {"unusable": 0, "doubtful": 1, "note": 2}
    return tuple(sorted(found, key=lambda finding: rank[finding.level]))


def _out_of_reach(error: NotAssembled) -> Finding:
    return Finding(
        "unusable",
        "workspace",
        f"positions are measured that a closed chain cannot take: {error}",
        "check the order of the columns, their signs, units and zeros",
        {},
    )


def usable(findings: Sequence[Finding]) -> bool:
    """Tell whether an estimate from these data would mean anything."""
    return all(finding.level != "unusable" for finding in findings)


def check_repetitions(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Say where noise cannot be told from model error, or is told by few repetitions."""
    found = []
    for run in runs:
        n = run.repetitions
        data: dict[str, float | str | tuple[str, ...]] = {"run": run.run, "repetitions": float(n)}
        if run.variance is None and n < 2:
            sentence = f"run {run.run!r} was measured once, so its noise cannot be told from errors of the model"
            found.append(Finding("note", "repetitions", sentence, "repeat it five times or more", data))
        elif 0 < n < 5:
            sentence = (
                f"run {run.run!r} is the mean of {n} repetitions, so its noise is known to "
                f"{100 * np.sqrt(0.5 / (max(n, 2) - 1)):.0f} % only"
            )
            found.append(Finding("doubtful", "repetitions", sentence, "repeat it five times or more", data))
    return found


def check_amount(data: Subset, runs: Sequence[Samples]) -> list[Finding]:
    """Compare the number of samples with that of parameters."""
    n, needed = sum(len(run) for run in runs), len(data.names)
    if n >= FEW_SAMPLES * needed:
        return []
    return [
        Finding(
            "unusable" if n < needed else "doubtful",
            "few samples",
            f"there are {n} samples for {needed} base parameters",
            f"record longer, or thin out less: {FEW_SAMPLES * needed} samples are a beginning",
            {"samples": float(n), "parameters": float(needed)},
        )
    ]


def check_rank(data: Subset) -> list[Finding]:
    """Name the parameters that these motions do not show, or do not separate."""
    W = data.W.reshape(-1, data.W.shape[2])
    norms = np.linalg.norm(W, axis=0)
    typical = float(np.median(norms))
    absent = tuple(name for name, norm in zip(data.names, norms, strict=True) if norm <= 1e-12 * typical)
    shown = norms > 1e-12 * typical
    found = []
    if absent:
        found.append(
            Finding(
                "unusable",
                "absent",
                f"no equation contains {several(absent)}",
                "add a run that shows them, or leave them out",
                {"parameters": absent},
            )
        )
    R = np.linalg.qr(W[:, shown] / norms[shown], mode="r")
    _, values, directions = np.linalg.svd(R)
    names = [name for name, there in zip(data.names, shown, strict=True) if there]
    deficient = values <= RANK_TOLERANCE * values[0]
    if deficient.any():
        mixed = _strong(directions[deficient], names)
        found.append(
            Finding(
                "unusable",
                "rank",
                f"{int(deficient.sum())} combinations of {several(mixed)} do not show in the torques",
                "add a run that moves them apart, or leave some out",
                {"parameters": mixed, "missing": float(deficient.sum())},
            )
        )
    elif values[0] > POOR_CONDITION * values[-1]:
        mixed = _strong(directions[-1:], names)
        found.append(
            Finding(
                "doubtful",
                "condition",
                f"the motions hardly separate {several(mixed)}: condition number {values[0] / values[-1]:.0f}",
                "add a run designed for them, or report essential parameters only",
                {"parameters": mixed, "condition": float(values[0] / values[-1])},
            )
        )
    return found


def _motion_and_channels(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    return [
        *check_moving(robot, runs),
        *check_reversals(robot, runs),
        *check_dead(robot, runs),
        *check_clipping(robot, runs),
        *check_repetitions(robot, runs),
    ]


def _torques(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    if not prior(robot).any():
        return [
            Finding(
                "note",
                "no prior",
                f"{robot.name} has no prior model, so sign, scale and order of torques were not checked",
                "give masses and centres of mass, however rough",
                {},
            )
        ]
    data = subset(robot, runs)
    return check_order(robot, data.motion, data.tau) or check_scale(robot, data.motion, data.tau)


def _equations(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    data = subset(robot, runs)
    return [*check_amount(data, runs), *check_rank(data), *check_delay(robot, runs, data)]


def _strong(directions: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    weight = np.abs(directions).max(axis=0)
    return tuple(name for name, part in zip(names, weight, strict=True) if part > 0.2 * weight.max())


def _check_fits(robot: Robot, runs: Sequence[Samples]) -> None:
    if not runs:
        raise ValueError("there are no runs to examine")
    for run in runs:
        if run.tau.shape[1] != robot.n_joints:
            raise ValueError(
                f"run {run.run!r} has {run.tau.shape[1]} joints, {robot.name} has {robot.n_joints}; "
                "give the run of this robot, its columns one for each joint"
            )
        if len(run) < 10:
            raise ValueError(f"run {run.run!r} has {len(run)} samples, expected at least 10")
