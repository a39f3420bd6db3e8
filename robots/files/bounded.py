"""The one way in for files from elsewhere: regular ones of bounded size, parsed to a bounded depth."""

import errno
import io
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

_DEEPEST, _MOST_TABLES = 40, 20_000  # parts of a TOML key; tables: the parser's time grows with their squares
_DEEP = re.compile(rf"""(?<![\w."'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_DEEPEST}}}""")
_TABLES = re.compile(r"^[ \t]*\[", re.MULTILINE)


def open_bounded(path: Path, largest: int | None = None) -> io.BufferedReader:
    """Open a regular file to read; OSError with a sentence for folders, pipes, devices, and more bytes than `largest`.

    It is opened without waiting and judged as opened, so that a pipe without a writer cannot hold us.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    found, wrong = os.fstat(handle), ""
    if stat.S_ISDIR(found.st_mode):
        wrong = "is a folder, expected a file"
    elif not stat.S_ISREG(found.st_mode):
        wrong = "is a pipe or a device, expected a file"
    elif largest is not None and found.st_size > largest:
        wrong = f"is {found.st_size / 1e6:.3g} MB, expected at most {largest / 1e6:.3g} MB"
    if wrong:
        os.close(handle)
        raise OSError(errno.EFBIG if stat.S_ISREG(found.st_mode) else errno.EINVAL, wrong, str(path))
    return os.fdopen(handle, "rb")


def read_bounded(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes; OSError with a sentence where it is none."""
    with open_bounded(path, largest) as file:
        return file.read(largest)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; TOMLDecodeError for keys so deep, or tables so many, that parsing them would take minutes."""
    if _DEEP.search(text):
        raise tomllib.TOMLDecodeError(f"a key has more than {_DEEPEST} parts")
    if len(_TABLES.findall(text)) > _MOST_TABLES:
        raise tomllib.TOMLDecodeError(f"has more than {_MOST_TABLES} tables")
    return tomllib.loads(text)
