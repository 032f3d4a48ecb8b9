"""Laws that hold for every metric, whatever the rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from metric_data import draw_binary, draw_classes, draw_weights

import calibrant as cb
from calibrant import metrics

BINARY = {
    "brier_score": metrics.brier_score,
    "log_loss": partial(metrics.log_loss, clip=1e-6),
    "ece": metrics.ece,
    "ece_quantile": partial(metrics.ece, strategy="quantile", norm="l2"),
    "top_label_ece": metrics.top_label_ece,
    "classwise_ece": metrics.classwise_ece,
    "max_calibration_error": metrics.max_calibration_error,
    "calibration_in_the_large": metrics.calibration_in_the_large,
    "roc_auc": metrics.roc_auc,
    "miscalibration": lambda *args, **options: metrics.decompose(*args, **options).miscalibration,
    "discrimination": lambda *args, **options: metrics.decompose(*args, **options).discrimination,
}
ALL = {
    **BINARY,
    "ece_debiased": metrics.ece_debiased,
    "marginal_calibration_error": metrics.marginal_calibration_error,
}
ROWS = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), st.booleans(), st.integers(0, 3)),
    min_size=1,
    max_size=40,
).filter(lambda rows: any(w for *_, w in rows))


def columns(rows):
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    return y, p, w


@pytest.mark.parametrize("name", BINARY)
def test_weight_two_equals_two_rows(name):
    for y, p in (draw_binary(200, decimals=2), draw_classes(200)):
        w = np.random.default_rng(2).integers(0, 4, 200)
        weighted = BINARY[name](y, p, sample_weight=w)
        assert weighted == pytest.approx(BINARY[name](y.repeat(w), p.repeat(w, axis=0)), abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_weight_zero_equals_no_row(name):
    for y, p in (draw_binary(200, decimals=2), draw_classes(200)):
        w = draw_weights(200)
        w[::3] = 0.0
        kept = w > 0
        assert ALL[name](y, p, sample_weight=w) == ALL[name](y[kept], p[kept], sample_weight=w[kept])
        assert ALL[name](y, p, sample_weight=kept.astype(float)) == ALL[name](y[kept], p[kept])


@pytest.mark.parametrize("name", ALL)
def test_scale_of_the_weights_changes_nothing(name):
    y, p = draw_binary(200)
    w = draw_weights(200)
    expected = ALL[name](y, p, sample_weight=w)
    for scale in (1e-9, 1 / w.sum(), 1e9):
        assert ALL[name](y, p, sample_weight=scale * w) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_row_order_changes_nothing(name, weighted):
    order = np.random.default_rng(3).permutation(200)
    w = draw_weights(200) if weighted else np.ones(200)
    for y, p in (draw_binary(200, decimals=2), draw_classes(200)):
        expected = ALL[name](y, p, sample_weight=w)
        assert ALL[name](y[order], p[order], sample_weight=w[order]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_names_of_the_labels_change_nothing(name):
    y, p = draw_binary(100)
    expected = ALL[name](y, p)
    assert ALL[name](np.array(["no", "yes"])[y], p) == expected
    assert ALL[name](2 * y - 1, p) == expected
    assert ALL[name](np.array(["b", "a"])[y], p, pos_label="a") == expected
    y, p = draw_classes(100)
    assert ALL[name](np.array(["a", "b", "c"])[y], p, classes=["a", "b", "c"]) == ALL[name](y, p)


@given(rows=ROWS)
def test_scores_lie_in_their_range(rows):
    y, p, w = columns(rows)
    for norm in ("l1", "l2", "max"):
        assert 0.0 <= metrics.ece(y, p, sample_weight=w, norm=norm, strategy="quantile", n_bins=4) <= 1.0
    assert 0.0 <= metrics.ece(y, p, sample_weight=w) <= 1.0
    assert 0.0 <= metrics.ece_debiased(y, p, sample_weight=w) <= 1.0
    assert 0.0 <= metrics.brier_score(y, p, sample_weight=w) <= 1.0
    assert metrics.log_loss(y, p, sample_weight=w) >= 0.0


@given(rows=ROWS)
def test_norms_of_the_error_are_ordered(rows):
    y, p, w = columns(rows)
    l1, l2, largest = (metrics.ece(y, p, sample_weight=w, norm=norm) for norm in ("l1", "l2", "max"))
    assert l1 <= l2 + 1e-12
    assert l2 <= largest + 1e-12
    assert abs(metrics.calibration_in_the_large(y, p, sample_weight=w)) <= l1 + 1e-12


@given(rows=ROWS, score=st.sampled_from(["brier", "log"]))
def test_parts_of_the_score_add_up_to_it(rows, score):
    y, p, w = columns(rows)
    parts = metrics.decompose(y, p, sample_weight=w, score=score)
    whole = metrics.brier_score(y, p, sample_weight=w) if score == "brier" else metrics.log_loss(y, p, sample_weight=w)
    assert parts.score == pytest.approx(whole, abs=1e-12)
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(parts.score, abs=1e-12)
    assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0.0


@given(rows=ROWS)
def test_isotonic_recalibration_leaves_no_miscalibration(rows):
    y, p, w = columns(rows)
    if len(set(y[w > 0])) < 2:
        return
    q = cb.IsotonicCalibrator().fit(p, y, sample_weight=w).predict_proba(p)
    before, after = (metrics.decompose(y, s, sample_weight=w) for s in (p, q))
    assert after.miscalibration == pytest.approx(0.0, abs=1e-12)
    assert after.discrimination == pytest.approx(before.discrimination, abs=1e-12)


@given(rows=ROWS)
def test_curve_holds_all_rows_and_gives_the_error(rows):
    y, p, w = columns(rows)
    for strategy in ("uniform", "quantile"):
        curve = metrics.reliability_curve(y, p, sample_weight=w, n_bins=7, strategy=strategy)
        assert curve.n.sum() == w.sum()
        assert (curve.n > 0).all()
        assert (np.diff(curve.x) > 0).all()
        expected = metrics.ece(y, p, sample_weight=w, n_bins=7, strategy=strategy)
        assert np.average(abs(curve.x - curve.y), weights=curve.n) == pytest.approx(expected, abs=1e-12)
        for ends in ((curve.edges[:, 0], curve.x, curve.edges[:, 1]), (curve.low, curve.y, curve.high)):
            assert (ends[0] <= ends[1] + 1e-12).all()
            assert (ends[1] <= ends[2] + 1e-12).all()


@given(rows=ROWS)
def test_isotonic_curve_rises(rows):
    y, p, w = columns(rows)
    curve = metrics.reliability_curve(y, p, sample_weight=w, strategy="isotonic")
    assert (np.diff(curve.y) > 0).all()
    assert curve.n.sum() == pytest.approx(w.sum())


def test_constant_score_of_the_base_rate_is_calibrated_and_does_not_discriminate():
    parts = metrics.decompose([0, 1, 1, 1], [0.75] * 4)
    assert (parts.miscalibration, parts.discrimination) == (0.0, 0.0)
    assert metrics.ece([0, 1, 1, 1], [0.75] * 4) == 0.0
    assert metrics.roc_auc([0, 1, 1, 1], [0.75] * 4) == 0.5


def test_rising_map_leaves_auc_and_discrimination():
    y, p = draw_binary(300)
    assert metrics.roc_auc(y, p**3) == metrics.roc_auc(y, p)
    assert metrics.decompose(y, p**3).discrimination == pytest.approx(metrics.decompose(y, p).discrimination)


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], [False] * 3, [-1, -1, -1]])
def test_rows_of_one_class_are_scored(y):
    p = [0.1, 0.2, 0.6]
    for name, metric in ALL.items():
        if name != "roc_auc":
            assert np.isfinite(metric(y, p)), name
