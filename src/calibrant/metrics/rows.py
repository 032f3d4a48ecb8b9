"""The gate of the metrics: labels, probabilities and weights, checked once and seen from each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.summary import ScoreRows
from calibrant.validation import (
    ArrayLike,
    Labels,
    as_groups,
    as_labels,
    as_probabilities,
    as_weight,
    check_one_column,
    check_same_length,
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Checked rows: probabilities of shape (n,) or (n, K), encoded labels, weights or None where all are one.

    Rows of weight zero are gone.
    """

    prob: FloatArray
    labels: Labels
    weight: FloatArray | None

    @property
    def is_binary(self) -> bool:
        """Whether there is one probability per row, of the positive class."""
        return self.prob.ndim == 1

    @property
    def n_rows(self) -> int:
        """Number of rows with a weight above zero."""
        return len(self.prob)

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows, (sum w)^2 / sum w^2."""
        if self.weight is None:
            return float(self.n_rows)
        return float(self.weight.sum() ** 2 / np.square(self.weight).sum())

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.labels.classes)

    def counted(self) -> Rows:
        """Return the rows whose weight is above zero."""
        if self.weight is None or self.weight.all():
            return self
        kept = self.weight > 0.0
        labels = Labels(self.labels.codes[kept], self.labels.classes)
        return Rows(self.prob[kept], labels, as_weight(self.weight[kept], int(kept.sum())))

    def of_class(self, k: int) -> ScoreRows:
        """Return class `k` against the rest: its column, and whether each row is of it."""
        if self.is_binary:
            prob = self.prob if k == 1 else 1.0 - self.prob
            return ScoreRows(prob, self.labels.codes == k, self.weight)
        return ScoreRows(np.ascontiguousarray(self.prob[:, k]), self.labels.codes == k, self.weight)

    def one_column(self) -> ScoreRows:
        """Return the positive class of binary rows, and the top label of others."""
        if self.is_binary:
            return ScoreRows(self.prob, self.labels.positive, self.weight)
        return self.top_label()

    def top_label(self) -> ScoreRows:
        """Return the confidence in the most probable class, and whether each row is of it.

        Of equal probabilities the first class is taken.
        """
        if self.is_binary:
            confidence = np.maximum(self.prob, 1.0 - self.prob)
            return ScoreRows(confidence, (self.prob > 0.5) == self.labels.positive, self.weight)
        top = self.prob.argmax(axis=1)
        confidence = np.take_along_axis(self.prob, top[:, None], axis=1)[:, 0]
        return ScoreRows(confidence, top == self.labels.codes, self.weight)


def read_rows(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    pos_label: object,
    classes: ArrayLike | None,
) -> Rows:
    """Check the arguments of a metric and drop rows of weight zero.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.
    """
    checked = as_probabilities(y_prob)
    prob = checked.values
    if prob.ndim == 2 and pos_label is not None:
        raise InvalidInputError(
            f"pos_label={pos_label!r} is for one column of probabilities, but y_prob has {prob.shape[1]}. "
            "Leave pos_label out: columns follow the sorted classes."
        )
    labels = as_labels(y_true, classes=classes, pos_label=pos_label, n_columns=checked.n_columns)
    check_one_column(labels, checked.n_columns, "y_true", "probabilities")
    check_same_length(labels.codes.size, prob.shape[0], "y_true", "y_prob")
    weight = as_weight(sample_weight, prob.shape[0])
    return Rows(prob, labels, weight).counted()


def read_grouped_rows(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    columns: Mapping[str, ArrayLike],
    *,
    sample_weight: ArrayLike | None,
    pos_label: object,
    classes: ArrayLike | None,
) -> tuple[Rows, list[Labels]]:
    """Check the arguments of a metric and the columns that name groups of its rows, and drop rows of weight zero.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.
    """
    rows = read_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    found = {name: as_groups(column, name=name) for name, column in columns.items()}
    weight = None if sample_weight is None else as_weight(sample_weight, len(as_probabilities(y_prob).values))
    n = rows.n_rows if weight is None else weight.size
    for name, groups in found.items():
        check_same_length(n, groups.codes.size, "y_prob", name)
    if weight is None or weight.all():
        return rows, list(found.values())
    kept = weight > 0.0
    return rows, [_present(Labels(groups.codes[kept], groups.classes)) for groups in found.values()]


def _present(labels: Labels) -> Labels:
    present, codes = np.unique(labels.codes, return_inverse=True)
    return Labels(codes, labels.classes[present])
