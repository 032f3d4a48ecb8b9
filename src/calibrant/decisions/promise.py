"""expected_loss: what decisions will cost, said before any outcome is known.

The predictions themselves promise the mean of what each row's action is expected to lose. Two things make that promise
uncertain. The rows are a sample of those to come. And the predictions are off: those of a calibrator that was fitted to
n rows by chance, and, since each action is the one that looks cheapest under them, on the low side.

What the calibrator's own rows say of the second is found by cross-fitting. Each of them is decided by a map that was
fitted without it; its realised less its promised loss says how far promises of such maps are off. The mean of these
corrects the promise, and their variance is that of the correction: the one-step estimator of semiparametric statistics,
promise of the new rows plus mean residual of the old ones (Chernozhukov et al. 2018, *Double/debiased machine learning
for treatment and structural parameters*, Econometrics Journal 21). It needs no trust in the calibrator's family.

Where maps are cross-fitted, half of the correction, squared, is added to the variance, as far as the square is above
what chance makes of it: maps that jump, as isotonic ones do, decide differently when a tenth of their rows is left out,
which the residuals don't show. That half was chosen on two of the laws that `benchmarks/results/decisions.txt` has,
"line" and "wave"; "steps" and "rare" had no part in it. A bootstrap of the fit rows was measured beside it: it knows
nothing of a family that doesn't fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.decisions.choosing import charges_of
from calibrant.decisions.correction import CalibrationRows, Correction, Promised, correction_of
from calibrant.decisions.losses import moments
from calibrant.decisions.numbers import DistributionRecalibrator, as_distributions, as_recalibrator
from calibrant.decisions.outcomes import OF_THESE_ROWS, Chosen, depending, of_taken, read_policy, taken_by
from calibrant.decisions.policy import Policy
from calibrant.decisions.problem import Problem
from calibrant.dependence import MeanError
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.fitted import Fitted
from calibrant.metrics import NO_ERROR, Estimate, UnitError, error_over_units, joined_errors
from calibrant.numerics import FloatArray, IntArray, kish_size
from calibrant.phrases import figure
from calibrant.results import Score
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, as_weight, check_choice, check_fraction, check_integer

#: What the interval is for: the mean over rows to come like these, or over these very rows when their outcomes come.
About: TypeAlias = Literal["future", "rows"]
_ABOUT: tuple[str, ...] = get_args(About)


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
    groups: ArrayLike | None = None,
    features: object = None,
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
    groups : array-like of shape (n,), optional
        The group of each row, of a calibrator that was fitted by group.
    features : dict or data frame of columns of shape (n,), optional
        The features of each row, of a calibrator that was fitted to features.
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
        If an argument can't be used, the calibrator can't be fitted again, or actions that are given come with
        `fitted_to`: which ones its rows would have got is not known.

    Notes
    -----
    The interval carries the sampling of the rows and the calibration's own uncertainty, by cross-fitting on the rows
    that the calibrator was fitted to; see the module's text for how, and `benchmarks/results/decisions.txt` for its
    coverage on rows whose truth is known. It takes the scores of those rows to be distributed like the new ones. The
    chance in outcomes that ``about="rows"`` adds is as great as it was there, or as the predictions say without them.

    With capacities, a row gets a limited action where it gains more than a place is worth, the price at which the new
    rows fill the places; of several groups with places of their own, such as days, each has its price. The rows of
    `fitted_to` are decided by the same prices, whatever their number. What rows to come will cost is what they will
    where they fill the same share of places.

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
    expected_loss 0.3792 [0.3188, 0.4536]

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
    is_limited = bool(chosen.policy.problem.capacity)
    if fitted_to is not None and (chosen.actions is not None or (is_limited and not chosen.is_policy)):
        what = "actions that are given" if chosen.rule is None else "capacities of a rule"
        raise InvalidInputError(
            f"fitted_to= says nothing of {what}: which its rows would get is not known. Leave it out."
        )
    for name, given in (("groups", groups), ("features", features)):
        if given is not None and not isinstance(calibrator, Fitted):
            raise InvalidInputError(
                f"{name}= is what a calibrator of scores was fitted by, and there is none. Leave it out."
            )
    if chosen.policy.problem.is_of_number:
        promised = _of_number(predictions, chosen, calibrator, costs, per)
    else:
        promised = promised_of_classes(predictions, chosen, calibrator, costs, per, groups, features)
    rows = _with_known(promised.rows, sample_weight, cluster, time, label_end)
    promised = replace(promised, rows=rows).take(rows.weights > 0.0)
    off = None if fitted_to is None else correction_of(chosen, calibrator, fitted_to, n_folds, promised)
    return score_of(promised, off, about=about, level=level, evaluated_on=evaluated_on)


def score_of(
    promised: Promised,
    off: Correction | None,
    *,
    about: About,
    level: float,
    evaluated_on: str,
) -> Score:
    """Return the promise of rows with weight, with its interval."""
    rows, weight = promised.rows, promised.rows.weights
    mean = float(np.average(promised.mean, weights=weight))
    if about == "rows":  # these are given; what their outcomes will be is not
        of_outcomes = float(np.sum(weight**2 * promised.variance)) / float(weight.sum()) ** 2
        by_predictions = MeanError(math.sqrt(of_outcomes), math.inf, 0.0)
        own = UnitError(by_predictions if off is None else off.of_outcomes(kish_size(weight)))
    else:
        values = promised.influence()
        own = error_over_units(values, weight, units_of(rows, values))
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


def promised_of_classes(
    predictions: Any,
    chosen: Chosen,
    calibrator: Any = None,
    costs: Any = None,
    per: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: object = None,
) -> Promised:
    """Return rows of probabilities, with what each row's action is expected to lose."""
    policy, problem = chosen.policy, chosen.policy.problem
    if calibrator is None:
        checked = problem.read_probabilities(predictions)
        rows, given = Rows(checked.values, columns=checked.container.columns), predictions
    else:
        if not isinstance(calibrator, Fitted):
            raise InvalidTypeError(f"calibrator is a {type(calibrator).__name__}. Pass a fitted calibrator.")
        read = calibrator.read(predictions, groups=groups, features=features)
        problem, _ = problem.for_labels(calibrator.classes_, read.n_columns, name="the calibrator's classes")
        made = problem.read_probabilities(calibrator.apply(read))
        policy, rows = Policy(problem, threshold=policy.threshold), read.with_scores(made.values)
        given = rows.scores
    losses = problem.loss_of_rows(rows.n_rows, costs)
    of_per = policy.read_per(per, rows.n_rows)
    mean, variance = moments(rows.scores, losses)
    taken = chosen.taken(given, policy.codes(rows.scores, losses, of_per), rows.n_rows)
    return _promised(chosen, rows, mean, variance, taken, of_per)


def _of_number(predictions: Any, chosen: Chosen, calibrator: Any, costs: Any, per: ArrayLike | None) -> Promised:
    """Return rows of a number, with what each row's action is expected to lose."""
    forecast = as_distributions(predictions, "predictions")
    if calibrator is not None:
        forecast = as_recalibrator(calibrator).transform(forecast)
    outlook = chosen.policy.problem.outlook(forecast, costs)
    taken, of_per = taken_by(chosen, outlook, forecast, per)
    return _promised(chosen, Rows(outlook.scores), outlook.mean, outlook.variance, taken, of_per)


def _promised(
    chosen: Chosen, rows: Rows, mean: FloatArray, variance: FloatArray, taken: IntArray, per: IntArray | None
) -> Promised:
    """Return the rows with what the action of each is expected to lose, and the prices of places."""
    found = Promised(rows, of_taken(mean, taken), of_taken(variance, taken), taken)
    capacity = chosen.policy.capacity_by_number
    if not capacity or not chosen.is_policy:
        return found
    group = np.zeros(taken.size, dtype=np.int64) if per is None else per
    at = [group == g for g in range(int(group.max()) + 1)]
    charges = np.array([charges_of(mean[each], taken[each], capacity) for each in at])
    return replace(found, group=group, charges=charges)


def _with_known(
    rows: Rows,
    sample_weight: ArrayLike | None,
    cluster: ArrayLike | None,
    time: ArrayLike | None,
    label_end: ArrayLike | None,
) -> Rows:
    weight = as_weight(sample_weight, rows.n_rows, rows="predictions")
    return replace(depending(rows, cluster, time, label_end, "predictions"), weight=weight)
