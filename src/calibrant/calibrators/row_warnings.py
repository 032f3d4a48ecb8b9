"""What is odd about rows, found before a fit and said aloud: weights that are shares, scores against the labels."""

from __future__ import annotations

import math

import numpy as np

from calibrant.dependent_rows import DesignEffects
from calibrant.errors import DataWarning, warn
from calibrant.numerics import FloatArray, dot
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

#: Standard errors below one half at which the share of pairs in order is beyond chance: once in 740 sets without skill.
_BEYOND_CHANCE = 3.0
#: Of more rows than this, about so many are looked at.
_LOOKED_AT = 50_000


#: Rows that weights must sum to, and their share of all rows, below which they are taken for shares; from 10 rows on.
_FEWEST, _LEAST_SHARE, _FROM_ROWS = 2.0, 0.01, 10


def warn_of_rows(rows: Rows, *, allow_inversion: bool = False) -> None:
    """Warn of what a fit takes as it is, though it is hardly meant."""
    _warn_if_light(rows)
    _warn_if_inverted(rows, allow_inversion)


def _warn_if_light(rows: Rows) -> None:
    """Warn where the weights sum to much less than the number of rows, as shares do."""
    if rows.weight is None:
        return
    total, n_weighted = float(rows.weight.sum()), int(np.count_nonzero(rows.weight))
    if n_weighted >= _FROM_ROWS and total < max(_FEWEST, _LEAST_SHARE * n_weighted):
        warn(
            f"the weights sum to {total:.3g} over {n_weighted:,} rows, and a weight counts rows: what allows for few "
            f"rows takes these for {total:.3g}. If the weights are shares, divide them by their mean.",
            DataWarning,
        )


def _warn_if_inverted(rows: Rows, allowed: bool) -> None:
    """Warn where rows of the positive one of two classes score lower than the others, beyond chance.

    Scores are sorted only where their means are in the wrong order.
    """
    if rows.n_classes != 2:
        return
    if rows.n_rows > _LOOKED_AT:
        rows = rows.take(np.arange(0, rows.n_rows, -(-rows.n_rows // _LOOKED_AT)))
    scores: FloatArray = rows.scores / max(1.0, 4.0 * float(np.abs(rows.scores).max()))  # whose sums are finite
    if scores.ndim == 2:
        scores = scores[:, 1] - scores[:, 0]
    weights = [rows.weights * (rows.codes == code) for code in (0, 1)]
    totals = [float(weight.sum()) for weight in weights]
    if min(totals) == 0.0:
        return
    mean, positive_mean = (dot(weight, scores) / total for weight, total in zip(weights, totals, strict=True))
    if mean <= positive_mean:
        return
    rows = rows.with_scores(scores)
    in_order = inverted_share(rows.summary(), rows)
    if in_order is None:
        return
    other, positive = rows.classes.tolist()
    found = (
        f"the scores run against the labels: in {in_order:.1%} of pairs only does a row of {positive!r} score higher "
        f"than one of {other!r}."
    )
    if allowed:
        warn(f"{found} They are turned round, as allow_inversion asks.", DataWarning)
    else:
        warn(
            f"{found} {positive!r} is taken as the positive class. If the scores are those of {other!r}, pass "
            f"y == {other!r}, or let auto turn them round: allow_inversion=True, or calibrant fit --allow-inversion.",
            DataWarning,
        )


def inverted_share(summary: ScoreSummary, rows: Rows | None = None) -> float | None:
    """Return the share of pairs of a positive and a negative that are in order, if it is below one half beyond chance.

    `rows` are those that were summarised, where they are known. By the rank-sum test of Mann and Whitney (1947): where
    scores say nothing, the share has the mean 1/2 and the variance (n + 1) / (12 n0 n1), times the design effect of
    rows that are not independent.
    """
    negatives, total = summary.weight - summary.positives, summary.total_weight
    n_positive, n_negative = summary.total_positives, float(negatives.sum())
    if min(n_positive, n_negative) <= 0.0:
        return None
    in_order = float(summary.positives @ (np.cumsum(negatives) - 0.5 * negatives)) / (n_positive * n_negative)
    size = summary.effective_size
    n1, n0 = size * n_positive / total, size * n_negative / total
    least = 0.5 - in_order - _BEYOND_CHANCE * math.sqrt((size + 1.0) / (12.0 * n0 * n1))
    if least > 0.0 and rows is not None:
        least = 0.5 - in_order - (0.5 - in_order - least) * math.sqrt(_design_effect(rows, rows.scores))
    return in_order if least > 0.0 else None


def _design_effect(rows: Rows, scores: FloatArray) -> float:
    """Return the design effect of the difference between the ranks of positives and negatives."""
    dependence = DesignEffects.of(rows)
    if not dependence.is_dependent:
        return 1.0
    ranks = np.searchsorted(np.sort(scores), scores) / scores.size - 0.5
    share = float(np.average(rows.codes == 1, weights=rows.weight))
    return float(dependence.of_means(rows, (((rows.codes == 1) - share) * ranks)[:, None])[0])
