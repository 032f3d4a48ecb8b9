"""Threshold recalibration: decisions of the kind P(Y <= y0) <= alpha lose what they promise to lose.

The number of rounds is chosen by the CRPS of held-out rows (`choice`), or they end at an error (`epsilon`) on the rows
that they are fitted to. What ended them, and how large which error then is, is in `RoundsResult`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, InvalidWeightError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import refuse
from calibrant.forecasts.recalibrators.base import Layer, Recalibrator, named
from calibrant.forecasts.recalibrators.choice import CHOICES, Choice, Chosen, Progress, choose
from calibrant.forecasts.recalibrators.direct import fit_levels
from calibrant.forecasts.recalibrators.maps import OneMap
from calibrant.forecasts.recalibrators.rounds import (
    MeanOfChains,
    Paper,
    Regularised,
    Rounds,
    ThresholdRound,
    middle_thresholds,
)
from calibrant.forecasts.recalibrators.rounds_result import (
    MEASURES,
    RoundsResult,
    StoppedBy,
    rounds_result,
    warn_of_few_rows,
)
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count
from calibrant.validation import ArrayLike, check_choice, check_flag, check_fraction, check_integer, check_number

#: The layers of a fit, the error that is left over the splits searched, and what stopped the rounds.
_Ended: TypeAlias = tuple[tuple[Layer, ...], float, StoppedBy]
Algorithm: TypeAlias = Literal["regularised", "paper"]
Stopping: TypeAlias = Literal["auto", "cross-validation", "validation", "epsilon"]
_MAX_ROUNDS = {"regularised": 150, "paper": 40}
#: By default: rows up to which all cuts are searched, those up to which folds are used, and cuts of more rows.
_MOST_EXACT, _MOST_FOLDED, _N_CUTS = 5_000, 20_000, 64
#: Rows that the paper's algorithm leaves on each side at least. Steps of equal weight of the regularised maps.
_LEAST_LEAF, _N_KNOTS = 5, 20


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
        Stop when the greatest error of the splits searched, those that leave `min_leaf` on both sides, is at most this:
        of "paper", its own; of "regularised", the root of the distance, which the mass-weighted threshold calibration
        error never exceeds. Above 0, a fit that ends above it warns. Errors of smaller sides are in `result_`.
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
        within half a standard error of the best is taken. This CRPS is a quadrature: the squared error of P(Y <= y)
        at up to 40 thresholds inside the outcomes' 1% to 99%. Of outcomes that hardly vary there are few, or one, and
        it may keep "none" where `AverageRecalibrator` is better. "epsilon" runs until `epsilon` or `max_rounds` is
        reached.
    n_folds : int, optional
        By default 5, and up to 20 where there are less than 1,000 rows; no more than there are clusters or times.
    validation_share : float
        The part of the rows that "validation" leaves out.
    bagged : bool
        Keep the mixture of the folds' recalibrations, in place of one fitted to all rows; of "regularised" where
        held-out rows stop the rounds.
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
        What each round split on, the greatest error before and after it, and the weight on both sides. Where `bagged`,
        the rounds of each fold, one fold after the other, with its number.
    result_ : RoundsResult or None
        What ended the rounds, the error that they went by, the greatest of all splits, and what is guaranteed. None
        where the recalibrator was read from a document that has none.
    choice_ : {"none", "average", "rounds"}
        What was kept: "none" where held-out rows say that the forecasts are best left alone.
    cv_ : Chosen or None
        The held-out score of each candidate, where there was a choice.

    Notes
    -----
    **Guarantee.** What holds of the rows fitted to is in `result_.guarantee`; nothing of new rows follows from it. A
    forecast without error at (y0, alpha) makes the loss of the decision [P(Y <= y0) <= alpha] come out as promised for
    every loss that asks whether Y <= y0. For losses that ask about another threshold it need not, and a loss that comes
    out as promised doesn't imply that the error is zero, unlike the paper's theorem 1 says.

    **Rounds.** With full steps along unsmoothed maps, a split whose mass-weighted error is w raises the mean log
    score of the fitting rows by 2 w^2 or more (Pinsker), so that at most KL / (2 epsilon^2) rounds end with an error
    of at most epsilon, KL being what the log score could gain at all. This holds of the mass-weighted error, not of
    the paper's plain sum. "regularised" takes smaller steps; `max_rounds` is its bound.

    **Weights.** A weight of 2 is two rows in every map, leaf and error; only folds are drawn without regard to weights.
    "paper" counts rows, so that its weights must be whole numbers.

    **Few rows.** Rounds that no held-out row stops ("paper", and ``stopping="epsilon"``) fit noise: below 800 rows they
    warn. By default few rows get one map or none, with a warning where no split leaves `min_leaf` on both sides.

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
    result_: RoundsResult | None = field(init=False)

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
        self.layers_ = (*layers, *self._fit(rows.as_joined()))
        self.rounds_ = (*rounds, *self.rounds_)
        self.n_rows_ += len(rows)
        return self

    def describe(self) -> list[str]:
        return [self._in_words(), *([] if self.result_ is None else self.result_.describe())]

    def _in_words(self) -> str:
        """Return what was kept, in a few words."""
        if self.choice_ == "average":
            return "one map of levels for all rows"
        if self.choice_ == "none":
            return "no rounds" + (", since none does better on rows held out" if self._is_checked else "")
        n_folds = len({made.fold for made in self.rounds_} - {None})
        if n_folds:
            n = max(sum(made.fold == k for made in self.rounds_) for k in range(n_folds))
            return f"a mixture of {count(n, 'round')} in each of {count(n_folds, 'fold')}"
        return count(len(self.rounds_), "round")

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        self.cv_, self.rounds_ = None, ()
        counted, thresholds, rule = self._paper(rows) if self.algorithm == "paper" else self._regularised(rows)
        n = len(counted) if not self._is_checked else float(rows.weights.sum())
        warn_of_few_rows(n, rule.least_side, is_checked=self._is_checked)
        if isinstance(rule, Regularised) and self._is_checked:
            layers, error, stopped_by = self._fit_checked(rows, thresholds, rule)
        else:
            layers, error, stopped_by = self._run(Rounds(counted, thresholds, rule, self.epsilon))
        if self.direct_layer:
            layers = (*layers, fit_levels(_after(rows, layers), self.n_thresholds, self.pseudo_counts))
            error = Rounds(_after(counted, layers), thresholds, rule, self.epsilon).greatest_error
        self.result_ = rounds_result(
            _after(rows, layers),
            thresholds,
            rule.alphas if isinstance(rule, Paper) else None,
            stopped_by=stopped_by,
            n_rounds=len(self.rounds_),
            epsilon=float(self.epsilon),
            stopping_measure=MEASURES[self.algorithm],
            stopping_error=error,
            least_side=rule.least_side,
        )
        self.result_.warn_above_epsilon(self._most)
        return layers

    @property
    def _is_checked(self) -> bool:
        """Whether held-out rows stop the rounds."""
        return self.algorithm == "regularised" and self.stopping != "epsilon"

    def _paper(self, rows: Outcomes) -> tuple[Outcomes, FloatArray, Paper]:
        """Return the rows as the paper counts them, the thresholds that it searches, and its rule."""
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
        return rows, thresholds, Paper(alphas, float(least))

    def _regularised(self, rows: Outcomes) -> tuple[Outcomes, FloatArray, Regularised]:
        """Return the rows, the thresholds that are searched, and the rule."""
        total = float(rows.weights.sum())
        least = max(30.0, total / 20.0) if self.min_leaf is None else float(self.min_leaf)
        n_cuts = self.n_cuts if self.n_cuts is not None or len(rows) <= _MOST_EXACT else _N_CUTS
        rule = Regularised(least, n_cuts, _N_KNOTS, self.pseudo_counts, self.learning_rate)
        return rows, middle_thresholds(rows.y, rows.weights, self.n_thresholds, 0.02, 0.98), rule

    def _fit_checked(self, rows: Outcomes, thresholds: FloatArray, rule: Regularised) -> _Ended:
        """Return what held-out rows choose."""
        self.choice_ = "none"
        if len(rows) > 1:
            folds = self._folds(rows)
            self.cv_ = choose(rows, thresholds, rule, self.epsilon, folds, self._most, self.progress)
            self.choice_ = self.cv_.choice
        layers: tuple[Layer, ...] = ()
        is_most = self.cv_ is not None and self.cv_.n_rounds == self._most
        stopped_by: StoppedBy = "max_rounds" if is_most else "held-out rows"
        if self.cv_ is not None and self.choice_ == "rounds" and not self.bagged:
            layers, error, _ = self._run(Rounds(rows, thresholds, rule, self.epsilon), self.cv_.n_rounds)
            return layers, error, stopped_by
        if self.cv_ is not None and self.choice_ == "rounds":
            layers = (MeanOfChains(self.cv_.chains),)
            self.rounds_ = tuple(made for fold in self.cv_.records for made in fold)
        elif self.choice_ == "average":
            layers = (OneMap(*rule.smooth_map(rows.levels(), rows.weights)),)
        left = Rounds(_after(rows, layers), thresholds, rule, self.epsilon)
        return layers, left.greatest_error, stopped_by

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

    def _run(self, rounds: Rounds, most: int | None = None) -> _Ended:
        most = self._most if most is None else most
        for done in rounds.run(most):
            if self.progress is not None:
                self.progress(done, most, rounds.greatest_error)
        self.rounds_ = rounds.records()
        self.choice_ = "rounds" if self.rounds_ else "none"
        error = rounds.greatest_error
        stopped_by: StoppedBy = (
            "no split" if math.isnan(error) else "epsilon" if error <= self.epsilon else "max_rounds"
        )
        return (rounds.chain(),) if self.rounds_ else (), error, stopped_by

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
        if self.bagged and not self._is_checked:
            raise InvalidInputError(
                f"bagged=True with algorithm={self.algorithm!r} and stopping={self.stopping!r}: no folds are made "
                'whose mixture could be kept. Use algorithm="regularised" with stopping="auto", or bagged=False.'
            )

    def encode(self) -> dict[str, Any]:
        body = super().encode()
        result = {} if self.result_ is None else {"result": self.result_.encode()}
        return {**body, "choice": self.choice_, "rounds": [made.encode() for made in self.rounds_], **result}

    def restore(self, body: DocumentField) -> None:
        super().restore(body.without("choice").without("rounds").without("result"))
        self.choice_ = body.member("choice").choice(CHOICES)
        self.rounds_ = tuple(map(ThresholdRound.decode, body.member("rounds").items(minimum=0)))
        self.result_ = RoundsResult.decode(body.member("result")) if "result" in body.object() else None
        self.cv_ = None


def _after(rows: Outcomes, layers: tuple[Layer, ...]) -> Outcomes:
    """Return rows whose forecasts are recalibrated by layers."""
    for layer in layers:
        rows = replace(rows, forecast=layer.apply(rows.forecast))
    return rows
