"""What parameters make a simulated closed loop take the measured torques? Those of the least squared difference.

    minimise ‖ (τ - τ_s(χ)) / σ ‖²   by Levenberg and Marquardt,   σ of the inverse model's residuals, joint by joint

Torques are the inputs of the direct model: closed-loop input error. The true sensitivities ∂τ_s/∂χ are found by
simulating again with each parameter changed; W_s, which leaves out what χ does to the motion, is far cheaper.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from excitor.identify.didim import DidimResult, Iteration, Status, assumption, relative_residual
from excitor.identify.estimate import Estimate, column_spectrum, group_sigma, ols
from excitor.identify.factors import compress
from excitor.identify.nonlinear import NonlinearFit, covariance, levenberg_marquardt
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.identify.simulated_runs import (
    OutOfControl,
    Replay,
    differences,
    full_parameters,
    replay_runs,
    set_up_replay,
)
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import RankDeficient
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import WIDTH, Servo

Sensitivity = Literal["simulated", "regressor"]
CHANGE = 1e-3  # of all torques: what a parameter is changed by where sensitivities are simulated
SETTLED = 0.02  # of a standard deviation: simulated sensitivities know no more digits
NO_FIT = 0.9


def input_error(
    robot: Robot,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    start: FloatArray | None = None,
    columns: IntArray | None = None,
    rows: Rows | None = None,
    sensitivity: Sensitivity = "simulated",
    max_iterations: int = 20,
    width: float = WIDTH,
) -> DidimResult:
    """Fit parameters to torques by simulating the closed loop, from ordinary least squares where no start is given.

    `columns` (the base parameters by default) are estimated, others stay as `start` has them.
    """
    replay = set_up_replay(robot, runs, servo, references=references, columns=columns, rows=rows, width=width)
    try:
        inverse = compress(dynamic_regression(replay.robot, runs, columns=replay.columns, rows=rows))
        chi = full_parameters(robot, start)
        if start is None:
            chi[replay.columns] = ols(inverse).values
        sigma = _sigma(replay, group_sigma(inverse, ols(inverse).values, "joint"), inverse.joint)
    except RankDeficient as why:
        return _failed(replay, full_parameters(robot, start), "undetermined", str(why))
    first = replay_runs(replay, chi, servo)
    if isinstance(first, OutOfControl):
        return _failed(replay, chi, "out of control", f"from its start, {first.sentence}")

    def evaluate(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        trial = chi.copy()
        trial[replay.columns] = x
        return _evaluated(replay, trial, sigma, sensitivity)

    fit = levenberg_marquardt(evaluate, chi[replay.columns], max_iterations=max_iterations, tolerance=SETTLED)
    chi[replay.columns] = fit.x
    return _result(replay, chi, fit, sigma, sensitivity)


def _evaluated(
    replay: Replay, chi: FloatArray, sigma: FloatArray, sensitivity: Sensitivity
) -> tuple[FloatArray, FloatArray]:
    """Weigh τ - τ_s and its Jacobian; out of control, neither is finite."""
    nowhere = np.full(len(sigma), np.inf), np.zeros((len(sigma), len(replay.columns)))
    equations = replay_runs(replay, chi, replay.servo)
    if isinstance(equations, OutOfControl):
        return nowhere
    J = equations.W
    if sensitivity == "simulated":
        found = _simulated_sensitivities(replay, chi, equations.W, equations.y)
        J = equations.W if found is None else found
    return equations.y / sigma, J / sigma[:, None]


def _simulated_sensitivities(replay: Replay, chi: FloatArray, W: FloatArray, y: FloatArray) -> FloatArray | None:
    """Differentiate τ_s by changing each parameter so that torques change by a thousandth; None out of control."""
    J = np.empty_like(W)
    size = float(np.linalg.norm(replay.measured))
    for c, column in enumerate(replay.columns):
        step = CHANGE * size / max(float(np.linalg.norm(W[:, c])), 1e-12 * size)
        changed = chi.copy()
        changed[column] += step
        other = differences(replay, changed, replay.servo)
        if isinstance(other, OutOfControl):
            return None
        J[:, c] = (y - other) / step
    return J


def _sigma(replay: Replay, sigma: FloatArray, joint: IntArray) -> FloatArray:
    """Give each row its joint's standard deviation."""
    of_joint = dict(zip(map(int, joint), map(float, sigma), strict=True))
    return np.array([of_joint[int(j)] for j in replay.joint])


def _result(
    replay: Replay, chi: FloatArray, fit: NonlinearFit, sigma: FloatArray, sensitivity: Sensitivity
) -> DidimResult:
    residual = relative_residual(replay, fit.residual * sigma)
    variance = float(fit.residual @ fit.residual) / max(len(fit.residual) - len(fit.x), 1)
    names = tuple(replay.names[c] for c in replay.columns)
    try:
        spread = variance * covariance(fit, names)
    except RankDeficient as why:
        return _failed(replay, chi, "undetermined", str(why))
    spectrum = column_spectrum(fit.R)
    estimate = Estimate(
        method="input-error",
        names=names,
        units=tuple(replay.units[c] for c in replay.columns),
        values=fit.x,
        covariance=spread,
        group_sigma={
            (int(j), run): float(sigma[replay.joint == j][0])
            for j in np.unique(replay.joint)
            for run in range(len(replay.runs))
        },
        n_rows=len(fit.residual),
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0.0 else float("inf"),
        singular_values=spectrum,
        weighted_residual=float(np.linalg.norm(fit.residual)),
        settings={"sensitivity": sensitivity, "evaluations": float(fit.evaluations), "ended": fit.message},
    )
    status: Status = "iterations" if not fit.converged else ("converged" if residual < NO_FIT else "no fit")
    said = {
        "converged": f"Closed-loop input error converged in {fit.iterations} iterations, because {fit.message}",
        "iterations": f"Closed-loop input error did not converge, because {fit.message}",
        "no fit": "Closed-loop input error did not converge to anything: the simulated servo is not that of the runs",
    }[status]
    share = residual / fit.history[-1] if fit.history[-1] > 0.0 else 0.0
    fitted = f"; simulated and measured torques differ by {100.0 * residual:.2g} %."
    return DidimResult(
        method="input-error",
        status=status,
        estimate=estimate,
        chi=chi,
        iterations=fit.iterations,
        history=tuple(Iteration(size * share, float("nan"), False) for size in fit.history),
        sentence=" ".join([said + fitted, *assumption(replay)]),
    )


def _failed(replay: Replay, chi: FloatArray, status: Status, why: str) -> DidimResult:
    said = f"Closed-loop input error did not converge: {why}; check the servo's gains and rate, or give a better start."
    return DidimResult("input-error", status, None, chi, 0, (), " ".join([said, *assumption(replay)]))
