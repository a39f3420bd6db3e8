"""Folders that a file may name other files in: its own, and the one that the command line allows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ALLOW = "; copy it there, or allow the folder that it lies in: --files DIR"
_allowed: list[Path] = []


@contextmanager
def allow_folder(folder: Path) -> Iterator[None]:
    """Allow files in one more folder, for a while."""
    _allowed.append(folder.resolve())
    try:
        yield
    finally:
        _allowed.pop()


def allowed_folders() -> tuple[Path, ...]:
    """List the folders that are allowed besides a file's own."""
    return tuple(_allowed)


def inside(folder: Path, name: str | Path) -> bool:
    """Return True if a file named in a folder's file is in that folder or an allowed one, links followed.

    A name that no file can have is in none.
    """
    try:
        place = (folder / name).resolve()
        place.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, with a zero byte
        if isinstance(error, PermissionError):
            raise
        return False
    own = [] if Path(name).is_absolute() else [folder.resolve()]
    return any(place.is_relative_to(one) for one in (*own, *_allowed))
