"""Maps of a row of scores, one per class, to the probabilities of all classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.maps.single import BinaryMap
from calibrant.numerics import FloatArray, normalise_rows, softmax


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxMap:
    """q = softmax(W z + bias) of logits z, or of z = log(p) with p clipped to at least `clip`.

    `weight` is a scalar (temperature), a vector (one slope per class) or a matrix, as an array of 0, 1 or 2
    dimensions; `clip` is None for logits.
    """

    weight: FloatArray
    bias: FloatArray
    clip: float | None

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        z = scores if self.clip is None else np.log(np.maximum(scores, self.clip))
        return softmax(_linear(z, self.weight) + self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class OneVsRestMap:
    """One binary map per column, then each row divided by its sum; a row of zeros becomes uniform.

    Columns of logits, where `is_logit` says so, are turned into probabilities by softmax first.
    """

    maps: tuple[BinaryMap, ...]
    is_logit: bool = False

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        if self.is_logit:
            scores = softmax(scores)
        columns = [m.apply(np.ascontiguousarray(scores[:, j])) for j, m in enumerate(self.maps)]
        return normalise_rows(np.column_stack(columns))


MulticlassMap: TypeAlias = SoftmaxMap | OneVsRestMap


def _linear(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply row by row; a matrix product would round differently in batches of different size."""
    if weight.ndim < 2:
        return z * weight
    out = np.zeros((z.shape[0], weight.shape[0]))
    for k in range(weight.shape[1]):
        out += z[:, k : k + 1] * weight[:, k]
    return out
