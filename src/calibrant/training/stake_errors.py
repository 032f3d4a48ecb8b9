"""How wrong stakes are where probabilities are not calibrated, and by how much calibration lowers that."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.dependence import as_label_times, block_draws, block_length
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, IntArray, normal_quantile
from calibrant.results import Plain
from calibrant.summary import equal_mass_bins
from calibrant.training.directions import Directions, read_moves
from calibrant.training.sizing import StakeRule, as_rule
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer, check_same_length

_N_FLOOR, _N_DRAWS = 200, 1000


@dataclass(frozen=True, slots=True, repr=False)
class SizingError(Plain):
    """How far stakes are from those that the realised rates ask for.

    Attributes
    ----------
    value : float
        Mean over rows of |stake of the mean forecast - stake of the realised rates|, bin by bin.
    floor : float
        What `value` would be on average if the probabilities were calibrated: the noise of the rates.
    n_bins, n_rows : int
    """

    value: float
    floor: float
    n_bins: int
    n_rows: int


@dataclass(frozen=True, slots=True, repr=False)
class SizingReduction(Plain):
    """By how much calibration lowers the sizing error.

    Attributes
    ----------
    value, low, high : float
        One minus the sizing error after over that before, and its interval. NaN where there was none before.
    before, after : float
        The sizing errors.
    level : float
        Nominal coverage of the interval.
    """

    value: float
    low: float
    high: float
    before: float
    after: float
    level: float


def sizing_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    rule: StakeRule | None = None,
    n_bins: int = 10,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
) -> SizingError:
    """Measure by how much miscalibration distorts stakes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        With three columns -1 for a fall, 0 for neither and 1 for a rise; else two labels, of which the larger is a
        rise.
    y_prob : array-like of shape (n,), (n, 2) or (n, 3)
        Probability of a rise; or of a fall and a rise; or of a fall, of neither, and of a rise.
    rule : StakeRule, optional
        Half Kelly at even moves by default.
    n_bins : int
        Bins of near-equal weight of the difference between the probabilities of rise and fall.
    sample_weight : array-like of shape (n,), optional
    classes : array-like, optional
        All labels, sorted as fall, (neither,) rise, where they are others or `y_true` may lack some.
    rng : int or Generator, optional
        For the floor.

    Returns
    -------
    SizingError

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Rates are noisy, so the value is above zero for calibrated probabilities too: compare it with the floor, the mean
    over labels drawn from the probabilities. Labels that overlap are fewer than they look, and the floor then is too
    low.

    Examples
    --------
    >>> from calibrant.training import sizing_error
    >>> error = sizing_error([0, 1, 0, 1, 0, 1], [0.9] * 6)  # stakes 0.4, where nothing is to be won
    >>> round(error.value, 3)
    0.4
    """
    prob, moves, weight = read_moves(y_true, y_prob, sample_weight, classes)
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    counted = weight > 0.0
    prob, moves, weight = prob.take(counted), moves[counted], weight[counted]
    binned = _Binned.of(prob, weight, as_rule(rule), n_bins)
    generator = as_generator(rng)
    cuts = np.column_stack((prob.down, prob.down + prob.flat))
    draws = [
        binned.error((generator.random(moves.size)[:, None] >= cuts).sum(axis=1) - 1, weight) for _ in range(_N_FLOOR)
    ]
    return SizingError(binned.error(moves, weight), math.fsum(draws) / _N_FLOOR, binned.stake.size, moves.size)


def sizing_reduction(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    rule: StakeRule | None = None,
    n_bins: int = 10,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
) -> SizingReduction:
    """Measure by how much calibration lowers the sizing error, with an interval.

    Parameters
    ----------
    y_true, rule, n_bins, classes
        As for `sizing_error`.
    before, after : array-like of shape (n,), (n, 2) or (n, 3)
        Probabilities of the same rows, raw and calibrated; as `y_prob` of `sizing_error`.
    time, label_end : array-like of shape (n,), optional
        When the label of each row starts and is known: intervals are then widened for overlapping labels.
    level : float
        Nominal coverage of the interval.
    rng : int or Generator, optional

    Returns
    -------
    SizingReduction

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Rows are resampled in blocks of time, both forecasts by the same draws, with bins and promised stakes as they are;
    ends are the value plus and minus the normal quantile times the standard deviation of the draws. The noise of rates
    is in both errors, so that a calibrator which mends all is seen to mend less: value and interval are of what as many
    rows show. `SizingError.floor` says how much of an error that noise alone would make.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.training import sizing_reduction
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.3, 0.7, 20_000)
    >>> y = rng.random(20_000) < p
    >>> print(round(sizing_reduction(y, 3.0 * (p - 0.5) / 2.0 + 0.5, p).value, 1))
    0.9
    """
    rule = as_rule(rule)
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    level = check_fraction("level", level)
    read = [read_moves(y_true, prob, None, classes, name=name) for name, prob in (("before", before), ("after", after))]
    moves, n = read[0][1], read[0][1].size
    place, block = np.arange(n), 1
    if time is None and label_end is not None:
        raise InvalidInputError("label_end comes without time. Pass the time of each row too.")
    if time is not None:
        start, end = as_label_times(time, time if label_end is None else label_end)
        check_same_length(start.size, n, "time", "before")
        times, place = np.unique(start, return_inverse=True)
        known = times.copy()
        np.maximum.at(known, place, end)
        block = block_length(times, known)
    binned = [_Binned.of(prob, weight, rule, n_bins) for prob, _, weight in read]
    parts = [one.columns(moves, place) for one in binned]
    drawn = block_draws(np.hstack(parts), block, _N_DRAWS, as_generator(rng))
    width = parts[0].shape[1]
    first, second = (
        one.errors(columns) for one, columns in zip(binned, (drawn[:, :width], drawn[:, width:]), strict=True)
    )
    raw, calibrated = (one.error(moves, np.ones(n)) for one in binned)
    if raw == 0.0:
        return SizingReduction(math.nan, math.nan, math.nan, raw, calibrated, level)
    value = 1.0 - calibrated / raw
    reductions = 1.0 - np.divide(second, first, out=np.ones_like(second), where=first > 0.0)
    half = normal_quantile(level) * float(reductions.std(ddof=1))
    return SizingReduction(value, value - half, min(value + half, 1.0), raw, calibrated, level)


@dataclass(frozen=True, slots=True, eq=False)
class _Binned:
    """Rows in bins of the difference between the probabilities of rise and fall, and what is staked in each."""

    bins: IntArray
    stake: FloatArray
    prob: Directions
    rule: StakeRule

    @classmethod
    def of(cls, prob: Directions, weight: FloatArray, rule: StakeRule, n_bins: int) -> _Binned:
        _, place = np.unique(prob.up - prob.down, return_inverse=True)
        of_score = equal_mass_bins(np.asarray(np.bincount(place, weights=weight), dtype=np.float64), n_bins)
        bins = np.unique(of_score[place], return_inverse=True)[1].astype(np.int64)  # from 0, none of them empty
        total = np.bincount(bins, weights=weight)
        promised = Directions(*(np.bincount(bins, weights=weight * p) / total for p in prob))
        return cls(bins, rule.stakes_of(promised), promised, rule)

    def error(self, moves: IntArray, weight: FloatArray) -> float:
        """Return the sizing error of these moves."""
        sums = [np.bincount(self.bins, weights=weight * of) for of in (1.0, moves == -1, moves == 1)]
        return float(self.errors(np.concatenate(sums)[None, :].astype(np.float64))[0])

    def columns(self, moves: IntArray, place: IntArray) -> FloatArray:
        """Return rows, falls and rises by bin at each place, one place a row: what `errors` takes sums of."""
        n_bins, n_places = self.stake.size, int(place.max()) + 1
        cell = place * n_bins + self.bins
        sums = [np.bincount(cell, of, n_places * n_bins) for of in (np.ones(moves.size), moves == -1, moves == 1)]
        return np.hstack([one.reshape(n_places, n_bins) for one in sums])

    def errors(self, sums: FloatArray) -> FloatArray:
        """Return the sizing error of sums of rows, falls and rises by bin, shape (m, 3 bins)."""
        total, down, up = np.split(sums, 3, axis=1)
        # a bin without rows has no rates, and counts for nothing
        down, up = (np.divide(of, total, out=np.zeros_like(of), where=total > 0.0) for of in (down, up))
        realised = Directions(*(of.ravel() for of in (down, np.maximum(1.0 - up - down, 0.0), up)))
        gap = np.abs(self.stake - self.rule.stakes_of(realised).reshape(total.shape))
        found: FloatArray = (total * gap).sum(axis=1) / total.sum(axis=1)
        return found
