"""Laws of the metrics that smooth, regress or accumulate, whatever the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from metric_data import draw_binary, draw_classes, draw_weights

from calibrant import metrics
from calibrant.errors import CalibrantError, InvalidProbabilityError, ShapeError

METRICS = {
    "smooth_ece": metrics.smooth_ece,
    "integrated_calibration_index": metrics.integrated_calibration_index,
    "e90": lambda *args, **options: metrics.integrated_calibration_index(*args, quantile=0.9, **options),
    "slope": lambda *args, **options: metrics.calibration_slope_intercept(*args, **options).slope,
    "intercept": lambda *args, **options: metrics.calibration_slope_intercept(*args, **options).intercept,
    "calibration_intercept": metrics.calibration_intercept,
    "kolmogorov_smirnov": lambda *args, **options: metrics.kolmogorov_smirnov(*args, **options).statistic,
    "kuiper": lambda *args, **options: metrics.kuiper(*args, **options).statistic,
}
#: All public functions of this family, for arguments that can't be used.
FUNCTIONS = [
    metrics.smooth_ece,
    metrics.integrated_calibration_index,
    metrics.calibration_index,
    metrics.calibration_slope_intercept,
    metrics.calibration_intercept,
    metrics.spiegelhalter_z,
    metrics.hosmer_lemeshow,
    metrics.kolmogorov_smirnov,
    metrics.kuiper,
    metrics.calibration_e_value,
]
ROWS = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=40,
)
PAIR = (draw_binary(200, decimals=2), draw_classes(200))


@pytest.mark.parametrize("name", METRICS)
def test_weight_two_equals_two_rows(name):
    for y, p in PAIR:
        w = np.random.default_rng(2).integers(0, 4, 200)
        weighted = METRICS[name](y, p, sample_weight=w)
        assert weighted == pytest.approx(METRICS[name](y.repeat(w), p.repeat(w, axis=0)), abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_weight_zero_equals_no_row(name):
    for y, p in PAIR:
        w = draw_weights(200)
        w[::3] = 0.0
        kept = w > 0
        assert METRICS[name](y, p, sample_weight=w) == METRICS[name](y[kept], p[kept], sample_weight=w[kept])
        assert METRICS[name](y, p, sample_weight=kept.astype(float)) == METRICS[name](y[kept], p[kept])


@pytest.mark.parametrize("name", METRICS)
def test_order_of_rows_and_scale_of_weights_change_nothing(name):
    order = np.random.default_rng(3).permutation(200)
    # the clip of probabilities of 0 and 1 follows the total weight
    scales = (1.0,) if name in ("slope", "intercept", "calibration_intercept") else (1e-9, 1e9)
    for y, p in PAIR:
        w = draw_weights(200)
        expected = METRICS[name](y, p, sample_weight=w)
        for scale in scales:
            assert METRICS[name](y[order], p[order], sample_weight=scale * w[order]) == pytest.approx(
                expected, abs=1e-9
            )


@pytest.mark.parametrize("name", METRICS)
def test_names_of_the_labels_change_nothing(name):
    y, p = PAIR[0]
    expected = METRICS[name](y, p)
    assert METRICS[name](np.array(["no", "yes"])[y], p) == expected
    assert METRICS[name](np.array(["b", "a"])[y], p, pos_label="a") == expected


@pytest.mark.parametrize("name", ["smooth_ece", "integrated_calibration_index", "e90", "kolmogorov_smirnov", "kuiper"])
@given(rows=ROWS)
def test_errors_lie_between_zero_and_one(name, rows):
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    assert 0.0 <= METRICS[name](y, p, sample_weight=w) <= 1.0


@given(rows=ROWS)
def test_p_values_lie_between_zero_and_one(rows):
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    for test in (metrics.spiegelhalter_z, metrics.hosmer_lemeshow, metrics.kolmogorov_smirnov, metrics.kuiper):
        assert 0.0 <= test(y, p, sample_weight=w).p_value <= 1.0
    bet = metrics.calibration_e_value(y, p, sample_weight=w)
    assert bet.e_value >= 0.0
    assert 0.0 <= bet.p_value <= 1.0


@given(rows=ROWS)
def test_cumulative_statistics_are_ordered(rows):
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    largest, spread = metrics.kolmogorov_smirnov(y, p, sample_weight=w), metrics.kuiper(y, p, sample_weight=w)
    gap = abs(metrics.calibration_in_the_large(y, p, sample_weight=w))
    assert gap <= largest.statistic + 1e-12
    assert largest.statistic <= spread.statistic + 1e-12
    assert spread.statistic <= 2 * largest.statistic + 1e-12
    assert spread.statistic <= np.average(np.abs(y - p), weights=w) + 1e-12


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_can_t_be_used_is_refused_at_the_gate(function):
    with pytest.raises(InvalidProbabilityError, match=r"y_prob row 1: 1.5 is outside \[0, 1\]"):
        function([0, 1], [0.2, 1.5])
    with pytest.raises(ShapeError, match="y_true has 3 rows and y_prob has 2"):
        function([0, 1, 1], [0.2, 0.5])
    with pytest.raises(CalibrantError, match=r"NaN|nan|missing"):
        function([0, 1], [0.2, float("nan")])
    with pytest.raises(CalibrantError, match="sample_weight"):
        function([0, 1], [0.2, 0.5], sample_weight=[1.0, -1.0])
