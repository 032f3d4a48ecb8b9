"""Scaling-binning: each bin's level is the mean scaled probability of its rows, on parts of the rows if asked."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators._parts import deal
from calibrant.errors import InvalidInputError

SCALERS = {
    "sigmoid": cb.SigmoidCalibrator,
    "beta": cb.BetaCalibrator,
    "quadratic": cb.QuadraticCalibrator,
    "spline": cb.SplineCalibrator,
    "isotonic": cb.IsotonicCalibrator,
}


def draw(n=1000, seed=0, power=2.0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, rng.random(n) < p**power


@pytest.mark.parametrize("scaler", SCALERS)
def test_rows_get_the_mean_scaled_probability_of_their_equal_mass_bin(scaler):
    p, y = draw()
    scaled = SCALERS[scaler]().fit(p, y).predict_proba(p)
    q = cb.ScalingBinningCalibrator(n_bins=8, scaler=scaler).fit(p, y).predict_proba(p)
    for level in np.unique(q):
        assert level == pytest.approx(scaled[q == level].mean(), rel=1e-12)
    order = np.argsort(p)
    assert (np.diff(q[order]) >= 0.0).all()
    if scaler not in ("isotonic", "quadratic"):  # strictly rising: no ties that bins must keep together
        np.testing.assert_array_equal(q[order], np.repeat(np.unique(q), 125))


def test_tied_outputs_stay_in_one_bin():
    p, y = draw(300)
    scaled = cb.IsotonicCalibrator().fit(p, y).predict_proba(p)
    q = cb.ScalingBinningCalibrator(n_bins=20, scaler="isotonic").fit(p, y).predict_proba(p)
    for value in np.unique(scaled):
        assert np.unique(q[scaled == value]).size == 1


def test_a_falling_scaler_gives_falling_levels():
    p, y = draw()
    q = cb.ScalingBinningCalibrator(n_bins=5).fit(p, ~y).predict_proba(np.sort(p))
    assert (np.diff(q) <= 0.0).all()
    assert np.unique(q).size == 5


def test_scaler_bins_and_means_come_from_a_third_each():
    p, y = draw(3000)
    p, y = np.sort(p), y[np.argsort(p)]
    fitted = cb.ScalingBinningCalibrator(n_bins=6, holdout=True, seed=4).fit(p, y).map_
    (scaling, laying, averaging), _ = deal(cb.ScoreSummary.from_arrays(p, y).cells, 3, 4)
    np.testing.assert_array_equal(scaling + laying + averaging, 1.0)
    scaled = cb.SigmoidCalibrator().fit(p, y, sample_weight=scaling).predict_proba(p)
    bin_of = np.searchsorted(fitted.edges, p)
    np.testing.assert_allclose(np.bincount(bin_of, laying), 1000 / 6, atol=1.0)
    expected = np.bincount(bin_of, averaging * scaled) / np.bincount(bin_of, averaging)
    np.testing.assert_allclose(fitted.levels, expected, rtol=1e-9)


def test_the_seed_decides_the_thirds():
    p, y = draw()
    levels = [cb.ScalingBinningCalibrator(holdout=True, seed=seed).fit(p, y).map_.levels for seed in (0, 0, 1)]
    np.testing.assert_array_equal(levels[0], levels[1])
    assert (levels[0] != levels[2]).any()


def test_calibration_error_falls_with_more_rows_as_the_paper_says():
    """A scaler of the right family, thirds apart: the levels' error against the true rates is near 1 / sqrt(n)."""
    errors = []
    for n in (300, 30_000):
        squared = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            z = rng.normal(size=n)
            y = rng.random(n) < 1 / (1 + np.exp(-2 * z))
            fitted = cb.ScalingBinningCalibrator(n_bins=10, holdout=True, input="score").fit(z, y)
            new = rng.normal(size=20_000)
            q, truth = fitted.predict_proba(new), 1 / (1 + np.exp(-2 * new))
            squared.append(sum((q == v).mean() * (truth[q == v].mean() - v) ** 2 for v in np.unique(q)))
        errors.append(np.sqrt(np.mean(squared)))
    assert errors[1] < 0.2 * errors[0]
    assert errors[1] < 0.01


def test_few_rows_can_be_held_out():
    q = cb.ScalingBinningCalibrator(holdout=True).fit([0.1, 0.2, 0.8, 0.9], [0, 1, 0, 1]).predict_proba([0.1, 0.9])
    assert ((q > 0.0) & (q < 1.0)).all()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_bins": 0}, "n_bins=0 is too small"),
        ({"seed": -1}, "seed=-1 is too small"),
        ({"scaler": "beta", "input": "logit"}, "scaler='beta' takes probabilities, but input='logit'"),
    ],
)
def test_bad_arguments_are_named(params, text):
    with pytest.raises(InvalidInputError, match=text):
        cb.ScalingBinningCalibrator(**params).fit([0.1, 0.9], [0, 1])


def test_an_unknown_scaler_is_named():
    with pytest.raises(cb.errors.CalibrantError, match="Did you mean 'sigmoid'"):
        cb.ScalingBinningCalibrator(scaler="sigmoids").fit([0.1, 0.9], [0, 1])
