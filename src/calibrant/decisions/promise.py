"""expected_loss: what decisions will cost, said before any outcome is known.

The predictions themselves promise the mean of what each row's action is expected to lose. Two things make that promise
uncertain. The rows are a sample of those to come. And the predictions are off: those of a calibrator that was fitted to
n rows by chance, and, since each action is the one that looks cheapest under them, on the low side.

What the calibrator's own rows say of the second is found by cross-fitting. Each of them is decided by a map that was
fitted without it; its realised less its promised loss says how far promises of such maps are off. The mean of these
corrects the promise, and their variance is that of the correction: the one-step estimator of semiparametric statistics,
promise of the new rows plus mean residual of the old ones (Chernozhukov et al. 2018, *Double/debiased machine learning
for treatment and structural parameters*, Econometrics Journal 21). It needs no trust in the calibrator's family.

Where maps are cross-fitted, half of the correction, squared, is added to the variance: maps that jump, as isotonic ones
do, decide differently when a tenth of their rows is left out, which the residuals don't show. That half was chosen on
two of the laws that `benchmarks/results/decisions.txt` has, "line" and "wave"; "steps" and "rare" had no part in it. A
bootstrap of the fit rows was measured beside it: it knows nothing of a family that doesn't fit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.decisions.losses import moments
from calibrant.decisions.numbers import DistributionRecalibrator, as_distributions, as_recalibrator
from calibrant.decisions.outcomes import (
    OF_THESE_ROWS,
    Chosen,
    Decided,
    decide_rows,
    depending,
    of_taken,
    read_decided,
    read_policy,
    taken_by,
)
from calibrant.decisions.policy import Policy
from calibrant.decisions.problem import Problem
from calibrant.dependence import MeanError
from calibrant.dependent_rows import units_of
from calibrant.errors import CalibrantWarning, InvalidInputError, InvalidTypeError
from calibrant.fitted import Fitted
from calibrant.metrics import NO_ERROR, Estimate, UnitError, error_over_units, joined_errors
from calibrant.numerics import FloatArray, kish_size
from calibrant.phrases import count, figure
from calibrant.results import Score
from calibrant.rows import Rows, read_rows
from calibrant.settings import Configured
from calibrant.validation import ArrayLike, as_scores, as_weight, check_choice, check_fraction, check_integer

#: What the interval is for: the mean over rows to come like these, or over these very rows when their outcomes come.
About: TypeAlias = Literal["future", "rows"]
_ABOUT: tuple[str, ...] = get_args(About)
#: The share of a cross-fitted correction that counts as an error which its residuals don't show; see the module's text.
_UNSEEN = 0.5
#: What is known of rows, by the arguments of a recalibrator's `fit`.
_KNOWN = {"sample_weight": "weight", "cluster": "cluster", "time": "time", "label_end": "label_end"}


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationRows:
    """Rows with outcomes, which say how far predictions are off: those that a calibrator was fitted to.

    Parameters
    ----------
    scores, y : array-like, or Forecast and array-like
        As in the calibrator's `fit`; or predictions with their outcomes, of rows that nothing was fitted to.
    sample_weight, cluster, time, label_end : array-like of shape (n,), optional
        As in `calibrant.metrics.evaluate`.
    costs : frame or mapping of columns, optional
        Of these rows, for losses that need them.
    """

    scores: Any = field(repr=False)
    y: ArrayLike = field(repr=False)
    sample_weight: ArrayLike | None = field(default=None, repr=False)
    cluster: ArrayLike | None = field(default=None, repr=False)
    time: ArrayLike | None = field(default=None, repr=False)
    label_end: ArrayLike | None = field(default=None, repr=False)
    costs: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Correction:
    """What promises are off by, the error of that, and how it was found.

    `size` is the effective number of the rows that it was found on, and `more` the variance that residuals don't show.
    """

    value: float
    error: MeanError
    method: str
    size: float
    more: float = 0.0

    def of_outcomes(self, size: float) -> MeanError:
        """Return the chance in the outcomes of so many new rows, whose residuals vary as those of the old ones."""
        ratio = math.sqrt(self.size / size)
        return MeanError(self.error.error * ratio, self.error.degrees, self.error.skewness * ratio)


def expected_loss(
    predictions: Any,
    policy: Any,
    problem: Problem | Mapping[str, Any] | None = None,
    *,
    calibrator: Fitted | DistributionRecalibrator | None = None,
    fitted_to: CalibrationRows | tuple[Any, ArrayLike] | None = None,
    about: About = "future",
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    costs: Any = None,
    per: ArrayLike | None = None,
    n_folds: int = 10,
    level: float = 0.95,
    evaluated_on: str = "new rows",
) -> Score:
    """Say what decisions will cost per row, without outcomes, with an interval.

    Parameters
    ----------
    predictions : array-like of shape (n,) or (n, K), or Forecast
        As in `Policy.decide`; with `calibrator`, the scores, or the forecast, that it takes.
    policy, problem
        As in `evaluate`: a policy or a problem; or a rule, or the action of each row, with its problem.
    calibrator : fitted calibrator or forecast recalibrator, optional
        What makes probabilities of the scores, or better forecasts of the forecast. Needs `fitted_to`.
    fitted_to : CalibrationRows or (scores, y), optional
        The rows that the calibrator was fitted to. Without `calibrator`: predictions with outcomes, of rows that
        nothing was fitted to. Without either the predictions are taken for calibrated, which the note says.
    about : {"future", "rows"}
        What the interval is to hold: the mean loss of rows to come like these, or the mean loss that these very rows
        will show, in which chance has a part too: what `evaluate(promise=)` holds them to.
    sample_weight, cluster, time, label_end
        As in `calibrant.metrics.evaluate`, of the new rows.
    costs, per
        As in `Policy.decide`.
    n_folds : int
        Folds of cross-fitting: the calibrator is fitted so many times.
    level : float
        Nominal coverage of the interval.
    evaluated_on : str
        What the rows are; kept in the score.

    Returns
    -------
    Score
        `expected_loss`. Its value is the mean of what each row's action is expected to lose, corrected by what
        promises out of fold were off by; its note says what the probabilities promise uncorrected.

    Raises
    ------
    CalibrantError
        If an argument can't be used, the calibrator can't be fitted again, or a policy with capacities comes with
        `fitted_to`: which rows it would have taken there is not known.

    Notes
    -----
    The interval carries the sampling of the rows and the calibration's own uncertainty, by cross-fitting on the rows
    that the calibrator was fitted to; see the module's text for how, and `benchmarks/results/decisions.txt` for its
    coverage on rows whose truth is known. It takes the scores of those rows to be distributed like the new ones. The
    chance in outcomes that ``about="rows"`` adds is as great as it was there, or as the predictions say without them.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> from calibrant.decisions import Problem, expected_loss
    >>> rng = np.random.default_rng(0)
    >>> scores, new = rng.random(500), rng.random(2_000)
    >>> y = rng.random(500) < scores**2
    >>> calibrator = cb.BetaCalibrator().fit(scores, y)
    >>> problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    >>> print(expected_loss(new, problem, calibrator=calibrator, fitted_to=(scores, y)))
    expected_loss 0.3792 [0.3182, 0.4539]

    Of a forecast that is three times too sure, what frost will cost, 10 where it finds a field that was not sprayed:

    >>> from calibrant.forecasts import GaussianForecast
    >>> mean = rng.normal(2.0, 2.0, 1_000)
    >>> came, forecast = mean + rng.normal(size=1_000), GaussianForecast(mean, 0.3)
    >>> frost = Problem({"leave": {"frost": 10.0, "none": 0.0}, "spray": {"frost": 2.0, "none": 2.0}}, thresholds=0.0)
    >>> print(expected_loss(forecast[600:], frost))
    expected_loss 0.3848 [0.3148, 0.4637]
    >>> print(expected_loss(forecast[600:], frost, fitted_to=(forecast[:600], came[:600])))
    expected_loss 0.8412 [0.6712, 1.0493]
    """
    level = check_fraction("level", level)
    check_choice("about", about, _ABOUT)
    check_integer("n_folds", n_folds, minimum=2)
    if calibrator is not None and fitted_to is None:
        raise InvalidInputError("calibrator= needs fitted_to=, the rows (scores, y) that it was fitted to. Pass them.")
    chosen = read_policy(policy, problem)
    if fitted_to is not None and (chosen.actions is not None or chosen.policy.problem.capacity):
        what = "capacities" if chosen.actions is None else "actions that are given"
        raise InvalidInputError(
            f"fitted_to= says nothing of {what}: which its rows would get is not known. Leave it out."
        )
    read = _of_number if chosen.policy.problem.is_of_number else _of_classes
    rows, promised, variance = read(predictions, chosen, calibrator, costs, per)
    rows = _with_known(rows, sample_weight, cluster, time, label_end)
    kept = rows.weights > 0.0
    rows, promised, variance = rows.take(kept), promised[kept], variance[kept]
    off = None if fitted_to is None else _correction(chosen, calibrator, fitted_to, n_folds)
    return _score(rows, promised, variance, off, about=about, level=level, evaluated_on=evaluated_on)


def _score(
    rows: Rows,
    promised: FloatArray,
    variance: FloatArray,
    off: _Correction | None,
    *,
    about: About,
    level: float,
    evaluated_on: str,
) -> Score:
    """Return the promise of rows with weight, with its interval."""
    weight = rows.weights
    mean = float(np.average(promised, weights=weight))
    if about == "rows":  # these are given; what their outcomes will be is not
        of_outcomes = float(np.sum(weight**2 * variance)) / float(weight.sum()) ** 2
        by_predictions = MeanError(math.sqrt(of_outcomes), math.inf, 0.0)
        own = UnitError(by_predictions if off is None else off.of_outcomes(kish_size(weight)))
    else:
        own = error_over_units(promised, weight, units_of(rows, promised))
    if off is None:
        value, error, method = mean, own.error, f"{own.method}, calibration taken as exact"
        note = "the predictions are taken for calibrated: fitted_to= says how far they may be off"
    else:
        value = mean + off.value
        error = joined_errors([own.error, off.error], off.more)
        method, note = f"{own.method}, {off.method}", f"the predictions alone promise {figure(mean)}"
    note = note if math.isfinite(error.error) else NO_ERROR
    ends = error.ends(value, level)
    found = Estimate(value, *ends, method, note, effect=own.effect, where=OF_THESE_ROWS if about == "rows" else "")
    n_eff = replace(rows, cluster=None, time=None, label_end=None).effective_size
    return found.to_score("expected_loss", level=level, n=rows.n_rows, evaluated_on=evaluated_on, n_eff=n_eff)


def _of_classes(
    predictions: Any, chosen: Chosen, calibrator: Any, costs: Any, per: ArrayLike | None
) -> tuple[Rows, FloatArray, FloatArray]:
    """Return rows of probabilities, with what each row's action is expected to lose, and the variance of that."""
    policy, problem = chosen.policy, chosen.policy.problem
    if calibrator is None:
        checked = problem.read_probabilities(predictions)
        rows, given = Rows(checked.values, columns=checked.container.columns), predictions
    else:
        if not isinstance(calibrator, Fitted):
            raise InvalidTypeError(f"calibrator is a {type(calibrator).__name__}. Pass a fitted calibrator.")
        read = calibrator.read(predictions)
        n_columns = max(read.scores.ndim, 1) if read.is_binary else read.scores.shape[1]
        problem, _ = problem.for_labels(calibrator.classes_, n_columns, name="the calibrator's classes")
        made = problem.read_probabilities(calibrator.apply(read))
        policy, rows = Policy(problem, threshold=policy.threshold), read.with_scores(made.values)
        given = rows.scores
    losses = problem.loss_of_rows(rows.n_rows, costs)
    by_policy = policy.codes(rows.scores, losses, policy.read_per(per, rows.n_rows))
    taken = chosen.taken(given, by_policy, rows.n_rows)
    mean, variance = moments(rows.scores, losses)
    return rows, of_taken(mean, taken), of_taken(variance, taken)


def _of_number(
    predictions: Any, chosen: Chosen, calibrator: Any, costs: Any, per: ArrayLike | None
) -> tuple[Rows, FloatArray, FloatArray]:
    """Return rows of a number, with what each row's action is expected to lose, and the variance of that."""
    forecast = as_distributions(predictions, "predictions")
    if calibrator is not None:
        forecast = as_recalibrator(calibrator).transform(forecast)
    outlook = chosen.policy.problem.outlook(forecast, costs)
    taken, _ = taken_by(chosen, outlook, forecast, per)
    return Rows(outlook.scores), of_taken(outlook.mean, taken), of_taken(outlook.variance, taken)


def _with_known(
    rows: Rows,
    sample_weight: ArrayLike | None,
    cluster: ArrayLike | None,
    time: ArrayLike | None,
    label_end: ArrayLike | None,
) -> Rows:
    weight = as_weight(sample_weight, rows.n_rows, rows="predictions")
    return replace(depending(rows, cluster, time, label_end, "predictions"), weight=weight)


def _correction(
    chosen: Chosen, calibrator: Any, fitted_to: CalibrationRows | tuple[Any, ArrayLike], n_folds: int
) -> _Correction:
    """Return what promises are off by on rows with outcomes, each decided by a map that was fitted without it."""
    given = fitted_to if isinstance(fitted_to, CalibrationRows) else _as_calibration_rows(fitted_to)
    names = ("the scores of fitted_to", "the labels of fitted_to")
    what: dict[str, Any] = {name: getattr(given, name) for name in ("sample_weight", "cluster", "time", "label_end")}
    decides, problem = chosen.policy if chosen.rule is None else chosen.rule, chosen.policy.problem
    of = None if chosen.rule is None else problem
    if calibrator is None or problem.is_of_number:
        decided = read_decided(given.y, given.scores, decides, of, costs=given.costs, names=names, **what)
        if calibrator is None:
            return _off(decided, "checked on other rows")
        return _cross_fitted(_by_recalibrators(decided, chosen, as_recalibrator(calibrator), given, n_folds))
    calibrator = _as_refittable(calibrator)
    rows = read_rows(given.scores, given.y, names=names, input=calibrator.input, both_classes=True, **what)
    fewest = int(rows.class_weight.min()) if rows.weight is None else int(np.bincount(rows.codes).min())
    if fewest < 2:
        raise InvalidInputError(f"{names[1]} hold a class in {count(fewest, 'row')}. Cross-fitting needs two at least.")
    typed, _ = problem.for_labels(rows.classes, max(rows.scores.ndim, 1) if rows.is_binary else rows.n_classes)
    typed_chosen = chosen._replace(policy=Policy(typed, threshold=chosen.policy.threshold))
    decided = decide_rows(typed_chosen, rows.with_scores(_out_of_fold(calibrator, rows, n_folds)), given.costs, None)
    return _cross_fitted(decided)


def _as_refittable(calibrator: Any) -> Any:
    """Refuse what can't be fitted to some of its rows."""
    if not (isinstance(calibrator, Configured) and hasattr(calibrator, "fit_rows")):
        raise InvalidInputError(
            f"a {type(calibrator).__name__} can't be fitted again without some rows. Pass a calibrator such as "
            "cb.BetaCalibrator(), or the probabilities and outcomes of rows that it was not fitted to, without "
            "calibrator=."
        )
    return calibrator


def _cross_fitted(decided: Decided) -> _Correction:
    n = count(decided.rows.n_rows, "row")
    found = _off(decided, f"cross-fitted on {n} that the calibrator was fitted to")
    return replace(found, more=(_UNSEEN * found.value) ** 2)


def _by_recalibrators(
    decided: Decided, chosen: Chosen, recalibrator: DistributionRecalibrator, given: CalibrationRows, n_folds: int
) -> Decided:
    """Return rows as decided by forecasts that recalibrators fitted without them made."""
    weight = as_weight(given.sample_weight, len(given.scores))
    numbers = np.arange(len(given.scores)) if weight is None else np.flatnonzero(weight)
    y, rows = np.asarray(as_scores(given.y).values)[numbers], decided.rows
    folds = rows.folds(min([n_folds, rows.n_rows, *(each.n for each in decided.units(decided.gaps))]))
    mean, variance, taken = decided.expected.copy(), decided.variance.copy(), decided.taken.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # of parts: the fit to all rows has said it
        for fold in range(int(folds.max()) + 1):
            held, train = folds == fold, rows.fitted_without(folds, fold)
            found = {name: getattr(rows, field) for name, field in _KNOWN.items()}
            known = {name: None if values is None else values[train] for name, values in found.items()}
            fitted = recalibrator.fresh().fit(given.scores[numbers[train]], y[train], **known)
            forecast = fitted.transform(given.scores)  # of all rows, which costs come with
            outlook = chosen.policy.problem.outlook(forecast, given.costs)
            acts, _ = taken_by(chosen, outlook, forecast, None)
            at = numbers[held]
            mean[held], variance[held], taken[held] = outlook.mean[at], outlook.variance[at], acts[at]
    return replace(decided, expected=mean, variance=variance, taken=taken)


def _out_of_fold(calibrator: Any, rows: Rows, n_folds: int) -> FloatArray:
    """Return probabilities of rows by maps that were fitted without them."""
    units = [each.n for each in units_of(rows)]
    folds = rows.folds(min([n_folds, rows.n_rows, *units]))
    found = np.empty_like(rows.scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # of parts: the fit to all rows has said it
        for fold in range(int(folds.max()) + 1):
            held = folds == fold
            train = rows.take(rows.fitted_without(folds, fold))
            found[held] = calibrator.fresh().fit_rows(train).apply(rows.take(held))
    return found


def _off(decided: Decided, method: str) -> _Correction:
    residual = decided.gaps
    found = error_over_units(residual, decided.weight, decided.units(residual), least_variance=decided.outcome_variance)
    value, size = float(np.average(residual, weights=decided.weight)), kish_size(decided.weight)
    return _Correction(value, found.error, method, size)


def _as_calibration_rows(given: Any) -> CalibrationRows:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidTypeError(
            f"fitted_to is a {type(given).__name__}. Pass (scores, y) or CalibrationRows(scores, y)."
        )
    return CalibrationRows(*given)
