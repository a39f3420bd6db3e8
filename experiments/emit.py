"""Programs of a campaign's design: written if their own execution passes all checks, and verified again at any time."""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.certify.certify import DRY_RUN, certify
from excitor.design.criteria import Criterion, conditions
from excitor.design.motion import Run, line_run, read_run, run_data
from excitor.design.programs import effort, registry
from excitor.design.programs.facts import Facts, facts_of, unknown_accelerations
from excitor.design.programs.package import PAGE, Package, package, program_names_of
from excitor.design.programs.plan import Plan, Torques
from excitor.design.programs.poses import poses_plan, slowed
from excitor.design.programs.target import HEAD, UNPROVEN, CannotDrive, Emitter, Target, file_text
from excitor.design.programs.verify import Judge, Verdict, verify
from excitor.design.schedule import RunPlan
from excitor.design.torque import (
    TorqueProblem,
    TorqueTrajectory,
    Tube,
    held_torques,
    scaled,
    simulate_tube,
    simulated_tables,
)
from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.design_json import FILE, RunEntry, TorqueRun, design_digest, no_go_reasons, open_design
from excitor.experiments.files import new_folder, swap, typed
from excitor.experiments.log_formats import refusal, remark
from excitor.experiments.manifest import MANIFEST, PROGRAMS, changed_files, folder_files
from excitor.experiments.plan import (
    carries,
    limits_of,
    model_of,
    planned_runs,
    prior_spread,
    run_problem,
    run_robot,
    torque_model,
    torque_problem_of,
    torque_share,
)
from excitor.experiments.setup import Setup, set_up
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number
from excitor.robots.robot import Motion, Robot

DRY_TORQUE = 0.5  # share of the torques in a dry run: much less, and friction holds the arm
WATCHDOG = 0.02  # s
ROBOTS = 200  # drawn from the prior, none of which may leave its limits under torques

NO_GO, UNKNOWN_LIMITS = "no-go", "unknown-limits"  # refusals that can be overridden, by --allow
LARGEST_FILE = 200_000_000  # bytes: no program of ours comes near
ILL_CONDITIONED = 1e5  # above which Gram matrices are not accurate enough
Listen = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class CheckedPlan:
    """A plan, and the reference of its executed motion."""

    plan: Plan
    judge: Judge
    facts: Facts | None = None  # for the operator's page


@dataclass(frozen=True, eq=False, slots=True)
class Verification:
    """Result of verifying a target's folder."""

    target: Target
    judged: tuple[CheckedPlan, ...]
    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...] = ()  # of the folder as a whole

    @property
    def good(self) -> bool:
        """True if every program passes."""
        return not self.problems and all(verdict.good for verdict in self.verdicts)


@dataclass(frozen=True, eq=False, slots=True)
class EmitResult:
    """Result of a target: a folder, or the reason why there is none."""

    name: str
    folder: Path | None
    verified: Verification | None
    refused: str = ""
    requested: bool = True  # requested by its name, not by "all"
    note: str = ""  # why its logs are insufficient, if they are

    @property
    def good(self) -> bool:
        """True if programs were written, or a target of "all" cannot drive the robot."""
        return self.folder is not None or (not self.requested and self.verified is None)


@dataclass(frozen=True, eq=False, slots=True)
class CampaignPlans:
    """Inputs of a campaign's programs."""

    folder: Path
    programs: tuple[CheckedPlan, ...]
    no_go: tuple[str, ...]  # why the design is a no-go; empty where it is a go
    notes: tuple[str, ...]  # what was left out, and why

    @property
    def go(self) -> bool:
        """True if the design is a go."""
        return not self.no_go


@dataclass(frozen=True, slots=True)
class Request:
    """Options of the programs to be written."""

    targets: tuple[str, ...]  # by name, or "all"
    approximate: bool = False  # for controllers, too, that keep times only roughly
    spacing: float | None = None  # between points of a table, s; None: the target's own
    loss: float = 0.05  # share by which the condition number may grow in execution
    motion_only: bool = False  # for controllers, too, whose logs cannot give a model
    allow: tuple[str, ...] = ()  # refusals that are overridden


def emit(folder: Path, request: Request, listen: Listen) -> tuple[CampaignPlans, list[EmitResult]]:
    """Write the programs of a campaign's design for controllers; a program that fails its own check is not written.

    A no-go design is refused unless the request allows "no-go"; its pages, programs and manifests then state it.
    Nor is a program whose controller logs neither torques nor currents of this robot that a model could come of,
    unless the campaign declares a log of its own, or motion is all that is wanted.
    """
    names = chosen(request.targets, request.approximate)
    unknown = [name for name in request.allow if name not in (NO_GO, UNKNOWN_LIMITS)]
    if unknown:
        raise ExcitorError(
            f"allow: {unknown[0]!r} is no refusal that can be overridden; expected {NO_GO!r} or {UNKNOWN_LIMITS!r}"
        )
    campaign = open_campaign(folder, "design")
    planned = plans_of(campaign, request.loss)
    if planned.no_go and NO_GO not in request.allow:
        raise ExcitorError(
            f"{campaign.folder / FILE}: the design is a no-go, so no program of it is written: "
            f"{'; '.join(planned.no_go)}. Fix that and run excitor design {typed(campaign.folder)} again; or emit it "
            f"on purpose with --allow {NO_GO}, which every page, program and manifest will state"
        )
    planned = replace(planned, programs=tuple(described(planned.programs)))
    robot = planned.programs[0].plan.robot
    unsaid = campaign.content.log is None
    said = remark if campaign.content.task == "payload" else refusal  # a load is in kg
    refusals = {name: said(name, robot) if unsaid else "" for name in names}
    remedy = "; or add --motion-only, if the motion is all that is wanted"
    refusals = {name: f"{why}{remedy}" if why else "" for name, why in refusals.items()}
    made = []
    for name in names:
        why, spacing = "" if request.motion_only else refusals[name], _spacing(name, request.spacing, names)
        if not why and UNKNOWN_LIMITS not in request.allow:
            why = unlimited(name, planned.programs)
        foreign = "" if name in request.targets else other_makers(name, robot)
        if foreign:
            made.append(EmitResult(name, None, None, foreign, requested=False))
            continue
        one = _emit_one(campaign, planned, name, spacing, listen, why)
        note = remark(name, robot) if one.folder and unsaid else ""
        made.append(replace(one, requested=name in request.targets, note=note))
    return planned, made


def described(programs: Sequence[CheckedPlan]) -> Iterator[CheckedPlan]:
    """Add the figures for the operator's page, and which joints have no acceleration limit."""
    for one in programs:
        constraints = one.judge.constraints
        if constraints is None:
            yield one
        else:
            plan = replace(one.plan, unlimited=unknown_accelerations(one.plan, constraints.limits))
            yield replace(one, plan=plan, facts=facts_of(plan, constraints))


def unlimited(name: str, programs: Sequence[CheckedPlan]) -> str:
    """Refusal of a controller whose joints move without a stated acceleration limit; "" where there is none."""
    unknown = list(
        dict.fromkeys(x for one in programs if one.plan.torques is not None for x in one.plan.torques.unknown)
    )
    if unknown:
        return (
            f"{name}: not written: nobody states a limit of {', '.join(unknown)}, and nothing but limits of position "
            "and speed can end an unverified motion in time; state them, as position_deg = [-90.0, 90.0] and "
            "velocity_deg_s = 180.0 under [limits.joint.NAME] of campaign.toml, and design again; or emit on purpose "
            f"with --allow {UNKNOWN_LIMITS}, which page and manifest will state"
        )
    joints = list(dict.fromkeys(joint for one in programs for joint in one.plan.unlimited))
    if not joints or name == "csv":
        return ""
    return (
        f"{name}: not written: neither the robot's file nor its preset nor the campaign states an acceleration limit "
        f"of {', '.join(joints)}, so nothing proves that drives can follow; state it for all joints, as "
        "acceleration_deg_s2 = 300.0 under [limits] of campaign.toml, and design again; or emit on purpose with "
        f"--allow {UNKNOWN_LIMITS}, which page and manifest will state"
    )


def other_makers(name: str, robot: Robot) -> str:
    """Say why "all" leaves a target out: the robot's file states another maker's controller; "" where it does not."""
    makers = {key: target.controller or key for key in registry.NAMES if (target := registry.target(key)).makers}
    stated = [key for key in dict.fromkeys(makers.values()) if key in robot.controllers]
    if name not in makers or not stated or makers[name] in stated or name.partition("-")[0] in stated:
        return ""
    return (
        f"{name}: left out: {robot.name} is driven by {', '.join(stated)}, as [controllers.{stated[0]}] of its file "
        f"states; ask for --target {name} by its name if it drives this arm as well"
    )


def chosen(targets: Sequence[str], approximate: bool) -> list[str]:
    """List the requested targets, with "all" expanded; the neutral tables are always among them."""
    names = ["csv"]
    for given in targets:
        names += registry.NAMES if given == "all" else [given]
    names = list(dict.fromkeys(names))
    names = [name for name in names if name in targets or approximate or not registry.target(name).approximate]
    for name in names:
        if registry.target(name).approximate and not approximate:
            raise ExcitorError(
                f"{name}: its controller takes way-points and only roughly keeps their times, so that the executed "
                "motion is not the designed one; add --approximate if that will do"
            )
    return names


def _spacing(name: str, spacing: float | None, names: Sequence[str]) -> float | None:
    """Return the spacing for tables; a single target that has none refuses it itself."""
    tables = [other for other in names if other != "csv" and registry.target(other).spacing is not None]
    if spacing is None or name == "csv" or (tables and registry.target(name).spacing is None):
        return None
    return spacing


def _emit_one(
    campaign: OpenCampaign, planned: CampaignPlans, name: str, spacing: float | None, listen: Listen, useless: str
) -> EmitResult:
    try:
        if useless:
            package(
                emitter_of(name, planned.programs),
                [one.plan for one in planned.programs if not one.plan.poses],
                spacing,
            )
            return EmitResult(name, None, None, useless)
        made, verified = checked_package(name, planned.programs, spacing, listen)
    except CannotDrive as error:
        return EmitResult(name, None, None, str(error))
    if not verified.good:
        return EmitResult(name, None, verified, f"{name}: not written, because its own check fails")
    inputs = {FILE: design_digest(campaign.folder), "campaign": campaign.digest}
    return EmitResult(name, write_package(made, campaign.folder / PROGRAMS, inputs), verified)


def checked_package(
    name: str, programs: Sequence[CheckedPlan], spacing: float | None, listen: Listen
) -> tuple[Package, Verification]:
    """Make a target's files and run them; with points closer together where that is what they fail for."""
    emitter = emitter_of(name, programs)
    programs, missing = possible(name, programs)
    plans, facts = [judged.plan for judged in programs], [judged.facts for judged in programs]
    made = package(emitter, plans, spacing, facts, missing)
    verified = _verify(made.target, programs, made.texts, listen)
    default = made.target.spacing if plans[0].torques is None else None
    for closer in [default / 2.0, default / 4.0] if default is not None and spacing is None else []:
        if verified.good:
            break
        listen(f"{name}: points every {closer:g} s, because its check fails with fewer")
        try:
            made = package(emitter, plans, closer, facts, missing)
        except CannotDrive:  # what failed before is what there is to say
            break
        verified = _verify(made.target, programs, made.texts, listen)
    return made, verified


def possible(name: str, programs: Sequence[CheckedPlan]) -> tuple[tuple[CheckedPlan, ...], tuple[str, ...]]:
    """Leave out the first runs at reduced speed that a target cannot make; list why."""
    made, why = [], []
    for one in programs:
        try:
            if one.plan.poses:
                package(registry.emitter(name), [one.plan])
            made.append(one)
        except CannotDrive as error:
            why.append(str(error))
    return tuple(made), tuple(dict.fromkeys(why))


def emitter_of(name: str, programs: Sequence[CheckedPlan]) -> Emitter:
    """Choose what writes a target's programs: of torques, or of positions."""
    if any(one.plan.torques is not None for one in programs):
        return effort.Effort(effort.target(name))
    return registry.emitter(name)


def target_of(campaign: OpenCampaign, name: str) -> Target:
    """Describe a target as it serves a campaign: of torques, or of positions."""
    return effort.target(name) if campaign.content.design.excitation == "torque" else registry.target(name)


def write_package(made: Package, parent: Path, inputs: Mapping[str, str]) -> Path:
    """Write a target's folder under a temporary name, then replace the old one by it."""
    contents = folder_files(made, inputs)
    folder = parent / made.target.name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        temporary = new_folder(folder)
        try:
            for name, content in contents.items():
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            swap(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ExcitorError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return folder


def verify_folder(folder: Path, listen: Listen) -> tuple[CampaignPlans, list[Verification]]:
    """Verify all programs under programs/ against the campaign's design."""
    campaign = open_campaign(folder, "design")
    planned = plans_of(campaign)
    parent = campaign.folder / PROGRAMS
    names = [name for name in registry.TARGETS if (parent / name).is_dir()]
    if not names:
        raise ExcitorError(f"{parent}: has no programs; run excitor emit {typed(folder)} --target NAME first")
    strangers = sorted(p.name for p in parent.iterdir() if p.name not in names and not p.name.startswith("."))
    for name in strangers:
        listen(f"note: {parent / name} is no target of excitor; it was not checked")
    verified = []
    for name in names:
        target, contents = target_of(campaign, name), _contents(parent / name)
        found = verify_contents(target, possible(name, planned.programs)[0], contents, listen)
        verified.append(replace(found, problems=(*_folder_problems(campaign, target, contents), *found.problems)))
    return planned, verified


def verify_target(folder: Path, programs: Sequence[CheckedPlan], listen: Listen) -> Verification:
    """Run the programs in a target's folder, which bears the target's name."""
    return verify_contents(registry.target(folder.name), possible(folder.name, programs)[0], _contents(folder), listen)


def verify_contents(
    target: Target, programs: Sequence[CheckedPlan], contents: Mapping[str, bytes], listen: Listen
) -> Verification:
    """Run the programs among a folder's files; what is no text is a problem."""
    problems: list[str] = []
    texts: dict[str, str] = {}
    for file, content in contents.items():
        if file in (MANIFEST, PAGE):
            continue
        try:
            texts[file] = content.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append(f"{file}: byte {error.start} is no text")
    return replace(_verify(target, programs, texts, listen), problems=tuple(problems))


def _verify(target: Target, programs: Sequence[CheckedPlan], texts: Mapping[str, str], listen: Listen) -> Verification:
    names = program_names_of([judged.plan for judged in programs], target)
    verdicts: list[Verdict] = []
    files = [own_files(texts, name, names, target) for name in names]
    for name, judged, own in zip(names, programs, files, strict=True):
        twin = next(
            (
                replace(verdict, program=name)
                for other, there, verdict in zip(programs, files, verdicts, strict=False)
                if verdict.good
                and alike(other, judged)
                and renamed(there, own, ((verdict.program, other.plan.run), (name, judged.plan.run)))
            ),
            None,
        )
        if twin is not None:
            verdicts.append(twin)
            continue
        listen(f"running {target.name}/{name}")
        if judged.plan.torques is not None:
            verdicts.append(effort.verify(judged.plan, target, own, name))
            continue
        if registry.unverified(target.name):
            problems = () if all(UNPROVEN in text[:HEAD] for text in own.values()) else (f"{UNPROVEN} is not stated",)
            verdicts.append(Verdict(name, problems, float("nan"), None, None))
            continue
        executor = registry.executor(target.name, poses=bool(judged.plan.poses))
        verdicts.append(verify(judged.plan, target, executor, files=own, name=name, judge=judged.judge))
    return Verification(target, tuple(programs), tuple(verdicts))


def alike(one: CheckedPlan, other: CheckedPlan) -> bool:
    """Return True if two programs are planned and judged alike, whatever their names."""
    a, b = one.plan, other.plan
    same = a.torques is b.torques is None and a.robot is b.robot and (a.dry, a.payload) == (b.dry, b.payload)
    judges = ((x.constraints, x.score, x.loss) for x in (one.judge, other.judge))
    motions = ((run_data(x.out), run_data(x.body), bool(x.poses), x.site) for x in (a, b))
    return same and not any(x is not y for x, y in zip(*judges, strict=True)) and len({*map(repr, motions)}) == 1


# A whole line that is a remark, or a name for the record; after a closed remark there may be code.
_REMARK = re.compile(r"\s*(?:[#!;]|//|&COMMENT|\"run\": |\(\*(?:(?!\*\)).)*\*\)\s*$|<!--(?:(?!-->).)*-->\s*$)")


def renamed(files: Mapping[str, str], others: Mapping[str, str], words: Sequence[tuple[str, str]]) -> bool:
    """Return True if a program is another, already executed, with its own name everywhere: it executes alike.

    `words`: of both the program's name and its run's, which remarks may have. One name that is left makes it another.
    """
    (name, run), (other, other_run) = words
    mapped = {(file.replace(name, other) if file.startswith(name) else file): file for file in files}
    if mapped.keys() != others.keys():
        return False
    for there, file in mapped.items():
        if there == file:  # a client, which all programs share
            continue
        wanted, found = files[file].replace(name, other).split("\n"), others[there].split("\n")
        if len(wanted) != len(found):
            return False
        for was, a, b in zip(files[file].split("\n"), wanted, found, strict=True):
            plain = [x.replace(one, "").replace(own, "") for x, one, own in ((was, name, run), (b, other, other_run))]
            if a != b and not (_REMARK.match(b) and plain[0] == plain[1]):
                return False
    return True


def own_files(texts: Mapping[str, str], name: str, names: Sequence[str], target: Target) -> dict[str, str]:
    """List a program's files, which begin with its name and with no longer program's, and the shared ones."""
    longer = [other for other in names if other != name and other.startswith(name)]
    return {
        file: text
        for file, text in texts.items()
        if file in target.clients or (file.startswith(name) and not any(file.startswith(other) for other in longer))
    }


def _contents(folder: Path) -> dict[str, bytes]:
    """Read a folder's files; links that lead out of it are refused."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise ExcitorError(f"{path}: leads out of the folder, or is no file; remove it")
        if path.stat().st_size > LARGEST_FILE:
            raise ExcitorError(f"{path}: has {path.stat().st_size / 1e6:.0f} MB; no program is that long")
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def stale_programs(campaign: OpenCampaign, name: str) -> list[str]:
    """List differences of a target's folder from what emit would write now; empty where there are none."""
    folder = campaign.folder / PROGRAMS / name
    if not folder.is_dir():
        return [f"{folder}: has no programs; run excitor emit {typed(campaign.folder)} --target {name} first"]
    return _folder_problems(campaign, target_of(campaign, name), _contents(folder))


def _folder_problems(campaign: OpenCampaign, target: Target, contents: Mapping[str, bytes]) -> list[str]:
    """List changed files, clients among them: those are distributed unchanged; a changed one is never run."""
    clients = [name for name in target.clients if contents.get(name) != file_text(f"clients/{name}").encode()]
    wrong = [f"{name}: is not the client that this version gives out; emit the programs again" for name in clients]
    return [*changed_files(contents, {FILE: design_digest(campaign.folder)}), *wrong]


def plans_of(
    campaign: OpenCampaign, loss: float | None = None, *, poses: bool = True, n_robots: int = ROBOTS
) -> CampaignPlans:
    """Plan the first run at reduced speed, the dry run and the run for every run of the design, in their order.

    `n_robots` of the prior are simulated under torques; guards follow from what they do.
    """
    design = open_design(campaign.folder, campaign.digest)
    setup = set_up(campaign)
    runs = {plan.name: plan for plan in planned_runs(setup)[0]}
    made: list[CheckedPlan] = []
    known: dict[str, list[CheckedPlan]] = {}
    notes: list[str] = []
    torques = {run.name: run for run in design.torque_runs}
    designed = {run.name: run for run in (*design.runs, *design.slow_runs)}
    for name in design.order:
        if name in torques and name in runs:
            made += torque_programs(setup, runs[name], torques[name], n_robots)
            continue
        if name not in runs or name not in designed:
            raise ExcitorError(f"{campaign.folder / FILE}: run {name!r} is not both planned and designed; design again")
        run = designed[name]
        with _naming_file(campaign.folder, name):
            body = run.motion(setup.robot.joint_names)
            if body.series is None:
                one = _moves(setup, runs[name], body)
            elif run.way is None:
                raise ValueError("has no certified way from home to the start; state home_deg, and design again")
            else:
                one = periodic_programs(setup, runs[name], body, read_run(run.way, "way"))
        one = known[name] = _judged_as(known.get(runs[name].same_as or "", []), one)
        if len(one) == 1:
            notes.append(f"run {name!r} has no dry run: at small amplitude its moves are not proven to be clear")
        first = _known_first_run(_kept_first_runs(campaign), run, one[-1]) if poses else None
        if isinstance(first, str):
            notes.append(f"run {name!r} has no first run at reduced speed: {first}")
        made += [first] if isinstance(first, CheckedPlan) else []
        made += [
            one_of if one_of.plan.dry else replace(one_of, judge=replace(one_of.judge, loss=loss)) for one_of in one
        ]
    if not made:
        raise ExcitorError("; ".join(notes) or f"{campaign.folder / FILE}: has no runs; design the campaign first")
    no_go = no_go_reasons(design)
    site = campaign.content.site.model_dump()
    made = [replace(one, plan=replace(one.plan, no_go=no_go, site=site)) for one in made]
    return CampaignPlans(campaign.folder, tuple(made), no_go, tuple(notes))


def _judged_as(repeated: Sequence[CheckedPlan], made: list[CheckedPlan]) -> list[CheckedPlan]:
    """Let the programs of a run that repeats another, with what it carries, share its judges."""
    same = len(repeated) == len(made) and all(
        (a.plan.payload, a.plan.dry) == (b.plan.payload, b.plan.dry) for a, b in zip(repeated, made, strict=True)
    )
    return [replace(b, judge=a.judge) for a, b in zip(repeated, made, strict=True)] if same else made


def torque_programs(setup: Setup, run_plan: RunPlan, run: TorqueRun, n_robots: int) -> Iterator[CheckedPlan]:
    """Plan the dry run, then the run, of torques under which no robot of the prior leaves its limits."""
    problem = torque_problem_of(setup)
    try:
        waves = TorqueTrajectory(problem.excitation, *(np.array(x, dtype=float) for _, x in run.torques))
    except ValueError as error:
        raise ExcitorError(
            f"{setup.campaign.folder / FILE}: run {run.name!r} {error}; design the campaign again"
        ) from None
    for share in (DRY_TORQUE, 1.0):
        tau = held_torques([scaled(waves, share)])[0]
        tau[:, -1] = 0.0
        peak, limit = np.abs(tau).max(axis=1), problem.constraints.limits.torque
        if (peak > limit * (1.0 + 1e-9)).any():
            j = int(np.argmax(peak / limit))
            raise ExcitorError(
                f"run {run.name!r}: {setup.robot.joint_names[j]} is pushed with {peak[j]:.3g} N m (N), above the "
                f"{limit[j]:.3g} that torque_percent = {100.0 * torque_share(setup):g} of [design.torque] and [limits] "
                "allow; design again"
            )
        tube = simulate_tube(problem, tau, spread=prior_spread(setup), n_robots=n_robots)
        if tube.leaves:
            raise ExcitorError(
                f"run {run.name!r} is an unverified motion, and no program of it is written: {tube.leaves}. State the "
                "prior better (prior_percent of [design.torque]), or design smaller torques (torque_percent), a "
                "shorter run (duration_s) or tighter [limits], and design again"
            )
        yield CheckedPlan(_torque_plan(setup, run_plan, problem, tau, tube=tube, share=share), Judge())


def _torque_plan(
    setup: Setup, run_plan: RunPlan, problem: TorqueProblem, tau: FloatArray, *, tube: Tube, share: float
) -> Plan:
    """Plan a program of torques, with guards half-way between the tube and the limits."""
    excitation, limits = problem.excitation, problem.constraints.limits
    span = tube.high - tube.low
    far = [np.where(np.isfinite(x), x, other) for x, other in
           zip(limits.position.T, (tube.low - span - 0.2, tube.high + span + 0.2), strict=True)]  # fmt: skip
    fastest = np.where(np.isfinite(limits.velocity), limits.velocity, 2.0 * tube.speed + 0.2)
    torques = Torques(
        tau=tau.T,
        sample_time=excitation.sample_time,
        limit=np.where(np.isfinite(limits.torque), limits.torque, np.abs(tau).max(axis=1)),
        low=0.5 * (tube.low + far[0]),
        high=0.5 * (tube.high + far[1]),
        speed=0.5 * (tube.speed + fastest),
        tube=(tube.low, tube.high, tube.speed),
        n_robots=tube.n_robots,
        spread=tube.spread,
        watchdog=max(WATCHDOG, 2.0 * excitation.sample_time),
        share=share,
        unknown=tuple(
            f"{name} ({kind})"
            for kind, known in (("position", limits.position.T), ("speed", limits.velocity[None]))
            for name, finite in zip(setup.robot.joint_names, np.isfinite(known).min(axis=0).tolist(), strict=True)
            if not finite
        ),
    )
    joints, start = setup.robot.joint_names, excitation.start
    out = line_run(joints, excitation.sample_time, start[None], ())
    plan = _plan(setup, run_plan, out, simulated_tables(problem, tube.nominal))
    return replace(plan, torques=torques, dry=share < 1.0)


def periodic_programs(setup: Setup, run_plan: RunPlan, body: Run, way: Run) -> list[CheckedPlan]:
    """Plan the dry run, then the run, on a way that leads from home to its start."""
    plan = _plan(setup, run_plan, way, body)
    score = score_of(setup, run_plan)
    judge = Judge(limits_of(setup, run_plan), score)
    dry = replace(plan, body=body.scaled(DRY_RUN), out=slowed(plan.robot, way), dry=True)
    return [CheckedPlan(dry, judge), CheckedPlan(plan, judge)]


def first_run(one: CheckedPlan) -> CheckedPlan | str:
    """Plan a run's first run at reduced speed; or say why there is none."""
    assert one.judge.constraints is not None
    made = poses_plan(one.plan, one.judge.constraints, torque_model(one.plan.robot))
    return made if isinstance(made, str) else CheckedPlan(made, Judge(one.judge.constraints))


# First runs of the last design, by motion: planning takes seconds, and verify wants what emit has planned. They lend
# their moves alone, for which the digests of design and campaign stand; the rest is of the plan at hand.
_FIRST_RUNS: dict[tuple[Path, str, str], dict[str, Plan | str]] = {}


def _kept_first_runs(campaign: OpenCampaign) -> dict[str, Plan | str]:
    key = (campaign.folder.resolve(), design_digest(campaign.folder), campaign.digest)
    if key not in _FIRST_RUNS:
        _FIRST_RUNS.clear()
    return _FIRST_RUNS.setdefault(key, {})


def _known_first_run(kept: dict[str, Plan | str], run: RunEntry, one: CheckedPlan) -> CheckedPlan | str:
    """Plan a run's first run, or take the moves of another with the same motion."""
    key = repr((run.stated, run.way, one.plan.payload))
    if key not in kept:
        made = first_run(one)
        kept[key] = made if isinstance(made, str) else made.plan
    found = kept[key]
    if isinstance(found, str):
        return found
    moved = replace(one.plan, out=found.out, body=found.body, poses=found.poses, left_out=found.left_out)
    return CheckedPlan(replace(moved, role="none", dry=True), Judge(one.judge.constraints))


def with_first_runs(runs: Iterable[Sequence[CheckedPlan]]) -> list[CheckedPlan]:
    """Put each run's first run at reduced speed before its programs, where there is one."""
    listed = [one for programs in runs for one in (first_run(programs[-1]), *programs)]
    return [one for one in listed if isinstance(one, CheckedPlan)]


def _moves(setup: Setup, run_plan: RunPlan, body: Run) -> list[CheckedPlan]:
    """Plan a run of moves; its dry run, which the design did not check, only if it is proven to be clear."""
    constraints = limits_of(setup, run_plan)
    small = body.scaled(DRY_RUN)
    plan = _plan(setup, run_plan, line_run(body.joints, body.sample_time, body.start[None], ()), body)
    made = [CheckedPlan(plan, Judge(constraints))]
    if certify(plan.robot, small, constraints, torque_model=torque_model(plan.robot)).ready:
        made.insert(0, CheckedPlan(replace(plan, body=small, dry=True), Judge(constraints)))
    return made


def _plan(setup: Setup, run_plan: RunPlan, way: Run, body: Run) -> Plan:
    robot, payload = run_robot(setup, run_plan), _payload(setup, run_plan)
    name = setup.campaign.folder.resolve().name or "campaign"
    return Plan(name, run_plan.name, run_plan.role, robot, way, body, payload)


def score_of(setup: Setup, run_plan: RunPlan) -> Callable[[Motion], float]:
    """Condition number of the column-normalised, unweighted matrix that the run was designed for."""
    problem = run_problem(setup, run_plan, ())
    model = model_of(setup, problem.model.columns, Criterion("condition"), run_plan)

    def score(motion: Motion) -> float:
        q, dq, ddq = (x.T[None] for x in (motion.q, motion.dq, motion.ddq))
        (value,) = conditions(model.grams(q, dq, ddq, len(motion)))
        return float(value) if value < ILL_CONDITIONED else condition_number(model.observation(motion))

    return score


def _payload(setup: Setup, run_plan: RunPlan) -> float | None:
    """Return the payload required on the flange, kg: None where the campaign does not state it."""
    if setup.robot.payload is None:
        return None
    return float(setup.robot.payload.phi[9]) if carries(setup, run_plan) else 0.0


@contextmanager
def _naming_file(folder: Path, run: str) -> Iterator[None]:
    """Convert errors of constructors to an error about the file."""
    try:
        yield
    except ExcitorError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        raise ExcitorError(f"{folder / FILE}: run {run!r} {error}; design the campaign again") from None
