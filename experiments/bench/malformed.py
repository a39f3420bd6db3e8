"""Which damaged, hostile and absurd files must give a sentence? Each with what writes it, and words of its sentence."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from excitor.experiments.bench.reader_seeds import SEEDS

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


CASES: Mapping[str, tuple[Write, str]] = {
    # nothing, or not what it says
    "nothing": (text(b""), "is empty"),
    "blank lines": (text(b"\n\n \n"), "is of no known format"),
    "prose": (text("dear robot\nplease move\n"), "is of no known format"),
    "a picture": (text(b"\x89PNG\r\n\x1a\n" + b"\0" * 100), "is of no known format"),
    "random bytes": (text(np.random.default_rng(0).bytes(100_000)), "is of no known format"),
    "zeros": (text(b"\0" * 1000), "is of no known format"),
    "a pickle": (text(b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix"), "is of no known format"),
    "utf-16": (text(RTDE.encode("utf-16")), "is of no known format"),
    "a pipe": (lambda path: os.mkfifo(path), "is a pipe or a device"),
    "a folder": (Path.mkdir, "is of no known format"),
    "not there": (lambda path: None, "does not exist"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
    # two gigabytes
    "sparse": (sparse(), "is of no known format"),
    "sparse after a table": (sparse(RTDE.encode()), "no text: it contains zero bytes"),
    "sparse after a long table": (sparse(RTDE.encode() + b"1,2,3\n" * 20_000), "turns into zero bytes"),
    "sparse MATLAB": (sparse(mat5()), "is larger than 0.5 GB"),
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
    "export without time": (text(SCOPE.replace("Name\ta", "Names\ta")), "is of no known format|expected|no block"),
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
    "MATLAB bomb": (text(lambda: mat5(inflated(300_000_000))), "is cut off, or larger than a log can be"),
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
