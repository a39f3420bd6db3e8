"""How sections write HTML: elements and tables, in which every text is escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from excitor.experiments.page.words import seen


def element(name: str, *content: Any, **attributes: Any) -> Markup:
    """Write an element; `class_` and `data_x` become class and data-x, attributes that are None are left out."""
    inner = Markup("").join(map(safe, content))
    return Markup("{}{}</{}>").format(opened(name, **attributes), inner, Markup(name))


def safe(part: Any) -> Markup:
    """Escape what is no markup of ours."""
    return part if isinstance(part, Markup) else escape(seen(str(part)))


def opened(name: str, **attributes: Any) -> Markup:
    """Write an element's beginning: all there is of an input."""
    words = [
        Markup('{}="{}"').format(key.rstrip("_").replace("_", "-"), safe(value))
        for key, value in attributes.items()
        if value is not None
    ]
    return Markup("<{}>").format(Markup(" ").join([Markup(name), *words]))


def joined(parts: Iterable[Any]) -> Markup:
    """Put parts behind each other."""
    return Markup("\n").join(map(safe, parts))


def card(identifier: str, title: str, *content: Any, hint: str = "") -> Markup:
    """Write a section with its heading."""
    head = [element("h2", title)] + ([element("p", hint, class_="hint")] if hint else [])
    return element("section", *head, *content, class_="card", id=identifier)


def items(sentences: Sequence[Any]) -> Markup:
    """Write a list, nothing where it is empty."""
    return element("ul", *(element("li", sentence) for sentence in sentences)) if sentences else Markup("")


def chart(name: str, **attributes: Any) -> Markup:
    """Leave a place that the script draws into."""
    return element("div", data_chart=name, **attributes)


@dataclass(frozen=True)
class Cell:
    """A table's cell: what it shows, and what it sorts by."""

    content: Any
    class_: str | None = None
    number: float | None = None


def cell(content: Any) -> Cell:
    """Make a cell of words."""
    return content if isinstance(content, Cell) else Cell(content)


def number_cell(text: str, value: float | None) -> Cell:
    """Make a cell of a number, aligned and sorted as one."""
    return Cell(text, "n", value)


def table(
    headings: Sequence[tuple[str, str]],
    rows: Iterable[tuple[str, Sequence[Any]]],
    *,
    sortable: bool = False,
    class_: str = "",
) -> Markup:
    """Write a table that scrolls: headings with their class, rows with theirs."""
    heads = [
        element("th", element("button", words, type="button") if sortable and words else words, class_=kind or None)
        for words, kind in headings
    ]
    body = [element("tr", *map(_cell, cells), class_=kind or None) for kind, cells in rows]
    classes = " ".join(filter(None, (class_, "sortable" if sortable else "")))
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *body), class_=classes or None)
    return element("div", whole, class_="scroll", tabindex="0")


def _cell(content: Any) -> Markup:
    made = cell(content)
    if made.class_ == "n":
        return element("td", made.content, class_="n", data_number="" if made.number is None else repr(made.number))
    return element("td", made.content, class_=made.class_)
