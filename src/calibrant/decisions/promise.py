"""expected_loss: what decisions will cost, said before any outcome is known.

The probabilities themselves promise the mean of what each row's action is expected to lose. Two things make that
promise uncertain. The rows are a sample of those to come. And the probabilities are off: those of a calibrator that was
fitted to n rows by chance, and, since each action is the one that looks cheapest under them, on the low side.

What the calibrator's own rows say of the second is found by cross-fitting. Each of them is decided by a map that was
fitted without it; its realised less its promised loss says how far promises of such maps are off. The mean of these
corrects the promise, and their variance is that of the correction: the one-step estimator of semiparametric statistics,
promise of the new rows plus mean residual of the old ones (Chernozhukov et al. 2018, *Double/debiased machine learning
for treatment and structural parameters*, Econometrics Journal 21). It needs no trust in the calibrator's family.

Half of the correction, squared, is added to the variance: maps that jump, as isotonic ones do, decide differently when
a tenth of their rows is left out, which the residuals don't show. A bootstrap of the fit rows was measured beside it
(`benchmarks/results/decisions.txt` has the coverage of what is used): it knows nothing of a family that doesn't fit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.decisions.losses import expected, two_columns
from calibrant.decisions.outcomes import Decided, decide_rows, of_taken, read_decided, read_policy
from calibrant.decisions.policy import Policy
from calibrant.decisions.problem import Problem
from calibrant.dependence import MeanError, read_dependence
from calibrant.dependent_rows import units_of
from calibrant.errors import CalibrantWarning, InvalidInputError, InvalidTypeError
from calibrant.fitted import Fitted
from calibrant.metrics import NO_ERROR, Estimate, UnitError, error_over_units, joined_errors
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count, figure
from calibrant.results import Score
from calibrant.rows import Rows, read_rows
from calibrant.settings import Configured
from calibrant.validation import ArrayLike, as_weight, check_choice, check_fraction, check_integer

#: What the interval is for: the mean over rows to come like these, or over these very rows when their outcomes come.
About: TypeAlias = Literal["future", "rows"]
_ABOUT: tuple[str, ...] = get_args(About)


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationRows:
    """Rows with outcomes, which say how far probabilities are off: those that a calibrator was fitted to.

    Parameters
    ----------
    scores, y : array-like
        As in the calibrator's `fit`; or probabilities with their outcomes, of rows that nothing was fitted to.
    sample_weight, cluster, time, label_end : array-like of shape (n,), optional
        As in `calibrant.metrics.evaluate`.
    costs : frame or mapping of columns, optional
        Of these rows, for losses that need them.
    """

    scores: ArrayLike = field(repr=False)
    y: ArrayLike = field(repr=False)
    sample_weight: ArrayLike | None = field(default=None, repr=False)
    cluster: ArrayLike | None = field(default=None, repr=False)
    time: ArrayLike | None = field(default=None, repr=False)
    label_end: ArrayLike | None = field(default=None, repr=False)
    costs: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Correction:
    """What promises are off by, the error of that, and how it was found."""

    value: float
    error: MeanError
    method: str


def expected_loss(
    probabilities: ArrayLike,
    policy: Any,
    problem: Problem | Mapping[str, Any] | None = None,
    *,
    calibrator: Fitted | None = None,
    fitted_to: CalibrationRows | tuple[ArrayLike, ArrayLike] | None = None,
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
    probabilities : array-like of shape (n,) or (n, K)
        As in `Policy.decide`; with `calibrator`, the scores that it takes.
    policy, problem
        As in `evaluate`: a policy or a problem; or the action of each row with its problem.
    calibrator : fitted calibrator, optional
        What makes probabilities of the scores. Needs `fitted_to`.
    fitted_to : CalibrationRows or (scores, y), optional
        The rows that the calibrator was fitted to. Without `calibrator`: probabilities with outcomes, of rows that
        nothing was fitted to. Without either the probabilities are taken for calibrated, which the note says.
    about : {"future", "rows"}
        What the interval is to hold: the mean loss of rows to come like these, or the mean loss that these very rows
        will show, in which chance has a part too.
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
    coverage on rows whose truth is known. It takes the scores of those rows to be distributed like the new ones.

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
    """
    level = check_fraction("level", level)
    check_choice("about", about, _ABOUT)
    check_integer("n_folds", n_folds, minimum=2)
    if calibrator is not None and fitted_to is None:
        raise InvalidInputError("calibrator= needs fitted_to=, the rows (scores, y) that it was fitted to. Pass them.")
    policy, actions = read_policy(policy, problem)
    if fitted_to is not None and (actions is not None or policy.problem.capacity):
        what = "capacities" if actions is None else "actions that are given"
        raise InvalidInputError(
            f"fitted_to= says nothing of {what}: which its rows would get is not known. Leave it out."
        )
    rows, policy = _new_rows(probabilities, policy, calibrator)
    rows = _with_known(rows, sample_weight, cluster, time, label_end)
    losses = policy.problem.loss_of_rows(rows.n_rows, costs)
    groups = policy.read_per(per, rows.n_rows)
    by_policy = policy.codes(rows.scores, losses, groups)
    taken = by_policy if actions is None else policy.read_actions(actions, rows.n_rows)
    promised, variance = _promised(rows, losses, taken)
    kept = rows.weights > 0.0
    rows, promised, variance = rows.take(kept), promised[kept], variance[kept]
    off = None if fitted_to is None else _correction(policy, calibrator, fitted_to, n_folds)
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
        own = UnitError(MeanError(math.sqrt(of_outcomes), math.inf, 0.0))
    else:
        own = error_over_units(promised, weight, units_of(rows))
    if off is None:
        value, error, method = mean, own.error, f"{own.method}, calibration taken as exact"
        note = "the probabilities are taken for calibrated: fitted_to= says how far they may be off"
    else:
        value = mean + off.value
        error = joined_errors([own.error, off.error], 0.25 * off.value**2)
        method, note = f"{own.method}, {off.method}", f"the probabilities alone promise {figure(mean)}"
    note = note if math.isfinite(error.error) else NO_ERROR
    found = Estimate(value, *error.ends(value, level), method, note, effect=own.effect)
    n_eff = replace(rows, cluster=None, time=None, label_end=None).effective_size
    return found.to_score("expected_loss", level=level, n=rows.n_rows, evaluated_on=evaluated_on, n_eff=n_eff)


def _new_rows(probabilities: ArrayLike, policy: Policy, calibrator: Fitted | None) -> tuple[Rows, Policy]:
    """Check probabilities, or make them of scores; return the policy with the classes as these have them."""
    problem = policy.problem
    if calibrator is None:
        checked = problem.read_probabilities(probabilities)
        return Rows(checked.values, columns=checked.container.columns), policy
    if not isinstance(calibrator, Fitted):
        raise InvalidTypeError(f"calibrator is a {type(calibrator).__name__}. Pass a fitted calibrator.")
    rows = calibrator.read(probabilities)
    n_columns = max(rows.scores.ndim, 1) if rows.is_binary else rows.scores.shape[1]
    typed, _ = problem.for_labels(calibrator.classes_, n_columns, name="the calibrator's classes")
    made = typed.read_probabilities(calibrator.apply(rows))
    return rows.with_scores(made.values), Policy(typed, threshold=policy.threshold)


def _with_known(
    rows: Rows,
    sample_weight: ArrayLike | None,
    cluster: ArrayLike | None,
    time: ArrayLike | None,
    label_end: ArrayLike | None,
) -> Rows:
    if (time is None) != (label_end is None):
        raise InvalidInputError("time and label_end go together: when a row was predicted, and its label known.")
    weight = as_weight(sample_weight, rows.n_rows, rows="probabilities")
    known = read_dependence(rows.n_rows, cluster, time, label_end, rows="probabilities")
    return replace(rows, weight=weight, cluster=known.cluster, time=known.time, label_end=known.label_end)


def _promised(rows: Rows, losses: FloatArray, taken: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what each row's action is expected to lose, and the variance of what it will."""
    prob = two_columns(rows.scores)
    mean, square = (of_taken(expected(prob, each), taken) for each in (losses, losses**2))
    return mean, np.maximum(square - mean**2, 0.0)


def _correction(
    policy: Policy,
    calibrator: Fitted | None,
    fitted_to: CalibrationRows | tuple[ArrayLike, ArrayLike],
    n_folds: int,
) -> _Correction:
    """Return what promises are off by on rows with outcomes, each decided by a map that was fitted without it."""
    given = fitted_to if isinstance(fitted_to, CalibrationRows) else _as_calibration_rows(fitted_to)
    names = ("the scores of fitted_to", "the labels of fitted_to")
    what: dict[str, Any] = {name: getattr(given, name) for name in ("sample_weight", "cluster", "time", "label_end")}
    if calibrator is None:
        decided = read_decided(given.y, given.scores, policy, costs=given.costs, names=names, **what)
        return _off(decided, "checked on other rows")
    if not isinstance(calibrator, Configured) or not hasattr(calibrator, "fit_rows"):
        raise InvalidInputError(
            f"a {type(calibrator).__name__} can't be fitted again without some rows. Pass a calibrator such as "
            "cb.BetaCalibrator(), or the probabilities and outcomes of rows that it was not fitted to, without "
            "calibrator=."
        )
    rows = read_rows(given.scores, given.y, names=names, input=calibrator.input, both_classes=True, **what)
    fewest = int(rows.class_weight.min()) if rows.weight is None else int(np.bincount(rows.codes).min())
    if fewest < 2:
        raise InvalidInputError(f"{names[1]} hold a class in {count(fewest, 'row')}. Cross-fitting needs two at least.")
    decided = decide_rows(policy, rows.with_scores(_out_of_fold(calibrator, rows, n_folds)), None, given.costs, None)
    return _off(decided, f"cross-fitted on {count(rows.n_rows, 'row')} that the calibrator was fitted to")


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
    found = error_over_units(residual, decided.weight, decided.units(), least_variance=decided.outcome_variance)
    return _Correction(float(np.average(residual, weights=decided.weight)), found.error, method)


def _as_calibration_rows(given: Any) -> CalibrationRows:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidTypeError(
            f"fitted_to is a {type(given).__name__}. Pass (scores, y) or CalibrationRows(scores, y)."
        )
    return CalibrationRows(*given)
