"""A page as a strict reader sees it: every element opened, closed and nested as it should be."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

#: Elements that have no end tag.
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


class ParsedPage(HTMLParser):
    """Elements in order of appearance; faults of nesting are errors."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()
        assert [element.tag for element in self._open] == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> repeats an attribute"
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1] if self._open else None)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            element
            for element in self.elements
            if element.tag == tag and all(element.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        (element,) = self.all(tag, **attributes)
        return element

    def within(self, element: Element, tag: str) -> list[Element]:
        return [e for e in self.elements if e.tag == tag and is_inside(e, element)]


def is_inside(element: Element, ancestor: Element) -> bool:
    parent = element.parent
    return parent is not None and (parent is ancestor or is_inside(parent, ancestor))


def without_own_script(html: str) -> str:
    """Return a page without its script: the only one that its policy lets run, and the only one that it has."""
    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in html
    rest = html.replace(f"<script>{script}</script>", "")
    assert "<script" not in rest.lower()
    return rest
