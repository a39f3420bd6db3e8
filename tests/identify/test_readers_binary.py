"""Binary formats: bags by rosbags' own writer, MATLAB files of both kinds, numpy archives, Parquet."""

import sqlite3
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.io import savemat

from excitor.identify.logs import arrays as apart
from excitor.identify.logs import npz
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import log_files, read_raw, sniff
from excitor.identify.logs.read import read_log
from excitor.robots.errors import InvalidLog
from tests.damaged_logs import joint_state

N = 100
EMPTY = ColumnMap.model_validate({})
NAMES = ["elbow", "base", "wrist"]  # as drivers send them: not in joint order
JITTER = 3e-4
STATE_NEW = """std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint reference
trajectory_msgs/JointTrajectoryPoint feedback
trajectory_msgs/JointTrajectoryPoint error
trajectory_msgs/JointTrajectoryPoint output
string[] multi_dof_joint_names
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_reference
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_feedback
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_error
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_output
float64 speed_scaling_factor
"""
STATE_OLD = """std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint desired
trajectory_msgs/JointTrajectoryPoint actual
trajectory_msgs/JointTrajectoryPoint error
"""
STATE = "control_msgs/msg/JointTrajectoryControllerState"
EFFORT = {"kind": "torque", "side": "joint", "unit": "N m", "columns": ["effort"]}


@pytest.fixture
def run():
    rng = np.random.default_rng(0)
    t = 0.01 * np.arange(N)
    stamps = 1_700_000_000_000_000_000 + np.round(1e9 * (t + rng.uniform(0, JITTER, N))).astype(np.int64)
    q = np.sin(2 * np.pi * np.outer(t, [0.5, 0.8, 1.1]))
    return stamps, q, rng.normal(size=q.shape)


def bag(folder, run, storage=StoragePlugin.MCAP, *, state=None, velocity=None, **how):
    """A bag of joint states at jittering times, of a controller's states, and of something else."""
    stamps, q, effort = run
    store = get_typestore(Stores.ROS2_HUMBLE)
    if state:
        store.register(get_types_from_msg(state, STATE))
    types = store.types
    time, header = types["builtin_interfaces/msg/Time"], types["std_msgs/msg/Header"]

    def head(stamp):
        return header(stamp=time(sec=int(stamp // 10**9), nanosec=int(stamp % 10**9)), frame_id="")

    def point(values):
        zero = types["builtin_interfaces/msg/Duration"](sec=0, nanosec=0)
        return types["trajectory_msgs/msg/JointTrajectoryPoint"](values, np.zeros(3), np.zeros(0), np.zeros(0), zero)

    writer = Writer(folder, version=9, storage_plugin=storage)
    if how:
        writer.set_compression(**how)
    with writer:
        joints = writer.add_connection("/joint_states", "sensor_msgs/msg/JointState", typestore=store)
        words = writer.add_connection("/chatter", "std_msgs/msg/String", typestore=store)
        states = writer.add_connection("/arm/controller_state", STATE, typestore=store) if state else None
        for k, stamp in enumerate(stamps):
            speed = np.zeros(3) if velocity is None else np.full(3, velocity)
            message = types["sensor_msgs/msg/JointState"](head(stamp), NAMES, q[k], speed, effort[k])
            writer.write(joints, int(stamp) + 500_000, store.serialize_cdr(message, "sensor_msgs/msg/JointState"))
            text = types["std_msgs/msg/String"](data="hello")
            writer.write(words, int(stamp), store.serialize_cdr(text, "std_msgs/msg/String"))
            if states is not None and k % 2 == 0:
                multi = types["trajectory_msgs/msg/MultiDOFJointTrajectoryPoint"]
                empty = multi([], [], [], types["builtin_interfaces/msg/Duration"](sec=0, nanosec=0))
                points = [point(q[k] + shift) for shift in (0.1, 0.0, 0.1)]
                rest = [point(q[k]), [], empty, empty, empty, empty, 1.0] if state == STATE_NEW else []
                message = types[STATE](head(stamp), NAMES, *points, *rest)
                writer.write(states, int(stamp), store.serialize_cdr(message, STATE))
    return folder


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_bag_of_joint_states(tmp_path, run, storage):
    folder = bag(tmp_path / "bag", run, storage)
    stamps, q, effort = run
    (file,) = [path for path in folder.iterdir() if path.suffix in (".mcap", ".db3")]
    for path in (folder, file):
        assert sniff(path) == ["ros_bag"]
        recording = read_raw(path)
        elbow = recording.channel("position:elbow")
        np.testing.assert_array_equal(elbow.values, q[:, 0])
        np.testing.assert_allclose(elbow.t, 1e-9 * (stamps - stamps[0]), atol=1e-12)
        assert (elbow.kind, elbow.joint, elbow.side, elbow.unit) == ("position", "elbow", "joint", "rad")
        assert recording.channel("effort:base").kind == "effort"
        np.testing.assert_array_equal(recording.channel("effort:base").values, effort[:, 1])
    assert log_files(folder) == [file]


def test_a_bag_asks_for_order_and_effort(tmp_path, run):
    folder = bag(tmp_path / "bag", run)
    _, q, effort = run
    with pytest.raises(InvalidLog, match="names its joints base, elbow, wrist; declare their order"):
        read_log(folder, EMPTY)
    ordered = {"joints": ["base", "elbow", "wrist"]}
    with pytest.raises(
        InvalidLog, match=r"does not define all \(kind, side or unit\) of its torques or currents: 'effort'"
    ):
        read_log(folder, ColumnMap.model_validate(ordered))
    log = read_log(folder, ColumnMap.model_validate({**ordered, "signals": [EFFORT]}))
    known = read_log(folder, ColumnMap.model_validate({"signals": [EFFORT]}), ("base", "elbow", "wrist"))
    np.testing.assert_array_equal(log.signal("torque").values, known.signal("torque").values)
    assert any("resampled to 100 Hz by cubic splines" in note for note in log.notes)
    assert log.sample_rate_hz == pytest.approx(100.0)
    inner = slice(5, -5)
    truth = np.sin(2 * np.pi * np.outer(0.01 * np.arange(len(log.signal("position").values)), [0.8, 0.5, 1.1]))
    # the stamps jitter by 0.3 ms and the positions were taken on time: rad/s times s
    np.testing.assert_allclose(log.signal("position").values[inner], truth[inner], atol=7.0 * JITTER)
    assert log.raw.channel("effort:wrist").values[0] == effort[0, 2]
    assert q[0, 0] == log.raw.channel("position:elbow").values[0]


@pytest.mark.parametrize(
    ("state", "measured", "wanted"), [(STATE_NEW, "feedback", "reference"), (STATE_OLD, "actual", "desired")]
)
@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_controllers_states_of_any_release(tmp_path, run, storage, state, measured, wanted):
    recording = read_raw(bag(tmp_path / "bag", run, storage, state=state))
    _, q, _ = run
    channel = recording.channel(f"/arm/controller_state {measured}.positions:base")
    np.testing.assert_array_equal(channel.values, q[::2, 1])
    reference = recording.channel(f"/arm/controller_state {wanted}.positions:base")
    np.testing.assert_allclose(reference.values, q[::2, 1] + 0.1)
    assert reference.role == "reference"
    assert recording.channel("/joint_states position:base").values.size == N
    entry = {"kind": "position", "columns": [f"/arm/controller_state {wanted}.positions"]}
    with pytest.raises(InvalidLog, match="is what was commanded, not a measured position"):
        read_log(tmp_path / "bag", ColumnMap.model_validate({"signals": [entry, EFFORT], "joints": NAMES}))


def test_a_bags_own_definitions_are_compared_never_compiled(tmp_path, run):
    """Definitions in a bag could make rosbags compile what a stranger wrote: a foreign one is refused."""
    folder = bag(
        tmp_path / "bag",
        run,
        state="std_msgs/Header header\nstring[] joint_names\n"
        + "".join(f"trajectory_msgs/JointTrajectoryPoint {name}\n" for name in ("wish", "truth", "gap")),
    )
    with pytest.raises(InvalidLog, match="its definition is none of those known"):
        read_raw(folder)


def test_velocities_that_are_no_number_are_left_out(tmp_path, run):
    recording = read_raw(bag(tmp_path / "bag", run, velocity=np.nan))
    assert not [c for c in recording.channels if c.kind == "velocity"]
    assert "velocity:elbow is no number in any message; it is left out" in recording.notes


@pytest.mark.parametrize("mode", [CompressionMode.FILE, CompressionMode.MESSAGE])
def test_packed_databases_are_not_unpacked(tmp_path, run, mode):
    folder = bag(tmp_path / "bag", run, StoragePlugin.SQLITE3, mode=mode, fmt=CompressionFormat.ZSTD)
    with pytest.raises(InvalidLog, match="says that the bag is packed by|is packed as a whole"):
        read_raw(folder)


def test_packed_chunks_are_read(tmp_path, run):
    folder = bag(tmp_path / "bag", run, mode=CompressionMode.STORAGE, fmt=CompressionFormat.ZSTD)
    assert b"zstd" in next(folder.glob("*.mcap")).read_bytes()
    np.testing.assert_array_equal(read_raw(folder).channel("position:wrist").values, run[1][:, 2])


def test_a_bag_that_breaks_off(tmp_path, run):
    """A recorder that died wrote no index: what is whole counts."""
    file = next(bag(tmp_path / "bag", run).glob("*.mcap"))
    whole = file.read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole[: len(whole) // 2])
    recording = read_raw(cut)
    assert any("the recording breaks off" in note for note in recording.notes)
    assert 3 < len(recording.channels[0].values) < N


def mcap(times, *, others="", profile="ros2", ends=True):
    """Write joint states at these times of recording, and another topic that is described by `others`."""

    def text(x):
        return struct.pack("<I", len(x)) + x.encode()

    def record(opcode, content):
        return struct.pack("<BQ", opcode, len(content)) + content

    records = [record(1, text(profile) + text("excitor"))]
    for key, kind, form in ((1, "sensor_msgs/msg/JointState", "ros2msg"), (2, "my_msgs/msg/Thing", others)):
        records += [
            record(3, struct.pack("<H", key) + text(kind) + text(form) + text("")),
            record(4, struct.pack("<HH", key, key) + text(f"/topic_{key}") + text("cdr") + text("")),
        ]
    records += [record(5, struct.pack("<HIQQ", 1, k, time, time) + joint_state(k)) for k, time in enumerate(times)]
    end = [record(15, bytes(4)), record(2, bytes(20)), b"\x89MCAP0\r\n"] if ends else []
    return b"\x89MCAP0\r\n" + b"".join(records + end)


RECORDERS = {
    "whole": {},
    "breaks off": {"ends": False},
    "recorded in no order": {"times": [0, 2, 1, *range(3, 20)]},
    "without a profile": {"profile": ""},
    "with an unknown definition": {"others": "unknown"},  # as rosbag2 writes where a definition is not installed
    "with another encoding": {"others": "protobuf"},
}


@pytest.mark.parametrize("name", RECORDERS)
def test_bags_of_any_recorder(tmp_path, name):
    (tmp_path / "log.mcap").write_bytes(mcap(**{"times": range(20), **RECORDERS[name]}))
    recording = read_raw(tmp_path / "log.mcap")
    np.testing.assert_allclose(recording.channel("position:a").values, 0.1 * np.arange(20))
    assert any("breaks off" in note for note in recording.notes) == (name == "breaks off")


def test_a_database_with_an_unknown_definition_in_a_folder_of_any_name(tmp_path, run):
    folder = bag(tmp_path / "bag", run, StoragePlugin.SQLITE3).rename(tmp_path / "50% ?a#")
    (file,) = folder.glob("*.db3")
    database = sqlite3.connect(file)
    database.execute("UPDATE message_definitions SET encoding = 'unknown' WHERE topic_type = 'std_msgs/msg/String'")
    database.commit()
    database.close()
    np.testing.assert_array_equal(read_raw(file).channel("position:elbow").values, run[1][:, 0])


def test_a_view_in_a_database_is_not_run(tmp_path):
    """A view named like a table could compute for ever."""
    path = tmp_path / "bag.db3"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE topics(id INTEGER, name TEXT, type TEXT, serialization_format TEXT)")
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"
    database.execute(f"CREATE VIEW messages AS {endless}")
    database.commit()
    database.close()
    with pytest.raises(InvalidLog, match="has no tables of topics and messages"):
        read_raw(path)


def arrays():
    t = 0.002 * np.arange(N)
    q = np.sin(np.outer(t, [3.0, 4.0]))
    return t, q, 5.0 * q


DECLARED = {
    "time": "t",
    "signals": [
        {"kind": "position", "side": "joint", "unit": "rad", "columns": ["q"]},
        {"kind": "torque", "side": "motor", "unit": "N m", "columns": ["tau[1]", "tau[0]"]},
    ],
}


def check(path, form, declared=DECLARED):
    _, q, tau = arrays()
    assert sniff(path)[0] == form
    log = read_log(path, ColumnMap.model_validate(declared))
    assert log.sample_rate_hz == pytest.approx(500.0)
    np.testing.assert_allclose(log.signal("position").values, q)
    np.testing.assert_allclose(log.signal("torque").values, tau[:, ::-1])
    with pytest.raises(InvalidLog, match="does not say which channel is the time; declare time or sample_rate_hz"):
        read_log(path, ColumnMap.model_validate({**declared, "time": None}))
    rate = ColumnMap.model_validate({**declared, "time": None, "sample_rate_hz": 500.0})
    np.testing.assert_allclose(read_log(path, rate).signal("position").values, q)


@pytest.mark.parametrize("packed", [False, True])
def test_matlab_5(tmp_path, packed):
    t, q, tau = arrays()
    savemat(tmp_path / "log.mat", {"t": t, "q": q, "tau": tau, "comment": "text"}, do_compression=packed)
    check(tmp_path / "log.mat", "matlab")
    assert "not numbers, left out: comment" in read_raw(tmp_path / "log.mat").notes


def test_members_of_structs_and_milliseconds(tmp_path):
    t, q, tau = arrays()
    savemat(tmp_path / "log.mat", {"run": {"t": 1e3 * t, "q": q.T, "tau": tau}})
    entry, effort = ({**e, "columns": [f"run.{c}" for c in e["columns"]]} for e in DECLARED["signals"])
    check(tmp_path / "log.mat", "matlab", {"time": "run.t", "time_unit": "ms", "signals": [entry, effort]})
    assert any("run.q is 2 by 100, samples along rows; transposed" in n for n in read_raw(tmp_path / "log.mat").notes)


def matlab_73(path, **members):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in members.items():
            file[name] = np.atleast_2d(array) if array.ndim == 1 else array.T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        yield file
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + content[128:])


def test_matlab_73(tmp_path):
    t, q, tau = arrays()
    for file in matlab_73(tmp_path / "log.mat", t=t, q=q, tau=tau):
        file["name"] = np.array([97, 98], dtype=np.uint16)
        file["name"].attrs["MATLAB_class"] = np.bytes_("char")
    check(tmp_path / "log.mat", "matlab")


def test_hdf5_stays_in_its_file(tmp_path):
    """Links and numbers kept elsewhere are not followed."""
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret.bin").write_bytes(np.arange(8.0).tobytes())
    for file in matlab_73(tmp_path / "link.mat", t=np.arange(9.0)):
        file["out"] = h5py.ExternalLink("/etc/passwd", "/")
    for file in matlab_73(tmp_path / "raw.mat", t=np.arange(9.0)):
        file.create_dataset("out", (8,), "f8", external=[(str(tmp_path / "secret.bin"), 0, 64)])
    for file in matlab_73(tmp_path / "virtual.mat", t=np.arange(9.0)):
        layout = h5py.VirtualLayout((9,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "raw.mat"), "t", (1, 9))[0]
        file.create_virtual_dataset("out", layout)
    for name, words in (("link", "is a link to elsewhere"), ("raw", "in another file"), ("virtual", "in another file")):
        with pytest.raises(InvalidLog, match=f"out .*{words}"):
            read_raw(tmp_path / f"{name}.mat")


def test_numpy_archives(tmp_path):
    t, q, tau = arrays()
    for save, name in ((np.savez, "a.npz"), (np.savez_compressed, "b.npz")):
        save(tmp_path / name, t=t, q=q.astype(">f8"), tau=np.asfortranarray(tau))
        check(tmp_path / name, "npz")


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("/tmp/i6-readers-bomb"),))


def test_objects_in_an_archive_are_refused(tmp_path):
    np.savez(tmp_path / "log.npz", t=np.arange(3.0), q=np.array([Bomb()], dtype=object))
    with pytest.raises(InvalidLog, match="q holds Python objects, which could run code"):
        read_raw(tmp_path / "log.npz")
    assert not Path("/tmp/i6-readers-bomb").exists()


def test_an_archive_that_unpacks_to_too_much(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "log.npz", t=np.zeros(100_000))
    monkeypatch.setattr(npz, "LARGEST", 10_000)
    with pytest.raises(
        InvalidLog, match=r"unpacks to 0.0008 GB, more than the 1e-05 GB that are read as a whole; cut the log"
    ):
        read_raw(tmp_path / "log.npz")


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    t, q, tau = arrays()
    columns = {"t": t, **{f"q[{k}]": q[:, k] for k in range(2)}, **{f"tau[{k}]": tau[:, k] for k in range(2)}}
    parquet.write_table(pa.table({**columns, "phase": ["main"] * N}), tmp_path / "log.parquet")
    check(tmp_path / "log.parquet", "parquet")
    assert "not numbers, left out: phase" in read_raw(tmp_path / "log.parquet").notes


def test_missing_numbers_in_parquet_have_a_row(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"q": [0.0, None, 2.0], "junk": [None, None, 1.0]}), tmp_path / "log.parquet")
    position = {"kind": "position", "side": "joint", "unit": "rad", "columns": ["q"]}
    declared = ColumnMap.model_validate({"sample_rate_hz": 100.0, "signals": [position]})
    with pytest.raises(InvalidLog, match="row 2: q is nan, which nothing measures") as caught:
        read_log(tmp_path / "log.parquet", declared)
    assert caught.value.row == 2


def test_a_reader_that_crashes_or_hangs_is_reported(tmp_path, monkeypatch):
    """The child dies or sleeps; the parent says so, and the next file is read."""
    t, q, tau = arrays()
    for _ in matlab_73(tmp_path / "log.mat", t=t, q=q, tau=tau):
        pass
    for code, words in (
        ("import os; os._exit(11)", "ends the library that reads it"),
        ("import time; time.sleep(60)", "takes too long"),
    ):
        script = tmp_path / "child.py"
        script.write_text(f"print('ready', flush=True)\ninput()\n{code}\n")
        child = apart.subprocess.Popen([sys.executable, str(script)], stdin=-1, stdout=-1)
        assert child.stdout.readline() == b"ready\n"
        apart.stop()
        monkeypatch.setattr(apart, "_child", child)
        monkeypatch.setattr(apart, "SECONDS", 0.3)
        with pytest.raises(InvalidLog, match=words):
            read_raw(tmp_path / "log.mat")
    monkeypatch.setattr(apart, "SECONDS", 30.0)
    assert len(read_raw(tmp_path / "log.mat").channels) == 5
    apart.stop()
