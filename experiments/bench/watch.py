"""Does a watch notice, and keep quiet? A load that changes, healthy days, memory, and the recursion under it."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.bench.watch_day import (
    NO_LOAD,
    Day,
    begin_day,
    cycle_samples,
    draw_day,
    log_heading,
    log_lines,
    next_cycle,
    stand,
    tool_load,
    write_campaign,
)
from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.watch.session import begin_session, open_basis, take
from excitor.experiments.watch.sources import open_source, write_state
from excitor.identify.change import LEARN, Verdict, begin, cycle_equations, features, observe, watched
from excitor.identify.recursive import eigenvalues, start, update, update_many
from excitor.identify.regression import Rows
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.load import load
from excitor.robots.robot import Robot

ROBOT, RATED = "ur10", 10.0  # kg
STEPS = (0.05, 0.1, 0.2)  # of what the robot may carry
SMALL_STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01)
DRIFT = 1e-4  # of what the robot may carry, more each cycle
SEEDS, DAYS, CYCLES = 20, 10, 1000
AFTER = 8  # cycles that are worked after a change
BREAK_S = 1800.0
MEMORY_ROBOT = "rotradi"

LoadAt = Callable[[int], float]  # kg, by cycle


@one_blas_thread()
def run(full: bool = False) -> Report:
    """Measure; with `full` twenty seeds, ten days of a thousand cycles and a million updates, else a tenth."""
    seeds, days = (SEEDS, DAYS) if full else (SEEDS // 10, DAYS // 5)
    robot = load(ROBOT)
    flagged = [steps_flagged(robot, seed) for seed in range(seeds)]
    counts = np.array([count for told in flagged for count in told])
    healthy = CYCLES if full else CYCLES // 2
    alarms = [healthy_alarms(robot, seed, healthy) for seed in range(days)]
    small = {f"{100.0 * share:g} %": small_step(robot, share, seeds) for share in SMALL_STEPS}
    rate = updates_per_s()
    positive, bound = stays_positive(1_000_000 if full else 100_000)
    growth = memory_growth(60, 600 if full else 180)
    figures = [
        Figure("watch.cycles_to_flag", float(np.median(counts)), "cycles", 2.0, "at most"),
        Figure("watch.worst_cycles_to_flag", float(counts.max()), "cycles", 2.0, "at most"),
        Figure("watch.false_alarms_per_1000", 1000.0 * sum(alarms) / (days * healthy), "1", 1.0, "at most"),
        Figure("watch.memory_growth", growth, "ratio", 1.2, "at most"),
        Figure("recursive.updates_per_s", rate, "1/s", 20_000.0, "at least"),
        Figure("recursive.positive_definite", positive, "share of checks", 1.0, "equal"),
        Figure("recursive.largest_eigenvalue", bound, "of P0", 2.0, "at most"),
    ]
    context: Mapping[str, Any] = {
        "robot": ROBOT,
        "seeds": seeds,
        "steps": f"{', '.join(f'{100 * share:g} %' for share in STEPS)} of {RATED:g} kg, taken up or put down, by logs",
        "spread of cycles to flag": [float(counts.min()), float(counts.max())],
        "healthy cycles": days * healthy,
        "alarms a healthy day": alarms,
        "flagged within 2 cycles, by step": small,
        "drift": f"{1e3 * DRIFT * RATED:g} g a cycle is told after (cycles): {drift_told(robot, seeds)}",
        "updates": "21 parameters, 3 rows, one at a time; both with and without forgetting are checked for P",
    }
    return Report("bench", "watch", figures, context)


def steps_flagged(robot: Robot, seed: int) -> list[float]:
    """Count the cycles until a step of the load is flagged in the logs of a morning, for each size of step."""
    counts = []
    for k, share in enumerate(STEPS):
        day = draw_day(robot, seed)
        at = LEARN + 5 + int(np.random.default_rng([seed, k]).integers(20))
        carried = tool_load(day, share * RATED)
        before, after = (NO_LOAD, carried) if (seed + k) % 2 == 0 else (carried, NO_LOAD)
        with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
            alarms = [
                n
                for n, verdict in enumerate(_watched_logs(Path(folder), day, at, before, after), start=1)
                if verdict.alarms
            ]
        late = [n - at for n in alarms if n > at]
        counts.append(float(late[0]) if late and len(late) == len(alarms) else float(AFTER + 1))
    return counts


def healthy_alarms(robot: Robot, seed: int, n_cycles: int) -> int:
    """Count alarms in a day without any change, a break in its middle."""
    alarms = 0
    for verdict in _verdicts(draw_day(robot, seed), n_cycles, pause=n_cycles // 2):
        alarms += bool(verdict.alarms)
    return alarms


def small_step(robot: Robot, share: float, seeds: int) -> float:
    """Tell in which share of mornings a step is flagged within two cycles: how small a step can be."""
    found = 0
    for seed in range(seeds):
        at = LEARN + 10 + seed
        day = draw_day(robot, seed)
        verdicts = list(_verdicts(day, at + 2, load_at=_step(at, share * RATED)))
        found += any(verdict.alarms for verdict in verdicts[at:])
    return found / seeds


def drift_told(robot: Robot, seeds: int) -> list[int]:
    """Count the cycles until a load that grows slowly is told, -1 where it was not in 300."""
    told = []
    for seed in range(min(seeds, 5)):
        verdicts = _verdicts(draw_day(robot, seed), 400, load_at=lambda n: max(0, n - 100) * DRIFT * RATED)
        first = next((n for n, verdict in enumerate(verdicts) if verdict.alarms), -1)
        told.append(first - 100 if first >= 0 else -1)
    return told


def updates_per_s(n_updates: int = 20_000) -> float:
    """Measure online updates of 21 parameters by 3 rows, each one call, per second of CPU time."""
    rng = np.random.default_rng(0)
    psi, y = rng.normal(size=(200, 3, 21)), rng.normal(size=(200, 3))
    state = update(start(21), psi[0], y[0])
    begun = time.process_time()
    for k in range(n_updates):
        state = update(state, psi[k % 200], y[k % 200])
    return n_updates / (time.process_time() - begun)


def stays_positive(n_updates: int) -> tuple[float, float]:
    """Check P every hundredth of many updates, with and without forgetting; motions often excite little.

    Give the share of checks in which it was symmetric and positive definite, and its largest eigenvalue over P0.
    """
    rng = np.random.default_rng(0)
    good, largest, checks = 0, 0.0, 0
    for forgetting in (1.0, 0.999):
        state = start(21)
        scale = 10.0 ** rng.uniform(-3.0, 3.0, 21)
        for part in range(100):
            n = n_updates // 100
            psi = rng.normal(size=(3 * n, 21)) * scale
            if part % 10:
                psi[:, part % 7 :] = 0.0  # most of the robot stands still
            y = psi @ (1.0 / scale) + rng.normal(size=3 * n)
            state = update_many(state, psi, y, ends=3 * np.arange(1, n + 1), forgetting=forgetting)
            spectrum = eigenvalues(state)
            checks += 1
            good += bool(np.all(state.d > 0.0) and spectrum[-1] > 0.0 and np.isfinite(spectrum).all())
            largest = max(largest, float(spectrum[0]) / float(state.variance[0]))
    return good / checks, largest


def memory_growth(few: int, many: int) -> float:
    """Compare the peak of memory while many cycles are watched with that of few."""
    peaks = []
    for n_cycles in (few, few, many):  # the first for what is imported and compiled
        with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
            day = draw_day(load(MEMORY_ROBOT), 0, cycle_s=6.0)
            write_campaign(Path(folder), day, f"period_s = {day.cycle_s}")
            log = Path(folder) / "live.csv"
            _write_log(log, day, n_cycles)
            tracemalloc.start()
            for _ in _news(Path(folder), log):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    return peaks[2] / peaks[1]


def _write_log(log: Path, day: Day, n_cycles: int) -> None:
    hours, t = begin_day(day), 0.0
    with log.open("w") as file:
        file.write(log_heading(day.robot))
        for _ in range(n_cycles):
            q, tau = next_cycle(hours)
            file.write(log_lines(t, q, tau))
            t += day.cycle_s


def _watched_logs(folder: Path, day: Day, at: int, before: FloatArray, after: FloatArray) -> Iterator[Verdict]:
    """Work a morning whose load changes after `at` cycles, and watch its log."""
    write_campaign(folder, day, f"period_s = {day.cycle_s}")
    log, hours, t = folder / "live.csv", begin_day(day), 0.0
    with log.open("w") as file:
        file.write(log_heading(day.robot))
        for n in range(at + AFTER):
            q, tau = next_cycle(hours, before if n < at else after)
            file.write(log_lines(t, q, tau))
            t += day.cycle_s
        file.write(log_lines(t, q[:100], tau[:100]))
    yield from _news(folder, log)


def _news(folder: Path, log: Path) -> Iterator[Verdict]:
    """Watch a log as the command does."""
    campaign = open_campaign(folder)
    session = begin_session(open_basis(campaign))
    source = open_source(campaign, log, {})
    for batch in source.news():
        for samples, name, t in batch.cycles:
            yield take(session, samples, process=batch.process, log=name, t=t, clock=t).verdict
        write_state(session, source.data())


def _step(at: int, mass: float) -> LoadAt:
    return lambda n: mass if n >= at else 0.0


def _verdicts(day: Day, n_cycles: int, *, load_at: LoadAt = lambda _: 0.0, pause: int = -1) -> Iterator[Verdict]:
    """Work a day, and judge its cycles without writing logs."""
    what = watched(day.robot, day.names, day.beta, 3.0 * day.white)
    rows = Rows(dead_zone=0.01 * day.robot.limits.velocity, settling=0.08)
    hours, detector = begin_day(day), begin(what.groups)
    for n in range(n_cycles):
        if n == pause:
            stand(hours, BREAK_S)
        q, tau = next_cycle(hours, tool_load(day, load_at(n)))
        found = features(what, cycle_equations(what, cycle_samples(q, tau), rows))
        detector, verdict = observe(detector, found, after_break=n == pause)
        yield verdict
