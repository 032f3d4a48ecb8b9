"""The reliability curve of one score as plain values: its bins, and how the scores are spread."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from calibrant.displays import ScoreHistogram, axis_end
from calibrant.metrics.bins import Bins, bin_rows, make_bins
from calibrant.metrics.reliability import CurveSettings, curve_of_event
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import as_generator, check_integer

#: What the curve of one class of several leaves out: its panel shows no histogram.
OF_HISTOGRAM = ("histogram", "n_above")


def curve_of(
    data: Rows | ScoreSummary,
    n_bins: int,
    level: float,
    label: str,
    *,
    strategy: Literal["quantile", "uniform"] = "quantile",
    band: Literal["consistency"] | None = None,
    rng: int | np.random.Generator | None = 0,
    n_rows: int | None = None,
) -> dict[str, Any]:
    """Measure the curve of one score as plain values; `n_rows` is told where a summary doesn't say it."""
    check_integer("n_bins", n_bins, minimum=1)
    curve = curve_of_event(data, CurveSettings(n_bins, strategy, level, band, as_generator(rng)))
    upper = axis_end([curve])
    columns = (curve.edges, curve.x, curve.y, curve.low, curve.high, curve.n)
    band_ends = [[None] * curve.x.size if end is None else end.tolist() for end in (curve.band_low, curve.band_high)]
    if isinstance(data, ScoreSummary):
        bins = make_bins(data, n_bins, "quantile")
        is_weighted = not np.array_equal(data.weight, data.weight_squared)
        n_rows = round(data.total_weight) if n_rows is None else n_rows
        histogram = ScoreHistogram.from_summary(data, n_rows=n_rows, is_weighted=is_weighted, upper=upper)
        # of weighted rows about as many as their share of the weight
        n_above = round(float(data.weight[data.scores > upper].sum()) / data.total_weight * n_rows)
        mean_predicted = float(np.average(data.scores, weights=data.weight))
        mean_observed = data.base_rate
    else:
        bins = bin_rows(data, n_bins, "quantile")
        histogram = ScoreHistogram.from_rows(data, upper=upper)
        n_above = int((data.scores > upper).sum())
        mean_predicted = float(np.average(data.scores, weights=data.weight))
        mean_observed = float(np.average(data.positive, weights=data.weight))
    return {
        "label": label,
        "n_rows": histogram.n_rows,
        "events": float(histogram.events.sum()),
        "upper": upper,
        "n_above": n_above,
        "level": level,
        "strategy": curve.strategy,
        "has_band": band is not None,
        "mean_predicted": mean_predicted,
        "mean_observed": mean_observed,
        "mean_error": _mean_error(bins),
        "bins": [
            {
                "from": low_edge,
                "to": high_edge,
                "predicted": x,
                "observed": y,
                "low": low,
                "high": high,
                "band_low": band_low,
                "band_high": band_high,
                "n": n,
                "gap": x - y,
                "is_outside": not low <= x <= high,
            }
            for (low_edge, high_edge), x, y, low, high, n, band_low, band_high in zip(
                *(column.tolist() for column in columns), *band_ends, strict=True
            )
        ],
        "histogram": {
            "edges": histogram.edges.tolist(),
            "n": histogram.n.tolist(),
            "events": histogram.events.tolist(),
            "is_weighted": histogram.is_weighted,
        },
    }


def _mean_error(bins: Bins) -> float:
    """Return the mean gap of bins, whatever its sign."""
    return float(np.sum(bins.share * np.abs(bins.gap)))
