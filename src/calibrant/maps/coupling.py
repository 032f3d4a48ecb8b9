"""Coupling: K one-vs-rest probabilities of a row, which sum to anything, into one distribution over the classes."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.numerics import FloatArray, normalise_rows
from calibrant.terms import Builder, Term

Coupling: TypeAlias = Literal["normalise", "likelihood"]
COUPLINGS: tuple[Coupling, ...] = get_args(Coupling)


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

    which rises with mu, and `kernels.couple_rows` finds mu by Newton's method within a bracket. At mu = 0 p is r; a row
    that falls short of one has mu in (0, K / (K - 1)], one that exceeds it has mu in [1 - 2 sum_k r_k, 0).

    A rate of zero stays zero unless the others fall too far short of one: unless the sum of sqrt(r_k) is below one. A
    rate of one stays one only where all others are zero. A row of zeros, as one of ones, becomes uniform.

    Source: Hastie and Tibshirani (1998), Classification by pairwise coupling, Annals of Statistics 26, for the
    criterion. Huang, Weng and Lin (2006), Generalized Bradley-Terry models and multi-class probability estimates,
    JMLR 7, for any comparison of groups of classes, of which one-vs-rest is one.
    """
    out = np.empty_like(rates)
    kernels.couple_rows(rates if rates.flags.c_contiguous else np.ascontiguousarray(rates), out)
    return normalise_rows(out)
