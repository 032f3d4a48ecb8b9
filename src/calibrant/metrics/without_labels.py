"""Scores without labels: what calibrated probabilities themselves say of how right they are.

If a row's label is positive with the probability p that was predicted for it, everything that is measured by labels has
a known distribution: accuracy is a sum of independent trials of known rates, a loss the mean of the losses of both
outcomes. This is confidence-based performance estimation. It is right exactly as far as the probabilities are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.metrics.estimates import Estimate, Mean, named_scores, normal_estimate
from calibrant.numerics import BoolArray, FloatArray, dot, kish_size, two_columns
from calibrant.phrases import figure, interval
from calibrant.results import Scores
from calibrant.validation import ArrayLike, as_scores, as_weight, check_choice, check_fraction

Target: TypeAlias = Literal["rows", "population"]
TARGETS: tuple[str, ...] = get_args(Target)
#: What an estimate without labels takes for granted, in a sentence.
ASSUMPTION = (
    "Estimated without labels: right if the probabilities are calibrated on these rows (no concept shift) and labels "
    "are independent given them. A change in what the scores mean can't be seen without labels."
)
#: Rows up to which the distribution of a count is found exactly; that of more rows is as good as normal.
_EXACT = 10_000
#: Scores that the verdict names.
_NAMED = ("accuracy", "brier", "log_loss")
_ON = "estimated without labels"


def expected_scores(
    y_prob: ArrayLike,
    *,
    threshold: float = 0.5,
    target: Target = "rows",
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> Scores:
    """Estimate accuracy, losses and ranking of calibrated probabilities before labels are known.

    Parameters
    ----------
    y_prob : array-like of shape (n,) or (n, K)
        Calibrated probabilities of the positive class, or of each class.
    threshold : float
        Rows of one score from here on are predicted positive. Of K classes the most probable one is predicted.
    target : {"rows", "population"}
        What the intervals are to hold. "rows": what will be measured on these very rows once their labels are known;
        chance is in the labels alone. "population": the expectation over all rows that these are a sample of; chance is
        in which rows were drawn.
    sample_weight : array-like of shape (n,), optional
    level : float
        Coverage of the intervals.

    Returns
    -------
    Scores
        "accuracy", "brier", "log_loss" and, of one score, "precision", "recall", "auc" and "base_rate", the share of
        positives. `n` of precision counts the rows predicted positive, that of the others all rows. `verdict` has the
        figures in words, `notes` the assumption.

    Raises
    ------
    CalibrantError
        If the probabilities can't be used.

    Notes
    -----
    With y = 1 of probability p, independently for each row, accuracy is the mean of trials with rates p or 1 - p, the
    Brier score has mean p (1 - p) and log loss the entropy of p. Precision is the mean p of rows predicted positive.
    Recall and AUC are ratios of sums over rows and pairs of rows: those of expectations are given, off by the order of
    1 / n, with errors by the delta method. Accuracy, precision and the base rate of up to 10,000 rows without weights
    have exact intervals on "rows", by the Poisson-binomial distribution; other intervals are normal.

    The estimate needs probabilities that are calibrated on *these* rows: a shift of the features alone may be allowed
    for by the scores, but where the meaning of a score has changed (concept shift) or it was never calibrated, the
    estimate is wrong, and no figure of it shows that. Measure as soon as labels are there.

    References
    ----------
    NannyML's documentation, *How performance estimation works: confidence-based performance estimation (CBPE)*.
    Białek, Kivimäki, Kuberski and Perrakis (2024), *Estimating model performance under covariate shift without
    labels*, arXiv:2401.08348. Hong (2013), *On computing the distribution function for the Poisson binomial
    distribution*, Computational Statistics & Data Analysis 59.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores = cb.metrics.expected_scores([0.9, 0.8, 0.3, 0.1] * 50)
    >>> print(scores["accuracy"])
    accuracy 0.8250 [0.7700, 0.8750]
    """
    check_choice("target", target, TARGETS)
    checked = as_scores(y_prob, name="y_prob", input="probability")
    weight = as_weight(sample_weight, checked.values.shape[0], rows="y_prob")
    return expected_of(checked.values, weight, threshold=threshold, target=target, level=level)


def expected_of(p: FloatArray, weight: FloatArray | None, *, threshold: float, target: Target, level: float) -> Scores:
    """Estimate the scores of checked probabilities; see `expected_scores`."""
    threshold, level = check_fraction("threshold", threshold), check_fraction("level", level)
    weights = np.ones(p.shape[0]) if weight is None else weight
    p, weights = p[weights > 0.0], weights[weights > 0.0]
    if p.ndim == 2 and p.shape[1] == 2:
        p = np.ascontiguousarray(p[:, 1])
    is_one = p.ndim == 1
    both = two_columns(p)
    predicted = (p >= threshold).astype(np.int64) if is_one else p.argmax(axis=1)
    right = both[np.arange(predicted.size), predicted]
    found = {"accuracy": _share(right, weights, target, level)}
    found |= {name: _loss(both, losses, weights, target, level) for name, losses in _losses(both, is_one).items()}
    if is_one:
        found |= _of_events(p, predicted == 1, weights, target, level)
    n, size = p.shape[0], kish_size(weights)
    scores = named_scores(found, level=level, n=n, n_eff=size, evaluated_on=_ON)
    named = {name: each for name, each in scores.items() if name in _NAMED}
    shown = [f"{name} {figure(each.value)} ({interval(level, each.low, each.high)})" for name, each in named.items()]
    return Scores([*scores.values()], verdict=f"Expected without labels: {', '.join(shown)}.", notes=[ASSUMPTION])


def _losses(both: FloatArray, is_one: bool) -> Mapping[str, FloatArray]:
    """Return the losses of each row by what its label turns out to be, shape (n, K)."""
    with np.errstate(divide="ignore"):
        surprise = -np.log(both)
    if is_one:
        return {"brier": (1.0 - both) ** 2, "log_loss": surprise}
    return {"brier": np.einsum("ij,ij->i", both, both)[:, None] - 2.0 * both + 1.0, "log_loss": surprise}


def _loss(both: FloatArray, losses: FloatArray, weights: FloatArray, target: Target, level: float) -> Estimate:
    """Estimate a mean loss. An outcome of probability 0 adds nothing, even where its loss is infinite."""
    losses = np.where(both > 0.0, losses, 0.0)
    mean = np.einsum("ij,ij->i", both, losses)
    spread = np.maximum(np.einsum("ij,ij->i", both, losses**2) - mean**2, 0.0)
    return _estimate(float(np.average(mean, weights=weights)), mean, spread, weights, target, level, most=math.inf)


def _share(rates: FloatArray, weights: FloatArray, target: Target, level: float) -> Estimate:
    """Estimate the mean of independent trials of known rates."""
    value = float(np.average(rates, weights=weights))
    found = _estimate(value, rates, rates * (1.0 - rates), weights, target, level)
    if target == "population" or rates.size > _EXACT or np.ptp(weights) > 0.0:
        return found
    low, high = _exact_interval(rates, level)
    return replace(found, low=low / rates.size, high=high / rates.size, method="Poisson-binomial, exact")


def _estimate(
    value: float,
    rows: FloatArray,
    outcomes: FloatArray,
    weights: FloatArray,
    target: Target,
    level: float,
    *,
    most: float = 1.0,
) -> Estimate:
    """Return a weighted mean with its normal interval.

    `rows` holds the expectation of each row, `outcomes` its variance given the row; the interval goes by the spread of
    the former for a population, and by the latter for these rows.
    """
    share = weights / weights.sum()
    n = rows.size
    spread = (rows - value) ** 2 * (n / (n - 1.0)) if target == "population" and n > 1 else outcomes
    error = math.sqrt(dot(share**2, spread))
    return _normal(value, error, target, level, most=most)


def _normal(value: float, error: float, target: Target, level: float, *, most: float = 1.0) -> Estimate:
    found = normal_estimate(Mean(value, error), level, least=0.0, most=most)
    return replace(found, method="normal, of labels" if target == "rows" else "normal, of rows")


def _of_events(
    p: FloatArray, is_predicted: BoolArray, weights: FloatArray, target: Target, level: float
) -> dict[str, Estimate]:
    """Estimate what is measured of one score: precision, recall, ranking and the share of events."""
    precision = Estimate.of_value(math.nan, "no row is predicted positive").of_rows(0, 0.0)
    if is_predicted.any():
        own = weights[is_predicted]
        precision = _share(p[is_predicted], own, target, level).of_rows(own.size, kish_size(own))
    recall = Estimate.of_value(math.nan, "no event is expected")
    events, others = dot(weights, p), dot(weights, 1.0 - p)
    if events > 0.0:
        value = dot(weights[is_predicted], p[is_predicted]) / events
        moved = weights * (is_predicted - value) / events  # what one event more adds
        recall = _normal(value, _error(moved, moved * p, p, target), target, level)
    return {
        "precision": precision,
        "recall": recall,
        "auc": _ranking(p, weights, events, others, target, level),
        "base_rate": _share(p, weights, target, level),
    }


def _error(by_outcome: FloatArray, by_row: FloatArray, p: FloatArray, target: Target) -> float:
    """Return the standard error of a ratio, from what an event in place of a non-event, or a row, adds to it."""
    if target == "population":
        return math.sqrt(dot(by_row, by_row))
    return math.sqrt(dot(by_outcome**2, p * (1.0 - p)))


def _ranking(
    p: FloatArray, weights: FloatArray, events: float, others: float, target: Target, level: float
) -> Estimate:
    """Estimate the AUC: over pairs of different rows, the chance that an event is ranked above a non-event."""
    _, place = np.unique(p, return_inverse=True)
    event, other = weights * p, weights * (1.0 - p)
    at_event, at_other = np.bincount(place, event), np.bincount(place, other)
    below = (np.cumsum(at_other) - 0.5 * at_other)[place]  # non-events that are ranked below each row, ties by half
    above = (events - np.cumsum(at_event) + 0.5 * at_event)[place]
    pairs = events * others - dot(event, other)
    if pairs <= 0.0:
        return Estimate.of_value(math.nan, "no two rows are expected to differ")
    value = (dot(event, below) - 0.5 * dot(event, other)) / pairs
    gained = (below - 0.5 * other) - (above - 0.5 * event)
    counted = (others - other) - (events - event)
    by_outcome = weights * (gained - value * counted) / pairs
    by_row = (event * (below - 0.5 * other) + other * (above - 0.5 * event)) / pairs
    by_row -= value * (event * (others - other) + other * (events - event)) / pairs
    return _normal(value, _error(by_outcome, by_row, p, target), target, level)


def _exact_interval(rates: FloatArray, level: float) -> tuple[int, int]:
    """Return the quantiles of the number of successes that leave (1 - level) / 2 below and above."""
    below = np.cumsum(poisson_binomial(rates))
    tail = 0.5 * (1.0 - level)
    return int(np.searchsorted(below, tail, side="right")), int(np.searchsorted(below, 1.0 - tail))


def poisson_binomial(rates: FloatArray) -> FloatArray:
    """Return the chance of each number of successes in independent trials: products of polynomials, two by two."""
    parts = [np.array([1.0 - rate, rate]) for rate in rates.tolist()]
    while len(parts) > 1:
        joined = [np.convolve(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = joined + parts[len(parts) - len(parts) % 2 :]
    return parts[0]
