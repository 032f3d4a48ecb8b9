"""Features: nothing after the row's bar, nothing before its window, and what their names say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.dataset import make_dataset
from calibrant.training.features import WARM_UP_BARS, bar_features, trailing_mean, trailing_std
from calibrant.training.labels import label_bars

COLUMNS = ("open", "high", "low", "close", "volume")


def scrambled(bars: Bars, rows: slice, seed: int) -> Bars:
    """Return bars with other prices in some rows."""
    rng, new = np.random.default_rng(seed), {}
    for name in COLUMNS:
        new[name] = getattr(bars, name).copy()
        new[name][rows] *= np.exp(rng.normal(size=new[name][rows].size))
    return replace(bars, **new)


@pytest.mark.parametrize("last", [70, 200, 333, 498])
def test_features_up_to_a_bar_keep_every_bit_when_the_future_is_noise(
    make_bars: Callable[..., Bars], last: int
) -> None:
    bars = make_bars(500)
    before, _ = bar_features(bars)
    after, _ = bar_features(scrambled(bars, slice(last + 1, None), last))
    assert before[: last + 1].tobytes() == after[: last + 1].tobytes()
    assert (before[last + 1] != after[last + 1]).any()


def test_features_keep_every_bit_when_bars_before_the_window_are_noise_or_cut_off(
    make_bars: Callable[..., Bars],
) -> None:
    bars = make_bars(300)
    before, _ = bar_features(bars)
    row = 200
    after, _ = bar_features(scrambled(bars, slice(0, row - WARM_UP_BARS + 1), 1))
    assert before[row:].tobytes() == after[row:].tobytes()
    first = row - WARM_UP_BARS + 1
    cut = {name: getattr(bars, name)[first:] for name in ("time", *COLUMNS)}
    alone, _ = bar_features(replace(bars, starts=np.array([0, 300 - first]), **cut))
    assert before[row:].tobytes() == alone[WARM_UP_BARS - 1 :].tobytes()


def test_a_symbol_has_the_same_features_beside_another(make_bars: Callable[..., Bars]) -> None:
    both, _ = bar_features(make_bars(200, ("A", "B")))
    alone, _ = bar_features(make_bars(200, ("A",)))
    assert both[:200].tobytes() == alone.tobytes()


def test_only_the_first_bars_lack_features(make_bars: Callable[..., Bars]) -> None:
    X, names = bar_features(make_bars(200))
    assert len(names) == X.shape[1] == 13
    assert np.isnan(X[: WARM_UP_BARS - 1]).any(axis=1).all()
    assert np.isfinite(X[WARM_UP_BARS - 1 :]).all()
    without, fewer = bar_features(replace(make_bars(200), volume=None))
    assert set(names) - set(fewer) == {"volume"}
    assert without.shape[1] == 12


def test_features_have_no_scale(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(200)
    tenfold = replace(bars, **{name: 10.0 * getattr(bars, name) for name in COLUMNS[:4]})
    np.testing.assert_allclose(bar_features(tenfold)[0], bar_features(bars)[0], rtol=1e-7, atol=1e-7)


def test_features_are_what_their_names_say(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(200)
    X, names = bar_features(bars)
    row = dict(zip(names, X[150], strict=True))
    logs = np.log(bars.close)
    unit = np.diff(logs)[130:150].std(ddof=1)
    assert row["return_5"] == pytest.approx((logs[150] - logs[145]) / unit / np.sqrt(5))
    assert row["volatility"] == pytest.approx(np.log(unit))
    assert row["range"] == pytest.approx(np.log(bars.high[150] / bars.low[150]) / unit)
    assert row["gap"] == pytest.approx(np.log(bars.open[150] / bars.close[149]) / unit)
    assert row["distance_to_mean"] == pytest.approx((logs[150] - logs[131:151].mean()) / unit / np.sqrt(20))
    steps = np.diff(logs)[136:150]
    assert row["strength"] == pytest.approx(steps[steps > 0].sum() / np.abs(steps).sum())
    top, bottom = np.log(bars.high[91:151].max()), np.log(bars.low[91:151].min())
    assert row["place_in_channel"] == pytest.approx((logs[150] - bottom) / (top - bottom))


def test_trailing_moments_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).normal(size=50)
    windows = np.lib.stride_tricks.sliding_window_view(values, 7)
    np.testing.assert_allclose(trailing_mean(values, 7)[6:], windows.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(trailing_std(values, 7)[6:], windows.std(axis=1, ddof=1), rtol=1e-12)
    assert np.isnan(trailing_mean(values[:5], 7)).all()


def test_dataset_is_in_the_order_of_time_and_holds_finished_rows(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(300, ("A", "B"))
    labels = label_bars(bars, horizon=10)
    data = make_dataset(bars, labels, horizon=10)
    assert data.n_rows == 2 * (300 - 10 - WARM_UP_BARS + 1)
    assert (np.diff(data.time).astype(np.int64) >= 0).all()
    assert data.symbol[:4].tolist() == ["A", "B", "A", "B"]
    assert (data.label_end > data.time).all()
    assert data.horizon_time == np.timedelta64(10, "D")
    own = np.flatnonzero((data.symbol == "B") & (data.time == bars.time[100]))
    assert data.X[own[0]].tobytes() == bar_features(bars)[0][400].tobytes()
    assert data.label_return[own[0]] == bars.close[labels.end[400]] / bars.close[400] - 1.0


def test_too_few_bars_are_refused(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(70)
    with pytest.raises(CalibrantError, match="none of 70 bars has both a finished label and enough history"):
        make_dataset(bars, label_bars(bars, horizon=20), horizon=20)
