"""Scaling-binning calibration."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import numpy as np

from calibrant.binning import equal_mass_bins, midpoints
from calibrant.calibrators._parts import deal
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.calibrators.beta import BetaCalibrator
from calibrant.calibrators.isotonic import IsotonicCalibrator
from calibrant.calibrators.quadratic import QuadraticCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.errors import InvalidInputError
from calibrant.maps import BinaryMap, StepMap
from calibrant.numerics import FloatArray, IntArray
from calibrant.summary import Cells, ScoreRows, ScoreSummary
from calibrant.validation import InputKind, check_choice, check_integer

Scaler = Literal["sigmoid", "beta", "quadratic", "spline", "isotonic"]


class ScalingBinningCalibrator(BinaryCalibrator):
    """Scale, then bin: each bin of scores gets the mean scaled probability of its rows.

    Parameters
    ----------
    n_bins : int
        Number of bins of equal weight asked for; rows of equal scaled probability stay together.
    scaler : {"sigmoid", "beta", "quadratic", "spline", "isotonic"}
        The calibrator whose outputs are binned. Its own settings are the defaults.
    holdout : bool
        Fit the scaler, lay the bins and take their means on three random thirds of the rows, as the guarantee needs.
        By default all rows do all three: better outputs from few rows, without the guarantee.
    seed : int
        Seed of the thirds; the same seed gives the same thirds.
    input : {"probability", "logit", "score"}
        What the scores are. Beta takes probabilities only.

    Notes
    -----
    The outputs are few, so their calibration error can be measured, which that of a continuous map can't be. The
    mean of scaled probabilities varies less than histogram binning's share of positives: n / B rows are not needed
    in each of B bins, only about 1 / error^2 + B rows in all (theorem 4.1 of the paper, with `holdout`).

    References
    ----------
    Kumar, Liang and Ma (2019), *Verified uncertainty calibration*, NeurIPS, section 4.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.ScalingBinningCalibrator(n_bins=2).fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.2, 0.6]).round(3)
    array([0.394, 0.606])
    """

    name: ClassVar[str] = "scaling_binning"

    def __init__(
        self,
        *,
        n_bins: int = 15,
        scaler: Scaler = "sigmoid",
        holdout: bool = False,
        seed: int = 0,
        input: InputKind = "probability",
    ) -> None:
        self.n_bins = n_bins
        self.scaler: Scaler = scaler
        self.holdout = holdout
        self.seed = seed
        self.input = input

    def _check_params(self) -> None:
        check_integer("n_bins", self.n_bins, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        check_choice("scaler", self.scaler, get_args(Scaler))
        if self.scaler == "beta" and self.input != "probability":
            raise InvalidInputError(
                f"scaler='beta' takes probabilities, but input={self.input!r}. Choose scaler='sigmoid'."
            )

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (StepMap,)

    def fit_map(self, data: ScoreRows | ScoreSummary) -> BinaryMap:
        """Scale and bin the rows or their summary."""
        cells = data.summary().cells
        scaling = laying = averaging = cells
        if self.holdout:
            scaling, laying, averaging = (
                Cells(cells.scores, weight, weight, positives)
                for weight, positives in zip(*deal(cells, 3, int(self.seed)), strict=True)
            )
        scaled = self._scaler().fit_map(_with_weight(scaling)).apply(cells.scores)
        bin_of = _bins_of_outputs(scaled, laying.weight, self.n_bins)
        levels = _means(scaled, averaging.weight, cells.weight, bin_of)
        first = np.flatnonzero(np.diff(bin_of, prepend=-1))
        return StepMap(midpoints(cells.scores[first[1:] - 1], cells.scores[first[1:]]), levels[bin_of[first]])

    def _scaler(self) -> BinaryCalibrator:
        match self.scaler:
            case "sigmoid":
                return SigmoidCalibrator(input=self.input)
            case "beta":
                return BetaCalibrator()
            case "quadratic":
                return QuadraticCalibrator(input=self.input)
            case "spline":
                return SplineCalibrator(input=self.input)
            case "isotonic":
                return IsotonicCalibrator(input=self.input)


def _with_weight(cells: Cells) -> ScoreSummary:
    """Return the summary of the cells that have weight."""
    found = cells.weight > 0.0
    return ScoreSummary(Cells(*(column[found] for column in cells)))


def _bins_of_outputs(scaled: FloatArray, weight: FloatArray, n_bins: int) -> IntArray:
    """Return the bin of each score, bins being of equal weight in the order of the scaled probability."""
    values, place = np.unique(scaled, return_inverse=True)
    mass = np.bincount(place, weights=weight, minlength=values.size).astype(np.float64, copy=False)
    bin_of: IntArray = equal_mass_bins(mass, n_bins)[place]
    return bin_of


def _means(scaled: FloatArray, weight: FloatArray, all_weight: FloatArray, bin_of: IntArray) -> FloatArray:
    """Return the mean scaled probability of each bin; one that `weight` leaves empty takes that of all its rows."""
    filled = np.bincount(bin_of, weights=weight) > 0.0
    used = np.where(filled[bin_of], weight, all_weight)
    mass = np.bincount(bin_of, weights=used)
    means = np.bincount(bin_of, weights=used * scaled) / np.where(mass > 0.0, mass, 1.0)
    lowest, highest = np.full(mass.size, np.inf), np.full(mass.size, -np.inf)
    np.minimum.at(lowest, bin_of, scaled)
    np.maximum.at(highest, bin_of, scaled)
    ordered: FloatArray = np.minimum(np.maximum(means, lowest), highest)  # whatever the rounding
    return ordered
