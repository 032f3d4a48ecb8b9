"""One test of calibration against all the ways in which probabilities are off: the test that verdicts go by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.dependent_rows import DesignEffects
from calibrant.metrics.calibration_tests import is_near_motion, range_exceeds
from calibrant.metrics.estimates import Column, measured_rows
from calibrant.metrics.gap_bounds import fine_sums
from calibrant.numerics import EPS, TINY, BoolArray, FloatArray, IntArray, chi_squared_tail, dot, expit, logit
from calibrant.phrases import legible
from calibrant.results import JointTest
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike

_PARTS = ("mean", "slope", "confidence", "bend", "range", "bins")
#: Slope and bend are taken off the mean, and of several classes have the design effects of the top label.
_OF_THE_GAP = ("mean", "confidence", "range", "bins")
_MOST_BINS = 15
#: Outcomes that a bin must be able to vary by: its variance if the probabilities are right.
_LEAST_VARIANCE = 4.0
_MOST_STEPS = 100
_TOLERANCE = 1e-9
#: Standard deviations that are as good as none, and how near the furthest that there is counts as there.
_NOTHING = 1e-3
_AT_END = 1e-6
#: A p-value near 1 is no evidence against what others found.
_LARGEST_P = 0.99
#: Below this a p-value and its tangent agree to all digits.
_SMALL_P = 1e-8
#: What a combined p-value is multiplied by: at 5% two of 30 simulated cells were found off in 6.05% of calibrated sets.
_MARGIN = 1.1
#: Directions with less than this share of the mean's variance tell nothing of their own.
_LEAST_SHARE = 1e-6
#: Smaller probabilities count as this: what they rule out is ruled out by it too.
_LEAST_P = 1e-100


def joint_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> JointTest:
    """Test calibration against all ways of being off at once: mean, slope, confidence, bend, ranges, bins.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes
        As in `evaluate`; of several classes the top label is judged. Rows of unequal weight count as Kish's effective
        number of rows.

    Returns
    -------
    JointTest

    Notes
    -----
    Each of the first four parts is a sum of a(p) (y - p) over the rows, with a(p) = 1 for the mean, the logit for the
    slope (Cox's test), 1 - 2p for confidence (Spiegelhalter's test), and Legendre's second polynomial of the share of
    variance below p for a bend (Neyman's smooth test); slope and bend are taken off what comes before them. Their
    tails are saddlepoint approximations from the exact distribution of the sum if the probabilities are right, which
    hold for few and rare events too, and are no less than the chance that all rows are as far off as they were seen to
    be, or one is so far by itself. Of rare events with very uneven weights they may be too small. "range" is Kuiper's
    test, left out where its walk is far from a Brownian motion, "bins" the sum of squared standardised gaps of at most
    15 bins of near-equal variance, each of at least four. The p-values are joined by the Cauchy combination, which
    holds for dependent ones: its size is right where it is small, and at 5% it rejects up to a fifth too often, so each
    combined p-value is multiplied by 1.1. An outcome that had probability 0 is proof: p is 0.

    Where rows are not independent, each part's variance is that of sums over clusters, or of a block bootstrap, where
    these are larger, and its p-value is that of a t distribution with as many degrees of freedom as there are clusters
    of equal size, or blocks, less one.

    References
    ----------
    Cox (1958), *Two further applications of a model for binary regression*, Biometrika 45. Spiegelhalter (1986),
    Statistics in Medicine 5. Neyman (1937), *"Smooth test" for goodness of fit*, Skandinavisk Aktuarietidskrift 20.
    Lugannani and Rice (1980), *Saddle point approximation for the distribution of the sum of independent random
    variables*, Advances in Applied Probability 12; Barndorff-Nielsen (1991), Biometrika 78, for the form. Liu and Xie
    (2020), *Cauchy combination test*, JASA 115. Carter, Schnepel and Steigerwald (2017), *Asymptotic behavior of a
    t-test robust to cluster heterogeneity*, Review of Economics and Statistics 99, for the degrees of freedom.

    Examples
    --------
    >>> from calibrant.metrics import joint_test
    >>> test = joint_test([0, 0, 1, 1] * 50, [0.1, 0.4, 0.35, 0.8] * 50)
    >>> round(test.p_value, 6), min(test.parts, key=test.parts.get)
    (0.0, 'bins')
    """
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, **what).one_column()
    summary = rows.summary()
    if not rows.declared:
        return joint_test_of(summary)
    known, influences = DesignEffects.of(rows), PartInfluences.of(summary)
    effects = influences.effects(known.of_means(rows, influences.of_rows(rows)))
    return joint_test_of(summary, effects=effects, dof=known.dof)


def joint_test_of(
    summary: ScoreSummary, *, effects: Mapping[str, float] | float = 1.0, dof: float = math.inf
) -> JointTest:
    """Test the probabilities of a summary; `effects` are the design effects of the parts, `dof` what they rest on."""
    cells = _Cells.of(summary)

    def effect(part: str) -> float:
        return effects if isinstance(effects, float) else effects.get(part, 1.0)

    parts = {part: cells.tail(a, effect(part)) for part, a in cells.directions().items()}
    if cells.p.size > 1:
        if is_near_motion(cells.p, cells.size, cells.unit, effect("range")):
            parts |= {"range": cells.range_tail(effect("range"))}
        if (of_bins := cells.bins_tail(effect("bins"))) is not None:
            parts |= {"bins": of_bins}
    if math.isfinite(dof):
        parts = {part: _by_t(p, dof) for part, p in parts.items()}
    if cells.is_impossible:
        return JointTest(0.0, {"impossible": 0.0, **parts})
    return JointTest(combined(parts.values()), parts)


def joint_test_of_column(column: Column, *, gap_effect: float = 1.0) -> JointTest:
    """Test the probabilities of a column; `gap_effect` is the least design effect of parts that hold its mean gap."""
    known = column.part_effects
    effects = (
        dict.fromkeys(_PARTS, known)
        if isinstance(known, float)
        else {part: known.get(part, column.effect) for part in _PARTS}
    )
    effects |= {part: max(effects[part], gap_effect) for part in _OF_THE_GAP}
    return joint_test_of(column.summary, effects={k: e / column.effect for k, e in effects.items()}, dof=column.dof)


def joint_test_of_classes(top: Column, by_class: Mapping[object, float]) -> JointTest:
    """Join the test of the top label and those of the classes, by their p-values: each of both has half the weight."""
    found = joint_test_of_column(top)
    worst = min(by_class, key=by_class.__getitem__)
    of_classes = combined(by_class.values())
    parts = {**found.parts, f"class {legible(worst, most=40)}": of_classes}
    return JointTest(combined([found.p_value, of_classes]), parts)


@dataclass(frozen=True, slots=True)
class PartInfluences:
    """What each row adds to the parts of the test, read off between the cells of a summary.

    `weights` hold the functions of p that gaps are summed with, at the scores `p`; bins begin at the scores `starts`.
    """

    p: FloatArray
    weights: Mapping[str, FloatArray]
    starts: FloatArray

    @classmethod
    def of(cls, summary: ScoreSummary) -> PartInfluences:
        """Return the influences of rows of one score that are summarised."""
        cells = _Cells.of(summary)
        if cells.p.size == 0:
            return cls(cells.p, {}, cells.p)
        order = np.argsort(cells.p)
        directions = {part: a[order] for part, a in cells.directions().items()}
        return cls(cells.p[order], directions, cells.p[np.flatnonzero(np.diff(cells.bins())) + 1])

    @property
    def n_figures(self) -> int:
        """Number of columns that `of_rows` gives."""
        return len(self.weights) + self.starts.size + 1 if self.weights else 0

    def of_rows(self, rows: Rows) -> FloatArray:
        """Return what each row adds to each direction, and to each bin, one column for each."""
        if not self.weights:
            return np.empty((rows.n_rows, 0))
        gap = rows.scores - rows.positive
        columns = [np.interp(rows.scores, self.p, a) * gap for a in self.weights.values()]
        in_bin = np.searchsorted(self.starts, rows.scores, side="right")
        return np.column_stack((*columns, gap[:, None] * (in_bin[:, None] == np.arange(self.starts.size + 1))))

    def effects(self, found: FloatArray) -> dict[str, float]:
        """Return the design effect of each part from those of the columns."""
        if not self.weights:
            return {}
        effects = dict(zip(self.weights, found.tolist(), strict=False))
        of_bins = float(found[len(effects) :].mean())
        return {**effects, "range": max(effects.values()), "bins": max(effects["mean"], of_bins)}


@dataclass(frozen=True, slots=True)
class _Cells:
    """Rows of near-equal score: `size` of them, each of weight `unit`, and their weight of positives less expected."""

    p: FloatArray
    size: FloatArray
    unit: FloatArray
    excess: FloatArray
    is_impossible: bool

    @classmethod
    def of(cls, summary: ScoreSummary) -> _Cells:
        scores, weight, squared, positives = summary.distinct
        is_impossible = bool(positives[scores <= 0.0].any() or (positives < weight)[scores >= 1.0].any())
        p, weight, squared, positives = fine_sums(ScoreSummary(summary.near_ties))
        free = (p > 0.0) & (p < 1.0)
        p, weight, squared, positives = np.maximum(p[free], _LEAST_P), weight[free], squared[free], positives[free]
        unit = squared / weight
        scale = max(float(unit.max(initial=0.0)), TINY)  # in which no square is out of range
        unit = np.maximum(unit / scale, EPS)
        excess = (positives - weight * p) / scale
        return cls(p, weight / scale / unit, unit, excess, is_impossible)

    @property
    def variance(self) -> FloatArray:
        """The variance of the excess of each cell if the probabilities are right."""
        return self.size * self.unit**2 * self.p * (1.0 - self.p)

    def directions(self) -> dict[str, FloatArray]:
        """Return the functions of p that gaps are summed with, each at unit variance; those that tell something."""
        v = self.variance
        total = float(v.sum())
        found: dict[str, FloatArray] = {}
        if total == 0.0:
            return found
        below = (np.cumsum(v) - 0.5 * v) / total
        z = logit(np.maximum(self.p, TINY))
        named = {"mean": np.ones(v.size), "slope": z, "confidence": 1.0 - 2.0 * self.p, "bend": (below - 0.5) ** 2}
        for name, a in named.items():
            own = a
            for other in () if name == "confidence" else [found[each] for each in ("mean", "slope") if each in found]:
                own = own - dot(v * own, other) * other
            norm = dot(v * own, own)
            if norm > _LEAST_SHARE * dot(v * a, a):
                found[name] = own / math.sqrt(norm)
        return found

    def tail(self, a: FloatArray, effect: float) -> float:
        """Return the two-sided p-value of the sum of a (y - p), by a saddlepoint approximation of its distribution."""
        step, size = a * self.unit * math.sqrt(effect), self.size / effect
        x, p, z = dot(a, self.excess) / math.sqrt(effect), self.p, logit(self.p)
        if abs(x) < _NOTHING:
            return 1.0
        is_up = (step > 0.0) == (x > 0.0)  # whether an event moves the sum as it has moved
        furthest = dot(size * np.abs(step), np.where(is_up, 1.0 - p, p))
        least = min(1.0, 2.0 * self._least_chance(abs(x), np.abs(step), size, is_up, _AT_END * furthest))
        if furthest - abs(x) <= _AT_END * furthest:
            return least
        t, low, high = (x, 0.0, math.inf) if x > 0.0 else (x, -math.inf, 0.0)
        for _ in range(_MOST_STEPS):
            q = expit(z + step * t)
            away, bend = dot(size * step, q - p) - x, dot(size * step**2, q * (1.0 - q))
            if abs(away) <= _TOLERANCE * (1.0 + abs(x)):
                break
            low, high = (low, t) if away > 0.0 else (t, high)
            newton = t - away / bend if bend > 0.0 else math.inf
            middle = 0.5 * (low + high) if math.isfinite(low + high) else 2.0 * t
            t = newton if low < newton < high else middle
        cumulant = dot(size, np.logaddexp(np.log1p(-p), np.log(p) + step * t) - step * p * t)
        r, u = math.sqrt(2.0 * max(t * x - cumulant, 0.0)), abs(t) * math.sqrt(bend)
        if r < _NOTHING:
            return 1.0
        moved = r + math.log(u / r) / r
        return max(math.erfc(moved / math.sqrt(2.0)), least) if moved > 0.0 else 1.0

    def _least_chance(self, x: float, step: FloatArray, size: FloatArray, is_up: BoolArray, slack: float) -> float:
        """Return a lower bound of the chance that a sum reaches x: where few rows decide, a saddlepoint may miss it.

        A sum reaches x where all rows go at least as far as they were seen to go, and where one row by itself goes far
        enough. Rows whose steps together are below the slack may go anywhere.
        """
        chance = np.where(is_up, self.p, 1.0 - self.p)
        cost = -np.where(is_up, np.log(self.p), np.log1p(-self.p))  # of a row that is far
        events = np.clip(self.excess / self.unit / self.size + self.p, 0.0, 1.0)
        seen = size * np.where(is_up, events, 1.0 - events) * cost
        with np.errstate(over="ignore"):  # to infinity, which comes last
            order = np.argsort(size * step / np.maximum(seen, TINY), kind="stable")
        is_free = np.cumsum((size * step)[order]) <= slack
        alone = step >= x - slack + dot(size * step, chance)
        of_one = -math.expm1(dot(size[alone], np.log1p(-np.minimum(chance[alone], 1.0 - EPS))))
        return max(math.exp(-float(seen[order][~is_free].sum())), of_one)

    def range_tail(self, effect: float) -> float:
        """Return the p-value of Kuiper's test."""
        walk = np.concatenate(([0.0], np.cumsum(self.excess)))
        return range_exceeds(float(walk.max() - walk.min()) / math.sqrt(float(self.variance.sum()) * effect))

    def bins(self, effect: float = 1.0) -> IntArray:
        """Return the bin of each cell: at most 15, of near-equal variance, each of four outcomes at least."""
        v = self.variance
        v = v / (float(np.mean(self.unit)) * dot(v, self.unit) / v.sum())  # in outcomes, fewer where weights are uneven
        share = (np.cumsum(v) - 0.5 * v) / v.sum()
        n_bins = max(1, min(_MOST_BINS, int(v.sum() / (effect * _LEAST_VARIANCE))))
        of = np.unique(np.minimum(share * n_bins, n_bins - 1.0).astype(np.int64), return_inverse=True)[1]
        return _with_light_bins_joined(of, v, effect * _LEAST_VARIANCE)

    def bins_tail(self, effect: float) -> float | None:
        """Return the p-value of the squared standardised gaps of bins; None where one bin has all rows.

        Their sum is taken for a multiple of a chi-squared variable that has its mean and its exact variance.
        """
        of, p = self.bins(effect), self.p
        if of[-1] == 0:
            return None
        variance = np.bincount(of, self.variance) * effect
        fourth = np.bincount(of, self.variance * self.unit**2 * (1.0 - 6.0 * p * (1.0 - p))) * effect**3
        statistic = float(np.sum(np.bincount(of, self.excess) ** 2 / variance))
        multiple = 1.0 + 0.5 * float(np.mean(fourth / variance**2))
        return chi_squared_tail(statistic / multiple, variance.size / multiple)


def _with_light_bins_joined(of: IntArray, variance: FloatArray, least: float) -> IntArray:
    """Return bins that have at least the variance `least` each: lighter ones are joined with a neighbour."""
    by_bin = np.bincount(of, variance)
    joined = np.zeros(by_bin.size, dtype=np.int64)
    held, left = 0.0, float(by_bin.sum())
    for k, own in enumerate(by_bin.tolist()):
        held, left = held + own, left - own
        if held >= least and left >= least:
            joined[k + 1 :] += 1
            held = 0.0
    return joined[of]


def _by_t(p: float, dof: float) -> float:
    """Return the p-value that a normal one has where its variance was measured on few clusters."""
    from scipy.special import ndtri, stdtr

    return float(2.0 * stdtr(max(dof, 1.0), ndtri(0.5 * p))) if p > 0.0 else 0.0


def combined(values: Iterable[float]) -> float:
    """Join p-values by the mean of their Cauchy quantiles, with a margin for the size at 5%."""
    p = np.clip(list(values) or [1.0], TINY, _LARGEST_P)
    mean = float(np.mean(np.where(p < _SMALL_P, 1.0 / (np.pi * p), np.tan(np.pi * (0.5 - p)))))
    if mean > 1.0 / _SMALL_P:
        return _MARGIN / (math.pi * mean)
    return 1.0 if p.min() >= _LARGEST_P else min(_MARGIN * (0.5 - math.atan(mean) / math.pi), 1.0)
