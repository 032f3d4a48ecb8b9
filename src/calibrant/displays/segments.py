"""Segments of rows: how large each is, and how far its predictions are off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.displays import style
from calibrant.metrics import Audit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Segments whose conditions stand in the picture.
_MOST_NAMED = 2
#: An infinite error is drawn so far above the largest other one.
_ABOVE = 1.15
#: The largest ratio of rows at which 2 and 5 have ticks too, between powers of ten.
_MOST_TICKED = 2_000
#: Colours of predictions that are too high, and too low.
_HIGH, _LOW = style.COLOURS[1], style.COLOURS[0]


class SegmentPoints(NamedTuple):
    """The segments of a search: their numbers of rows, errors in standard deviations, and gaps, the worst first.

    `critical` is the error that calibrated predictions reach nowhere, as a rule, and `labels` say what the first
    segments are. `name` is that of the predictions, where there are several.
    """

    n: Sequence[int]
    sigma: Sequence[float]
    gap: Sequence[float]
    critical: float
    labels: Sequence[str] = ()
    name: str = ""

    @classmethod
    def of(cls, found: Audit, name: str = "") -> SegmentPoints:
        """Return the points of an audit."""
        each = found.findings
        labels = [finding.label for finding in found.off[:_MOST_NAMED]]
        n, sigma, gap = [f.n for f in each], [f.sigma for f in each], [f.score_gap for f in each]
        return cls(n, sigma, gap, found.critical, labels, name)


class SegmentDisplay:
    """The error of each segment in standard deviations, over the number of its rows.

    Above the dashed line segments are found off: calibrated predictions have none there, as a rule. One search is
    coloured by whether predictions are too high or too low where they are furthest off, several by their names.

    Parameters
    ----------
    points : SegmentPoints or sequence of SegmentPoints
        What the display's constructor `from_audit` makes of audits.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> p, city = rng.random(2_000), rng.choice(["Bonn", "Kyiv", "Rome"], 2_000)
    >>> y = rng.random(2_000) < np.where(city == "Rome", p**2, p)
    >>> display = cb.SegmentDisplay.from_audit(cb.metrics.audit(y, p, features={"city": city}))
    >>> display.points[0].labels
    ['city = Rome', 'all rows']
    """

    def __init__(self, points: SegmentPoints | Sequence[SegmentPoints]) -> None:
        advice = "Pass SegmentPoints, or use SegmentDisplay.from_audit."
        self.points = style.as_parts("points", points, SegmentPoints, advice)

    @classmethod
    def from_audit(cls, found: Audit | Mapping[str, Audit], *, ax: Axes | None = None) -> SegmentDisplay:
        """Draw what `calibrant.metrics.audit` returns, or several by their names, such as before and after.

        Parameters
        ----------
        found : Audit, or mapping of names to Audits
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        named = found if isinstance(found, Mapping) else {"": found}
        for audit in named.values():
            style.check_kind("found is", audit, Audit, "Pass what calibrant.metrics.audit returns.")
        return cls([SegmentPoints.of(audit, name) for name, audit in named.items()]).plot(ax)

    def plot(self, ax: Axes | None = None) -> SegmentDisplay:
        """Draw the segments on given axes, or in a figure of their own, `ax_`; return self."""
        is_own = ax is None
        ax, self.figure_ = style.place(ax, (6.4, 4.2))
        self.ax_ = ax
        from matplotlib.ticker import LogLocator

        critical = max(each.critical for each in self.points)
        finite = [s for each in self.points for s in each.sigma if math.isfinite(s)]
        top = _ABOVE * max([critical, *finite])
        for k, each in enumerate(self.points):
            self._draw(ax, each, None if len(self.points) == 1 else k, top)
        ax.axhline(critical, zorder=1, **style.REFERENCE)
        ax.set_xscale("log", subs=[])
        largest = max(max(each.n) for each in self.points) / min(min(each.n) for each in self.points)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if largest > _MOST_TICKED else (1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_ylim(0.0, 1.08 * top)
        ax.set_xlabel("Rows of the segment")
        ax.set_ylabel("Cumulative calibration error\nin standard deviations")
        self._name_worst(ax, self.points[0], top)
        style.add_legend(ax, is_own=is_own, n_columns=3)
        return self

    def _draw(self, ax: Axes, points: SegmentPoints, k: int | None, top: float) -> None:
        n, sigma, gap = (np.asarray(each, dtype=np.float64) for each in (points.n, points.sigma, points.gap))
        sigma = np.minimum(sigma, top)
        is_off = sigma > points.critical
        look: dict[str, Any] = {"linestyle": "", "markersize": 4.5, "alpha": 0.85}
        if k is not None:
            ax.plot(n, sigma, label=style.legible(points.name), **look, **_marker(k))
            return
        parts: dict[str, tuple[Any, dict[str, Any]]] = {
            "too high": (is_off & (gap > 0.0), {"color": _HIGH, "marker": "^"}),
            "too low": (is_off & (gap <= 0.0), {"color": _LOW, "marker": "v"}),
            "not found off": (~is_off, {"color": style.MUTED, "marker": "o", "markerfacecolor": "none"}),
        }
        for label, (kept, own) in parts.items():
            if kept.any():
                ax.plot(n[kept], sigma[kept], label=label, **look, **own)

    def _name_worst(self, ax: Axes, points: SegmentPoints, top: float) -> None:
        """Write beside the worst segments what they are, towards the middle of the picture."""
        middle = math.sqrt(min(points.n) * max(points.n))
        for label, n, sigma in zip(points.labels, points.n, points.sigma, strict=False):
            is_left = n > middle
            beside: dict[str, Any] = {"xytext": (-6 if is_left else 6, 0), "ha": "right" if is_left else "left"}
            beside |= {"textcoords": "offset points", "va": "center", "fontsize": "small"}
            ax.annotate(style.legible(label, width=30), (n, min(sigma, top)), **beside)


def _marker(k: int) -> dict[str, Any]:
    return {"color": style.COLOURS[k % len(style.COLOURS)], "marker": style.MARKERS[k % len(style.MARKERS)]}
