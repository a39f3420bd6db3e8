"""What the page's tables say: certificate rows by the smallest margin, forecast rows by how sure they are."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

GOOD, FAIR = 0.02, 0.10  # relative deviation below which a parameter is well or fairly known
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TIERS = {"good": "below 2 %", "fair": "2 to 10 %", "poor": "10 % and worse", "open": "not known"}


def table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a nested table, empty where it is missing."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def entries(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list, empty where it is missing."""
    value = data.get(key)
    return [] if value is None else list(value)


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


def tier(relative: float | None) -> str:
    """Name how well a parameter will be known."""
    if relative is None:
        return "open"
    return "good" if abs(relative) < GOOD else "fair" if abs(relative) < FAIR else "poor"


def tier_counts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count parameters by tier, in order of the tiers, without empty ones."""
    counts = Counter(row["tier"] for row in rows)
    return [{"tier": key, "text": text, "count": counts[key]} for key, text in TIERS.items() if counts[key]]


def bar(relative: float | None) -> float:
    """Map 0.1 % … 100 % to 0 … 100 on a logarithmic scale: deviations span decades."""
    if relative is None:
        return 0.0
    return round(100.0 * min(1.0, max(0.02, math.log10(max(abs(relative), 1e-6) / 1e-3) / 3.0)), 1)


def finite(value: Any) -> float | None:
    """Return a number, or None for what is none: missing, NaN, infinite, not numeric."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def unit_words(unit: Any) -> str:
    """Write powers in a unit as raised digits: kg m2 becomes kg m²."""
    return re.sub(r"(?<=[a-z])[23]\b", lambda power: power[0].translate(RAISED), str(unit or ""))


def show(value: Any, digits: int = 4) -> str:
    """Write a number for people; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    digit, _, power = f"{number:.{digits}g}".partition("e")
    raised = "·10" + str(int(power)).translate(RAISED) if power else ""
    return digit.replace("-", MINUS) + raised


def percent(value: Any) -> str:
    """Write a share as a percentage of two digits; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    if abs(number) >= 10.0:
        return "over 1000 %" if number > 0 else f"under {MINUS}1000 %"
    text = f"{100 * number:.0f}" if abs(number) >= 0.1 else f"{100 * number:.2g}"
    return text.replace("-", MINUS) + " %"
