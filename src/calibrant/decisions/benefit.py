"""Net benefit of acting on a probability, and decision curves: at which thresholds a model is worth being used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import mean_over_units
from calibrant.numerics import FloatArray
from calibrant.results import Plain, Score
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, as_scores, check_fraction, check_number

#: Thresholds of a curve by default, as in R's dcurves: 0, 0.01, ..., 0.99.
_N_THRESHOLDS = 100


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DecisionCurve(Plain):
    """Net benefit over thresholds, of a model and of acting on all rows; acting on none has 0.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
    net_benefit, low, high : ndarray of shape (m,)
        Of the model, with the pointwise interval.
    all, all_low, all_high : ndarray of shape (m,)
        Of acting on all rows.
    over_all, over_all_low, over_all_high : ndarray of shape (m,)
        The model's less that of acting on all rows, paired by row.
    base_rate : float
    level : float
        Nominal coverage of each interval.
    n : int
    method : str
    label : str
        What the model is called.
    """

    threshold: FloatArray
    net_benefit: FloatArray
    low: FloatArray
    high: FloatArray
    all: FloatArray
    all_low: FloatArray
    all_high: FloatArray
    over_all: FloatArray
    over_all_low: FloatArray
    over_all_high: FloatArray
    base_rate: float
    level: float
    n: int
    method: str
    label: str = ""

    @property
    def interventions_avoided(self) -> FloatArray:
        """How many fewer rows are acted on than all, per row, with no positive missed more; NaN at threshold 0.

        The net benefit over that of acting on all, divided by the odds of the threshold (Vickers and Elkin 2006).
        """
        odds = self.threshold / (1.0 - self.threshold)
        return np.divide(self.over_all, odds, out=np.full_like(odds, np.nan), where=odds > 0.0)

    @property
    def is_useful(self) -> Any:
        """Whether the model is found better than both acting on all rows and on none, shape (m,)."""
        return (self.low > 0.0) & (self.over_all_low > 0.0)


def net_benefit(
    y: ArrayLike,
    probabilities: ArrayLike,
    threshold: float,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> Score:
    """Measure the net benefit of acting on rows whose probability is at least a threshold.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two classes.
    probabilities : array-like of shape (n,) or (n, 2)
        Of the positive class, or of both.
    threshold : float
        In [0, 1): who acts at a probability of 0.2 takes four false alarms to be as bad as one miss.
    sample_weight, cluster, time, label_end, pos_label, level, evaluated_on
        As in `calibrant.metrics.evaluate`.

    Returns
    -------
    Score
        `net_benefit@` and the threshold: true positives per row, less false positives per row times the odds of the
        threshold. At most the base rate.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    TP / n - FP / n * t / (1 - t). A row is acted on where p >= t and p > 0, as in R's dcurves. Where fewer than some
    ten rows are, the interval is too short; see `decision_curve`.

    References
    ----------
    Vickers and Elkin (2006), *Decision curve analysis: a novel method for evaluating prediction models*, Medical
    Decision Making 26, equation 1.

    Examples
    --------
    >>> from calibrant.decisions import net_benefit
    >>> net_benefit([0, 0, 0, 1], [0.1, 0.3, 0.6, 0.8], 0.5).value
    0.0
    >>> net_benefit([0, 0, 0, 1], [0.1, 0.3, 0.6, 0.8], 0.7).value
    0.25
    """
    threshold = _one_threshold(threshold)
    level = check_fraction("level", level)
    known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "pos_label": pos_label}
    rows = read_binary(y, probabilities, sample_weight=sample_weight, **known)
    return net_benefit_of_rows(rows, threshold, level=level, evaluated_on=evaluated_on)


def net_benefit_of_rows(rows: Rows, threshold: float, *, level: float, evaluated_on: str) -> Score:
    """Measure the net benefit of checked rows of one score at a threshold."""
    values, least = _benefits(rows, threshold)
    found = mean_over_units(values, rows.weights, units_of(rows), level, least_variance=least)
    name = f"net_benefit@{threshold:g}"
    return found.to_score(name, level=level, n=rows.n_rows, evaluated_on=evaluated_on)


def decision_curve(
    y: ArrayLike,
    probabilities: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    level: float = 0.95,
    label: str = "",
) -> DecisionCurve:
    """Measure net benefit over thresholds, beside that of acting on all rows and on none.

    Parameters
    ----------
    y, probabilities, sample_weight, cluster, time, label_end, pos_label, level
        As in `net_benefit`.
    thresholds : array-like of shape (m,), optional
        In [0, 1); by default 0, 0.01, ..., 0.99. Those that somebody would act at are enough.
    label : str
        What the model is called, for a legend.

    Returns
    -------
    DecisionCurve
        With bands that hold at each threshold by itself.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A model is of use at a threshold where it beats both acting on all rows and acting on none. Figures equal those of
    R's dcurves. Intervals are Student's t by Hall's transformation; that of the difference to acting on all is paired.
    The variance of a row is taken as no less than the probabilities say: below a low threshold few rows happen to be
    positive. Where fewer than some ten rows reach a threshold the interval is too short, and of none it is [0, 0]: what
    share of rows to come will reach it, these rows don't tell.

    References
    ----------
    Vickers and Elkin (2006), Medical Decision Making 26. Vickers, Cronin, Elkin and Gonen (2008), *Extensions to
    decision curve analysis*, BMC Medical Informatics and Decision Making 8, for intervals.

    Examples
    --------
    >>> from calibrant.decisions import decision_curve
    >>> curve = decision_curve([0, 0, 0, 1] * 50, [0.1, 0.3, 0.6, 0.8] * 50, thresholds=[0.2, 0.5])
    >>> curve.net_benefit.round(4), curve.all.round(4)
    (array([0.125, 0.   ]), array([ 0.0625, -0.5   ]))
    """
    level = check_fraction("level", level)
    grid = np.arange(_N_THRESHOLDS) / _N_THRESHOLDS if thresholds is None else _thresholds(thresholds)
    known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "pos_label": pos_label}
    rows = read_binary(y, probabilities, sample_weight=sample_weight, **known)
    return decision_curve_of_rows(rows, grid, level=level, label=label)


def decision_curve_of_rows(rows: Rows, grid: FloatArray, *, level: float, label: str = "") -> DecisionCurve:
    """Measure the curve of checked rows of one score."""
    weight, units = rows.weights, units_of(rows)
    columns: dict[str, list[float]] = {}
    method = ""
    for threshold in grid.tolist():
        values, least = _benefits(rows, threshold)
        odds = threshold / (1.0 - threshold)
        everyone = np.where(rows.positive, 1.0, -odds)
        of_all = float(np.average(rows.scores * (1.0 - rows.scores), weights=weight)) * (1.0 + odds) ** 2
        for name, each, floor in (
            ("net_benefit", values, least),
            ("all", everyone, 0.0),
            ("over_all", values - everyone, max(of_all - least, 0.0)),
        ):
            found = mean_over_units(each, weight, units, level, least_variance=floor)
            for key, value in zip(_keys(name), (found.value, found.low, found.high), strict=True):
                columns.setdefault(key, []).append(value)
        method = found.method
    arrays = {key: np.array(column) for key, column in columns.items()}
    base_rate = float(np.average(rows.positive, weights=weight))
    return DecisionCurve(grid, **arrays, base_rate=base_rate, level=level, n=rows.n_rows, method=method, label=label)


def _keys(name: str) -> tuple[str, str, str]:
    return (name, "low", "high") if name == "net_benefit" else (name, f"{name}_low", f"{name}_high")


def _benefits(rows: Rows, threshold: float) -> tuple[FloatArray, float]:
    """Return what each row adds to the net benefit, and the mean variance of that by the probabilities."""
    p, odds = rows.scores, threshold / (1.0 - threshold)
    acted = (p >= threshold) & (p > 0.0)
    values = np.where(acted, np.where(rows.positive, 1.0, -odds), 0.0)
    variance = np.where(acted, p * (1.0 - p) * (1.0 + odds) ** 2, 0.0)
    return values, float(np.average(variance, weights=rows.weights))


def read_binary(y: ArrayLike, probabilities: ArrayLike, **what: Any) -> Rows:
    """Check probabilities of two classes with their labels, and return rows of the positive one's."""
    rows = read_rows(probabilities, y, names=("probabilities", "y"), both_classes=True, **what)
    if rows.is_binary:
        return rows
    if rows.n_classes != 2:
        raise ShapeError(
            f"probabilities are of {rows.n_classes} classes, and a threshold is on one. Pass the column of a class, "
            "shape (n,), and whether each row is of it as y."
        )
    return rows.of_class(1)


def _one_threshold(threshold: object) -> float:
    value = check_number("threshold", threshold, minimum=0.0, maximum=1.0)
    if value == 1.0:
        raise InvalidInputError("threshold=1.0 has infinite odds: no false alarm is worth it. Pass a number below 1.")
    return value


def _thresholds(given: ArrayLike) -> FloatArray:
    values = as_scores(given, name="thresholds").values
    if values.ndim != 1:
        raise ShapeError(f"thresholds has shape {values.shape}. Pass one number for each, shape (m,).")
    bad = (values < 0.0) | (values >= 1.0)
    if bad.any():
        i = int(bad.argmax())
        raise InvalidInputError(
            f"thresholds[{i}] is {float(values[i])!r}, outside [0, 1) ({bad.sum():,} of {bad.size:,}). Pass "
            "probabilities below 1."
        )
    return values
