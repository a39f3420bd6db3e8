"""Where a report goes: report.html and report.json in the campaign's folder, and a PDF where a browser prints."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from excitor.experiments.files import write_atomically, write_bytes_atomically
from excitor.experiments.identification import Identified
from excitor.experiments.report.data import report_data
from excitor.experiments.report.page import report_page
from excitor.robots.errors import ExcitorError

PAGE, DATA = "report.html", "report.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PRINTING = 120.0  # s that a browser may take


@dataclass(frozen=True)
class Printed:
    """A PDF, or why there is none."""

    path: Path | None
    sentence: str


def write_report(
    folder: Path,
    identified: Identified,
    *,
    design: Mapping[str, Any] | None = None,
    alignment: Sequence[Mapping[str, Any]] | None = None,
    commands: Sequence[str] = (),
    tracking: bool = False,
) -> list[Path]:
    """Write report.html and report.json, each whole or not at all; last the data, which tell what they rest on."""
    data = report_data(identified, design=design, alignment=alignment, commands=commands, tracking=tracking)
    texts = {DATA: json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n", PAGE: report_page(data)}
    for name in (PAGE, DATA):
        write_atomically(folder / name, texts[name])
    return [folder / name for name in texts]


def pdf(page: Path) -> Printed:
    """Print a page to a PDF beside it with the browser that is installed, without a network."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return Printed(None, f"No PDF: it needs Chromium or Chrome, and neither is installed; print {page} by hand")
    if not page.is_file():
        raise ExcitorError(f"{page}: is missing, so it cannot be printed; write the report first")
    target = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as profile:
        made = Path(profile) / target.name
        why = _print(browser, page, made, profile)
        if why is not None or not made.is_file():
            return Printed(None, f"No PDF: {browser} {why or 'wrote none'}; print {page} by hand")
        write_bytes_atomically(target, made.read_bytes())
    return Printed(target, f"wrote {target}")


def _print(browser: str, page: Path, target: Path, profile: str) -> str | None:
    """Run the browser; say what went wrong, if anything did."""
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
