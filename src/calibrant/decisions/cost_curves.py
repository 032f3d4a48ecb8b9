"""Cost curves: what a model's decisions cost over all costs and base rates at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.decisions.benefit import read_binary
from calibrant.dependent_rows import units_of
from calibrant.metrics import mean_over_units
from calibrant.numerics import FloatArray
from calibrant.results import Plain
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, as_probabilities, check_fraction

_N_POINTS = 101


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CostCurve(Plain):
    """Normalised expected cost over the probability cost.

    Attributes
    ----------
    probability_cost : ndarray of shape (m,)
        The share of the cost of being always wrong that positives have: pi FN / (pi FN + (1 - pi) FP) of the base rate
        pi and the costs FN and FP of a miss and a false alarm.
    expected_cost, low, high : ndarray of shape (m,)
        Of the decisions by the threshold that the costs say, FP / (FP + FN), at the base rate of the rows; as a share
        of the cost of being always wrong. With the pointwise interval.
    best : ndarray of shape (m,)
        The lower envelope: of the threshold that would have been best, chosen by the same outcomes.
    trivial : ndarray of shape (m,)
        Of the better of acting on all rows and on none: min(x, 1 - x).
    threshold : ndarray of shape (m,)
        The threshold that the costs say.
    area : float
        Area under `expected_cost`: the mean cost where every probability cost is as likely.
    best_area : float
        Area under `best`.
    level, n, method, label
        As in `DecisionCurve`.
    """

    probability_cost: FloatArray
    expected_cost: FloatArray
    low: FloatArray
    high: FloatArray
    best: FloatArray
    trivial: FloatArray
    threshold: FloatArray
    area: float
    best_area: float
    level: float
    n: int
    method: str
    label: str = ""


def cost_curve(
    y: ArrayLike,
    probabilities: ArrayLike,
    *,
    probability_cost: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    level: float = 0.95,
    label: str = "",
) -> CostCurve:
    """Measure the expected cost of decisions over all ratios of costs.

    Parameters
    ----------
    y, probabilities, sample_weight, cluster, time, label_end, pos_label, level
        As in `net_benefit`.
    probability_cost : array-like of shape (m,), optional
        In [0, 1]; 101 even steps by default.
    label : str
        What the model is called, for a legend.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    At probability cost x a threshold of false negative rate FNR and false positive rate FPR costs
    x FNR + (1 - x) FPR. `expected_cost` has the threshold that is right for calibrated probabilities, `best` the best
    of all thresholds in hindsight: what lies between the curves is what recalibration can save at most. The intervals
    are of the cost with the base rate given, as the normalisation has it. The variance of a row is taken as no less
    than the probabilities say: below a low threshold few rows happen to be positive.

    References
    ----------
    Drummond and Holte (2006), *Cost curves: an improved method for visualizing classifier performance*, Machine
    Learning 65, equations 3 and 4.

    Examples
    --------
    >>> from calibrant.decisions import cost_curve
    >>> curve = cost_curve([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], probability_cost=[0.2, 0.5])
    >>> curve.expected_cost, curve.best
    (array([0.1, 0.5]), array([0.1 , 0.25]))
    """
    level = check_fraction("level", level)
    if probability_cost is None:
        x = np.linspace(0.0, 1.0, _N_POINTS)
    else:
        x = as_probabilities(probability_cost, name="probability_cost", sum_to_one=False).values.ravel()
        x = np.sort(x)
    known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "pos_label": pos_label}
    rows = read_binary(y, probabilities, sample_weight=sample_weight, **known)
    return cost_curve_of_rows(rows, x, level=level, label=label)


def cost_curve_of_rows(rows: Rows, x: FloatArray, *, level: float, label: str = "") -> CostCurve:
    """Measure the curve of checked rows of one score."""
    weight, units, positive = rows.weights, units_of(rows), rows.positive
    rate = float(np.average(positive, weights=weight))
    # x = rate FN / (rate FN + (1 - rate) FP), and the threshold FP / (FP + FN), with FN + FP = 1
    wanted = x * (1.0 - rate) + (1.0 - x) * rate
    threshold = np.divide((1.0 - x) * rate, wanted, out=np.full_like(x, 0.5), where=wanted > 0.0)
    found = np.empty((3, x.size))
    spread = rows.scores * (1.0 - rows.scores)
    method = ""
    for i, (share, cut) in enumerate(zip(x.tolist(), threshold.tolist(), strict=True)):
        acted = rows.scores >= cut
        miss, alarm = share / rate, (1.0 - share) / (1.0 - rate)
        values = np.where(acted != positive, np.where(positive, miss, alarm), 0.0)
        least = float(np.average(spread * np.where(acted, alarm, miss) ** 2, weights=weight))
        mean = mean_over_units(values, weight, units, level, least_variance=least)
        found[:, i], method = (mean.value, mean.low, mean.high), mean.method
    misses, alarms = _rates(rows)
    best = np.min(x[:, None] * misses + (1.0 - x[:, None]) * alarms, axis=1)
    low, high = np.clip(found[1:], 0.0, 1.0)  # NaN stays
    area, best_area = (float(np.diff(x) @ (each[1:] + each[:-1])) / 2.0 for each in (found[0], best))
    trivial = np.minimum(x, 1.0 - x)
    return CostCurve(
        x, found[0], low, high, best, trivial, threshold, area, best_area, level, rows.n_rows, method, label
    )


def _rates(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return the false negative and the false positive rate of each threshold, from that of no row on."""
    ties = rows.summary().tied()
    negatives = ties.weight - ties.positives
    misses = np.append(0.0, np.cumsum(ties.positives)) / ties.positives.sum()
    alarms = 1.0 - np.append(0.0, np.cumsum(negatives)) / negatives.sum()
    return misses, alarms
