"""The integrated calibration index: equal to loess done slowly, its quantiles, and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from metric_data import draw_binary, draw_classes, draw_weights

import calibrant as cb
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.metrics import calibration_index, integrated_calibration_index
from calibrant.metrics.calibration_index import (
    SPAN,
    _fine_bins,
    _first_of_inverse,
    _radius,
    _smooth,
    calibration_index_estimate,
)
from calibrant.metrics.estimates import Column


def loess(y, p, w, at):
    """Fit a weighted parabola around each place by NumPy's polynomial fit."""
    fitted = []
    for t in at:
        distance = np.abs(p - t)
        order = np.argsort(distance)
        enough = np.searchsorted(np.cumsum(w[order]), SPAN * w.sum() * (1 - 1e-12))
        radius = distance[order[enough]]
        kernel = w * np.clip(1 - (distance / radius) ** 3, 0, None) ** 3
        near = kernel > 0
        fitted.append(np.polyfit(p[near] - t, y[near], 2, w=np.sqrt(kernel[near]))[-1])
    return np.clip(fitted, 0, 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2])
def test_it_equals_loess_done_slowly(weighted, decimals):
    y, p = draw_binary(400, decimals=decimals)
    w = draw_weights(400) if weighted else np.ones(400)
    error = np.abs(p - loess(y, p, w, p))
    index = calibration_index(y, p, sample_weight=w)
    assert index.ici == pytest.approx(np.average(error, weights=w), abs=3e-5)
    for name, q in (("e50", 0.5), ("e90", 0.9), ("emax", 1.0)):
        order = np.argsort(error)
        reached = np.searchsorted(np.cumsum(w[order]), q * w.sum() * (1 - 1e-12))
        assert getattr(index, name) == pytest.approx(error[order[reached]], abs=3e-4), name
    assert index.e50 <= index.e90 <= index.emax


def test_grouping_of_many_rows_changes_next_to_nothing():
    y, p = draw_binary(30_000)
    smooth = _smooth(_fine_bins(cb.ScoreSummary.from_arrays(p, y)))
    places = np.linspace(smooth.vertices[0], smooth.vertices[-1], 20)
    fitted = loess(y, p, np.ones(30_000), places)
    np.testing.assert_allclose(np.interp(places, smooth.vertices, smooth.fitted), fitted, rtol=0, atol=2e-4)


def test_quantile_argument_gives_the_parts_of_the_index():
    y, p = draw_binary(300)
    index = calibration_index(y, p)
    assert integrated_calibration_index(y, p) == index.ici
    quantiles = [integrated_calibration_index(y, p, quantile=q) for q in (0.5, 0.9, 1)]
    assert quantiles == [index.e50, index.e90, index.emax]


def test_outcomes_on_a_parabola_are_followed_exactly():
    p = np.repeat(np.linspace(0, 1, 51), 100)
    rate = np.round(100 * p**2) / 100
    y = np.tile(np.arange(100), 51) < np.round(100 * rate)
    # rounded to whole rows: the smoother averages that away
    assert integrated_calibration_index(y, p) == pytest.approx(np.mean(p - p**2), abs=2e-3)


@pytest.mark.parametrize(
    ("y", "p", "ici"),
    [
        ([1, 0, 1, 1], [0.5] * 4, 0.25),
        ([0, 0, 1, 1], [0.2, 0.2, 0.9, 0.9], 0.15),
        ([0] * 3, [0.1, 0.2, 0.6], 0.3),
        ([1], [0.3], 0.7),
        ([0, 1], [0.0, 1.0], 0.0),
    ],
)
def test_few_distinct_probabilities_have_the_gaps_of_their_rates(y, p, ici):
    assert integrated_calibration_index(y, p, classes=[0, 1]) == pytest.approx(ici)


def test_k_columns_are_judged_by_the_top_label():
    y, P = draw_classes(300)
    right, confidence = P.argmax(axis=1) == y, P.max(axis=1)
    assert integrated_calibration_index(y, P) == integrated_calibration_index(right, confidence)


@pytest.mark.parametrize(
    ("quantile", "kind", "text"),
    [
        (1.5, InvalidInputError, "quantile=1.5 is outside [0, 1]"),
        (-0.1, InvalidInputError, "Pass a number in [0, 1], such as 0.5, or None for the mean."),
        (float("nan"), InvalidInputError, "quantile=nan is outside [0, 1]"),
        ("0.9", InvalidTypeError, "quantile='0.9' is not a number"),
        (True, InvalidTypeError, "quantile=True is not a number"),
    ],
)
def test_wrong_quantile_is_refused(quantile, kind, text):
    with pytest.raises(kind) as caught:
        integrated_calibration_index([0, 1], [0.2, 0.7], quantile=quantile)
    assert text in str(caught.value)


@pytest.mark.slow
def test_interval_covers_the_index_of_perfect_and_of_wrong_probabilities():
    hits = {0.0: 0, 0.125: 0}
    for i in range(100):
        rng = np.random.default_rng(i)
        p = rng.random(400)
        for truth, rate in ((0.0, p), (0.125, 0.25 + 0.5 * p)):
            summary = cb.ScoreSummary.from_arrays(p, rng.random(400) < rate)
            estimate = calibration_index_estimate(Column(summary, 400, 0.95, rng=np.random.default_rng(i)))
            hits[truth] += estimate.low <= truth <= estimate.high
    assert min(hits.values()) >= 90


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["spread", "votes", "certain", "near one", "next to each other"])
def test_a_radius_reaches_the_row_with_which_the_span_is_full(seed, kind):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 250))
    p = {
        "spread": rng.random(n) ** rng.integers(1, 20),
        "votes": rng.integers(0, 11, n) / 10.0,
        "certain": rng.integers(0, 2, n).astype(float),
        "near one": 1.0 - rng.random(n) ** 30,
        "next to each other": 0.5 + rng.integers(0, 3, n) * 2.0**-50,
    }[kind]
    weight = rng.integers(1, 6, n).astype(float) if seed % 2 else None
    bins = _fine_bins(cb.ScoreSummary.from_rows(p, rng.random(n) < p, weight))
    found = _radius(bins, bins.scores)
    w = np.rint(bins.share * (n if weight is None else weight.sum()))
    for vertex, radius in zip(bins.scores, found, strict=True):
        distance = np.abs(bins.scores - vertex)
        order = np.argsort(distance)
        full = np.flatnonzero(4.0 * np.cumsum(w[order]) >= 3.0 * w.sum())[0]
        assert radius == max(distance[order[full]], 2.0**-52)


def test_cofactors_give_the_first_row_of_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    u = rng.uniform(-1.0, 1.0, (200, 40)) * rng.uniform(0.05, 1.0, (200, 1))
    u[::4, 2:] = u[::4, :1]  # two places only: many parabolas fit
    weight = rng.random((200, 40))
    moments = np.stack([(weight * u**k).sum(axis=1) for k in range(5)], axis=1) / weight.sum(axis=1, keepdims=True)
    wanted = np.linalg.pinv(moments[:, np.arange(3)[:, None] + np.arange(3)], rcond=1e-10, hermitian=True)[:, 0]
    np.testing.assert_allclose(_first_of_inverse(moments.T).T, wanted, rtol=1e-7)
