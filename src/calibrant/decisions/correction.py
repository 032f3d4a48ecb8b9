"""What promises are off by, on rows with outcomes, each decided by a map that was fitted without it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.calibrators import out_of_fold
from calibrant.decisions.arguments import as_text
from calibrant.decisions.hindsight import chosen as chosen_with
from calibrant.decisions.numbers import DistributionRecalibrator, as_recalibrator
from calibrant.decisions.outcomes import Chosen, Decided, decide_rows, read_decided, taken_by
from calibrant.decisions.policy import Policy
from calibrant.dependence import MeanError
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, InvalidLabelError, InvalidTypeError, hold_warnings
from calibrant.metrics import error_over_units
from calibrant.numerics import BoolArray, FloatArray, IntArray, kish_size
from calibrant.phrases import count, quoted
from calibrant.rows import Rows, read_rows
from calibrant.settings import Configured
from calibrant.validation import ArrayLike, as_scores, as_weight, feature_columns

#: The share of a cross-fitted correction, beyond its own chance, that counts as an error which its residuals don't
#: show; see `promise`.
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
    groups : array-like of shape (n,), optional
        The group of each row, of a calibrator that was fitted by group.
    features : dict or data frame of columns of shape (n,), optional
        The features of each row, of a calibrator that was fitted to features.
    """

    scores: Any = field(repr=False)
    y: ArrayLike = field(repr=False)
    sample_weight: ArrayLike | None = field(default=None, repr=False)
    cluster: ArrayLike | None = field(default=None, repr=False)
    time: ArrayLike | None = field(default=None, repr=False)
    label_end: ArrayLike | None = field(default=None, repr=False)
    costs: Any = field(default=None, repr=False)
    groups: ArrayLike | None = field(default=None, repr=False)
    features: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Correction:
    """What promises are off by, the error of that, and how it was found.

    `size` is the effective number of the rows that it was found on, and `more` the variance that residuals don't show.
    `outcomes` is the error that the chance in the outcomes of so many rows makes.
    """

    value: float
    error: MeanError
    method: str
    size: float
    outcomes: MeanError
    more: float = 0.0

    def of_outcomes(self, size: float) -> MeanError:
        """Return the chance in the outcomes of so many new rows, whose residuals vary as those of the old ones."""
        ratio = math.sqrt(self.size / size)
        return MeanError(self.outcomes.error * ratio, self.outcomes.degrees, self.outcomes.skewness * ratio)


@dataclass(frozen=True, slots=True)
class Promised:
    """Rows, what the action of each is expected to lose, and the variance of that.

    Of capacities, `charges` has those on the actions with which rows decide by themselves, shape (G, A), in each of G
    groups that have places of their own, such as days, and `group` says which one a row is of.
    """

    rows: Rows
    mean: FloatArray
    variance: FloatArray
    taken: IntArray
    group: IntArray | None = None
    charges: FloatArray | None = None

    def take(self, kept: BoolArray) -> Promised:
        """Return some of the rows."""
        group = None if self.group is None else self.group[kept]
        return replace(
            self,
            rows=self.rows.take(kept),
            mean=self.mean[kept],
            variance=self.variance[kept],
            taken=self.taken[kept],
            group=group,
        )

    def shares(self) -> FloatArray:
        """Return the share of each group with places of its own in the rows."""
        assert self.group is not None  # noqa: S101
        assert self.charges is not None  # noqa: S101
        weight = np.bincount(self.group, weights=self.rows.weights, minlength=len(self.charges))
        return np.asarray(weight / weight.sum())

    def influence(self) -> FloatArray:
        """Return what each row adds to the mean, where other rows would share the same places.

        A row that takes a place takes it from another, which costs the price of the place; of the mean over a group's
        rows the places are a part that doesn't vary.
        """
        if self.charges is None or self.group is None:
            return self.mean
        paid, weight = self.charges[self.group, self.taken], self.rows.weights
        total = np.maximum(np.bincount(self.group, weights=weight), np.finfo(float).tiny)
        return np.asarray(self.mean + paid - (np.bincount(self.group, weights=weight * paid) / total)[self.group])


def correction_of(
    chosen: Chosen,
    calibrator: Any,
    fitted_to: CalibrationRows | tuple[Any, ArrayLike],
    n_folds: int,
    promised: Promised,
) -> Correction:
    """Return what promises are off by on rows with outcomes, each decided by a map that was fitted without it."""
    given = fitted_to if isinstance(fitted_to, CalibrationRows) else _as_calibration_rows(fitted_to)
    names = ("the scores of fitted_to", "the labels of fitted_to")
    what: dict[str, Any] = {name: getattr(given, name) for name in ("sample_weight", "cluster", "time", "label_end")}
    chosen = chosen._replace(policy=chosen.policy.without_capacity())  # the prices of the new rows stand for it
    decides, problem = chosen.policy if chosen.rule is None else chosen.rule, chosen.policy.problem
    of = None if chosen.rule is None else problem
    if calibrator is None or problem.is_of_number:
        decided = read_decided(given.y, given.scores, decides, of, costs=given.costs, names=names, **what)
        if calibrator is None:
            return _off(decided, "checked on other rows", promised)
        return cross_fitted(_by_recalibrators(decided, chosen, as_recalibrator(calibrator), given, n_folds), promised)
    calibrator = _as_refittable(calibrator)
    if calibrator.needs_groups:
        what["groups"] = {"groups": given.groups}
    if calibrator.takes_features:
        what |= {"features": feature_columns(given.features), "feature_kinds": calibrator.named_kinds()}
    rows = read_rows(given.scores, given.y, names=names, input=calibrator.input, both_classes=True, **what)
    fitted = list(map(as_text, calibrator.classes_.tolist()))
    unknown = [label for label in rows.classes.tolist() if as_text(label) not in fitted]
    if unknown:
        raise InvalidLabelError(
            f"{names[1]} hold {unknown[0]!r}, and the calibrator was fitted to the classes "
            f"{quoted(calibrator.classes_.tolist())}. Pass the labels that it was fitted to."
        )
    fewest = int(rows.class_weight.min()) if rows.weight is None else int(np.bincount(rows.codes).min())
    if fewest < 2:
        raise InvalidInputError(f"{names[1]} hold a class in {count(fewest, 'row')}. Cross-fitting needs two at least.")
    typed, _ = problem.for_labels(rows.classes, rows.n_columns)
    typed_chosen = chosen._replace(policy=Policy(typed, threshold=chosen.policy.threshold))
    decided = decide_rows(
        typed_chosen, rows.with_scores(out_of_fold(calibrator, rows, _folds(rows, n_folds))), given.costs, None
    )
    return cross_fitted(decided, promised)


def _as_refittable(calibrator: Any) -> Any:
    """Refuse what can't be fitted to some of its rows."""
    if not (isinstance(calibrator, Configured) and hasattr(calibrator, "fit_rows")):
        raise InvalidInputError(
            f"a {type(calibrator).__name__} can't be fitted again without some rows. Pass a calibrator such as "
            "cb.BetaCalibrator(), or the probabilities and outcomes of rows that it was not fitted to, without "
            "calibrator=."
        )
    return calibrator


def cross_fitted(decided: Decided, promised: Promised) -> Correction:
    """Return what promises were off by, of rows that were decided by maps that were fitted without them."""
    n = count(decided.rows.n_rows, "row")
    found = _off(decided, f"cross-fitted on {n} that the calibrator was fitted to", promised)
    beyond_chance = max(found.value**2 - found.error.error**2, 0.0)
    return replace(found, more=_UNSEEN**2 * beyond_chance)


def _by_recalibrators(
    decided: Decided, chosen: Chosen, recalibrator: DistributionRecalibrator, given: CalibrationRows, n_folds: int
) -> Decided:
    """Return rows as decided by forecasts that recalibrators fitted without them made."""
    weight = as_weight(given.sample_weight, len(given.scores))
    numbers = np.arange(len(given.scores)) if weight is None else np.flatnonzero(weight)
    y, rows = np.asarray(as_scores(given.y).values)[numbers], decided.rows
    folds = rows.folds(min([n_folds, rows.n_rows, *(each.n for each in decided.units(decided.gaps))]))
    mean, variance, taken = decided.expected.copy(), decided.variance.copy(), decided.taken.copy()
    with hold_warnings():  # of parts: the fit to all rows has said it
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


def _folds(rows: Rows, n_folds: int) -> IntArray:
    """Return the fold of each row, of as many as there are clusters or blocks at most."""
    return rows.folds(min([n_folds, rows.n_rows, *(each.n for each in units_of(rows))]))


def _off(decided: Decided, method: str, promised: Promised) -> Correction:
    """Return what promises were off by, each row decided by the prices of places of each group of the new rows."""
    shares, as_decided = [1.0], [decided]
    if promised.charges is not None:
        kept = [(share, charges) for share, charges in zip(promised.shares(), promised.charges, strict=True) if share]
        shares = [float(share) for share, _ in kept]
        as_decided = [replace(decided, taken=chosen_with(decided.expected, charges)) for _, charges in kept]
    residual, least, variance = np.zeros(decided.rows.n_rows), 0.0, 0.0
    for share, each in zip(shares, as_decided, strict=True):
        gaps, own = each.gaps, each.outcome_variance
        residual, least = residual + share * gaps, least + share * own
        found = error_over_units(gaps, decided.weight, decided.units(gaps), least_variance=own).error
        variance += share * found.error**2
    error = error_over_units(residual, decided.weight, decided.units(residual), least_variance=least).error
    outcomes = MeanError(math.sqrt(variance), error.degrees, error.skewness)
    value, size = float(np.average(residual, weights=decided.weight)), kish_size(decided.weight)
    return Correction(value, error, method, size, outcomes)


def _as_calibration_rows(given: Any) -> CalibrationRows:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidTypeError(
            f"fitted_to is a {type(given).__name__}. Pass (scores, y) or CalibrationRows(scores, y)."
        )
    return CalibrationRows(*given)
