"""Atomic writes of results, and recovery from those of a killed run.

Files are written under a temporary name, which holds the process's id, and renamed.
"""

import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from excitor.robots.errors import ExcitorError
from excitor.robots.files.bounded import read_bounded

LARGEST = 50_000_000  # bytes of a file that a stage reads as JSON
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"  # a folder may be shared by machines
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<host>[0-9a-f]{8})-(?P<pid>\d{1,9})-[a-z0-9_]{8}(?P<old>\.old)?", re.ASCII)
_FORGOTTEN = 86400.0  # s after which a temporary name is unused, where processes cannot be queried


def typed(path: Path) -> str:
    """Write a path as it is typed on a command line."""
    return shlex.quote(str(path))


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under a temporary name, then rename it; its mode is what the umask leaves."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it; its mode is what the umask leaves."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path.name))
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may keep the name and lose the content
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise ExcitorError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_json(path: Path, schema: int, *, made_by: str) -> dict[str, Any]:
    """Read a stage's result; refuse damaged files and other schemas, naming the command `made_by`."""
    try:
        data = json.loads(read_bounded(path, LARGEST))
    except FileNotFoundError:
        raise ExcitorError(f"{path}: is missing; run {made_by} first") from None
    except OSError as error:
        raise ExcitorError(f"{path}: cannot be read: {error.strerror or error}; it is what {made_by} writes") from None
    except (ValueError, RecursionError) as error:
        raise ExcitorError(f"{path}: is not JSON that {made_by} wrote: {str(error)[:200]}; run it again") from None
    if not isinstance(data, dict) or data.get("schema") != schema:
        found = data.get("schema") if isinstance(data, dict) else None
        raise ExcitorError(f"{path}: has schema {found!r}, expected {schema}; run {made_by} again")
    return data


def new_folder(place: Path) -> Path:
    """Create an empty folder under a temporary name, beside the place that it is to take."""
    folder = Path(tempfile.mkdtemp(dir=place.parent, prefix=_prefix(place.name)))
    os.chmod(folder, 0o755)
    return folder


def swap(new: Path, place: Path) -> None:
    """Move a folder to its place; the old one is removed only afterwards."""
    if not os.path.lexists(place):
        os.replace(new, place)
        return
    old = Path(tempfile.mkdtemp(dir=place.parent, prefix=_prefix(place.name), suffix=".old"))
    os.replace(place, old / place.name)
    os.replace(new, place)
    shutil.rmtree(old, ignore_errors=True)


def mend(*folders: Path) -> None:
    """Remove temporary files of killed runs; folders moved away without a replacement are restored."""
    for folder in folders:
        for path, name in _left(folder):
            with contextlib.suppress(OSError):  # a folder that cannot be written to can still be read
                if path.suffix == ".old" and os.path.lexists(path / name) and not os.path.lexists(folder / name):
                    os.replace(path / name, folder / name)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _prefix(name: str) -> str:
    return f".{name}.{_HOST}-{os.getpid()}-"


def _left(folder: Path) -> Iterator[tuple[Path, str]]:
    """List temporary names that no living process of this machine uses, with their final names."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        found = _LEFT.fullmatch(name)
        if found is not None and found["host"] == _HOST and _ended(int(found["pid"]), folder / name):
            yield folder / name, found["name"]


def _ended(pid: int, path: Path) -> bool:
    if os.name == "nt":  # where asking for a process would end it
        return time.time() - path.lstat().st_mtime > _FORGOTTEN
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
