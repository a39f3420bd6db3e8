"""What the page's tables say: certificate rows by the smallest margin, forecast rows by how sure they are."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from excitor.experiments.page.words import bar, finite, show, tier, unit_words

MOST_PERIODS = 1000.0
TIERS = {"good": "below 2 %", "fair": "2 to 10 %", "poor": "10 % and worse", "open": "not known"}


def certificate_rows(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort what was proven: what fails first, then by margin relative to the limit."""
    rows = [
        {
            "name": str(item.get("name", "")),
            "unit": unit_words(item.get("unit")),
            "limit": finite(item.get("limit")),
            "worst": finite(item.get("worst")),
            "margin": finite(item.get("margin")),
            "relative": relative_margin(item),
            "proof": str(item.get("proof") or ""),
            "holds": bool(item.get("holds")),
        }
        for item in items
    ]
    return sorted(rows, key=lambda row: (row["holds"], math.inf if row["relative"] is None else row["relative"]))


def relative_margin(item: Mapping[str, Any]) -> float | None:
    """Divide a margin by its limit, or by the worst value where the limit is zero."""
    margin, limit, worst = (finite(item.get(key)) for key in ("margin", "limit", "worst"))
    scale = abs(limit) if limit else abs(worst or 0.0)
    return None if margin is None or scale == 0.0 else margin / scale


def tightest(rows: Sequence[Mapping[str, Any]], count: int = 6) -> list[dict[str, Any]]:
    """Choose the rows with least margin, with the share of the limit that is left as a bar between 0 and 100."""
    return [
        {**row, "bar": round(100.0 * min(1.0, max(0.0, row["relative"])), 1)}
        for row in rows
        if row["relative"] is not None
    ][:count]


def forecast_rows(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Collect what is expected of each parameter, with its tier and the length of its bar in percent."""
    numbers = ("prior", "sigma", "sigma_inflated", "relative", "relative_inflated", "periods_needed")
    rows = []
    for parameter in parameters:
        row: dict[str, Any] = {key: finite(parameter.get(key)) for key in numbers}
        row |= {key: str(parameter.get(key) or "") for key in ("name", "label")}
        row["unit"] = unit_words(parameter.get("unit"))
        deciding = row["relative"] if row["relative_inflated"] is None else row["relative_inflated"]
        rows.append(row | {"tier": tier(deciding), "bar": bar(deciding), "deciding": deciding})
    return rows


def periods(needed: float | None) -> str:
    """Write how many periods a parameter takes; nobody measures more than a thousand."""
    return "over 1000" if needed is not None and needed > MOST_PERIODS else show(needed)


def tier_counts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count parameters by tier, in order of the tiers, without empty ones."""
    counts = Counter(row["tier"] for row in rows)
    return [{"tier": key, "text": text, "count": counts[key]} for key, text in TIERS.items() if counts[key]]
