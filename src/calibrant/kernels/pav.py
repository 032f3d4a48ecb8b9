"""Pool adjacent violators: the isotonic regression of sorted data in one pass.

What is minimised: sum_i w_i (q_i - y_i)^2 (and the log loss, whose minimum is the same) over values q that don't fall.
The pass keeps a stack of blocks of rising rate. A new tie becomes a block of its own and takes in the block to its left
as long as that one's rate is not below its own. Rates are compared by cross-multiplication, without a division.

Source: Ayer, Brunk, Ewing, Reid and Silverman (1955), An empirical distribution function for sampling with incomplete
information, Annals of Mathematical Statistics 26.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled, compiled_with, interpreted
from calibrant.kernels.column_arrays import PlaceArray
from calibrant.kernels.sorting import KEY_ONE, KeyArray, is_near
from calibrant.numerics import FloatArray, IntArray

Sum = float | np.int64
SumArray = FloatArray | IntArray


@compiled_with(inline="always")
def _push_sums(mass: SumArray, positives: SumArray, top: int, w: Sum, p: Sum) -> int:
    """Put a block on a stack of `top` blocks, pooled with those before it of no lower rate; return their number."""
    while top > 0 and positives[top - 1] * w >= p * mass[top - 1]:
        top -= 1
        w += mass[top]
        p += positives[top]
    mass[top] = w
    positives[top] = p
    return top + 1


@interpreted
def pool_keys(keys: KeyArray, n_negative: int, count: IntArray, positives: IntArray, end: IntArray) -> int:
    """Pool sorted packed keys (label in bit 0) into blocks of rising rate; return their number.

    Scores within a few units in the last place are one, as `is_near` says. The outputs are stacks: rows, positives and
    the index after the last row of each block. Comparisons are of integers, hence exact. At most about n^(2/3) blocks
    of 0/1 labels can rise at a time.
    """
    n = len(keys)
    top = i = 0
    while i < n:
        code = keys[i] >> KEY_ONE
        p = 1 if keys[i] & KEY_ONE else 0
        j = i + 1
        while j < n and is_near(keys[j] >> KEY_ONE, code) and j != n_negative:
            p += 1 if keys[j] & KEY_ONE else 0
            j += 1
        top = _push_sums(count, positives, top, j - i, p)
        end[top - 1] = j
        i = j
    return top


@interpreted
def pool_weighted(
    weight: FloatArray, positives: FloatArray, block_weight: FloatArray, block_positives: FloatArray, end: IntArray
) -> int:
    """Pool sorted ties of weight and positive weight into blocks of rising rate; return their number.

    The outputs may be the inputs: what is written was read before.
    """
    top = 0
    for i in range(len(weight)):
        top = _push_sums(block_weight, block_positives, top, weight[i], positives[i])
        end[top - 1] = i + 1
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
