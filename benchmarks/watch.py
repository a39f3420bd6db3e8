"""Benchmark of the watch: detection of changed loads, false alarms on healthy days, memory, and recursion speed.

The logs are of simulated working days of a repeated process.
"""

import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.watch.session import begin_session, open_basis, take
from excitor.experiments.watch.sources import open_source, write_state
from excitor.identify.change import LEARN, Verdict, begin, cycle_equations, features, observe, watched
from excitor.identify.recursive import eigenvalues, start, update, update_many
from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import with_friction_width

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
        "drift": f"{1e3 * DRIFT * RATED:g} g a cycle is reported after (cycles): {drift_told(robot, seeds)}",
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
    """Compute the share of mornings in which a step is flagged within two cycles, for the smallest detectable step."""
    found = 0
    for seed in range(seeds):
        at = LEARN + 10 + seed
        day = draw_day(robot, seed)
        verdicts = list(_verdicts(day, at + 2, load_at=_step(at, share * RATED)))
        found += any(verdict.alarms for verdict in verdicts[at:])
    return found / seeds


def drift_told(robot: Robot, seeds: int) -> list[int]:
    """Count the cycles until a slowly growing load is reported, -1 where it was not in 300."""
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


@dataclass(frozen=True, eq=False, slots=True)
class Day:
    """A process, its robot, and the model on file."""

    robot: Robot
    true: Robot
    chi: FloatArray  # (n_params,), cold
    names: tuple[str, ...]  # of the model on file
    beta: FloatArray
    motion: Motion  # of one cycle
    warm_up: FloatArray  # (n_joints,), s
    white: FloatArray  # (n_joints,)
    seed: int

    def __post_init__(self) -> None:
        freeze(self, chi="n_params", beta="n_base", warm_up="n_joints", white="n_joints")

    @property
    def cycle_s(self) -> float:
        """Duration of a cycle, s."""
        return len(self.motion) / LOG_HZ


def _write_log(log: Path, day: Day, n_cycles: int) -> None:
    hours, t = begin_day(day), 0.0
    with log.open("w") as file:
        file.write(log_heading(day.robot))
        for _ in range(n_cycles):
            q, tau = next_cycle(hours)
            file.write(log_lines(t, q, tau))
            t += day.cycle_s


def _watched_logs(folder: Path, day: Day, at: int, before: FloatArray, after: FloatArray) -> Iterator[Verdict]:
    """Simulate a morning whose load changes after `at` cycles, and watch its log."""
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
    """Simulate a day, and evaluate its cycles without writing logs."""
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


LOG_HZ = 100.0
WIDTH = 0.002  # rad/s, over which friction changes its sign
MODEL_ERROR = 0.03  # of each parameter on file
WHITE, SLOW = 0.004, 0.002  # of the largest torque in the cycle; the slow part changes within SLOW_S
SLOW_S = 90.0
DIFFER = 2e-4  # rad: how cycles differ in where they go
ENCODER = 2.0 * np.pi / 65536 / 100  # rad
STRIBECK, STRIBECK_SPEED = 0.15, 0.05  # of Coulomb friction, rad/s: in no model
VISCOUS_LOSS, COULOMB_LOSS = 0.3, 0.1  # of friction when warm
LOWPASS_HZ = 20.0  # of a campaign's positions: moves of this process take about a second
WARM_UP_S = (1500.0, 3000.0)
HALL = 0.03  # of friction, over a day of 24 h
NO_LOAD = np.zeros(10)


@dataclass(slots=True)
class Hours:
    """State of a simulated day, which is processed cycle by cycle."""

    day: Day
    rng: np.random.Generator
    t: float  # s since the morning
    warmth: FloatArray  # (n_joints,): 0 cold, 1 as warm as it gets
    slow: FloatArray


def draw_day(robot: Robot, seed: int, *, cycle_s: float = 12.0) -> Day:
    """Draw a process of six moves through random poses, how the joints warm up, and the errors of the model."""
    rng = np.random.default_rng([seed, 0x646179])
    true = with_friction_width(robot, WIDTH)
    base = base_parameters(robot)
    chi = prior(robot)
    beta = base.values(chi)
    motion = _process(robot, rng, cycle_s)
    size = np.abs(inverse_dynamics(true, motion, chi)).max(axis=0)
    error = 1.0 + MODEL_ERROR * rng.normal(size=len(beta))
    warm_up = rng.uniform(*WARM_UP_S, size=robot.n_joints)
    names = tuple(layout(robot).names[k] for k in base.kept)
    return Day(robot, true, chi, names, beta * error, motion, warm_up, WHITE * size, seed)


def begin_day(day: Day, *, seed: int = 0) -> Hours:
    """Return the state in the morning, with a cold robot."""
    cold = np.zeros(day.robot.n_joints)
    return Hours(day, np.random.default_rng([day.seed, seed, 1]), 0.0, cold, cold)


def stand(hours: Hours, seconds: float) -> None:
    """Simulate a break: the robot cools."""
    hours.t += seconds
    hours.warmth = hours.warmth * np.exp(-seconds / hours.day.warm_up)


def next_cycle(hours: Hours, load: FloatArray = NO_LOAD) -> tuple[FloatArray, FloatArray]:
    """Simulate one more cycle with a load (10,) beside the robot's own; return its logged q and τ."""
    day, rng = hours.day, hours.rng
    n = len(day.motion)
    motion = _differing(day.motion, rng)
    chi = _friction_at(hours)
    link = layout(day.robot).link(day.robot.tool.link)
    chi[link] += load
    tau = inverse_dynamics(day.true, motion, chi) + _stribeck(day, motion, chi)
    decay = np.exp(-day.cycle_s / SLOW_S)
    before = hours.slow
    share = SLOW / WHITE * day.white
    hours.slow = decay * before + np.sqrt(1.0 - decay**2) * share * rng.normal(size=len(share))
    ramp = np.linspace(0.0, 1.0, n)[:, None]
    tau = tau + before * (1.0 - ramp) + hours.slow * ramp + day.white * rng.normal(size=tau.shape)
    hours.t += day.cycle_s
    hours.warmth = 1.0 - (1.0 - hours.warmth) * np.exp(-day.cycle_s / day.warm_up)
    return np.round(motion.q / ENCODER) * ENCODER, tau


def cycle_samples(q: FloatArray, tau: FloatArray, *, rate: float = LOG_HZ) -> Samples:
    """Differentiate a cycle's positions."""
    dq = differentiate(q, sample_rate_hz=rate)
    return Samples("process", Motion(q, dq, differentiate(dq, sample_rate_hz=rate)), tau, rate)


def tool_load(day: Day, mass: float) -> FloatArray:
    """Parameters of a ball of steel held before the tool's flange, (10,), in the last link's frame."""
    frame = day.robot.tool.T_link_frame
    c = frame[:3, 3] + frame[:3, :3] @ np.array([0.02, -0.01, 0.06])
    radius = (abs(mass) / (4.0 / 3.0 * np.pi * 7800.0)) ** (1.0 / 3.0)
    inertia = mass * (0.4 * radius**2 * np.eye(3) + (c @ c) * np.eye(3) - np.outer(c, c))
    return np.array([*inertia[np.triu_indices(3)], *(mass * c), mass])


def write_campaign(folder: Path, day: Day, cut: str) -> None:
    """Write a campaign with the day's model on file; `cut` is how its process is cut, such as `cycle_s = 10.0`."""
    names = [f"q{k + 1}" for k in range(day.robot.n_joints)], [f"m{k + 1}" for k in range(day.robot.n_joints)]
    signals = "".join(
        f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\ncolumns = {json.dumps(columns)}\n'
        for kind, unit, columns in (("position", "rad", names[0]), ("torque", "N m", names[1]))
    )
    run = f'[[run]]\nname = "process"\nlog = "morning.csv"\n{cut}\n'
    processing = f"[processing]\nlowpass_hz = {LOWPASS_HZ}\n"
    (folder / "campaign.toml").write_text(f'robot = "{day.robot.name}"\n[log]\ntime = "t"\n{signals}{run}{processing}')
    sigma = np.abs(day.beta) * MODEL_ERROR + 1e-3
    params = layout(day.robot)
    model = {
        "schema": 1,
        "robot": day.robot.name,
        "parameters": [
            {"name": name, "unit": params.units[params.index(name)], "value": value, "sigma": s}
            for name, value, s in zip(day.names, day.beta.tolist(), sigma.tolist(), strict=True)
        ],
        "covariance": np.diag(sigma**2).tolist(),
        "weights": [
            {"joint": joint, "run": 0, "sigma": 3.0 * s}
            for joint, s in zip(day.robot.joint_names, day.white.tolist(), strict=True)
        ],
        "standard": {},
    }
    (folder / "model.json").write_text(json.dumps(model))


def log_lines(t: float, q: FloatArray, tau: FloatArray) -> str:
    """Write samples as lines of a log, from time t on."""
    rows = np.column_stack([t + np.arange(len(q)) / LOG_HZ, q, tau])
    return "".join(",".join(f"{x:.7f}" for x in row) + "\n" for row in rows)


def log_heading(robot: Robot) -> str:
    """Write the line of headings."""
    joints = range(1, robot.n_joints + 1)
    return ",".join(["t", *(f"q{k}" for k in joints), *(f"m{k}" for k in joints)]) + "\n"


def _process(robot: Robot, rng: np.random.Generator, cycle_s: float) -> Motion:
    """Plan six poses and back, at rest in each, so fast that a joint reaches half its speed."""
    n_moves, n = 6, round(cycle_s * LOG_HZ)
    limits = np.clip(robot.limits.position, -np.pi, np.pi)
    middle, half = limits.mean(axis=1), 0.3 * np.ptp(limits, axis=1)
    most = 0.5 * robot.limits.velocity * (cycle_s / n_moves - 0.3) / 1.875
    poses = [middle + half * rng.uniform(-1.0, 1.0, robot.n_joints)]
    for _ in range(n_moves - 1):
        aim = middle + half * rng.uniform(-1.0, 1.0, robot.n_joints)
        poses.append(poses[-1] + np.clip(aim - poses[-1], -most, most))
    poses[-1] = np.clip(poses[-1], poses[0] - most, poses[0] + most)
    poses.append(poses[0])
    t = np.arange(n) / LOG_HZ
    move_s = cycle_s / n_moves
    k = np.minimum((t / move_s).astype(int), n_moves - 1)
    s = np.clip((t - k * move_s) / (move_s - 0.3), 0.0, 1.0)
    stations = np.array(poses)
    step = stations[k + 1] - stations[k]
    scale = 1.0 / (move_s - 0.3)
    inside = (s < 1.0)[:, None]
    shape = (s**3 * (10.0 - 15.0 * s + 6.0 * s**2))[:, None]
    speed = (30.0 * s**2 * (1.0 - s) ** 2)[:, None] * scale * inside
    change = (60.0 * s * (1.0 - s) * (1.0 - 2.0 * s))[:, None] * scale**2 * inside
    return Motion(stations[k] + step * shape, step * speed, step * change)


def _differing(motion: Motion, rng: np.random.Generator) -> Motion:
    """Add slow sines of random size to a cycle's motion."""
    n, joints = motion.q.shape
    w = 2.0 * np.pi * LOG_HZ / n
    t = np.arange(n) / LOG_HZ
    q, dq, ddq = motion.q.copy(), motion.dq.copy(), motion.ddq.copy()
    for k in (1, 2, 5):
        a, b = DIFFER / k * rng.normal(size=(2, joints))
        s, c = np.sin(k * w * t)[:, None], np.cos(k * w * t)[:, None]
        q += a * s + b * (c - 1.0)
        dq += k * w * (a * c - b * s)
        ddq -= (k * w) ** 2 * (a * s + b * c)
    return Motion(q, dq, ddq)


def _friction_at(hours: Hours) -> FloatArray:
    """Return the present friction: it falls while joints warm up, and follows the ambient temperature."""
    day, warm = hours.day, hours.warmth
    chi = day.chi.copy()
    hall = 1.0 + HALL * np.sin(2.0 * np.pi * hours.t / 86400.0)
    for term, column in zip(day.robot.drive.friction, layout(day.robot).friction_columns, strict=True):
        j = int(np.argmax(np.abs(term.acts)))
        if term.model == "viscous":
            chi[column] *= hall * (1.0 - VISCOUS_LOSS * warm[j])
        elif term.model == "coulomb":
            chi[column] *= hall * (1.0 - COULOMB_LOSS * warm[j])
    return chi


def _stribeck(day: Day, motion: Motion, chi: FloatArray) -> FloatArray:
    """Return the Stribeck friction near standstill, which is in no model."""
    extra = np.zeros_like(motion.q)
    for term, column in zip(day.robot.drive.friction, layout(day.robot).friction_columns, strict=True):
        if term.model == "coulomb":
            v = motion.dq @ term.senses
            shape = np.tanh(v / WIDTH) * np.exp(-np.abs(v) / STRIBECK_SPEED)
            extra += STRIBECK * chi[column] * shape[:, None] * term.acts
    return extra
