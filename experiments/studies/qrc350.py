"""Study: sensitivity-based model reduction for in-process identification of a CLOOS QRC 350, [Volkmann2020].

Every table to the printed digits, the decisions of the reduction, Figure 4; how much the published numbers depend on
choosing on the validation set, and the uncertainty of the parameters; then smaller errors from trajectory A to C by
weights, friction models and a motion that keeps its vibration, and designed trajectories within the joint ranges of A
and B.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as FigureFigure

from excitor.design.certify.certify import Certificate, certify
from excitor.design.constraints.constraints import Constraints
from excitor.design.criteria import Criterion, DeclaredModel, declared_model
from excitor.design.motion import Excitation, Run
from excitor.design.problem import Problem, build_problem, run_of
from excitor.design.search import Budget, SearchResult, solve
from excitor.experiments.figures import Figure, Report
from excitor.experiments.files import write_atomically
from excitor.experiments.studies import paper as comparison
from excitor.identify.estimate import Estimate, compress, ols, wls_measured
from excitor.identify.intervals import WhitenedSystem, block_bootstrap
from excitor.identify.logs.matlab import Fields, read_arrays, read_matlab_means
from excitor.identify.periods import periodic_lowpass
from excitor.identify.reduce import Acceptance, Decision, Reduction, Rule, backward_selection
from excitor.identify.regression import Regression, dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.cell import Scene, Shape, Zone
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number
from excitor.robots.information import Noise, deviations, information, knowledge
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.parameters import with_friction as with_terms
from excitor.robots.robot import FrictionTerm, Limits, Motion, Robot


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One model: its settings, its errors in percent of the mean absolute torque by joint, its torques on C."""

    model: str
    n_parameters: int
    training_A: FloatArray  # (n_joints,)
    selection_B: FloatArray
    validation_C: FloatArray
    predicted_C: FloatArray  # (n_samples, n_joints), N m


@dataclass(frozen=True, eq=False, slots=True)
class Beyond:
    """Models fitted on one motion of trajectories A, B and C."""

    linear: Outcome
    consistent: Outcome
    friction: tuple[Outcome, ...]
    consistency_loss: float  # relative increase of the weighted residual on A

    @property
    def chosen(self) -> Outcome:
        """Choose the friction model with the smallest error on B."""
        return min(self.friction, key=lambda outcome: float(outcome.selection_B.mean()))


@dataclass(frozen=True, slots=True)
class Task:
    """One design task."""

    name: str
    rival: str  # the measured trajectory whose envelope it keeps to
    box: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # for the tool: lowest, highest, m
    informative: bool = False  # by the mean variance of the parameters, each in units that suit the rival
    share: float = 1.0  # of the evaluations: half is enough without a box, and for a smooth criterion


@dataclass(frozen=True, eq=False, slots=True)
class Design:
    """A design, evaluated apart from its search."""

    run: Run
    condition: float
    sigma: FloatArray  # (n_params,): expected relative standard deviation
    torque: FloatArray  # (n_joints,): largest, by the robot's prior model, N m
    certificate: Certificate


@dataclass(frozen=True, eq=False, slots=True)
class Rival:
    """A measured trajectory, evaluated in the same way."""

    name: str
    theta: FloatArray  # (n_params,), the model fitted to it: what relative deviations refer to
    condition: float
    sigma: FloatArray
    torque: FloatArray
    box: tuple[tuple[float, ...], tuple[float, ...]]  # its tool stayed in
    limits: Limits  # it used


@dataclass(frozen=True, eq=False, slots=True)
class Designs:
    """All designs, one per seed, and the trajectories they are compared with."""

    rivals: Mapping[str, Rival]
    tasks: Sequence[Task]
    found: Mapping[str, Sequence[Design]]  # by task
    names: tuple[str, ...]  # of the parameters


@dataclass(frozen=True, eq=False, slots=True)
class Models:
    """Models A and B, and the reductions of both processes."""

    names: tuple[str, ...]
    A: Estimate
    B: Estimate
    process1: Reduction
    process2: Reduction  # Table IV: nothing preset
    process2_preset: Reduction  # Table V: friction preset essential

    @property
    def reductions(self) -> Mapping[str, Reduction]:
        """The reductions by the names of their processes."""
        names = ("process 1", "process 2", "process 2, friction preset")
        return dict(zip(names, (self.process1, self.process2, self.process2_preset), strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Results:
    """All that the study computes."""

    models: Models
    cells: Sequence[comparison.Cell]
    reductions: Mapping[str, Reduction]  # by process and acceptance set
    paths: Mapping[str, FloatArray]  # of Figure 4, mm
    disagreement: Mapping[str, float]
    paper_on_C: FloatArray  # (n_joints,), %
    harmonic: Beyond
    vibrating: Beyond
    designs: Designs


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Reproduce the paper from the folder of its published recordings; with `out`, write plots and all cells there."""
    if data is None:
        raise ExcitorError("the study needs the published recordings (.mat): give their folder with --data")
    printed = comparison.printed_values("qrc350")
    recordings = read_recordings(data)
    results = compute(recordings, printed, full=full)
    context = context_of(recordings, results, printed)
    if out is not None:
        context["written"] = write_files(out, recordings, results)
    return Report("study", "qrc350-in-process", figures(results, printed), context)


@dataclass(frozen=True, eq=False, slots=True)
class Recordings:
    """Every run as samples and as equations in the declared parameters."""

    robot: Robot
    folder: Path
    samples: dict[str, Samples]
    equations: dict[str, Regression]


def compute(recordings: Recordings, printed: Mapping[str, Any], *, full: bool = False) -> Results:
    """Compute the tables, the paths, what goes beyond, and designs."""
    models = fit(recordings)
    ours = tables(recordings, models)
    return Results(
        models=models,
        cells=comparison.cells(printed, ours, other_tables(recordings, models)),
        reductions=by_acceptance(recordings),
        paths=paths_mm(recordings),
        disagreement=disagreement(recordings, models),
        paper_on_C=absolute_errors(recordings.equations["C"], models.A.values)[1],
        # The paper's motion has five harmonics, which treat structural vibration as noise.
        harmonic=beyond(recordings.robot, [recordings.samples[run] for run in TRAJECTORIES]),
        vibrating=beyond(recordings.robot, [low_passed(recordings, run, CUTOFF_HZ) for run in TRAJECTORIES]),
        designs=design(recordings, {"A": models.A.values, "B": models.B.values}, FULL if full else QUICK),
    )


def figures(results: Results, printed: Mapping[str, Any]) -> list[Figure]:
    """List the figures in the order of the paper, then beyond it."""
    on_training = {f"p{k}": results.reductions[f"process {k}, training"] for k in (1, 2)}
    apart = results.disagreement  # of models A and B in σ; about 0.7 where σ is right
    return [
        *cell_figures(results.cells),
        *reduction_figures(printed, results.models, on_training),
        *path_figures(printed, results.paths),
        Figure("qrc350.a_minus_b.printed_sigma", apart["printed"], "sigma", 150.0, "within", tolerance=0.5),
        Figure("qrc350.a_minus_b.white_sigma", apart["white"], "sigma"),
        Figure("qrc350.a_minus_b.bootstrap_sigma", apart["bootstrap"], "sigma", 2.0, "at most"),
        *error_figures(printed, results.paper_on_C, results.harmonic, results.vibrating),
        *design_figures(results.designs, printed),
    ]


def context_of(recordings: Recordings, results: Results, printed: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the context of the figures."""
    models = results.models
    conditions = {"A": models.A.condition, "B": models.B.condition}
    return {
        "what": "condition numbers are of column-normalised matrices, by SVD, on the measured samples",
        "tables": comparison.summary(results.cells),
        "contradictions": contradictions(printed, models, conditions),
        "decisions": {name: spelled(reduction) for name, reduction in models.reductions.items()},
        "kept, by acceptance set": {
            key: f"{len(reduction.estimate.names)} parameters, condition {reduction.estimate.condition:.4g}"
            for key, reduction in results.reductions.items()
        },
        "Figure 4, overshoot over the desired path in mm": overshoot_mm(results.paths),
        **beyond_context(results.harmonic, results.vibrating),
        "designs": design_context(results.designs),
        "published with the data, not printed": unprinted(recordings, models),
    }


def write_files(out: Path, recordings: Recordings, results: Results) -> list[str]:
    """Write the plots, and all cells side by side."""
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "qrc350_cells.csv", comparison.as_csv(results.cells))
    drawn = {
        "qrc350_figure4.png": figure4(results.paths),
        "qrc350_torques_on_c.png": torques(recordings, results.models.A, results.vibrating),
        "qrc350_errors_on_c.png": errors(results.paper_on_C, results.harmonic, results.vibrating),
    }
    for name, plot in drawn.items():
        plot.savefig(out / name, dpi=150)
    return [str(out / name) for name in ("qrc350_cells.csv", *drawn)]


TRAJECTORIES = ("A", "B", "C")
CUTOFF_HZ = 15.0
SIGN_WIDTHS = (0.001, 0.01)  # rad/s
SLIPS = (0.001, 0.004)  # rad: how far a joint moves before a Maxwell-slip state slips
RIPPLES = (147.0, 294.0)  # per turn of the large axes
RIPPLE_JOINTS = (0, 1)
FEATURES: tuple[tuple[str, ...], ...] = (
    (),
    ("sqrt",),
    ("maxwell-slip",),
    ("ripple",),
    ("sqrt", "maxwell-slip"),
    ("sqrt", "maxwell-slip", "ripple"),
)

PAYLOAD_KG = 10.621  # stated by the paper; counted with the last link


def beyond(robot: Robot, runs: Sequence[Samples]) -> Beyond:
    """Fit all models to the first run, select by the second, report on the third."""
    linear = [declared_equations(robot, [run]) for run in runs]
    consistent, loss = fit_consistent(robot, runs)
    return Beyond(
        linear=outcome("least squares", linear, joint_scaled(linear[0])),
        consistent=consistent,
        friction=tuple(fit_friction(robot, runs, features, width) for width in SIGN_WIDTHS for features in FEATURES),
        consistency_loss=loss,
    )


def fit_friction(robot: Robot, runs: Sequence[Samples], features: Sequence[str], width: float) -> Outcome:
    """Fit one friction model."""
    equations = extended_equations(with_friction(robot, features, width), robot, runs)
    name = f"{' + '.join(features) or 'plain'}, sign width {width:g} rad/s"
    return outcome(name, equations, joint_scaled(equations[0]))


def fit_consistent(robot: Robot, runs: Sequence[Samples]) -> tuple[Outcome, float]:
    """Fit physically consistent standard parameters, the payload's mass known; return the residual's increase, too."""
    from excitor.identify.consistent import Bounds, consistent_fit, standard_columns

    columns = standard_columns(robot)
    equations = [dynamic_regression(robot, [run], columns=columns) for run in runs]
    last = f"M{layout(robot).n_links}"
    scale = {(j, 0): float(size) for j, size in enumerate(joint_torques(equations[0]))}
    bounds = Bounds(values={last: (PAYLOAD_KG, float("inf"))})
    fit = consistent_fit(compress(equations[0]), robot, bounds=bounds, sigma=scale)
    return outcome("physically consistent", equations, fit.chi[columns]), fit.loss


def joint_scaled(equations: Regression) -> FloatArray:
    """Fit by least squares, each joint's rows divided by its mean absolute torque."""
    return ols(compress(equations, 1.0 / joint_torques(equations)[equations.joint])).values


def joint_torques(equations: Regression) -> FloatArray:
    """Mean absolute torque of each joint, (n_joints,)."""
    return np.asarray(np.bincount(equations.joint, np.abs(equations.y)) / np.bincount(equations.joint))


def outcome(model: str, equations: Sequence[Regression], theta: FloatArray) -> Outcome:
    """Evaluate a model fitted on A on all three trajectories."""
    A, B, C = (absolute_errors(each, theta)[1] for each in equations)
    return Outcome(model, len(theta), A, B, C, predicted(equations[2], theta))


def predicted(equations: Regression, theta: FloatArray) -> FloatArray:
    """Torques W θ of one run as a table, (n_samples, n_joints)."""
    tau = np.empty((int(equations.sample.max()) + 1, len(equations.joint_names)))
    tau[equations.sample, equations.joint] = equations.W @ theta
    return tau


def with_friction(robot: Robot, features: Sequence[str], sign_width: float) -> Robot:
    """Add friction terms at each joint of a robot, and change the width of its smoothed sign."""
    smoothed = [
        replace(term, width=sign_width if term.model == "coulomb" else term.width) for term in robot.drive.friction
    ]
    more = with_terms(robot, (*smoothed, *_terms(robot.n_joints, features, sign_width)))
    return replace(more, declared_base=None)


def _terms(n_joints: int, features: Sequence[str], width: float) -> list[FrictionTerm]:
    terms = []
    for j, axis in enumerate(np.eye(n_joints)):
        name = f"{j + 1}"
        if "sqrt" in features:
            terms.append(FrictionTerm(f"Fs{name}", "sqrt", axis, axis, width=width))
        if "maxwell-slip" in features:
            terms += [
                FrictionTerm(f"Fm{name} {slip:g}", "maxwell-slip", axis, axis, scale=slip, warm_up=1) for slip in SLIPS
            ]
        if "ripple" in features and j in RIPPLE_JOINTS:
            waves: tuple[str, ...] = ("ripple-sin", "ripple-cos")
            terms += [FrictionTerm(f"{w} {n:g} {name}", w, axis, axis, scale=n) for n in RIPPLES for w in waves]
    return terms


def extended_equations(robot: Robot, plain: Robot, runs: Sequence[Samples]) -> list[Regression]:
    """Regress on the plain robot's base columns and all added ones.

    Random states, by which base parameters are found, saturate every Maxwell-slip state: they cannot separate two.
    """
    before, after = layout(plain), layout(robot)
    base = [before.names[k] for k in base_parameters(plain).kept]
    columns = after.indices([*base, *(name for name in after.names if name not in before.names)])
    return [dynamic_regression(robot, [run], columns=columns) for run in runs]


_TORQUES = ("tau_meas.average", "time_vec_save", "tau_meas.variance")
MEAN = Fields("q_meas.average", "dq_meas.average", "ddq_meas.average", *_TORQUES)
HARMONIC = Fields("q_meas.average_rect", "dq_meas.average_rect", "ddq_meas.average_rect", *_TORQUES)
DESIRED = Fields("deg_q", "deg_dq", "deg_ddq", "tau", "time_vec_save")
RUNS = {  # name -> file, motion
    "A": ("trajectory_a", HARMONIC),
    "B": ("trajectory_b", HARMONIC),
    "C": ("trajectory_c", HARMONIC),
    "process 1": ("identification_process1", MEAN),
    "process 2": ("identification_process2", MEAN),
    "process 1 validation": ("validation_process1", DESIRED),
    "process 2 validation": ("validation_process2", DESIRED),
}
REPETITIONS = 50  # as the paper states; the processes' data are means of 30, which no printed number shows
PERIOD_S = 10.0
CONTROLLED_WITH = {
    "no model": "without_model",
    "model A": "model_a",
    "model B": "model_b",
    "process model": "process_model",
}


def read_recordings(folder: Path) -> Recordings:
    """Read all runs."""
    if not folder.is_dir():
        raise ExcitorError(f"{folder}: is not a folder; --data takes the folder of the published .mat files")
    robot = load("qrc350")
    samples = {run: read_matlab_means(folder / f"{file}.mat", fields, run=run) for run, (file, fields) in RUNS.items()}
    return Recordings(robot, folder, samples, {run: declared_equations(robot, [s]) for run, s in samples.items()})


def declared_equations(robot: Robot, runs: Sequence[Samples]) -> Regression:
    """Write τ = W θ in the robot's declared parameters."""
    assert robot.declared_base is not None
    units = layout(robot).units
    own = [units[int(np.argmax(row == 1.0))] for row in robot.declared_base.combination]  # each has a coefficient of 1
    return comparison.declared(robot, dynamic_regression(robot, runs), own)


def low_passed(recordings: Recordings, run: str, cutoff_hz: float) -> Samples:
    """Read one period of a mean trajectory, its positions low-passed and differentiated; torques stay as measured."""
    mean = read_matlab_means(recordings.folder / f"{RUNS[run][0]}.mat", MEAN, run=run)
    n = round(PERIOD_S * mean.sample_rate_hz)
    motion = periodic_lowpass(mean.motion.q[:n], sample_rate_hz=mean.sample_rate_hz, cutoff_hz=cutoff_hz)
    assert mean.variance is not None
    steps = (*mean.steps, Step("periodic_lowpass", {"cutoff_hz": cutoff_hz}))
    return Samples(run, motion, mean.tau[:n], mean.sample_rate_hz, mean.variance[:n], steps)


def tracking_rms_deg(folder: Path, process: int) -> dict[str, FloatArray]:
    """Root mean square of the reference errors, by what the controller fed forward, (6,) in degrees."""
    rms = {}
    for title, file in CONTROLLED_WITH.items():
        error = read_arrays(folder / f"control_error_process{process}_{file}.mat", {"error": "deg_e"})["error"]
        rms[title] = np.degrees(np.sqrt(np.mean(error**2, axis=0)))
    return rms


def values(estimate: Estimate, names: Sequence[str]) -> FloatArray:
    """List an estimate's parameters in a given order, 0 for those left out."""
    return np.array([estimate.value(name) for name in names])


def absolute_errors(equations: Regression, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean absolute error of each joint, N m and % of its mean torque, (n_joints,) [Volkmann2020] (11), (12)."""
    size = np.abs(equations.y - equations.W @ theta)
    joints = np.unique(equations.joint)
    error = np.array([size[equations.joint == j].mean() for j in joints])
    torque = np.array([np.abs(equations.y[equations.joint == j]).mean() for j in joints])
    return error, 100.0 * error / torque


_ENTRY = re.compile(r"(?P<kept>K )?(?P<number>\d+)(?: \((?P<ratio>[\d.]+) (?P<joint>\w+)\))?")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of decisions equal to the published ones: place, parameter, verdict, ratio and joint."""

    total: int
    equal: int


def agreement(printed: Sequence[Mapping[str, Any]], models: Models) -> Agreement:
    """Compare all decision logs, place by place."""
    ours = models.reductions
    total, equal = 0, 0
    for entry in printed:
        expected = list(_ENTRY.finditer(entry["log"]))
        decisions = ours[entry["process"]].decisions
        total += max(len(expected), len(decisions))
        equal += sum(_same(decision, match) for decision, match in zip(decisions, expected, strict=False))
    return Agreement(total, equal)


def spelled(reduction: Reduction) -> str:
    """Write the decisions in order: K for kept, the parameter's number, the largest ratio and its joint."""
    return ", ".join(
        f"{'K ' if d.kept else ''}{d.name.removeprefix('theta')} ({d.ratio:.4f} {d.joint})" for d in reduction.decisions
    )


def by_acceptance(recordings: Recordings) -> dict[str, Reduction]:
    """Reduce both processes with each acceptance set: how the published drop in condition depends on the leak."""
    return {
        f"process {process}, {acceptance}": reduced(recordings, process, acceptance, preset=process == 1)
        for process in (1, 2)
        for acceptance in get_args(Acceptance)
    }


def _same(decision: Decision, expected: re.Match[str]) -> bool:
    ratio, joint = expected["ratio"], expected["joint"]
    return (
        decision.name == f"theta{expected['number']}"
        and decision.kept == (expected["kept"] is not None)
        and (ratio is None or comparison.rounds_to(decision.ratio, ratio))
        and (joint is None or decision.joint == joint)
    )


HARMONICS = (1, 2, 3, 4, 5)
SAMPLE_TIME_S = 0.002
RAMP_S = 5.0
AMPLITUDES = (1.0, 0.998, 0.995, 0.99)
GROWN_BOX_M = ((-0.07, -0.60, 0.88), (1.53, 0.69, 2.12))  # B's own, a tenth larger


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of seeds of each task, and evaluations of each search."""

    seeds: int
    evaluations: int


QUICK, FULL = Effort(3, 40_000), Effort(5, 120_000)


@one_blas_thread()
def design(recordings: Recordings, theta: Mapping[str, FloatArray], effort: Effort) -> Designs:
    """Design for every task; θ are the models fitted to the rivals."""
    rivals = {run: rival(recordings, run, values) for run, values in theta.items()}
    asked = tasks(rivals["B"])
    found = {
        task.name: [one(recordings, task, rivals[task.rival], seed, effort) for seed in range(effort.seeds)]
        for task in asked
    }
    return Designs(rivals, asked, found, comparison.declared_names(recordings.robot))


def tasks(restrained: Rival) -> tuple[Task, ...]:
    """List the design tasks."""
    return (
        Task("full", "A", share=0.5),
        Task("restrained", "B", GROWN_BOX_M),
        Task("restrained_exact", "B", restrained.box),
        Task("full_informative", "A", informative=True, share=0.5),
        Task("restrained_informative", "B", GROWN_BOX_M, informative=True, share=0.5),
    )


def rival(recordings: Recordings, run: str, theta: FloatArray) -> Rival:
    """Evaluate a measured trajectory, and the joint ranges that it used."""
    robot, motion = recordings.robot, recordings.samples[run].motion
    tool = frame_pose(robot, motion.q)[:, :3, 3]
    none, ranges = np.full(robot.n_joints, np.inf), np.stack([motion.q.min(axis=0), motion.q.max(axis=0)], axis=1)
    velocity, acceleration = (np.abs(x).max(axis=0) for x in (motion.dq, motion.ddq))
    return Rival(
        run,
        theta,
        condition_number(declared_model(robot).observation(motion)),
        relative_sigma(recordings, run, motion, theta),
        np.abs(inverse_dynamics(robot, motion)).max(axis=0),
        (tuple(map(float, tool.min(axis=0))), tuple(map(float, tool.max(axis=0)))),
        Limits(ranges, velocity, acceleration, none, none),
    )


def noise(recordings: Recordings, run: str) -> Noise:
    """Compute the noise from the scatter of single repetitions, per joint: the mean of the paper's weights 1/σ²."""
    samples = recordings.samples[run]
    assert samples.variance is not None
    sigma = 1.0 / np.sqrt(np.mean(1.0 / samples.variance, axis=0))
    return Noise(sigma, samples.sample_rate_hz, source=f"scatter of repetitions of trajectory {run}")


def relative_sigma(recordings: Recordings, run: str, motion: Motion, theta: FloatArray) -> FloatArray:
    """Compute σ / |θ| of the declared parameters from repeated periods with the noise of a run, (n_params,)."""
    robot = recordings.robot
    known = knowledge(information(robot, motion, noise(recordings, run), duration=PERIOD_S, repeats=float(REPETITIONS)))
    return deviations(known, declared_transform(robot, base_parameters(robot))) / np.abs(theta)


def problem(recordings: Recordings, task: Task, other: Rival) -> Problem:
    """Build the search problem of a task."""
    robot = recordings.robot
    moving = np.ones(robot.n_joints, dtype=bool)
    model = declared_model(robot)
    return build_problem(
        robot,
        Excitation(PERIOD_S, SAMPLE_TIME_S, HARMONICS, moving, ramp=RAMP_S),
        constraints=Constraints(other.limits, np.full(robot.n_joints, np.inf), scene(task)),
        criterion=criterion(recordings, task, model),
        model=model,
    )


def scene(task: Task) -> Scene | None:
    """Build the scene that keeps the tool in the task's box."""
    if task.box is None:
        return None
    low, high = np.array(task.box)
    T = np.eye(4)
    T[:3, 3] = 0.5 * (low + high)
    box = Zone("workspace", Shape("box", T, 0.5 * (high - low)), keep="in", bodies="tool")
    return Scene((box,), self_collision=False)


def criterion(recordings: Recordings, task: Task, model: DeclaredModel) -> Criterion:
    """Choose the criterion; a parameter's unit is the change with the same effect on the rival's torques for all."""
    if not task.informative:
        return Criterion("condition")
    W = model.observation(recordings.samples[task.rival].motion)
    return Criterion("a", scale=1.0 / np.linalg.norm(W, axis=0))


def one(recordings: Recordings, task: Task, other: Rival, seed: int, effort: Effort) -> Design:
    """Design once, and evaluate the result on every controller sample."""
    posed = problem(recordings, task, other)
    budget = Budget(evaluations=round(task.share * effort.evaluations))
    best, certificate = certified(posed, solve(posed, budget, seed=seed))
    motion = best.periodic.motion(best.periodic.grid(round(PERIOD_S / SAMPLE_TIME_S)))
    return Design(
        best,
        condition_number(posed.model.observation(motion)),
        relative_sigma(recordings, other.name, motion, other.theta),
        np.abs(inverse_dynamics(recordings.robot, motion)).max(axis=0),
        certificate,
    )


def certified(posed: Problem, found: SearchResult) -> tuple[Run, Certificate]:
    """Return the best finalist that can be certified, with reduced amplitude if it violates limits between samples."""
    tried = []
    for k in range(len(found.value)):
        for amplitude in AMPLITUDES:
            trial = run_of(posed, found.candidates, k).scaled(amplitude)
            tried.append((trial, certify(posed.robot, trial, posed.constraints)))
            if tried[-1][1].ready:
                return tried[-1]
    return tried[0]


def middle(designs: Sequence[Design]) -> Design:
    """Return the design of median condition."""
    return sorted(designs, key=lambda each: each.condition)[(len(designs) - 1) // 2]


def ratios(designs: Designs, task: Task) -> FloatArray:
    """Divide expected deviations by the rival's, (n_seeds, n_params)."""
    return np.array([each.sigma for each in designs.found[task.name]]) / designs.rivals[task.rival].sigma


BARS = {"full": 3.6, "restrained": 4.0}
MEASURED = {"A": 5.74, "B": 6.92}  # conditions of the rivals, to be within 0.01


def design_figures(designs: Designs, printed: Mapping[str, Any]) -> list[Figure]:
    """Compare medians over the seeds."""
    name = "qrc350.design"
    rivals = [
        Figure(f"{name}.{run.lower()}", other.condition, "", MEASURED[run], "within", *printed_number(text, 0.01))
        for run, other in designs.rivals.items()
        for text in [printed["condition"][f"trajectory_{run.lower()}"]]
    ]
    worth = [
        Figure(f"{name}.{run.lower()}_sigma_{kind}", 100.0 * float(measure(other.sigma)), "%")
        for run, other in designs.rivals.items()
        for kind, measure in (("median", np.median), ("worst", np.max))
    ]
    return [*rivals, *worth, *(figure for task in designs.tasks for figure in _of_task(designs, task))]


def _of_task(designs: Designs, task: Task) -> list[Figure]:
    """Report condition, certificate and σ ratio of one task's designs; a ratio below 1 is better than the rival."""
    found, ratio = designs.found[task.name], ratios(designs, task)
    sigma = 100.0 * np.array([each.sigma for each in found])
    condition = float(np.median([each.condition for each in found]))
    certified = float(np.mean([each.certificate.ready for each in found]))
    bar = BARS.get(task.name)
    name = f"qrc350.design.{task.name}"
    return [
        Figure(name, condition, "", bar, "none" if bar is None else "at most"),
        Figure(f"{name}_certified", certified, "", 1.0, "equal"),
        Figure(f"{name}_sigma_median", float(np.median(np.median(sigma, axis=1))), "%"),
        Figure(f"{name}_sigma_worst", float(np.median(sigma.max(axis=1))), "%"),
        Figure(f"{name}_sigma_ratio", float(np.median(geometric_mean(ratio)))),
        Figure(f"{name}_sigma_better", float(np.median((ratio < 1.0).sum(axis=1)))),
    ]


def design_context(designs: Designs) -> dict[str, Any]:
    """Collect the context of the design figures."""
    return {
        "what": f"{len(HARMONICS)} harmonics of {1.0 / PERIOD_S:g} Hz, rest to rest with ramps of {RAMP_S:g} s; sigma: "
        f"expected from {REPETITIONS} periods with the scatter of the trajectory competed with, relative to its model",
        **{task.name: _task_context(designs, task) for task in designs.tasks},
        "expected relative sigma, %": _sigma_table(designs),
    }


def _task_context(designs: Designs, task: Task) -> dict[str, Any]:
    found, other = designs.found[task.name], designs.rivals[task.rival]
    ratio = ratios(designs, task)
    typical = middle(found)
    return {
        "condition by seed": [round(each.condition, 3) for each in found],
        f"condition of {task.rival}": round(other.condition, 3),
        "certified by seed": [each.certificate.ready for each in found],
        f"sigma over that of {task.rival}, geometric mean by seed": geometric_mean(ratio).round(3).tolist(),
        f"parameters better than by {task.rival}, by seed": (ratio < 1.0).sum(axis=1).tolist(),
        f"peak torque, N m; {task.rival}": f"{_listed(typical.torque)}; {_listed(other.torque)}",
        "not checked": list(typical.certificate.notes),
    }


def _sigma_table(designs: Designs) -> dict[str, str]:
    """List every parameter: the rivals, then the design of median condition of each task."""
    columns = {run: other.sigma for run, other in designs.rivals.items()}
    columns |= {task.name: middle(designs.found[task.name]).sigma for task in designs.tasks}
    lines = {
        name: ", ".join(f"{100.0 * sigma[k]:.3g}" for sigma in columns.values()) for k, name in enumerate(designs.names)
    }
    return {"parameter": ", ".join(columns)} | lines


def _listed(torque: FloatArray) -> str:
    return " ".join(f"{value:.3g}" for value in torque)


def geometric_mean(ratio: FloatArray) -> FloatArray:
    """Average over the parameters, (n_seeds,)."""
    return np.asarray(np.exp(np.log(ratio).mean(axis=1)))


CONDITIONS = {  # bar, and half of its last digit
    "p1_full": (61.70, 5e-3),
    "p1_reduced": (8.456, 5e-4),
    "p2_full": (1632.2, 5e-2),
    "p2_reduced": (2.735, 5e-4),
}
LEAK = {"p1": (26.0, 54.91), "p2": (19.0, 23.48)}  # kept parameters, condition
PAPER_WLS = 14.915
FIVE_HARMONIC, CONSISTENT, EXTENDED = 13.6, 9.4, 8.8  # bars, %


def cell_figures(found: Sequence[comparison.Cell]) -> list[Figure]:
    """Count the table cells: all, equal to every printed digit, not equal, and known contradictions of the paper."""
    total, contradicted = comparison.count(found), comparison.count(found, "contradicted")
    return [
        Figure("qrc350.cells_total", total),
        Figure("qrc350.cells_equal", comparison.count(found, "equal"), "", total - contradicted, "equal", total),
        *(
            Figure(f"qrc350.table_{table.lower()}.cells_equal", comparison.count(own, "equal"), "", paper=len(own))
            for table in dict.fromkeys(cell.table for cell in found)
            for own in [[cell for cell in found if cell.table == table]]
        ),
        Figure("qrc350.cells_unequal", comparison.count(found, "unequal"), "", 0.0, "equal"),
        Figure("qrc350.cells_contradicted", contradicted),
    ]


def reduction_figures(printed: Mapping[str, Any], models: Models, on_training: Mapping[str, Reduction]) -> list[Figure]:
    """Compare the reductions with the published ones: decisions in place, verdict, ratio and joint; conditions.

    Where the training set accepts, they differ: the published ones depend on the validation set.
    """
    logs = agreement(printed["decisions"], models)
    both = {"p1": models.process1, "p2": models.process2}
    ours = {f"{key}_full": each.full.condition for key, each in both.items()}
    ours |= {f"{key}_reduced": each.estimate.condition for key, each in both.items()}
    figures = [
        Figure("qrc350.decisions_total", logs.total),
        Figure("qrc350.decisions_equal", logs.equal, "", logs.total, "equal", logs.total),
        *(
            Figure(
                f"qrc350.condition.{key}",
                ours[key],
                "",
                bar,
                "within",
                *printed_number(printed["condition"][key], half),
            )
            for key, (bar, half) in CONDITIONS.items()
        ),
    ]
    for process, (kept, condition) in LEAK.items():
        estimate = on_training[process].estimate
        name = f"qrc350.leak.{process}"
        figures += [
            Figure(f"{name}_kept", len(estimate.names), "", kept, "equal"),
            Figure(f"{name}_condition", estimate.condition, "", condition, "within", tolerance=5e-3),
        ]
    return figures


def printed_number(text: str, tolerance: float) -> tuple[float, float, float]:
    """Read a printed number: its value, the tolerance of our bound, and half of the last digit."""
    return float(text), tolerance, 0.5 * 10.0 ** -len(text.partition(".")[2])


def path_figures(printed: Mapping[str, Any], paths: Mapping[str, FloatArray]) -> list[Figure]:
    """Compare the extremes of the paths of Figure 4."""
    reached = {run: extremes(path) for run, path in paths.items()}
    pairs = [(reached[run][key], text) for run, texts in printed["figure4"].items() for key, text in texts.items()]
    equal = sum(comparison.rounds_to(value, text) for value, text in pairs)
    over = overshoot_mm(paths)
    return [
        Figure("qrc350.figure4.extremes_total", len(pairs)),
        Figure("qrc350.figure4.extremes_equal", equal, "", len(pairs), "equal", len(pairs)),
        *(
            Figure(
                f"qrc350.figure4.max_x.{run}",
                reach["max_x"],
                "mm",
                float(wanted),
                "within",
                *printed_number(wanted, 5e-5),
            )
            for run, reach in reached.items()
            for wanted in [printed["figure4"][run]["max_x"]]
        ),
        *(Figure(f"qrc350.figure4.overshoot_x.{run}", reach["+x"], "mm") for run, reach in over.items()),
    ]


def error_figures(printed: Mapping[str, Any], paper: FloatArray, harmonic: Beyond, vibrating: Beyond) -> list[Figure]:
    """Compare errors from A to C: means over the joints of the mean absolute error over the mean absolute torque."""
    column = next(table for table in printed["table"] if table["number"] == "II")
    of_paper = fmean(float(row[column["columns"].index("A on C %")]) for row in column["cells"])
    name = "qrc350.a_to_c"
    return [
        Figure(f"{name}.paper_wls", float(paper.mean()), "%", PAPER_WLS, "within", of_paper, 5e-4, 5e-4),
        Figure(f"{name}.five_harmonic_linear", float(harmonic.linear.validation_C.mean()), "%"),
        Figure(f"{name}.five_harmonic_consistent", float(harmonic.consistent.validation_C.mean()), "%"),
        Figure(f"{name}.five_harmonic_best", float(harmonic.chosen.validation_C.mean()), "%", FIVE_HARMONIC, "at most"),
        Figure(f"{name}.linear_15hz", float(vibrating.linear.validation_C.mean()), "%"),
        Figure(f"{name}.consistent_15hz", float(vibrating.consistent.validation_C.mean()), "%", CONSISTENT, "at most"),
        Figure(f"{name}.extended_15hz", float(vibrating.chosen.validation_C.mean()), "%", EXTENDED, "at most"),
    ]


def beyond_context(harmonic: Beyond, vibrating: Beyond) -> dict[str, Any]:
    """List the models beyond the paper: fitted on A, chosen on B, reported on C."""
    return {
        f"tried, {motion}": {
            "friction models, error % on A (training), B (chosen by), C": [_trial(each) for each in tried.friction],
            "chosen": f"{tried.chosen.model}, {tried.chosen.n_parameters} parameters",
            "on C by joint, %": {
                each.model: [round(float(e), 2) for e in each.validation_C]
                for each in (tried.linear, tried.consistent, tried.chosen)
            },
            "residual on A (training) added by consistency, fraction": tried.consistency_loss,
        }
        for motion, tried in (("five harmonics", harmonic), (f"up to {CUTOFF_HZ:g} Hz", vibrating))
    }


def contradictions(printed: Mapping[str, Any], models: Models, conditions: Mapping[str, float]) -> list[str]:
    """List where the paper contradicts itself or its data."""
    table_iv, table_v = models.process2.estimate, models.process2_preset.estimate
    negative = [
        name for name in ("theta13", "theta15", "theta16", "theta20", "theta22", "theta23") if models.A.value(name) < 0
    ]
    return [
        f"Tables IV and V, process 2, are of different models: {len(table_iv.names)} parameters, condition "
        f"{table_iv.condition:.4g}, and {len(table_v.names)}, condition {table_v.condition:.4g} (friction preset).",
        *(
            f"The printed condition of trajectory {run}, {printed['condition'][f'trajectory_{run.lower()}']}, is not "
            f"reproducible: ours, on the measured motion, is {value:.3f}."
            for run, value in conditions.items()
        ),
        "Algorithm 1, line 10 prints 'for all joints': any joint is meant, or hardly anything but friction stays.",
        "Table V is measured on the data that accepted the reduction: it is not held out.",
        f"Parameters said to be positive inertias: in model A {', '.join(negative)} is negative; theta8 and theta10 "
        "are off-diagonal and may be.",
        "Parameter 3 prints J2xy, which is assumed zero; J2xz is right.",
        "Friction is printed with sgn; the tables need tanh(1000 dq).",
    ]


def _trial(outcome: Outcome) -> str:
    A, B, C = (float(e.mean()) for e in (outcome.training_A, outcome.selection_B, outcome.validation_C))
    return f"{outcome.model}: {outcome.n_parameters} parameters, {A:.3f}, {B:.3f}, {C:.3f}"


RUNS_QRC350_PATH = ("desired", "without_model", "process_model")
WINDOW = ((1341.0, 1343.0), (235.0, 250.0))  # mm, x and y of the printed figure
EXTREMES = ("max_x", "min_x", "max_y", "min_y", "min_x_in_window")


def paths_mm(recordings: Recordings) -> dict[str, FloatArray]:
    """Positions of the flange, run -> (n_samples, 3) in mm."""
    files = {run: recordings.folder / f"joint_process2_{run}.mat" for run in RUNS_QRC350_PATH}
    q = {run: read_arrays(file, {"q": "deg_q"})["q"] for run, file in files.items()}
    return {run: 1e3 * frame_pose(recordings.robot, positions)[:, :3, 3] for run, positions in q.items()}


def extremes(path: FloatArray) -> dict[str, float]:
    """Compute the extremes of a path, in mm."""
    x, y = path[:, 0], path[:, 1]
    values = (x.max(), x.min(), y.max(), y.min(), x[in_window(path)].min())
    return {name: float(value) for name, value in zip(EXTREMES, values, strict=True)}


def in_window(path: FloatArray) -> Any:
    """Mark the samples that the printed figure shows."""
    (left, right), (low, high) = WINDOW
    x, y = path[:, 0], path[:, 1]
    return (x >= left) & (x <= right) & (y >= low) & (y <= high)


def overshoot_mm(paths: Mapping[str, FloatArray]) -> dict[str, dict[str, float]]:
    """Compute each run's overshoot beyond the desired path, by direction."""
    wanted = extremes(paths["desired"])
    rows: dict[str, dict[str, float]] = {}
    for run in RUNS_QRC350_PATH[1:]:
        reached, off = extremes(paths[run]), np.sum((paths[run] - paths["desired"]) ** 2, axis=1)
        rows[run] = {}
        for axis in "xy":
            rows[run][f"+{axis}"] = reached[f"max_{axis}"] - wanted[f"max_{axis}"]
            rows[run][f"-{axis}"] = wanted[f"min_{axis}"] - reached[f"min_{axis}"]
        rows[run]["rms at equal time, xyz"] = float(np.sqrt(np.mean(off)))
    return rows


MEASURED_QRC350_PLOTS, PAPER, OURS, OTHER = "#9a9a9a", "#c44e52", "#1f6fb4", "#e0a030"


def figure4(paths: Mapping[str, FloatArray]) -> FigureFigure:
    """Draw the corner of the square that the paper shows, and the whole."""
    plot = FigureFigure(figsize=(10, 5), layout="constrained")
    corner, whole = plot.subplots(1, 2)
    styles = {"desired": ("black", "--"), "without_model": (PAPER, "-"), "process_model": (OURS, "-")}
    for run, path in paths.items():
        color, line = styles[run]
        shown = path[in_window(path)]
        corner.plot(shown[:, 0], shown[:, 1], line, color=color, label=run.replace("_", " "))
        whole.plot(path[:, 0], path[:, 1], line, color=color, linewidth=1)
    corner.set(xlim=WINDOW[0], ylim=WINDOW[1], xlabel="x in mm", ylabel="y in mm", title="Figure 4: one corner")
    corner.set_xticks(np.arange(WINDOW[0][0], WINDOW[0][1] + 0.1, 0.5))
    corner.legend(loc="lower left")
    whole.set(xlabel="x in mm", ylabel="y in mm", title="the whole square", aspect="equal")
    return plot


def torques(recordings: Recordings, paper: Estimate, vibrating: Beyond) -> FigureFigure:
    """Draw measured and predicted torques on trajectory C, joint by joint."""
    plot = FigureFigure(figsize=(12, 13), layout="constrained")
    measured = recordings.samples["C"]
    n = len(vibrating.chosen.predicted_C)
    t = np.arange(n) / measured.sample_rate_hz
    by_paper = predicted(recordings.equations["C"], paper.values)[:n]
    for j, axes in enumerate(np.atleast_1d(plot.subplots(6, 1, sharex=True))):
        axes.plot(t, measured.tau[:n, j], color=MEASURED_QRC350_PLOTS, linewidth=1.8, label="measured, mean of 50 runs")
        axes.plot(t, by_paper[:, j], color=PAPER, linewidth=0.9, label="paper's model A")
        extended = f"extended friction, motion up to {CUTOFF_HZ:g} Hz"
        axes.plot(t, vibrating.chosen.predicted_C[:, j], color=OURS, linewidth=0.9, label=extended)
        axes.set(ylabel=f"joint {j + 1} in N m", xlim=(0, t[-1]))
        axes.grid(alpha=0.25)
    plot.suptitle("Trajectory C, held out: fitted on A, friction terms chosen on B")
    plot.axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize="small", frameon=False)
    plot.axes[-1].set_xlabel("time in s")
    return plot


def errors(paper: FloatArray, harmonic: Beyond, vibrating: Beyond) -> FigureFigure:
    """Draw the errors on trajectory C as bars, by joint and their mean."""
    plot = FigureFigure(figsize=(11, 5), layout="constrained")
    axes = plot.subplots()
    groups = {
        "paper: five harmonics, weights by scatter": (paper, PAPER),
        "five harmonics, extended friction": (harmonic.chosen.validation_C, OTHER),
        f"up to {CUTOFF_HZ:g} Hz, physically consistent": (vibrating.consistent.validation_C, "#7fb2d9"),
        f"up to {CUTOFF_HZ:g} Hz, extended friction": (vibrating.chosen.validation_C, OURS),
    }
    for k, (label, (values, color)) in enumerate(groups.items()):
        _bars(axes, k, [*values, float(values.mean())], color, label)
    axes.set_xticks(np.arange(7), [*(f"joint {j}" for j in range(1, 7)), "mean"])
    axes.set(ylabel="mean absolute error, % of mean absolute torque", title="Errors on trajectory C, held out")
    axes.set(ylim=(0, 1.3 * float(paper.max())))
    axes.legend(ncols=2, fontsize="small")
    return plot


def _bars(axes: Axes, place: int, heights: list[float], color: str, label: str) -> None:
    bars = axes.bar(np.arange(len(heights)) + 0.2 * (place - 1.5), heights, 0.2, color=color, label=label)
    axes.bar_label(bars, fmt="%.1f", fontsize=6, padding=1)


TOLERANCE = 1.05


def fit(recordings: Recordings) -> Models:
    """Fit and reduce as published: rows weighted by their measured variance, accepted on the validation set."""
    A, B = (wls_measured(recordings.equations[run], REPETITIONS) for run in ("A", "B"))
    asked = ((1, True), (2, False), (2, True))  # process, and whether friction is preset
    reductions = [reduced(recordings, process, "validation", preset=preset) for process, preset in asked]
    return Models(recordings.equations["A"].names, A, B, *reductions)


def reduced(recordings: Recordings, process: int, acceptance: Acceptance, *, preset: bool) -> Reduction:
    """Reduce a process's model; `preset` keeps all friction parameters."""
    training = recordings.equations[f"process {process}"]
    friction = tuple(name for name in training.names if name in friction_names(recordings)) if preset else ()
    rule = Rule(acceptance, TOLERANCE, friction, weights="sample")
    validation = recordings.equations[f"process {process} validation"] if acceptance == "validation" else None
    return backward_selection(training, rule, validation)


def friction_names(recordings: Recordings) -> set[str]:
    """Name the declared parameters that are a friction coefficient."""
    known = recordings.robot.declared_base
    assert known is not None
    columns = list(layout(recordings.robot).friction_columns)
    return {name for name, row in zip(known.names, known.combination, strict=True) if row[columns].any()}


def tables(recordings: Recordings, models: Models) -> comparison.Columns:
    """Compute every column under the headings of the printed tables."""
    A, B = values(models.A, models.names), values(models.B, models.names)
    return {
        "I": {
            "A value": [*A],
            "A sigma %": [*(100.0 * models.A.relative_sigma)],
            "B value": [*B],
            "B sigma %": [*(100.0 * models.B.relative_sigma)],
        },
        "II": _errors(recordings, {"A on A": ("A", A), "A on C": ("C", A)}),
        "III": _errors(recordings, {"B on B": ("B", B), "B on C": ("C", B)}),
        "IV": {
            "process 1 full": _listed_values(models.process1.full, models),
            "process 1 reduced": _listed_values(models.process1.estimate, models),
            "process 2 full": _listed_values(models.process2.full, models),
            "process 2 reduced": _listed_values(models.process2.estimate, models),
        },
        "V": _errors(recordings, _on_own_process(models, models.process2)),
        "VI": _errors(
            recordings, {"A on process 1": ("process 1 validation", A), "A on process 2": ("process 2 validation", A)}
        ),
        "VII": {f"{title} deg": [*rms] for title, rms in tracking_rms_deg(recordings.folder, 1).items()},
    }


def other_tables(recordings: Recordings, models: Models) -> comparison.Columns:
    """Compute the columns on which the paper's text and tables differ: Table V by the friction-preset model."""
    return {"V": _errors(recordings, _on_own_process(models, models.process2_preset))}


def unprinted(recordings: Recordings, models: Models) -> dict[str, Any]:
    """Compute the values that were published with the data but not printed."""
    B = values(models.B, models.names)
    return {
        "model B on the processes": {
            heading: np.round(np.array(column, dtype=float), 5).tolist()
            for heading, column in _errors(
                recordings,
                {"B on process 1": ("process 1 validation", B), "B on process 2": ("process 2 validation", B)},
            ).items()
        },
        "tracking of process 2, RMS deg": {
            title: np.round(rms, 7).tolist() for title, rms in tracking_rms_deg(recordings.folder, 2).items()
        },
    }


def _on_own_process(models: Models, process2: Reduction) -> Mapping[str, tuple[str, FloatArray]]:
    return {
        "process 1": ("process 1 validation", values(models.process1.estimate, models.names)),
        "process 2": ("process 2 validation", values(process2.estimate, models.names)),
    }


def _errors(recordings: Recordings, cases: Mapping[str, tuple[str, FloatArray]]) -> dict[str, list[comparison.Value]]:
    """Evaluate models on runs: heading -> (run, θ)."""
    columns: dict[str, list[comparison.Value]] = {}
    for heading, (run, theta) in cases.items():
        absolute, percent = absolute_errors(recordings.equations[run], theta)
        columns |= {f"{heading} N m": [*absolute], f"{heading} %": [*percent]}
    return columns


def _listed_values(estimate: Estimate, models: Models) -> list[comparison.Value]:
    return [estimate.value(name) if name in estimate.names else None for name in models.names]


def disagreement(recordings: Recordings, models: Models) -> dict[str, float]:
    """Median over the parameters of |A - B| / σ, σ² = σ_A² + σ_B²; near 0.7 where σ is right and both models are.

    printed    the scatter of repetitions alone: what a repeatable model error does is not in it
    white      the size of the residuals, all taken for independent
    bootstrap  the size of the residuals and how long they last: of blocks of their correlation time
    """
    pairs = [(recordings.equations["A"], models.A), (recordings.equations["B"], models.B)]
    difference = np.abs(models.A.values - models.B.values)
    systems = [WhitenedSystem.of(equations, model, repetition_weights(equations)) for equations, model in pairs]
    kinds = {
        "printed": [model.sigma for _, model in pairs],
        "white": [ols(compress(equations, repetition_weights(equations))).sigma for equations, _ in pairs],
        "bootstrap": [block_bootstrap(*pair, system=system).sigma for pair, system in zip(pairs, systems, strict=True)],
    }
    return {kind: float(np.median(difference / np.hypot(*sigmas))) for kind, sigmas in kinds.items()}


def repetition_weights(equations: Regression) -> FloatArray:
    """Weight rows as published, by the scatter of single repetitions, (n_rows,)."""
    assert equations.variance is not None
    return np.asarray(1.0 / np.sqrt(equations.variance))
