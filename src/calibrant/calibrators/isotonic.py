"""Isotonic calibration, plain and centred."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.maps import BinaryMap, InterpolatedMap
from calibrant.numerics import FloatArray
from calibrant.quantised import QuantisedSummary
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.summary import Blocks, ScoreSummary
from calibrant.validation import InputKind, check_flag


class _PooledCalibrator(BinaryCalibrator):
    """A calibrator whose map interpolates between the rates of pooled blocks."""

    map_kinds = (InterpolatedMap,)
    rises = True

    def __init__(self, *, bounded: bool = False, input: InputKind = "probability") -> None:
        self.bounded = bounded
        self.input = input

    def check_params(self) -> None:
        super().check_params()
        check_flag("bounded", self.bounded)

    def rates(self, blocks: Blocks, summary: ScoreSummary) -> FloatArray:
        """Return the rate of each block, kept from 0 and 1 where `bounded`."""
        return bounded_rates(blocks.rate, summary.total_weight) if self.bounded else np.clip(blocks.rate, 0.0, 1.0)


def bounded_rates(rate: FloatArray, total_weight: float) -> FloatArray:
    """Return rates at least 1 / (n + 2) from 0 and 1, n the total weight."""
    least = 1.0 / (total_weight + 2.0)
    return np.clip(rate, least, 1.0 - least)


@named("isotonic")
class IsotonicCalibrator(_PooledCalibrator):
    """Isotonic regression of the labels on the scores: the best fit among all rising maps.

    Parameters
    ----------
    bounded : bool
        Keep outputs inside [1 / (n + 2), 1 - 1 / (n + 2)], n the total weight: an event unseen in n rows may still
        happen. Costs nothing in Brier score and saves the log loss of a wrong 0 or 1. By default outputs equal
        those of `sklearn.isotonic.IsotonicRegression(out_of_bounds="clip")`, and a fit that gives 0 or 1 to some rows
        says so by a DataWarning.
    input : {"probability", "logit", "score"}
        What the scores are. The fit goes by their order; between scores that it has seen, probabilities are joined by
        straight lines in this kind.

    Notes
    -----
    Interpolates linearly between the first and last score of each pooled block and is flat outside them. Scores within
    8 units in the last place are one score, as means of the same votes are that were added in other orders.

    References
    ----------
    Zadrozny and Elkan (2002), *Transforming classifier scores into accurate multiclass probability estimates*, KDD.
    Ayer et al. (1955), *An empirical distribution function for sampling with incomplete information*.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.IsotonicCalibrator().fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.2, 0.4, 0.6])
    array([0.25, 0.5 , 0.75])
    """

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        summary = data.summary()
        blocks = summary.isotonic_blocks()
        # knots at both ends of every block, one where the ends coincide
        x = np.column_stack((blocks.first, blocks.last)).reshape(-1)
        kept = np.ones(x.size, dtype=bool)
        kept[1::2] = blocks.first != blocks.last
        rate = self.rates(blocks, summary)
        return InterpolatedMap(x[kept], np.repeat(rate, 2)[kept])

    def stream_summary(self, stream: RowStream) -> ScoreSummary:
        return stream.summary_to_pool() or super().stream_summary(stream)

    def fit_streamed(self, stream: RowStream, cells: QuantisedSummary) -> BinaryMap:
        """Fit to blocks that are exact, of rows that are partitioned by their scores."""
        return self.fit_map(stream.pooled_summary(cells))


@named("centered_isotonic")
class CenteredIsotonicCalibrator(_PooledCalibrator):
    """Centred isotonic regression: strictly rising between the centres of isotonic regression's blocks.

    Parameters
    ----------
    bounded : bool
        As for `IsotonicCalibrator`; by default the outer blocks keep their rates, which are often 0 and 1.
    input : {"probability", "logit", "score"}
        What the scores are. Outputs are interpolated in them, so unlike isotonic regression it matters.

    Notes
    -----
    Each block of pooled scores becomes one knot: its rate, at the weighted mean of its scores. Between knots the map
    is linear and strictly rising: scores that differ there stay different, so the ranking is kept. Below the first
    knot and above the last it is flat, as in the authors' program: the data show no more there than the block's rate.

    References
    ----------
    Oron and Flournoy (2017), *Centered isotonic regression: point and interval estimation for dose-response studies*,
    Statistics in Biopharmaceutical Research 9(3), section 3.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.CenteredIsotonicCalibrator().fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.25, 0.4, 0.55])
    array([0.25, 0.5 , 0.75])
    """

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        summary = data.summary()
        blocks = summary.isotonic_blocks()
        scores, weight = summary.scores, summary.weight
        first = np.searchsorted(scores, blocks.first)
        n_scores = np.diff(first, append=scores.size)
        # shares and distances within the block: sums of large scores would overflow, and of close ones lose digits
        share = weight / np.repeat(blocks.weight, n_scores)
        half_way = 0.5 * scores - np.repeat(0.5 * blocks.first, n_scores)
        centre = blocks.first + 2.0 * np.add.reduceat(share * half_way, first)
        rate = self.rates(blocks, summary)
        return InterpolatedMap(np.clip(centre, blocks.first, blocks.last), rate)
