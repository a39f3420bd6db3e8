"""Folders that a file may name other files in: its own, and the one that the command line allows."""

from pathlib import Path

ALLOW = "; copy it there, or allow the folder that it lies in: --files DIR"
_allowed: list[Path] = []


def allow_folder(folder: Path | None) -> None:
    """Allow files in one more folder, instead of the one allowed before; None: in no other."""
    _allowed[:] = [] if folder is None else [folder.resolve()]


def allowed_folders() -> tuple[Path, ...]:
    """List the folders that are allowed besides a file's own."""
    return tuple(_allowed)


def inside(folder: Path, name: str | Path) -> bool:
    """Return True if a file named in a folder's file is in that folder or an allowed one, links followed."""
    place = (folder / name).resolve()
    own = [] if Path(name).is_absolute() else [folder.resolve()]
    return any(place.is_relative_to(one) for one in (*own, *_allowed))
