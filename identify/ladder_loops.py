"""What do methods say that simulate the robot under its controller? Instruments, DIDIM and input error."""

from dataclasses import replace

import numpy as np
import scipy.linalg

from excitor.identify.columns_along import columns_along, commanded_motion, processed_as
from excitor.identify.didim import DidimResult, didim, require_simulated
from excitor.identify.estimate import Estimate, wls
from excitor.identify.exogeneity import durbin_wu_hausman
from excitor.identify.factors import compress
from excitor.identify.influence import honest_intervals, influence, joint_sigma, require_rank
from excitor.identify.input_error import Sensitivity, input_error
from excitor.identify.instruments import InstrumentalFit, Instruments, instrumental_variables
from excitor.identify.intervals import Intervals
from excitor.identify.ladder_linear import prior_values, rows_of_groups
from excitor.identify.ladder_nouns import Answer, Problem
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.identify.simulated_runs import OutOfControl, Replay, replay_runs, set_up_replay, simulate_runs
from excitor.identify.validate import standard_parameters
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion
from excitor.robots.simulate import Followed, Servo

STRETCHES = 8  # of each run, for the test: long beside the time over which errors are alike
FAR = 0.5  # of a joint's velocities: a simulation that is farther off shakes or lags, and tells nothing
DEAR = 150_000  # control steps that one Jacobian of input error simulates
REFERENCE = "the reference is not known and the measured motion stands in for it: its slow noise stays in instruments"


def iv_answer(problem: Problem) -> Answer:
    """Instrumental variables from a noise-free simulation, and the test whether they are needed."""
    regression = problem.regression
    start = wls(compress(regression))
    simulated = SimulatedColumns(problem)
    fit = instrumental_variables(regression, simulated, start=start)
    test = durbin_wu_hausman(regression, foreign_columns(regression, fit, simulated), start, fit.estimate.values)
    intervals = honest_intervals(regression, fit.estimate, system=fit.system)
    notes = [*simulated.notes, test.sentence, fit.strength.sentence]
    if not fit.converged:
        notes.append(f"the instruments had not settled after {fit.iterations} iterations")
    evidence = {
        "dwh_p": test.p_value,
        "dwh_statistic": test.F,
        "strength_F": fit.strength.F,
        "weakest_correlation": float(fit.strength.correlation[-1]),
        "from_wls_sigma": float(np.max(np.abs(fit.estimate.values - start.values) / intervals.sigma)),
        "iterations": float(fit.iterations),
    }
    return Answer("iv", fit.estimate, intervals, notes=tuple(notes), evidence=evidence)


def foreign_columns(regression: Regression, fit: InstrumentalFit, instruments: Instruments) -> FloatArray:
    """Evaluate instruments of every second stretch of time with a model fitted to the others, (n_rows, n_columns).

    A model fitted to the same rows moves a little as their errors push it, which the test would take for noise.
    """
    Z = np.empty(regression.W.shape)
    odd = alternate_stretches(regression)
    for own in (odd, ~odd):
        Z[own] = instruments(part_estimate(regression, fit, ~own))[own]
    return Z


def alternate_stretches(regression: Regression) -> BoolArray:
    """Mark every second of a run's stretches of time, (n_rows,)."""
    odd = np.zeros(len(regression), dtype=bool)
    for run in np.unique(regression.run):
        rows = regression.run == run
        sample = regression.sample[rows]
        odd[rows] = (STRETCHES * sample // (int(sample.max()) + 1)) % 2 == 1
    return odd


def part_estimate(regression: Regression, fit: InstrumentalFit, rows: BoolArray) -> Estimate:
    """Solve the instrumental equations of some rows alone; all of them where those do not suffice."""
    sigma = rows_of_groups(regression, fit.estimate)[rows]
    Z, W, y = fit.Z[rows] / sigma[:, None], regression.W[rows] / sigma[:, None], regression.y[rows] / sigma
    if len(Z) <= 2 * Z.shape[1]:
        return fit.estimate
    try:
        R = influence(Z, W, y)
        require_rank(R.R, regression.names, "half of the rows")
    except RankDeficient:
        return fit.estimate
    return replace(fit.estimate, values=np.asarray(scipy.linalg.solve_triangular(R.R, R.Q.T @ y)))


class SimulatedColumns:
    """Columns along the motion that a model makes under the servo; without a servo, along the reference itself."""

    def __init__(self, problem: Problem) -> None:
        if problem.servo is None and not problem.references:
            raise ExcitorError(
                "instruments need a motion that noise has not touched: give the runs' references, or the servo's "
                "gains, best both"
            )
        self.problem = problem
        self.notes: tuple[str, ...] = ()
        self.replay: Replay | None = None
        if problem.servo is None:
            self._note("the servo is not known: the reference itself makes the instruments")
        else:
            self.replay = moving_replay(problem, problem.servo)
            if self.replay.assumed:
                self._note(REFERENCE)

    def __call__(self, estimate: Estimate) -> FloatArray:
        """Evaluate the regression's columns along a model's motion; the prior's, where that gets out of control."""
        problem = self.problem
        motions = self._commanded() if self.replay is None else self._simulated(self.replay, estimate)
        robot = problem.robot if self.replay is None else self.replay.robot
        return columns_along(robot, problem.runs, motions, problem.regression, problem.rows.decimate)

    def _commanded(self) -> list[Motion]:
        references = self.problem.references or {}
        return [commanded_motion(run, references, run.sample_rate_hz) for run in self.problem.runs]

    def _simulated(self, replay: Replay, estimate: Estimate) -> list[Motion]:
        problem = self.problem
        tried = self._followed(replay, standard_parameters(problem.robot, estimate))
        if isinstance(tried, str):
            if not prior_values(problem)[1]:
                raise ExcitorError(f"with the estimate, {tried}, and there is no prior model to simulate instead")
            self._note(f"with an estimate on the way, {tried}; the prior model made the instruments there")
            tried = self._followed(replay, prior(problem.robot))
        if isinstance(tried, str):
            raise ExcitorError(f"with the estimate and with the prior model, {tried}; check the servo's gains")
        return tried

    def _followed(self, replay: Replay, chi: FloatArray) -> list[Motion] | str:
        """Simulate all runs with parameters, or say why their motion is of no use."""
        done = simulate_runs(replay, chi, replay.servo)
        if isinstance(done, OutOfControl):
            return done.sentence
        found, motions = iter(zip(done, replay.strides, strict=True)), []
        for run in self.problem.runs:
            motion = run.motion if run.static else _at_samples(run, *next(found))
            away = np.linalg.norm(motion.dq - run.motion.dq, axis=0)
            if (away > FAR * np.linalg.norm(run.motion.dq, axis=0)).any():
                return f"the simulated robot moves otherwise than the real one did in run {run.run!r}"
            motions.append(motion)
        return motions

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes = (*self.notes, sentence)


def didim_answer(problem: Problem) -> Answer:
    """DIDIM from a regular start."""
    servo = _servo(problem)
    result = didim(
        problem.robot,
        _moving(problem),
        servo,
        references=problem.references,
        columns=_columns(problem),
        rows=problem.rows,
    )
    return _simulated_answer(problem, servo, result)


def input_error_answer(problem: Problem) -> Answer:
    """Closed-loop input error from least squares; where simulating every parameter's effect is too dear, by W_s."""
    servo, moving, columns = _servo(problem), _moving(problem), _columns(problem)
    sensitivity = affordable_sensitivity(problem, servo)
    result = input_error(
        problem.robot,
        moving,
        servo,
        references=problem.references,
        columns=columns,
        rows=problem.rows,
        sensitivity=sensitivity,
    )
    told = _simulated_answer(problem, servo, result)
    if sensitivity == "simulated":
        return told
    note = "to save time, what parameters do to the simulated motion is left out of the sensitivities"
    return replace(told, notes=(*told.notes, note))


def affordable_sensitivity(problem: Problem, servo: Servo) -> Sensitivity:
    """Choose how input error finds its sensitivities: simulated, a run a parameter, where that is not too dear."""
    seconds = sum(len(run) / run.sample_rate_hz for run in _moving(problem))
    return "simulated" if len(_columns(problem)) * seconds * servo.rate_hz <= DEAR else "regressor"


def moving_replay(problem: Problem, servo: Servo) -> Replay:
    """Prepare the runs that move for simulation."""
    return set_up_replay(
        problem.robot,
        _moving(problem),
        servo,
        references=problem.references,
        columns=_columns(problem),
        rows=problem.rows,
    )


def _simulated_answer(problem: Problem, servo: Servo, result: DidimResult) -> Answer:
    """Put intervals around a converged result; one that did not converge is refused with its own sentence."""
    estimate = replace(require_simulated(result), method=result.method)
    notes: tuple[str, ...] = (result.sentence,)
    if any(run.static for run in problem.runs):
        notes = (*notes, "static poses were left out: nothing moves there that could be simulated")
    intervals = _replayed_intervals(moving_replay(problem, servo), result, estimate)
    evidence = {"iterations": float(result.iterations), "residual": float(result.history[-1].residual)}
    return Answer(result.method, estimate, intervals, notes=notes, evidence=evidence)


def _replayed_intervals(replay: Replay, result: DidimResult, estimate: Estimate) -> Intervals:
    """Find intervals from what is left of the torques at the result, along its own motion."""
    equations = replay_runs(replay, result.chi, replay.servo)
    if isinstance(equations, OutOfControl):
        raise ExcitorError(f"with the parameters found, {equations.sentence}")
    sigma = joint_sigma(equations, equations.y)
    W = equations.W / sigma[:, None]
    return honest_intervals(equations, estimate, system=influence(W, W, equations.y / sigma))


def _servo(problem: Problem) -> Servo:
    if problem.servo is None:
        raise ExcitorError("the controller is not known, so nothing can be simulated; give the servo's gains and rate")
    return problem.servo


def _moving(problem: Problem) -> list[Samples]:
    moving = [run for run in problem.runs if not run.static]
    if not moving:
        raise ExcitorError("all runs are static poses, which cannot be simulated; use wls")
    return moving


def _columns(problem: Problem) -> IntArray:
    return layout(problem.robot).indices(problem.regression.names)


def _at_samples(run: Samples, followed: Followed, stride: int) -> Motion:
    at = slice(None, stride * len(run), stride)
    motion = Motion(followed.motion.q[at], followed.motion.dq[at], followed.motion.ddq[at])
    return processed_as(run, motion.q, motion)
