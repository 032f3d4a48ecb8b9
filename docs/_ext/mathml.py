"""Formulas as MathML, which browsers draw by themselves: no script and no font is fetched."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger


def written(node: nodes.Node, *, as_block: bool) -> str:
    """Return a formula as MathML; a command that is not known is a warning, which fails the build."""
    try:
        return str(tex2mathml(node.astext().strip(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("%s in %r", error, node.astext(), location=node)
        return ""


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(written(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own; a wide one scrolls."""
    translator.body.append(f'<div class="math">{written(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer that conf.py names."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
