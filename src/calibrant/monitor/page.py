"""One page of a monitor: the verdict, the timeline, a row for each window."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._version import __version__
from calibrant.errors import InvalidInputError
from calibrant.monitor.monitor import CalibrationMonitor, Window
from calibrant.report.summarise import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_10 = math.log(10.0)
#: Evidence beyond this power of ten is drawn at it.
_MOST_SHOWN = 12.0
#: Windows of which the page has a row: the last ones.
_MOST_ROWS = 60
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class MonitorReport:
    """Report of a monitor, as a page.

    Parameters
    ----------
    monitor : CalibrationMonitor
        With at least one window.
    title : str
        Heading of the page.

    Raises
    ------
    InvalidInputError
        If there is no window.
    """

    def __init__(self, monitor: CalibrationMonitor, *, title: str = "Calibration monitor") -> None:
        if not monitor.windows:
            raise InvalidInputError("the monitor has seen no window. Call update first.")
        self._windows = list(monitor.windows)
        self._summary = _summary(monitor, clean(title))

    def summary(self) -> dict[str, Any]:
        """Return all that the page says as dicts, lists, strings and numbers."""
        return dict(self._summary)

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        from calibrant.report.render import render_page

        drawn = timeline(self._windows, self._summary["alpha"])
        return render_page("monitor.html.j2", {**self._summary, "timeline": drawn})

    def json(self) -> str:
        """Return the summary as a JSON document."""
        from calibrant.report.render import to_json

        return to_json(self._summary)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        from calibrant.report.render import write_text

        write_text(path, self.html())


def timeline(windows: list[Window], alpha: float) -> str:
    """Return the SVG of evidence and gaps over the windows."""
    import matplotlib as mpl
    from matplotlib import style
    from matplotlib.figure import Figure

    from calibrant.report.figures import STYLE, as_inline_svg

    with style.context("default"), mpl.rc_context({**STYLE, "svg.hashsalt": "calibrant monitor"}):
        figure = Figure(figsize=(5.2, 5.4))
        evidence = figure.add_axes((0.15, 0.55, 0.82, 0.38))
        gaps = figure.add_axes((0.15, 0.14, 0.82, 0.32), sharex=evidence)
        _draw_evidence(evidence, windows, alpha)
        _draw_gaps(gaps, windows)
        return as_inline_svg(figure, "timeline", "Timeline of evidence and gaps", _description(windows))


def _draw_evidence(ax: Axes, windows: list[Window], alpha: float) -> None:
    from calibrant.displays import COLOURS, MUTED

    x = np.arange(1, len(windows) + 1)
    y = np.clip([w.log_e_value / _LOG_10 for w in windows], -3.0, _MOST_SHOWN)
    limit = -math.log10(alpha)
    ax.axhline(limit, color=MUTED, linestyle="--", linewidth=1.0)
    ax.annotate(
        f"alarm at {1.0 / alpha:g}", (0.0, limit), xycoords=("axes fraction", "data"), xytext=(3, 3),
        textcoords="offset points", color=MUTED, fontsize=8.5,
    )  # fmt: skip
    ax.plot(x, y, color=COLOURS[0], linewidth=1.4, marker="o" if len(windows) < 40 else "", markersize=3.0)
    ax.set_title("Evidence against calibration (e-value)", loc="left", fontsize=9.5)
    ax.set_ylim(min(-0.6, float(y.min()) - 0.3), max(limit, float(y.max())) + 0.6)
    ticks = np.unique(np.linspace(math.ceil(ax.get_ylim()[0]), math.floor(ax.get_ylim()[1]), 5).round())
    ax.set_yticks(ticks, [f"{10.0**t:,.0f}" if 0 <= t < 6 else f"$10^{{{t:.0f}}}$" for t in ticks])
    ax.tick_params(labelbottom=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_gaps(ax: Axes, windows: list[Window]) -> None:
    from calibrant.displays import COLOURS, MUTED

    x = np.arange(1, len(windows) + 1)
    gap, low, high = (np.array([getattr(w, name) for w in windows]) for name in ("gap", "low", "high"))
    ax.axhline(0.0, color=MUTED, linestyle="--", linewidth=1.0)
    ax.vlines(x, low, high, color=COLOURS[0], linewidth=1.2, alpha=0.55)
    ax.plot(x, gap, color=COLOURS[0], linestyle="none", marker="o", markersize=3.0)
    ax.set_title("Mean probability less observed rate", loc="left", fontsize=9.5)
    shown = np.unique(np.linspace(1, len(windows), min(len(windows), 4)).round().astype(int))
    ax.set_xticks(shown, [_short(windows[i - 1].name) for i in shown])
    ax.get_xticklabels()[-1].set_horizontalalignment("right")
    ax.set_xlim(0.5, len(windows) + 0.5)
    ax.locator_params(axis="y", nbins=5)
    ax.spines[["top", "right"]].set_visible(False)


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}\N{HORIZONTAL ELLIPSIS}"


def _description(windows: list[Window]) -> str:
    last = windows[-1]
    return (
        f"{len(windows)} windows from {clean(windows[0].name)} to {clean(last.name)}. The e-value ends at "
        f"{_e_value(last.log_e_value)}; the last gap is {last.gap:+.4f}, interval {last.low:+.4f} to {last.high:+.4f}."
    )


def _e_value(log_e: float) -> str:
    power = log_e / _LOG_10
    if power < 6.0:
        return f"{math.exp(log_e):,.3g}"
    return "10" + f"{power:.0f}".translate(_SUPERSCRIPTS)


def _summary(monitor: CalibrationMonitor, title: str) -> dict[str, Any]:
    windows = monitor.windows
    last = windows[-1]
    if monitor.is_alarm:
        headline = f"Not calibrated: alarm in {clean(str(monitor.first_alarm))}"
        advice = (
            f"If the probabilities were right, evidence of {1.0 / monitor.alpha:g} would be reached in at most "
            f"{monitor.alpha:.2%} of all streams, ever. Look at the gaps below for when it began and which way it "
            "goes; then fit a calibrator to recent rows, and start a new monitor."
        )
    else:
        headline = f"No alarm in {len(windows):,} windows"
        advice = (
            f"The evidence stayed below {1.0 / monitor.alpha:g}. That is no proof of calibration: small errors take "
            "many rows to show."
        )
    rows = [
        {
            "name": clean(w.name),
            "n": w.n,
            "mean_prob": w.mean_prob,
            "base_rate": w.base_rate,
            "gap": w.gap,
            "low": w.low,
            "high": w.high,
            "brier": w.brier,
            "e_value": _e_value(w.log_e_value),
            "log_e_value": min(w.log_e_value, 1e300),
            "is_alarm": w.is_alarm,
            "is_off": not w.low <= 0.0 <= w.high,
        }
        for w in windows
    ]
    return {
        "title": title,
        "version": __version__,
        "state": "miscalibrated" if monitor.is_alarm else "calibrated",
        "headline": headline,
        "advice": advice,
        "alpha": monitor.alpha,
        "level": monitor.level,
        "n_rows": sum(w.n for w in windows),
        "n_windows": len(windows),
        "first_window": clean(windows[0].name),
        "last_window": clean(last.name),
        "e_value": _e_value(last.log_e_value),
        "rows": rows,
        "shown": _MOST_ROWS,
    }
