"""Logistic fits from sums of gradients and Hessians: one pass over the rows for each evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import BetaCalibrator, SigmoidCalibrator
from calibrant.engines.columns import Column
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import added, summed
from calibrant.logistic import LogisticProblem, minimise, separates
from calibrant.maps import BetaMap, BinaryMap, LogisticMap
from calibrant.numerics import BoolArray, FloatArray, clip_from_data, clip_open, logit
from calibrant.summary import TiedScores


@dataclass(frozen=True, slots=True)
class StreamedLogistic(LogisticProblem):
    """A logistic problem whose rows come in parts, again for each evaluation; its own arrays are cells of them."""

    total: Callable[[Callable[[LogisticProblem], Any]], Any]

    def value(self, theta: FloatArray) -> float:
        """Return the loss at `theta`."""
        value: float = self.total(lambda part: part.value(theta))
        return value

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return gradient, Hessian and the sum of w_i q_i (1 - q_i), at `theta`."""
        sums: tuple[FloatArray, FloatArray, float] = self.total(lambda part: part.derivatives(theta))
        return sums


def stream_sigmoid(calibrator: SigmoidCalibrator, column: Column, summary: QuantisedSummary) -> BinaryMap:
    """Fit Platt's logistic curve to the rows themselves, from the fit to their cells."""
    clip = exact_clip(summary) if calibrator.input == "probability" else None

    def on_line(s: FloatArray) -> FloatArray:
        return s if clip is None else logit(clip_open(s, clip))

    low, high = on_line(summary.low[:1]).item(), on_line(summary.high[-1:]).item()
    if low == high:
        return calibrator.fit_map(summary)
    unit = 0.5 * high - 0.5 * low
    middle = 0.5 * high + 0.5 * low
    slope, intercept = _stream(
        column,
        summary,
        lambda s: ((on_line(s) - middle) / unit, np.broadcast_to(1.0, s.shape)),
        has_platt_targets=True,
        what="sigmoid fit",
    ).tolist()
    slope /= unit
    intercept -= slope * middle
    return LogisticMap(slope, intercept) if clip is None else BetaMap(slope, slope, intercept, clip)


def stream_beta(calibrator: BetaCalibrator, column: Column, summary: QuantisedSummary) -> BinaryMap:
    """Fit the beta curve to the rows themselves, with those parameters free that are free in the fit to their cells."""
    start = calibrator.fit_map(summary)
    assert isinstance(start, BetaMap)  # noqa: S101
    clip = exact_clip(summary)
    is_free = (start.a != 0.0, start.b != 0.0)
    if not any(is_free):
        return replace(start, clip=clip)
    is_one_slope = "b" not in calibrator.form
    has_intercept = "m" in calibrator.form

    def columns(s: FloatArray) -> tuple[FloatArray, ...]:
        p = clip_open(s, clip)
        log_p, log_rest = np.log(p), -np.log1p(-p)
        slopes = (
            [log_p + log_rest]
            if is_one_slope
            else [x for x, free in zip((log_p, log_rest), is_free, strict=True) if free]
        )
        return (*slopes, np.ones_like(p)) if has_intercept else tuple(slopes)

    is_separated = separates(summary.tied())
    theta = _stream(column, summary, columns, has_platt_targets=is_separated, what="beta fit").tolist()
    c = theta.pop() if has_intercept else 0.0
    if min(theta) < 0.0:  # at the edge of what is allowed, to rounding
        return replace(start, clip=clip)
    a, b = (theta[0], theta[0]) if is_one_slope else (theta.pop(0) if free else 0.0 for free in is_free)
    return BetaMap(a, b, c, clip)


def _stream(
    column: Column,
    summary: QuantisedSummary,
    columns: Callable[[FloatArray], tuple[FloatArray, ...]],
    *,
    has_platt_targets: bool,
    what: str,
) -> FloatArray:
    """Return the minimiser over the rows of a column."""
    high, low = 1.0, 0.0
    if has_platt_targets:
        n_positive = summary.total_positives
        high = (n_positive + 1.0) / (n_positive + 2.0)
        low = 1.0 / (summary.total_weight - n_positive + 2.0)

    def problem(groups: TiedScores) -> LogisticProblem:
        targets = groups.positives * (high - low) + low * groups.weight
        return LogisticProblem(columns(groups.scores), groups.weight, targets)

    def total(find: Callable[[LogisticProblem], Any]) -> Any:
        def partial(column: Column) -> Any:
            return summed(find(problem(_groups(*rows))) for rows in column)

        return column.reduce(partial, added, is_large=False)

    coarse = problem(summary.tied())
    return minimise(
        StreamedLogistic(coarse.columns, coarse.weight, coarse.target_weight, total), what=what, coarse=coarse
    )


def _groups(scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> TiedScores:
    """Return each row as a group of its own."""
    w = np.ones(scores.size) if weight is None else weight
    return TiedScores(scores, w, np.where(positive, w, 0.0))


def exact_clip(summary: QuantisedSummary) -> float:
    """Return the clip that the rows of a quantised summary support, which depends on the outermost scores alone."""
    ends = np.concatenate((summary.low, summary.high))
    return clip_from_data(ends, summary.total_weight)
