"""What a solver is asked for and what it gives back: stopping criteria, checks of its progress, and the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.numerics import BoolArray, FloatArray
from calibrant.rank_preserving.nearly import Nearly
from calibrant.readable import Readable, columns_of, parts_of, rows_as_columns

#: Figures of each group in tables.
_OF_GROUPS = ("converged", "n_iter", "objective", "bound", "gap", "row_residual", "margin_residual", "rank_residual")
#: Totals with prices below this do not bind.
_NO_PRICE = 1e-6


@dataclass(frozen=True, slots=True, repr=False)
class Progress(Readable):
    """One check of an iteration.

    Attributes
    ----------
    n_iter : int
        Iterations so far.
    residual : float
        The primal residual: largest distance of a row sum from 1, or of a column's mean from its margin per row, of the
        iterate.
    dual_residual : float
        Largest distance of the objective's slope from what the multipliers of sums and order make of it, in units of
        probability; 0 of alternating projections, whose multipliers balance it at each step.
    objective, bound : float
        Objective of the iterate, which need not be feasible, and the largest proven lower bound of the optimum so far.
    time_s : float
        Seconds since the start.
    """

    n_iter: int
    residual: float
    objective: float
    bound: float
    time_s: float
    dual_residual: float = 0.0

    def scaled(self, room: float) -> Progress:
        """Return the check of entries that are shares of `room`, in units of the entries themselves."""
        if room == 1.0:
            return self
        return replace(
            self,
            residual=self.residual * room,
            objective=self.objective * room**2,
            bound=self.bound * room**2,
            dual_residual=self.dual_residual * room,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupTotals(Readable):
    """The totals of one set of groups, where there are several.

    Attributes
    ----------
    groups : tuple
        The groups of the set, sorted.
    given, used : ndarray of shape (groups, K)
        The totals that were asked for, and those of the answer.
    prices : ndarray of shape (groups, K)
        How much the objective rises per unit by which a total is raised, 0 where it does not bind. Of exact totals,
        none of which can be raised by itself, only differences count.
    """

    groups: tuple[Any, ...]
    given: FloatArray
    used: FloatArray
    prices: FloatArray

    def _columns(self) -> dict[str, Sequence[Any]]:
        n_groups, n_columns = self.given.shape
        names = [group for group in self.groups for _ in range(n_columns)]
        found: dict[str, Sequence[Any]] = {"group": names, "column": list(range(n_columns)) * n_groups}
        return found | {name: getattr(self, name).ravel().tolist() for name in ("given", "used", "prices")}

    def _before(self) -> list[str]:
        return []

    @property
    def binds(self) -> BoolArray:
        """Whether each total has a price, shape (groups, K)."""
        return np.asarray(np.abs(self.prices) > _NO_PRICE)


@dataclass(frozen=True, slots=True, repr=False)
class RankPreservingResult(Readable):
    """The nearest matrix that a solver reached, with the proof of how near it is to the best one.

    Attributes
    ----------
    Q : shape (n, K)
        The matrix, in the container that the probabilities came in. Rows of weight 0 are NaN.
    converged : bool
        Whether the residuals are at most `tol` and the gap at most `gap_tol`; of the order, what is broken beyond what
        `nearly` allows. It is computed from `Q` itself and from a feasible point of the dual problem: a certificate,
        not a guess.
    n_iter : int
        Iterations, each about one pass over the matrix, with the passes that finding the start took.
    objective : float
        Weighted sum of (Q - P)^2, and the penalty if there is one.
    bound : float
        Proven lower bound of the objective of every feasible matrix.
    gap : float
        (objective - bound) / objective: no feasible matrix is better by more than this share. At most the rounding of
        `Q` below 0. Where the objective is below n K tol^2, the share of that.
    row_residual, margin_residual : float
        Largest distance of a row sum from 1, and of a column total from its margin, per row.
    rank_residual : float
        Largest order violation of a column of `Q`: by how much an entry exceeds one that is to lie at or above it. With
        an EpsilonSlack it is up to `eps`; a LambdaPenalty sets no limit.
    history : tuple of Progress
        The checks of the iteration.
    method, time_s : str, float
        The solver, and the seconds that it took.
    stuck : str
        Where the gap is above `gap_tol`: what keeps it there and what helps. Else empty.
    n_freed : int
        Neighbours in a column, summed over the columns, whose order `order_tol` did not ask for.
    floor, floor_price : float
        Least entry that was asked for, and the share by which the objective is above that without it.
    margins_given, margins_used : ndarray of shape (K,) or None
        The totals that were asked for, and those of `Q`: the same where these are exact and sum to what the rows do.
        None with groups.
    margin_prices : ndarray of shape (K,) or None
        How much the objective rises per unit by which a total that was asked for is raised: 0 where it does not bind.
        Of exact totals, which can't be raised one by one, only differences count, and the mean is 0.
    groups : dict or None
        The result of each group, where there are groups. Then `Q` holds the rows of all, `n_iter`, `objective` and
        `bound` are sums, residuals are the largest, and `history` is left to the groups. With several sets of groups,
        the result of each cell, by the tuple of its groups: its margins are those that the cell was left with.
    sets : dict or None
        The `GroupTotals` of each set, where there are several sets of groups. `history` is then that of the search for
        what the cells are left with.
    nearly : EpsilonSlack, LambdaPenalty or None
        How the order might be broken, as it was passed.
    """

    Q: Any = field(repr=False)
    converged: bool
    n_iter: int
    objective: float
    bound: float
    gap: float
    row_residual: float
    margin_residual: float
    rank_residual: float
    history: tuple[Progress, ...] = field(repr=False)
    method: str
    time_s: float
    stuck: str = field(default="", repr=False)
    n_freed: int = 0
    floor: float = 0.0
    floor_price: float = 0.0
    margins_given: FloatArray | None = field(default=None, repr=False)
    margins_used: FloatArray | None = field(default=None, repr=False)
    margin_prices: FloatArray | None = field(default=None, repr=False)
    groups: Mapping[Any, RankPreservingResult] | None = field(default=None, repr=False)
    sets: Mapping[str, GroupTotals] | None = field(default=None, repr=False)
    nearly: Nearly | None = None

    def _columns(self) -> dict[str, Sequence[Any]]:
        if self.groups is None:
            return columns_of(parts_of(self))
        rows = ((group, parts_of(part)) for group, part in self.groups.items())
        return rows_as_columns([{"group": group, **{name: part[name] for name in _OF_GROUPS}} for group, part in rows])

    def _before(self) -> list[str]:
        if self.groups is None:
            return []
        ended = "converged" if self.converged else "not converged"
        return [f"{ended}, {self.n_iter:,} iterations in {self.time_s:.2f} s, gap {self.gap:.1e}"]

    def _after(self) -> list[str]:
        return [self.stuck] if self.stuck else []

    @property
    def binds(self) -> BoolArray:
        """Whether each total has a price, shape (K,); with groups those of each, one after the other."""
        if self.sets is not None:
            return np.concatenate([each.binds.ravel() for each in self.sets.values()])
        prices = [np.asarray(part.margin_prices, dtype=float) for part in (self.groups or {None: self}).values()]
        return np.asarray(np.abs(np.concatenate(prices)) > _NO_PRICE)


#: The gap that is good enough by default, and that is reached first where a smaller one is asked for.
GAP = 1e-4


@dataclass(frozen=True, slots=True)
class StoppingCriteria:
    """Stopping criteria of an iterative solver, its timer, and the progress callback.

    `gap_tol` is the gap that has to be reached, and `target_gap` the smaller one that iterations are spent on.
    """

    tol: float
    gap_tol: float
    target_gap: float
    callback: Callable[[Progress], object] | None = None
    start: float = field(default_factory=time.perf_counter)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.start
