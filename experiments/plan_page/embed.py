"""What the page draws of a run: its curves, and where its bodies are."""

from collections.abc import Mapping
from typing import Any

from excitor.experiments.page.embed import frame_data
from excitor.experiments.page.words import table

DRAWN = ("phases", "time", "q", "dq", "ddq", "tau", "limits", "capsules", "history", "spectrum", "correlation")


def motion_data(run: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what is drawn of a run."""
    data = {key: run[key] for key in DRAWN if run.get(key) is not None}
    return data | {key: frame_data(table(run, key)) for key in ("frames", "approach") if table(run, key)}
