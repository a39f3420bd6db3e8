"""DIDIM and closed-loop input error: parameters with which a simulated closed loop takes the measured torques.

[Gautier2013b] The direct model is simulated under the robot's own control law and reference, and the difference of
torques is regressed on the regressor of the simulated motion:

    δ = argmin ‖ τ - τ_s(χ) - W_s(χ) δ ‖_{Σ⁻¹},   χ ← χ + δ

Only torques are measured. The increment has the truth as its fixed point whatever W_s leaves out, and keeps parameters
that are not estimated. In the first iterations the gains are scaled by J(χ) / J(design), so that a wrong start does not
change the loop's bandwidth; then the real gains take over: scaled throughout they would bias the estimate.

Input error minimises the squared difference of torques instead. Where no parameters are known, simulations start from a
regular model: inertia at every joint, all else 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.estimate import (
    Estimate,
    Factors,
    column_spectrum,
    compress,
    group_sigma,
    ols,
    total,
    triangle,
    wls,
)
from excitor.identify.load.fit import NonlinearFit, covariance, levenberg_marquardt
from excitor.identify.regression import Regression, Rows, dynamic_regression, pick_rows
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, shaped
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import WIDTH, Servo, TrackedMotion, design_inertia, follow, smoothed

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
Sensitivity = Literal["simulated", "regressor"]
CHANGE = 1e-3  # of all torques: what a parameter is changed by where sensitivities are simulated
SETTLED = 0.02  # of a standard deviation: simulated sensitivities know no more digits
_SOLID = ("XX", "YY", "ZZ", "M")  # alone, any of these gives kinetic energy that is never negative; so do rotors
_START_POSES = 100


@dataclass(frozen=True, slots=True)
class Iteration:
    """One simulation and the step that followed from it."""

    residual: float  # ‖τ - τ_s‖ / ‖τ‖ before the step, joints counted alike
    change: float  # of the parameters, by the torques they make: ‖W_s δ‖-scaled
    updated: bool  # gains followed the inertia


@dataclass(frozen=True, eq=False, slots=True)
@shaped(chi="n_params")
class DidimResult:
    """Parameters found by closed-loop simulation, with the status of the search."""

    method: str
    status: Status
    estimate: Estimate | None  # of the last step; None where not even one was possible
    chi: FloatArray  # (n_params,): the estimate, and what was not estimated as it was given
    iterations: int  # simulations of all runs, those too that only showed that a step went too far
    history: tuple[Iteration, ...]
    sentence: str

    @property
    def converged(self) -> bool:
        """True if the search converged."""
        return self.status == "converged"


def require_simulated(result: DidimResult) -> Estimate:
    """Return the estimate; SolverFailed gives the reason if the search did not converge."""
    if not result.converged or result.estimate is None:
        raise SolverError(result.sentence, result.status)
    return result.estimate


@dataclass(frozen=True, eq=False, slots=True)
@shaped(columns="int: n_columns", kept="bool: n_rows", measured="n_kept", joint="int: n_kept")
class Replay:
    """Measured runs with all data for their simulation that is constant over the iterations."""

    robot: Robot  # true signs of friction smoothed
    runs: tuple[Samples, ...]
    references: tuple[Motion, ...]  # at the servo's rate, one a run
    strides: tuple[int, ...]  # servo samples a sample of the run
    servo: Servo
    columns: IntArray  # that are estimated
    rows: Rows
    kept: BoolArray  # which of all thinned rows take part
    measured: FloatArray  # (n_kept,), torques
    joint: IntArray  # (n_kept,)
    assumed: tuple[str, ...]  # runs whose measured motion stands in for an unknown reference

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters of the robot."""
        return layout(self.robot).names

    @property
    def units(self) -> tuple[str, ...]:
        """Units of all parameters."""
        return layout(self.robot).units

    @property
    def motion(self) -> Motion:
        """All references, one after another."""
        return Motion(*(np.concatenate([getattr(r, k) for r in self.references]) for k in ("q", "dq", "ddq")))


def didim(
    replay: Replay, *, start: FloatArray | None = None, max_iterations: int = 15, tolerance: float = TOLERANCE
) -> DidimResult:
    """Fit parameters to torques by simulating the closed loop, from a regular start where none is given.

    The replay's columns are estimated, others stay as `start` has them. A result that did not converge says so, in
    `status` and in its sentence.
    """
    design = servo_inertia(replay.servo)
    if start is None:
        chi = regular_start(replay.robot, replay.motion, design, replay.columns)
    else:
        chi = full_parameters(replay.robot, start)
    return _iterate(replay, chi, design, max_iterations, tolerance)


def servo_inertia(servo: Servo) -> FloatArray:
    """Return the inertias that gains were tuned on, kd² / (4 ζ² kp) where not stated, (n_joints,)."""
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
        limit = _TOO_FAR * history[-1].residual if history else np.inf  # beyond, the last step went too far
        if isinstance(equations, OutOfControl) or relative_residual(replay, equations.y) > limit:
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
    """Return True if mass matrices along the references are positive definite, relative to the servo's inertias."""
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
    """Return True if the residual has stopped changing; a small one by less than that share of _SMALL."""
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
        remedy = "check the servo's gains and rate, or start from a model that is nearer"
        return f"DIDIM did not converge: {where}, {why}; {remedy}"
    if status == "undetermined" or last is None:
        return f"DIDIM did not converge: {why or 'no iteration was allowed'}"
    fit = f"simulated and measured torques differ by {100.0 * last.residual:.2g} %"
    if status == "no fit":
        cause = "the simulated servo or reference is not that of the runs"
        return f"DIDIM did not converge: it stands still, but {fit}; {cause}"
    moved = f"the last step changed the parameters by {100.0 * last.change:.2g} %"
    if status == "iterations":
        return f"DIDIM did not converge in {n} iterations: {moved}, and {fit}"
    return f"DIDIM converged in {n} iterations: {moved}, and {fit}"


def assumption(replay: Replay) -> list[str]:
    """Return a note on the runs whose references were not known, if any."""
    if not replay.assumed:
        return []
    which = "every run" if len(replay.assumed) == len(replay.runs) else ", ".join(replay.assumed)
    return [f"The reference of {which} is not known; the measured motion was taken for it."]


def input_error(
    replay: Replay, *, start: FloatArray | None = None, sensitivity: Sensitivity = "simulated", max_iterations: int = 20
) -> DidimResult:
    """Fit parameters to torques by simulating the closed loop, from ordinary least squares where no start is given.

    The replay's columns are estimated, others stay as `start` has them.
    """
    robot = replay.robot
    try:
        measured = dynamic_regression(robot, replay.runs, columns=replay.columns, rows=replay.rows)
        inverse = compress(pick_rows(measured, replay.kept))
        chi = full_parameters(robot, start)
        if start is None:
            chi[replay.columns] = ols(inverse).values
        sigma = _sigma(replay, group_sigma(inverse, ols(inverse).values, "joint"), inverse.joint)
    except RankDeficient as why:
        return _failed(replay, full_parameters(robot, start), "undetermined", str(why))
    first = replay_runs(replay, chi, replay.servo)
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
    """Return each row's standard deviation, that of its joint."""
    of_joint = dict(zip(map(int, joint), map(float, sigma), strict=True))
    return np.array([of_joint[int(j)] for j in replay.joint])


def _result(
    replay: Replay, chi: FloatArray, fit: NonlinearFit, sigma: FloatArray, sensitivity: Sensitivity
) -> DidimResult:
    residual = relative_residual(replay, fit.residual * sigma)
    try:
        estimate = _input_error_estimate(replay, fit, sigma, sensitivity)
    except RankDeficient as why:
        return _failed(replay, chi, "undetermined", str(why))
    status: Status = "iterations" if not fit.converged else ("converged" if residual < NO_FIT else "no fit")
    messages = {
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
        sentence=" ".join([messages + fitted, *assumption(replay)]),
    )


def _input_error_estimate(replay: Replay, fit: NonlinearFit, sigma: FloatArray, sensitivity: Sensitivity) -> Estimate:
    """Describe a fit as an estimate; RankDeficient where the equations do not determine it."""
    names = tuple(replay.names[c] for c in replay.columns)
    variance = float(fit.residual @ fit.residual) / max(len(fit.residual) - len(fit.x), 1)
    spectrum = column_spectrum(fit.R)
    return Estimate(
        method="input-error",
        names=names,
        units=tuple(replay.units[c] for c in replay.columns),
        values=fit.x,
        covariance=variance * covariance(fit, names),
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


def _failed(replay: Replay, chi: FloatArray, status: Status, why: str) -> DidimResult:
    message = f"Closed-loop input error did not converge: {why}"
    sentences = [f"{message}; check the servo's gains and rate, or give a better start.", *assumption(replay)]
    return DidimResult("input-error", status, None, chi, 0, (), " ".join(sentences))


@dataclass(frozen=True, eq=False, slots=True)
class OutOfControl:
    """A simulated robot that its servo could not hold."""

    run: str
    at: float  # s

    @property
    def sentence(self) -> str:
        """Sentence on when and in which run the simulation diverged."""
        return f"the simulated robot got out of control {self.at:.3g} s into run {self.run!r}"


def set_up_replay(
    robot: Robot,
    runs: Sequence[Samples],
    servo: Servo,
    *,
    references: Mapping[str, Motion] | None = None,
    columns: IntArray | None = None,
    rows: Rows | None = None,
) -> Replay:
    """Prepare runs for simulation; where a run's reference is not known, its measured motion is used instead.

    References are sampled at servo.rate_hz, a whole multiple of the run's rate.
    """
    columns = base_parameters(robot).kept if columns is None else columns
    rows, references = rows or Rows(), references or {}
    robot, runs = smoothed(robot, WIDTH), tuple(runs)
    if not runs:
        raise ExcitorError("there are no runs to simulate; give at least one")
    strides = tuple(_stride(run, servo) for run in runs)
    led = tuple(_reference(run, stride, references.get(run.run)) for run, stride in zip(runs, strides, strict=True))
    one = columns[:1]
    everything = dynamic_regression(robot, runs, columns=one, rows=Rows(rows.decimate))
    some = dynamic_regression(robot, runs, columns=one, rows=rows)
    kept = np.isin(_labels(everything), _labels(some))
    return Replay(
        robot=robot,
        runs=runs,
        references=led,
        strides=strides,
        servo=servo,
        columns=columns,
        rows=Rows(rows.decimate),
        kept=kept,
        measured=everything.y[kept],
        joint=everything.joint[kept],
        assumed=tuple(run.run for run in runs if run.run not in references),
    )


def replay_runs(replay: Replay, chi: FloatArray, servo: Servo) -> Regression | OutOfControl:
    """Simulate all runs: equations τ - τ_s = W_s δ of a small change of parameters."""
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return simulated
    both = [_beside(run, s, n) for run, s, n in zip(replay.runs, simulated, replay.strides, strict=True)]
    return pick_rows(dynamic_regression(replay.robot, both, columns=replay.columns, rows=replay.rows), replay.kept)


def differences(replay: Replay, chi: FloatArray, servo: Servo) -> FloatArray | OutOfControl:
    """Simulate all runs and compare torques alone: τ - τ_s, (n_kept,)."""
    simulated = simulate_runs(replay, chi, servo)
    if isinstance(simulated, OutOfControl):
        return simulated
    thin = replay.rows.decimate or (lambda x: x)
    parts = [
        thin(run.tau - s.tau[::n][: len(run)]).T.ravel()
        for run, s, n in zip(replay.runs, simulated, replay.strides, strict=True)
    ]
    return np.asarray(np.concatenate(parts)[replay.kept])


def simulate_runs(replay: Replay, chi: FloatArray, servo: Servo) -> list[TrackedMotion] | OutOfControl:
    """Simulate all runs, at the servo's rate."""
    done = []
    for run, reference in zip(replay.runs, replay.references, strict=True):
        followed = follow(replay.robot, reference, servo, chi=chi)
        if followed.diverged:
            return OutOfControl(run.run, followed.diverged_at)
        done.append(followed)
    return done


def _beside(run: Samples, followed: TrackedMotion, stride: int) -> Samples:
    """Build samples of the simulated motion at the run's samples, with the differences of torques."""
    at = slice(None, stride * len(run), stride)
    motion = followed.motion[at]
    return replace(run, motion=motion, tau=run.tau - followed.tau[at], steps=(*run.steps, Step("simulated motion", {})))


def _stride(run: Samples, servo: Servo) -> int:
    if run.static:
        raise ExcitorError(f"run {run.run!r} holds poses; a closed loop can only be simulated along a motion")
    stride = round(servo.rate_hz / run.sample_rate_hz)
    if stride < 1 or abs(stride * run.sample_rate_hz / servo.rate_hz - 1.0) > 1e-6:
        raise ExcitorError(
            f"run {run.run!r} has {run.sample_rate_hz:g} samples a second and the servo {servo.rate_hz:g}; the servo's "
            "rate must be a whole multiple of the run's: state the true one, or resample the run"
        )
    return stride


def _reference(run: Samples, stride: int, given: Motion | None) -> Motion:
    if given is None:
        return run.motion if stride == 1 else _resampled(run, stride)
    if len(given) < stride * (len(run) - 1) + 1:
        raise ExcitorError(
            f"the reference of run {run.run!r} has {len(given)} samples, expected "
            f"{stride * (len(run) - 1) + 1}: one for each step of the servo"
        )
    return given


def _resampled(run: Samples, stride: int) -> Motion:
    """Interpolate a measured motion by splines, for a servo that is faster than the log."""
    from scipy.interpolate import CubicSpline

    if len(run) < 2:
        raise ExcitorError(f"run {run.run!r} has {len(run)} samples, expected at least 2")
    t = np.arange(len(run), dtype=float)
    fine = np.arange(stride * (len(run) - 1) + 1) / stride
    return Motion(*(CubicSpline(t, x)(fine) for x in (run.motion.q, run.motion.dq, run.motion.ddq)))


def _labels(regression: Regression) -> IntArray:
    """Return a unique label for each row."""
    n_joints = len(regression.joint_names)
    return np.asarray((regression.run * n_joints + regression.joint) * 10**9 + regression.sample)


def full_parameters(robot: Robot, chi: FloatArray | None) -> FloatArray:
    """Check parameters, or start from none: chi (n_params,)."""
    n = len(layout(robot))
    if chi is None:
        return np.zeros(n)
    chi = np.array(chi, dtype=float)
    if chi.shape != (n,) or not np.isfinite(chi).all():
        raise ValueError(f"chi has shape {chi.shape}, expected {n} finite numbers, one a parameter of the robot")
    return chi


def regular_start(robot: Robot, motion: Motion, inertia: FloatArray, columns: IntArray) -> FloatArray:
    """Compute chi (n_params,) with inertias about those given (n_joints,): non-negative moments, masses and rotors.

    The mass matrices along the motion are fitted to diag(inertia); every one of them is positive definite.
    """
    from scipy.optimize import nnls

    solid = solid_columns(robot, columns)
    q = motion.q[:: max(1, len(motion) // _START_POSES)]
    unit = 1.0 / np.sqrt(inertia)
    scale = np.outer(unit, unit)  # so that light joints count as much as heavy ones
    parts = [(mass_matrix(robot, q, _only(robot, k)) * scale).ravel() for k in solid]
    target = np.broadcast_to(np.eye(robot.n_joints), (len(q), robot.n_joints, robot.n_joints)).ravel()
    chi = np.zeros(len(layout(robot)))
    if parts:
        chi[solid] = nnls(np.column_stack(parts), target)[0]
    lightest = float(np.linalg.eigvalsh(mass_matrix(robot, q, chi) * scale).min())
    if not lightest > 1e-6:
        raise ExcitorError(
            f"{robot.name}: no inertias among the estimated parameters make its mass matrix positive definite, so it "
            "cannot be simulated from nothing; give a start, such as the prior model"
        )
    return chi


def solid_columns(robot: Robot, columns: IntArray) -> list[int]:
    """List those columns that alone make no mass matrix indefinite."""
    params = layout(robot)
    balanced = {
        column
        for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True)
        if np.array_equal(rotor.senses, rotor.acts)
    }
    links = params.names[: params.n_link_params]
    balanced |= {k for k, name in enumerate(links) if name.rstrip("0123456789") in _SOLID}
    return [k for k in map(int, columns) if k in balanced]


def _only(robot: Robot, column: int) -> FloatArray:
    chi = np.zeros(len(layout(robot)))
    chi[column] = 1.0
    return chi
