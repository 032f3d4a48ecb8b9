"""One score per row, summarised: what the estimates of `evaluate` are functions of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from calibrant.metrics.bins import Bins, make_bins
from calibrant.metrics.design_effect import with_effect
from calibrant.metrics.estimates import Estimate, rate_estimate
from calibrant.numerics import FloatArray
from calibrant.summary import ScoreSummary
from calibrant.validation import as_generator, check_fraction, check_integer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller of `evaluate` asks for, and the design effect of the rows."""

    n_bins: int
    level: float
    rng: np.random.Generator
    effect: float = 1.0


def check_settings(n_bins: int, level: float, rng: int | np.random.Generator | None) -> Settings:
    """Check what the caller asks for."""
    return Settings(check_integer("n_bins", n_bins, minimum=1), check_fraction("level", level), as_generator(rng))


class Measured:
    """Keeps what several estimates share, so that it is measured once."""

    @cached_property
    def _found(self) -> dict[Callable[[Any], Any], Any]:
        return {}

    def once(self, measure: Callable[[Any], T]) -> T:
        """Return what a function makes of this, called the first time only."""
        if measure not in self._found:
            self._found[measure] = measure(self)
        found: T = self._found[measure]
        return found


@dataclass(frozen=True, eq=False)
class Column(Measured):
    """The probability of one event for each row, and how it is to be measured.

    Attributes
    ----------
    summary : ScoreSummary
        Its sums of squared weights are those of rows that are not independent: larger by the design effect.
    n_rows : int
    level : float
        Nominal coverage of the intervals.
    n_bins : int
    rng : Generator
        For simulated intervals.
    effect : float
        The design effect.
    is_top : bool
        Whether the event is that the most probable class is the right one.
    """

    summary: ScoreSummary
    n_rows: int
    level: float
    n_bins: int = 15
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    effect: float = 1.0
    is_top: bool = False

    @classmethod
    def of(cls, summary: ScoreSummary, n_rows: int, settings: Settings) -> Column:
        """Return the column of a summary of rows as they are."""
        s = settings
        return cls(with_effect(summary, s.effect), n_rows, s.level, s.n_bins, s.rng, s.effect)

    @property
    def size(self) -> float:
        """Effective number of independent rows."""
        return self.summary.effective_size

    @property
    def mean_prob(self) -> FloatArray:
        """The mean probability, shape (1,)."""
        ties = self.summary.tied()
        return np.array([float(np.sum(ties.weight * ties.scores)) / self.summary.total_weight])

    @property
    def rate(self) -> Estimate:
        """The rate of the event."""
        return rate_estimate(self.summary.base_rate, self.size, self.level)

    @cached_property
    def uniform(self) -> Bins:
        """Bins of equal width."""
        return make_bins(self.summary, self.n_bins, "uniform")

    @cached_property
    def quantile(self) -> Bins:
        """Bins of near-equal weight."""
        return make_bins(self.summary, self.n_bins, "quantile")

    def rows_in(self, b: int) -> int | None:
        """Return the number of rows in a bin of near-equal weight; None if rows have weights, which don't tell it."""
        return round(self.quantile.weight[b]) if self.is_counted else None

    @property
    def is_counted(self) -> bool:
        """Whether rows have no weights, as far as sums tell."""
        return np.array_equal(self.summary.weight * self.effect, self.summary.weight_squared)
