"""What survives a killed design: the state of each run's search, as plain arrays under a key of all its inputs."""

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from excitor.design.search import State

FOLDER = ".design"


def key_of(*parts: object) -> str:
    """Digest everything that a search depends on."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def keep(folder: Path, run: int, chain: int, *, key: str, state: State) -> None:
    """Write a chain's state, whole or not at all; a folder that cannot be written to only costs the checkpoint."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {field.name: np.asarray(getattr(state, field.name)) for field in fields(State)}
    np.savez(buffer, key=np.array(key), **arrays)
    with contextlib.suppress(OSError):
        (folder / FOLDER).mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder / FOLDER)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(buffer.getvalue())
            os.replace(temporary, folder / FOLDER / f"{_stem(run, key)}-{chain:04d}.npz")
        except OSError:
            os.unlink(temporary)


def recall(folder: Path, run: int, key: str) -> dict[int, State]:
    """Read the states of the same search's chains; those that cannot be used are begun again."""
    found = {}
    for path in sorted((folder / FOLDER).glob(f"{_stem(run, key)}-*.npz")):
        state = _read(path, key)
        if state is not None:
            found[int(path.stem.rsplit("-", 1)[1])] = state
    return found


def forget(folder: Path) -> None:
    """Remove all states: the design is written."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _read(path: Path, key: str) -> State | None:
    try:
        with np.load(path, allow_pickle=False) as data:
            if str(data["key"]) != key:
                return None
            values = {field.name: data[field.name] for field in fields(State)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return State(**{name: value.item() if value.ndim == 0 else value for name, value in values.items()})


def _stem(run: int, key: str) -> str:
    return f"{run:03d}-{key[:16]}"
