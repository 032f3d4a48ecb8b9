"""evaluate: what decisions cost, against what was promised and against the best that could have been decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.decisions.hindsight import allowed, best_charges, chosen, least_within_capacity, ordering
from calibrant.decisions.outcomes import OF_THESE_ROWS, Decided, of_taken, read_decided
from calibrant.decisions.problem import Problem
from calibrant.errors import InvalidInputError
from calibrant.metrics import NO_ERROR, Estimate
from calibrant.numerics import FloatArray
from calibrant.phrases import figure, interval
from calibrant.results import Score, Scores
from calibrant.validation import ArrayLike, check_fraction

#: Scores of all rows, in this order.
NAMES = ("realised", "promised", "gap", "regret", "best_in_hindsight", "best_single_action")
_BIASED = "chosen by the same outcomes: biased upward by noise"


class DecisionScores(Scores):
    """What decisions cost: scores by name, of all rows, of each action and of each group.

    Attributes
    ----------
    verdict : str
        Whether the promise was kept, in a sentence.
    by_action : dict of Scores
        Of the rows that got each action: `share` (of all rows), `realised`, `promised` and `gap`. Their intervals have
        the level 1 - (1 - level) / A for A actions that were taken.
    by_group : dict of Scores
        The same of each group; empty where no groups were given.
    promised, realised, gap, regret, baseline : Score
        Those of `evaluate`, `baseline` being the best single action.
    """

    def __init__(
        self,
        scores: list[Score],
        *,
        verdict: str,
        notes: Sequence[str] = (),
        by_action: Mapping[str, Scores],
        by_group: Mapping[Any, Scores],
    ) -> None:
        super().__init__(scores, verdict=verdict, notes=notes)
        self.by_action = dict(by_action)
        self.by_group = dict(by_group)
        self.promised, self.realised, self.gap = self["promised"], self["realised"], self["gap"]
        self.regret, self.baseline = self["regret"], self["best_single_action"]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        document = super().to_dict()
        document["by_action"] = [{"action": name, **found.to_dict()} for name, found in self.by_action.items()]
        if self.by_group:
            document["by_group"] = [{"group": name, **found.to_dict()} for name, found in self.by_group.items()]
        return document


def evaluate(
    y: ArrayLike,
    predictions: Any,
    policy: Any,
    problem: Problem | Mapping[str, Any] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    costs: Any = None,
    per: ArrayLike | None = None,
    promise: Score | None = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> DecisionScores:
    """Measure what decisions cost, what the predictions promised, and what they could have cost.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any kind; of losses that go by a number, the numbers that came.
    predictions : array-like of shape (n,) or (n, K), or Forecast
        As in `Policy.decide`.
    policy : Policy, Problem, mapping, rule or array-like of shape (n,)
        The policy; that of least expected loss of a problem, or of losses ``{action: {class: loss}}``. With a `problem`
        also a rule, which is anything with ``decide(predictions)``, such as `forecasts.ThresholdRule`, or a function of
        predictions; or the action that each row got, by name or number.
    problem : Problem or mapping, optional
        For rules, and actions that are given.
    sample_weight, cluster, time, label_end
        As in `calibrant.metrics.evaluate`.
    groups : array-like of shape (n,), optional
        Subgroups to measure by themselves.
    costs, per
        As in `Policy.decide`.
    promise : Score, optional
        What ``expected_loss(..., about="rows")`` promised for these rows. `promised` and `gap` are then of it, and the
        gap's interval is that of the promise, which carries the error of the calibration. Actions and groups are held
        to what the predictions say by themselves.
    level : float
        Nominal coverage of the intervals.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

    Returns
    -------
    DecisionScores
        In the units of the losses, per row:

        - `realised`: the mean loss of what was decided.
        - `promised`: the mean of what the predictions expected it to be; or the `promise`.
        - `gap`: realised less promised, paired by row: above zero where decisions cost more than was promised.
        - `regret`: realised less `best_in_hindsight`.
        - `best_in_hindsight`: the least mean loss of a policy of the same kind, chosen by these outcomes: least
          expected loss with a fixed charge on each action, which of two actions and one score are all thresholds.
        - `best_single_action`: the least mean loss of one action for all rows, chosen by these outcomes among those
          that may have so many; its `where` says which.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Intervals of means are Student's t by Hall's transformation, which covers where few rows lose much. The variance of
    a row is taken as no less than the probabilities say, so that rows in which nothing went wrong claim no certainty.
    Of rows that are not independent they rest on sums over clusters, or over blocks of time.

    Without a `promise` the interval of the gap takes the predictions as given. Those of a calibrator that was fitted to
    fewer rows than these are off by its own chance, so that a gap may be found though nothing is wrong with the method:
    on twelve real sets, with 1,000 rows to fit and up to 5,000 to judge, and on eight of forecasts, in 30% and
    18% of the cases, and with a promise in 5% and 3% (`benchmarks/results/decisions.txt`).

    What was chosen by the outcomes flatters itself: `best_in_hindsight` is too low and `regret` too high by noise, so
    that the policy that can't be bettered has a regret above zero in any sample. The lower end of the interval of the
    regret is that of what charges save that were chosen on the other half of the rows, and at least 0. Of capacities
    and more than two actions the best charges are searched for and not proven, so that the regret may be greater, and
    the lower end of its interval is 0.

    References
    ----------
    Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS, definition 2, for the
    gap. Hall (1992), *On the removal of skewness by transformation*, Journal of the Royal Statistical Society B 54.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.decisions import Problem, evaluate
    >>> p = np.random.default_rng(0).random(2_000)
    >>> y = np.random.default_rng(1).random(2_000) < p
    >>> found = evaluate(y, p, Problem.two_actions(false_positive=1.0, false_negative=4.0))
    >>> print(found["realised"])
    realised 0.4040 [0.3744, 0.4366]
    >>> print(found["gap"])
    gap 0.0070 [-0.0207, 0.0377]
    """
    level = check_fraction("level", level)
    what: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "costs": costs, "per": per}
    decided = read_decided(y, predictions, policy, problem, sample_weight=sample_weight, groups=groups, **what)
    return evaluate_decided(decided, promise=promise, level=level, evaluated_on=evaluated_on)


def evaluate_decided(
    decided: Decided, *, promise: Score | None = None, level: float, evaluated_on: str
) -> DecisionScores:
    """Measure decided rows, as `evaluate` does."""
    found = {**_losses(decided, level), **_hindsight(decided, level)}
    if promise is not None:
        found |= _held_to(promise, found["realised"].value, level)
    scores = _scores({name: found[name] for name in NAMES}, decided, level, evaluated_on)
    taken = np.unique(decided.taken).tolist()
    parts = {decided.policy.actions[a]: decided.taken == a for a in taken}
    groups = {}
    for labels in decided.rows.groups.values():
        groups = {name: labels.codes == code for code, name in enumerate(labels.classes.tolist())}
        groups = {name: part for name, part in groups.items() if part.any()}
    return DecisionScores(
        list(scores.values()),
        verdict=verdict_of(scores["realised"], scores["promised"], scores["gap"]),
        by_action=_parts(decided, parts, level, evaluated_on),
        by_group=_parts(decided, groups, level, evaluated_on),
    )


def verdict_of(realised: Score, promised: Score, gap: Score) -> str:
    """Say whether the promise was kept."""
    was = f"Decisions cost {figure(realised.value)} a row, and {figure(promised.value)} was promised"
    if not math.isfinite(gap.high - gap.low):
        return f"{was}. Whether that is a gap can't be told: {NO_ERROR}."
    between = interval(gap.level, gap.low, gap.high)
    if not gap.low <= 0.0 <= gap.high:
        more = "more" if gap.value > 0.0 else "less"
        return f"{was}: {figure(abs(gap.value))} {more} ({between}). The promise was not kept."
    return f"{was}. No gap found: {between}."


def _held_to(promise: object, realised: float, level: float) -> dict[str, Estimate]:
    """Return a promise, and how far what came lies from it."""
    if not isinstance(promise, Score) or promise.name != "expected_loss" or promise.where != OF_THESE_ROWS:
        said = promise.name if isinstance(promise, Score) else type(promise).__name__
        raise InvalidInputError(f'promise is {said!r}. Pass what expected_loss(..., about="rows") said of these rows.')
    if promise.level != level:
        raise InvalidInputError(f"promise has the level {promise.level!r}, and level={level!r}. Give both the same.")
    gap = Estimate(realised - promise.value, realised - promise.high, realised - promise.low, promise.method)
    return {"promised": Estimate(promise.value, promise.low, promise.high, promise.method, promise.note), "gap": gap}


def _losses(decided: Decided, level: float) -> dict[str, Estimate]:
    """Estimate what was lost, what was promised, and the gap."""
    promised, realised, least = decided.promised_losses, decided.realised_losses, decided.outcome_variance
    return {
        "realised": decided.mean(realised, level, least_variance=least),
        "promised": decided.mean(promised, level),
        "gap": decided.mean(decided.gaps, level, least_variance=least),
    }


def _hindsight(decided: Decided, level: float) -> dict[str, Estimate]:
    """Estimate the best that could have been decided, and the regret."""
    means = np.average(decided.realised, axis=0, weights=decided.weight)
    means[[a for a, most in decided.policy.capacity_by_number.items() if most < decided.most_rows]] = np.inf
    best = int(means.argmin())
    single = decided.mean(decided.realised[:, best], level)
    found = {"best_single_action": replace(single, where=f"{decided.policy.actions[best]!r} for all rows")}
    n_actions, capacity = len(decided.policy.actions), decided.policy.problem.capacity
    if capacity and n_actions > 2:
        after = least_within_capacity(decided)
        saved = decided.mean(decided.realised_losses - after, level)
        regret = replace(saved, low=min(0.0, saved.value), high=max(saved.high, saved.value), note=_BIASED)
        return {**found, "regret": regret, "best_in_hindsight": decided.mean(after, level)}
    free = _with_room(decided)
    after = _realised_with(free, best_charges(free))
    kept = free.realised_losses
    saved = decided.mean(kept - after, level)
    low = max(_cross_fitted(free, level), 0.0)
    regret = replace(saved, low=min(low, saved.value), high=max(saved.high, saved.value), note=_BIASED)
    return {**found, "regret": regret, "best_in_hindsight": decided.mean(after, level)}


def _with_room(decided: Decided) -> Decided:
    """Return rows where those that a capacity keeps from its action lose by it what they lose without it."""
    may = allowed(decided)
    if may is None:
        return decided
    (a,) = decided.policy.capacity_by_number
    realised = decided.realised.copy()
    realised[~may, a] = realised[~may, 1 - a]
    return replace(decided, realised=realised)


def _realised_with(decided: Decided, charges: FloatArray) -> FloatArray:
    return of_taken(decided.realised, chosen(ordering(decided), charges))


def _cross_fitted(decided: Decided, level: float) -> float:
    """Return the lower end of what charges save that were chosen on the other half of the rows."""
    n = decided.rows.n_rows
    if n < 4:
        return 0.0
    try:
        folds = decided.rows.folds(2)
    except InvalidInputError:  # one cluster has no halves
        return 0.0
    saved = np.zeros(n)
    for fold in (0, 1):
        held, rest = folds == fold, decided.rows.fitted_without(folds, fold)
        if not held.any() or not rest.any():
            return 0.0
        part = decided.take(held)
        saved[held] = part.realised_losses - _realised_with(part, best_charges(decided.take(rest)))
    return decided.mean(saved, level).low


def _parts(decided: Decided, parts: Mapping[Any, Any], level: float, evaluated_on: str) -> dict[Any, Scores]:
    """Measure some parts of the rows by themselves, at a level that is corrected for their number."""
    found: dict[Any, Scores] = {}
    each = 1.0 - (1.0 - level) / max(len(parts), 1)
    total = float(decided.weight.sum())
    for name, at in parts.items():
        part = decided.take(at)
        share = float(part.weight.sum()) / total
        estimates = {"share": Estimate(share, share, share, "none"), **_losses(part, each)}
        scores = _scores(estimates, part, each, evaluated_on)
        words = verdict_of(scores["realised"], scores["promised"], scores["gap"])
        found[name] = Scores(list(scores.values()), verdict=words)
    return found


def _scores(estimates: Mapping[str, Estimate], decided: Decided, level: float, evaluated_on: str) -> dict[str, Score]:
    known: dict[str, Any] = {"level": level, "n": decided.rows.n_rows, "evaluated_on": evaluated_on}
    n_eff = replace(decided.rows, cluster=None, time=None, label_end=None).effective_size
    return {name: each.to_score(name, n_eff=n_eff, **known) for name, each in estimates.items()}
