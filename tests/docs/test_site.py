"""The built site: it fetches nothing, leads nowhere wrong, and has every public name and every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from calibrant.cli import main
from command_pages import commands, options
from public_names import public_objects

#: Attributes by which a page makes the browser fetch something.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
#: What `link` elements say of pages without making the browser fetch them.
NOT_FETCHED = {"canonical", "prev", "next", "index", "search", "author", "copyright", "top", "genindex"}


class Page(HTMLParser):
    """What a page links to, what it fetches, and the places in it that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and not NOT_FETCHED & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        elif tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])


@cache
def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def pages(site: Path) -> list[Path]:
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]


def dead_links(page: Path) -> Iterator[str]:
    """Yield the links within the site that lead to no file, or to no place in it."""
    for link in read(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        has_places = target.suffix == ".html" and "_modules" not in page.parts  # viewcode shortens some names of places
        if not target.exists() or (
            parts.fragment and has_places and unquote(parts.fragment) not in read(target).places
        ):
            yield link


@pytest.mark.slow
def test_a_page_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        assert [url for url in read(page).fetched if urlsplit(url).netloc] == [], page
    for style in site.rglob("*.css"):
        text = style.read_text("utf-8")
        assert not re.search(r"@import\s+(url\()?[\"']?(https?:)?//|url\([\"']?(https?:)?//", text), style


@pytest.mark.slow
def test_no_link_is_dead_and_no_anchor_missing(site: Path) -> None:
    found = {str(page.relative_to(site)): dead for page in pages(site) if (dead := list(dead_links(page)))}
    assert found == {}


@pytest.mark.slow
def test_the_site_has_its_pages(site: Path) -> None:
    assert len([page for page in pages(site) if "_modules" not in page.parts]) >= 80
    for folder in ("start", "guide", "api", "commands", "algorithms", "benchmarks", "contributing"):
        assert (site / folder / "index.html").exists()


@pytest.mark.slow
def test_every_public_name_is_documented_with_its_source(site: Path) -> None:
    for name in sorted(set(public_objects().values())):
        page = site / "api" / "generated" / f"{name}.html"
        assert name in read(page).places, name


@pytest.mark.slow
def test_every_option_of_every_command_is_documented(site: Path) -> None:
    for words, command in commands():
        text = (site / "commands" / f"{words.replace(' ', '-')}.html").read_text("utf-8")
        for param in command.params:
            for written in param.opts if param.param_type_name == "option" and not param.hidden else []:
                assert re.search(rf">{re.escape(written)}<", text), f"{words} {written}"
        assert all(written.split()[0].rstrip(",") in text for written, _ in options(command))


def test_commands_are_found_in_groups_too() -> None:
    found = [words for words, _ in commands()]
    assert {"calibrant", "calibrant fit", "calibrant decide promise", "calibrant runs show"} <= set(found)
    assert len(found) > len(main.list_commands(None))  # type: ignore[arg-type]


def test_what_is_wrong_on_a_page_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/a.css">'
        '<p id="here"><a href="#here">a</a><a href="#nowhere">b</a><a href="gone.html">c</a>'
        '<a href="https://elsewhere.example">d</a>',
        encoding="utf-8",
    )
    assert list(dead_links(page)) == ["#nowhere", "gone.html"]
    assert [url for url in read(page).fetched if urlsplit(url).netloc] == [
        "https://cdn.example/x.js",
        "//fonts.example/a.css",
    ]
