"""Reference rows: the paper's algorithm reproduced, and the default at least as good as the better prototype."""

from __future__ import annotations

from typing import Any

import numpy as np
import paper_reference
import pytest
from fixture_rows import NAMES, Array, fixture

from calibrant.forecasts import (
    AverageRecalibrator,
    Forecast,
    ThresholdRecalibrator,
    average_calibration_error,
    crps,
    log_score,
    reliability_gaps,
    threshold_calibration_errors,
)


def figures(forecast: Forecast, y: Array) -> dict[str, float]:
    # Rules and losses ask about Y < y0 there, and about Y <= y0 here: the same just below it.
    y0 = np.nextafter(np.linspace(y.min(), y.max(), 50), -np.inf)
    gaps = reliability_gaps(forecast, y, y0=y0)
    rising = np.sort(y)
    ends = rising[int(0.2 * y.size)], rising[int(0.8 * y.size)]
    errors = threshold_calibration_errors(forecast, y, y0=np.linspace(*ends, 50))
    # The fixture's decision loss is that of the best rules for every fifth threshold, and 25 cost ratios.
    cost = np.linspace(0.05, 0.95, 25)
    rules = reliability_gaps(forecast, y, y0=y0[::5], alpha=cost, cost=cost)
    best = np.arange(cost.size)
    return {
        "dloss": float(rules.true[:, best, best].mean()),
        "ece": average_calibration_error(forecast, y),
        "gap": gaps.mean,
        "gap_max": gaps.max,
        "tce": errors.mean,
        "nll": log_score(forecast, y),
        "crps": crps(forecast, y),
    }


def assert_like(found: dict[str, float], expected: dict[str, Any]) -> None:
    # The fixture's CRPS is a sum over a coarse grid: off by up to 4e-4. Its TCE is the official estimate.
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=3e-3 if name == "tce" else 1e-3), name


@pytest.mark.parametrize("name", NAMES)
def test_average_is_the_official_one(name: str) -> None:
    calibration, (test, y), expected = fixture(name)
    assert_like(figures(test, y), expected["none"])
    assert_like(figures(AverageRecalibrator().fit(*calibration).transform(test), y), expected["average_official"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_paper_has_the_same_splits_and_figures(name: str) -> None:
    calibration, (test, y), expected = fixture(name)
    fitted = ThresholdRecalibrator("paper").fit(*calibration)
    splits = [(r.y0, r.alpha, r.error_before) for r in fitted.rounds_[:6]]
    np.testing.assert_allclose(splits, expected["paper_first_rounds"], atol=1e-6)
    assert len(fitted.rounds_) == 40
    assert_like(figures(fitted.transform(test), y), expected["paper_T40"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_paper_is_the_rendering_in_numpy_to_the_last_round(name: str) -> None:
    (forecast, y), _, _ = fixture(name)
    y0 = paper_reference.thresholds(y)
    rounds, levels = paper_reference.fit(forecast.cdf(y), forecast.cdf(y0[None, :]))
    fitted = ThresholdRecalibrator("paper").fit(forecast, y)
    assert [(r.y0, r.alpha) for r in fitted.rounds_] == [(y0[r.k], r.alpha) for r in rounds]
    np.testing.assert_allclose([r.error_before for r in fitted.rounds_], [r.error for r in rounds], atol=1e-12)
    np.testing.assert_allclose(fitted.transform(forecast).cdf(y), levels, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_default_matches_or_beats_the_prototype(name: str) -> None:
    calibration, (test, y), expected = fixture(name)
    found = figures(ThresholdRecalibrator().fit(*calibration).transform(test), y)
    prototype = expected["proto_B"]
    assert found["gap"] <= prototype["gap"] + 1e-4
    assert found["crps"] <= prototype["crps"] + 4e-4  # what the fixture's grid loses
    assert found["nll"] <= min(expected["none"]["nll"], expected["average_official"]["nll"]) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_direct_layer_matches_the_prototype(name: str) -> None:
    calibration, (test, y), expected = fixture(name)
    found = figures(ThresholdRecalibrator(direct_layer=True).fit(*calibration).transform(test), y)
    prototype = expected["proto_B+perthr_atoms"]
    assert found["gap"] <= prototype["gap"] + 3e-4
    assert found["crps"] <= prototype["crps"] + 4e-4
