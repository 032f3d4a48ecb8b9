"""The scores of `evaluate` without intervals: the same values, by the same functions, in a fraction of the time.

The two tables have a line for each score of the two in `calibrant.metrics.evaluation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from calibrant.metrics.calibration_error import binned_error, debiased_square, root_of_square, worst_bin
from calibrant.metrics.calibration_index import index_of
from calibrant.metrics.decomposition import Decomposition, split, sum_of
from calibrant.metrics.estimates import Column, Estimate
from calibrant.metrics.multiclass import Classes, class_gap_estimates, class_scores
from calibrant.metrics.proper_scores import (
    INFINITE,
    Losses,
    brier_losses,
    log_losses,
    mean_loss,
    row_brier,
    row_log_loss,
)
from calibrant.metrics.ranking import UNDEFINED, macro_auc, rank
from calibrant.metrics.slope_intercept import slope_intercept_values
from calibrant.metrics.smooth_ece import smooth_error


def _log_loss(value: float) -> Estimate:
    return Estimate.of_value(value, INFINITE if math.isinf(value) else "")


def _auc(column: Column) -> Estimate:
    is_defined = 0.0 < column.summary.base_rate < 1.0
    return Estimate.of_value(rank(column.summary).auc) if is_defined else UNDEFINED


def _parts(column: Column) -> Decomposition:
    return split(column.summary, brier_losses)


def _worst_bin(column: Column) -> Estimate:
    b, where = worst_bin(column)
    return Estimate.of_value(float(column.uniform.gap[b]), where=where)


def _mean_gap(column: Column) -> float:
    return mean_loss(column.summary.tied(), Losses(column.summary.scores - 1.0, column.summary.scores))


#: The scores of one column, as `evaluation.OF_A_COLUMN` names them.
VALUES_OF_A_COLUMN: dict[str, Callable[[Column], Estimate]] = {
    "brier": lambda c: Estimate.of_value(c.once(_parts).score),
    "log_loss": lambda c: _log_loss(mean_loss(c.summary.tied(), log_losses(c.summary.scores))),
    "ece": lambda c: Estimate.of_value(binned_error(c.uniform, "l1")),
    "ece_debiased": lambda c: Estimate.of_value(root_of_square(debiased_square(c.quantile))),
    "auc": _auc,
    "miscalibration": lambda c: Estimate.of_value(c.once(_parts).miscalibration),
    "discrimination": lambda c: Estimate.of_value(c.once(_parts).discrimination),
    "uncertainty": lambda c: Estimate.of_value(c.summary.base_rate * (1.0 - c.summary.base_rate)),
    "mean_gap": lambda c: Estimate.of_value(_mean_gap(c)),
    "base_rate": lambda c: Estimate.of_value(c.summary.base_rate),
    "smooth_ece": lambda c: Estimate.of_value(smooth_error(c.summary.tied())),
    "slope": lambda c: c.once(slope_intercept_values)["slope"],
    "intercept": lambda c: c.once(slope_intercept_values)["intercept"],
    "ici": lambda c: Estimate.of_value(index_of(c.summary)),
    "worst_bin_gap": _worst_bin,
}


def _losses(classes: Classes) -> tuple[float, float]:
    """Return the mean losses of the rows: Brier score and log loss."""
    brier, log = classes.rows.moments(lambda held: (row_brier(held), row_log_loss(held)))
    return brier[0], log[0]


def _one_vs_rest(classes: Classes) -> dict[str, Estimate]:
    """Return what is summed or averaged over the classes, holding the summary of one class at a time."""
    errors, squares, parts, aucs, rates = [], [], [], [], []
    for k in range(classes.n_classes):
        column = classes.column(classes.rows.class_summary(k))
        errors.append(binned_error(column.uniform, "l1"))
        squares.append(debiased_square(column.quantile))
        parts.append(_parts(column))
        rates.append(column.summary.base_rate)
        if 0.0 < rates[-1] < 1.0:
            aucs.append(rank(column.summary).auc)
    whole = sum_of(parts)
    return {
        "classwise_ece": Estimate.of_value(float(np.mean(errors))),
        "marginal_calibration_error": Estimate.of_value(root_of_square(float(np.mean(squares)))),
        "auc": macro_auc(aucs, classes.n_classes),
        "miscalibration": Estimate.of_value(whole.miscalibration),
        "discrimination": Estimate.of_value(whole.discrimination),
        "uncertainty": Estimate.of_value(1.0 - float(np.sum(np.array(rates) ** 2))),
    }


def _class_gaps(classes: Classes) -> dict[str, Estimate]:
    """Return the gaps of the classes that are furthest off. Which ones are is judged by bounds, which are left out."""
    columns = (classes.column(classes.rows.class_summary(k)) for k in range(classes.n_classes))
    judged = {
        label: class_scores(classes, k, column)
        for k, (label, column) in enumerate(zip(classes.rows.classes, columns, strict=True))
    }
    found = class_gap_estimates(judged)
    return {name: Estimate.of_value(gap.value, gap.note, gap.where) for name, gap in found.items()}


def _each_of(
    measure: Callable[[Classes], Mapping[str, Estimate]], names: Sequence[str]
) -> dict[str, Callable[[Classes], Estimate]]:
    """Return a function for each of the scores that `measure` gives together."""

    def one(name: str) -> Callable[[Classes], Estimate]:
        return lambda classes: classes.once(measure)[name]

    return {name: one(name) for name in names}


#: The scores of several classes, as `evaluation.OF_CLASSES` names them.
VALUES_OF_CLASSES: dict[str, Callable[[Classes], Estimate]] = {
    "brier": lambda c: Estimate.of_value(c.once(_losses)[0]),
    "log_loss": lambda c: _log_loss(c.once(_losses)[1]),
    "ece": lambda c: VALUES_OF_A_COLUMN["ece"](c.top),
    "ece_debiased": lambda c: VALUES_OF_A_COLUMN["ece_debiased"](c.top),
    **_each_of(
        _one_vs_rest,
        ("classwise_ece", "marginal_calibration_error", "auc", "miscalibration", "discrimination", "uncertainty"),
    ),
    "accuracy": lambda c: VALUES_OF_A_COLUMN["base_rate"](c.top_for("accuracy")),
    "mean_gap": lambda c: VALUES_OF_A_COLUMN["mean_gap"](c.top_for("mean_gap")),
    "smooth_ece": lambda c: VALUES_OF_A_COLUMN["smooth_ece"](c.top),
    "ici": lambda c: VALUES_OF_A_COLUMN["ici"](c.top),
    "worst_bin_gap": lambda c: VALUES_OF_A_COLUMN["worst_bin_gap"](c.top),
    **_each_of(_class_gaps, ("class_gap", "class_share_gap")),
}
