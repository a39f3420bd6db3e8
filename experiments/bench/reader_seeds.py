"""Small whole files of every format, for benches that damage them."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

N, JOINTS = 24, 2


def _text(headings: str, row: Callable[[int], list[float | str]], separator: str = ",") -> bytes:
    lines = [headings] if headings else []
    lines += [separator.join(f"{x:.6g}" if isinstance(x, float) else x for x in row(k)) for k in range(N)]
    return "\n".join(lines).encode() + b"\n"


def _numbers(k: int, count: int) -> list[float | str]:
    return [0.01 * (k + 1) * (j + 1) for j in range(count)]


def _joints(stem: str, form: str = "{stem}{k}", first: int = 1) -> str:
    return ",".join(form.format(stem=stem, k=k) for k in range(first, JOINTS + first))


def ur_rtde(folder: Path) -> None:
    """Write headings and joints."""
    names = ("actual_q", "actual_current", "target_moment")
    head = "timestamp," + ",".join(_joints(name, "{stem}_{k}", 0) for name in names)
    (folder / "log").write_bytes(_text(head, lambda k: [0.008 * k, *_numbers(k, 6)]))


def client_csv(folder: Path) -> None:
    """Write marks, and an empty cell."""
    head = f"time,t,speed_scaling,mark,{_joints('position:')},{_joints('effort:')}"
    (folder / "log").write_bytes(_text(head, lambda k: [0.01 * k, "", 1.0, "0", *_numbers(k, 4)]))


def abb_text(folder: Path) -> None:
    """Write a client's columns, one of them words."""
    head = f"time_s,phase,mark,{_joints('ref_A', '{stem}{k}_deg')},{_joints('pos_A', '{stem}{k}_deg')},torque_1"
    (folder / "log").write_bytes(_text(head, lambda k: [0.004 * k, "main", "1", *_numbers(k, 5)]))


def fanuc_csv(folder: Path) -> None:
    """Write padded blanks."""
    (folder / "log").write_bytes(_text("timestamp,J1,J2", lambda k: [f" {8 * k}", *_numbers(k, 2)]))


def franka_csv(folder: Path) -> None:
    """Write a state's columns."""
    head = f"time,{_joints('q', '{stem}[{k}]', 0)},{_joints('tau_J', '{stem}[{k}]', 0)}"
    (folder / "log").write_bytes(_text(head, lambda k: [0.001 * k, *_numbers(k, 4)]))


def plain_csv(folder: Path) -> None:
    """Write a table of somebody's own, with decimal commas."""
    table = _text("t;a;b", lambda k: [0.01 * k, *_numbers(k, 2)], ";")
    (folder / "log").write_bytes(table.replace(b".", b","))


def twincat_scope(folder: Path) -> None:
    """Write two time bases."""
    head = "Name\tscope\nFile\tx\n\nName\ta\tb\tName\tc\nSampleTime[ms]\t1\t1\tSampleTime[ms]\t2\n"
    head += "Unit\tdeg\tNm\tUnit\tA\n\n"
    rows = [f"{k}\t{k}\t{0.5 * k}" + (f"\t{2 * k}\t{k}" if k < N // 2 else "\t \t ") for k in range(N)]
    (folder / "log").write_text(head + "\n".join(rows) + "\nEOF\n", encoding="utf-8")


def kuka_trace(folder: Path) -> None:
    """Write a header and its data."""
    begin, end = "#BEGINCHANNELHEADER\n", "#ENDCHANNELHEADER\n"
    codes = f"DIAEXTENDED\n{begin}200,Zeit\n202,s\n210,IMPLIZIT\n220,{N}\n240,0\n241,0.004\n{end}"
    for k in range(1, JOINTS + 1):
        codes += f"{begin}200,AxisPos_Act{k}\n202,deg\n210,EXPLIZIT\n211,T_KRCIpo.r64\n213,BLOCK\n214,REAL64\n"
        codes += f"220,{N}\n221,{k}\n240,0\n241,1\n{end}"
    (folder / "T_KRCIpo.dat").write_text(codes, encoding="latin-1")
    (folder / "T_KRCIpo.r64").write_bytes(np.arange(2.0 * N).astype("<f8").tobytes())


def npz(folder: Path) -> None:
    """Write a vector and a table."""
    with (folder / "log").open("wb") as file:
        np.savez(file, t=0.01 * np.arange(N), q=np.ones((N, JOINTS)))


def matlab(folder: Path) -> None:
    """Write version 5."""
    from scipy.io import savemat

    savemat(
        str(folder / "log"),
        {"t": 0.01 * np.arange(N), "q": {"mean": np.ones((N, JOINTS))}},
        appendmat=False,
        do_compression=True,
    )


def matlab_73(folder: Path) -> None:
    """Write version 7.3: HDF5 behind a block for the user."""
    import h5py

    with h5py.File(folder / "log", "w", userblock_size=512) as file:
        file["t"] = 0.01 * np.arange(N)[None]
        file["run/q"] = np.ones((JOINTS, N))


def parquet(folder: Path) -> None:
    """Write two columns."""
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"t": 0.01 * np.arange(N), "q": np.ones(N)}), folder / "log")


def _joint_state(k: int) -> bytes:
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](sec=100, nanosec=10_000_000 * k)
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="base")
    numbers = [0.1 * k * np.ones(JOINTS) for _ in range(3)]
    message = types["sensor_msgs/msg/JointState"](header, ["a", "b"], *numbers)
    return bytes(store.serialize_cdr(message, "sensor_msgs/msg/JointState"))


def ros_bag(folder: Path) -> None:
    """Write an MCAP file by hand: a schema, a channel, messages in a chunk without packing, and one outside."""

    def text(x: str) -> bytes:
        return struct.pack("<I", len(x)) + x.encode()

    def record(opcode: int, content: bytes) -> bytes:
        return struct.pack("<BQ", opcode, len(content)) + content

    messages = [record(5, struct.pack("<HIQQ", 1, k, k, k) + _joint_state(k)) for k in range(N)]
    schema = record(3, struct.pack("<H", 1) + text("sensor_msgs/msg/JointState") + text("ros2msg") + text(""))
    channel = record(4, struct.pack("<HH", 1, 1) + text("/joint_states") + text("cdr") + text(""))
    inside = b"".join(messages[:-1])
    chunk = record(6, struct.pack("<QQQI", 0, 0, len(inside), 0) + text("") + struct.pack("<Q", len(inside)) + inside)
    start = b"\x89MCAP0\r\n" + record(1, text("ros2") + text("us"))
    (folder / "log").write_bytes(start + schema + channel + chunk + messages[-1] + record(15, b"\0" * 4))


def ros_bag_database(folder: Path) -> None:
    """Write the same messages into a database."""
    import sqlite3

    database = sqlite3.connect(folder / "log")
    database.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT)")
    database.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB)")
    database.execute("INSERT INTO topics VALUES (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
    for k in range(N):
        database.execute("INSERT INTO messages VALUES (NULL, 1, ?, ?)", (k, _joint_state(k)))
    database.commit()
    database.close()


SEEDS: Mapping[str, tuple[Callable[[Path], None], ...]] = {
    "ur_rtde": (ur_rtde,),
    "client_csv": (client_csv,),
    "abb_text": (abb_text,),
    "fanuc_csv": (fanuc_csv,),
    "franka_csv": (franka_csv,),
    "csv": (plain_csv,),
    "twincat_scope": (twincat_scope,),
    "kuka_trace": (kuka_trace,),
    "npz": (npz,),
    "matlab": (matlab, matlab_73),
    "parquet": (parquet,),
    "ros_bag": (ros_bag, ros_bag_database),
}
