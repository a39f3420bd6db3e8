"""Data and files of a report: report.json holds everything as plain data, from which report.html is written.

A report.json to compare with may be untrusted: its size, version and types are checked first. A PDF is printed where a
browser is installed.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from excitor.experiments.files import write_atomically, write_bytes_atomically
from excitor.experiments.identification import IdentifiedModel
from excitor.experiments.report.bodies import bodies_data
from excitor.experiments.report.campaign import alignment_entry, checked_entries, planned_data
from excitor.experiments.report.evidence import (
    Evidence,
    gather,
    processing_data,
    provenance_data,
    runs_data,
    simulated_runs,
    split_data,
)
from excitor.experiments.report.fit import errors_data, residuals_data
from excitor.experiments.report.html import Data, robot_data
from excitor.experiments.report.open_loop import open_loop_data
from excitor.experiments.report.page import report_page
from excitor.experiments.report.parameters import base_rows, correlation_data, spectrum_data, standard_rows
from excitor.experiments.report.verdict import verdict_data
from excitor.experiments.tracking import reported_tracking
from excitor.robots.errors import ExcitorError
from excitor.robots.files.bounded import read_bounded
from excitor.robots.files.schema import sentences

SCHEMA = 1
KIND = "excitor report"


def report_data(
    found: IdentifiedModel | Evidence,
    *,
    design: Mapping[str, Any] | None = None,
    commands: Sequence[str] = (),
    tracking: bool = False,
) -> dict[str, Any]:
    """Collect a report; `design` is the content of design.json.

    `tracking`: feed-forward is simulated, which for a process it always is.
    """
    evidence = found if isinstance(found, Evidence) else gather(found)
    checks = [alignment_entry(entry) for entry in checked_entries(evidence.alignments)] or None
    rows, simulated = base_rows(evidence), simulated_runs(evidence.campaign)
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": evidence.campaign.folder.resolve().name,
        "robot": robot_data(evidence.robot),
        "verdict": verdict_data(evidence, rows, checks, simulated),
        "runs": runs_data(evidence),
        "errors": errors_data(evidence),
        "open_loop": open_loop_data(evidence),
        "parameters": rows,
        "standard": standard_rows(evidence),
        "correlation": correlation_data(evidence),
        "spectrum": spectrum_data(evidence),
        "residuals": residuals_data(evidence),
        "split": split_data(evidence),
        "bodies": bodies_data(evidence),
        "alignment": checks,
        "planned": planned_data(evidence, design),
        "tracking": reported_tracking(evidence, tracking),
        "processing": processing_data(evidence),
        "simulated": simulated,
        "findings": [dict(finding) for finding in evidence.model.findings],
        "provenance": provenance_data(evidence, commands, design),
    }


PAGE, DATA = "report.html", "report.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PRINTING = 120.0  # s that a browser may take


@dataclass(frozen=True)
class PdfFile:
    """A PDF, or why there is none."""

    path: Path | None
    sentence: str


def write_report(folder: Path, found: IdentifiedModel | Evidence, **given: Any) -> list[Path]:
    """Collect a report, with what `report_data` may be given, and write it."""
    return write_data(folder, report_data(found, **given))


def write_data(folder: Path, data: Data, page: Callable[[Data], str] = report_page) -> list[Path]:
    """Write report.html and report.json, each atomically; the data last, as they hold the digests of their inputs."""
    write_atomically(folder / PAGE, page(data))
    write_atomically(folder / DATA, json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n")
    return [folder / DATA, folder / PAGE]


def pdf(page: Path) -> PdfFile:
    """Print a page to a PDF beside it with the browser that is installed, without a network."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return PdfFile(None, f"No PDF: it needs Chromium or Chrome, and neither is installed; print {page} by hand")
    if not page.is_file():
        raise ExcitorError(f"{page}: is missing, so it cannot be printed; write the report first")
    target = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as profile:
        made = Path(profile) / target.name
        why = _print(browser, page, made, profile)
        if why is not None or not made.is_file():
            return PdfFile(None, f"No PDF: {browser} {why or 'wrote none'}; print {page} by hand")
        write_bytes_atomically(target, made.read_bytes())
    return PdfFile(target, f"wrote {target}")


def _print(browser: str, page: Path, target: Path, profile: str) -> str | None:
    """Run the browser; return the error message, if any."""
    command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    command += ["--no-pdf-header-footer", "--virtual-time-budget=15000", f"--user-data-dir={profile}"]
    command += [f"--print-to-pdf={target}", page.resolve().as_uri()]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # which it refuses to have for root
    try:
        done = subprocess.run(command, capture_output=True, timeout=PRINTING, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"did not print: {str(error)[:200]}"
    return f"ended with code {done.returncode}" if done.returncode else None


LARGEST = 64_000_000  # bytes; a report has a tenth of that
MOST = 2000  # entries of any list that is compared
Text = Annotated[str, Field(max_length=2000)]
Names = Annotated[list[Text], Field(max_length=200)]
Numbers = Annotated[list[FiniteFloat | None], Field(max_length=200)]


class Part(BaseModel):
    """A table of the file; fields that are not compared are not checked."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=False)


class ReportedRobot(Part):
    """Robot of a report."""

    name: Text
    title: Text
    joints: Names


class ReportedParameter(Part):
    """One base parameter; numbers are there where the model kept it."""

    name: Text
    part: Literal["link", "rotor", "friction"]
    regrouping: Annotated[str, Field(max_length=100_000)]
    unit: Text
    kept: bool
    value: FiniteFloat | None
    sigma: Annotated[FiniteFloat, Field(ge=0.0)] | None
    low: FiniteFloat | None
    high: FiniteFloat | None
    contribution: Annotated[FiniteFloat, Field(ge=0.0)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kept and None in (self.value, self.sigma, self.low, self.high):
            raise ValueError(f"parameter {self.name!r} is in the model, but has no value with an interval")
        return self


class ReportedNumbers(Part):
    """Relative torque errors by joint, and of all."""

    relative: Numbers
    total: FiniteFloat | None


class ReportedErrors(Part):
    """Errors on some runs."""

    label: Text
    training: bool
    joints: Names
    model: ReportedNumbers

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.model.relative) != len(self.joints):
            raise ValueError(f"{len(self.model.relative)} errors are given for {len(self.joints)} joints")
        return self


class ReportedSimulation(Part):
    """A run of a virtual robot."""

    run: Text


class Report(Part):
    """Fields of a report that are compared."""

    version: Literal[1] = Field(alias="schema")
    kind: Literal["excitor report"]
    name: Text
    robot: ReportedRobot
    parameters: Annotated[list[ReportedParameter], Field(max_length=MOST)]
    errors: Annotated[list[ReportedErrors], Field(max_length=2)]
    simulated: Annotated[list[ReportedSimulation], Field(max_length=MOST)] = []

    @model_validator(mode="after")
    def _names_are_apart(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        if len(set(names)) < len(names):
            raise ValueError("parameters bear the same name")
        return self


def read_report(path: Path) -> dict[str, Any]:
    """Read a report.json; ExcitorError states what is wrong with it."""
    try:
        data = json.loads(read_bounded(path, LARGEST), parse_constant=_refuse)
    except FileNotFoundError:
        raise ExcitorError(f"{path}: is missing; run excitor report {path.parent} first") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ExcitorError(f"{path}: cannot be read as a report: {str(error)[:200]}") from None
    checked(data, str(path))
    return dict(data)


def checked(data: Any, where: str) -> Report:
    """Check a report's version and types; all that is wrong with it at once."""
    if not isinstance(data, Mapping):
        raise ExcitorError(f"{where}: is no report; expected the content of a report.json")
    if data.get("kind") != "excitor report" or data.get("schema") != 1:
        raise ExcitorError(
            f"{where}: is {str(data.get('kind'))[:80]!r} of schema {str(data.get('schema'))[:20]}, expected an "
            "'excitor report' of schema 1; write the report again"
        )
    try:
        return Report.model_validate(dict(data))
    except ValidationError as error:
        problems = sentences(list(error.errors(include_url=False)))
        raise ExcitorError("\n".join(f"{where}: {sentence}" for sentence in problems[:20])) from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
