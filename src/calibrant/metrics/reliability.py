"""Reliability curves: how often the event happened against how often it was predicted."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.errors import InvalidInputError, unknown_name
from calibrant.metrics.bins import Bins, CurveStrategy, bin_rows, make_bins
from calibrant.metrics.consistency import consistency_band
from calibrant.metrics.estimates import wilson
from calibrant.metrics.gate import measured_rows
from calibrant.results import Curve
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, as_generator, check_choice, check_fraction, check_integer

Band: TypeAlias = Literal["consistency"]


def reliability_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: CurveStrategy = "quantile",
    sample_weight: ArrayLike | None = None,
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
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the curve shows the confidence
        in the most probable one, unless `class_label` picks one.
    n_bins : int
        Number of bins asked for; empty ones are dropped, and ties can leave fewer. Of no account for "isotonic".
    strategy : {"quantile", "uniform", "isotonic"}
        Bins of near-equal weight, of equal width over [0, 1], or the blocks of the isotonic regression of outcomes on
        probabilities (CORP), which need no number of bins.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    level : float
        Nominal coverage of each interval, and of the band at each bin.
    band : {"consistency"}, optional
        Also return where the curve would lie, bin by bin, if the probabilities were calibrated, as `band_low` and
        `band_high`.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.
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
    each bin separately. More than 2,048 distinct probabilities are put into about as many groups for the draws.

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
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return curve_of_event(event_rows(rows, class_label), settings, label=label)


class CurveSettings(NamedTuple):
    """What the caller of `reliability_curve` asks for."""

    n_bins: int
    strategy: CurveStrategy
    level: float
    band: Band | None
    rng: np.random.Generator


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
    n_bins, strategy, level, band, rng = settings
    if bins is None:
        if isinstance(event, ScoreSummary):
            bins = make_bins(event, n_bins, strategy)
        else:
            bins = bin_rows(event, n_bins, strategy)
    low, high = wilson(bins.rate, bins.size, level)
    ends = (None, None) if band is None else consistency_band(event.summary(), bins, strategy, level, rng)
    return Curve(bins.mean_score, bins.rate, low, high, bins.weight, bins.edges, level, strategy, label, *ends)


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
