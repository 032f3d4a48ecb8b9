"""tune_threshold: a threshold chosen on one part of the rows, and judged on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.decisions.evaluation import evaluate_decided
from calibrant.decisions.hindsight import best_charges
from calibrant.decisions.outcomes import Decided, read_decided
from calibrant.decisions.policy import Policy, as_policy
from calibrant.decisions.problem import Problem
from calibrant.errors import InvalidInputError
from calibrant.readable import rows_as_columns
from calibrant.results import Plain, Score
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: Draws of the rows by which the spread of the chosen threshold is told.
_N_DRAWS = 200
#: What the table shows of each score.
_SHOWN = ("name", "value", "low", "high", "n", "method")


@dataclass(frozen=True, slots=True, repr=False)
class TunedThreshold(Plain):
    """A threshold that was chosen on one part of the rows and judged on another.

    Attributes
    ----------
    threshold : Score
        The threshold of least mean loss on the rows that it was chosen on; its interval says between which ones it
        lies when these rows are drawn again (percentile bootstrap).
    realised : Score
        Mean loss of the threshold on the other rows.
    cost_optimal : Score
        Mean loss there of the threshold that the losses say, for which no row is needed; NaN where they say none.
    saved : Score
        `cost_optimal` less `realised`, paired by row: what tuning saves. Its interval holds 0 where the rows can't
        tell the two apart, as they can't of calibrated probabilities.
    """

    threshold: Score
    realised: Score
    cost_optimal: Score
    saved: Score
    problem: Problem

    def policy(self) -> Policy:
        """Return the policy of this threshold."""
        return Policy(self.problem, threshold=self.threshold.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain Python values."""
        names = ("threshold", "realised", "cost_optimal", "saved")
        return {name: getattr(self, name).to_dict() for name in names}

    def _columns(self) -> dict[str, Sequence[Any]]:
        scores = (self.threshold, self.realised, self.cost_optimal, self.saved)
        return rows_as_columns([{part: getattr(score, part) for part in _SHOWN} for score in scores])


def tune_threshold(
    y: ArrayLike,
    predictions: Any,
    problem: Problem | Mapping[str, Any],
    *,
    share: float = 0.5,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
) -> TunedThreshold:
    """Choose the threshold of least loss on one part of the rows, and judge it on the other.

    Parameters
    ----------
    y, predictions, sample_weight, cluster, time, label_end
        As in `evaluate`; probabilities, or any other score in [0, 1], of the positive class of two, or a forecast.
    problem : Problem or mapping
        Of two actions, whose second is for the positive class; without capacities.
    share : float
        Share of the rows that the threshold is chosen on: at random, whole clusters, or the earlier ones where rows
        have times; of these, labels that overlap those of the other rows are left out.
    level : float
        Nominal coverage of the intervals.
    rng : int, Generator or None
        Seed of the split and of the bootstrap.

    Returns
    -------
    TunedThreshold

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    On the rows that it was chosen on a threshold looks better than it is. Calibrated probabilities need none: the
    threshold that the losses say (`Problem.threshold`) is right for any of them, and costs no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.decisions import Problem, tune_threshold
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(4_000)
    >>> found = tune_threshold(rng.random(4_000) < p**2, p, Problem.two_actions(false_positive=1, false_negative=3))
    >>> print(found.threshold)  # the losses say 0.25, which is p**2 where p is 0.5
    threshold 0.5326 [0.4245, 0.5409]
    >>> found.saved.low > 0.0
    True
    """
    policy = as_policy(problem, name="problem")
    level, share = check_fraction("level", level), check_fraction("share", share)
    generator = as_generator(rng)
    policy = Policy(policy.problem, threshold=0.5)  # refuses what no threshold is of
    known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "sample_weight": sample_weight}
    decided = read_decided(y, predictions, policy, **known)
    chosen_on, judged_on = _parts(decided, share, generator)
    value = _best(chosen_on)
    draws = np.sort([_best(each) for each in _resamples(chosen_on, generator)])
    low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    n = chosen_on.rows.n_rows
    ends = min(float(low), value), max(float(high), value)
    threshold = Score("threshold", value, *ends, level, n, "percentile bootstrap", "rows that it was chosen on")
    tuned = _with_threshold(judged_on, value)
    how: dict[str, Any] = {"level": level, "evaluated_on": "the other rows"}
    realised = evaluate_decided(tuned, **how)["realised"]
    optimal, saved = _against_optimal(tuned, level)
    return TunedThreshold(threshold, realised, optimal, saved, decided.policy.problem)


def _against_optimal(tuned: Decided, level: float) -> tuple[Score, Score]:
    """Return what the threshold of the losses costs on these rows, and what tuning saves."""
    n, on = tuned.rows.n_rows, "the other rows"
    try:
        value = tuned.policy.problem.threshold
    except InvalidInputError:
        nothing = np.nan, np.nan, np.nan, level, n, "none", on, "the losses say no threshold"
        return Score("cost_optimal", *nothing), Score("saved", *nothing)
    other = _with_threshold(tuned, value)
    cost = other.mean(other.realised_losses, level, least_variance=other.outcome_variance)
    saved = other.mean(other.realised_losses - tuned.realised_losses, level)
    known: dict[str, Any] = {"level": level, "n": n, "evaluated_on": on}
    return cost.to_score("cost_optimal", **known), saved.to_score("saved", **known)


def _parts(decided: Decided, share: float, rng: np.random.Generator) -> tuple[Decided, Decided]:
    """Split rows in two, the first with this share of them: whole clusters, the earlier times first."""
    rows = decided.rows
    n = rows.n_rows
    if rows.cluster is not None:
        order = rng.permutation(int(rows.cluster.max()) + 1)
        is_first = np.isin(rows.cluster, order[: round(share * order.size)])
    elif rows.time is not None:
        is_first = rows.time < np.sort(rows.time)[min(round(share * n), n - 1)]
    else:
        is_first = np.zeros(n, dtype=np.bool_)
        is_first[rng.permutation(n)[: round(share * n)]] = True
    fitted = rows.fitted_without((~is_first).astype(np.int64), 1)
    for part, words in ((fitted, "choose a threshold on"), (~is_first, "judge it on")):
        if not part.any() or np.unique(rows.codes[part]).size < 2:
            raise InvalidInputError(
                f"y has {n:,} rows with weight, and share={share:g} leaves {int(part.sum()):,} of them to {words}, "
                "which lack a class. Give more rows, or another share."
            )
    return decided.take(fitted), decided.take(~is_first)


def _resamples(decided: Decided, rng: np.random.Generator) -> list[Decided]:
    """Draw rows again, whole clusters or blocks of times where these are known."""
    found = []
    units = decided.units(decided.realised_losses)
    codes = units[0].code if units else np.arange(decided.rows.n_rows)
    n_units = units[0].n if units else decided.rows.n_rows
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n_units + 1))
    for _ in range(_N_DRAWS):
        drawn = rng.integers(0, n_units, n_units)
        at = np.concatenate([order[starts[u] : starts[u + 1]] for u in drawn]) if units else drawn
        found.append(decided.take(at))
    return found


def _best(decided: Decided) -> float:
    """Return the threshold of least loss, in [0, 1]: half way between the rows on its two sides."""
    charge = float(best_charges(decided)[1])
    assert decided.policy.threshold is not None  # noqa: S101
    return float(np.clip(decided.policy.threshold + charge, 0.0, 1.0))


def _with_threshold(decided: Decided, threshold: float) -> Decided:
    policy = Policy(decided.policy.problem, threshold=threshold)
    return replace(decided, policy=policy, taken=(decided.positive_scores >= threshold).astype(np.int64))
