"""What does a robot carry? The load's ten parameters from motor torques, by maximum likelihood, with intervals.

[Swevers2002] eq. (18): rows divided by the noise that averaging tells, Levenberg-Marquardt from the linear solution
without losses. `identify_load` is its approach 3, or 2 where the task gives the efficiencies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from excitor.identify.factors import triangle
from excitor.identify.load_center import LoadAtCenter, at_center
from excitor.identify.load_diagnosis import check_load_rank
from excitor.identify.load_equations import Equations, arm_slope, efficiencies, equations, linear_start, residual
from excitor.identify.load_runs import LoadRun
from excitor.identify.load_task import LoadTask
from excitor.identify.nonlinear import NonlinearFit, levenberg_marquardt, require_converged, undetermined_names
from excitor.identify.regression import Regression
from excitor.identify.whiteness import whiteness
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread
from excitor.robots.errors import RankDeficient


@dataclass(frozen=True, eq=False, slots=True)
class LoadEstimate:
    """A load, with friction and efficiencies, how sure they are, and how the search for them went."""

    method: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # (n_unknowns,)
    noise_covariance: FloatArray  # (n_unknowns, n_unknowns): what residuals leave open, correlated as they are
    arm_covariance: FloatArray  # the same size: what doubt about the arm adds
    load: LoadAtCenter
    efficiency: FloatArray  # (n_joints,): 1 where none was asked for or given
    n_rows: int
    axes: Mapping[str, int]  # whose equations count -> their index
    noise: Mapping[str, float]  # axis -> standard deviation of a row's noise, N m on the link side
    rms: Mapping[str, float]  # axis -> root mean square of the training residual, N m on the link side
    condition: float  # of the column-normalised, weighted Jacobian
    fit: NonlinearFit

    def __post_init__(self) -> None:
        n = freeze(self, values="n_unknowns", efficiency="n_joints")["n_unknowns"]
        freeze(self, noise_covariance=f"{n} {n}", arm_covariance=f"{n} {n}")

    @property
    def covariance(self) -> FloatArray:
        """Noise and doubt about the arm together, (n_unknowns, n_unknowns)."""
        return np.asarray(self.noise_covariance + self.arm_covariance)

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (n_unknowns,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def phi(self) -> FloatArray:
        """The load's ten parameters at the origin of its link's frame."""
        return self.values[:10]

    def value(self, name: str) -> float:
        """Look an unknown up; ValueError lists them."""
        if name not in self.names:
            raise ValueError(f"{name!r} was not estimated; expected one of {', '.join(self.names)}")
        return float(self.values[self.names.index(name)])


@one_blas_thread()
def identify_load(
    task: LoadTask, runs: Sequence[LoadRun], *, start: FloatArray | None = None, max_iterations: int = 200
) -> LoadEstimate:
    """Find the load, friction and efficiencies that explain the motor torques best.

    Raises RankDeficient with what the motions do not tell, SolverFailed where the search finds no end.
    """
    system = equations(task, runs)
    first = linear_start(system) if start is None else start
    fit = levenberg_marquardt(lambda theta: residual(system, theta), first, max_iterations=max_iterations)
    check_load_rank(system, fit.x)
    require_converged(fit, task.robot.name)
    return described(system, fit, "maximum likelihood")


def reweighed(runs: Sequence[LoadRun], estimate: LoadEstimate) -> list[LoadRun]:
    """Weigh rows by what a first estimate left of them instead of by their noise.

    Where the model errs by more than the noise, that is what the arm's covariance should be weighed against.
    """
    sigma = np.ones(len(estimate.efficiency))
    for name, axis in estimate.axes.items():
        sigma[axis] = max(estimate.rms[name], np.finfo(float).tiny)
    return [replace(run, sigma=sigma) for run in runs]


def described(system: Equations, fit: NonlinearFit, method: str, theta: FloatArray | None = None) -> LoadEstimate:
    """Describe where a search ended, in the unknowns θ; `theta` where it searched in others."""
    theta = fit.x if theta is None else theta
    where, task = system.unknowns, system.task
    r, J = residual(system, theta)
    noise, arm = covariances(system, theta)
    C = noise + arm
    n_rows, names = len(system), task.robot.joint_names
    axes = np.flatnonzero(task.axes)
    raw = (r * np.append(system.sigma, np.ones(len(r) - n_rows)))[:n_rows]
    norms = np.linalg.norm(J, axis=0)
    spectrum = np.linalg.svd(triangle(J / norms), compute_uv=False)
    return LoadEstimate(
        method=method,
        names=where.names,
        units=where.units,
        values=theta,
        noise_covariance=noise,
        arm_covariance=arm,
        load=at_center(theta[where.load], C[:10, :10]),
        efficiency=efficiencies(system, theta),
        n_rows=n_rows,
        axes={names[i]: int(i) for i in axes},
        noise={names[i]: float(np.sqrt(np.mean(system.sigma[system.axis == i] ** 2))) for i in axes},
        rms={names[i]: float(np.sqrt(np.mean(raw[system.axis == i] ** 2))) for i in axes},
        condition=float(spectrum[0] / spectrum[-1]),
        fit=fit,
    )


def covariances(system: Equations, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariances of θ by what residuals leave open, and by doubt about the arm, if the data may not correct it.

    A⁻¹ (Σ_axes s² f A_axis) A⁻¹ with A = JᵀJ, s² the axis' weighted residual and f how many times fewer independent
    ones there are; and (A⁻¹ Jᵀ J_arm)(…)ᵀ, as least squares takes an error of the arm for one of the load.
    """
    r, J = residual(system, theta)
    n, n_rows = len(theta), len(system)
    R = triangle(J)
    check_full(R, system.unknowns.names)
    data = J[:n_rows]
    middle = J[n_rows:].T @ J[n_rows:]
    equations_ = labelled(system, data, r[:n_rows])
    for entry in whiteness(equations_, r[:n_rows]):
        rows = system.axis == system.task.robot.joint_names.index(entry.joint)
        variance = float(np.mean(r[:n_rows][rows] ** 2)) * n_rows / max(n_rows - n, 1)
        middle += variance * entry.inflation * (data[rows].T @ data[rows])
    half = _solve_gram(R, middle)
    noise = _solve_gram(R, half.T)
    arm = np.zeros((n, n))
    if not system.task.learn_arm and system.arm_root.shape[1]:
        taken = _solve_gram(R, data.T @ (arm_slope(system, theta) / system.sigma[:, None]))
        arm = taken @ taken.T
    return 0.5 * (noise + noise.T), arm


def labelled(system: Equations, J: FloatArray, y: FloatArray) -> Regression:
    """Label linearised, weighted equations by axis, run and sample."""
    return Regression(
        kind="dynamic",
        names=system.unknowns.names,
        units=system.unknowns.units,
        joint_names=system.task.robot.joint_names,
        runs=system.runs,
        W=J,
        y=y,
        joint=system.axis,
        run=system.run,
        sample=system.sample,
        variance=None,
    )


def check_full(R: FloatArray, names: Sequence[str]) -> None:
    """Raise RankDeficient where a triangle cannot be inverted."""
    undetermined = undetermined_names(R, names)
    if undetermined:
        raise RankDeficient(f"the motions do not separate {', '.join(undetermined)}", undetermined)


def corrected_arm(estimate: LoadEstimate, system: Equations) -> FloatArray:
    """Tell the arm's parameters as the data have corrected them, (n_params,)."""
    return np.asarray(system.task.arm.chi + system.arm_root @ estimate.values[system.unknowns.arm])


def _solve_gram(R: FloatArray, right: FloatArray) -> FloatArray:
    """(RᵀR)⁻¹ times the right-hand side."""
    return np.asarray(scipy.linalg.solve_triangular(R, scipy.linalg.solve_triangular(R, right, trans="T")))
