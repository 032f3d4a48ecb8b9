"""One page of a monitor: the verdict, the timeline, a row for each window."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._version import __version__
from calibrant.displays import COLOURS, MUTED
from calibrant.errors import InvalidInputError
from calibrant.monitor.monitor import CalibrationMonitor, Window
from calibrant.phrases import clean, count, difference, interval, legible, percent_level, shorten
from calibrant.report import inline_figure, pages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOG_10 = math.log(10.0)
#: Evidence beyond these powers of ten is drawn at them.
_LEAST_DRAWN, _MOST_DRAWN = -3.0, 12.0
#: Windows of which the page has a row: the last ones.
_MOST_ROWS = 60
_SHORT = 60
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class MonitorReport(pages.PageReport):
    """Report of a monitor, as a page.

    Parameters
    ----------
    monitor : CalibrationMonitor
        With at least one window.
    title : str
        Heading of the page.
    """

    name = "Calibration monitor"

    def __init__(self, monitor: CalibrationMonitor, *, title: str = "Calibration monitor") -> None:
        if not monitor.windows:
            raise InvalidInputError("the monitor has seen no window. Call update first.")
        self._windows = list(monitor.windows)
        self._summary = _summary(monitor, clean(title))

    def page(self) -> pages.Page:
        found = self._summary
        first, last = (pages.name(found[key], _SHORT) for key in ("first_window", "last_window"))
        names = first if found["n_windows"] == 1 else f"from {first} to {last}"
        watched = (
            f"{count(round(found['n_rows']), 'row')} in {count(found['n_windows'], 'window')}, {names}. "
            f"The evidence now stands at {found['e_value']}."
        )
        answers = [
            pages.Answer("What does it mean?", found["advice"]),
            pages.Answer("What was watched?", watched),
            pages.Answer("How is the last window?", found["rows"][-1]["verdict"]),
        ]
        sections = [self._timeline(), _table(found)]
        return pages.Page(found["title"], found["state"], found["headline"], answers, sections)

    def _timeline(self) -> pages.Section:
        level = percent_level(self._summary["level"])
        lead = (
            "Above: what one unit of money has become by betting against the probabilities; one may look at it at any "
            f"time. Below: the gap of each window with its own {level} interval, of which some miss zero by chance."
        )
        draw = partial(_draw, self._windows, self._summary["alpha"])
        words = _description(self._windows)
        figure = partial(inline_figure, draw, key="timeline", title="Timeline of evidence and gaps", words=words)
        return pages.Section("Timeline", [pages.Text(lead), pages.Pictures([pages.Picture(figure)], "wide")])

    def __repr__(self) -> str:
        return f"<MonitorReport: {self._summary['headline']}>"


def _table(found: dict[str, Any]) -> pages.Section:
    shown, n = found["rows"][-_MOST_ROWS:], found["n_windows"]
    windows = pages.table(
        "Windows",
        shown,
        [
            ("Window", lambda each: pages.name(each["name"], _SHORT)),
            ("Rows", lambda each: f"{round(each['n']):,}"),
            ("Predicted", lambda each: pages.percent(each["mean_prob"])),
            ("Observed", lambda each: pages.percent(each["base_rate"])),
            ("Gap", lambda each: pages.off_cell(pages.signed(each["gap"]), each["is_off"])),
            (f"{percent_level(found['level'])} interval", lambda each: pages.ends(each, 3)),
            ("Evidence", _evidence),
        ],
        wide=(1, 2),
    )
    left_out = [] if len(shown) == n else [pages.Text(f"The last {len(shown)} of {n:,}.")]
    return pages.Section("Windows", [*left_out, windows])


def _evidence(each: dict[str, Any]) -> pages.Cell:
    """Return the cell of a window's evidence, which is sorted by its logarithm."""
    return pages.Cell(each["e_value"], "outside" if each["is_alarm"] else "", key=each["log_e_value"])


def _draw(windows: list[Window], alpha: float) -> Figure:
    """Draw evidence and gaps over the windows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 5.4))
    evidence = figure.add_axes((0.15, 0.55, 0.82, 0.38))
    gaps = figure.add_axes((0.15, 0.14, 0.82, 0.32), sharex=evidence)
    _draw_evidence(evidence, windows, alpha)
    _draw_gaps(gaps, windows)
    for ax in (evidence, gaps):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_evidence(ax: Axes, windows: list[Window], alpha: float) -> None:
    x = np.arange(1, len(windows) + 1)
    y = np.clip([w.log_e_value / _LOG_10 for w in windows], _LEAST_DRAWN, _MOST_DRAWN)
    limit = -math.log10(alpha)
    ax.axhline(limit, color=MUTED, linestyle="--", linewidth=1.0)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (-3, 3), "textcoords": "offset points"}
    ax.annotate(f"alarm at {1.0 / alpha:g}", (1.0, limit), color=MUTED, fontsize=8.5, ha="right", **place)
    ax.plot(x, y, color=COLOURS[0], linewidth=1.4, marker="o" if len(windows) < 40 else "", markersize=3.0)
    cut = f", drawn up to $10^{{{_MOST_DRAWN:.0f}}}$" if windows[-1].log_e_value / _LOG_10 > _MOST_DRAWN else ""
    ax.set_title(f"Evidence against calibration (e-value){cut}", loc="left", fontsize=9.5)
    ax.set_ylim(min(-0.6, float(y.min()) - 0.3), max(limit, float(y.max())) + 0.6)
    ticks = np.unique(np.linspace(math.ceil(ax.get_ylim()[0]), math.floor(ax.get_ylim()[1]), 5).round())
    ax.set_yticks(ticks, [f"{10.0**t:,.0f}" if 0 <= t < 6 else f"$10^{{{t:.0f}}}$" for t in ticks])
    ax.tick_params(labelbottom=False)


def _draw_gaps(ax: Axes, windows: list[Window]) -> None:
    x = np.arange(1, len(windows) + 1)
    gap, low, high = (np.array([getattr(w, name) for w in windows]) for name in ("gap", "low", "high"))
    ax.axhline(0.0, color=MUTED, linestyle="--", linewidth=1.0)
    ax.vlines(x, low, high, color=COLOURS[0], linewidth=1.2, alpha=0.55)
    ax.plot(x, gap, color=COLOURS[0], linestyle="none", marker="o", markersize=3.0)
    ax.set_title("Mean probability less observed rate", loc="left", fontsize=9.5)
    shown = np.unique(np.linspace(1, len(windows), min(len(windows), 3)).round().astype(int))
    ax.set_xticks(shown, [shorten(windows[i - 1].name, 12) for i in shown])
    ax.get_xticklabels()[-1].set_horizontalalignment("right")
    ax.set_xlim(0.5, len(windows) + 0.5)
    ax.locator_params(axis="y", nbins=5)


def _description(windows: list[Window]) -> str:
    last = windows[-1]
    return (
        f"{len(windows)} windows from {clean(windows[0].name)} to {clean(last.name)}. The e-value ends at "
        f"{_e_value(last.log_e_value)}; the last gap is {last.gap:+.4f}, interval {last.low:+.4f} to {last.high:+.4f}."
    )


def _e_value(log_e: float) -> str:
    power = log_e / _LOG_10
    if power >= 6.0:
        return "10" + f"{power:.0f}".translate(_SUPERSCRIPTS)
    return f"{math.exp(log_e):,.3g}" if power < 2.0 else f"{math.exp(log_e):,.0f}"


def _summary(monitor: CalibrationMonitor, title: str) -> dict[str, Any]:
    windows, last = monitor.windows, monitor.windows[-1]
    headline = f"No alarm in {count(len(windows), 'window')}"
    promise = f"The promise that few alarms are false is for {monitor.promise}."
    advice = (
        f"The evidence stayed below {1.0 / monitor.alpha:g}. That is no proof of calibration: small errors take many "
        f"rows to show. {promise}"
    )
    state = "calibrated"
    if len(windows) == 1:
        state = "unclear"
        headline = "No alarm possible yet: one window only sets the bet"
        advice = (
            f"{_of_first_gap(monitor)}An alarm needs a second window. Add the next one, or cut these rows into "
            f"several: on the command line by --state, --rows or --date. {promise}"
        )
    if monitor.is_alarm:
        state = "miscalibrated"
        headline = f"Not calibrated: alarm in {legible(monitor.first_alarm, _SHORT)}"
        advice = (
            f"If the probabilities were right, evidence of {1.0 / monitor.alpha:g} would be reached in at most "
            f"{monitor.alpha:.2%} of all streams, ever, of {monitor.promise}. Look at the gaps of the windows "
            "for when it began and which way it goes; then fit a calibrator to recent rows, and start a new monitor."
        )
    return {
        "title": title,
        "version": __version__,
        "state": state,
        "headline": headline,
        "advice": advice,
        "alpha": monitor.alpha,
        "level": monitor.level,
        "declared": list(monitor.declared or ()),
        "n_rows": sum(w.n for w in windows),
        "n_windows": len(windows),
        "first_window": clean(windows[0].name),
        "last_window": clean(last.name),
        "e_value": _e_value(last.log_e_value),
        "rows": [
            {
                **asdict(w),
                "name": clean(w.name),
                "e_value": _e_value(w.log_e_value),
                "log_e_value": min(w.log_e_value, 1e300),
                "is_off": not w.low <= 0.0 <= w.high,
            }
            for w in windows
        ],
    }


def _of_first_gap(monitor: CalibrationMonitor) -> str:
    """Say that the gap of the first window is beyond its interval, if it is."""
    first = monitor.windows[0]
    if first.low <= 0.0 <= first.high:
        return ""
    which, bounds = "high" if first.gap > 0.0 else "low", interval(monitor.level, first.low, first.high)
    return (
        f"Taken alone, {legible(first.name, _SHORT)} has probabilities too {which} by {difference(abs(first.gap))} on "
        f"average (gap with {bounds}, which excludes 0). "
    )
