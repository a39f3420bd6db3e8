"""Do estimators beyond least squares keep their promises? Instruments and their test, and closed-loop simulation."""

from excitor.experiments.bench import estimators_didim, estimators_iv
from excitor.experiments.figures import Report


def run(full: bool = False) -> Report:
    """Measure; `full` draws all experiments, otherwise a tenth."""
    of_iv, context_iv = estimators_iv.measure(full)
    of_didim, context_didim = estimators_didim.measure(full)
    return Report("bench", "estimators", [*of_iv, *of_didim], {"iv": context_iv, "didim": context_didim})
