"""What parameters make a simulated closed loop take the measured torques? DIDIM: only torques are measured.

[Gautier2013b] The direct model is simulated under the robot's own control law and reference, and the difference of
torques is regressed on the regressor of the simulated motion:

    δ = argmin ‖ τ - τ_s(χ) - W_s(χ) δ ‖_{Σ⁻¹},   χ ← χ + δ

The increment has the truth as its fixed point whatever W_s leaves out, and keeps parameters that are not estimated.
In the first iterations the gains are scaled by J(χ) / J(design), so that a wrong start does not change the loop's
bandwidth; then the real gains take over: scaled throughout they would bias the estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate, wls
from excitor.identify.factors import Factors, compress, total, triangle
from excitor.identify.regression import Regression, Rows
from excitor.identify.regular_start import regular_start
from excitor.identify.samples import Samples
from excitor.identify.simulated_runs import OutOfControl, Replay, full_parameters, replay_runs, set_up_replay
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverFailed
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import WIDTH, Servo, design_inertia

Status = Literal["converged", "iterations", "out of control", "no fit", "undetermined"]
TOLERANCE = 0.01  # of parameters, seen through the torques they make, and of the residual
UPDATED = 2  # iterations in which the gains follow the inertia
DAMPING = 0.7  # that gains are taken to have where nobody tells what they were tuned on
NO_FIT = 0.9  # relative residual from which simulated torques explain nothing
_POSES = 200
_LIGHTEST = 1e-3  # of the design inertias
_DAMPINGS, _LEAST_DAMPING = 10, 0.02
_TOO_FAR = 2.0
_SMALL = 0.1  # relative residual
_HALVINGS = 4  # of a step that leads out of control


@dataclass(frozen=True, slots=True)
class Iteration:
    """One simulation and the step that followed from it."""

    residual: float  # ‖τ - τ_s‖ / ‖τ‖ before the step, joints counted alike
    change: float  # of the parameters, by the torques they make: ‖W_s δ‖-scaled
    updated: bool  # gains followed the inertia


@dataclass(frozen=True, eq=False, slots=True)
class DidimResult:
    """Parameters found by closed-loop simulation, and whether that ended well."""

    method: str
    status: Status
    estimate: Estimate | None  # of the last step; None where not even one was possible
    chi: FloatArray  # (n_params,): the estimate, and what was not estimated as it was given
    iterations: int  # simulations of all runs, those too that only showed that a step went too far
    history: tuple[Iteration, ...]
    sentence: str

    def __post_init__(self) -> None:
        freeze(self, chi="n_params")

    @property
    def converged(self) -> bool:
        """Tell whether the parameters are worth anything."""
        return self.status == "converged"


def require_simulated(result: DidimResult) -> Estimate:
    """Take the estimate; SolverFailed says why there is none to be trusted."""
    if not result.converged or result.estimate is None:
        raise SolverFailed(result.sentence, result.status)
    return result.estimate


def didim(
    robot: Robot,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    start: FloatArray | None = None,
    columns: IntArray | None = None,
    rows: Rows | None = None,
    max_iterations: int = 15,
    tolerance: float = TOLERANCE,
    width: float = WIDTH,
) -> DidimResult:
    """Fit parameters to torques by simulating the closed loop, from a regular start where none is given.

    `columns` (the base parameters by default) are estimated, others stay as `start` has them. A result that did not
    converge says so, in `status` and in its sentence.
    """
    replay = set_up_replay(robot, runs, servo, references=references, columns=columns, rows=rows, width=width)
    design = servo_inertia(servo)
    if start is None:
        chi = regular_start(replay.robot, replay.motion, design, replay.columns)
    else:
        chi = full_parameters(robot, start)
    return _iterate(replay, chi, design, max_iterations, tolerance)


def servo_inertia(servo: Servo) -> FloatArray:
    """Tell the inertias that gains were tuned on: kd² / (4 ζ² kp) where that is not stated, (n_joints,)."""
    if servo.inertia is not None:
        return servo.inertia
    if not ((servo.kp > 0.0) & (servo.kd > 0.0)).all():
        raise ExcitorError(
            f"the servo has gains kp {servo.kp.tolist()}, kd {servo.kd.tolist()}; all must be positive, or state the "
            "inertias that they were tuned on"
        )
    return np.asarray(servo.kd**2 / (4.0 * DAMPING**2 * servo.kp))


def updated_servo(servo: Servo, robot: Robot, motion: Motion, chi: FloatArray, design: FloatArray) -> Servo:
    """Scale gains by J(χ) / J(design), so that the simulated loop has the real one's bandwidth."""
    try:
        with np.errstate(all="ignore"):
            ratio = design_inertia(robot, motion, chi) / design
    except np.linalg.LinAlgError:  # singular mass matrices scale nothing
        return servo
    ratio = np.where(np.isfinite(ratio) & (ratio > 0.0), ratio, 1.0)
    return replace(servo, kp=servo.kp * ratio, kd=servo.kd * ratio)


def _iterate(replay: Replay, chi: FloatArray, design: FloatArray, most: int, tolerance: float) -> DidimResult:
    history: list[Iteration] = []
    estimate: Estimate | None = None
    before, halvings = chi, 0
    for k in range(most):
        updated = k < UPDATED
        servo = updated_servo(replay.servo, replay.robot, replay.motion, chi, design) if updated else replay.servo
        equations = replay_runs(replay, chi, servo)
        lost = equations.sentence if isinstance(equations, OutOfControl) else ""
        if isinstance(equations, OutOfControl) or _worse(replay, equations, history):
            if estimate is None or halvings == _HALVINGS:
                status: Status = "out of control" if lost else "iterations"
                return _ended(status, replay, estimate, chi, history, k + 1, lost)
            chi, halvings = 0.5 * (before + chi), halvings + 1
            continue
        try:
            factors = compress(equations)
            step = wls(factors)
        except RankDeficient as why:
            return _ended("undetermined", replay, None, chi, history, k + 1, str(why))
        residual, halvings = relative_residual(replay, equations.y), 0
        before, chi = chi, chi.copy()
        chi[replay.columns] += _step(replay, before, factors, step, updated)
        change = _change(step, equations, chi[replay.columns])
        history.append(Iteration(residual, change, updated))
        estimate = replace(step, method="didim", values=chi[replay.columns], settings={"iterations": float(k + 1)})
        if k >= UPDATED and change < tolerance and _settled(history, tolerance):
            status = "converged" if residual < NO_FIT else "no fit"
            return _ended(status, replay, estimate, chi, history, k + 1)
    return _ended("iterations", replay, estimate, chi, history, most)


def _worse(replay: Replay, equations: Regression, history: Sequence[Iteration]) -> bool:
    """Tell whether a step went too far: torques then differ more than twice as much as before it."""
    return bool(history) and relative_residual(replay, equations.y) > _TOO_FAR * history[-1].residual


def _step(replay: Replay, chi: FloatArray, factors: Factors, step: Estimate, updated: bool) -> FloatArray:
    """Step so that the mass matrix stays positive definite along the references: inertias damped more where needed.

    min ‖(y - W δ) / σ‖² + ‖ρ D δ‖², D the columns' norms. While gains follow the inertia, simulated motions are far
    from the robot's, and directions are held back that the data show no more clearly: ρ is what δ leaves of y.
    """
    sigma = [step.group_sigma[int(j), int(r)] for j, r in zip(factors.joint, factors.run, strict=True)]
    full, n = total(factors, 1.0 / np.array(sigma)), factors.n_columns
    size = float(np.linalg.norm(full[:, n]))  # 0 where the start is the truth of noise-free torques
    rho = np.full(n, step.weighted_residual / size if updated and size > 0.0 else 0.0)
    inert = ~np.isin(replay.columns, layout(replay.robot).friction_columns)
    delta = _damped(full, rho)
    for _ in range(_DAMPINGS):
        ahead = chi.copy()
        ahead[replay.columns] += delta
        if _is_regular(replay, ahead):
            break
        rho = np.where(inert, np.maximum(2.0 * rho, _LEAST_DAMPING), rho)
        delta = _damped(full, rho)
    return delta


def _damped(full: FloatArray, rho: FloatArray) -> FloatArray:
    n = len(full) - 1
    extra = np.column_stack([np.diag(rho * np.linalg.norm(full[:, :n], axis=0)), np.zeros(n)])
    T = triangle(np.concatenate([full, extra]))
    return np.asarray(scipy.linalg.solve_triangular(T[:n, :n], T[:n, n]))


def _is_regular(replay: Replay, chi: FloatArray) -> bool:
    """Tell whether mass matrices along the references are positive definite, measured by what gains were tuned on."""
    q = replay.motion.q[:: max(1, len(replay.motion) // _POSES)]
    unit = 1.0 / np.sqrt(servo_inertia(replay.servo))
    M = mass_matrix(replay.robot, q, chi) * np.outer(unit, unit)
    return bool(np.linalg.eigvalsh(0.5 * (M + M.swapaxes(1, 2))).min() > _LIGHTEST)


def relative_residual(replay: Replay, y: FloatArray) -> float:
    """‖τ - τ_s‖ / ‖τ‖, each joint's torques divided by their own size first."""
    shares = []
    for joint in np.unique(replay.joint):
        rows = replay.joint == joint
        size = float(np.linalg.norm(replay.measured[rows]))
        shares.append(float(np.sum(y[rows] ** 2)) / size**2 if size > 0.0 else 0.0)
    return float(np.sqrt(np.mean(shares)))


def _change(step: Estimate, equations: Regression, beta: FloatArray) -> float:
    """Compare a step with the parameters, each weighed by the torques it makes: ‖D δ‖ / ‖D χ‖."""
    weights = np.array([1.0 / step.group_sigma[j, r] for j, r in zip(equations.joint, equations.run, strict=True)])
    D = np.linalg.norm(equations.W * weights[:, None], axis=0)
    whole = float(np.linalg.norm(D * beta))
    return float(np.linalg.norm(D * step.values)) / whole if whole > 0.0 else float("inf")


def _settled(history: Sequence[Iteration], tolerance: float) -> bool:
    """Tell whether the residual has stopped changing; a small one by less than that share of _SMALL."""
    last, one_before = history[-1].residual, history[-2].residual
    return abs(last - one_before) <= tolerance * max(last, _SMALL)


def _ended(
    status: Status,
    replay: Replay,
    estimate: Estimate | None,
    chi: FloatArray,
    history: Sequence[Iteration],
    iterations: int,
    why: str = "",
) -> DidimResult:
    return DidimResult(
        method="didim",
        status=status,
        estimate=estimate,
        chi=chi,
        iterations=iterations,
        history=tuple(history),
        sentence=" ".join([f"{_verdict(status, history, iterations, why)}.", *assumption(replay)]),
    )


def _verdict(status: Status, history: Sequence[Iteration], n: int, why: str) -> str:
    last = history[-1] if history else None
    if status == "out of control":
        where = "from its start" if last is None else f"after {n} iterations"
        return (
            f"DIDIM did not converge: {where}, {why}; check the servo's gains and rate, or start from a model that is "
            "nearer"
        )
    if status == "undetermined" or last is None:
        return f"DIDIM did not converge: {why or 'no iteration was allowed'}"
    fit = f"simulated and measured torques differ by {100.0 * last.residual:.2g} %"
    if status == "no fit":
        return (
            f"DIDIM did not converge: it stands still, but {fit}; the simulated servo or reference is not that of the "
            "runs"
        )
    moved = f"the last step changed the parameters by {100.0 * last.change:.2g} %"
    if status == "iterations":
        return f"DIDIM did not converge in {n} iterations: {moved}, and {fit}"
    return f"DIDIM converged in {n} iterations: {moved}, and {fit}"


def assumption(replay: Replay) -> list[str]:
    """Say whose references were not known."""
    if not replay.assumed:
        return []
    which = "every run" if len(replay.assumed) == len(replay.runs) else ", ".join(replay.assumed)
    return [f"The reference of {which} is not known; the measured motion was taken for it."]
