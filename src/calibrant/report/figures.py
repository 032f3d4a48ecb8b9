"""Reliability diagrams as inline SVG: the same numbers give the same bytes, in the page's fonts and colours."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import COLOURS, MUTED, PANEL_HEIGHT, ReliabilityDisplay, ScoreHistogram, draw_column
from calibrant.rank_preserving import ColumnChange
from calibrant.report.formats import percent, shorten
from calibrant.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#0a0b0c"
#: Colours of the drawing, and the custom properties of the page's style that take their place.
_PROPERTIES = {COLOURS[0]: "var(--curve)", MUTED: "var(--muted)", _INK: "var(--ink)"}
#: How all figures of pages are drawn.
STYLE: dict[Any, object] = {
    "svg.fonttype": "none",
    "axes.linewidth": 0.7,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": _INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "font.size": 9.5,
    "text.color": _INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}


def diagram(curve: dict[str, Any], *, key: str) -> str:
    """Return the SVG of a summarised curve over the histogram of its scores; `key` makes its ids unique in a page."""
    return _draw(curve, key, is_panel=False)


def panel(curve: dict[str, Any], *, key: str) -> str:
    """Return the SVG of a summarised curve alone, small."""
    return _draw(curve, key, is_panel=True)


def column_panel(column: ColumnChange, *, key: str) -> str:
    """Return the SVG of a column of a matrix after against before, small."""
    import matplotlib as mpl
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"), mpl.rc_context({**STYLE, "svg.hashsalt": f"calibrant {key}"}):
        figure = Figure(figsize=(2.3, 2.3))
        ax = figure.add_axes((0.13, 0.13, 0.82, 0.82))
        draw_column(ax, column)
        ax.set_title("", loc="left")
        for text in list(ax.texts):
            text.remove()
        _strip(ax, is_panel=False)
        ax.set(xlabel="", ylabel="")
        ax.locator_params(nbins=3)
        words = f"Column {shorten(str(column.column), 60)}: probabilities after against before"
        means = (
            f"Mean {column.mean_before:.3f} before, {column.mean_after:.3f} after; {percent(column.flattened)} flat."
        )
        return as_inline_svg(figure, key, words, means)


def _draw(curve: dict[str, Any], key: str, *, is_panel: bool) -> str:
    import matplotlib as mpl
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"), mpl.rc_context({**STYLE, "svg.hashsalt": f"calibrant {key}"}):
        if is_panel:
            figure = Figure(figsize=(2.3, 2.3))
            ax = figure.add_axes((0.13, 0.13, 0.82, 0.82))
            ReliabilityDisplay(_as_curve(curve)).plot(ax, upper=curve["upper"])
            _strip(ax, is_panel=True)
        else:
            figure = _with_histogram(curve)
        return as_inline_svg(figure, key, _title(curve), _description(curve))


def _with_histogram(curve: dict[str, Any]) -> Figure:
    from matplotlib.figure import Figure

    width, height, side = 5.2, 6.2, 4.3
    figure = Figure(figsize=(width, height))
    left = (width - side - 0.15) / width
    ax_histogram = figure.add_axes((left, 0.5 / height, side / width, PANEL_HEIGHT * side / height))
    bottom = 0.5 + PANEL_HEIGHT * side + 0.18
    ax = figure.add_axes((left, bottom / height, side / width, side / height), sharex=ax_histogram)
    spread = curve["histogram"]
    edges, n, events = (np.array(spread[name]) for name in ("edges", "n", "events"))
    histogram = ScoreHistogram(edges, n, events, curve["n_rows"], spread["is_weighted"])
    display = ReliabilityDisplay(_as_curve(curve), histogram=histogram)
    display.plot(ax, ax_histogram=ax_histogram, upper=curve["upper"])
    ax.locator_params(axis="y", nbins=5)
    ax_histogram.set_ylabel("")
    for axes in (ax, ax_histogram):
        _strip(axes, is_panel=False)
    return figure


def _strip(ax: Axes, *, is_panel: bool) -> None:
    """Take away what the page says beside the figure."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.spines[["top", "right"]].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    if is_panel:
        ax.set(xlabel="", ylabel="")
        ends = (0.0, float(ax.get_xlim()[1]))
        ax.set_xticks(ends, ["0", f"{ends[1]:g}"])
        ax.set_yticks(ends, ["0", f"{ends[1]:g}"])


def _as_curve(curve: dict[str, Any]) -> Curve:
    bins = curve["bins"]
    x, y, low, high, n = (
        np.array([row[name] for row in bins]) for name in ("predicted", "observed", "low", "high", "n")
    )
    edges = np.array([(row["from"], row["to"]) for row in bins])
    found = Curve(x, y, low, high, n, edges, curve["level"], curve["strategy"])
    if not curve["has_band"]:
        return found
    band_low, band_high = (np.array([row[name] for row in bins]) for name in ("band_low", "band_high"))
    return replace(found, band_low=band_low, band_high=band_high)


def _title(curve: dict[str, Any]) -> str:
    return f"Reliability diagram, {shorten(curve['label'], 60)}"


def _description(curve: dict[str, Any]) -> str:
    pairs = [(percent(row["predicted"]), percent(row["observed"])) for row in curve["bins"]]
    points = "; ".join(f"{predicted} predicted, {observed} observed" for predicted, observed in pairs)
    if curve["has_band"]:
        ends = [(percent(row["band_low"]), percent(row["band_high"])) for row in curve["bins"]]
        band = "; ".join(f"{low} to {high}" for low, high in ends)
        points += f". Calibrated forecasts would be observed within {band}"
    return f"Mean prediction and observed frequency of {len(pairs)} bins: {points}."


def as_inline_svg(figure: Figure, key: str, title: str, description: str) -> str:
    """Write the figure as SVG for use inside a page: no prologue, no fixed size, a text alternative, unique ids."""
    from markupsafe import escape

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    view_box = re.search(r'viewBox="[^"]+"', text)
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+; ?", "", body)
    for colour, prop in _PROPERTIES.items():
        body = body.replace(colour, prop)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(url\(|xlink:href=")#', rf"\g<1>#{key}-", body)
    return (
        f'<svg class="diagram" role="img" aria-labelledby="{key}-title {key}-desc" '
        f'{view_box[0] if view_box else ""} xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">\n'
        f'<title id="{key}-title">{escape(title)}</title>\n<desc id="{key}-desc">{escape(description)}</desc>{body}'
    )
