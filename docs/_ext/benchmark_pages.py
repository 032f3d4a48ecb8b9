"""The pages of the results: one for each text in benchmarks/results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config


def write_pages(app: Sphinx, config: Config) -> None:  # noqa: ARG001
    """Write benchmarks/results/*.rst before the build looks for its sources."""
    root = Path(app.srcdir).parent
    folder = Path(app.srcdir) / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    for result in sorted((root / "benchmarks" / "results").glob("*.txt")):
        name = result.stem
        text = f"""{name}
{"=" * len(name)}

What ``python -m benchmarks {name}`` wrote, as it lies in ``benchmarks/results/{name}.txt``.

.. literalinclude:: ../../../benchmarks/results/{name}.txt
   :language: text
"""
        page = folder / f"{name}.rst"
        if not page.exists() or page.read_text("utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
