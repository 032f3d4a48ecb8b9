"""Nearly-isotonic regression: the whole path of solutions by fusing neighbours as they meet."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray


@compiled
def follow_near_isotonic(values: FloatArray, weight: FloatArray, penalties: FloatArray, out: FloatArray) -> None:
    """Write the solution at each of the rising `penalties` to a row of `out`.

    Minimises 1/2 sum_i weight_i (values_i - b_i)^2 + penalty sum_i max(b_i - b_{i+1}, 0). As the penalty grows, each
    block of equal values moves at a constant speed until it meets a neighbour, and stays with it from then on:
    neighbours never move apart.
    """
    n = values.size
    level = values.copy()
    mass = weight.copy()
    first = np.arange(n)
    speed = np.empty(n)
    closeness = 1e-14 * (values.max() - values.min())
    n_blocks = n
    penalty = 0.0
    row = 0
    while row < penalties.size:
        for g in range(n_blocks):  # a higher left neighbour lifts a block, a lower right one pulls it down
            lift = 0.0
            if g > 0 and level[g - 1] > level[g]:
                lift += 1.0
            if g + 1 < n_blocks and level[g] > level[g + 1]:
                lift -= 1.0
            speed[g] = lift / mass[g]
        wait = np.inf
        meeting = -1
        for g in range(n_blocks - 1):
            closing = speed[g] - speed[g + 1]
            if closing != 0.0 and (level[g + 1] - level[g]) / closing < wait:
                wait = (level[g + 1] - level[g]) / closing
                meeting = g
        while row < penalties.size and penalties[row] - penalty <= wait:
            for g in range(n_blocks):
                end = first[g + 1] if g + 1 < n_blocks else n
                move = speed[g] * (penalties[row] - penalty) if speed[g] != 0.0 else 0.0
                out[row, first[g] : end] = level[g] + move
            row += 1
        if meeting < 0:
            return
        penalty += wait
        kept = 0
        for g in range(n_blocks):
            moved = level[g] + speed[g] * wait
            if g > 0 and (g == meeting + 1 or abs(moved - level[kept - 1]) <= closeness):
                mass[kept - 1] += mass[g]
                level[kept - 1] += (moved - level[kept - 1]) * (mass[g] / mass[kept - 1])
            else:
                level[kept], mass[kept], first[kept] = moved, mass[g], first[g]
                kept += 1
        n_blocks = kept
