"""Labels of bars: triple barrier, sign of a fixed horizon, up or not; each with the time at which it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from calibrant.dependence import label_uniqueness
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.training.bars import Bars
from calibrant.training.features import trailing_std
from calibrant.validation import check_choice, check_integer, check_number

LabelKind = Literal["triple_barrier", "sign", "binary"]
LABEL_KINDS: tuple[str, ...] = get_args(LabelKind)
#: Bars of the volatility that barriers are measured in.
VOLATILITY_BARS = 60


@dataclass(frozen=True, slots=True, eq=False)
class BarLabels:
    """The label of each bar, and all labels that there are, sorted."""

    #: What stands in rows that are not finished means nothing.
    y: IntArray
    classes: IntArray
    #: The row of the bar at whose close the label is known.
    end: IntArray
    #: Whether there are bars up to the horizon, and a volatility to measure barriers in. A row near the end of the data
    #: isn't finished even where a barrier was touched, for only touched ones would be there.
    is_finished: BoolArray
    #: Mean, over the bars of the label, of one over the number of labels that are open there.
    uniqueness: FloatArray


def label_bars(
    bars: Bars,
    *,
    kind: LabelKind = "triple_barrier",
    horizon: int = 20,
    profit: float = 0.75,
    stop: float = 0.75,
    band: float = 0.43,
    volatility_bars: int = VOLATILITY_BARS,
) -> BarLabels:
    """Label each bar by what the closes after it did.

    "triple_barrier": 1 where the close first reaches the profit barrier, -1 where it first reaches the stop, 0 where
    neither happens within the horizon. "sign": sign of the return over the horizon, 0 within the band. "binary": 1
    where the close rose over the horizon, else 0. A label takes at most `horizon` bars.

    `profit` and `stop` are distances in standard deviations of a return over the horizon: of one bar's log return, over
    the `volatility_bars` bars up to the row's own, times the square root of the horizon. `band` is half the width, in
    the same unit, of what "sign" takes for no move; 0.43 parts a normal distribution in thirds.

    With both barriers at 0.75 the close reaches the upper one, the lower one and none of them about equally often
    on daily and hourly bars of stocks and currencies. Barriers are watched at the close of bars.

    References
    ----------
    López de Prado (2018), *Advances in financial machine learning*, section 3.4 for the barriers and section 4.4
    for the uniqueness.
    """
    check_choice("kind", kind, LABEL_KINDS)
    horizon = check_integer("horizon", horizon, minimum=1)
    volatility_bars = check_integer("volatility_bars", volatility_bars, minimum=2)
    profit, stop, band = check_distances(profit, stop, band)
    n = bars.n_rows
    y, end = np.zeros(n, dtype=np.int64), np.arange(n)
    is_finished, uniqueness = np.zeros(n, dtype=bool), np.ones(n)
    for _, rows in bars.parts():
        price = np.log(bars.close[rows])
        unit = trailing_std(np.diff(price, prepend=np.nan), volatility_bars) * np.sqrt(horizon)
        if kind == "triple_barrier":
            labels, last = _first_touch(price, profit * unit, stop * unit, horizon)
        else:
            last = np.minimum(np.arange(price.size) + horizon, price.size - 1)
            move = price[last] - price
            is_move = np.abs(move) > band * unit if kind == "sign" else move > 0.0
            labels = np.where(is_move, np.sign(move), 0.0).astype(np.int64)
        place = np.arange(price.size)
        has_unit = unit > 0.0
        y[rows], end[rows] = labels, last + rows.start
        is_finished[rows] = has_unit & (place + horizon < price.size)
        uniqueness[rows][has_unit] = label_uniqueness(place[has_unit], last[has_unit], price.size)
    classes = np.array([0, 1] if kind == "binary" else [-1, 0, 1])
    return BarLabels(y, classes, end, is_finished, uniqueness)


def check_distances(profit: object, stop: object, band: object) -> tuple[float, float, float]:
    """Check the distances of the barriers, and the band that "sign" takes for no move, which may be 0."""
    above = {"profit": profit, "stop": stop}
    up, down = (check_number(name, value, minimum=0.0, is_open=True, example="0.75") for name, value in above.items())
    return up, down, check_number("band", band, minimum=0.0, example="0.43")


def _first_touch(price: FloatArray, profit: FloatArray, stop: FloatArray, horizon: int) -> tuple[IntArray, IntArray]:
    """Return which barrier the price reaches first, and at which bar; the horizon's end, or the data's, if none."""
    n = price.size
    label, end = np.zeros(n, dtype=np.int64), np.minimum(np.arange(n) + horizon, n - 1)
    is_open = np.isfinite(profit)
    for ahead in range(1, min(horizon, n - 1) + 1):
        move = price[ahead:] - price[:-ahead]
        up = is_open[:-ahead] & (move >= profit[:-ahead])
        down = is_open[:-ahead] & (move <= -stop[:-ahead])
        label[:-ahead][up], label[:-ahead][down] = 1, -1
        touched = np.flatnonzero(up | down)
        end[touched], is_open[touched] = touched + ahead, False
    return label, end
