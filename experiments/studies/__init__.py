"""Published experiments, reproduced on their data and compared with the printed numbers."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from excitor.experiments.figures import Report
from excitor.robots.errors import choice

STUDIES: Mapping[str, str] = {  # name -> module; the first line of each says what it is about
    "kr150-load": "excitor.experiments.studies.kr150",
    "parallel-drive-gains": "excitor.experiments.studies.parallel",
    "qrc350-in-process": "excitor.experiments.studies.qrc350",
    "rotradi-five-schemes": "excitor.experiments.studies.rotradi",
    "tx40-power-model": "excitor.experiments.studies.tx40",
}


class Study(Protocol):
    """A module that reproduces one paper."""

    def run(self, data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
        """Reproduce it from the recordings in `data`; write plots and tables to `out`."""


def find(name: str) -> Study:
    """Find a study by name; ValueError lists them."""
    if name not in STUDIES:
        raise ValueError(f"there is no study {name!r}; expected one of {choice(name, STUDIES)}")
    return cast(Study, import_module(STUDIES[name]))


def title(name: str) -> str:
    """Return a study's subject: the first line of its module."""
    return (import_module(STUDIES[name]).__doc__ or "").partition("\n")[0].removeprefix("Study: ")
