"""Inductive Venn-Abers prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant import kernels
from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.fitted import apply_map
from calibrant.maps import OneVsRestMap, StepMap, VennAbersMap, step_levels
from calibrant.numerics import FloatArray, softmax
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, near_ends
from calibrant.validation import ArrayLike


@named("venn_abers")
class VennAbersCalibrator(BinaryCalibrator):
    """Venn-Abers: isotonic regression fitted twice, with the new object as a negative and as a positive.

    The two fits p0 <= p1 at the new score bracket its probability; `predict_proba` merges them into
    p1 / (1 - p0 + p1), which is never 0 or 1 and is the minimax choice under log loss. `predict_interval` gives both.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are; only their order matters.

    Notes
    -----
    If rows are exchangeable, one of p0 and p1 is perfectly calibrated, whatever the scores: the one whose label comes
    true. p1 - p0 says how much one more row would move the fit, so it is wide where rows are few; it is no confidence
    interval for the probability. The new object has weight one, whatever the weights of the rows are.

    Both are step functions of the score, whose steps one pass over the sorted scores finds.

    For more than two classes each is fitted against the rest.

    References
    ----------
    Vovk and Petej (2014), *Venn-Abers predictors*, UAI.
    Vovk, Petej and Fedorova (2015), *Large-scale probabilistic predictors with and without guarantees of validity*,
    NeurIPS: section 2 for the fit in linear time, section 4 for the merging.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.VennAbersCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.2, 0.7])
    array([0.4, 0.6])
    >>> p0, p1 = calibrator.predict_interval([0.2, 0.7])
    >>> p0.round(3), p1.round(3)
    (array([0.   , 0.333]), array([0.667, 1.   ]))
    """

    map_kinds = (VennAbersMap,)
    map_: VennAbersMap | OneVsRestMap

    def fit_map(self, data: Rows | ScoreSummary) -> VennAbersMap:
        distinct = data.summary().near_ties
        scores, m = distinct.scores, distinct.scores.size
        points = (*_sums_before(distinct.weight), *_sums_before(distinct.positives))
        following, vertex = np.empty(m + 1, np.int64), np.empty(m + 1, np.int64)
        kernels.following_vertices(*points, following)
        start, level = np.empty(m, np.int64), np.empty(m)

        n = kernels.added_levels(*points, following, 1.0, vertex, start, level)
        edges1 = near_ends(np.append(scores[start[1:n] - 1], scores[-1]))[1]
        levels1 = np.append(level[:n], 1.0)

        n = kernels.added_levels(*points, following, 0.0, vertex, start, level)
        edges0, before = near_ends(scores[start[:n]])[0], near_ends(scores[np.maximum(start[:n], 1) - 1])[1]
        edges0[start[:n] > 0] = np.maximum(edges0, np.nextafter(before, np.inf))[start[:n] > 0]
        levels0 = np.append(0.0, np.minimum(level[:n], step_levels(edges0, edges1, levels1)))  # against rounding
        return VennAbersMap(*_rising_steps(edges0, levels0), *_rising_steps(edges1, levels1))

    def predict_interval(self, scores: ArrayLike) -> tuple[Any, Any]:
        """Return the pair of fits at each score, each in the container that the scores came in.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, K)
            As in `predict_proba`, with the same errors.

        Returns
        -------
        p0, p1 : shape (n,) or (n, K)
            Lower and upper probability: of the positive class for one column; else of each class, not divided by the
            sum of its row. A class that had no rows to fit has 0 and 1.
        """
        rows = self.read(scores)
        p0, p1 = self._pair(self.map_, rows.scores)
        return rows.container.wrap(p0, name="p0"), rows.container.wrap(p1, name="p1")

    def interval_of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pair of fits at checked scores."""
        self.check_fitted()
        return self._pair(self.map_, values)

    def _pair(self, fitted: VennAbersMap | OneVsRestMap, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        if isinstance(fitted, OneVsRestMap):
            columns = (softmax(values) if fitted.is_logit else values).T
            nothing = StepMap(np.empty(0), np.zeros(1)), StepMap(np.empty(0), np.ones(1))  # of a class without rows
            parts = [(m.lower, m.upper) if isinstance(m, VennAbersMap) else nothing for m in fitted.maps]
            pairs = [[m.apply(np.ascontiguousarray(c)) for m in two] for two, c in zip(parts, columns, strict=True)]
            p0, p1 = map(np.column_stack, zip(*pairs, strict=True))
            return p0, p1
        p0, p1 = (apply_map(table, values, self.input) for table in (fitted.lower, fitted.upper))
        if values.ndim == 2:  # the first class is likely where the second is not
            p0[:, 0], p1[:, 0] = p1[:, 0].copy(), p0[:, 0].copy()
        return p0, p1


def _sums_before(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of the first 0, 1, ... values, and what their rounding has lost (Knuth's exact sum of two)."""
    sums = np.append(0.0, np.cumsum(values))
    before, total = sums[:-1], sums[1:]
    kept = total - before
    return sums, np.append(0.0, np.cumsum((before - (total - kept)) + (values - kept)))


def _rising_steps(edges: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out the edges between equal levels."""
    rises = levels[1:] > levels[:-1]
    return edges[rises], levels[np.append(True, rises)]
