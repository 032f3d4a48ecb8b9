"""How sorted scores are cut into bins: rules that calibrators and metrics share."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import FloatArray, IntArray


def equal_mass_bins(weight: FloatArray, n_bins: int) -> IntArray:
    """Return the bin, rising from 0, of each of the sorted distinct scores, so that bins have near-equal weight.

    A score belongs to the bin that the middle of its own weight falls into, so that ties stay whole.
    """
    middle = np.cumsum(weight) - 0.5 * weight
    bin_of: IntArray = np.minimum((middle * (n_bins / weight.sum())).astype(np.int64), n_bins - 1)
    return bin_of


def midpoints(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return edges midway between neighbours, never below `left` nor at or above a larger `right`."""
    middle = 0.5 * left + 0.5 * right
    return np.where((middle < left) | ((middle >= right) & (left < right)), left, middle)


def equal_mass_starts(weight: FloatArray, n_bins: int) -> IntArray:
    """Return the index of the first score of each of `equal_mass_bins` that holds one."""
    return np.flatnonzero(np.diff(equal_mass_bins(weight, n_bins), prepend=-1))
