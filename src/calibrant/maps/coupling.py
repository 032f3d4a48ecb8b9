"""Coupling: K one-vs-rest probabilities of a row, which sum to anything, into one distribution over the classes."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.numerics import EPS, TINY, FloatArray, normalise_rows, row_sum
from calibrant.terms import Builder, Term

Coupling: TypeAlias = Literal["normalise", "likelihood"]
COUPLINGS: tuple[Coupling, ...] = get_args(Coupling)
#: At least every second step halves the bracket or the excess: more than enough for float64.
_MOST_STEPS = 200


def couple(rates: FloatArray, coupling: Coupling) -> FloatArray:
    """Return the distribution over K classes that goes with the one-vs-rest `rates` of each row, shape (n, K)."""
    match coupling:
        case "normalise":
            return normalise_rows(rates)
        case "likelihood":
            return most_likely(rates)


def coupling_formula(b: Builder, rates: Term, n_classes: int, coupling: Coupling) -> Term:
    """Return what `couple` does, in the terms of a builder."""
    match coupling:
        case "normalise":
            total = b.hold(b.total(rates))
            return b.choose(total > 0.0, rates / total, b.number(1.0 / n_classes))
        case "likelihood":
            return b.couple_likeliest(rates)


def most_likely(rates: FloatArray) -> FloatArray:
    """Return the distributions p that minimise sum_k KL(r_k || p_k) of the binary rates r, shape (n, K).

    The same p is the most likely one where each r_k is the share of class k among equally many rows. It is unique,
    and depends on its own row only. With the multiplier mu of sum_k p_k = 1, each p_k is the root in [0, 1] of

        (p_k - r_k) / (p_k (1 - p_k)) = mu,

    which rises with mu, and mu is found by Newton's method within a bracket. At mu = 0 p is r; a row that falls
    short of one has mu in (0, K / (K - 1)], one that exceeds it has mu in [1 - 2 sum_k r_k, 0).

    A rate of zero stays zero unless the others fall too far short of one: unless the sum of sqrt(r_k) is below one. A
    rate of one stays one only where all others are zero. A row of zeros, as one of ones, becomes uniform.

    Source: Hastie and Tibshirani (1998), Classification by pairwise coupling, Annals of Statistics 26, for the
    criterion. Huang, Weng and Lin (2006), Generalized Bradley-Terry models and multi-class probability estimates,
    JMLR 7, for any comparison of groups of classes, of which one-vs-rest is one.
    """
    n, k = rates.shape
    total = row_sum(rates)
    low = np.where(total > 1.0, 1.0 - 2.0 * total, 0.0)
    high = np.where(total < 1.0, k / (k - 1.0), 0.0)
    mu, before = np.zeros(n), np.full(n, np.inf)
    out = rates.copy()
    at = np.arange(n)
    for _ in range(_MOST_STEPS):
        found, slope = _at_multiplier(rates[at], mu[at])
        out[at] = found
        excess = row_sum(found) - 1.0
        is_high = excess > 0.0
        high[at] = np.where(is_high, mu[at], high[at])
        low[at] = np.where(is_high, low[at], mu[at])
        going = (np.abs(excess) > k * EPS) & (high[at] - low[at] > EPS)
        if not going.any():
            break
        at, excess, slope = at[going], excess[going], slope[going]
        with np.errstate(divide="ignore", over="ignore"):
            newton = mu[at] - excess / slope
        # Newton's step where it stays inside the bracket and the last one was good, else the middle of the bracket
        is_good = (np.abs(excess) < 0.5 * before[at]) & (low[at] < newton) & (newton < high[at])
        mu[at] = np.where(is_good, newton, 0.5 * (low[at] + high[at]))
        before[at] = np.abs(excess)
    return normalise_rows(out)


def _at_multiplier(rates: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return p for the multiplier of each row, and the derivative of its sum."""
    m = mu[:, None]
    away = np.where(m > 0.0, 1.0 - m, 1.0 + m)
    root = np.sqrt(away * away + 4.0 * np.abs(m) * np.where(m > 0.0, rates, 1.0 - rates))
    # the one form of the root for each sign of 1 - mu that subtracts no like numbers
    below, above = 2.0 * rates / np.maximum(1.0 - m + root, TINY), (m - 1.0 + root) / (2.0 * np.maximum(m, 0.5))
    p = np.minimum(np.where(m <= 1.0, below, above), 1.0)
    return p, row_sum(p * (1.0 - p) / np.maximum(root, TINY))
