"""The designer's bench: quality for CPU time, cost, feasibility, forecasts, robustness, the locked sequence."""

import time
from typing import Any

from excitor.experiments.bench import (
    design_cost,
    design_feasibility,
    design_forecast,
    design_quality,
    design_robustness,
    design_sequence,
)
from excitor.experiments.figures import Figure, Report

PARTS = {
    "quality": design_quality,
    "cost": design_cost,
    "feasibility": design_feasibility,
    "forecast": design_forecast,
    "robustness": design_robustness,
    "sequence": design_sequence,
}


def run(full: bool = False) -> Report:
    """Measure every part; `full` takes all seeds and campaigns that the targets ask for, else about a tenth."""
    figures: list[Figure] = []
    context: dict[str, Any] = {}
    for name, part in PARTS.items():
        start = time.process_time()
        measured = part.measure(full)
        figures += measured["figures"]
        context[name] = {**measured["context"], "cpu_s": round(time.process_time() - start, 1)}
    return Report("bench", "design", figures, context)
