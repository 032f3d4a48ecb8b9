"""Threshold recalibration: decisions of the kind P(Y <= y0) <= alpha lose what they promise to lose.

The number of rounds is chosen by the CRPS of held-out rows, with no recalibration and the average one among the
candidates. Rounds are made on all but each fold, one at a time in all folds. After each, the rows left out are scored
by the mean squared error of P(Y <= y) at 40 thresholds, a CRPS by quadrature. Rounds stop where the score has not
fallen for 40 of them; taken is the simplest candidate whose score is within half a standard error of the best, by
paired differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, InvalidWeightError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import Knots, sum_by
from calibrant.forecasts.points import refuse
from calibrant.forecasts.recalibrators.base import Layer, Recalibrator, named
from calibrant.forecasts.recalibrators.direct import fit_levels
from calibrant.forecasts.recalibrators.maps import OneMap
from calibrant.forecasts.recalibrators.rounds import (
    MeanOfChains,
    Paper,
    Regularised,
    Rounds,
    ThresholdChain,
    ThresholdRound,
    middle_thresholds,
)
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count
from calibrant.validation import ArrayLike, check_choice, check_flag, check_fraction, check_integer, check_number

Algorithm: TypeAlias = Literal["regularised", "paper"]
Stopping: TypeAlias = Literal["auto", "cross-validation", "validation", "epsilon"]
Choice: TypeAlias = Literal["none", "average", "rounds"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
#: Called after each round with the number of rounds done, the most there may be, and the greatest error.
Progress: TypeAlias = Callable[[int, int, float], None]
_MAX_ROUNDS = {"regularised": 150, "paper": 40}
#: By default: rows up to which all cuts are searched, those up to which folds are used, and cuts of more rows.
_MOST_EXACT, _MOST_FOLDED, _N_CUTS = 5_000, 20_000, 64
#: Rows that the paper's algorithm leaves on each side at least. Steps of equal weight of the regularised maps.
_LEAST_LEAF, _N_KNOTS = 5, 20
#: Thresholds at which the CRPS of held-out rows is taken, and rounds without a better one that end the search.
_N_SCORED, _PATIENCE = 40, 40
#: A simpler candidate may be worse than the best by so many standard errors, taken from so many parts of the rows.
_TOLERANCE, _N_PARTS = 0.5, 200


@named("threshold")
@dataclass(eq=False, repr=False)
class ThresholdRecalibrator(Recalibrator):
    """Recalibrate so that outcomes are as the forecast says among the rows on either side of every threshold.

    For all y0 and alpha, of the rows with P(Y <= y0) <= alpha, and of those above, a share c shall have outcomes
    below their forecast's quantile of level c. Each round finds the (y0, alpha) where this fails the most, and maps
    the levels of the rows on both sides.

    Parameters
    ----------
    algorithm : {"regularised", "paper"}
        "paper" is algorithm 1 of Sahoo et al. as their code runs it: 50 thresholds between the 20% and 80% quantiles
        of the outcomes, 20 alphas from 0.05 to 0.95, the L1 error of both sides added, and the empirical distribution
        of the levels as map, which has no density to speak of after 40 rounds. "regularised" splits by the
        mass-weighted Cramer-von Mises distance over all cuts and takes small steps along smoothed maps, as many as
        held-out rows ask for.
    epsilon : float
        Stop when the greatest error is at most this: of "paper", its own; of "regularised", the root of the
        distance, which the mass-weighted threshold calibration error never exceeds.
    max_rounds : int, optional
        150, and 40 of "paper", by default.
    min_leaf : int, optional
        Least weight on both sides of a split. By default 30 or a twentieth of the weight, whichever is more; of
        "paper", more than 200, or than a quarter of the rows where these are fewer than 800, or than 5.
    learning_rate, pseudo_counts : float
        Of "regularised": the share of the way to go in each round, and the rows of the identity that each map is
        drawn towards.
    n_thresholds : int
        Number of thresholds y0 that are searched: of "regularised" at equal steps between the 2% and 98% quantiles,
        each midway between two distinct outcomes. As many as there are rows searches all.
    n_cuts : int, optional
        Number of alphas per threshold that are searched, at equal steps of weight, with the levels counted in 64
        bins. By default all are, exactly, up to 5,000 rows, and 64 above.
    stopping : {"auto", "cross-validation", "validation", "epsilon"}
        What ends the rounds of "regularised": the CRPS of folds that were left out, or of one part of the rows, as
        "auto" does above 20,000 rows; no recalibration and the average one are candidates too, and the simplest
        within half a standard error of the best is taken. "epsilon" runs until `epsilon` or `max_rounds` is reached.
    n_folds : int, optional
        By default 5, and up to 20 where there are less than 1,000 rows; no more than there are clusters or times.
    validation_share : float
        The part of the rows that "validation" leaves out.
    bagged : bool
        Keep the mixture of the folds' recalibrations, in place of one fitted to all rows.
    direct_layer : bool
        Then fit, for each of `n_thresholds` thresholds, an isotonic regression of Y <= y0 on its probability. It
        lowers the reliability gap further, and gives single outcomes that are frequent a probability of their own.
    seed : int
        Of the folds.
    progress : callable, optional
        Called after each round with the number of rounds done, the most there may be, and the greatest error.

    Attributes
    ----------
    rounds_ : tuple of ThresholdRound
        What each round split on, the greatest error before and after it, and the weight on both sides.
    choice_ : {"none", "average", "rounds"}
        What was kept: "none" where held-out rows say that the forecasts are best left alone.
    cv_ : Chosen or None
        The held-out score of each candidate, where there was a choice.

    Notes
    -----
    **Guarantee.** A forecast without error at (y0, alpha) makes the loss of the decision [P(Y <= y0) <= alpha] come
    out as promised for every loss that asks whether Y <= y0. For losses that ask about another threshold it need not,
    and a loss that comes out as promised doesn't imply that the error is zero, unlike the paper's theorem 1 says.

    **Rounds.** With full steps along unsmoothed maps, a split whose mass-weighted error is w raises the mean log
    score of the fitting rows by 2 w^2 or more (Pinsker), so that at most KL / (2 epsilon^2) rounds end with an error
    of at most epsilon, KL being what the log score could gain at all. This holds of the mass-weighted error, not of
    the paper's plain sum. "regularised" takes smaller steps; `max_rounds` is its bound.

    **Weights.** A weight of 2 is two rows in every map, leaf and error; only folds are drawn without regard to weights.
    "paper" counts rows, so that its weights must be whole numbers.

    References
    ----------
    Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS, definition 4 and
    algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, ThresholdRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=2000)
    >>> y = mean + np.where(mean > 0, 2.0, 0.5) * rng.normal(size=2000)
    >>> forecast = GaussianForecast(mean, np.ones(2000))
    >>> recalibrator = ThresholdRecalibrator().fit(forecast, y)
    >>> recalibrator.choice_
    'rounds'
    >>> low, high = recalibrator.transform(GaussianForecast([-1.0, 1.0], [1.0, 1.0])).interval(0.9)
    >>> (high - low).round(1)
    array([1.9, 6.3])
    """

    unsaved = ("progress",)

    algorithm: Algorithm = "regularised"
    _: KW_ONLY
    epsilon: float = 0.0
    max_rounds: int | None = None
    min_leaf: int | None = None
    learning_rate: float = 0.3
    pseudo_counts: float = 20.0
    n_thresholds: int = 50
    n_cuts: int | None = None
    stopping: Stopping = "auto"
    n_folds: int | None = None
    validation_share: float = 0.2
    bagged: bool = False
    direct_layer: bool = False
    seed: int = 0
    progress: Progress | None = None
    rounds_: tuple[ThresholdRound, ...] = field(init=False)
    choice_: Choice = field(init=False)
    cv_: Chosen | None = field(init=False)

    def fit_more(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
    ) -> Self:
        """Go on from what was fitted, on other rows or more of them: further rounds are made of what is left to do.

        Parameters
        ----------
        forecast : Forecast
            From the same forecaster as those of the fit, not recalibrated.
        y, sample_weight, cluster, time, label_end
            See `fit`.
        """
        self.check_fitted()
        known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end}
        rows = read_outcomes(self.transform(as_forecast(forecast)), y, sample_weight, **known)
        layers, rounds = self.layers_, self.rounds_
        self.layers_ = (*layers, *self._fit(rows))
        self.rounds_ = (*rounds, *self.rounds_)
        self.n_rows_ += len(rows)
        return self

    def describe(self) -> list[str]:
        if self.choice_ == "average":
            return ["one map of levels for all rows"]
        if self.choice_ == "rounds":
            return [count(len(self.rounds_), "round") if self.rounds_ else "a mixture of rounds"]
        is_chosen = self.algorithm == "regularised" and self.stopping != "epsilon"
        return ["no rounds" + (", since none does better on rows held out" if is_chosen else "")]

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        self.cv_, self.rounds_ = None, ()
        layers = self._fit_paper(rows) if self.algorithm == "paper" else self._fit_regularised(rows)
        if not self.direct_layer:
            return layers
        for layer in layers:
            rows = replace(rows, forecast=layer.apply(rows.forecast))
        return (*layers, fit_levels(rows, self.n_thresholds, self.pseudo_counts))

    def _fit_paper(self, rows: Outcomes) -> tuple[Layer, ...]:
        if rows.weight is not None:
            problem = 'is no whole number, but algorithm="paper" counts rows'
            fix = 'Use algorithm="regularised", or whole numbers.'
            refuse(rows.weight != np.floor(rows.weight), rows.weight, "sample_weight", problem, fix, InvalidWeightError)
            repeated = rows.take(np.repeat(np.arange(len(rows)), rows.weight.astype(np.int64)))
            rows = Outcomes(repeated.forecast, repeated.y, None)
        n = len(rows)
        rising = np.sort(rows.y)
        low, high = rising[int(0.2 * n)], rising[int(0.8 * n)]
        thresholds = np.linspace(low, high, self.n_thresholds) if low < high else np.array([low])
        least = max(min(200, (n - 1) // 4), _LEAST_LEAF) if self.min_leaf is None else self.min_leaf
        alphas = np.linspace(0.05, 0.95, 20 if self.n_cuts is None else self.n_cuts)
        return self._run(Rounds(rows, thresholds, Paper(alphas, float(least)), self.epsilon))

    def _fit_regularised(self, rows: Outcomes) -> tuple[Layer, ...]:
        total = float(rows.weights.sum())
        least = max(30.0, total / 20.0) if self.min_leaf is None else float(self.min_leaf)
        n_cuts = self.n_cuts if self.n_cuts is not None or len(rows) <= _MOST_EXACT else _N_CUTS
        rule = Regularised(least, n_cuts, _N_KNOTS, self.pseudo_counts, self.learning_rate)
        thresholds = middle_thresholds(rows.y, rows.weights, self.n_thresholds, 0.02, 0.98)
        if self.stopping == "epsilon":
            return self._run(Rounds(rows, thresholds, rule, self.epsilon))
        self.choice_ = "none"
        if len(rows) > 1:
            folds = self._folds(rows)
            self.cv_ = choose(rows, thresholds, rule, self.epsilon, folds, self._most, self.progress)
            self.choice_ = self.cv_.choice
        if self.cv_ is None or self.choice_ == "none":
            return ()
        if self.choice_ == "average":
            return (OneMap(*rule.smooth_map(rows.levels(), rows.weights)),)
        if self.bagged:
            return (MeanOfChains(self.cv_.chains),)
        return self._run(Rounds(rows, thresholds, rule, self.epsilon), self.cv_.n_rounds)

    def _folds(self, rows: Outcomes) -> IntArray:
        """Return the fold that leaves each row out; -1 where none does."""
        n = len(rows)
        mixed = np.random.default_rng(self.seed).permutation(n)
        is_small = n <= _MOST_FOLDED or self.bagged
        if self.stopping == "cross-validation" or (self.stopping == "auto" and is_small):
            few = min(max(5_000 // n, 5), 20)  # few rows can spare only few
            n_folds = few if self.n_folds is None else self.n_folds
            return rows.dependence.folds(n_folds, self.seed) if rows.dependence else mixed % min(n_folds, n)
        if rows.dependence:  # one whole part, in time the last
            n_parts = max(round(1.0 / self.validation_share), 2)
            parts = rows.dependence.folds(n_parts, self.seed)
            return np.where(parts == parts.max(), 0, -1)
        part = np.full(n, -1, dtype=np.int64)
        part[mixed[: max(round(self.validation_share * n), 1)]] = 0
        return part

    def _run(self, rounds: Rounds, most: int | None = None) -> tuple[Layer, ...]:
        most = self._most if most is None else most
        for done in rounds.run(most):
            if self.progress is not None:
                self.progress(done, most, rounds.greatest_error)
        self.rounds_ = tuple(rounds.records)
        self.choice_ = "rounds" if self.rounds_ else "none"
        return (rounds.chain(),) if self.rounds_ else ()

    @property
    def _most(self) -> int:
        return _MAX_ROUNDS[self.algorithm] if self.max_rounds is None else self.max_rounds

    def _check_settings(self) -> None:
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        check_choice("stopping", self.stopping, get_args(Stopping))
        check_integer("n_thresholds", self.n_thresholds, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        for name, minimum in (("max_rounds", 1), ("min_leaf", 1), ("n_cuts", 2), ("n_folds", 2)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=minimum)
        check_fraction("validation_share", self.validation_share)
        for name in ("bagged", "direct_layer"):
            check_flag(name, getattr(self, name))
        for name in ("epsilon", "pseudo_counts"):
            check_number(name, getattr(self, name), minimum=0.0)
        if not 0.0 < check_number("learning_rate", self.learning_rate) <= 1.0:
            raise InvalidInputError(f"learning_rate={self.learning_rate!r} is outside (0, 1]. Pass one such as 0.3.")

    def encode(self) -> dict[str, Any]:
        body = super().encode()
        return {**body, "choice": self.choice_, "rounds": [made.encode() for made in self.rounds_]}

    def restore(self, body: DocumentField) -> None:
        super().restore(body.without("choice").without("rounds"))
        self.choice_ = body.member("choice").choice(CHOICES)
        self.rounds_ = tuple(map(ThresholdRound.decode, body.member("rounds").items(minimum=0)))
        self.cv_ = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen by held-out rows, and the mean score of each candidate.

    Attributes
    ----------
    choice, n_rounds : {"none", "average", "rounds"}, int
    score_average, score_rounds : float, ndarray
        Mean squared error at the scored thresholds of the average recalibration, and of 0, 1, 2, ... rounds; of 0 it
        is that of no recalibration.
    chains : tuple of ThresholdChain
        What was fitted on all but each fold, up to `n_rounds`.
    """

    choice: Choice
    n_rounds: int
    score_average: float
    score_rounds: FloatArray
    chains: tuple[ThresholdChain, ...]


class _Fold:
    """Rounds on the rows that a fold keeps, and what they make of the rows that it leaves out."""

    def __init__(self, rounds: Rounds, left_out: Outcomes, scored: FloatArray) -> None:
        self.rounds = rounds
        self._n_searched = rounds.state.thresholds.size
        points = np.concatenate((rounds.state.thresholds, scored))
        self._levels = np.array(left_out.forecast.cdf(points[None, :]), dtype=np.float64, order="C")
        self._is_below = left_out.y[:, None] <= scored
        self._weight = left_out.weights
        units = left_out.units()
        code, n = (np.arange(len(left_out)), len(left_out)) if units is None else (units.code, units.n)
        self._part = code * _N_PARTS // n

    def step(self) -> bool:
        """Make a round, and map what is left out by it; return false where there is nothing to split."""
        if not self.rounds.step():
            return False
        split = self.rounds.splits[-1]
        side = (self._levels[:, split.k] > split.alpha).astype(np.int32)[:, None]
        self.rounds.maps[-1].apply(self._levels, side)
        return True

    def score(self, by: Knots | None = None) -> FloatArray:
        """Return, of each part of the rows, the sum of their mean squared errors at the scored thresholds."""
        levels = self._levels[:, self._n_searched :]
        if by is not None:
            levels = np.interp(levels, *by)
        return sum_by(self._part, self._weight * np.square(levels - self._is_below).mean(axis=1), _N_PARTS)


def choose(
    rows: Outcomes,
    thresholds: FloatArray,
    rule: Regularised,
    epsilon: float,
    fold_of: IntArray,
    most: int,
    progress: Progress | None,
) -> Chosen:
    """Choose by held-out rows: `fold_of` numbers the fold that leaves a row out, from 0 on; -1 is never left out."""
    scored = middle_thresholds(rows.y, rows.weights, _N_SCORED, 0.01, 0.99)
    folds = [
        _Fold(Rounds(rows.fitted_without(fold_of, k), thresholds, rule, epsilon), rows.take(fold_of == k), scored)
        for k in range(int(fold_of.max()) + 1)
    ]
    states = [fold.rounds.state for fold in folds]
    average = [fold.score(rule.smooth_map(s.level, s.weight)) for fold, s in zip(folds, states, strict=True)]
    scores = [[fold.score() for fold in folds]]
    totals = [float(np.sum(scores[0]))]
    while len(totals) <= most and len(totals) - int(np.argmin(totals)) <= _PATIENCE:
        stepped = [fold.step() for fold in folds]
        if not any(stepped):
            break
        scores.append([fold.score() for fold in folds])
        totals.append(float(np.sum(scores[-1])))
        if progress is not None:
            progress(len(totals) - 1, most, max(fold.rounds.greatest_error for fold in folds))
    simplest = _simplest(np.array([np.ravel(each) for each in (scores[0], average, *scores[1:])]))
    n_rounds = max(simplest - 1, 0)
    total = float(rows.weights[fold_of >= 0].sum())
    return Chosen(
        CHOICES[min(simplest, 2)],
        n_rounds,
        float(np.sum(average)) / total,
        np.array(totals) / total,
        tuple(fold.rounds.chain(n_rounds) for fold in folds),
    )


def _simplest(scores: FloatArray) -> int:
    """Return the first candidate that is not worse than the best by more than chance, scores having shape (c, parts).

    By paired differences, part by part: a score that hardly differs costs density for nothing.
    """
    excess = scores - scores[int(scores.sum(axis=1).argmin())]
    n = excess.shape[1]
    error = np.sqrt(np.square(excess - excess.mean(axis=1, keepdims=True)).sum(axis=1) * n / max(n - 1, 1))
    return int(np.argmax(excess.sum(axis=1) <= _TOLERANCE * error))
