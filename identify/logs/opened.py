"""What a log format is, and safe access to files: size, kind and place are checked before any content is used."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from excitor.identify.log import Recording
from excitor.robots.errors import InvalidLog

HEAD = 65536  # bytes by which a format is told
LARGEST_TEXT = 300_000_000  # bytes of a text file that is read as a whole: it fills five times as much memory
WHOLE = 40_000_000  # numbers of other files that are read as a whole
LARGEST_BINARY = 8_000_000_000
LONGEST_LINE = 100_000
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # marks at a file's beginning
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Head:
    """The beginning of a file, or the names in a folder."""

    path: Path
    data: bytes = b""
    names: tuple[str, ...] = ()  # of a folder
    is_folder: bool = False

    @property
    def text(self) -> str | None:
        """The beginning as text; None where it is not text."""
        if self.data[:2] in UTF_16:
            return self.data[: len(self.data) // 2 * 2].decode("utf-16", "replace")
        if self.is_folder or b"\0" in self.data:
            return None
        return self.data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        """The first lines that are not blank, without the one that the head cuts."""
        text = self.text
        if text is None:
            return []
        lines = text.splitlines()
        if len(self.data) >= HEAD and len(lines) > 1:
            lines = lines[:-1]
        return [line for line in lines[:200] if line.strip()]


def itself(path: Path) -> list[Path]:
    """List the one file of a log that is one file."""
    return [path]


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A log format: its name, how its files are recognised by their beginning, how they are read, and an example.

    Args:
        name: as campaign.toml calls it.
        fits: `fits(head)` of a file's beginning (`head.data`, `head.text`, `head.lines`): 2 where it surely is of this
            format, 1 where it could be, 0 where it is not.
        read: `read(path)` gives the Recording; InvalidLog(path, sentence, row) says what is wrong with a file.
        example: `example(path)` writes a small whole log, by which the format is checked.
        files: lists the files that a log consists of, where it is more than one.
        table: whether a campaign that declares all columns, time included, may read it as a plain table.
        grows: whether it is one line of headings, then a line a sample, so that it can be read while it grows.
    """

    name: str
    fits: Callable[[Head], int]
    read: Callable[[Path], Recording]
    example: Callable[[Path], object]
    files: Callable[[Path], list[Path]] = itself
    table: bool = False
    grows: bool = False


def head(path: Path) -> Head:
    """Read the beginning of a file, or the names in a folder."""
    try:
        if path.is_dir():
            return Head(path, names=tuple(sorted(os.listdir(path))[:10_000]), is_folder=True)
        check_file(path, LARGEST_BINARY)
        with path.open("rb") as file:
            return Head(path, file.read(HEAD))
    except (OSError, ValueError) as error:
        raise InvalidLog(path, f"cannot be read: {_reason(error)}") from None


def check_file(path: Path, largest: int) -> int:
    """Refuse folders, pipes, devices, missing and too large files; return the size in bytes."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InvalidLog(path, "does not exist") from None
    except (OSError, ValueError) as error:
        raise InvalidLog(path, f"cannot be read: {_reason(error)}") from None
    if stat.S_ISDIR(found.st_mode):
        raise InvalidLog(path, "is a folder, expected a file")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidLog(path, "is a pipe or a device, expected a file")
    if found.st_size > largest:
        sentence = f"is {found.st_size / 1e9:.2g} GB, more than the {largest / 1e9:.2g} GB that are read as a whole"
        raise InvalidLog(path, f"{sentence}; cut the log into runs, or record it at a lower rate")
    return found.st_size


def read_bytes(path: Path, largest: int = LARGEST_BINARY) -> bytes:
    """Read a whole file."""
    check_file(path, largest)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {_reason(error)}") from None


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """Read a text file's lines; zero bytes and very long lines are refused before they fill the memory."""
    check_file(path, LARGEST_TEXT)
    blocks: list[bytes] = []
    try:
        with path.open("rb") as file:
            start = file.read(4096)
            if start[:2] in UTF_16:
                return (start + file.read()).decode("utf-16").splitlines()
            if b"\0" in start:
                raise InvalidLog(path, "is not text: it contains zero bytes (UTF-16? save it as UTF-8)")
            blocks.append(start)
            if len(start) == 4096:
                blocks.append(file.read(LONGEST_LINE))
                if b"\n" not in blocks[0] + blocks[1] and b"\r" not in blocks[0] + blocks[1]:
                    raise _endless(path)
            while block := file.read(_BLOCK):
                blocks.append(block)
                if b"\0" in block:
                    raise InvalidLog(path, "turns into zero bytes: it was never written to its end; cut them off")
                if len(block) > LONGEST_LINE and b"\n" not in block and b"\r" not in block:
                    raise _endless(path)
        lines = b"".join(blocks).decode(encoding).splitlines()
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper()
        raise InvalidLog(path, f"byte {error.start} is not {encoding} text; save the file as UTF-8") from None
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {_reason(error)}") from None
    if lines and max(map(len, lines)) > LONGEST_LINE:
        raise _endless(path)
    return lines


def partner(path: Path, name: str) -> Path:
    """Find a file that belongs to another: beside it, and nowhere else, links followed."""
    if not name or Path(name).name != name or "\\" in name or "\0" in name:
        raise InvalidLog(path, f"names {name[:80]!r}, which is not a file beside it; keep all of its files together")
    other = path.parent / name
    if not other.resolve().is_relative_to(path.parent.resolve()):
        raise InvalidLog(path, f"{name} leads out of the folder of the log; keep all of its files together")
    return other


def _endless(path: Path) -> InvalidLog:
    return InvalidLog(path, f"has a line of more than {LONGEST_LINE} characters: not a table of samples")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
