"""The CORP decomposition of a proper score: miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.proper_scores import LossFunction, brier_losses, log_losses, mean_loss
from calibrant.summary import Blocks, ScoreSummary, TiedScores
from calibrant.validation import ArrayLike, check_choice

ScoreName: TypeAlias = Literal["brier", "log"]
_LOSSES: dict[ScoreName, LossFunction] = {"brier": brier_losses, "log": log_losses}


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A mean score in three parts: score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    miscalibration : float
        What recalibrating by isotonic regression would save; 0 where it changes nothing.
    discrimination : float
        What the recalibrated probabilities save against predicting the base rate for all rows.
    uncertainty : float
        The score of the base rate: a property of the outcomes alone.
    score : float
        The mean score of the probabilities as they are.
    """

    miscalibration: float
    discrimination: float
    uncertainty: float
    score: float


def decompose(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    score: ScoreName = "brier",
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Decomposition:
    """Split the Brier score or log loss into miscalibration, discrimination and uncertainty.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes: the Brier score of each column against
        the rest is split, and the parts are summed over the classes.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    score : {"brier", "log"}
        The score to split; "log" is for one column.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    Decomposition

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The recalibrated probabilities are the isotonic regression of the outcomes on the probabilities: no bins to
    choose, and no part is negative. It is fitted to the rows that it is judged on, so miscalibration and
    discrimination are both biased upward, by the same amount, which falls about as n^(-2/3).

    Log loss and with it miscalibration are infinite where something happened that had probability 0.

    References
    ----------
    Dimitriadis, Gneiting and Jordan (2021), *Stable reliability diagrams for probabilistic classifiers*, PNAS 118.

    Examples
    --------
    >>> from calibrant.metrics import decompose
    >>> parts = decompose([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
    >>> round(parts.miscalibration, 4), parts.discrimination, parts.uncertainty
    (0.1017, 0.125, 0.25)
    """
    check_choice("score", score, get_args(ScoreName))
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    losses = _LOSSES[score]
    if rows.is_binary:
        return split(rows.one_column().summary(), losses)
    if score == "log":
        raise InvalidInputError(
            f'score="log" is for one column, but y_prob has {rows.n_classes}: the log loss of K classes is no sum over '
            'columns. Use score="brier", or pass one column and binary labels.'
        )
    return sum_of([split(rows.of_class(k).summary(), losses) for k in range(rows.n_classes)])


def split(summary: ScoreSummary, losses: LossFunction, blocks: Blocks | None = None) -> Decomposition:
    """Split the mean loss of the rows of a summary, whose isotonic blocks may be given."""
    blocks = summary.isotonic_blocks() if blocks is None else blocks
    groups = summary.tied()
    score = mean_loss(groups, losses(groups.scores))
    recalibrated = mean_loss(TiedScores(blocks.rate, blocks.weight, blocks.positives), losses(blocks.rate))
    base_rate = np.array([summary.base_rate])
    everything = TiedScores(base_rate, np.array([summary.total_weight]), np.array([summary.total_positives]))
    uncertainty = mean_loss(everything, losses(base_rate))
    # rounding must not make a saving of nothing negative
    return Decomposition(max(score - recalibrated, 0.0), max(uncertainty - recalibrated, 0.0), uncertainty, score)


def sum_of(parts: list[Decomposition]) -> Decomposition:
    """Sum decompositions part by part."""
    return Decomposition(
        miscalibration=sum(part.miscalibration for part in parts),
        discrimination=sum(part.discrimination for part in parts),
        uncertainty=sum(part.uncertainty for part in parts),
        score=sum(part.score for part in parts),
    )
