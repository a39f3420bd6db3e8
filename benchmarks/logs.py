"""Benchmark of strangers' logs: arms of other simulators, written as CSV files, identified with nothing stated.

MuJoCo and pinocchio integrate random arms of six or seven joints under a PD servo that nobody tells us, with friction
of their own. Their logs have quantised encoders, uneven clocks, drifting and rippling torque sensors. Public recordings
are identified where they are found.
"""

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import IdentifiedModel, identify, judging_equations, write_model
from excitor.experiments.logs import band_findings, settle
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout
from tests.robots.test_codegen import run_c, run_python

GCC = shutil.which("gcc")
SLOWEST = 0.01  # rad/s of a joint that moves
STEP = 5e-4  # s of the simulators
RATE = 500.0  # Hz of the logs
PERIOD, HARMONICS = 10.0, 5
SECONDS = {"identify": 30.0, "validate": 15.0}
FIXED = (5.0, 10.0, 20.0, 40.0)  # Hz, of the low-passes that the default is compared with
NOISES = (0.01, 0.1)  # of each torque's rms
ARMS, DRAWS, STATED = 10, 8, 5  # a noise: draws of the sensors' errors, and bands stated within twice the best
DATA = Path(__file__).parents[2] / "shared" / "data"  # of the folder that a developer works in


Motion = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # times, positions, velocities, torques


@dataclass(frozen=True, slots=True)
class Arm:
    """A random arm: its URDF, and what a URDF does not hold."""

    urdf: str
    rotors: FloatArray  # kg m2, on the joint side
    viscous: FloatArray
    dry: FloatArray

    @property
    def n(self) -> int:
        """Number of its joints."""
        return len(self.rotors)


@dataclass(frozen=True, slots=True)
class Sensors:
    """Sensors of a log: what they add to positions and torques, and when they are read."""

    noise: float = 0.01  # of each torque's rms, white
    drift: float = 0.005  # of the same, a random walk's by the end
    chatter: float = 0.005  # of the same, at 70 Hz and more
    quantum: float = 2.0 * np.pi / 2**20  # rad
    jitter: bool = False  # whether the clock is late at times
    velocities: bool = False  # whether measured velocities stand beside


SENSORS = Sensors()


def run(full: bool = False) -> Report:
    """Measure random arms, evidence, and public recordings where they are; `full` takes all, else a tenth."""
    from benchmarks._evidence import evidence_figures, process_figures

    cases: list[Case] = []
    for seed in range(ARMS if full else 1):
        cases += [measure_arm(seed, noise, DRAWS) for noise in NOISES]
    exported = np.array([exported_errors(seed) for seed in range(ARMS if full else 1)])
    ratios = np.array([case.ratio for case in cases])
    widths, inside = (np.concatenate([getattr(case, name) for case in cases]) for name in ("widths", "inside"))
    caught, refused = sum(case.caught for case in cases), sum(case.refused for case in cases)
    figures = [
        Figure("logs.default_over_best.worst", float(ratios.max()), "", 1.2, "at most"),
        Figure("logs.default_over_best.median", float(np.median(ratios)), "", 1.2, "at most"),
        Figure("logs.coverage_percent", 100.0 * float(inside.mean()), "%", 96.35, "within", tolerance=3.35),
        Figure("logs.width_ratio", float(np.median(widths)), "", 1.5, "at most"),
        Figure(
            "logs.wrong_band_caught_percent", 100.0 * caught / sum(case.wrong for case in cases), "%", 100.0, "equal"
        ),
        Figure("logs.good_band_refused", refused, "", 0, "equal"),
        Figure("logs.exported_percent", float(exported[:, 0].max()), "%", 1.0, "at most"),
        Figure("logs.exported_c_apart", float(np.nanmax([0.0, *exported[:, 2]])), "", 1e-12, "at most"),
        Figure("logs.format_difference", format_difference(), "", 1e-9, "at most"),
        Figure("logs.identify_s", float(np.median([case.seconds for case in cases])), "s", 10.0, "at most"),
        *evidence_figures(full),
    ]
    public = {name: measure_public(name) for name in PUBLIC if (DATA / name).is_dir()}
    bars = {"xmate3": ("logs.xmate3_percent", 100.0, 5.0), "tx40": ("logs.tx40_delivered", 1.0, 0.068)}
    bars["qrc350"] = ("logs.qrc350_percent", 100.0, 10.0)
    for name, (error, _) in public.items():
        label, unit, bar = bars[name]
        figures.append(Figure(label, unit * error, "%" if unit > 1.0 else "", bar, "at most"))
    figures += process_figures(DATA / "qrc350") if (DATA / "qrc350").is_dir() else []
    chosen = {f"arm {case.seed}, {100 * case.noise:g} % noise": case.chosen for case in cases}
    chosen |= {name: choice for name, (_, choice) in public.items()}
    stuck = [round(float(x), 2) for x in exported[:, 1]]
    context = {"arms": len(cases) // len(NOISES), "chosen": chosen, "exported_percent_with_standstill": stuck}
    return Report("bench", "logs", figures, context)


@dataclass(frozen=True, slots=True)
class Case:
    """Results of one arm at one noise: errors over the best fixed band's, intervals, and stated bands."""

    seed: int
    noise: float
    ratio: float  # held-out error by default over that of the best fixed low-pass, on the same equations
    inside: FloatArray  # of each draw and base parameter: whether its interval holds the truth
    widths: FloatArray  # of each base parameter: half-width over 1.96 times the scatter
    wrong: int  # bands stated four times too wide or too narrow, ...
    caught: int  # ... and refused
    refused: int  # of those within twice
    seconds: float  # of CPU, of an identification
    chosen: str


def sensors_of(seed: int, noise: float) -> Sensors:
    """Choose sensors for an arm: every second clock is uneven, every third log has velocities."""
    quantum = 1e-4 if seed % 2 else 2.0 * np.pi / 2**20
    return Sensors(noise=noise, quantum=quantum, jitter=seed % 4 > 1, velocities=seed % 3 == 0)


def simulator_of(seed: int) -> str:
    """Choose the simulator of an arm: pinocchio for every fifth."""
    return "pinocchio" if seed % 5 == 4 else "mujoco"


@one_blas_thread()
def measure_arm(seed: int, noise: float, draws: int) -> Case:
    """Identify an arm by default and with fixed low-passes, on several draws of its sensors' errors."""
    arm, rng, simulator = random_arm(seed), np.random.default_rng(seed), simulator_of(seed)
    with tempfile.TemporaryDirectory(prefix="excitor-logs-") as name:
        folder, sensors = Path(name), sensors_of(seed, noise)
        motions = simulate_arm(arm, seed, simulator)
        values, widths, inside, found = [], [], [], None
        for draw in range(draws):
            write_campaign(folder, arm, motions, draw, sensors, extra="[identify]\nconsistent = false\n")
            begun = time.process_time()
            one = identify(open_campaign(folder))
            seconds = time.process_time() - begun
            found = found or one
            robot = load(str(folder / "arm.urdf"))  # whose terms are those that the simulator has
            stated = [one.estimate.names.index(layout(robot).names[k]) for k in base_parameters(robot).kept]
            values.append(one.estimate.values[stated])
            widths.append(0.5 * (one.intervals.high - one.intervals.low)[stated])
            inside.append(abs(values[-1] - truth(folder, arm)) <= widths[-1])
        write_campaign(folder, arm, motions, 0, sensors, extra="[identify]\nconsistent = false\n")
        assert found is not None
        assert found.campaign.band is not None
        fixed = {hz: _identified(folder, hz) for hz in FIXED}
        best = found.campaign.band.hz
        near = best * 2.0 ** rng.uniform(-1.0, 1.0, STATED)
        wrong = [hz for hz in (best / 4.0, best * 4.0) if hz < 0.49 * RATE]
        scatter = np.std(values, axis=0, ddof=1)
        return Case(
            seed=seed,
            noise=noise,
            ratio=_over_best(found, fixed),
            inside=np.concatenate(inside),
            widths=np.mean(widths, axis=0) / (1.96 * scatter),
            wrong=len(wrong),
            caught=sum(_refuses(folder, hz) for hz in wrong),
            refused=sum(_refuses(folder, float(hz)) for hz in near),
            seconds=seconds,
            chosen=f"{simulator}: {_chosen(found)}",
        )


@one_blas_thread()
def exported_errors(seed: int) -> tuple[float, float, float]:
    """Compare model.py with the simulator's torques on the motion that was not fitted, in percent; and with model.c.

    First where joints move: one that sticks needs any torque up to its dry friction, which is no function of its state.
    Then over all rows; then what model.c deviates by, of the torques' rms; NaN without gcc.
    """
    arm = random_arm(seed)
    motions = simulate_arm(arm, seed, simulator_of(seed))
    with tempfile.TemporaryDirectory(prefix="excitor-logs-") as name:
        folder = Path(name)
        write_campaign(folder, arm, motions, 0, sensors_of(seed, NOISES[0]))
        write_model(identify(open_campaign(folder)))
        t, q, dq, tau = motions["validate"]
        at = np.arange(round(1.0 / STEP), len(t) - 1, 7)
        states = list(zip(q[at], dq[at], (dq[at + 1] - dq[at]) / STEP, strict=True))
        forms = [("model.py", run_python), *([("model.c", run_c)] if GCC else [])]
        codes = [run((folder / form).read_text(), folder, arm.n) for form, run in forms]
        python, *c = (np.array([code(*state) for state in states]) for code in codes)
    size, error, moving = np.linalg.norm(tau[at]), python - tau[at], np.abs(dq[at]) > SLOWEST
    apart = float(np.abs(c[0] - python).max() / size * np.sqrt(tau[at].size)) if c else np.nan
    part = np.linalg.norm(error[moving]) / np.linalg.norm(tau[at][moving])
    return 100.0 * float(part), 100.0 * float(np.linalg.norm(error) / size), apart


def _chosen(found: IdentifiedModel) -> str:
    band = found.campaign.band
    assert band is not None
    width = found.campaign.content.processing.average_samples
    return f"{band.hz:g} Hz of {band.source}, torques to {band.explained_hz:g} Hz, means of {width} samples"


def _state(folder: Path, hz: float) -> OpenCampaign:
    campaign = open_campaign(folder)
    settings = campaign.content.processing.model_copy(update={"lowpass_hz": float(hz)})
    return replace(campaign, content=campaign.content.model_copy(update={"processing": settings}))


def _identified(folder: Path, hz: float) -> IdentifiedModel | None:
    """Identify with a fixed low-pass; None where the data refuse it."""
    try:
        return identify(_state(folder, hz))
    except ExcitorError:
        return None


def _over_best(found: IdentifiedModel, fixed: Mapping[float, IdentifiedModel | None]) -> float:
    """Error of the default over the best fixed one's, on the held-out equations of each fixed one, at its best."""
    ratios = {}
    for one in fixed.values():
        if one is not None and one.unseen is not None:
            y, runs = one.unseen.y, [one.samples[name] for name in one.unseen.runs]
            own = judging_equations(
                replace(one.campaign, robot=found.campaign.robot), runs
            )  # with its form of friction
            pairs = [(own, found.estimate), (one.unseen, one.estimate)]
            errors = [np.linalg.norm(y - each.W @ estimate.values) for each, estimate in pairs]
            ratios[float(errors[1] / np.linalg.norm(y))] = float(errors[0] / errors[1])
    return ratios[min(ratios)]


def _refuses(folder: Path, hz: float) -> bool:
    return bool(band_findings(settle(_state(folder, hz))[0]))


def format_difference() -> float:
    """Largest relative difference of base parameters from one log in CSV, npz, Parquet and MAT."""
    import pandas as pd
    from scipy.io import savemat

    arm = random_arm(2)
    with tempfile.TemporaryDirectory(prefix="excitor-logs-") as name:
        folder = Path(name)
        write_campaign(folder, arm, simulate_arm(arm, 2), 0, Sensors(jitter=True))
        text, found = (folder / "campaign.toml").read_text(), []
        for form in ("csv", "npz", "parquet", "mat"):
            for role in SECONDS:
                table = pd.read_csv(folder / f"{role}.csv")
                arrays = {column: table[column].to_numpy() for column in table}
                if form == "npz":
                    np.savez(folder / f"{role}.npz", **arrays)  # type: ignore[arg-type]
                elif form == "parquet":
                    table.to_parquet(folder / f"{role}.parquet")
                elif form == "mat":
                    savemat(str(folder / f"{role}.mat"), arrays)
            (folder / "campaign.toml").write_text(text.replace(".csv", f".{form}") + "[identify]\nconsistent = false\n")
            found.append(identify(open_campaign(folder)).estimate.values)
    return float(max(np.abs(one / found[0] - 1.0).max() for one in found))


def measure_public(name: str) -> tuple[float, str]:
    """Held-out error of a public recording by default, of the consistent model where there is one; and the choices."""
    with tempfile.TemporaryDirectory(prefix="excitor-logs-") as folder:
        found = identify(open_campaign(write_public(Path(folder) / name, name)))
    assert found.unseen is not None
    assert found.held_out is not None
    if name == "qrc350":
        return float(np.mean(found.held_out.model.mean_absolute)), _chosen(found)
    beta = found.estimate.values
    if found.consistent is not None:
        beta = base_parameters(found.campaign.robot).values(found.consistent.chi)
    error = np.linalg.norm(found.unseen.y - found.unseen.W @ beta) / np.linalg.norm(found.unseen.y)
    return float(error), _chosen(found)


def random_arm(seed: int) -> Arm:
    """Draw a serial arm of six or seven revolute joints; its bodies are clouds of points along the links."""
    rng = np.random.default_rng(seed)
    n = 6 + seed % 2
    lengths = np.linspace(0.34, 0.08, n) * rng.uniform(0.8, 1.2, n)
    masses = np.geomspace(9.0, 0.8, n) * rng.uniform(0.7, 1.3, n)
    links, joints = [_link("base", 4.0, np.zeros(3), np.eye(3) * 0.02)], []
    viscous, dry = np.geomspace(6.0, 0.4, n) * rng.uniform(0.7, 1.3, n), np.geomspace(7.0, 0.5, n)
    for j in range(n):
        points = rng.normal(size=(12, 3)) * 0.06 + [0.0, 0.0, 0.5 * lengths[j]]
        center, r = points.mean(axis=0), points - points.mean(axis=0)
        inertia = (np.sum(r**2) * np.eye(3) - r.T @ r) * masses[j] / len(points)
        links.append(_link(f"link{j + 1}", masses[j], center, inertia))
        turn = 0.0 if j == 0 else (1 if j % 2 else -1) * np.pi / 2.0
        offset = (0.0, 0.0, 0.15) if j == 0 else (0.0, 0.0, lengths[j - 1])
        joints.append(
            f'<joint name="j{j + 1}" type="revolute"><parent link="{"base" if j == 0 else f"link{j}"}"/>'
            f'<child link="link{j + 1}"/><origin xyz="{" ".join(map(str, offset))}" rpy="{turn} 0 0"/>'
            '<axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="3" effort="400"/></joint>'
        )
    urdf = f'<robot name="arm{seed}">{"".join(links)}{"".join(joints)}</robot>'
    return Arm(urdf, np.geomspace(0.8, 0.02, n), viscous, dry * rng.uniform(0.7, 1.3, n))


def _link(name: str, mass: float, center: FloatArray, inertia: FloatArray) -> str:
    terms = {a + b: inertia["xyz".index(a), "xyz".index(b)] for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")}
    values = " ".join(f'i{key}="{value:.12g}"' for key, value in terms.items())
    place = " ".join(f"{x:.12g}" for x in center)
    return (
        f'<link name="{name}"><inertial><origin xyz="{place}"/><mass value="{mass:.12g}"/>'
        f"<inertia {values}/></inertial></link>"
    )


def reference(n: int, seed: int, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate positions and velocities of a Fourier series that starts from rest within a second."""
    rng = np.random.default_rng(seed)
    w = 2.0 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    a, b = rng.normal(size=(2, HARMONICS, n)) / np.arange(1, HARMONICS + 1)[:, None] ** 0.5
    scale = 0.9 / np.sqrt((a**2 + b**2).sum(axis=0))
    angle = np.outer(t, w)
    q = (np.sin(angle) @ a + np.cos(angle) @ b) * scale
    dq = (np.cos(angle) * w @ a - np.sin(angle) * w @ b) * scale
    s = np.clip(t, 0.0, 1.0)[:, None]
    blend, slope = s**3 * (10.0 - 15.0 * s + 6.0 * s**2), np.where(s < 1.0, 30.0 * s**2 * (1.0 - s) ** 2, 0.0)
    return blend * q, blend * dq + slope * q


def mujoco_arm(arm: Arm, seed: int, seconds: float) -> Motion:
    """Integrate an arm in MuJoCo: times, positions, velocities and motors' torques at each of its steps."""
    import mujoco

    head = '<mujoco><compiler fusestatic="true" balanceinertia="false"/></mujoco></robot>'
    model = mujoco.MjModel.from_xml_string(arm.urdf.replace("</robot>", head))
    model.opt.timestep = STEP
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.dof_armature[:], model.dof_damping[:], model.dof_frictionloss[:] = arm.rotors, arm.viscous, arm.dry
    model.dof_solref[:], model.dof_solimp[:, :2] = (2.0 * STEP, 1.0), 0.99  # as stiff as it goes: dry within 0.02 rad/s
    model.jnt_limited[:] = 0
    data = mujoco.MjData(model)
    full = np.empty((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, full, data.qM) if not hasattr(data, "M") else mujoco.mj_fullM(model, data, full)
    kp, kd = _gains(np.diag(full))
    t = STEP * np.arange(round(seconds / STEP))
    wanted, speed = reference(arm.n, seed, t)
    q, dq, tau = (np.empty((len(t), arm.n)) for _ in range(3))
    for k in range(len(t)):
        q[k], dq[k] = data.qpos, data.qvel
        tau[k] = kp * (wanted[k] - q[k]) + kd * (speed[k] - dq[k]) + data.qfrc_bias
        data.qfrc_applied[:] = tau[k]
        mujoco.mj_step(model, data)
    return t, q, dq, tau


def pinocchio_arm(arm: Arm, seed: int, seconds: float) -> Motion:
    """Integrate an arm in pinocchio: semi-implicit Euler, dry friction as a steep tanh."""
    import pinocchio as pin

    model = pin.buildModelFromXML(arm.urdf)
    model.armature = arm.rotors
    data = model.createData()
    kp, kd = _gains(np.diag(pin.crba(model, data, np.zeros(arm.n))))
    t = STEP * np.arange(round(seconds / STEP))
    wanted, speed = reference(arm.n, seed, t)
    q, dq, tau = (np.zeros((len(t), arm.n)) for _ in range(3))
    for k in range(len(t)):
        tau[k] = kp * (wanted[k] - q[k]) + kd * (speed[k] - dq[k]) + pin.nle(model, data, q[k], dq[k])
        lost = arm.viscous * dq[k] + arm.dry * np.tanh(dq[k] / 0.01)
        ddq = pin.aba(model, data, q[k], dq[k], tau[k] - lost)
        if k + 1 < len(t):
            dq[k + 1] = dq[k] + STEP * ddq
            q[k + 1] = q[k] + STEP * dq[k + 1]
    return t, q, dq, tau


def _gains(inertia: FloatArray) -> tuple[FloatArray, FloatArray]:
    w = 2.0 * np.pi * 6.0  # of the servo, rad/s
    return inertia * w**2, 1.4 * inertia * w


SIMULATORS = {"mujoco": mujoco_arm, "pinocchio": pinocchio_arm}


def measured(motion: Motion, sensors: Sensors, seed: int) -> Motion:
    """Add the sensors' errors to a motion, at the rate of the log."""
    t, q, dq, tau = motion
    rng = np.random.default_rng(seed)
    size = np.sqrt(np.mean(tau**2, axis=0))
    stride = round(1.0 / (RATE * STEP))
    at = np.arange(0, len(t) - 2, stride)
    if sensors.jitter:
        at = at + rng.choice([0, 0, 0, 1, 2], size=len(at))
        at = np.delete(at, rng.integers(10, len(at), size=len(at) // 100))
    q = np.round(q[at] / sensors.quantum) * sensors.quantum
    walk = np.cumsum(rng.normal(size=(len(at), q.shape[1])), axis=0) / np.sqrt(len(at))
    walk -= walk.mean(axis=0)  # else nobody could say what the true offset is
    chatter = np.sin(2.0 * np.pi * 73.0 * t[at, None] + rng.uniform(0.0, 6.0, q.shape[1])) * np.sqrt(2.0)
    errors = sensors.noise * rng.normal(size=q.shape) + sensors.drift * walk + sensors.chatter * chatter
    return t[at], q, dq[at] + 2e-3 * rng.normal(size=q.shape), tau[at] + size * errors


def simulate_arm(arm: Arm, seed: int, simulator: str = "mujoco") -> dict[str, Motion]:
    """Simulate both runs of an arm."""
    motions = [(role, 10 * seed + k, seconds) for k, (role, seconds) in enumerate(SECONDS.items())]
    return {role: SIMULATORS[simulator](arm, number, seconds) for role, number, seconds in motions}


def write_campaign(
    folder: Path, arm: Arm, motions: Mapping[str, Motion], draw: int = 0, sensors: Sensors = SENSORS, extra: str = ""
) -> Path:
    """Write an arm's URDF, two logs and a campaign of `[log]` and `[[run]]` alone; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arm.urdf").write_text(arm.urdf)
    names = [f"j{j + 1}" for j in range(arm.n)]
    heads = {"position": "q", "velocity": "dq", "torque": "tau"}
    headings = ",".join(["t", *(f"{head}_{name}" for head in heads.values() for name in names)])
    for number, (role, motion) in enumerate(motions.items()):
        columns = measured(motion, sensors, 10 * draw + number)
        np.savetxt(folder / f"{role}.csv", np.column_stack(columns), "%.9g", ",", header=headings, comments="")
    units = {"position": "rad", "velocity": "rad/s", "torque": "N m"}
    signals = [
        f'[[log.signals]]\nkind = "{kind}"\nside = "joint"\nunit = "{unit}"\n'
        f"columns = {[f'{heads[kind]}_{name}' for name in names]}\n".replace("'", '"')
        for kind, unit in units.items()
        if kind != "velocity" or sensors.velocities
    ]
    runs = [f'[[run]]\nname = "{role}"\nlog = "{role}.csv"\nrole = "{role}"\n' for role in SECONDS]
    text = 'robot = "arm.urdf"\n[log]\ntime = "t"\n' + "".join(signals) + "".join(runs) + extra
    (folder / "campaign.toml").write_text(text)
    return folder


def truth(folder: Path, arm: Arm) -> FloatArray:
    """Compute the base parameters of an arm as its simulator had them."""
    robot = load(str(folder / "arm.urdf"))
    chi = robot.chi.copy()
    for letters, values in (("Ia", arm.rotors), ("Fv", arm.viscous), ("Fc", arm.dry)):
        for j, value in enumerate(values):
            chi[layout(robot).index(f"{letters}{j + 1}")] = value
    return base_parameters(robot).values(chi)


_SEVEN = (
    """name = "seven"
[[joint]]
name = "j1"
mdh = { alpha_deg = 0, d = 0, theta_deg = 0, r = 0.3415 }
"""
    + "".join(
        f'[[joint]]\nname = "j{j}"\nmdh = {{ alpha_deg = {90 - 180 * (j % 2 == 0)}, d = 0, theta_deg = 0, r = {r} }}\n'
        for j, r in ((2, 0.0), (3, 0.394), (4, 0.0), (5, 0.366), (6, 0.0), (7, 0.2503))
    )
    + '[drive]\nrotors = "motors"\n[friction]\nterms = ["viscous", "coulomb", "offset"]\n'
)
_JOINTS = '["Joint_1", "Joint_2", "Joint_3", "Joint_4", "Joint_5", "Joint_6"]'


def _signals(side: str, kinds: Mapping[str, tuple[str, str, str]]) -> str:
    """Write the entries of signals: unit, columns and file of each kind."""
    entries = [
        f'[[log.signals]]\nkind = "{kind}"\nside = "{side}"\nunit = "{unit}"\ncolumns = {columns}\n'
        + (f'file = "{file}"\n' if file else "")
        for kind, (unit, columns, file) in kinds.items()
    ]
    return "".join(entries)


def _halves(log: str, at: float) -> str:
    run = f'[[run]]\nname = "{{}}"\nlog = "{log}"\nrole = "{{}}"\n{{}} = {at}\n'
    return run.format("first", "identify", "to_s") + run.format("last", "validate", "from_s")


PUBLIC = {
    "xmate3": (
        'robot = "seven.toml"\n[log]\nheader = false\nsample_rate_hz = 1000\n'
        + _signals(
            "joint",
            {
                "position": ("rad", "[1, 2, 3, 4, 5, 6, 7]", ""),
                "velocity": ("rad/s", "[1, 2, 3, 4, 5, 6, 7]", "excit_vel_record.txt"),
                "torque": ("N m", "[1, 2, 3, 4, 5, 6, 7]", "excit_torque_record.txt"),
            },
        )
        + _halves("excit_ang_record.txt", 12.0)
    ),
    "tx40": (
        'robot = "tx40"\n[log]\nsample_rate_hz = 5000\n'
        + _signals("motor", {"position": ("rad", _JOINTS, ""), "torque": ("N m", _JOINTS, "curr_data.csv")})
        + _halves("pos_read_data.csv", 4.7)
    ),
    "qrc350": (
        'robot = "qrc350"\n[log]\ntime = "time_vec_save"\n'
        + _signals(
            "joint", {"position": ("rad", '["q_meas.average"]', ""), "torque": ("N m", '["tau_meas.average"]', "")}
        )
        + '[[run]]\nname = "A"\nlog = "trajectory_a.mat"\n'
        + '[[run]]\nname = "C"\nlog = "trajectory_c.mat"\nrole = "validate"\n'
    ),
}


def write_public(folder: Path, name: str) -> Path:
    """Copy a public recording beside a campaign that states nothing of its processing."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (DATA / name).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "seven.toml").write_text(_SEVEN)
    (folder / "campaign.toml").write_text(PUBLIC[name])
    return folder
