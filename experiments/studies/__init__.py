"""Published experiments, reproduced on their data and compared with the printed numbers."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatch
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Protocol, cast

from excitor.experiments.figures import REASONS, Figure, Report
from excitor.experiments.files import write_atomically
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


def reproduce(name: str, data: Path | None = None, out: Path | None = None, *, full: bool = False) -> Report:
    """Reproduce a paper, and judge each figure against the print; with `out`, write a page beside plots and tables."""
    report = find(name).run(data, out, full=full)
    report = replace(report, figures=[with_reason(figure, printed_reasons(name)) for figure in report.figures])
    counts = Counter(figure.verdict for figure in report.figures)
    report = replace(report, context={"verdicts": {verdict: counts[verdict] for verdict in REASONS}, **report.context})
    if out is not None:
        from excitor.experiments.report.html import page

        words = {"title": title(name), "report": report, "version": ""}
        write_atomically(out / "study.html", page("study.html", words))
    return report


def printed_reasons(name: str) -> Mapping[str, Mapping[str, str]]:
    """Read why figures of a study are as they are: verdict -> pattern of names -> reason."""
    file = f"{STUDIES[name].rpartition('.')[2]}.toml"
    found: dict[str, Any] = tomllib.loads((resources.files(f"{__name__}.printed") / file).read_text("utf-8"))
    return cast(Mapping[str, Mapping[str, str]], found["reasons"])


def with_reason(figure: Figure, reasons: Mapping[str, Mapping[str, str]]) -> Figure:
    """Give a figure the reason of its verdict, unless it has one: the first whose pattern fits its name."""
    fitting = (text for pattern, text in reasons.get(figure.verdict, {}).items() if fnmatch(figure.name, pattern))
    return figure if figure.reason else replace(figure, reason=next(fitting, REASONS[figure.verdict]))


def title(name: str) -> str:
    """Return a study's subject: the first line of its module."""
    return (import_module(STUDIES[name]).__doc__ or "").partition("\n")[0].removeprefix("Study: ")
