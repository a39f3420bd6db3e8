"""What the model is worth as feed-forward: simulated tracking errors without a model, with the prior one, with ours."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import entries, percent, show, table, unit_words
from excitor.experiments.report.html import Cell, card, element, number_cell
from excitor.experiments.report.html import table as html_table

TOOL = (
    ("tool, at equal time", "tool_rms_mm", "tool_peak_mm", "tool"),
    ("tool, from its path", "path_rms_mm", "path_peak_mm", "path"),
)


def tracking_section(data: Mapping[str, Any]) -> Markup:
    """Compare the controllers; nothing where no tracking was simulated."""
    tracking = table(data, "tracking")
    if not tracking:
        return Markup("")
    title = "How well would it be followed?"
    if tracking.get("refused"):
        return card("tracking", title, element("p", f"No tracking was simulated: {tracking['refused']}"))
    controllers = [found for found in entries(tracking, "controllers") if isinstance(found, Mapping)]
    parts = [
        element("p", _told(tracking)),
        _table(tracking, controllers),
        element("p", _limits(tracking), class_="hint"),
    ]
    return card("tracking", title, *parts, hint="Simulated: a virtual robot under PD control, torques fed forward.")


def _told(tracking: Mapping[str, Any]) -> str:
    """Say in a sentence what the model brings at the tool."""
    ratios = table(tracking, "ratios")
    words = [
        f"{percent(table(ratios, key).get('tool'))} of that {beside}"
        for key, beside in (("to_no_model", "without a model"), ("to_prior_model", "with the prior model"))
        if table(ratios, key)
    ]
    return f"With the identified model fed forward, the tool's rms error is {' and '.join(words)}."


def _table(tracking: Mapping[str, Any], controllers: list[Mapping[str, Any]]) -> Markup:
    names = [str(found.get("feed_forward", "")) for found in controllers]
    headings = [("error", ""), *((f"{name}, {what}", "n") for name in names for what in ("rms", "peak")), ("unit", "")]
    ratios = table(tracking, "ratios")
    beside = [key for key in ("to_no_model", "to_prior_model") if table(ratios, key)]
    words = {"to_no_model": "identified / no model", "to_prior_model": "identified / prior model"}
    headings += [(words[key], "n") for key in beside]
    rows = []
    units = entries(tracking, "units")
    for j, joint in enumerate(entries(tracking, "joints")):
        pairs = [(entries(found, "rms")[j], entries(found, "peak")[j]) for found in controllers]
        shares = [entries(table(ratios, key), "joints")[j] for key in beside]
        rows.append(_row(str(joint), pairs, str(units[j]), shares))
    for name, rms, peak, key in TOOL:
        pairs = [(found.get(rms), found.get(peak)) for found in controllers]
        rows.append(_row(name, pairs, "mm", [table(ratios, which).get(key) for which in beside]))
    return html_table(headings, rows)


def _row(name: str, pairs: list[tuple[Any, Any]], unit: str, shares: list[Any]) -> tuple[str, list[Any]]:
    numbers = [number_cell(show(value, 3), value) for pair in pairs for value in pair]
    ratios = [number_cell(show(share, 3), share) for share in shares]
    return "", [element("b", name), *numbers, Cell(unit_words(unit), "u"), *ratios]


def _limits(tracking: Mapping[str, Any]) -> str:
    cut = tracking.get("cut_after_s")
    only = f", its first {show(cut, 3)} s" if cut else ""
    return (
        f"Followed was {tracking.get('motion', '')}{only}, by {tracking.get('robot', '')}. The position loop has "
        f"{show(tracking.get('bandwidth_hz'), 3)} Hz and does not integrate, so gravity shows in full without a "
        "model. Real controllers integrate, and gain less by a model: compare models with each other, not with none."
    )
