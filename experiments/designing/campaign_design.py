"""The design stage: plan the runs, make each one's motion, forecast what all of them will tell."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.certify.certificate import Certificate
from excitor.design.certify.limits import has_torque_model
from excitor.design.forecast import CONDITION, Check, Forecast, PlannedRun, forecast
from excitor.design.motion import period_grid, steady
from excitor.design.schedule import RunPlan
from excitor.design.search import Progress
from excitor.design.slow import measured_duration, measured_motion
from excitor.experiments.designing.checkpoint import forget
from excitor.experiments.designing.periodic import DesignedRun, design_run, repeated_run
from excitor.experiments.designing.planned import planned_runs
from excitor.experiments.designing.run_search import Stopped
from excitor.experiments.designing.settings import Settings
from excitor.experiments.designing.setup import Setup
from excitor.experiments.designing.slow import DesignedSlowRun, design_slow_run
from excitor.experiments.designing.torque import DesignedTorqueRun, design_torque_runs, planned_torque_run
from excitor.experiments.designing.zones import is_bodiless, moving_links_without_volume
from excitor.robots.arrays import BoolArray
from excitor.robots.cell import adjacent_links
from excitor.robots.robot import Motion, Robot

FORECAST_SAMPLES = 600
LEAST_ROBUST = 0.8  # of models drawn near the prior's
_SLOW_STEP = 0.1  # s between the samples of a slow run that the forecast looks at

Listener = Callable[[str, Progress], None]


@dataclass(frozen=True, eq=False, slots=True)
class Designed:
    """A campaign's design."""

    setup: Setup
    settings: Settings
    runs: tuple[DesignedRun, ...]  # periodic ones
    slow_runs: tuple[DesignedSlowRun, ...]
    order: tuple[str, ...]  # in which all are executed
    waiting: tuple[RunPlan, ...]  # to be designed once earlier runs have taught
    forecast: Forecast
    cpu_seconds: float
    torque_runs: tuple[DesignedTorqueRun, ...] = ()  # instead of periodic ones

    @property
    def searched(self) -> list[DesignedRun | DesignedTorqueRun]:
        """List the runs that a search made."""
        return [*self.runs, *self.torque_runs]

    @property
    def certificates(self) -> dict[str, Certificate]:
        """What is proven of each run, by its name."""
        proven = {run.plan.name: run.certificate for run in self.runs}
        proven |= {run.plan.name: run.certificate for run in self.torque_runs}
        return proven | {slow.plan.name: slow.certificate for slow in self.slow_runs}

    @property
    def ready(self) -> bool:
        """Tell whether every run's certificate holds."""
        return all(certificate.ready for certificate in self.certificates.values())

    @property
    def checks(self) -> tuple[Check, ...]:
        """What go or no-go rests on besides the certificate: the forecast, or a load's own matrix."""
        return (*self._taught, *volume_checks(self.setup))

    @property
    def _taught(self) -> tuple[Check, ...]:
        if not has_torque_model(self.setup.robot) and self.setup.design.schedule != "gentle-first":
            return (*self.forecast.checks, _BLIND)
        if self.torque_runs:
            return (*self.forecast.checks, _robust(min(run.proven.robustness.share for run in self.torque_runs)))
        if self.setup.design.schedule == "static-pair":
            return (_weighs(self.setup, self.slow_runs),)
        if self.setup.design.model != "load":
            return self.forecast.checks
        value = self.runs[0].condition
        holds = value <= CONDITION
        told = f"the condition number of the load's matrix is {value:.3g}, at most {CONDITION:g} is asked for"
        return (Check("condition", value, CONDITION, holds, told),)

    @property
    def go(self) -> bool:
        """Tell whether the design is whole, proven, and will teach enough."""
        return self.ready and self.finished and all(check.holds for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the design is a no-go, in sentences; empty where it is a go."""
        told = [check.sentence for check in self.checks if not check.holds]
        for name, certificate in self.certificates.items():
            failing = [item.name for item in certificate.items if not item.holds]
            if failing:
                shown = ", ".join(failing[:5]) + (" and others" if len(failing) > 5 else "")
                told.insert(0, f"Run {name!r} is not certified: {shown}")
        if not self.finished:
            again = "begins it again" if self.torque_runs else "goes on with it"
            told.append(f"The search was interrupted; excitor design {again}")
        return tuple(told)

    @property
    def notes(self) -> tuple[str, ...]:
        """What no certificate looked at, each said once."""
        return tuple(dict.fromkeys(note for c in self.certificates.values() for note in c.notes))

    @property
    def finished(self) -> bool:
        """Tell whether every run is there, and its search came to its end."""
        whole = set(self.order) <= self.certificates.keys()
        return whole and all(run.found.stopped == "budget spent" for run in self.searched)


def volume_checks(setup: Setup) -> tuple[Check, ...]:
    """Check that every moving link has a collision volume, where a zone or the self-collision check is about it."""
    robot, scene = setup.robot, setup.constraints.scene
    moving = _can_move(setup)
    bare = [j for j in moving_links_without_volume(robot, moving) if not is_bodiless(setup.campaign.robot, j)]
    zones = [zone.name for zone in (scene.zones if scene is not None else ()) if zone.bodies != "tool"]
    itself = setup.campaign.content.cell.self_collision and _may_meet_itself(robot, bare)
    if not bare or not (zones or itself):
        return ()
    shown = [robot.mechanism.link_names[j] for j in bare]
    total = len(moving_links_without_volume(replace(robot, capsules=()), moving))
    asked = [*(f"zone {name!r}" for name in zones), *(["[cell] self_collision"] if itself else [])]
    less = [*(['bodies = "tool" in the zones'] if zones else []), *(["self_collision = false"] if itself else [])]
    alone = zones and all(capsule.link < 0 for capsule in robot.capsules)
    clear = "only the tool was kept clear" if alone else "nothing keeps them clear"
    sentence = (
        f"{' and '.join(asked)} ask for clear links, but {len(shown)} of {total} moving links of {robot.name} have no "
        f"collision volume: {', '.join(shown)} (each named by the joint that moves it), so {clear}; "
        f"{_how_to_add_volumes(setup)}; or state {' and '.join(less)} in campaign.toml, and keep the links clear "
        "yourself"
    )
    return (Check("collision volumes", float(total - len(bare)), float(total), False, sentence),)


def _can_move(setup: Setup) -> BoolArray:
    """Joints that move in a run, or on the way from home to where a run holds them, (n_joints,)."""
    free = np.ones(setup.robot.n_joints, dtype=bool)
    free[list(setup.robot.locked)] = False
    if setup.design.excitation == "torque" or setup.constraints.home is None:
        return free  # joints that no torque drives swing along
    stays = np.abs(setup.pose - setup.constraints.home) <= 1e-6
    return np.asarray(free & (setup.excitation.moving | ~stays))


def _may_meet_itself(robot: Robot, links: Sequence[int]) -> bool:
    """Whether one of the links could meet another link or the base: one that no joint connects it with."""
    adjacent = adjacent_links(robot)
    others = range(-1, robot.mechanism.n_links)
    return any(j != k and frozenset((j, k)) not in adjacent for j in links for k in others)


def _how_to_add_volumes(setup: Setup) -> str:
    source = setup.campaign.robot_source
    if Path(source).suffix.lower() in (".urdf", ".xml"):
        return f"give each a <collision> of box, cylinder or sphere in {source} (meshes are not read)"
    table = "[[capsule]] with link, start, end and radius"
    if Path(source).suffix.lower() == ".toml":
        return f"give each a {table} in {source}"
    return f"give each a {table} in a copy of the catalogue's {source}.toml, and name the copy in campaign.toml"


_BLIND = Check(
    "torque model",
    0.0,
    1.0,
    False,
    'masses of links are unknown, so no torque was judged at these speeds; schedule = "gentle-first" begins slowly',
)


def _weighs(setup: Setup, runs: Sequence[DesignedSlowRun]) -> Check:
    """Ask that poses held tell a load's mass and centre apart, by all joints' torques."""
    from excitor.experiments.payload.schedule import poses_condition

    knots = np.concatenate([one.run.knots[1:][one.run.measured] for one in runs])
    value = poses_condition(setup.robot, knots)
    told = f"poses tell mass and centre with condition number {value:.3g}, at most {CONDITION:g} is asked for"
    return Check("condition", value, CONDITION, value <= CONDITION, told)


def _robust(share: float) -> Check:
    """Ask that a motion which no controller holds keeps its limits for most models near the prior's."""
    told = (
        f"{share:.0%} of models near the prior's keep the limits, at least {LEAST_ROBUST:.0%} is asked for of torques "
        "that no position controller holds"
    )
    return Check("robustness", share, LEAST_ROBUST, share >= LEAST_ROBUST, told)


def design(setup: Setup, settings: Settings, listen: Listener | None = None) -> Designed:
    """Design all runs of a campaign; InfeasibleDesign tells what blocks where nothing fits."""
    started = time.process_time()
    if settings.fresh:
        forget(setup.campaign.folder)
    if setup.design.excitation == "torque":
        return _design_torques(setup, settings, listen, started)
    plans, waiting = planned_runs(setup)
    runs: list[DesignedRun] = []
    slow: list[DesignedSlowRun] = []
    for index, plan in enumerate(plans):
        twin = next((run for run in runs if run.plan.name == plan.same_as), None)
        if plan.kind != "excitation":
            slow.append(design_slow_run(setup, plan, settings.seed))
        elif twin is not None:
            runs.append(repeated_run(setup, plan, twin))
        else:
            tell = None if listen is None else _named(plan.name, listen)
            try:
                runs.append(design_run(setup, settings, index=index, plan=plan, before=runs, listen=tell))
            except Stopped:
                if not runs:
                    raise
                break  # asked to stop: the runs before are what there is
            if runs[-1].found.stopped == "interrupted":
                break
    return Designed(
        setup,
        settings,
        tuple(runs),
        tuple(slow),
        tuple(plan.name for plan in plans),
        waiting,
        forecast(
            setup.robot,
            _taught(runs, slow),
            setup.noise,
            target=setup.design.target_relative_sigma_percent / 100.0,
        ),
        time.process_time() - started,
    )


def _design_torques(setup: Setup, settings: Settings, listen: Listener | None, started: float) -> Designed:
    """Design a campaign's torque runs, which are all it has; what they may be trusted with is remarked."""
    setup, plans, runs = design_torque_runs(setup, settings, listen)
    taught = [planned_torque_run(run, FORECAST_SAMPLES) for run in runs if run.plan.role == "identify"]
    names = tuple(plan.name for plan in plans)
    target = setup.design.target_relative_sigma_percent / 100.0
    foreseen = forecast(setup.robot, taught, setup.noise, target=target)
    cpu_seconds = time.process_time() - started
    return Designed(setup, settings, (), (), names, (), foreseen, cpu_seconds, torque_runs=runs)


def _named(name: str, listen: Listener) -> Callable[[Progress], None]:
    return lambda progress: listen(name, progress)


def _taught(runs: list[DesignedRun], slow: list[DesignedSlowRun]) -> list[PlannedRun]:
    """Collect what identification will have."""
    planned = []
    for run in runs:
        if run.plan.role == "identify":
            excitation = run.trajectory.excitation
            motion: Motion = steady(run.trajectory, period_grid(excitation, FORECAST_SAMPLES))
            planned.append(PlannedRun(run.plan.name, motion, excitation.period, excitation.measured))
    for one in slow:
        if one.plan.role == "identify":
            motion = measured_motion(one.run, _SLOW_STEP)
            planned.append(PlannedRun(one.plan.name, motion, measured_duration(one.run), 1))
    return planned
