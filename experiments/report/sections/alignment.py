"""Do the logs fit the plan? The answer in words, what does not hold, then every check of every run."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import NONE, entries, show, table, unit_words
from excitor.experiments.report.html import Cell, card, element, number_cell
from excitor.experiments.report.html import table as html_table

Entry = Mapping[str, Any]
HINT = (
    "What was found in holding each log against the program that made it. The tolerance says how far a figure may be "
    "from what the plan, or the prior model, expects."
)
HEADINGS = [("", ""), ("what", ""), ("found", "n"), ("tolerance", "n"), ("unit", ""), ("in words", "")]


def alignment_section(data: Mapping[str, Any]) -> Markup:
    """List what was found in aligning the logs with the plan."""
    if data.get("alignment") is None:
        return Markup("")
    found = [entry for entry in entries(data, "alignment") if isinstance(entry, Mapping)]
    failed = [entry for entry in found if entry.get("holds") is False]
    runs = list(dict.fromkeys(str(entry.get("run") or "") for entry in found))
    joints = [str(joint) for joint in entries(table(data, "robot"), "joints")]
    parts = [element("p", _told(found, failed, [run for run in runs if run]))]
    if failed:
        parts.append(html_table(HEADINGS, [_row(entry, str(entry.get("name", ""))) for entry in failed]))
    for number, run in enumerate(runs):
        of_run = [entry for entry in found if str(entry.get("run") or "") == run]
        parts.append(_run(run, of_run, joints, opened=number == 0))
    return card("alignment", "Do the logs fit the plan?", *parts, hint=HINT)


def _told(found: Sequence[Entry], failed: Sequence[Entry], runs: Sequence[str]) -> str:
    if not found:
        return "Nothing was looked at."
    of = f" of {len(runs)} run{'' if len(runs) == 1 else 's'}" if runs else ""
    if not failed:
        return f"Yes: all {len(found)} checks{of} hold."
    return f"{len(failed)} of {len(found)} checks{of} do not hold."


def _run(run: str, found: Sequence[Entry], joints: Sequence[str], *, opened: bool) -> Markup:
    """Show a run's checks: those of the whole run in a list, those of joints as a table of joints."""
    whole = [entry for entry in found if entry.get("joint") not in joints]
    shown = [html_table(HEADINGS, [_row(entry, str(entry.get("what") or entry.get("name", ""))) for entry in whole])]
    if len(whole) < len(found):
        shown.append(_by_joint([entry for entry in found if entry.get("joint") in joints], joints))
    good = sum(entry.get("holds") is not False for entry in found)
    title = f"{run or 'All checks'}: {good} of {len(found)} hold"
    return element("details", element("summary", title), *shown, open="" if opened else None)


def _by_joint(found: Sequence[Entry], joints: Sequence[str]) -> Markup:
    kinds = list(dict.fromkeys((str(entry.get("what")), str(entry.get("unit"))) for entry in found))
    headings = [("of each joint", ""), *((joint, "n") for joint in joints), ("tolerance", "n"), ("unit", "")]
    rows = []
    for what, unit in kinds:
        of_kind = {str(e.get("joint")): e for e in found if (str(e.get("what")), str(e.get("unit"))) == (what, unit)}
        tolerances = {entry.get("tolerance") for entry in of_kind.values()}
        tolerance = tolerances.pop() if len(tolerances) == 1 else None
        allowed = "by joint" if tolerances else show(tolerance, 3)
        cells = [_figure(of_kind.get(joint)) for joint in joints]
        rows.append(("", [what, *cells, Cell(allowed, "n"), Cell(unit_words(unit), "u")]))
    return html_table(headings, rows, class_="pinned")


def _figure(entry: Entry | None) -> Cell:
    if entry is None:
        return Cell("", "n")
    told = element("span", _words(entry.get("found"), 3), title=str(entry.get("sentence", "")))
    return Cell(told, "n bad" if entry.get("holds") is False else "n")


def _row(entry: Entry, name: str) -> tuple[str, list[Any]]:
    holds = entry.get("holds")
    mark = NONE if holds is None else "✓" if holds else "✗"
    allowed = entry.get("tolerance") if entry.get("tolerance") is not None else entry.get("expected")
    return "fails" if holds is False else "", [
        Cell(mark, None if holds is None else "ok" if holds else "bad"),
        name,
        *(_value(value) for value in (entry.get("found"), allowed)),
        Cell(unit_words(entry.get("unit")), "u"),
        Cell(str(entry.get("sentence", "")), "told"),
    ]


def _value(value: Any) -> Cell:
    return Cell(value, "n") if isinstance(value, str) else number_cell(show(value), value)


def _words(value: Any, digits: int) -> str:
    return value if isinstance(value, str) else show(value, digits)
