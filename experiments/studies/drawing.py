"""Figures of studies: drawn without a screen, saved, and closed."""

from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """Import matplotlib's plotting, for files alone."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: Path) -> Path:
    """Write a figure, and let go of it."""
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
    return path
