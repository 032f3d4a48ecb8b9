"""One page: a title, a verdict in words, and sections made of a few kinds of blocks.

Reports measure, and say what they found by a `Page`; the template, the style and Markdown are here alone. A section is
made where its figures are measured, and a report lists its sections, so a new one touches neither this file nor the
template. All text is plain: names that users gave are set apart by `name`, and all is escaped when it is written.
"""

from __future__ import annotations

import copy
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from calibrant._version import __version__
from calibrant.files import whole_file
from calibrant.phrases import FIRST_STRONG_ISOLATE, POP_ISOLATE, clean, isolated, shorten

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

#: Names longer than this are cut in the page and in Markdown; JSON keeps them whole.
MAX_NAME = 160


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return escape_markdown(self.text)


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

    def markdown(self) -> str:
        """Return nothing: tables say the same."""
        return ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that stands out: because its figure is off, or because there is none; or one whose text may break."""

    text: str
    mark: Literal["outside", "undefined-value", "range"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, whose first cell is its heading, and a note below it."""

    cells: Sequence[str | Cell]
    note: str = ""
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes
    ----------
    label : str
        Says to a screen reader what it is.
    columns : sequence of str
    rows : sequence of Row
    look : str
        The class of its style.
    wide : collection of int
        Columns that a phone has no room for.
    note_title : str
        What Markdown calls the notes, which it puts in a column.
    """

    kind: ClassVar[str] = "table"
    label: str
    columns: Sequence[str]
    rows: Sequence[Row]
    look: Literal["scores", "bins", "classes", "classes noted", "worst"] = "classes"
    wide: Sequence[int] = ()
    note_title: str = ""

    def markdown(self) -> str:
        """Return it as Markdown."""
        has_notes = any(row.note for row in self.rows)
        lines = [[*self.columns, *([self.note_title] if has_notes else [])]]
        lines.append([":--", *["--:"] * (len(self.columns) - 1), *([":--"] if has_notes else [])])
        written = [[escape_markdown(title) for title in lines[0]], lines[1]]
        for row in self.rows:
            cells = [
                f"**{escape_markdown(cell.text)}**"
                if isinstance(cell, Cell) and cell.mark == "outside"
                else escape_markdown(cell.text if isinstance(cell, Cell) else cell)
                for cell in row.cells
            ]
            written.append([*cells, *([escape_markdown(row.note)] if has_notes else [])])
        return "\n".join(f"| {' | '.join(cells)} |" for cells in written)


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms and what is to be said of each."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, str]]

    def markdown(self) -> str:
        """Return it as Markdown."""
        return "\n".join(f"- {term}: {escape_markdown(text)}" for term, text in self.facts)


Block: TypeAlias = Text | Pictures | Table | Facts


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
    """All that a page says.

    Attributes
    ----------
    title : str
        Heading, and name of the window.
    state : {"calibrated", "miscalibrated", "unclear", "undefined"}
        Gives the headline its colour.
    headline : str
    answers : sequence of Answer
    sections : sequence of Section
    """

    title: str
    state: str
    headline: str
    answers: Sequence[Answer]
    sections: Sequence[Section]

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        return _template().render(page=self, title=shorten(self.title, MAX_NAME), version=__version__)

    def markdown(self) -> str:
        """Return the page as Markdown, without its figures."""
        parts = [f"# {escape_markdown(shorten(self.title, MAX_NAME))}", f"**{self.headline}**"]
        parts.append("\n".join(f"- **{each.question}** {escape_markdown(each.text)}" for each in self.answers))
        parts += [f"```\n{each.command}\n```" for each in self.answers if each.command]
        for section in self.sections:
            parts.append(f"## {escape_markdown(section.title)}")
            parts += [block.markdown() for block in section.blocks]
        return "\n\n".join([part for part in parts if part] + [f"calibrant {__version__}"]) + "\n"


class PageReport(ABC):
    """What all reports have in common: a summary as plain values, and the page that is made of it."""

    #: What the frame of a notebook is called.
    name: ClassVar[str]
    _summary: dict[str, Any]

    @abstractmethod
    def page(self) -> Page:
        """Return all that the page says."""

    def summary(self) -> dict[str, Any]:
        """Return all that the report says as dicts, lists, strings and numbers; what is undefined is None."""
        return copy.deepcopy(self._summary)

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        return self.page().html()

    def json(self) -> str:
        """Return the summary as a JSON document; the same summary gives the same text."""
        return json.dumps(self._summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self) -> str:
        """Return the report as Markdown, with tables in place of figures."""
        return self.page().markdown()

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all: a reader sees all of it or what was there.

        Raises
        ------
        OSError
            If the folder doesn't exist or can't be written to.
        """
        text = self.html()
        with whole_file(Path(path)) as file:
            file.write(text.encode())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that neither's style reaches the other."""
        from markupsafe import escape

        frame = f'style="width: 100%; height: 44rem; border: 0" sandbox title="{self.name}"'
        return f'<iframe {frame} srcdoc="{escape(self.html())}"></iframe>'


def off_cell(text: str, is_off: bool) -> str | Cell:
    """Return a cell that stands out if its figure is off."""
    return Cell(text, "outside") if is_off else text


def name(text: object, most: int = MAX_NAME) -> str:
    """Return a name that a user gave for use in the texts of a page: cleaned, cut, and its direction kept apart."""
    return isolated(shorten(clean(text), most))


def escape_markdown(text: str) -> str:
    """Take the meaning from characters that Markdown or HTML in a text would read."""
    plain = text.replace(FIRST_STRONG_ISOLATE, "").replace(POP_ISOLATE, "")
    return re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", plain)


def _as_html(text: str) -> Markup:
    """Escape a text; the isolates around names become elements that isolate them."""
    from markupsafe import Markup, escape

    if isinstance(text, Markup):
        return text
    return Markup(str(escape(text)).replace(FIRST_STRONG_ISOLATE, "<bdi>").replace(POP_ISOLATE, "</bdi>"))  # noqa: S704


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("calibrant.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["text"] = _as_html
    environment.tests["cell"] = lambda value: isinstance(value, Cell)
    return environment.get_template("page.html.j2")
