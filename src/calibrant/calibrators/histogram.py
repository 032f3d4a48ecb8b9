"""Histogram binning."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.maps import BinaryMap, StepMap
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, clear_edges, equal_mass_starts, midpoints, near_ends
from calibrant.validation import InputKind, check_choice, check_integer

Strategy = Literal["quantile", "uniform"]
#: The most bins: those of equal width are held one by one, those of equal weight are numbered by a float64.
_MOST_BINS = {"quantile": 1 << 53, "uniform": 10_000_000}


@named("histogram")
class HistogramCalibrator(BinaryCalibrator):
    """Histogram binning: each bin of scores gets its share of positives.

    Parameters
    ----------
    n_bins : int
        Number of bins asked for; ties and empty bins can leave fewer.
    strategy : {"quantile", "uniform"}
        Bins of equal weight, or of equal width over [0, 1] for probabilities and over the range of other scores.
    input : {"probability", "logit", "score"}
        What the scores are.

    Notes
    -----
    A bin holds the scores above its lower edge up to and with its upper one. Equal scores are never split between
    quantile bins, whose edges lie midway between neighbouring scores. The room of an empty bin is shared at its
    middle by its neighbours, so that each step's level is a rate that was observed.

    References
    ----------
    Zadrozny and Elkan (2001), *Obtaining calibrated probability estimates from decision trees and naive Bayesian
    classifiers*, ICML.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.HistogramCalibrator(n_bins=2).fit([0.1, 0.2, 0.7, 0.9], [0, 1, 1, 1])
    >>> calibrator.predict_proba([0.3, 0.6])
    array([0.5, 1. ])
    """

    map_kinds = (StepMap,)

    def __init__(self, *, n_bins: int = 15, strategy: Strategy = "quantile", input: InputKind = "probability") -> None:
        self.n_bins = n_bins
        self.strategy: Strategy = strategy
        self.input = input

    def check_params(self) -> None:
        super().check_params()
        check_choice("strategy", self.strategy, get_args(Strategy))
        check_integer("n_bins", self.n_bins, minimum=1, maximum=_MOST_BINS[self.strategy])

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        distinct = data.summary().near_ties
        if self.strategy == "quantile":
            first = equal_mass_starts(distinct.weight, self.n_bins)
            edges = midpoints(distinct.scores[first[1:] - 1], distinct.scores[first[1:]])
        else:
            low, high = (0.0, 1.0) if self.input == "probability" else (distinct.scores[0], distinct.scores[-1])
            inner = np.linspace(low, high, self.n_bins + 1)[1:-1]
            bin_of = np.searchsorted(near_ends(inner)[1], distinct.scores, side="left")
            first = np.flatnonzero(np.diff(bin_of, prepend=-1))
            found = bin_of[first]
            edges = midpoints(inner[found[:-1]], inner[found[1:] - 1])
        edges = clear_edges(edges, distinct.scores[first[1:] - 1], distinct.scores[first[1:]])
        weight = np.add.reduceat(distinct.weight, first)
        return StepMap(edges, np.add.reduceat(distinct.positives, first) / weight)
