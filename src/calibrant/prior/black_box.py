"""New class priors from any predictor's confusion matrix: black-box shift estimation.

The mean prediction of new rows is the confusion matrix times the new rates. The linear system is solved, and the
solution, which noise can push out of [0, 1], is projected onto the simplex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, ShapeError, warn
from calibrant.numerics import (
    EPS,
    FloatArray,
    kish_size,
    normal_quantile,
    normalise_rows,
    project_simplex,
    two_columns,
)
from calibrant.prior.rates import weighted_rates
from calibrant.prior.shift import PriorEstimate
from calibrant.rows import by_class
from calibrant.validation import (
    ArrayLike,
    Labels,
    Scores,
    as_labels,
    as_probabilities,
    as_weight,
    check_choice,
    check_fraction,
    check_one_column,
    check_same_length,
)

Prediction: TypeAlias = Literal["soft", "hard", "label"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlackBoxEstimate(PriorEstimate):
    """What `estimate_prior_bbse` found; see `PriorEstimate` for the other attributes.

    Attributes
    ----------
    confusion : ndarray of shape (K, K)
        Mean prediction for each class, in rows, given the true class, in columns; columns sum to one.
    condition : float
        Condition number of `confusion`: by how much it enlarges errors at most.
    unconstrained : ndarray of shape (K,)
        The solution of the linear system, which can leave [0, 1]; `new` is the nearest one that doesn't.
    """

    confusion: FloatArray
    condition: float
    unconstrained: FloatArray


def estimate_prior_bbse(
    y_true: ArrayLike,
    predictions: ArrayLike,
    *,
    new_predictions: ArrayLike,
    kind: Prediction = "soft",
    sample_weight: ArrayLike | None = None,
    new_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
) -> BlackBoxEstimate:
    """Estimate the base rates of rows without labels from how a predictor confuses the classes of labelled rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of rows that the predictor was not trained on.
    predictions, new_predictions : array-like of shape (n,) or (n, K), and (m,) or (m, K)
        The predictor's probabilities of these rows, and of the rows without labels: of the positive class, or of each
        class; columns named after the classes are matched to these. Predicted labels where `kind` is "label".
    kind : {"soft", "hard", "label"}
        Whether the mean of the probabilities is looked at, or how often each class is the most probable one, or
        predicted labels. Probabilities needn't be calibrated; "soft" is nearly always more precise.
    sample_weight, new_weight : array-like of shape (n,) and (m,), optional
        A weight of two counts as two rows, a weight of zero as none; intervals use Kish's effective number of rows.
    classes : array-like of shape (K,), optional
        All classes, sorted. Each must have a labelled row.
    level : float
        Coverage of the intervals.

    Returns
    -------
    BlackBoxEstimate
        Its `old` are the rates of the labelled rows; its method `shift` gives the correction from these.

    Raises
    ------
    InvalidInputError
        If the confusion matrix is singular: no shift of some classes against each other could be seen.

    Warns
    -----
    DataWarning
        If the confusion matrix can't be told from a singular one; or if the solution has a rate outside [0, 1] by more
        than chance explains, so that more than the rates has changed.

    Notes
    -----
    With M[j, k] the mean prediction for class j of the rows of class k, label shift implies that the mean prediction
    of new rows is M new. Standard errors are by the delta method, from the spread of the predictions in either
    sample, in each of which a row or two more are imagined, so that predictions without any spread don't claim
    certainty. Intervals are normal ones around the solution, or around the end of [0, 1] that it has left.

    References
    ----------
    Lipton, Wang and Smola (2018), *Detecting and correcting for label shift with black box predictors*, ICML,
    proposition 2 and section 4. Garg, Wu, Balakrishnan and Lipton (2020), *A unified view of label shift estimation*,
    NeurIPS (the soft form).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.prior import estimate_prior_bbse
    >>> rng = np.random.default_rng(0)
    >>> y, y_new = rng.random(2_000) < 0.5, rng.random(2_000) < 0.2
    >>> s, s_new = (1 / (1 + np.exp(-rng.normal(np.where(t, 1.0, -1.0), 1.0))) for t in (y, y_new))
    >>> print(estimate_prior_bbse(y, s, new_predictions=s_new))
    level 95%, n 2,000, method black-box shift estimation, soft predictions,
    delta-method intervals, statistic 201.8861, p value < 0.001, condition 2.5344
    classes     old     new      95% interval  unconstrained
         no  0.4965  0.7866  [0.7512, 0.8220]         0.7866
        yes  0.5035  0.2134  [0.1780, 0.2488]         0.2134
    """
    from scipy.special import gammaincc

    level = check_fraction("level", level)
    check_choice("kind", kind, get_args(Prediction))
    given = {"predictions": predictions, "new_predictions": new_predictions}
    checked = {} if kind == "label" else {name: as_probabilities(each, name=name) for name, each in given.items()}
    labels = as_labels(y_true, classes=classes, n_columns=checked["predictions"].n_columns if checked else 1)
    names = labels.classes.tolist()
    if len(names) < 2:
        raise InvalidLabelError(f"y_true holds one class only: {names[0]!r}. Pass rows of at least two classes.")
    if checked:
        scores, new_scores = (_columns(each, name, kind, labels) for name, each in checked.items())
    else:
        codes = (as_labels(each, name=name, classes=labels.classes).codes for name, each in given.items())
        scores, new_scores = (np.eye(len(names)).take(each, axis=0) for each in codes)
    check_same_length(labels.codes.size, len(scores), "y_true", "predictions")
    weight = as_weight(sample_weight, len(scores), rows="predictions")
    old = weighted_rates(labels, weight)[0]
    if not old.all():
        absent = names[int(old.argmin())]
        raise InvalidLabelError(f"y_true has no row of the class {absent!r} with a weight above 0. Label at least one.")
    by_class = [_sample(scores, weight, labels.codes == k) for k in range(len(names))]
    whole = _sample(scores, weight)
    fresh = _sample(new_scores, as_weight(new_weight, len(new_scores), name="new_weight", rows="new_predictions"))
    confusion = np.column_stack([sample.mean for sample in by_class])
    noise = float(np.sqrt(sum(float(np.trace(sample.covariance)) for sample in by_class)))
    condition = _check_invertible(confusion, noise, names)
    inverse = np.linalg.inv(confusion)
    solution = inverse @ fresh.mean
    spread = fresh.covariance + sum(q**2 * s.covariance for q, s in zip(solution, by_class, strict=True))
    error = np.sqrt(np.clip(np.diag(inverse @ spread @ inverse.T), 0.0, None))
    new = project_simplex(solution)
    half = normal_quantile(level) * error
    _check_range(solution, error, names)
    centre = np.clip(solution, 0.0, 1.0)
    difference = fresh.mean - whole.mean
    statistic = float(difference @ np.linalg.pinv(fresh.covariance + whole.covariance) @ difference)
    return BlackBoxEstimate(
        classes=labels.classes,
        old=old,
        new=new,
        low=np.minimum(np.maximum(centre - half, 0.0), new),
        high=np.maximum(np.minimum(centre + half, 1.0), new),
        level=level,
        n=fresh.n,
        method=f"black-box shift estimation, {kind} predictions, delta-method intervals",
        statistic=statistic,
        p_value=float(gammaincc(0.5 * (len(names) - 1), 0.5 * max(statistic, 0.0))),
        confusion=confusion,
        condition=condition,
        unconstrained=solution,
    )


class _Sample(NamedTuple):
    """The mean of rows of predictions, its covariance, and the number of rows."""

    mean: FloatArray
    covariance: FloatArray
    n: int


def _sample(scores: FloatArray, weight: FloatArray | None, kept: Any = slice(None)) -> _Sample:
    rows = scores[kept]
    given = np.ones(len(rows)) if weight is None else weight[kept]
    share = given / given.max()
    share = share / share.sum()
    size = kish_size(share)
    mean = np.einsum("i,ij->j", share, rows)
    centred = rows - mean
    spread = np.einsum("i,ij,ik->jk", share, centred, centred)
    away = np.eye(mean.size) - mean  # two more rows are imagined, their predictions certain of any class
    spread = (spread + 2.0 / size * (away.T @ away) / mean.size) / (1.0 + 2.0 / size)
    return _Sample(mean, spread / size, int(np.count_nonzero(given)))


def _columns(checked: Scores, name: str, kind: Prediction, labels: Labels) -> FloatArray:
    """Return what is averaged, one column for each of the sorted classes."""
    n_classes = len(labels.classes)
    if checked.values.ndim == 2 and checked.n_columns != n_classes:
        raise ShapeError(f"{name} has {checked.n_columns} columns for {n_classes} classes. Pass one per class.")
    p = by_class(checked, labels.classes, name).values
    if p.ndim == 1:
        check_one_column(labels, 1, "y_true")
        p = two_columns(p)
    if kind == "hard":
        p = np.eye(n_classes).take(p.argmax(axis=1), axis=0)
    return normalise_rows(p)


def _check_invertible(confusion: FloatArray, noise: float, names: list[Any]) -> float:
    """Return the condition number; refuse a singular matrix, and warn of one that may be."""
    values = np.linalg.svd(confusion, compute_uv=False)
    largest, least = float(values[0]), float(values[-1])
    if least <= 100.0 * EPS * largest:
        condition = largest / least if least > 0.0 else np.inf
        raise InvalidInputError(
            f"the confusion matrix of predictions and y_true is singular (condition number {condition:.2g}): some of "
            f"the classes {names!r:.200} get the same predictions on average. Pool them into one class."
        )
    if least <= noise:
        warn(
            f"the confusion matrix can't be told from a singular one: its smallest singular value is {least:.2g}, the "
            f"noise in it {noise:.2g}, its condition number {largest / least:.2g}. Intervals are too short. Label more "
            "rows, or pool classes that are confused.",
            DataWarning,
        )
    return largest / least


def _check_range(solution: FloatArray, error: FloatArray, names: list[Any]) -> None:
    """Warn where a rate is outside [0, 1] by more than chance explains, in one of 1,000 samples."""
    limit = normal_quantile(1.0 - 0.001 / solution.size)
    outside = np.maximum(-solution, solution - 1.0)
    k = int((outside - limit * error).argmax())
    if outside[k] > limit * error[k]:
        warn(
            f"the rate of {names[k]!r} that explains new_predictions is {solution[k]:.3g}, standard error "
            f"{error[k]:.2g}: more than the rates of the classes has changed, and no estimate of them can be trusted.",
            DataWarning,
        )
