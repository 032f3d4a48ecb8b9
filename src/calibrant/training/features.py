"""Features of bars that use nothing after the bar's own close."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.training.bars import Bars

#: The first so many bars of a symbol have features that look back further than there are bars.
WARM_UP_BARS = 61


def bar_features(bars: Bars) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of each bar, shape (n, d), and their names; NaN where history or movement is lacking.

    All are free of scale: returns and ranges in units of the trailing volatility, volumes against their own past.
    Each row is computed from its window alone, so what comes before or after the window doesn't change a bit of it.
    """
    parts = [_of_symbol(bars, rows) for _, rows in bars.parts()]
    names = tuple(parts[0])
    X = np.column_stack([np.concatenate([part[name] for part in parts]) for name in names])
    X[~np.isfinite(X)] = np.nan
    return X, names


def trailing_mean(values: FloatArray, n_bars: int) -> FloatArray:
    """Return the mean of the last `n_bars` values up to each; NaN where there are fewer."""
    return _trailing_sum(values, n_bars) / n_bars


def trailing_std(values: FloatArray, n_bars: int) -> FloatArray:
    """Return the standard deviation of the last `n_bars` values up to each; NaN where there are fewer."""
    mean = trailing_mean(values, n_bars)
    total = np.zeros(values.size)
    for lag in range(n_bars):
        total += (_lagged(values, lag) - mean) ** 2
    return np.sqrt(total / (n_bars - 1))


def _of_symbol(bars: Bars, rows: slice) -> dict[str, FloatArray]:
    close, high, low = (np.log(values[rows]) for values in (bars.close, bars.high, bars.low))
    step = close - _lagged(close, 1)
    unit = trailing_std(step, 20)
    found = {}
    with np.errstate(divide="ignore", invalid="ignore"):  # bars without movement give NaN, and are left out
        for n_bars in (1, 5, 20, 60):
            found[f"return_{n_bars}"] = (close - _lagged(close, n_bars)) / (unit * np.sqrt(n_bars))
        found["volatility"] = np.log(unit)
        found["volatility_ratio"] = np.log(trailing_std(step, 10) / trailing_std(step, 60))
        found["range"] = (high - low) / unit
        found["close_in_range"] = np.where(high > low, (close - low) / np.where(high > low, high - low, 1.0), 0.5)
        found["gap"] = (np.log(bars.open[rows]) - _lagged(close, 1)) / unit
        found["distance_to_mean"] = (close - trailing_mean(close, 20)) / (unit * np.sqrt(20))
        up, moved = _trailing_sum(np.maximum(step, 0.0), 14), _trailing_sum(np.abs(step), 14)
        found["strength"] = up / moved
        top, bottom = _trailing_extreme(high, 60, np.maximum), _trailing_extreme(low, 60, np.minimum)
        found["place_in_channel"] = (close - bottom) / (top - bottom)
        if bars.volume is not None:
            volume = np.log1p(bars.volume[rows])
            spread = trailing_std(volume, 20)
            found["volume"] = np.where(spread > 0.0, (volume - trailing_mean(volume, 20)) / spread, 0.0)
            found["volume"][: WARM_UP_BARS - 1] = np.nan
    return found


def _lagged(values: FloatArray, lag: int) -> FloatArray:
    """Return what each value was `lag` bars before; NaN where there was none."""
    out = np.full(values.size, np.nan)
    if lag < values.size:
        out[lag:] = values[: values.size - lag]
    return out


def _trailing_sum(values: FloatArray, n_bars: int) -> FloatArray:
    """Return the sum of the last `n_bars` values, always added in the same order."""
    total = np.zeros(values.size)
    for lag in range(n_bars):
        total += _lagged(values, lag)
    return total


def _trailing_extreme(values: FloatArray, n_bars: int, pick: np.ufunc) -> FloatArray:
    found = _lagged(values, 0)
    for lag in range(1, n_bars):
        found = pick(found, _lagged(values, lag))
    return found
