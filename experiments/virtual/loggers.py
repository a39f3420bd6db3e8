"""Logs of a virtual robot in the vendors' formats, which `log_formats` describes."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from excitor.design.programs.plan import BACK, END, MEASURED, OUT, WARM_UP, Plan
from excitor.design.programs.registry import target as target_of
from excitor.design.programs.target import Target, axes_of, fitting_steps, to_axes
from excitor.experiments.log_formats import Effort, Format, format_of, lacking_effort, named, rated_torque
from excitor.experiments.virtual.machine import RecordedRun, currents, with_rows
from excitor.experiments.virtual.robot import Settings
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import joint_torques, motor_torques
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot


def settings_for(target: str, form: Format, plan: Plan, settings: Settings) -> Settings:
    """Adapt a virtual robot's settings to a log format: its sample interval and its sensors."""
    step = form.step
    if step is None and target_of(target).spacing is None:
        step = fitting_steps(plan, target_of(target))[0]
    return replace(
        settings,
        log_step=step if settings.log_step is None else settings.log_step,
        jitter=0.0 if form.even else settings.jitter,
        joint_sensors=settings.joint_sensors or list(form.efforts) == ["torque sensor"],
    )


def write(
    recorded: RecordedRun, folder: Path, name: str, *, target: str, format: str | None = None, seed: int = 0
) -> list[Path]:
    """Write a program's log as a target's logger does; the first path is the one to read.

    CannotLog where the format has signals that this robot's drives do not have. A format without torques is written.
    """
    form = format_of(target, format)
    kind = _there(target, form, recorded)
    return _WRITERS[form.name](show(recorded, target_of(target), form, seed, kind), folder, name)


def _there(target: str, form: Format, recorded: RecordedRun) -> Effort | None:
    """Choose the first effort that was recorded."""
    if not form.efforts:
        return None
    unlawful = not recorded.robot.drive.has_current_law  # then currents are the last choice
    for kind in sorted(form.efforts, key=lambda kind: unlawful and kind == "current"):
        if not np.isnan(measured(recorded, kind)).any():
            return kind
    raise lacking_effort(target, form, recorded.robot)


@dataclass(frozen=True, eq=False, slots=True)
class ControllerRecord:
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
        """Mask of rows of the run itself."""
        return in_run(self.mark)

    @property
    def since(self) -> FloatArray:
        """Time since the run began, s."""
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


def write_abb_text(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `t_ms q1 .. q6 tau1 .. tau6`, without headings."""
    path = folder / f"{name}.txt"
    table = np.column_stack([1e3 * shown.t, shown.position, shown.effort])
    line = " ".join(["%.3f", *["%.6f"] * (table.shape[1] - 1)]) + "\n"
    with path.open("w", encoding="ascii", newline="") as file:
        file.writelines(line % tuple(row) for row in table.tolist())
    return [path]


FIRST_PACKET = 5000
_PHASES = {0: "rest", OUT: "out", BACK: "back", END: "done"}


def write_egm(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write one row per packet; packets are numbered, and their numbers are the time."""
    count = np.round((shown.t - shown.t[0]) / shown.step).astype(np.int64)
    ones = np.ones(len(count))
    columns: list[Column] = [
        ("time_s", "%.3f", shown.step * count),
        ("controller_ms", "%.0f", np.round(1e3 * shown.step * count) + 4 * FIRST_PACKET),
        ("packet", "%.0f", FIRST_PACKET + count),
        ("computer_s", "%.6f", shown.t + 100.0),
        ("phase", "%s", [_PHASES.get(mark, "main") for mark in shown.mark.tolist()]),
        ("mark", "%.0f", shown.mark),
        ("period", "%.0f", shown.period),
        ("ref_{axis}_deg", "%.9f", shown.reference),
        ("pos_{axis}_deg", "%.9f", shown.position),
        ("planned_{axis}_deg", "%.9f", shown.reference),
        ("motors_on", "%.0f", ones),
        ("egm_running", "%.0f", ones),
        ("utilization_percent", "%.6g", 10.0 * ones),
        (shown.format.efforts["motor torque"], "%.9g", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


def write_fanuc_csv(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `timestamp,J1,...`."""
    columns: list[Column] = [("timestamp", "%2.0f", np.round(1e3 * shown.t)), ("J{k}", "%9.4f", shown.position)]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


# Of a table: the heading, or its pattern for every axis; how cells are written; and what.
Column = tuple[str, str, FloatArray | IntArray | list[str]]


def show(recorded: RecordedRun, target: Target, form: Format, seed: int, kind: Effort | None) -> ControllerRecord:
    """Convert a recording to a controller's axes; `kind` is which of the format's efforts this robot has."""
    robot = recorded.robot
    model = model_torque(recorded)  # before rows are left out: it needs accelerations
    if not form.whole:
        kept = rows_of_run(recorded.t, recorded.mark, form.lead)
        recorded, model = with_rows(recorded, kept), model[kept]
    return ControllerRecord(
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


def measured(recorded: RecordedRun, kind: Effort) -> FloatArray:
    """Return the drives' signals, (n, n_joints), A or N m (N), along joints or motors; NaN where not available."""
    if kind == "joint torque":
        return joint_torques(recorded.robot, recorded.torque_motor)
    known = {"current": recorded.current, "motor torque": recorded.torque_motor, "torque sensor": recorded.torque_joint}
    return known[kind]


def efforts(recorded: RecordedRun, target: Target, form: Format, kind: Effort) -> FloatArray:
    """Return a format's drive signals: at joints along the controller's axes, else along the motors."""
    values = measured(recorded, kind)
    if kind in ("joint torque", "torque sensor"):  # power is the same: τ_axes = M⁻ᵀ τ
        values = np.linalg.solve(axes_of(recorded.robot, target).matrix.T, values.T).T
    return values / rated_torque(recorded.robot) * 1e3 if form.per_mille else values


def model_torque(recorded: RecordedRun) -> FloatArray:
    """Compute the controller's model torque of the commanded motion, (n, n_joints): the prior's torque."""
    acceleration = np.gradient(recorded.dq_reference, recorded.t, axis=0)
    motion = Motion(recorded.q_reference, recorded.dq_reference, acceleration)
    return inverse_dynamics(recorded.robot, motion, prior(recorded.robot))


def in_run(mark: IntArray) -> BoolArray:
    """Return the mask of rows of the run itself, without ways and rests."""
    return np.asarray((mark != 0) & (mark != OUT) & (mark != BACK) & (mark != END))


def rows_of_run(t: FloatArray, mark: IntArray, lead: float) -> BoolArray:
    """Keep the run, and part of the rests before and after it."""
    run = np.flatnonzero(in_run(mark))
    if not run.size:
        return np.ones(len(t), dtype=bool)
    near = (t >= t[run[0]] - lead) & (t <= t[run[-1]] + lead)
    return np.asarray(near & (mark != OUT) & (mark != BACK))


def write_rows(path: Path, axes: Sequence[str], columns: Iterable[Column], end: str = "\n") -> Path:
    """Write a table separated by commas, under its headings."""
    head: list[str] = []
    forms: list[str] = []
    cells: list[list[float] | list[str]] = []
    for pattern, form, values in columns:
        if isinstance(values, list):
            found: list[list[float]] | list[list[str]] = [values]
        else:
            found = np.asarray(values, dtype=np.float64).reshape(len(values), -1).T.tolist()
        head += named(pattern, axes) if "{" in pattern else [pattern]
        forms += [form] * len(found)
        cells += found
    line = ",".join(forms) + end
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(head) + end)
        file.writelines(line % row for row in zip(*cells, strict=True))
    return path


STARTED = 500.0  # s: how long the controller had been on


def write_franka(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `time,t,part,mark,q[0],...`; motors' angles are divided by their gears, as such controllers show them."""
    tables = {
        "q": shown.position,
        "dq": shown.velocity,
        "q_d": shown.reference,
        "dq_d": shown.reference_velocity,
        "tau_J": shown.effort,
        "tau_J_d": shown.model,
        "dtau_J": np.gradient(shown.effort, shown.t, axis=0),
        "theta": shown.position,
        "dtheta": shown.velocity,
        "tau_ext_hat_filtered": np.zeros_like(shown.effort),
    }
    columns: list[Column] = [
        ("time", "%.3f", STARTED + shown.t),
        ("t", "%.3f", shown.since),
        ("part", "%.0f", shown.part),
        ("mark", "%.0f", shown.mark),
        *((f"{quantity}[{{j}}]", "%.12g", table) for quantity, table in tables.items()),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


_RESOLUTION = 2.0  # ms of time stamps
_STRETCHES = {0: "rest", OUT: "out", BACK: "back", END: "rest"}


def write_j519(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `time_stamp_ms,sequence,stretch,part,mark,command_J1_deg,...`."""
    columns: list[Column] = [
        ("time_stamp_ms", "%.0f", _RESOLUTION * np.round(1e3 * shown.t / _RESOLUTION)),
        ("sequence", "%.0f", np.round((shown.t - shown.t[0]) / shown.step)),
        ("stretch", "%s", [_STRETCHES.get(mark, "main") for mark in shown.mark.tolist()]),
        ("part", "%.0f", shown.part),
        ("mark", "%.0f", shown.mark),
        ("command_J{k}_deg", "%.9g", shown.reference),
        ("J{k}_deg", "%.7g", shown.position),  # the status carries 32-bit numbers: seven digits
        ("current_J{k}_A", "%.7g", shown.effort),
        ("safety_scale", "%.7g", shown.scaling),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns, "\r\n")]


SLOWER = 3  # axes are recorded every so many rows of the drives
_KELVIN = 273.15  # added to temperatures in the binary files, and taken off by their header


@dataclass(frozen=True, eq=False)
class _Trace:
    name: str
    unit: str
    values: FloatArray  # (n,)
    offset: float = 0.0
    factor: float = 1.0


def write_kuka_trace(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write a folder: the axes' pair, and those of the drives."""
    place = folder / name
    place.mkdir()
    slow = slice(None, None, SLOWER)
    axes = [
        _Trace(f"{kind}{k + 1}", unit, values[slow, k])
        for kind, unit, values in (
            ("AxisPos_CmdIpo", "°", shown.reference),
            ("AxisVel_CmdIpo", "°/s", shown.reference_velocity),
            ("AxisPos_Act", "°", shown.position),
            ("AxisVel_Act", "°/s", shown.velocity),
        )
        for k in range(len(shown.axes))
    ]
    _pair(place / f"{name}_KRCIpo", axes, SLOWER * shown.step)
    for k in range(len(shown.axes)):
        _pair(place / f"{name}_NextGenDrive#{k + 1}", _drive(shown, k), shown.step)
    return [place]


def _drive(shown: ControllerRecord, k: int) -> list[_Trace]:
    return [
        _Trace("Istposition", "rad", shown.motor[:, k]),
        _Trace("Motortemperatur", "°C", shown.temperature[:, k], -_KELVIN),
        _Trace("Istmoment", "Nm", shown.effort[:, k]),
    ]


def _pair(stem: Path, traces: list[_Trace], step: float) -> None:
    """Write a header of code and value, and the rows of its channels one after the other."""
    header, data = stem.with_name(stem.name + ".dat"), stem.with_name(stem.name + ".r64")
    n = len(traces[0].values)
    lines = ["DIAEXTENDED", *_channel((200, "Zeit"), (202, "s"), (210, "IMPLIZIT"), (220, n), (240, 0), (241, step))]
    for column, trace in enumerate(traces, start=1):
        lines += _channel(
            (200, trace.name), (202, trace.unit), (210, "EXPLIZIT"), (211, data.name), (213, "BLOCK"),
            (214, "REAL64"), (220, n), (221, column), (240, trace.offset), (241, trace.factor),
        )  # fmt: skip
    header.write_bytes("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
    raw = [((trace.values - trace.offset) / trace.factor).tolist() for trace in traces]
    with data.open("wb") as file:
        file.writelines(struct.pack(f"<{len(row)}d", *row) for row in zip(*raw, strict=True))


def _channel(*codes: tuple[int, object]) -> list[str]:
    return ["#BEGINCHANNELHEADER", *(f"{code},{value}" for code, value in codes), "#ENDCHANNELHEADER"]


def write_npz(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write t, mark, q, dq, and current or tau."""
    path = folder / f"{name}.npz"
    drives = {"current" if shown.effort_kind == "current" else "tau": shown.effort}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, t=shown.t, mark=shown.mark, q=shown.position, dq=shown.velocity, **drives)
    return [path]


def write_plain_csv(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `t,mark,q_1,...,tau_1,...`."""
    assert shown.effort_kind is not None
    columns: list[Column] = [
        ("t", "%.9f", shown.t),
        ("mark", "%.0f", shown.mark),
        ("q_{k}", "%.12g", shown.position),
        (shown.format.efforts[shown.effort_kind], "%.12g", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


STARTED_ROS_BAG = 10**18  # ns since 1970, fixed: files of one seed are the same
_RARER, _RAREST = 2, 10  # controller states and speed scaling come every so many joint states

_STATE = "control_msgs/msg/JointTrajectoryControllerState"
_POINTS = ("reference", "feedback", "error", "output")
# As control_msgs has defined it since Jazzy.
_DEFINITION = "\n".join(
    [
        "std_msgs/Header header",
        "string[] joint_names",
        *(f"trajectory_msgs/JointTrajectoryPoint {name}" for name in _POINTS),
        "string[] multi_dof_joint_names",
        *(f"trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_{name}" for name in _POINTS),
        "float64 speed_scaling_factor",
        "",
    ]
)


def write_ros_bag(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write a folder with a bag."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    plugin = StoragePlugin.MCAP if shown.format.name == "ros_mcap" else StoragePlugin.SQLITE3
    make = _Messages(_store(), list(shown.axes))
    stamps = [STARTED_ROS_BAG + round(1e9 * t) for t in shown.t.tolist()]
    empty = np.zeros(0)
    with Writer(folder / name, version=9, storage_plugin=plugin) as bag:
        topics = {
            kind: bag.add_connection(topic, kind, typestore=make.store)
            for topic, kind in (
                ("/joint_states", "sensor_msgs/msg/JointState"),
                ("/joint_trajectory_controller/controller_state", _STATE),
                ("/speed_scaling_state_broadcaster/speed_scaling", "std_msgs/msg/Float64"),
            )
        }
        for k, stamp in enumerate(stamps):
            position, velocity = shown.position[k], shown.velocity[k]
            told = {"sensor_msgs/msg/JointState": make.joint_state(stamp, position, velocity, shown.effort[k])}
            if k % _RARER == 0:
                wanted = make.point(shown.reference[k], shown.reference_velocity[k])
                error = make.point(shown.reference[k] - position, shown.reference_velocity[k] - velocity)
                points = (wanted, make.point(position, velocity), error, make.point(empty, empty))
                told[_STATE] = make.state(stamp, points, float(shown.scaling[k]))
            if k % _RAREST == 0:
                told["std_msgs/msg/Float64"] = make.number(100.0 * float(shown.scaling[k]))
            for kind, message in told.items():
                bag.write(topics[kind], stamp, make.store.serialize_cdr(message, kind))
    return [folder / name]


@cache
def _store() -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(get_types_from_msg(_DEFINITION, _STATE))
    return store


@dataclass(frozen=True)
class _Messages:
    """Makes messages of the joints that a driver names."""

    store: Any
    names: list[str]

    def header(self, stamp: int) -> Any:
        time = self._type("builtin_interfaces/msg/Time")(sec=stamp // 10**9, nanosec=stamp % 10**9)
        return self._type("std_msgs/msg/Header")(stamp=time, frame_id="")

    def joint_state(self, stamp: int, *values: FloatArray) -> Any:
        return self._type("sensor_msgs/msg/JointState")(self.header(stamp), self.names, *values)

    def point(self, positions: FloatArray, velocities: FloatArray) -> Any:
        none = np.zeros(0)
        start = self._type("builtin_interfaces/msg/Duration")(sec=0, nanosec=0)
        return self._type("trajectory_msgs/msg/JointTrajectoryPoint")(positions, velocities, none, none, start)

    def state(self, stamp: int, points: tuple[Any, ...], scaling: float) -> Any:
        start = self._type("builtin_interfaces/msg/Duration")(sec=0, nanosec=0)
        free = self._type("trajectory_msgs/msg/MultiDOFJointTrajectoryPoint")([], [], [], start)
        return self._type(_STATE)(self.header(stamp), self.names, *points, [], free, free, free, free, scaling)

    def number(self, value: float) -> Any:
        return self._type("std_msgs/msg/Float64")(value)

    def _type(self, name: str) -> Any:
        return self.store.types[name]


STARTED_ROS_CSV = 10**9  # s: stamps count from 1970, and a fixed time keeps files the same


def write_ros_csv(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `time,t,speed_scaling,mark,position:a,...`; before the run `t` is empty."""
    begun = shown.t >= shown.t[np.argmax(shown.running)]
    since = [f"{t:.9f}" if there else "" for t, there in zip(shown.since.tolist(), begun.tolist(), strict=True)]
    columns: list[Column] = [
        ("time", "%.9f", STARTED_ROS_CSV + shown.t),
        ("t", "%s", since),
        ("speed_scaling", "%.17g", shown.scaling),
        ("mark", "%.0f", shown.mark),
        ("position:{axis}", "%.17g", shown.position),
        ("velocity:{axis}", "%.17g", shown.velocity),
        ("effort:{axis}", "%.17g", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns, "\r\n")]


def write_rsi(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `time_s,mark,period,reference_A1,...`."""
    columns: list[Column] = [
        ("time_s", "%.3f", shown.t),
        ("mark", "%.0f", shown.mark),
        ("period", "%.0f", shown.period),
        ("reference_{axis}", "%.9f", shown.reference),
        ("actual_{axis}", "%.6f", shown.position),
        ("current_{axis}", "%.6f", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


# 1 January 2000: a fixed day keeps files of one seed the same.
_DAY, _TICKS = ("Samstag, 1. Januar 2000", "00:00:00.000"), 125_911_584_000_000_000
_RARER_TWINCAT_SCOPE = 4  # set positions are recorded every so many rows


@dataclass(frozen=True, eq=False)
class _Group:
    """Channels on one time base."""

    t: FloatArray  # (n,), s
    names: Sequence[str]
    units: Sequence[str]
    type: str
    values: FloatArray | IntArray  # (n, n_channels)
    form: str


def write_twincat_scope(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write an export; seeds that are odd have a decimal comma."""
    groups = _groups(shown)
    length = len(shown.t)
    head = [
        f"Name\t{name}",
        f"File\t{name}.svdx",
        "\t".join(("Starttime of export", str(_TICKS), *_DAY)),
        "\t".join(("Endtime of export", str(_TICKS + round(1e7 * float(shown.t[-1]))), *_DAY)),
        "",
        "",
        *(_titles(groups, title) for title in ("Name", "SymbolComment", "Data-Type", "SampleTime[ms]", "Unit")),
        "",
    ]
    blocks = [_cells(group, length) for group in groups]
    body = ("\t".join(cells) for cells in zip(*blocks, strict=True))
    comma = bool(shown.seed % 2)
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in head)
        file.writelines((line.replace(".", ",") if comma else line) + "\n" for line in body)
        file.write("EOF\n")
    return [path]


def _groups(shown: ControllerRecord) -> list[_Group]:
    turning = ["mm" if slides else "deg" for slides in shown.robot.mechanism.prismatic]
    rare = slice(None, None, _RARER_TWINCAT_SCOPE)
    n = len(shown.axes)
    set_position = named(shown.format.position.replace("Act", "Set"), shown.axes)
    return [
        _Group(shown.t, named(shown.format.position, shown.axes), turning, "REAL64", shown.position, "%.9f"),
        _Group(
            shown.t,
            named(shown.format.efforts["motor torque"], shown.axes),
            ["(None)"] * n,
            "INT16",
            np.round(shown.effort),
            "%.0f",
        ),
        _Group(shown.t, ["MAIN.fbRun.nMark"], ["(None)"], "INT32", shown.mark[:, None], "%.0f"),
        _Group(shown.t[rare], set_position, turning, "REAL64", shown.reference[rare], "%.9f"),
    ]


def _titles(groups: Sequence[_Group], title: str) -> str:
    """Write a row of headings: its title over every time base, then its entry for each channel."""
    cells: list[str] = []
    for group in groups:
        step = f"{1e3 * float(np.median(np.diff(group.t))):.3g}"
        said = {
            "Name": group.names,
            "Data-Type": [group.type] * len(group.names),
            "SampleTime[ms]": [step] * len(group.names),
            "Unit": [unit if unit.startswith("(") else f"({unit})" for unit in group.units],
        }
        cells += [title, *said.get(title, [""] * len(group.names))]
    return "\t".join(cells)


def _cells(group: _Group, length: int) -> list[str]:
    """Write a group's part of every row; where it has ended, blanks."""
    line = "\t".join(["%.6f", *[group.form] * len(group.names)])
    rows = np.column_stack([1e3 * group.t, group.values]).tolist()
    blank = "\t".join([" "] * (1 + len(group.names)))
    return [line % tuple(row) for row in rows] + [blank] * (length - len(rows))


STARTED_UR_RTDE = 1000.0  # s: how long the controller had been on
_PLAYING = 2  # runtime_state


def write_ur_rtde(shown: ControllerRecord, folder: Path, name: str) -> list[Path]:
    """Write `timestamp,target_q_0,...`."""
    drive = shown.robot.drive
    tables = {
        "target_q_{j}": shown.reference,
        "target_qd_{j}": shown.reference_velocity,
        "target_qdd_{j}": np.gradient(shown.reference_velocity, shown.t, axis=0),
        "target_moment_{j}": shown.model,
        "actual_q_{j}": shown.position,
        "actual_qd_{j}": shown.velocity,
        "actual_current_{j}": shown.effort,
        "joint_temperatures_{j}": shown.temperature,
        "speed_scaling": shown.scaling,
        "target_speed_fraction": shown.scaling,
    }
    if drive.has_current_law:
        tables["target_current_{j}"] = currents(drive.torque_from_current, motor_torques(shown.robot, shown.model))
    columns: list[Column] = [
        ("timestamp", "%.17g", STARTED_UR_RTDE + shown.t),
        *((pattern, "%.17g", table) for pattern, table in tables.items()),
        ("runtime_state", "%.0f", np.full(len(shown.t), _PLAYING)),
        ("output_int_register_24", "%.0f", shown.mark),
    ]
    return [write_rows(folder / f"{name}.csv", shown.axes, columns)]


Write = Callable[[ControllerRecord, Path, str], list[Path]]
_WRITERS: Mapping[str, Write] = {
    "abb_text": write_abb_text,
    "egm": write_egm,
    "egm_torque": write_egm,
    "fanuc_csv": write_fanuc_csv,
    "franka": write_franka,
    "j519": write_j519,
    "kuka_trace": write_kuka_trace,
    "npz": write_npz,
    "csv": write_plain_csv,
    "ros_mcap": write_ros_bag,
    "ros_sqlite3": write_ros_bag,
    "ros2_csv": write_ros_csv,
    "rsi": write_rsi,
    "twincat_scope": write_twincat_scope,
    "ur_rtde": write_ur_rtde,
}
