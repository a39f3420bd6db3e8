"""Certify that a run keeps its limits, between the samples too: from the home pose, through the run, and back.

The certificate is made from the trajectory alone, independently of the search that found it. Joint limits of whole
periods are proven by the Ehlich-Zeller bound; ramps, torques and the tool's speed by samples and a bound of the second
derivative; distances, to singularities too, by a Lipschitz bound, on intervals bisected until they are decided.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.approach import NoPath, approach
from excitor.design.constraints.constraint import Margin, Row, margin_of, tightest, unproven
from excitor.design.constraints.constraints import Constraints
from excitor.design.motion import Run, Segment
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import Scene, bodies_without_volume, required, row_names, unchecked_pairs
from excitor.robots.errors import AssemblyError
from excitor.robots.robot import Robot

DRY_RUN = 0.15  # amplitude of the dry run
_AT_REST = 1e-9  # rounding of the envelope's end, as a share of the largest derivative


@dataclass(frozen=True, slots=True)
class Robustness:
    """Share of perturbed models, each parameter off by up to ± spread on its own, whose run keeps the limits."""

    spread: float
    n_models: int
    share: float  # of models whose run keeps all limits as stated
    diverged: float  # share of models whose run runs away
    breaks: tuple[tuple[str, float], ...]  # what is broken, by how large a share of models, most often first


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a motion was simulated that no controller commands."""

    finest_step: float  # s
    robustness: Robustness


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """Margins of all limits of a run; notes list what was not checked."""

    items: tuple[Margin, ...]
    notes: tuple[str, ...] = ()
    way: Run | None = None  # from the home pose to the start, and backwards at the end
    simulation: Simulation | None = None  # of a motion that is simulated, not proven

    @property
    def ready(self) -> bool:
        """Return True if every limit is proven to hold."""
        return all(item.holds for item in self.items)


def failing(certificate: Certificate) -> tuple[Margin, ...]:
    """List the limits that are exceeded, or not proven to hold."""
    return tuple(item for item in certificate.items if not item.holds)


@dataclass(frozen=True, eq=False, slots=True)
class _Task:
    """Robot, constraints and torque options that a motion is checked against."""

    robot: Robot
    constraints: Constraints
    torque: bool  # whether torques are looked at
    trusted: bool  # whether the prior model counts although masses are unknown


def certify(
    robot: Robot,
    run: Run,
    constraints: Constraints,
    *,
    torque_model: bool | None = None,
    way: Run | NoPath | None = None,
) -> Certificate:
    """Prove that a run keeps to its limits; a periodic one with its dry run, the way from home and the way back.

    `torque_model`: True uses the prior model for the torques; by default it is used where all masses are known, and
    torque limits stay unproven otherwise; False leaves torques unchecked, as for a gentle first run. Without `way`,
    one is searched for. A run of moves starts and ends at home; its repeated moves are checked once.
    """
    task = _Task(robot, constraints, torque_model is not False, bool(torque_model))
    pieces = run.pieces()
    items = [item for group in _checked(task, pieces, whole=run.series is not None).values() for item in group]
    if run.series is None:
        return Certificate(tuple(items), _notes(task))
    items += _rests(run, pieces)
    items += _summed_up("dry run", _checked(task, run.scaled(DRY_RUN).pieces()))
    home, start = constraints.home, run.periodic.center
    if way is None and home is not None:
        way = approach(robot, home, start, constraints, sample_time=run.sample_time)
    if isinstance(way, NoPath):
        items.append(unproven(Row("way from home", "", 0.0), way.reason))
        return Certificate(tuple(items), _notes(task))
    if way is not None:
        items += _way_items(task, way, start)
    return Certificate(tuple(items), _notes(task), way)


def _checked(task: _Task, pieces: tuple[Segment, ...], *, whole: bool = False) -> dict[str, list[Margin]]:
    """Check motion segments against all constraints, means over the period where they are a `whole` run's.

    Returns margins by kind of row. A closed chain that does not assemble leaves a constraint unproven.
    """
    margins: dict[str, list[Margin]] = {}
    for item in task.constraints.items:
        rows = item.rows(task.robot)
        if not rows or (item.needs_model and not task.torque) or (item.per_period and not whole):
            continue
        try:
            found = item.margins(task.robot, pieces, trusted=task.trusted)
        except AssemblyError as error:
            found = [unproven(Row(rows[0].kind, "", 0.0), str(error))]
            margins[rows[0].kind] = found
            continue
        for row, margin in zip(rows, found, strict=False):
            margins.setdefault(row.kind, []).append(margin)
    return margins


def _summed_up(name: str, margins: dict[str, list[Margin]]) -> list[Margin]:
    return [tightest(f"{name}: {kind}", group) for kind, group in margins.items() if group]


def _rests(run: Run, pieces: tuple[Segment, ...]) -> list[Margin]:
    """Check that a periodic run starts and ends at rest, at the pose it swings about."""
    most, center = run.periodic.swings, run.periodic.center
    first, last = pieces[0], pieces[-1]
    ends = (("start", 0.0, first, 0.0), ("end", run.duration, last, last.duration))
    items = []
    for name, t, piece, inside in ends:
        worst = 0.0
        for order in range(4):
            rest = center if order == 0 else 0.0 * center
            outermost = run.at(np.array([t]), order)[0]
            in_motion = piece.at(np.array([inside]), order)[0]  # standing still before it would hide a jump
            worst = max(worst, _share(outermost - rest, most[order]), _share(in_motion - rest, most[order]))
        proof = "position minus centre and its derivatives to the third evaluated, over their largest values"
        where = f"{t:.3f} s"
        items.append(margin_of(Row(f"{name} at rest", "1", _AT_REST), worst, worst, proof=proof, where=where))
    return items


def _share(values: FloatArray, most: FloatArray) -> float:
    return float(np.divide(np.abs(values), most, out=np.zeros_like(values), where=most > 0.0).max())


def _way_items(task: _Task, way: Run, start: FloatArray) -> list[Margin]:
    home = way.knots[0] if task.constraints.home is None else task.constraints.home
    proof = "last pose of the way compared with where it must lead"
    ends = {"way from home": np.abs(way.knots[-1] - start).max(), "way back": np.abs(way.knots[0] - home).max()}
    items = [margin_of(Row(f"{name}: arrives", "rad", 1e-9), off, off, proof=proof) for name, off in ends.items()]
    if way.duration == 0.0:
        return items
    items += _summed_up("way from home", _checked(task, way.pieces()))
    return items + _summed_up("way back", _checked(task, way.reversed().pieces()))


def _notes(task: _Task) -> tuple[str, ...]:
    constraints = task.constraints
    notes: list[str] = []
    if not task.torque:
        unchecked = [item for item in constraints.items if item.needs_model]
        joints = dict.fromkeys(task.robot.joint_names[row.joint] for item in unchecked for row in item.rows(task.robot))
        if joints:
            notes.append(
                f"torque limits of {', '.join(joints)} were not checked: no prior model is used, so plan a gentle run"
            )
    if constraints.home is None:
        notes.append("no home pose is stated, so the way to the start and back was not checked")
    if constraints.scene is None:
        notes.append("no cell is stated, so distances to obstacles and between links were not checked")
    else:
        notes += _left_out(task.robot, constraints.scene)
    limits = constraints.limits
    quantities = {"acceleration": limits.acceleration, "jerk": limits.jerk, "torque": limits.torque}
    for name, values in {"position": limits.position.sum(axis=1), "velocity": limits.velocity, **quantities}.items():
        free = [task.robot.joint_names[i] for i in np.flatnonzero(~np.isfinite(values))]
        if free:
            notes.append(f"no {name} limit is stated for {', '.join(free)}")
    return tuple(notes)


def _left_out(robot: Robot, scene: Scene) -> list[str]:
    notes = []
    if scene.self_collision:
        unchecked, reasons = unchecked_pairs(robot, scene), dict[str, list[str]]()
        for pair in unchecked:
            reasons.setdefault(pair.reason, []).append(pair.name)
        if unchecked:
            listed = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
            counted = "1 pair of links is" if len(unchecked) == 1 else f"{len(unchecked)} pairs of links are"
            notes.append(f"{counted} not kept apart: {listed}")
        lowered = [
            f"{name} ({1e3 * need:.0f} mm)"
            for name, need in zip(row_names(robot, scene), required(robot, scene), strict=True)
            if name.split(" / ")[0] not in {zone.name for zone in scene.zones} and need < scene.self_clearance
        ]
        if lowered:
            notes.append(
                f"neighbours that are never far apart keep less than the cell's clearance: {', '.join(lowered)}"
            )
    bare = bodies_without_volume(robot)
    if bare:
        notes.append(f"{', '.join(bare)} of {robot.name} have no capsule, so their clearance is not checked")
    return notes
