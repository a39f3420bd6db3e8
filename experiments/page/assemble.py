"""How styles and scripts become part of one page that needs no network."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

SHARED = "excitor.experiments.page"


def text(name: str, package: str = SHARED) -> str:
    """Read a style, a script or a template."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def joined_script(shared: Iterable[str], own: Iterable[str], package: str) -> str:
    """Join scripts, shared ones first, each of which defines one name."""
    return "\n".join(["'use strict';", *(text(name) for name in shared), *(text(name, package) for name in own)])


def script_hash(script: str) -> str:
    """Digest a script as a content security policy asks for it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
