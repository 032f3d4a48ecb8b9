"""The section of reliability: the curve of one score, the spread of the scores, and the table of its bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.displays import PANEL_HEIGHT, ReliabilityDisplay, ScoreHistogram, axis_end
from calibrant.metrics import CurveSettings, binned_error, curve_of_event, curve_settings, make_bins
from calibrant.numerics import FloatArray
from calibrant.phrases import capitalised, percent_level, shorten
from calibrant.report import pages
from calibrant.report.figures import inline_axes, inline_figure, strip
from calibrant.results import Curve
from calibrant.summary import ScoreSummary

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHORT = 60


def curve_of(
    data: ScoreSummary,
    n_bins: int,
    level: float,
    label: str,
    *,
    n_rows: int,
    effect: float = 1.0,
    strategy: Literal["quantile", "uniform"] = "quantile",
    band: Literal["consistency"] | None = None,
    rng: int | np.random.Generator | None = 0,
    least_end: float = 0.0,
) -> dict[str, Any]:
    """Measure the curve of one score as plain values; weights don't tell `n_rows`, nor which rows are independent.

    The axes end at `least_end` or above.
    """
    settings = CurveSettings(*curve_settings(n_bins, strategy, level, band, rng)[:-1], effect=effect)
    curve = curve_of_event(data, settings)
    upper = max(axis_end([curve]), least_end)
    is_weighted = not np.array_equal(data.weight, data.weight_squared)
    histogram = ScoreHistogram.from_summary(data, n_rows=n_rows, is_weighted=is_weighted, upper=upper)
    bins = make_bins(data, n_bins, "quantile")
    columns: dict[str, FloatArray | None] = {"predicted": curve.x, "observed": curve.y}
    columns |= {"low": curve.low, "high": curve.high, "band_low": curve.band_low, "band_high": curve.band_high}
    columns |= {"n": curve.n, "gap": curve.x - curve.y}
    return {
        "label": label,
        "n_rows": n_rows,
        "is_weighted": is_weighted,
        "events": float(histogram.events.sum()),
        "upper": upper,
        # of weighted rows about as many as their share of the weight
        "n_above": round(float(data.weight[data.scores > upper].sum()) / data.total_weight * n_rows),
        "level": level,
        "strategy": curve.strategy,
        "has_band": band is not None,
        "mean_predicted": float(np.average(data.scores, weights=data.weight)),
        "mean_observed": data.base_rate,
        "mean_error": binned_error(bins, "l1"),
        "bins": [
            {
                "from": float(curve.edges[b, 0]),
                "to": float(curve.edges[b, 1]),
                **{name: None if values is None else float(values[b]) for name, values in columns.items()},
                "is_outside": not curve.low[b] <= curve.x[b] <= curve.high[b],
            }
            for b in range(curve.x.size)
        ],
        "histogram": {key: getattr(histogram, key).tolist() for key in ("edges", "n", "events")}
        | {"is_weighted": histogram.is_weighted},
    }


def side_by_side(curves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return curves as panels beside each other show them: with the same axes, and without histograms."""
    upper = max(curve["upper"] for curve in curves)
    left_out = ("histogram", "n_above")
    return [{**{k: v for k, v in curve.items() if k not in left_out}, "upper": upper} for curve in curves]


def reliability_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section of the main curve."""
    curve, is_binary = summary["curve"], summary["kind"] == "binary"
    level = percent_level(curve["level"])
    before = None if summary["calibrator"] is None else summary["calibrator"]["before"]
    both = [curve] if before is None else [curve, before["curve"]]
    picture = pages.Picture(lambda: _diagram(both), _caption(summary, level, has_before=len(both) > 1))
    weight = "Weight" if summary["data"]["is_weighted"] else "Rows"
    is_any_off = any(b["is_outside"] for b in curve["bins"])
    bold = ", bold where the prediction lies outside the interval" if is_any_off else ""
    lead = (
        f'The bins: gap is mean prediction less observed frequency{bold}; "if calibrated", on wide screens, is where '
        f"{level} of calibrated forecasts would be observed."
    )
    folded = f"The {len(curve['bins'])} bins" if len(curve["bins"]) > 1 else "The bin"
    bins = bins_table(curve, weight, folded=folded)
    title = "Reliability" if is_binary else "Reliability of the most probable class"
    file = pages.Download("Download the bins as CSV", "bins.csv", bins_as_csv(both))
    return pages.Section(title, [pages.Pictures([picture], "main"), pages.Text(lead), bins, file])


def bins_as_csv(curves: list[dict[str, Any]]) -> str:
    """Return the bins of a curve, or of that after and before, as CSV."""
    names = ["" if len(curves) == 1 else "after", "before"]
    columns = ["from", "to", "predicted", "observed", "low", "high", "band_low", "band_high", "n", "gap"]
    lines = [columns if len(curves) == 1 else ["scores", *columns]]
    for name, curve in zip(names, curves, strict=False):
        for b in curve["bins"]:
            figures = ["" if b[column] is None else repr(b[column]) for column in columns]
            lines.append(figures if len(curves) == 1 else [name, *figures])
    return "".join(",".join(line) + "\r\n" for line in lines)


def bins_table(curve: dict[str, Any], weight: str, *, folded: str) -> pages.Table:
    """Return the bins of a curve; `weight` is the title of their rows, or of the weight of these."""
    digits = 3 if curve["upper"] > 0.2 else 4 if curve["upper"] > 0.02 else 5  # three figures
    band: list[Any] = [("If calibrated", lambda b: _range(b["band_low"], b["band_high"], digits))]
    columns = [
        ("Predictions", lambda b: pages.Cell(_range(b["from"], b["to"], digits), "range")),
        ("Mean", lambda b: pages.decimals(b["predicted"], digits)),
        ("Observed", lambda b: pages.decimals(b["observed"], digits)),
        (
            f"{percent_level(curve['level'])} interval",
            lambda b: pages.Cell(_range(b["low"], b["high"], digits), "range"),
        ),
        *(band if curve["has_band"] else []),
        (weight, lambda b: pages.count(b["n"])),
        ("Gap", lambda b: pages.off_cell(pages.signed(b["gap"], digits), b["is_outside"])),
    ]
    wide = (4,) if curve["has_band"] else ()
    return pages.table("Bins", curve["bins"], columns, look="bins", wide=wide, folded=folded)


def panels(curves: list[dict[str, Any]], key: str, captions: list[str]) -> pages.Pictures:
    """Return small curves beside each other; `key` makes their ids unique in a page."""
    pictures = [
        pages.Picture(partial(_panel, curve, f"{key}{k}"), caption, pages.name(curve["label"], _SHORT))
        for k, (curve, caption) in enumerate(zip(curves, captions, strict=True))
    ]
    return pages.Pictures(pictures, "panels")


def axes_end(curves: list[dict[str, Any]]) -> str:
    """Say where the axes of curves beside each other end."""
    return f"Axes end at {curves[0]['upper']:g}."


def _range(low: float, high: float, digits: int) -> str:
    return f"{pages.decimals(low, digits)}\N{EN DASH}{pages.decimals(high, digits)}"


def _caption(summary: dict[str, Any], level: str, *, has_before: bool) -> Markup:
    """Return what stands below the main picture, with the keys of its colours."""
    from markupsafe import Markup

    curve, data = summary["curve"], summary["data"]
    is_binary = summary["kind"] == "binary"
    rows = f"n = {pages.count(curve['n_rows'], 'row')}"
    if curve["histogram"]["is_weighted"]:
        rows += f" of total weight {pages.count(data['total_weight'])}."
    else:
        rows += f", {pages.count(curve['events'], 'event') if is_binary else pages.count(curve['events']) + ' right'}."
    if curve["upper"] < 1.0:
        above = (
            f"; {pages.count(curve['n_above'])} higher predictions are counted in the last bar"
            if curve["n_above"]
            else ""
        )
        rows += f" The axes end at {curve['upper']:g}{above}."
    dot, every, event, square = (
        Markup('<span class="key {}"></span>').format(kind) for kind in ("dot", "all", "", "second")
    )
    if has_before:
        return Markup(
            '<span class="nowrap">{} after the calibrator,</span> <span class="nowrap">{} before it.</span> Each point '
            "is a bin of near-equal weight, the bar its {level} interval; on the dashed line a forecast is calibrated; "
            "{level} of calibrated forecasts like those after have each point in the shaded band. Below, how the "
            "predictions are spread, as shares of the rows. {rows}"
        ).format(dot, square, level=level, rows=rows)
    right = "" if is_binary else " whose most probable class was right"
    return Markup(
        "{} Each point is a bin of near-equal weight, the bar its {level} interval; on the dashed line a forecast is "
        "calibrated; {level} of calibrated forecasts have each point in the shaded band. Below, the spread of the "
        'predictions: <span class="nowrap">{} all rows,</span> <span class="nowrap">{} {what}</span>{right}. {rows}'
    ).format(dot, every, event, level=level, what="events" if is_binary else "rows", right=right, rows=rows)


def _diagram(curves: list[dict[str, Any]]) -> str:
    """Return the SVG of summarised curves, one or that after and before, over the histograms of their scores."""
    words = _words(curves[0])
    if len(curves) > 1:
        words = f"After the calibrator. {words} Before. {_words(curves[1])}"
    names = [""] if len(curves) == 1 else ["After: ", "Before: "]
    draw, told = partial(figure_of_curves, curves), told_by_points(curves, names)
    return inline_figure(draw, key="main", title=_title(curves[0]), words=words, told=told)


def told_by_points(curves: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return what the points of the lines of `figure_of_curves` tell; each text begins with the name of its curve."""
    return {_gid(k): _tellings(curve, name) for k, (curve, name) in enumerate(zip(curves, names, strict=True))}


def _panel(curve: dict[str, Any], key: str) -> str:
    """Return the SVG of a summarised curve alone, small."""

    def draw(ax: Axes) -> None:
        ReliabilityDisplay(_as_curve(curve)).plot(ax, upper=curve["upper"]).line_.set_gid(_gid(0))
        strip(ax)
        end = float(ax.get_xlim()[1])
        ax.set(xlabel="", ylabel="")
        ax.set_xticks((0.0, end), ["0", f"{end:g}"])
        ax.set_yticks((0.0, end), ["0", f"{end:g}"])

    return inline_axes(draw, key=key, title=_title(curve), words=_words(curve), told={_gid(0): _tellings(curve)})


def figure_of_curves(curves: Sequence[dict[str, Any]]) -> Figure:
    """Draw summarised curves, whose axes end at the same place, over the histograms of their scores."""
    from matplotlib.figure import Figure

    width, height, side = 5.2, 6.2, 4.3
    figure = Figure(figsize=(width, height))
    left = (width - side - 0.15) / width
    ax_histogram = figure.add_axes((left, 0.5 / height, side / width, PANEL_HEIGHT * side / height))
    bottom = 0.5 + PANEL_HEIGHT * side + 0.18
    ax = figure.add_axes((left, bottom / height, side / width, side / height), sharex=ax_histogram)
    first, *others = (_as_curve(curve) for curve in curves)
    others = [replace(each, band_low=None, band_high=None) for each in others]  # a band is of one curve
    display = ReliabilityDisplay([first, *others], histogram=[_as_histogram(curve) for curve in curves])
    display.plot(ax, ax_histogram=ax_histogram, upper=curves[0]["upper"])
    for k, line in enumerate(display.lines_):
        line.set_gid(_gid(k))
    ax.locator_params(axis="y", nbins=5)
    ax_histogram.set_ylabel("")
    for axes in (ax, ax_histogram):
        strip(axes)
        axes.locator_params(axis="x", nbins=5)
    return figure


def _as_curve(curve: dict[str, Any]) -> Curve:
    columns = ("predicted", "observed", "low", "high", "n", "band_low", "band_high")
    x, y, low, high, n, *band = (np.array([b[column] for b in curve["bins"]]) for column in columns)
    edges = np.array([(b["from"], b["to"]) for b in curve["bins"]])
    found = Curve(x, y, low, high, n, edges, curve["level"], curve["strategy"])
    return replace(found, band_low=band[0], band_high=band[1]) if curve["has_band"] else found


def _as_histogram(curve: dict[str, Any]) -> ScoreHistogram:
    spread = curve["histogram"]
    edges, n, events = (np.array(spread[name]) for name in ("edges", "n", "events"))
    return ScoreHistogram(edges, n, events, curve["n_rows"], spread["is_weighted"])


def _title(curve: dict[str, Any]) -> str:
    return f"Reliability diagram, {shorten(curve['label'], _SHORT)}"


def _words(curve: dict[str, Any]) -> str:
    points, share = points_in_words(curve), pages.percent
    if curve["has_band"]:
        band = "; ".join(f"{share(b['band_low'])} to {share(b['band_high'])}" for b in curve["bins"])
        points += f". Calibrated forecasts would be observed within {band}"
    return f"{capitalised(points)}."


def points_in_words(curve: dict[str, Any]) -> str:
    """Say where the points of a curve are, for the text alternative of a picture."""
    bins, share = curve["bins"], pages.percent
    points = "; ".join(f"{share(b['predicted'])} predicted, {share(b['observed'])} observed" for b in bins)
    return f"mean prediction and observed frequency of {pages.count(len(bins), 'bin')}: {points}"


def _tellings(curve: dict[str, Any], name: str = "") -> list[str]:
    """Return what each point of a curve tells."""
    share, level = pages.percent, percent_level(curve["level"])
    sizes = [
        f"{pages.count(b['n'])} in weight" if curve["is_weighted"] else pages.count(b["n"], "row")
        for b in curve["bins"]
    ]
    return [
        f"{name}{share(b['predicted'])} predicted, {share(b['observed'])} observed "
        f"({level} interval {share(b['low'])} to {share(b['high'])}), {size}"
        for b, size in zip(curve["bins"], sizes, strict=True)
    ]


def _gid(k: int) -> str:
    return f"points{k}"
