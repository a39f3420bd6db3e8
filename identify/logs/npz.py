"""numpy's .npz archives: arrays of numbers only; objects that could run code, and nested archives, are refused."""

import atexit
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import arrays_recording
from excitor.identify.logs.opened import HEAD, LARGEST_BINARY, WHOLE, Head, LogFormat, check_file
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

LARGEST = 8 * WHOLE  # bytes of all arrays that are read as a whole
_MOST = 1000  # arrays
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, NotImplementedError, RuntimeError)
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


def fits(head: Head) -> int:
    """2 for a zip archive with an array in front, 1 for another one, whose fault is reported in reading."""
    if head.data[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):
        return 0
    return 2 if b".npy" in head.data[:200] else 1


def read(path: Path) -> Recording:
    """Read all arrays."""
    check_file(path, LARGEST_BINARY)
    try:
        with zipfile.ZipFile(path) as archive:
            return arrays_recording(path, "npz", _arrays(path, archive))
    except _DAMAGED as error:
        raise InvalidLog(path, f"is a damaged archive: {str(error)[:120] or type(error).__name__}") from None
    except (ValueError, UnicodeError, OverflowError) as error:  # a name or a date that zipfile cannot take
        raise InvalidLog(path, f"is a damaged archive: {str(error)[:120]}") from None


def _arrays(path: Path, archive: zipfile.ZipFile) -> dict[str, FloatArray]:
    members = archive.infolist()
    if len(members) > _MOST:
        raise InvalidLog(path, f"holds {len(members)} files, expected at most {_MOST} arrays")
    size = sum(member.file_size for member in members)
    if size > LARGEST:
        sentence = f"unpacks to {size / 1e9:.2g} GB, more than the {LARGEST / 1e9:.2g} GB that are read as a whole"
        raise InvalidLog(path, f"{sentence}; cut the log into runs, or record it at a lower rate")
    arrays: dict[str, FloatArray] = {}
    for member in members:
        name = member.filename
        if not name.endswith(".npy"):
            raise InvalidLog(path, f"holds {name[:80]!r}, which is no array; archives are not unpacked")
        if member.compress_type not in (_STORED, _DEFLATED) or member.flag_bits & 1:
            raise InvalidLog(path, f"{name[:80]!r} is encrypted or packed in a way that numpy does not use")
        with archive.open(member) as file:
            arrays[name.removesuffix(".npy")] = _array(path, name.removesuffix(".npy"), file, member.file_size)
    return arrays


def stored_rows(path: Path, least: int = 0) -> dict[str, FloatArray]:
    """Map the arrays of an archive, all with as many rows, at least some, to a file; none where it is not so.

    Compressed ones are unpacked into a temporary file. What is unusual is left to `read`, which says what is wrong.
    """
    key = str(path.resolve()), path.stat().st_mtime_ns, path.stat().st_size
    found = _stored(path)  # mapped anew each time: pages that were read stay in memory as long as their map
    if found:
        return found
    if key not in _spools:
        _close()
        _spools[key] = _unpacked(path, least)
    spool, places = _spools[key]
    return {name: np.memmap(spool, dtype, "r", at, shape, order) for name, (dtype, at, shape, order) in places.items()}


Place = tuple["np.dtype[Any]", int, tuple[int, ...], Literal["F", "C"]]  # of an array: type, first byte, shape, order
Spool = tuple[IO[bytes], dict[str, Place]]
_spools: dict[tuple[str, int, int], Spool] = {}  # what the last compressed archive was unpacked to


def _close() -> None:
    for spool, _ in _spools.values():
        spool.close()
    _spools.clear()


atexit.register(_close)


def _unpacked(path: Path, least: int) -> Spool:
    """Unpack the compressed arrays of an archive into a temporary file without a name, block by block."""
    spool, found = tempfile.TemporaryFile(), dict[str, Place]()  # noqa: SIM115 (it is read from later)
    try:
        with zipfile.ZipFile(path) as archive:
            headed = [(member, _header(archive, member)) for member in archive.infolist()[: _MOST + 1]]
            members, heads = zip(*((one, head) for one, head in headed if prod(head[0]) > 1), strict=True)
            sizes = [prod(shape) * dtype.itemsize for shape, _, dtype in heads]
            rows = {shape[0] for shape, _, _ in heads}
            if len(rows) != 1 or max(rows) < least or sum(sizes) > LARGEST_BINARY:
                return spool, {}
            if not all(0 < one.file_size - size < HEAD for one, size in zip(members, sizes, strict=True)):
                return spool, {}
            if any(dtype.kind not in "fiub" or len(shape) not in (1, 2) for shape, _, dtype in heads):
                return spool, {}
            if 1.1 * sum(sizes) > shutil.disk_usage(tempfile.gettempdir()).free:
                sentence = f"unpacks to {sum(sizes) / 1e9:.2g} GB, more than is free in {tempfile.gettempdir()}"
                raise InvalidLog(path, f"{sentence}; save it by numpy.savez, or set TMPDIR to a larger disk")
            for member, (shape, columns_first, dtype), size in zip(members, heads, sizes, strict=True):
                begin = spool.tell()
                with archive.open(member) as file:
                    file.read(member.file_size - size)
                    shutil.copyfileobj(file, spool, 1 << 22)
                if spool.tell() - begin != size:
                    return spool, {}
                found[member.filename.removesuffix(".npy")] = dtype, begin, shape, "F" if columns_first else "C"
            spool.flush()
    except InvalidLog:
        raise
    except Exception:  # bytes of strangers
        return spool, {}
    return spool, found


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, "np.dtype[Any]"]:
    from numpy.lib import format as npy

    if member.compress_type not in (_STORED, _DEFLATED) or member.flag_bits & 1:
        raise ValueError("packed otherwise")
    with archive.open(member) as file:
        reader = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
        shape, columns_first, dtype = reader(file)
    return shape, columns_first, dtype


def _stored(path: Path) -> dict[str, FloatArray]:
    """Map the arrays of an archive that is not compressed to the file itself."""
    from numpy.lib import format as npy

    found: dict[str, FloatArray] = {}
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for member in archive.infolist()[: _MOST + 1]:
                file.seek(member.header_offset + 26)
                file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
                version = npy.read_magic(file)
                reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, columns_first, dtype = reader(file)
                if prod(shape) < 2:
                    continue
                plain = member.compress_type == _STORED and not member.flag_bits & 1 and dtype.kind in "fiub"
                if not plain or len(shape) not in (1, 2) or (columns_first and len(shape) > 1):
                    return {}
                if file.tell() + prod(shape) * dtype.itemsize > path.stat().st_size:
                    return {}
                name = member.filename.removesuffix(".npy")
                found[name] = np.memmap(path, dtype, "r", file.tell(), shape)
    except Exception:  # bytes of strangers
        return {}
    return found if len({len(array) for array in found.values()}) == 1 else {}


def _array(path: Path, name: str, file: IO[bytes], size: int) -> FloatArray:
    """Read one array; its header is checked before its data are read."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, columns_first, dtype = reader(file)
    except Exception as error:  # numpy's header parser meets bytes of strangers: whatever it says, it is damaged
        raise InvalidLog(path, f"{name} is a damaged array: {str(error)[:120]}") from None
    if dtype.hasobject:
        raise InvalidLog(path, f"{name} holds Python objects, which could run code; save numbers only")
    if dtype.kind not in "fiub" or dtype.itemsize > 16:
        raise InvalidLog(path, f"{name} is of type {dtype}, expected numbers")
    count = prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise InvalidLog(path, f"{name} is said to be {shape}, more than the {size} bytes there are")
    data = file.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise InvalidLog(path, f"{name} is cut short")
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit becomes infinite, and is refused
        values = np.frombuffer(data, dtype).astype(np.float64)
    return values.reshape(shape, order="F" if columns_first else "C")


def _example(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, t=0.01 * np.arange(24), q=np.ones((24, 2)))


FORMAT = LogFormat("npz", fits, read, _example)
