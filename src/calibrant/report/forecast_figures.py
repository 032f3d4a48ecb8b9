"""Figures of the report of forecasts as inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import ForecastReliabilityDisplay, PitDisplay
from calibrant.forecasts import LevelCurve, PitHistogram
from calibrant.report.figures import STYLE, as_inline_svg
from calibrant.report.formats import decimals, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SQUARE = (3.5, 3.4)
_WIDE = (3.5, 2.5)


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the SVG of every figure of a summary: lists of (label, figure), and the curves in one."""
    parts = summary["parts"]
    top = max(max(*part["pit"]["density"], part["pit"]["high_all"]) for part in parts)
    darkest = max(float(np.max(part["gaps"]["mean_gap"])) for part in parts)
    return {
        "pit_figures": [(part["label"], _pit(part, summary["level"], top, f"pit{k}")) for k, part in enumerate(parts)],
        "level_figure": _levels(parts, summary["level"]),
        "gap_figures": [(part["label"], _map(part, darkest, f"gaps{k}")) for k, part in enumerate(parts)],
    }


def _pit(part: dict[str, Any], level: float, top: float, key: str) -> str:
    found = part["pit"]
    low, high, low_all, high_all = (float(found[name]) for name in ("low", "high", "low_all", "high_all"))
    edges, density = np.array(found["edges"]), np.array(found["density"])
    histogram = PitHistogram(edges, density, low, high, low_all, high_all, level, found["n"])

    def draw(ax: Axes) -> None:
        PitDisplay(histogram).plot(ax)
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
        ax.set(xlabel="PIT", ylabel="Density", title="", ylim=(0.0, 1.06 * top))

    bars = ", ".join(f"{density:.2f}" for density in found["density"])
    words = f"Density in {len(found['density'])} equal bins from 0 to 1: {bars}. A calibrated forecast has 1 in each."
    return _drawn(draw, _WIDE, key, _titled("Histogram of PIT values", part), words)


def _levels(parts: list[dict[str, Any]], level: float) -> str:
    curves = []
    for part in parts:
        found = part["levels"]
        levels, share, low, high = (np.array(found[name]) for name in ("levels", "share", "low", "high"))
        curves.append(LevelCurve(levels, share, low, high, found["error"], found["n"], level, part["label"]))

    def draw(ax: Axes) -> None:
        ForecastReliabilityDisplay(curves).plot(ax)

    at = (10, 50, 90)
    words = "; ".join(
        f"{part['label']} ".lstrip()
        + ", ".join(f"{percent(part['levels']['share'][k])} below the {k}% quantile" for k in at)
        for part in parts
    )
    return _drawn(draw, (4.3, 4.2), "levels", "Reliability of all levels", f"Outcomes: {words}.")


def _map(part: dict[str, Any], darkest: float, key: str) -> str:
    found = part["gaps"]
    y0, alpha, gap = (np.array(found[name]) for name in ("y0", "alpha", "mean_gap"))

    def draw(ax: Axes) -> None:
        ends = (*_ends(y0), *_ends(alpha))
        image: dict[str, Any] = {
            "cmap": "cividis",
            "vmin": 0.0,
            "vmax": darkest or 1.0,
            "origin": "lower",
            "interpolation": "none",
        }
        ax.imshow(gap.T, extent=ends, aspect="auto", **image)
        ax.set(xlabel="Threshold y0", ylabel="Level α")
        bar = ax.inset_axes((1.04, 0.0, 0.05, 1.0))
        scale = np.linspace(0.0, darkest or 1.0, 64)[:, None]
        bar.imshow(scale, extent=(0.0, 1.0, 0.0, darkest or 1.0), aspect="auto", **image)
        bar.set_xticks([])
        bar.yaxis.tick_right()
        bar.locator_params(axis="y", nbins=5)

    worst = found["worst"]
    words = (
        f"Reliability gap by threshold and level, mean over losses: {decimals(float(gap.mean()))} on average, "
        f"{decimals(float(gap.max()))} at most. The greatest of one loss is at y0 = {worst['y0']:.4g}, "
        f"α = {worst['alpha']:.2g}."
    )
    return _drawn(draw, _SQUARE, key, _titled("Reliability gaps", part), words)


def _ends(centres: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the outer edges of cells with these centres."""
    half = 0.5 * float(centres[-1] - centres[0]) / max(centres.size - 1, 1) or 0.5
    return float(centres[0]) - half, float(centres[-1]) + half


def _titled(what: str, part: dict[str, Any]) -> str:
    return f"{what}, {part['label']}" if part["label"] else what


def _drawn(draw: Any, size: tuple[float, float], key: str, title: str, words: str) -> str:
    import matplotlib as mpl
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"), mpl.rc_context({**STYLE, "svg.hashsalt": f"calibrant {key}"}):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return as_inline_svg(figure, key, title, words)
