"""Whether scores want a change: what the blend of automatic calibration gains on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from calibrant.calibrators.auto_report import NONE, AutoReport, Candidate
from calibrant.calibrators.cross_fit import Split, held_out, held_out_mean, plain_splits, refit_variance
from calibrant.dependent_rows import DesignEffects
from calibrant.numerics import FloatArray, expit, kish_size
from calibrant.phrases import figure
from calibrant.rows import Rows

#: Log-likelihood, in nats, by which the blend must beat the scores as they are: what counts is the odds of the two,
#: after prior odds of 1 to e^2.5, and even odds are asked for. It was chosen among 0 to 4 nats, for little harm at
#: little cost, on 26 binary tables, 9 others (`CHOSEN_ON` in benchmarks/real_tables.py) and the older score sets.
_ASKED = 2.5
#: The same of the mean of this gain and of the log Bayes factor of lines, which sees all rows at once; chosen among .5
#: to 1.25 on 35 tables of `CHOSEN_ON`, with figures of the others in sight.
_ASKED_OF_BOTH = 1.0
#: Rows up to which gains are measured on folds of their own, which know nothing of the class rates.
_MOST_AGAIN = 3_000
#: Rows of each class from which such folds leave enough of it to fit to.
_FEWEST_PER_CLASS = 10
#: Coverage at which few clusters, or blocks, are allowed for.
_LEVEL = 0.95
#: Candidates that fit no rate of any class.
_WITHOUT_RATES = (NONE, "temperature", "ensemble_temperature")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What fits to parts of the rows show on the others.

    `leak` is what the folds tell whatever fits a rate of each class of the rows that it is measured on, in nats over
    all rows: about one for each class but one, where folds hold the same share of each class.
    """

    rows: Rows
    folds: list[Split]
    dependence: DesignEffects
    leak: float

    @classmethod
    def of(cls, rows: Rows, folds: list[Split]) -> Self:
        """Return what folds show that hold the same share of each class, unless rows are declared to be dependent."""
        n_present = int(np.count_nonzero(np.bincount(rows.codes, minlength=rows.n_classes)))
        return cls(rows, folds, DesignEffects.of(rows), 0.0 if rows.declared else n_present - 1.0)

    @property
    def wants_plain_folds(self) -> bool:
        """Whether gains are to be measured on other folds than those that the weights are chosen on."""
        counts = np.bincount(self.rows.codes)
        is_enough = int(counts[counts > 0].min()) >= _FEWEST_PER_CLASS
        return self.leak > 0.0 and self.rows.n_rows <= _MOST_AGAIN and is_enough

    def on_plain_folds(self, seed: int) -> Self:
        """Return the same on as many folds that are drawn without a look at the labels."""
        return replace(self, folds=plain_splits(self.rows, len(self.folds), rng=seed), leak=0.0)

    def weigh(
        self,
        loss: Mapping[str, FloatArray],
        of_blend: Callable[[FloatArray], FloatArray],
        weights: FloatArray,
        *,
        is_certain: bool = False,
        at_once: float | None = None,
        called: str = "log loss",
    ) -> tuple[AutoReport, FloatArray]:
        """Return the report and the weights that count: those given, drawn to the scores as they are, or these alone.

        `loss` has the log losses of each candidate, shape (k, n), of each row by each fold's fit, or (1, n), by the one
        that has not seen it; `of_blend` gives them of candidates by their weights. Where both the scores as they are
        and the blend are given half of the belief after their likelihoods, Bayes's rule draws the weights; below that
        nothing is changed. `at_once` is the logarithm of a Bayes factor of all rows for a change: the mean of it and of
        what rows held out gain counts. Scores that are certain, some of them exactly 0 or 1, are not left alone. The
        reason has the loss as it is `called`.
        """
        alone = loss.get(NONE)
        leaks = np.array([name not in _WITHOUT_RATES for name in loss], dtype=np.float64)
        blend = self._candidate("blend", of_blend(weights), alone, float(weights @ leaks), 1.0)
        belief, used, chosen = 1.0, weights, blend.name
        if alone is not None and not is_certain:
            belief = self._belief(of_blend(weights) - alone, blend.difference, at_once)
            used = belief * weights + (1.0 - belief) * np.array([float(name == NONE) for name in loss])
            if belief < 0.5:
                chosen, used = NONE, np.array([float(name == NONE) for name in loss])
            else:
                blend = self._candidate("blend", of_blend(used), alone, float(used @ leaks), 1.0)
        shown = weights if chosen == NONE else used
        tried = [
            self._candidate(name, values, alone, leak, share)
            for (name, values), leak, share in zip(loss.items(), leaks.tolist(), shown.tolist(), strict=True)
        ]
        reason = _reason(blend, chosen, belief, called, is_certain=is_certain)
        tried.sort(key=lambda c: c.log_loss)
        return AutoReport(tuple(tried), blend, chosen, reason, self.rows.n_rows, len(self.folds)), used

    def _candidate(
        self, name: str, values: FloatArray, alone: FloatArray | None, leak: float, weight: float
    ) -> Candidate:
        leaked = leak * self.leak / self._size
        mean = float(np.average(held_out(values, self.folds), weights=self.rows.weights)) + leaked
        if alone is None:
            return Candidate(name, mean, np.nan, np.nan, weight)
        change = values - alone
        refits = refit_variance(change, self.folds)
        difference, error = held_out_mean(held_out(change, self.folds), refits, self.rows, self.dependence)
        return Candidate(name, mean, difference + leaked, error, weight)

    def _belief(self, change: FloatArray, difference: float, at_once: float | None) -> float:
        """Return the probability that the change gains, by prior odds, held-out rows and all rows at once.

        Likelihoods of rows that depend on each other count as those of so many fewer rows, and of few clusters as less.
        """
        effect = float(self.dependence.of_means(self.rows, held_out(change, self.folds)[:, None])[0])
        effect *= self.dependence.widening(_LEVEL)
        gain = -difference * self._size
        log_odds = gain / effect - _ASKED if at_once is None else 0.5 * (gain + at_once) / effect - _ASKED_OF_BOTH
        return float(expit(np.array([log_odds]))[0])

    @property
    def _size(self) -> float:
        return kish_size(self.rows.weights)


def gather(
    rows: Rows,
    folds: list[Split],
    by_fit: Callable[[list[Split]], FloatArray],
    weights_of: Callable[[FloatArray], FloatArray],
    *,
    seed: int,
) -> tuple[Evidence, FloatArray, FloatArray]:
    """Return the evidence, what each candidate's fits make of its rows, and the weights of the candidates.

    `by_fit` gives of folds what the fits of each of J candidates make of the rows, shape (J, k, n, ...), and
    `weights_of` the weights by what those make that have not seen the row. These are chosen on the given folds; gains
    are measured on plain ones where that is wanted.
    """
    outputs = by_fit(folds)
    weights = weights_of(np.array([held_out(each, folds) for each in outputs]))
    evidence = Evidence.of(rows, folds)
    if evidence.wants_plain_folds:
        evidence = evidence.on_plain_folds(seed)
        outputs = by_fit(evidence.folds)
    return evidence, outputs, weights


def _reason(blend: Candidate, chosen: str, belief: float, loss: str, *, is_certain: bool) -> str:
    if np.isnan(blend.difference):
        return "Raw scores are no probabilities: they can't be left alone."
    figures = f"{figure(blend.difference, sign=True)} out of fold, standard error {figure(blend.standard_error)}"
    if is_certain:
        return f"Changed: some scores are exactly 0 or 1, which no rows can show ({loss} {figures})."
    if chosen == NONE:
        return f"Left alone: {loss} would change by {figures}, which is no clear gain."
    drawn = f"; the change has {belief:.0%} of the weight, the evidence being thin" if belief < 0.95 else ""
    if blend.difference >= 0.0:
        return f"Changed: all rows at once ask for another shift or slope of the logits ({loss} {figures}{drawn})."
    return f"Changed: {loss} falls ({figures}{drawn})."
