"""What people see first: CPU of the first command, size and accessibility of its pages, what no documentation names."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.physics import reference_second
from excitor.experiments.figures import Figure, Report
from tests import test_docs
from tests.browser import CHROMIUM, Browser, Page

ASSETS = Path(__file__).parents[1] / "experiments" / "report" / "assets"
AXE = "axe-core@4"  # of npm
SEVERE = ("serious", "critical")


def run(full: bool = False) -> Report:
    """Run the demo with nothing compiled and again, and look at what it wrote; `full` does the same."""
    del full
    for part in ("robots", "design", "identify", "experiments"):
        for bytecode in (Path(__file__).parents[1] / part).rglob("__pycache__"):
            shutil.rmtree(bytecode, ignore_errors=True)  # an installation with -e has none: the first run writes it
    with tempfile.TemporaryDirectory(prefix="excitor-front-") as name:
        folder = Path(name)
        kernels = {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONDONTWRITEBYTECODE": ""}
        cold, warm = (demo_seconds(folder / key, kernels) for key in ("cold", "warm"))
        second = reference_second()
        pages = sorted((folder / "warm").rglob("*.html"))
        largest = max(page.stat().st_size for page in pages) / 1e6
        found = serious(pages, folder)
    mute = undocumented()
    lines = {path.name: path.read_text("utf-8").count("\n") for path in sorted(ASSETS.glob("*.js"))}
    figures = [
        Figure("front.cold_s", cold / second, "reference s", 40.0, "at most"),
        Figure("front.warm_s", warm / second, "reference s", 20.0, "at most"),
        Figure("front.page_mb", largest, "MB", 4.0, "at most"),
        Figure("front.undocumented", float(len(mute)), "", 0.0, "at most"),
        Figure("front.js_lines", float(sum(lines.values())), "lines", 1800.0, "at most"),
    ]
    if found is not None:
        figures.append(Figure("front.axe_serious", float(sum(map(len, found.values()))), "", 0.0, "at most"))
    context = {
        "cold CPU s": round(cold, 1), "warm CPU s": round(warm, 1), "reference second, s": round(second, 2),
        "undocumented": mute, "scripts": lines, "axe": "not installed" if found is None else found,
    }  # fmt: skip
    return Report("bench", "front", figures, context)


def demo_seconds(folder: Path, environment: dict[str, str]) -> float:
    """Run the README's first command, and measure its CPU time and that of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "excitor.experiments.cli", "demo", str(folder), "--json"]
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def undocumented() -> list[str]:
    """Name the parts of the reference whose test of completeness fails."""
    pages = test_docs.generator().pages()
    tests = {
        "keys of campaign.toml": lambda: _keys(test_docs.Campaign, "campaign-toml.md", pages),
        "keys of robot files": lambda: _keys(test_docs.Description, "robot-toml.md", pages),
        "verbs and options": lambda: test_docs.test_every_verb_and_option_stands_in_the_reference_with_its_help(pages),
        "public names": lambda: test_docs.test_every_public_name_stands_in_the_reference_with_its_docstring(pages),
        "findings": lambda: test_docs.test_every_finding_stands_in_the_reference_with_its_cause(pages),
    }
    found = []
    for what, test in tests.items():
        try:
            test()
        except AssertionError as error:
            found.append(f"{what}: {str(error).partition(chr(10))[0]}")
    return found


def _keys(model: Any, page: str, pages: dict[str, str]) -> None:
    test_docs.test_every_key_stands_in_the_reference_with_a_meaning(model, page, pages)


def serious(pages: list[Path], folder: Path) -> dict[str, list[str]] | None:
    """List the serious findings of axe-core on each page; None where it, or a browser, cannot be had."""
    script = axe_script(folder)
    if script is None or CHROMIUM is None:
        return None
    found, browser = {}, Browser(folder / "profile")
    for path in pages:
        page = Page(browser, path.as_uri())
        page.run("[...document.querySelectorAll('details')].forEach(part => part.open = true)")
        page.ask("Runtime.evaluate", expression=script)
        violations = page.run(
            "axe.run(document, { resultTypes: ['violations'] }).then(r => JSON.stringify(r.violations))"
        )
        found[path.name] = [
            f"{entry['id']}: {entry['nodes'][0]['html'][:120]} ({len(entry['nodes'])})"
            for entry in json.loads(violations)
            if entry["impact"] in SEVERE
        ]
        page.close()
    browser.close()
    return found


def axe_script(folder: Path) -> str | None:
    """Fetch axe-core from npm."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    command = [npm, "install", "--no-save", "--silent", "--prefix", str(folder / "npm"), AXE]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=120)
    except (subprocess.SubprocessError, OSError):
        return None
    return (folder / "npm" / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
