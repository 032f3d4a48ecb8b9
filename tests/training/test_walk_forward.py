"""Walk-forward: what is known when a window starts decides its predictions, and leaks that are put in are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss

from calibrant.training.bars import Bars, as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, Holdout
from calibrant.training.features import bar_features
from calibrant.training.metrics_report import Forecasts
from calibrant.training.outcome import measure, money_of, outcome_of_windows
from calibrant.training.training_run import run_dataset
from calibrant.training.walk_forward import WalkForward, harm_text, walk_forward, walk_forward_figures, window_figures

MakeBars = Callable[..., Bars]
CONFIG = TrainConfig(model="logistic", horizon=6, walk_forward=4, test=0.5)
FORECASTS = ("raw", "calibrated", "class_frequencies")


@pytest.fixture(scope="module")
def bars(make_bars: MakeBars) -> Bars:
    return make_bars(1200)


@pytest.fixture(scope="module")
def data(bars: Bars) -> Dataset:
    return run_dataset(CONFIG, bars)


@pytest.fixture(scope="module")
def found(data: Dataset) -> WalkForward:
    return walk_forward(CONFIG, data)


def bits(walk: WalkForward, n_windows: int) -> list[bytes]:
    """Return what the first windows say of their rows, as bytes."""
    return [getattr(trained.test, name).tobytes() for _, trained in walk.windows[:n_windows] for name in FORECASTS]


@pytest.mark.parametrize("model", ["logistic", "lightgbm"])
@pytest.mark.parametrize("history", ["expanding", "rolling"])
def test_labels_that_end_in_a_window_or_later_move_none_of_its_predictions(
    model: str, history: str, data: Dataset
) -> None:
    config = replace(CONFIG, model=model, history=history)  # type: ignore[arg-type]
    whole = walk_forward(config, data)
    for n_before, (parts, _) in enumerate(whole.windows):
        unknown = data.label_end >= data.time[parts.test[0]]
        flipped = replace(data, y=np.where(unknown, -data.y + (data.y == 0), data.y))
        again = walk_forward(config, flipped)
        assert bits(again, n_before + 1) == bits(whole, n_before + 1)
        if n_before + 1 < len(whole.windows):
            assert bits(again, n_before + 2) != bits(whole, n_before + 2), "what has ended does count"


def test_a_file_that_ends_after_a_window_gives_the_same_bits(bars: Bars, data: Dataset, found: WalkForward) -> None:
    starts = data.time[[parts.test[0] for parts, _ in found.windows]]
    for n_known in (1, 3):
        last = found.windows[n_known - 1][0].test[-1]
        is_known = bars.time <= data.time[last]
        end = int(np.flatnonzero(is_known)[-1]) + CONFIG.horizon + 1  # the last label has to be finished
        cut = {name: getattr(bars, name)[:end] for name in ("time", "open", "high", "low", "close", "volume")}
        shorter = run_dataset(CONFIG, as_bars(pa.table(cut)))
        assert shorter.n_rows == last + 1
        assert bits(walk_forward(CONFIG, shorter, starts=starts[:n_known]), n_known) == bits(found, n_known)


def hourly(n_days: int = 150, seed: int = 0) -> Bars:
    """Eight bars a day."""
    days = np.datetime64("2020-01-01T09", "s") + np.timedelta64(86_400, "s") * np.arange(n_days)
    time = (days[:, None] + np.timedelta64(3_600, "s") * np.arange(8)).ravel()
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(np.cumsum(0.01 * rng.normal(size=time.size)))
    spread = 1.0 + 0.01 * rng.random((2, time.size))
    prices = {"open": close, "high": close * spread[0], "low": close / spread[1], "close": close}
    return as_bars(pa.table({"time": time, **prices}))


def scrambled(bars: Bars, after: np.datetime64) -> Bars:
    """Return bars whose prices after some time are others."""
    factor = np.where(bars.time > after, np.exp(np.random.default_rng(1).normal(0.0, 0.02, bars.n_rows)), 1.0)
    return replace(bars, **{name: getattr(bars, name) * factor for name in ("open", "high", "low", "close")})


def next_bar(bars: Bars) -> Any:
    """A future column: the return to the next bar."""
    return np.append(np.diff(np.log(bars.close)), 0.0)


def close_of_the_day(bars: Bars) -> Any:
    """A feature of the test day: how far its last close, which is known in the evening, is from the bar's own."""
    day = bars.time.astype("datetime64[D]")
    last = np.searchsorted(day, day, side="right") - 1
    return np.log(bars.close[last] / bars.close)


def scaled_by_all_bars(bars: Bars) -> Any:
    """A column in units of all bars, later ones too."""
    return (bars.close - bars.close.mean()) / bars.close.std()


def moved(bars: Bars) -> bool:
    """Say whether bars after some time, amid a day and a window, move what is said of the rows up to then."""
    data = run_dataset(CONFIG, bars)
    first = walk_forward(CONFIG, data)
    rows = first.windows[1][0].test
    now = next(row for row in rows[rows.size // 2 :] if data.time[row].astype("datetime64[h]").astype(int) % 24 == 12)
    again = walk_forward(CONFIG, run_dataset(CONFIG, scrambled(bars, data.time[now])))
    n_known = int(now - first.windows[0][0].test[0]) + 1
    said = [[getattr(walk.test_forecasts, name)[:n_known].tobytes() for name in FORECASTS] for walk in (first, again)]
    return said[0] != said[1]


def test_bars_of_later_move_nothing_that_was_said_before() -> None:
    assert not moved(hourly())


@pytest.mark.parametrize("leak", [next_bar, close_of_the_day, scaled_by_all_bars])
def test_features_that_know_later_bars_are_seen(leak: Callable[[Bars], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above bites."""

    def leaking(bars: Bars) -> tuple[Any, tuple[str, ...]]:
        X, names = bar_features(bars)
        return np.column_stack((X, leak(bars))), (*names, leak.__name__)

    monkeypatch.setattr("calibrant.training.dataset.bar_features", leaking)
    assert moved(hourly())


def test_a_column_of_the_future_is_called_a_leak(data: Dataset) -> None:
    warned = []
    for seen in (data, replace(data, X=np.column_stack((data.X, data.label_return)))):
        config = replace(CONFIG, model="lightgbm")
        outcome = outcome_of_windows(config, walk_forward(config, seen))
        warned.append(measure(config, outcome, money_of(config, outcome))["warnings"])
    assert warned[0] == []
    assert any("features that see the future would explain it" in text for text in warned[1])


def own_rows(data: Dataset, *_: Any, **__: Any) -> list[Holdout]:
    """Cut windows as a leak would: rows beside those that are measured are fitted to, and calibrated on."""
    every = np.array_split(np.arange(data.n_rows // 2, data.n_rows), 2)
    return [Holdout(rows[rows % 4 < 2], rows[:1], rows[rows % 4 == 2], rows[rows % 4 == 3], 0) for rows in every]


@pytest.mark.parametrize("is_leaking", [False, True])
def test_labels_shifted_in_a_circle_have_no_skill_unless_a_window_is_fitted_to(
    is_leaking: bool, make_bars: MakeBars, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_leaking:
        monkeypatch.setattr("calibrant.training.walk_forward.cut_windows", own_rows)
    from sklearn.ensemble import RandomForestClassifier

    config, gains, skilled = replace(CONFIG, model="sklearn", horizon=20, walk_forward=2), [], []
    for seed in range(4):
        data = run_dataset(config, make_bars(1200, seed=seed))
        shifted = replace(data, y=np.roll(data.y, data.n_rows // 2))
        walk = walk_forward(config, shifted, model=RandomForestClassifier(100, min_samples_leaf=3))
        found = window_figures(walk.test, walk.test_forecasts)
        gains.append(found["skill"]["calibrated"]["log_loss"]["value"])
        skilled.append(found["is_skilled"])
    assert all(skilled) == is_leaking
    if is_leaking:
        assert min(gains) > 0.02
    else:
        assert not any(skilled)
        assert np.mean(gains) < 0.01


def test_figures_are_those_of_scikit_learn_and_skill_is_a_share_of_the_loss_of_class_frequencies(
    found: WalkForward,
) -> None:
    figures = walk_forward_figures(CONFIG, found)
    for (parts, trained), one in zip(found.windows, figures["windows"], strict=True):
        rows = found.data.take(parts.test)
        losses = {name: log_loss(rows.y, getattr(trained.test, name), labels=[-1, 0, 1]) for name in FORECASTS}
        for name, loss in losses.items():
            assert one["log_loss"][name] == pytest.approx(loss, rel=1e-12)
        skill = one["skill"]["calibrated"]["log_loss"]
        assert skill["value"] == pytest.approx(1.0 - losses["calibrated"] / losses["class_frequencies"])
        assert skill["low"] < skill["value"] < skill["high"]
        change = one["calibrated_minus_raw"]
        assert change["log_loss"]["value"] == pytest.approx(losses["calibrated"] - losses["raw"])
        truth = np.eye(3)[rows.codes]
        brier = [float(((getattr(trained.test, name) - truth) ** 2).sum(axis=1).mean()) for name in FORECASTS[:2]]
        assert change["brier"]["value"] == pytest.approx(brier[1] - brier[0])
        errors = [one["ece"][name]["value"] for name in FORECASTS[:2]]
        assert change["ece"]["value"] == pytest.approx(errors[1] - errors[0])
        frequencies = found.data.take(parts.before).class_rates()
        np.testing.assert_allclose(trained.test.class_frequencies, np.tile(frequencies, (rows.n_rows, 1)))
    every = figures["all"]["log_loss"]["calibrated"]
    sizes = [one["n_rows"] for one in figures["windows"]]
    assert every == pytest.approx(np.average([w["log_loss"]["calibrated"] for w in figures["windows"]], weights=sizes))
    last = figures["deployed"]
    assert last["to"] == str(found.data.label_end.max())
    assert last["fit"] + last["stop"] + last["validation"] + last["purged"] == found.data.n_rows


def forecasts_of(data: Dataset, calibrated: Any) -> Forecasts:
    rates = np.tile(data.class_rates(), (data.n_rows, 1))
    return Forecasts(rates, calibrated, rates)


def test_harm_is_called_harm_beyond_noise_alone(data: Dataset) -> None:
    rows = data.take(np.arange(400))
    rates = np.tile(rows.class_rates(), (400, 1))
    surer = rates**6 / (rates**6).sum(axis=1, keepdims=True)
    impossible = np.where(np.eye(3)[rows.codes] == 1.0, 0.0, 0.5)
    one_hot = np.eye(3)[rows.codes] * 0.4 + 0.2
    for prob, is_worse, is_skilled, is_off in (
        (rates, False, False, False),
        (surer, True, False, True),
        (impossible, True, False, True),
        (one_hot, False, True, True),
    ):
        figures = window_figures(rows, forecasts_of(rows, prob))
        assert (figures["is_worse"], figures["is_skilled"], figures["is_off"]) == (is_worse, is_skilled, is_off)
    few = data.take(np.arange(30))
    figures = window_figures(few, forecasts_of(few, np.full((30, 3), 1.0 / 3.0)))
    assert (figures["is_worse"], figures["is_skilled"], figures["is_off"]) == (None, None, None)
    assert figures["skill"]["calibrated"]["log_loss"]["low"] is None


def test_windows_that_are_too_short_are_not_judged(data: Dataset) -> None:
    config = replace(CONFIG, walk_forward=20)
    figures = walk_forward_figures(config, walk_forward(config, data))
    assert (figures["n_windows"], figures["n_judged"], figures["by_chance"]) == (20, 0, 0.0)
    assert (figures["n_off"], figures["off_by_chance"]) == (0, 0.0)
    assert harm_text(figures) == "None of 20 windows holds labels enough to tell skill or harm from noise."
    assert figures["all"]["is_worse"] is not None


def test_class_weights_and_a_classifier_of_ones_own_go_the_whole_way(data: Dataset) -> None:
    from sklearn.ensemble import RandomForestClassifier

    config = replace(CONFIG, model="sklearn", class_weight="balanced", label="binary", calibrator="sigmoid")
    two = replace(data, y=(data.y > 0).astype(int), classes=np.array([0, 1]))
    walk = walk_forward(config, two, model=RandomForestClassifier(20, min_samples_leaf=10))
    plain = walk_forward(
        replace(config, class_weight="none"), two, model=RandomForestClassifier(20, min_samples_leaf=10)
    )
    assert walk.test_forecasts.calibrated.shape == (walk.test.n_rows, 2)
    raw, calibrated = (
        [one.test_forecasts.named()[name][:, 1].mean() for one in (walk, plain)] for name in FORECASTS[:2]
    )
    assert raw[0] > raw[1] + 0.05
    assert calibrated[0] == pytest.approx(calibrated[1], abs=0.02)


@pytest.mark.slow
def test_random_walks_pass_as_skilled_no_more_often_than_the_level_says(make_bars: MakeBars) -> None:
    config, passed = replace(CONFIG, model="lightgbm", walk_forward=5, horizon=20), []
    for seed in range(20):
        walk = walk_forward(config, run_dataset(config, make_bars(2000, seed=100 + seed)))
        passed += [window_figures(walk.data.take(parts.test), one.test)["is_skilled"] for parts, one in walk.windows]
    judged = [one for one in passed if one is not None]
    assert len(judged) > 60
    assert sum(judged) <= 0.025 * len(judged) + 2.0 * np.sqrt(0.025 * len(judged))
