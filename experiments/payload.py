"""Payload campaign: prior of the arm, estimate of the load and its covariance, and comparison with the rating."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign, PayloadRating
from excitor.experiments.identification import findings_data, provenance, steps_data
from excitor.experiments.logs import filter_sentences, is_loaded, read_run_aligned, settle
from excitor.experiments.model import Model
from excitor.experiments.setup import assumed_noise, known_arm, learned_robot
from excitor.experiments.setup import loaded as with_load
from excitor.identify.currents import law_sentence, stated_doubt
from excitor.identify.diagnose import Finding
from excitor.identify.load import equations as load_equations
from excitor.identify.load import fit as load_fit
from excitor.identify.load.poses import Poses, StaticLoad, poses_from_samples, static_load
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray, finite
from excitor.robots.base import random_motion
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError, choice
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.robot import Robot

LEAST_SPREAD = 1e-3  # of a sample's noise: a pose's mean torque is never surer
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class PredictionErrors:
    """Prediction error of torques in a run, motors' side, N m referred to the links."""

    run: str
    loaded: bool
    unseen: bool
    rms: FloatArray  # (n_axes,) of the residuals
    size: FloatArray  # (n_axes,) of the torques


@dataclass(frozen=True, eq=False, slots=True)
class PayloadRuns:
    """All runs of a payload campaign, torques on the motors' side."""

    robot: Robot  # bare
    training: tuple[load_equations.LoadRun, ...]
    unseen: tuple[load_equations.LoadRun, ...]
    poses: tuple[Poses, ...]
    samples: Mapping[str, Samples]
    loaded: Mapping[str, bool]  # run -> whether the load was on
    alignments: Mapping[str, Alignment]
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Approach:
    """One of the three published ways to a load: its answer and its training residuals, or why there is none."""

    number: int
    load: load_fit.LoadAtCenter | None
    rms: Mapping[str, float]  # axis -> of the loaded runs' torques, N m on the link side
    refusal: str = ""


APPROACHES = {
    1: "all base parameters of the loaded robot, without gear losses, less the known arm",
    2: "the load and friction with the known arm, without gear losses",
    3: "the load, friction and gear losses with the known arm",
}


@dataclass(frozen=True, eq=False)
class IdentifiedLoad:
    """An identified load and its inputs."""

    campaign: OpenCampaign
    runs: PayloadRuns
    arm: load_equations.Arm
    arm_source: str
    findings: tuple[Finding, ...]
    estimate: load_fit.LoadEstimate | None  # none from poses alone
    body: load_fit.LoadEstimate | None  # physically consistent
    refusal: str  # why there is no such body, where there is none
    static: StaticLoad | None
    static_refusal: str
    predicted: tuple[PredictionErrors, ...]
    approaches: tuple[Approach, ...] = ()
    approach: int | None = None  # which of them is the answer

    @property
    def robot(self) -> Robot:
        """The bare robot."""
        return self.runs.robot

    @property
    def link(self) -> int:
        """Index of the link that carries the load."""
        return self.robot.tool.link

    @cached_property
    def model(self) -> Model:
        """Build the model as in model.json."""
        return load_model(self)

    @property
    def load(self) -> load_fit.LoadAtCenter | None:
        """The load at its centre: a body's values where there is one, with the free estimate's intervals."""
        chosen = self.body or self.estimate
        return None if chosen is None else load_fit.at_center(chosen.phi, self.covariance)

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the ten parameters, (10, 10)."""
        assert self.estimate is not None
        return self.estimate.covariance[:10, :10]


def identify_payload(campaign: OpenCampaign, tell: Tell = lambda _: None) -> IdentifiedLoad:
    """Identify the load of a payload campaign; ExcitorError, or RankDeficient where the data do not determine it."""
    arm, source = known_arm(campaign)
    tell(source)
    runs = read_payload_runs(campaign, tell)
    loaded = [*(run.loaded for run in runs.training), *(poses.loaded for poses in runs.poses)]
    if not any(loaded):  # a bare one may be missing where the arm is known
        raise ExcitorError('run: none with role = "identify" has the load on; record at least one')
    estimate = body = approach = None
    findings: tuple[Finding, ...] = ()
    refusal = ""
    predicted: tuple[PredictionErrors, ...] = ()
    approaches: tuple[Approach, ...] = ()
    if runs.training:
        asked = campaign.content.identify.approach
        task, estimate, findings = estimated(runs, arm, asked)
        for finding in findings:
            tell(f"{finding.level}: {finding}")
        check_sign(campaign, estimate)
        weighed = load_fit.reweighed(runs.training, estimate)
        approach = 1 if asked == 1 else 2 if task.efficiency is not None else 3
        approaches = compared(task, weighed, estimate)
        if asked == 1:
            estimate = from_base(task, weighed, estimate)
        body, refusal = consistent(task, weighed, estimate, asked)
        predicted = tuple(compare_predicted(task, runs, run, estimate) for run in (*runs.training, *runs.unseen))
    static, static_refusal = (None, "") if not runs.poses else from_poses(campaign, runs, arm, estimate)
    given = (findings, estimate, body, refusal, static, static_refusal, predicted, approaches, approach)
    return IdentifiedLoad(campaign, runs, arm, source, *given)


def check_sign(campaign: OpenCampaign, estimate: load_fit.LoadEstimate) -> None:
    """Refuse a load that surely weighs less than nothing: what counts as bare carried it."""
    mass, reach = float(estimate.phi[9]), load_fit.REACH * float(estimate.sigma[9])
    if mass + 2.0 * reach < 0.0:
        doubt = "the runs with and without the load seem to be exchanged; check `loaded` of each [[run]], or its log"
        sentence = f"run: the load's mass comes out as {mass:.3g} ± {reach:.2g} kg, so {doubt}"
        raise InvalidCampaign(campaign.folder / FILE, [sentence])


def compared(
    task: load_equations.LoadTask, runs: Sequence[load_equations.LoadRun], estimate: load_fit.LoadEstimate
) -> tuple[Approach, ...]:
    """Take all three approaches of [Swevers2002] to the same rows; what one does not determine is its refusal."""
    own = 3 if task.efficiency is None else 2
    loaded = [run for run in runs if run.loaded]

    def fitted(known: FloatArray | None) -> Approach:
        other = replace(task, efficiency=known)
        found = load_fit.identify_load(other, runs)
        left = load_fit.residual_rms(other, loaded, found.values)
        return Approach(2 if known is not None else 3, found.load, left)

    def answered(number: int) -> Approach:
        if number == own:
            return Approach(own, estimate.load, load_fit.residual_rms(task, loaded, estimate.values))
        if number == 1:
            base = load_fit.load_from_base(task, runs)
            return Approach(1, base.load, base.rms)
        return fitted(np.ones(task.robot.n_joints) if number == 2 else None)

    made = []
    for number in APPROACHES:
        try:
            made.append(answered(number))
        except ExcitorError as error:
            made.append(Approach(number, None, {}, str(error)))
    return tuple(made)


def from_base(
    task: load_equations.LoadTask, runs: Sequence[load_equations.LoadRun], estimate: load_fit.LoadEstimate
) -> load_fit.LoadEstimate:
    """Put the first approach's load in place of the second's, whose friction stays."""
    base = load_fit.load_from_base(task, runs)
    values, C = estimate.values.copy(), estimate.noise_covariance.copy()
    values[:10], C[:10], C[:, :10] = base.phi, 0.0, 0.0
    C[:10, :10] = base.covariance
    known = replace(estimate, values=values, noise_covariance=C, arm_covariance=np.zeros_like(C))
    return replace(known, method="base parameters", load=base.load, rms=base.rms)


def estimated(
    runs: PayloadRuns, arm: load_equations.Arm, approach: int | None = None
) -> tuple[load_equations.LoadTask, load_fit.LoadEstimate, tuple[Finding, ...]]:
    """Estimate the load, weighted by noise, then by residuals; bare runs update the arm within its covariance.

    `approach` 1 and 2 have no gear losses, 3 has them; with none of them they are in where they are found.
    """
    every = list(runs.samples.values())
    doubt = stated_doubt(runs.robot, every)
    robot = replace(runs.robot, drive=replace(runs.robot.drive, current_sigma=None if doubt is None else doubt[0]))
    learn = bool(arm.covariance.any()) and any(not run.loaded for run in runs.training)

    def fitted(known: FloatArray | None) -> tuple[load_equations.LoadTask, load_fit.LoadEstimate]:
        task = load_equations.load_task(robot, runs.training, arm=arm, efficiency=known, learn_arm=learn)
        first = load_fit.identify_load(task, runs.training)
        return task, load_fit.identify_load(task, load_fit.reweighed(runs.training, first), start=first.values)

    said = [] if doubt is None else [("current laws", law_sentence(doubt[0], doubt[2]))]
    try:
        task, estimate = fitted(None)
        found, words = load_fit.found_losses(estimate)
        said.append(("losses", words))
    except (ExcitorError, RankDeficient):
        if approach == 3 or (robot.drive.efficiency != 1.0).any():
            raise
        found = False
        said.append(("losses", "the motions do not tell losses of gears apart, so that none are assumed"))
    if approach in (1, 2) or (approach is None and not found and (robot.drive.efficiency == 1.0).all()):
        task, estimate = fitted(np.ones(robot.n_joints))
    weighed = load_fit.reweighed(runs.training, estimate)
    notes = (Finding("note", what, sentence, "", {}) for what, sentence in said)
    return task, estimate, (*load_fit.diagnose_load(task, weighed, estimate.values), *notes)


def consistent(
    task: load_equations.LoadTask,
    runs: Sequence[load_equations.LoadRun],
    estimate: load_fit.LoadEstimate,
    approach: int | None = None,
) -> tuple[load_fit.LoadEstimate | None, str]:
    """Find the physically consistent load nearest to the data, or return why there is none: nothing is projected."""
    if estimate.load.consistency.holds:
        return estimate, ""
    if approach == 1:
        return None, "base parameters, less the arm's, leave no body; approaches 2 and 3 search among bodies alone"
    try:
        return load_fit.identify_consistent_load(task, runs), ""
    except (SolverError, RankDeficient) as error:
        return None, str(error)


def from_poses(
    campaign: OpenCampaign, runs: PayloadRuns, arm: load_equations.Arm, estimate: load_fit.LoadEstimate | None
) -> tuple[StaticLoad | None, str]:
    """Estimate the load from held poses, with the gears' losses estimated from motions."""
    robot = runs.robot
    efficiency = robot.drive.efficiency if estimate is None else estimate.efficiency
    if not any(poses.loaded for poses in runs.poses):
        return None, "no poses were held with the load"
    spread = pose_noise(campaign, robot)
    try:
        first = static_load(robot, runs.poses, sigma=spread, arm=arm, efficiency=efficiency)
        spread = spread * np.clip(first.rms, LEAST_SPREAD, 1.0)  # more than that, residuals widen intervals themselves
        return static_load(robot, runs.poses, sigma=spread, arm=arm, efficiency=efficiency), ""
    except RankDeficient as error:
        if estimate is None:
            raise
        return None, str(error)


def pose_noise(campaign: OpenCampaign, robot: Robot) -> FloatArray:
    """Return motors' torque noise relative to each other; its absolute level follows from the residuals of poses."""
    given = campaign.content.noise
    sigma = assumed_noise(robot, given.rate_hz, given.inflation).sigma if given.torque is None else given.torque
    if len(sigma) != robot.n_joints:
        raise ExcitorError(f"noise.torque: has {len(sigma)} entries, expected one for each of {robot.n_joints} joints")
    return np.asarray(np.sqrt(carried_from_joints(robot) ** 2 @ np.square(sigma)))


def compare_predicted(
    task: load_equations.LoadTask, runs: PayloadRuns, run: load_equations.LoadRun, estimate: load_fit.LoadEstimate
) -> PredictionErrors:
    """Compare a run's torques with those predicted by the estimate."""
    system = load_equations.equations(task, [run])
    left = system.tau - load_equations.motor_torque(system, estimate.values)[0]
    axes = np.flatnonzero(task.axes)

    def rms(values: FloatArray) -> FloatArray:
        return np.array([np.sqrt(np.mean(values[system.axis == axis] ** 2)) for axis in axes])

    unseen = any(run is other for other in runs.unseen)
    return PredictionErrors(run.run, run.loaded, unseen, rms(left), rms(system.tau))


NO_ARM = "a payload campaign identifies what the robot carries; its arm's model is the prior"


def load_model(result: IdentifiedLoad) -> Model:
    """Describe a load as in model.json, with its inputs."""
    robot, estimate = result.robot, result.estimate
    phi, C = parameters_of_load(result)
    link = robot.mechanism.link_names[result.link]
    return Model(
        robot_name=robot.name,
        task="payload",
        refusal=NO_ARM,
        payload={"link": link, "frame": "link", "phi": phi.tolist(), "covariance": C.tolist()},
        load=load_data(result),
        arm={"source": result.arm_source, "corrected": estimate is not None and "arm 1" in estimate.names},
        findings=findings_data(result.findings),
        processing=steps_data(result.runs.steps),
        provenance=provenance(result.campaign),
        robot=robot,
    )


def load_data(result: IdentifiedLoad) -> dict[str, Any]:
    """Write the load's estimates and their comparison with the ratings."""
    estimate, (phi, C) = result.estimate, parameters_of_load(result)
    found = ratings(result.robot, result.campaign.content.rated, phi, C, inertia=estimate is not None)
    quantities = [asdict(one) | {"answer": one.answer, "sentence": one.sentence} for one in found]
    return {
        "method": "poses held" if estimate is None else "motion",
        "at_center": center_data(result),
        "consistent": result.body is not None or estimate is None,
        "refusal": result.refusal or None,
        "static": static_data(result),
        "efficiency": efficiency_data(result),
        "unknowns": unknowns_data(result),
        "condition": None if estimate is None else finite(estimate.condition),
        "predicted": predicted_data(result),
        "approach": result.approach,
        "approaches": [approach_data(one, result.approach) for one in result.approaches],
        "answer": answer_sentence(center_data(result)),
        "rating": {"answer": answer_of(found), "quantities": quantities},
    }


def efficiency_data(result: IdentifiedLoad) -> dict[str, float]:
    """Write the gears' efficiency for the joints where it was estimated."""
    estimate = result.estimate
    if estimate is None:
        return {}
    joints = enumerate(result.robot.joint_names)
    return {name: float(estimate.efficiency[k]) for k, name in joints if f"R {name}" in estimate.names}


def approach_data(one: Approach, chosen: int | None) -> dict[str, Any]:
    """Write one approach's load and residuals."""
    values = () if one.load is None else zip(load_fit.CENTER_NAMES, one.load.values, one.load.sigma, strict=True)
    return {
        "approach": one.number,
        "words": APPROACHES[one.number],
        "chosen": one.number == chosen,
        "refusal": one.refusal or None,
        "at_center": [{"name": name, "value": float(value), "sigma": finite(float(s))} for name, value, s in values],
        "rms": dict(one.rms),
    }


def answer_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say mass and centre with the reach of their 95 % intervals."""
    scaled = [
        (k * float(row["value"]), k * load_fit.REACH * float(row["sigma"])) for k, row in zip(_MM, rows, strict=False)
    ]
    (mass, *center), (reach, *doubt) = zip(*(_rounded(*one) for one in scaled), strict=True)
    return f"{mass} ± {reach} kg, centre ({', '.join(center)}) ± ({', '.join(doubt)}) mm"


_MM = (1.0, 1e3, 1e3, 1e3)  # of mass and centre


def _rounded(value: float, reach: float) -> tuple[str, str]:
    """Write a number and its reach with the two digits that count of the reach."""
    places = 3 if not 0.0 < reach < np.inf else min(9, max(0, 1 - int(np.floor(np.log10(reach)))))
    return f"{value:.{places}f}", f"{reach:.{places}f}"


def predicted_data(result: IdentifiedLoad) -> list[dict[str, Any]]:
    """Write the residuals of each run's torques."""
    axes = () if result.estimate is None else result.estimate.axes
    return [
        {
            **{key: getattr(one, key) for key in ("run", "loaded", "unseen")},
            "rms": dict(zip(axes, one.rms.tolist(), strict=True)),
            "relative": dict(zip(axes, (one.rms / one.size).tolist(), strict=True)),
        }
        for one in result.predicted
    ]


def parameters_of_load(result: IdentifiedLoad) -> tuple[FloatArray, FloatArray]:
    """Return the ten parameters on the load's link, and their covariance; from poses alone, those of a point mass."""
    if result.estimate is not None:
        return (result.body or result.estimate).phi, result.covariance
    assert result.static is not None  # nothing else is left
    mass, center = result.static.mass, result.static.center
    x, y, z = center
    inertia = mass * np.array([y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y])
    J = np.zeros((10, 4))  # by mass and centre
    J[:6, 0] = inertia / mass
    J[:6, 1:] = mass * np.array(
        [[0, 2 * y, 2 * z], [-y, -x, 0], [-z, 0, -x], [2 * x, 0, 2 * z], [0, -z, -y], [2 * x, 2 * y, 0]]
    )
    J[6:9, 0], J[6:9, 1:], J[9, 0] = center, mass * np.eye(3), 1.0
    return np.array([*inertia, *(mass * center), mass]), J @ result.static.center_covariance @ J.T


Answer = Literal["within", "over", "cannot tell"]


@dataclass(frozen=True, slots=True)
class RatingCheck:
    """One quantity of the load and its rated limit."""

    what: str
    unit: str
    value: float
    sigma: float
    limit: float | None

    @property
    def answer(self) -> Answer:
        """Position of the 95 % interval: within or over the limit, or "cannot tell" if it contains the limit."""
        if self.limit is None:
            return "cannot tell"
        reach = load_fit.REACH * self.sigma
        if self.value + reach <= self.limit:
            return "within"
        return "over" if self.value - reach > self.limit else "cannot tell"

    @property
    def sentence(self) -> str:
        """Comparison with the limit as a sentence."""
        text = f"{self.what} is {self.value:.4g} ± {load_fit.REACH * self.sigma:.2g} {self.unit}"
        if self.limit is None:
            return f"{text}; no rating is stated to compare it with"
        beside = f"{text}, {100.0 * self.value / self.limit:.0f} % of the allowed {self.limit:.4g}"
        undecided = self.answer == "cannot tell"
        return (
            f"{beside}: {'undecided, as its interval contains the limit' if undecided else f'{self.answer} the rating'}"
        )


def center_data(result: IdentifiedLoad) -> list[dict[str, Any]]:
    """Write mass, centre and inertia about it, with 95 % intervals."""
    load, static = result.load, result.static
    if load is not None:
        values, sigma = load.values, load.sigma
    else:
        assert static is not None
        values, sigma = np.array([static.mass, *static.center]), static.sigma
    return [
        {
            "name": name,
            "unit": unit,
            "value": float(value),
            "sigma": float(s),
            "interval": [float(value - load_fit.REACH * s), float(value + load_fit.REACH * s)],
        }
        for name, unit, value, s in zip(load_fit.CENTER_NAMES, load_fit.CENTER_UNITS, values, sigma, strict=False)
    ]


def static_data(result: IdentifiedLoad) -> dict[str, Any] | None:
    """Write the load estimated from held poses, or why there is none."""
    static = result.static
    if static is None:
        return {"refusal": result.static_refusal} if result.static_refusal else None
    return {"mass": static.mass, "center": static.center.tolist(), "sigma": static.sigma.tolist()}


def unknowns_data(result: IdentifiedLoad) -> list[dict[str, Any]]:
    """Write load, friction and efficiencies as they were estimated; the arm's deviations are not of interest."""
    estimate = result.estimate
    if estimate is None:
        return []
    listed = zip(estimate.names, estimate.units, estimate.values, estimate.sigma, strict=True)
    return [
        {"name": name, "unit": unit, "value": float(value), "sigma": float(sigma)}
        for name, unit, value, sigma in listed
        if not name.startswith("arm ")
    ]


POSES = 400
WRIST = 3  # joints, from the last


def ratings(
    robot: Robot, rated: PayloadRating, phi: FloatArray, covariance: FloatArray, *, inertia: bool
) -> list[RatingCheck]:
    """Compare mass, and for the last three joints inertia and moment, with what is rated; all at the worst pose.

    `inertia`: True if it was estimated, which held poses alone do not allow.
    """
    for key, given in (("inertia", rated.inertia), ("moment", rated.moment)):
        strange = [name for name in given if name not in robot.joint_names]
        if strange:
            names = choice(strange[0], robot.joint_names)
            raise ExcitorError(f"rated.{key}: {strange[0]!r} is no joint of {robot.name}; it has {names}")
    sigma = float(np.sqrt(max(float(covariance[9, 9]), 0.0)))
    mass = RatingCheck("the load's mass", "kg", float(phi[9]), sigma, rated.mass)
    return [mass, *_about_axes(robot, rated, phi, covariance, inertia=inertia)]


def answer_of(found: list[RatingCheck]) -> Answer:
    """Summarise all ratings: "over" if any is, "within" if all rated ones are."""
    rated = [rating.answer for rating in found if rating.limit is not None]
    if "over" in rated:
        return "over"
    return "within" if rated and all(answer == "within" for answer in rated) else "cannot tell"


def _about_axes(
    robot: Robot, rated: PayloadRating, phi: FloatArray, C: FloatArray, *, inertia: bool
) -> Iterator[RatingCheck]:
    q = random_motion(robot, POSES).q
    rows = load_rows(robot, q)
    g = float(np.linalg.norm(robot.mechanism.gravity))
    for j, name in list(enumerate(robot.joint_names))[-WRIST:]:
        if robot.mechanism.prismatic[j]:
            continue
        if inertia:
            worst: FloatArray = rows[int(np.argmax(rows[:, j] @ phi)), j]
            about = f"the load's inertia about {name}"
            spread = float(np.sqrt(max(float(worst @ C @ worst), 0.0)))
            yield RatingCheck(about, "kg m2", float(worst @ phi), spread, rated.inertia.get(name))
        pose: FloatArray = rows[int(np.argmax(rows[:, j] @ _point(phi))), j]
        value, slope = _moment(pose, phi, g)
        spread = float(np.sqrt(max(float(slope @ C @ slope), 0.0)))
        yield RatingCheck(f"its weight's moment about {name}", "N m", value, spread, rated.moment.get(name))


def load_rows(robot: Robot, q: FloatArray) -> FloatArray:
    """Rows r with M_jj = r φ of a load on the tool's link, (n_poses, n_joints, 10)."""
    rows = np.empty((len(q), robot.n_joints, 10))
    for k in range(10):
        phi = np.zeros((robot.mechanism.n_links, 10))
        phi[robot.tool.link, k] = 1.0
        rows[:, :, k] = np.diagonal(robot.mechanism.mass_matrix(q, phi), axis1=1, axis2=2)
    return rows


def _point(phi: FloatArray) -> FloatArray:
    """Compute the parameters of a point mass at the load's centre, (10,)."""
    h, m = phi[6:9], phi[9]
    x, y, z = h
    flat = [y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y, *(m * h), m * m]
    return np.asarray(np.array(flat) / m)


def _moment(row: FloatArray, phi: FloatArray, g: float) -> tuple[float, FloatArray]:
    """m g d with m d² = row · point(φ), and its slope by central differences."""

    def value(at: FloatArray) -> float:
        return g * float(np.sqrt(max(float(row @ _point(at)) * float(at[9]), 0.0)))

    step = 1e-5 * np.maximum(np.abs(phi), 1e-3 * abs(phi[9]))
    slope = [(value(phi + s * e) - value(phi - s * e)) / (2.0 * s) for s, e in zip(step, np.eye(10), strict=True)]
    return value(phi), np.array(slope)


AGREE = 0.002  # s: delays of runs on one clock differ by less


def read_payload_runs(campaign: OpenCampaign, tell: Tell = lambda _: None) -> PayloadRuns:
    """Read every run; a bare run that carries a load, or one that differs from its plan, is refused."""
    content = campaign.content
    bare = replace(campaign.robot, payload=None)
    planned = replace(learned_robot(campaign.folder, content.prior, bare, elsewhere=True), payload=None)
    guess = with_load(planned, content.payload)
    read = _aligned(campaign, guess, planned)
    training: list[load_equations.LoadRun] = []
    unseen: list[load_equations.LoadRun] = []
    poses: list[Poses] = []
    loads = {run.name: is_loaded(campaign, run) for run in content.run}
    for number, run in enumerate(content.run):
        on, found = loads[run.name], read[run.name][0]
        if found.static:
            poses.append(poses_from_samples(bare, found, loaded=on))
            continue
        made = replace(load_equations.run_from_samples(bare, found), loaded=on, time=float(number))
        (unseen if run.role == "validate" else training).append(made)
    samples = {name: found for name, (found, _) in read.items()}
    tell(f"read {len(samples)} runs, {sum(loads.values())} of them with the load")
    for sentence in filter_sentences(samples):
        tell(sentence)
    return PayloadRuns(
        bare,
        tuple(training),
        tuple(unseen),
        tuple(poses),
        samples,
        loads,
        {name: alignment for name, (_, alignment) in read.items() if alignment is not None},
        tuple(step for found in samples.values() for step in found.steps),
    )


def _aligned(campaign: OpenCampaign, guess: Robot, planned: Robot) -> dict[str, tuple[Samples, Alignment | None]]:
    """Read all runs with one common delay between torques and motion, which is a property of the clock.

    A run that moves few joints, slowly, determines it poorly: where runs disagree, the
    difference is noise, and the delay is 0.
    """
    made: dict[str, tuple[Samples, Alignment | None]] = {}
    if campaign.content.processing.lowpass_hz is None:
        campaign = replace(campaign, band=settle(campaign)[0].band)
    for run in campaign.content.run:
        on = is_loaded(campaign, run)
        made[run.name] = read_run_aligned(replace(campaign, robot=guess if on else planned), run, unknown_load=on)
    late = [found.delay for samples, found in made.values() if found is not None and not samples.static]
    if not late or np.ptp(late) <= AGREE:
        return made
    for run in campaign.content.run:
        found = made[run.name][1]
        if found is not None and found.delay != 0.0:
            on = is_loaded(campaign, run)
            as_run = replace(campaign, robot=guess if on else planned)
            made[run.name] = read_run_aligned(as_run, run, unknown_load=on, found=replace(found, delay=0.0))
    return made
