"""Mimic calibration against the figures that the original project publishes.

https://github.com/scikit-learn-contrib/mimic: the outputs that its test suite keeps in `mimic/tests/data_set.csv`, and
the comparison with isotonic calibration in its README, on splits of the same generated data.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import calibrant as cb

#: Row, score and calibrated score of `data_set.csv`, which has a row for each row of the calibration third.
PUBLISHED = (
    (0, 0.7251972934223173, 0.9968865063778944),
    (1, 0.5620401636212927, 0.6793570986061384),
    (2, 0.3779046318289263, 0.07039398632931597),
    (3, 0.6149031614468732, 0.8100861924288778),
    (4, 0.7086606458985453, 0.992677474959846),
    (5, 0.6220232881421031, 0.8294323100330148),
    (6, 0.5139928969351397, 0.44411943566705453),
    (7, 0.6617391212597532, 0.9373443193453062),
    (8, 0.3179547086426049, 0.02674493016228863),
    (9, 0.4888897433766341, 0.2593756473124928),
    (10, 0.3945698753569144, 0.08252781590119963),
    (11, 0.6816413352071689, 0.9714156190694545),
    (12, 0.5442378126754551, 0.625),
    (13, 0.2341279157617694, 0.02100840336134454),
    (16, 0.4644367233738772, 0.17810304966527835),
    (30, 0.7753334711055164, 1.0),
    (37, 0.7280851765998355, 0.9976215520398616),
    (172, 0.5322941507539822, 0.58760745872158),
    (288, 0.6940317737288849, 0.9865611156017492),
    (323, 0.7052700557270017, 0.9918144765475477),
    (988, 0.7368006214909671, 0.9998398723684716),
    (991, 0.5180138299236915, 0.4756449109745441),
    (994, 0.588875613784222, 0.7371403466547887),
    (996, 0.7643800728375911, 1.0),
    (999, 0.6563152924772884, 0.922607217888872),
)


def thirds(n, model, *, nonnegative=False, weights=None):
    """Train on the first third; return the scores and labels of the other two."""
    X, y = make_classification(n_samples=3 * n, n_features=6, random_state=42, weights=weights)
    if nonnegative:
        X -= X.min()
    scores = model.fit(X[:n], y[:n]).predict_proba(X[n:])[:, 1]
    return scores[:n], y[n : 2 * n], scores[n:], y[2 * n :]


def test_outputs_are_the_published_ones():
    scores, y, _, _ = thirds(1000, MultinomialNB(), nonnegative=True)
    row, score, expected = map(np.array, zip(*PUBLISHED, strict=True))
    np.testing.assert_allclose(scores[row], score, atol=1e-12)
    fitted = cb.MimicCalibrator(5, record_history=True, boundary="unweighted").fit(scores, y)
    np.testing.assert_allclose(fitted.predict_proba(scores[row]), expected, atol=1e-12)
    # Its own test reads table 19 of a history that holds the last table twice: 18 passes merge bins.
    assert len(fitted.history_) == 19


def test_our_default_records_the_pooled_mean_and_has_the_same_bins():
    scores, y, _, _ = thirds(1000, MultinomialNB(), nonnegative=True)
    ours = cb.MimicCalibrator().fit(scores, y).calibrated_model_
    theirs = cb.MimicCalibrator(boundary="unweighted").fit(scores, y).calibrated_model_
    for column in ("n_below", "score_min", "score_max", "score_mean", "positives", "n", "rate"):
        np.testing.assert_array_equal(ours[column], theirs[column])
    inside = [scores[(scores >= b.score_min) & (scores <= b.score_max)] for b in ours]
    np.testing.assert_allclose(ours.boundary, [part.mean() for part in inside], atol=1e-14)
    assert np.abs(ours.boundary - theirs.boundary).max() > 1e-3


@pytest.mark.parametrize(
    ("weights", "boundary", "mimic", "isotonic"),
    [(None, "unweighted", 0.1026, 0.1027), ([0.8], "unweighted", 0.0833, 0.0832), (None, "mean", 0.1026, 0.1027)],
    ids=["balanced", "one in five", "balanced, our default"],
)
def test_brier_scores_of_the_readme_and_a_smoother_curve_than_isotonic(weights, boundary, mimic, isotonic):
    scores, y, new, y_new = thirds(10_000, GaussianNB(), weights=weights)
    smooth = cb.MimicCalibrator(5, boundary=boundary).fit(scores, y).predict_proba(new)
    stepped = IsotonicRegression(out_of_bounds="clip").fit(scores, y).predict(new)
    assert brier_score_loss(y_new, smooth) == pytest.approx(mimic, abs=6e-5)
    assert brier_score_loss(y_new, stepped) == pytest.approx(isotonic, abs=6e-5)
    assert np.unique(smooth).size > 5_000
    assert np.unique(stepped).size < 200
    # Over a fine grid, the largest step of the isotonic curve is many times that of the mimic curve.
    grid = np.linspace(0.02, 0.98, 9_601)
    steps = [
        np.abs(np.diff(f(grid))).max()
        for f in (
            cb.MimicCalibrator(5, boundary=boundary).fit(scores, y).predict_proba,
            IsotonicRegression(out_of_bounds="clip").fit(scores, y).predict,
        )
    ]
    assert steps[0] < 0.5 * steps[1]
