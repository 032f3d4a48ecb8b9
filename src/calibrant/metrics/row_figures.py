"""What each row adds to the figures of `evaluate` that have a design effect of their own.

The influences are functions of the summary of all rows, so that rows in memory and rows that are read in parts are
measured alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrant.dependent_rows import DependenceSums, DesignEffects, gaps
from calibrant.maps import StepMap
from calibrant.metrics.decomposition import refit_of
from calibrant.metrics.estimates import Settings
from calibrant.metrics.joint_test import PartInfluences
from calibrant.metrics.proper_scores import row_brier, row_log_loss
from calibrant.metrics.ranking import Influence, influence_of
from calibrant.metrics.slope_intercept import LineInfluence
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary


@dataclass(frozen=True, slots=True)
class RowFigures:
    """The figures of rows: scores, gaps, and the parts of the joint test of the one score, or of the top label.

    `names` are those of the scores that have a design effect of their own. `aucs`, `refits` and `rates` are by class:
    of one score, of the positive one alone.
    """

    names: tuple[str, ...]
    parts: PartInfluences
    line: LineInfluence | None
    aucs: Mapping[int, Influence]
    refits: Sequence[StepMap]
    rates: FloatArray

    @classmethod
    def of(cls, summary: ScoreSummary, by_class: Iterable[ScoreSummary] | None = None) -> RowFigures:
        """Return the figures of rows whose one score is summarised; or their top label, and each class."""
        line, aucs, refits, rates = None, {}, [], []
        for k, column in enumerate([summary] if by_class is None else by_class):
            refits.append(refit_of(column.isotonic_blocks()))
            rates.append(column.base_rate)
            if 0.0 < column.base_rate < 1.0:
                aucs[k] = influence_of(column)
        names = ["brier", "log_loss", "miscalibration", "base_rate"]
        if by_class is not None:
            names[3:] = ["accuracy", "mean_gap", "uncertainty"]
        elif aucs:
            line = LineInfluence.of(summary.tied())
        names += ["auc"] if aucs else []
        names += [] if line is None else ["slope", "intercept"]
        return cls(tuple(names), PartInfluences.of(summary), line, aucs, refits, np.array(rates))

    def of_rows(self, rows: Rows) -> FloatArray:
        """Return what each row adds, shape (n, m): NaN where a score is not finite."""
        one = rows.one_column()
        saved, ranked = self._of_classes(rows)
        columns = [row_brier(rows), row_log_loss(rows), saved, one.positive.astype(np.float64)]
        columns += [] if rows.is_binary else [one.scores - one.positive, self.rates[rows.codes]]
        columns += [ranked] if self.aucs else []
        columns += [] if self.line is None else list(self.line.apply(one))
        found = np.column_stack((*columns, self.parts.of_rows(one), gaps(rows)))
        return np.where(np.isfinite(found), found, np.nan)

    def _of_classes(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return what refitting the columns saves, and the influence on their AUCs, summed over the classes."""
        saved, ranked = np.zeros(rows.n_rows), np.zeros(rows.n_rows)
        for k, refit in enumerate(self.refits):
            own = rows if rows.is_binary else rows.of_class(k)
            saved += (own.scores - own.positive) ** 2 - (refit.apply(own.scores) - own.positive) ** 2
            if k in self.aucs:
                ranked += self.aucs[k].apply(own)
        return saved, ranked

    def settings(self, settings: Settings, sums: DependenceSums) -> Settings:
        """Return the settings for rows whose figures were summed by what they share."""
        dependence = DesignEffects.of_sums(sums)
        found = dependence.of_sums_of_means(sums)
        n_scores, n_parts = len(self.names), self.parts.n_figures
        of_gaps = found[n_scores + n_parts :]
        of_any_gap = float(of_gaps.max())
        effects = dict(zip(self.names, found[:n_scores].tolist(), strict=True))
        if "base_rate" in effects:  # which is all that it depends on
            effects["uncertainty"] = effects["base_rate"]
        # of which the overfit to few rows is a part
        effects["miscalibration"] = max(effects["miscalibration"], of_any_gap)
        return replace(
            settings,
            effect=settings.effect * of_any_gap,
            effects={name: effect for name, effect in effects.items() if np.isfinite(effect)},
            part_effects=self.parts.effects(found[n_scores : n_scores + n_parts]),
            class_effects=of_gaps[1:].tolist(),
            dof=min(settings.dof, dependence.dof),
        )
