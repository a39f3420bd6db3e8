"""Benchmark of estimation: streams, consistent fits and elimination against numpy on all rows, SDPs on all rows."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.physics import reference_second, six_axis
from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies import tx40 as tx40_virtual
from excitor.identify.consistent import Attempt, Task, minimise, pose
from excitor.identify.consistent import _constraints as constraints_of
from excitor.identify.estimate import compress, stream_factors, wls
from excitor.identify.reduce import essential
from excitor.identify.regression import Regression, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot

MILLION = 1_000_000
ROW = 24  # numbers a sample: q, dq, ddq and tau of six joints

_STREAM = """
import sys
from pathlib import Path
from benchmarks.identify import peak_mb, stream_file
stream_file(Path(sys.argv[1]), repeats=int(sys.argv[2]))
print(peak_mb())
"""


def run(full: bool = False) -> Report:
    """Measure; `full` measures every ratio more often."""
    rounds = 3 if full else 1
    with one_blas_thread():
        essential_ratio, essential_context = measure_essential(3 * rounds)
        sdp_ratio, sdp_context = measure_sdp()
        fit_ratio, fit_context = measure_fit(3 * rounds)
        seconds = min(million_rows() for _ in range(rounds + 1)) / reference_second()
        difference = stream_difference()
    figures = [
        Figure("identify.essential_ratio_plain", essential_ratio, "times", 5.0, "at least"),
        Figure("identify.consistent_fit_ratio", fit_ratio, "times", 1.7, "at most"),
        Figure("identify.sdp_ratio", sdp_ratio, "times", 20.0, "at least"),
        Figure("identify.sdp_ratio_schur", sdp_context["schur_ratio"], "times"),
        Figure("identify.schur_residual_ratio", sdp_context["schur_residual_ratio"], "", 1.01, "at most"),
        Figure("identify.stream_s_1e6", seconds, "reference s", 0.9, "at most"),
        Figure("identify.stream_difference", difference, "", 1e-9, "at most"),
        Figure("identify.memory_growth_mb", memory_growth(), "MB", 60.0, "at most"),
    ]
    context: dict[str, Any] = {
        "what": "six joints, 60 base parameters; CPU time, one BLAS thread",
        "essential": essential_context,
        "sdp": sdp_context,
        "fit": fit_context,
        "memory": f"peak of a process that streams {MILLION} samples from a file, against four times as many",
    }
    return Report("bench", "identify", figures, context)


def measure_essential(rounds: int) -> tuple[float, dict[str, float]]:
    """Compare essential parameters, from rows on, with the plain loop: two least-squares fits at each elimination."""
    regression = tx40_virtual.virtual_regression(seed=0)
    ours_s, theirs_s = [], []
    for _ in range(rounds + 1):
        start = time.process_time()
        result = essential(compress(regression), ratio=20.0)
        ours_s.append(time.process_time() - start)
        start = time.process_time()
        peer = essential_by_plain_loop(regression, 20.0)
        theirs_s.append(time.process_time() - start)
        if peer != result.estimate.names:
            raise ExcitorError(f"the two ways keep different parameters: {set(peer) ^ set(result.estimate.names)}")
    ours, theirs = min(ours_s[1:]), min(theirs_s[1:])
    return theirs / ours, {"rows": len(regression), "ours_s": ours, "theirs_s": theirs}


def essential_by_plain_loop(regression: Regression, ratio: float) -> tuple[str, ...]:
    """Eliminate parameters on all rows, by numpy's least squares."""
    names, W, y = list(regression.names), np.array(regression.W), regression.y
    joints = np.unique(regression.joint)
    while True:
        residual = y - W @ np.linalg.lstsq(W, y, rcond=None)[0]
        sigma = np.empty(len(y))
        for j in joints:
            sigma[regression.joint == j] = np.sqrt(np.mean(residual[regression.joint == j] ** 2))
        A = W / sigma[:, None]
        covariance = np.linalg.inv(A.T @ A)
        relative = np.sqrt(np.diag(covariance)) / np.abs(covariance @ (A.T @ (y / sigma)))
        if relative.max() < ratio * relative.min():
            return tuple(names)
        worst = int(np.argmax(relative))
        names.pop(worst)
        W = np.delete(W, worst, axis=1)


def measure_fit(rounds: int) -> tuple[float, dict[str, Any]]:
    """Compare a whole consistent fit, from rows on, with numpy's triangular factor of the same rows."""
    robot = six_axis()
    equations = _simulated(robot, N_SAMPLES, 0)
    system = np.column_stack([equations.W, equations.y])
    _by_triangle(robot, equations)
    ours = min(_timed(lambda: _by_triangle(robot, equations))[0] for _ in range(rounds))
    theirs = min(_timed(lambda: np.linalg.qr(system, mode="r"))[0] for _ in range(rounds))
    return ours / theirs, {"ours_s": round(ours, 4), "numpy_qr_r_s": round(theirs, 4), "rows": len(equations)}


def stream_difference() -> float:
    """Compare a streamed WLS estimate with one by dense QR of the weighted rows: largest relative difference."""
    robot, rng = load("tx40"), np.random.default_rng(1)
    made = made_up_samples(robot, 20_000)
    noisy = replace(made, tau=made.tau + 0.01 * made.tau.std(axis=0) * rng.normal(size=made.tau.shape))
    streamed = wls(stream_factors(robot, [noisy]))
    equations = dynamic_regression(robot, [noisy])
    W, y, scale = equations.W, equations.y, np.empty(len(equations))
    residual = y - W @ np.linalg.lstsq(W, y, rcond=None)[0]
    for j in range(robot.n_joints):
        scale[equations.joint == j] = np.sqrt(np.mean(residual[equations.joint == j] ** 2))
    Q, R = np.linalg.qr(W / scale[:, None])
    dense = np.linalg.solve(R, Q.T @ (y / scale))
    return float(np.max(np.abs(streamed.values - dense) / np.maximum(np.abs(dense), 1e-3 * np.abs(dense).max())))


def million_rows() -> float:
    """Measure the time from arrays of a million samples to a base estimate, CPU seconds."""
    robot = load("tx40")
    samples = made_up_samples(robot, MILLION)
    stream_factors(robot, [made_up_samples(robot, 200)])  # compiled
    start = time.process_time()
    wls(stream_factors(robot, [samples]))
    return time.process_time() - start


def made_up_samples(robot: Robot, n_samples: int) -> Samples:
    """Draw random states and their torques."""
    rng = np.random.default_rng(0)
    motion = Motion(*rng.normal(size=(3, n_samples, robot.n_joints)))
    return Samples("made up", motion, inverse_dynamics(robot, motion, prior(robot)), 1000.0)


def memory_growth() -> float:
    """Measure how much more memory four million samples take at their peak than one million, MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.bin"
        robot = load("tx40")
        with path.open("wb") as file:
            for _ in range(20):
                part = made_up_samples(robot, MILLION // 20)
                table = np.column_stack([part.motion.q, part.motion.dq, part.motion.ddq, part.tau])
                file.write(np.ascontiguousarray(table).tobytes())
        return peak_memory(path, 4) - peak_memory(path, 1)


def peak_memory(path: Path, repeats: int) -> float:
    """Stream a file in a process of its own; its peak memory in MB."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _STREAM, str(path), str(repeats)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ExcitorError(f"the memory measurement failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout)


def peak_mb() -> float:
    """Read this process's own peak memory; getrusage would also count the parent it was forked from."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise ExcitorError("the memory measurement reads /proc/self/status, which this system does not have")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return float(line.split()[1]) / 1024.0


def stream_file(path: Path, repeats: int) -> None:
    """Estimate from a binary file of samples, read again and again."""
    robot = load("tx40")
    assert len(base_parameters(robot)) > 0

    def chunks() -> Any:
        for _ in range(repeats):
            with path.open("rb") as file:
                while data := file.read(8192 * ROW * 8):
                    table = np.frombuffer(data).reshape(-1, ROW)
                    motion = Motion(table[:, 0:6], table[:, 6:12], table[:, 12:18])
                    yield Samples("file", motion, table[:, 18:24], 1000.0)

    wls(stream_factors(robot, chunks()))


N_SAMPLES = 10_000
ROUNDS = 5
USUAL = (Attempt(1.0, 1e-8),)  # CLARABEL's own tolerances, once: a second attempt would count against the naive way


def measure_sdp(n_samples: int = N_SAMPLES, seed: int = 0) -> tuple[float, dict[str, Any]]:
    """Fit the bench robot both ways to the same W and τ: CPU time on all rows over that with compression.

    Both have the same prior, bounds, coordinates, weights and solver, and both must end `optimal`; imports, the
    regression and first-use compilation count for neither. The naive way is run once, ours a few times.
    """
    robot = six_axis()
    equations = _simulated(robot, n_samples, seed)
    _by_triangle(robot, equations)  # compiles and loads what is needed
    seconds, found = zip(*(_timed(lambda: _by_triangle(robot, equations)) for _ in range(ROUNDS)), strict=True)
    task = pose(compress(equations), robot)
    naive_seconds, by_rows = _timed(lambda: minimise(_all_rows(task, equations), "CLARABEL", USUAL).v)
    ours = median(seconds)
    tau = [_predicted(task, equations, v) for v in (found[0], by_rows)]
    context = {
        "what": f"{len(equations)} rows, {equations.W.shape[1]} parameters; sum_squares, entropic prior, CLARABEL",
        "naive_cpu_s": round(naive_seconds, 2),
        "ours_cpu_s": round(ours, 4),
        "largest_torque_difference": float(np.abs(tau[0] - tau[1]).max() / np.abs(tau[1]).max()),
        "status": "optimal, both",
    }
    schur_seconds, by_schur = _timed(lambda: schur_fit(task, equations))
    residuals = [float(np.linalg.norm(equations.y - _predicted(task, equations, v))) for v in (by_schur, found[0])]
    context |= {
        "schur": "rows compressed by numpy's QR, least squares as one matrix inequality, no prior: FloBaRoID's form",
        "schur_cpu_s": round(schur_seconds, 3),
        "schur_ratio": schur_seconds / ours,
        "schur_residual_ratio": residuals[0] / residuals[1],
    }
    return naive_seconds / ours, context


def schur_fit(task: Task, equations: Regression) -> FloatArray:
    """Minimise u, [[u, (A v - b)ᵀ], [A v - b, 1]] ⪰ 0, A and b from all rows' triangle, within a task's limits."""
    import cvxpy as cp

    rows = _all_rows(task, equations)
    R = np.linalg.qr(np.column_stack([rows.A, rows.b]), mode="r")
    n = rows.A.shape[1]
    v, u = cp.Variable(n), cp.Variable((1, 1))
    e = cp.reshape(R[:n, :n] @ v - R[:n, n], (n, 1), order="C")
    inequality = cp.bmat([[u, e.T], [e, np.eye(n)]]) >> 0
    problem = cp.Problem(cp.Minimize(u[0, 0]), [inequality, *constraints_of(cp, v, task)])
    problem.solve(solver="CLARABEL")
    if problem.status != "optimal":
        raise ExcitorError(f"the peer's fit ended {problem.status}")
    return np.asarray(v.value, dtype=float)


def _by_triangle(robot: Robot, equations: Regression) -> FloatArray:
    return minimise(pose(compress(equations), robot), "CLARABEL", USUAL).v


def _simulated(robot: Robot, n_samples: int, seed: int) -> Regression:
    """Compute torques of plausible parameters along a periodic motion, with noise of a hundredth."""
    rng = np.random.default_rng(seed)
    params = layout(robot)
    t = np.linspace(0.0, 10.0, n_samples, endpoint=False)[:, None, None]
    w = 2.0 * np.pi * 0.1 * np.arange(1, 6)[:, None]
    s, c = 0.4 * rng.normal(size=(2, 5, robot.n_joints)) / np.arange(1, 6)[:, None]
    wave, turned = s * np.sin(w * t) + c * np.cos(w * t), s * np.cos(w * t) - c * np.sin(w * t)
    motion = Motion(wave.sum(axis=1), (w * turned).sum(axis=1), (-(w**2) * wave).sum(axis=1))
    silent = Samples("bench", motion, np.zeros((n_samples, robot.n_joints)), n_samples / 10.0)
    equations = dynamic_regression(robot, [silent], columns=np.arange(len(params)))
    tau = equations.W @ plausible_parameters(robot)
    for joint in range(robot.n_joints):
        rows = equations.joint == joint
        tau[rows] += 0.01 * tau[rows].std() * rng.normal(size=int(rows.sum()))
    return replace(equations, y=tau)


def plausible_parameters(robot: Robot) -> FloatArray:
    """Build plausible parameters, (n_params,): bodies that get lighter outwards, rotors and friction."""
    params = layout(robot)
    chi = np.zeros(len(params))
    for j in range(params.n_links):
        m = 8.0 / (1 + j)
        chi[params.link(j)] = from_center_of_mass(m, np.array([0.02, -0.03, 0.05]), m * np.diag([0.01, 0.012, 0.008]))
    chi[params.n_link_params :] = 0.5
    return chi


def _all_rows(task: Task, equations: Regression) -> Task:
    """Replace the triangular factor in the problem by all rows."""
    sigma = np.array(
        [task.group_sigma[group] for group in zip(equations.joint.tolist(), equations.run.tolist(), strict=True)]
    )
    scale = 1.0 / (sigma * task.noise)
    return replace(task, A=(equations.W * scale[:, None]) @ task.coordinates.B, b=equations.y * scale)


def _predicted(task: Task, equations: Regression, v: FloatArray) -> FloatArray:
    return np.asarray(equations.W @ (task.coordinates.B @ v))


def _timed(job: Callable[[], FloatArray]) -> tuple[float, FloatArray]:
    with one_blas_thread():
        start = time.process_time()
        result = job()
        return time.process_time() - start, result
