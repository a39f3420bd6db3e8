"""What the report's sentences and its tables say alike."""

from excitor.experiments.page.words import finite, percent


def cost(loss: object) -> str:
    """Write what consistency costs: solvers stop at some digit, and that is no cost."""
    number = finite(loss)
    return "less than 0.01 %" if number is not None and abs(number) < 1e-4 else percent(loss)
