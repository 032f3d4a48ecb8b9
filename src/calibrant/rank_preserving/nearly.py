"""How far, or at what price, the order of a column may be broken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.kernels import Rule, SortedColumns
from calibrant.numerics import FloatArray
from calibrant.validation import check_choice, check_number

Pairs: TypeAlias = Literal["neighbours", "all"]
#: Prices of neighbours above so many mean weights keep the order: in sums with them the probabilities are rounded away.
_HIGHEST_PRICE = 1e10


@dataclass(frozen=True, slots=True)
class EpsilonSlack:
    """Let Q_aj exceed Q_bj by at most `eps` where P_aj <= P_bj.

    Parameters
    ----------
    eps : float
        At least 0, which keeps the order; from 1 on nothing of it is asked.
    """

    eps: float

    def __post_init__(self) -> None:
        check_number("eps", self.eps, minimum=0.0)

    @property
    def is_strict(self) -> bool:
        """Whether the order is kept exactly."""
        return self.eps == 0.0

    @property
    def allowed(self) -> float:
        """The largest order violation that is allowed."""
        return self.eps

    def within(self, room: float) -> EpsilonSlack:
        """Return the same slack for entries that are shares of `room`."""
        return EpsilonSlack(self.eps / room)

    def rule(self, penalty: float) -> Rule:  # noqa: ARG002
        """Return what the kernels minimise where the weights of the rows are multiplied by `penalty`."""
        return kernels.SLACK, self.eps

    def cost(self, columns: SortedColumns, q: FloatArray) -> float:  # noqa: ARG002
        """Return what the objective adds for the order violations of sorted columns `q`."""
        return 0.0


@dataclass(frozen=True, slots=True)
class LambdaPenalty:
    """Let the order of a column of P be broken, and add `lam` times the order violations of Q to the objective.

    Parameters
    ----------
    lam : float
        Price of a violation by one, at least 0, where the order is free; `math.inf` keeps it, and so does a price of
        neighbours above 1e10 times the mean weight, whose rounding would decide. It is added to the whole squared
        distance: see Notes for a price of half of it.
    pairs : {"neighbours", "all"}
        Which violations count. "neighbours": those from each probability to the next one above it. "all": the sum of
        w_a w_b max(Q_aj - Q_bj, 0) over all pairs with P_aj <= P_bj, where w are the sample weights. Its prices are
        smaller, as there are more pairs; it costs about as much time.

    Notes
    -----
    What is minimised is sum_ij w_i (Q_ij - P_ij)^2 + lam V(Q), where V sums the violations. The specification of
    rank-preserving calibration states it as 1/2 sum_ij (Q_ij - P_ij)^2 + lambda V(Q) with the violations of all pairs
    and no weights. Twice that is the former, so the same matrix minimises both where lam = 2 lambda and
    pairs = "all": `of_specification(lambda)`.

    Rows of equal probability should be equal both ways, so their distance is a violation: of neighbours that of the
    highest from the lowest, of all pairs that of each two. From one tie to the next, the violation of neighbours is
    that of the highest of the former over the lowest of the latter.

    References
    ----------
    Tibshirani, Hoefling and Tibshirani (2011), *Nearly-isotonic regression*, Technometrics 53(1), equations 1 and 2.
    """

    lam: float
    pairs: Pairs = "neighbours"
    allowed: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if self.lam != math.inf:
            check_number("lam", self.lam, minimum=0.0)
        check_choice("pairs", self.pairs, get_args(Pairs))

    @classmethod
    def of_specification(cls, lam: float) -> Self:
        """Return the penalty that adds `lam` times the violations of all pairs to half the squared distance."""
        return cls(2.0 * cls(lam).lam, "all")

    @property
    def is_strict(self) -> bool:
        """Whether the order is kept exactly."""
        return self.lam == math.inf

    def is_strict_at(self, weight: float) -> bool:
        """Whether the order is kept exactly where rows have this weight: at prices whose rounding would decide."""
        return self.is_strict or (self.pairs == "neighbours" and self.lam > _HIGHEST_PRICE * weight)

    def within(self, room: float) -> LambdaPenalty:
        """Return the same price for entries that are shares of `room`."""
        return replace(self, lam=self.lam / room)

    def rule(self, penalty: float) -> Rule:
        """Return what the kernels minimise where the weights of the rows, and so of pairs, are multiplied."""
        if self.pairs == "neighbours":
            return kernels.NEIGHBOURS, 0.5 * self.lam
        return kernels.PAIRS, 0.5 * self.lam / penalty**2

    def cost(self, columns: SortedColumns, q: FloatArray) -> float:
        """Return what the objective adds for the order violations of sorted columns `q`."""
        violations = 0.0
        for j, column in enumerate(q):
            edges = columns.edges(j)
            if self.pairs == "all":
                violations += kernels.sum_pair_violations(column, columns.weight[columns.order[j]], edges)
                continue
            highest, lowest = np.maximum.reduceat(column, edges[:-1]), np.minimum.reduceat(column, edges[:-1])
            violations += float((highest - lowest).sum() + np.maximum(highest[:-1] - lowest[1:], 0.0).sum())
        return self.lam * violations


Nearly: TypeAlias = EpsilonSlack | LambdaPenalty
