"""What the metrics estimate: columns of scores, estimates of them with intervals, and the gate that rows enter by.

An estimate is a function of a `Column`, the summary of one score per row, or of `multiclass.Classes`. The elementary
intervals, of a mean, of a rate and of a mean absolute gap, are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from calibrant.dependence import MeanError, Units
from calibrant.dependent_rows import DependenceSums, DesignEffects, gap_sums, with_effect
from calibrant.metrics.bins import Bins, make_bins
from calibrant.numerics import FloatArray, dot, kish_size, normal_quantile
from calibrant.results import Score
from calibrant.rows import Rows, read_rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, as_generator, check_flag, check_fraction, check_integer

T = TypeVar("T")
#: With fewer rows of a class, intervals of ranking and of the calibration line are too short.
FEW = 20.0
#: What is said of a mean whose error is not known.
NO_ERROR = "one row, cluster or block doesn't tell how much others would differ"
#: A gap this many times its noise keeps its sign, so noise moves it up as often as down.
CLEAR = 4.0
#: Stands for a seed where nothing is drawn: to make a generator takes as long as to read a hundred rows.
_WITHOUT_DRAWS = np.random.default_rng(0)
#: Smaller parts of a gap are no gap.
_ROUNDING = 1e-12


def measured_rows(y_true: ArrayLike, y_prob: ArrayLike, **what: Any) -> Rows:
    """Check the arguments of a metric, labels first; `what` goes to `calibrant.rows.read_rows`."""
    return read_rows(y_prob, y_true, names=("y_prob", "y_true"), **what)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the ends of its interval, how that was found, what a reader must know, and of which rows it is.

    `level` and `n` are told where the interval is not of the level that was asked for, or not of all rows, and `effect`
    where the design effect of the rows is of this figure alone.
    """

    value: float
    low: float
    high: float
    method: str
    note: str = ""
    where: str = ""
    level: float | None = None
    n: int | None = None
    n_eff: float | None = None
    effect: float = 1.0

    @classmethod
    def of_value(cls, value: float, note: str = "", where: str = "") -> Estimate:
        """Return a value without an interval."""
        return cls(value, math.nan, math.nan, "none", note, where)

    def of_rows(self, n: int, n_eff: float) -> Estimate:
        """Return the estimate with the numbers of rows that it is of."""
        return replace(self, n=n, n_eff=n_eff)

    def to_score(
        self, name: str, *, level: float, n: int, evaluated_on: str, n_eff: float = math.inf, scale: str = ""
    ) -> Score:
        """Return the estimate under a name, with what is known of its rows; how they depend goes to the method."""
        level, n = level if self.level is None else self.level, n if self.n is None else self.n
        scale = scale if self.effect == 1.0 else f"design effect {self.effect:.3g}"
        method = self.method if not scale or self.method == "none" else f"{self.method}, {scale}"
        n_eff = round(min(float(n), n_eff if self.n_eff is None else self.n_eff) / self.effect, 6)
        ends = self.value, self.low, self.high
        return Score(name, *ends, level, n, method, evaluated_on, self.note, self.where, n_eff)


def named_scores(
    estimates: Mapping[str, Estimate], *, level: float, n: int, n_eff: float, evaluated_on: str, scale: str = ""
) -> dict[str, Score]:
    """Return estimates as scores by their names."""
    known: dict[str, Any] = {"level": level, "n": n, "n_eff": n_eff, "evaluated_on": evaluated_on, "scale": scale}
    return {name: estimate.to_score(name, **known) for name, estimate in estimates.items()}


class Mean(NamedTuple):
    """A weighted mean and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller of `evaluate` asks for, and how the rows depend on each other.

    `effect` is the design effect of what has none of its own among `effects`, by the names of scores; `part_effects`
    are those of the parts of the joint test of the one score, or of the top label, `class_effects` those of the mean
    gap of each of several classes, and `dof` the degrees of freedom that all of them were measured with. `intervals`
    says whether scores are to have intervals.
    """

    n_bins: int
    level: float
    rng: np.random.Generator
    effect: float = 1.0
    effects: Mapping[str, float] = field(default_factory=dict)
    part_effects: Mapping[str, float] | None = None
    class_effects: Sequence[float] = ()
    dof: float = math.inf
    intervals: bool = True

    @property
    def factor(self) -> float:
        """What variances are multiplied by: the design effect, and what few clusters ask for."""
        return self.effect * DesignEffects(self.dof).widening(self.level)

    @property
    def scale(self) -> str:
        """How variances were found where rows are not independent, in words."""
        if self.effect == 1.0 and self.dof == math.inf:
            return ""
        t = f", t with {max(self.dof, 1.0):.3g} degrees of freedom" if self.dof < math.inf else ""
        return f"design effect {self.effect:.3g}{t}"

    def of(self, name: str) -> Settings:
        """Return the settings for a score of this name."""
        return replace(self, effect=self.effects[name]) if name in self.effects else self

    def with_rows(self, rows: Rows) -> Settings:
        """Return the settings for these rows."""
        return self.with_sums(gap_sums(rows) if rows.declared else None)

    def with_sums(self, sums: DependenceSums | None) -> Settings:
        """Return the settings for rows whose mean gaps were summed by what they share."""
        if sums is None:
            return self
        found = DesignEffects.of_sums(sums)
        return replace(
            self, effect=self.effect * float(found.of_sums_of_means(sums).max()), dof=min(self.dof, found.dof)
        )


def check_settings(
    n_bins: int, level: float, rng: int | np.random.Generator | None, *, intervals: bool = True
) -> Settings:
    """Check what the caller asks for."""
    bins, level = check_integer("n_bins", n_bins, minimum=1), check_fraction("level", level)
    if not check_flag("intervals", intervals) and type(rng) is int and rng == 0:  # the default
        rng = _WITHOUT_DRAWS
    return Settings(bins, level, as_generator(rng), intervals=bool(intervals))


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

    The sums of squared weights in `summary` are those of rows that are not independent: larger by `effect`. Of the
    parts of the joint test they are larger by `part_effects` instead, measured with `dof` degrees of freedom. `is_top`
    says that the event is that the most probable class is the right one.
    """

    summary: ScoreSummary
    n_rows: int
    level: float
    n_bins: int = 15
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    effect: float = 1.0
    part_effects: Mapping[str, float] | float = 1.0
    dof: float = math.inf
    scale: str = ""
    is_top: bool = False

    @classmethod
    def of(cls, summary: ScoreSummary, n_rows: int, settings: Settings) -> Column:
        """Return the column of a summary of rows as they are."""
        s, by = settings, settings.factor
        parts = s.effect if s.part_effects is None else s.part_effects
        return cls(with_effect(summary, by), n_rows, s.level, s.n_bins, s.rng, by, parts, s.dof, s.scale)

    def at(self, level: float, n_bins: int) -> Column:
        """Return the column at another level and with so many bins, which are shared if they are as many."""
        more = DesignEffects(self.dof).widening(level) / DesignEffects(self.dof).widening(self.level)
        summary = with_effect(self.summary, more)
        other = replace(self, summary=summary, level=level, n_bins=n_bins, effect=self.effect * more)
        if n_bins == self.n_bins and more == 1.0:
            other.__dict__["quantile"] = self.quantile
        return other

    def score(self, name: str, estimate: Estimate, evaluated_on: str) -> Score:
        """Return an estimate of the column as a score with this name."""
        return estimate.to_score(
            name, level=self.level, n=self.n_rows, evaluated_on=evaluated_on, n_eff=self.size, scale=self.scale
        )

    def scores(self, estimates: Mapping[str, Estimate], evaluated_on: str) -> dict[str, Score]:
        """Return estimates of the column as scores by their names."""
        return {name: self.score(name, estimate, evaluated_on) for name, estimate in estimates.items()}

    @cached_property
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


def wilson(rate: FloatArray, size: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score interval of rates seen in `size` independent rows each; never of width zero."""
    z2 = normal_quantile(level) ** 2
    centre = (rate + z2 / (2.0 * size)) / (1.0 + z2 / size)
    half = np.sqrt(z2 * (rate * (1.0 - rate) / size + z2 / (4.0 * size**2))) / (1.0 + z2 / size)
    # at a rate of 0 or 1 the near end is the rate itself, which rounding may miss
    low = np.where(rate == 0.0, 0.0, np.clip(centre - half, 0.0, 1.0))
    return low, np.where(rate == 1.0, 1.0, np.clip(centre + half, 0.0, 1.0))


def rate_estimate(rate: float, size: float, level: float) -> Estimate:
    """Estimate a rate with Wilson's interval."""
    low, high = wilson(np.array([rate]), np.array([size]), level)
    return Estimate(rate, float(low[0]), float(high[0]), "Wilson")


def total(weight: FloatArray, values: FloatArray) -> float:
    """Sum weight * value, where a weight of zero takes even an infinite value away."""
    result = dot(weight, values)
    if math.isnan(result):
        counted = weight > 0.0
        return float(np.sum(weight[counted] * values[counted]))
    return result


def mean_of(parts: Sequence[tuple[FloatArray, FloatArray]], size: float, *, extra: FloatArray | None = None) -> Mean:
    """Return the mean of values with weights, given in parts, and its standard error by the central limit theorem.

    `size` is the effective number of rows. Where `extra` is given, two more rows are imagined when the spread is
    measured, with its values on average: so that data in which nothing varied do not claim certainty.
    """
    mean, weight = mean_value(parts), _weight_of(parts)
    if not math.isfinite(mean):
        return Mean(mean, math.nan)
    with np.errstate(invalid="ignore"):
        spread = math.fsum(total(w, (v - mean) ** 2) for v, w in parts) / weight
    return mean_of_moments(mean, spread, size, extra=extra)


def mean_value(parts: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    """Return the mean of values with weights, given in parts."""
    return math.fsum(total(w, v) for v, w in parts) / _weight_of(parts)


def _weight_of(parts: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    return math.fsum(float(w.sum()) for _, w in parts)


def mean_of_moments(mean: float, spread: float, size: float, *, extra: FloatArray | None = None) -> Mean:
    """Return a mean and its standard error from the weighted variance of the values; see `mean_of`."""
    if not math.isfinite(mean):
        return Mean(mean, math.nan)
    if extra is not None:
        spread = (spread + 2.0 / size * float(np.mean((extra - mean) ** 2))) / (1.0 + 2.0 / size)
    return Mean(mean, math.sqrt(spread / size))


def normal_estimate(mean: Mean, level: float, *, least: float, most: float) -> Estimate:
    """Estimate a mean with its normal interval, cut to the range that it can lie in."""
    half = normal_quantile(level) * mean.error
    return Estimate(mean.value, max(mean.value - half, least), min(mean.value + half, most), "normal (CLT)")


class UnitError(NamedTuple):
    """The error of a mean over units, how many times its variance is that of independent rows, and what units are."""

    error: MeanError
    effect: float = 1.0
    words: str = ""

    @property
    def method(self) -> str:
        """How an interval from it is found."""
        return f"Hall's t ({self.words})" if self.words else "Hall's t"


def error_over_units(
    values: FloatArray, weight: FloatArray, units: Sequence[Units], *, least_variance: float = 0.0
) -> UnitError:
    """Return the error of a weighted mean: the widest of those by row and by each kind of units.

    `least_variance` is that of a row which is known from elsewhere, as from the probabilities of what would have been
    lost: rows that happened not to vary claim no certainty.
    """
    alone = Units.of_rows(values.size).error_of_mean(values, weight)
    widest, words = alone, ""
    for each in units:
        found = each.error_of_mean(values, weight)
        degrees = min(found.degrees, widest.degrees)
        if found.error > widest.error:
            widest = found
        widest, words = widest._replace(degrees=degrees), each.words
    effect = max((widest.error / alone.error) ** 2, 1.0) if 0.0 < alone.error < math.inf else 1.0
    least = math.sqrt(least_variance / kish_size(weight))
    return UnitError(joined_errors([widest], max(least**2 - widest.error**2, 0.0)), effect, words)


def joined_errors(errors: Sequence[MeanError], more: float = 0.0) -> MeanError:
    """Return the error of a sum of independent means; `more` is the variance of what else it rests on."""
    error = math.sqrt(sum(each.error**2 for each in errors) + more)
    degrees = min(each.degrees for each in errors)
    if not 0.0 < error < math.inf:
        return MeanError(error, degrees, 0.0)
    return MeanError(error, degrees, sum(each.skewness * (each.error / error) ** 3 for each in errors))


def mean_over_units(
    values: FloatArray,
    weight: FloatArray,
    units: Sequence[Units],
    level: float,
    *,
    least_variance: float = 0.0,
    most_degrees: float = math.inf,
) -> Estimate:
    """Estimate a weighted mean by Student's t without skewness; see `error_over_units`."""
    value = float(np.average(values, weights=weight))
    found = error_over_units(values, weight, units, least_variance=least_variance)
    low, high = found.error._replace(degrees=min(found.error.degrees, most_degrees)).ends(value, level)
    note = "" if math.isfinite(found.error.error) else NO_ERROR
    return Estimate(value, low, high, found.method, note, effect=found.effect)


def degrees_of_variance(values: FloatArray, weight: FloatArray) -> float:
    """Return the degrees of freedom that a sample's variance has by its kurtosis: few where few rows make it up."""
    square = np.square(values - np.average(values, weights=weight))
    spread = float(np.average(square, weights=weight))
    kurtosis = float(np.average(np.square(square), weights=weight)) / spread**2 if spread > 0.0 else 1.0
    return max(2.0 * kish_size(weight) / (kurtosis - 1.0), 1.0) if kurtosis > 1.0 else math.inf


def noise_bounds(
    value: float, gap: FloatArray, noise: FloatArray, between: float, level: float, rng: np.random.Generator
) -> Estimate:
    """Bound a mean absolute gap by the triangle inequality, where the noise of neighbouring gaps moves together.

    `gap` is the share of the rows times their gap at each of m places, so that its absolute values sum to about
    `value`; `noise`, of shape (n_draws, m), are draws of the noise in it; `between` is the variance from the chance of
    where the rows fell.

    Noise moves the sum of absolute gaps down by at most its signed sum, and up by at most its absolute sum, which is
    what happens where the true gaps are zero; see `ece_estimate`, which does the same for bins. A gap of zero, but for
    rounding, counts as above it: what noise has hidden there has no sign.
    """
    sign = np.where(gap < -_ROUNDING, -1.0, 1.0)
    is_clear = np.abs(gap) > CLEAR * np.sqrt(np.mean(noise**2, axis=0))
    upward = np.sum(np.where(is_clear, noise * sign, np.abs(noise)), axis=1)
    upward += math.sqrt(between) * rng.standard_normal(len(noise))
    signed = math.sqrt(float(np.mean(np.sum(noise * sign, axis=1) ** 2)) + between)
    low = value - float(np.quantile(upward, 0.5 + 0.5 * level))
    high = value + normal_quantile(level) * signed
    return Estimate(value, min(max(low, 0.0), value), min(high, 1.0), "noise bounds")
