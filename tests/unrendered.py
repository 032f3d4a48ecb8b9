"""Figures that are made and not rendered, which takes most of the time of a small run, report or page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages hold empty pictures, and runs empty files of pictures; how both are written stays as it is."""
    from matplotlib.figure import Figure

    def savefig(_: Figure, file: Any, **__: Any) -> None:
        if not hasattr(file, "write"):
            Path(file).write_bytes(b"")

    monkeypatch.setattr(Figure, "savefig", savefig)
    monkeypatch.setattr("calibrant.report.figures._as_inline_svg", lambda *_: '<svg class="diagram"></svg>')
