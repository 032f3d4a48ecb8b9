"""Maps of a row of scores, one per class, to the probabilities of all classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.maps.coupling import Coupling, couple
from calibrant.maps.single import BinaryMap
from calibrant.numerics import TINY, FloatArray, row_max, row_sum, softmax

#: Products of numbers from which loading the compiled loop is worth while.
_COMPILED_FROM = 1 << 25
#: Numbers per block of rows: what a block's temporaries need stays in cache.
_BLOCK = 1 << 15


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
        n, n_classes = scores.shape
        size = max(1, _BLOCK // n_classes)
        if n <= size or (self.weight.ndim == 2 and n * self.weight.size >= _COMPILED_FROM):
            return softmax(self.logits(scores))
        out = np.empty(scores.shape)
        for start in range(0, n, size):
            block = slice(start, start + size)
            out[block] = softmax(self.logits(scores[block]))
        return out

    def logits(self, scores: FloatArray) -> FloatArray:
        """Return what the softmax is taken of, shape (n, K)."""
        z = scores if self.clip is None else np.log(np.maximum(scores, self.clip))
        return _linear(z, self.weight) + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class MixtureMap:
    """q = sum_j w_j q_j of the outputs q_j of several softmax maps; the weights sum to one."""

    maps: tuple[SoftmaxMap, ...]
    weights: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        q = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            q += weight * part.apply(scores)
        return np.minimum(q, 1.0, out=q)


@dataclass(frozen=True, slots=True, eq=False)
class OneVsRestMap:
    """One binary map per column, then each row coupled into a distribution, as `calibrant.maps.coupling` says.

    Columns of logits, where `is_logit` says so, are turned into probabilities by softmax first.
    """

    maps: tuple[BinaryMap, ...]
    is_logit: bool = False
    coupling: Coupling = "normalise"

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        if self.is_logit:
            scores = softmax(scores)
        columns = [m.apply(np.ascontiguousarray(scores[:, j])) for j, m in enumerate(self.maps)]
        return couple(np.column_stack(columns), self.coupling)


@dataclass(frozen=True, slots=True, eq=False)
class TopLabelMap:
    """The largest probability p of each row becomes q, by a binary map; the other classes share 1 - q.

    They share it in their old proportions, equally where they had nothing to share. Where one of them would so
    reach q, all are drawn towards equal shares, just as far as the top label stays on top; a q below 1 / K, which no
    top label of K classes can have, is raised to it. `maps` holds one map, or one for each class that may be on top.
    Logits, where `is_logit` says so, are turned into probabilities by softmax first. Of equal probabilities the
    first is on top.
    """

    n_classes: int
    maps: tuple[BinaryMap, ...]
    is_logit: bool = False

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        p = softmax(scores) if self.is_logit else scores
        top = p.argmax(axis=1)
        at = np.arange(top.size)
        q = np.maximum(self._confidence(p[at, top], top), 1.0 / self.n_classes)
        others = p.copy()
        others[at, top] = 0.0
        total = row_sum(others)
        equal = 1.0 / (self.n_classes - 1.0)
        share = np.full_like(p, equal)
        np.divide(others, total[:, None], out=share, where=total[:, None] > 0.0)
        share[at, top] = 0.0
        left, highest = 1.0 - q, row_max(share)
        excess = np.maximum(left * highest - q, 0.0)
        pull = np.minimum(excess / np.maximum(left * (highest - equal), TINY), 1.0)
        share += pull[:, None] * (equal - share)
        out = np.minimum(left[:, None] * share, np.nextafter(q, 0.0)[:, None])  # whatever was rounded, below q
        out[at, top] = q
        return out

    def _confidence(self, p: FloatArray, top: npt.NDArray[np.intp]) -> FloatArray:
        if len(self.maps) == 1:
            return self.maps[0].apply(p)
        q = np.empty_like(p)
        for k, fitted in enumerate(self.maps):
            rows = top == k
            if rows.any():
                q[rows] = fitted.apply(p[rows])
        return q


PoolPart: TypeAlias = SoftmaxMap | OneVsRestMap


@dataclass(frozen=True, slots=True, eq=False)
class LogPoolMap:
    """q = (1 - uniform) r + uniform / K, r proportional to prod_j q_j^w_j of the outputs q_j of several maps.

    The weights are positive and sum to one. Outputs of one-vs-rest maps, which may be zero, are clipped to at least
    `clip`; those of softmax maps are not.
    """

    maps: tuple[PoolPart, ...]
    weights: FloatArray
    clip: float
    uniform: float

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        z = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            z += weight * log_outputs(part, scores, self.clip)
        q = softmax(z)
        q *= 1.0 - self.uniform
        q += self.uniform / q.shape[1]
        return q


MulticlassMap: TypeAlias = SoftmaxMap | MixtureMap | OneVsRestMap | TopLabelMap | LogPoolMap


def log_outputs(part: PoolPart, scores: FloatArray, clip: float) -> FloatArray:
    """Return the logarithms of a map's outputs, up to a shift of each row that leaves its largest near zero."""
    match part:
        case SoftmaxMap():
            z = part.logits(scores)
            with np.errstate(over="ignore"):  # minus infinity is right: no probability is left
                return z - row_max(z)[:, None]
        case OneVsRestMap():
            return np.log(np.maximum(part.apply(scores), clip))


def _linear(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply row by row; a matrix product would round differently in batches of different size."""
    if weight.ndim < 2:
        return z * weight
    out = np.zeros((z.shape[0], weight.shape[0]))
    if z.shape[0] * weight.size >= _COMPILED_FROM:
        kernels.multiply_rows(z, np.ascontiguousarray(weight.T), out)
        return out
    for k in range(weight.shape[1]):
        out += z[:, k : k + 1] * weight[:, k]
    return out
