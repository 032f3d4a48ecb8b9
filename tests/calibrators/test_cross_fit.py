"""Out-of-fold calibration: each row by a fit that has not seen it, whatever the rows depend on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import (
    Split,
    fits_by_fold,
    held_out_mean,
    make_calibrator,
    out_of_fold,
    plain_splits,
    probabilities_by_fit,
    refit_variance,
)
from calibrant.rows import read_rows


def draw(n=200, k=2, seed=0, **what):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return read_rows(p[:, 1].copy() if k == 2 else p, y, classes=range(k), **what)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ["beta", "temperature", "isotonic", "auto"])
def test_each_fold_has_the_probabilities_of_a_fit_to_the_others(k, name):
    rows = draw(k=k)
    folds = rows.folds(4)
    found = out_of_fold(make_calibrator(name), rows, folds)
    for fold in range(4):
        rest, held = rows.split(folds, fold)
        wanted = make_calibrator(name).fit(rest.scores, rest.codes, classes=range(k)).predict_proba(held.scores)
        np.testing.assert_array_equal(found[folds == fold], wanted)


def test_rows_whose_labels_overlap_the_fold_are_not_fitted_to():
    rows = draw(time=np.arange(200), label_end=np.arange(200) + 10)
    folds = rows.folds(4)
    for held, rest, fitted in fits_by_fold(rows, folds, lambda rest: rest.n_rows):
        assert fitted == rest.n_rows < 150
        assert (np.abs(rest.time[:, None] - rows.time[held]) > 10).all()


def test_where_the_others_show_one_class_scores_stay_as_they_are():
    p = np.array([0.2, 0.9, 0.4, 0.7])
    rows, folds = read_rows(p, [0, 1, 0, 0]), np.array([0, 1, 0, 1])
    found = out_of_fold(cb.SigmoidCalibrator(), rows, folds)
    assert found[[1, 3]].tolist() == [0.9, 0.7]  # the others are all negative
    z = read_rows(np.log(p) - np.log1p(-p), [0, 1, 0, 0], input="logit")
    np.testing.assert_allclose(out_of_fold(cb.SigmoidCalibrator(input="logit"), z, folds)[[1, 3]], [0.9, 0.7])
    raw = read_rows(p, [0, 1, 0, 0], input="score")
    np.testing.assert_allclose(out_of_fold(cb.SigmoidCalibrator(input="score"), raw, folds)[[1, 3]], 1 / 4)


def test_warnings_of_the_fits_are_left_to_the_fit_of_all_rows():
    rows = read_rows([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out_of_fold(cb.BetaCalibrator(), rows, np.array([0, 1, 0, 1, 0, 1]))


def test_the_calibrator_itself_stays_unfitted():
    calibrator = cb.BetaCalibrator()
    rows = draw()
    out_of_fold(calibrator, rows, rows.folds(3))
    assert not calibrator.is_fitted


def test_each_fold_is_announced_before_it_is_fitted():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60)
    rows = read_rows(p, rng.uniform(size=60) < p)
    told = []
    out_of_fold(cb.SigmoidCalibrator(), rows, rows.folds(4), on_fold=told.append)
    assert told == [1, 2, 3, 4]


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_by_fit_are_out_of_fold_where_they_are_held_out(k):
    rows = draw(k=k)
    splits = plain_splits(rows, 4)
    found = out_of_fold(cb.OneVsRestCalibrator("sigmoid"), rows, splits)
    for held, q in probabilities_by_fit(cb.OneVsRestCalibrator("sigmoid"), rows, splits):
        assert q.shape == found.shape
        np.testing.assert_allclose(q[held], found[held], rtol=1e-12)


def test_plain_folds_know_nothing_of_the_labels():
    rows = draw(k=3)
    other = read_rows(rows.scores, rows.codes[::-1], classes=range(3))
    for a, b in zip(plain_splits(rows, 5, rng=3), plain_splits(other, 5, rng=3), strict=True):
        np.testing.assert_array_equal(a.held_out, b.held_out)
    rates = [rows.positive[s.held_out].mean() for rows in [draw()] for s in plain_splits(rows, 5)]
    assert max(rates) - min(rates) > 0.05  # stratified ones differ by one row at most


@pytest.mark.parametrize("seed", range(10))
def test_no_plain_fold_holds_all_rows_of_a_class(seed):
    y = np.arange(60) < 2
    rows = read_rows(np.linspace(0.1, 0.9, 60), y)
    assert all(y[split.fitted].any() for split in plain_splits(rows, 3, rng=seed))


def test_plain_folds_keep_clusters_whole_and_near_equal():
    cluster = np.repeat(np.arange(40), 5)
    splits = plain_splits(draw(cluster=cluster), 5)
    assert [int(s.held_out.sum()) for s in splits] == [40] * 5
    for s in splits:
        assert not set(cluster[s.held_out]) & set(cluster[s.fitted])


def test_the_variance_between_fits_is_the_jackknife_of_the_textbook():
    """Of a mean, leaving out one row at a time gives s^2 / n."""
    y = np.random.default_rng(0).normal(size=30)
    out = np.eye(30, dtype=bool)
    by_fit = np.broadcast_to([[y[~each].mean()] for each in out], (30, 4))
    np.testing.assert_allclose(refit_variance(by_fit, [Split(~each, each) for each in out]), y.var(ddof=1) / 30)


def test_the_error_of_a_held_out_mean_is_that_of_what_the_fit_to_all_rows_shows_on_new_ones():
    """A mean of five columns that is of no use: the variance over rows alone is half of what is due."""
    n, k, rng = 100, 5, np.random.default_rng(0)
    rows = draw(n)
    splits = [Split(np.arange(n) % k != fold, np.arange(n) % k == fold) for fold in range(k)]
    errors, due, alone = np.empty((3, 2_000))
    for i in range(2_000):
        z = rng.normal(size=(n, 5))
        fits = [z[split.fitted].mean(axis=0) for split in splits]
        by_fit = np.array([np.square(z - fit).sum(axis=1) - np.square(z).sum(axis=1) for fit in fits])
        held_out = by_fit[np.arange(n) % k, np.arange(n)]
        found, due[i] = held_out_mean(held_out, refit_variance(by_fit, splits), rows)
        alone[i] = held_out_mean(held_out, np.zeros(n), rows)[1]
        errors[i] = found - np.square(z.mean(axis=0)).sum()
    assert np.mean(errors**2) == pytest.approx(np.mean(due**2), rel=0.1)
    assert 0.94 < np.mean(np.abs(errors) < 1.96 * due) < 0.97
    assert np.mean(np.abs(errors) < 1.96 * alone) < 0.87
