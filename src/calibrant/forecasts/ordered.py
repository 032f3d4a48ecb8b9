"""Ordered classes, such as ratings or terciles: the ranked probability score, and skill against a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.dependence import Units, read_dependence
from calibrant.errors import InvalidLabelError
from calibrant.forecasts.scores import deviations, mean_estimate
from calibrant.metrics import Estimate, named_scores
from calibrant.numerics import FloatArray, kish_size, two_columns
from calibrant.phrases import quoted
from calibrant.results import Scores
from calibrant.validation import ArrayLike, as_labels, as_probabilities, as_weight, check_fraction, check_same_length


def ranked_probability_score(
    y_true: ArrayLike, y_prob: ArrayLike, *, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Measure the mean ranked probability score of ordered classes; smaller is better.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        What happened.
    y_prob : array-like of shape (n, K)
        Probabilities of the K classes, a column each in their order; of two classes also (n,), those of the upper one.
    classes : array-like of shape (K,), optional
        The classes in their order, lowest first. By default sorted, which is the order of numbers, and rarely that of
        names.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.

    Returns
    -------
    float
        In [0, K - 1]: of two classes the Brier score of the upper one, and K - 1 where all probability is at the other
        end. Some divide it by K - 1.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The mean of sum_k (P(class <= k) - 1{class <= k})^2: the CRPS of a number that takes the values 1 to K. Unlike the
    Brier score it charges less for a miss by one class than for one by two.

    References
    ----------
    Epstein (1969), *A scoring system for probability forecasts of ranked categories*, Journal of Applied Meteorology 8.

    Examples
    --------
    >>> from calibrant.forecasts import ranked_probability_score
    >>> order = ["low", "middle", "high"]
    >>> round(ranked_probability_score(["high", "low"], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]], classes=order), 4)
    0.67
    """
    values, weight = _read(y_true, y_prob, classes, sample_weight)
    return float(np.average(values, weights=weight))


def evaluate_ordered(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure probabilities of ordered classes, with intervals, and their skill against a reference.

    Parameters
    ----------
    y_true, y_prob, classes, sample_weight
        See `ranked_probability_score`.
    reference : array-like of shape (K,) or (n, K), optional
        Probabilities to compare with: those of the classes in the past, for every row, or of each row.
    cluster, time, label_end, level, evaluated_on
        See `evaluate`.

    Returns
    -------
    Scores
        `ranked_probability_score`; with a reference also `reference_score` and `skill`, one less their ratio.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.forecasts import evaluate_ordered
    >>> scores = evaluate_ordered([0, 1, 2, 2, 1] * 20, [[0.6, 0.3, 0.1]] * 100, reference=[0.2, 0.4, 0.4])
    >>> print(scores["skill"])
    skill -0.6250 [-0.9044, -0.2966]
    """
    level = check_fraction("level", level)
    values, weight = _read(y_true, y_prob, classes, sample_weight)
    dependence = read_dependence(values.size, cluster, time, label_end, rows="y_prob")
    kept = np.flatnonzero(weight)
    dependence, weight, values = dependence.take(kept), weight[kept], values[kept]

    def units(series: FloatArray) -> Units | None:
        return dependence.units(deviations(series, weight))

    found = {"ranked_probability_score": mean_estimate(values, weight, units(values), level, least=0.0)}
    verdict = f"Ranked probability score {found['ranked_probability_score'].value:.4f}."
    if reference is not None:
        given = np.asarray(reference, dtype=np.float64) if not hasattr(reference, "columns") else reference
        if getattr(given, "ndim", 2) == 1:
            given = np.broadcast_to(given, (len(kept), given.size))
            others, _ = _read(np.asarray(y_true)[kept], given, classes, None, name="reference")
        else:
            others = _read(y_true, given, classes, None, name="reference")[0][kept]
        found["reference_score"] = mean_estimate(others, weight, units(others), level, least=0.0)
        found["skill"] = skill_estimate(
            values, others, weight, lambda each: mean_estimate(each, weight, units(each), level, most=1.0)
        )
        verdict = skill_verdict(found["skill"].low, found["skill"].high, found["skill"].value, "the reference")
    known: dict[str, Any] = {"level": level, "n": kept.size, "n_eff": kish_size(weight), "evaluated_on": evaluated_on}
    return Scores(list(named_scores(found, **known).values()), verdict=verdict)


def skill_estimate(
    values: FloatArray, others: FloatArray, weight: FloatArray, mean: Callable[[FloatArray], Estimate]
) -> Estimate:
    """Estimate one less the ratio of two mean scores, paired by row; `mean` estimates the mean of a number per row.

    That number is of the linearised ratio (the delta method), so that its spread is the ratio's error.
    """
    score, other = (float(np.average(each, weights=weight)) for each in (values, others))
    if other <= 0.0:
        return Estimate.of_value(np.nan, "undefined: the reference's score is zero")
    return mean(1.0 - score / other + (score / other * others - values) / other)


def skill_verdict(low: float, high: float, value: float, name: str) -> str:
    """Say whether a score is better than that of a reference."""
    if np.isnan(value):
        return f"Skill against {name} is not defined: its score is zero."
    if low > 0.0:
        return f"Better than {name}: the score is {value:.1%} lower."
    if high < 0.0:
        return f"Worse than {name}: the score is {-value:.1%} higher."
    return f"No difference to {name} that these rows could show."


def _read(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    name: str = "y_prob",
) -> tuple[FloatArray, FloatArray]:
    """Return the score and the weight of each row."""
    prob = two_columns(as_probabilities(y_prob, name=name).values)
    order = None
    if classes is not None:
        named = np.asarray(classes)
        if np.unique(named).size != named.size:
            raise InvalidLabelError(f"classes={quoted(named.tolist())} names a class twice. Name each once, in order.")
        order = np.argsort(named, kind="stable")
        classes = named[order]
    labels = as_labels(y_true, classes=classes, n_columns=prob.shape[1])
    check_same_length(labels.codes.size, len(prob), "y_true", name)
    place = labels.codes.astype(np.intp) if order is None else order[labels.codes]
    weight = as_weight(sample_weight, len(prob))
    happened = (place[:, None] <= np.arange(prob.shape[1])).astype(np.float64)
    score = np.square(np.cumsum(prob, axis=1) - happened)[:, :-1].sum(axis=1)
    return np.asarray(score), np.ones(len(prob)) if weight is None else weight
