"""How data travel inside a page: rounded, finite, and unable to end the element that holds them."""

import json
import math
from collections.abc import Mapping
from typing import Any

from excitor.experiments.page.words import entries, seen

DIGITS = 5  # of every number that is drawn
GRID = 1e4  # positions of bodies are whole tenths of a millimetre


def embed(data: Any) -> str:
    """Write data as JSON that may stand inside a script element: no `<`, `>` or `&` in it."""
    from markupsafe import Markup

    text = json.dumps(compact(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def compact(value: Any) -> Any:
    """Round floats to significant digits; NaN and infinities become null; arrays become lists."""
    if isinstance(value, str):
        return seen(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, Mapping):
        return {seen(str(key)): compact(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return compact(value.tolist())
    if isinstance(value, (list, tuple)):
        return [compact(entry) for entry in value]
    return seen(str(value))


def frame_data(frames: Mapping[str, Any]) -> dict[str, Any]:
    """Write where the bodies are: capsules (n_frames, 6 n_capsules) and tool (n_frames, 3), tenths of a millimetre."""
    capsules, tool = compact(entries(frames, "capsules")), compact(entries(frames, "tool"))
    return {
        "time": entries(frames, "time"),
        "capsules": [[_on_grid(x) for ends in frame for x in ends] for frame in capsules],
        "tool": [[_on_grid(x) for x in point] for point in tool],
    }


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _on_grid(value: float | None) -> int | None:
    return None if value is None else round(value * GRID)
