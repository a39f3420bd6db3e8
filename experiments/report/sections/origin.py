"""Where the numbers come from: what was done to the data, and what this can be made again with."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import entries, show, table
from excitor.experiments.report.html import card, element, joined, number_cell
from excitor.experiments.report.html import table as html_table

UNITS = {"hz": "Hz", "s": "s", "percent": "%", "deg": "°"}
NAMES = (
    ("excitor", "excitor"),
    ("Python", "python"),
    ("NumPy", "numpy"),
    ("SciPy", "scipy"),
    ("CVXPY", "cvxpy"),
    ("robot", "robot"),
    ("seed of the plan", "design_seed"),
    ("seed of the intervals", "seed"),
)


def processing_section(data: Mapping[str, Any]) -> Markup:
    """List every step with its settings, run by run."""
    processing = table(data, "processing")
    runs = [
        element(
            "details",
            element("summary", f"{run.get('run', '')}, from {run.get('log', '')}"),
            _steps(entries(run, "steps")),
            open="" if k == 0 else None,
        )
        for k, run in enumerate(entries(processing, "runs"))
    ]
    weights = [
        (
            "",
            [str(row.get("joint", "")), str(row.get("run", "")), number_cell(show(row.get("sigma")), row.get("sigma"))],
        )
        for row in entries(processing, "weights")
    ]
    headings = [("joint", ""), ("run", ""), ("standard deviation that its equations were divided by", "n")]
    locked = [str(name) for name in entries(processing, "locked")]
    return card(
        "processing",
        "What was done to the data",
        *runs,
        element("h3", "The equations of all runs"),
        _steps(entries(processing, "equations")),
        element("p", f"Held still: {', '.join(locked)}.") if locked else "",
        element("details", element("summary", "Weights"), html_table(headings, weights)),
    )


def _steps(steps: list[Any]) -> Markup:
    return element("ol", *(_step(step) for step in steps), class_="steps")


def _step(step: Mapping[str, Any]) -> Markup:
    told = [_setting(str(key), value) for key, value in table(step, "settings").items() if value != ""]
    return element("li", element("b", str(step.get("name", ""))), ": " if told else "", "; ".join(told))


def _setting(key: str, value: Any) -> str:
    """Write a setting with its unit, which its name ends with."""
    name, _, last = key.rpartition("_")
    unit = UNITS.get(last, "") if name else ""
    number = value if isinstance(value, str) else show(value, 6)
    return f"{(name if unit else key).replace('_', ' ')} {number} {unit}".rstrip()


def provenance_section(data: Mapping[str, Any]) -> Markup:
    """Name versions, hashes, seed and commands."""
    known = table(data, "provenance")
    facts = [(key, known[name]) for key, name in NAMES if known.get(name) is not None]
    words = ", ".join(f"{key} {show(value) if isinstance(value, float) else value}" for key, value in facts)
    rows = [("", [str(name), element("code", str(digest))]) for name, digest in table(known, "sha256").items()]
    seeds: dict[str, list[str]] = {}
    for run in entries(data, "simulated"):
        seeds.setdefault(show(run.get("seed")), []).append(str(run.get("run", "")))
    simulated = [f"Simulated, with seed {seed}: {', '.join(runs)}." for seed, runs in seeds.items()]
    commands = [str(command) for command in entries(known, "commands")]
    return card(
        "provenance",
        "Where this comes from",
        element("p", f"Made with {words}."),
        *(element("p", sentence) for sentence in simulated),
        joined([element("h3", "Commands"), element("pre", "\n".join(commands))]) if commands else "",
        element("h3", "Files that were read, SHA-256"),
        html_table([("file", ""), ("digest", "")], rows, class_="hashes"),
        element("p", f"Campaign and robot together: {known.get('campaign_sha256', '')}", class_="hint"),
    )
