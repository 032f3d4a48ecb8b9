"""One page: a title, a verdict in words, and sections made of a few kinds of blocks.

Reports measure, and say what they found by a `Page`; only this file, its templates and its style know how a page is
written. A section is made where its figures are measured, and a report lists its sections. All text is plain: names
that users gave are set apart by `name`, and all is escaped when it is written. How pages write numbers is here too.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias
from urllib.parse import quote

from calibrant._version import __version__
from calibrant.files import whole_file
from calibrant.phrases import (
    FIRST_STRONG_ISOLATE,
    POP_ISOLATE,
    clean,
    decimals as significant,
    fixed,
    isolated,
    shorten,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: Names longer than this are cut in the page and in Markdown; JSON keeps them whole.
MAX_NAME = 160


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class Download:
    """A table of numbers that the page holds for download, as CSV; Markdown leaves it out."""

    kind: ClassVar[str] = "download"
    text: str
    file_name: str
    csv: str

    @property
    def href(self) -> str:
        """The file as an address that holds it."""
        return f"data:text/csv;charset=utf-8,{quote(self.csv, safe='')}"


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that is drawn when the page is written: its SVG, what is said beside it, and its heading."""

    draw: Callable[[], str]
    caption: str | Markup = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Pictures:
    """Figures side by side, or one alone; Markdown leaves them out."""

    kind: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]
    layout: Literal["main", "single", "wide", "pair", "panels", "panels thirds"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that stands out: its figure is off, or undefined, or its text may break between two lines.

    `key` is what the column is sorted by, where its text doesn't begin with that number.
    """

    text: str
    mark: Literal["", "outside", "undefined-value", "range"]
    key: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, whose first cell is its heading, and a note below it."""

    cells: Sequence[str | Cell]
    note: str = ""
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its `label` says to a screen reader what it is, and `look` is the class of its style.

    A phone has no room for the columns with the numbers in `wide`. Markdown puts notes in a column, `note_title`.
    A table that is `folded` shows this line alone until it is opened.
    """

    kind: ClassVar[str] = "table"
    label: str
    columns: Sequence[str]
    rows: Sequence[Row]
    look: Literal["scores", "scores parts", "bins", "classes", "classes noted", "worst"] = "classes"
    wide: Sequence[int] = ()
    note_title: str = ""
    folded: str = ""

    @property
    def is_sortable(self) -> bool:
        """Whether the page's script lets rows be sorted: those of like things."""
        return len(self.rows) > 1 and not self.look.startswith("scores")


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms and what is to be said of each."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, str]]


Block: TypeAlias = Text | Pictures | Table | Facts | Download


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Answer:
    """A question that the first screen answers, and a command to be copied, if there is one."""

    question: str
    text: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """All that a page says; its state, such as "calibrated", gives the headline its colour."""

    title: str
    state: str
    headline: str
    answers: Sequence[Answer]
    sections: Sequence[Section]

    def written(self, template: str) -> str:
        """Return the page as a template writes it."""
        title = shorten(self.title, MAX_NAME)
        return _environment().get_template(template).render(page=self, title=title, version=__version__)

    def markdown(self) -> str:
        """Return the page as Markdown, with tables in place of figures."""
        return re.sub(r"\n{3,}", "\n\n", self.written("page.md.j2")).strip("\n") + "\n"


class PageReport(ABC):
    """What all reports have in common: a summary as plain values, and the page that is made of it."""

    #: What the frame of a notebook is called.
    name: ClassVar[str]
    _summary: dict[str, Any]

    @abstractmethod
    def page(self) -> Page:
        """Return all that the page says."""

    def keep(self, summary: dict[str, Any]) -> Self:
        """Take over a summary that was not made by the constructor."""
        self._summary = summary
        return self

    def summary(self) -> dict[str, Any]:
        """Return all that the report says as dicts, lists, strings and numbers; what is undefined is None."""
        return copy.deepcopy(self._summary)

    def html(self) -> str:
        """Return one self-contained page: nothing is fetched, and without its one small script it is whole."""
        return self.page().written("page.html.j2")

    def json(self) -> str:
        """Return the summary as a JSON document; the same summary gives the same text."""
        return json.dumps(self._summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self) -> str:
        """Return the report as Markdown, with tables in place of figures."""
        return self.page().markdown()

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all; raises OSError where the folder can't be written to."""
        text = self.html()
        with whole_file(Path(path)) as file:
            file.write(text.encode())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that neither's style reaches the other."""
        from markupsafe import escape

        frame = f'style="width: 100%; height: 44rem; border: 0" sandbox title="{self.name}"'
        return f'<iframe {frame} srcdoc="{escape(self.html())}"></iframe>'


def table(
    label: str,
    items: Sequence[Any],
    columns: Sequence[tuple[str, Callable[[Any], str | Cell]]],
    *,
    note: Callable[[Any], str] | None = None,
    is_off: Callable[[Any], bool] | None = None,
    **options: Any,
) -> Table:
    """Return a table with a row for each item: titles of columns, and what gives a column's cell for an item."""
    rows = [
        Row([cell(item) for _, cell in columns], note(item) if note else "", bool(is_off and is_off(item)))
        for item in items
    ]
    return Table(label, [title for title, _ in columns], rows, **options)


def off_cell(text: str, is_off: bool) -> str | Cell:
    """Return a cell that stands out if its figure is off."""
    return Cell(text, "outside") if is_off else text


def name(text: object, most: int = MAX_NAME) -> str:
    """Return a name that a user gave for use in the texts of a page: cleaned, cut, and its direction kept apart."""
    return isolated(shorten(clean(text), most))


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal, or three below 0.1%."""
    return f"{100.0 * share:.{significant(100.0 * share, 3) if 0.0 < abs(share) < 0.00095 else 1}f}%"


def decimals(value: float, digits: int = 4) -> str:
    """Write a number with so many decimals or two significant figures, a true minus sign, and no sign on zero."""
    digits = significant(value, digits)
    if round(value, digits) == 0.0:
        value = 0.0
    return fixed(value, digits).replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign."""
    text = decimals(value, digits)
    return f"+{text}" if round(value, significant(value, digits)) > 0.0 else text


def figure(score: dict[str, Any], digits: int = 4) -> str:
    """Write the value of a score that may be infinite or undefined."""
    if score.get("is_infinite"):
        return "infinite"
    return "undefined" if score["value"] is None else decimals(score["value"], digits)


def ends(score: dict[str, Any], digits: int = 4) -> str:
    """Write the interval of a score that may have none."""
    if score["low"] is None or score["high"] is None:
        return ""
    return f"{decimals(score['low'], digits)} to {decimals(score['high'], digits)}"


def count(value: float, noun: str = "") -> str:
    """Write a count, or a sum of weights with one decimal; of things that a noun names: "1 row", "2,000 rows"."""
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return f"{text} {noun}{'' if text == '1' else 's'}" if noun else text


def _as_html(text: str) -> Markup:
    """Escape a text; the isolates around names become elements that isolate them."""
    from markupsafe import Markup, escape

    if isinstance(text, Markup):
        return text
    return Markup(str(escape(text)).replace(FIRST_STRONG_ISOLATE, "<bdi>").replace(POP_ISOLATE, "</bdi>"))  # noqa: S704


def _as_markdown(text: str) -> str:
    """Take the meaning from characters that Markdown or HTML in a text would read."""
    plain = text.replace(FIRST_STRONG_ISOLATE, "").replace(POP_ISOLATE, "")
    return re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", plain)


def _script() -> dict[str, object]:
    """Return the one script of pages, and its hash, by which their policy lets it and no other run."""
    from markupsafe import Markup

    text = files("calibrant.report").joinpath("templates/page.js").read_text("utf-8").replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"script": Markup(text), "script_hash": f"sha256-{digest}"}  # noqa: S704


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("calibrant.report"),
        autoescape=select_autoescape(("html.j2",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= _script()
    environment.filters |= {"text": _as_html, "md": _as_markdown}
    environment.tests["cell"] = lambda value: isinstance(value, Cell)
    return environment
