"""Rows times a matrix, each row by itself."""

from __future__ import annotations

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray


@compiled
def multiply_rows(z: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Add z @ columns to `out`, whose entries add up in the order of the columns of `z`.

    A matrix product of a library rounds differently in batches of different size.

    Parameters
    ----------
    z : ndarray of shape (n, K)
    columns : ndarray of shape (K, J)
        In rows that lie together.
    out : ndarray of shape (n, J)
    """
    for i in range(z.shape[0]):
        row = out[i]
        for k in range(z.shape[1]):
            factor = z[i, k]
            weights = columns[k]
            for j in range(row.size):
                row[j] += factor * weights[j]
