"""Figures as inline SVG: the same numbers give the same bytes, in the page's fonts and colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from calibrant.displays import COLOURS, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#0a0b0c"
_FONT_SIZE = 9.5
#: Colours of the drawing, and the custom properties of the page's style that take their place.
_PROPERTIES = {
    **dict(zip(COLOURS, ("var(--curve)", "var(--second)", "var(--third)", "var(--fourth)"), strict=False)),
    MUTED: "var(--muted)",
    _INK: "var(--ink)",
}
_STYLE: dict[Any, object] = {
    "svg.fonttype": "none",
    "axes.linewidth": 0.7,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": _INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "font.size": _FONT_SIZE,
    "text.color": _INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}


def inline_figure(
    draw: Callable[[], Figure],
    *,
    key: str,
    title: str,
    words: str,
    told: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Return the SVG of a figure that `draw` makes in the style of pages, whatever that of the user is.

    `key` makes ids unique in a page; `title` and `words` are the text alternative. `told` says what each point of a
    line tells, by the line's gid.
    """
    import matplotlib as mpl
    from matplotlib import style

    with style.context("default"), mpl.rc_context({**_STYLE, "svg.hashsalt": f"calibrant {key}"}):
        return _as_inline_svg(draw(), key, title, words, told)


def strip(ax: Axes) -> None:
    """Take away what the page says beside the figure, and the sides that hold no scale."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.spines[["top", "right"]].set_visible(False)


def enlarge_legend(ax: Axes) -> None:
    """Write the legend as large as the scales: on a phone the page draws figures smaller than they are made."""
    legend = ax.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_fontsize(_FONT_SIZE)


def inline_axes(draw: Callable[[Axes], None], size: tuple[float, float] | None = None, **words: Any) -> str:
    """Return the SVG of axes in a figure of `size`, or small and square to stand among others; see `inline_figure`."""

    def figure() -> Figure:
        from matplotlib.figure import Figure

        made = Figure(figsize=size or (2.3, 2.3), layout="constrained" if size else None)
        draw(made.add_subplot() if size else made.add_axes((0.13, 0.13, 0.82, 0.82)))
        return made

    return inline_figure(figure, **words)


def _as_inline_svg(figure: Figure, key: str, title: str, words: str, told: Mapping[str, Sequence[str]]) -> str:
    """Write the figure as SVG: no prologue, no fixed size, a text alternative, unique ids."""
    from markupsafe import escape

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    view_box = re.search(r'viewBox="[^"]+"', text)
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+; ?", "", body)
    for gid, texts in told.items():
        body = _with_told_points(body, gid, texts)
    for colour, prop in _PROPERTIES.items():
        body = body.replace(colour, prop)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(url\(|xlink:href=")#', rf"\g<1>#{key}-", body)
    return (
        f'<svg class="diagram" role="img" aria-labelledby="{key}-title {key}-desc" '
        f'{view_box[0] if view_box else ""} xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">\n'
        f'<title id="{key}-title">{escape(title)}</title>\n<desc id="{key}-desc">{escape(words)}</desc>{body}'
    )


def _with_told_points(body: str, gid: str, texts: Sequence[str]) -> str:
    """Return an SVG where each marker of a line has what it tells, which the page's script shows."""
    from markupsafe import escape

    start = body.index(f'<g id="{gid}">')
    end = body.index("</g>", start)  # of the group of markers, the first within the line's
    markers = body[start:end].split("<use ")
    told = [f'<use data-tell="{escape(text)}" {rest}' for text, rest in zip(texts, markers[1:], strict=True)]
    return body[:start] + markers[0] + "".join(told) + body[end:]
