"""What the comparison's page and the terminal say alike."""

from collections.abc import Mapping
from typing import Any

from excitor.experiments.page.words import MINUS, NONE, entries, finite, percent, table


def error_words(value: Any) -> str:
    """Write an error with the digits that tell methods apart."""
    number = finite(value)
    if number is None:
        return NONE
    if abs(number) >= 10.0:
        return percent(number)
    digits = 2 if abs(number) < 0.995 else 0
    return f"{100 * number:.{digits}f} %".replace("-", MINUS)


def contradictions(data: Mapping[str, Any], entry: Mapping[str, Any]) -> int | None:
    """Count the parameters in which a method contradicts the one taken, or the best; None where nobody can tell."""
    advice = table(data, "recommendation")
    chosen = advice.get("method") or advice.get("best")
    for pair in entries(data, "pairs"):
        if {pair.get("one"), pair.get("other")} == {chosen, entry.get("name")} and pair.get("apart") is not None:
            return len(pair["apart"])
    return None


def outcome(data: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Say in a few words what came of a method."""
    if not entry.get("parameters"):
        refused = str(entry.get("refused") or "no reason given")
        return refused if refused.startswith("left out") else f"refused: {refused}"
    said = []
    eigenvalue = finite(entry.get("smallest_mass_matrix_eigenvalue"))
    if eigenvalue is not None and eigenvalue <= 0.0:
        said.append("its mass matrix is not positive definite")
    below = entries(entry, "friction_below_zero")
    if below:
        said.append(f"friction below 0: {', '.join(map(str, below))}")
    total, nothing = table(entry, "held_out").get("total"), table(table(data, "baselines"), "zero").get("total")
    if total is not None and nothing is not None and total >= nothing:
        said.insert(0, "predicts worse than no model at all")
    behind = table(entry, "behind_the_best")
    if behind.get("value") == 0.0:
        said.insert(0, "least held-out error")
    elif behind.get("within_noise"):
        said.insert(0, "as good as the best, but for chance")
    bodies = table(entry, "consistent")
    if bodies.get("refused"):
        said.append(f"no consistent version: {bodies['refused']}")
    return "; ".join(said)
