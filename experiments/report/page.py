"""Report as one self-contained HTML page, made of sections.

A section is a title, a function that selects what it shows from the data of report.json, and a jinja2 template. It
holds untrusted text (names, findings, file names): templates escape all that they print, and no section can mark text
as markup.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from excitor.experiments.report import campaign, parameters
from excitor.experiments.report.bodies import bodies_context
from excitor.experiments.report.fit import errors_context, residuals_context, runs_context, split_context
from excitor.experiments.report.html import SCRIPTS, Data, entries, environment, page, seen, subtable, text
from excitor.experiments.report.open_loop import open_loop_context
from excitor.robots.errors import ExcitorError
from excitor.robots.plugins import Members

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report: its template shows what `context` selects from the data of report.json.

    A context is plain data, or None where there is nothing to show. The template is jinja2; it has the filters `show`,
    `percent`, `beside` and `unit`, and the macros of `assets/macros.html`, such as `table` and `number`. `link` is the
    section's entry in the contents.
    """

    name: str
    title: str
    context: Callable[[Data], Data | None]
    template: str
    link: str = ""


def _built_in(name: str, link: str, title: str, context: Callable[[Data], Data | None]) -> Section:
    return Section(name, title, context, text(f"{name}.html"), link)


BUILT_IN = (
    _built_in("errors", "errors", "Torque errors beside the baselines", errors_context),
    _built_in("runs", "torques", "Measured and predicted torques", runs_context),
    _built_in("open-loop", "open loop", "Open-loop simulation under the recorded torques", open_loop_context),
    _built_in("parameters", "parameters", "Parameters", parameters.parameters_context),
    _built_in("planned", "planned and achieved", "Planned and achieved", campaign.planned_context),
    _built_in("alignment", "alignment", "Alignment of the logs with the plan", campaign.alignment_context),
    _built_in("tracking", "feed-forward", "How well would it be followed?", campaign.tracking_context),
    _built_in("bodies", "links", "Links and their inertia", bodies_context),
    _built_in(
        "standard", "consistent model", "Parameters of the physically consistent model", parameters.standard_context
    ),
    _built_in("split", "causes of torque", "Torques by cause", split_context),
    _built_in("residuals", "residuals", "Residuals", residuals_context),
    _built_in("spectrum", "excitation", "Excitation of the parameters", parameters.spectrum_context),
    _built_in("correlation", "look-alikes", "Correlation of the parameters", parameters.correlation_context),
    _built_in("processing", "processing", "Processing of the data", campaign.processing_context),
    _built_in("provenance", "provenance", "Provenance", campaign.provenance_context),
)
SECTIONS: Members[Section] = Members(
    "excitor.report_sections", {section.name: section for section in BUILT_IN}, lambda section: check_section(section)
)


def report_page(data: Data) -> str:
    """Write a report, given as in report.json, as one HTML page."""
    sections = [section for name in SECTIONS if (section := shown(name, data)) is not None]
    context = {
        "name": data.get("name", ""),
        "robot": subtable(data, "robot").get("title", ""),
        "version": subtable(data, "provenance").get("excitor", ""),
        "verdict": subtable(data, "verdict"),
        "remarks": [finding["sentence"] for finding in entries(data, "findings") if finding["level"] != "doubtful"],
        **dict(zip(("open_named", "open_plain"), _undetermined(data, sections), strict=True)),
        "sections": sections,
    }
    return page("report.html", context, scripts=SCRIPTS, styles=("report.css",), data=("report", drawn(data)))


def _undetermined(data: Data, sections: Sequence[Data]) -> tuple[list[str], list[str]]:
    """Divide what the data leave open: sentences that name parameters stand with the parameters, not on top."""
    rows = [*entries(data, "parameters"), *entries(data, "standard")]
    names = {word for row in rows for word in re.findall(r"\b[A-Z]\w*\d\w*", str(row.get("regrouping")))}
    names |= {word[0] for row in rows if (word := re.match(r"\w+", str(row.get("name"))))}
    told = entries(subtable(data, "verdict"), "not_told")
    if all(section["name"] != "parameters" for section in sections):
        return [], told
    named = [sentence for sentence in told if names.intersection(re.findall(r"\w+", str(sentence)))]
    return named, [sentence for sentence in told if sentence not in named]


def shown(name: str, data: Data) -> Data | None:
    """Write a section for a page; a member from elsewhere that fails is shown as a sentence."""
    try:
        section = SECTIONS[name]
        body = rendered(section, data)
        if section not in BUILT_IN and body and (problem := next(Fragment(body).problems(), "")):
            raise ExcitorError(f"section {name!r}: {problem}")
    except ExcitorError as error:
        section, body = Section(name, name, dict, ""), Markup("<p>{}</p>").format(seen(f"Left out: {error}"))
    if body is None:
        return None
    return {"name": section.name, "title": section.title, "link": section.link or section.title, "body": body}


def rendered(section: Section, data: Data) -> Markup | None:
    """Write a section's content; None where it has none. ExcitorError where its context or its template fails."""
    try:
        context = section.context(data)
        if context is None:
            return None
        return Markup(_compiled(section.template).render(_plain(context)))
    except Exception as error:  # whatever a section from elsewhere does
        if section in BUILT_IN:
            raise
        raise ExcitorError(f"section {section.name!r}: raises {type(error).__name__}: {error}") from None


@cache
def _compiled(template: str) -> "Template":
    """Compile a section's template; ExcitorError where it turns escaping off."""
    from jinja2.nodes import ScopedEvalContextModifier

    if environment().parse(template).find(ScopedEvalContextModifier) is not None:
        raise ExcitorError("its template turns escaping off with {% autoescape %}; remove that")
    return environment().from_string(template)


def _plain(value: Any) -> Any:
    """Make markup in a context plain text: only templates and their macros write markup."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def drawn(data: Data) -> dict[str, Any]:
    """Select the data that the script draws."""
    bodies = subtable(data, "bodies")
    return {
        "robot": subtable(data, "robot"),
        "runs": [
            {key: run[key] for key in ("name", "role", "static", "time", "joints") if key in run}
            for run in entries(data, "runs")
        ],
        "open_loop": subtable(data, "open_loop"),
        "split": subtable(data, "split"),
        "spectrum": entries(subtable(data, "spectrum"), "values"),
        "correlation": subtable(data, "correlation"),
        "residuals": entries(data, "residuals"),
        "bodies": {key: bodies.get(key) for key in ("links", "base_capsules", "capsules", "hulls", "frames")},
    }


ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
EXAMPLE = "example_report.json"
KEYED = ("sha256", "baselines", "parts", "rms", "settings")  # whose keys are names
NO_TEXT = re.compile(r"\b(nan|NaN|None|inf|undefined)\b")
VOID = {"br", "col", "hr", "img", "input", "wbr"}
REFUSED = {"script", "style", "link", "meta", "base", "iframe", "object", "embed", "form", "section", "html", "body"}
WITHIN = {  # element -> those that it may stand in
    "li": {"ul", "ol"},
    "dt": {"dl"},
    "dd": {"dl"},
    "thead": {"table"},
    "tbody": {"table"},
    "tr": {"thead", "tbody"},
    "td": {"tr"},
    "th": {"tr"},
    "summary": {"details"},
}
LINKS = {"src", "href", "srcset", "action", "formaction", "poster", "background", "ping", "xlink:href"}
BLOCKS = {"p", "div", "ul", "ol", "dl", "table", "pre", "details", "h2", "h3", "h4", "nav"}  # that no paragraph holds


def check_section(section: Section) -> None:
    """Run the conformance suite of report sections; ExcitorError lists everything that a section does not fulfil.

    Args:
        section: a Section.

    It has a name and a title. Of an example report, of one with hostile names, of parts of one and of none it writes
    the same text twice, or nothing: well-formed HTML without scripts or resources of its own, in which names are words.

    >>> import excitor as ex
    >>> ex.check_section(ex.Section("motto", "Motto", lambda data: {"name": data.get("name")}, "<p>Of {{ name }}.</p>"))
    """
    if not isinstance(section, Section):
        raise ExcitorError(
            f"section {section!r}: is {type(section).__name__}, expected a Section(name, title, context, template)"
        )
    problems = list(_named(section)) or list(dict.fromkeys(_problems(section)))
    if problems:
        raise ExcitorError(f"section {section.name!r}: {'; '.join(problems)}")


def example_reports() -> dict[str, Data]:
    """Report data that every section is tried on: complete, with hostile names, each part alone missing, and empty."""
    complete: Data = json.loads(text(EXAMPLE))
    lacking = {f"without {key!r}": {k: part for k, part in complete.items() if k != key} for key in complete}
    return {"complete": complete, "with hostile names": hostile(complete), "empty": {}, **lacking}


def hostile(value: Any, attack: str = "") -> Any:
    """Put an attack behind every text of some data, and behind keys that are names."""
    if isinstance(value, str):
        return value + ATTACK
    if isinstance(value, Mapping):
        return {key + attack: hostile(entry, ATTACK if key in KEYED else "") for key, entry in value.items()}
    return [hostile(entry) for entry in value] if isinstance(value, list) else value


def _named(section: Section) -> Iterator[str]:
    if not isinstance(section.name, str) or not re.fullmatch("[a-z][a-z0-9-]*", section.name):
        yield f"its name is {section.name!r}, expected lower-case letters, digits and dashes"
    if not isinstance(section.title, str) or not section.title.strip():
        yield f"its title is {section.title!r}, expected words"
    if not callable(section.context) or not isinstance(section.template, str):
        yield "its context is no function, or its template no text"


def _problems(section: Section) -> Iterator[str]:
    for name, data in example_reports().items():
        before = copy.deepcopy(data)
        try:
            body = rendered(section, data)
        except ExcitorError as error:
            yield f"of a report that is {name} {error}"
            return
        if data != before:
            yield "changes the report's data"
        if body != rendered(section, data):
            yield "writes another text the second time"
        if body is not None:
            yield from (f"of a report that is {name}, {problem}" for problem in Fragment(body).problems())


class Fragment(HTMLParser):
    """A part of a page, read as a browser would read it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._words: list[str] = []
        self._found: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check an element's place and attributes."""
        parent = self._open[-1] if self._open else ""
        if tag in REFUSED:
            self._found.append(f"it has an element <{tag}>, which no section may have")
        if parent not in WITHIN.get(tag, {parent}) or (tag in BLOCKS and "p" in self._open):
            self._found.append(f"an element <{tag}> stands in <{parent or 'no element'}>")
        for name, value in attrs:
            local = (value or "").startswith("data:image/" if name == "src" else "#")
            if name.startswith("on") or (name in LINKS and not local):
                self._found.append(f"an attribute is {name}={value!r}, which asks for something outside the page")
            if name == "style" and "url(" in (value or ""):
                self._found.append("a style asks for something outside the page")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that elements close in order."""
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self._found.append(f"</{tag}> closes no open element")

    def handle_data(self, data: str) -> None:
        """Keep the words."""
        self._words.append(data)

    def problems(self) -> Iterator[str]:
        """List everything that is wrong."""
        yield from self._found
        if self._open:
            yield f"<{self._open[-1]}> is not closed"
        words = " ".join(self._words)
        if word := NO_TEXT.search(words):
            yield f"its text has {word[0]!r}"
        if not words.strip() and not self._found and "data-chart" not in self.rawdata:
            yield "it is empty; return None as its context where there is nothing to show"
