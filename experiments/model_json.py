"""Where a model lies, and how it is read back: model.json as plain data. What of it is used, each user checks."""

from pathlib import Path
from typing import Any

from excitor.experiments.files import read_json

FILE = "model.json"
SCHEMA = 1


def read_model_json(path: Path) -> dict[str, Any]:
    """Read a model that identification wrote."""
    return read_json(path, SCHEMA, made_by="excitor identify")
