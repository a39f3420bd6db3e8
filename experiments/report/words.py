"""What the report's sentences and its tables say alike."""

from collections.abc import Sequence

from excitor.experiments.page.words import finite, percent
from excitor.identify.diagnose import several


def cost(loss: object) -> str:
    """Write what consistency costs: solvers stop at some digit, and that is no cost."""
    number = finite(loss)
    return "less than 0.01 %" if number is not None and abs(number) < 1e-4 else percent(loss)


def some(names: Sequence[str], most: int = 8) -> str:
    """List names; of many the first, and how many others there are."""
    return (
        several(list(names))
        if len(names) <= most
        else f"{', '.join(names[:most])} and {len(names) - most} other{'s' * (len(names) > most + 1)}"
    )
