"""Rounds of threshold recalibration: the split with the greatest error, a map on either side, and on.

A round searches all pairs (y0, alpha) for the split of the rows, by whether P(Y <= y0) is at most alpha, on whose sides
the levels of the outcomes (their probability integral transforms) are furthest from uniform; fits a map on each side
that brings its levels closer to uniform; and maps by it all probabilities of the rows of that side. Rounds end where
the greatest error is at most epsilon, where no split leaves enough rows on both sides, or when the caller has enough.
Algorithm 1 of Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS. `Paper` and
`Regularised` say what is searched and fitted; the state and the rounds are the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import Knots, MapNumbers, PackedMaps, empirical_map, smooth_map, weighted_quantiles
from calibrant.forecasts.recalibrated import ChainRows, MeanRows, RecalibratedForecast
from calibrant.forecasts.recalibrators.base import Layer, named, numbers_within_reach
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray, IntArray, dot

#: Probabilities at thresholds that are held at once.
_BATCH = 20_000_000


@dataclass(frozen=True, slots=True)
class ThresholdRound:
    """What one round split on, and the greatest error over all splits before and after it.

    Attributes
    ----------
    y0, alpha, n_left, n_right : float
        The split, rows whose probability of Y <= y0 is at most alpha being on the left, and the weight on both sides.
    error_before, error_after : float
        The greatest error over the splits that were searched, those that leave enough rows on both sides; "after" is
        NaN where no such split was left. Errors of smaller sides may be greater: see `RoundsResult`.
    fold : int or None
        The fold that was left out of the rows of this round, where the rounds of all folds were kept.
    """

    y0: float
    alpha: float
    error_before: float
    error_after: float
    n_left: float
    n_right: float
    fold: int | None = None

    def encode(self) -> dict[str, float | int | None]:
        """Return the round as plain data, without a fold where there is none."""
        known = {key: value for key, value in asdict(self).items() if value is not None}
        return {key: None if math.isnan(value) else value for key, value in known.items()}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the round that they are of."""
        fold = body.member("fold").integer(minimum=0) if "fold" in body.object() else None
        found = body.without("fold").members([field.name for field in fields(cls) if field.name != "fold"])
        numbers = {key: item.number() for key, item in found.items() if key != "error_after" or item.value is not None}
        return cls(**{"error_after": math.nan} | numbers, fold=fold)


@named("rounds")
@dataclass(frozen=True, slots=True)
class ThresholdChain(Layer):
    """Rounds of splits: a row takes map 2 t or 2 t + 1 of round t, as its level at a threshold is at most alpha or not.

    `thresholds`, rising, are the distinct ones; round t asks for number `column[t]` of them.
    """

    thresholds: FloatArray
    column: IntArray
    alpha: FloatArray
    maps: PackedMaps

    def __len__(self) -> int:
        return self.column.size

    def apply(self, forecast: Forecast) -> Forecast:
        return RecalibratedForecast(forecast, self.rows(forecast))

    def rows(self, forecast: Forecast) -> ChainRows:
        """Return the chain of each row: every round maps the probabilities that later rounds ask for."""
        chosen: MapNumbers = np.empty((len(forecast), len(self)), dtype=np.int32)
        rounds = np.arange(len(self))
        last = np.zeros(self.thresholds.size, dtype=np.int64)
        np.maximum.at(last, self.column, rounds)
        order = np.argsort(-last, kind="stable")  # those that are asked for the longest come first
        column = np.argsort(order)[self.column]
        n_needed = (last > rounds[:, None]).sum(axis=1)
        step = max(_BATCH // max(self.thresholds.size, 1), 1)
        for start in range(0, len(forecast), step):
            part = slice(start, start + step)
            level = np.ascontiguousarray(forecast[part].cdf(self.thresholds[None, :])[:, order])
            self.maps.choose(level, column, self.alpha, n_needed, chosen[part])
        return ChainRows(self.maps, chosen)

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("thresholds", "column", "alpha", "maps"))
        columns = fields["column"].items(minimum=0)
        places = fields["thresholds"]
        thresholds = numbers_within_reach(places, places.rising()) if columns else np.empty(0)
        column = np.array([c.integer(minimum=0, maximum=thresholds.size - 1) for c in columns], dtype=np.int64)
        alpha = fields["alpha"].numbers(minimum=0)
        if alpha.size != column.size:
            fields["alpha"].refuse(f"does not go with {column.size} rounds: one number for each is needed")
        return cls(thresholds, column, alpha, PackedMaps.decode(fields["maps"], 2 * column.size))


@named("mean_of_chains")
@dataclass(frozen=True, slots=True)
class MeanOfChains(Layer):
    """The mixture, in equal parts, of several chains."""

    chains: tuple[ThresholdChain, ...]

    def apply(self, forecast: Forecast) -> Forecast:
        return RecalibratedForecast(forecast, MeanRows(tuple(chain.rows(forecast) for chain in self.chains)))

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        return cls(tuple(map(ThresholdChain.decode, body.members(("chains",))["chains"].items())))


class Split(NamedTuple):
    """A split of the rows, at threshold number k and alpha, and its error."""

    k: int
    alpha: float
    error: float


class State:
    """What rounds change: the level of each outcome, and at each of K thresholds the probabilities of all n rows.

    `values` and `order`, shape (K + 1, n), hold the probabilities of a threshold in rising order with the rows that
    they belong to; their last line is that of the levels, which `level` has in the order of the rows. Takes 12 bytes
    per row and threshold.
    """

    def __init__(self, rows: Outcomes, thresholds: FloatArray) -> None:
        self.thresholds = thresholds
        self.weight = rows.weights
        self.level = rows.levels()
        self.scratch = np.empty(len(rows) + 4, dtype=np.int32), np.empty(len(rows) + 4)
        self.tree = np.empty(2 * len(rows) + 2)
        shape = (thresholds.size + 1, len(rows))
        self.values, self.order = np.empty(shape), np.empty(shape, dtype=np.int32)
        for k, values in enumerate(itertools.chain(rows.levels_at(thresholds), [self.level])):
            self.order[k] = np.argsort(values, kind="stable")
            self.values[k] = values[self.order[k]]

    def pairs_of_levels(self) -> tuple[MapNumbers, FloatArray, tuple[float, float, float]]:
        """Return ranks and sums over pairs of levels, which are the same for all thresholds: see the kernel."""
        u, by_level = self.values[-1], self.order[-1]
        weight, rank = self.weight[by_level], self.scratch[0]
        rank[by_level] = np.arange(u.size)
        below, moment = np.cumsum(weight), np.cumsum(weight * u)
        with_all = u * below + (moment[-1] - moment)
        return rank, with_all, (float(below[-1]), dot(weight, with_all), dot(weight, 1.0 - u * u))

    def side(self, split: Split) -> npt.NDArray[np.uint8]:
        """Return 0 for the rows with a probability of at most alpha, and 1 for the others."""
        side = np.ones(self.level.size, dtype=np.uint8)
        side[self.order[split.k, : np.searchsorted(self.values[split.k], split.alpha, side="right")]] = 0
        return side

    def apply(self, side: npt.NDArray[np.uint8], maps: PackedMaps) -> None:
        """Map everything by the map of its side."""
        second, n_left = int(maps.start[1]) + 1, side.size - int(np.count_nonzero(side))
        kernels.map_state(self.values, self.order, side, maps.index[2], second, n_left, *self.scratch)
        self.level[self.order[-1]] = self.values[-1]


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's rounds as its official code runs them: a grid of alphas, and empirical distributions as maps.

    Each side of a split has more than `least` rows.
    """

    alphas: FloatArray
    least: float

    @property
    def least_side(self) -> float:
        """The fewest rows that a side of a split may have."""
        return math.floor(self.least) + 1.0

    def find(self, state: State) -> Split | None:
        """Return the first split of the grid with the greatest error; None if no split leaves enough rows."""
        k, a, error = kernels.search_grid(state.values, state.order, self.alphas, self.least)
        return None if error < 0.0 else Split(k, float(self.alphas[a]), error)

    def fit_map(self, level: FloatArray, weight: FloatArray) -> Knots:
        """Return the empirical distribution."""
        return empirical_map(level, weight)


@dataclass(frozen=True, slots=True)
class Regularised:
    """Splits by the mass-weighted Cramer-von Mises distance, and small steps along smooth maps, which keep the density.

    Each side of a split has a weight of at least `least`. `n_cuts` None searches all cuts, exactly; else so many at
    equal steps of weight, with the levels counted in bins.
    """

    least: float
    n_cuts: int | None
    n_knots: int
    pseudo_counts: float
    learning_rate: float

    @property
    def least_side(self) -> float:
        """The least weight that a side of a split may have."""
        return self.least

    def find(self, state: State) -> Split | None:
        """Return the split with the greatest distance, its error the root of that; None if none leaves enough rows."""
        given = state.values, state.order, state.level, state.weight
        if self.n_cuts is None:
            k, cut, distance = kernels.search_all_cuts(*given, self.least, *state.pairs_of_levels(), state.tree)
        else:
            k, cut, distance = kernels.search_some_cuts(*given, self.n_cuts, self.least)
        if distance < 0.0:
            return None
        low, high = state.values[k, cut - 1 : cut + 1].tolist()
        middle = 0.5 * (low + high)
        return Split(k, low if middle >= high else middle, float(np.sqrt(distance)))

    def smooth_map(self, level: FloatArray, weight: FloatArray) -> Knots:
        """Return the smoothed distribution of levels."""
        return smooth_map(level, weight, self.n_knots, self.pseudo_counts)

    def fit_map(self, level: FloatArray, weight: FloatArray) -> Knots:
        """Return a step of the learning rate towards the smoothed distribution."""
        x, y = self.smooth_map(level, weight)
        return x, self.learning_rate * y + (1.0 - self.learning_rate) * x


class Rounds:
    """Rounds on one set of rows, made one at a time: their `splits` and the `maps` of both sides."""

    def __init__(self, rows: Outcomes, thresholds: FloatArray, rule: Paper | Regularised, epsilon: float) -> None:
        self.state = State(rows, thresholds)
        self.rule = rule
        self.epsilon = epsilon
        self.splits: list[Split] = []
        self.maps: list[PackedMaps] = []
        self._sizes: list[tuple[float, float]] = []

    @cached_property
    def _next(self) -> Split | None:
        """The split with the greatest error now, searched for where it is asked for."""
        return self.rule.find(self.state)

    @property
    def greatest_error(self) -> float:
        """The greatest error now; NaN where no split leaves enough rows on both sides."""
        return float("nan") if self._next is None else self._next.error

    def step(self) -> bool:
        """Make a round; return false where there is nothing to split, or the greatest error is at most epsilon."""
        split, state = self._next, self.state
        if split is None or split.error <= self.epsilon:
            return False
        side = state.side(split)
        by_level = state.order[-1]  # in which fits of maps, which sort, are fast
        parts = (by_level[side[by_level] == s] for s in (0, 1))
        maps = PackedMaps.pack([self.rule.fit_map(state.level[part], state.weight[part]) for part in parts])
        state.apply(side, maps)
        del self._next
        n_left = float(state.weight[side == 0].sum())
        self._sizes.append((n_left, float(state.weight.sum()) - n_left))
        self.splits.append(split)
        self.maps.append(maps)
        return True

    def run(self, most: int) -> Iterator[int]:
        """Make up to `most` rounds, and yield the number made after each."""
        while len(self.splits) < most and self.step():
            yield len(self.splits)

    def records(self, most: int | None = None, fold: int | None = None) -> tuple[ThresholdRound, ...]:
        """Return the rounds so far, or the first of them, and the fold that was left out of their rows."""
        splits = self.splits[:most]
        after = [split.error for split in self.splits[1 : len(splits) + 1]]
        if len(after) < len(splits):
            after.append(self.greatest_error)
        return tuple(
            ThresholdRound(float(self.state.thresholds[split.k]), split.alpha, split.error, error, *sizes, fold)
            for split, error, sizes in zip(splits, after, self._sizes, strict=False)
        )

    def chain(self, most: int | None = None) -> ThresholdChain:
        """Return the rounds so far, or the first of them, as a layer."""
        splits, maps = self.splits[:most], self.maps[:most]
        used, column = np.unique(np.array([split.k for split in splits], dtype=np.int64), return_inverse=True)
        return ThresholdChain(
            self.state.thresholds[used],
            column.astype(np.int64),
            np.array([split.alpha for split in splits], dtype=np.float64),
            PackedMaps.pack([pair.knots(side) for pair in maps for side in (0, 1)]),
        )


def middle_thresholds(y: FloatArray, weight: FloatArray, n: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Return up to `n` thresholds at equal steps of weight between two shares, each midway between two outcomes."""
    distinct = np.unique(y)
    if distinct.size == 1:
        return distinct
    middles = 0.5 * (distinct[1:] + distinct[:-1])
    at = weighted_quantiles(y, weight, low + (high - low) * (np.arange(n) + 0.5) / n)
    found = np.clip(np.searchsorted(distinct, at, side="right") - 1, 0, middles.size - 1)
    return np.unique(middles[found])
