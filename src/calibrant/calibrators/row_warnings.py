"""What is odd about rows, found before a fit and said aloud: weights that are shares, scores against the labels."""

from __future__ import annotations

import math

import numpy as np

from calibrant.dependent_rows import DesignEffects
from calibrant.errors import DataWarning, warn
from calibrant.numerics import FloatArray
from calibrant.rows import Rows

#: Standard errors below one half at which the share of pairs in order is beyond chance: once in 740 sets without skill.
_BEYOND_CHANCE = 3.0
#: Of more rows than this, about so many are looked at.
_LOOKED_AT = 50_000


#: Rows that weights must sum to, and their share of all rows, below which they are taken for shares.
_FEWEST, _LEAST_SHARE = 2.0, 0.01


def warn_of_rows(rows: Rows) -> None:
    """Warn of what a fit takes as it is, though it is hardly meant."""
    _warn_if_light(rows)
    _warn_if_inverted(rows)


def _warn_if_light(rows: Rows) -> None:
    """Warn where the weights sum to much less than the number of rows, as shares do."""
    if rows.weight is None:
        return
    total, n_weighted = float(rows.weight.sum()), int(np.count_nonzero(rows.weight))
    if total < max(_FEWEST, _LEAST_SHARE * n_weighted) and total < n_weighted:
        warn(
            f"the weights sum to {total:.3g} over {n_weighted:,} rows, and a weight counts rows: what allows for few "
            f"rows takes these for {total:.3g}. If the weights are shares, divide them by their mean.",
            DataWarning,
        )


def _warn_if_inverted(rows: Rows) -> None:
    """Warn where rows of the positive one of two classes score lower than the others, beyond chance.

    By the rank-sum test of Mann and Whitney (1947): where scores say nothing, the share of pairs in order has the mean
    1/2 and the variance (n + 1) / (12 n0 n1), times the design effect of rows that are not independent. Scores are
    sorted only where their means are in the wrong order.
    """
    if rows.n_classes != 2:
        return
    if rows.n_rows > _LOOKED_AT:
        rows = rows.take(np.arange(0, rows.n_rows, -(-rows.n_rows // _LOOKED_AT)))
    scores: FloatArray = rows.scores / max(1.0, 4.0 * float(np.abs(rows.scores).max()))  # whose sums are finite
    if scores.ndim == 2:
        scores = scores[:, 1] - scores[:, 0]
    is_positive, weight = rows.codes == 1, rows.weights
    parts = [(scores[part], weight[part]) for part in (~is_positive, is_positive)]
    if any(w.sum() == 0.0 for _, w in parts) or np.subtract(*(np.average(s, weights=w) for s, w in parts)) <= 0.0:
        return
    summary = rows.with_scores(scores).summary()
    negatives = summary.weight - summary.positives
    below = np.cumsum(negatives) - 0.5 * negatives
    in_order = float(summary.positives @ below) / (summary.total_positives * float(negatives.sum()))
    n0, n1 = (float(w.sum()) ** 2 / float(w @ w) for _, w in parts)
    error = math.sqrt((n0 + n1 + 1.0) / (12.0 * n0 * n1))
    if in_order < 0.5 - _BEYOND_CHANCE * error * math.sqrt(_design_effect(rows, scores)):
        other, positive = rows.classes.tolist()
        warn(
            f"the scores run against the labels: in {in_order:.1%} of pairs only does a row of {positive!r} score "
            f"higher than one of {other!r}. {positive!r} is taken as the positive class. If the scores are those of "
            f"{other!r}, pass y == {other!r}, or --positive {other} on the command line.",
            DataWarning,
        )


def _design_effect(rows: Rows, scores: FloatArray) -> float:
    """Return the design effect of the difference between the ranks of positives and negatives."""
    dependence = DesignEffects.of(rows)
    if not dependence.is_dependent:
        return 1.0
    ranks = np.searchsorted(np.sort(scores), scores) / scores.size - 0.5
    share = float(np.average(rows.codes == 1, weights=rows.weight))
    return float(dependence.of_means(rows, (((rows.codes == 1) - share) * ranks)[:, None])[0])
