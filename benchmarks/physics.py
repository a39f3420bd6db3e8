"""Benchmark of the regressor and condition number against pinocchio's, and the time of the first use."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number, gram, gram_condition, stack
from excitor.robots.load import robot_from_toml
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

N_SAMPLES = 1000
N_KEPT = 100_000
ROUNDS = 15
PROCESSES = 3

_FIRST_USE = """
import json, os, time
start = time.process_time()
import numpy as np
from excitor.robots.base import base_parameters
from excitor.robots.load import load
from excitor.robots.dynamics import regressor
from excitor.robots.gram import gram, gram_condition, gram_gradient
from excitor.robots.robot import Motion
robot = load("tx40")
motion = Motion(*np.random.default_rng(0).normal(size=(3, 200, robot.n_joints)))
kept = base_parameters(robot).kept
regressor(robot, motion)
G = gram(robot, motion, kept)
gram_gradient(robot, motion, gram_bar=G, columns=kept)
print(json.dumps({"seconds": time.process_time() - start, "condition": gram_condition(G)}))
"""


def load_pinocchio() -> Any:
    """Import the peer; ExcitorError where it is not installed."""
    try:
        import pinocchio
    except ImportError:
        raise ExcitorError(
            "the physics bench compares with pinocchio, which is not installed; install it with: pip install pin"
        ) from None
    return pinocchio


def run(full: bool = False) -> Report:
    """Measure; `full` repeats more often."""
    load_pinocchio()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        measured = list(pool.map(speeds, [full] * PROCESSES))
    best = {name: max(one.ratios[name] for one in measured) for name in measured[0].ratios}
    first, cached = first_use()
    second = reference_second()
    figures = [
        Figure("physics.regressor_ratio", best["regressor"], "times", 15.0, "at least"),
        Figure("physics.condition_ratio", best["condition"], "times", 12.0, "at least"),
        Figure("physics.kept_ratio_1e5", best["kept"], "times", 5.0, "at least"),
        Figure("physics.condition_ratio_gram", best["gram"], "times", 6.0, "at least"),
        Figure("physics.first_use_s", first / second, "reference s", 12.0, "at most"),
        Figure("physics.cached_use_s", cached, "s CPU", 1.0, "at most"),
    ]
    report = {
        "what": f"6 joints, {N_SAMPLES} samples, one thread; medians of {ROUNDS * (4 if full else 1)} paired rounds of "
        f"CPU time, the best of {PROCESSES} processes: other work, and where memory lies, only ever lower a ratio",
        "peer": f"pin {version('pin')}: a bare computeJointTorqueRegressor loop; with columns selected, numpy SVD",
        "peer of condition_ratio_gram": "the same loop, then WᵀW and its eigenvalues",
        "ratios": [{name: round(ratio, 2) for name, ratio in one.ratios.items()} for one in measured],
        "us": measured[0].us,
        "kept": f"{N_KEPT} samples, both into arrays given; µs a sample",
        "largest_difference": max(one.agreement for one in measured),
        "condition_numbers": measured[0].conditions,
        "first_use": "imports, base parameters, regressor, Gram matrix, gradient; then again from the cache",
    }
    return Report("bench", "physics", figures, report)


@dataclass(frozen=True, slots=True)
class Speeds:
    """What one process measured: time ratios of the peer to us, and our times in µs."""

    ratios: dict[str, float]
    us: dict[str, float]
    agreement: float  # largest difference of the regressors
    conditions: list[float]


def speeds(full: bool) -> Speeds:
    """Measure regressors and condition numbers against pinocchio's, in this process."""
    from threadpoolctl import threadpool_limits

    pinocchio, robot = load_pinocchio(), six_axis()
    columns = bench_columns(robot)
    motion = Motion(*np.random.default_rng(0).normal(size=(3, N_SAMPLES, robot.n_joints)))
    peer = PinocchioPeer(robot, pinocchio, motion)
    rounds = 4 * ROUNDS if full else ROUNDS

    def ours() -> float:
        return gram_condition(gram(robot, motion, columns))

    with threadpool_limits(1):
        agreement = np.abs(peer.observation(columns) - stack(regressor(robot, motion))[:, columns]).max()
        by_peer = condition_number(peer.observation(columns))
        found = {
            "regressor": ratio(peer.loop, lambda: regressor(robot, motion), rounds),
            "condition": ratio(lambda: condition_number(peer.observation(columns)), ours, rounds),
            "kept": measure_kept(robot, pinocchio, 4 if full else 2),
            "gram": ratio(lambda: gram_condition(peer_gram(peer.observation(columns))), ours, rounds),
        }
        conditions = [ours(), by_peer]
    ratios, us = ({name: pair[k] for name, pair in found.items()} for k in range(2))
    return Speeds(ratios, {name: round(time, 3) for name, time in us.items()}, float(agreement), conditions)


def measure_kept(robot: Robot, pinocchio: Any, rounds: int) -> tuple[float, float]:
    """Compare regressors of many samples kept in a given array with pinocchio's loop; our time a sample, µs."""
    motion = Motion(*np.random.default_rng(1).normal(size=(3, N_KEPT, robot.n_joints)))
    peer = PinocchioPeer(robot, pinocchio, motion)
    theirs, ours = np.empty((N_KEPT, robot.n_joints, 10 * robot.n_joints)), regressor(robot, motion)
    result, us = ratio(lambda: peer.keep(theirs), lambda: regressor(robot, motion, out=ours), rounds)
    return result, us / N_KEPT


def peer_gram(W: FloatArray) -> FloatArray:
    """Form WᵀW, which costs less than the SVD of W."""
    return np.asarray(W.T @ W)


def six_axis() -> Robot:
    """Load the bench robot."""
    text = Path(__file__).with_name("six_axis.toml").read_text("utf-8")
    return robot_from_toml(text, "six_axis.toml")


def bench_columns(robot: Robot) -> IntArray:
    """Return the 52 base columns that the bench problem fixes, which are those we find."""
    return base_parameters(robot).kept


class PinocchioPeer:
    """The same robot in pinocchio, with the friction and rotor columns that it does not have."""

    # m mx my mz Ixx Ixy Iyy Ixz Iyz Izz -> XX XY XZ YY YZ ZZ MX MY MZ M
    ORDER = (4, 5, 7, 6, 8, 9, 1, 2, 3, 0)

    def __init__(self, robot: Robot, pinocchio: Any, motion: Motion) -> None:
        tree = robot.mechanism
        assert isinstance(tree, Tree)
        self.pin = pinocchio
        # row by row in memory, as pinocchio likes its states best
        self.states = [np.ascontiguousarray(x) for x in (motion.q + tree.offset, motion.dq, motion.ddq)]
        self.model = pinocchio.Model()
        for j in range(tree.n_links):
            T = tree.before[j]
            placement = pinocchio.SE3(T[:3, :3].copy(), T[:3, 3].copy())
            self.model.addJoint(j, pinocchio.JointModelRevoluteUnaligned(tree.axis[j].copy()), placement, f"j{j}")
        self.data = self.model.createData()

    def loop(self) -> None:
        """Evaluate the regressor sample by sample, keeping nothing."""
        evaluate, model, data = self.pin.computeJointTorqueRegressor, self.model, self.data
        for q, v, a in zip(*self.states, strict=True):
            evaluate(model, data, q, v, a)

    def keep(self, out: FloatArray) -> None:
        """Evaluate the regressor sample by sample into an array."""
        evaluate, model, data = self.pin.computeJointTorqueRegressor, self.model, self.data
        for k, (q, v, a) in enumerate(zip(*self.states, strict=True)):
            out[k] = evaluate(model, data, q, v, a)

    def observation(self, columns: IntArray) -> FloatArray:
        """Stack the selected columns, (n_joints · n_samples, n_columns), joint by joint."""
        evaluate, model, data = self.pin.computeJointTorqueRegressor, self.model, self.data
        _, dq, ddq = self.states
        n_samples, n = dq.shape
        W = np.zeros((n, n_samples, 13 * n))
        for k, (q, v, a) in enumerate(zip(*self.states, strict=True)):
            W[:, k, : 10 * n] = evaluate(model, data, q, v, a)
        order = np.concatenate([10 * j + np.array(self.ORDER) for j in range(n)])
        W[:, :, : 10 * n] = W[:, :, order]
        for i in range(n):
            W[i, :, 10 * n + i] = ddq[:, i]
            W[i, :, 11 * n + 2 * i] = dq[:, i]
            W[i, :, 11 * n + 2 * i + 1] = np.sign(dq[:, i])
        return np.asarray(W.reshape(n * n_samples, 13 * n)[:, columns])


def ratio(theirs: Callable[[], Any], ours: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Measure the time ratio of theirs to ours: median of paired rounds, and our median time in µs."""
    theirs(), ours()
    ratios, times = [], []
    for _ in range(rounds):
        slow = cpu_seconds(theirs, 1)
        fast = cpu_seconds(ours, 10)
        ratios.append(slow / fast)
        times.append(1e6 * fast)
    return median(ratios), median(times)


def cpu_seconds(task: Callable[[], Any], repeats: int) -> float:
    """Measure the CPU time of one call."""
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats


def reference_second() -> float:
    """Measure the CPU seconds of Gram matrices of 4.5 million samples, from a hundredth of them."""
    with one_blas_thread():  # others would wait for work, and count, all the while
        robot = six_axis()
        motion = Motion(*np.random.default_rng(0).normal(size=(3, 45_000, 6)))
        columns = bench_columns(robot)
        gram(robot, motion, columns)
        return 100.0 * min(cpu_seconds(lambda: gram(robot, motion, columns), 1) for _ in range(5))


def first_use() -> tuple[float, float]:
    """Measure a new process with an empty cache of compiled code, and the next one: CPU seconds, imports included."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OPENBLAS_NUM_THREADS": "1"}
        runs = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", _FIRST_USE], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise ExcitorError(f"the first-use measurement failed: {done.stderr.strip()[-300:]}")
            runs.append(json.loads(done.stdout)["seconds"])
    return runs[0], runs[1]
