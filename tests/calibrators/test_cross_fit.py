"""Out-of-fold calibration: each row by a fit that has not seen it, whatever the rows depend on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import fits_by_fold, make_calibrator, out_of_fold
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
