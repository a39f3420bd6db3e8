"""How numbers and units are written for people."""

import math
import re
from collections.abc import Mapping
from typing import Any

GOOD, FAIR = 0.02, 0.10  # relative deviation below which a parameter is well or fairly known
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
# Characters that turn the direction of what follows them, or that nobody sees, or that are no text.
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a nested table, empty where it is missing."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def entries(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list, empty where it is missing."""
    value = data.get(key)
    return [] if value is None else list(value)


def finite(value: Any) -> float | None:
    """Return a number, or None for what is none: missing, NaN, infinite, not numeric."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def show(value: Any, digits: int = 4) -> str:
    """Write a number for people; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    digit, _, power = f"{number:.{digits}g}".partition("e")
    raised = "·10" + str(int(power)).translate(RAISED) if power else ""
    return digit.replace("-", MINUS) + raised


def seen(words: str) -> str:
    """Write characters that hide or turn text as their numbers: a name must not change how the rest is read."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", words)


def beside(value: Any, sigma: Any) -> str:
    """Write a number to the digit that its standard deviation leaves: two digits of that, four without one."""
    number, deviation = finite(value), finite(sigma)
    if number is None or deviation is None or deviation <= 0.0 or abs(number) >= 1e5 or deviation < 1e-9:
        return show(value)
    decimals = min(9, max(0, 1 - math.floor(math.log10(deviation))))
    return f"{round(number, decimals) + 0.0:.{decimals}f}".replace("-", MINUS)


def percent(value: Any) -> str:
    """Write a share as a percentage of two digits; a dash where there is none."""
    number = finite(value)
    if number is None:
        return NONE
    if abs(number) >= 10.0:
        return "over 1000 %" if number > 0 else f"under {MINUS}1000 %"
    text = f"{100 * number:.0f}" if abs(number) >= 0.1 else f"{100 * number:.2g}"
    return text.replace("-", MINUS) + " %"


def unit_words(unit: Any) -> str:
    """Write powers in a unit as raised digits: kg m2 becomes kg m²."""
    return re.sub(r"(?<=[a-z])[23]\b", lambda power: power[0].translate(RAISED), str(unit or ""))


def tier(relative: float | None) -> str:
    """Name how well a parameter will be known."""
    if relative is None:
        return "open"
    return "good" if abs(relative) < GOOD else "fair" if abs(relative) < FAIR else "poor"


def bar(relative: float | None) -> float:
    """Map 0.1 % … 100 % to 0 … 100 on a logarithmic scale: deviations span decades."""
    if relative is None:
        return 0.0
    return round(100.0 * min(1.0, max(0.02, math.log10(max(abs(relative), 1e-6) / 1e-3) / 3.0)), 1)
