"""Nearly-isotonic calibration."""

from __future__ import annotations

import numbers
from typing import ClassVar, Literal

import numpy as np

from calibrant import kernels
from calibrant.binning import equal_mass_bins, midpoints
from calibrant.calibrators._parts import deal
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.maps import BinaryMap, StepMap
from calibrant.numerics import FloatArray, clip_open, dot, least_output
from calibrant.summary import Cells, ScoreRows, ScoreSummary
from calibrant.validation import InputKind, check_integer

_N_FOLDS = 5
_SEED = 0
#: Penalties that cross-validation tries, in units of the square root of a cell's mean weight, with 0 before them and
#: the isotonic fit after them.
_FACTORS = np.concatenate(([0.0], np.logspace(-1.5, 1.5, 10), [np.inf]))


class NearIsotonicCalibrator(BinaryCalibrator):
    """Nearly-isotonic regression of cell rates: steps that may fall, at a price.

    Parameters
    ----------
    lam : float or "cv"
        Price of a fall by one, in rows: 0 leaves the cells' own rates, which is histogram binning; a large number
        gives the isotonic regression of the cells. "cv" chooses it by 5-fold cross-validated log loss.
    n_bins : int
        Number of cells of equal weight asked for; equal scores stay together.
    input : {"probability", "logit", "score"}
        What the scores are; only their order matters.

    Notes
    -----
    Minimises 1/2 sum_i w_i (r_i - b_i)^2 + lam sum_i max(b_i - b_{i+1}, 0) over the cells, r_i their shares of
    positives, by the exact path of solutions. The map may fall where the data insist: use it to see whether a score
    is monotone at all, and another calibrator where an order has to be kept. Rates of 0 and 1 stay what they are.

    The folds are the same in every fit. Held-out rates are kept 1 / (n + 2) from 0 and 1 in the log loss.

    References
    ----------
    Tibshirani, Hoefling and Tibshirani (2011), *Nearly-isotonic regression*, Technometrics 53(1), equation 1 and
    algorithm 1, here with weights. Naeini and Cooper (2016), *Binary classifier calibration using an ensemble of near
    isotonic regression models*, ICDM.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.NearIsotonicCalibrator(lam=0.25).fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.1, 0.3, 0.5, 0.7])
    array([0.  , 0.75, 0.25, 1.  ])
    """

    name: ClassVar[str] = "near_isotonic"

    def __init__(
        self, *, lam: float | Literal["cv"] = "cv", n_bins: int = 100, input: InputKind = "probability"
    ) -> None:
        self.lam: float | Literal["cv"] = lam
        self.n_bins = n_bins
        self.input = input

    def _check_params(self) -> None:
        check_integer("n_bins", self.n_bins, minimum=1)
        _check_price(self.lam)

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (StepMap,)

    def fit_map(self, data: ScoreRows | ScoreSummary) -> BinaryMap:
        """Pool falling cells of the rows or their summary as far as the price says."""
        cells = data.summary().cells
        first = np.flatnonzero(np.diff(equal_mass_bins(cells.weight, self.n_bins), prepend=-1))
        edges = midpoints(cells.scores[first[1:] - 1], cells.scores[first[1:]])
        bins = Cells(*(np.add.reduceat(column, first) for column in cells))
        penalty = _cross_validate(bins) if self.lam == "cv" else float(self.lam)
        return StepMap(edges, np.clip(_solve(bins, np.array([penalty]))[0], 0.0, 1.0))


def _check_price(lam: object) -> None:
    if lam == "cv":
        return
    if isinstance(lam, bool) or not isinstance(lam, numbers.Real):
        raise InvalidTypeError(f"lam={lam!r} is not a number. Pass one that is not negative, or 'cv'.")
    if not 0.0 <= float(lam) < np.inf:
        raise InvalidInputError(f"lam={lam!r} is outside [0, inf). Pass a number of rows, or 'cv'.")


def _solve(bins: Cells, penalties: FloatArray) -> FloatArray:
    """Return the solutions at rising penalties, one per row."""
    levels = np.empty((penalties.size, bins.weight.size))
    kernels.follow_near_isotonic(bins.positives / bins.weight, bins.weight, penalties, levels)
    return levels


def _cross_validate(bins: Cells) -> float:
    """Return the penalty of the lowest cross-validated log loss."""
    total = float(bins.weight.sum())
    clip = least_output(total)
    weight, positives = deal(bins, _N_FOLDS, _SEED)
    loss = np.zeros(_FACTORS.size)
    for held_weight, held_positives in zip(weight, positives, strict=True):
        kept = bins.weight - held_weight
        found = kept > 1e-9 * bins.weight
        training = Cells(bins.scores[found], kept[found], kept[found], (bins.positives - held_positives)[found])
        nearest = np.maximum(np.cumsum(found) - 1, 0)  # a cell without training rows reads the one before it
        levels = _solve(training, _FACTORS * np.sqrt(float(training.weight.mean())))[:, nearest]
        for i, q in enumerate(clip_open(levels, clip)):
            loss[i] -= dot(held_positives, np.log(q)) + dot(held_weight - held_positives, np.log1p(-q))
    factor = float(_FACTORS[loss.argmin()])
    return factor * float(np.sqrt(total / bins.weight.size)) if np.isfinite(factor) else total
