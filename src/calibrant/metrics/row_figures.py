"""What each row adds to the figures of `evaluate` that have a design effect of their own.

The influences are functions of the summary of all rows, so that rows in memory and rows that are read in parts are
measured alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.dependent_rows import DependenceSums, DesignEffects, gaps
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
    """The figures of rows: gaps, scores, and the parts of the joint test of the one score, or of the top label."""

    names: tuple[str, ...]
    parts: PartInfluences
    auc: Influence | None
    line: LineInfluence | None

    @classmethod
    def of(cls, summary: ScoreSummary, *, is_binary: bool) -> RowFigures:
        """Return the figures of rows whose one score, or top label, is summarised."""
        auc = line = None
        names = ["brier", "log_loss", "base_rate" if is_binary else "accuracy"]
        if is_binary and 0.0 < summary.base_rate < 1.0:
            auc, line = influence_of(summary), LineInfluence.of(summary.tied())
            names += ["auc"] if line is None else ["auc", "slope", "intercept"]
        return cls(tuple(names), PartInfluences.of(summary), auc, line)

    def of_rows(self, rows: Rows) -> FloatArray:
        """Return what each row adds, shape (n, m): NaN where a score is not finite."""
        one = rows.one_column()
        columns = [row_brier(rows), row_log_loss(rows), one.positive.astype(np.float64)]
        columns += [] if self.auc is None else [self.auc.apply(one)]
        columns += [] if self.line is None else list(self.line.apply(one))
        found = np.column_stack((*columns, self.parts.of_rows(one), gaps(rows)))
        return np.where(np.isfinite(found), found, np.nan)

    def settings(self, settings: Settings, sums: DependenceSums) -> Settings:
        """Return the settings for rows whose figures were summed by what they share."""
        dependence = DesignEffects.of_sums(sums)
        found = dependence.of_sums_of_means(sums)
        n_scores, n_parts = len(self.names), self.parts.n_figures
        effects = dict(zip(self.names, found[:n_scores].tolist(), strict=True))
        if "base_rate" in effects:  # which is all that it depends on
            effects["uncertainty"] = effects["base_rate"]
        return replace(
            settings,
            effect=settings.effect * float(found[n_scores + n_parts :].max()),
            effects={name: effect for name, effect in effects.items() if np.isfinite(effect)},
            part_effects=self.parts.effects(found[n_scores : n_scores + n_parts]),
            dof=min(settings.dof, dependence.dof),
        )
