"""Bagging: the mean of maps of resamples, and where it helps."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.maps import BlendMap, InterpolatedMap


def draw(n=300, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, rng.random(n) < p**2


def resamples(p, y, n_estimators, seed):
    """Count the draws of each row by hand: those of the positives first, in the order of the scores."""
    rng = np.random.default_rng(seed)
    order = np.argsort(p)
    for _ in range(n_estimators):
        count = np.zeros(p.size)
        for label in (True, False):
            rows = order[y[order] == label]
            count[rows] = rng.poisson(1.0, rows.size)
        yield count


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("isotonic", lambda: cb.IsotonicCalibrator(bounded=True)),
        ("centered_isotonic", lambda: cb.CenteredIsotonicCalibrator(bounded=True)),
    ],
)
def test_one_map_holds_the_mean_probability_of_all_resamples(name, make):
    p, y = draw()
    fitted = cb.BaggedCalibrator(name, n_estimators=7, seed=3).fit(p, y)
    new = np.linspace(0.0, 1.0, 997)
    each = [make().fit(p, y, sample_weight=count).predict_proba(new) for count in resamples(p, y, 7, 3)]
    assert isinstance(fitted.map_, InterpolatedMap)
    np.testing.assert_allclose(fitted.predict_proba(new), np.mean(each, axis=0), atol=1e-12)


@pytest.mark.parametrize(("name", "make"), [("venn_abers", cb.VennAbersCalibrator), ("spline", cb.SplineCalibrator)])
def test_a_blend_holds_the_mean_logit_of_all_resamples(name, make):
    p, y = draw()
    fitted = cb.BaggedCalibrator(name, n_estimators=4, seed=3).fit(p, y)
    new = np.linspace(0.0, 1.0, 997)
    each = [make().fit(p, y, sample_weight=count).predict_proba(new) for count in resamples(p, y, 4, 3)]
    z = np.mean([np.log(q / (1 - q)) for q in np.clip(each, 1 / 302, 301 / 302)], axis=0)
    assert isinstance(fitted.map_, BlendMap)
    np.testing.assert_allclose(fitted.predict_proba(new), 1 / (1 + np.exp(-z)), atol=1e-12)


def test_the_same_seed_gives_the_same_map_and_another_one_another():
    p, y = draw()
    first, again, other = (cb.BaggedCalibrator(seed=seed).fit(p, y).predict_proba(p) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("name", "plain"), [("isotonic", cb.IsotonicCalibrator(bounded=True)), ("venn_abers", cb.VennAbersCalibrator())]
)
def test_averaging_comes_closer_to_the_truth(name, plain):
    new = np.linspace(0.01, 0.99, 500)
    gain = []
    for seed in range(10):
        p, y = draw(300, seed)
        bagged = cb.BaggedCalibrator(name).fit(p, y).predict_proba(new)
        gain.append(np.mean((plain.fit(p, y).predict_proba(new) - new**2) ** 2 - (bagged - new**2) ** 2))
    assert np.mean(gain) > 2e-4
    assert np.mean(np.array(gain) > 0.0) >= 0.8


def test_outputs_are_never_zero_or_one():
    p = np.linspace(0.0, 1.0, 40)
    q = cb.BaggedCalibrator().fit(p, p > 0.5).predict_proba(p)
    assert 0.0 < q.min() < 0.05
    assert 0.95 < q.max() < 1.0


@pytest.mark.parametrize("weight", [1e-9, 1e20])
def test_weights_too_small_or_too_large_to_draw_leave_the_rows_as_they_are(weight):
    p, y = draw(60)
    w = np.full(60, weight)
    plain = cb.IsotonicCalibrator(bounded=True).fit(p, y, sample_weight=w).predict_proba(p)
    bagged = cb.BaggedCalibrator(n_estimators=3).fit(p, y, sample_weight=w).predict_proba(p)
    np.testing.assert_allclose(bagged, plain, atol=1e-9)


@pytest.mark.parametrize("name", ["isotonic", "venn_abers"])
def test_constant_scores_are_calibrated_as_they_are(name):
    y = [1] * 30 + [0] * 70
    bagged = cb.BaggedCalibrator(name).fit([0.4] * 100, y)
    plain = {"isotonic": cb.IsotonicCalibrator(bounded=True), "venn_abers": cb.VennAbersCalibrator()}[name]
    assert bagged.predict_proba([0.4])[0] == plain.fit([0.4] * 100, y).predict_proba([0.4])[0]


def test_bad_arguments_are_named():
    with pytest.raises(InvalidInputError, match="n_estimators=0 is too small"):
        cb.BaggedCalibrator(n_estimators=0).fit([0.1, 0.9], [0, 1])
    with pytest.raises(InvalidInputError, match="seed=-1 is too small"):
        cb.BaggedCalibrator(seed=-1).fit([0.1, 0.9], [0, 1])
    with pytest.raises(CalibrantError, match="Did you mean 'isotonic'"):
        cb.BaggedCalibrator("isotonik").fit([0.1, 0.9], [0, 1])
