"""What one candidate and one generation cost, against the same work written the usual way."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import period_grid, steady
from excitor.design.problem import Candidates, Problem, build_problem, decode, encode, evaluate, trajectory
from excitor.experiments.bench.design_quality import six_axis_problem
from excitor.experiments.bench.physics import PinocchioPeer, bench_columns
from excitor.experiments.figures import Figure
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.cell import Scene, Shape, Zone, scene_rows
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number
from excitor.robots.inertia import from_center_of_mass, translation
from excitor.robots.parameters import layout
from excitor.robots.robot import Capsule, Limits, Robot
from excitor.robots.tree import Tree

POPULATION = 200
_BOX = (np.array([0.0, 0.0, 0.2]), np.array([0.6, 0.6, 0.5]))  # centre, half extents


def measure(full: bool) -> dict[str, Any]:
    """Compare one candidate with all constraints, then a generation of two hundred, in paired rounds."""
    try:
        import pinocchio
    except ImportError:
        raise ExcitorError(
            "the design bench compares with pinocchio, which is not installed; install it with: pip install pin"
        ) from None
    problem = constrained_problem()
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (POPULATION, problem.n_design))
    candidates = decode(problem, X)
    peer = _Peer(problem, pinocchio)
    rounds = 15 if full else 5
    with one_blas_thread():
        agreement = _agreement(problem, candidates, peer)
        few = range(8)
        one = _paired(
            lambda: [peer.evaluate(candidates, k) for k in few],
            lambda: evaluate(problem, candidates),
            rounds,
            (len(few), POPULATION),
        )
        theirs = _generation(problem, X, peer)[0]
        ours = [_generation(problem, X, None) for _ in range(rounds)]
    generation = median(theirs / total for total, _ in ours)
    overhead = median(own for _, own in ours)
    return {
        "figures": [
            Figure("design.candidate_ratio", one[0], "times", 12.0, "at least"),
            Figure("design.generation_ratio", generation, "times", 10.0, "at least"),
            Figure("design.pymoo_overhead_percent", 100.0 * overhead / median(total for total, _ in ours), "%"),
        ],
        "context": {
            "what": "192 samples, 52 columns, torques, a tool box, four capsule pairs; one thread, CPU time",
            "candidate_us": round(1e6 * one[1], 1),
            "peer": "pinocchio's regressor, RNEA and kinematics in a loop; SVD and distances in numpy at once",
            "generation_ms": round(1e3 * median(total for total, _ in ours), 1),
            "largest_difference": agreement,
        },
    }


def constrained_problem() -> Problem:
    """Give the fixed robot masses, capsules and a box for its tool, so that every kind of constraint is at work."""
    free = six_axis_problem()
    robot = _dressed(free.robot)
    box = Zone("box", Shape("box", translation(*_BOX[0]), _BOX[1]), "in", "tool")
    limits = robot.limits
    torque = Limits(limits.position, limits.velocity, limits.acceleration, limits.jerk, np.full(6, 60.0))
    return build_problem(
        robot,
        free.excitation,
        constraints=Constraints(torque, np.full(6, np.inf), Scene((box,), True)),
        criterion=Criterion(),
        model=DynamicModel(robot, bench_columns(free.robot), np.ones(6)),
    )


def _dressed(robot: Robot) -> Robot:
    masses = (10.0, 4.0, 4.0, 3.5, 1.0, 0.3)
    chi, known = robot.chi.copy(), robot.known.copy()
    for j, mass in enumerate(masses):
        body = from_center_of_mass(mass, np.array([0.01, 0.0, -0.03]), 0.01 * mass * np.eye(3))
        chi[10 * j : 10 * j + 10], known[10 * j : 10 * j + 10] = body, True
    for k, name in enumerate(layout(robot).names[60:], start=60):
        chi[k], known[k] = {"Ia": 0.05, "Fv": 2.0, "Fc": 3.0}.get(name[:2], 0.0), True
    ends = {-1: (0.1, 0.2), 2: (0.0, 0.05), 3: (-0.15, -0.1), 5: (0.05, 0.1)}
    capsules = tuple(
        Capsule(link, np.array([0.0, 0.0, low]), np.array([0.0, 0.0, high]), 0.03) for link, (low, high) in ends.items()
    )
    return replace(robot, chi=chi, known=known, capsules=capsules)


class _Peer:
    """The usual way: a loop over samples through pinocchio, then numpy."""

    def __init__(self, problem: Problem, pinocchio: Any) -> None:
        self.problem, self.pin = problem, pinocchio
        self.columns = bench_columns(problem.robot)
        self.rows = scene_rows(problem.robot, problem.constraints.scene)
        motion = steady(trajectory(problem, _middle(problem)), period_grid(problem.excitation, problem.n_period))
        self.base = PinocchioPeer(problem.robot, pinocchio, motion)
        assert isinstance(problem.robot.mechanism, Tree)
        self.offset = problem.robot.mechanism.offset
        self.links = sorted({int(link) for link in self.rows.volumes.link if link >= 0} | {problem.robot.tool.link})
        names, chi = layout(problem.robot).names, problem.robot.chi
        self.Ia, self.Fv, self.Fc = (
            np.array([chi[names.index(f"{part}{j}")] for j in range(1, 7)]) for part in ("Ia", "Fv", "Fc")
        )
        self._set_masses()

    def _set_masses(self) -> None:
        pin, robot = self.pin, self.problem.robot
        for j in range(6):
            phi = robot.chi[10 * j : 10 * j + 10]
            dynamic = np.array([phi[9], *phi[6:9], phi[0], phi[1], phi[3], phi[2], phi[4], phi[5]])
            self.base.model.inertias[j + 1] = pin.Inertia.FromDynamicParameters(dynamic)
        self.base.data = self.base.model.createData()

    def evaluate(self, candidates: Candidates, k: int) -> tuple[float, FloatArray, float, FloatArray]:
        """Evaluate one candidate: condition number, peak torques, tool in its box, clearances of capsule pairs.

        pinocchio is called sample by sample, as it must be; all that numpy does is done for all samples at once.
        """
        problem, pin, base = self.problem, self.pin, self.base
        motion = steady(trajectory(problem, candidates, k), period_grid(problem.excitation, problem.n_period))
        base.states = [np.ascontiguousarray(x) for x in (motion.q + self.offset, motion.dq, motion.ddq)]
        W = base.observation(self.columns)
        tau = np.empty(motion.q.shape)
        R, p = np.empty((len(self.links), len(motion), 3, 3)), np.empty((len(self.links), len(motion), 3))
        model, data = base.model, base.data
        for n, (q, v, a) in enumerate(zip(*base.states, strict=True)):
            tau[n] = pin.rnea(model, data, q, v, a)
            pin.forwardKinematics(model, data, q)
            for row, link in enumerate(self.links):
                pose = data.oMi[link + 1]
                R[row, n], p[row, n] = pose.rotation, pose.translation
        tau += self.Ia * motion.ddq + self.Fv * motion.dq + self.Fc * np.sign(motion.dq)
        places = dict(zip(self.links, zip(R, p, strict=True), strict=True))
        return condition_number(W), np.abs(tau).max(axis=0), self._inside(places), self._clearances(places)

    def _inside(self, places: Mapping[int, tuple[FloatArray, FloatArray]]) -> float:
        tool = self.problem.robot.tool
        R, p = places[tool.link]
        return float(np.min(_BOX[1] - np.abs(R @ tool.T_link_frame[:3, 3] + p - _BOX[0])))

    def _clearances(self, places: Mapping[int, tuple[FloatArray, FloatArray]]) -> FloatArray:
        volumes = self.rows.volumes
        ends = []
        for link, both in zip(volumes.link, volumes.ends, strict=True):
            R, p = places.get(int(link), (np.eye(3), np.zeros(3)))
            ends.append((R @ both[:3] + p, R @ both[3:] + p))
        return np.array(
            [
                _segment_distances(*ends[a], *ends[b]).min() - volumes.radius[a] - volumes.radius[b]
                for a, b in volumes.pairs
            ]
        )


def _segment_distances(p: FloatArray, q: FloatArray, r: FloatArray, s: FloatArray) -> FloatArray:
    """Measure the distances of two segments as textbooks do, for all samples at once."""
    u, v, w = q - p, s - r, p - r
    a, b, c, d, e = (np.sum(x * y, axis=-1) for x, y in ((u, u), (u, v), (v, v), (u, w), (v, w)))
    determinant = a * c - b * b
    x = np.clip((b * e - c * d) / np.where(determinant > 1e-12, determinant, np.inf), 0.0, 1.0)
    y = np.clip((b * x + e) / np.maximum(c, 1e-12), 0.0, 1.0)
    x = np.clip((b * y - d) / np.maximum(a, 1e-12), 0.0, 1.0)
    return np.asarray(np.linalg.norm(w + x[..., None] * u - y[..., None] * v, axis=-1))


def _middle(problem: Problem) -> Candidates:
    return decode(problem, np.zeros((1, problem.n_design)))


def _agreement(problem: Problem, candidates: Candidates, peer: _Peer) -> float:
    """Measure how far both ways differ, relatively: they must be the same work."""
    found = evaluate(problem, candidates)
    worst = 0.0
    for k in range(3):
        condition, peak, inside, clear = peer.evaluate(candidates, k)
        worst = max(worst, abs(found.value[k] / condition - 1.0))
        g = found.g[k]
        torque = (g[:6] + 1.0) * 0.995 * problem.constraints.limits.torque
        worst = max(worst, float(np.abs(torque / peak - 1.0).max()))
        n = len(clear)
        worst = max(worst, float(np.maximum(0.0, (clear - (0.001 - 0.1 * g[7 : 7 + n]))).max()) if n else 0.0)
        worst = max(worst, max(0.0, inside - (0.001 - 0.1 * g[6])))
    return float(worst)


def _paired(
    theirs: Callable[[], Any], ours: Callable[[], Any], rounds: int, sizes: tuple[int, int]
) -> tuple[float, float]:
    """Measure how many times longer theirs takes for one candidate, and how long ours does, s."""
    ratios, times = [], []
    for _ in range(rounds):
        slow = _cpu(theirs) / sizes[0]
        fast = _cpu(ours) / sizes[1]
        ratios.append(slow / fast)
        times.append(fast)
    return median(ratios), median(times)


def _cpu(task: Callable[[], Any]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def _generation(problem: Problem, X: FloatArray, peer: _Peer | None) -> tuple[float, float]:
    """Run one generation of pymoo's genetic algorithm: its CPU seconds, and those that were not evaluation."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    n = problem.n_design
    shape = PymooProblem(n_var=n, n_obj=1, n_ieq_constr=len(problem.names), xl=-np.ones(n), xu=np.ones(n))
    ga = GA(pop_size=POPULATION, sampling=X, eliminate_duplicates=False)
    ga.setup(shape, termination=NoTermination(), seed=1, verbose=False)
    total = inside = 0.0
    for generation in range(2):
        start = time.process_time()
        asked = ga.ask()
        begun = time.process_time()
        candidates = decode(problem, np.clip(encode(problem, decode(problem, asked.get("X"))), -1.0, 1.0))
        if peer is None or generation == 0:
            found = evaluate(problem, candidates)
            F, G = found.value, found.g
        else:
            judged = [peer.evaluate(candidates, k) for k in range(POPULATION)]
            F, G = np.array([x[0] for x in judged]), np.zeros((POPULATION, len(problem.names)))
        judging = time.process_time() - begun
        asked.set("F", F[:, None])
        asked.set("G", G)
        for individual in asked:
            individual.evaluated.update(("F", "G", "H"))
        ga.tell(infills=asked)
        total, inside = time.process_time() - start, judging
    return total, total - inside
