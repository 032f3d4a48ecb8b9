"""Figures that are made and not rendered, which takes most of the time of a small run, report or page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def unrendered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages hold empty pictures with their words, and files of pictures be empty; all else stays as it is.

    A test that looks at pictures is marked as `rendered`. What a fixture of the module or session makes is rendered.
    """
    if request.node.get_closest_marker("rendered") is not None:
        return
    from matplotlib.figure import Figure

    def savefig(_: Figure, file: Any, **__: Any) -> None:
        if not hasattr(file, "write"):
            Path(file).write_bytes(b"")

    def as_inline_svg(_: Figure, key: str, title: str, words: str, *__: Any) -> str:
        named = f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(words)}</desc>'
        return f'<svg class="diagram" role="img" aria-labelledby="{key}-title {key}-desc">{named}</svg>'

    monkeypatch.setattr(Figure, "savefig", savefig)
    monkeypatch.setattr("calibrant.report.figures._as_inline_svg", as_inline_svg)
