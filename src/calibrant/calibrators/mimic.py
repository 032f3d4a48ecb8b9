"""Mimic calibration."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.calibrators.isotonic import bounded_rates
from calibrant.errors import not_fitted
from calibrant.maps import BinaryMap, InterpolatedMap
from calibrant.numerics import FloatArray, IntArray
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import InputKind, check_choice, check_flag, check_integer

Boundary = Literal["mean", "min", "max", "median", "unweighted"]
#: A read-only record array with a row for each bin.
BinTable: TypeAlias = "np.recarray[tuple[int], np.dtype[np.record]]"

COLUMNS = ("n_below", "score_min", "score_max", "score_mean", "positives", "n", "rate", "boundary")
#: Sums of weights may fall short of a whole number by rounding: ten weights of 0.1 are one positive.
_ROUNDING = 1e-9


class _Fit(NamedTuple):
    """A map with the tables that it came from."""

    map: InterpolatedMap
    final: BinTable
    history: list[BinTable] | None


@named("mimic")
class MimicCalibrator(BinaryCalibrator):
    """Mimic calibration: small bins of equal positives, merged until their rates rise, joined by straight lines.

    Sorted scores fill a bin until it holds `threshold_pos` positives. Each bin whose rate is greater than its right
    neighbour's is merged with it, in passes from left to right, until the rates don't fall. The map interpolates
    between the bins' points and is flat outside the outer ones.

    Parameters
    ----------
    threshold_pos : int
        Weight of the positives in each first bin: their number, where unweighted. Only the last may hold fewer.
    record_history : bool
        Keep the bins of each merging pass in `history_`.
    boundary : {"mean", "min", "max", "median", "unweighted"}
        The score at which a bin's rate is recorded: mean, least, greatest or median of its scores. `"unweighted"`
        gives a merged bin the mean of its two parts' means, however many rows each has, as the original code does.
    bounded : bool
        Keep outputs inside [1 / (n + 2), 1 - 1 / (n + 2)], n the total weight. By default the outer bins keep their
        rates, which may be 1; a fit that gives 0 or 1 to some rows says so by a DataWarning.
    input : {"probability", "logit", "score"}
        What the scores are.

    Attributes
    ----------
    calibrated_model_ : record array
        The final bins, from left to right: `n_below` (weight of the rows below), `score_min`, `score_max`,
        `score_mean`, `positives`, `n` (weight of the rows), `rate` and `boundary`.
    boundary_table_ : ndarray of shape (n_bins,)
        The recorded score of each final bin.
    history_ : list of record arrays, or None
        The first bins, then those after each pass that merged any. None unless `record_history`.

    Notes
    -----
    Rows with equal scores stay in one bin, so that the order of rows doesn't matter; a first bin may then hold more
    positives than asked for. Neighbours of equal rate are not merged. With fewer positives than `threshold_pos` the map
    is the base rate. A first bin ends on a positive, which raises the rates a little where positives are rare.

    The bins after every pass are those of the original program, but all passes together take linear time. A history
    holds a table per pass: where a low rate at the right end moves down bin by bin, nearly as many as there are bins.

    Tables are not part of the map: a calibrator that was loaded has none, nor has one that was fitted to several
    columns, with a map for each.

    References
    ----------
    P.-J. Tien (2019), *mimic calibration*, https://github.com/scikit-learn-contrib/mimic, after a talk of
    S. Steingold at the NYC Machine Learning meetup.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    >>> calibrator = cb.MimicCalibrator(1).fit(scores, [0, 0, 1, 1, 0, 1, 0, 1])
    >>> calibrator.calibrated_model_.rate.round(3)
    array([0.333, 0.6  ])
    >>> calibrator.boundary_table_
    array([0.2, 0.6])
    >>> calibrator.predict_proba([0.0, 0.4, 1.0]).round(3)
    array([0.333, 0.467, 0.6  ])
    """

    map_kinds = (InterpolatedMap,)
    rises = True
    later_settings = ("bounded",)

    _fit: _Fit | None = None

    def __init__(
        self,
        threshold_pos: int = 5,
        *,
        record_history: bool = False,
        boundary: Boundary = "mean",
        bounded: bool = False,
        input: InputKind = "probability",
    ) -> None:
        self.threshold_pos = threshold_pos
        self.record_history = record_history
        self.boundary: Boundary = boundary
        self.bounded = bounded
        self.input = input

    def check_params(self) -> None:
        super().check_params()
        check_integer("threshold_pos", self.threshold_pos, minimum=1)
        check_flag("record_history", self.record_history)
        check_flag("bounded", self.bounded)
        check_choice("boundary", self.boundary, get_args(Boundary))

    @property
    def calibrated_model_(self) -> BinTable:
        """The final bins."""
        return self._tables("calibrated_model_").final

    @property
    def boundary_table_(self) -> FloatArray:
        """The recorded score of each final bin."""
        return np.asarray(self._tables("boundary_table_").final["boundary"])

    @property
    def history_(self) -> list[BinTable] | None:
        """The bins before the first merging pass and after each; None unless `record_history`."""
        return self._tables("history_").history

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        bins = _Bins(data.summary().near_ties, self.threshold_pos * (1.0 - _ROUNDING))
        history = [bins.table(self.boundary)] if self.record_history else None
        while bins.n_work:
            bins.merge(n_passes=1 if self.record_history else bins.first.size)
            if history is not None and bins.is_kept.sum() < history[-1].size:
                history.append(bins.table(self.boundary))
        final = bins.table(self.boundary) if history is None else history[-1]
        rate = bounded_rates(final["rate"], data.summary().total_weight) if self.bounded else final["rate"].copy()
        fitted = InterpolatedMap(final["boundary"].copy(), rate)
        self._fit = _Fit(fitted, final, history)
        return fitted

    def _tables(self, name: str) -> _Fit:
        fitted = self.fitted_map
        if not fitted.is_binary:
            raise not_fitted(
                f"{name}: this MimicCalibrator was fitted to {len(self.classes_)} columns, with other bins for each. "
                "Fit one to a single column to see its bins."
            )
        if self._fit is None or self._fit.map is not fitted:
            raise not_fitted(
                f"{name}: the bins of this MimicCalibrator are not known: a document stores the map only. "
                "Fit again to see them; map_.x and map_.y hold the recorded points."
            )
        return self._fit


class _Bins:
    """The bins of sorted ties while they are merged; a merged bin keeps the place of its leftmost part."""

    def __init__(self, distinct: DistinctScores, least: float) -> None:
        self.distinct = distinct
        room = int(min(distinct.scores.size, distinct.positives.sum() / least + 2.0))
        first, columns = np.empty(room, np.int64), np.empty((4, room))
        n = kernels.fill_bins(distinct.scores, distinct.weight, distinct.positives, least, first, columns)
        self.first, self.columns = first[:n], columns[:, :n].copy()
        self.is_kept = np.ones(n, dtype=bool)
        self.beside = np.vstack((np.arange(-1, n - 1), np.arange(1, n + 1)))
        self.work, self.n_work = np.arange(n - 1), n - 1

    def merge(self, *, n_passes: int) -> None:
        """Merge for a number of passes, or until the rates don't fall."""
        self.n_work = kernels.merge_bins(self.columns, self.is_kept, self.beside, self.work, self.n_work, n_passes)

    def table(self, boundary: Boundary) -> BinTable:
        """Return the bins as they are now."""
        scores, first = self.distinct.scores, self.first[self.is_kept]
        end = np.append(first[1:], scores.size)
        n, positives, mean, unweighted = self.columns[:, self.is_kept]
        lowest, highest = scores[first], scores[end - 1]
        of_bin = {"mean": mean, "min": lowest, "max": highest, "unweighted": unweighted}
        recorded = _medians(self.distinct, first, end) if boundary == "median" else of_bin[boundary]
        mean, recorded = (np.clip(at, lowest, highest) for at in (mean, recorded))  # against rounding
        n_below = np.concatenate(([0.0], np.cumsum(n[:-1])))
        columns = (n_below, lowest, highest, mean, positives, n, positives / n, recorded)
        table: BinTable = np.rec.fromarrays(columns, dtype=[(name, np.float64) for name in COLUMNS])
        table.flags.writeable = False
        return table


def _medians(distinct: DistinctScores, first: IntArray, end: IntArray) -> FloatArray:
    """Return the median score of each bin, midway between the two middle ones where they differ."""
    below = np.concatenate(([0.0], np.cumsum(distinct.weight)))
    half = 0.5 * below[first] + 0.5 * below[end]
    lower, upper = (np.searchsorted(below[1:], half, side=side) for side in ("left", "right"))
    inside = [distinct.scores[np.clip(place, first, end - 1)] for place in (lower, upper)]
    return 0.5 * inside[0] + 0.5 * inside[1]
