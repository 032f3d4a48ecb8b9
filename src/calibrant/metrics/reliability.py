"""Reliability curves, how often the event happened against how often it was predicted, and their consistency bands."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.dependent_rows import as_independent, design_effect
from calibrant.errors import InvalidInputError, unknown_name
from calibrant.metrics.bins import Bins, CurveStrategy, bin_rows, make_bins, merged
from calibrant.metrics.estimates import measured_rows, wilson
from calibrant.numerics import FloatArray, IntArray
from calibrant.results import Curve
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, equal_mass_starts
from calibrant.validation import ArrayLike, as_generator, check_choice, check_fraction, check_integer

Band: TypeAlias = Literal["consistency"]
#: Curves that are drawn for a band.
_DRAWS = 1000
#: More distinct probabilities than this are put into about as many bins, whose rows share their mean probability.
_MOST_BINS = 2048


def reliability_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: CurveStrategy = "quantile",
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    band: Band | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    class_label: object = None,
    label: str = "",
    rng: int | np.random.Generator | None = 0,
) -> Curve:
    """Return how often the event happened in bins of its predicted probability, with intervals.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes
        As in `evaluate`; of several classes the curve shows the confidence in the most probable one, unless
        `class_label` picks one.
    n_bins : int
        Number of bins asked for; empty ones are dropped, and ties can leave fewer. Of no account for "isotonic".
    strategy : {"quantile", "uniform", "isotonic"}
        Bins of near-equal weight, of equal width over [0, 1], or the blocks of the isotonic regression of outcomes on
        probabilities (CORP), which need no number of bins.
    level : float
        Nominal coverage of each interval, and of the band at each bin.
    band : {"consistency"}, optional
        Also return where the curve would lie, bin by bin, if the probabilities were calibrated, as `band_low` and
        `band_high`.
    class_label : scalar, optional
        With K columns: the class to show against the rest.
    label : str
        What the curve shows, for a legend.
    rng : int, Generator or None
        Seed of the band: the same seed gives the same numbers.

    Returns
    -------
    Curve

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Intervals are Wilson's, of the rate among all rows of the bin, pointwise: of 20 at level 0.95 one is expected to
    miss. With weights they use Kish's effective number of rows, (sum w)^2 / sum w^2. Isotonic blocks are chosen by
    the outcomes they average, so intervals of short blocks are too narrow.

    An interval says which rates the outcomes leave possible; a band says which curves calibrated probabilities would
    give, and the curve leaves it where they are not calibrated. For the band, 1,000 sets of outcomes are drawn from
    the probabilities as they are, and bins or isotonic blocks are filled, or fitted, anew; its ends are quantiles, at
    each bin separately. Where clusters or times are declared, what draws are off by grows by the root of the design
    effect. More than 2,048 distinct probabilities are put into about as many bins for the draws.

    References
    ----------
    Broecker and Smith (2007), *Increasing the reliability of reliability diagrams*, Weather and Forecasting 22.
    Dimitriadis, Gneiting and Jordan (2021), *Stable reliability diagrams for probabilistic classifiers*, PNAS 118.

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> curve = reliability_curve([0, 0, 1, 1], [0.25, 0.25, 0.25, 0.75], n_bins=2, strategy="uniform")
    >>> curve.x, curve.y.round(3), curve.n
    (array([0.25, 0.75]), array([0.333, 1.   ]), array([3., 1.]))
    """
    settings = curve_settings(n_bins, strategy, level, band, rng)
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, **what)
    settings = CurveSettings(*settings[:-1], effect=design_effect(rows))
    return curve_of_event(event_rows(as_independent(rows), class_label), settings, label=label)


class CurveSettings(NamedTuple):
    """What the caller of `reliability_curve` asks for, and the design effect of the rows."""

    n_bins: int
    strategy: CurveStrategy
    level: float
    band: Band | None
    rng: np.random.Generator
    effect: float = 1.0


def curve_settings(
    n_bins: int, strategy: CurveStrategy, level: float, band: Band | None, rng: int | np.random.Generator | None
) -> CurveSettings:
    """Check what the caller of `reliability_curve` asks for."""
    check_integer("n_bins", n_bins, minimum=1)
    check_choice("strategy", strategy, get_args(CurveStrategy))
    check_fraction("level", level)
    if band is not None:
        check_choice("band", band, get_args(Band))
    return CurveSettings(n_bins, strategy, level, band, as_generator(rng))


def curve_of_event(
    event: Rows | ScoreSummary, settings: CurveSettings, *, label: str = "", bins: Bins | None = None
) -> Curve:
    """Return the curve of checked rows, or of their summary, in the bins of the settings or in those given."""
    n_bins, strategy, level, band, rng, effect = settings
    if bins is None:
        bins = bin_rows(event, n_bins, strategy) if isinstance(event, Rows) else make_bins(event, n_bins, strategy)
    bins = replace(bins, weight_squared=effect * bins.weight_squared)
    low, high = wilson(bins.rate, bins.size, level)
    curve = Curve(bins.mean_score, bins.rate, low, high, bins.weight, bins.edges, level, strategy, label)
    if band is None:
        return curve
    ends = consistency_band(event.summary(), bins, strategy, level, rng, effect)
    return replace(curve, band_low=ends[0], band_high=ends[1])


def event_rows(rows: Rows, class_label: object) -> Rows:
    """Return what a curve shows: the positive class, the top label of K columns, or one class of them."""
    if class_label is None:
        return rows.one_column()
    if rows.is_binary:
        raise InvalidInputError(
            f"class_label={class_label!r} picks one of K columns, but y_prob has one. Pass pos_label instead."
        )
    known = rows.classes.tolist()
    if class_label not in known:
        raise unknown_name("class_label", class_label, known)
    return rows.of_class(known.index(class_label))


def consistency_band(
    summary: ScoreSummary,
    bins: Bins,
    strategy: CurveStrategy,
    level: float,
    rng: np.random.Generator,
    effect: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Return the pointwise quantiles, at each bin, of curves drawn from outcomes that follow the probabilities.

    Probabilities and weights stay as they are, and each row's outcome is drawn from its probability. Rows of equal
    probability share one binomial draw, of their effective number. That is a fraction where rows are worth `effect`
    times less: what a draw of whole rows is off by is then scaled, so that its variance is that of the fraction.
    """
    distinct, starts = summary.distinct, bins.edges[:, 0]
    first_of_bin = np.searchsorted(distinct.scores, starts, side="left" if strategy == "isotonic" else "right")
    first_of_bin[0] = 0
    first = np.arange(distinct.scores.size)
    if first.size > _MOST_BINS:
        first = np.union1d(equal_mass_starts(distinct.weight, _MOST_BINS), first_of_bin)
        distinct = merged(distinct, first)
    p, fine_weight, weight_squared, _ = distinct
    effective = fine_weight**2 / (effect * weight_squared)
    size = np.maximum(np.rint(effective), 1.0).astype(np.int64)
    drawn = rng.binomial(size, p, (_DRAWS, size.size)) * (fine_weight / size)
    if effect != 1.0:
        expected = fine_weight * p
        drawn = expected + np.sqrt(size / effective) * (drawn - expected)
    if strategy == "isotonic":
        rates = _refits(fine_weight, drawn, np.searchsorted(p, bins.mean_score, side="right") - 1)
    else:
        start = np.searchsorted(first, first_of_bin)
        rates = np.add.reduceat(drawn, start, axis=1) / np.add.reduceat(fine_weight, start)
    low, high = np.quantile(rates, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _refits(weight: FloatArray, drawn: FloatArray, places: IntArray) -> FloatArray:
    """Pool each draw of positives into rising rates, and return these at the fine bins `places`."""
    n = weight.size
    block_weight, block_positives, end = np.empty(n), np.empty(n), np.empty(n, np.int64)
    rates = np.empty((len(drawn), places.size))
    for i, positives in enumerate(drawn):
        top = kernels.pool_weighted(weight, positives, block_weight, block_positives, end)
        block = np.searchsorted(end[:top], np.maximum(places, 0), side="right")
        rates[i] = block_positives[block] / block_weight[block]
    return rates
