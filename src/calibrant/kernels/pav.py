"""Pool adjacent violators: the isotonic regression of sorted data in one pass.

What is minimised: sum_i w_i (q_i - y_i)^2 (and the log loss, whose minimum is the same) over values q that don't fall.
The pass keeps a stack of blocks of rising rate. A new tie becomes a block of its own and takes in the block to its left
as long as that one's rate is not below its own. Rates are compared by cross-multiplication, without a division.

Source: Ayer, Brunk, Ewing, Reid and Silverman (1955), An empirical distribution function for sampling with incomplete
information, Annals of Mathematical Statistics 26.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.column_arrays import PlaceArray
from calibrant.kernels.sorting import KeyArray
from calibrant.numerics import FloatArray, IntArray


@compiled
def pool_keys(keys: KeyArray, n_negative: int, count: IntArray, positives: IntArray, end: IntArray) -> int:
    """Pool sorted packed keys (label in bit 0) into blocks of rising rate; return their number.

    The outputs are stacks: rows, positives and the index after the last row of each block. Comparisons are of
    integers, hence exact. At most about n^(2/3) blocks of 0/1 labels can rise at a time.
    """
    one = np.uint64(1)
    n = keys.size
    top = 0
    i = 0
    while i < n:
        code = keys[i] >> one
        p = np.int64(keys[i] & one)
        j = i + 1
        while j < n and (keys[j] >> one) == code and j != n_negative:
            p += np.int64(keys[j] & one)
            j += 1
        c = np.int64(j - i)
        while top > 0 and positives[top - 1] * c >= p * count[top - 1]:
            top -= 1
            c += count[top]
            p += positives[top]
        count[top] = c
        positives[top] = p
        end[top] = j
        top += 1
        i = j
    return top


@compiled
def pool_weighted(
    weight: FloatArray, positives: FloatArray, block_weight: FloatArray, block_positives: FloatArray, end: IntArray
) -> int:
    """Pool sorted ties of weight and positive weight into blocks of rising rate; return their number."""
    top = 0
    for i in range(weight.size):
        w = weight[i]
        p = positives[i]
        while top > 0 and block_positives[top - 1] * w >= p * block_weight[top - 1]:
            top -= 1
            w += block_weight[top]
            p += block_positives[top]
        block_weight[top] = w
        block_positives[top] = p
        end[top] = i + 1
        top += 1
    return top


@compiled
def push_block(
    level: FloatArray, mass: FloatArray, first: PlaceArray, top: int, mean: float, weight: float, place: int
) -> int:
    """Put a block on the stack, pooled with those before it that lie no lower; return the new top.

    The stack holds the mean, the weight and the first place of each block.
    """
    while top >= 0 and level[top] >= mean:
        total = mass[top] + weight
        mean = (level[top] * mass[top] + mean * weight) / total
        weight = total
        place = first[top]
        top -= 1
    top += 1
    level[top] = mean
    mass[top] = weight
    first[top] = place
    return top
