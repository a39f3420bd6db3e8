"""Which damaged, hostile and absurd files must give a sentence? Each with what writes it, and words of its sentence.

* Which ways of being malformed can every format suffer? Each reader, asked for by name, meets all of them.
* What do malformed files give? All are read in one process of its own, so that what it fills of memory is theirs.
* Small whole files of every format, for benches that damage them.
"""

import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from excitor.identify.logs.formats import FORMATS, read_raw
from excitor.identify.logs.opened import LogFormat
from excitor.robots.errors import ExcitorError, InvalidLog

Write = Callable[[Path], object]  # writes a file, where the path says

GB2 = 2_000_000_000
RTDE = "timestamp,actual_q_0,actual_current_0\n" + "".join(f"{0.002 * k:.3f},{k},{k}\n" for k in range(20))
SCOPE = "Name\ta\tName\tb\nSampleTime[ms]\t1\tSampleTime[ms]\t1\nUnit\tdeg\tUnit\tA\n\n"
SCOPE += "".join(f"{k}\t{k}\t{k}\t{k}\n" for k in range(20))
DAT = "DIAEXTENDED\n200,Zeit\n210,IMPLIZIT\n241,0.004\n"
DAT += "200,AxisPos_Act1\n210,EXPLIZIT\n211,x.r64\n213,BLOCK\n214,REAL64\n220,9\n221,1\n"


def text(content: bytes | str | Callable[[], bytes]) -> Write:
    """Write this; what is large is made when it is written."""

    def write(path: Path) -> None:
        whole = content() if callable(content) else content
        path.write_bytes(whole.encode() if isinstance(whole, str) else whole)

    return write


def sparse(start: bytes = b"", end: bytes = b"") -> Write:
    """Write two gigabytes that take no room on the disk."""

    def write(path: Path) -> None:
        path.write_bytes(start)
        os.truncate(path, GB2)
        if end:
            with path.open("r+b") as file:
                file.seek(-len(end), 2)
                file.write(end)

    return write


def trace(codes: str, data: bytes = b"\0" * 72) -> Write:
    """Write a trace's header and its data."""

    def write(path: Path) -> None:
        (path.parent / "x.r64").write_bytes(data)
        path.write_text(codes, encoding="latin-1")

    return write


def outside(path: Path) -> None:
    """Write a trace whose data are a link to a file elsewhere."""
    (path.parent / "x.r64").symlink_to("/etc/hostname")
    path.write_text(DAT)


def big_trace(path: Path) -> None:
    """Write a trace of two gigabytes."""
    sparse()(path.parent / "x.r64")
    path.write_text(DAT.replace("220,9", "220,250000000"))


def archive(**members: bytes) -> Write:
    """Write a zip archive."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name.replace("__", "."), content)

    return write


def npy(shape: tuple[int, ...], dtype: str = "<f8", data: bytes = b"") -> bytes:
    """Give an array's file that holds other data than it says."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + data


def nested() -> bytes:
    """Give an archive, to be put into another."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("t.npy", b"x")
    return inner.getvalue()


def seed(name: str, damage: Callable[[bytes], bytes], which: int = 0) -> Write:
    """Write a whole file of a format, damaged."""

    def write(path: Path) -> None:
        own = path.parent / "seed"
        own.mkdir()
        SEEDS[name][which](own)
        path.write_bytes(damage((own / "log").read_bytes()))

    return write


def mat5(content: bytes = b"") -> bytes:
    """Give a MATLAB 5 file."""
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + content


def inflated(size: int) -> bytes:
    """Give an element that grows when it is unpacked."""
    packed = zlib.compress(b"\0" * size, 9)
    return struct.pack("<II", 15, len(packed)) + packed


def saved(content: Mapping[str, object], old: bytes = b"", new: bytes = b"", *, packed: bool = False) -> Write:
    """Write a MATLAB file by scipy, and replace bytes in it."""

    def write(path: Path) -> None:
        from scipy.io import savemat

        savemat(str(path), dict(content), appendmat=False, do_compression=packed)
        path.write_bytes(path.read_bytes().replace(old, new))

    return write


def mcap(*records: tuple[int, bytes]) -> bytes:
    """Give an MCAP file of records."""
    return b"\x89MCAP0\r\n" + b"".join(
        struct.pack("<BQ", opcode, len(content)) + content for opcode, content in records
    )


def chunk(size: int, packing: bytes, data: bytes) -> tuple[int, bytes]:
    """Give a packed record."""
    name = struct.pack("<I", len(packing)) + packing
    return 6, struct.pack("<QQQI", 0, 0, size, 0) + name + struct.pack("<Q", len(data)) + data


def zeros_by_zstd(size: int) -> bytes:
    """Give few bytes that become many."""
    from backports import zstd

    return bytes(zstd.compress(b"\0" * size))


N, JOINTS = 24, 2


def _text(headings: str, row: Callable[[int], list[float | str]], separator: str = ",") -> bytes:
    lines = [headings] if headings else []
    lines += [separator.join(f"{x:.6g}" if isinstance(x, float) else x for x in row(k)) for k in range(N)]
    return "\n".join(lines).encode() + b"\n"


def _numbers(k: int, count: int) -> list[float | str]:
    return [0.01 * (k + 1) * (j + 1) for j in range(count)]


def _joints(stem: str, form: str = "{stem}{k}", first: int = 1) -> str:
    return ",".join(form.format(stem=stem, k=k) for k in range(first, JOINTS + first))


def client_csv(folder: Path) -> None:
    """Write marks, and an empty cell."""
    head = f"time,t,speed_scaling,mark,{_joints('position:')},{_joints('effort:')}"
    (folder / "log").write_bytes(_text(head, lambda k: [0.01 * k, "", 1.0, "0", *_numbers(k, 4)]))


def abb_text(folder: Path) -> None:
    """Write a client's columns, one of them words."""
    head = f"time_s,phase,mark,{_joints('ref_A', '{stem}{k}_deg')},{_joints('pos_A', '{stem}{k}_deg')},torque_1"
    (folder / "log").write_bytes(_text(head, lambda k: [0.004 * k, "main", "1", *_numbers(k, 5)]))


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


def joint_state(k: int) -> bytes:
    """Give a message of two joints."""
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

    messages = [record(5, struct.pack("<HIQQ", 1, k, k, k) + joint_state(k)) for k in range(N)]
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
        database.execute("INSERT INTO messages VALUES (NULL, 1, ?, ?)", (k, joint_state(k)))
    database.commit()
    database.close()


def own_example(form: LogFormat) -> Callable[[Path], None]:
    """Write the example that a format brings."""

    def write(folder: Path) -> None:
        form.example(folder / "log")

    write.__name__ = form.name
    return write


SEEDS: Mapping[str, tuple[Callable[[Path], None], ...]] = {
    **{name: (own_example(form),) for name, form in FORMATS.items()},
    "client_csv": (client_csv,),
    "abb_text": (abb_text,),
    "csv": (plain_csv,),
    "twincat_scope": (twincat_scope,),
    "kuka_trace": (kuka_trace,),
    "npz": (npz,),
    "matlab": (matlab, matlab_73),
    "ros_bag": (ros_bag, ros_bag_database),
}


CASES: Mapping[str, tuple[Write, str]] = {
    # nothing, or not what it says
    "nothing": (text(b""), "is empty"),
    "blank lines": (text(b"\n\n \n"), "is of no known format"),
    "prose": (text("dear robot\nplease move\n"), "is of no known format"),
    "a picture": (text(b"\x89PNG\r\n\x1a\n" + b"\0" * 100), "is of no known format"),
    "random bytes": (text(np.random.default_rng(0).bytes(100_000)), "is of no known format"),
    "zeros": (text(b"\0" * 1000), "is of no known format"),
    "a pickle": (text(b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix"), "is of no known format"),
    "utf-16 without its mark": (text(RTDE.encode("utf-16-le")), "is of no known format"),
    "a pipe": (lambda path: os.mkfifo(path), "is a pipe or a device"),
    "a folder": (Path.mkdir, "is of no known format"),
    "not there": (lambda path: None, "does not exist"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
    # two gigabytes
    "sparse": (sparse(), "is of no known format"),
    "sparse after a table": (sparse(RTDE.encode()), "no text: it contains zero bytes"),
    "sparse after a long table": (sparse(RTDE.encode() + b"1,2,3\n" * 20_000), "GB that are read as a whole"),
    "sparse MATLAB": (sparse(mat5()), "that are read as a whole; cut the log into runs"),
    "sparse HDF5": (sparse(b"\x89HDF\r\n\x1a\n"), "is damaged"),
    "sparse archive": (sparse(b"PK\x03\x04" + b"\0" * 26 + b"t.npy"), "is a damaged archive"),
    "sparse Parquet": (sparse(b"PAR1", b"\xff\xff\xff\x7fPAR1"), "is damaged"),
    "sparse MCAP": (sparse(mcap((1, b"\0" * 8))), "is damaged at byte"),
    "sparse database": (sparse(b"SQLite format 3\0\x10\0\1\1\0\x40\x20\x20" + b"\0" * 100), "is a damaged bag|no bag"),
    "sparse trace data": (big_trace, "has more than 50000000 numbers; cut the trace into runs"),
    # endless
    "ten million columns": (
        text(lambda: b"timestamp," + b"actual_q_0," * 10_000_000 + b"\n1,2\n"),
        "more than 100000 characters",
    ),
    "ten million numbers": (text(lambda: b"0.5," * 10_000_000), "its first line has more than 65536 characters"),
    "ten million tabs": (text(lambda: b"Name\ta\nUnit\t1\n\n" + b"1\t" * 10_000_000), "more than 100000 characters"),
    "an endless second line": (text(lambda: RTDE.encode() + b"7" * 20_000_000), "more than 100000 characters"),
    # tables
    "wrong encoding": (text(RTDE.replace("actual_current_0", "\u00e4").encode("latin-1")), "byte 21 is not UTF-8"),
    "headings only": (text(RTDE.splitlines()[0] + "\n"), "has headings but no samples"),
    "a word": (text(RTDE.replace("0.010,5", "0.010,five")), "row 7: column 2 is 'five', expected a number"),
    "a short row": (text(RTDE.replace("0.010,5,5", "0.010,5")), "row 7: has 2 entries, expected 3"),
    "a long row": (text(RTDE.replace("0.010,5,5", "0.010,5,5,5")), "row 7: has 4 entries, expected 3"),
    "an empty cell": (text(RTDE.replace("0.010,5,5", "0.010,,5")), "row 7: column 2 is empty"),
    "not a number": (
        text(RTDE.replace("0.010,5,5", "0.010,nan,5")),
        "row 7: actual_q_0 is nan, which nothing measures",
    ),
    "uninitialised": (text(RTDE.replace("0.010,5,5", "0.010,5,-3e305")), "row 7: actual_current_0 is -3e.305"),
    "infinite": (text(RTDE.replace("0.010,5,5", "0.010,1e999,5")), "row 7: actual_q_0 is inf"),
    "no time": (text(RTDE.replace("0.010,5,5", "nan,5,5")), "row 7: time 'timestamp' is nan"),
    "two of a name": (text(RTDE.replace("actual_current_0", "actual_q_0")), "two channels named 'actual_q_0'"),
    "html": (text("<html>\n<body>,1</body>\n" * 20), "is of no known format|expected a number"),
    # exports
    "export without samples": (text(SCOPE.split("\n\n")[0] + "\n\n"), "has headings but no samples"),
    "export with a word": (text(SCOPE.replace("5\t5\t", "5\tx\t")), "row 10: column 2 is 'x', expected a number"),
    "export with a long row": (text(SCOPE.replace("5\t5\t5\t5", "5\t5\t5\t5\t5")), "row 10: has 5 entries, expected 4"),
    "export with half a sample": (
        text(SCOPE.replace("5\t5\t5\t5", "5\t \t5\t5")),
        "row 10: a has a time without a value",
    ),
    "export without time": (
        text(SCOPE.replace("Name\ta", "Names\ta")),
        "is of no known format|expected|no block|two channels",
    ),
    # traces
    "trace without data": (text(DAT), "x.r64: does not exist"),
    "trace with a link outside": (outside, "x.r64 leads out of the folder of the log"),
    "trace with a path": (trace(DAT.replace("x.r64", "../x.r64")), "is not a file beside it"),
    "trace without time": (trace(DAT.replace("IMPLIZIT", "EXPLIZIT")), "has 0 implicit channels"),
    "trace with a bad code": (trace(DAT.replace("241,0.004", "241;0.004")), "row 4: is '241;0.004', expected a code"),
    "trace with a bad step": (trace(DAT.replace("241,0.004", "241,-1")), "the time's step is -1"),
    "trace with a bad column": (trace(DAT.replace("221,1", "221,0")), "code 221 is 0, expected a whole number from 1"),
    "trace of another type": (trace(DAT.replace("REAL64", "ASCII")), "stores ASCII by BLOCK; known are REAL64"),
    "trace of too many channels": (trace(DAT + "200,x\n" * 300_000), "row 2010: describes more than 2000 channels"),
    "trace with an endless code": (trace(DAT + "2" * 5000 + ",x\n"), "row 12: is '2222"),
    "trace with an endless joint": (trace(DAT.replace("Act1", "Act" + "1" * 5000), b""), "has 0 samples in x.r64"),
    "trace with empty data": (trace(DAT, b""), "AxisPos_Act1 has 0 samples in x.r64"),
    "trace never filled": (
        trace(DAT, np.full(9, 1e305).tobytes()),
        "row 1: AxisPos_Act1 is 1e.305, which nothing measures",
    ),
    # archives
    "archive in an archive": (
        archive(inner__zip=nested()),
        "holds 'inner.zip', which is no array; archives are not unpacked",
    ),
    "archive with a path": (archive(**{"../../evil__txt": b"x"}), "which is no array"),
    "archive of objects": (
        archive(q__npy=npy((1,), "|O", b"\x80\x04N.")),
        "q holds Python objects, which could run code",
    ),
    "archive that lies": (
        archive(q__npy=npy((10**12,))),
        "q is said to be .1000000000000,., more than the 128 bytes there are",
    ),
    "archive of text": (archive(q__npy=npy((1,), "<U4", b"\0" * 16)), "q is of type <U4, expected numbers"),
    "archive cut": (seed("npz", lambda data: data[:-30]), "is a damaged archive"),
    # MATLAB, Parquet
    "MATLAB cut": (seed("matlab", lambda data: data[:-40]), "is damaged"),
    "MATLAB bomb": (text(lambda: mat5(inflated(300_000_000))), "is damaged: Expecting miMATRIX"),
    "MATLAB bomb of zeros": (saved({"q": np.zeros(20_000_000, np.int8)}, packed=True), "larger than a log can be"),
    "MATLAB bomb in a struct": (
        saved({"q": {"mean": np.zeros(20_000_000, np.int8)}}, packed=True),
        "holds a struct larger than a log can be",
    ),
    "MATLAB of numbers of no type": (  # scipy looks such a type up behind the end of its table
        saved({"t": np.arange(24.0)}, b"\t\0\0\0\xc0\0\0\0", b"\xff\0\0\0\xc0\0\0\0"),
        "is damaged",
    ),
    "HDF5 cut": (seed("matlab", lambda data: data[:1500], 1), "is damaged"),
    "HDF5 scrambled": (
        seed("matlab", lambda data: data[:600] + b"\xff" * 400 + data[1000:], 1),
        "is damaged|holds no arrays",
    ),
    "Parquet cut": (seed("parquet", lambda data: data[:-9]), "is damaged"),
    "Parquet scrambled": (
        seed("parquet", lambda data: data[:20] + b"\xff" * 40 + data[60:]),
        "is damaged|ends the library",
    ),
    # bags
    "bag of nothing": (text(mcap((15, b"\0" * 4))), "holds no joint states"),
    "bag with a lie": (text(mcap((6, b"\0" * 7))), "is damaged"),
    "bag packed by something": (text(mcap(chunk(9, b"rar", b"x"))), "packs its chunks by 'rar'"),
    "bag bomb": (text(lambda: mcap(chunk(1000, b"zstd", zeros_by_zstd(200_000_000)))), "is not what was written"),
    "bag of a huge chunk": (text(mcap(chunk(2**40, b"", b"x"))), "more than any recorder writes"),
    "bag with a bad message": (
        seed("ros_bag", lambda data: data.replace(b"\0\1\0\0d", b"\0\1\0\0\xff" + b"\xff" * 9)),
        "damaged|cannot be decoded",
    ),
    "database cut": (seed("ros_bag", lambda data: data[:5000], 1), "is a damaged bag"),
    "database of something else": (
        seed("ros_bag", lambda data: data.replace(b"messages", b"massages"), 1),
        "damaged bag|has no tables",
    ),
}


COLUMNS = 10_000_000
TEXT = ("ur_rtde", "client_csv", "abb_text", "fanuc_csv", "franka_csv", "csv", "twincat_scope", "kuka_trace")
_SHARES = (0.1, 0.5, 0.9)  # of a file that is cut off there


@dataclass(frozen=True)
class Malformed:
    """A file that must give a sentence; `legible` ones may be read as well, for what is cut off can be whole before."""

    name: str
    reader: str | None  # none: found by its content
    write: Callable[[Path], Path]  # into an empty folder; tells which file to read
    words: str = ""  # of its sentence
    legible: bool = False


def all_malformed() -> Iterator[Malformed]:
    """List the particular files first, then every way for every reader."""
    for name, (write, words) in CASES.items():
        yield Malformed(name, None, _beside(write), words)
    for reader, seeds in SEEDS.items():
        for seed in seeds:
            yield from _ways(reader, seed)


def _beside(write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write(folder / "log.dat")
        return folder / "log.dat"

    return written


def _ways(reader: str, seed: Callable[[Path], None]) -> Iterator[Malformed]:
    def of(way: str, damage: Callable[[Path], object], *, legible: bool = False, words: str = "") -> Malformed:
        def written(folder: Path) -> Path:
            seed(folder)
            log = min(folder.iterdir())
            damage(log)
            return log

        return Malformed(f"{seed.__name__}: {way}", reader, written, words, legible)

    text = reader in TEXT
    for share in _SHARES:
        yield of(f"cut off at {100 * share:.0f} %", partial(_cut, share), legible=True)
    yield of("empty", lambda log: log.write_bytes(b""))
    yield of("binary", lambda log: log.write_bytes(np.random.default_rng(0).bytes(100_000)))
    yield of("an archive in an archive", _archived)
    yield of("2 GB of nothing", _nothing)
    yield of("2 GB, sparse behind its content", lambda log: os.truncate(log, GB2), legible=not text)
    yield of("a folder", _folder)
    yield of("a pipe", _pipe)
    yield of("a link to a folder", _linked)
    if text:
        yield of("UTF-16", lambda log: log.write_bytes(log.read_text("latin-1").encode("utf-16")), legible=True)
        yield of("ten million columns", _wide)
        yield of("an endless last line", _endless)
    beside = [way for way in (_data_elsewhere,) if reader == "kuka_trace"]
    beside += [way for way in (_bag_elsewhere,) if reader == "ros_bag"]
    for way in beside:
        yield of("a link out of the folder", way, words="leads out of the folder|is a link")


def _cut(share: float, log: Path) -> None:
    os.truncate(log, int(share * log.stat().st_size))


def _nothing(log: Path) -> None:
    log.write_bytes(b"")
    os.truncate(log, GB2)


def _archived(log: Path) -> None:
    with zipfile.ZipFile(log, "w") as file:
        file.writestr("inner.zip", nested())


def _folder(log: Path) -> None:
    log.unlink()
    log.mkdir()


def _pipe(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def _linked(log: Path) -> None:
    log.unlink()
    log.symlink_to("/proc")


def _wide(log: Path) -> None:
    first, _, rest = log.read_bytes().partition(b"\n")
    separator = next((mark for mark in (b"\t", b";", b",") if mark in first), b",")
    log.write_bytes(first + (separator + b"x") * COLUMNS + b"\n" + rest)


def _endless(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"7" * 2 * COLUMNS)


def _data_elsewhere(log: Path) -> None:
    for path in log.parent.glob("*.r64"):
        path.unlink()
        path.symlink_to("/etc/hostname")


def _bag_elsewhere(log: Path) -> None:
    """Make a bag's folder whose one file is elsewhere."""
    elsewhere = log.parent.parent / f"{log.parent.name}-elsewhere"
    log.rename(elsewhere)
    log.mkdir()
    (log / "x.mcap").symlink_to(elsewhere)


SLOWEST = 2.0  # s in which a damaged file must be told
LARGEST = 600.0  # MB that reading a damaged file may fill
_PATIENCE = 600.0  # s until a process that hangs is given up


@dataclass(frozen=True, slots=True)
class Answer:
    """What one file gave."""

    name: str
    sentence: str  # empty: it was read
    seconds: float
    wrong: str  # why that is not good; empty where it is


@dataclass(frozen=True, slots=True)
class Told:
    """What all files gave, and how much memory that took, MB."""

    answers: tuple[Answer, ...]
    memory: float  # the most that reading one file added, with all of the process that reads apart


def ask_all() -> Told:
    """Read every malformed file in another process."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.damaged_logs"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    if done.returncode != 0:
        told = (done.stderr.splitlines() or ["without a word"])[-1][:500]
        raise ExcitorError(f"the process that reads malformed files ended: {told}; it needs excitor[matlab,parquet]")
    data = json.loads(done.stdout)
    return Told(tuple(Answer(**answer) for answer in data["answers"]), data["memory"])


def answers(files: Iterable[Malformed]) -> tuple[list[Answer], float]:
    """Read files, one after the other, each in a folder of its own; tell the most memory that one took, MB."""
    found, most = [], 0.0
    for file in files:
        folder = Path(tempfile.mkdtemp(prefix="excitor-malformed-"))
        own = folder / "own"
        own.mkdir()
        try:
            path = file.write(own)
            before = _peak(fresh=True)
            found.append(_answer(file, path))
            most = max(most, _peak() - before + _peak_apart())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found, most


def _peak(fresh: bool = False) -> float:
    """Tell the most memory that this process has filled, MB; `fresh`: counted from now on, where the system can."""
    import resource

    try:
        if fresh:
            Path("/proc/self/clear_refs").write_text("5")
        return _filled("self")
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _peak_apart() -> float:
    """Tell the same of the process that reads apart, its libraries included; 0 where the system does not tell."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return max(map(_filled, children), default=0.0)
    except (OSError, IndexError):
        return 0.0


def _filled(process: str) -> float:
    return float(Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1].split()[0]) / 2**10


def _answer(file: Malformed, path: Path) -> Answer:
    sentence = wrong = ""
    start = time.monotonic()
    try:
        read_raw(path, file.reader)
    except InvalidLog as error:
        sentence = str(error)
    except BaseException as error:  # that is what is looked for
        wrong = f"{type(error).__name__}: {error}"[:500]
    seconds = time.monotonic() - start
    if not wrong:
        wrong = _wrong(file, path, sentence)
    if not wrong and seconds > SLOWEST:
        wrong = f"took {seconds:.1f} s"
    return Answer(file.name, sentence.replace(str(path.parent), ""), seconds, wrong)


def _wrong(file: Malformed, path: Path, sentence: str) -> str:
    if not sentence:
        return "" if file.legible else "was read"
    if str(path.parent) not in sentence:
        return f"does not name the file: {sentence[:200]}"
    if not re.search(file.words, sentence):
        return f"says something else: {sentence[:200]}"
    return "" if len(sentence) < 2000 and sentence.isprintable() else f"is no sentence: {sentence[:200]!r}"


def main() -> None:
    """Read all of them, and print what they gave."""
    with tempfile.TemporaryDirectory(prefix="excitor-malformed-") as name:  # libraries and what runs apart start first
        for k, write in enumerate(write for seeds in SEEDS.values() for write in seeds):
            own = Path(name) / str(k)
            own.mkdir()
            write(own)
            read_raw(min(own.iterdir()))
    found, memory = answers(all_malformed())
    print(json.dumps({"answers": [asdict(answer) for answer in found], "memory": memory}))


if __name__ == "__main__":
    main()
