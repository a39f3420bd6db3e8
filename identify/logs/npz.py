"""numpy's .npz archives: arrays of numbers only; objects that could run code, and nested archives, are refused."""

import os
import struct
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.arrays import arrays_recording
from excitor.identify.logs.opened import LARGEST_BINARY, Head, LogFormat, check_file
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

LARGEST = 2**30  # bytes of all arrays
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
        raise InvalidLog(path, f"unpacks to {size / 1e9:.1f} GB; cut the log into runs")
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


def stored_rows(path: Path) -> dict[str, FloatArray]:
    """Map the arrays of an archive that is not compressed, all with as many rows, to the file; none where it is not so.

    What is unusual is left to `read`, which says what is wrong.
    """
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
