"""The two verbs: run the stage, tell the result, say whether all is well."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.programming.stage import emit, verify_folder
from excitor.experiments.programming.terminal import (
    emitted_data,
    print_emitted,
    print_verified,
    running,
    verified_data,
)


def run_emit(folder: Path, targets: Sequence[str], as_json: bool, **given: Any) -> bool:
    """Write programs; False where a target cannot run the design, or a program fails its check."""
    with running() as listen:
        planned, emitted = emit(folder, targets, listen=listen, **given)
    if as_json:
        typer.echo(json.dumps(emitted_data(planned, emitted), indent=2, allow_nan=False))
    else:
        print_emitted(planned, emitted)
    return all(one.good for one in emitted)


def run_verify(folder: Path, as_json: bool) -> bool:
    """Run programs again; False where one fails."""
    with running() as listen:
        _, found = verify_folder(folder, listen)
    good = all(verified.good for verified in found)
    if as_json:
        typer.echo(json.dumps({"ok": good, "files": verified_data(found)}, indent=2, allow_nan=False))
    else:
        print_verified(found)
    return good
