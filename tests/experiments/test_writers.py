"""Every vendor's format is read back by the readers to what was recorded; pairs that lack it are refused by name."""

import hashlib
import itertools
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs import registry
from excitor.design.programs.plan import BACK, END, OUT, Plan
from excitor.design.programs.registry import NAMES
from excitor.design.programs.registry import target as target_of
from excitor.experiments.log_formats import CannotLog, declared_for, format_of, refusal
from excitor.experiments.virtual.loggers import settings_for, write
from excitor.experiments.virtual.machine import run_program
from excitor.experiments.virtual.robot import Settings, draw_truth
from excitor.identify.log import joint_side
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import read_raw, sniff
from excitor.identify.logs.read import read_log
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.friction import joint_torques
from excitor.robots.load import load
from tests.plans import lines

STEP = 0.004
PAIRS = [(target, name) for target in NAMES for name in target_of(target).logs]
# What decimals leave: positions in the format's unit, efforts (share of their peak), times in s.
ROUNDING = {
    "egm": (1e-9, 1e-8, 5e-4), "egm_torque": (1e-9, 1e-8, 5e-4), "rsi": (1e-6, 1e-6, 6e-4),
    "j519": (2e-5, 1e-6, 1.1e-3), "fanuc_csv": (6e-5, 0.0, 6e-4), "abb_text": (1e-6, 1e-6, 1e-6),
    "twincat_scope": (1e-9, 5e-3, 1e-8), "franka": (1e-11, 1e-10, 6e-4), "kuka_trace": (1e-13, 1e-13, 5e-4),
    "csv": (1e-10, 1e-10, 1e-9), "ros2_csv": (1e-15, 1e-15, 3e-7), "ros_mcap": (1e-15, 1e-15, 1e-9),
    "ros_sqlite3": (1e-15, 1e-15, 1e-9), "ur_rtde": (1e-15, 1e-15, 1e-12), "npz": (0.0, 1e-15, 0.0),
}  # fmt: skip


def plan_of(name):
    robot = load(name)
    n = robot.n_joints
    center = 0.1 * np.ones(n)
    excitation = Excitation(
        2.0, 0.008, (1, 2, 3), np.ones(n, dtype=bool), ramp=0.8, settle=0.2, hold=0.2, warm_up=1, measured=1
    )
    waves = 0.1 * np.random.default_rng(0).normal(size=(2, n, 3))
    body = periodic_run(excitation, center, *waves)
    return Plan("cell", "run", "identify", robot, lines(robot.joint_names, 0.008, center - 0.05, (center, 0.8)), body)


def recorded_of(name, **changes):
    plan = plan_of(name)
    settings = replace(Settings(), standing=(0.6, 0.7), log_step=STEP, **changes)
    return run_program(draw_truth(plan.robot, 1, settings), plan, seed=1)


@pytest.fixture(scope="module")
def recorded():
    """Six joints with current laws, torque sensors and axes of their own: every format has what it carries."""
    return recorded_of("kr150", joint_sensors=True)


@pytest.fixture(scope="module")
def without_currents():
    plan = plan_of("tx40")
    drive = replace(plan.robot.drive, torque_from_current=np.full((6, 4), np.nan))
    plan = replace(plan, robot=replace(plan.robot, drive=drive))
    settings = Settings(standing=(0.6, 0.7), log_step=STEP)
    return run_program(draw_truth(plan.robot, 1, settings), plan, seed=1)


def kept(recorded, form):
    """The rows that a format's logger keeps, told from its data alone."""
    if form.whole:
        return np.ones(len(recorded.t), dtype=bool)
    main = ~np.isin(recorded.mark, [0, OUT, BACK, END])
    first, last = recorded.t[main][[0, -1]]
    near = (recorded.t >= first - form.lead) & (recorded.t <= last + form.lead)
    return near & ~np.isin(recorded.mark, [OUT, BACK])


def shown_positions(recorded, target):
    """Positions in the controller's axes and unit, written down anew."""
    found = registry.target(target)
    axes = recorded.robot.controllers.get(found.controller or target)
    q = recorded.q if axes is None else recorded.q @ axes.matrix.T + axes.zero
    return q if found.angle_unit == "rad" else np.degrees(q)


def axes_of(recorded, target):
    found = registry.target(target)
    axes = recorded.robot.controllers.get(found.controller or target)
    return recorded.robot.joint_names if axes is None else axes.names


def read_channels(path, patterns):
    recording = read_raw(path)
    return [recording.channel(name) for name in patterns]


@pytest.mark.parametrize(("target", "name"), PAIRS)
def test_what_is_written_is_read_back(recorded, tmp_path, target, name):
    form, rows = format_of(target, name), kept(recorded, format_of(target, name))
    path, *_ = write(recorded, tmp_path, "run_a", target=target, format=name)
    assert path.name in ("run_a", "run_a" + form.suffix)
    assert sniff(path)[0] == form.reader
    near_q, near_effort, near_t = ROUNDING[name]
    positions = [form.position.format(k=j + 1, j=j, axis=axis) for j, axis in enumerate(axes_of(recorded, target))]
    t, rare = recorded.t[rows], slice(None, None, 3 if name == "kuka_trace" else 1)
    for j, channel in enumerate(read_channels(path, positions)):
        expected = shown_positions(recorded, target)[rows][rare, j]
        np.testing.assert_allclose(channel.values, expected, rtol=0, atol=near_q)
        if channel.t is not None:
            np.testing.assert_allclose(channel.t - channel.t[0], t[rare] - t[0], rtol=0, atol=near_t)
    if not form.efforts:
        return
    position, effort = declared_for(target, recorded.robot, name)["signals"]
    assert position["columns"] == positions
    sensed = {"franka": recorded.torque_joint, "ros2": recorded.torque_joint}.get(target)
    drives = recorded.current if effort["kind"] == "current" else recorded.torque_motor if sensed is None else sensed
    scale = np.array(effort.get("scale", np.ones(6)))
    for j, channel in enumerate(read_channels(path, effort["columns"])):
        expected = drives[rows, j]
        np.testing.assert_allclose(
            channel.values * scale[j], expected, rtol=0, atol=near_effort * np.abs(expected).max()
        )


def test_a_controllers_state_in_a_bag_is_its_reference_and_the_error_from_it(recorded, tmp_path):
    path, *_ = write(recorded, tmp_path, "run_a", target="ros2", format="ros_mcap")
    recording, topic = read_raw(path), "/joint_trajectory_controller/controller_state"
    for kind, joint in itertools.product(("positions", "velocities"), recorded.robot.joint_names):
        names = [f"{topic} {part}.{kind}:{joint}" for part in ("reference", "feedback", "error")]
        reference, feedback, error = (recording.channel(name).values for name in names)
        np.testing.assert_allclose(reference - feedback, error, atol=1e-12)
        assert 0.0 < np.abs(error).max() < 0.5 * np.abs(reference).max(), "the robot follows"


@pytest.mark.parametrize(("target", "name"), PAIRS)
def test_logs_are_read_as_declared(recorded, tmp_path, target, name):
    """Rates, sides and units: torques at the joints are those that were recorded, on the robot's own clock."""
    form = format_of(target, name)
    if not form.efforts:
        with pytest.raises(CannotLog, match="writes positions only"):
            declared_for(target, recorded.robot, name)
        return
    path, *_ = write(recorded, tmp_path, "run", target=target, format=name, seed=1)
    log = read_log(path, ColumnMap.model_validate(declared_for(target, recorded.robot, name)))
    assert log.sample_rate_hz == pytest.approx(1.0 / STEP, rel=2e-3)
    found = joint_side(recorded.robot, log)
    sensed = target in ("franka", "ros2")
    tau = recorded.torque_joint if sensed else joint_torques(recorded.robot, recorded.torque_motor)
    tau = tau[kept(recorded, form)]
    assert np.abs(found.tau.max(axis=0) - tau.max(axis=0)).max() < 0.1 * np.abs(tau).max()
    assert len(found.tau) == pytest.approx(len(tau), abs=3)
    size = np.ptp(shown_positions(recorded, target), axis=0)
    size = size if registry.target(target).angle_unit == "rad" else np.radians(size)
    np.testing.assert_allclose(np.ptp(found.q, axis=0), size, rtol=0.05)


@pytest.mark.parametrize("target", ["urscript", "rapid", "krl-rsi", "fanuc-j519", "ros2", "franka", "twincat"])
def test_marks_are_kept(recorded, tmp_path, target):
    form = format_of(target)
    path, *_ = write(recorded, tmp_path, "run", target=target)
    (mark,) = (channel for channel in read_raw(path).channels if channel.kind == "marker")
    np.testing.assert_array_equal(mark.values, recorded.mark[kept(recorded, form)])


def test_a_decimal_comma_by_seed(recorded, tmp_path):
    logs = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        logs.append(read_raw(write(recorded, folder, "run", target="twincat", seed=seed)[0]))
    assert ["read with a decimal comma" in log.notes for log in logs] == [False, True]
    for a, b in zip(*(log.channels for log in logs), strict=True):
        np.testing.assert_array_equal(a.values, b.values)


def test_a_models_torque_is_no_measurement(recorded, tmp_path):
    """What the controllers compute is in the files, and refused by the readers."""
    for target, group in (("urscript", "target_moment"), ("franka", "tau_J_d")):
        path, *_ = write(recorded, tmp_path, target, target=target)
        entry = {"kind": "torque", "side": "joint", "unit": "N m", "columns": [group]}
        with pytest.raises(InvalidLog, match="own model computes"):
            read_log(path, ColumnMap.model_validate({"signals": [entry]}))


def test_files_of_one_recording_are_the_same(recorded, tmp_path):
    """No clock of the computer gets into a file."""
    seen = []
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        for target, name in PAIRS:
            write(recorded, tmp_path / str(k), f"{target}_{name}", target=target, format=name)
        files = sorted(path for path in (tmp_path / str(k)).rglob("*") if path.is_file())
        seen.append([(p.relative_to(tmp_path / str(k)), hashlib.sha256(p.read_bytes()).hexdigest()) for p in files])
    assert len(seen[0]) > len(PAIRS)
    assert seen[0] == seen[1]


def test_currents_without_a_law_are_written(tmp_path):
    plan = plan_of("ur10")
    drive = replace(plan.robot.drive, torque_from_current=np.full((6, 4), np.nan))
    plan = replace(plan, robot=replace(plan.robot, drive=drive))
    settings = Settings(standing=(0.6, 0.7), log_step=STEP)
    made = run_program(draw_truth(plan.robot, 1, settings), plan, seed=1)
    (path,) = write(made, tmp_path, "run", target="urscript")
    head, *rows = path.read_text().splitlines()
    assert "actual_current_5" in head
    assert "target_current_0" not in head
    assert "nan" not in rows[0]


def test_pairs_without_torques_are_refused_by_name(without_currents, tmp_path):
    robot = without_currents.robot
    for target in ("urscript", "krl-rsi", "fanuc-j519"):
        told = f"{target} logs motor currents; .*{robot.name}.*'s file has no current law"
        with pytest.raises(CannotLog, match=told):
            write(without_currents, tmp_path, "run", target=target)
        assert "torque_from_current" in refusal(target, robot)
        with pytest.raises(CannotLog, match="no current law"):
            declared_for(target, robot)
    with pytest.raises(CannotLog, match="franka logs torque sensors at the joints"):
        write(without_currents, tmp_path, "run", target="franka")
    assert not list(tmp_path.iterdir())
    assert refusal("fanuc", robot, "fanuc_csv").startswith("fanuc: the KAREL recorder writes positions only")
    others = [target for target in NAMES if target not in ("urscript", "krl-rsi", "fanuc-j519")]
    assert all(refusal(target, robot) == "" for target in others)
    with pytest.raises(ExcitorError, match="has no log format 'npz'; it has ur_rtde"):
        format_of("urscript", "npz")


def test_a_logger_keeps_its_own_time():
    plan = plan_of("kr150")
    steps = {name: settings_for(name, format_of(name), plan, Settings()).log_step for name in NAMES}
    assert steps["urscript"] == 0.002
    assert steps["fanuc-j519"] == 0.008
    assert steps["rapid"] == steps["krl"] == 0.004
    assert steps["ros2"] is None  # the controller's own
    assert settings_for("franka", format_of("franka"), plan, Settings()).joint_sensors
    assert settings_for("krl", format_of("krl"), plan, Settings()).jitter == 0.0
