"""Labels: against a loop over bars, and blind to what comes after they are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.labels import label_bars


def slow_triple_barrier(close: list[float], horizon: int, profit: float, stop: float) -> list[tuple[int, int] | None]:
    """Label and bar at which it is known, by a loop; None where not finished."""
    found: list[tuple[int, int] | None] = []
    logs = [math.log(value) for value in close]
    for t in range(len(close)):
        steps = [logs[i] - logs[i - 1] for i in range(t - 59, t + 1)] if t >= 60 else []
        if not steps or t + horizon >= len(close):
            found.append(None)
            continue
        mean = sum(steps) / 60
        unit = math.sqrt(sum((s - mean) ** 2 for s in steps) / 59 * horizon)
        label = (0, t + horizon)
        for i in range(t + 1, t + horizon + 1):
            if logs[i] - logs[t] >= profit * unit:
                label = (1, i)
                break
            if logs[i] - logs[t] <= -stop * unit:
                label = (-1, i)
                break
        found.append(label)
    return found


@pytest.mark.parametrize(("horizon", "profit", "stop"), [(1, 0.5, 0.5), (5, 0.6, 0.9), (20, 0.75, 0.75)])
def test_triple_barrier_is_the_first_touch(
    make_bars: Callable[..., Bars], horizon: int, profit: float, stop: float
) -> None:
    bars = make_bars(300)
    labels = label_bars(bars, horizon=horizon, profit=profit, stop=stop)
    for row, expected in enumerate(slow_triple_barrier(bars.close.tolist(), horizon, profit, stop)):
        assert labels.is_finished[row] == (expected is not None)
        if expected is not None:
            assert (labels.y[row], labels.end[row]) == expected
    assert set(labels.y[labels.is_finished].tolist()) == {-1, 0, 1}


def test_binary_and_sign_are_those_of_the_return_over_the_horizon(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(300)
    move = bars.close[7:] / bars.close[:-7] - 1.0
    binary, sign = (label_bars(bars, kind=kind, horizon=7, band=0.0) for kind in ("binary", "sign"))
    assert binary.y[:-7].tolist() == (move > 0.0).astype(int).tolist()
    assert sign.y[60:-7].tolist() == np.sign(move[60:]).astype(int).tolist()
    assert binary.end[:-7].tolist() == list(range(7, 300))
    assert not sign.is_finished[:60].any()
    assert not sign.is_finished[-7:].any()
    banded = label_bars(bars, kind="sign", horizon=7, band=0.43)
    assert 0.2 < float((banded.y[banded.is_finished] == 0).mean()) < 0.5
    assert (banded.classes.tolist(), binary.classes.tolist()) == ([-1, 0, 1], [0, 1])


def test_uniqueness_is_the_mean_share_of_the_bars_that_a_label_covers(make_bars: Callable[..., Bars]) -> None:
    labels = label_bars(make_bars(150), horizon=5)
    spans = {row: range(row + 1, int(labels.end[row]) + 1) for row in range(60, 149)}
    n_open = {bar: sum(bar in span for span in spans.values()) for bar in range(60, 150)}
    for row, span in spans.items():
        assert labels.uniqueness[row] == pytest.approx(sum(1.0 / n_open[bar] for bar in span) / len(span), rel=1e-12)


@pytest.mark.parametrize("kind", ["triple_barrier", "sign", "binary"])
@pytest.mark.parametrize("last", [200, 317, 433])
def test_labels_that_end_before_the_future_is_replaced_keep_every_bit(
    make_bars: Callable[..., Bars], kind: Any, last: int
) -> None:
    bars, rng = make_bars(500), np.random.default_rng(last)
    noise = {}
    for name in ("open", "high", "low", "close"):
        noise[name] = getattr(bars, name).copy()
        noise[name][last + 1 :] *= np.exp(rng.normal(size=499 - last))
    before, after = (label_bars(one, kind=kind) for one in (bars, replace(bars, **noise)))
    known = before.is_finished & (before.end <= last)
    assert known.sum() > 100
    for name in ("y", "end", "uniqueness", "is_finished"):
        assert getattr(before, name)[known].tobytes() == getattr(after, name)[known].tobytes()
    assert before.y[~known].tobytes() != after.y[~known].tobytes()


def test_a_symbol_does_not_see_another(make_bars: Callable[..., Bars]) -> None:
    both = label_bars(make_bars(200, ("A", "B")))
    alone = label_bars(make_bars(200, ("A",)))
    for name in ("y", "end", "uniqueness", "is_finished"):
        assert getattr(both, name)[:200].tobytes() == getattr(alone, name).tobytes()
    assert both.end[200:].min() >= 200


def test_bars_without_movement_have_no_label(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(200)
    flat = replace(bars, close=np.full(200, 5.0))
    assert not label_bars(flat).is_finished.any()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"horizon": 0}, "horizon=0 is too small"),
        ({"horizon": 2.5}, "horizon=2.5 is not a whole number"),
        ({"profit": 0.0}, r"profit=0.0 is outside \(0, inf\). Pass a number in \(0, inf\), such as 0.75."),
        ({"stop": float("nan")}, r"stop=nan is outside \(0, inf\)"),
        ({"band": -1.0}, r"band=-1.0 is outside \[0, inf\)"),
        ({"band": "wide"}, "band='wide' is not a number"),
        ({"kind": "tripple_barrier"}, "Did you mean 'triple_barrier'"),
        ({"volatility_bars": 1}, "volatility_bars=1 is too small"),
    ],
)
def test_arguments_that_cannot_be_are_refused(make_bars: Callable[..., Bars], more: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrantError, match=said):
        label_bars(make_bars(100), **more)
