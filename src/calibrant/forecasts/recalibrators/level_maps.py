"""Maps that bring levels (probability integral transforms) to uniform, fitted to weighted rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.numerics import SMALLEST_CLIP, FloatArray

Knots = tuple[FloatArray, FloatArray]


def empirical_map(u: FloatArray, weight: FloatArray) -> Knots:
    """Return the distribution of the levels as knots: (0, 0), (u_(i), i / (n + 2)), (1, 1), ties at their mean rank.

    The isotonic fit of the official code of Sahoo et al. (2021) and of Kuleshov et al. (2018), whose target, the
    empirical distribution, already rises.
    """
    x, mean_share = mean_ranks(np.clip(u, SMALLEST_CLIP, 1.0 - SMALLEST_CLIP), weight, 2.0)
    return _with_ends(x, mean_share)


def smooth_map(u: FloatArray, weight: FloatArray, n_knots: int, pseudo_counts: float) -> Knots:
    """Return the distribution of the levels at `n_knots` steps of equal weight, drawn towards the identity.

    (W F(u) + kappa u) / (W + kappa), with kappa = `pseudo_counts` and W the weight of all rows.
    """
    order = np.argsort(u, kind="stable")
    rising, cumulative = u[order], np.cumsum(weight[order])
    total = float(cumulative[-1])
    steps = max(min(n_knots, int(total)), 1)
    share = np.arange(1, steps) / steps
    place = np.clip(share * (total + 1.0) - 1.0, 0.0, max(total - 1.0, 0.0))
    whole = np.floor(place)
    low = _row_at(rising, cumulative, whole)
    high = _row_at(rising, cumulative, whole + 1.0)
    at = low + (place - whole) * (high - low)
    at = np.clip(at, SMALLEST_CLIP, 1.0 - SMALLEST_CLIP)
    is_new = np.diff(at, prepend=-1.0) > SMALLEST_CLIP  # a steeper piece would be a jump that rounding can't follow
    x, group = at[is_new], np.cumsum(is_new) - 1
    f = sum_groups(group, share) / sum_groups(group, np.ones(share.size))
    x, f = _with_ends(x, f)
    return x, (total * f + pseudo_counts * x) / (total + pseudo_counts)


def towards_identity(knots: Knots, share: float) -> Knots:
    """Return the map that goes only this share of the way from the identity: a learning rate."""
    x, y = knots
    return x, share * y + (1.0 - share) * x


def mean_ranks(values: FloatArray, weight: FloatArray, more: float) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, rising, and of each the mean of rank / (n + `more`), ranks being 1 to n."""
    order = np.argsort(values, kind="stable")
    w = weight[order]
    cumulative = np.cumsum(w)
    share = (cumulative - 0.5 * w + 0.5) / (cumulative[-1] + more)
    rising = values[order]
    is_new = np.concatenate(([True], rising[1:] > rising[:-1]))
    x, group = rising[is_new], np.cumsum(is_new) - 1
    return x, sum_groups(group, w * share) / sum_groups(group, w)


def sum_groups(group: npt.NDArray[np.integer[Any]], values: FloatArray, n: int = 0) -> FloatArray:
    """Return the sum of the values of each of at least `n` groups, numbered from 0 on."""
    return np.asarray(np.bincount(group, values, minlength=n), dtype=np.float64)


def weighted_quantiles(values: FloatArray, weight: FloatArray, share: FloatArray) -> FloatArray:
    """Return the least values below or at which each share of the weight lies."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    found = np.searchsorted(cumulative, share * cumulative[-1], side="left")
    quantiles: FloatArray = values[order[np.minimum(found, values.size - 1)]]
    return quantiles


def _row_at(rising: FloatArray, cumulative: FloatArray, place: FloatArray) -> FloatArray:
    """Return what lies at a place, from 0 on, of the rows that the weights stand for."""
    found = np.searchsorted(cumulative, place, side="right")
    at: FloatArray = rising[np.minimum(found, rising.size - 1)]
    return at


def _with_ends(x: FloatArray, y: FloatArray) -> Knots:
    return np.concatenate(([0.0], x, [1.0])), np.concatenate(([0.0], y, [1.0]))
