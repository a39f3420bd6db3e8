"""Figures of logs beside those of random arms: verdicts, loads in one of two runs, doubt about current laws, processes.

Verdicts are those of all verbs; processes are public logs as they are, through `excitor identify`.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.logs import Arm, random_arm, reference
from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure
from excitor.experiments.identification import IdentifiedModel, identify
from excitor.experiments.studies.qrc350 import absolute_errors, read_recordings, reduced
from excitor.identify.band import RawRun, low_passed
from excitor.identify.between import changes
from excitor.identify.intervals import honest_intervals
from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.identify.signals import block_means
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import declared_names
from excitor.robots.load import load
from excitor.robots.robot import Motion, Robot
from tests.identify.test_motor_side import doubtful_arm, doubtful_motion, inside_of_draws, load_is_inside
from tests.verdicts import CAMPAIGNS, disagreements, not_monotone

TABLES, LOADED, HEALTHY, DRAWS = 1000, 200, 300, 200
SECONDS, RATE, THINNED = 20.0, 500.0, 5  # of each run; samples an equation is the mean of
NOISE, WITHIN = 0.05, 0.15  # share of each torque's rms; of the load's mass
PROCESS = """robot = "qrc350"
[matlab]
q = "q_meas.average"
dq = "dq_meas.average"
ddq = "ddq_meas.average"
tau = "tau_meas.average"
variance = "tau_meas.variance"
time = "time_vec_save"
[[run]]
name = "process"
log = "identification.mat"
[[run]]
name = "desired"
log = "validation.mat"
role = "validate"
matlab = { q = "deg_q", dq = "deg_dq", ddq = "deg_ddq", tau = "tau", time = "time_vec_save" }
"""
IN_PROCESS = '[identify]\nmode = "in-process"\n'


def evidence_figures(full: bool) -> list[Figure]:
    """Measure all, or a tenth."""
    part = 1 if full else 10
    made = CAMPAIGNS if full else CAMPAIGNS[:2]
    conflicts = len(not_monotone(TABLES // part)[0]) + sum(len(conflicts_of(make)) for make in made)
    named = [names_load(seed) for seed in range(LOADED // part)]
    alarms = sum(bool(found_between(seed, 0.0)[1]) for seed in range(1000, 1000 + HEALTHY // part))
    arm, motion, draws = doubtful_arm(), doubtful_motion(), DRAWS // part
    inside = inside_of_draws(arm, motion, draws, lambda r, estimate, run: honest_intervals(r, estimate, [run]))
    masses = [load_is_inside(arm, seed) for seed in range(draws)]
    near = 4.85 if full else 10.0  # of few draws the share itself is known to ten points
    return [
        Figure("logs.verdict_conflicts", float(conflicts), "", 0.0, "equal"),
        Figure("logs.mixed_load_named_percent", 100.0 * float(np.mean(named)), "%", 95.0, "at least"),
        Figure("logs.mixed_load_false", float(alarms), "", float(6 // part), "at most"),
        Figure("logs.law_doubt_parameters_percent", 100.0 * float(inside.mean()), "%", 94.85, "within", tolerance=near),
        Figure("logs.law_doubt_mass_percent", 100.0 * float(np.mean(masses)), "%", 94.85, "within", tolerance=near),
    ]


def conflicts_of(make) -> list[str]:  # type: ignore[no-untyped-def]
    """List where the verbs disagree about a campaign."""
    with tempfile.TemporaryDirectory(prefix="excitor-verdict-") as name:
        make(Path(name))
        return [f"{make.__name__}: {sentence}" for sentence in disagreements(Path(name))[0]]


def names_load(seed: int) -> bool:
    """Draw a load of 1 to 3 kg in one of two runs; find whether it is named with its mass."""
    mass = float(np.random.default_rng([seed, 1]).uniform(1.0, 3.0))
    loaded, found = found_between(seed, mass)
    if not found or found[0].kind != "load":
        return False
    sign = 1.0 if found[0].run == loaded else -1.0  # more than the other, or the other less
    return bool(abs(sign * found[0].values[0] / mass - 1.0) <= WITHIN)


@one_blas_thread()
def found_between(seed: int, mass: float):  # type: ignore[no-untyped-def]
    """Compare two runs of an arm, torques by pinocchio, encoders quantised: the loaded run, and what differs."""
    arm, rng = random_arm(seed % 10), np.random.default_rng([seed, 2])
    robot, loaded = robot_of(arm), int(rng.integers(2))
    center, size = np.array([0.0, 0.0, 0.1]) + rng.uniform(-0.08, 0.08, 3), mass * np.array([1.0, 1.2, 0.8]) * 3e-3
    runs = []
    for number in range(2):
        own = (mass, center, np.diag(size)) if mass and number == loaded else None
        runs.append(measured_run(f"run {number}", arm, 10 * seed + number, own, rng))
    return f"run {loaded}", changes(robot, runs, Rows())


def robot_of(arm: Arm) -> Robot:
    """Load an arm's URDF."""
    with tempfile.TemporaryDirectory(prefix="excitor-arm-") as name:
        path = Path(name) / "arm.urdf"
        path.write_text(arm.urdf)
        return load(str(path))


def measured_run(
    name: str, arm: Arm, seed: int, body: tuple[float, FloatArray, FloatArray] | None, rng: np.random.Generator
) -> Samples:
    """Sample an arm along a motion that it follows exactly, with a load on its last link or without."""
    import pinocchio as pin

    model = pin.buildModelFromXML(arm.urdf)
    model.armature = arm.rotors
    if body is not None:
        model.inertias[arm.n] += pin.Inertia(*body)
    data, t = model.createData(), np.arange(round(SECONDS * RATE)) / RATE
    q, dq = reference(arm.n, seed, t)
    ddq = np.gradient(dq, 1.0 / RATE, axis=0)
    rigid = np.array([pin.rnea(model, data, *state).copy() for state in zip(q, dq, ddq, strict=True)])
    tau = rigid + arm.viscous * dq + arm.dry * np.tanh(dq / 0.01)
    tau += NOISE * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
    quantum = 2.0 * np.pi / 2**20
    motion = low_passed(RawRun(np.round(q / quantum) * quantum, tau, RATE), 20.0)
    kept = slice(round(RATE), -round(0.2 * RATE))  # what the filter's ends spoil
    q, dq, ddq, tau = (block_means(x[kept], THINNED) for x in (motion.q, motion.dq, motion.ddq, tau))
    return Samples(name, Motion(q, dq, ddq), tau, RATE / THINNED)


def process_figures(data: Path) -> list[Figure]:
    """Identify both processes beside the study: errors are mean |τ - τ̂| / mean |τ| of joints that move, on average."""
    recordings = read_recordings(data)
    study = {number: reduced(recordings, number, "validation", preset=number == 1).estimate for number in (1, 2)}
    first, second = (identified(data, number, more) for number, more in ((1, IN_PROCESS), (2, "")))
    unseen = recordings.equations["process 2 validation"]
    theirs = absolute_errors(unseen, np.array([study[2].value(name) for name in unseen.names]))[1]
    assert second.held_out is not None
    joints = [unseen.joint_names.index(name) for name in second.held_out.joints]
    ratio = 100.0 * second.held_out.model.mean_absolute_mean / float(theirs[joints].mean())
    apart = abs(first.estimate.condition / study[1].condition - 1.0)
    names = declared_names(recordings.robot)
    alike = {names[name] for name in first.estimate.names} == set(study[1].names)
    return [
        Figure("logs.process2_condition", second.estimate.condition, "", 3.5, "at most"),
        Figure("logs.process2_parameters", float(len(second.estimate.names)), "", 20.0, "at most"),
        Figure("logs.process2_error_ratio", ratio, "", 1.05, "at most"),
        Figure("logs.process1_condition_apart", apart, "", 0.02, "at most"),
        Figure("logs.process1_same_set", float(alike), "", 1.0, "equal"),
    ]


def identified(data: Path, number: int, more: str = "") -> IdentifiedModel:
    """Identify a process by a campaign."""
    with tempfile.TemporaryDirectory(prefix="excitor-") as name:
        folder = Path(name)
        (folder / "campaign.toml").write_text(PROCESS + more)
        for kind in ("identification", "validation"):
            shutil.copyfile(data / f"{kind}_process{number}.mat", folder / f"{kind}.mat")
        return identify(open_campaign(folder))
