"""The verdict, in words first."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from excitor.experiments.page.words import entries, table
from excitor.experiments.report.html import element, items, joined


def verdict_section(data: Mapping[str, Any]) -> Markup:
    """Say whether the model may be used, what was learned, how sure it is, and what stays open."""
    verdict = table(data, "verdict")
    go = verdict.get("go")
    uses = [_use(use) for use in entries(verdict, "uses")]
    banner = element(
        "section",
        element("h2", f"{_by(go, '✓', '✗', '!')} {verdict.get('headline', '')}"),
        element("p", str(verdict["virtual"]), class_="virtual") if verdict.get("virtual") else "",
        element("dl", *uses, class_="uses"),
        id="verdict",
        class_=f"banner {_by(go, 'go', 'no-go', 'care')}",
    )
    columns = [
        _column("What was learned", entries(verdict, "learned")),
        _column("How sure that is", entries(verdict, "sure")),
        _column("What the data do not tell", entries(verdict, "not_told")),
    ]
    notes = [finding for finding in entries(data, "findings") if finding.get("level") != "doubtful"]
    if notes:
        columns.append(_column("Worth knowing about the data", [finding.get("sentence", "") for finding in notes]))
    return joined([banner, element("div", *columns, class_="words")])


def _use(use: Mapping[str, Any]) -> Markup:
    go = use.get("go")
    pill = element("span", _by(go, "yes", "no", "with care"), class_=f"pill {_by(go, 'good', 'poor', 'fair')}")
    return joined(
        [
            element("dt", pill, " ", str(use.get("use", ""))),
            element("dd", *(element("p", reason) for reason in entries(use, "reasons"))),
        ]
    )


def _column(title: str, sentences: list[Any]) -> Markup:
    return element("section", element("h2", title), items(sentences or ["Nothing."]), class_="card")


def _by(go: Any, yes: str, no: str, unsure: str) -> str:
    """Choose by a verdict, which may be none."""
    return yes if go is True else no if go is False else unsure
