"""The experiment of threshold calibration: promised against realised losses of many decisions, before and after.

Rows are split in two. Each recalibrator is fitted to one part, and on the other, all decisions [P(Y <= y0) <= alpha]
with all cost ratios are scored: what the forecasts promise that they lose, and what they lose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.dependence import t_quantile
from calibrant.errors import InvalidInputError, InvalidTypeError, unknown_name
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.decisions import SCALE, ReliabilityGaps, table_of_gaps
from calibrant.forecasts.evaluation import bounded_estimate, design_effect, scores_of
from calibrant.forecasts.noise import GapByChance, floor_rows, gap_noise
from calibrant.forecasts.recalibrators.base import RECALIBRATORS, Recalibrator
from calibrant.forecasts.scores import Outcomes, read_outcomes, row_log_score
from calibrant.metrics import Estimate
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import bracketed, count, figure
from calibrant.readable import Readable
from calibrant.results import Scores, plain, scores_as_columns
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_same_length

#: The forecasts as they are, beside the recalibrated ones.
NONE = "none"
#: Groups of rows that are left out one by one for the interval of a change, draws of a noise floor, and the thresholds
#: that both go by.
_GROUPS, _DRAWS, _FLOOR_THRESHOLDS = 20, 20, 25
#: Rows that either part must have.
_LEAST = 20
_COLUMNS = ("gap", "change", "within_chance", "promised_loss", "decision_loss", "regret", "crps")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DecisionExperiment(Readable):
    """What decisions on forecasts promised and lost on held-out rows, before and after each recalibrator.

    Attributes
    ----------
    scores : dict of Scores
        By recalibrator, "none" first: `gap` (mean reliability gap over the family, beside its noise floor), `change`
        (of it, less that of "none"), `max_gap`, `within_chance` (the share of the gaps whose interval holds 0),
        `promised_loss` and `decision_loss` (of the best rule for each threshold and cost ratio, by the forecasts and by
        what happened), `regret` (of these rules, against the best level in hindsight), `crps`, and `log_score` where
        there is a density.
    gaps : dict of ReliabilityGaps
        Promised and realised losses of each decision.
    n_fitted, n_held_out : int
        Rows that recalibrators were fitted to, and rows that all was measured on.
    left_out : dict of str
        Why each recalibrator of the default set that these forecasts can't be recalibrated by was left out.
    """

    scores: dict[str, Scores]
    gaps: dict[str, ReliabilityGaps]
    n_fitted: int
    n_held_out: int
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The name with the least gap."""
        return min(self.scores, key=lambda name: self.scores[name]["gap"].value)

    @property
    def verdict(self) -> str:
        """What the experiment says, in two sentences."""
        before, best = self.scores[NONE]["gap"], self.best
        said = f"Decisions lost {figure(before.value)} more or less than the forecasts promised, on average"
        if best == NONE:
            return f"{said}. No recalibrator has a smaller gap."
        found = self.scores[best]
        sure = " (no difference that these rows could show)" if found["change"].high >= 0.0 else ""
        return f"{said}. After recalibration by {best} it is {figure(found['gap'].value)}{sure}; {found['gap'].note}."

    @property
    def notes(self) -> list[str]:
        """A sentence about each recalibrator that was left out."""
        return [f"Left out is {name}: {why}" for name, why in self.left_out.items()]

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return a table: its header, and a row of texts for each recalibrator."""
        header = [
            "recalibrator",
            "gap",
            f"{100 * self.scores[NONE]['gap'].level:g}% bounds",
            "by chance",
            *_COLUMNS[1:],
        ]
        rows = []
        for name, scores in self.scores.items():
            gap = scores["gap"]
            rest = [figure(scores[column].value, sign=column == "change") for column in _COLUMNS[1:]]
            chance = gap.note.removeprefix("noise floor ")
            rows.append([name, figure(gap.value), bracketed(gap.low, gap.high), chance, *rest])
        return header, rows

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, scores, and the map of gaps by threshold and level, as plain Python values."""
        grid = self.gaps[NONE]
        found = {
            "verdict": self.verdict,
            "n_fitted": self.n_fitted,
            "n_held_out": self.n_held_out,
            "left_out": self.left_out,
            "y0": grid.y0,
            "alpha": grid.alpha,
            "cost": grid.cost,
            "recalibrators": [
                {
                    "name": name,
                    "scores": {key: score.to_dict() for key, score in scores.items()},
                    "worst": dict(zip(("y0", "alpha", "cost"), self.gaps[name].worst, strict=True)),
                    "mean_gap": self.gaps[name].values.mean(axis=2),
                }
                for name, scores in self.scores.items()
            ],
        }
        return {key: plain(value) for key, value in found.items()}

    def _before(self) -> list[str]:
        return [self.verdict, *self.notes]

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {"recalibrator": list(self.scores), **scores_as_columns(list(self.scores.values()))}


def decision_experiment(
    forecast: Forecast,
    y: ArrayLike,
    *,
    recalibrators: Mapping[str, Recalibrator] | Sequence[str] | None = None,
    held_out: float | ArrayLike = 0.5,
    y0: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    scale: float = SCALE,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
) -> DecisionExperiment:
    """Measure what decisions promise and lose on held-out rows, before and after each recalibrator.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end
        See `evaluate`: rows that the forecaster was not trained on.
    recalibrators : mapping of names to Recalibrator, or sequence of names, optional
        Copies of them are fitted. By default every kind with its defaults, but for those that refuse these forecasts,
        which `left_out` names.
    held_out : float or array-like of bool of shape (n,)
        The share of the rows that is measured on, at random, of whole clusters, or the last in time; or which rows.
    y0 : array-like of shape (K,), optional
        Thresholds of decisions and losses; by default 50 at equal steps between the extreme held-out outcomes.
    alpha, cost : array-like, optional
        Levels and cost ratios; by default 50 each at equal steps from 0.05 to 0.95, as in the paper.
    scale : float
        What both errors together cost.
    level : float
        Nominal coverage of the intervals.
    rng : int, Generator or None
        Of the split and of simulated intervals.

    Returns
    -------
    DecisionExperiment

    Raises
    ------
    CalibrantError
        If an argument can't be used, or either part has fewer than 20 rows.

    Notes
    -----
    Losses and gaps are as in `reliability_gaps`: a decision of no costs scale * c where Y > y0, one of yes
    scale * (1 - c) where Y <= y0. The bounds of a gap and its noise floor are as in `evaluate`. The interval of a
    change is a delete-a-group jackknife of the difference, paired by row, over 20 groups of whole clusters or blocks:
    of the change that as many rows show, noise floors included. Where
    promises are right, `within_chance` is near `level`. It goes by each decision's own standard error, from rows or the
    sums over clusters or blocks of time, and at least that which the forecasts themselves give.

    References
    ----------
    Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, decision_experiment
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=2000)
    >>> y = mean + np.where(mean > 0, 1.8, 0.5) * rng.normal(size=2000)
    >>> found = decision_experiment(GaussianForecast(mean, 0.8), y, recalibrators=["average", "threshold"])
    >>> found.best
    'threshold'
    >>> print(found.scores["threshold"]["gap"], found.scores["none"]["gap"], sep="; ")
    gap 0.0382 [0.0000, 0.0785]; gap 0.1381 [0.0976, 0.1785]
    """
    level, generator = check_fraction("level", level), as_generator(rng)
    chosen = _as_recalibrators(recalibrators)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    fitted, tested = _split(rows, held_out, sample_weight, generator)
    kept = fitted.dependence
    known: dict[str, Any] = {"cluster": kept.cluster, "time": kept.time, "label_end": kept.label_end}
    seed = int(generator.integers(2**31))
    before = tested.as_joined()
    gaps = {NONE: table_of_gaps(before, y0, alpha, cost, scale)}
    grid = gaps[NONE]
    scores = {NONE: _scores(before, grid, None, scale, level, seed)}
    left_out: dict[str, str] = {}
    for name, recalibrator in chosen.items():
        try:
            made = recalibrator.fresh().fit(fitted.forecast, fitted.y, sample_weight=fitted.weight, **known)
            after = replace(before, forecast=made.transform(before.forecast))
        except InvalidInputError as error:
            if recalibrators is not None:
                raise
            left_out[name] = str(error)
            continue
        gaps[name] = table_of_gaps(after, grid.y0, grid.alpha, grid.cost, scale)
        scores[name] = _scores(after, gaps[name], before, scale, level, seed)
    return DecisionExperiment(scores, gaps, len(fitted), len(tested), left_out)


def _as_recalibrators(given: object) -> dict[str, Recalibrator]:
    if given is None:
        given = list(RECALIBRATORS)
    if isinstance(given, Mapping):
        for name, each in given.items():
            if not isinstance(each, Recalibrator):
                raise InvalidTypeError(f"recalibrators[{name!r:.40}] is a {type(each).__name__}. Pass a recalibrator.")
        found = {str(name): each for name, each in given.items()}
    elif isinstance(given, (list, tuple)):
        for name in given:
            if name not in RECALIBRATORS:
                raise unknown_name("recalibrator", str(name), RECALIBRATORS)
        found = {name: RECALIBRATORS[name]() for name in given}
    else:
        raise InvalidTypeError(
            f"recalibrators is a {type(given).__name__}. Pass names, such as 'average', or a mapping."
        )
    if NONE in found:
        raise InvalidInputError(f"recalibrators names {NONE!r}, which stands for the forecasts as they are. Rename it.")
    return found


def _split(
    rows: Outcomes, held_out: float | ArrayLike, sample_weight: ArrayLike | None, rng: np.random.Generator
) -> tuple[Outcomes, Outcomes]:
    """Return the rows that are fitted to, and those that are measured on."""
    if isinstance(held_out, (int, float)) and not isinstance(held_out, bool):
        share = check_fraction("held_out", held_out)
        if rows.dependence:
            folds = rows.dependence.folds(max(round(1.0 / share), 2), int(rng.integers(2**31)))
        else:
            folds = np.zeros(len(rows), dtype=np.int64)
            folds[rng.permutation(len(rows))[: round(share * len(rows))]] = 1
    else:
        mask = np.asarray(held_out)
        if mask.dtype != np.bool_ or mask.ndim != 1:
            raise InvalidTypeError("held_out is neither a share nor booleans of each row. Pass 0.5, or a mask.")
        if sample_weight is not None:
            mask = mask[np.asarray(sample_weight, dtype=np.float64) > 0.0]
        check_same_length(len(rows), mask.size, "the forecast", "held_out")
        folds = mask.astype(np.int64)
    last = int(folds.max())
    tested = rows.take(folds == last) if last else None
    if tested is None or min(len(tested), len(rows) - len(tested)) < _LEAST:
        sizes = f"{0 if tested is None else len(tested):,} of {count(len(rows), 'row')} would be held out"
        raise InvalidInputError(f"{sizes}: each part needs {_LEAST}. Pass more rows, or another held_out.")
    return rows.fitted_without(folds, last), tested


def _scores(
    rows: Outcomes, gaps: ReliabilityGaps, before: Outcomes | None, scale: float, level: float, seed: int
) -> Scores:
    """Return the scores of one set of forecasts of the held-out rows."""
    noise, largest = (each * scale / SCALE for each in gap_noise(rows, gaps, np.random.default_rng(seed)))
    floors = _floors(rows, gaps, scale, level, seed)
    if rows.dependence:
        alone, _ = gap_noise(rows.as_independent(), gaps, np.random.default_rng(seed))
        effect = design_effect(noise, alone * scale / SCALE)
        drawn = zip(floors, (noise, largest), strict=True)
        floors = [floor.raised(effect, each, 1.0 - level) for floor, each in drawn]
    best = np.abs(gaps.alpha[:, None] - gaps.cost).argmin(axis=0)
    every = np.arange(gaps.cost.size)
    promised, realised = gaps.predicted[:, best, every], gaps.true[:, best, every]
    least = gaps.true.min(axis=1)
    change = Estimate(0.0, 0.0, 0.0, "none") if before is None else _change(before, rows, gaps, scale, level, seed)
    found = {
        "gap": bounded_estimate(gaps.mean, noise, floors[0], level),
        "change": change,
        "max_gap": bounded_estimate(gaps.max, largest, floors[1], level),
        "within_chance": Estimate.of_value(_within_chance(rows, gaps, level)),
        "promised_loss": Estimate.of_value(float(promised.mean())),
        "decision_loss": Estimate.of_value(float(realised.mean())),
        "regret": Estimate.of_value(float((realised - least).mean())),
        "crps": rows.mean_estimate(rows.forecast.crps(rows.y), level, least=0.0),
    }
    if rows.forecast.has_density:
        found["log_score"] = rows.mean_estimate(row_log_score(rows), level)
    return Scores(scores_of(found, rows, level, "held-out"), verdict="")


def _floors(rows: Outcomes, gaps: ReliabilityGaps, scale: float, level: float, seed: int) -> list[GapByChance]:
    """Return the noise floors of the mean and of the greatest gap: those of outcomes drawn from the forecasts."""
    rng = np.random.default_rng(seed)
    part = floor_rows(rows, rng)
    y0 = _some_thresholds(gaps)
    shrink = math.sqrt(part.effective_size / rows.effective_size)
    drawn = [table_of_gaps(part.drawn(rng), y0, gaps.alpha, gaps.cost, scale) for _ in range(_DRAWS)]
    found = [d.mean for d in drawn], [d.max for d in drawn]
    return [GapByChance.of_draws(shrink * np.array(each), 1.0 - level) for each in found]


def _some_thresholds(gaps: ReliabilityGaps) -> FloatArray:
    return gaps.y0[np.unique(np.linspace(0, gaps.y0.size - 1, _FLOOR_THRESHOLDS).astype(np.intp))]


def _within_chance(rows: Outcomes, gaps: ReliabilityGaps, level: float) -> float:
    """Return the share of the gaps whose interval, of promised less realised loss, holds 0."""
    weight = rows.weights / rows.weights.sum()
    units = rows.units()
    code: IntArray = np.arange(len(rows), dtype=np.int64) if units is None else units.code.astype(np.int64)
    n, n_alpha = int(code.max()) + 1, gaps.alpha.size
    t = t_quantile(max(n - 1, 1), level)
    held = 0.0
    for threshold, chance in zip(gaps.y0, rows.levels_at(gaps.y0), strict=True):
        first = np.searchsorted(gaps.alpha, chance).astype(np.int64)
        excess = weight * (chance - (rows.y <= threshold))
        sums = np.bincount(code * (n_alpha + 1) + first, weights=excess, minlength=n * (n_alpha + 1))
        up_to = sums.reshape(n, n_alpha + 1).cumsum(axis=1)
        total = np.bincount(code, weights=weight, minlength=n)[:, None]
        mean = up_to.sum(axis=0)
        off = up_to - total * mean  # influences of the units, of a mean over the weight
        every = off[:, -1:]
        squares = np.sum(off[:, :-1] ** 2, axis=0), np.sum(off[:, :-1] * every, axis=0), float(np.sum(every**2))
        signed = mean[:-1, None] - gaps.cost * mean[-1]
        variance = squares[0][:, None] - 2.0 * gaps.cost * squares[1][:, None] + gaps.cost**2 * squares[2]
        # few events show too little variance: at least that which the forecasts give
        own = np.bincount(first, weights=weight**2 * chance * (1.0 - chance), minlength=n_alpha + 1).cumsum()
        least = own[:-1, None] * (1.0 - 2.0 * gaps.cost) + own[-1] * gaps.cost**2
        reach = t * np.sqrt(np.maximum(np.maximum(variance, 0.0) * n / max(n - 1, 1), least))
        held += float((np.abs(signed) <= reach).mean())
    return held / gaps.y0.size


def _change(
    before: Outcomes, after: Outcomes, gaps: ReliabilityGaps, scale: float, level: float, seed: int
) -> Estimate:
    """Estimate the mean gap after less before, by leaving out groups of whole units."""
    units = before.units()
    code = np.arange(len(before)) if units is None else units.code
    n = int(code.max()) + 1
    groups = np.random.default_rng(seed).permutation(n) % min(_GROUPS, n)
    y0 = _some_thresholds(gaps)

    def difference(kept: Any, y0: FloatArray) -> float:
        one, other = (table_of_gaps(each.take(kept), y0, gaps.alpha, gaps.cost, scale).mean for each in (after, before))
        return one - other

    value = difference(np.arange(len(before)), gaps.y0)
    if n < 3:  # too few to leave any out
        return Estimate.of_value(value, "too few clusters or blocks for an interval")
    k = int(groups.max()) + 1
    parts = np.array([difference(np.flatnonzero(groups[code] != g), y0) for g in range(k)])
    error = math.sqrt((k - 1) / k * float(np.square(parts - parts.mean()).sum()))
    reach = t_quantile(k - 1, level) * error
    return Estimate(value, value - reach, value + reach, f"jackknife over {k} groups")
