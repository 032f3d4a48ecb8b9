"""Rounds of threshold recalibration: the split with the greatest error, a map on either side, and on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.recalibrators.grid_state import GridState
from calibrant.forecasts.recalibrators.layers import ThresholdChain
from calibrant.forecasts.recalibrators.level_maps import Knots, empirical_map, smooth_map, towards_identity
from calibrant.forecasts.recalibrators.search_state import SearchState
from calibrant.numerics import FloatArray

State = TypeVar("State", SearchState, GridState)


@dataclass(frozen=True, slots=True)
class ThresholdRound:
    """What one round split on, and the greatest error over all splits before and after it.

    Attributes
    ----------
    y0, alpha : float
        The split: rows whose probability of Y <= y0 is at most alpha are on the left.
    error_before, error_after : float
        The greatest error over all (y0, alpha) that were searched; "after" is NaN where no split was left.
    n_left, n_right : float
        Weight of the rows on both sides.
    """

    y0: float
    alpha: float
    error_before: float
    error_after: float
    n_left: float
    n_right: float


@dataclass(frozen=True, slots=True)
class Split:
    """The split with the greatest error: threshold k, and alpha."""

    k: int
    alpha: float
    error: float


class Rule(ABC, Generic[State]):
    """How rounds find their split, and which map they fit on either side."""

    __slots__ = ()

    @abstractmethod
    def split(self, state: State) -> Split | None:
        """Return the split with the greatest error; None if no split leaves enough rows on both sides."""

    @abstractmethod
    def fit_map(self, u: FloatArray, weight: FloatArray) -> Knots:
        """Return the map that brings these levels to uniform, or closer to it."""


@dataclass(frozen=True, slots=True)
class Smooth(Rule[SearchState]):
    """The regularised rounds: splits by the Cramer-von Mises distance, smooth maps that keep the density."""

    least: float
    n_cuts: int | None
    n_knots: int
    pseudo_counts: float
    learning_rate: float

    def split(self, state: SearchState) -> Split | None:
        """Return the best split over all cuts, its error the root of the mass-weighted distance."""
        k, cut, distance = state.greatest(self.least, self.n_cuts)
        if distance < 0.0:
            return None
        return Split(k, state.alpha_at(k, cut), float(np.sqrt(max(distance, 0.0))))

    def fit_map(self, u: FloatArray, weight: FloatArray) -> Knots:
        """Return a step of the learning rate towards the smoothed distribution."""
        return towards_identity(smooth_map(u, weight, self.n_knots, self.pseudo_counts), self.learning_rate)


@dataclass(frozen=True, slots=True)
class Paper(Rule[GridState]):
    """The paper's rounds as its official code runs them: a grid of alphas, and empirical distributions as maps."""

    alphas: FloatArray
    least: float

    def split(self, state: GridState) -> Split | None:
        """Return the first split of the grid with the greatest error."""
        found = state.greatest(self.alphas, self.least)
        return None if found is None else Split(*found)

    def fit_map(self, u: FloatArray, weight: FloatArray) -> Knots:
        """Return the empirical distribution."""
        return empirical_map(u, weight)


@dataclass
class Rounds(Generic[State]):
    """Rounds on one set of rows, made one at a time."""

    state: State
    rule: Rule[State]
    epsilon: float
    records: list[ThresholdRound] = field(default_factory=list)
    knots: list[tuple[Knots, Knots]] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next = self.rule.split(self.state)

    @property
    def greatest_error(self) -> float:
        """The greatest error now; NaN where no split leaves enough rows on both sides."""
        return float("nan") if self._next is None else self._next.error

    def step(self) -> bool:
        """Make a round; return false where there is nothing to split, or the greatest error is at most epsilon."""
        split = self._next
        if split is None or split.error <= self.epsilon:
            return False
        side = self.state.sides(split.k, split.alpha)
        level, weight = self.state.level, self.state.weight
        rows = self.state.rows_by_level()
        left, right = (self.rule.fit_map(level[part], weight[part]) for part in (rows[side[rows] == s] for s in (0, 1)))
        self.state.push(side, left, right)
        self._next = self.rule.split(self.state)
        n_left = float(weight[side == 0].sum())
        y0 = float(self.state.thresholds[split.k])
        sizes = (n_left, float(weight.sum()) - n_left)
        self.records.append(ThresholdRound(y0, split.alpha, split.error, self.greatest_error, *sizes))
        self.knots.append((left, right))
        self.splits.append(split)
        return True

    def run(self, most: int) -> Iterator[int]:
        """Make up to `most` rounds, and yield the number made after each."""
        while len(self.records) < most and self.step():
            yield len(self.records)

    def chain_of_last(self) -> PackedMaps:
        """Return the two maps of the latest round."""
        return PackedMaps.pack(list(self.knots[-1]))

    def chain(self) -> ThresholdChain:
        """Return the rounds so far as a layer."""
        maps = PackedMaps.pack([knots for pair in self.knots for knots in pair])
        return ThresholdChain.of_rounds(
            self.state.thresholds, [s.k for s in self.splits], [s.alpha for s in self.splits], maps
        )
