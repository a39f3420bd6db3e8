"""Drive gains from runs without and with a weighed load: reading, estimate, answer, and the robot file that holds it.

The runs are those of a gains campaign, of a `schedule = "payload-pair"`, or any logs whose [[run]] says whether the
load was on. Signals are motors' currents, or torques that the controller computed from them by gains of its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from excitor.experiments.campaign import FILE as CAMPAIGN
from excitor.experiments.campaign import WEIGH, InvalidCampaign, OpenCampaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.design_json import read_design
from excitor.experiments.files import write_atomically
from excitor.experiments.identification import findings_data, provenance, steps_data
from excitor.experiments.logs import dead_zone, is_loaded, read_run_aligned, settle
from excitor.experiments.plan import known_of_load
from excitor.experiments.setup import loaded
from excitor.identify import drive_gains as gains
from excitor.identify.currents import in_amperes
from excitor.identify.diagnose import Finding
from excitor.identify.log import CURRENT
from excitor.identify.regression import Decimation, Rows, near_reversals
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, finite, one_blas_thread
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import motor_torques
from excitor.robots.lint import suspicions
from excitor.robots.load import catalog_names
from excitor.robots.parameters import with_friction
from excitor.robots.robot import FrictionTerm, Motion, Robot

FILES = ("gains.json", "gains.toml", "gains.html")
REACH = 1.959963984540054  # standard deviations of a 95 % interval
UNCERTAIN = 0.1  # relative, of a maker's gain that is not answered, where the robot file states nothing else
RATE = 20.0  # rows a second: columns and signals are averaged alike, and the gap is of each row's noise
NEAR = 3  # samples about a reversal, whose instant the log shows no better
DELAY, MOST_DELAYS = 0.002, 6  # s: steps of the search for the delay, and how many
TURNS = 3.0  # of a motor, from which its ripple is told from gravity
CLEAR = 3.0  # standard deviations of a delay that counts
SURE = 0.2  # relative σ of a factor that says which way runs were loaded, and in which unit the mass is
APART = 3.0  # times what a run's own model leaves, that one model of all runs may leave in it
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class GainRuns:
    """Runs of a campaign, as the estimate takes them."""

    robot: Robot  # bare
    kind: str  # of the signals: "current" or "torque"
    laws: tuple[gains.Law, ...]  # believed
    runs: tuple[gains.DriveRun, ...]
    samples: Mapping[str, Samples]
    rate: float  # Hz, of the samples
    delay: float = 0.0  # s, of signals behind the motion


@dataclass(frozen=True, eq=False, slots=True)
class IdentifiedGains:
    """Gains drive by drive, beside those of least squares, and what they rest on."""

    campaign: OpenCampaign
    read: GainRuns
    result: gains.DriveGains
    plain: gains.GainFit  # least squares, of the same equations
    findings: tuple[Finding, ...]
    weighed: float  # relative standard deviation of the load's mass, which all gains share

    @property
    def answered(self) -> tuple[gains.Gain, ...]:
        """Gains that are answered."""
        return tuple(gain for gain in self.result.gains if gain.answered)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        sigma = {gain.drive: float(np.hypot(gain.relative_sigma, self.weighed)) for gain in self.answered}
        found = [
            f"{gain.drive} {100.0 * ((gain.factor or 0.0) - 1.0):+.1f} ± {100.0 * REACH * sigma[gain.drive]:.1f} %"
            for gain in self.answered
        ]
        refused = [gain.drive for gain in self.result.gains if not gain.answered]
        sentence = f"Gains differ from the believed ones by {', '.join(found)}" if found else "No gain is answered"
        return sentence + (f"; refused: {', '.join(refused)}" if found and refused else "")

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data as in gains.json."""
        read, found, content = self.read, self.result, self.campaign.content
        mass = None if content.payload is None else content.payload.mass
        return {
            "schema": 1,
            "kind": "excitor gains",
            "robot": read.robot.name,
            "signals": read.kind,
            "torque_delay_s": read.delay,
            "headline": self.headline,
            "load": {"mass": mass, "sigma_percent": 100.0 * self.weighed, "known": content.gains.known},
            "drives": [drive_data(self, j) for j in range(len(found.gains))],
            **{name: finite(getattr(found, name)) for name in ("gap_of_all", "gap_of_columns")},
            "gap": finite(found.fit.gap),
            "least_gap": found.settings.gap,
            "removed": list(found.removed),
            "left_out": list(found.left_out),
            "runs": [{"name": run.name, "loaded": run.load is not None} for run in read.runs],
            "findings": findings_data(self.findings),
            "law": law_lines(self),
            "processing": steps_data([step for samples in read.samples.values() for step in samples.steps]),
            "provenance": provenance(self.campaign),
        }


@one_blas_thread()
def identify_gains(campaign: OpenCampaign, tell: Tell = lambda _: None) -> IdentifiedGains:
    """Identify the drives' gains from a campaign's runs; ExcitorError where nothing sets or shows their scale."""
    check_load(campaign)
    settings, rows = campaign.content.gains, Rows(dead_zone=dead_zone(campaign))
    try:
        read, system = timed(read_gain_runs(campaign, tell), rows)
    except ValueError as error:
        raise ExcitorError(f"{campaign.folder / CAMPAIGN}: {error}") from None
    tell(f"signals show torques {1e3 * read.delay:.2g} ms late")
    plain = gains.known_load_fit(system)
    check_scale(campaign, system, plain)
    trust = gains.Trust(settings.gap, settings.relative_sigma_percent / 100.0, ratio=settings.essential_ratio)
    result = gains.drive_gains(system, trust)
    findings = (*order_findings(campaign, read), *disagreements(read, result), *loss_findings(read.robot))
    for finding in findings:
        tell(f"{finding.level}: {finding}")
    plain, payload = gains.known_load_fit(result.system), campaign.content.payload
    return IdentifiedGains(campaign, read, result, plain, findings, payload.percent / 100.0 if payload else 0.0)


def timed(read: GainRuns, rows: Rows) -> tuple[GainRuns, gains.GainSystem]:
    """Find the delay of signals behind the motion that leaves the least residual, one for all; and the equations.

    The motion is moved, as it is smooth, and rows stay: noise of moved signals would differ from delay to delay. The
    likelihood's negative logarithm, Σ n_j log s_j, is a parabola about its least value. A delay that is not significant
    counts as 0.
    """
    made: dict[float, tuple[GainRuns, gains.GainSystem, float]] = {}
    read, rows = replace(read, runs=tuple(_without_standstill(run, rows.dead_zone) for run in read.runs)), Rows()

    def cost(delay: float) -> float:
        runs = tuple(replace(run, motion=_later(run.motion, delay * read.rate)) for run in read.runs)
        system = gains.gain_system(read.robot, runs, read.laws, rows=rows)
        value = float(np.sum(np.log(gains.scaled_noise(system)[system.drive])))
        made[delay] = replace(read, runs=runs, delay=delay), system, value
        return value

    at, step = 0.0, DELAY
    for _ in range(MOST_DELAYS):
        trials = [at - step, at, at + step]
        costs = [made[d][2] if d in made else cost(d) for d in trials]
        best = int(np.argmin(costs))
        at = trials[best]
        if best == 1:
            break
    a, b, c = costs
    bend = max(a - 2.0 * b + c, 1e-300)  # step² over the delay's variance
    if best == 1:
        cost(at := at + 0.5 * step * (a - c) / bend)
    if abs(at) < CLEAR * step / np.sqrt(bend):
        at = 0.0  # which the first trials hold
    return made[at][:2]


def _without_standstill(run: gains.DriveRun, dead_zone: FloatArray | None) -> gains.DriveRun:
    """Leave out the samples in which joints hardly move, whatever delay is tried."""
    still = np.zeros(run.motion.dq.shape, dtype=bool) if dead_zone is None else np.abs(run.motion.dq) <= dead_zone
    return replace(run, left_out=still if run.left_out is None else run.left_out | still)


def _later(motion: Motion, samples: float) -> Motion:
    """Move a motion to later by a part of a sample, by splines."""
    t = np.arange(len(motion), dtype=float)
    moved = (CubicSpline(t, x)(t - samples) if samples else x for x in (motion.q, motion.dq, motion.ddq))
    return Motion(*moved)


def _refused(campaign: OpenCampaign, sentence: str) -> InvalidCampaign:
    return InvalidCampaign(campaign.folder / CAMPAIGN, [sentence])


def check_load(campaign: OpenCampaign) -> None:
    """Refuse a campaign without a weighed load, or whose load is surely in another unit."""
    payload, known = campaign.content.payload, campaign.content.gains.known
    if payload is None:
        raise _refused(campaign, f"payload: is missing; {WEIGH}")
    if known != "mass" and "center" not in payload.model_fields_set:
        raise _refused(campaign, f'gains.known: is "{known}", but [payload] states no center')
    if known == "all" and not any(payload.inertia):
        raise _refused(campaign, 'gains.known: is "all", but [payload] states no inertia')
    odd = [one.sentence for one in suspicions(loaded(campaign.robot, payload)) if one.where == "payload"]
    if odd and payload.mass > 100.0:
        raise _refused(campaign, f"payload.mass: {odd[0]}")


def _in_grams(mass: float) -> str:
    return f"; if {mass:g} is in grams, write mass = {1e-3 * mass:g}"


def read_gain_runs(campaign: OpenCampaign, tell: Tell = lambda _: None) -> GainRuns:
    """Read every moving run for its motion, and again for its drives' signals, which no law has changed."""
    bare = replace(campaign.robot, payload=None)
    believed = bare if bare.drive.has_current_law else in_amperes(bare)
    carrying = loaded(believed, campaign.content.payload)
    if campaign.content.processing.lowpass_hz is None and any(run.program is None for run in campaign.content.run):
        settled = settle(replace(campaign, robot=believed))[0]
        campaign = replace(campaign, content=settled.content, band=settled.band)
    moving = [run for run in campaign.content.run if not run.static]
    if len(moving) < 2:
        count = f"{len(moving)} run{'s' * (len(moving) != 1)}"
        raise _refused(campaign, f"run: there is {count} of motion; gains need one without and one with the load")
    assert carrying.payload is not None
    known = known_of_load(campaign.content.gains.known)
    phi = np.where(known, carrying.payload.phi, 0.0)
    load = gains.KnownLoad(f"{phi[9]:g} kg", carrying.payload.link, phi, known)
    unit = np.tile([0.0, 1.0, 0.0, 0.0], (bare.n_joints, 1))
    signals = replace(believed, drive=replace(believed.drive, torque_from_current=unit))
    runs, samples = [], {}
    for run in moving:
        on = is_loaded(campaign, run)
        planned = _about(campaign, carrying if on else believed)
        aligned = None if run.program is None else read_run_aligned(planned, run, unknown_load=True)[1]
        still = None if aligned is None else replace(aligned, delay=0.0)  # it is found with the gains
        found, _ = read_run_aligned(_about(campaign, signals), run, unknown_load=True, found=still)
        if not found.static:
            v = motor_torques(believed, found.tau)
            runs.append(gains.DriveRun(run.name, found.motion, v, load if on else None, *thinned(bare, found)))
            samples[run.name] = found
    tell(f"read {len(runs)} runs, {sum(run.load is not None for run in runs)} of them with the load")
    bare = with_ripple(bare, runs)
    kind, rate = kind_of(samples), min(found.sample_rate_hz for found in samples.values())
    return GainRuns(bare, kind, believed_laws(campaign, kind, runs), tuple(runs), samples, rate)


def with_ripple(robot: Robot, runs: Sequence[gains.DriveRun]) -> Robot:
    """Add a torque once a turn of each motor that turns `TURNS` times: unmodelled, it would count as load."""
    N, friction = robot.drive.motor_from_joint, list(robot.drive.friction)
    turned = np.max([np.ptp(run.motion.q @ N.T, axis=0) for run in runs], axis=0) / (2.0 * np.pi)
    for j in np.flatnonzero((turned > TURNS) & ~(N[:, robot.mechanism.prismatic] != 0.0).any(axis=1)):
        if not any(term.model.startswith("ripple") and np.allclose(term.senses, N[j]) for term in friction):
            friction += [FrictionTerm(f"ripple {k} {j + 1}", f"ripple-{k}", N[j], N[j]) for k in ("sin", "cos")]
    return with_friction(robot, friction)


def kind_of(samples: Mapping[str, Samples]) -> str:
    """Find what the logs hold of the drives: currents, or torques by the controller's own gains."""
    currents = {any(step.name == CURRENT for step in found.steps) for found in samples.values()}
    if len(currents) > 1:
        raise ExcitorError("some logs hold currents and others torques; expected one kind in all runs")
    return "current" if currents == {True} else "torque"


ALLOWED = ("wrong unit", "payload", "torque scale")  # causes that gains which are off explain


def _about(campaign: OpenCampaign, robot: Robot) -> OpenCampaign:
    """Read with a robot; alignment's torque checks are of believed gains, and do not refuse."""
    identify = campaign.content.identify
    allowed = identify.model_copy(update={"allow": [*identify.allow, *ALLOWED]})
    changed = {"identify": allowed, "task": "gains"}  # no stated load is subtracted
    return replace(campaign, robot=robot, content=campaign.content.model_copy(update=changed))


def thinned(robot: Robot, found: Samples) -> tuple[Decimation, BoolArray]:
    """Average blocks of samples, which spread nothing; and mark samples about reversals, (n_samples, n_joints)."""
    factor = max(1, int(found.sample_rate_hz / RATE))

    def mean(x: FloatArray) -> FloatArray:
        n = len(x) // factor
        return np.asarray(x[: n * factor].reshape(n, factor, *x.shape[1:]).mean(axis=1))

    return mean, near_reversals(robot, found.motion.dq, found.sample_rate_hz, within=NEAR / found.sample_rate_hz)


def believed_laws(campaign: OpenCampaign, kind: str, runs: Sequence[gains.DriveRun]) -> tuple[gains.Law, ...]:
    """Laws as believed: of torques the factor 1; of currents the robot file's, else as the prior model's torques."""
    robot, powers = replace(campaign.robot, payload=None), tuple(campaign.content.gains.powers)
    if kind == "torque":
        return tuple(gains.Law((1,), np.ones(1)) for _ in robot.joint_names)
    if robot.drive.has_current_law:
        law = robot.drive.torque_from_current
        own = [powers or tuple(int(k) for k in np.flatnonzero(row)) for row in law]
        return tuple(
            gains.Law(terms, np.array([row[k] if k < len(row) else 0.0 for k in terms]))
            for terms, row in zip(own, law, strict=True)
        )
    v = np.concatenate([run.signal for run in runs])
    tau = np.concatenate([motor_torques(robot, inverse_dynamics(robot, run.motion)) for run in runs])
    rough = np.sum(v * tau, axis=0) / np.maximum(np.sum(v * v, axis=0), 1e-300)
    weak = [name for name, g in zip(robot.joint_names, rough, strict=True) if not g > 0.0]
    if weak:
        missing = f"state torque_from_current under [drive] for {', '.join(weak)}, right to a few tens of percent"
        raise ExcitorError(f"{robot.name}: there is no current law, and the prior model suggests none; {missing}")
    terms = powers or (1,)
    return tuple(gains.Law(terms, np.where(np.array(terms) == 1, g, 0.0)) for g in rough)


def check_scale(campaign: OpenCampaign, system: gains.GainSystem, plain: gains.GainFit) -> None:
    """Refuse runs that were exchanged, and a mass in another unit: all gains tell it alike."""
    found = [gains.factor_of(system, plain, j) for j in system.drives]
    sure = [factor for factor, relative in found if relative < SURE]
    if sure and max(sure) < 0.0:
        doubt = "the runs with and without the load seem to be exchanged; check `loaded` of each [[run]], or its log"
        raise _refused(campaign, f"run: all gains come out negative, so {doubt}")
    if sure and min(sure) > 50.0 and campaign.content.payload is not None:
        grams = _in_grams(campaign.content.payload.mass)
        raise _refused(campaign, f"payload.mass: all gains come out {np.median(sure):.3g} times too large{grams}")


def order_findings(campaign: OpenCampaign, read: GainRuns) -> Iterator[Finding]:
    """Find whether linear drift cancels: bare and loaded runs are made at the same time on average."""
    names = [run.name for run in read.runs]
    if (campaign.folder / DESIGN).is_file():
        order = [str(name) for name in read_design(campaign.folder)["order"]]
        missing = [name for name in order if name not in names]
        if set(names) <= set(order) and missing:
            remedy = "record all runs, or expect gains that are off by what friction drifted"
            sentence = f"the runs {', '.join(missing)} of the plan have no log, so that drift does not cancel"
            yield Finding("doubtful", "order", sentence, remedy, {"missing": ", ".join(missing)})
            return
        names = sorted(names, key=lambda name: order.index(name) if name in order else len(order))
    loads = {run.name: run.load is not None for run in read.runs}
    on, place = np.array([loads[name] for name in names]), np.arange(len(names), dtype=float)
    if on.any() and not on.all() and abs(float(place[on].mean() - place[~on].mean())) > 0.5:
        listed = ", ".join("loaded" if one else "bare" for one in on)
        remedy = "make them in the order bare, loaded, loaded, bare"
        sentence = f"the runs are {listed} in this order, so that what friction drifts meanwhile counts as load"
        yield Finding("doubtful", "order", sentence, remedy, {"order": listed})


def disagreements(read: GainRuns, result: gains.DriveGains) -> Iterator[Finding]:
    """Find runs that one model of all runs explains much worse than a model of their own: another robot or load."""
    system, fit = result.system, result.fit
    y = system.V @ fit.gains - system.known
    weight = 1.0 / fit.noise[system.drive]
    n = system.n_robot
    for k, run in enumerate(read.runs):
        rows = system.run == k
        W, target = system.W[rows] * weight[rows, None], y[rows] * weight[rows]
        left = target - W @ fit.parameters
        norms = np.linalg.norm(W[:, :n], axis=0)
        own = W[:, :n] / np.where(norms > 0.0, norms, 1.0)
        whole = target + system.known[rows] * weight[rows]  # the load regroups with the link that carries it
        alone = whole - own @ np.linalg.lstsq(own, whole, rcond=1e-9)[0]
        ratio = float(np.linalg.norm(left)) / max(float(np.linalg.norm(alone)), 1e-300)
        if ratio > APART:
            sentence = f"run {run.name!r} is explained {ratio:.2g} times worse with all others than by itself"
            remedy = "check that all runs are of one robot, with one and the same load, and as warm"
            yield Finding("doubtful", "runs disagree", sentence, remedy, {"run": run.name, "ratio": ratio})


def loss_findings(robot: Robot) -> Iterator[Finding]:
    """Remark that gears lose torque, which counts with the gain."""
    lossy = [name for name, R in zip(robot.joint_names, robot.drive.efficiency, strict=True) if R < 1.0]
    if lossy:
        sentence = f"gears of {', '.join(lossy)} lose torque by load, which the gains' model has not"
        yield Finding("doubtful", "gear losses", sentence, "expect gains to be off by a few percent", {})


def drive_data(result: IdentifiedGains, j: int) -> dict[str, Any]:
    """Write one drive's answer beside what was believed, and what least squares would have given."""
    gain, law, found = result.result.gains[j], result.read.laws[j], result.result
    plain = gains.factor_of(found.system, result.plain, j)[0] if j in found.system.drives else None
    relative, factor = float(np.hypot(gain.relative_sigma, result.weighed)), gain.factor
    values, spread = gain.values, None
    if values is not None and gain.sigma is not None:
        spread = np.hypot(gain.sigma, result.weighed * np.abs(values)).tolist()
    return {
        **{name: getattr(gain, name) for name in ("drive", "answered", "reason", "factor")},
        "powers": list(law.powers),
        "believed": law.prior.tolist(),
        "values": None if values is None else values.tolist(),
        "sigma": spread,
        "relative_sigma": finite(relative),
        "interval": None if factor is None else [factor * (1.0 - REACH * relative), factor * (1.0 + REACH * relative)],
        "least_squares": finite(plain),
        "load_share": gain.share,
    }


def law_lines(result: IdentifiedGains) -> dict[str, Any] | None:
    """Write the law of every motor, N m/A, and its relative deviation; None where a refused one has no believed law.

    Torques that a controller computed by gains of its own are corrected alike; its logs need `scale` as well.
    """
    robot, found = result.read.robot, result.result.gains
    known = robot.drive.torque_from_current
    stated = robot.drive.current_sigma
    law, sigma = [], []
    for j, gain in enumerate(found):
        row = known[j].copy()
        if gain.values is not None and result.read.kind == "torque":
            row = row * float(gain.values[0])
        elif gain.values is not None:
            row = np.zeros(4)
            row[list(result.read.laws[j].powers)] = gain.values
        own = float(np.hypot(gain.relative_sigma, result.weighed))
        law.append([float(x) for x in row])
        sigma.append(own if gain.answered else float(stated[j]) if stated is not None else UNCERTAIN)
    if not np.isfinite(law).all() or not result.answered:
        return None
    return {"torque_from_current": law, "torque_from_current_sigma": [float(f"{x:.3g}") for x in sigma]}


def overlay_text(result: IdentifiedGains) -> str:
    """Write a robot file that puts the identified law over the robot; empty where there is none to write."""
    law = law_lines(result)
    if law is None:
        return ""
    source = result.campaign.content.robot
    base = source if source in catalog_names() else Path(source).as_posix()
    rows = ",\n".join(f"  [{', '.join(f'{x:.8g}' for x in row)}]" for row in law["torque_from_current"])
    refused = [gain.drive for gain in result.result.gains if not gain.answered]
    still = f"# Not answered, and as before: {', '.join(refused)}.\n" * bool(refused)
    return (
        f"# {result.headline}.\n# Written by excitor gains; name this file as the robot of later campaigns.\n"
        f'base = "{base}"\n\n{still}[drive]\ntorque_from_current = [\n{rows},\n]\n'
        f"torque_from_current_sigma = {law['torque_from_current_sigma']}\n"
    )


def scale_line(result: IdentifiedGains) -> str:
    """Write what logs of torques need besides, to be read with the identified gains."""
    if result.read.kind != "torque" or not result.answered:
        return ""
    factors = [1.0 if gain.values is None else float(f"{gain.values[0]:.6g}") for gain in result.result.gains]
    return f"The logs hold torques by the controller's own gains: in [[log.signals]] write scale = {factors}"


def gains_page(data: Mapping[str, Any], sentence: str = "") -> str:
    """Write the page of gains, given as in gains.json."""
    from excitor.experiments.report.html import page

    return page(
        "gains.html", {**data, "scale": sentence, "version": data["provenance"]["excitor"]}, styles=("report.css",)
    )


def write_gains(result: IdentifiedGains) -> list[Path]:
    """Write gains.json, gains.toml where a law is known, and the page, last."""
    data, folder = result.to_json(), result.campaign.folder
    page = gains_page(data, scale_line(result))
    texts = (json.dumps(data, indent=1, allow_nan=False) + "\n", overlay_text(result), page)
    written = []
    for name, text in zip(FILES, texts, strict=True):
        if text:
            write_atomically(folder / name, text)
            written.append(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    return written
