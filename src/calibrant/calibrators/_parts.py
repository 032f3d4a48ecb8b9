"""Random parts of a summary: which share of each score's rows falls into each part."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.summary import Cells

#: Units of weight that are dealt at most: more rows are dealt in runs of neighbours.
_MAX_UNITS = 1 << 16


def deal(cells: Cells, n_parts: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Deal the rows of each class at random to parts of equal size.

    What is dealt are units of weight one along the sorted scores, so that a weight of two goes the ways of two rows,
    and the order of the rows doesn't matter.

    Parameters
    ----------
    cells : Cells
        In rising order of their scores.
    n_parts : int
        A class of less weight is dealt in fractions of a row: no part lacks it.
    seed : int

    Returns
    -------
    weight, positives : ndarray of shape (n_parts, m)
        Of each cell in each part.
    """
    rng = np.random.default_rng(seed)
    positives, negatives = (
        _deal_class(mass, n_parts, rng) for mass in (cells.positives, cells.weight - cells.positives)
    )
    return positives + negatives, positives


def _deal_class(mass: FloatArray, n_parts: int, rng: np.random.Generator) -> FloatArray:
    edges = np.concatenate(([0.0], np.cumsum(mass)))
    total = float(edges[-1])
    n_units = int(min(max(np.ceil(total), n_parts), _MAX_UNITS))
    part_of = rng.permutation(np.arange(n_units) % n_parts)
    places = edges * (n_units / total)
    dealt = [
        np.diff(np.interp(places, np.arange(n_units + 1), np.concatenate(([0], np.cumsum(part_of == part)))))
        for part in range(n_parts)
    ]
    return np.maximum(np.vstack(dealt), 0.0) * (total / n_units)
