"""How results reach the disk: whole or not at all."""

import os
import tempfile
from pathlib import Path

from excitor.robots.errors import ExcitorError


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under a temporary name, then rename it; its mode is what the umask leaves."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise ExcitorError(f"{path}: cannot be written: {error.strerror or error}") from None
