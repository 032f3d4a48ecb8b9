"""Rows times a matrix, each row by itself: the same bits in a batch of any size, unlike a library's matrix product."""

from __future__ import annotations

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray


@compiled
def multiply_rows(z: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Add z @ columns to `out`, of shape (n, J); sums run in the order of the columns of `z`, shape (n, K)."""
    for i in range(z.shape[0]):
        row = out[i]
        for k in range(z.shape[1]):
            factor = z[i, k]
            weights = columns[k]
            for j in range(row.size):
                row[j] += factor * weights[j]
