"""What the scores say, in plain words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrant.metrics.bins import Bins
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import normal_quantile

#: A calibration error that can't be ruled out is worth saying from here on.
_NOTABLE = 0.05


def describe(
    *,
    gap: Estimate,
    debiased: Estimate,
    uniform: Bins,
    quantile: Bins,
    base_rate: float,
    level: float,
    n_rows: int,
    is_top_label: bool,
) -> str:
    """Say in one to three sentences whether the predictions are calibrated, which way they are off, and where.

    Parameters
    ----------
    gap, debiased : Estimate
        Of the mean prediction less the rate, and of the debiased calibration error: an interval of either that
        excludes zero is taken as evidence of miscalibration.
    uniform, quantile : Bins
        To say where it is worst, and whether predictions lie too far from the base rate or too near.
    base_rate, level : float
    n_rows : int
    is_top_label : bool
        Whether the predictions are the confidence in the most probable class.
    """
    what = "the confidence in the predicted class is" if is_top_label else "predictions are"
    is_shifted = gap.low > 0.0 or gap.high < 0.0
    if not is_shifted and debiased.low <= 0.0:
        return _nothing_found(what, gap, debiased, level, n_rows)
    spread = "" if is_top_label else _spread(quantile, base_rate, level)
    if is_shifted:
        size = replace(gap, low=min(abs(gap.low), abs(gap.high)), high=max(abs(gap.low), abs(gap.high)))
        first = f"{what} too {'high' if gap.value > 0.0 else 'low'}, by {abs(gap.value):.3f} on average"
        first += f" ({_interval(size, level)})" + (f", and {spread}" if spread else "")
    else:
        first = f"{what} right on average but {spread or 'off in places'}, by {debiased.value:.3f} over bins"
        first += f" (root mean square without noise; {_interval(debiased, level)})"
    sentences = [f"Not calibrated: {first}.", _worst(uniform, is_top_label)]
    if debiased.high - debiased.low > 2.0 * _NOTABLE and is_shifted:
        sentences.append(
            f"With {_rows(n_rows)} the intervals are wide: the debiased calibration error is {debiased.value:.3f} "
            f"({_interval(debiased, level)})."
        )
    elif debiased.high - debiased.low > 2.0 * _NOTABLE:
        sentences.append(f"With {_rows(n_rows)} the interval is wide.")
    return " ".join(sentences)


def _nothing_found(what: str, gap: Estimate, debiased: Estimate, level: float, n_rows: int) -> str:
    first = (
        f"No miscalibration found: {what} off by {gap.value:+z.3f} on average ({_interval(gap, level)}), and the "
        f"debiased calibration error is {debiased.value:.3f} ({_interval(debiased, level)})."
    )
    largest = max(debiased.high, -gap.low, gap.high)
    if largest < _NOTABLE:
        return first
    return f"{first} With {_rows(n_rows)} the intervals are wide: an error of {largest:.2f} can't be ruled out."


def _spread(bins: Bins, base_rate: float, level: float) -> str:
    """Say whether predictions lie too far from the base rate, or too near: by the rates' slope on them over bins."""
    share = bins.share
    distance = bins.mean_score - float(share @ bins.mean_score)
    square = float(share @ distance**2)
    if square == 0.0 or not 0.0 < base_rate < 1.0:
        return ""
    slope = float((share * distance) @ bins.rate) / square
    half = normal_quantile(level) * math.sqrt(float((share * distance) ** 2 @ bins.rate_variance)) / square
    if slope + half < 1.0:
        return f"over-confident (too far from the base rate of {base_rate:.2f})"
    if slope - half > 1.0:
        return f"under-confident (too near the base rate of {base_rate:.2f})"
    return ""


def _worst(bins: Bins, is_top_label: bool) -> str:
    """Name the bin that adds most to the calibration error."""
    b = int(np.argmax(bins.share * np.abs(bins.gap)))
    low, high = bins.edges[b]
    is_counted = bool((bins.weight == bins.weight_squared).all())
    amount = _rows(round(bins.weight[b])) if is_counted else f"{bins.share[b]:.0%} of the weight"
    happened = "right" if is_top_label else "happened"
    return (
        f"Worst between {low:.2f} and {high:.2f}: predicted {bins.mean_score[b]:.2f}, {happened} {bins.rate[b]:.2f} "
        f"({amount})."
    )


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def _interval(estimate: Estimate, level: float) -> str:
    return f"{100.0 * level:g}% interval {estimate.low:z.3f} to {estimate.high:z.3f}"
