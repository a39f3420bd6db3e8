"""What the runs excite: singular values of the equations, and columns that look alike."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import show, table
from excitor.experiments.report.html import card, chart, element


def spectrum_section(data: Mapping[str, Any]) -> Markup:
    """Show how equally the combinations of parameters show."""
    hint = (
        "Singular values of the column-normalised training equations. Largest over smallest is the condition number, "
        f"{show(table(data, 'spectrum').get('condition'))}: a dot that falls off is a combination that hardly shows."
    )
    return card("spectrum", "What the runs excite", chart("spectrum"), hint=hint)


def correlation_section(data: Mapping[str, Any]) -> Markup:
    """Show which parameters the runs mix up."""
    found = table(data, "correlation")
    shown, whole = len(found.get("names", ())), found.get("n_columns", 0)
    hint = (
        "Correlation of the parameters' effects on the torques of the training runs, joints weighted by what is left "
        "of them. Faint is good: the two can be told apart. Strong red (same sign) or blue (opposite sign) is not. "
        "Point at a cell for names."
    )
    side = element(
        "div",
        element("p", hint, class_="hint"),
        element("p", f"Shown are the first {shown} of {whole}.", class_="hint") if whole != shown else "",
        element("p", data_chart="correlation-hover", class_="readout"),
        chart("correlation-worst"),
    )
    body = element("div", chart("correlation"), side, class_="correlation")
    return card("correlation", "Which parameters look alike", body)
