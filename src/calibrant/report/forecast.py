"""The report of forecasts of a number: how good they are, where they are off, and what recalibration changes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import forecasts
from calibrant._version import __version__
from calibrant.displays import COLOURS, ForecastReliabilityDisplay, PitDisplay
from calibrant.errors import InvalidTypeError
from calibrant.phrases import capitalised, clean, percent_level
from calibrant.report import pages
from calibrant.report.figures import enlarge_legend, inline_axes, strip
from calibrant.results import plain
from calibrant.validation import ArrayLike, as_generator, check_fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

#: The scores that the page shows: title, and what it says.
MEANINGS = {
    "crps": ("CRPS", "Continuous ranked probability score: smaller is better, in the units of the outcome."),
    "log_score": ("Log score", "Mean negative log density at what happened, in nats: smaller is better."),
    "pinball_loss": ("Pinball loss", "Of the median: half its mean absolute error."),
    "interval_score": (
        "Interval score",
        "Width of the intervals and a penalty for outcomes outside: smaller is better.",
    ),
    "weighted_interval_score": (
        "Weighted interval",
        "Weighted interval score: interval scores of several levels and the error of the median; near the CRPS.",
    ),
    "coverage": ("Coverage", "Share of outcomes in their central intervals."),
    "sharpness": ("Sharpness", "Mean width of the central intervals."),
    "bias": ("Bias", "Mean forecast less mean outcome."),
    "average_calibration_error": (
        "Average error",
        "Calibration error: mean distance between a level and how often outcomes fall below its quantile.",
    ),
    "threshold_calibration_error": (
        "Threshold error",
        "Calibration error on both sides of a decision by a threshold, added; mean over thresholds.",
    ),
    "max_threshold_calibration_error": ("Its maximum", "Over 50 thresholds and 20 levels."),
    "distribution_calibration_error": (
        "Distribution error",
        "Calibration error among rows with like forecasts, on average over the rows.",
    ),
    "reliability_gap": (
        "Reliability gap",
        "Distance between the loss that a decision promises and the one that comes true, mean over decisions.",
    ),
    "max_reliability_gap": ("Its maximum", "Over 50 thresholds, levels and cost ratios."),
    "decision_loss": ("Decision loss", "Mean realised loss of the best decision for each threshold and cost ratio."),
}
#: Scores that the page shows first, of which three decide; the others are folded.
_FIRST = (
    "crps",
    "coverage",
    "sharpness",
    "average_calibration_error",
    "threshold_calibration_error",
    "reliability_gap",
)
_SQUARE = (3.5, 3.4)
_WIDE = (3.5, 2.5)


class ForecastReport(pages.PageReport):
    """Report of forecasts of a number and what came of them, as a page.

    Says whether the forecasts are calibrated and which way their intervals err; then shows the histogram of PIT values,
    the reliability of all levels, the scores, each gap beside what chance gives a forecast that is right, and the gap
    between promised and realised losses of threshold decisions.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    recalibrator : Recalibrator, optional
        A fitted one: everything is then shown before and after it. Give rows that it was not fitted to.
    cluster, time, label_end, interval_level
        As for `forecasts.evaluate`.
    sample_weight, level, title, source, rng
        As in `Report`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> cb.ForecastReport(cb.forecasts.GaussianForecast(np.zeros(500), 0.5), y)
    <ForecastReport: Not calibrated: intervals are too narrow, n = 500 rows>
    """

    name = "Forecast report"

    def __init__(
        self,
        forecast: forecasts.Forecast,
        y: ArrayLike,
        *,
        recalibrator: forecasts.Recalibrator | None = None,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        interval_level: float | None = None,
        level: float = 0.95,
        title: str = "Forecast report",
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        if recalibrator is not None and not isinstance(recalibrator, forecasts.Recalibrator):
            raise InvalidTypeError(
                f"recalibrator is a {type(recalibrator).__name__}. Pass a fitted one, such as "
                "ThresholdRecalibrator().fit(forecast, y)."
            )
        interval_level = forecasts.as_interval_level(interval_level, forecast)
        level, generator = check_fraction("level", level), as_generator(rng)
        rows = forecasts.read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
        units = rows.units()
        parts = [_part(rows, "", interval_level, level, generator)]
        change = None
        if recalibrator is not None:
            after = replace(rows, forecast=recalibrator.transform(rows.forecast))
            parts.append(_part(after, "after", interval_level, level, generator))
            parts[0]["label"] = "before"
            estimate = forecasts.crps_change(rows, after, level)
            change = {end: plain(getattr(estimate, end)) for end in ("value", "low", "high")}
            advice = forecasts.recalibration_advice(parts[0]["state"], parts[1]["state"], estimate, level)
        else:
            advice = forecasts.first_advice(parts[0]["state"], parts[0]["headline"])
        self._summary = {
            "title": clean(title),
            "version": __version__,
            "state": parts[-1]["state"],
            "headline": advice.headline,
            "parts": parts,
            "method": None if recalibrator is None else type(recalibrator).__name__,
            "crps_change": change,
            "advice": advice.what_to_do,
            "level": level,
            "interval_level": interval_level,
            "score_names": [name for name in MEANINGS if all(name in part["scores"] for part in parts)],
            "meanings": {name: list(words) for name, words in MEANINGS.items()},
            "data": {
                "source": None if source is None else clean(source),
                "n_rows": len(rows),
                "is_weighted": rows.weight is not None,
                "effective_rows": rows.effective_size,
                "units": None if units is None else units.words,
            },
        }

    def page(self) -> pages.Page:
        found = self._summary
        answers = [pages.Answer(_heading(part, "Are they calibrated?"), part["verdict"]) for part in found["parts"]]
        answers.append(pages.Answer("What to do?", found["advice"]))
        sections = [_pit(found), _levels(found), _scores(found), _decisions(found), _data(found)]
        return pages.Page(found["title"], found["state"], found["headline"], answers, sections)

    def __repr__(self) -> str:
        return (
            f"<ForecastReport: {self._summary['headline']}, n = {pages.count(self._summary['data']['n_rows'], 'row')}>"
        )


def _part(
    rows: forecasts.Outcomes, label: str, interval_level: float | None, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the figures of one set of forecasts."""
    scores, judged = forecasts.scores_and_judgement(rows, interval_level, level, rng, "given data")
    gaps = forecasts.table_of_gaps(rows)
    histogram, curve = forecasts.histogram_of(rows, 20, level), forecasts.curve_of(rows, level, label)
    return {
        "label": label,
        "state": judged.verdict.state,
        "headline": judged.verdict.headline,
        "verdict": str(judged.verdict),
        "scores": {
            name: {
                **{key: plain(getattr(score, key)) for key in ("value", "low", "high", "method")},
                "is_infinite": math.isinf(score.value),
                "floor": plain(judged.by_chance[name]) if name in judged.by_chance else None,
                "is_off": name in judged.off,
            }
            for name, score in scores.items()
        },
        "pit": {
            "edges": histogram.edges.tolist(),
            "density": histogram.density.tolist(),
            **{key: float(getattr(histogram, key)) for key in ("low", "high", "low_all", "high_all")},
            "n": histogram.n,
        },
        "levels": {key: getattr(curve, key).tolist() for key in ("levels", "share", "low", "high")}
        | {"error": curve.error, "n": curve.n},
        "gaps": _gaps(gaps),
    }


def _gaps(gaps: forecasts.ReliabilityGaps) -> dict[str, Any]:
    """Return the map of gaps, means over losses, and the rule and loss of the greatest."""
    k, a, c = np.unravel_index(int(gaps.values.argmax()), gaps.values.shape)
    return {
        "y0": gaps.y0.tolist(),
        "alpha": gaps.alpha.tolist(),
        "mean_gap": gaps.values.mean(axis=2).tolist(),
        "worst": {
            "y0": float(gaps.y0[k]),
            "alpha": float(gaps.alpha[a]),
            "cost": float(gaps.cost[c]),
            "promised": float(gaps.predicted[k, a, c]),
            "realised": float(gaps.true[k, a, c]),
        },
    }


def _heading(part: dict[str, Any], alone: str) -> str:
    """Return the name of forecasts before or after recalibration, or what they are called where there are no others."""
    return str(part["label"]).capitalize() if part["label"] else alone


def _scores(summary: dict[str, Any]) -> pages.Section:
    parts, data = summary["parts"], summary["data"]
    has_two = len(parts) > 1
    columns: list[tuple[str, Callable[[str], str | pages.Cell]]] = [("Score", lambda each: MEANINGS[each][0])]
    for part in parts:
        columns.append((_heading(part, "Value"), partial(_value, part)))
        columns.append((f"{percent_level(summary['level'])} interval", partial(_interval, part)))
    floors = {name: score["floor"] for name, score in parts[-1]["scores"].items()}
    columns.append(("By chance", lambda each: "" if floors[each] is None else pages.decimals(floors[each])))
    at = summary["interval_level"]
    intervals = "" if at is None else f"Intervals of forecasts are those of {percent_level(at)}. "
    lead = (
        f"Measured on the {pages.count(data['n_rows'], 'row')} given{', weighted' if data['is_weighted'] else ''}. "
        f"{intervals}Gaps are never negative: "
        f'"by chance" is what {"the forecast after" if has_two else "this forecast"} would show on average if it were '
        "right. Of the average error, the threshold error and, unless forecasts are quantiles, the reliability gap, by "
        "which they are judged, bold is beyond chance."
    )
    first = [name for name in summary["score_names"] if name in _FIRST]
    rest = [name for name in summary["score_names"] if name not in _FIRST]
    look: dict[str, Any] = {"note": lambda each: MEANINGS[each][1], "look": "scores parts", "note_title": "Meaning"}
    look["wide"] = (2, 4) if has_two else ()
    tables = [pages.table("Scores", first, columns, **look)]
    if rest:
        tables.append(pages.table("More scores", rest, columns, folded=f"{len(rest)} more scores", **look))
    return pages.Section("Scores", [pages.Text(lead), *tables])


def _value(part: dict[str, Any], score_name: str) -> str | pages.Cell:
    score = part["scores"][score_name]
    text = pages.figure(score)
    return pages.Cell(text, "undefined-value") if text == "undefined" else pages.off_cell(text, score["is_off"])


def _interval(part: dict[str, Any], score_name: str) -> str:
    return pages.ends(part["scores"][score_name])


def _pit(summary: dict[str, Any]) -> pages.Section:
    parts, share = summary["parts"], percent_level(summary["level"])
    top = max(max(*part["pit"]["density"], part["pit"]["high_all"]) for part in parts)
    lead = (
        "Flat if calibrated. A U says that forecasts are too narrow, a hump that they are too wide, a slope that they "
        f"are too low (rising) or too high (falling). {share} of calibrated forecasts have one bar in the dark band, "
        "all bars in the pale one."
    )
    pictures = [
        pages.Picture(partial(_pit_figure, part, summary["level"], top, f"pit{k}"), title=_heading(part, ""))
        for k, part in enumerate(parts)
    ]
    return pages.Section("Where outcomes fell in their forecasts", [pages.Text(lead), _beside(pictures)])


def _levels(summary: dict[str, Any]) -> pages.Section:
    share = percent_level(summary["level"])
    lead = (
        "How often outcomes fell at or below the quantile of each level. On the dashed line forecasts are calibrated; "
        f"{share} of calibrated ones lie in the band at each level. The error is the area between."
    )
    picture = pages.Picture(partial(_level_figure, summary["parts"], summary["level"]))
    return pages.Section("Reliability of all levels", [pages.Text(lead), _beside([picture])])


def _decisions(summary: dict[str, Any]) -> pages.Section:
    parts = summary["parts"]
    darkest = max(float(np.max(part["gaps"]["mean_gap"])) for part in parts)
    lead = (
        "A decision says yes where the forecast gives values up to y0 a probability of at most α. The gap is the "
        "distance between the loss that the forecasts promise for it and the one that came true, mean over cost "
        "ratios; both errors together cost 10. Zero, up to noise, where the loss can be trusted."
    )
    pictures = [
        pages.Picture(partial(_gap_figure, part, darkest, f"gaps{k}"), title=_heading(part, ""))
        for k, part in enumerate(parts)
    ]
    greatest = pages.table(
        "The greatest gap",
        parts,
        [
            ("Greatest gap", lambda part: _heading(part, "Forecasts")),
            ("y0", lambda part: f"{part['gaps']['worst']['y0']:.4g}".replace("-", "\N{MINUS SIGN}")),
            ("α", lambda part: pages.decimals(part["gaps"]["worst"]["alpha"], 2)),
            ("Cost ratio", lambda part: pages.decimals(part["gaps"]["worst"]["cost"], 2)),
            ("Promised loss", lambda part: pages.decimals(part["gaps"]["worst"]["promised"], 3)),
            ("True loss", lambda part: pages.decimals(part["gaps"]["worst"]["realised"], 3)),
        ],
    )
    return pages.Section("Losses that decisions promise", [pages.Text(lead), _beside(pictures), greatest])


def _data(summary: dict[str, Any]) -> pages.Section:
    data = summary["data"]
    facts = [] if data["source"] is None else [("Source", pages.name(data["source"]))]
    worth = f", weighted: as good as {round(data['effective_rows']):,} equal ones" if data["is_weighted"] else ""
    facts.append(("Rows", f"{pages.count(data['n_rows'])}{worth}"))
    if summary["method"] is not None:
        said = "Figures are of forecasts it has not seen only if these rows were not among those it was fitted to."
        facts.append(("Recalibrator", f"{summary['method']}. {said}"))
    known = f"sums over {data['units']} are" if data["units"] else "Rows are"
    taken = f"{capitalised(known)} taken to be independent."
    bounds = f"{taken} Those of gaps are bounds: the gap, less and plus the noise in it."
    return pages.Section("About the data", [pages.Facts([*facts, ("Intervals", bounds)])])


def _beside(pictures: list[pages.Picture]) -> pages.Pictures:
    return pages.Pictures(pictures, "pair" if len(pictures) > 1 else "single")


def _pit_figure(part: dict[str, Any], level: float, top: float, key: str) -> str:
    found = part["pit"]
    low, high, low_all, high_all = (float(found[end]) for end in ("low", "high", "low_all", "high_all"))
    edges, density = np.array(found["edges"]), np.array(found["density"])
    histogram = forecasts.PitHistogram(edges, density, low, high, low_all, high_all, level, found["n"])

    def draw(ax: Axes) -> None:
        PitDisplay(histogram).plot(ax, color=COLOURS[part["label"] == "before"])
        strip(ax)
        ax.set(xlabel="PIT", ylabel="Density", title="", ylim=(0.0, 1.06 * top))

    bars = ", ".join(f"{density:.2f}" for density in found["density"])
    words = f"Density in {len(found['density'])} equal bins from 0 to 1: {bars}. A calibrated forecast has 1 in each."
    return inline_axes(draw, _WIDE, key=key, title=_titled("Histogram of PIT values", part), words=words)


def _level_figure(parts: list[dict[str, Any]], level: float) -> str:
    curves = []
    for part in reversed(parts):  # what comes after a calibrator has the first colour on all pages
        found = part["levels"]
        levels, share, low, high = (np.array(found[key]) for key in ("levels", "share", "low", "high"))
        curves.append(forecasts.LevelCurve(levels, share, low, high, found["error"], found["n"], level, part["label"]))

    def draw(ax: Axes) -> None:
        ForecastReliabilityDisplay(curves).plot(ax)
        enlarge_legend(ax)
        ax.spines[["top", "right"]].set_visible(False)

    at = (10, 50, 90)
    words = "; ".join(
        f"{part['label']} ".lstrip()
        + ", ".join(f"{pages.percent(part['levels']['share'][k])} below the {k}% quantile" for k in at)
        for part in parts
    )
    return inline_axes(draw, (4.3, 4.2), key="levels", title="Reliability of all levels", words=f"Outcomes: {words}.")


def _gap_figure(part: dict[str, Any], darkest: float, key: str) -> str:
    found = part["gaps"]
    y0, alpha, gap = (np.array(found[column]) for column in ("y0", "alpha", "mean_gap"))
    top = darkest or 1.0

    def draw(ax: Axes) -> None:
        image: dict[str, Any] = {"cmap": "cividis", "vmin": 0.0, "vmax": top, "origin": "lower"}
        image |= {"interpolation": "none", "aspect": "auto"}
        ax.imshow(gap.T, extent=(*_ends(y0), *_ends(alpha)), **image)
        ax.set(xlabel="Threshold y0", ylabel="Level α")
        strip(ax)
        bar = ax.inset_axes((1.04, 0.0, 0.05, 1.0))
        bar.imshow(np.linspace(0.0, top, 64)[:, None], extent=(0.0, 1.0, 0.0, top), **image)
        bar.set_xticks([])
        bar.yaxis.tick_right()
        bar.locator_params(axis="y", nbins=5)

    worst = found["worst"]
    words = (
        f"Reliability gap by threshold and level, mean over losses: {pages.decimals(float(gap.mean()))} on average, "
        f"{pages.decimals(float(gap.max()))} at most. The greatest of one loss is at y0 = {worst['y0']:.4g}, "
        f"α = {worst['alpha']:.2g}."
    )
    return inline_axes(draw, _SQUARE, key=key, title=_titled("Reliability gaps", part), words=words)


def _ends(centres: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the outer edges of equal ranges with these centres."""
    half = 0.5 * float(centres[-1] - centres[0]) / max(centres.size - 1, 1) or 0.5
    return float(centres[0]) - half, float(centres[-1]) + half


def _titled(what: str, part: dict[str, Any]) -> str:
    return f"{what}, {part['label']}" if part["label"] else what
