"""Compilation of the kernel with numba, its cache folder, its workspace layout, and trees as flat arrays."""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray

Function = TypeVar("Function", bound=Callable[..., Any])

LANES = 120  # samples in a block; no power of two, so that rows do not fall on each other in the caches

# Rows of a link's workspace, by the letters of the equations. R turns link into parent coordinates, P is the link's
# origin in the parent's frame. The rest is in the link's own frame: angular and linear velocity ω (O) and V, angular
# acceleration α (L), spatial and classical acceleration S and A (the base accelerates by -gravity), gravity G.
R00, R01, R02, R10, R11, R12, R20, R21, R22 = (k * LANES for k in range(9))
PX, PY, PZ = (k * LANES for k in range(9, 12))
OX, OY, OZ = (k * LANES for k in range(12, 15))
VX, VY, VZ = (k * LANES for k in range(15, 18))
LX, LY, LZ = (k * LANES for k in range(18, 21))
SX, SY, SZ = (k * LANES for k in range(21, 24))
AX, AY, AZ = (k * LANES for k in range(24, 27))
GX, GY, GZ = (k * LANES for k in range(27, 30))
GRAVITY_WORK, RATE, JOINT_ACCELERATION, SINE, COSINE, ANGLE = (k * LANES for k in range(30, 36))
LINK_ROWS = 36 * LANES

# Rows of a screw's workspace: the angular (U) and linear velocity (W) that one coordinate gives a link, in its frame.
UX, UY, UZ, WX, WY, WZ = (k * LANES for k in range(6))
SCREW_ROWS = 6 * LANES

# Rows of short vectors.
ROW1, ROW2, ROW3, ROW4, ROW5 = (k * LANES for k in range(1, 6))

# Columns of the regressor wait in rows of CHUNK samples. The pitch is no power of two: caches would thrash.
CHUNK = 2 * LANES
PITCH = CHUNK + 8

# Constants of a joint, see `tree.Tree`: R = C0 + C1 sin θ + C2 cos θ, r = c0 + c1 sin θ + c2 cos θ + c3 θ,
# then the joint's own screw in the link's frame.
JOINT_CONSTANTS = 45


_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": True,
}
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


_TRIED = (
    0,
    68,
)  # the latest numba whose insides `kernel.contained` is known to fit; with later ones code compiles slower
_INNER: dict[str, Any] = {"no_cpython_wrapper": True}
if numba.version_info.short <= _TRIED:
    from excitor.robots.kernel.contained import ContainedCompiler, RememberingCompiler

    _OPTIONS["pipeline_class"] = RememberingCompiler
    _INNER["pipeline_class"] = ContainedCompiler


def compiled(function: Function) -> Function:
    """Compile with numba: cached on disk, free of the interpreter lock, multiply-adds contracted."""
    return _compile(function, {"contract", "nsz"})


def inner(function: Function) -> Function:
    """Compile like `compiled`, for compiled callers only: without machine code of its own, it compiles faster."""
    return _compile(function, {"contract", "nsz"}, **_INNER)


def inner_views(function: Function) -> Function:
    """Compile like `inner`, without counts of who uses an array, which cost more than short loops.

    For functions that neither make arrays nor get any from what they call: those would never be freed.
    """
    return _compile(function, {"contract", "nsz"}, **(_INNER | {"_nrt": False}))


def inner_sums(function: Function) -> Function:
    """Compile like `inner`, and let sums be reordered into vector lanes."""
    return _compile(function, {"contract", "nsz", "reassoc"}, **_INNER)


def _compile(function: Function, fastmath: set[str], **options: Any) -> Function:
    settings: Any = numba.config  # numba fills this module at run time
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _cache_folder()
    try:
        return cast(Function, numba.njit(fastmath=fastmath, **(_OPTIONS | options))(function))
    finally:
        settings.CACHE_DIR = before


@cache
def _cache_folder() -> str:
    """Return a folder for compiled code, named by a hash of all of the kernel's source.

    numba checks only a function's own file for changes, but compiled callers contain their callees. It runs any code
    it finds in the cache: a folder into which another user could write is skipped.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]
    for base in _cache_bases(here):
        with contextlib.suppress(OSError, RuntimeError):  # a loop of symbolic links is a RuntimeError
            folder = base.resolve() / f"excitor-{digest}"
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if os.access(folder, os.W_OK) and _is_private(folder):
                return str(folder)
    return tempfile.mkdtemp(prefix="excitor-")  # mode 0700; compiled again next time, but it works


def _cache_bases(here: Path) -> Iterator[Path]:
    """List candidate folders for compiled code, best first."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
    yield here / "__pycache__"
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"]) / "excitor"
    with contextlib.suppress(RuntimeError):
        yield Path.home() / ".cache" / "excitor"
    if hasattr(os, "geteuid"):
        yield Path(tempfile.gettempdir()) / f"excitor-{os.geteuid()}"


def _is_private(folder: Path) -> bool:
    """Return True if only this user (and root) can write into a folder, or replace it.

    The folder is ours, a real one, and writable by nobody else. Every folder above it belongs to us or to root, and is
    writable by nobody else, or sticky: there, entries are moved by their owners alone. Windows has neither owners'
    numbers nor such modes; the folders of a user's profile are the user's own there.
    """
    if not hasattr(os, "geteuid"):
        return True
    own = folder.lstat()
    if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.geteuid() or own.st_mode & _OTHERS_WRITE:
        return False
    above = [parent.lstat() for parent in folder.parents]
    return all(
        found.st_uid in (0, os.geteuid()) and (not found.st_mode & _OTHERS_WRITE or found.st_mode & stat.S_ISVTX)
        for found in above
    )


def is_compiled() -> bool:
    """Return True if the cache holds compiled code of this version."""
    return any(Path(_cache_folder()).rglob("*.nbi"))


class Chain(NamedTuple):
    """A tree as flat arrays: joint constants, and the pairs of links and coordinates that move them.

    Links come after their parents. A pair is a link and a coordinate that moves it; the pairs of link j are
    numbered pair_start[j] … pair_start[j + 1] - 1; pair_above is the same coordinate's pair at the parent (-1: none).
    """

    parents: IntArray
    constants: FloatArray  # (n_links, JOINT_CONSTANTS)
    coupling: FloatArray  # (n_links, n_joints)
    offset: FloatArray
    gravity: FloatArray
    supports: BoolArray  # (n_links, n_joints)
    pair_start: IntArray
    pair_joint: IntArray
    pair_above: IntArray


def joint_constants(before: FloatArray, axis: FloatArray, after: FloatArray, sliding: bool) -> FloatArray:
    """Write T_parent_link(θ) as C0 + C1 sin θ + C2 cos θ (and c3 θ), then the joint's screw in the link's frame.

    Rot(a, θ) = a aᵀ + sin θ S(a) + cos θ (1 - a aᵀ).
    """
    A, p = before[:3, :3], before[:3, 3]
    B, b = after[:3, :3], after[:3, 3]
    along = np.outer(axis, axis)
    still = (np.eye(3), np.zeros((3, 3)), np.zeros((3, 3)))
    terms = still if sliding else (along, skew(axis), np.eye(3) - along)
    slide = A @ axis if sliding else np.zeros(3)
    angular = np.zeros(3) if sliding else B.T @ axis
    linear = B.T @ (axis if sliding else np.cross(axis, b))
    rotation = [(A @ term @ B).ravel() for term in terms]
    origin = [p + A @ terms[0] @ b, A @ terms[1] @ b, A @ terms[2] @ b]
    constants = np.concatenate([*rotation, *origin, slide, angular, linear])
    assert constants.size == JOINT_CONSTANTS
    return constants


def pairs(parents: IntArray, coupling: FloatArray) -> tuple[BoolArray, IntArray, IntArray, IntArray]:
    """Find which coordinates move which links: supports, pair_start, pair_joint, pair_above."""
    n_links, n_joints = coupling.shape
    supports = coupling != 0.0
    for j, parent in enumerate(parents):
        if parent >= 0:
            supports[j] |= supports[parent]
    number = np.full((n_links, n_joints), -1)
    number[supports] = np.arange(supports.sum())
    link, joint = np.nonzero(supports)
    above = [number[parents[j], i] if parents[j] >= 0 else -1 for j, i in zip(link, joint, strict=True)]
    start = np.concatenate([[0], np.cumsum(supports.sum(axis=1))])
    return supports, start.astype(np.int64), joint.astype(np.int64), np.array(above, dtype=np.int64)


def skew(a: FloatArray) -> FloatArray:
    """Write the matrix of a cross product: skew(a) @ b = a × b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
