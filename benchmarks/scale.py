"""Fleets, long logs, several workers and several hosts: time, CPU time, memory, equal results after kills."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._hosts import Hosts, hosts
from benchmarks.design import six_axis_problem
from benchmarks.identify import made_up_samples, reference_second
from excitor.design.problem import Problem
from excitor.design.search import Budget, Search, run_search
from excitor.experiments.figures import Figure, Report
from excitor.experiments.fleet.arms import ArmTask, find_arms, identify_arm
from excitor.experiments.fleet.dataset import Row, read_rows, row, write_rows
from excitor.experiments.fleet.fleet import evaluate, fleet
from excitor.experiments.fleet.type_model import FALSE_ALARMS
from excitor.identify.estimate import Factors, merge, stream_factors, total, wls
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Executor, Job, open_executor, run_tasks
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.campaigns import CAMPAIGN, RATE, motion_of, write_log

ARMS, OUTLIERS, SIGMAS, SCATTER = 1000, 30, 6.0, 0.03
PIPELINE, SECONDS, SEEDS = 20, 6.0, 9  # of arms: some that go through the pipeline, length of a log, draws
LONG, FAST = 10.0, 500.0  # s and Hz of the logs by which the time of an arm is measured
SEARCHED, SEARCHED_FULL = 20_000, 700_000  # evaluations: some 3 s, and some 120 s of one process
TALL, TALL_FULL = 500_000, 10_000_000  # rows of a Parquet file
BLOCK = 1_000_000  # rows that a worker draws and compresses at once
KILLED_HOSTS, KILLED_HOSTS_FULL = 15_000, 240_000  # evaluations of the design during which hosts are killed and cut
CALLS = 50  # of nothing, by which a task's own cost is measured
_ROWS = """
import time
from pathlib import Path
from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify
from excitor.robots.arrays import one_blas_thread
begun = time.process_time()
with one_blas_thread():
    assert identify(open_campaign(Path({!r}))).campaign.long
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
print(time.process_time() - begun, float(peak.split()[1]) / 1024.0)
"""  # an identification without what a bench imports: its CPU seconds, imports apart, and its peak memory in MB
MORE = '\n[identify]\nfriction = "as stated"\n[design]\nwarm_up_minutes = 20.0\n'


def run(full: bool) -> Report:
    """Measure fleets, workers, long logs and hosts; kills are three, in full ten."""
    figures, details = fleet_figures(full)
    figures += [*worker_figures(full), *row_figures(full)]
    try:
        figures += host_figures(full)
    except ImportError:
        details["hosts"] = "dask.distributed is not installed"
    return Report("bench", "scale", figures, details)


def fleet_figures(full: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Judge 1000 arms, of which 20 went through the pipeline; kill a fleet three times, in full ten."""
    with tempfile.TemporaryDirectory() as place:
        root = make_tree(Path(place) / "line", PIPELINE, LONG, FAST)
        took = time.process_time()
        rows = [identify_arm(ArmTask(arm, frozenset(), False)) for arm in find_arms(root, root / "fleet")]
        first = time.process_time() - took
        for path in root.glob("*/model.json"):
            path.unlink()
        took = time.process_time()
        rows = [identify_arm(ArmTask(arm, frozenset(), False)) for arm in find_arms(root, root / "fleet")]
        warm = (time.process_time() - took) / PIPELINE / reference_second()
        real = next(one for one in rows if one is not None and one["status"] == "identified")
        found = np.array([judged(Path(place) / str(seed), real, seed) for seed in range(SEEDS)])
        figures = [
            Figure("scale.outliers_found", float(np.median(found[:, 0])), f"of {OUTLIERS}", 27, "at least"),
            Figure("scale.outliers_found.worst", float(found[:, 0].min()), f"of {OUTLIERS}"),
            Figure("scale.outliers_named", float(np.median(found[:, 1])), f"of {OUTLIERS}", 24, "at least"),
            Figure("scale.false_alarms", float(found[:, 2].max()), "arms, worst seed", 1, "at most"),
            Figure("scale.wrong_logs_found", float(found[:, 3].min()), "of 2", 2, "equal"),
        ]
        kills = 10 if full else 3
        equal = killed(make_tree(Path(place) / "killed", 12), kills)
    figures += [
        Figure("scale.killed_equal", float(equal), "", 1.0, "equal"),
        Figure("scale.fleet_s_per_arm", warm, "reference s, two logs of 10 s at 500 Hz", 1.0, "at most"),
    ]
    return figures, {"kills": kills, "pipeline_arms": PIPELINE, "seeds": SEEDS, "first_pass_s": first}


def worker_figures(full: bool) -> list[Figure]:
    """Measure what workers of this machine cost and gain."""
    overhead, equal = cpu_overhead(SEARCHED_FULL if full else SEARCHED)
    idle, speedup, memory = fleet_speedup(200 if full else 12)
    with open_executor(2) as two:
        task = task_cost(two)
    cores: dict[str, Any] = {"target": 1.7, "bound": "at least"} if idle > 1.9 else {}
    return [
        Figure("scale.cpu_overhead", overhead, "times serial", 1.15 if full else 1.3, "at most"),  # of 3 s, less sure
        Figure("scale.workers_equal", float(equal), "", 1.0, "equal"),
        Figure("scale.cores_idle", idle, "times one, two plain processes"),
        Figure("scale.fleet_speedup_2", speedup, "judged where both cores are idle", **cores),
        Figure("scale.fleet_worker_mb", memory, "MB, the larger of two workers", 500.0, "at most"),
        Figure("scale.task_ms", task, "ms a task, local workers", 5.0, "at most"),
    ]


def cpu_overhead(evaluations: int) -> tuple[float, bool]:
    """Design with four warm workers: CPU time of all over that of one process; whether both end equal."""
    problem = six_axis_problem()
    with open_executor(4) as four:
        list(four.ordered(Job(_warm, problem), [0.5] * 4))
        _searched(problem, 2000, None)
        own, theirs = time.process_time(), _cpu_of(four)
        shared = _searched(problem, evaluations, four)
        both = time.process_time() - own + _cpu_of(four) - theirs
    own = time.process_time()
    alone = _searched(problem, evaluations, None)
    return both / (time.process_time() - own), np.array_equal(shared, alone)


def _searched(problem: Problem, evaluations: int, executor: Executor | None) -> FloatArray:
    found = run_search(Search(problem, Budget(evaluations=evaluations), seed=1), executor=executor)
    return np.concatenate([found.candidates.swing.ravel(), found.value])


def _warm(problem: Problem) -> Callable[[float], None]:
    """Import and compile what a search needs, and stay so long that each worker does."""
    _searched(problem, 2000, None)
    return time.sleep


def _cpu_of(executor: Any) -> float:
    """Read the CPU seconds of local workers."""
    states = [Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split() for one in executor.crew]
    return sum(int(tick) for state in states for tick in state[11:13]) / os.sysconf("SC_CLK_TCK")


def fleet_speedup(n: int) -> tuple[float, float, float]:
    """Compare the throughput of two warm workers with that of one; before it, of two plain processes with one.

    Last comes the peak memory of a worker, MB.
    """
    with tempfile.TemporaryDirectory() as place:
        arms = find_arms(make_tree(Path(place) / "line", n), Path(place))
        tasks = [ArmTask(arm, frozenset(), False) for arm in arms]
        with open_executor(2) as two:
            spun = [_wall(lambda k=k: list(run_tasks(_spin, [2_000_000] * k, two))) for k in (2, 1, 2)]
            warm = [_wall(lambda k=k: list(two.run(Job(_forgetful, None), tasks[:k]))) for k in (4, 1)]
            assert len(warm) == 2
            took = _wall(lambda: list(two.run(Job(_forgetful, None), tasks)))
            single = _wall(lambda: [list(two.run(Job(_forgetful, None), [task])) for task in tasks])
            peaks = [_status(one.process.pid, "VmHWM") for one in two.crew]
    return 2.0 * spun[1] / spun[2], single / took, max(peaks) / 1024.0


def _status(pid: int, key: str) -> float:
    """Read a number that Linux keeps of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(key)).split()[1])


def _wall(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _spin(n: int) -> int:
    return sum(range(n))


def _forgetful(_: None) -> Callable[[ArmTask], Row | None]:
    """Identify arms whatever models are on file."""

    def run(task: ArmTask) -> Row | None:
        (task.arm.output / "model.json").unlink(missing_ok=True)
        return identify_arm(task)

    return run


def task_cost(executor: Executor) -> float:
    """Measure the least time of a task that does nothing, ms."""
    list(run_tasks(abs, [0] * CALLS, executor))
    return 1e3 * min(_wall(lambda: list(run_tasks(abs, [0] * CALLS, executor))) for _ in range(5)) / CALLS


def row_figures(full: bool) -> list[Figure]:
    """Identify from a tall Parquet file in a process of its own, and compress rows that are generated by block."""
    rows, blocks = TALL_FULL if full else TALL, 100 if full else 1
    reference = reference_second()
    with tempfile.TemporaryDirectory() as place:
        write_tall(Path(place), rows)
        code = _ROWS.format(place)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExcitorError(f"identification of {rows} rows failed: {done.stderr.strip()[-300:]}")
        seconds, memory = map(float, done.stdout.split())
    if blocks > 1:
        with open_executor(2) as two:
            spent = [cpu for _, cpu in two.ordered(Job(_compressing, None), list(range(blocks)))]
    else:
        spent = [_compressing(None)(0)[1]]
    per_block = float(np.mean(spent)) / reference
    bar: dict[str, Any] = {"target": 60.0, "bound": "at most"} if full else {}
    return [
        Figure("scale.rows_1e7_s" if full else "scale.rows_5e5_s", seconds / reference, "reference s", **bar),
        Figure("scale.rows_1e8_s", per_block * 1e8 / BLOCK, f"reference s, by {blocks} % of them", 120.0, "at most"),
        Figure("scale.worker_mb", memory, f"MB at {rows} rows", 500.0, "at most"),
    ]


def write_tall(folder: Path, n: int) -> None:
    """Write a campaign of a six-axis arm, its first log a Parquet file of n rows at 500 Hz."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    robot, rng, rate = load("tx40"), np.random.default_rng(0), 500.0
    names = ["t", *(f"q{j}" for j in range(1, 7)), *(f"c{j}" for j in range(1, 7))]
    period = 50_000  # rows, after which the motion repeats; the noise does not
    t = np.arange(period) / rate
    q, dq, ddq = np.zeros((3, period, 6))
    for k in range(1, 40, 3):
        w = 2.0 * np.pi * k * rate / period
        a, b = rng.uniform(-0.25, 0.25, size=(2, 6))
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
    tau = inverse_dynamics(robot, Motion(q, dq, ddq))
    for name, rows in (("first", n), ("second", period // 2)):
        schema = pa.schema([(one, pa.float64()) for one in names])
        with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
            for first in range(0, rows, period):
                m = min(period, rows - first)
                noisy = tau[:m] + 0.01 * tau.std(axis=0) * rng.normal(size=(m, 6))
                table = np.column_stack([(first + np.arange(m)) / rate, np.degrees(q[:m]), noisy])
                writer.write_table(pa.table(dict(zip(names, table.T, strict=True))))
    text = CAMPAIGN.replace("rotradi", "tx40").replace("logs/", "").replace(".csv", ".parquet").replace("[4]", "[8]")
    for letter in "qc":
        text = text.replace(f'"{letter}3"', ", ".join(f'"{letter}{j}"' for j in range(3, 7)))
    (folder / "campaign.toml").write_text(text)


def _compressing(_: None) -> Callable[[int], tuple[Factors, float]]:
    """Return what draws a block of rows and compresses it, with its CPU seconds."""
    robot = load("tx40")
    one = made_up_samples(robot, 20_000)
    stream_factors(robot, [one])  # compiled

    def run(k: int) -> tuple[Factors, float]:
        begun, rng = time.process_time(), np.random.default_rng(k)

        def chunks() -> Iterator[Any]:
            for _ in range(BLOCK // 20_000):
                sign = rng.choice([-1.0, 1.0], 6)  # another motion of another seed
                motion = Motion(one.motion.q * sign, one.motion.dq * sign, one.motion.ddq * sign)
                yield replace(one, motion=motion, tau=inverse_dynamics(robot, motion) + rng.normal(size=one.tau.shape))

        return stream_factors(robot, chunks()), time.process_time() - begun

    return run


def host_figures(full: bool) -> list[Figure]:
    """Run a design, rows and a fleet on hosts that are killed, once cut, and compare with one process."""
    problem, kills, blocks = six_axis_problem(), (4, 3, 3) if full else (1, 1, 1), 3 if full else 1
    evaluations, cut = (KILLED_HOSTS_FULL, 10.0) if full else (KILLED_HOSTS, 3.0)
    with tempfile.TemporaryDirectory() as place:
        root = make_tree(Path(place) / "line", 12 if full else 4)
        alone = _searched(problem, evaluations, None), _summed(None)(blocks), fleet(root, out=Path(place) / "one").rows
        for path in root.glob("*/model.json"):
            path.unlink()
        with hosts() as there:
            with open_executor(cluster=there.address) as executor:
                task = task_cost(executor)
                with _trouble(there, kills[0], cut) as first:
                    design = _searched(problem, evaluations, executor)
                with _trouble(there, kills[1]) as second:
                    ((_, rows),) = executor.run(Job(_summed, None), [blocks])
            with _trouble(there, kills[2]) as third:
                found = fleet(root, out=Path(place) / "two", cluster=there.address).rows
            spaces, left = len(there.links), there.tasks_left()
    equal = [np.array_equal(design, alone[0]), np.array_equal(rows, alone[1]), _values(found) == _values(alone[2])]
    killed = sum(made.count("killed") for made in (first, second, third))
    return [
        Figure("scale.hosts", float(max(spaces, 1)), "network namespaces; 1: loopback addresses"),
        Figure("scale.hosts_equal", float(sum(equal)), "of a design, rows, a fleet", 3.0, "equal"),
        *(Figure(f"scale.hosts_equal.{k}", float(x)) for k, x in zip(("design", "rows", "fleet"), equal, strict=True)),
        Figure("scale.hosts_killed", float(killed), f"workers, of {sum(kills)} tries", 0.6 * sum(kills), "at least"),
        Figure("scale.hosts_cut", float(first.count("cut")), "links"),
        Figure("scale.hosts_left", float(left), "tasks on the hosts afterwards", 0.0, "equal"),
        Figure("scale.cluster_task_ms", task, "ms a task, on the hosts", 5.0, "at most"),
    ]


def _values(rows: Any) -> str:
    keys = ("arm", "inputs", "status", "values", "sigma", "covariance", "headline")
    return json.dumps([[np.asarray(one[key]).tolist() for key in keys] for one in rows])


@contextmanager
def _trouble(there: Hosts, kills: int, cut: float = 0.0) -> Iterator[list[str]]:
    """Kill workers at random moments, and cut a link for some seconds, while others work; yields what was done."""
    rng, over, made = np.random.default_rng(kills), threading.Event(), [""]

    def make() -> None:
        if cut and not over.wait(rng.uniform(0.5, 3.0)):
            made.append("cut" if there.cut(cut) else "")
        while made.count("killed") < kills and not over.wait(rng.uniform(0.5, 3.0)):
            made.append("killed" if there.kill_one(len(made)) else "")

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


def _summed(_: None) -> Callable[[int], FloatArray]:
    """Return what estimates parameters from so many blocks of rows, whose triangles are merged."""
    run = _compressing(None)

    def estimated(n: int) -> FloatArray:
        merged = merge([run(k)[0] for k in range(n)])
        return np.concatenate([wls(merged).values, np.diagonal(total(merged, np.ones(len(merged.n_rows))))])

    return estimated


def make_tree(root: Path, n: int, seconds: float = SECONDS, rate: float = RATE) -> Path:
    """Write campaigns of arms of one type, whose parameters scatter."""
    rng, base = np.random.default_rng(0), load("rotradi")
    for i in range(n):
        robot = replace(base, chi=base.chi * (1.0 + SCATTER * rng.normal(size=len(base.chi))))
        folder = root / f"unit {i:04}"
        (folder / "logs").mkdir(parents=True)
        for k, name in enumerate(("first", "second")):
            write_log(folder / "logs" / f"{name}.csv", robot, *motion_of(robot, seconds, k, rate=rate), 10 * i + k)
        (folder / "campaign.toml").write_text(CAMPAIGN + MORE)
    return root


def judged(place: Path, like: Row, seed: int) -> tuple[int, int, int, int]:
    """Add virtual arms about a real one, outliers, a wrong and a truncated log, and count what is found."""
    rng = np.random.default_rng(seed)
    mean, n = np.array(like["values"]), len(like["values"])
    S = np.array(like["covariance"]).reshape(n, n)
    spread = np.sqrt((SCATTER * mean) ** 2 + np.diagonal(S))
    Y = mean * (1.0 + SCATTER * rng.normal(size=(ARMS, n))) + rng.multivariate_normal(np.zeros(n), S, ARMS)
    who, which = rng.choice(ARMS - 2, OUTLIERS, replace=False), rng.integers(n, size=OUTLIERS)
    Y[who, which] += SIGMAS * spread[which] * rng.choice([-1.0, 1.0], OUTLIERS)
    Y[-2] = rng.normal(size=n) * np.abs(mean) * 3.0  # another robot's log
    made = [_virtual(like, k, y) for k, y in enumerate(Y)]
    refused = {"arm": "unit truncated", "inputs": "t", "status": "refused", "reason": "the log ends too early"}
    write_rows(place, [*made, row(**refused)])
    data, _ = evaluate(read_rows(place), FALSE_ALARMS)
    arms = {one["arm"]: one for one in data["arms"]}
    names = dict(zip((f"arm {k:04}" for k in who), (like["names"][j] for j in which), strict=True))
    beyond = {name: one for name, one in arms.items() if one["verdict"] == "outlier"}
    found = [name for name in names if name in beyond]
    named = [name for name in found if beyond[name]["parameter"] == names[name]]
    wrong = f"arm {ARMS - 2:04}"
    false = set(beyond) - set(names) - {wrong}
    strange = (wrong in beyond) + (arms["unit truncated"]["verdict"] == "refused")
    return len(found), len(named), len(false), strange


def _virtual(like: Row, k: int, values: Any) -> Row:
    return {**like, "arm": f"arm {k:04}", "inputs": str(k), "files": "{}", "values": values.tolist()}


def killed(root: Path, kills: int) -> bool:
    """Kill a fleet's process at random moments, and compare its dataset with an uninterrupted one."""
    rng = np.random.default_rng(0)
    code = "import sys; from excitor.experiments.cli import main; main()"
    verb = [sys.executable, "-c", code, "fleet", str(root), "--workers", "2"]
    for _ in range(kills):
        process = subprocess.Popen(verb, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(1.0, 12.0))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    fleet(root)
    once = fleet(root, out=root.parent / "uninterrupted")
    return _content(read_rows(root / "fleet")) == _content(once.rows)


def _content(rows: Any) -> str:
    plain = [{key: x.tolist() if hasattr(x, "tolist") else x for key, x in one.items()} for one in rows]
    return json.dumps(plain, sort_keys=True)
