"""What a fit of rounds says of its end: both errors by name, warnings, and the rounds of every fold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from fixture_rows import Array, fixture, misspecified, truthful

from calibrant.errors import ConvergenceWarning, DataWarning, InvalidInputError
from calibrant.forecasts import Forecast, GaussianForecast, RoundsResult, ThresholdRecalibrator, reliability_gaps
from calibrant.persistence import from_document, to_document


def grid(y: Array) -> tuple[Array, Array]:
    """Return the thresholds and levels of the paper."""
    rising = np.sort(y)
    return np.linspace(rising[int(0.2 * y.size)], rising[int(0.8 * y.size)], 50), np.linspace(0.05, 0.95, 20)


def official(levels: Array) -> float:
    """Return the L1 error of a side as the official code counts it."""
    return float(np.abs(np.sort(levels) - np.arange(levels.size) / (levels.size - 1)).mean())


def exact(levels: Array) -> float:
    """Return int |F(c) - c| dc of the empirical distribution F of some levels, piece by piece."""
    ends = np.concatenate(([0.0], np.sort(levels), [1.0]))
    total = 0.0
    for height, a, b in zip(np.arange(levels.size + 1) / levels.size, ends[:-1], ends[1:], strict=True):
        middle = min(max(height, a), b)
        total += 0.5 * ((height - a) * abs(height - a) - (height - middle) * abs(height - middle))
        total += 0.5 * ((b - height) * abs(b - height) - (middle - height) * abs(middle - height))
    return total


def errors(forecast: Forecast, y: Array, measure: Any, least: int) -> dict[tuple[float, float], tuple[float, int]]:
    """Return the error of both sides, and the rows of the smaller, of all splits with so many rows on a side."""
    y0, alphas = grid(y)
    levels, found = forecast.cdf(y), {}
    for threshold in y0:
        below = forecast.cdf(threshold)
        for alpha in alphas:
            left = below <= alpha
            side = min(int(left.sum()), int((~left).sum()))
            if side >= least:
                found[threshold, alpha] = measure(levels[left]) + measure(levels[~left]), side
    return found


@pytest.mark.parametrize("name", ["crime_v10_s0", "concrete_v30_s0"])
def test_the_stopping_error_and_the_greatest_error_are_both_told(name: str) -> None:
    """Findings D2: crime ends at an error of .0175 among sides of 201 rows, and has .348 where a side has 8."""
    (forecast, y), _, _ = fixture(name)
    result = ThresholdRecalibrator("paper", max_rounds=12).fit(forecast, y).result_
    fitted = ThresholdRecalibrator("paper", max_rounds=12).fit(forecast, y).transform(forecast)
    searched = errors(fitted, y, official, int(result.least_side))
    assert result.stopping_error == pytest.approx(max(error for error, _ in searched.values()), abs=1e-12)
    everywhere = errors(fitted, y, exact, 1)
    where = max(everywhere, key=lambda split: everywhere[split][0])
    assert result.max_error == pytest.approx(everywhere[where][0], abs=1e-12)
    assert (result.max_error_y0, result.max_error_alpha) == pytest.approx(where)
    assert result.max_error_side == everywhere[where][1]
    if name == "crime_v10_s0":
        assert result.stopping_error < 0.02 < 0.3 < result.max_error
    lines = result.describe()
    assert f"stopping error, over the splits searched: {result.stopping_error:.4f}" in lines[0]
    assert f"of all splits: {result.max_error:.4f}" in lines[1]
    assert "(201 or more rows on both sides)" in lines[2] or name != "crime_v10_s0"


def test_a_fit_that_reaches_epsilon_is_silent_and_one_above_it_says_what_helps() -> None:
    (forecast, y), _, _ = fixture("crime_v10_s0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reached = ThresholdRecalibrator("paper", epsilon=0.02).fit(forecast, y).result_
    assert (reached.stopped_by, reached.is_within_epsilon) == ("epsilon", True)
    with pytest.warns(
        ConvergenceWarning, match=r"ended above epsilon=0\.02: after 5 rounds \(max_rounds\).*Raise max_"
    ):
        stopped = ThresholdRecalibrator("paper", epsilon=0.02, max_rounds=5).fit(forecast, y).result_
    assert (stopped.stopped_by, stopped.is_within_epsilon, stopped.n_rounds) == ("max_rounds", False, 5)
    with pytest.warns(ConvergenceWarning, match=r'\(held-out rows\).*stopping="epsilon" goes on'):
        checked = ThresholdRecalibrator(epsilon=1e-4).fit(forecast, y).result_
    assert checked.stopped_by == "held-out rows"


def test_without_a_split_nothing_is_guaranteed() -> None:
    forecast, y = misspecified(900)
    result = ThresholdRecalibrator("paper", epsilon=0.02, min_leaf=500).fit(forecast, y).result_
    assert result.stopped_by == "no split"
    assert np.isnan(result.stopping_error)
    assert result.guarantee == "Guaranteed: nothing, as no split leaves 501 rows on both sides."
    assert result.n_rounds == 0


@pytest.mark.parametrize("settings", [{"algorithm": "paper"}, {"stopping": "epsilon"}])
def test_few_rows_warn_and_the_harm_is_as_large_as_the_warning_says(settings: dict[str, Any]) -> None:
    """Findings D2: 30 rows of a calibrated forecast went from .009 to .30 in the paper's mode without a word."""
    new, y = truthful(4_000, 9)
    before = reliability_gaps(new, y).mean
    with pytest.warns(DataWarning, match=r"few rows: threshold recalibration to 200 rows, .* fits noise"):
        fitted = ThresholdRecalibrator(**settings).fit(*truthful(200, 1))
    assert reliability_gaps(fitted.transform(new), y).mean > before + 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ThresholdRecalibrator(**settings).fit(*truthful(800, 1))


def test_few_rows_for_any_split_warn_where_held_out_rows_choose() -> None:
    with pytest.warns(DataWarning, match="few rows: of 59 rows, no split leaves 30 on both sides"):
        fitted = ThresholdRecalibrator().fit(*misspecified(59))
    assert fitted.choice_ in ("none", "average")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ThresholdRecalibrator().fit(*misspecified(60))
        ThresholdRecalibrator(min_leaf=20).fit(*misspecified(59))


def test_a_mixture_of_folds_keeps_the_rounds_of_each() -> None:
    fitted = ThresholdRecalibrator(bagged=True, n_folds=3, max_rounds=4).fit(*misspecified(900))
    assert fitted.choice_ == "rounds"
    assert fitted.cv_ is not None
    folds = [made.fold for made in fitted.rounds_]
    assert folds == sorted(folds)
    assert set(folds) == {0, 1, 2}
    for k, chain in enumerate(fitted.cv_.chains):
        own = [made for made in fitted.rounds_ if made.fold == k]
        np.testing.assert_array_equal([made.alpha for made in own], chain.alpha)
        np.testing.assert_array_equal([made.y0 for made in own], chain.thresholds[chain.column])
        assert {made.n_left + made.n_right for made in own} == {600.0}
    loaded = from_document(to_document(fitted))
    assert loaded.rounds_ == fitted.rounds_
    assert loaded.describe()[0] == f"a mixture of {len(fitted.rounds_) // 3} rounds in each of 3 folds"


def test_a_mixture_that_no_folds_are_made_for_is_refused() -> None:
    for settings in ({"algorithm": "paper"}, {"stopping": "epsilon"}):
        with pytest.raises(InvalidInputError, match="no folds are made whose mixture could be kept"):
            ThresholdRecalibrator(bagged=True, **settings).fit(*misspecified(100))


@pytest.mark.parametrize("kept", ["none", "average", "rounds", "bagged", "direct"])
def test_the_greatest_error_is_that_of_the_forecasts_that_are_given_back(kept: str) -> None:
    """For every kind of choice, at a split that is looked up by hand."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=600)
    forecast, y = {
        "none": truthful(1_000, 5),
        "average": (GaussianForecast(mean, 0.5), mean + rng.normal(size=600)),
    }.get(kept, misspecified(1_000))
    fitted = ThresholdRecalibrator(max_rounds=5, bagged=kept == "bagged", direct_layer=kept == "direct", n_folds=3).fit(
        forecast, y
    )
    assert fitted.choice_ == (kept if kept in ("none", "average") else "rounds")
    result = fitted.result_
    after = fitted.transform(forecast)
    left = after.cdf(result.max_error_y0) <= result.max_error_alpha
    assert min(left.sum(), (~left).sum()) == result.max_error_side > 0
    if kept == "direct":  # its atoms count by parts of their levels
        low, high = after.cdf_below(y), after.cdf(y)
        draws = [low + (high - low) * rng.random(y.size) for _ in range(400)]
        means = [
            np.interp(np.linspace(0, 1, 2_001), *_shares(np.concatenate([d[s] for d in draws]))) for s in (left, ~left)
        ]
        found = sum(float(np.abs(share - np.linspace(0, 1, 2_001)).mean()) for share in means)
        assert result.max_error == pytest.approx(found, abs=3e-3)
    else:
        levels = after.cdf(y)
        assert result.max_error == pytest.approx(exact(levels[left]) + exact(levels[~left]), abs=1e-12)


def _shares(levels: Array) -> tuple[Array, Array]:
    rising = np.sort(levels)
    return rising, np.arange(1, rising.size + 1) / rising.size


def test_the_result_of_a_fit_survives_its_document() -> None:
    for settings in ({}, {"algorithm": "paper", "min_leaf": 999}):
        fitted = ThresholdRecalibrator(max_rounds=3, **settings).fit(*misspecified(1_000))
        loaded = from_document(to_document(fitted)).result_
        assert isinstance(loaded, RoundsResult)
        assert str(loaded) == str(fitted.result_)
    document = to_document(fitted)
    del document["result"]
    assert from_document(document).result_ is None
