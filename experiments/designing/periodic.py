"""One periodic run of a campaign: its search problem, its search, and the best of what can be certified."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.certify.certificate import Certificate
from excitor.design.certify.certify import certify
from excitor.design.certify.limits import has_torque_model
from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, DynamicModel, Model, PowerModel, values
from excitor.design.explain import InfeasibleDesign
from excitor.design.motion import Excitation, Trajectory, period_grid, scaled, steady
from excitor.design.pareto import Front
from excitor.design.problem import Problem, build_problem, trajectory
from excitor.design.schedule import RunPlan, excited_columns, run_constraints
from excitor.design.search import Budget, Found, Progress
from excitor.experiments.campaign import FILE, InvalidCampaign
from excitor.experiments.designing.checkpoint import forget, keep, key_of, recall
from excitor.experiments.designing.front import search_front
from excitor.experiments.designing.run_search import raise_infeasible, search_run
from excitor.experiments.designing.settings import Settings
from excitor.experiments.designing.setup import Setup
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.gram import condition_number, gram
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

FINE_SAMPLES = 2000  # of a period, for the final score
VALIDATION_SHARE = 0.3  # of an excitation's budget: a validation run must be good, not best
_SHRINK = (1.0, 0.99, 0.97, 0.93, 0.85, 0.7, 0.5, 0.3, 0.15)
_FINALISTS = 3


@dataclass(frozen=True, eq=False, slots=True)
class DesignedRun:
    """One run: its motion, how good it is, and what is proven of it."""

    plan: RunPlan
    robot: Robot  # with the payload of this run
    problem: Problem
    trajectory: Trajectory
    condition: float  # by SVD on the fine grid, unweighted, column-normalised, this run alone
    condition_weighted: float
    spectrum: FloatArray  # singular values of the column-normalised matrix
    correlation: FloatArray
    columns: tuple[str, ...]
    certificate: Certificate
    found: Found
    front: Front | None = None  # that the run was picked from


def design_run(
    setup: Setup,
    settings: Settings,
    *,
    index: int,
    plan: RunPlan,
    before: Sequence[DesignedRun],
    listen: Callable[[Progress], None] | None = None,
) -> DesignedRun:
    """Search one run's motion, going on where a search of the same inputs was stopped."""
    where = f"run {plan.name!r}"
    if setup.design.front and plan.role == "identify" and not before:
        chosen, problem, found = search_front(
            setup, settings, plan=plan, problem_of=lambda one, run: run_problem(one, run, ()), listen=listen
        )
        if not found.feasible:
            raise_infeasible(problem, where, settings.seed)
        return replace(_finished(setup, plan, problem, found), front=chosen)
    problem = run_problem(setup, plan, before)
    budget, folder = _share(settings.budget, plan), setup.campaign.folder
    stated = (setup.campaign.digest, settings.seed, budget, settings.method, index, plan.name)
    key = key_of(*stated, _taught(before), _read_elsewhere(setup, problem))
    try:
        found = search_run(
            problem,
            budget,
            settings,
            where=where,
            seed=settings.seed + 1_000_003 * index,
            states={} if settings.fresh else recall(folder, index, key),
            keep=lambda chain, state: keep(folder, index, chain, key=key, state=state),
            listen=listen,
        )
    except InfeasibleDesign:
        forget(folder)  # there is nothing to go on with
        raise
    return _finished(setup, plan, problem, found)


def repeated_run(setup: Setup, plan: RunPlan, twin: DesignedRun) -> DesignedRun:
    """Run the same motion again, perhaps with another payload: what is proven must be proven again."""
    robot = run_robot(setup, plan)
    if plan.payload == twin.plan.payload:
        return replace(twin, plan=plan)
    certificate = certify(
        robot, twin.trajectory, setup.constraints, torque_model=torque_model(robot), way=twin.certificate.way
    )
    return replace(twin, plan=plan, robot=robot, certificate=certificate)


def run_robot(setup: Setup, plan: RunPlan) -> Robot:
    """Take the robot as it is in a run: a pair's unloaded runs are without the payload."""
    return setup.robot if carries(setup, plan) else replace(setup.robot, payload=None)


def carries(setup: Setup, plan: RunPlan) -> bool:
    """Tell whether a run is made with the payload that the campaign states."""
    return setup.design.schedule not in ("payload-pair", "static-pair") or plan.payload is not None


def run_problem(setup: Setup, plan: RunPlan, before: Sequence[DesignedRun]) -> Problem:
    """Set up one run's search: its joints, the columns it can show, and what runs before it told.

    The search is made with the payload that the campaign states, where the run will be repeated with it.
    """
    if plan.parameters:
        own = {"criterion": "sigma", "parameters": list(plan.parameters)}
        setup = replace(setup, design=setup.design.model_copy(update=own))
    robot = setup.robot
    excitation = replace(setup.excitation, moving=plan.moving)
    pose = np.where(plan.moving, 0.0, setup.pose)
    columns = excited_columns(robot, plan.moving, base_parameters(robot).kept, np.where(plan.moving, np.nan, pose))
    criterion = criterion_of(setup, columns)
    model = model_of(setup, columns, criterion, plan)
    columns = model.columns
    problem = build_problem(
        robot,
        excitation,
        constraints=limits_of(setup, plan),
        criterion=criterion,
        model=model,
        pose=pose,
    )
    earlier = np.zeros((columns.size, columns.size))
    for run in before if plan.role == "identify" else ():
        if run.plan.role == "identify":
            gram = _gram(model_of(setup, columns, criterion, run.plan), run.trajectory)
            earlier += _samples(setup, run.trajectory.excitation) / FINE_SAMPLES * gram
    return replace(problem, earlier=earlier, share=_samples(setup, excitation) / problem.n_period)


def _samples(setup: Setup, excitation: Excitation) -> float:
    """Count the samples that a run's measured periods bring."""
    return excitation.measured * excitation.period * setup.noise.rate_hz


def limits_of(setup: Setup, plan: RunPlan) -> Constraints:
    """Take a run's constraints; torques that no prior model tells are not judged."""
    constraints = run_constraints(plan, setup.constraints)
    if has_torque_model(setup.robot):
        return constraints
    free = np.full(setup.robot.n_joints, np.inf)
    return replace(constraints, limits=replace(constraints.limits, torque=free), torque_rms=free)


def criterion_of(setup: Setup, columns: IntArray) -> Criterion:
    """Build the criterion that the campaign asks for, over the columns that a run can show."""
    kind = setup.design.criterion
    if kind == "condition":
        return Criterion("condition")
    robot, base = setup.robot, base_parameters(setup.robot)
    place = [list(base.kept).index(column) for column in columns]
    if kind == "path":
        from excitor.experiments.designing.task import task_motion

        task = task_motion(setup)
        return Criterion("path", task=gram(robot, task, columns) / (len(task) * robot.n_joints))
    beta = base.values(prior(robot))[place]
    if kind != "sigma":
        return Criterion(kind, scale=_magnitudes(setup, columns, beta))
    names = [base.names[k].removesuffix("R") for k in place]
    wanted = [name.removesuffix("R") for name in setup.design.parameters]
    missing = [name for name in wanted if name not in names]
    if missing:
        told = f"{', '.join(missing)} is no base parameter that this run can show; those are {', '.join(names)}"
        raise InvalidCampaign(setup.campaign.folder / FILE, [f"design.parameters: {told}"])
    return Criterion(
        "sigma", scale=_magnitudes(setup, columns, beta), chosen=tuple(names.index(name) for name in wanted)
    )


def model_of(setup: Setup, columns: IntArray, criterion: Criterion, plan: RunPlan) -> Model:
    """Choose the matrix: unweighted for condition numbers, rows in units of their noise for everything else.

    Torques of joints that stand still are not used.
    """
    if setup.design.model == "power":
        return PowerModel(setup.robot, columns, None if criterion.kind == "condition" else setup.noise.sigma)
    if setup.design.model == "load":
        from excitor.design.criteria import load_model

        return load_model(setup.robot, setup.robot.tool.link, moving=plan.moving)
    weights = np.ones(setup.robot.n_joints) if criterion.kind == "condition" else 1.0 / setup.noise.sigma
    return DynamicModel(setup.robot, columns, np.where(plan.moving, weights, 0.0))


def _magnitudes(setup: Setup, columns: IntArray, beta: FloatArray) -> FloatArray:
    """Say how large a parameter is, or may be without rising above the noise: max(|β|, σ / rms of its column)."""
    motion = random_motion(setup.robot, 400)
    square = np.diag(gram(setup.robot, motion, columns, 1.0 / setup.noise.sigma)) / len(motion)
    return np.maximum(np.abs(beta), 1.0 / np.sqrt(np.maximum(square, 1e-300)))


def _gram(model: Model, of: Trajectory) -> FloatArray:
    """WᵀW of a run over the fine grid."""
    motion = steady(of, period_grid(of.excitation, FINE_SAMPLES))
    q, dq, ddq = (np.ascontiguousarray(x.T)[None] for x in (motion.q, motion.dq, motion.ddq))
    return np.asarray(model.grams(q, dq, ddq, FINE_SAMPLES)[0])


def _taught(before: Sequence[DesignedRun]) -> list[bytes]:
    return [run.trajectory.sines.tobytes() + run.trajectory.cosines.tobytes() for run in before]


def _read_elsewhere(setup: Setup, problem: Problem) -> list[bytes]:
    """Collect what a search depends on beyond the campaign's text: an earlier model's parameters and noise, a task."""
    scale, task = problem.criterion.scale, problem.criterion.task
    arrays = (setup.robot.chi, setup.noise.sigma, scale, task)
    return [b"" if array is None else array.tobytes() for array in arrays]


def _finished(setup: Setup, plan: RunPlan, problem: Problem, found: Found) -> DesignedRun:
    """Take the best finalist that can be certified, a little smaller if need be."""
    order = [k for k in range(len(found.value)) if found.violation[k] <= 0.0]
    scores = sorted((fine_value(problem, trajectory(problem, found.candidates, k)), k) for k in order)
    best: tuple[float, Trajectory, Certificate] | None = None
    for value, k in scores[:_FINALISTS]:
        if best is not None and value >= best[0]:
            break
        for amplitude in _SHRINK:
            trial = scaled(trajectory(problem, found.candidates, k), amplitude)
            worth = fine_value(problem, trial)
            if best is not None and worth >= best[0]:
                break
            certificate = _proven(setup, plan, trial)
            if certificate.ready:
                best = (worth, trial, certificate)
                break
    if best is None:
        chosen = trajectory(problem, found.candidates, scores[0][1])
        best = (scores[0][0], chosen, _proven(setup, plan, chosen))
    return _described(setup, plan, problem, best[1], best[2], found)


def _proven(setup: Setup, plan: RunPlan, chosen: Trajectory) -> Certificate:
    """Prove a motion; that of a run without its pair's payload must hold with it, too, on the same way from home."""
    robot, constraints = run_robot(setup, plan), run_constraints(plan, setup.constraints)
    heavy = certify(setup.robot, chosen, constraints, torque_model=torque_model(setup.robot))
    if carries(setup, plan) or not heavy.ready:
        return heavy
    return certify(robot, chosen, constraints, torque_model=torque_model(robot), way=heavy.way)


def torque_model(robot: Robot) -> bool | None:
    """Tell the certificate whether torques can be judged at all."""
    return None if has_torque_model(robot) else False


def fine_value(problem: Problem, candidate: Trajectory) -> float:
    """Score a motion on the fine grid; condition numbers by SVD."""
    if problem.criterion.kind == "condition" and not problem.earlier.any():
        return condition_number(
            problem.model.observation(steady(candidate, period_grid(candidate.excitation, FINE_SAMPLES)))
        )
    G = problem.earlier + problem.share * problem.n_period / FINE_SAMPLES * _gram(problem.model, candidate)
    return float(values(problem.criterion, G[None])[0])


def _described(
    setup: Setup, plan: RunPlan, problem: Problem, chosen: Trajectory, certificate: Certificate, found: Found
) -> DesignedRun:
    motion = steady(chosen, period_grid(chosen.excitation, FINE_SAMPLES))
    robot, columns = run_robot(setup, plan), problem.model.columns
    one = Criterion("condition")
    W = model_of(setup, columns, one, plan).observation(motion)
    norms = np.linalg.norm(W, axis=0)
    unit = W / np.where(norms > 0.0, norms, 1.0)
    weights = np.where(plan.moving, 1.0 / setup.noise.sigma, 0.0)
    weighted = W if setup.design.model != "dynamic" else DynamicModel(robot, columns, weights).observation(motion)
    return DesignedRun(
        plan,
        robot,
        problem,
        chosen,
        condition_number(W),
        condition_number(weighted),
        np.linalg.svd(unit, compute_uv=False),
        unit.T @ unit,
        _column_names(setup, columns),
        certificate,
        found,
    )


def _column_names(setup: Setup, columns: IntArray) -> tuple[str, ...]:
    """Name columns: base parameters by their regrouping's name; beyond the parameters come efficiencies."""
    robot, base, names = setup.robot, base_parameters(setup.robot), layout(setup.robot).names
    known = dict(zip(base.kept.tolist(), base.names, strict=True)) if setup.design.model != "load" else {}
    beyond = {len(names) + j: f"efficiency {name}" for j, name in enumerate(robot.joint_names)}
    return tuple(known.get(k) or beyond.get(k) or names[k] for k in columns.tolist())


def _share(budget: Budget, plan: RunPlan) -> Budget:
    share = VALIDATION_SHARE if plan.role == "validate" else 1.0
    if budget.counted:
        return Budget(evaluations=max(1, round(share * budget.amount)))
    return Budget(seconds=share * budget.amount)
