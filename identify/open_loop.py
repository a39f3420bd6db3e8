"""Where does an identified model go under the recorded torques? Simulated against measured positions, open loop.

A hard test: nothing corrects the simulation, and the timing of torques is tested as much as the parameters are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, freeze
from excitor.robots.base import random_positions
from excitor.robots.dynamics import mass_matrix, rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot, posture
from excitor.robots.simulate import WIDTH, Method, integrate_held

POSES = 400  # random ones in which the mass matrix is looked at, besides those of the runs
_NO_RETURN = 1e-6  # of a joint's torques: less gravity than this leads it nowhere back
HOW: dict[Method, str] = {
    "rk4": "Runge and Kutta's fixed steps",
    "rk45": "Runge and Kutta's pair of orders 4 and 5, restarted at every sample",
    "events": "steps from event to event, joints sticking where their dry friction holds them",
}


@dataclass(frozen=True, eq=False, slots=True)
class OpenLoopRun:
    """One run simulated under its own torques; errors are inf where the simulation got lost before."""

    run: str
    n_samples: int
    sample_rate_hz: float
    norm: FloatArray  # (n_joints,): 2-norm of simulated minus measured positions, rad or m; grows with n_samples
    rms: FloatArray  # (n_joints,)
    first_rms: FloatArray  # (n_joints,): of the first first_s seconds
    diverged_at: float  # s; inf where it did not
    q: FloatArray  # (n_samples, n_joints), simulated

    def __post_init__(self) -> None:
        freeze(self, finite=False, norm="n_joints", rms="n_joints", first_rms="n_joints", q="n_samples n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class OpenLoop:
    """Open simulations of a model on some runs, or why there are none."""

    robot: str
    joint_names: tuple[str, ...]
    method: Method
    width: float  # rad/s or m/s, over which signs of friction are smoothed; 0 with events
    first_s: float
    runs: tuple[OpenLoopRun, ...]  # none where the model cannot be simulated
    lightest: float  # smallest eigenvalue of the mass matrices looked at
    no_return: tuple[str, ...]  # joints that nothing leads back
    refused: str  # why nothing was simulated; empty where it was
    doubts: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """Say what was simulated, what may be compared, and what went wrong."""
        if self.refused:
            return (self.refused, *self.doubts)
        said = [
            f"The model was integrated from the measured initial state under the recorded torques, each held until the "
            f"next, by {HOW[self.method]}"
            + (f"; signs of friction are smoothed over {self.width:g} rad/s or m/s." if self.width else "."),
            f"Its mass matrix is positive definite in every pose looked at (smallest eigenvalue {self.lightest:.3g}).",
            "A 2-norm grows with the number of samples ("
            + ", ".join(f"{run.run}: {run.n_samples}" for run in self.runs)
            + "), an rms does not: compare methods on one run, not digits of different runs.",
        ]
        if self.no_return:
            said.append(
                f"Nothing leads {', '.join(self.no_return)} back: there a small bias integrates without bound, and the "
                "error says more about the run's length than about the model."
            )
        for run in self.runs:
            if run.diverged_at < np.inf:
                said.append(
                    f"In run {run.run!r} the simulation got lost after {run.diverged_at:.3g} s; "
                    f"its errors are infinite from there on."
                )
        return (*said, *self.doubts)


def open_loop(
    robot: Robot,
    chi: FloatArray,
    runs: Sequence[Samples],
    *,
    first_s: float = 1.0,
    width: float = WIDTH,
    method: Method = "rk4",
) -> OpenLoop:
    """Integrate a model (chi (n_params,)) from each run's first sample under its torques, at the raw rate.

    Torques are held for a sample each; `Samples.phase` says where in its interval a sample's motion lies (0: torque k
    is held from the motion's sample k to the next). A model that cannot be simulated is told, not raised.
    """
    if not runs:
        raise ExcitorError("there are no runs to simulate; give at least one")
    chi = np.array(chi, dtype=float)
    lightest = smallest_inertia(robot, chi, runs)
    doubts, refused, done = friction_doubts(robot, chi), "", []
    if not lightest > 0.0:
        refused = (
            f"{robot.name}: the model was not simulated, because its mass matrix is not positive definite (smallest "
            f"eigenvalue {lightest:.3g}); estimate physically consistent parameters"
        )
    else:
        try:
            done = [_run(robot, chi, run, first_s, width, method) for run in runs]
        except ExcitorError as why:
            refused = f"{robot.name}: the model was not simulated: {why}"
    return OpenLoop(
        robot=robot.name,
        joint_names=robot.joint_names,
        method=method,
        width=0.0 if method == "events" else width,
        first_s=first_s,
        runs=tuple(done),
        lightest=lightest,
        no_return=_without_return(robot, chi, runs),
        refused=refused,
        doubts=doubts,
    )


def smallest_inertia(robot: Robot, chi: FloatArray, runs: Sequence[Samples]) -> float:
    """Find the smallest eigenvalue of the mass matrix along the runs and in random poses within the joint limits."""
    poses = [random_positions(robot, POSES, {}, np.random.default_rng(0))]
    poses += [run.motion.q[:: max(1, len(run) // POSES)] for run in runs]
    M = mass_matrix(robot, np.concatenate(poses), chi)
    return float(np.linalg.eigvalsh(0.5 * (M + M.swapaxes(1, 2))).min())


def friction_doubts(robot: Robot, chi: FloatArray) -> tuple[str, ...]:
    """Name friction that would drive the robot instead of braking it."""
    names = []
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        brakes = term.model not in ("offset", "ripple-sin", "ripple-cos", "stribeck")
        if brakes and np.array_equal(term.senses, term.acts) and chi[column] < 0.0 and term.parameter not in names:
            names.append(term.parameter)
    if not names:
        return ()
    spelled = ", ".join(f"{name} = {chi[layout(robot).index(name)]:.3g}" for name in names)
    return (f"Friction that drives instead of braking cannot be right: {spelled}.",)


def _run(robot: Robot, chi: FloatArray, run: Samples, first_s: float, width: float, method: Method) -> OpenLoopRun:
    if run.static:
        raise ExcitorError(f"run {run.run!r} holds poses; there is no motion to simulate")
    tau, parts = _torques_after(run)
    start, rate = (run.motion.q[0], run.motion.dq[0]), parts * run.sample_rate_hz
    done = integrate_held(robot, tau, start=start, rate_hz=rate, chi=chi, method=method, width=width)
    q = done.motion.q[::parts]
    error = q - run.motion.q
    first = error[: max(1, min(len(error), round(first_s * run.sample_rate_hz)))]
    size = np.full(robot.n_joints, np.inf)
    return OpenLoopRun(
        run=run.run,
        n_samples=len(run),
        sample_rate_hz=run.sample_rate_hz,
        norm=size if done.diverged else np.linalg.norm(error, axis=0),
        rms=size if done.diverged else np.sqrt(np.mean(error**2, axis=0)),
        first_rms=size if done.diverged_at < first_s else np.sqrt(np.mean(first**2, axis=0)),
        diverged_at=done.diverged_at,
        q=q,
    )


def _torques_after(run: Samples) -> tuple[FloatArray, int]:
    """List the torques from the first sample's motion on, in equal parts of a sample, and count the parts."""
    parts = {0.0: 1, 0.5: 2, 1.0: 1}.get(run.phase, 20)
    at = np.floor(run.phase + (np.arange(parts * (len(run) - 1) + 1) + 0.5) / parts).astype(np.int64)
    return run.tau[np.minimum(at, len(run) - 1)], parts


def _without_return(robot: Robot, chi: FloatArray, runs: Sequence[Samples]) -> tuple[str, ...]:
    """Name joints that carry no gravity along any run."""
    least: BoolArray = np.ones(robot.n_joints, dtype=bool)
    for run in runs:
        held = np.abs(rigid_torque(robot, posture(run.motion.q[:: max(1, len(run) // POSES)]), chi)).max(axis=0)
        least &= held <= _NO_RETURN * np.maximum(np.abs(run.tau).max(axis=0), 1e-300)
    return tuple(name for name, free in zip(robot.joint_names, least, strict=True) if free)
