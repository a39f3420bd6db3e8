"""What did holding the logs against their plans find? One entry for each check, whoever made it."""

from collections.abc import Mapping
from typing import Any

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.page.words import finite

LEVELS = ("unusable", "doubtful", "note")


def checked_entries(alignments: Mapping[str, Alignment]) -> list[dict[str, Any]]:
    """List the checks of every run of an emitted program, run by run."""
    return [
        {
            "run": name,
            "what": check.what,
            "joint": check.joint,
            "name": " ".join(filter(None, (f"{name}:", check.what, check.joint))),
            "found": check.figure,
            "tolerance": check.tolerance,
            "unit": "" if check.unit == "1" else check.unit,
            "holds": check.holds,
            "level": check.level,
            "sentence": str(check),
        }
        for name, alignment in alignments.items()
        for check in alignment.checks
    ]


def alignment_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Write one finding; what is found or expected may be a number or words, and what is not said forbids."""
    values = {key: _number_or_words(entry.get(key)) for key in ("found", "expected")}
    words = {key: str(entry.get(key) or "") for key in ("name", "run", "what", "joint", "unit", "sentence")}
    holds, level = entry.get("holds"), str(entry.get("level") or LEVELS[0])
    return {
        **values,
        **words,
        "tolerance": finite(entry.get("tolerance")),
        "holds": None if holds is None else bool(holds),
        "level": level if level in LEVELS else LEVELS[0],
    }


def _number_or_words(value: Any) -> float | str | None:
    if value is None or isinstance(value, bool):
        return None if value is None else str(value)
    number = finite(value)
    return str(value) if number is None or isinstance(value, str) else number
