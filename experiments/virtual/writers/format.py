"""What a vendor's format carries, as data; and a recording as that vendor's controller shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from excitor.design.programs.plan import BACK, END, MEASURED, OUT, WARM_UP
from excitor.design.programs.target import Target, axes_of, to_axes
from excitor.experiments.virtual.plant import noise_scale
from excitor.experiments.virtual.recorded import Recorded
from excitor.experiments.virtual.sensors import with_rows
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import joint_torques
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot

# What drives tell: motors' currents; torques at the motors; those brought to the joints by the gears; sensors there.
Effort = Literal["current", "motor torque", "joint torque", "torque sensor"]

Column = tuple[str, FloatArray | IntArray | list[str]]  # of a table: how its cells are written, and what


@dataclass(frozen=True, slots=True)
class Format:
    """A logger's format. Patterns of channels hold {axis}, its number {k} from 1, {j} from 0, or {m}: n_joints + k."""

    name: str
    title: str  # of the logger, for sentences
    reader: str  # as `excitor.identify.logs.readers` calls it
    position: str  # channels of measured positions, as the reader names them
    efforts: Mapping[Effort, str] = field(default_factory=dict)  # the first that a robot has is written
    suffix: str = ".csv"  # after the program's name: of the file or folder that is handed to the reader
    whole: bool = True  # ways out and back are logged too
    lead: float = 0.3  # s logged before and after the run, where they are not
    even: bool = False  # the file has no time stamps that could tell jitter
    marks: bool = True
    step: float | None = None  # s between rows; None: the controller's own
    per_mille: bool = False  # torques are in thousandths of `rated`
    time: str | None = None  # the column of time, where the reader does not know it


class Writer(Protocol):
    """A module of `writers`."""

    FORMATS: tuple[Format, ...]

    def write(self, shown: "Shown", folder: Path, name: str) -> list[Path]:
        """Write the files of one program, the one that is handed to a reader first."""


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """A recording in a controller's axes and units, without the rows that its logger leaves out."""

    format: Format
    robot: Robot
    seed: int
    axes: tuple[str, ...]
    degrees: bool  # deg and mm rather than rad and m
    t: FloatArray  # (n,), s
    mark: IntArray  # (n,)
    reference: FloatArray  # (n, n_axes)
    reference_velocity: FloatArray
    position: FloatArray
    velocity: FloatArray
    motor: FloatArray  # (n, n_joints), rad or m of the motors
    effort: FloatArray  # (n, n_joints); no columns where the format carries none
    effort_kind: Effort | None
    model: FloatArray  # (n, n_joints): what the controller's own model says; never to be identified from
    temperature: FloatArray  # (n, n_joints), °C
    scaling: FloatArray  # (n,)

    def __post_init__(self) -> None:
        wide = ("reference", "reference_velocity", "position", "velocity", "motor", "model", "temperature")
        freeze(self, finite=False, order="C", t="n", mark="int: n", scaling="n", **dict.fromkeys(wide, "n n_joints"))
        freeze(self, finite=False, effort=f"{len(self.t)} n_efforts")

    @property
    def step(self) -> float:
        """The interval between rows, s: the median, jitter aside, of controllers that count tenths of a millisecond."""
        return float(np.round(np.median(np.diff(self.t)), 4))

    @property
    def running(self) -> BoolArray:
        """Tell which rows belong to the run itself."""
        return in_run(self.mark)

    @property
    def since(self) -> FloatArray:
        """Tell how long the run has been going on, s."""
        return np.asarray(self.t - self.t[np.argmax(self.running)])

    @property
    def part(self) -> IntArray:
        """Count the parts of the run, from 1; 0 outside."""
        begins = self.running & np.concatenate([[True], np.diff(self.mark) != 0])
        return np.where(self.running, np.cumsum(begins), 0)

    @property
    def period(self) -> IntArray:
        """Number the periods as clients do, warm-up and measured ones alike; 0 outside."""
        measured, warm = self.mark >= MEASURED, self.mark >= WARM_UP
        return np.where(measured, self.mark - MEASURED, np.where(warm, self.mark - WARM_UP, 0))


def show(recorded: Recorded, target: Target, form: Format, seed: int, kind: Effort | None) -> Shown:
    """Bring a recording to a controller's axes; `kind` is which of the format's efforts this robot has."""
    robot = recorded.robot
    model = model_torque(recorded)  # before rows are left out: it needs accelerations
    if not form.whole:
        kept = rows_of_run(recorded.t, recorded.mark, form.lead)
        recorded, model = with_rows(recorded, kept), model[kept]
    return Shown(
        format=form,
        robot=robot,
        seed=seed,
        axes=axes_of(robot, target).names,
        degrees=target.angle_unit == "deg",
        t=recorded.t,
        mark=recorded.mark if form.marks else np.zeros_like(recorded.mark),
        reference=to_axes(robot, target, recorded.q_reference),
        reference_velocity=to_axes(robot, target, recorded.dq_reference, 1),
        position=to_axes(robot, target, recorded.q),
        velocity=to_axes(robot, target, recorded.dq, 1),
        motor=recorded.q_motor,
        effort=np.zeros((len(recorded.t), 0)) if kind is None else efforts(recorded, target, form, kind),
        effort_kind=kind,
        model=model,
        temperature=recorded.temperature,
        scaling=recorded.speed_scaling,
    )


def measured(recorded: Recorded, kind: Effort) -> FloatArray:
    """Find what drives tell, (n, n_joints), A or N m (N), in the senses of joints or motors; NaN where they do not."""
    if kind == "joint torque":
        return joint_torques(recorded.robot, recorded.torque_motor)
    known = {
        "current": recorded.current,
        "motor torque": recorded.torque_motor,
        "torque sensor": recorded.torque_joint,
    }
    return known[kind]


def efforts(recorded: Recorded, target: Target, form: Format, kind: Effort) -> FloatArray:
    """Find what a format writes of the drives: at joints along the controller's axes, else in the motors' senses."""
    values = measured(recorded, kind)
    if kind in ("joint torque", "torque sensor"):  # power is the same: τ_axes = M⁻ᵀ τ
        values = np.linalg.solve(axes_of(recorded.robot, target).matrix.T, values.T).T
    return values / rated(recorded.robot) * 1e3 if form.per_mille else values


def rated(robot: Robot) -> FloatArray:
    """Tell the torque that a virtual robot's drives call rated, N m at the motors, (n_joints,)."""
    return noise_scale(replace(robot, payload=None, locked={}))


def model_torque(recorded: Recorded) -> FloatArray:
    """Compute what the controller's own model says of the commanded motion, (n, n_joints): the prior's torque."""
    acceleration = np.gradient(recorded.dq_reference, recorded.t, axis=0)
    motion = Motion(recorded.q_reference, recorded.dq_reference, acceleration)
    return inverse_dynamics(recorded.robot, motion, prior(recorded.robot))


def in_run(mark: IntArray) -> BoolArray:
    """Tell which rows belong to the run itself, not to ways or to standing still."""
    return np.asarray((mark != 0) & (mark != OUT) & (mark != BACK) & (mark != END))


def rows_of_run(t: FloatArray, mark: IntArray, lead: float) -> BoolArray:
    """Keep the run, and some standing still before and after it."""
    run = np.flatnonzero(in_run(mark))
    if not run.size:
        return np.ones(len(t), dtype=bool)
    near = (t >= t[run[0]] - lead) & (t <= t[run[-1]] + lead)
    return np.asarray(near & (mark != OUT) & (mark != BACK))


def named(pattern: str, axes: Sequence[str]) -> list[str]:
    """Name a channel of every axis."""
    return [pattern.format(axis=axis, k=j + 1, j=j, m=len(axes) + j + 1) for j, axis in enumerate(axes)]


def declared(form: Format, target: Target, robot: Robot, kind: Effort | None) -> dict[str, object]:
    """Write the [log] table with which identification reads a format: what its files do not say themselves.

    Positions, and torques at the joints, come out along the controller's axes; the manifest tells what those are.
    """
    axes = axes_of(robot, target)
    position: dict[str, object] = {"kind": "position", "side": "joint", "columns": named(form.position, axes.names)}
    if target.angle_unit == "rad" or not robot.mechanism.prismatic.any():
        position["unit"] = target.angle_unit
    table: dict[str, object] = {"format": form.reader, "signals": [position]}
    if form.time is not None:
        table["time"] = form.time
    if kind is not None:
        columns = named(form.efforts[kind], axes.names)
        table["signals"] = [position, _effort_entry(form, robot, kind, columns)]
    return table


def _effort_entry(form: Format, robot: Robot, kind: Effort, columns: list[str]) -> dict[str, object]:
    at_joints = kind in ("joint torque", "torque sensor")
    entry: dict[str, object] = {
        "kind": "current" if kind == "current" else "torque",
        "side": "joint" if at_joints else "motor",
        "unit": "A" if kind == "current" else "N m",
        "columns": columns,
    }
    if form.per_mille:
        entry["scale"] = (1e-3 * rated(robot)).tolist()
    return entry


def write_rows(path: Path, head: Sequence[str], columns: Iterable[Column], end: str = "\n") -> Path:
    """Write a table separated by commas: headings, if any, and columns, each with how its cells are written."""
    forms: list[str] = []
    cells: list[list[float] | list[str]] = []
    for form, values in columns:
        if isinstance(values, list):
            found: list[list[float]] | list[list[str]] = [values]
        else:
            found = np.asarray(values, dtype=np.float64).reshape(len(values), -1).T.tolist()
        forms += [form] * len(found)
        cells += found
    line = ",".join(forms) + end
    with path.open("w", encoding="utf-8", newline="") as file:
        if head:
            file.write(",".join(head) + end)
        file.writelines(line % row for row in zip(*cells, strict=True))
    return path
