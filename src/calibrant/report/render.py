"""Turn a report's summary into a page, a JSON document or Markdown."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.files import whole_file
from calibrant.report.figures import diagram, panel
from calibrant.report.formats import (
    axis_end,
    capitalize_first,
    count,
    decimals,
    digits_of,
    ends,
    escape_markdown,
    escape_text,
    figure,
    percent,
    percent_level,
    sentence,
    shorten,
    signed,
)
from calibrant.report.words import MEANINGS, QUESTIONS, meaning

if TYPE_CHECKING:
    from jinja2 import Environment

#: Scores of the size of 1, which few decimals tell.
_COARSE = ("slope", "intercept")
#: Groups of a report that names none.
_NONE: dict[str, list[dict[str, Any]]] = {"curves": []}


def to_html(summary: dict[str, Any]) -> str:
    """Return the page of a summary."""
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            **_context(summary),
            diagram=diagram(summary["curve"], key="main"),
            panels=[panel(curve, key=f"class{k}") for k, curve in enumerate(summary["class_curves"])],
            group_panels=[
                panel(curve, key=f"group{k}") for k, curve in enumerate((summary["groups"] or _NONE)["curves"])
            ],
        )
    )


def render_page(template: str, context: dict[str, Any]) -> str:
    """Return a page of a template."""
    return _environment().get_template(template).render(**context)


def to_json(summary: dict[str, Any]) -> str:
    """Return a summary as JSON; the same summary gives the same text."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(summary: dict[str, Any]) -> str:
    """Return a summary as Markdown, with tables in place of figures."""
    text = _environment().get_template("report.md.j2").render(**_context(summary))
    return re.sub(r"\n{3,}", "\n\n", text).lstrip("\n")


def _context(summary: dict[str, Any]) -> dict[str, Any]:
    methods: dict[str, list[str]] = {}
    rows = score_rows(summary["scores"], is_multiclass=summary["kind"] == "multiclass")
    for row in rows:
        if row["interval"]:
            methods.setdefault(row["method"], []).append(row["title"])
    return {**summary, "score_rows": rows, "questions": QUESTIONS, "methods": methods}


def score_rows(scores: dict[str, dict[str, Any]], *, is_multiclass: bool) -> list[dict[str, str]]:
    """Return the table of scores as text: title, meaning, note, value, interval and method of each."""
    fine = 5 if 0.0 < scores["brier"]["value"] < 0.01 else 4  # scores of rare events are small
    digits = {name: 3 if name in _COARSE else fine for name in scores}
    return [
        {
            "title": title,
            "meaning": meaning(name, is_multiclass=is_multiclass),
            "note": sentence(scores[name]["note"]),
            "value": _value(scores[name], digits[name]),
            "interval": _interval(scores[name], digits[name]),
            "method": scores[name]["method"],
        }
        for name, (title, _) in MEANINGS.items()
        if name in scores
    ]


def _value(score: dict[str, Any], digits: int) -> str:
    if score["is_infinite"]:
        return "infinite"
    return "undefined" if score["value"] is None else decimals(score["value"], digits)


def _interval(score: dict[str, Any], digits: int) -> str:
    if score["low"] is None or score["high"] is None:
        return ""
    return f"{decimals(score['low'], digits)} to {decimals(score['high'], digits)}"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file under a temporary name in its folder and rename it: a reader sees all of it or none."""
    with whole_file(Path(path)) as file:
        file.write(text.encode())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("calibrant.report"),
        autoescape=select_autoescape(("html.j2",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (
        decimals,
        signed,
        count,
        shorten,
        percent_level,
        digits_of,
        axis_end,
        capitalize_first,
        escape_text,
        percent,
        figure,
        ends,
    ):
        environment.filters[function.__name__] = function
    environment.filters["md"] = escape_markdown
    return environment
